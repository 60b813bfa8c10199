//! Where instructions come from: a sm keeps some of the code, what is missing comes from the second-level cache in
//! lines, with those that follow asked for ahead of time. Each smsp's own small cache is taken to be perfect.

use crate::code::line_bytes;
use perf_model::Machine;
use std::collections::VecDeque;

/// Of code that fits, everything is taken to be there: earlier blocks, and the launch before, have used it.
#[derive(Default)]
pub(super) struct Fetch {
    /// When each line is there.
    lines: Vec<f64>,
    /// Lines in the order in which they were asked for.
    kept: VecDeque<u32>,
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
            kept: VecDeque::new(),
            capacity,
            ahead: machine.code.prefetch_lines as u32,
            latency: machine.global.l2_latency,
        }
    }

    /// Whether anything may be missing.
    pub(super) fn matters(&self) -> bool {
        !self.lines.is_empty()
    }

    /// When a line is there, for who gets to it now.
    pub(super) fn line(&mut self, line: u32, now: f64) -> f64 {
        let last = line.saturating_add(self.ahead).min(self.lines.len() as u32 - 1);
        for requested in line..=last {
            if self.lines[requested as usize].is_infinite() {
                self.lines[requested as usize] = now + self.latency;
                self.kept.push_back(requested);
            }
        }
        let there = self.lines[line as usize];
        while self.kept.len() > self.capacity {
            let oldest = self.kept.pop_front().unwrap_or(line);
            self.lines[oldest as usize] = f64::INFINITY;
        }
        there
    }
}
