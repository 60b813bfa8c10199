//! TMA multicast in a cluster whose CTAs copy the same tile. Each CTA issues the TMA copies of a part of the tile, and all CTAs
//! receive the data. A stage is then free when all CTAs have released it, and full when the copies of all CTAs have arrived.
//!
//! `tile-sched` selects the buffers. This module checks *uniform copies*: the CTAs issue copies of the same tiles, in the same
//! order and equally often. The hazard checker executes all CTAs of a cluster together. It checks all other conditions, for example
//! whether a CTA may overwrite another CTA's stage.

use crate::{Fill, Function, Op, PipelineInfo};
use base::ir::{Op as OpId, Operation};
use base::{Block, Target, Value};
use core_dialect::core_ops::Core;
use core_dialect::structured_ops::Terminator;
use target_info::Feature;
use tileas::{Buffer, MapId, Type};

/// Checks whether the CTAs of a cluster can fill a buffer of a pipeline together by TMA multicast. The error is the reason why not.
pub fn check_multicast(function: &Function, info: &PipelineInfo, buffer: Buffer, target: Target) -> Result<(), &'static str> {
    check_copies(function, info, buffer, target)?;
    let cta_count = function.attrs.program.cluster.unwrap_or(1);
    let mut copies = tma_copies(function, buffer);
    match copies.all(|(_, view, _, map)| tma_tile_count(function, view, map).is_multiple_of(cta_count)) {
        true => Ok(()),
        false => Err("its TMA tiles cannot be divided among the CTAs"),
    }
}

/// Checks the conditions of [`check_multicast`], except the condition that the TMA tiles divide among the CTAs.
pub fn check_copies(function: &Function, info: &PipelineInfo, buffer: Buffer, target: Target) -> Result<(), &'static str> {
    if !target.has(Feature::TmaMulticast) {
        return Err("the target has no TMA multicast");
    }
    if function.attrs.program.cluster.is_none() {
        return Err("there is no cluster");
    }
    if info.fill != Fill::Tma {
        return Err("TMA copies do not fill it");
    }
    check_uniform_copies(function, &[buffer])
}

/// Checks that the CTAs of a cluster execute the same ops, and copy the same tiles to the given buffers.
pub fn check_uniform_copies(function: &Function, buffers: &[Buffer]) -> Result<(), &'static str> {
    let dependent = CtaDependent::analyse(function);
    if dependent.controls_flow {
        return Err("the CTAs may take different paths");
    }
    let differs = |(_, view, index, _): (OpId, Value, &[Value], MapId)| {
        dependent.contains(view) || index.iter().any(|index| dependent.contains(*index))
    };
    match buffers.iter().any(|buffer| tma_copies(function, *buffer).any(differs)) {
        true => Err("each CTA copies tiles of its own"),
        false => Ok(()),
    }
}

/// The TMA copies to a buffer: the op, the view and index of the tile, and the tensor map.
pub fn tma_copies(function: &Function, buffer: Buffer) -> impl Iterator<Item = (OpId, Value, &[Value], MapId)> {
    let body = &function.body;
    body.walk(function.region).into_iter().filter_map(move |op| match &body.ops[op].kind {
        Op::Core(tileas::Op::TmaLoad { view, index, buffer: filled, map, .. }) if *filled == buffer => {
            Some((op, *view, &index[..], *map))
        }
        _ => None,
    })
}

/// The number of TMA tiles of a tensor map that cover a tile of a view; 0 if the value is no view.
pub fn tma_tile_count(function: &Function, view: Value, map: MapId) -> u32 {
    let Type::View(ty) = function.body.ty(view) else { return 0 };
    let elements_of_tma_tile: u32 = function.attrs.program.maps[map].extent.iter().product();
    ty.tile.iter().product::<u32>() / elements_of_tma_tile.max(1)
}

/// The values that may differ between CTAs of a cluster, because they depend on the rank or on mutable memory.
struct CtaDependent {
    /// By value id, whether the value may differ between CTAs.
    is_dependent: Vec<bool>,
    /// Whether a value that may differ determines which ops execute.
    controls_flow: bool,
    /// Whether the current visit of the function found a value that no earlier visit found.
    changed: bool,
}

