//! The execution order of tile blocks. It is deterministic and does not depend on the host.
//!
//! Tile blocks that cannot synchronise run in parallel, in groups of a fixed size. Each block of a group starts from the memory
//! contents before the group. In a program with atomics or ordered accesses, tile blocks take turns on one memory. A tile block
//! yields its turn at the end of a `loop` iteration that executed an atomic or ordered access.
//!
//! CTAs of a cluster that signal each other run interleaved, each as far as it can. With cluster launch control, each CTA steals
//! the tile blocks after its own. The seed determines their number. An active observer disables stealing. Reason: a debugger could
//! wait forever for a tile block that another CTA stole.

use super::{Env, InterpreterStatus, Program, RegionInterpreter};
use crate::cta_state::{BlockPosition, CtaState};
use crate::kernel_memory::{InterleavedMemory, IsolatedMemory, KernelMemory};
use crate::memory::Memory;
use crate::observe::{NoopObserver, Observer};
use crate::value::Value;
use base::Region;
use base::diag::{Diagnostic, Result};
use rayon::prelude::*;
use std::collections::VecDeque;
use std::time::Instant;

/// Number of clusters in a group, which start from the same memory contents. If CTAs do not signal each other, each CTA is a
/// cluster.
const CLUSTERS_PER_GROUP: u64 = 64;
/// Number of consecutive idle turns after which the scheduler reports a deadlock. In an idle turn, all CTAs wait, and no write
/// changes memory.
const MAX_IDLE_TURNS: u32 = 1000;

/// A kernel with its arguments and grid.
pub(crate) struct KernelRun<'a, P> {
    pub(crate) program: &'a P,
    pub(crate) region: Region,
    pub(crate) arguments: Vec<Value>,
    pub(crate) blocks: BlockSelection,
    /// Maximum number of ops that each CTA executes.
    pub(crate) max_ops: u64,
    /// The time after which the run fails. `None`: the run has no time limit.
    pub(crate) deadline: Option<Instant>,
    /// Seed of the warp-role scheduler and of the number of stolen tile blocks.
    pub(crate) seed: u64,
    /// Whether CTAs steal tile blocks, if the program supports it.
    pub(crate) uses_clc: bool,
}

/// The tile blocks to run: a complete grid or a selection.
pub(crate) struct BlockSelection {
    grid: [u32; 3],
    /// Number of CTAs that share a tile block.
    ctas_per_tile_block: u32,
    /// The linear numbers of the selected tile blocks. `None` selects all.
    selected: Option<Vec<u64>>,
}

impl BlockSelection {
    pub(crate) fn new(grid: [u32; 3], selected: Option<Vec<[u32; 3]>>, ctas_per_tile_block: u32) -> BlockSelection {
        let [x, y, _] = grid.map(u64::from);
        let linear_number = |block: [u32; 3]| {
            let [block_x, block_y, block_z] = block.map(u64::from);
            (block_z * y + block_y) * x + block_x
        };
        BlockSelection {
            grid,
            ctas_per_tile_block,
            selected: selected.map(|blocks| blocks.into_iter().map(linear_number).collect()),
        }
    }
    /// Returns the number of selected CTAs.
    fn cta_count(&self) -> u64 {
        let tile_blocks = match &self.selected {
            Some(blocks) => blocks.len() as u64,
            None => self.grid.iter().map(|extent| u64::from(*extent)).product(),
        };
        tile_blocks * u64::from(self.ctas_per_tile_block)
    }
    /// Returns the linear CTA number of the selected CTA with this index.
    fn cta_number(&self, index: u64) -> u64 {
        let ctas_per_tile_block = u64::from(self.ctas_per_tile_block);
        self.selected.as_ref().map_or(index, |blocks| {
            blocks[(index / ctas_per_tile_block) as usize] * ctas_per_tile_block + index % ctas_per_tile_block
        })
    }
}

/// Maximum number of tile blocks that one CTA processes with cluster launch control. Reason: the hardware decides this number, so
/// the executor tries 1 to 3.
const MAX_BLOCKS_PER_CTA: u64 = 3;

