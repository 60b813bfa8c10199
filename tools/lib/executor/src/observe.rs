//! Watching a run op by op: what `--trace` prints of it, and where a debugger stops it.

use crate::check::Finding;
use crate::exec::{BlockPosition, Program, State};
use crate::value::Value;
use crate::world::World;
use base::diag::{Diagnostic, Result};
use base::ir::Operation;
use base::{DebugInfo, Loc, Op, Value as Id};

/// Who is told of each op. An error that it returns ends the run.
pub trait Observer {
    /// Whether it wants to be told. What nobody watches runs faster, many blocks at the same time; what somebody watches runs one
    /// block after the other, always in the same order.
    fn is_active(&self) -> bool {
        true
    }
    /// The op is executed next.
    fn before(&mut self, _moment: &Moment<'_>) -> Result<()> {
        Ok(())
    }
    /// The op has given its results; a loop gives them when it ends.
    fn after(&mut self, _moment: &Moment<'_>, _results: &[Value]) -> Result<()> {
        Ok(())
    }
    /// The op cannot be executed, which ends the run. Ops around it, whose bodies it is in, are told of after it.
    fn failed(&mut self, _moment: &Moment<'_>, _error: &Diagnostic) {}
    /// A block is at its end.
    fn ended(&mut self, _place: BlockPosition) -> Result<()> {
        Ok(())
    }
}

/// Does not watch.
#[derive(Clone, Copy, Debug)]
pub struct NoopObserver;

impl Observer for NoopObserver {
    fn is_active(&self) -> bool {
        false
    }
}

/// Where a run is, and everything that can be seen there.
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
    /// The warp_role that runs, of a program that has some.
    pub fn warp_role(&self) -> usize {
        self.state.warp_role
    }
    /// How many bodies of reductions are being run inside each other.
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
    /// A value as a person wants to see it; none before it is computed.
    pub fn value(&self, id: Id) -> Option<Value> {
        self.state.known(id).map(|value| self.program.shown(id, value))
    }
    /// A value that was just computed, likewise.
    pub fn shown(&self, id: Id, value: &Value) -> Value {
        self.program.shown(id, value)
    }
    /// Bytes of memory; looking at them is no access.
    pub fn peek(&self, address: u64, out: &mut [u8]) -> Result<()> {
        self.world.peek(address, out)
    }
    /// What the block has printed in its turn.
    pub fn printed(&self) -> &str {
        &self.state.printed
    }
    /// What was found so far, in all blocks, of what the run is checked for.
    pub fn findings(&self) -> &[Finding] {
        self.world.findings()
    }
}

/// A program of any format, as far as who watches it asks.
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
