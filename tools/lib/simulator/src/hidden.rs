//! The bytes of a kernel's parameters. Visible parameters come from the launch. Hidden tensor maps come from a file, from the
//! callback of a host object, or from recipes in the PTX.

use crate::fault::Fault;
use crate::native;
use crate::program::{ParamField, Program};
use common::launch::Call;
use ptx::tensor_map::Recipe;
use std::path::Path;

/// External sources of tensor maps.
#[derive(Clone, Copy, Default)]
pub struct Maps<'a> {
    /// A file with consecutive 128-byte maps.
    pub file: Option<&'a Path>,
    /// A host object whose callback creates the maps.
    pub host_object: Option<&'a Path>,
}

pub fn parameters(program: &Program, module: &ptx::Module, call: &Call, maps: Maps) -> base::diag::Result<Vec<u8>> {
    let mut bytes = vec![0; program.param_bytes as usize];
    for (slot, value) in program.visible_params().zip(&call.values) {
        let size = slot.bytes as usize;
        bytes[slot.offset as usize..][..size].copy_from_slice(&value.to_le_bytes()[..size]);
    }
    complete(program, module, &call.values, bytes, maps)
}

/// Fills the hidden parameters in the bytes of all parameters. `values` are the visible ones.
pub fn complete(
    program: &Program,
    module: &ptx::Module,
    values: &[i64],
    mut bytes: Vec<u8>,
    maps: Maps,
) -> base::diag::Result<Vec<u8>> {
    // A hidden pointer refers to per-CTA memory. It exists for drivers that provide none.
    let given = |slot: &&ParamField| program.cta_memory > 0 && slot.bytes == 8;
    let hidden = || program.hidden_params().filter(|slot| !given(slot));
    if hidden().next().is_none() {
        return Ok(bytes);
    }
    if let Some(path) = maps.file {
        let file = common::read_file(Some(path))?.bytes;
        let mut rest = &file[..];
        for slot in hidden() {
            let Some((map, after)) = rest.split_at_checked(slot.bytes as usize) else {
                return Err(missing(&slot.name, "the tensor-map file is too short").diagnostic("", ""));
            };
            bytes[slot.offset as usize..][..map.len()].copy_from_slice(map);
            rest = after;
        }
        return Ok(bytes);
    }
    if let Some(object) = maps.host_object {
        return native::call(object, program, &module.target, bytes);
    }
    let recipes = Recipe::all(module.envelope.iter().map(String::as_str))?;
    for slot in hidden() {
        let recipe = recipes.iter().find(|recipe| recipe.entry == program.entry && recipe.param == slot.name);
        let Some(recipe) = recipe.filter(|_| slot.bytes as usize == tensormap::BYTES) else {
            let why = "the PTX has no recipe for it; use --tensor-maps or --host-object";
            return Err(missing(&slot.name, why).diagnostic("", ""));
        };
        bytes[slot.offset as usize..][..slot.bytes as usize].copy_from_slice(&recipe.map.encode(values)?);
    }
    Ok(bytes)
}

fn missing(name: &str, why: &str) -> Box<Fault> {
    Fault::new("SIM002", format!("there is no tensor map for hidden parameter '{name}': {why}"))
}
