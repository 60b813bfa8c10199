//! Assigns ops to warp roles. An op with side effects belongs to one role, chosen by its effect. Every role that needs a pure op
//! executes it.

use super::early_returns;
use super::mma_warps::MmaWarps;
use super::role_slice::RoleSlice;
use crate::feature_choice::Reason;
use crate::scalar_index_loads::{is_lookup, is_uniform};
use crate::token_sources::TokenSources;
use crate::{tma_pipelines, tmem_mma_buffers};
use base::Value;
use base::ir::{Op as OpId, Operation};
use core_dialect::core_ops::Effect;
use sched::{Drain, Fill, Function, Op, Pipeline};
use std::collections::{BTreeMap, BTreeSet};

/// The purpose of a warp role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoleKind {
    /// Executes every op that no other role executes. With two compute roles, each executes the ops of one connected component.
    Compute(usize),
    /// Issues TMA loads. The second such role issues the loads for the MMAs of the second MMA warp.
    Load(usize),
    /// Issues tensor memory MMAs. The MMAs of the second such role depend on those of the first, or belong to the second compute
    /// role.
    Mma(usize),
    /// Issues TMA stores.
    Store,
    /// Fills up a warp group. Gives up most of its registers and executes no ops.
    Idle,
}

impl RoleKind {
    /// Returns the name of the role in files and messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            RoleKind::Compute(0) => "compute",
            RoleKind::Compute(_) => "compute_next",
            RoleKind::Load(0) => "load",
            RoleKind::Load(_) => "load_next",
            RoleKind::Mma(0) => "mma",
            RoleKind::Mma(_) => "mma_next",
            RoleKind::Store => "store",
            RoleKind::Idle => "idle",
        }
    }

    /// Returns whether the role is a compute role.
    pub(super) fn computes(self) -> bool {
        matches!(self, RoleKind::Compute(_))
    }
}

/// The roles of each op of a function.
pub(super) struct Roles<'a> {
    function: &'a Function,
    mma_warps: &'a MmaWarps,
    /// For each pipeline, the indices of the MMA warps whose MMAs access its buffers.
    mma_roles: BTreeMap<Pipeline, BTreeSet<usize>>,
    /// For each pipeline, the indices of the compute roles that fill it (array index 0) and that drain it (array index 1).
    compute_roles: [BTreeMap<Pipeline, BTreeSet<usize>>; 2],
    /// The commit or release op directly after each fence. The role of this pipeline op also executes the fence.
    fenced_pipeline_ops: BTreeMap<OpId, OpId>,
    /// Lookups ([`is_lookup`]) whose memory no op of the function writes later. Each role that needs such a lookup repeats it.
    repeated_loads: BTreeSet<OpId>,
}

