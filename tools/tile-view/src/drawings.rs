//! Computes the data of the page's drawings: layouts, buffers with live ranges and bank conflicts, warp roles, pipelines and loop
//! schedules.

use crate::model::{
    AccessView, BufferView, Decision, FunctionView, LayoutUse, LayoutView, LoopView, OccupiedSpan, PipelineView, RoleSpanView,
    RoleView, ScheduledOp,
};
use crate::panes::SourceTable;
use base::ir::Operation;
use base::text::{TypeText, to_text};
use base::{Envelope, File};
use layout_drawing::layouts::UsesByLayout;
use layout_drawing::{banks, live_ranges};
use sched::{Function, LoopSchedule, Module};
use tileas::effects::{AccessKind, BufferAccess, Proxy};
use tileas::verify::TileAsOp;
use tileas::{CopyAtom, Layout, Space};

/// Returns the layouts of a module, each with the tile types that use it.
pub(crate) fn layout_views(module: &Module) -> Vec<LayoutView> {
    let mut uses = UsesByLayout::default();
    module.functions.iter().for_each(|function| uses.add(&function.body, &function.attrs.program));
    let layout_view = |(id, layout): (tileas::LayoutId, &Layout)| LayoutView {
        name: id.to_string(),
        register: layout.register.clone(),
        lane: layout.lane.clone(),
        warp: layout.warp.clone(),
        uses: uses
            .of_layout(id)
            .iter()
            .map(|tile_use| LayoutUse { shape: tile_use.shape.to_vec(), elem: tile_use.elem.clone(), count: tile_use.count })
            .collect(),
    };
    module.layouts.iter().map(layout_view).collect()
}

/// Returns the drawing data of a function. `rows` has the row of each op in the `.sched` pane.
pub(crate) fn function_view(module: &Module, function: &Function, rows: Vec<usize>) -> FunctionView {
    let attrs = &function.attrs;
    let live_ranges = live_ranges::live_ranges(function);
    let accesses = live_ranges::accesses(function);
    let buffers = attrs.program.buffers.iter().map(|(buffer, info)| {
        let placement = attrs.placements.get(buffer);
        let buffer_accesses = accesses.iter().filter(|(_, _, access)| access.buffer == buffer);
        BufferView {
            name: format!("buffer {}", buffer.0),
            elem: info.elem.print(),
            elem_bytes: info.elem.bytes(),
            shape: info.shape.to_vec(),
            offsets: info.offset_bases.clone(),
            space: if info.space == Space::Tensor { "tensor" } else { "shared" },
            size: if info.space == Space::Tensor { info.columns() } else { info.bytes() },
            offset: placement.map_or(0, |placement| placement.offset),
            depth: placement.map_or(1, |placement| placement.depth),
            live_ranges: live_ranges
                .get(&buffer)
                .into_iter()
                .flatten()
                .map(|live_range| [live_range.first, live_range.last])
                .collect(),
            accesses: buffer_accesses
                .map(|(number, op, buffer_access)| access_view(module, function, *number, *op, buffer_access))
                .collect(),
        }
    });
    let warp_roles = attrs.warp_roles.values().map(|warp_role| RoleView {
        name: warp_role.name.clone(),
        first_warp: warp_role.first_warp,
        warps: warp_role.warps,
        registers: warp_role.registers,
    });
    let pipelines = attrs.pipelines.iter().map(|(pipeline, info)| PipelineView {
        name: pipeline.to_string(),
        buffers: info.buffers.iter().map(|buffer| buffer.0).collect(),
        depth: info.depth,
        fill: to_text(&info.fill),
        producer: info.producer.0,
        consumers: info.consumers.iter().map(|warp_role| warp_role.0).collect(),
        full_arrivals: info.full,
        empty_arrivals: info.empty,
    });
    let role_spans = live_ranges::role_spans(function).into_iter();
    let role_spans = role_spans
        .map(|span| RoleSpanView { warp_role: span.warp_role.map(|warp_role| warp_role.0), ops: [span.first, span.last] });
    FunctionView {
        name: function.name.clone(),
        warps: attrs.program.warps,
        shared_bytes: attrs.shared_bytes,
        tmem_columns: attrs.tensor.map_or(0, |tensor| tensor.columns),
        ops: function.body.walk(function.region).len(),
        rows,
        role_spans: role_spans.collect(),
        buffers: buffers.collect(),
        warp_roles: warp_roles.collect(),
        pipelines: pipelines.collect(),
        loops: Vec::new(),
    }
}

