//! TMA multicast in a cluster: if all CTAs copy the same tile, each issues some of its TMA copies, and all receive the data. A
//! stage is then free when all CTAs have released it, and full when the copies of all CTAs have arrived.
//!
//! `tile-sched` selects the buffers. This module checks *uniform copies*: the CTAs issue copies of the same tiles, in the same
//! order and equally often. The hazard checker executes all CTAs of a cluster together. It checks all other conditions, for example
//! whether a CTA may overwrite another CTA's stage.

use crate::{Fill, Function, Op, PipelineInfo};
use base::ir::{Op as OpId, Operation};
use base::{Block, Region, Target, Value};
use core_dialect::core_ops::Core;
use target_info::Feature;
use tileas::{Buffer, MapId, Type};

/// Checks whether the CTAs of a cluster can multicast into a buffer of a pipeline.
pub fn refused(function: &Function, info: &PipelineInfo, buffer: Buffer, target: Target) -> Result<(), &'static str> {
    is_shared(function, info, buffer, target)?;
    let ranks = function.attrs.program.cluster.unwrap_or(1);
    let mut copies = copies(function, buffer);
    match copies.all(|(_, view, _, map)| tma_tiles(function, view, map).is_multiple_of(ranks)) {
        true => Ok(()),
        false => Err("its TMA tiles cannot be divided among the CTAs"),
    }
}

/// The same check, without the number of TMA tiles.
pub fn is_shared(function: &Function, info: &PipelineInfo, buffer: Buffer, target: Target) -> Result<(), &'static str> {
    if !target.has(Feature::TmaMulticast) {
        return Err("the target has no TMA multicast");
    }
    if function.attrs.program.cluster.is_none() {
        return Err("there is no cluster");
    }
    if info.fill != Fill::Tma {
        return Err("TMA copies do not fill it");
    }
    are_same(function, &[buffer])
}

/// Checks that the CTAs of a cluster execute the same ops, and copy the same tiles to some buffers.
pub fn are_same(function: &Function, buffers: &[Buffer]) -> Result<(), &'static str> {
    let own = Own::of(function);
    if own.decides {
        return Err("the CTAs may take different paths");
    }
    let differs = |(_, view, index, _): (OpId, Value, &[Value], MapId)| own.has(view) || index.iter().any(|index| own.has(*index));
    match buffers.iter().any(|buffer| copies(function, *buffer).any(differs)) {
        true => Err("each CTA copies tiles of its own"),
        false => Ok(()),
    }
}

/// The TMA copies to a buffer: the view and index of the tile, and the map.
pub fn copies(function: &Function, buffer: Buffer) -> impl Iterator<Item = (OpId, Value, &[Value], MapId)> {
    let body = &function.body;
    body.walk(function.region).into_iter().filter_map(move |op| match &body.ops[op].kind {
        Op::Core(tileas::Op::TmaLoad { view, index, buffer: filled, map, .. }) if *filled == buffer => {
            Some((op, *view, &index[..], *map))
        }
        _ => None,
    })
}

/// The number of TMA tiles of a map in a tile of a view.
pub fn tma_tiles(function: &Function, view: Value, map: MapId) -> u32 {
    let Type::View(ty) = function.body.ty(view) else { return 0 };
    let of_tma: u32 = function.attrs.program.maps[map].extent.iter().product();
    ty.tile.iter().product::<u32>() / of_tma.max(1)
}

/// The values that may differ between CTAs of a cluster: those that depend on the rank or on mutable memory.
struct Own {
    of: Vec<bool>,
    /// Whether such a value decides which ops execute.
    decides: bool,
    changed: bool,
}

/// The constructs around an op to which it may forward values: the condition and the loop.
#[derive(Clone, Copy, Default)]
struct Around {
    condition: Option<OpId>,
    repeats: Option<OpId>,
}

impl Own {
    fn of(function: &Function) -> Own {
        let mut own = Own { of: vec![false; function.body.values.len()], decides: false, changed: true };
        while std::mem::take(&mut own.changed) {
            own.block(function, function.entry(), Around::default());
        }
        own
    }

    fn has(&self, value: Value) -> bool {
        self.of[value.0 as usize]
    }

    fn add(&mut self, value: Value) {
        self.changed |= !std::mem::replace(&mut self.of[value.0 as usize], true);
    }

    fn pass(&mut self, from: &[Value], to: &[Value]) {
        let own = from.iter().zip(to).filter(|(from, _)| self.of[from.0 as usize]).map(|(_, to)| *to).collect::<Vec<_>>();
        own.into_iter().for_each(|value| self.add(value));
    }

    fn block(&mut self, function: &Function, block: Block, around: Around) {
        for &op in &function.body.blocks[block].ops {
            self.op(function, op, around);
        }
    }

    fn op(&mut self, function: &Function, op: OpId, around: Around) {
        let body = &function.body;
        let node = &body.ops[op];
        let args = |region: Region| &body.blocks[body.block_of(region)].args[..];
        let results = |op: Option<OpId>| op.map_or(&[][..], |op| &body.ops[op].results[..]);
        let inner = match node.kind.core() {
            Some(Core::If { cond, .. }) => {
                self.decides |= self.has(*cond);
                Around { condition: Some(op), ..around }
            }
            Some(Core::For { lower, upper, step, init, body, .. }) => {
                self.decides |= [lower, upper, step].into_iter().any(|bound| self.has(*bound));
                self.pass(init, args(*body).get(1..).unwrap_or_default());
                self.pass(init, &node.results);
                Around { condition: None, repeats: Some(op) }
            }
            Some(Core::Loop { init, body }) => {
                self.pass(init, args(*body));
                Around { condition: None, repeats: Some(op) }
            }
            Some(Core::Yield { values }) => return self.pass(values, results(around.condition)),
            Some(Core::Break { values }) => return self.pass(values, results(around.repeats)),
            Some(Core::Continue { values }) => return self.goes_on(function, around.repeats, values),
            _ if matches!(node.kind, Op::WarpRole { .. }) => Around::default(),
            core => {
                // The bodies of reductions compute on tiles, which decide no control flow.
                let differs = matches!(core, Some(Core::ClusterRank {})) || !node.kind.is_pure() || !node.kind.regions().is_empty();
                if differs || node.kind.operands().iter().any(|value| self.has(*value)) {
                    node.results.iter().for_each(|value| self.add(*value));
                }
                return;
            }
        };
        node.kind.regions().into_iter().for_each(|region| self.block(function, body.block_of(region), inner));
    }

    /// Forwards values to the next iteration of a loop, and to its results.
    fn goes_on(&mut self, function: &Function, repeats: Option<OpId>, values: &[Value]) {
        let body = &function.body;
        let Some(repeats) = repeats.map(|op| &body.ops[op]) else { return };
        match repeats.kind.core() {
            Some(Core::For { body: region, .. }) => {
                self.pass(values, body.blocks[body.block_of(*region)].args.get(1..).unwrap_or_default());
                self.pass(values, &repeats.results);
            }
            Some(Core::Loop { body: region, .. }) => self.pass(values, &body.blocks[body.block_of(*region)].args),
            _ => {}
        }
    }
}
