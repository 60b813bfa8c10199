//! Estimates the register pressure of a thread from liveness in program order ([`tileas::register_liveness`]).

use base::{Arena, Value};
use sched::{Function, Op};
use tileas::register_liveness::{Evaluation, OTHER_REGISTERS, RegisterLiveness, live_element_bits};
use tileas::{Layout, LayoutId};

/// Estimates the registers of a thread if each op is computed for all elements before the next op.
pub(crate) fn estimated_registers(function: &Function, layouts: &Arena<LayoutId, Layout>) -> u32 {
    max_live_registers(function, layouts, Evaluation::FullTiles) + OTHER_REGISTERS
}

/// Estimates the registers of a thread if a value with a single use is computed element by element at its use.
pub(crate) fn estimated_min_registers(function: &Function, layouts: &Arena<LayoutId, Layout>) -> u32 {
    max_live_registers(function, layouts, Evaluation::ElementByElement) + OTHER_REGISTERS
}

/// The maximum number of registers that live values occupy at once.
fn max_live_registers(function: &Function, layouts: &Arena<LayoutId, Layout>, evaluation: Evaluation) -> u32 {
    let liveness = RegisterLiveness::analyse(&function.body, function.region, evaluation);
    let registers = liveness.live_registers(&function.body, |value| registers_of_value(function, layouts, value));
    registers.into_iter().max().unwrap_or(0)
}

/// Returns the registers of a thread that a value occupies.
fn registers_of_value(function: &Function, layouts: &Arena<LayoutId, Layout>, value: Value) -> u32 {
    let body = &function.body;
    let producer = body.defining_op(value).map(|op| &body.ops[op].kind);
    let is_loaded = matches!(producer, Some(Op::Core(tileas::Op::LoadView { .. } | tileas::Op::Load { .. })));
    let (Some(bits), Some(layout)) = (live_element_bits(body, value, is_loaded), body.ty(value).layout()) else { return 0 };
    (layouts[layout].registers() as u32 * bits).div_ceil(32)
}
