//! The passes from `.as` to `.sched`. `analysis` only decides, `materialize` only rewrites; a file that already has a phase
//! behind it, perhaps edited by hand, goes on from there.

mod alloc;
mod barriers;
mod hazards;
mod ordering;

use base::diag::Result;
use base::{Arena, File};
use common::Pass;
use sched::{FunctionAttrs, Module, Phase};

pub const PASSES: &[Pass<File<Module>>] = &[
    Pass { name: "analysis", run: |file| phase(file, Phase::Analysis, |_| Ok(())) },
    Pass { name: "alloc", run: |file| phase(file, Phase::Alloc, alloc::run) },
    Pass { name: "materialize", run: |file| phase(file, Phase::Materialize, barriers::run) },
];

/// The program as `tile-sched` finds it: nothing decided.
pub fn start(input: &File<tileas::Module>, producer: &str) -> File<Module> {
    let envelope = input.envelope.next::<Module>("start", producer);
    let tileas::Module { layouts, globals, functions } = input.payload.clone();
    let functions = functions.into_iter().map(|function| {
        let attrs = FunctionAttrs { program: function.attrs, schedules: Vec::new(), placements: Arena::new(), shared_bytes: 0 };
        let base::text::Function { name, loc, region, body, .. } = function;
        sched::Function { name, attrs, loc, region, body: body.map_ops(sched::Op::Core) }
    });
    File { envelope, payload: Module { layouts, globals, functions: functions.collect() } }
}

/// Runs a phase unless the file has it behind it.
fn phase(file: &mut File<Module>, phase: Phase, run: fn(&mut File<Module>) -> Result<()>) -> Result<()> {
    let reached = Phase::of(&file.envelope);
    if reached.is_some_and(|reached| reached >= phase) {
        return Ok(());
    }
    run(file)?;
    file.envelope.phase = phase.name().into();
    Ok(())
}
