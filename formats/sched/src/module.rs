//! Modules and functions of `.sched`, and the binding to the file envelope.

use crate::Op;
use base::diag::Result;
use base::text::{Reader, print_function, read_function, to_text};
use base::tile::Global;
use base::{Arena, Envelope, Payload};
use serde::{Deserialize, Serialize};
use tileas::layout::{Layout, LayoutId};
use tileas::{Buffer, Type};

pub type Function = base::text::Function<Op, Type, FunctionAttrs>;

/// How far the scheduler got; only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Analysis,
    Alloc,
    Materialize,
}

impl Phase {
    pub const ALL: [Phase; 3] = [Phase::Analysis, Phase::Alloc, Phase::Materialize];

    pub fn name(self) -> &'static str {
        match self {
            Phase::Analysis => "analysis",
            Phase::Alloc => "alloc",
            Phase::Materialize => "materialize",
        }
    }
    pub fn of(envelope: &Envelope) -> Option<Phase> {
        Self::ALL.into_iter().find(|phase| phase.name() == envelope.phase)
    }
}

/// Where a buffer lies in the function's shared (or tensor) memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    pub offset: u32,
    /// Slots of the ring; 1 for a plain buffer.
    pub depth: u32,
}

/// Where an op of a pipelined loop's body runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Position of the op in the loop body.
    pub op: u32,
    pub stage: u32,
    /// Cycle within the initiation interval.
    pub cycle: u32,
}

/// The schedule of one loop: every op of its body once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopSchedule {
    /// Which `for` of the function, in program order.
    pub index: u32,
    /// Cycles between the starts of two iterations, and its lower bounds by resources and by recurrences.
    pub interval: u32,
    pub resource_bound: u32,
    pub recurrence_bound: u32,
    pub slots: Vec<Slot>,
}

/// What is known of a kernel besides its body.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionAttrs {
    pub program: tileas::FunctionAttrs,
    pub schedules: Vec<LoopSchedule>,
    /// One per buffer, from phase alloc on.
    pub placements: Arena<Buffer, Placement>,
    /// Bytes of shared memory, from phase alloc on.
    pub shared_bytes: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Module {
    pub layouts: Arena<LayoutId, Layout>,
    pub globals: Vec<Global>,
    pub functions: Vec<Function>,
}

impl Module {
    pub fn layout_of(&self, ty: &Type) -> Option<&Layout> {
        ty.layout().map(|id| &self.layouts[id])
    }
}

impl Payload for Module {
    const FORMAT: &'static str = "sched";
    const VERSION: u32 = 1;

    fn verify(&self, envelope: &Envelope) -> Result<()> {
        crate::verify::module(self, envelope)
    }

    fn print(&self, _: &Envelope) -> String {
        let layouts = self.layouts.values().map(|layout| format!("layout {}\n", to_text(layout)));
        let globals = self.globals.iter().map(|global| format!("global {}\n", to_text(global)));
        let functions = self.functions.iter().map(print_function);
        layouts.chain(globals).chain(functions).collect()
    }

    fn parse(text: &str, name: &str, first_line: u32, envelope: &mut Envelope) -> Result<Self> {
        let mut reader = Reader::new(text, name, first_line);
        let mut module = Module::default();
        while !reader.at_end() {
            if reader.eat("layout") {
                module.layouts.push(reader.value()?);
            } else if reader.eat("global") {
                module.globals.push(reader.value()?);
            } else {
                let function: Function = read_function(&mut reader, &envelope.debug)?;
                module.functions.push(base::text::compact(&function));
            }
        }
        Ok(module)
    }
}
