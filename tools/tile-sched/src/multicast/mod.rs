//! Purpose: turn TMA copies that all CTAs of a cluster need into multicast copies, so that the cluster reads them once from
//! global memory.
//! Requires: pipelines with a producer and consumers.
//! Establishes: `multicast` on every pipeline buffer for which it is legal; a remark gives the reason for the other buffers.
//! Preserves: the data in every buffer. A single TMA copy of a tile is split into two or four, so that each CTA issues one.
//! See also: CUTLASS `SM90_TMA_LOAD_MULTICAST`, PTX `cp.async.bulk.tensor ... .multicast::cluster`.
//!
//! The hazard checker decides whether a stage is free in the peer CTA when this CTA fills it. If it is not, each CTA keeps its
//! own copies.

pub(crate) mod drain_producer;

use base::diag::{Diagnostic, Result};
use base::envelope::{Category, LogEntry, Outcome};
use base::ir::Op as OpId;
use base::{Arena, Envelope, Target};
use sched::{Drain, Fill, Function, Op, Pipeline, hazard_checker, multicast};
use std::collections::BTreeSet;
use tensormap::Map;
use tileas::layout::{Layout, LayoutId};
use tileas::{Buffer, MapId, Type, tma_tiles};

pub(crate) fn run(function: &mut Function, layouts: &Arena<LayoutId, Layout>, envelope: &mut Envelope) -> Result<()> {
    let choice = envelope.options.get("multicast").unwrap_or("auto");
    let requested = choice == "on";
    if choice == "off" || function.attrs.program.cluster.is_none() && !requested {
        return Ok(());
    }
    match with_multicast(function, layouts, envelope.target()?) {
        Ok((with_multicast_copies, message)) => {
            *function = with_multicast_copies;
            if common::fault_injected("sched.multicast") {
                let ctas = function.attrs.program.cluster.unwrap_or(1);
                let pipelines = function.attrs.pipelines.values_mut();
                pipelines.filter(|info| info.multicast.is_some()).for_each(|info| info.empty /= ctas);
            }
            envelope.log.push(entry(function, Outcome::Passed, message));
            Ok(())
        }
        Err(_) if function.attrs.program.cta_pair && !requested => Ok(()),
        Err(reason) if requested => {
            let refused =
                Diagnostic::unsupported("SC102", format!("--multicast: no TMA copy of the cluster can be multicast: {reason}"));
            Err(refused.at_loc(&envelope.debug, function.loc))
        }
        Err(reason) => {
            envelope.log.push(entry(function, Outcome::Missed, format!("no TMA copy of the cluster can be multicast: {reason}")));
            Ok(())
        }
    }
}

fn entry(function: &Function, outcome: Outcome, message: String) -> LogEntry {
    let (pass, name, category) = ("materialize".into(), "Multicast".into(), Category::Other);
    LogEntry { pass, outcome, name, category, message, function: function.name.clone(), loc: function.loc }
}

/// Returns the function with every legal copy multicast and the remark's text, or the reason no copy can be multicast.
fn with_multicast(
    function: &Function,
    layouts: &Arena<LayoutId, Layout>,
    target: Target,
) -> std::result::Result<(Function, String), String> {
    if function.attrs.program.cta_pair {
        return Err("its CTAs form a pair".into());
    }
    let mut with_multicast_copies = function.clone();
    let (mut multicast_buffers, mut refusals): (Vec<Buffer>, Vec<String>) = Default::default();
    for pipeline in function.attrs.pipelines.ids() {
        for buffer in function.attrs.pipelines[pipeline].buffers.clone() {
            match make_multicast(&mut with_multicast_copies, pipeline, buffer, target) {
                Ok(()) => multicast_buffers.push(buffer),
                Err(reason) if with_multicast_copies.attrs.pipelines[pipeline].fill == Fill::Tma => {
                    refusals.push(format!("{buffer}: {reason}"))
                }
                Err(_) => {}
            }
        }
    }
    if multicast_buffers.is_empty() {
        let reason = if refusals.is_empty() { "it has no TMA copies".into() } else { refusals.join("; ") };
        return Err(reason);
    }
    drop_unused_maps(&mut with_multicast_copies);
    for pipeline in with_multicast_copies.attrs.pipelines.ids().collect::<Vec<_>>() {
        let empty = with_multicast_copies.attrs.draining_threads(&with_multicast_copies.attrs.pipelines[pipeline]);
        with_multicast_copies.attrs.pipelines[pipeline].empty = empty;
        if with_multicast_copies.attrs.needs_producer_tail(&with_multicast_copies.attrs.pipelines[pipeline]) {
            drain_producer::write(&mut with_multicast_copies, pipeline)
                .ok_or_else(|| format!("no loop carries the final position of {pipeline}"))?;
        }
    }
    with_multicast_copies = base::text::compact(&with_multicast_copies);
    if let Some(reason) = hazard_checker::first_hazard(&with_multicast_copies, layouts) {
        return Err(reason);
    }
    let list = |buffers: &[Buffer]| buffers.iter().map(Buffer::to_string).collect::<Vec<_>>().join(", ");
    let refusals_text = if refusals.is_empty() { String::new() } else { format!("; not {}", refusals.join("; ")) };
    Ok((with_multicast_copies, format!("the cluster's CTAs multicast {}{refusals_text}", list(&multicast_buffers))))
}

