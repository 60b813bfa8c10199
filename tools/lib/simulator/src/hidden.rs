//! The bytes of a kernel's parameters. Visible parameters come from the launch. Hidden parameters are tensor maps that the compiler
//! added. They come from a file, from the callback of a host object, or from recipes in the PTX.

use crate::fault::Fault;
use crate::native;
use crate::program::{ParamField, Program};
use common::launch::Call;
use ptx::tensor_map::Recipe;
use std::path::Path;

/// External sources of tensor maps.
#[derive(Clone, Copy, Default)]
pub struct TensorMapSources<'a> {
    /// A file with consecutive 128-byte maps.
    pub file: Option<&'a Path>,
    /// A host object whose callback creates the maps.
    pub host_object: Option<&'a Path>,
}

/// Returns the bytes of all parameters of a launch.
pub fn parameter_bytes(
    program: &Program,
    module: &ptx::Module,
    call: &Call,
    maps: TensorMapSources,
) -> base::diag::Result<Vec<u8>> {
    let mut bytes = vec![0; program.param_bytes as usize];
    for (param, value) in program.visible_params().zip(&call.values) {
        let size = param.bytes as usize;
        bytes[param.offset as usize..][..size].copy_from_slice(&value.to_le_bytes()[..size]);
    }
    fill_hidden_parameters(program, module, &call.values, bytes, maps)
}

/// Fills the hidden parameters in `bytes`, which contains all parameters. `values` are the values of the visible parameters.
pub fn fill_hidden_parameters(
    program: &Program,
    module: &ptx::Module,
    values: &[i64],
    mut bytes: Vec<u8>,
    maps: TensorMapSources,
) -> base::diag::Result<Vec<u8>> {
    // A kernel with per-CTA memory has a hidden pointer, which only drivers without support for per-CTA memory set. The simulator
    // supports this memory, so the pointer stays 0.
    let is_cta_memory_pointer = |param: &&ParamField| program.cta_memory_bytes > 0 && param.bytes == 8;
    let hidden = || program.hidden_params().filter(|param| !is_cta_memory_pointer(param));
    if hidden().next().is_none() {
        return Ok(bytes);
    }
    if let Some(path) = maps.file {
        let file = common::read_file(Some(path))?.bytes;
        let mut rest = &file[..];
        for param in hidden() {
            let Some((map, after)) = rest.split_at_checked(param.bytes as usize) else {
                return Err(missing_tensor_map(&param.name, "the tensor-map file is too short").diagnostic("", ""));
            };
            bytes[param.offset as usize..][..map.len()].copy_from_slice(map);
            rest = after;
        }
        return Ok(bytes);
    }
    if let Some(object) = maps.host_object {
        return native::call_callback(object, program, &module.target, bytes);
    }
    let recipes = Recipe::all(module.envelope.iter().map(String::as_str))?;
    for param in hidden() {
        let recipe = recipes.iter().find(|recipe| recipe.entry == program.entry && recipe.param == param.name);
        let Some(recipe) = recipe.filter(|_| param.bytes as usize == tensormap::BYTES) else {
            let why = "the PTX has no recipe for it; use --tensor-maps or --host-object";
            return Err(missing_tensor_map(&param.name, why).diagnostic("", ""));
        };
        bytes[param.offset as usize..][..param.bytes as usize].copy_from_slice(&recipe.map.encode(values)?);
    }
    Ok(bytes)
}

/// Returns the fault for a hidden parameter without a tensor map.
fn missing_tensor_map(name: &str, why: &str) -> Box<Fault> {
    Fault::new("SIM002", format!("there is no tensor map for hidden parameter '{name}': {why}"))
}
