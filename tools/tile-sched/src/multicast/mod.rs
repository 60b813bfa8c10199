//! Purpose: turn TMA copies that all CTAs of a cluster need into multicast copies, so that the cluster reads them once from global
//! memory.
//! Requires: pipelines with a producer and consumers.
//! Establishes: `multicast` on every pipeline buffer for which it is legal; a remark gives the reason for the other buffers.
//! Preserves: the data in every buffer. The TMA copies of a tile are split in halves until their number is a multiple of the number
//! of CTAs.
//! See also: CUTLASS `SM90_TMA_LOAD_MULTICAST`, PTX `cp.async.bulk.tensor ... .multicast::cluster`.
//!
//! The hazard checker decides whether a stage is always free in the peer CTA, the other CTA of the cluster, when this CTA fills the
//! stage. If the stage may still be in use, each CTA keeps its own copies.

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
            envelope.log.push(log_entry(function, Outcome::Passed, message));
            Ok(())
        }
        Err(_) if function.attrs.program.cta_pair && !requested => Ok(()),
        Err(reason) if requested => {
            let refused =
                Diagnostic::unsupported("SC102", format!("--multicast: no TMA copy of the cluster can be multicast: {reason}"));
            Err(refused.at_loc(&envelope.debug, function.loc))
        }
        Err(reason) => {
            envelope.log.push(log_entry(
                function,
                Outcome::Missed,
                format!("no TMA copy of the cluster can be multicast: {reason}"),
            ));
            Ok(())
        }
    }
}

fn log_entry(function: &Function, outcome: Outcome, message: String) -> LogEntry {
    let (pass, name, category) = ("multicast".into(), "Multicast".into(), Category::Other);
    LogEntry { pass, outcome, name, category, message, function: function.name.clone(), loc: function.loc }
}

/// Returns the function with every legal copy multicast, and the text of the remark. The error is the reason why no copy can be
/// multicast.
fn with_multicast(
    function: &Function,
    layouts: &Arena<LayoutId, Layout>,
    target: Target,
) -> std::result::Result<(Function, String), String> {
    if function.attrs.program.cta_pair {
        return Err("its CTAs form a pair".into());
    }
    let mut with_multicast_copies = function.clone();
    let (mut multicast_buffers, mut reasons): (Vec<Buffer>, Vec<String>) = Default::default();
    for pipeline in function.attrs.pipelines.ids() {
        for buffer in function.attrs.pipelines[pipeline].buffers.clone() {
            match make_multicast(&mut with_multicast_copies, pipeline, buffer, target) {
                Ok(()) => multicast_buffers.push(buffer),
                Err(reason) if with_multicast_copies.attrs.pipelines[pipeline].fill == Fill::Tma => {
                    reasons.push(format!("{buffer}: {reason}"))
                }
                Err(_) => {}
            }
        }
    }
    if multicast_buffers.is_empty() {
        let reason = if reasons.is_empty() { "it has no TMA copies".into() } else { reasons.join("; ") };
        return Err(reason);
    }
    drop_unused_maps(&mut with_multicast_copies);
    for pipeline in with_multicast_copies.attrs.pipelines.ids().collect::<Vec<_>>() {
        let empty = with_multicast_copies.attrs.draining_arrivals(&with_multicast_copies.attrs.pipelines[pipeline]);
        with_multicast_copies.attrs.pipelines[pipeline].empty = empty;
        if with_multicast_copies.attrs.needs_producer_tail(&with_multicast_copies.attrs.pipelines[pipeline]) {
            drain_producer::append_tail(&mut with_multicast_copies, pipeline)
                .ok_or_else(|| format!("no loop carries the final position of {pipeline}"))?;
        }
    }
    with_multicast_copies = base::text::compact(&with_multicast_copies);
    if let Some(reason) = hazard_checker::first_hazard(&with_multicast_copies, layouts) {
        return Err(reason);
    }
    let join = |buffers: &[Buffer]| buffers.iter().map(Buffer::to_string).collect::<Vec<_>>().join(", ");
    let reasons_text = if reasons.is_empty() { String::new() } else { format!("; not {}", reasons.join("; ")) };
    Ok((with_multicast_copies, format!("the cluster's CTAs multicast {}{reasons_text}", join(&multicast_buffers))))
}

