//! Finds a kernel in a cubin and determines its launch configuration.
//!
//! For a kernel of a tile language, the launch requests one thread per CTA, and passes only the visible parameters. The CUDA driver
//! reads the real thread count from the cubin, and calls the cubin's host object, which fills the hidden parameters (tensor maps).
//! For any other kernel, the launch requests the thread count that the kernel declares.

use base::Target;
use base::diag::{Diagnostic, Result};
use common::launch::ParamType;
use cubin::Cubin;
use std::ffi::CString;

/// The numbers with which a cubin identifies the tile languages: CUDA C++ with tiles, Tile IR and cuTile.
const TILE_LANGUAGES: [u32; 3] = [6, 7, 8];

/// Size of a hidden parameter, which is a tensor map, in bytes.
const TENSOR_MAP_BYTES: u32 = 128;

/// A kernel of a cubin, with the properties that a launch of the kernel needs.
pub(crate) struct Kernel {
    pub(crate) name: String,
    /// The name with a terminating zero, for the driver.
    pub(crate) symbol: CString,
    /// The types of the visible parameters.
    pub(crate) types: Vec<ParamType>,
    /// The number of threads per CTA in each dimension that the launch requests.
    pub(crate) cta_size: [u32; 3],
    /// Registers per thread.
    pub(crate) registers: u32,
    pub(crate) target: Option<Target>,
}

impl Kernel {
    /// Finds the kernel with the name `name` or, without a name, the only kernel of the cubin. `file` is the name of the cubin in
    /// messages.
    pub(crate) fn find(cubin: &Cubin, file: &str, name: Option<&str>) -> Result<Kernel> {
        let names = || cubin.kernels.iter().map(|kernel| kernel.name.as_str()).collect::<Vec<_>>().join(", ");
        let kernel = match (name, &cubin.kernels[..]) {
            (None, [only]) => only,
            (None, []) => return Err(Diagnostic::invalid("LAU001", format!("{file} has no kernel"))),
            (None, _) => {
                return Err(Diagnostic::usage("LAU002", format!("{file}: name one of its kernels with --entry: {}", names())));
            }
            (Some(name), kernels) => kernels
                .iter()
                .find(|kernel| kernel.name == name)
                .ok_or_else(|| Diagnostic::usage("LAU002", format!("{file} has no kernel '{name}'; there are: {}", names())))?,
        };
        let unsupported_kernel =
            |what: String| Diagnostic::unsupported("LAU003", format!("kernel '{}' of {file}: {what}", kernel.name));
        let is_tile = cubin.host_object.is_some() || kernel.language.is_some_and(|language| TILE_LANGUAGES.contains(&language));
        let visible_bytes = kernel.parameters.iter().map(|parameter| parameter.offset + parameter.size).max().unwrap_or(0);
        if kernel.parameter_bytes >= visible_bytes + TENSOR_MAP_BYTES && cubin.host_object.is_none() {
            return Err(unsupported_kernel("it has hidden parameters, but the cubin has no host object that fills them".into()));
        }
        let param_type = |(index, parameter): (usize, &cubin::Parameter)| match parameter.size {
            1 | 2 | 4 | 8 => Ok(ParamType::Bits(8 * parameter.size)),
            size => {
                Err(unsupported_kernel(format!("parameter {index} has {size} bytes, which a launch description cannot express")))
            }
        };
        let types = kernel.parameters.iter().enumerate().map(param_type).collect::<Result<_>>()?;
        let cta_size = match kernel.required_threads {
            _ if is_tile => [1; 3],
            Some(threads) => threads,
            None => return Err(unsupported_kernel("it is not a tile kernel, and does not declare its number of threads".into())),
        };
        let symbol =
            CString::new(kernel.name.as_bytes()).map_err(|_| unsupported_kernel("its name contains a NUL character".into()))?;
        let target = Target::parse(&cubin.target);
        Ok(Kernel { name: kernel.name.clone(), symbol, types, cta_size, registers: kernel.registers, target })
    }
}
