//! Models instruction fetch. The instruction cache of an SM holds a part of the code. On a miss, the SM requests the missing line
//! and the lines after it from L2. The model assumes that the small L0 caches of the SM sub-partitions never miss.

use crate::code::line_bytes;
use perf_model::Machine;
use std::collections::VecDeque;

/// The instruction cache of an SM. If the code fits the cache, the model assumes that all lines are present from the start, because
/// earlier CTAs or the previous launch have used them.
#[derive(Default)]
pub(super) struct InstructionCache {
    /// The arrival time of each line in cycles; infinite for lines outside the cache. Empty if the code fits the cache.
    arrival_times: Vec<f64>,
    /// Cached lines in the order of their requests.
    cached_lines: VecDeque<u32>,
    /// Capacity in lines.
    capacity: usize,
    /// Number of lines that the SM requests in addition to a missing line.
    prefetch_lines: u32,
    /// Cycles from a request to the arrival of the line.
    latency: f64,
}

impl InstructionCache {
    /// Returns an empty cache for code of `lines` cache lines. If all lines fit, the returned cache never misses.
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

    /// Requests a line and the `prefetch_lines` lines after it. Returns the time at which the requested line is available.
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
