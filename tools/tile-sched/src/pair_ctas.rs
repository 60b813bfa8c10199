//! Makes the two blocks of a cluster a pair, whose mmas in tensor memory the first block asks for: of a right operand that both need
//! each then has half of the columns, in half of the memory, and nobody brings anything to another block.
//!
//! Requires: a function whose loops are not scheduled. Establishes: whether it is one of a pair, of which the log says why not, and then
//! the buffers of its right operands as halves, with maps whose tma_copies fill them. Whether the steps of its pipelines can be written so, and
//! are right, is for the passes behind and for the hazard_checker to say, which are tried before. `finish` writes what the end of such a function
//! waits for.

use crate::multicast;
use crate::tmem_pipelines;
use base::diag::{Diagnostic, Result};
use base::envelope::{Category, LogEntry, Outcome};
use base::ir::Op as OpId;
use base::{Envelope, File};
use core_dialect::tile::View;
use sched::cta_pairs::{halves, refused};
use sched::{Drain, Function, Module, Op, hazard_checker};
use std::collections::BTreeMap;
use target_info::Feature;
use tensormap::Map;
use tileas::mma_sync_atoms::Operand;
use tileas::tensor_memory::{CTA_PAIR, suits_cta_pairs};
use tileas::wgmma_atoms::Matrix;
use tileas::{Buffer, BufferInfo, MapId, MmaAtom, MmaOperand, Space, Type, tma_tiles};

