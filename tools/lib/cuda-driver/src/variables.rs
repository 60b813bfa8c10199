//! Variables of modules. A variable is in device memory while its module is loaded, so that its contents persist between launches.

use crate::allocations::{Allocations, MemoryKind};
use crate::program_source::Source;
use crate::status::{Result, Status, failure_from, status_of_fault};
use std::collections::BTreeMap;

/// A variable of a loaded module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variable {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
}

/// The variables of a module, by name.
#[derive(Debug, Default)]
pub(crate) struct Variables(BTreeMap<String, Variable>);

impl Variables {
    /// Allocates the variables of a program. `capacity` is the size of the device memory in bytes.
    pub(crate) fn allocate(source: &Source, allocations: &mut Allocations, capacity: u64) -> Result<Variables> {
        let mut variables = Variables::default();
        let allocated = match source {
            Source::Program(input) => {
                let mut globals = input.globals().into_iter();
                globals.try_for_each(|global| variables.add(&global.name, &global.data, global.constant, allocations, capacity))
            }
            Source::Ptx { module, text } => variables.add_ptx(module, text, allocations, capacity),
        };
        if allocated.is_err() {
            variables.free(allocations);
        }
        allocated.map(|()| variables)
    }

    /// Allocates the variables of a PTX module. The initial contents can have addresses of variables, so the contents follow when
    /// all addresses are known.
    fn add_ptx(&mut self, module: &ptx::Module, text: &str, allocations: &mut Allocations, capacity: u64) -> Result<()> {
        let failure = |fault: Box<simulator::Fault>| {
            let diagnostic = fault.diagnostic("the module's PTX", text);
            failure_from(status_of_fault(&diagnostic), &diagnostic)
        };
        for variable in simulator::module_variables(module, &self.addresses()).map_err(failure)? {
            self.add(&variable.name, &variable.data, false, allocations, capacity)?;
        }
        for variable in simulator::module_variables(module, &self.addresses()).map_err(failure)? {
            if let Some(placed) = self.find(&variable.name) {
                allocations.set_variable_data(placed.address, &variable.data);
            }
        }
        Ok(())
    }

    fn add(&mut self, name: &str, data: &[u8], constant: bool, allocations: &mut Allocations, capacity: u64) -> Result<()> {
        // A variable without bytes has no contents that could persist.
        if !data.is_empty() && !self.0.contains_key(name) {
            let address = allocations.allocate_variable(name, data, constant, capacity)?;
            self.0.insert(name.into(), Variable { address, bytes: data.len() as u64 });
        }
        Ok(())
    }

    /// Frees the variables when their module is unloaded.
    pub(crate) fn free(&self, allocations: &mut Allocations) {
        for variable in self.0.values() {
            // The client cannot free a variable, so the allocation exists.
            let _ = allocations.free(variable.address, &[MemoryKind::Variable]);
        }
    }

    /// Returns the variable with this name.
    pub(crate) fn find(&self, name: &str) -> Option<Variable> {
        self.0.get(name).copied()
    }

    /// Returns the names, for messages.
    pub(crate) fn names(&self) -> String {
        self.0.keys().map(String::as_str).collect::<Vec<&str>>().join(", ")
    }

    /// Returns the addresses by name.
    pub(crate) fn addresses(&self) -> BTreeMap<String, u64> {
        self.0.iter().map(|(name, variable)| (name.clone(), variable.address)).collect()
    }

    /// Returns the variable with this name, or an error that lists the variables of the module.
    pub(crate) fn require(&self, name: &str) -> Result<Variable> {
        let missing = || Status::NotFound.because(format!("no variable is named '{name}'; the module has: {}", self.names()));
        self.find(name).ok_or_else(missing)
    }
}
