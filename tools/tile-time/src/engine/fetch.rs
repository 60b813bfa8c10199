//! Instruction fetch. An SM caches part of the code; missing lines come from L2, with a sequential prefetch. The small L0 caches of
//! the SM sub-partitions are modelled as perfect.

use crate::code::line_bytes;
use perf_model::Machine;
use std::collections::VecDeque;

/// Code that fits the cache is always present: earlier CTAs, and the previous launch, have used it.
#[derive(Default)]
pub(super) struct Fetch {
    /// Arrival time of each line.
    lines: Vec<f64>,
    /// Cached lines in the order of their requests.
    cached_lines: VecDeque<u32>,
    capacity: usize,
    ahead: u32,
    latency: f64,
}

impl Fetch {
    pub(super) fn new(machine: &Machine, lines: u32) -> Fetch {
        let capacity = (machine.code.cache * 1024.0 / line_bytes(machine)) as usize;
        if lines as usize <= capacity {
            return Fetch::default();
        }
        let all = vec![f64::INFINITY; lines as usize];
        Fetch {
            lines: all,
            cached_lines: VecDeque::new(),
            capacity,
            ahead: machine.code.prefetch_lines as u32,
            latency: machine.global.l2_latency,
        }
    }

    /// Whether an instruction can miss the cache: the code is larger than it.
    pub(super) fn can_miss(&self) -> bool {
        !self.lines.is_empty()
    }

    /// The time at which a line is available, if a warp requests it now.
    pub(super) fn line(&mut self, line: u32, now: f64) -> f64 {
        let last = line.saturating_add(self.ahead).min(self.lines.len() as u32 - 1);
        for requested in line..=last {
            if self.lines[requested as usize].is_infinite() {
                self.lines[requested as usize] = now + self.latency;
                self.cached_lines.push_back(requested);
            }
        }
        let arrival = self.lines[line as usize];
        while self.cached_lines.len() > self.capacity {
            let oldest = self.cached_lines.pop_front().unwrap_or(line);
            self.lines[oldest as usize] = f64::INFINITY;
        }
        arrival
    }
}
