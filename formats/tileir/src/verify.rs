//! The rules of a whole program.

use crate::module::Module;
use base::{DebugInfo, Loc};

/// The first rule that is broken, and the location of the op that breaks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub message: String,
    pub loc: Loc,
}

/// Every id refers to something, and bodies are well formed; what must hold before anything may index freely.
pub fn references(module: &Module, _debug: &DebugInfo) -> Result<(), String> {
    for function in &module.functions {
        function.body.verify_structure(function.region)?;
    }
    Ok(())
}

pub fn verify(_module: &Module, _debug: &DebugInfo) -> Result<(), Failure> {
    Ok(())
}
