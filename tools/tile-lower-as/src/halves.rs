//! Makes attention of many rows in two halves, one after the other, where registers do not hold the sums of both.
//!
//! Requires: `.aa`. Establishes: `.aa` in which, of the products of a loop whose results are operands of others, one half of the rows is
//! multiplied, weighed and multiplied again before the other: what goes from product to product then takes half of the registers.
//! What both halves need, such as tiles of keys and values, is made once. The function stays as it is where its sums have room, where
//! halves have none either, where not all of its products have rows of their own for each half, and where tokens say what is after an
//! access that is then two.
//!
//! Sums in tensor memory need no registers. Products of single warps would read the other operand once for each half, and the assembler
//! mixes both halves, so that nothing is gained.

use crate::cluster::forms::{Flow, Form, Forms};
use crate::cluster::{self, Halves};
use crate::operands;
use crate::products::{self, registers};
use base::ir::Operation;
use base::{Target, Value};
use hardware::Feature;
use tileaa::{Function, Op, Type};
use tileas::budget;
use vocabulary::core_ops::Core;

/// Warps that products are shared among at most.
const WARPS: u32 = 8;

/// Whether halves of rows are worth it, or asked for (`--halves`).
pub(crate) fn are_wanted(function: &Function, target: Target, when: Option<&str>) -> bool {
    match when {
        Some("on") => true,
        Some("off") => false,
        _ => target.has(Feature::WarpGroupProducts) && halves_have_room(function, target),
    }
}

/// The function with halves of rows; or why it cannot have them.
pub(crate) fn run(function: &Function, target: Target) -> Result<Function, String> {
    let flow = Flow::of(function);
    let forms = cluster::halved(function, target, &flow)?;
    by_rows(&forms)?;
    is_asked_for_no_end(&forms)?;
    Ok(cluster::rewrite(&forms, &flow, Halves::InTurn))
}

/// Whether the sums of chained products that are alive together take more registers than there are, and halves do not.
fn halves_have_room(function: &Function, target: Target) -> bool {
    let body = &function.body;
    let acc = |op| match body.ops[op].kind {
        Op::Mma { acc, .. } => Some(acc),
        _ => None,
    };
    // Sums that begin with a constant in each round are gone at its end; others go on, and both halves are there.
    let passes = |value| {
        let made = body.defining_op(value).map(|op| &body.ops[op].kind);
        matches!(made, Some(Op::Core(Core::Constant { .. })))
    };
    let sum = |value| registers(function, value, 32);
    let all = products::alive_together(function, |op| acc(op).map_or(0, sum));
    let passing = products::alive_together(function, |op| acc(op).filter(|acc| passes(*acc)).map_or(0, sum));
    let room = budget::registers_of_products(target, WARPS) * 32 * WARPS;
    all > room && all - passing / 2 <= room
}

/// That each half has all of its products to itself.
fn by_rows(forms: &Forms<'_>) -> Result<(), String> {
    let body = &forms.function.body;
    let has_rows = |result: Value| {
        let rank = body.ty(result).tile().map_or(0, |(_, shape)| shape.len());
        forms.passed(result).eq([Form::Half(rank - 2)])
    };
    let products = body.walk(forms.function.region).into_iter().filter(|op| operands::is_product(forms.function, *op));
    match products.map(|op| &body.ops[op]).find(|node| !has_rows(node.results[0])) {
        Some(node) => Err(format!("both halves need the result of '{}'", node.kind.mnemonic())),
        None => Ok(()),
    }
}

/// That no token is needed of an access that is made in halves, which would be two.
fn is_asked_for_no_end(forms: &Forms<'_>) -> Result<(), String> {
    let body = &forms.function.body;
    for op in body.walk(forms.function.region) {
        let node = &body.ops[op];
        let whole = match node.kind {
            Op::LoadView { .. } | Op::Load { .. } => forms.passed(node.results[0]).all(|form| form == Form::Whole),
            Op::StoreView { .. } | Op::Store { .. } => false,
            _ => true,
        };
        let mut tokens = node.results.iter().filter(|result| *body.ty(**result) == Type::Token);
        if !whole && tokens.any(|token| !forms.of(*token).is_empty()) {
            return Err(format!("a token says what is after a '{}', which would be two", node.kind.mnemonic()));
        }
    }
    Ok(())
}