/// Makes each CTA of a cluster issue a part of the copies into one buffer. If the TMA copies of a tile cannot be divided among the
/// CTAs, they are split first.
fn make_multicast(
    function: &mut Function,
    pipeline: Pipeline,
    buffer: Buffer,
    target: Target,
) -> std::result::Result<(), &'static str> {
    multicast::check_copies(function, &function.attrs.pipelines[pipeline], buffer, target)?;
    let cta_count = function.attrs.program.cluster.unwrap_or(1);
    let copies = multicast::tma_copies(function, buffer).map(|(op, view, _, map)| (op, view, map));
    let to_split: Vec<(OpId, MapId)> = copies
        .filter(|(_, view, map)| !multicast::tma_tile_count(function, *view, *map).is_multiple_of(cta_count))
        .map(|(op, _, map)| (op, map))
        .collect();
    let new_maps: Vec<(OpId, Map)> = to_split
        .into_iter()
        .map(|(op, map)| Some((op, map_with_smaller_tiles(function, op, map, cta_count)?)))
        .collect::<Option<_>>()
        .ok_or("a part of a TMA tile is too small")?;
    for (op, map_with_smaller_tiles) in new_maps {
        let maps = &mut function.attrs.program.maps;
        let existing = maps.iter().find(|(_, other)| **other == map_with_smaller_tiles).map(|(id, _)| id);
        let new_map = existing.unwrap_or_else(|| maps.push(map_with_smaller_tiles));
        if let Op::Core(tileas::Op::TmaLoad { map, .. }) = &mut function.body.ops[op].kind {
            *map = new_map;
        }
    }
    multicast::check_multicast(function, &function.attrs.pipelines[pipeline], buffer, target)?;
    let info = &mut function.attrs.pipelines[pipeline];
    info.multicast.get_or_insert_default().push(buffer);
    // An arrival at a peer CTA's mbarrier is expensive, so one thread per warp arrives instead of every thread.
    if info.drain == Drain::Threads {
        info.drain = Drain::Warps;
    }
    Ok(())
}

/// Returns the tensor map of a copy with smaller TMA tiles. The number of these TMA tiles is a multiple of the number of CTAs, and
/// the TMA tiles fill the buffer in the same layout. Returns `None` if no such map exists.
fn map_with_smaller_tiles(function: &Function, op: OpId, map: MapId, cta_count: u32) -> Option<Map> {
    let Op::Core(tileas::Op::TmaLoad { view: copied, buffer, .. }) = &function.body.ops[op].kind else { return None };
    let Type::View(view) = function.body.ty(*copied) else { return None };
    let unsplit_map = &function.attrs.program.maps[map];
    let (mut extent, mut bytes, mut tma_copies) =
        (unsplit_map.extent.clone(), unsplit_map.tile_bytes(), multicast::tma_tile_count(function, *copied, map));
    while !tma_copies.is_multiple_of(cta_count) {
        extent = tma_tiles::halve_tma_tile(&extent, bytes, unsplit_map.swizzle)?;
        (bytes, tma_copies) = (bytes / 2, tma_copies * 2);
    }
    let filled_buffer = tma_tiles::tma_buffer(view, &extent, unsplit_map.swizzle)?;
    (filled_buffer.offset_bases == function.attrs.program.buffers[*buffer].offset_bases)
        .then(|| Map { extent, ..unsplit_map.clone() })
}

/// Removes tensor maps that no op uses. Reason: each map is a kernel parameter.
pub(crate) fn drop_unused_maps(function: &mut Function) {
    let mut used = BTreeSet::new();
    let maps_of = |op: &mut Op, change: &mut dyn FnMut(&mut MapId)| {
        if let Op::Core(tileas::Op::TmaLoad { map, .. } | tileas::Op::TmaStore { map, .. }) = op {
            change(map);
        }
    };
    let ops = function.body.walk(function.region);
    ops.iter().for_each(|op| maps_of(&mut function.body.ops[*op].kind, &mut |map| _ = used.insert(*map)));
    let kept: Vec<MapId> = used.into_iter().collect();
    let new_id = |map: MapId| kept.iter().position(|other| *other == map).map_or(map, |at| MapId(at as u32));
    ops.iter().for_each(|op| maps_of(&mut function.body.ops[*op].kind, &mut |map| *map = new_id(*map)));
    let maps = &mut function.attrs.program.maps;
    *maps = kept.iter().map(|map| maps[*map].clone()).collect();
}
