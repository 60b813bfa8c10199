//! The binding of modules to the file envelope: verification, text form and version.

use crate::hazard_checker;
use crate::module::{Function, Module, parse_schedule};
use crate::verify;
use base::diag::Result;
use base::text::{Reader, print_function, read_function, to_text};
use base::{Envelope, File, Locations, Payload, Source};
use serde::{Deserialize, Serialize};

/// A module whose hazards are not checked. The verifier checks all other rules. Tools that must read a file with hazards use this
/// type, for example to display the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UncheckedModule(pub Module);

impl UncheckedModule {
    pub fn into_module_file(file: File<UncheckedModule>) -> File<Module> {
        File { envelope: file.envelope, payload: file.payload.0 }
    }
}

impl Payload for UncheckedModule {
    const FORMAT: &'static str = Module::FORMAT;
    const VERSION: u32 = Module::VERSION;

    fn verify(&self, envelope: &Envelope) -> Result<()> {
        verify::check_structure(&self.0, envelope).map(drop)
    }
    fn print(&self, envelope: &Envelope, locations: Locations) -> String {
        self.0.print(envelope, locations)
    }
    fn parse(source: Source<'_>, envelope: &mut Envelope) -> Result<Self> {
        Module::parse(source, envelope).map(UncheckedModule)
    }
}

impl Payload for Module {
    const FORMAT: &'static str = "sched";
    const VERSION: u32 = 7;

    fn verify(&self, envelope: &Envelope) -> Result<()> {
        let phase = verify::check_structure(self, envelope)?;
        hazard_checker::check_module(self, phase, envelope)
    }

    fn print(&self, envelope: &Envelope, locations: Locations) -> String {
        let layouts = tileas::module::print_layouts(&self.layouts);
        let globals = self.globals.iter().map(|global| format!("global {}\n", to_text(global)));
        let functions = self
            .functions
            .iter()
            .map(|function| print_function(function, &envelope.debug, locations) + &self.print_schedules(function));
        layouts.into_iter().chain(globals).chain(functions).collect()
    }

    fn parse(source: Source<'_>, envelope: &mut Envelope) -> Result<Self> {
        let mut reader = Reader::new(source);
        let mut module = Module::default();
        while !reader.at_end() {
            if reader.accept("layout") {
                tileas::module::parse_layout(&mut reader, &mut module.layouts)?;
            } else if reader.accept("global") {
                module.globals.push(reader.value()?);
            } else if reader.accept("schedule") {
                let Some(function) = module.functions.last() else {
                    return Err(reader.error("a schedule stands after its function"));
                };
                module.schedules.push(parse_schedule(&mut reader, &function.name)?);
            } else {
                let function: Function = read_function(&mut reader, &envelope.debug)?;
                module.functions.push(base::text::compact(&function));
            }
        }
        Ok(module)
    }
}
