//! Observers of a run: `--trace` prints ops, and a debugger stops at them.

use crate::check::Finding;
use crate::exec::{BlockPosition, Program, State};
use crate::value::Value;
use crate::world::World;
use base::diag::{Diagnostic, Result};
use base::ir::Operation;
use base::{DebugInfo, Loc, Op, Value as Id};

/// Receives an event for each op. An error from an observer ends the run.
pub trait Observer {
    /// Returns whether the observer wants events. Without an active observer, tile blocks run in parallel. With one, they run one
    /// after another in a fixed order.
    fn is_active(&self) -> bool {
        true
    }
    /// Called before an op executes.
    fn before(&mut self, _moment: &Moment<'_>) -> Result<()> {
        Ok(())
    }
    /// Called after an op produced its results. A loop produces them when it ends.
    fn after(&mut self, _moment: &Moment<'_>, _results: &[Value]) -> Result<()> {
        Ok(())
    }
    /// Called if an op fails, which ends the run. The enclosing ops are reported after it, innermost first.
    fn failed(&mut self, _moment: &Moment<'_>, _error: &Diagnostic) {}
    /// Called at the end of a tile block.
    fn ended(&mut self, _place: BlockPosition) -> Result<()> {
        Ok(())
    }
}

/// The inactive observer.
#[derive(Clone, Copy, Debug)]
pub struct NoopObserver;

impl Observer for NoopObserver {
    fn is_active(&self) -> bool {
        false
    }
}

/// A point in a run, with the state that is visible there.
pub struct Moment<'a> {
    pub op: Op,
    state: &'a State,
    world: &'a dyn World,
    program: &'a dyn Watched,
}

impl<'a> Moment<'a> {
    pub(crate) fn new<P: Program>(op: Op, program: &'a P, state: &'a State, world: &'a dyn World) -> Moment<'a> {
        Moment { op, state, world, program }
    }

    pub fn block_position(&self) -> BlockPosition {
        self.state.block_position
    }
    /// The current warp role, in a program that has warp roles.
    pub fn warp_role(&self) -> usize {
        self.state.warp_role
    }
    /// Nesting depth of the reduction bodies that are running.
    pub fn bodies(&self) -> u32 {
        self.state.depth
    }
    pub fn mnemonic(&self) -> &'static str {
        self.program.mnemonic(self.op)
    }
    pub fn loc(&self) -> Loc {
        self.program.loc(self.op)
    }
    pub fn debug(&self) -> &DebugInfo {
        self.program.debug()
    }
    pub fn results(&self) -> &[Id] {
        self.program.results(self.op)
    }
    /// Returns a value in display form, or `None` before its definition.
    pub fn value(&self, id: Id) -> Option<Value> {
        self.state.defined_value(id).map(|value| self.program.shown(id, value))
    }
    /// Converts a result to display form.
    pub fn shown(&self, id: Id, value: &Value) -> Value {
        self.program.shown(id, value)
    }
    /// Reads bytes of memory. The checker does not count it as an access.
    pub fn peek(&self, address: u64, out: &mut [u8]) -> Result<()> {
        self.world.peek(address, out)
    }
    /// Returns the text that the CTA printed in its current turn.
    pub fn printed(&self) -> &str {
        &self.state.printed
    }
    /// Returns the findings of all tile blocks so far.
    pub fn findings(&self) -> &[Finding] {
        self.world.findings()
    }
}

/// The object-safe part of [`Program`] that observers need.
trait Watched {
    fn mnemonic(&self, op: Op) -> &'static str;
    fn loc(&self, op: Op) -> Loc;
    fn debug(&self) -> &DebugInfo;
    fn results(&self, op: Op) -> &[Id];
    fn shown(&self, id: Id, value: &Value) -> Value;
}

impl<P: Program> Watched for P {
    fn mnemonic(&self, op: Op) -> &'static str {
        self.body().ops[op].kind.mnemonic()
    }
    fn loc(&self, op: Op) -> Loc {
        self.body().ops[op].loc
    }
    fn debug(&self) -> &DebugInfo {
        Program::debug(self)
    }
    fn results(&self, op: Op) -> &[Id] {
        &self.body().ops[op].results
    }
    fn shown(&self, id: Id, value: &Value) -> Value {
        Program::shown(self, id, value)
    }
}
