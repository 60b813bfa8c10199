//! Folds masks and tokens. If an access is removed, its input token replaces its result token, so no ordering is lost.

use super::Folded;
use crate::passes::edit::Edit;
use base::Value;
use base::ir::Op as OpId;
use core_dialect::core_ops::Core;
use tileaa::{Op, Type};

/// Folds the mask of an access if it is constant, and drops the padding of a load without a mask.
pub(super) fn fold(edit: &mut Edit<'_>, op: OpId, kind: Op) {
    match kind {
        Op::Load { ptr, mask: Some(mask), other, token, order, hints } => match (edit.splat_bits(mask), other) {
            (Some(1), _) => edit.replace_op(op, Op::Load { ptr, mask: None, other: None, token, order, hints }),
            // A load whose mask is false everywhere yields `other`.
            (Some(0), Some(other)) => {
                let result = edit.function.body.ops[op].results[0];
                edit.replace_uses(result, other);
                drop_access(edit, op, 1, token);
            }
            _ => {}
        },
        Op::Load { ptr, mask: None, other: Some(_), token, order, hints } => {
            edit.replace_op(op, Op::Load { ptr, mask: None, other: None, token, order, hints });
        }
        Op::Store { ptr, value, mask: Some(mask), token, order, hints } => match edit.splat_bits(mask) {
            Some(1) => edit.replace_op(op, Op::Store { ptr, value, mask: None, token, order, hints }),
            Some(0) => drop_access(edit, op, 0, token),
            _ => {}
        },
        Op::AtomicRmw { ptr, value, mask: Some(mask), token, order, mode } if edit.splat_bits(mask) == Some(1) => {
            edit.replace_op(op, Op::AtomicRmw { ptr, value, mask: None, token, order, mode });
        }
        Op::AtomicCas { ptr, compare, value, mask: Some(mask), token, order } if edit.splat_bits(mask) == Some(1) => {
            edit.replace_op(op, Op::AtomicCas { ptr, compare, value, mask: None, token, order });
        }
        _ => {}
    }
}

/// Removes an access and replaces the uses of its result token, which has index `token_index`, by the input token.
fn drop_access(edit: &mut Edit<'_>, op: OpId, token_index: usize, token: Option<Value>) {
    let result = edit.function.body.ops[op].results[token_index];
    let token = token.unwrap_or_else(|| edit.insert(op, Core::MakeToken {}, Type::Token));
    edit.replace_uses(result, token);
    edit.remove(op);
}

/// Removes duplicate tokens, and tokens that order no access, from a `join_tokens`. Returns `None` if the op stays as it is.
pub(super) fn fold_join_tokens(edit: &Edit<'_>, core: &Core) -> Option<Folded> {
    let Core::JoinTokens { tokens } = core else { return None };
    let is_new_token = |token: &Value| matches!(edit.defining_core(*token), Some(Core::MakeToken {}));
    let mut remaining: Vec<Value> = Vec::new();
    for token in tokens {
        if !is_new_token(token) && !remaining.contains(token) {
            remaining.push(*token);
        }
    }
    match remaining[..] {
        [] => Some(Folded::Op(Core::MakeToken {})),
        [token] => Some(Folded::Value(token)),
        _ if remaining.len() < tokens.len() => Some(Folded::Op(Core::JoinTokens { tokens: remaining })),
        _ => None,
    }
}
