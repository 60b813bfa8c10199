//! Estimates the code size of a kernel and rejects kernels that are too large.
//! Each op adds about one instruction per register of its tile. A program of a few lines can therefore need more code than LLVM
//! and ptxas compile in hours.

use super::Emitter;
use base::diag::{Diagnostic, Result};
use base::ir::{Op as OpId, Operation};
use core_dialect::core_ops::Core;
use sched::Op;

/// Upper bound on the estimated number of instructions of a kernel.
const MAX_INSTRUCTIONS: u64 = 1 << 18;
/// Instructions per element of an op that takes more than one instruction.
const INSTRUCTIONS_PER_LONG_OP: u64 = 8;

/// The estimated number of instructions emitted so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size(u64);

impl Emitter<'_, '_> {
    /// Adds the size of an op to the estimate.
    pub(super) fn add_to_size_estimate(&mut self, op: OpId) -> Result<()> {
        let node = &self.function.body.ops[op];
        let mut registers = node.results.iter().map(|result| self.layout(*result).registers() as u64).max().unwrap_or(1);
        node.kind.for_each_operand(&mut |operand| registers = registers.max(self.layout(operand).registers() as u64));
        let work = match &node.kind {
            Op::Core(tileas::Op::Core(Core::Unary { .. } | Core::Convert { .. })) => INSTRUCTIONS_PER_LONG_OP,
            _ => 1,
        };
        self.size.0 += registers * work;
        if self.size.0 <= MAX_INSTRUCTIONS {
            return Ok(());
        }
        let what = match node.results.first() {
            Some(result) => format!(" of type {}", base::text::TypeText::print(self.function.body.ty(*result))),
            None => String::new(),
        };
        let message = format!(
            "the code is too large: op '{}'{what} raises it above {MAX_INSTRUCTIONS} instructions per thread; use smaller tiles",
            node.kind.mnemonic()
        );
        Err(Diagnostic::unsupported("PX008", message))
    }
}
