//! The pass from `.aa` to `.as`, function by function: the kernel's shape for the target is resolved, every tile value is given
//! a home layout ([`homes`]), and the program is rewritten with conversions where a use wants another layout ([`mod@convert`]).

mod access;
mod banks;
mod convert;
mod copies;
mod homes;
mod kernel_spec;
mod legalize;
mod products;
mod remarks;
mod slices;
mod split;
mod widths;

use base::diag::Result;
use base::envelope::{Category, LogEntry, Outcome};
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
    let function = &split::run(legalize::run(function, target), target);
    let attrs = kernel_spec::resolve(function, target);
    let warp_bits = attrs.warps.trailing_zeros() as usize;
    let accesses = access::Accesses::of(function, warp_bits);
    let products = products::Products::of(function, &accesses, target, warp_bits);
    remarks::log(function, &accesses, &products, envelope);
    let copies = match envelope.options.opt_level() {
        0 | 1 => copies::Copies::default(),
        _ => copies::Copies::of(function, &accesses, &products, warp_bits),
    };
    log_copies(function, &copies, envelope);
    let homes = homes::Homes::of(function, &accesses, &products, &copies, warp_bits);
    convert::convert(function, attrs, &convert::Plan { accesses, products, homes, copies }, module, envelope)
}

/// What was decided about the operands of products in loops, for remarks.
fn log_copies(function: &tileaa::Function, copies: &copies::Copies, envelope: &mut Envelope) {
    let entry = |op: base::ir::Op, outcome, name: &str, message| LogEntry {
        pass: "copies".into(),
        outcome,
        name: name.into(),
        category: Category::Memory,
        message,
        function: function.name.clone(),
        loc: function.body.ops[op].loc,
    };
    let made = copies.iter().map(|(op, copy)| {
        let message = format!("the tile is copied to shared memory in pieces of {} bytes", copy.bytes);
        entry(op, Outcome::Passed, "AsyncCopy", message)
    });
    let declined = copies.declined.iter().map(|(op, reason)| {
        let message = format!("the tile is loaded through registers: {reason}");
        entry(*op, Outcome::Declined, "AsyncCopy", message)
    });
    let entries: Vec<LogEntry> = made.chain(declined).collect();
    envelope.log.extend(entries);
}
