//! Schedules the warp roles of a CTA in turns. The scheduler skips a blocked role. If all roles are blocked, the CTA waits for
//! another CTA of its cluster.

use super::{Env, InterpreterStatus, Program, RegionInterpreter};
use base::diag::Result;

/// Maximum number of ops in one time slice of a seeded schedule.
const MAX_SLICE_OPS: u64 = 16;

/// A warp role that has not ended, with its interpreter.
struct ScheduledRole<'p, P: Program> {
    warp_role: usize,
    interpreter: RegionInterpreter<'p, P>,
    /// The reason for which the role waits, if it is blocked. `None` again as soon as any role makes progress.
    wait_reason: Option<String>,
}

/// The outcome of a scheduling pass.
pub(super) enum SchedulerStatus {
    Done,
    /// A role yielded to other tile blocks.
    Waiting,
    /// All roles are blocked, for these reasons.
    Blocked(String),
}

/// The scheduler of the active warp roles of a CTA.
pub(super) struct RoleScheduler<'p, P: Program> {
    role_states: Vec<ScheduledRole<'p, P>>,
    /// The index in `role_states` of the role that runs next.
    next_role: usize,
    /// State of the random generator of a seeded schedule. `None`: each role runs as far as it can, in the order of the roles in
    /// the kernel.
    random_state: Option<u64>,
}

impl<'p, P: Program> RoleScheduler<'p, P> {
    pub(super) fn new(role_states: impl IntoIterator<Item = (usize, RegionInterpreter<'p, P>)>, seed: u64) -> Self {
        let role_states =
            role_states.into_iter().map(|(warp_role, interpreter)| ScheduledRole { warp_role, interpreter, wait_reason: None });
        let random_state = (seed > 0).then(|| seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        RoleScheduler { role_states: role_states.collect(), next_role: 0, random_state }
    }

    /// Returns a pseudo-random number less than `bound` (generator xorshift64*).
    fn random_below(random_state: &mut u64, bound: u64) -> u64 {
        *random_state ^= *random_state >> 12;
        *random_state ^= *random_state << 25;
        *random_state ^= *random_state >> 27;
        (random_state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound.max(1)
    }

    /// Runs until all roles are done or blocked.
    pub(super) fn run(&mut self, env: &mut Env<'_>) -> Result<SchedulerStatus> {
        while !self.role_states.is_empty() {
            if self.role_states.iter().all(|role_state| role_state.wait_reason.is_some()) {
                let wait_reasons: Vec<String> =
                    self.role_states.iter_mut().filter_map(|role_state| role_state.wait_reason.take()).collect();
                return Ok(SchedulerStatus::Blocked(wait_reasons.join("; ")));
            }
            let max_ops = match &mut self.random_state {
                None => u64::MAX,
                Some(random_state) => {
                    self.next_role = Self::random_below(random_state, self.role_states.len() as u64) as usize;
                    1 + Self::random_below(random_state, MAX_SLICE_OPS)
                }
            };
            self.next_role %= self.role_states.len();
            let role_state = &mut self.role_states[self.next_role];
            env.state.warp_role = role_state.warp_role;
            let ops_left_before = env.state.ops_left;
            let status = role_state.interpreter.run_for(max_ops, env)?;
            // The attempt to execute a blocked op counts as an op.
            let made_progress = ops_left_before - env.state.ops_left > u64::from(matches!(status, InterpreterStatus::Blocked(_)));
            if made_progress {
                self.role_states.iter_mut().for_each(|role_state| role_state.wait_reason = None);
            }
            match status {
                InterpreterStatus::Done(_) => {
                    self.role_states.remove(self.next_role);
                }
                InterpreterStatus::Blocked(wait_reason) => {
                    self.role_states[self.next_role].wait_reason = Some(wait_reason);
                    self.next_role += 1;
                }
                InterpreterStatus::SliceEnd => {}
                InterpreterStatus::Waiting => {
                    self.next_role += 1;
                    return Ok(SchedulerStatus::Waiting);
                }
            }
        }
        Ok(SchedulerStatus::Done)
    }
}
