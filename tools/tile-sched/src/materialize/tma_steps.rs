//! Writes the pipeline ops (acquire, commit, wait, release) of the pipelines that TMA copies fill.
//!
//! A stage is filled for a later iteration at the start of an iteration or during the iteration's first `wgmma`. At these positions
//! no other thread waits for the thread that issues the TMA copies. Copies that do not run ahead are issued at the position of the
//! first copy of their group.
//!
//! Threads wait for a stage before the first read of one of the stage's buffers. They release the stage at the end of the
//! iteration, or at the end of the next iteration if an MMA in flight still reads the stage. Operands of tensor memory MMAs, and
//! buffers filled in alternation, are released after their last reader.
//!
//! Data that goes through a pipeline needs no barrier. If other buffers used the memory of the stages before the loop, a fence
//! and a CTA barrier precede the first fill. With a producer warp there is no CTA barrier: after the fence, all threads signal
//! the producer through a pipeline without buffers.

use super::{LoopFrame, LoopRewriter, ScheduledCopy, StagePhase, ValueMap, scalar_type};
use crate::tma_pipelines::CopyGroup;
use base::Value;
use base::ir::{Def, Op as OpId, Operation, ValueNode};
use core_dialect::core_ops::Core;
use core_dialect::region_nesting::RegionNesting;
use core_dialect::rules::CoreDialectOp;
use numerics::Scalar;
use numerics::arith::{Binary, Compare, Predicate, Signedness};
use sched::{Drain, Op, Pipeline};
use std::collections::{BTreeMap, BTreeSet};
use tileas::Buffer;
use tileas::effects::Proxy;

