//! Purpose: turn a cluster of two into a CTA pair (`cta_group::2`), whose first CTA issues the tensor memory MMAs of both. Each CTA
//! holds half of the columns of the right operands, so it needs half of the memory for them and no multicast.
//! Requires: a function whose loops are not scheduled yet.
//! Establishes: `cta_pair`, halved buffers for right operands, and tensor maps whose TMA tiles fill these buffers; or a remark with
//! the reason against a pair.
//! Preserves: the op order; only buffers, maps and attributes change, until [`complete_pair_pipelines`] writes the producer's tail.
//! See also: CUTLASS `SM100_MMA_F16BF16_2x1SM_SS`, PTX `tcgen05.mma.cta_group::2`.
//!
//! Later passes write the pipeline ops of a pair, and the hazard checker checks these ops. This pass first runs the later passes
//! and the hazard checker on a trial copy, and pairs the CTAs only if both accept it.

use crate::multicast;
use crate::tmem_mma_buffers;
use base::diag::{Diagnostic, Result};
use base::envelope::{Category, LogEntry, Outcome};
use base::ir::Op as OpId;
use base::{Envelope, File};
use core_dialect::tile::View;
use sched::cta_pairs::{self, halved_buffers};
use sched::{Drain, Function, Module, Op, Phase, hazard_checker};
use std::collections::BTreeMap;
use target_info::Feature;
use tensormap::Map;
use tileas::mma_sync_atoms::Operand;
use tileas::tensor_memory::{CTA_PAIR, suits_cta_pairs};
use tileas::wgmma_atoms::Matrix;
use tileas::{Buffer, BufferInfo, MapId, MmaAtom, MmaOperand, Space, Type, tma_tiles};

pub(crate) fn run(file: &mut File<Module>, run_later_passes: fn(File<Module>) -> Result<File<Module>>) -> Result<()> {
    let choice = file.envelope.options.get("cta-pairs").unwrap_or("auto").to_string();
    for index in 0..file.payload.functions.len() {
        let function = &file.payload.functions[index];
        let is_eligible = function.attrs.program.cluster.is_some() && tmem_mma_buffers::has_tmem_mma(function);
        if choice == "off" || !is_eligible && choice != "on" {
            continue;
        }
        let (outcome, message) = match pair_if_accepted(file, index, run_later_passes) {
            Ok(paired) => {
                file.payload.functions[index] = paired;
                (Outcome::Passed, "the CTAs of a cluster form a pair: each holds half of the columns of right operands".to_string())
            }
            Err(reason) if choice == "on" => {
                let refused = Diagnostic::unsupported("SC103", format!("--cta-pairs: the CTAs cannot form a pair: {reason}"));
                return Err(refused.at_loc(&file.envelope.debug, function.loc));
            }
            Err(reason) => (Outcome::Missed, format!("the CTAs of a cluster cannot form a pair: {reason}")),
        };
        log(file, index, outcome, message);
    }
    Ok(())
}

fn log(file: &mut File<Module>, index: usize, outcome: Outcome, message: String) {
    let function = &file.payload.functions[index];
    let (pass, name, category) = ("pair-ctas".into(), "Pair".into(), Category::Other);
    let entry = LogEntry { pass, outcome, name, category, message, function: function.name.clone(), loc: function.loc };
    file.envelope.log.push(entry);
}

/// Returns the function as a CTA pair if all later passes and the hazard checker accept it, or the reason against it.
fn pair_if_accepted(
    file: &File<Module>,
    index: usize,
    run_later_passes: fn(File<Module>) -> Result<File<Module>>,
) -> std::result::Result<Function, String> {
    if file.envelope.options.get("multicast") == Some("on") {
        return Err("--multicast=on requests multicast copies instead".into());
    }
    let function = with_halved_operands(&file.payload.functions[index], &file.envelope)?;
    let payload = Module { functions: vec![function.clone()], schedules: Vec::new(), ..file.payload.clone() };
    let mut trial_file = File { envelope: file.envelope.clone(), payload };
    trial_file.envelope.phase = Phase::PairCtas.name().into();
    let scheduled = run_later_passes(trial_file).map_err(|error| error.message.clone())?.payload;
    match hazard_checker::first_hazard(&scheduled.functions[0], &scheduled.layouts) {
        Some(reason) => Err(reason),
        None => Ok(function),
    }
}

