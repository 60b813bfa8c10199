//! The accesses to buffers: their order, the stage that the role holds, and the content that they read.

use super::{AbstractExecution, CheckResult, Content, EMPTY, FULL, ShadowAccess, can_belong_to};
use crate::hazard_checker::buffer_stage::BufferStage;
use crate::hazard_checker::event_trace::Event;
use crate::module::{Drain, Fill};
use base::ir::Op as OpId;
use tileas::effects::{AccessKind, BufferAccess, Completes, Proxy};
use tileas::{Buffer, Space, tensor_memory};

impl<'a> AbstractExecution<'a> {
    /// The accesses through one proxy that a role has issued and that are not complete.
    pub(super) fn accesses_in_flight(&mut self, role_index: usize, proxy: Proxy) -> impl Iterator<Item = &mut ShadowAccess> {
        self.shadow_accesses
            .iter_mut()
            .filter(move |earlier| earlier.clock_entry == role_index && earlier.completed_at.is_none() && earlier.proxy == proxy)
    }

    /// Completes the accesses in flight after which at least `min_later_groups` further copy groups or MMAs have begun.
    pub(super) fn wait_for(&mut self, role_index: usize, proxy: Proxy, min_later_groups: u64) {
        let now = self.executions[role_index].now;
        self.accesses_in_flight(role_index, proxy)
            .filter(|earlier| earlier.later_groups >= min_later_groups)
            .for_each(|earlier| earlier.completed_at = Some(now));
    }

    /// Checks that the MMAs which compute the accumulators used by an event are complete.
    pub(super) fn check_accumulators_complete(&self, role_index: usize, event: &Event) -> CheckResult {
        let in_flight = |op: &OpId| {
            self.shadow_accesses
                .iter()
                .any(|earlier| earlier.clock_entry == role_index && earlier.completed_at.is_none() && earlier.op == *op)
        };
        match event.used_accumulators.iter().find(|(_, mmas)| mmas.iter().any(in_flight)) {
            Some((value, _)) => Err(format!("{value} is used while the MMA that computes it is in flight")),
            None => Ok(()),
        }
    }

    /// The stage of an access. Before phase `pipeline-loops`, accesses name no stage, so the result covers all stages.
    fn accessed_stage(&self, role_index: usize, buffer: Buffer, number: u32) -> BufferStage {
        let stage = if self.rules.synchronised {
            BufferStage::new(self.attrs, buffer, number)
        } else {
            BufferStage::all_stages(self.attrs, buffer)
        };
        stage.in_cta(self.executions[role_index].rank)
    }

    /// The stages of an access: for an MMA of a CTA pair, the stage in both CTAs.
    fn stages_of(&self, completes: Completes, stage: BufferStage) -> Vec<BufferStage> {
        match self.is_cta_pair_mma(completes) {
            true => (0..self.cta_count).map(|rank| stage.in_cta(rank)).collect(),
            false => vec![stage],
        }
    }

    /// The memory that an access covers, as parts of stages. A multicast TMA copy covers one part of the stage, in each CTA.
    fn covered_parts(&self, access: &BufferAccess, completes: Completes, stage: BufferStage) -> Vec<BufferStage> {
        if self.is_cta_pair_mma(completes) {
            return self.stages_of(completes, stage);
        }
        let is_multicast = self.attrs.pipeline_of(stage.buffer).is_some_and(|(_, info)| info.is_multicast(stage.buffer));
        if !is_multicast || access.proxy != Proxy::Tma || !access.access_kind.writes() {
            return vec![stage];
        }
        let part = stage.part(stage.rank, self.cta_count);
        (0..self.cta_count).map(|rank| part.in_cta(rank)).collect()
    }

    /// Checks the accesses of an op against earlier accesses, and records them.
    pub(super) fn check_and_record(
        &mut self,
        role_index: usize,
        op: OpId,
        accesses: &[(BufferAccess, u32)],
        completes: Completes,
    ) -> CheckResult {
        for (access, number) in accesses {
            let stage = self.accessed_stage(role_index, access.buffer, *number);
            if self.rules.synchronised {
                self.check_stage_held(role_index, access, *number)?;
                let mut parts = self.covered_parts(access, completes, stage).into_iter();
                parts.try_for_each(|stage| self.check_conflict_order(role_index, stage, access, completes))?;
            }
            self.stages_of(completes, stage).into_iter().try_for_each(|stage| self.check_content(stage, access))?;
        }
        let in_flight = completes == Completes::WithMmaGroup;
        if in_flight {
            self.accesses_in_flight(role_index, Proxy::Mma).for_each(|mma| mma.later_groups += 1);
        }
        for (access, number) in accesses {
            let stage = self.accessed_stage(role_index, access.buffer, *number);
            self.stages_of(completes, stage).into_iter().for_each(|stage| self.record_content(stage, access));
            if self.rules.synchronised {
                for stage in self.covered_parts(access, completes, stage) {
                    self.record_access(role_index, op, stage, access, completes);
                }
            }
        }
        Ok(())
    }