impl LoopRewriter<'_> {
    /// Emits the ops that make the memory of the stages available to TMA. A fence makes earlier accesses to the memory visible to
    /// the async proxy. A barrier waits until all threads have completed these accesses. If there is a producer warp, a signal to
    /// it replaces the barrier.
    pub(super) fn emit_memory_acquire(&mut self) {
        if self.plan.memory_used_before {
            self.append_op(Op::AsyncFence {}, []);
            // If there is a signal, the producer warp waits for it, so no CTA barrier is needed.
            if self.plan.signalled_by.is_none() {
                self.append_op(Op::Barrier { id: 0, threads: self.threads }, []);
            }
        }
        if let Some(pipeline) = self.plan.signalled_by {
            let (stage, phase) = (None, self.emit_i32_constant(0));
            self.append_op(Op::PipelineAcquire { pipeline, stage, phase }, []);
            self.append_op(Op::PipelineCommit { pipeline, stage }, []);
            self.append_op(Op::PipelineWait { pipeline, stage, phase }, []);
            self.append_op(Op::PipelineRelease { pipeline, stage }, []);
        }
    }

    /// For each of the loop's pipelines, the index of the first group that fills the pipeline.
    fn first_groups_of_pipelines(&self) -> Vec<usize> {
        let groups = &self.plan.groups;
        let is_first = |at: &usize| groups[..*at].iter().all(|group| group.pipeline != groups[*at].pipeline);
        (0..groups.len()).filter(is_first).collect()
    }

    /// Emits a position with stage 0 and phase 0 for each of the loop's pipelines.
    pub(super) fn emit_first_positions(&mut self) -> Vec<StagePhase> {
        self.first_groups_of_pipelines().into_iter().map(|_| self.emit_position([0, 0])).collect()
    }

    /// Emits the positions of all groups in an iteration. `starts` has the iteration's first position in each pipeline. A group
    /// takes the stage after the stage of the previous group of its pipeline.
    pub(super) fn emit_group_positions(&mut self, starts: &[StagePhase]) -> Vec<StagePhase> {
        let plan = self.plan;
        let mut starts_by_pipeline: BTreeMap<Pipeline, StagePhase> = BTreeMap::new();
        for (at, position) in self.first_groups_of_pipelines().into_iter().zip(starts) {
            starts_by_pipeline.insert(plan.groups[at].pipeline, *position);
        }
        let mut positions: Vec<StagePhase> = Vec::new();
        for (at, group) in plan.groups.iter().enumerate() {
            let position = match plan.groups[..at].iter().rposition(|before| before.pipeline == group.pipeline) {
                Some(before) => self.emit_advanced(positions[before], 1, group.depth),
                None => starts_by_pipeline[&group.pipeline],
            };
            positions.push(position);
        }
        positions
    }

    /// Emits the positions at which the next iteration starts, one per pipeline.
    pub(super) fn emit_next_positions(&mut self, positions: &[StagePhase]) -> Vec<StagePhase> {
        let plan = self.plan;
        let last = |pipeline: Pipeline| {
            plan.groups.iter().rposition(|group| group.pipeline == pipeline).expect("each pipeline has a group")
        };
        let ends: Vec<usize> =
            self.first_groups_of_pipelines().into_iter().map(|first| last(plan.groups[first].pipeline)).collect();
        ends.into_iter().map(|at| self.emit_advanced(positions[at], 1, plan.groups[at].depth)).collect()
    }

    /// Emits the constants of a position, given as stage and phase.
    pub(super) fn emit_position(&mut self, stage_and_phase: [u32; 2]) -> StagePhase {
        let [stage, phase] = stage_and_phase.map(|value| self.emit_i32_constant(value));
        StagePhase { stage, phase }
    }

    /// Makes the enclosing loops of a nested loop carry its positions as arguments. Returns the positions at which the nested loop
    /// starts, or nothing for an outermost loop. [`LoopRewriter::forward_positions`] completes the terminators.
    pub(super) fn add_carried_positions(&mut self) -> Vec<StagePhase> {
        let Some(&outermost) = self.enclosing_ops.first() else { return Vec::new() };
        let outer = std::mem::take(&mut self.out);
        let mut position_values: Vec<Value> =
            self.emit_first_positions().into_iter().flat_map(|position| [position.stage, position.phase]).collect();
        let zeros = std::mem::replace(&mut self.out, outer);
        let (block, at) = self.place_of(outermost);
        self.body.blocks[block].ops.splice(at..at, zeros);
        self.entry_positions = vec![position_values.clone()];
        for op in self.enclosing_ops.clone() {
            if let Some(init) = self.body.ops[op].kind.core_mut().and_then(Core::init_mut) {
                init.extend(&position_values);
                let block = self.body.block_of(self.body.ops[op].kind.regions()[0]);
                position_values.iter_mut().for_each(|value| *value = self.body.add_argument(block, scalar_type(Scalar::I32)));
            }
            self.entry_positions.push(position_values.clone());
        }
        position_values.chunks(2).map(|position| StagePhase { stage: position[0], phase: position[1] }).collect()
    }

    /// Makes the enclosing ops forward the positions at which the loop ends. A terminator that control can reach without executing
    /// the loop forwards the positions with which its block starts.
    pub(super) fn forward_positions(&mut self, for_op: OpId, position_values: &[Value]) {
        let nesting = RegionNesting::analyse(self.body, self.region);
        let blocks = self.body.op_blocks();
        // The ops that contain the loop, from the outermost op to the loop itself.
        let path: Vec<OpId> = self.enclosing_ops.iter().copied().chain([for_op]).collect();
        let mut values_after_level: Vec<Vec<Value>> = vec![Vec::new(); path.len()];
        values_after_level[path.len() - 1] = position_values.to_vec();
        for level in (0..self.enclosing_ops.len()).rev() {
            let enclosing_op = path[level];
            for &end in nesting.terminators(enclosing_op) {
                let (mut at, mut level_of_block) = (end, None);
                while level_of_block.is_none() {
                    let block = blocks[at.0 as usize];
                    level_of_block = path.iter().position(|op| blocks[op.0 as usize] == block);
                    if level_of_block.is_none() {
                        at = nesting.parent(at).expect("a terminator is inside the construct that it ends");
                    }
                }
                let inner_level = level_of_block.expect("the loop ends with the level of the terminator");
                let ops = &self.body.blocks[blocks[at.0 as usize].expect("the op is in a block")].ops;
                let position = |op: OpId| ops.iter().position(|other| *other == op);
                let values = if position(at) > position(path[inner_level]) {
                    &values_after_level[inner_level]
                } else {
                    &self.entry_positions[inner_level]
                };
                let values = values.clone();
                if let Op::Core(tileas::Op::Core(
                    Core::Yield { values: forwarded } | Core::Continue { values: forwarded } | Core::Break { values: forwarded },
                )) = &mut self.body.ops[end].kind
                {
                    forwarded.extend(values);
                }
            }
            for _ in position_values {
                let index = self.body.ops[enclosing_op].results.len() as u32;
                let def = Def::Result { op: enclosing_op, index };
                let result = self.body.values.push(ValueNode { ty: scalar_type(Scalar::I32), def });
                self.body.ops[enclosing_op].results.push(result);
                values_after_level[level].push(result);
            }
        }
    }

    /// Makes a later loop that fills the same stages start at the positions where this loop ends (`position_values`). The rewriter
    /// has already written the later loop. Records this loop's start `positions`, so that an earlier loop can replace them.
    pub(super) fn connect_to_later_loop(&mut self, position_values: &[Value], positions: &[StagePhase]) {
        if !self.enclosing_ops.is_empty() {
            return;
        }
        for ((at, own), end) in self.first_groups_of_pipelines().into_iter().zip(positions).zip(position_values.chunks(2)) {
            if let Some(later) = self.start_positions.insert(self.plan.groups[at].pipeline, *own) {
                self.body.replace_uses(later.stage, end[0]);
                self.body.replace_uses(later.phase, end[1]);
            }
        }
    }

    /// Emits the ops that compute the position `stages` stages later. Requires that `stages` is less than the depth.
    pub(super) fn emit_advanced(&mut self, StagePhase { stage, phase }: StagePhase, stages: u32, depth: u32) -> StagePhase {
        let i32_type = scalar_type(Scalar::I32);
        let [stages_value, depth, one, first] = [stages, depth, 1, 0].map(|value| self.emit_i32_constant(value));
        let next = self.emit_add(stage, stages_value, &i32_type);
        let kind = Compare::Int { predicate: Predicate::LessThan, signedness: Signedness::Unsigned };
        let no_wrap = self.emit_core(Core::Compare { kind, lhs: next, rhs: depth }, scalar_type(Scalar::I1));
        let wrapped = match stages {
            1 => first,
            _ => self.emit_binary(Binary::SubI { overflow: numerics::arith::Overflow::None }, next, depth, &i32_type),
        };
        let next_phase = self.emit_binary(Binary::Xor, phase, one, &i32_type);
        let stage = self.emit_core(Core::Select { cond: no_wrap, yes: next, no: wrapped }, i32_type.clone());
        StagePhase { stage, phase: self.emit_core(Core::Select { cond: no_wrap, yes: phase, no: next_phase }, i32_type) }
    }

    /// Emits the acquire, the copies and the commit that fill a stage. `index` is the loop counter of the iteration that reads the
    /// stage. `iterations_ahead` is the distance of that iteration from the current iteration, or in a prologue from the first one.
    pub(super) fn emit_fill(
        &mut self,
        frame: &LoopFrame,
        group: &CopyGroup,
        index: Value,
        StagePhase { stage, phase }: StagePhase,
        iterations_ahead: i32,
        map: &ValueMap,
    ) {
        let plan = self.plan;
        let stage = (group.depth > 1).then_some(stage);
        let copy_of_op = |op| plan.tma_copies.iter().find(|copy| copy.op == op).expect("a group contains only the loop's copies");
        let copies: Vec<&ScheduledCopy> = group.copies.iter().map(|(op, _)| copy_of_op(*op)).collect();
        // Compute addresses before acquiring the stage, so that lookups of addresses are in flight while the thread waits for the
        // stage.
        let map = self.emit_addresses(frame, &copies, index, map);
        self.append_op(Op::PipelineAcquire { pipeline: group.pipeline, stage, phase }, []);
        for copy in copies {
            self.emit_copy_op(copy, stage, iterations_ahead, &map);
        }
        self.append_op(Op::PipelineCommit { pipeline: group.pipeline, stage }, []);
    }

    /// Emits the fill of the group to which the copy `op` belongs, at most once per iteration. If the group runs ahead, a condition
    /// tests whether the iteration that needs the data exists.
    pub(super) fn emit_scheduled_fill(
        &mut self,
        frame: &LoopFrame,
        op: OpId,
        counter: Value,
        positions: &[StagePhase],
        filled_groups: &mut BTreeSet<usize>,
        map: &ValueMap,
    ) {
        let plan = self.plan;
        let at = plan.groups.iter().position(|group| group.is_filled_by(op)).expect("each TMA copy is in a group");
        if !filled_groups.insert(at) {
            return;
        }
        let (group, position) = (&plan.groups[at], positions[at]);
        if group.prefetch_distance == 0 {
            return self.emit_fill(frame, group, counter, position, 0, map);
        }
        let distance = frame.distances[&group.prefetch_distance];
        let exists = self.emit_iteration_exists(frame, distance, counter);
        self.emit_if(exists, |rewriter| {
            let index = rewriter.emit_add(counter, distance, &frame.counter_type.clone());
            let later_position = rewriter.emit_advanced(position, group.prefetch_distance, group.depth);
            rewriter.emit_fill(frame, group, index, later_position, group.prefetch_distance as i32, map);
        });
    }

    /// Emits the fills of all groups that run ahead.
    pub(super) fn emit_fills_ahead(
        &mut self,
        frame: &LoopFrame,
        counter: Value,
        positions: &[StagePhase],
        filled_groups: &mut BTreeSet<usize>,
        map: &ValueMap,
    ) {
        let plan = self.plan;
        for group in plan.groups.iter().filter(|group| group.prefetch_distance > 0) {
            self.emit_scheduled_fill(frame, group.copies[0].0, counter, positions, filled_groups, map);
        }
    }

    /// Returns whether a read after the fills of `filled_groups` gets the data of group `at`. If several groups fill one buffer in
    /// alternation, a read gets the data of the group that filled the buffer last.
    fn is_last_filled(&self, at: usize, filled_groups: &BTreeSet<usize>) -> bool {
        let groups = &self.plan.groups;
        !groups[at].alternating || filled_groups.iter().rfind(|other| groups[**other].pipeline == groups[at].pipeline) == Some(&at)
    }

    /// Emits the waits for the stages of the buffers that an op reads, at most one wait per group and iteration.
    pub(super) fn emit_stage_waits(
        &mut self,
        read: &[Buffer],
        positions: &[StagePhase],
        filled_groups: &BTreeSet<usize>,
        waited_groups: &mut BTreeSet<usize>,
    ) {
        let plan = self.plan;
        for (at, (group, position)) in plan.groups.iter().zip(positions).enumerate() {
            if !self.is_last_filled(at, filled_groups) {
                continue;
            }
            if group.copies.iter().any(|(_, buffer)| read.contains(buffer)) && waited_groups.insert(at) {
                let stage = (group.depth > 1).then_some(position.stage);
                self.append_op(Op::PipelineWait { pipeline: group.pipeline, stage, phase: position.phase }, []);
            }
        }
    }

    /// Adds to `read_stages` the stages that the next op reads.
    pub(super) fn record_read_stages(&mut self, positions: &[StagePhase], filled_groups: &BTreeSet<usize>) {
        for (at, (group, position)) in self.plan.groups.iter().zip(positions).enumerate() {
            if group.depth > 1 && self.is_last_filled(at, filled_groups) {
                self.read_stages.extend(group.copies.iter().map(|(_, buffer)| (*buffer, position.stage)));
            }
        }
    }

    /// Emits the releases of the stages whose last reader is `op`, unless the end of the iteration releases these stages.
    pub(super) fn emit_releases_after(&mut self, op: OpId, positions: &[StagePhase]) {
        let plan = self.plan;
        let released = plan.groups.iter().zip(positions);
        let released = released.filter(|(group, _)| self.is_released_early(group) && self.last_reader(group) == Some(op));
        for (group, position) in released.collect::<Vec<_>>() {
            self.emit_release(group, position.stage);
        }
    }

    /// Returns whether a group's stage is released after its last reader, before the end of the iteration.
    fn is_released_early(&self, group: &CopyGroup) -> bool {
        let alternates = || self.plan.groups.iter().any(|other| group.alternates_with(other));
        let is_read_here = || !self.is_read_in_flight(group) && self.last_reader(group).is_some();
        group.drain == Drain::Mma || group.alternating || alternates() && is_read_here()
    }

    /// The last op of an iteration that reads a group's data before another group fills the same stages.
    fn last_reader(&self, group: &CopyGroup) -> Option<OpId> {
        let order = &self.plan.order;
        let filled_later = |op: &OpId| {
            let other = self.plan.groups.iter().find(|other| other.is_filled_by(*op));
            group.alternating && !group.is_filled_by(*op) && other.is_some_and(|other| other.pipeline == group.pipeline)
        };
        let from = if group.alternating { order.iter().position(|op| group.is_filled_by(*op))? } else { 0 };
        let reads = |op: &&OpId| {
            let accessed = self.buffer_accesses_of(**op);
            !group.is_filled_by(**op) && group.copies.iter().any(|(_, own)| accessed.iter().any(|access| access.buffer() == *own))
        };
        order[from..].iter().take_while(|op| !filled_later(op)).filter(reads).last().copied()
    }

    /// Emits the releases at the end of an iteration: of all stages that were not released after their last reader. If an MMA in
    /// flight still reads the stage, the stage of the previous iteration is released instead.
    pub(super) fn emit_releases_at_iteration_end(
        &mut self,
        frame: &LoopFrame,
        lower: Value,
        counter: Value,
        positions: &[StagePhase],
    ) {
        let plan = self.plan;
        for (group, position) in plan.groups.iter().zip(positions) {
            if self.is_released_early(group) {
                continue;
            }
            if !self.is_read_in_flight(group) {
                self.emit_release(group, position.stage);
                continue;
            }
            let has_previous_iteration = self.emit_less_than(frame, lower, counter);
            self.emit_if(has_previous_iteration, |rewriter| {
                let previous = rewriter.emit_previous_stage(position.stage, group.depth);
                rewriter.emit_release(group, previous);
            });
        }
    }

    /// Emits the releases after the loop: of the stages that the loop's last MMAs in flight have read. `position_values` are the
    /// stages and phases at which the loop ends.
    pub(super) fn emit_releases_after_loop(&mut self, frame: &LoopFrame, lower: Value, position_values: &[Value]) {
        let plan = self.plan;
        for (at, end) in self.first_groups_of_pipelines().into_iter().zip(position_values.chunks(2)) {
            let group = &plan.groups[at];
            if !self.is_read_in_flight(group) {
                continue;
            }
            let has_run = self.emit_less_than(frame, lower, frame.upper);
            self.emit_if(has_run, |rewriter| {
                let previous = rewriter.emit_previous_stage(end[0], group.depth);
                rewriter.emit_release(group, previous);
            });
        }
    }

    /// Returns whether an MMA that stays in flight reads the group's buffers.
    fn is_read_in_flight(&self, group: &CopyGroup) -> bool {
        let mut mmas = self.plan.in_flight.iter();
        mmas.any(|mma| group.copies.iter().any(|(_, buffer)| mma.operand_buffers.contains(buffer)))
    }

    /// Emits the release of a stage. If threads access the stage through the generic proxy, a fence comes first, because TMA
    /// overwrites the stage through the async proxy.
    fn emit_release(&mut self, group: &CopyGroup, stage: Value) {
        let threads_access = |buffer: &Buffer| {
            self.plan.order.iter().any(|op| {
                let inner = self.body.ops[*op].kind.regions().into_iter().flat_map(|region| self.body.walk(region));
                let mut accesses = std::iter::once(*op).chain(inner).flat_map(|op| self.body.ops[op].kind.effects().buffers);
                accesses.any(|access| access.buffer == *buffer && access.proxy == Proxy::Generic)
            })
        };
        if group.copies.iter().any(|(_, buffer)| threads_access(buffer)) {
            self.append_op(Op::AsyncFence {}, []);
        }
        self.append_op(Op::PipelineRelease { pipeline: group.pipeline, stage: (group.depth > 1).then_some(stage) }, []);
    }

    /// Emits the ops that compute the stage before `stage`, modulo the depth.
    fn emit_previous_stage(&mut self, stage: Value, depth: u32) -> Value {
        let i32_type = scalar_type(Scalar::I32);
        let [zero, one, last] = [0, 1, depth - 1].map(|value| self.emit_i32_constant(value));
        let kind = Compare::Int { predicate: Predicate::Equal, signedness: Signedness::Unsigned };
        let is_first = self.emit_core(Core::Compare { kind, lhs: stage, rhs: zero }, scalar_type(Scalar::I1));
        let before = self.emit_binary(Binary::SubI { overflow: numerics::arith::Overflow::None }, stage, one, &i32_type);
        self.emit_core(Core::Select { cond: is_first, yes: last, no: before }, i32_type)
    }
}
