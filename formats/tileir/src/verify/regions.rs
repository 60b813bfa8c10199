//! Rules of control flow, reductions and scans.

use super::{BlockContext, Check, Checker, Failure, OpView};
use crate::ops::Op;
use crate::types::{Attribute, Element, Type, TypeId};
use base::ir::{self, Operation, Region, Value};
use numerics::Scalar;

/// Checks the rules of an op that come before the checks of its regions.
pub(super) fn check_before_regions(view: &OpView<'_, '_>, context: BlockContext) -> Check {
    match &view.node.kind {
        Op::If { then_region, else_region, .. } => check_branches(view, *then_region, *else_region),
        Op::Break { operands } => check_break(view, context, operands),
        Op::Continue { .. } => loop_of_continue(view, context).map(|_| ()),
        Op::Return { operands } => check_return(view, context, operands.len()),
        Op::Reduce { dim, identities, operands, .. } => check_reduction_or_scan(view, *dim, identities, operands),
        Op::Scan { dim, identities, operands, .. } => {
            check_reduction_or_scan(view, *dim, identities, operands)?;
            match operands
                .iter()
                .zip(&view.node.results)
                .position(|(operand, result)| view.type_id(*operand) != view.type_id(*result))
            {
                Some(i) => Err(format!("expect same type for operand at index: {i} and result at index: {i}")),
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Checks the branches of an `if`.
fn check_branches(view: &OpView<'_, '_>, then_region: Region, else_region: Region) -> Check {
    let results = view.type_ids(&view.node.results);
    for (i, result) in view.node.results.iter().enumerate() {
        check_not_a_view(view.ty(*result)).map_err(|what| format!("result type {i} is a {what}, which is not supported"))?;
    }
    let has_blocks = |region: Region| !view.checker.body.regions[region].blocks.is_empty();
    if !has_blocks(then_region) {
        return Err("must define then branch".into());
    }
    check_yield(view, then_region, "then", &results)?;
    if has_blocks(else_region) {
        return check_yield(view, else_region, "else", &results);
    }
    if !results.is_empty() {
        return Err("has non-empty return type, must define else branch".into());
    }
    Ok(())
}

/// Checks that a branch yields values of the result types. `name` names the branch in messages.
fn check_yield(view: &OpView<'_, '_>, region: Region, name: &str, results: &[TypeId]) -> Check {
    let body = view.checker.body;
    let last = body.blocks[body.block_of(region)].ops.last();
    let Some(Op::Yield { operands }) = last.map(|op| &body.ops[*op].kind) else { return Ok(()) };
    let yielded = view.type_ids(operands);
    let (results_text, yielded_text) = (view.quoted_types(results), view.quoted_types(&yielded));
    if !results.is_empty() && yielded.is_empty() {
        return Err(format!("has return type of {results_text} but {name} branch does not yield anything"));
    }
    if results.is_empty() && !yielded.is_empty() {
        return Err(format!("does not return a value, but {name} branch yields {yielded_text}"));
    }
    if yielded != results {
        return Err(format!(
            "type does not match yield type, {name} branch yields {yielded_text} but op result type is {results_text}"
        ));
    }
    Ok(())
}

/// Checks that a type is not a view. The error is the kind of view.
fn check_not_a_view(ty: &Type) -> Result<(), &'static str> {
    match ty {
        Type::TensorView { .. } => Err("tensor_view"),
        _ if ty.tile_view().is_some() => Err("tile view"),
        _ => Ok(()),
    }
}

/// Checks the loop that a `break` leaves, and the types of the operands.
fn check_break(view: &OpView<'_, '_>, context: BlockContext, operands: &[Value]) -> Check {
    let target_loop = context.nearest_non_if.map(|op| &view.checker.body.ops[op]);
    let Some(target_loop) = target_loop.filter(|node| matches!(node.kind, Op::Loop { .. })) else {
        return Err("can only be nested within a ancestor chain of 'cuda_tile.loop', 'cuda_tile.if' operations".into());
    };
    let (given, expected) = (view.type_ids(operands), view.type_ids(&target_loop.results));
    if given != expected {
        let (given, expected) = (view.quoted_types(&given), view.quoted_types(&expected));
        return Err(format!("operand types must correspond to the parent loop result types: ({given}) vs ({expected})"));
    }
    Ok(())
}

/// Returns the loop whose next iteration a `continue` starts. The error is the message if no loop encloses it directly.
fn loop_of_continue<'a>(view: &OpView<'_, 'a>, context: BlockContext) -> Check<&'a ir::OpNode<Op>> {
    let target_loop = context.nearest_non_if.map(|op| &view.checker.body.ops[op]);
    target_loop.filter(|node| matches!(node.kind, Op::Loop { .. } | Op::For { .. })).ok_or_else(|| {
        "can only be nested within a ancestor chain of 'cuda_tile.for', 'cuda_tile.loop', 'cuda_tile.if' operations".into()
    })
}

/// Returns an error message if the operands of a `continue` do not have the types that its loop needs. NVIDIA's message does not
/// begin with the op's name.
pub(super) fn continue_type_error(view: &OpView<'_, '_>, context: BlockContext) -> Option<String> {
    let Op::Continue { operands } = &view.node.kind else { return None };
    let target_loop = loop_of_continue(view, context).ok()?;
    let given = view.type_ids(operands);
    let (name, what, expected) = match &target_loop.kind {
        Op::Loop { init_values, .. } => ("loop", "iter_values", view.type_ids(init_values)),
        _ => ("for", "return types", view.type_ids(&target_loop.results)),
    };
    if given == expected {
        return None;
    }
    let (given, expected) = (view.quoted_types(&given), view.quoted_types(&expected));
    Some(format!(
        "`{name}` is missing a valid terminator. `continue` op should have operand types that match the parent loop {what}: \
         ({expected}), but found: ({given})"
    ))
}

/// Checks that only ops which a `return` may leave enclose it, and that the `return` has no operands.
fn check_return(view: &OpView<'_, '_>, context: BlockContext, operands: usize) -> Check {
    if !context.may_return {
        return Err("must be used within a cuda_tile.entry, or cuda_tile.if operation".into());
    }
    if operands != 0 {
        let name = view.module().string(view.checker.function.name);
        return Err(format!("has {operands} operands, but enclosing function (@{name}) returns 0"));
    }
    Ok(())
}

/// Checks the operands, identities, dimension and result types of a reduction or scan.
fn check_reduction_or_scan(view: &OpView<'_, '_>, dim: i32, identities: &[Attribute], operands: &[Value]) -> Check {
    if operands.is_empty() {
        return Err("expect at least 1 operand".into());
    }
    if operands.len() != view.node.results.len() {
        return Err("expect same number of operands and results".into());
    }
    if operands.len() != identities.len() {
        let (operands, identities) = (operands.len(), identities.len());
        return Err(format!(
            "expect identities to match the number of operands but got: {operands} operands and {identities} identities"
        ));
    }
    for (i, (operand, identity)) in operands.iter().zip(identities).enumerate() {
        check_identity_type(view, i, *operand, identity)?;
    }
    let (_, shape) = view.tile(operands[0]);
    let rank = shape.len();
    if dim < 0 || dim as usize >= rank {
        return Err(format!("dimension ({dim}) is out of bound [0, {rank})"));
    }
    if matches!(view.node.kind, Op::Reduce { .. }) {
        let mut reduced_shape = shape.to_vec();
        reduced_shape.remove(dim as usize);
        for (operand, result) in operands.iter().zip(&view.node.results) {
            if view.tile(*result) != (view.tile(*operand).0, &reduced_shape[..]) {
                let dims: String = reduced_shape.iter().map(|dim| format!("{dim}x")).collect();
                let element = view.tile(*operand).0.scalar().map_or("?", Scalar::name);
                let got = view.quoted_type(view.type_id(*result));
                return Err(format!(
                    "inferred type(s) '!cuda_tile.tile<{dims}{element}>' are incompatible with return type(s) of operation {got}"
                ));
            }
        }
    }
    Ok(())
}

/// Checks that an identity of a reduction or scan has the element type of its operand.
fn check_identity_type(view: &OpView<'_, '_>, index: usize, operand: Value, identity: &Attribute) -> Check {
    let element = view.tile(operand).0;
    let identity = match identity {
        Attribute::Integer { ty, .. } | Attribute::Float { ty, .. } => match view.module().ty(*ty) {
            Type::Scalar(scalar) => Some(*scalar),
            _ => None,
        },
        Attribute::Bool(_) => Some(Scalar::I1),
        _ => None,
    };
    // An f16 identity is valid for a bf16 operand, and the reverse.
    let half_types = [Scalar::F16, Scalar::BF16];
    let is_compatible =
        identity.zip(element.scalar()).is_some_and(|(a, b)| a == b || (half_types.contains(&a) && half_types.contains(&b)));
    if is_compatible {
        return Ok(());
    }
    let name = |scalar: Option<Scalar>| scalar.map_or("?", Scalar::name);
    let (element, identity) = (name(element.scalar()), name(identity));
    Err(format!(
        "expect same type for operand at index: {index} and identity at index: {index} but got: '{element}' and '{identity}'"
    ))
}

/// Checks the rules of an op that come after the checks of its regions.
pub(super) fn check_after_regions(checker: &Checker<'_>, op: ir::Op) -> Result<(), Failure> {
    let node = &checker.body.ops[op];
    let view = OpView { checker, node };
    let body = checker.body;
    match &node.kind {
        Op::For { lower_bound, init_values, body: region, .. } => {
            let args = &body.blocks[body.block_of(*region)].args;
            check_induction_variable(&view, args, *lower_bound)
                .and_then(|()| check_carried_values(&view, init_values, &args[1..]))
                .map_err(|message| checker.failure(op, message))
        }
        Op::Loop { init_values, body: region } => {
            let args = &body.blocks[body.block_of(*region)].args;
            check_carried_values(&view, init_values, args).map_err(|message| checker.failure(op, message))
        }
        Op::Reduce { operands, body: region, .. } | Op::Scan { operands, body: region, .. } => {
            check_combiner(&view, operands, *region).map_err(|message| checker.failure(op, message))?;
            let block = body.block_of(*region);
            let ops = &body.blocks[block].ops;
            match ops[..ops.len() - 1].iter().find(|inner| !checker.effect_free[inner.0 as usize]) {
                Some(inner) => {
                    let name = node.kind.mnemonic();
                    let message = format!("only memory-effect-free operations are allowed inside 'cuda_tile.{name}'");
                    Err(checker.failure(*inner, message))
                }
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

fn check_induction_variable(view: &OpView<'_, '_>, args: &[Value], lower_bound: Value) -> Check {
    let Some(variable) = args.first() else {
        return Err("expected at least one block argument for induction variable".into());
    };
    if view.type_id(*variable) != view.type_id(lower_bound) {
        let (variable, bound) = (view.quoted_type(view.type_id(*variable)), view.quoted_type(view.type_id(lower_bound)));
        return Err(format!("expected induction variable to be same type as bounds and step: {variable} vs {bound}"));
    }
    Ok(())
}

/// Checks that the initial values, the arguments and the results of a loop have types that a loop can carry.
fn check_carried_values(view: &OpView<'_, '_>, init: &[Value], args: &[Value]) -> Check {
    if init.len() != args.len() {
        let (args, init) = (args.len(), init.len());
        return Err(format!("mismatch in number of region iterator values and loop iterator inits: {args} vs {init}"));
    }
    for (i, (init, arg)) in init.iter().zip(args).enumerate() {
        check_not_a_view(view.ty(*arg)).map_err(|what| format!("loop-carried value {i} is a {what}, which is not supported"))?;
        if view.type_id(*init) != view.type_id(*arg) {
            let (init, arg) = (view.quoted_type(view.type_id(*init)), view.quoted_type(view.type_id(*arg)));
            return Err(format!("init value {i} and region iter_value {i} have different type: {init} != {arg}"));
        }
    }
    for (i, result) in view.node.results.iter().enumerate() {
        check_not_a_view(view.ty(*result)).map_err(|what| format!("result type {i} is a {what}, which is not supported"))?;
    }
    Ok(())
}

/// Checks that the body of a reduction or scan takes pairs of scalars and yields one scalar per pair.
fn check_combiner(view: &OpView<'_, '_>, operands: &[Value], region: Region) -> Check {
    let body = view.checker.body;
    let block = &body.blocks[body.block_of(region)];
    let Some(Op::Yield { operands: yielded }) = block.ops.last().map(|op| &body.ops[*op].kind) else {
        return Err("expect non-empty block".into());
    };
    let (args, expected) = (&block.args, operands.len() * 2);
    if args.len() != expected {
        return Err(format!("expect {expected} block arguments but got: {}", args.len()));
    }
    let scalar_tile = |value: &Value| view.ty(*value).tile().filter(|(_, shape)| shape.is_empty());
    if let Some(i) = args.iter().position(|arg| scalar_tile(arg).is_none()) {
        return Err(format!("expect 0-rank tile type at index: {i} but got: {}", view.quoted_type(view.type_id(args[i]))));
    }
    let element_of = |value: Value| view.tile(value).0;
    for i in (0..expected).step_by(2) {
        let (first, second) = (element_of(args[i]), element_of(args[i + 1]));
        if first != second {
            let what = format!("expect same element type for block argument at index: {i} and {}", i + 1);
            return Err(format!("{what} but got: {} and {}", element_text(first), element_text(second)));
        }
    }
    for (i, operand) in operands.iter().enumerate() {
        let (operand, arg) = (element_of(*operand), element_of(args[i * 2]));
        if operand != arg {
            let what = format!("expect same type for operand at index: {i} and block argument at index: {}", i * 2);
            return Err(format!("{what} but got: {} and {}", element_text(operand), element_text(arg)));
        }
    }
    if yielded.len() != operands.len() {
        let (yielded, operands) = (yielded.len(), operands.len());
        return Err(format!("expect number of terminators operands ({yielded}) to match number of operands ({operands})"));
    }
    for (i, (operand, yielded)) in operands.iter().zip(yielded).enumerate() {
        let Some((given, _)) = view.ty(*yielded).tile() else {
            let (operand, got) = (view.quoted_type(view.type_id(*operand)), view.quoted_type(view.type_id(*yielded)));
            return Err(format!("expected TileType for operand and terminator types but got: {operand} and {got}"));
        };
        let operand = element_of(*operand);
        if operand != given {
            let what = format!("expect same type for operand at index: {i} and terminator argument at index: {i}");
            return Err(format!("{what} but got: {} and {}", element_text(operand), element_text(given)));
        }
    }
    Ok(())
}

/// The text of an element type in messages.
fn element_text(element: Element) -> String {
    match element {
        Element::Scalar(scalar) => format!("'{scalar}'"),
        Element::Ptr(pointer) => format!("'!cuda_tile.ptr<{}>'", pointer.pointee),
    }
}
