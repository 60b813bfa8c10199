//! Schedules the warp roles of a CTA in turns. A blocked role is skipped. If all roles are blocked, the CTA waits for another CTA.

use super::{Env, Machine, Program, Status};
use base::diag::Result;

/// Upper bound on the ops of one time slice under a seeded schedule.
const MAX_SLICE: u64 = 16;

struct ScheduledRole<'p, P: Program> {
    warp_role: usize,
    machine: Machine<'p, P>,
    /// Why the role is blocked; reset when another role makes progress.
    waits: Option<String>,
}

/// The outcome of a scheduling pass.
pub(super) enum SchedulerStatus {
    Done,
    /// A role yields to other tile blocks.
    Waiting,
    /// All roles are blocked, for these reasons.
    Blocked(String),
}

pub(super) struct RoleScheduler<'p, P: Program> {
    role_states: Vec<ScheduledRole<'p, P>>,
    next: usize,
    /// Random state of a seeded schedule. `None`: each role runs as far as it can, in the order of the roles in the kernel.
    random: Option<u64>,
}

impl<'p, P: Program> RoleScheduler<'p, P> {
    pub(super) fn new(role_states: impl IntoIterator<Item = (usize, Machine<'p, P>)>, seed: u64) -> Self {
        let role_states = role_states.into_iter().map(|(warp_role, machine)| ScheduledRole { warp_role, machine, waits: None });
        let random = (seed > 0).then(|| seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        RoleScheduler { role_states: role_states.collect(), next: 0, random }
    }

    /// Returns a pseudo-random number below a bound (xorshift64*, reproducible for a seed).
    fn below(random: &mut u64, bound: u64) -> u64 {
        *random ^= *random >> 12;
        *random ^= *random << 25;
        *random ^= *random >> 27;
        (random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound.max(1)
    }

    /// Runs until all roles are done or blocked.
    pub(super) fn run(&mut self, env: &mut Env<'_>) -> Result<SchedulerStatus> {
        while !self.role_states.is_empty() {
            if self.role_states.iter().all(|role_state| role_state.waits.is_some()) {
                let waits: Vec<String> = self.role_states.iter_mut().filter_map(|role_state| role_state.waits.take()).collect();
                return Ok(SchedulerStatus::Blocked(waits.join("; ")));
            }
            let max_ops = match &mut self.random {
                None => u64::MAX,
                Some(random) => {
                    self.next = Self::below(random, self.role_states.len() as u64) as usize;
                    1 + Self::below(random, MAX_SLICE)
                }
            };
            self.next %= self.role_states.len();
            let role_state = &mut self.role_states[self.next];
            env.state.warp_role = role_state.warp_role;
            let before = env.state.ops_left;
            let status = role_state.machine.run_for(max_ops, env)?;
            let made_progress = before - env.state.ops_left > u64::from(matches!(status, Status::Blocked(_)));
            if made_progress {
                self.role_states.iter_mut().for_each(|role_state| role_state.waits = None);
            }
            match status {
                Status::Done(_) => {
                    self.role_states.remove(self.next);
                }
                Status::Blocked(waits) => {
                    self.role_states[self.next].waits = Some(waits);
                    self.next += 1;
                }
                Status::SliceEnd => {}
                Status::Waiting => {
                    self.next += 1;
                    return Ok(SchedulerStatus::Waiting);
                }
            }
        }
        Ok(SchedulerStatus::Done)
    }
}
