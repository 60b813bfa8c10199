//! Lowers a parsed module to the program of one entry.
//!
//! This file resolves names; the submodules decode the instruction families.

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

pub use builder::Sizes;
pub(crate) use builder::{LOCAL_BASE, PARAM_BASE, SHARED_BASE, SHARED_START};
pub(crate) use launch::CANCELED;

use crate::fault::{Fault, Result};
use crate::program::{Op, Program};
use builder::Builder;
use ptx::{Function, Instruction, Item, Modifier, Module, Statement};

/// Decodes the named entry, or the only one.
pub fn decode(module: &Module, entry: Option<&str>, sizes: Sizes) -> Result<Program> {
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
        (None, _) => return Err(Fault::usage("SIM004", format!("select a kernel with --entry: {}", names(&entries)))),
        (Some(name), _) => entries
            .iter()
            .find(|function| function.name == name)
            .ok_or_else(|| Fault::usage("SIM004", format!("no kernel is named '{name}'; the file has: {}", names(&entries))))?,
    };
    let mut builder = Builder::new(module, function, sizes)?;
    builder.block(function.body.as_deref().unwrap_or_default())?;
    builder.finish()
}

fn names(entries: &[&Function]) -> String {
    entries.iter().map(|function| function.name.as_str()).collect::<Vec<_>>().join(", ")
}

impl Builder<'_> {
    pub(super) fn block(&mut self, statements: &[Statement]) -> Result<()> {
        self.enter(statements);
        for statement in statements {
            match statement {
                Statement::Label { name, .. } => self.place_label(name)?,
                Statement::Registers { ty, names } => self.declare_registers(*ty, names),
                Statement::Variable(variable) => self.declare_variable(variable)?,
                Statement::Block(inner) => self.block(inner)?,
                Statement::Instruction(instruction) => {
                    self.instruction(instruction).map_err(|fault| fault.line(instruction.line.0))?
                }
                Statement::BranchTargets { name, targets } => self.declare_targets(name, targets),
                Statement::Location(_) | Statement::Pragma(_) | Statement::Prototype { .. } => {}
            }
        }
        self.leave();
        Ok(())
    }

    fn instruction(&mut self, instruction: &Instruction) -> Result<()> {
        self.start(instruction)?;
        let op = match self.family(instruction)? {
            Some(op) => op,
            None => return Err(unsupported(instruction, "unknown form")),
        };
        self.emit(op);
        self.guard_none();
        Ok(())
    }

    fn family(&mut self, instruction: &Instruction) -> Result<Option<Op>> {
        if let Some(op) = self.with_carry(instruction)? {
            return Ok(Some(op));
        }
        if let Some(op) = self.arithmetic(instruction)? {
            return Ok(Some(op));
        }
        if let Some(op) = self.control(instruction)? {
            return Ok(Some(op));
        }
        if let Some(op) = self.asynchronous(instruction)? {
            return Ok(Some(op));
        }
        if let Some(op) = self.cluster_launch_control(instruction)? {
            return Ok(Some(op));
        }
        if let Some(op) = self.matrix(instruction)? {
            return Ok(Some(op));
        }
        if let Some(op) = self.warp_group(instruction)? {
            return Ok(Some(op));
        }
        if let Some(op) = self.tensor(instruction)? {
            return Ok(Some(op));
        }
        self.memory(instruction)
    }
}

/// Returns the fault for an unsupported instruction.
fn unsupported(instruction: &Instruction, why: &str) -> Box<Fault> {
    Fault::unsupported(format!("'{}' is not supported: {why}", instruction.full_name()))
}

/// Rejects unknown modifiers, so that decoding never ignores one silently.
fn only(instruction: &Instruction, known: &[&str]) -> Result<()> {
    for modifier in &instruction.modifiers {
        if let Modifier::Word(word) = modifier
            && !known.contains(&&**word)
        {
            return Err(unsupported(instruction, &format!("unknown modifier '.{word}'")));
        }
    }
    Ok(())
}
