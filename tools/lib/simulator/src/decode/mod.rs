//! Decodes one kernel of a parsed PTX module to a program that the simulator executes.
//!
//! This file selects the kernel and passes each instruction to the submodule of its instruction family. `builder` resolves names.

mod arith;
mod builder;
mod bulk;
mod carry;
mod compare;
mod control;
mod convert;
mod float;
mod launch;
mod matrix;
mod memory;
mod tcgen05;
mod wgmma;

pub use builder::{LaunchSizes, VariableAddresses};

use crate::fault::{Fault, Result};
use crate::program::{GlobalVariable, Op, Program};
use builder::Builder;
use ptx::{Function, Instruction, Item, Modifier, Module, Statement};

/// Decodes the kernel with the name `entry`. With `None`, decodes the only kernel of the module.
pub fn decode(module: &Module, entry: Option<&str>, sizes: LaunchSizes) -> Result<Program> {
    decode_with_variables(module, entry, sizes, &VariableAddresses::new())
}

/// Decodes a kernel as [`decode`] does. The caller selects the addresses of the module's variables.
pub fn decode_with_variables(
    module: &Module,
    entry: Option<&str>,
    sizes: LaunchSizes,
    addresses: &VariableAddresses,
) -> Result<Program> {
    let entries: Vec<&Function> = module
        .items
        .iter()
        .filter_map(|item| match item {
            Item::Function(function) if function.entry && function.body.is_some() => Some(function),
            _ => None,
        })
        .collect();
    let function = match (entry, &*entries) {
        (None, [only]) => only,
        (None, []) => return Err(Fault::new("SIM002", "the file has no kernel")),
        (None, _) => return Err(Fault::usage("SIM004", format!("select a kernel with --entry: {}", entry_names(&entries)))),
        (Some(name), _) => entries.iter().find(|function| function.name == name).ok_or_else(|| {
            Fault::usage("SIM004", format!("no kernel is named '{name}'; the file has: {}", entry_names(&entries)))
        })?,
    };
    let mut builder = Builder::new(module, function, sizes, addresses)?;
    builder.decode_block(function.body.as_deref().unwrap_or_default())?;
    builder.finish(function)
}

/// Returns the module's variables in global and constant memory with their initial contents. `addresses` selects their addresses.
pub fn module_variables(module: &Module, addresses: &VariableAddresses) -> Result<Vec<GlobalVariable>> {
    Builder::of_module(module, LaunchSizes::default(), addresses).map(Builder::into_variables)
}

/// Returns the names of kernels for messages.
fn entry_names(entries: &[&Function]) -> String {
    entries.iter().map(|function| function.name.as_str()).collect::<Vec<_>>().join(", ")
}

impl Builder<'_> {
    /// Decodes the statements of a block. A block is a scope: its names are visible only inside it.
    pub(super) fn decode_block(&mut self, statements: &[Statement]) -> Result<()> {
        self.open_scope(statements);
        for statement in statements {
            match statement {
                Statement::Label { name, .. } => self.place_label(name)?,
                Statement::Registers { ty, names } => self.declare_registers(*ty, names),
                Statement::Variable(variable) => self.declare_variable(variable)?,
                Statement::Block(inner) => self.decode_block(inner)?,
                Statement::Instruction(instruction) => {
                    self.decode_instruction(instruction).map_err(|fault| fault.line(instruction.line.0))?
                }
                Statement::BranchTargets { name, targets } => self.declare_targets(name, targets),
                Statement::Location(_) | Statement::Pragma(_) | Statement::Prototype { .. } => {}
            }
        }
        self.close_scope();
        Ok(())
    }

    /// Decodes one instruction and emits its op.
    fn decode_instruction(&mut self, instruction: &Instruction) -> Result<()> {
        self.begin_instruction(instruction)?;
        let op = match self.decode_family(instruction)? {
            Some(op) => op,
            None => return Err(unsupported(instruction, "unknown form")),
        };
        self.emit(op);
        self.clear_guard();
        Ok(())
    }

    /// Passes an instruction to the decoder of each instruction family until one returns an op.
    fn decode_family(&mut self, instruction: &Instruction) -> Result<Option<Op>> {
        if let Some(op) = self.decode_carry(instruction)? {
            return Ok(Some(op));
        }
        if let Some(op) = self.decode_elementwise(instruction)? {
            return Ok(Some(op));
        }
        if let Some(op) = self.decode_control(instruction)? {
            return Ok(Some(op));
        }
        if let Some(op) = self.decode_async(instruction)? {
            return Ok(Some(op));
        }
        if let Some(op) = self.decode_launch(instruction)? {
            return Ok(Some(op));
        }
        if let Some(op) = self.decode_matrix(instruction)? {
            return Ok(Some(op));
        }
        if let Some(op) = self.decode_wgmma(instruction)? {
            return Ok(Some(op));
        }
        if let Some(op) = self.decode_tcgen05(instruction)? {
            return Ok(Some(op));
        }
        self.decode_memory(instruction)
    }
}

/// Returns the fault for an unsupported instruction.
fn unsupported(instruction: &Instruction, why: &str) -> Box<Fault> {
    Fault::unsupported(format!("'{}' is not supported: {why}", instruction.full_name()))
}

/// Returns a fault if an instruction has a modifier that is not in `known_modifiers`. Reason: decoding must not ignore a modifier.
fn check_modifiers(instruction: &Instruction, known_modifiers: &[&str]) -> Result<()> {
    for modifier in &instruction.modifiers {
        if let Modifier::Word(word) = modifier
            && !known_modifiers.contains(&&**word)
        {
            return Err(unsupported(instruction, &format!("unknown modifier '.{word}'")));
        }
    }
    Ok(())
}
