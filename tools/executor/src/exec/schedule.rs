//! Which block runs when.
//!
//! Blocks that cannot wait for each other run at the same time, in groups of a fixed size, each on the memory as it was before
//! its group. Where a program has atomics or ordered accesses, blocks run one after another on one memory; one that goes round
//! a loop in which it made such an access lets the others run. Neither depends on the machine.

use super::{Env, Machine, Place, Program, State, Status};
use crate::memory::Memory;
use crate::observe::{Nobody, Observer};
use crate::value::Value;
use crate::world::{Alone, Shared, World};
use base::Region;
use base::diag::{Diagnostic, Result};
use rayon::prelude::*;
use std::collections::VecDeque;

/// Blocks that run on the same state of memory.
const GROUP: u64 = 64;
/// Turns in which every block waits and memory does not change, before that counts as waiting forever.
const IDLE_ROUNDS: u32 = 1000;

/// A kernel with its arguments and grid.
pub(crate) struct Job<'a, P> {
    pub(crate) program: &'a P,
    pub(crate) region: Region,
    pub(crate) arguments: Vec<Value>,
    pub(crate) blocks: Blocks,
    /// Ops that a block may execute.
    pub(crate) limit: u64,
    /// Which agent of a block runs when.
    pub(crate) seed: u64,
}

/// The blocks to run: all of a grid, or some.
pub(crate) struct Blocks {
    grid: [u32; 3],
    /// How many blocks share a tile block out among them.
    ranks: u32,
    /// The numbers of the tile blocks.
    some: Option<Vec<u64>>,
}

impl Blocks {
    pub(crate) fn new(grid: [u32; 3], some: Option<Vec<[u32; 3]>>, ranks: u32) -> Blocks {
        let [x, y, _] = grid.map(u64::from);
        let number = |block: [u32; 3]| {
            let [at_x, at_y, at_z] = block.map(u64::from);
            (at_z * y + at_y) * x + at_x
        };
        Blocks { grid, ranks, some: some.map(|blocks| blocks.into_iter().map(number).collect()) }
    }
    fn count(&self) -> u64 {
        let tiles = match &self.some {
            Some(blocks) => blocks.len() as u64,
            None => self.grid.iter().map(|extent| u64::from(*extent)).product(),
        };
        tiles * u64::from(self.ranks)
    }
    /// The number within the grid of the n-th block that is run.
    fn number(&self, at: u64) -> u64 {
        let ranks = u64::from(self.ranks);
        self.some.as_ref().map_or(at, |blocks| blocks[(at / ranks) as usize] * ranks + at % ranks)
    }
}

impl<P: Program> Job<'_, P> {
    fn state(&self, block: u64) -> State {
        State::new(Place::new(block, self.blocks.grid, self.blocks.ranks), self.program.body().values.len(), self.limit, self.seed)
    }

    /// Runs blocks at the same time. `print` gets what they print, in block order.
    pub(crate) fn together(&self, memory: &mut Memory, print: &mut dyn FnMut(&str)) -> Result<()> {
        let mut first = 0;
        while first < self.blocks.count() {
            let group = first..self.blocks.count().min(first + GROUP);
            let base = &*memory;
            let done: Vec<_> = group.clone().into_par_iter().map(|at| self.alone(self.blocks.number(at), base)).collect();
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

    fn alone(&self, block: u64, memory: &Memory) -> (String, Vec<(u64, Vec<u8>)>, Result<()>) {
        let (mut world, mut state) = (Alone::new(memory), self.state(block));
        world.enter(block);
        let mut env = Env { state: &mut state, world: &mut world, observer: &mut Nobody };
        let mut machine = Machine::new(self.program, self.region, self.arguments.iter().cloned(), &mut env);
        let result = loop {
            match machine.run(&mut env) {
                Ok(Status::Done(_)) => break Ok(()),
                Ok(_) => {}
                Err(error) => break Err(error),
            }
        };
        (state.printed, world.memory.into_writes(), result)
    }

    /// Runs blocks in turns in one world; `changes` counts the changes of its memory.
    pub(crate) fn in_turns<W: World>(
        &self,
        world: &mut W,
        changes: fn(&W) -> u64,
        print: &mut dyn FnMut(&str),
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let mut waiting: VecDeque<(State, Machine<'_, P>)> = VecDeque::new();
        let (mut next, mut idle, mut seen) = (0, 0, changes(world));
        while next < self.blocks.count() || !waiting.is_empty() {
            let turns = waiting.len();
            for _ in 0..turns {
                let (state, machine) = waiting.pop_front().expect("counted before");
                waiting.extend(self.turn(state, machine, world, print, observer)?);
            }
            if next < self.blocks.count() {
                let block = self.blocks.number(next);
                let mut state = self.state(block);
                world.enter(block);
                let arguments = self.arguments.iter().cloned();
                let machine = Machine::new(self.program, self.region, arguments, &mut Env { state: &mut state, world, observer });
                waiting.extend(self.turn(state, machine, world, print, observer)?);
                next += 1;
                continue;
            }
            let ended = waiting.len() < turns || changes(world) != seen;
            idle = if ended { 0 } else { idle + 1 };
            seen = changes(world);
            if idle > IDLE_ROUNDS && !waiting.is_empty() {
                let blocks: Vec<_> = waiting.iter().take(8).map(|(state, _)| state.place.linear.to_string()).collect();
                let message = format!("blocks wait for something that never happens: {}", blocks.join(", "));
                return Err(Diagnostic::invalid("RUN020", message));
            }
        }
        Ok(())
    }

    /// Lets a block run until it ends or waits.
    fn turn<'p>(
        &self,
        mut state: State,
        mut machine: Machine<'p, P>,
        world: &mut dyn World,
        print: &mut dyn FnMut(&str),
        observer: &mut dyn Observer,
    ) -> Result<Option<(State, Machine<'p, P>)>> {
        world.enter(state.place.linear);
        let status = machine.run(&mut Env { state: &mut state, world, observer: &mut *observer });
        print(&std::mem::take(&mut state.printed));
        Ok(match status? {
            Status::Done(_) => {
                observer.ended(state.place)?;
                None
            }
            _ => Some((state, machine)),
        })
    }
}

/// How often memory that blocks share has changed.
pub(crate) fn changes(world: &Shared) -> u64 {
    world.memory.changes
}