/// Makes each CTA of a cluster issue a part of the copies into one buffer. If a tile has fewer TMA copies than there are CTAs,
/// the copies are split first.
fn make_multicast(
    function: &mut Function,
    pipeline: Pipeline,
    buffer: Buffer,
    target: Target,
) -> std::result::Result<(), &'static str> {
    multicast::check_copies(function, &function.attrs.pipelines[pipeline], buffer, target)?;
    let ranks = function.attrs.program.cluster.unwrap_or(1);
    let copies = multicast::copies(function, buffer).map(|(op, view, _, map)| (op, view, map));
    let to_split: Vec<(OpId, MapId)> = copies
        .filter(|(_, view, map)| !multicast::tma_tiles(function, *view, *map).is_multiple_of(ranks))
        .map(|(op, _, map)| (op, map))
        .collect();
    let parts: Vec<(OpId, Map)> = to_split
        .into_iter()
        .map(|(op, map)| Some((op, split_map(function, op, map, ranks)?)))
        .collect::<Option<_>>()
        .ok_or("a part of a TMA tile is too small")?;
    for (op, part) in parts {
        let maps = &mut function.attrs.program.maps;
        let known = maps.iter().find(|(_, other)| **other == part).map(|(id, _)| id);
        let part = known.unwrap_or_else(|| maps.push(part));
        if let Op::Core(tileas::Op::TmaLoad { map, .. }) = &mut function.body.ops[op].kind {
            *map = part;
        }
    }
    multicast::check(function, &function.attrs.pipelines[pipeline], buffer, target)?;
    let info = &mut function.attrs.pipelines[pipeline];
    info.multicast.get_or_insert_default().push(buffer);
    // An arrival at a peer CTA's mbarrier is expensive, so one thread per warp arrives instead of every thread.
    if info.drain == Drain::Threads {
        info.drain = Drain::Warps;
    }
    Ok(())
}

/// Returns the map of a copy with smaller TMA tiles. Their number is a multiple of the number of CTAs, and they fill the buffer
/// in the same layout.
fn split_map(function: &Function, op: OpId, map: MapId, ranks: u32) -> Option<Map> {
    let Op::Core(tileas::Op::TmaLoad { view: copied, buffer, .. }) = &function.body.ops[op].kind else { return None };
    let Type::View(view) = function.body.ty(*copied) else { return None };
    let unsplit = &function.attrs.program.maps[map];
    let (mut extent, mut bytes, mut tma_copies) =
        (unsplit.extent.clone(), unsplit.tile_bytes(), multicast::tma_tiles(function, *copied, map));
    while !tma_copies.is_multiple_of(ranks) {
        extent = tma_tiles::halves(&extent, bytes, unsplit.swizzle)?;
        (bytes, tma_copies) = (bytes / 2, tma_copies * 2);
    }
    let filled = tma_tiles::buffer(view, &extent, unsplit.swizzle)?;
    (filled.offsets == function.attrs.program.buffers[*buffer].offsets).then(|| Map { extent, ..unsplit.clone() })
}

/// Removes tensor maps that no op uses: each map is a kernel parameter.
pub(crate) fn drop_unused_maps(function: &mut Function) {
    let mut used = BTreeSet::new();
    let maps_of = |op: &mut Op, change: &mut dyn FnMut(&mut MapId)| {
        if let Op::Core(tileas::Op::TmaLoad { map, .. } | tileas::Op::TmaStore { map, .. }) = op {
            change(map);
        }
    };
    let all = function.body.walk(function.region);
    all.iter().for_each(|op| maps_of(&mut function.body.ops[*op].kind, &mut |map| _ = used.insert(*map)));
    let kept: Vec<MapId> = used.into_iter().collect();
    let number = |map: MapId| kept.iter().position(|other| *other == map).map_or(map, |at| MapId(at as u32));
    all.iter().for_each(|op| maps_of(&mut function.body.ops[*op].kind, &mut |map| *map = number(*map)));
    let maps = &mut function.attrs.program.maps;
    *maps = kept.iter().map(|map| maps[*map].clone()).collect();
}
