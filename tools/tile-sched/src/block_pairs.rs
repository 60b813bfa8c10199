//! Makes the two blocks of a cluster a pair, whose products in tensor memory the first block asks for: of a right operand that both need
//! each then has half of the columns, in half of the memory, and nobody brings anything to another block.
//!
//! Requires: a function whose loops are not scheduled. Establishes: whether it is one of a pair, of which the log says why not, and then
//! the buffers of its right operands as halves, with maps whose boxes fill them. Whether the steps of its pipes can be written so, and
//! are right, is for the passes behind and for the judge to say, which are tried before. `finish` writes what the end of such a function
//! waits for.

use crate::multicast;
use crate::tensor;
use base::diag::{Diagnostic, Result};
use base::envelope::{Category, LogEntry, Outcome};
use base::ir::Op as OpId;
use base::{Envelope, File};
use hardware::Feature;
use sched::block_pairs::{halves, refused};
use sched::{Drain, Function, Module, Op, judge};
use std::collections::BTreeMap;
use tensormap::Map;
use tileas::group::Matrix;
use tileas::mma::Operand;
use tileas::tensor::{PAIR, suits_pairs};
use tileas::{Buffer, BufferInfo, MapId, MmaAtom, Place, Space, Type, boxes};
use vocabulary::tile::View;

pub(crate) fn run(file: &mut File<Module>, carry_out: fn(&mut File<Module>) -> Result<()>) -> Result<()> {
    let wanted = file.envelope.options.get("pairs").unwrap_or("auto").to_string();
    for index in 0..file.payload.functions.len() {
        let function = &file.payload.functions[index];
        let may = function.attrs.program.cluster.is_some() && tensor::multiplies(function);
        if wanted == "off" || !may && wanted != "on" {
            continue;
        }
        let entry = match tried(file, index, carry_out) {
            Ok(paired) => {
                file.payload.functions[index] = paired;
                (Outcome::Passed, "the blocks of a cluster are a pair: each has half of the columns of right operands".to_string())
            }
            Err(why) if wanted == "on" => {
                let refused = Diagnostic::unsupported("SC103", format!("--pairs: the blocks are no pair: {why}"));
                return Err(refused.at_loc(&file.envelope.debug, function.loc));
            }
            Err(why) => (Outcome::Missed, format!("the blocks of a cluster are no pair: {why}")),
        };
        log(file, index, entry);
    }
    Ok(())
}

fn log(file: &mut File<Module>, index: usize, (outcome, message): (Outcome, String)) {
    let function = &file.payload.functions[index];
    let (pass, name, category) = ("analysis".into(), "Pair".into(), Category::Other);
    let entry = LogEntry { pass, outcome, name, category, message, function: function.name.clone(), loc: function.loc };
    file.envelope.log.push(entry);
}

/// The function as one of a pair, if all that is behind takes it; or why it is none.
fn tried(
    file: &File<Module>,
    index: usize,
    carry_out: fn(&mut File<Module>) -> Result<()>,
) -> std::result::Result<Function, String> {
    if file.envelope.options.get("multicast") == Some("on") {
        return Err("they are to bring each other boxes".into());
    }
    let function = paired(&file.payload.functions[index], &file.envelope)?;
    let payload = Module { functions: vec![function.clone()], schedules: Vec::new(), ..file.payload.clone() };
    let mut trial = File { envelope: file.envelope.clone(), payload };
    carry_out(&mut trial).map_err(|error| error.message.clone())?;
    match judge::refusal(&trial.payload.functions[0], &trial.payload.layouts) {
        Some(why) => Err(why),
        None => Ok(function),
    }
}

/// A product in tensor memory: its operands, and the rows and columns of the sums that a block has.
struct Product {
    lhs: Buffer,
    rhs: Buffer,
    transposed: bool,
    sums: [u32; 2],
}

/// The function with halves of its right operands.
fn paired(function: &Function, envelope: &Envelope) -> std::result::Result<Function, String> {
    if !envelope.target.is_some_and(|target| target.has(Feature::TensorMemory) && target.has(Feature::BoxMulticast)) {
        return Err("the target has no products of pairs".into());
    }
    if function.attrs.program.cluster != Some(PAIR) {
        return Err("there is no cluster of two".into());
    }
    let products = products(function)?;
    let mut paired = function.clone();
    paired.attrs.program.pair = true;
    let rights: BTreeMap<Buffer, bool> = products.iter().map(|product| (product.rhs, product.transposed)).collect();
    are_brought(function, &products)?;
    let all: Vec<Buffer> = rights.keys().copied().collect();
    sched::multicast::are_same(function, &all)?;
    for (buffer, dim) in halves(&paired) {
        halve(&mut paired, buffer, dim)?;
        let info = &paired.attrs.program.buffers[buffer];
        Matrix::of(info, Operand::B, rights[&buffer])
            .ok_or_else(|| format!("{buffer}: half of it does not lie as products read it"))?;
    }
    refused(&paired)?;
    multicast::drop_unused_maps(&mut paired);
    Ok(base::text::compact(&paired))
}

