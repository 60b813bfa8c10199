//! The agents of a block: programs of their own, which run in turns. Where one waits for another it is passed over; when all wait,
//! none goes on before another block has done something.

use super::{Env, Machine, Program, Status};
use base::diag::Result;

/// Ops that an agent executes before it is another one's turn, at most, where a seed says who is next.
const LONGEST_TURN: u64 = 16;

struct Member<'p, P: Program> {
    agent: usize,
    machine: Machine<'p, P>,
    /// What it waits for, as long as nobody else has done anything.
    waits: Option<String>,
}

/// How far the agents got.
pub(super) enum Crewed {
    Done,
    /// One lets other blocks run.
    Waiting,
    /// All wait, for this.
    Blocked(String),
}

pub(super) struct Crew<'p, P: Program> {
    members: Vec<Member<'p, P>>,
    next: usize,
    /// None: each goes as far as it can, in the order of their table.
    random: Option<u64>,
}

impl<'p, P: Program> Crew<'p, P> {
    pub(super) fn new(members: impl IntoIterator<Item = (usize, Machine<'p, P>)>, seed: u64) -> Self {
        let members = members.into_iter().map(|(agent, machine)| Member { agent, machine, waits: None });
        let random = (seed > 0).then(|| seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        Crew { members: members.collect(), next: 0, random }
    }

    /// A number below a bound; the same seed gives the same ones (xorshift64*).
    fn below(random: &mut u64, bound: u64) -> u64 {
        *random ^= *random >> 12;
        *random ^= *random << 25;
        *random ^= *random >> 27;
        (random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound.max(1)
    }

    /// Runs as far as the agents can.
    pub(super) fn run(&mut self, env: &mut Env<'_>) -> Result<Crewed> {
        while !self.members.is_empty() {
            if self.members.iter().all(|member| member.waits.is_some()) {
                let waits: Vec<String> = self.members.iter_mut().filter_map(|member| member.waits.take()).collect();
                return Ok(Crewed::Blocked(waits.join("; ")));
            }
            let turn = match &mut self.random {
                None => u64::MAX,
                Some(random) => {
                    self.next = Self::below(random, self.members.len() as u64) as usize;
                    1 + Self::below(random, LONGEST_TURN)
                }
            };
            self.next %= self.members.len();
            let member = &mut self.members[self.next];
            env.state.agent = member.agent;
            let before = env.state.ops_left;
            let status = member.machine.run_for(turn, env)?;
            let moved = before - env.state.ops_left > u64::from(matches!(status, Status::Blocked(_)));
            if moved {
                self.members.iter_mut().for_each(|member| member.waits = None);
            }
            match status {
                Status::Done(_) => {
                    self.members.remove(self.next);
                }
                Status::Blocked(waits) => {
                    self.members[self.next].waits = Some(waits);
                    self.next += 1;
                }
                Status::TurnOver => {}
                Status::Waiting => {
                    self.next += 1;
                    return Ok(Crewed::Waiting);
                }
            }
        }
        Ok(Crewed::Done)
    }
}
