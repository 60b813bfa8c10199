//! The execution order of tile blocks. It is deterministic and does not depend on the host.
//!
//! Tile blocks that cannot synchronise run in parallel, in groups of a fixed size. Each block of a group starts from the memory
//! contents before the group. A program with atomics or ordered accesses runs its tile blocks one after another on one memory. A
//! block yields at a loop iteration that contained such an access.
//!
//! CTAs of a cluster that signal each other run interleaved, each as far as it can. With cluster launch control, each CTA steals
//! a number of following tile blocks that depends on the seed. An active observer disables stealing. Reason: a debugger could wait
//! forever for a tile block that another CTA stole.

use super::{BlockPosition, Env, Machine, Program, State, Status};
use crate::memory::Memory;
use crate::observe::{NoopObserver, Observer};
use crate::value::Value;
use crate::world::{IsolatedWorld, SharedWorld, World};
use base::Region;
use base::diag::{Diagnostic, Result};
use rayon::prelude::*;
use std::collections::VecDeque;
use std::time::Instant;

/// Tile blocks that start from the same memory contents.
const GROUP: u64 = 64;
/// Idle turns (all blocks wait and memory does not change) before the scheduler reports a deadlock.
const MAX_IDLE_ITERATIONS: u32 = 1000;

/// A kernel with its arguments and grid.
pub(crate) struct Job<'a, P> {
    pub(crate) program: &'a P,
    pub(crate) region: Region,
    pub(crate) arguments: Vec<Value>,
    pub(crate) blocks: Blocks,
    /// Op budget of each tile block.
    pub(crate) limit: u64,
    /// Time limit of the run.
    pub(crate) deadline: Option<Instant>,
    /// Seed of the warp-role scheduler.
    pub(crate) seed: u64,
    /// Whether CTAs steal tile blocks, if the program supports it.
    pub(crate) uses_clc: bool,
}

/// The tile blocks to run: a complete grid or a selection.
pub(crate) struct Blocks {
    grid: [u32; 3],
    /// Number of CTAs that share a tile block.
    ranks: u32,
    /// The linear numbers of the selected tile blocks; `None` selects all.
    selected: Option<Vec<u64>>,
}

impl Blocks {
    pub(crate) fn new(grid: [u32; 3], selected: Option<Vec<[u32; 3]>>, ranks: u32) -> Blocks {
        let [x, y, _] = grid.map(u64::from);
        let number = |block: [u32; 3]| {
            let [at_x, at_y, at_z] = block.map(u64::from);
            (at_z * y + at_y) * x + at_x
        };
        Blocks { grid, ranks, selected: selected.map(|blocks| blocks.into_iter().map(number).collect()) }
    }
    fn count(&self) -> u64 {
        let tiles = match &self.selected {
            Some(blocks) => blocks.len() as u64,
            None => self.grid.iter().map(|extent| u64::from(*extent)).product(),
        };
        tiles * u64::from(self.ranks)
    }
    /// Returns the linear CTA number of the n-th selected CTA.
    fn number(&self, at: u64) -> u64 {
        let ranks = u64::from(self.ranks);
        self.selected.as_ref().map_or(at, |blocks| blocks[(at / ranks) as usize] * ranks + at % ranks)
    }
}

/// Upper bound on the tile blocks that one CTA processes.
const MAX_BLOCKS_PER_CTA: u64 = 3;

