//! Estimates the code size of a kernel and rejects kernels that are too large.
//! Each op adds about one instruction per register of its tile. The code of a program of a few lines can therefore be so large that
//! LLVM and ptxas take hours to compile it.

use super::Emitter;
use base::diag::{Diagnostic, ResourceKind, Result};
use base::ir::{Op as OpId, Operation};
use core_dialect::core_ops::Core;
use sched::Op;

/// Maximum estimated number of instructions of a kernel, in one thread.
const MAX_INSTRUCTIONS: u64 = 1 << 18;
/// Estimated instructions per element of a unary op or a conversion; all other ops count as one.
const INSTRUCTIONS_PER_LONG_OP: u64 = 8;

/// The estimated number of instructions emitted so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SizeEstimate(u64);

impl Emitter<'_, '_> {
    /// Adds the size of an op to the estimate, and rejects the kernel if the estimate exceeds `MAX_INSTRUCTIONS`.
    pub(super) fn add_to_size_estimate(&mut self, op: OpId) -> Result<()> {
        let node = &self.function.body.ops[op];
        let mut register_count = node.results.iter().map(|result| self.layout(*result).registers() as u64).max().unwrap_or(1);
        node.kind.for_each_operand(&mut |operand| register_count = register_count.max(self.layout(operand).registers() as u64));
        let instructions_per_register = match &node.kind {
            Op::Core(tileas::Op::Core(Core::Unary { .. } | Core::Convert { .. })) => INSTRUCTIONS_PER_LONG_OP,
            _ => 1,
        };
        self.size_estimate.0 += register_count * instructions_per_register;
        if self.size_estimate.0 <= MAX_INSTRUCTIONS {
            return Ok(());
        }
        let type_text = match node.results.first() {
            Some(result) => format!(" of type {}", base::text::TypeText::print(self.function.body.ty(*result))),
            None => String::new(),
        };
        let message = format!(
            "the code is too large: op '{}'{type_text} raises it above {MAX_INSTRUCTIONS} instructions per thread; use smaller tiles",
            node.kind.mnemonic()
        );
        Err(Diagnostic::unsupported("PX008", message).exceeds(ResourceKind::Instructions, self.size_estimate.0, MAX_INSTRUCTIONS))
    }
}