impl<P: Program> KernelRun<'_, P> {
    /// Returns how many consecutive tile blocks a CTA processes, its own first.
    fn blocks_per_cta(&self) -> u64 {
        if self.uses_clc && self.program.uses_clc() { MAX_BLOCKS_PER_CTA - self.seed % MAX_BLOCKS_PER_CTA } else { 1 }
    }

    /// Returns the initial state of a CTA.
    fn initial_state(&self, cta: u64) -> CtaState {
        CtaState::new(
            BlockPosition::new(cta, self.blocks.grid, self.blocks.ctas_per_tile_block),
            self.program.body().values.len(),
            self.max_ops,
            self.deadline,
            self.seed,
        )
    }

    /// Runs the clusters in parallel. `print` receives their output in cluster order.
    pub(crate) fn run_in_parallel(&self, memory: &mut Memory, print: &mut dyn FnMut(&str)) -> Result<()> {
        let mut first_cluster = 0;
        while first_cluster < self.cluster_count() {
            let group = first_cluster..self.cluster_count().min(first_cluster + CLUSTERS_PER_GROUP);
            let base = &*memory;
            // A single cluster runs on this thread.
            let outcomes: Vec<_> = match group.end - group.start {
                1 => vec![self.run_isolated(group.start, base)],
                _ => group.clone().into_par_iter().map(|cluster| self.run_isolated(cluster, base)).collect(),
            };
            for (printed, writes, result) in outcomes {
                print(&printed);
                result?;
                for (address, bytes) in writes {
                    memory.write(address, &bytes)?;
                }
            }
            first_cluster = group.end;
        }
        Ok(())
    }

    /// Runs a cluster on its own overlay of the memory. Returns its output and its writes.
    fn run_isolated(&self, cluster: u64, memory: &Memory) -> (String, Vec<(u64, Vec<u8>)>, Result<()>) {
        let (mut kernel_memory, mut printed) = (IsolatedMemory::new(memory), String::new());
        let mut cluster = self.start_cluster(cluster, &mut kernel_memory, &mut NoopObserver);
        let result = loop {
            match cluster.run_turn(&mut kernel_memory, &mut |text| printed.push_str(text), &mut NoopObserver) {
                Ok(true) => break Ok(()),
                Ok(false) => {}
                Err(error) => break Err(error),
            }
        };
        (printed, kernel_memory.memory.into_writes(), result)
    }

    /// Runs the clusters in turns on one memory. `change_count` returns the number of writes that changed this memory.
    pub(crate) fn run_interleaved<W: KernelMemory>(
        &self,
        kernel_memory: &mut W,
        change_count: fn(&W) -> u64,
        print: &mut dyn FnMut(&str),
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let mut waiting: VecDeque<Cluster<'_, P>> = VecDeque::new();
        let (mut next, mut idle_turns, mut last_change_count) = (0, 0, change_count(kernel_memory));
        while next < self.cluster_count() || !waiting.is_empty() {
            let turns = waiting.len();
            for _ in 0..turns {
                let mut cluster = waiting.pop_front().expect("counted before");
                let has_ended = cluster.run_turn(kernel_memory, print, observer)?;
                waiting.extend((!has_ended).then_some(cluster));
            }
            if next < self.cluster_count() {
                let mut cluster = self.start_cluster(next, kernel_memory, observer);
                let has_ended = cluster.run_turn(kernel_memory, print, observer)?;
                waiting.extend((!has_ended).then_some(cluster));
                next += 1;
                continue;
            }
            let made_progress = waiting.len() < turns || change_count(kernel_memory) != last_change_count;
            idle_turns = if made_progress { 0 } else { idle_turns + 1 };
            last_change_count = change_count(kernel_memory);
            if idle_turns > MAX_IDLE_TURNS && !waiting.is_empty() {
                let blocks = waiting.iter().flat_map(|cluster| cluster.ctas.iter().filter(|cta| cta.interpreter.is_some()));
                let blocks: Vec<_> = blocks.take(8).map(|cta| cta.state.block_position.linear.to_string()).collect();
                let message = format!("deadlock: blocks wait for memory that no block changes: {}", blocks.join(", "));
                return Err(Diagnostic::invalid("RUN020", message));
            }
        }
        Ok(())
    }

    /// Returns the number of clusters.
    fn cluster_count(&self) -> u64 {
        let ctas_per_tile_block = u64::from(self.blocks.ctas_per_tile_block);
        (self.blocks.cta_count() / ctas_per_tile_block).div_ceil(self.blocks_per_cta()) * ctas_per_tile_block
            / u64::from(self.program.synchronised_ctas())
    }

    /// Creates the interpreters of a cluster's CTAs.
    fn start_cluster<'p>(
        &'p self,
        cluster: u64,
        kernel_memory: &mut dyn KernelMemory,
        observer: &mut dyn Observer,
    ) -> Cluster<'p, P> {
        let (synchronised_ctas, ctas_per_tile_block, blocks_per_cta) =
            (u64::from(self.program.synchronised_ctas()), u64::from(self.blocks.ctas_per_tile_block), self.blocks_per_cta());
        let start_cta = |cta: u64| {
            let own_index = cta / ctas_per_tile_block * blocks_per_cta * ctas_per_tile_block + cta % ctas_per_tile_block;
            let number = self.blocks.cta_number(own_index);
            let mut state = self.initial_state(number);
            let stolen_indices = (1..blocks_per_cta)
                .map(|further| own_index + further * ctas_per_tile_block)
                .take_while(|index| *index < self.blocks.cta_count());
            state.processed_blocks.extend(stolen_indices.map(|index| {
                BlockPosition::new(self.blocks.cta_number(index), self.blocks.grid, self.blocks.ctas_per_tile_block).index
            }));
            kernel_memory.enter_block(number);
            let mut env = Env { state: &mut state, kernel_memory: &mut *kernel_memory, observer: &mut *observer };
            let interpreter = RegionInterpreter::new(self.program, self.region, self.arguments.iter().cloned(), &mut env);
            CtaRun { state, interpreter: Some(interpreter) }
        };
        Cluster { ctas: (cluster * synchronised_ctas..(cluster + 1) * synchronised_ctas).map(start_cta).collect() }
    }
}