impl<P: Program> Job<'_, P> {
    /// Returns how many consecutive tile blocks a CTA processes, its own first.
    fn blocks_per_cta(&self) -> u64 {
        if self.uses_clc && self.program.uses_clc() { MAX_BLOCKS_PER_CTA - self.seed % MAX_BLOCKS_PER_CTA } else { 1 }
    }

    fn state(&self, block: u64) -> State {
        State::new(
            BlockPosition::new(block, self.blocks.grid, self.blocks.ranks),
            self.program.body().values.len(),
            self.limit,
            self.deadline,
            self.seed,
        )
    }

    /// Runs tile blocks in parallel. `print` receives their output in block order.
    pub(crate) fn in_parallel(&self, memory: &mut Memory, print: &mut dyn FnMut(&str)) -> Result<()> {
        let mut first = 0;
        while first < self.clusters() {
            let group = first..self.clusters().min(first + GROUP);
            let base = &*memory;
            // A single unit needs no other thread.
            let done: Vec<_> = match group.end - group.start {
                1 => vec![self.run_isolated(group.start, base)],
                _ => group.clone().into_par_iter().map(|at| self.run_isolated(at, base)).collect(),
            };
            for outcome in done {
                let (printed, writes, result) = outcome;
                print(&printed);
                result?;
                for (address, bytes) in writes {
                    memory.write(address, &bytes)?;
                }
            }
            first = group.end;
        }
        Ok(())
    }

    fn run_isolated(&self, cluster: u64, memory: &Memory) -> (String, Vec<(u64, Vec<u8>)>, Result<()>) {
        let (mut world, mut printed) = (IsolatedWorld::new(memory), String::new());
        let mut cluster = self.cluster(cluster, &mut world, &mut NoopObserver);
        let result = loop {
            match cluster.run_turn(&mut world, &mut |text| printed.push_str(text), &mut NoopObserver) {
                Ok(true) => break Ok(()),
                Ok(false) => {}
                Err(error) => break Err(error),
            }
        };
        (printed, world.memory.into_writes(), result)
    }

    /// Runs tile blocks in turns in one world. `changes` returns the modification count of its memory.
    pub(crate) fn interleaved<W: World>(
        &self,
        world: &mut W,
        changes: fn(&W) -> u64,
        print: &mut dyn FnMut(&str),
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let mut waiting: VecDeque<Cluster<'_, P>> = VecDeque::new();
        let (mut next, mut idle, mut seen) = (0, 0, changes(world));
        while next < self.clusters() || !waiting.is_empty() {
            let turns = waiting.len();
            for _ in 0..turns {
                let mut cluster = waiting.pop_front().expect("counted before");
                let done = cluster.run_turn(world, print, observer)?;
                waiting.extend((!done).then_some(cluster));
            }
            if next < self.clusters() {
                let mut cluster = self.cluster(next, world, observer);
                let done = cluster.run_turn(world, print, observer)?;
                waiting.extend((!done).then_some(cluster));
                next += 1;
                continue;
            }
            let ended = waiting.len() < turns || changes(world) != seen;
            idle = if ended { 0 } else { idle + 1 };
            seen = changes(world);
            if idle > MAX_IDLE_ITERATIONS && !waiting.is_empty() {
                let blocks = waiting.iter().flat_map(|cluster| cluster.members.iter().filter(|member| member.machine.is_some()));
                let blocks: Vec<_> = blocks.take(8).map(|member| member.state.block_position.linear.to_string()).collect();
                let message = format!("deadlock: blocks wait for memory that no block changes: {}", blocks.join(", "));
                return Err(Diagnostic::invalid("RUN020", message));
            }
        }
        Ok(())
    }

    /// Returns the number of clusters, the units that run interleaved.
    fn clusters(&self) -> u64 {
        let ranks = u64::from(self.blocks.ranks);
        (self.blocks.count() / ranks).div_ceil(self.blocks_per_cta()) * ranks / u64::from(self.program.cluster_ctas())
    }

    fn cluster<'p>(&'p self, cluster: u64, world: &mut dyn World, observer: &mut dyn Observer) -> Cluster<'p, P> {
        let (cluster_ctas, ranks, stolen) =
            (u64::from(self.program.cluster_ctas()), u64::from(self.blocks.ranks), self.blocks_per_cta());
        let member = |at: u64| {
            let own = at / ranks * stolen * ranks + at % ranks;
            let block = self.blocks.number(own);
            let mut state = self.state(block);
            let others = (1..stolen).map(|further| own + further * ranks).take_while(|at| *at < self.blocks.count());
            state
                .stolen_blocks
                .extend(others.map(|at| BlockPosition::new(self.blocks.number(at), self.blocks.grid, self.blocks.ranks).index));
            world.enter(block);
            let mut env = Env { state: &mut state, world: &mut *world, observer: &mut *observer };
            let machine = Machine::new(self.program, self.region, self.arguments.iter().cloned(), &mut env);
            CtaRun { state, machine: Some(machine) }
        };
        Cluster { members: (cluster * cluster_ctas..(cluster + 1) * cluster_ctas).map(member).collect() }
    }
}

/// A CTA and its interpreter; `None` after the CTA ended.
struct CtaRun<'p, P: Program> {
    state: State,
    machine: Option<Machine<'p, P>>,
}

/// CTAs that run interleaved: a single CTA, or the CTAs of a cluster that signal each other.
struct Cluster<'p, P: Program> {
    members: Vec<CtaRun<'p, P>>,
}

impl<P: Program> Cluster<'_, P> {
    /// Runs the CTAs until all have ended (returns true) or one waits for another cluster (returns false).
    fn run_turn(&mut self, world: &mut dyn World, print: &mut dyn FnMut(&str), observer: &mut dyn Observer) -> Result<bool> {
        loop {
            let (mut made_progress, mut waiting, mut blocked) = (false, false, Vec::new());
            for at in 0..self.members.len() {
                let CtaRun { state, machine } = &mut self.members[at];
                let Some(running) = machine else { continue };
                world.enter(state.block_position.linear);
                let status = running.advance(&mut Env { state: &mut *state, world: &mut *world, observer: &mut *observer });
                print(&std::mem::take(&mut state.printed));
                match status? {
                    Status::Done(_) => {
                        observer.ended(state.block_position)?;
                        (*machine, made_progress) = (None, true);
                    }
                    Status::Blocked(waits) => blocked.push(waits),
                    Status::Waiting | Status::SliceEnd => waiting = true,
                }
                made_progress |= self.deliver_arrivals(at);
            }
            if self.members.iter().all(|member| member.machine.is_none()) {
                return Ok(true);
            }
            if waiting {
                return Ok(false);
            }
            if !made_progress {
                return Err(Diagnostic::invalid("RUN021", format!("deadlock: {}", blocked.join("; "))));
            }
        }
    }

    /// Delivers the pending arrivals of one CTA to its peers. Returns whether it had pending arrivals.
    fn deliver_arrivals(&mut self, from: usize) -> bool {
        let remote_arrivals = self.members[from]
            .state
            .hazards
            .as_mut()
            .map(|hazards| std::mem::take(&mut hazards.remote_arrivals))
            .unwrap_or_default();
        for (_, other) in self.members.iter_mut().enumerate().filter(|(at, _)| *at != from) {
            other.state.remote_arrivals.extend(remote_arrivals.iter().cloned());
        }
        !remote_arrivals.is_empty()
    }
}

/// Returns the modification count of shared memory.
pub(crate) fn changes(world: &SharedWorld) -> u64 {
    world.memory.changes
}
