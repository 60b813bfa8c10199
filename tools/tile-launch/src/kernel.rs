//! A kernel of a cubin, and its launch configuration.
//!
//! A tile kernel is launched with one thread per CTA. The driver takes the thread count from the cubin, and fills the hidden
//! parameters by calling the cubin's host object, so the launch passes visible parameters only. Any other kernel is launched with
//! its required thread count.

use base::Target;
use base::diag::{Diagnostic, Result};
use common::launch::ParamType;
use cubin::Cubin;
use std::ffi::CString;

/// Language ids of tile kernels: Tile IR, CUDA C++ with tiles, cuTile.
const TILE_LANGUAGES: [u32; 3] = [6, 7, 8];

/// Size of a hidden parameter in bytes.
const TENSOR_MAP_BYTES: u32 = 128;

pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) symbol: CString,
    pub(crate) types: Vec<ParamType>,
    pub(crate) block: [u32; 3],
    pub(crate) registers: u32,
    pub(crate) target: Option<Target>,
}

impl Kernel {
    /// Finds the named kernel, or the only one.
    pub(crate) fn find(cubin: &Cubin, file: &str, name: Option<&str>) -> Result<Kernel> {
        let names = || cubin.kernels.iter().map(|kernel| kernel.name.as_str()).collect::<Vec<_>>().join(", ");
        let found = match (name, &cubin.kernels[..]) {
            (None, [only]) => only,
            (None, []) => return Err(Diagnostic::invalid("LAU001", format!("{file} has no kernel"))),
            (None, _) => {
                return Err(Diagnostic::usage("LAU002", format!("{file}: name one of its kernels with --entry: {}", names())));
            }
            (Some(name), all) => all
                .iter()
                .find(|kernel| kernel.name == name)
                .ok_or_else(|| Diagnostic::usage("LAU002", format!("{file} has no kernel '{name}'; there are: {}", names())))?,
        };
        let wrong = |what: String| Diagnostic::unsupported("LAU003", format!("kernel '{}' of {file}: {what}", found.name));
        let is_tile = cubin.host_object.is_some() || found.language.is_some_and(|language| TILE_LANGUAGES.contains(&language));
        let visible = found.parameters.iter().map(|parameter| parameter.offset + parameter.size).max().unwrap_or(0);
        if found.parameter_bytes >= visible + TENSOR_MAP_BYTES && cubin.host_object.is_none() {
            return Err(wrong("it has hidden parameters, but the cubin has no host object that fills them".into()));
        }
        let ty = |(index, parameter): (usize, &cubin::Parameter)| match parameter.size {
            1 | 2 | 4 | 8 => Ok(ParamType::Bits(8 * parameter.size)),
            size => Err(wrong(format!("parameter {index} has {size} bytes, which a launch description cannot express"))),
        };
        let types = found.parameters.iter().enumerate().map(ty).collect::<Result<_>>()?;
        let block = match found.required_threads {
            _ if is_tile => [1; 3],
            Some(threads) => threads,
            None => return Err(wrong("it is not a tile kernel, and does not declare its number of threads".into())),
        };
        let symbol = CString::new(found.name.as_bytes()).map_err(|_| wrong("its name contains a NUL character".into()))?;
        let target = Target::parse(&cubin.target);
        Ok(Kernel { name: found.name.clone(), symbol, types, block, registers: found.registers, target })
    }
}
