//! Running a kernel of any format on its arguments.

use crate::arguments::{Arguments, bits};
use crate::check::{Check, Checked};
use crate::exec::Program;
use crate::exec::schedule::{Job, changes};
use crate::memory::Memory;
use crate::tile::Tile;
use crate::trace::Trace;
use crate::value::Value;
use crate::world::Shared;
use base::Region;
use base::diag::{Diagnostic, Result};
use std::collections::BTreeSet;
use vocabulary::tile::Elem;

/// How to watch the run.
pub(crate) struct Watch {
    /// Ops that a block may execute.
    pub(crate) limit: u64,
    pub(crate) trace: Option<Trace>,
    pub(crate) checks: BTreeSet<Check>,
}

/// What a run leaves.
pub(crate) struct Outcome {
    pub(crate) memory: Memory,
    /// What `--check` found.
    pub(crate) findings: Vec<Diagnostic>,
    /// The failure that ended the run before its end.
    pub(crate) failure: Option<Box<Diagnostic>>,
}

/// `in_turns` says that blocks may wait for each other.
pub(crate) fn run<P: Program>(
    program: &P,
    region: Region,
    types: &[Elem],
    in_turns: bool,
    arguments: &Arguments,
    mut memory: Memory,
    watch: Watch,
    print: &mut dyn FnMut(&str),
) -> Result<Outcome> {
    let launch = &arguments.launch;
    if launch.params.len() != types.len() {
        let message = format!("{} arguments for a kernel of {} parameters", launch.params.len(), types.len());
        return Err(Diagnostic::invalid("RUN063", message));
    }
    let values = launch.params.iter().zip(types).map(|(param, ty)| Ok(Value::Tile(Tile::scalar(*ty, bits(param, *ty, launch)?))));
    let values = values.collect::<Result<Vec<_>>>()?;
    let turns = in_turns || watch.trace.is_some();
    let job = Job { program, region, arguments: values, grid: launch.grid, limit: watch.limit, trace: watch.trace };
    if !watch.checks.is_empty() {
        let mut world = Checked::new(memory, watch.checks, &arguments.empty);
        let result = job.in_turns(&mut world, |world| world.memory().changes, print);
        let findings = world.diagnostics(program.debug());
        return Ok(Outcome { findings, failure: result.err(), memory: world.into_memory() });
    }
    let failure = if turns {
        let mut world = Shared::new(memory);
        let result = job.in_turns(&mut world, changes, print);
        memory = world.memory;
        result.err()
    } else {
        job.together(&mut memory, print).err()
    };
    Ok(Outcome { memory, findings: Vec::new(), failure })
}
