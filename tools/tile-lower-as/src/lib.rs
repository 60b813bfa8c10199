//! The pass from `.aa` to `.as`, function by function: the kernel's shape for the target is resolved, every tile value is given
//! a home layout ([`homes`]), and the program is rewritten with conversions where a use wants another layout ([`mod@convert`]).

mod access;
mod convert;
mod homes;
mod kernel_spec;
mod legalize;
mod products;
mod remarks;

use base::diag::Result;
use base::{Envelope, File};

/// The `.as` file of an `.aa` file whose envelope names the target.
pub fn lower(input: &File<tileaa::Module>, producer: &str) -> Result<File<tileas::Module>> {
    let mut envelope = input.envelope.next::<tileas::Module>("atoms", producer);
    let mut module = tileas::Module { globals: input.payload.globals.clone(), ..Default::default() };
    for function in &input.payload.functions {
        let lowered = lower_function(function, &mut module, &mut envelope)?;
        module.functions.push(lowered);
    }
    Ok(File { envelope, payload: module })
}

fn lower_function(function: &tileaa::Function, module: &mut tileas::Module, envelope: &mut Envelope) -> Result<tileas::Function> {
    let target = envelope.target()?;
    let function = &legalize::run(function, target);
    let attrs = kernel_spec::resolve(function, target);
    let warp_bits = attrs.warps().trailing_zeros() as usize;
    let accesses = access::Accesses::of(function, warp_bits);
    let products = products::Products::of(function, target, warp_bits);
    remarks::log(function, &accesses, &products, envelope);
    let homes = homes::Homes::of(function, &accesses, &products, warp_bits);
    convert::convert(function, attrs, &convert::Plan { accesses, products, homes }, module, envelope)
}
