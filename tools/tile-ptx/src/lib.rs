//! From a scheduled program to PTX: [`emit`] writes LLVM IR op by op, [`optimize`] runs a short fixed list of passes and the
//! NVPTX back end, [`finish`] adds to the text what LLVM cannot print.

mod emit;
mod finish;
mod ir;
mod kernel;
mod libdevice;
mod lines;
mod optimize;

use base::File;
use base::diag::{Diagnostic, Result};
use inkwell::context::Context;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Emit {
    Ptx,
    LlvmIr,
}

/// The PTX of a program, or the LLVM IR it is made from.
pub fn generate(input: &File<sched::Module>, producer: &str, emit: Emit) -> Result<String> {
    let envelope = &input.envelope;
    if sched::Phase::of(envelope) != Some(sched::Phase::Materialize) {
        let message = format!("the schedule is only at phase '{}'; run tile-sched on the file to finish it", envelope.phase);
        return Err(Diagnostic::invalid("PX001", message));
    }
    let target = envelope.target()?;
    let context = Context::create();
    let machine = optimize::machine(target, envelope.options.opt_level())?;
    let module = kernel::emit_module(&context, &input.payload, envelope, &machine)?;
    libdevice::link(&module)?;
    optimize::run(&module, &machine, envelope.options.opt_level())?;
    match emit {
        Emit::LlvmIr => Ok(module.print_to_string().to_string()),
        Emit::Ptx => finish::finish(&optimize::print(&module, &machine)?, &input.payload, envelope, producer),
    }
}
