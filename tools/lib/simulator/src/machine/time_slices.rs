//! The execution of warps in time slices.

use super::{Cluster, INSTRUCTION_LIMIT_FAULT, Machine, TIME_SLICE};
use crate::fault::{Fault, Result};
use crate::warp::Flow;
use crate::warp::{Split, Warp};
use std::time::Instant;

impl<'p> Machine<'p> {
    /// Gives every warp of a cluster a time slice. Returns whether any warp made progress.
    pub(crate) fn run_time_slices(&mut self, cluster: &mut Cluster) -> Result<bool> {
        let mut order: Vec<(usize, usize)> =
            (0..cluster.ctas.len()).flat_map(|cta| (0..cluster.ctas[cta].warps.len()).map(move |warp| (cta, warp))).collect();
        if self.options.seed.is_some() {
            for index in (1..order.len()).rev() {
                let other = self.random_below(index as u64 + 1) as usize;
                order.swap(index, other);
            }
        }
        let mut progress = false;
        for (cta, index) in order {
            if cluster.ctas[cta].warps[index].is_done() {
                continue;
            }
            let slice = if self.options.seed.is_some() { 1 + self.random_below(u64::from(TIME_SLICE)) as u32 } else { TIME_SLICE };
            let mut warp = std::mem::take(&mut cluster.ctas[cta].warps[index]);
            let result = self.run_slice(cluster, cta, &mut warp, slice);
            cluster.ctas[cta].warps[index] = warp;
            progress |= result? > 0;
        }
        Ok(progress)
    }

    /// Returns a pseudo-random number less than `limit`, for the order of warps and the length of time slices.
    fn random_below(&mut self, limit: u64) -> u64 {
        self.random_state ^= self.random_state << 13;
        self.random_state ^= self.random_state >> 7;
        self.random_state ^= self.random_state << 17;
        self.random_state % limit
    }

    /// Runs a warp for a time slice. Returns the number of executed instructions.
    fn run_slice(&mut self, cluster: &mut Cluster, cta: usize, warp: &mut Warp, slice: u32) -> Result<u32> {
        for split in &mut warp.splits {
            split.wait = None;
        }
        let mut count = 0;
        while count < slice {
            let index = if warp.splits.len() == 1 {
                if warp.splits[0].wait.is_some() {
                    break;
                }
                0
            } else {
                match warp.pick_split() {
                    Some(index) => index,
                    None => break,
                }
            };
            let Split { pc, mask, .. } = warp.splits[index];
            let Some(instr) = self.program.code.get(pc as usize) else {
                warp.exit_lanes(index, mask);
                continue;
            };
            (self.pc, self.line) = (pc, instr.line);
            if let Some(recorder) = &mut self.recorder {
                recorder.begin_instruction(cta, warp.index);
            }
            let flow = self.execute(cluster, cta, warp, index, instr).map_err(|fault| {
                let cta_position = format!(
                    "cta {} of cluster {:?}, warp {}, in '{}'",
                    cluster.ctas[cta].rank, cluster.id, warp.index, self.program.entry
                );
                fault.line(instr.line).note(cta_position)
            })?;
            if let Some(recorder) = &mut self.recorder {
                recorder.end_instruction(pc, !matches!(flow, Flow::Wait(_)));
            }
            match flow {
                Flow::Next => warp.splits[index].pc += 1,
                Flow::Branch { target, taken } => {
                    self.branches_taken[pc as usize] += u64::from(taken != 0);
                    warp.branch_lanes(index, target, taken);
                }
                Flow::Exit(lanes) => {
                    warp.exit_lanes(index, lanes);
                    if warp.is_done() {
                        cluster.ctas[cta].warp_ended();
                        cluster.warp_ended();
                        self.check_end_of_cta(cluster, cta, warp.index)?;
                    }
                }
                Flow::Wait(wait) => {
                    warp.splits[index].wait = Some(wait);
                    continue;
                }
                Flow::Yield => {
                    warp.splits[index].pc += 1;
                    self.execution_counts[pc as usize] += 1;
                    count += 1;
                    break;
                }
            }
            self.execution_counts[pc as usize] += 1;
            count += 1;
            if warp.splits.len() > 1 {
                warp.merge_splits();
            }
        }
        self.warp_instructions += u64::from(count);
        if self.warp_instructions > self.options.instruction_limit {
            return Err(Fault::new(
                INSTRUCTION_LIMIT_FAULT,
                format!("the kernel has not ended after {} warp instructions", self.warp_instructions),
            ));
        }
        if self.options.deadline.is_some_and(|deadline| Instant::now() > deadline) {
            return Err(Fault::new("SIM042", "the launch exceeds its time limit"));
        }
        Ok(count)
    }
}
