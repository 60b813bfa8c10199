//! Modules and functions of `.aa`, and the binding to the file envelope.

use crate::facts::ValueFacts;
use crate::{Op, Type};
use base::diag::Result;
use base::text::{Reader, print_function, read_function, to_text};
use base::{Envelope, Locations, Payload, Source};
pub use core_dialect::memory::Sharing;
pub use core_dialect::tile::Global;
use serde::{Deserialize, Serialize};

/// A kernel of `.aa`: its body and attributes.
pub type Function = base::text::Function<Op, Type, FunctionAttrs>;

/// The attributes of a function. Every function of `.aa` is a kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionAttrs {
    /// The hints of the program's author, in source order, each for a target or `default`. `tile-lower-as` selects the hint for its
    /// target.
    pub hints: Vec<Hint>,
    /// Whether the source program declares the kernel private.
    pub private: bool,
    /// The number of CTAs of a cluster that share a tile block; `None` if each CTA has a tile block of its own. `tile-lower-as`
    /// sets it.
    #[serde(default)]
    pub cluster: Option<u32>,
    /// The kinds of memory shared between devices to which the program's pointers may point, each kind once. Not every target
    /// supports such pointers.
    #[serde(default)]
    pub shares: Vec<Sharing>,
    /// The facts about values. The text form prints them as separate lines after the function.
    pub facts: Vec<ValueFacts>,
}

/// The hints of the program's author for a kernel on one target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hint {
    /// The name of a target, or `default` for all other targets.
    pub target: String,
    pub spec: KernelSpec,
}

/// A hint on the launch shape of a kernel. `None` leaves the choice to `tile-lower-as`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelSpec {
    /// The number of CTAs of a cluster.
    pub ctas_per_cluster: Option<u32>,
    /// The number of warps of a CTA that compute.
    pub worker_warps: Option<u32>,
    /// Resident CTAs per SM.
    pub occupancy: Option<u32>,
}

/// A module of `.aa`: the global variables and the kernels of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Module {
    /// The global variables of the program.
    pub globals: Vec<Global>,
    /// The kernels of the program.
    pub functions: Vec<Function>,
}

/// Renumbers the ids of a function in program order, also in its table of facts. Drops facts about unreachable values.
pub fn compact_with_facts(mut function: Function) -> Function {
    let mut facts = std::mem::take(&mut function.attrs.facts);
    let (mut compacted, new_ids) = base::text::compact_with_map(&function);
    facts.retain_mut(|known| match new_ids.get(known.value.0 as usize) {
        Some(Some(value)) => {
            known.value = *value;
            true
        }
        _ => false,
    });
    compacted.attrs.facts = facts;
    compacted
}

impl Payload for Module {
    const FORMAT: &'static str = "tileaa";
    const VERSION: u32 = 4;

    fn verify(&self, envelope: &Envelope) -> Result<()> {
        crate::verify::check_module(self, envelope)
    }

    fn print(&self, envelope: &Envelope, locations: Locations) -> String {
        let globals = self.globals.iter().map(|global| format!("global {}\n", to_text(global)));
        let functions = self.functions.iter().map(|function| {
            let attrs = FunctionAttrs { facts: Vec::new(), ..function.attrs.clone() };
            let facts = function.attrs.facts.iter().map(|known| format!("fact {}\n", to_text(known)));
            print_function(&Function { attrs, ..function.clone() }, &envelope.debug, locations) + &facts.collect::<String>()
        });
        globals.chain(functions).collect()
    }

    fn parse(source: Source<'_>, envelope: &mut Envelope) -> Result<Self> {
        let mut reader = Reader::new(source);
        let mut module = Module::default();
        while !reader.at_end() {
            if reader.accept("global") {
                module.globals.push(reader.value()?);
            } else {
                let mut function: Function = read_function(&mut reader, &envelope.debug)?;
                while reader.accept("fact") {
                    function.attrs.facts.push(reader.value()?);
                }
                module.functions.push(compact_with_facts(function));
            }
        }
        Ok(module)
    }
}