/// Returns the drawing data of a buffer access. `op_number` is the position of the op in program order.
fn access_view(module: &Module, function: &Function, op_number: usize, op: base::ir::Op, access: &BufferAccess) -> AccessView {
    let node = &function.body.ops[op];
    let layout_and_copy_atom = layout_and_copy_atom(module, function, op);
    let info = &function.attrs.program.buffers[access.buffer];
    AccessView {
        op: op_number,
        mnemonic: node.kind.mnemonic(),
        access_kind: match access.access_kind {
            AccessKind::Reads => "reads",
            AccessKind::Writes => "writes",
            AccessKind::Fills => "writes a part",
            AccessKind::Changes => "changes",
            AccessKind::WritesIf(_) => "writes or changes",
        },
        proxy: match access.proxy {
            Proxy::Generic => "threads",
            Proxy::Copies => "cp.async",
            Proxy::Mma => "MMA",
            Proxy::Tma => "TMA",
        },
        atom: layout_and_copy_atom
            .map(|(_, atom)| to_text(&atom))
            .or_else(|| mma_or_tmem_atom(node.kind.tileas_op()?))
            .unwrap_or_default(),
        wavefronts: layout_and_copy_atom.and_then(|(layout, atom)| banks::wavefronts(info, layout, atom)),
    }
}

/// Returns the register layout and the copy atom of an op that copies a tile to or from shared memory.
fn layout_and_copy_atom<'a>(module: &'a Module, function: &Function, op: base::ir::Op) -> Option<(&'a Layout, CopyAtom)> {
    use tileas::Op as TileasOp;
    let node = &function.body.ops[op];
    let layout_of = |value: base::Value| -> Option<&'a Layout> { module.layout_of(function.body.ty(value)) };
    match node.kind.tileas_op()? {
        TileasOp::SharedStore { x, atom, .. } => Some((layout_of(*x)?, *atom)),
        TileasOp::SharedLoad { atom, .. } => Some((layout_of(node.results[0])?, *atom)),
        TileasOp::CopyView { layout, atom, .. } => Some((&module.layouts[*layout], *atom)),
        TileasOp::Copy { ptr, atom, .. } => Some((layout_of(*ptr)?, *atom)),
        _ => None,
    }
}

/// Returns the text of the atom of an MMA or of a TMEM op.
fn mma_or_tmem_atom(op: &tileas::Op) -> Option<String> {
    match op {
        tileas::Op::Mma { atom, .. } => Some(atom.name().into()),
        tileas::Op::TmemLoad { atom, .. } | tileas::Op::TmemStore { atom, .. } | tileas::Op::TmemScale { atom, .. } => {
            Some(to_text(atom))
        }
        _ => None,
    }
}

