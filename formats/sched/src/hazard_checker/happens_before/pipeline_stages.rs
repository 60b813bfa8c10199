//! Pipeline steps: a role enters and leaves stages, and arrivals publish its vector clock.

use super::{
    AbstractExecution, CheckResult, EMPTY, FULL, PipelineEnd, RoleExecution, ShadowAccess, Side, VectorClock, WARP_THREADS,
    join_clock,
};
use crate::hazard_checker::buffer_stage::BufferStage;
use crate::hazard_checker::event_trace::Position;
use crate::module::{Fill, Pipeline, PipelineInfo};
use tileas::effects::Proxy;

impl<'a> AbstractExecution<'a> {
    pub(super) fn pipeline_info(&self, pipeline: Pipeline) -> &'a PipelineInfo {
        &self.attrs.pipelines[pipeline]
    }

    /// Checks that a warp role visits the stages in order, and has left a stage before it visits the stage again.
    pub(super) fn check_stage_order(&self, role_index: usize, position: Position, side: usize) -> CheckResult {
        let Position { pipeline, stage, phase } = position;
        let depth = u64::from(self.pipeline_info(pipeline).depth);
        let execution = &self.executions[role_index];
        let none = PipelineEnd::default();
        let PipelineEnd { visits, held_stages } = execution.ends.get(&(pipeline, side)).unwrap_or(&none);
        let (due_stage, due_phase) = (visits % depth, visits / depth & 1);
        if u64::from(stage) != due_stage {
            return Err(format!(
                "stage {stage} of {pipeline} is not the next one of {}, which is stage {due_stage}",
                execution.name
            ));
        }
        if phase != due_phase {
            return Err(format!("{} is at phase {due_phase} of stage {stage} of {pipeline}, not {phase}", execution.name));
        }
        if held_stages.contains(&stage) {
            let missing = if side == EMPTY { "committed" } else { "released" };
            return Err(format!("stage {stage} of {pipeline} was not {missing} before it is due again"));
        }
        Ok(())
    }

    fn stage_side(&mut self, rank: usize, pipeline: Pipeline, stage: u32, side: usize) -> &mut Side {
        &mut self.sides.entry((rank, pipeline, stage)).or_default()[side]
    }

    /// The CTAs whose barriers a pipeline step signals. With TMA multicast, these are all CTAs of the cluster. In a CTA pair, MMAs
    /// of the leader signal both CTAs, and all other steps signal the leader.
    fn signalled_ctas(&self, role_index: usize, pipeline: Pipeline, side: usize) -> std::ops::Range<usize> {
        let (rank, info) = (self.executions[role_index].rank, self.pipeline_info(pipeline));
        let mma_side = if info.fill == Fill::Mma { FULL } else { EMPTY };
        match self.attrs.is_of_cta_pair(info) {
            true if side == mma_side => 0..self.cta_count,
            true => 0..1,
            false if info.multicast.is_some() => 0..self.cta_count,
            false => rank..rank + 1,
        }
    }

    /// Whether a role that waits for a stage may proceed, because the stage's barrier has completed often enough.
    pub(super) fn is_stage_ready(&mut self, role_index: usize, Position { pipeline, stage, .. }: Position, side: usize) -> bool {
        let depth = u64::from(self.pipeline_info(pipeline).depth);
        let iterations = self.executions[role_index].ends.entry((pipeline, side)).or_default().visits / depth;
        let completed = self.stage_side(self.executions[role_index].rank, pipeline, stage, side).completions;
        // Stages are free at first.
        if side == EMPTY { completed >= iterations } else { completed > iterations }
    }

    /// Joins the clock that the stage's barrier published into the clock of the waiting role, and marks the stage as held.
    pub(super) fn enter_stage(&mut self, role_index: usize, Position { pipeline, stage, .. }: Position, side: usize) {
        let published = self.stage_side(self.executions[role_index].rank, pipeline, stage, side).published_clock.clone();
        let (is_single_thread, alternates) =
            (self.is_single_thread(pipeline, side), self.alternates_warps(role_index, pipeline, side));
        let execution = &mut self.executions[role_index];
        if alternates {
            join_clock(self.issuers.entry((role_index, pipeline, stage)).or_default(), &published);
        } else {
            join_clock(&mut execution.first_thread_clock, &published);
        }
        if !is_single_thread {
            join_clock(&mut execution.clock, &published);
        }
        let end = execution.ends.entry((pipeline, side)).or_default();
        end.visits += 1;
        end.held_stages.push(stage);
    }

    /// Returns whether a single thread of a warp role executes all steps on this side of the pipeline.
    fn is_single_thread(&self, pipeline: Pipeline, side: usize) -> bool {
        let info = self.pipeline_info(pipeline);
        if side == EMPTY { info.fills_alone() } else { info.drains_alone() }
    }

    /// Returns whether the warps of a role alternate in executing the steps on this side of the pipeline. This is the case for a
    /// producer of several warps that issues TMA copies.
    fn alternates_warps(&self, role_index: usize, pipeline: Pipeline, side: usize) -> bool {
        side == EMPTY && self.pipeline_info(pipeline).fill == Fill::Tma && self.executions[role_index].threads > WARP_THREADS
    }

    /// The clock of the thread that issues TMA copies into a stage.
    pub(super) fn issuer_clock(&self, role_index: usize, stage: BufferStage) -> VectorClock {
        let execution = &self.executions[role_index];
        let Some((pipeline, _)) =
            self.attrs.pipeline_of(stage.buffer).filter(|(pipeline, _)| self.alternates_warps(role_index, *pipeline, EMPTY))
        else {
            return execution.first_thread_clock.clone();
        };
        let mut clock = execution.clock.clone();
        self.issuers
            .get(&(role_index, pipeline, stage.stage_number))
            .into_iter()
            .for_each(|acquired| join_clock(&mut clock, acquired));
        clock
    }

    /// The clock entry of a warp role's MMAs.
    pub(super) fn mma_clock_entry(&self, role_index: usize) -> usize {
        self.copy_clock_entry(self.cta_count, 0, Pipeline(0)) + role_index
    }

    /// The clock entry of the copies with which one CTA fills a pipeline's stages in another CTA.
    fn copy_clock_entry(&self, from: usize, to: usize, pipeline: Pipeline) -> usize {
        self.executions.len() + (from * self.cta_count + to) * self.attrs.pipelines.len() + pipeline.0 as usize
    }

    /// The clock of a role's first thread at the time when all MMAs that this thread has issued are complete.
    fn mma_completion_clock(&self, role_index: usize) -> VectorClock {
        let execution = &self.executions[role_index];
        let mut clock = execution.first_thread_clock.clone();
        clock[self.mma_clock_entry(role_index)] = execution.now;
        clock
    }

    /// The clock that an arrival of a warp role publishes: its clock, which also covers all accesses of the role so far.
    fn arrival_clock(&self, role_index: usize) -> VectorClock {
        let execution = &self.executions[role_index];
        let mut clock = execution.clock.clone();
        clock[role_index] = execution.now;
        clock
    }

    /// Checks that the role holds the stage, and ends this: the role no longer holds the stage.
    fn leave_stage(&mut self, role_index: usize, pipeline: Pipeline, stage: u32, side: usize) -> CheckResult {
        let (step, missing_step) = if side == EMPTY { ("committed", "acquired") } else { ("released", "waited for") };
        let execution = &mut self.executions[role_index];
        let end = execution.ends.entry((pipeline, side)).or_default();
        let Some(open) = end.held_stages.iter().position(|held| *held == stage) else {
            return Err(format!("stage {stage} of {pipeline} is {step}, but was not {missing_step} by {}", execution.name));
        };
        end.held_stages.remove(open);
        Ok(())
    }

    /// Signals that a stage is full. The vector clock of the arrival depends on what fills the stage.
    pub(super) fn execute_commit(&mut self, role_index: usize, pipeline: Pipeline, stage: u32) -> CheckResult {
        self.leave_stage(role_index, pipeline, stage, EMPTY)?;
        let info = self.pipeline_info(pipeline);
        let (now, mut clock, threads) =
            (self.executions[role_index].now, self.arrival_clock(role_index), self.executions[role_index].threads);
        match info.fill {
            // The copies complete when the stage is full. A waiter then knows that they are complete, but the producer does not.
            Fill::Copies => {
                let rank = self.executions[role_index].rank;
                let clock_entry = self.copy_clock_entry(rank, rank, pipeline);
                clock[clock_entry] = now;
                self.accesses_in_flight(role_index, Proxy::Copies)
                    .for_each(|copy| (copy.clock_entry, copy.completed_at) = (clock_entry, Some(now)));
            }
            Fill::Tma => return self.commit_tma(role_index, pipeline, stage),
            Fill::Mma => clock = self.mma_completion_clock(role_index),
            Fill::Threads => {
                let is_in_stage =
                    |earlier: &ShadowAccess| info.buffers.contains(&earlier.stage.buffer) && earlier.stage.stage_number == stage;
                if let Some(copy) = self.accesses_in_flight(role_index, Proxy::Copies).find(|earlier| is_in_stage(earlier)) {
                    return Err(format!("stage {stage} of {pipeline} is committed while a copy to {} is in flight", copy.stage));
                }
            }
        }
        let threads = if info.fills_alone() { 1 } else { threads };
        for rank in self.signalled_ctas(role_index, pipeline, FULL) {
            self.stage_side(rank, pipeline, stage, FULL).arrive(threads, threads, &clock);
        }
        Ok(())
    }

    /// Commits a stage that TMA fills. The stage is full when the TMA copies of all CTAs that fill it have arrived. In its own CTA,
    /// the issuing thread publishes its whole clock with the arrival. In other CTAs, it publishes only the completion of the
    /// copies. The leader of a CTA pair waits for the copies of both CTAs, each of which fills its own memory.
    fn commit_tma(&mut self, role_index: usize, pipeline: Pipeline, stage: u32) -> CheckResult {
        let (info, signalled) = (self.pipeline_info(pipeline), self.signalled_ctas(role_index, pipeline, FULL));
        let RoleExecution { rank: own, now, ref clock, .. } = self.executions[role_index];
        let of_cta_pair = self.attrs.is_of_cta_pair(info);
        let (clock, arrivals) = (clock.clone(), if of_cta_pair { self.cta_count } else { signalled.len() } as u32);
        for rank in signalled {
            let filled_cta = if of_cta_pair { own } else { rank };
            let clock_entry = self.copy_clock_entry(own, filled_cta, pipeline);
            for buffer in info.buffers.iter().filter(|buffer| filled_cta == own || info.is_multicast(**buffer)) {
                let fills_buffer = |earlier: &&mut ShadowAccess| {
                    let BufferStage { buffer: of, stage_number, rank: to, .. } = earlier.stage;
                    (of, stage_number, to) == (*buffer, stage, filled_cta)
                };
                let copies: Vec<&mut ShadowAccess> = self.accesses_in_flight(role_index, Proxy::Tma).filter(fills_buffer).collect();
                if copies.len() != 1 {
                    return Err(format!(
                        "stage {stage} of {pipeline} is committed with {} copies to {buffer}, not one",
                        copies.len()
                    ));
                }
                copies.into_iter().for_each(|copy| (copy.clock_entry, copy.completed_at) = (clock_entry, Some(now)));
            }
            let mut published = if rank == own { clock.clone() } else { vec![0; clock.len()] };
            published[clock_entry] = now;
            self.stage_side(rank, pipeline, stage, FULL).arrive(1, arrivals, &published);
        }
        Ok(())
    }

    /// Signals that a stage is empty. Fails while an MMA in flight reads the stage.
    pub(super) fn execute_release(&mut self, role_index: usize, pipeline: Pipeline, stage: u32) -> CheckResult {
        self.leave_stage(role_index, pipeline, stage, FULL)?;
        let info = self.pipeline_info(pipeline);
        let is_in_stage =
            |earlier: &ShadowAccess| info.buffers.contains(&earlier.stage.buffer) && earlier.stage.stage_number == stage;
        if self.accesses_in_flight(role_index, Proxy::Mma).any(|earlier| is_in_stage(earlier)) {
            return Err(format!("stage {stage} of {pipeline} is released while an MMA in flight reads it"));
        }
        let clock = if info.drains_alone() { self.mma_completion_clock(role_index) } else { self.arrival_clock(role_index) };
        let threads = info.release_arrivals(self.executions[role_index].threads);
        let expected = self.attrs.draining_arrivals(info);
        for rank in self.signalled_ctas(role_index, pipeline, EMPTY) {
            self.stage_side(rank, pipeline, stage, EMPTY).arrive(threads, expected, &clock);
        }
        Ok(())
    }
}