/// A tensor memory MMA: its operands, and the rows and columns of the accumulator in each CTA.
struct PairedMma {
    lhs: Buffer,
    rhs: Buffer,
    /// Whether the MMA reads `rhs` transposed.
    transposed: bool,
    accumulator_shape: [u32; 2],
}

/// Returns the function with halved right operands.
fn with_halved_operands(function: &Function, envelope: &Envelope) -> std::result::Result<Function, String> {
    if !envelope.target.is_some_and(|target| target.has(Feature::TensorMemory) && target.has(Feature::TmaMulticast)) {
        return Err("the target has no MMAs for CTA pairs".into());
    }
    if function.attrs.program.cluster != Some(CTA_PAIR) {
        return Err("the cluster size is not two".into());
    }
    let mmas = pairable_mmas(function)?;
    let mut paired = function.clone();
    paired.attrs.program.cta_pair = true;
    let right_operands: BTreeMap<Buffer, bool> = mmas.iter().map(|mma| (mma.rhs, mma.transposed)).collect();
    check_operands(function, &mmas)?;
    let buffers: Vec<Buffer> = right_operands.keys().copied().collect();
    sched::multicast::check_uniform_copies(function, &buffers)?;
    for (buffer, dim) in halved_buffers(&paired) {
        halve_buffer(&mut paired, buffer, dim)?;
        let info = &paired.attrs.program.buffers[buffer];
        Matrix::from_buffer(info, Operand::B, right_operands[&buffer])
            .ok_or_else(|| format!("{buffer}: half of it does not have a layout that MMAs can read"))?;
    }
    cta_pairs::check_cta_pair(&paired)?;
    multicast::drop_unused_maps(&mut paired);
    Ok(base::text::compact(&paired))
}

/// Returns the tensor memory MMAs of a function, if a CTA pair can issue all of them. Reason: a kernel may not mix paired and
/// unpaired MMAs.
fn pairable_mmas(function: &Function) -> std::result::Result<Vec<PairedMma>, String> {
    let (body, buffers) = (&function.body, &function.attrs.program.buffers);
    let mut mmas = Vec::new();
    for op in body.walk(function.region) {
        match &body.ops[op].kind {
            Op::Core(tileas::Op::Mma { lhs_scale: Some(_), atom: MmaAtom::Tensor(_), .. }) => {
                return Err("MMA operands have scales in tensor memory".into());
            }
            Op::Core(tileas::Op::Mma { lhs, rhs, acc, atom: MmaAtom::Tensor(_), .. }) => {
                let (MmaOperand::Memory { buffer: lhs, .. }, MmaOperand::Memory { buffer: rhs, transposed, .. }) = (lhs, rhs)
                else {
                    continue;
                };
                let MmaOperand::Memory { buffer: acc, .. } = acc else { continue };
                let accumulator_shape = *buffers[*acc].shape.last_chunk().ok_or("an accumulator is not a matrix")?;
                mmas.push(PairedMma { lhs: *lhs, rhs: *rhs, transposed: *transposed, accumulator_shape });
            }
            Op::Core(tileas::Op::TmemScale { .. }) => return Err("threads scale the accumulators between MMAs".into()),
            _ => {}
        }
    }
    match mmas.iter().find(|mma| !suits_cta_pairs(mma.accumulator_shape)) {
        Some(PairedMma { accumulator_shape: [m, n], .. }) => {
            Err(format!("a CTA pair cannot issue MMAs of {m} rows and {n} columns in each CTA"))
        }
        None if mmas.is_empty() => Err("the function has no tensor memory MMAs".into()),
        None => Ok(mmas),
    }
}

