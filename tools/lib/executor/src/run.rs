//! Runs a kernel of any format on its arguments.

use crate::check::{Check, Checked};
use crate::exec::Program;
use crate::exec::schedule::{Blocks, Job, changes};
use crate::memory::Memory;
use crate::observe::Observer;
use crate::tile::Tile;
use crate::value::Value;
use crate::world::SharedWorld;
use base::Region;
use base::diag::{Diagnostic, Result};
use common::launch::Call;
use core_dialect::tile::Elem;
use std::collections::BTreeSet;
use std::time::Instant;

/// A launch on memory that the caller provides.
pub struct Request {
    /// Tile blocks per dimension.
    pub grid: [u32; 3],
    /// The blocks to run; `None` is the full grid.
    pub blocks: Option<Vec<[u32; 3]>>,
    /// The parameters: numbers sign-extended, floats as their bits, pointers as addresses.
    pub values: Vec<i64>,
    /// The names of the segments that are uninitialised before the run.
    pub uninitialised: BTreeSet<String>,
    /// Ranges of addresses in other segments that are uninitialised before the run.
    pub unwritten: Vec<(u64, u64)>,
}

impl Request {
    pub(crate) fn of(call: &Call) -> Request {
        let empty = call.launch.buffers.iter().filter(|buffer| buffer.is_empty());
        let uninitialised = empty.map(|buffer| buffer.name.clone()).collect();
        Request { grid: call.grid, blocks: call.blocks.clone(), values: call.values.clone(), uninitialised, unwritten: Vec::new() }
    }
}

/// Execution parameters of a run.
pub struct Watch {
    /// Op budget of each tile block.
    pub limit: u64,
    /// Seed of the warp-role scheduler.
    pub seed: u64,
    pub checks: BTreeSet<Check>,
    /// The run fails after this time.
    pub deadline: Option<Instant>,
}

/// The result of a run.
pub struct Outcome {
    pub memory: Memory,
    /// The ranges of addresses that the program wrote, if checks ran.
    pub written: Vec<(u64, u64)>,
    /// The findings of `--check`.
    pub findings: Vec<Diagnostic>,
    /// The fault that ended the run early.
    pub failure: Option<Box<Diagnostic>>,
}

/// Runs a program. `needs_interleaving`: tile blocks may wait for each other.
pub(crate) fn run<P: Program>(
    program: &P,
    region: Region,
    types: &[Elem],
    needs_interleaving: bool,
    request: &Request,
    mut memory: Memory,
    watch: Watch,
    print: &mut dyn FnMut(&str),
    observer: &mut dyn Observer,
) -> Result<Outcome> {
    let bits = |(value, ty): (&i64, &Elem)| Value::Tile(Tile::scalar(*ty, *value as u64 & ty.carrier().mask()));
    let values = request.values.iter().zip(types).map(bits).collect();
    let turns = needs_interleaving || observer.is_active();
    let blocks = Blocks::new(request.grid, request.blocks.clone(), program.ranks());
    let job = Job {
        program,
        region,
        arguments: values,
        blocks,
        limit: watch.limit,
        deadline: watch.deadline,
        seed: watch.seed,
        uses_clc: !observer.is_active(),
    };
    if !watch.checks.is_empty() {
        let mut world = Checked::new(memory, watch.checks, &request.uninitialised, &request.unwritten);
        let result = job.interleaved(&mut world, |world| world.memory().changes, print, observer);
        let findings = world.diagnostics(program.debug());
        return Ok(Outcome { findings, failure: result.err(), written: world.written(), memory: world.into_memory() });
    }
    let failure = if turns {
        let mut world = SharedWorld::new(memory);
        let result = job.interleaved(&mut world, changes, print, observer);
        memory = world.memory;
        result.err()
    } else {
        job.in_parallel(&mut memory, print).err()
    };
    Ok(Outcome { memory, written: Vec::new(), findings: Vec::new(), failure })
}
