//! Runs a kernel of any format: selects the memory implementation and the order of tile blocks, and collects the outcome.

use crate::check::CheckedMemory;
use crate::check_kind::Check;
use crate::exec::Program;
use crate::exec::schedule::{BlockSelection, KernelRun, change_count};
use crate::kernel_memory::InterleavedMemory;
use crate::memory::Memory;
use crate::observe::Observer;
use crate::tile::Tile;
use crate::value::Value;
use base::Region;
use base::diag::{Diagnostic, Result};
use common::launch::Call;
use core_dialect::tile::Elem;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// A launch on memory that the caller provides.
pub struct LaunchRequest {
    /// Number of tile blocks along x, y and z.
    pub grid: [u32; 3],
    /// The tile blocks to run; `None` runs the full grid.
    pub blocks: Option<Vec<[u32; 3]>>,
    /// The arguments: integers sign-extended, floats as their bits, pointers as addresses.
    pub arguments: Vec<i64>,
    /// The names of the segments that are uninitialised before the run.
    pub uninitialised_segments: BTreeSet<String>,
    /// The address ranges of other segments that are uninitialised before the run, each with its start and its end.
    pub uninitialised_ranges: Vec<(u64, u64)>,
    /// The addresses of globals that are already in memory, by name. The run adds the other globals with their initial values.
    pub global_addresses: BTreeMap<String, u64>,
}

impl LaunchRequest {
    pub(crate) fn from_call(call: &Call) -> LaunchRequest {
        let without_contents = call.launch.buffers.iter().filter(|buffer| buffer.is_uninitialized());
        let uninitialised_segments = without_contents.map(|buffer| buffer.name.clone()).collect();
        LaunchRequest {
            grid: call.grid,
            blocks: call.blocks.clone(),
            arguments: call.values.clone(),
            uninitialised_segments,
            uninitialised_ranges: Vec::new(),
            global_addresses: BTreeMap::new(),
        }
    }
}

/// The limits, checks and seed of a run.
pub struct RunOptions {
    /// Maximum number of ops that each CTA executes.
    pub max_ops: u64,
    /// Seed of the interleaving of warp roles, and of the number of tile blocks that a CTA steals.
    pub seed: u64,
    pub checks: BTreeSet<Check>,
    /// The time after which the run fails. `None`: the run has no time limit.
    pub deadline: Option<Instant>,
}

/// The result of a run.
pub struct Outcome {
    pub memory: Memory,
    /// The address ranges that the program wrote, each with its start and its end. Empty without `--check`.
    pub written_ranges: Vec<(u64, u64)>,
    /// The findings of `--check`.
    pub findings: Vec<Diagnostic>,
    /// The fault that ended the run early. `None` if the kernel ran to its end.
    pub failure: Option<Box<Diagnostic>>,
}

/// The inputs of a run besides the program: the launch, the memory, the options, and the receivers of its output and events.
pub(crate) struct Execution<'a> {
    /// The types of the kernel's parameters.
    pub(crate) types: &'a [Elem],
    pub(crate) request: &'a LaunchRequest,
    pub(crate) memory: Memory,
    pub(crate) run_options: RunOptions,
    /// Receives the text that the program prints.
    pub(crate) print: &'a mut dyn FnMut(&str),
    pub(crate) observer: &'a mut dyn Observer,
}

/// Runs a region of a program. `needs_interleaving` states that tile blocks may synchronise with each other, so they must run in
/// turns.
pub(crate) fn run<P: Program>(program: &P, region: Region, needs_interleaving: bool, execution: Execution<'_>) -> Result<Outcome> {
    let Execution { types, request, mut memory, run_options, print, observer } = execution;
    let scalar_value = |(bits, ty): (&i64, &Elem)| Value::Tile(Tile::scalar(*ty, *bits as u64 & ty.carrier().mask()));
    let arguments = request.arguments.iter().zip(types).map(scalar_value).collect();
    let blocks = BlockSelection::new(request.grid, request.blocks.clone(), program.ctas_per_tile_block());
    let kernel_run = KernelRun {
        program,
        region,
        arguments,
        blocks,
        max_ops: run_options.max_ops,
        deadline: run_options.deadline,
        seed: run_options.seed,
        uses_clc: !observer.is_active(),
    };
    if !run_options.checks.is_empty() {
        let mut kernel_memory =
            CheckedMemory::new(memory, run_options.checks, &request.uninitialised_segments, &request.uninitialised_ranges);
        let result =
            kernel_run.run_interleaved(&mut kernel_memory, |kernel_memory| kernel_memory.memory().change_count, print, observer);
        let findings = kernel_memory.diagnostics(program.debug());
        return Ok(Outcome {
            findings,
            failure: result.err(),
            written_ranges: kernel_memory.written_ranges(),
            memory: kernel_memory.into_memory(),
        });
    }
    let failure = if needs_interleaving || observer.is_active() {
        let mut kernel_memory = InterleavedMemory::new(memory);
        let result = kernel_run.run_interleaved(&mut kernel_memory, change_count, print, observer);
        memory = kernel_memory.memory;
        result.err()
    } else {
        kernel_run.run_in_parallel(&mut memory, print).err()
    };
    Ok(Outcome { memory, written_ranges: Vec::new(), findings: Vec::new(), failure })
}