/// Checks that TMA fills all operands, and that only MMAs read the right operands.
fn check_operands(function: &Function, mmas: &[PairedMma]) -> std::result::Result<(), String> {
    let body = &function.body;
    let operands: Vec<Buffer> = mmas.iter().flat_map(|mma| [mma.lhs, mma.rhs]).collect();
    if mmas.iter().any(|mma| mmas.iter().any(|other| other.lhs == mma.rhs)) {
        return Err("the right operand of an MMA is the left operand of another".into());
    }
    if operands.iter().any(|buffer| function.attrs.program.buffers[*buffer].space != Space::Shared) {
        return Err("threads store left operands to tensor memory".into());
    }
    let is_right = |buffer: Buffer| mmas.iter().any(|mma| mma.rhs == buffer);
    for op in body.walk(function.region) {
        let kind = &body.ops[op].kind;
        let (by_tma, by_mma) = (matches!(kind, Op::Core(tileas::Op::TmaLoad { .. })), tmem_mma_buffers::is_tmem_mma(kind));
        for access in kind.effects().buffers.iter().filter(|access| operands.contains(&access.buffer)) {
            if access.access_kind.writes() && !by_tma {
                return Err(format!("{}: not only TMA copies fill it", access.buffer));
            }
            if is_right(access.buffer) && !by_tma && !by_mma {
                return Err(format!("{}: threads read it", access.buffer));
            }
        }
    }
    Ok(())
}

/// Halves a buffer and the tiles copied to it, with TMA tiles that fill the half.
fn halve_buffer(function: &mut Function, buffer: Buffer, dim: usize) -> std::result::Result<(), String> {
    let copies: Vec<(OpId, View, MapId)> = sched::multicast::tma_copies(function, buffer)
        .filter_map(|(op, view, _, map)| match function.body.ty(view) {
            Type::View(view) => Some((op, view.clone(), map)),
            _ => None,
        })
        .collect();
    let mut halved_info: Option<BufferInfo> = None;
    for (op, mut view, map) in copies {
        view.tile[dim] /= CTA_PAIR;
        let (map, info) = halved_map_and_buffer(&view, &function.attrs.program.maps[map])
            .ok_or_else(|| format!("{buffer}: half of a TMA tile is too small"))?;
        if halved_info.as_ref().is_some_and(|halved_info| *halved_info != info) {
            return Err(format!("{buffer}: TMA copies with different tiles fill it"));
        }
        halved_info = Some(info);
        let maps = &mut function.attrs.program.maps;
        let existing = maps.iter().find(|(_, other)| **other == map).map(|(id, _)| id);
        let new_map = existing.unwrap_or_else(|| maps.push(map));
        if let Op::Core(tileas::Op::TmaLoad { map, .. }) = &mut function.body.ops[op].kind {
            *map = new_map;
        }
    }
    let info = &mut function.attrs.program.buffers[buffer];
    let halved_info = halved_info.ok_or_else(|| format!("{buffer}: no TMA copy fills it"))?;
    *info = BufferInfo { align: info.align.max(halved_info.align), ..halved_info };
    Ok(())
}

/// Returns the tensor map for a halved tile, and the buffer as TMA copies with this map fill it. `full_map`: the map for the full
/// tile.
fn halved_map_and_buffer(view: &View, full_map: &Map) -> Option<(Map, BufferInfo)> {
    let (extent, swizzle) = tma_tiles::view_tma_tile(view, full_map.dims.len())?;
    let info = tma_tiles::tma_buffer(view, &extent, swizzle)?;
    Some((Map { extent, swizzle, ..full_map.clone() }, info))
}

/// Completes the pipelines of a CTA pair. One thread of each warp of both CTAs signals the first CTA. The producer waits at its end
/// until the MMAs have released every stage.
pub(crate) fn complete_pair_pipelines(function: &mut Function, envelope: &Envelope) -> Result<()> {
    if !function.attrs.program.cta_pair {
        return Ok(());
    }
    for pipeline in function.attrs.pipelines.ids().collect::<Vec<_>>() {
        let info = &function.attrs.pipelines[pipeline];
        // An arrival at the first CTA's mbarrier is expensive, so one thread per warp arrives instead of every thread.
        if function.attrs.is_of_cta_pair(info) && info.drain == Drain::Threads {
            function.attrs.pipelines[pipeline].drain = Drain::Warps;
        }
        function.attrs.pipelines[pipeline].empty = function.attrs.draining_arrivals(&function.attrs.pipelines[pipeline]);
        if function.attrs.needs_producer_tail(&function.attrs.pipelines[pipeline]) {
            multicast::drain_producer::append_tail(function, pipeline).ok_or_else(|| {
                let message = format!("'{}': no loop carries the final position of {pipeline}", function.name);
                Diagnostic::unsupported("SC103", message).at_loc(&envelope.debug, function.loc)
            })?;
        }
    }
    *function = base::text::compact(function);
    Ok(())
}
