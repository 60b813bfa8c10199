//! Common subexpression elimination: removes a pure op if an equal one dominates it. See also: LLVM's `EarlyCSE`.

use super::edit::Edit;
use base::Value;
use base::ir::Operation;
use std::collections::BTreeMap;
use tileaa::{Function, Type};

pub(super) fn run(function: &mut Function) -> usize {
    let mut edit = Edit::new(function);
    let places = edit.function.body.op_blocks();
    // Scopes of the dominator tree: open blocks, outermost first, with the keys that each added.
    let mut open: Vec<(base::Block, Vec<Vec<u8>>)> = Vec::new();
    let mut known: BTreeMap<Vec<u8>, Vec<Value>> = BTreeMap::new();
    for op in edit.order() {
        let block = places[op.0 as usize].expect("compaction puts every op into a block");
        // In program order, no op of a nested block follows an op of an outer block that comes after it.
        while let Some((_, keys)) = open.pop_if(|(inner, _)| left(&edit, *inner, op, block)) {
            for key in keys.into_iter().filter(|_| !common::fault_injected("aa.scope")) {
                known.remove::<Vec<u8>>(&key);
            }
        }
        if open.last().is_none_or(|(innermost, _)| *innermost != block) {
            open.push((block, Vec::new()));
        }
        let kind = edit.kind(op);
        if !kind.is_pure() || !kind.regions().is_empty() {
            continue;
        }
        let results = edit.function.body.ops[op].results.clone();
        let types: Vec<&Type> = results.iter().map(|result| edit.ty(*result)).collect();
        let key = base::codec::encode(&(&kind, types));
        if let Some(earlier) = known.get(&key).cloned() {
            results.iter().zip(earlier).for_each(|(result, earlier)| edit.forward(*result, earlier));
            edit.remove(op);
        } else {
            known.insert(key.clone(), results.to_vec());
            open.last_mut().expect("the block's scope is open").1.push(key);
        }
    }
    edit.finish()
}

/// Whether program order has left the block `inner` at `op` in `block`.
fn left(edit: &Edit<'_>, inner: base::Block, op: base::Op, block: base::Block) -> bool {
    let last = edit.function.body.blocks[inner].ops.last();
    inner != block && last.is_some_and(|last| *last < op)
}
