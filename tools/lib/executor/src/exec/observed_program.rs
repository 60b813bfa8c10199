//! Every program can be observed.

use super::Program;
use crate::observe::ObservedProgram;
use crate::value::Value;
use base::ir::Operation;
use base::{DebugInfo, Loc, Op, Value as Id};

impl<P: Program> ObservedProgram for P {
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
    fn display_value(&self, id: Id, value: &Value) -> Value {
        Program::display_value(self, id, value)
    }
}
