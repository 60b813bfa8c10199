//! Lowers a scheduled program to PTX.
//! [`emit`] emits LLVM IR op by op, and [`optimize`] runs a short fixed list of LLVM passes and the NVPTX back end.
//! [`list_schedule`] and [`interleave`] reorder instructions. The first lowers the register pressure; the second makes execution
//! units work in parallel. [`finish`] adds the directives that LLVM cannot print, and [`ptx_peephole`] simplifies branches in the
//! PTX text.

mod block_dag;
mod debug_info;
mod emit;
mod finish;
mod interleave;
mod ir;
mod kernel;
mod libdevice;
mod list_schedule;
mod optimize;
mod ptx_peephole;

use base::File;
use base::diag::{Diagnostic, Result};
use common::Session;
use inkwell::context::Context;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Emit {
    Ptx,
    LlvmIr,
}

/// Returns the PTX of a program, or its LLVM IR if `emit` requests it or `session` stops at an earlier pass.
pub fn generate(input: &File<sched::Module>, session: &mut Session, emit: Emit) -> Result<String> {
    let envelope = &input.envelope;
    if !sched::Phase::from_envelope(envelope).is_some_and(sched::Phase::is_complete) {
        let message = format!("the schedule is only at phase '{}'; run tile-sched on the file to finish it", envelope.phase);
        return Err(Diagnostic::invalid("PX001", message));
    }
    let (target, opt_level) = (envelope.target()?, envelope.options.opt_level());
    let context = Context::create();
    let target_machine = optimize::target_machine(target, opt_level)?;
    let module = session.timed("emit", |_| kernel::emit_module(&context, &input.payload, envelope, &target_machine))?;
    let ir = || module.print_to_string().to_string();
    session.passed("emit", ir);
    if session.stopped() {
        return Ok(ir());
    }
    session.timed("optimize", |_| {
        libdevice::link(&module)?;
        optimize::run(&input.payload, &module, &target_machine, opt_level)?;
        list_schedule::run(&module, &context.create_builder())?;
        if opt_level > 0 {
            interleave::run(&module, target, &context.create_builder());
        }
        Ok::<(), Box<Diagnostic>>(())
    })?;
    session.passed("optimize", ir);
    if emit == Emit::LlvmIr || session.stopped() {
        return Ok(ir());
    }
    let text = session.timed("print", |_| optimize::print_ptx(&module, &target_machine))?;
    session.passed("print", || text.clone());
    finish::complete_ptx(&text, &input.payload, envelope, &session.producer())
}