/// The enclosing ops to which a terminator may forward values: the innermost condition and the innermost loop.
#[derive(Clone, Copy, Default)]
struct Enclosing {
    /// The innermost `if` around an op.
    condition: Option<OpId>,
    /// The innermost loop around an op.
    loop_op: Option<OpId>,
}

impl CtaDependent {
    /// Visits the function until a visit finds no further value.
    fn analyse(function: &Function) -> CtaDependent {
        let mut dependent =
            CtaDependent { is_dependent: vec![false; function.body.values.len()], controls_flow: false, changed: true };
        while std::mem::take(&mut dependent.changed) {
            dependent.visit_block(function, function.entry(), Enclosing::default());
        }
        dependent
    }

    /// Whether a value may differ between CTAs.
    fn contains(&self, value: Value) -> bool {
        self.is_dependent[value.0 as usize]
    }

    /// Records that a value may differ between CTAs, and sets `changed` if no earlier visit recorded this.
    fn mark_dependent(&mut self, value: Value) {
        self.changed |= !std::mem::replace(&mut self.is_dependent[value.0 as usize], true);
    }

    /// Marks each value of `to` whose counterpart in `from` may differ between CTAs.
    fn forward_dependence(&mut self, from: &[Value], to: &[Value]) {
        let dependent =
            from.iter().zip(to).filter(|(from, _)| self.is_dependent[from.0 as usize]).map(|(_, to)| *to).collect::<Vec<_>>();
        dependent.into_iter().for_each(|value| self.mark_dependent(value));
    }

    fn visit_block(&mut self, function: &Function, block: Block, enclosing: Enclosing) {
        for &op in &function.body.blocks[block].ops {
            self.visit_op(function, op, enclosing);
        }
    }

    fn visit_op(&mut self, function: &Function, op: OpId, enclosing: Enclosing) {
        let body = &function.body;
        let node = &body.ops[op];
        let results = |op: Option<OpId>| op.map_or(&[][..], |op| &body.ops[op].results[..]);
        let core = node.kind.core();
        let inner = match core.and_then(Core::as_terminator) {
            None if core.is_some_and(Core::is_structured) => {
                let core = core.expect("the op is structured");
                self.controls_flow |= core.conditions().into_iter().any(|value| self.contains(value));
                match core.as_loop() {
                    Some(loop_op) => {
                        loop_op.destinations(body, op).into_iter().for_each(|to| self.forward_dependence(loop_op.init, to));
                        Enclosing { condition: None, loop_op: Some(op) }
                    }
                    None => Enclosing { condition: Some(op), ..enclosing },
                }
            }
            Some(Terminator::Yield(values)) => return self.forward_dependence(values, results(enclosing.condition)),
            Some(Terminator::Break(values)) => return self.forward_dependence(values, results(enclosing.loop_op)),
            Some(Terminator::Continue(values)) => return self.forward_to_next_iteration(function, enclosing.loop_op, values),
            None if matches!(node.kind, Op::WarpRole { .. }) => Enclosing::default(),
            Some(Terminator::Return) | None => {
                // The bodies of reductions compute on tiles, which decide no control flow.
                let differs = matches!(core, Some(Core::ClusterRank {})) || !node.kind.is_pure() || !node.kind.regions().is_empty();
                if differs || node.kind.operands().iter().any(|value| self.contains(*value)) {
                    node.results.iter().for_each(|value| self.mark_dependent(*value));
                }
                return;
            }
        };
        node.kind.regions().into_iter().for_each(|region| self.visit_block(function, body.block_of(region), inner));
    }

    /// Forwards the dependence of a loop's `continue` operands to the arguments of the next iteration and to the loop's results.
    fn forward_to_next_iteration(&mut self, function: &Function, loop_op: Option<OpId>, values: &[Value]) {
        let body = &function.body;
        let Some(op) = loop_op else { return };
        let destinations = body.ops[op].kind.core().and_then(Core::as_loop).map(|loop_op| loop_op.destinations(body, op));
        destinations.into_iter().flatten().for_each(|to| self.forward_dependence(values, to));
    }
}
