//! How much code a kernel makes: a tile is as many instructions in each thread as it has registers there, so that a program of a
//! few lines can request for more code than LLVM and ptxas could compile in hours. It is refused as soon as that is known.

use super::Emitter;
use base::diag::{Diagnostic, Result};
use base::ir::{Op as OpId, Operation};
use core_dialect::core_ops::Core;
use sched::Op;

/// Instructions of a kernel, roughly counted.
const MOST: u64 = 1 << 18;
/// What one element takes of ops that are more than an instruction.
const WORK: u64 = 8;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size(u64);

impl Emitter<'_, '_> {
    /// Counts an op.
    pub(super) fn grow(&mut self, op: OpId) -> Result<()> {
        let node = &self.function.body.ops[op];
        let mut registers = node.results.iter().map(|result| self.layout(*result).registers() as u64).max().unwrap_or(1);
        node.kind.for_each_operand(&mut |operand| registers = registers.max(self.layout(operand).registers() as u64));
        let work = match &node.kind {
            Op::Core(tileas::Op::Core(Core::Unary { .. } | Core::Convert { .. })) => WORK,
            _ => 1,
        };
        self.size.0 += registers * work;
        if self.size.0 <= MOST {
            return Ok(());
        }
        let what = match node.results.first() {
            Some(result) => format!(" of type {}", base::text::TypeText::print(self.function.body.ty(*result))),
            None => String::new(),
        };
        let message = format!(
            "the code is too large: with op '{}'{what} it has more than {MOST} instructions for each thread; smaller tiles make less",
            node.kind.mnemonic()
        );
        Err(Diagnostic::unsupported("PX008", message))
    }
}