pub(crate) fn run(file: &mut File<Module>, carry_out: fn(&mut File<Module>) -> Result<()>) -> Result<()> {
    let choice = file.envelope.options.get("cta-pairs").unwrap_or("auto").to_string();
    for index in 0..file.payload.functions.len() {
        let function = &file.payload.functions[index];
        let may = function.attrs.program.cluster.is_some() && tmem_pipelines::has_mma(function);
        if choice == "off" || !may && choice != "on" {
            continue;
        }
        let entry = match tried(file, index, carry_out) {
            Ok(paired) => {
                file.payload.functions[index] = paired;
                (Outcome::Passed, "the blocks of a cluster are a pair: each has half of the columns of right operands".to_string())
            }
            Err(why) if choice == "on" => {
                let refused = Diagnostic::unsupported("SC103", format!("--cta-pairs: the blocks are no pair: {why}"));
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
        return Err("they are to bring each other tma_copies".into());
    }
    let function = paired(&file.payload.functions[index], &file.envelope)?;
    let payload = Module { functions: vec![function.clone()], schedules: Vec::new(), ..file.payload.clone() };
    let mut trial = File { envelope: file.envelope.clone(), payload };
    carry_out(&mut trial).map_err(|error| error.message.clone())?;
    match hazard_checker::refusal(&trial.payload.functions[0], &trial.payload.layouts) {
        Some(why) => Err(why),
        None => Ok(function),
    }
}

/// A mma in tensor memory: its operands, and the rows and columns of the accumulators that a block has.
struct PairedMma {
    lhs: Buffer,
    rhs: Buffer,
    transposed: bool,
    accumulators: [u32; 2],
}

/// The function with halves of its right operands.
fn paired(function: &Function, envelope: &Envelope) -> std::result::Result<Function, String> {
    if !envelope.target.is_some_and(|target| target.has(Feature::TensorMemory) && target.has(Feature::TmaMulticast)) {
        return Err("the target has no mmas of pairs".into());
    }
    if function.attrs.program.cluster != Some(CTA_PAIR) {
        return Err("there is no cluster of two".into());
    }
    let mmas = mmas(function)?;
    let mut paired = function.clone();
    paired.attrs.program.cta_pair = true;
    let rights: BTreeMap<Buffer, bool> = mmas.iter().map(|mma| (mma.rhs, mma.transposed)).collect();
    are_brought(function, &mmas)?;
    let all: Vec<Buffer> = rights.keys().copied().collect();
    sched::multicast::are_same(function, &all)?;
    for (buffer, dim) in halves(&paired) {
        halve(&mut paired, buffer, dim)?;
        let info = &paired.attrs.program.buffers[buffer];
        Matrix::of(info, Operand::B, rights[&buffer])
            .ok_or_else(|| format!("{buffer}: half of it does not lie as mmas read it"))?;
    }
    refused(&paired)?;
    multicast::drop_unused_maps(&mut paired);
    Ok(base::text::compact(&paired))
}

/// The mmas of a function, if a pair can make them all: a kernel makes all of one kind.
fn mmas(function: &Function) -> std::result::Result<Vec<PairedMma>, String> {
    let (body, buffers) = (&function.body, &function.attrs.program.buffers);
    let mut mmas = Vec::new();
    for op in body.walk(function.region) {
        match &body.ops[op].kind {
            Op::Core(tileas::Op::Mma { lhs_scale: Some(_), atom: MmaAtom::Tensor(_), .. }) => {
                return Err("operands have scales in tensor memory".into());
            }
            Op::Core(tileas::Op::Mma { lhs, rhs, acc, atom: MmaAtom::Tensor(_), .. }) => {
                let (MmaOperand::Memory { buffer: lhs, .. }, MmaOperand::Memory { buffer: rhs, transposed, .. }) = (lhs, rhs)
                else {
                    continue;
                };
                let MmaOperand::Memory { buffer: acc, .. } = acc else { continue };
                let accumulators = *buffers[*acc].shape.last_chunk().ok_or("its accumulators are no matrix")?;
                mmas.push(PairedMma { lhs: *lhs, rhs: *rhs, transposed: *transposed, accumulators });
            }
            Op::Core(tileas::Op::TmemScale { .. }) => return Err("threads scale the accumulators between mmas".into()),
            _ => {}
        }
    }
    match mmas.iter().find(|mma| !suits_cta_pairs(mma.accumulators)) {
        Some(PairedMma { accumulators: [m, n], .. }) => {
            Err(format!("mmas of {m} rows and {n} columns in each block are none of a pair"))
        }
        None if mmas.is_empty() => Err("it makes no mmas in tensor memory".into()),
        None => Ok(mmas),
    }
}

/// Tma bring all operands, and nothing but mmas reads the right ones.
fn are_brought(function: &Function, mmas: &[PairedMma]) -> std::result::Result<(), String> {
    let body = &function.body;
    let operands: Vec<Buffer> = mmas.iter().flat_map(|mma| [mma.lhs, mma.rhs]).collect();
    if mmas.iter().any(|mma| mmas.iter().any(|other| other.lhs == mma.rhs)) {
        return Err("the right operand of a mma is the left one of another".into());
    }
    if operands.iter().any(|buffer| function.attrs.program.buffers[*buffer].space != Space::Shared) {
        return Err("threads store left operands to tensor memory".into());
    }
    let is_right = |buffer: Buffer| mmas.iter().any(|mma| mma.rhs == buffer);
    for op in body.walk(function.region) {
        let kind = &body.ops[op].kind;
        let (by_tma, by_mma) = (matches!(kind, Op::Core(tileas::Op::TmaLoad { .. })), tmem_pipelines::is_mma(kind));
        for access in kind.effects().buffers.iter().filter(|access| operands.contains(&access.buffer)) {
            if access.access_kind.writes() && !by_tma {
                return Err(format!("{}: not tma_copies alone bring it", access.buffer));
            }
            if is_right(access.buffer) && !by_tma && !by_mma {
                return Err(format!("{}: threads read it, too", access.buffer));
            }
        }
    }
    Ok(())
}

/// A buffer holds half of the tiles that are copied to it, in tma_copies that fill it.
fn halve(function: &mut Function, buffer: Buffer, dim: usize) -> std::result::Result<(), String> {
    let copies: Vec<(OpId, View, MapId)> = sched::multicast::copies(function, buffer)
        .filter_map(|(op, view, _, map)| match function.body.ty(view) {
            Type::View(view) => Some((op, view.clone(), map)),
            _ => None,
        })
        .collect();
    let mut found: Option<BufferInfo> = None;
    for (op, mut view, map) in copies {
        view.tile[dim] /= CTA_PAIR;
        let (map, info) =
            half(&view, &function.attrs.program.maps[map]).ok_or_else(|| format!("{buffer}: half of a box is too small"))?;
        if found.as_ref().is_some_and(|found| *found != info) {
            return Err(format!("{buffer}: tma_copies of several kinds fill it"));
        }
        found = Some(info);
        let maps = &mut function.attrs.program.maps;
        let known = maps.iter().find(|(_, other)| **other == map).map(|(id, _)| id);
        let own = known.unwrap_or_else(|| maps.push(map));
        if let Op::Core(tileas::Op::TmaLoad { map, .. }) = &mut function.body.ops[op].kind {
            *map = own;
        }
    }
    let info = &mut function.attrs.program.buffers[buffer];
    let found = found.ok_or_else(|| format!("{buffer}: tma_copies do not bring it"))?;
    *info = BufferInfo { align: info.align.max(found.align), ..found };
    Ok(())
}

/// The map of a tile that is half of the one before, and the buffer as its tma_copies fill it.
fn half(view: &View, whole: &Map) -> Option<(Map, BufferInfo)> {
    let (extent, swizzle) = tma_tiles::tma_tiles_of(view)?;
    let info = tma_tiles::buffer(view, &extent, swizzle)?;
    Some((Map { extent, swizzle, ..whole.clone() }, info))
}

/// The first block is told by the threads of both, and who asks for tma_copies waits, in the end, until its mmas have let go of every stage.
pub(crate) fn finish(function: &mut Function, envelope: &Envelope) -> Result<()> {
    if !function.attrs.program.cta_pair {
        return Ok(());
    }
    for pipeline in function.attrs.pipelines.ids().collect::<Vec<_>>() {
        let info = &function.attrs.pipelines[pipeline];
        // The first block is told by as few threads as can be.
        if function.attrs.is_of_cta_pair(info) && info.drain == Drain::Threads {
            function.attrs.pipelines[pipeline].drain = Drain::Warps;
        }
        function.attrs.pipelines[pipeline].empty = function.attrs.draining_threads(&function.attrs.pipelines[pipeline]);
        if function.attrs.ends_free(&function.attrs.pipelines[pipeline]) {
            multicast::drain_producer::write(function, pipeline).ok_or_else(|| {
                let message = format!("'{}': where the last stages of {pipeline} are is not known", function.name);
                Diagnostic::unsupported("SC103", message).at_loc(&envelope.debug, function.loc)
            })?;
        }
    }
    *function = base::text::compact(function);
    Ok(())
}