impl<'a> Roles<'a> {
    /// Determines the roles of all ops of a function.
    pub(super) fn assign(function: &'a Function, mma_warps: &'a MmaWarps) -> Roles<'a> {
        let body = &function.body;
        let ops = body.walk(function.region);
        let mut sources_of_writes = TokenSources::new(function);
        for &op in &ops {
            let effects = body.ops[op].kind.effects();
            let token = effects
                .global
                .filter(|access| access.access_kind.writes() || access.order.scope.is_some())
                .and_then(|access| access.token);
            token.into_iter().for_each(|token| sources_of_writes.follow(token));
        }
        let is_never_overwritten = |value: &Value| !sources_of_writes.is_incomplete && !sources_of_writes.seen.contains(value);
        let is_repeatable = |op: &OpId| is_lookup(function, *op) && body.ops[*op].results.iter().all(is_never_overwritten);
        let repeated_loads = ops.iter().copied().filter(is_repeatable).collect();
        let mut mma_roles: BTreeMap<Pipeline, BTreeSet<usize>> = BTreeMap::new();
        for kind in ops.iter().map(|op| &body.ops[*op].kind).filter(|kind| tmem_mma_buffers::is_tmem_mma(kind)) {
            for access in kind.effects().buffers {
                let pipeline = function.attrs.pipeline_of(access.buffer).map(|(pipeline, _)| pipeline);
                pipeline
                    .into_iter()
                    .for_each(|pipeline| _ = mma_roles.entry(pipeline).or_default().insert(mma_warps.warp_of_mma(kind)));
            }
        }
        let mut compute_roles: [BTreeMap<Pipeline, BTreeSet<usize>>; 2] = Default::default();
        for &op in &ops {
            let kind = &body.ops[op].kind;
            if tmem_mma_buffers::is_tmem_mma(kind)
                || tma_pipelines::buffer_filled_by_tma(kind).is_some()
                || is_store_from_pipeline(function, kind)
            {
                continue;
            }
            for access in kind.effects().buffers {
                let Some((pipeline, info)) = function.attrs.pipeline_of(access.buffer) else { continue };
                let fill_or_drain = usize::from(info.fill != Fill::Threads || !access.access_kind.writes());
                compute_roles[fill_or_drain].entry(pipeline).or_default().extend(mma_warps.groups.roles_of_op(op, kind));
            }
        }
        Roles {
            function,
            mma_warps,
            mma_roles,
            compute_roles,
            fenced_pipeline_ops: pipeline_ops_after_fences(function),
            repeated_loads,
        }
    }

    pub(super) fn function(&self) -> &'a Function {
        self.function
    }

    /// Returns whether a role owns an op. An op that no role owns is executed by every role that needs it.
    pub(super) fn is_owned_by(&self, op: OpId, role: RoleKind) -> bool {
        self.owners(op).contains(&role)
    }
    /// Returns whether the op has owners and `role` is none of them.
    pub(super) fn is_foreign(&self, op: OpId, role: RoleKind) -> bool {
        let owners = self.owners(op);
        !owners.is_empty() && !owners.contains(&role)
    }

    /// The roles that own an op. An op without an owner is executed by every role that needs it.
    fn owners(&self, op: OpId) -> Vec<RoleKind> {
        let kind = &self.function.body.ops[op].kind;
        if let Some(step) = kind.pipeline_step() {
            return if step.is_of_producer() { self.filling_roles(step.pipeline) } else { self.draining_roles(step.pipeline) };
        }
        if let Some(buffer) = tma_pipelines::buffer_filled_by_tma(kind) {
            let pipeline = self.function.attrs.pipeline_of(buffer);
            return vec![pipeline.map_or(RoleKind::Load(0), |(pipeline, _)| self.load_role(pipeline))];
        }
        if tmem_mma_buffers::is_tmem_mma(kind) {
            return vec![RoleKind::Mma(self.mma_warps.warp_of_mma(kind))];
        }
        if is_store_from_pipeline(self.function, kind) {
            return vec![RoleKind::Store];
        }
        if let Some(fenced) = self.fenced_pipeline_ops.get(&op).filter(|_| matches!(kind, Op::AsyncFence {})) {
            return self.owners(*fenced);
        }
        let has_no_owner = kind.is_pure()
            || self.repeated_loads.contains(&op)
            || matches!(kind.effects().core_effect, Effect::Branches | Effect::Leaves);
        match has_no_owner {
            true => vec![],
            false => self.mma_warps.groups.roles_of_op(op, kind).into_iter().map(RoleKind::Compute).collect(),
        }
    }

    /// The roles that fill the stages of a pipeline.
    pub(super) fn filling_roles(&self, pipeline: Pipeline) -> Vec<RoleKind> {
        match self.function.attrs.pipelines[pipeline].fill {
            Fill::Tma => vec![self.load_role(pipeline)],
            Fill::Mma => self.mma_roles(pipeline),
            Fill::Threads | Fill::Copies => self.compute_roles(pipeline, 0),
        }
    }

    /// The roles that drain the stages of a pipeline. For a signal-only pipeline: the roles that receive the signal.
    pub(super) fn draining_roles(&self, pipeline: Pipeline) -> Vec<RoleKind> {
        let info = &self.function.attrs.pipelines[pipeline];
        match info.drain {
            // The second compute role consumes the ping-pong pipeline.
            Drain::Warps if info.is_signal_only() => vec![RoleKind::Compute(self.mma_warps.groups.role_count() - 1)],
            _ if info.is_signal_only() => (0..self.mma_warps.load_warps).map(RoleKind::Load).collect(),
            Drain::Mma => self.mma_roles(pipeline),
            // Only pipelines that feed TMA stores are both filled and drained by threads.
            Drain::Threads | Drain::Warps if info.fill == Fill::Threads => vec![RoleKind::Store],
            Drain::Threads | Drain::Warps => self.compute_roles(pipeline, 1),
        }
    }

    /// The role that fills a pipeline by TMA.
    fn load_role(&self, pipeline: Pipeline) -> RoleKind {
        let is_for_second_warp = self.mma_roles.get(&pipeline).is_some_and(|roles| !roles.contains(&0));
        RoleKind::Load(usize::from(is_for_second_warp && self.mma_warps.load_warps > 1))
    }

    /// The compute roles that fill a pipeline (0) or drain it (1).
    fn compute_roles(&self, pipeline: Pipeline, fill_or_drain: usize) -> Vec<RoleKind> {
        match self.compute_roles[fill_or_drain].get(&pipeline) {
            Some(roles) => roles.iter().copied().map(RoleKind::Compute).collect(),
            None => vec![RoleKind::Compute(0)],
        }
    }

    /// The MMA roles whose MMAs access the buffers of a pipeline.
    fn mma_roles(&self, pipeline: Pipeline) -> Vec<RoleKind> {
        self.mma_roles.get(&pipeline).into_iter().flatten().copied().map(RoleKind::Mma).collect()
    }
}

