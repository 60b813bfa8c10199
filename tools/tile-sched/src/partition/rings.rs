//! Lets loops that follow each other fill the same rings: an agent that runs ahead cannot know when the memory of one loop is free
//! for another's pipe, but of one pipe it does.
//!
//! Requires: nothing decided about the loops. Establishes: that loops which fill buffers alike, for products alike and nothing else, fill
//! the same ones.

use crate::graph::region_of;
use crate::hazards::touches;
use crate::{boxes, tensor};
use base::ir::Op as OpId;
use sched::{Function, Op};
use std::collections::BTreeMap;
use tileas::{Buffer, BufferInfo, Place};
use vocabulary::core_ops::Core;

/// A buffer of a loop, and which of the loop's products reads it first.
#[derive(Clone, PartialEq)]
struct Filled {
    info: BufferInfo,
    product: usize,
}

/// What a loop fills by boxes, in order; nothing where not only its products read that.
struct Loop {
    op: OpId,
    buffers: Vec<Buffer>,
    filled: Vec<Filled>,
}

pub(crate) fn share(function: &mut Function) {
    let loops: Vec<Loop> = function.body.blocks[function.entry()].ops.iter().filter_map(|op| Loop::of(function, *op)).collect();
    let mut first: Vec<&Loop> = Vec::new();
    for later in &loops {
        let Some(earlier) = first.iter().find(|earlier| earlier.filled == later.filled) else {
            first.push(later);
            continue;
        };
        let names: BTreeMap<Buffer, Buffer> = later.buffers.iter().copied().zip(earlier.buffers.iter().copied()).collect();
        for op in function.body.walk(region_of(function, later.op)) {
            rename(&mut function.body.ops[op].kind, &names);
        }
    }
}

/// Whether loops of a function fill the same rings.
pub(crate) fn are_shared(function: &Function) -> bool {
    function.attrs.program.buffers.ids().any(|buffer| filling(function, buffer).len() > 1)
}

/// The loops that follow each other and fill a buffer by boxes.
pub(crate) fn filling(function: &Function, buffer: Buffer) -> Vec<OpId> {
    let loops = function.body.blocks[function.entry()].ops.iter().copied().filter(|op| is_loop(function, *op));
    loops.filter(|op| fills(function, *op).iter().any(|(_, other)| *other == buffer)).collect()
}

fn is_loop(function: &Function, op: OpId) -> bool {
    matches!(function.body.ops[op].kind.core(), Some(Core::For { .. }))
}

/// The copies by boxes of a loop's body, and the buffers that they fill.
fn fills(function: &Function, for_op: OpId) -> Vec<(OpId, Buffer)> {
    let body = &function.body;
    let ops = &body.blocks[body.block_of(region_of(function, for_op))].ops;
    ops.iter().filter_map(|op| Some((*op, boxes::filled(&body.ops[*op].kind)?))).collect()
}

impl Loop {
    fn of(function: &Function, op: OpId) -> Option<Loop> {
        if !is_loop(function, op) {
            return None;
        }
        let body = &function.body;
        let ops = &body.blocks[body.block_of(region_of(function, op))].ops;
        let products: Vec<OpId> = ops.iter().copied().filter(|op| tensor::is_product(&body.ops[*op].kind)).collect();
        let (copies, buffers): (Vec<OpId>, Vec<Buffer>) = fills(function, op).into_iter().unzip();
        let touched = |op: OpId, buffer: Buffer| touches(&body.ops[op].kind).iter().any(|touch| touch.buffer() == buffer);
        let filled = |buffer: &Buffer| {
            let product = products.iter().position(|product| touched(*product, *buffer))?;
            Some(Filled { info: function.attrs.program.buffers[*buffer].clone(), product })
        };
        let filled: Vec<Filled> = buffers.iter().map(filled).collect::<Option<_>>()?;
        let own = |op: &OpId| copies.contains(op) || products.contains(op);
        let others = body.walk(function.region).into_iter().filter(|op| !own(op));
        let alone = others.into_iter().all(|op| !buffers.iter().any(|buffer| touched(op, *buffer)));
        (alone && !buffers.is_empty()).then_some(Loop { op, buffers, filled })
    }
}

/// Gives the buffers that copies and products name other names.
fn rename(op: &mut Op, names: &BTreeMap<Buffer, Buffer>) {
    let change = |buffer: &mut Buffer| *buffer = names.get(buffer).copied().unwrap_or(*buffer);
    match op {
        Op::Core(tileas::Op::CopyBoxes { buffer, .. }) => change(buffer),
        Op::Core(tileas::Op::Mma { lhs, rhs, .. }) => {
            for place in [lhs, rhs] {
                if let Place::Memory { buffer, .. } = place {
                    change(buffer);
                }
            }
        }
        _ => {}
    }
}