    /// Records the new content of a stage, if an access writes all of it.
    fn record_content(&mut self, stage: BufferStage, access: &BufferAccess) {
        if !matches!(access.access_kind, AccessKind::Writes | AccessKind::Fills) {
            return;
        }
        let count = self.copy_counts.entry((stage.rank, stage.buffer)).or_default();
        let copy_number = (access.proxy == Proxy::Copies).then_some(*count);
        *count += u64::from(copy_number.is_some());
        self.contents.retain(|content| !content.stage.overlaps(&stage));
        self.contents.push(Content { stage, copy_number });
    }

    /// Adds an access to those with which later accesses may conflict, and drops the accesses that it replaces.
    fn record_access(&mut self, role_index: usize, op: OpId, stage: BufferStage, access: &BufferAccess, completes: Completes) {
        let writes = access.access_kind.writes();
        let in_flight = match completes {
            Completes::WithItsCopies => access.proxy == Proxy::Copies,
            Completes::WithItsStage => access.proxy == Proxy::Tma,
            Completes::WithMmaGroup => true,
            Completes::WithItsCommit | Completes::AtOnce => false,
        };
        let clock_entry = if completes == Completes::WithItsCommit { self.mma_clock_entry(role_index) } else { role_index };
        let completed_at = (!in_flight).then_some(self.executions[role_index].now);
        // `check_conflict_order` has proved that the conflicting earlier accesses are complete. This access replaces those that
        // cover the same stage.
        let replaced = |earlier: &ShadowAccess| {
            stage == earlier.stage
                && (writes || earlier.clock_entry == clock_entry && !earlier.writes && earlier.completed_at.is_some())
        };
        self.shadow_accesses.retain(|earlier| !replaced(earlier));
        self.shadow_accesses.push(ShadowAccess {
            clock_entry,
            op,
            stage,
            writes,
            proxy: access.proxy,
            completed_at,
            fenced_at: None,
            later_groups: 0,
            completed_for: 0,
            fenced_for: 0,
        });
    }

    /// Checks that a role accesses a buffer of a pipeline only while it holds the stage.
    fn check_stage_held(&self, role_index: usize, access: &BufferAccess, number: u32) -> CheckResult {
        let Some((pipeline, info)) = self.attrs.pipeline_of(access.buffer).filter(|(_, info)| can_belong_to(info, access.proxy))
        else {
            return match access.proxy {
                Proxy::Tma if access.access_kind.writes() => Err(format!(
                    "{} belongs to no pipeline that TMA fills, so nothing signals when its copy arrives",
                    access.buffer
                )),
                _ => Ok(()),
            };
        };
        let execution = &self.executions[role_index];
        let is_open = |side| execution.ends.get(&(pipeline, side)).is_some_and(|end| end.held_stages.contains(&number));
        // The producer of a stage may read the stage. If threads fill a stage with an accumulator, the MMAs that consume the stage
        // add to the accumulator. The MMAs are complete before threads may change the accumulator again.
        let by_mma = access.proxy == Proxy::Mma && info.drain == Drain::Mma && info.fill == Fill::Threads;
        let adds = access.access_kind.writes() && by_mma;
        let writes = access.access_kind.writes() && !adds;
        let open = is_open(EMPTY) && !adds || !writes && is_open(FULL);
        let (done, window) = match (writes, adds) {
            (true, _) => ("written", "acquire and commit"),
            (_, true) => ("added to", "wait and release"),
            _ => ("read", "wait and release"),
        };
        if writes && info.producer != execution.warp_role {
            return Err(format!(
                "stage {number} of {} is written by {}, which is not the producer of {pipeline}",
                access.buffer, execution.name
            ));
        }
        match open {
            true => Ok(()),
            false => {
                Err(format!("stage {number} of {} is {done} by {} outside {window} of {pipeline}", access.buffer, execution.name))
            }
        }
    }

