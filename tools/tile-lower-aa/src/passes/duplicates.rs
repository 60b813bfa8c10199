//! Common subexpression elimination: removes a pure op if an equal op dominates it. See also: LLVM's `EarlyCSE`.

use super::edit::Edit;
use base::Value;
use base::ir::Operation;
use std::collections::BTreeMap;
use tileaa::{Function, Type};

/// Runs the pass on a function. Returns the number of changes.
pub(super) fn run(function: &mut Function) -> usize {
    let mut edit = Edit::new(function);
    let block_of = edit.function.body.op_blocks();
    // The scopes of the dominator tree: the blocks that contain the current op, outermost first. Each has the keys that its ops
    // added to `available`.
    let mut open_scopes: Vec<(base::Block, Vec<Vec<u8>>)> = Vec::new();
    // The results of the pure ops that dominate the current op. The key encodes the op, its operands and its result types.
    let mut available: BTreeMap<Vec<u8>, Vec<Value>> = BTreeMap::new();
    for op in edit.ops_in_order() {
        let block = block_of[op.0 as usize].expect("compaction puts every op into a block");
        // Program order never returns to a nested block that it has left, so the scope of that block can be closed.
        while let Some((_, keys)) = open_scopes.pop_if(|(inner, _)| has_left_block(&edit, *inner, op, block)) {
            for key in keys {
                available.remove::<Vec<u8>>(&key);
            }
        }
        if open_scopes.last().is_none_or(|(innermost, _)| *innermost != block) {
            open_scopes.push((block, Vec::new()));
        }
        let kind = edit.resolved_op(op);
        if !kind.is_pure() || !kind.regions().is_empty() {
            continue;
        }
        let results = edit.function.body.ops[op].results.clone();
        let types: Vec<&Type> = results.iter().map(|result| edit.ty(*result)).collect();
        let key = base::codec::encode(&(&kind, types));
        if let Some(earlier) = available.get(&key).cloned() {
            results.iter().zip(earlier).for_each(|(result, earlier)| edit.replace_uses(*result, earlier));
            edit.remove(op);
        } else {
            available.insert(key.clone(), results.to_vec());
            open_scopes.last_mut().expect("the block's scope is open").1.push(key);
        }
    }
    edit.finish()
}

/// Returns whether program order, at `op` in `block`, has left the block `inner`.
fn has_left_block(edit: &Edit<'_>, inner: base::Block, op: base::Op, block: base::Block) -> bool {
    let last = edit.function.body.blocks[inner].ops.last();
    inner != block && last.is_some_and(|last| *last < op)
}