/// For each fence, the pipeline op directly after it.
fn pipeline_ops_after_fences(function: &Function) -> BTreeMap<OpId, OpId> {
    let body = &function.body;
    let is_pipeline_op = |op: OpId| matches!(body.ops[op].kind, Op::PipelineCommit { .. } | Op::PipelineRelease { .. });
    let is_fence = |op: OpId| matches!(body.ops[op].kind, Op::AsyncFence {});
    let pairs = body.blocks.values().flat_map(|block| block.ops.windows(2));
    pairs.filter(|pair| is_fence(pair[0]) && is_pipeline_op(pair[1])).map(|pair| (pair[0], pair[1])).collect()
}

/// Returns whether an op is a TMA store from a pipeline's buffer.
fn is_store_from_pipeline(function: &Function, op: &Op) -> bool {
    matches!(op, Op::Core(tileas::Op::TmaStore { buffer, .. }) if function.attrs.pipeline_of(*buffer).is_some())
}

/// Checks the conditions for every split into warp roles. Returns the reason if a condition fails.
pub(super) fn check_role_split_conditions(function: &Function) -> Result<(), Reason> {
    let body = &function.body;
    let ops = body.walk(function.region);
    let copies: Vec<OpId> =
        ops.iter().copied().filter(|op| tma_pipelines::buffer_filled_by_tma(&body.ops[*op].kind).is_some()).collect();
    if copies.is_empty() {
        return Err("the function has no TMA copies".into());
    }
    early_returns::check(function)?;
    for &op in &ops {
        let kind = &body.ops[op].kind;
        match kind.effects().core_effect {
            Effect::Allocates => return Err("it allocates memory of the CTA".into()),
            Effect::Orders => return Err(format!("{} orders the accesses of all warp roles", kind.mnemonic())),
            _ => {}
        }
    }
    for op in copies {
        let token = body.ops[op].kind.effects().global.and_then(|access| access.token);
        if token.is_some_and(|token| !TokenSources::orders_after_loads_only(function, token)) {
            return Err("a copy is ordered after an op that is not a load".into());
        }
    }
    Ok(())
}

/// Checks that the slice of a helper role (a role that does not compute) holds no tiles of several elements, and contains no op
/// that another role owns.
pub(super) fn check_scalar_role(roles: &Roles<'_>, slice: &RoleSlice) -> Result<(), Reason> {
    let body = &roles.function.body;
    for op in slice.ops() {
        let node = &body.ops[op];
        let is_tile_of_slice = |value: &Value| !is_uniform(body.ty(*value)) && slice.needs_value(*value);
        if roles.is_foreign(op, slice.role()) || node.results.iter().any(is_tile_of_slice) {
            let on = if node.kind.effects().global.is_some() { "memory" } else { "a tile" };
            return Err(format!("the address or position of a copy depends on {on}"));
        }
    }
    Ok(())
}
