//! The paths of an abstract execution: both branches of unknown conditions, and their merged state.

use super::{AbstractExecution, Content, PathState, RoleExecution, ShadowAccess, VectorClock};
use crate::hazard_checker::buffer_stage::BufferStage;
use base::ir::Op as OpId;

impl<'a> AbstractExecution<'a> {
    /// If there is only one role, drops the accesses that are complete for all its warps, so that the list stays short. No later
    /// access can conflict with them. A program that needs fences keeps all accesses, because their fences are still to be checked.
    pub(super) fn forget_completed(&mut self, role_index: usize) {
        if self.executions.len() == 1 && !self.needs_fences {
            let clock = &self.executions[role_index].clock;
            self.shadow_accesses
                .retain(|earlier| earlier.completed_at.is_none_or(|completed| completed > clock[earlier.clock_entry]));
        }
    }

    /// Copies the state that a branch of a fork may change.
    pub(super) fn path_state(&self, role_index: usize) -> PathState {
        let RoleExecution { clock, first_thread_clock, .. } = &self.executions[role_index];
        PathState {
            shadow_accesses: self.shadow_accesses.clone(),
            contents: self.contents.clone(),
            copy_counts: self.copy_counts.clone(),
            last_read_copies: self.last_read_copies.clone(),
            global_accesses: self.global_accesses.clone(),
            clock: clock.clone(),
            first_thread_clock: first_thread_clock.clone(),
        }
    }

    /// Replaces the state by the state of another path.
    pub(super) fn restore_state(&mut self, role_index: usize, path_state: PathState) {
        let PathState { shadow_accesses, contents, copy_counts, last_read_copies, global_accesses, clock, first_thread_clock } =
            path_state;
        (self.shadow_accesses, self.contents, self.copy_counts, self.last_read_copies) =
            (shadow_accesses, contents, copy_counts, last_read_copies);
        self.global_accesses = global_accesses;
        (self.executions[role_index].clock, self.executions[role_index].first_thread_clock) = (clock, first_thread_clock);
    }

    /// Merges the two branches of a fork of a warp role. Both branches started in the state `before`. The first branch ended in the
    /// state `one`, and the second in the current state.
    pub(super) fn merge_paths(&mut self, role_index: usize, mut one: PathState, before: &PathState) {
        let mut other = self.path_state(role_index);
        for path in [&mut one, &mut other] {
            let PathState { shadow_accesses, global_accesses, clock, .. } = path;
            let own = global_accesses.iter_mut().filter(|((role, _), _)| *role == role_index);
            own.for_each(|(_, executions)| executions.forget_completed(clock[role_index]));
            for earlier in shadow_accesses {
                let is_known = |count: Option<u64>| count.is_some_and(|count| count <= clock[earlier.clock_entry]);
                earlier.completed_for |= u64::from(is_known(earlier.completed_at)) << role_index;
                earlier.fenced_for |= u64::from(is_known(earlier.fenced_at)) << role_index;
            }
        }
        let minimum = |one: &VectorClock, other: &VectorClock| one.iter().zip(other).map(|(one, other)| *one.min(other)).collect();
        (other.clock, other.first_thread_clock) =
            (minimum(&one.clock, &other.clock), minimum(&one.first_thread_clock, &other.first_thread_clock));
        let only_in_one: Vec<ShadowAccess> =
            one.shadow_accesses.into_iter().filter(|earlier| !other.shadow_accesses.contains(earlier)).collect();
        other.shadow_accesses.extend(only_in_one);
        let holds = |contents: &[Content], stage: &BufferStage| contents.iter().any(|content| content.stage == *stage);
        // Drops the contents that either branch has overwritten.
        other.contents.retain(|content| holds(&one.contents, &content.stage) || !holds(&before.contents, &content.stage));
        for content in one.contents {
            match other.contents.iter_mut().find(|own| own.stage == content.stage) {
                Some(own) => own.copy_number = own.copy_number.max(content.copy_number),
                None if holds(&before.contents, &content.stage) => {}
                None => other.contents.push(content),
            }
        }
        for (op, their) in one.global_accesses {
            let own = other.global_accesses.remove(&op).unwrap_or_default();
            other.global_accesses.insert(op, own.merged(their));
        }
        for (own, their) in [(&mut other.copy_counts, one.copy_counts), (&mut other.last_read_copies, one.last_read_copies)] {
            for (buffer, count) in their {
                let own = own.entry(buffer).or_default();
                *own = count.max(*own);
            }
        }
        self.restore_state(role_index, other);
    }

    /// Begins another iteration of a loop: the recorded accesses to global memory in the loop now belong to an earlier iteration.
    pub(super) fn next_iteration(&mut self, role_index: usize, loop_op: OpId) {
        for op in self.program.global_order.accesses_in_loop.get(&loop_op).into_iter().flatten() {
            if let Some(executions) = self.global_accesses.get_mut(&(role_index, *op)) {
                executions.forget_completed(self.executions[role_index].clock[role_index]);
                executions.next_iteration(loop_op);
            }
        }
    }
}
