//! The bytes of a kernel's parameters: the visible ones from the launch, the hidden tensor maps from a file, from the callback of a
//! host object, or from the recipes that the PTX carries.

use crate::fault::{Fault, Result};
use crate::native;
use crate::program::Program;
use common::launch::{Launch, Param};
use numerics::Scalar;
use numerics::arith::Rounding;
use numerics::float::{Overflow, encode};
use ptx::tensor_map::Recipe;
use std::path::Path;

/// The value of a parameter, sign-extended, and its bytes.
fn value(launch: &Launch, param: &Param) -> (u64, u32) {
    match param {
        Param::Ptr(name) => (launch.buffers.iter().find(|buffer| &buffer.name == name).map_or(0, |buffer| buffer.address), 8),
        Param::I1(value) => (u64::from(*value), 1),
        Param::I8(value) => (*value as u64, 1),
        Param::I16(value) => (*value as u64, 2),
        Param::I32(value) => (*value as u64, 4),
        Param::I64(value) => (*value as u64, 8),
        Param::F16(value) => (encode(Scalar::F16, *value, Rounding::NearestEven, Overflow::Ieee), 2),
        Param::Bf16(value) => (encode(Scalar::BF16, *value, Rounding::NearestEven, Overflow::Ieee), 2),
        Param::F32(value) => (u64::from((*value as f32).to_bits()), 4),
        Param::F64(value) => (value.to_bits(), 8),
    }
}

/// Where the tensor maps come from, if not from the PTX.
#[derive(Clone, Copy, Default)]
pub struct Maps<'a> {
    /// A file with the 128-byte maps, one after the other.
    pub file: Option<&'a Path>,
    /// An object with the callback that makes them.
    pub host_object: Option<&'a Path>,
}

pub fn parameters(program: &Program, module: &ptx::Module, launch: &Launch, maps: Maps) -> base::diag::Result<Vec<u8>> {
    let mut bytes = visible(program, launch).map_err(|fault| fault.diagnostic("", ""))?;
    let hidden = || program.hidden_params();
    if hidden().next().is_none() {
        return Ok(bytes);
    }
    if let Some(path) = maps.file {
        let file = common::read_file(Some(path))?.bytes;
        let mut rest = &file[..];
        for slot in hidden() {
            let Some((map, after)) = rest.split_at_checked(slot.bytes as usize) else {
                return Err(missing(&slot.name, "the file of tensor maps is too short").diagnostic("", ""));
            };
            bytes[slot.offset as usize..][..map.len()].copy_from_slice(map);
            rest = after;
        }
        return Ok(bytes);
    }
    if let Some(object) = maps.host_object {
        return native::call(object, program, &module.target, bytes);
    }
    let recipes = Recipe::all(&module.envelope)?;
    let values: Vec<i64> = launch.params.iter().map(|param| value(launch, param).0 as i64).collect();
    for slot in hidden() {
        let recipe = recipes.iter().find(|recipe| recipe.entry == program.entry && recipe.param == slot.name);
        let Some(recipe) = recipe.filter(|_| slot.bytes as usize == ptx::tensor_map::TENSOR_MAP_BYTES) else {
            let why = "the PTX has no recipe for it; give --tensor-maps, or --host-object";
            return Err(missing(&slot.name, why).diagnostic("", ""));
        };
        bytes[slot.offset as usize..][..slot.bytes as usize].copy_from_slice(&recipe.encode(&values)?);
    }
    Ok(bytes)
}

fn missing(name: &str, why: &str) -> Box<Fault> {
    Fault::new("SIM002", format!("there is no tensor map for hidden parameter '{name}': {why}"))
}

fn visible(program: &Program, launch: &Launch) -> Result<Vec<u8>> {
    let mut bytes = vec![0; program.param_bytes as usize];
    let visible: Vec<_> = program.visible_params().collect();
    if visible.len() != launch.params.len() {
        let message = format!("'{}' takes {} parameters; the launch has {}", program.entry, visible.len(), launch.params.len());
        return Err(Fault::new("SIM002", message));
    }
    for (slot, param) in visible.iter().zip(&launch.params) {
        let (value, size) = value(launch, param);
        if slot.bytes != size {
            let message = format!("parameter '{}' has {} bytes; the launch gives {size}", slot.name, slot.bytes);
            return Err(Fault::new("SIM002", message));
        }
        bytes[slot.offset as usize..][..size as usize].copy_from_slice(&value.to_le_bytes()[..size as usize]);
    }
    Ok(bytes)
}