/// Returns the schedules of the loops, each with the name of its function. `file` must be a `.sched` file from before
/// materialization, because materialization removes the schedules. `trace` is the file that `tile-sched --schedule-trace` writes:
/// the cycles in which each op occupies a unit.
pub(crate) fn loop_views(file: &File<Module>, trace: &[u8], source_positions: &mut SourceTable) -> Vec<(String, LoopView)> {
    let spans_by_loop = occupied_spans(trace);
    let views = file.payload.schedules.iter().enumerate().filter_map(|(loop_index, schedule)| {
        let function = file.payload.functions.iter().find(|function| function.name == schedule.function)?;
        let block = sched::loop_body(function, schedule.index)?;
        let body = &function.body.blocks[block].ops;
        let op = |entry: &sched::ScheduleEntry| -> Option<ScheduledOp> {
            let node = &function.body.ops[*body.get(entry.op as usize)?];
            let results: String = node.results.iter().map(|value| format!("{value} = ")).collect();
            let source_position = source_positions.index_of_loc(&file.envelope.debug, node.loc);
            Some(ScheduledOp {
                text: format!("{results}{}", node.kind.mnemonic()),
                source_position,
                stage: entry.stage,
                cycle: entry.cycle,
            })
        };
        let ops = schedule.entries.iter().map(op).collect::<Option<Vec<_>>>()?;
        let LoopSchedule { index, interval, resource_bound, recurrence_bound, in_flight, .. } = *schedule;
        let occupied = spans_by_loop.iter().filter(|(other, _)| *other == loop_index).map(|(_, span)| span.clone()).collect();
        let view = LoopView { index, interval, resource_bound, recurrence_bound, in_flight, ops, occupied };
        Some((schedule.function.clone(), view))
    });
    views.collect()
}

/// Parses the trace of `tile-sched --schedule-trace`. Returns the spans of the first iteration, each with the index of its loop. In
/// the trace, a loop is a process (`pid`), and a unit is a thread (`tid`).
fn occupied_spans(trace: &[u8]) -> Vec<(usize, OccupiedSpan)> {
    let events: Vec<serde_json::Value> = serde_json::from_slice(trace).unwrap_or_default();
    let integer_field = |event: &serde_json::Value, field: &str| event[field].as_i64();
    let units: Vec<(i64, i64, String)> = events
        .iter()
        .filter(|event| event["name"] == "thread_name")
        .filter_map(|event| {
            Some((integer_field(event, "pid")?, integer_field(event, "tid")?, event["args"]["name"].as_str()?.to_string()))
        })
        .collect();
    let occupied_span = |event: &serde_json::Value| {
        let (pid, tid) = (integer_field(event, "pid")?, integer_field(event, "tid")?);
        // In the event name `mma 12 of 0`, 12 is the op's position in the loop body, and 0 is the iteration.
        let mut words = event["name"].as_str().filter(|_| event["ph"] == "X")?.rsplit(' ');
        let (iteration, _, op) = (words.next()?, words.next()?, words.next()?.parse().ok()?);
        let unit = units.iter().find(|unit| (unit.0, unit.1) == (pid, tid))?.2.clone();
        let occupied = OccupiedSpan { op, unit, start: integer_field(event, "ts")?, cycles: integer_field(event, "dur")? };
        (iteration == "0").then_some((pid as usize, occupied))
    };
    events.iter().filter_map(occupied_span).collect()
}

/// Returns the decisions in the pass log of an envelope.
pub(crate) fn decisions(envelope: &Envelope, source_positions: &mut SourceTable) -> Vec<Decision> {
    let decision = |entry: &base::envelope::LogEntry| Decision {
        pass: entry.pass.clone(),
        outcome: to_text(&entry.outcome),
        name: entry.name.clone(),
        message: entry.message.clone(),
        source_position: source_positions.index_of_loc(&envelope.debug, entry.loc),
    };
    envelope.log.iter().map(decision).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occupied_spans_contain_the_first_iteration_only() {
        let trace = br#"[
            {"name":"process_name","ph":"M","pid":0,"tid":0,"args":{"name":"k loop 0, interval 57"}},
            {"name":"thread_name","ph":"M","pid":0,"tid":1,"args":{"name":"shared memory"}},
            {"name":"copy_view 3 of 0","ph":"X","pid":0,"tid":1,"ts":7,"dur":16},
            {"name":"copy_view 3 of 1","ph":"X","pid":0,"tid":1,"ts":64,"dur":16}
        ]"#;
        let spans = occupied_spans(trace);
        assert_eq!(spans.len(), 1, "one iteration");
        let OccupiedSpan { op, unit, start, cycles } = &spans[0].1;
        assert_eq!((*op, unit.as_str(), *start, *cycles), (3, "shared memory", 7, 16));
        assert!(occupied_spans(b"nonsense").is_empty());
    }
}
