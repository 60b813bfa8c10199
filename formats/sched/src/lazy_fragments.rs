//! Per-K-step loads: each fragment is loaded from shared memory right before its MMA step, so that few fragments are in registers
//! at a time. `tile-sched` selects the loads; the verifier checks that a load per K step reads the same data as a full load.

use crate::{Function, Op};
use base::ir::{Op as OpId, Operation};
use base::{Arena, Block, Value};
use core_dialect::core_ops::{Core, Effect};
use tileas::CopyAtom;
use tileas::effects::{Completes, Effects, Proxy, Synchronises};
use tileas::layout::{Layout, LayoutId};
use tileas::renaming::keeps_registers;

/// Checks whether each fragment of a load can be loaded right before the K step of the MMA that reads the fragment. The error is
/// the reason why not. `uses` has the number of uses of each value, by value number. `block` contains the load. Reshapes and
/// permutes may lie between the load and the MMA.
pub fn check_per_k_step_load(
    function: &Function,
    layouts: &Arena<LayoutId, Layout>,
    uses: &[u32],
    block: Block,
    load: OpId,
) -> Result<(), &'static str> {
    let body = &function.body;
    let Op::Core(tileas::Op::SharedLoad { atom: CopyAtom::Matrix { .. } | CopyAtom::ByteMatrix, .. }) = &body.ops[load].kind else {
        return Err("only `ldmatrix` loads per K step");
    };
    let mut value = body.result(load);
    if uses[value.0 as usize] != 1 {
        return Err("another op uses a per-K-step load, or no op uses it");
    }
    for &op in body.blocks[block].ops.iter().skip_while(|op| **op != load).skip(1) {
        let kind = &body.ops[op].kind;
        if kind.operands().contains(&value) {
            if is_register_renaming(function, layouts, op) && uses[body.result(op).0 as usize] == 1 {
                value = body.result(op);
                continue;
            }
            let reads_fragment =
                matches!(kind, Op::Core(program) if program.fragments().is_some_and(|fragments| fragments.contains(&value)));
            return if reads_fragment { Ok(()) } else { Err("no MMA reads the per-K-step load") };
        }
        if !kind.regions().is_empty() || !may_lie_between_load_and_mma(&kind.effects()) {
            return Err("an op between a per-K-step load and its MMA waits or accesses memory");
        }
    }
    Err("another block uses the per-K-step load")
}

/// Returns whether an op reshapes or permutes a tile without moving elements between registers.
fn is_register_renaming(function: &Function, layouts: &Arena<LayoutId, Layout>, op: OpId) -> bool {
    let node = &function.body.ops[op];
    let Some((core, x)) = node.kind.core().and_then(|core| Some((core, renamed_operand(core)?))) else { return false };
    let types = [x, function.body.result(op)].map(|value| function.body.ty(value));
    let [Some(from), Some(to)] = types.map(|ty| ty.layout()) else { return false };
    keeps_registers(core, types.map(|ty| ty.shape()), [&layouts[from], &layouts[to]])
}

/// The operand of a reshape or permute; `None` for other ops.
fn renamed_operand(core: &Core) -> Option<Value> {
    match core {
        Core::Reshape { x } | Core::Permute { x, .. } => Some(*x),
        _ => None,
    }
}

/// The op that computes the elements of a value. Reshapes and permutes do not count: the search continues at their operand. `None`
/// if a block argument supplies the elements.
pub(crate) fn origin_op(function: &Function, mut value: Value) -> Option<OpId> {
    loop {
        let op = function.body.defining_op(value)?;
        match function.body.ops[op].kind.core().and_then(renamed_operand) {
            Some(x) => value = x,
            None => return Some(op),
        }
    }
}

/// Returns whether an op may be between a per-K-step load and its MMA. Such an op only computes, reads shared memory, or issues or
/// groups asynchronous copies.
fn may_lie_between_load_and_mma(effects: &Effects<'_>) -> bool {
    let is_async_copy = effects.completes == Completes::WithItsCopies;
    let writes_no_stage =
        effects.buffers.iter().all(|access| !access.access_kind.writes() || access.proxy == Proxy::Copies && is_async_copy);
    let never_waits = matches!(effects.synchronises, None | Some(Synchronises::EndsCopies));
    writes_no_stage && never_waits && (effects.global.is_none() || is_async_copy) && effects.core_effect == Effect::Nothing
}
