//! Interface for observers of a run. The observer of `--trace` prints ops. The observer of the debugger stops at ops.

use crate::check_kind::Finding;
use crate::cta_state::{BlockPosition, CtaState};
use crate::kernel_memory::KernelMemory;
use crate::value::Value;
use base::diag::{Diagnostic, Result};
use base::{DebugInfo, Loc, Op, Value as Id};

/// Receives an event for each op. An error from an observer ends the run.
pub trait Observer {
    /// Returns whether the observer receives events. With an active observer, tile blocks run one after another in a fixed order.
    /// Otherwise, tile blocks that cannot synchronise run in parallel.
    fn is_active(&self) -> bool {
        true
    }
    /// Called before an op executes.
    fn before_op(&mut self, _moment: &Moment<'_>) -> Result<()> {
        Ok(())
    }
    /// Called after an op produced its results. A loop produces its results when it ends.
    fn after_op(&mut self, _moment: &Moment<'_>, _results: &[Value]) -> Result<()> {
        Ok(())
    }
    /// Called if an op fails, which ends the run. Further calls for the enclosing ops follow, innermost op first.
    fn op_failed(&mut self, _moment: &Moment<'_>, _error: &Diagnostic) {}
    /// Called at the end of a CTA.
    fn block_ended(&mut self, _block_position: BlockPosition) -> Result<()> {
        Ok(())
    }
}

/// The observer that receives no events.
#[derive(Clone, Copy, Debug)]
pub struct NoopObserver;

impl Observer for NoopObserver {
    fn is_active(&self) -> bool {
        false
    }
}

/// An op that is about to execute or has executed, with the state of its CTA.
pub struct Moment<'a> {
    pub op: Op,
    state: &'a CtaState,
    kernel_memory: &'a dyn KernelMemory,
    program: &'a dyn ObservedProgram,
}

impl<'a> Moment<'a> {
    pub(crate) fn new(
        op: Op,
        program: &'a dyn ObservedProgram,
        state: &'a CtaState,
        kernel_memory: &'a dyn KernelMemory,
    ) -> Moment<'a> {
        Moment { op, state, kernel_memory, program }
    }

    /// Returns the position of the CTA that executes the op.
    pub fn block_position(&self) -> BlockPosition {
        self.state.block_position
    }
    /// Returns the index of the current warp role; 0 in a program without warp roles.
    pub fn warp_role(&self) -> usize {
        self.state.warp_role
    }
    /// Returns the number of nested reductions that are running. 0 outside reduction bodies.
    pub fn reduction_depth(&self) -> u32 {
        self.state.reduction_depth
    }
    /// Returns the mnemonic of the op.
    pub fn mnemonic(&self) -> &'static str {
        self.program.mnemonic(self.op)
    }
    /// Returns the source location of the op.
    pub fn loc(&self) -> Loc {
        self.program.loc(self.op)
    }
    pub fn debug(&self) -> &DebugInfo {
        self.program.debug()
    }
    /// Returns the SSA values of the op's results.
    pub fn results(&self) -> &[Id] {
        self.program.results(self.op)
    }
    /// Returns the run-time value of an SSA value in display form. `None` before its definition.
    pub fn value(&self, id: Id) -> Option<Value> {
        self.state.defined_value(id).map(|value| self.program.display_value(id, value))
    }
    /// Converts a run-time value to display form: the complete tile instead of the registers of all threads.
    pub fn display_value(&self, id: Id, value: &Value) -> Value {
        self.program.display_value(id, value)
    }
    /// Reads bytes of memory. `--check` does not record this read.
    pub fn peek(&self, address: u64, out: &mut [u8]) -> Result<()> {
        self.kernel_memory.peek(address, out)
    }
    /// Returns the text that the CTA printed since the scheduler last collected its output.
    pub fn printed(&self) -> &str {
        &self.state.printed
    }
    /// Returns the findings of all tile blocks so far.
    pub fn findings(&self) -> &[Finding] {
        self.kernel_memory.findings()
    }
}

/// The program that an observer watches.
pub(crate) trait ObservedProgram {
    fn mnemonic(&self, op: Op) -> &'static str;
    fn loc(&self, op: Op) -> Loc;
    fn debug(&self) -> &DebugInfo;
    fn results(&self, op: Op) -> &[Id];
    fn display_value(&self, id: Id, value: &Value) -> Value;
}
