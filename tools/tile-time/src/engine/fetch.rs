//! Models instruction fetch. An SM caches a part of the code. A missing line comes from L2, together with the lines that follow it.
//! The model assumes that the small L0 caches of the SM sub-partitions never miss.

use crate::code::line_bytes;
use perf_model::Machine;
use std::collections::VecDeque;

/// The instruction cache of an SM. If the code fits the cache, all lines are present from the start, because earlier CTAs or the
/// previous launch have used them.
#[derive(Default)]
pub(super) struct InstructionCache {
    /// The arrival time of each line; infinite for lines outside the cache. Empty if the code fits the cache.
    arrival_times: Vec<f64>,
    /// Cached lines in the order of their requests.
    cached_lines: VecDeque<u32>,
    /// Capacity in lines.
    capacity: usize,
    /// Number of lines after a missing line that the SM also requests.
    prefetch_lines: u32,
    /// Cycles from a request to the arrival of the line.
    latency: f64,
}

impl InstructionCache {
    /// Returns an empty cache for code of `lines` cache lines. If all lines fit, the cache models no misses.
    pub(super) fn new(machine: &Machine, lines: u32) -> InstructionCache {
        let capacity = (machine.code.cache * 1024.0 / line_bytes(machine)) as usize;
        if lines as usize <= capacity {
            return InstructionCache::default();
        }
        let arrival_times = vec![f64::INFINITY; lines as usize];
        InstructionCache {
            arrival_times,
            cached_lines: VecDeque::new(),
            capacity,
            prefetch_lines: machine.code.prefetch_lines as u32,
            latency: machine.global.l2_latency,
        }
    }

    /// Returns whether an instruction can miss the cache, because the code is larger than the cache.
    pub(super) fn can_miss(&self) -> bool {
        !self.arrival_times.is_empty()
    }

    /// Requests a line and the lines that follow it. Returns the time at which the line is available.
    pub(super) fn request_line(&mut self, line: u32, now: f64) -> f64 {
        let last = line.saturating_add(self.prefetch_lines).min(self.arrival_times.len() as u32 - 1);
        for requested in line..=last {
            if self.arrival_times[requested as usize].is_infinite() {
                self.arrival_times[requested as usize] = now + self.latency;
                self.cached_lines.push_back(requested);
            }
        }
        let arrival = self.arrival_times[line as usize];
        while self.cached_lines.len() > self.capacity {
            let oldest = self.cached_lines.pop_front().unwrap_or(line);
            self.arrival_times[oldest as usize] = f64::INFINITY;
        }
        arrival
    }
}