/// The products of a function, if a pair can make them all: a kernel makes all of one kind.
fn products(function: &Function) -> std::result::Result<Vec<Product>, String> {
    let (body, buffers) = (&function.body, &function.attrs.program.buffers);
    let mut products = Vec::new();
    for op in body.walk(function.region) {
        match &body.ops[op].kind {
            Op::Core(tileas::Op::Mma { lhs_scale: Some(_), atom: MmaAtom::Tensor(_), .. }) => {
                return Err("operands have scales in tensor memory".into());
            }
            Op::Core(tileas::Op::Mma { lhs, rhs, acc, atom: MmaAtom::Tensor(_), .. }) => {
                let (Place::Memory { buffer: lhs, .. }, Place::Memory { buffer: rhs, transposed, .. }) = (lhs, rhs) else {
                    continue;
                };
                let Place::Memory { buffer: acc, .. } = acc else { continue };
                let sums = *buffers[*acc].shape.last_chunk().ok_or("its sums are no matrix")?;
                products.push(Product { lhs: *lhs, rhs: *rhs, transposed: *transposed, sums });
            }
            Op::Core(tileas::Op::TensorScale { .. }) => return Err("threads scale the sums between products".into()),
            _ => {}
        }
    }
    match products.iter().find(|product| !suits_pairs(product.sums)) {
        Some(Product { sums: [m, n], .. }) => Err(format!("products of {m} rows and {n} columns in each block are none of a pair")),
        None if products.is_empty() => Err("it makes no products in tensor memory".into()),
        None => Ok(products),
    }
}

/// Boxes bring all operands, and nothing but products reads the right ones.
fn are_brought(function: &Function, products: &[Product]) -> std::result::Result<(), String> {
    let body = &function.body;
    let operands: Vec<Buffer> = products.iter().flat_map(|product| [product.lhs, product.rhs]).collect();
    if products.iter().any(|product| products.iter().any(|other| other.lhs == product.rhs)) {
        return Err("the right operand of a product is the left one of another".into());
    }
    if operands.iter().any(|buffer| function.attrs.program.buffers[*buffer].space != Space::Shared) {
        return Err("threads store left operands to tensor memory".into());
    }
    let is_right = |buffer: Buffer| products.iter().any(|product| product.rhs == buffer);
    for op in body.walk(function.region) {
        let kind = &body.ops[op].kind;
        let (by_boxes, by_products) = (matches!(kind, Op::Core(tileas::Op::CopyBoxes { .. })), tensor::is_product(kind));
        for access in kind.effects().buffers.iter().filter(|access| operands.contains(&access.buffer)) {
            if access.does.writes() && !by_boxes {
                return Err(format!("{}: not boxes alone bring it", access.buffer));
            }
            if is_right(access.buffer) && !by_boxes && !by_products {
                return Err(format!("{}: threads read it, too", access.buffer));
            }
        }
    }
    Ok(())
}

/// A buffer holds half of the tiles that are copied to it, in boxes that fill it.
fn halve(function: &mut Function, buffer: Buffer, dim: usize) -> std::result::Result<(), String> {
    let copies: Vec<(OpId, View, MapId)> = sched::multicast::copies(function, buffer)
        .filter_map(|(op, view, _, map)| match function.body.ty(view) {
            Type::View(view) => Some((op, view.clone(), map)),
            _ => None,
        })
        .collect();
    let mut found: Option<BufferInfo> = None;
    for (op, mut view, map) in copies {
        view.tile[dim] /= PAIR;
        let (map, info) =
            half(&view, &function.attrs.program.maps[map]).ok_or_else(|| format!("{buffer}: half of a box is too small"))?;
        if found.as_ref().is_some_and(|found| *found != info) {
            return Err(format!("{buffer}: boxes of several kinds fill it"));
        }
        found = Some(info);
        let maps = &mut function.attrs.program.maps;
        let known = maps.iter().find(|(_, other)| **other == map).map(|(id, _)| id);
        let own = known.unwrap_or_else(|| maps.push(map));
        if let Op::Core(tileas::Op::CopyBoxes { map, .. }) = &mut function.body.ops[op].kind {
            *map = own;
        }
    }
    let info = &mut function.attrs.program.buffers[buffer];
    let found = found.ok_or_else(|| format!("{buffer}: boxes do not bring it"))?;
    *info = BufferInfo { align: info.align.max(found.align), ..found };
    Ok(())
}

/// The map of a tile that is half of the one before, and the buffer as its boxes fill it.
fn half(view: &View, whole: &Map) -> Option<(Map, BufferInfo)> {
    let (extent, swizzle) = boxes::boxes_of(view)?;
    let info = boxes::buffer(view, &extent, swizzle)?;
    Some((Map { extent, swizzle, ..whole.clone() }, info))
}

/// The first block is told by the threads of both, and who asks for boxes waits, in the end, until its products have let go of every slot.
pub(crate) fn finish(function: &mut Function, envelope: &Envelope) -> Result<()> {
    if !function.attrs.program.pair {
        return Ok(());
    }
    for pipe in function.attrs.pipes.ids().collect::<Vec<_>>() {
        let info = &function.attrs.pipes[pipe];
        // The first block is told by as few threads as can be.
        if function.attrs.is_of_pair(info) && info.drain == Drain::Threads {
            function.attrs.pipes[pipe].drain = Drain::Warps;
        }
        function.attrs.pipes[pipe].empty = function.attrs.draining_threads(&function.attrs.pipes[pipe]);
        if function.attrs.ends_free(&function.attrs.pipes[pipe]) {
            multicast::tail::write(function, pipe).ok_or_else(|| {
                let message = format!("'{}': where the last slots of {pipe} are is not known", function.name);
                Diagnostic::unsupported("SC103", message).at_loc(&envelope.debug, function.loc)
            })?;
        }
    }
    *function = base::text::compact(function);
    Ok(())
}