    /// Checks conflict order: the clock covers all conflicting accesses, and a fence follows each conflicting access of another
    /// proxy.
    fn check_conflict_order(
        &self,
        role_index: usize,
        stage: BufferStage,
        access: &BufferAccess,
        completes: Completes,
    ) -> CheckResult {
        let (execution, writes) = (&self.executions[role_index], access.access_kind.writes());
        let done = if writes { "overwritten" } else { "read" };
        let by_tma = access.proxy == Proxy::Tma;
        let by_one_mma = completes == Completes::WithItsCommit;
        let clock = match (by_tma, by_one_mma) {
            (true, _) => self.issuer_clock(role_index, stage),
            (_, true) => execution.first_thread_clock.clone(),
            _ => execution.clock.clone(),
        };
        for earlier in self.shadow_accesses.iter().filter(|earlier| (writes || earlier.writes) && earlier.stage.overlaps(&stage)) {
            // MMAs of one thread execute in order. TMEM accesses of a role of at most four warps execute in order too, because each
            // warp accesses only its own lanes.
            let of_threads = matches!(earlier.proxy, Proxy::Generic | Proxy::Copies);
            let in_order = match by_one_mma {
                true => earlier.clock_entry == self.mma_clock_entry(role_index),
                false => {
                    stage.space == Space::Tensor
                        && earlier.clock_entry == role_index
                        && of_threads
                        && execution.threads <= tensor_memory::LANES
                }
            };
            if in_order {
                continue;
            }
            let other_stage = if earlier.stage == stage { String::new() } else { format!(" (of {})", earlier.stage) };
            let by = match self.executions.get(earlier.clock_entry) {
                _ if earlier.clock_entry == role_index => String::new(),
                Some(other) => format!(", by {}", other.name),
                None if earlier.proxy == Proxy::Mma => ", by an MMA".into(),
                None => ", by a copy of its pipeline".into(),
            };
            let covered = clock[earlier.clock_entry];
            match earlier.completed_at {
                None if earlier.proxy != Proxy::Mma && !writes && earlier.stage == stage => {
                    return Err(format!("{stage} is read before its copy was waited for{by}"));
                }
                None if earlier.proxy != Proxy::Mma => {
                    return Err(format!("{stage} is {done} while a copy to {} is in flight{by}", earlier.stage));
                }
                None => return Err(format!("{stage} is overwritten while an MMA in flight reads it{by}")),
                Some(completed) if completed > covered && earlier.completed_for >> role_index & 1 == 0 => {
                    return Err(match (earlier.clock_entry == role_index, earlier.writes) {
                        (true, true) if earlier.proxy == Proxy::Copies => {
                            format!("{stage} is {done} before a barrier after the wait{other_stage}")
                        }
                        (true, true) => format!("{stage} is {done} before a barrier after it was written{other_stage}"),
                        (true, false) => format!("{stage} is {done} before a barrier after its last read{other_stage}"),
                        (false, true) => format!("{stage} is {done}, and nothing signals that it was written{other_stage}{by}"),
                        (false, false) => format!("{stage} is {done}, and nothing signals that it was read{other_stage}{by}"),
                    });
                }
                Some(_) => {}
            }
            let fenced = earlier.fenced_at.is_some_and(|fenced| fenced <= covered) || earlier.fenced_for >> role_index & 1 == 1;
            let in_shared_memory = stage.space == Space::Shared;
            if access.proxy == Proxy::Mma && in_shared_memory && earlier.writes && of_threads && !fenced {
                return Err(format!("{stage} is read in place without a fence after it was written{by}"));
            }
            if by_tma && of_threads && !fenced {
                return Err(format!("{stage} is {done} by TMA without a fence after accesses of threads{by}"));
            }
        }
        Ok(())
    }

    /// Checks that a read finds data that was written to the stage. Reads of a buffer follow the order of its copies; several reads
    /// may read one copy.
    fn check_content(&mut self, stage: BufferStage, access: &BufferAccess) -> CheckResult {
        if !access.access_kind.needs_content() {
            return Ok(());
        }
        let Some(content) = self.contents.iter().find(|content| content.stage == stage) else {
            return Err(match self.contents.iter().find(|content| content.stage.overlaps(&stage)) {
                Some(other) => format!("{stage} is read, but its memory was given to {}", other.stage),
                None => format!("{stage} is read before anything is written to it"),
            });
        };
        // In a pipeline, the stages define the order.
        let in_pipeline = self.attrs.pipeline_of(stage.buffer).is_some();
        let checks_copy_order =
            self.rules.synchronised && !in_pipeline && (self.rules.in_order || self.attrs.placements[stage.buffer].depth > 1);
        if let Some(number) = content.copy_number.filter(|_| checks_copy_order) {
            let last_read = self.last_read_copies.insert((stage.rank, stage.buffer), number);
            let due = last_read.map_or(0, |last_read| last_read + 1);
            if number != due && Some(number) != last_read {
                return Err(format!("{stage} holds copy {number}, and copy {due} is due"));
            }
        }
        Ok(())
    }
}