/// A CTA with its state and its interpreter. The interpreter is `None` after the CTA ended.
struct CtaRun<'p, P: Program> {
    state: CtaState,
    interpreter: Option<RegionInterpreter<'p, P>>,
}

/// CTAs that run interleaved: a single CTA, or the CTAs of a cluster that signal each other.
struct Cluster<'p, P: Program> {
    ctas: Vec<CtaRun<'p, P>>,
}

impl<P: Program> Cluster<'_, P> {
    /// Runs the CTAs until all have ended or one yields to another cluster. Returns whether all have ended.
    fn run_turn(
        &mut self,
        kernel_memory: &mut dyn KernelMemory,
        print: &mut dyn FnMut(&str),
        observer: &mut dyn Observer,
    ) -> Result<bool> {
        loop {
            let (mut made_progress, mut has_yielded, mut wait_reasons) = (false, false, Vec::new());
            for at in 0..self.ctas.len() {
                let CtaRun { state, interpreter } = &mut self.ctas[at];
                let Some(running) = interpreter else { continue };
                kernel_memory.enter_block(state.block_position.linear);
                let status =
                    running.advance(&mut Env { state: &mut *state, kernel_memory: &mut *kernel_memory, observer: &mut *observer });
                print(&std::mem::take(&mut state.printed));
                match status? {
                    InterpreterStatus::Done(_) => {
                        observer.block_ended(state.block_position)?;
                        (*interpreter, made_progress) = (None, true);
                    }
                    InterpreterStatus::Blocked(wait_reason) => wait_reasons.push(wait_reason),
                    InterpreterStatus::Waiting | InterpreterStatus::SliceEnd => has_yielded = true,
                }
                made_progress |= self.deliver_arrivals(at);
            }
            if self.ctas.iter().all(|cta| cta.interpreter.is_none()) {
                return Ok(true);
            }
            if has_yielded {
                return Ok(false);
            }
            if !made_progress {
                return Err(Diagnostic::invalid("RUN021", format!("deadlock: {}", wait_reasons.join("; "))));
            }
        }
    }

    /// Delivers the pending arrivals of one CTA to the other CTAs of the cluster. Returns whether the CTA had pending arrivals.
    fn deliver_arrivals(&mut self, from: usize) -> bool {
        let remote_arrivals =
            self.ctas[from].state.hazards.as_mut().map(|hazards| std::mem::take(&mut hazards.remote_arrivals)).unwrap_or_default();
        for (_, receiver) in self.ctas.iter_mut().enumerate().filter(|(index, _)| *index != from) {
            receiver.state.remote_arrivals.extend(remote_arrivals.iter().cloned());
        }
        !remote_arrivals.is_empty()
    }
}

/// Returns the number of writes that changed the memory of the tile blocks.
pub(crate) fn change_count(kernel_memory: &InterleavedMemory) -> u64 {
    kernel_memory.memory.change_count
}
