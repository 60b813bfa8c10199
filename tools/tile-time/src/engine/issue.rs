//! The issue of an instruction: the operands and units for which the instruction waits, and its effects.

use super::{MAX_SMEM_PORT_BACKLOG, Run};
use crate::cost::Unit;
use crate::engine::statistics::{Engine, StallReason};
use simulator::program::{Op, Space};

impl<'a> Run<'a> {
    /// Skips an instruction without machine code: its results are ready when its operands are ready. Returns whether the
    /// instruction was skipped.
    pub(super) fn skip_folded(&mut self, index: usize, record: usize) -> bool {
        let warp = &mut self.warps[index];
        let pc = warp.stream.records[record].pc as usize;
        if !self.setup.code.folded[pc] {
            return false;
        }
        let (reads, writes) = &self.setup.code.operands[pc];
        let from = reads.iter().map(|&slot| (warp.ready_times[slot as usize], warp.ready_stalls[slot as usize]));
        let (ready, stall) = from.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, StallReason::Arithmetic));
        for &slot in writes.iter() {
            (warp.ready_times[slot as usize], warp.ready_stalls[slot as usize]) = (ready, stall);
        }
        true
    }

    /// Returns the earliest issue time of an instruction, apart from waits for other warps. Attributes the wait until then to a
    /// stall reason.
    pub(super) fn earliest_issue_time(&mut self, index: usize, record: usize) -> f64 {
        let setup = self.setup;
        let warp = &self.warps[index];
        let pc = warp.stream.records[record].pc as usize;
        let (reads, writes) = &setup.code.operands[pc];
        let (mut time, mut stall) = (warp.earliest_issue, warp.stall);
        for &slot in reads.iter().chain(writes.iter()) {
            if warp.ready_times[slot as usize] > time {
                (time, stall) = (warp.ready_times[slot as usize], warp.ready_stalls[slot as usize]);
            }
        }
        let op = &setup.program.code[pc].op;
        let mut delay_until = |at: f64, reason: StallReason| {
            if at > time {
                (time, stall) = (at, reason);
            }
        };
        let sm = &self.sms[self.ctas[warp.cta].sm];
        let smsp = &sm.smsps[warp.index % 4];
        match op {
            Op::CopyWait { max_open } => delay_until(warp.copies.wait_end(*max_open, false), StallReason::Copies),
            Op::BulkWait { max_open, read } => delay_until(warp.stores.wait_end(Some(*max_open), *read), StallReason::Stores),
            Op::Bulk(_) => delay_until(warp.next_bulk_copy, StallReason::Tma),
            Op::WgmmaWait { max_open } => delay_until(warp.mmas.wait_end(Some(*max_open), false), StallReason::Mmas),
            Op::Tcgen05Wait { loads: true } => delay_until(warp.tensor_loads, StallReason::TmemLoad),
            Op::Tcgen05Wait { loads: false } => delay_until(warp.tensor_stores, StallReason::TmemLoad),
            Op::Load { space, .. } | Op::Store { space, .. } if *space != Space::Param => {
                delay_until(sm.smem_port_busy_until - MAX_SMEM_PORT_BACKLOG, StallReason::Port);
                delay_until(sm.memory.backlog_end(), StallReason::Memory);
            }
            Op::LoadMatrix { .. } | Op::StoreMatrix { .. } | Op::Shuffle { .. } => {
                delay_until(sm.smem_port_busy_until - MAX_SMEM_PORT_BACKLOG, StallReason::Port)
            }
            Op::CopyAsync { .. } => {
                delay_until(sm.smem_port_busy_until - MAX_SMEM_PORT_BACKLOG, StallReason::Port);
                delay_until(sm.memory.backlog_end(), StallReason::Memory);
            }
            _ => {}
        }
        if setup.spill_traffic && setup.code.spills[pc] > 0.0 {
            delay_until(sm.smem_port_busy_until - MAX_SMEM_PORT_BACKLOG, StallReason::Port);
            delay_until(sm.memory.backlog_end(), StallReason::Spill);
        }
        let cost = &setup.code.costs[pc];
        for &(unit, _) in &cost.unit_cycles {
            let free_at = match unit {
                Unit::Fma => smsp.units[Unit::Heavy as usize].min(smsp.light_fma_busy_until),
                unit => smsp.units[unit as usize],
            };
            delay_until(free_at, if unit == Unit::Tensor { StallReason::TensorUnit } else { StallReason::Unit });
        }
        if cost.issue_slots > 0.0 {
            delay_until(smsp.issue_busy_until, StallReason::Slot);
        }
        if time > self.now {
            self.attribute_wait(index, pc as u32, stall, time);
        }
        time.max(self.now)
    }

    /// Attributes the time of a warp from `attributed_until` to `until` to a stall reason.
    pub(super) fn attribute_wait(&mut self, index: usize, pc: u32, stall: StallReason, until: f64) {
        let warp = &mut self.warps[index];
        if until > warp.attributed_until {
            self.statistics.add_wait(warp.cta, warp.index, pc, stall, warp.attributed_until, until);
            warp.attributed_until = until;
        }
    }

    /// Issues an instruction now. Returns false, without issue, if the instruction waits for other warps.
    pub(super) fn issue_instruction(&mut self, index: usize, record: usize) -> bool {
        let setup = self.setup;
        let now = self.now;
        let pc = self.warps[index].stream.records[record].pc;
        let op = &setup.program.code[pc as usize].op;
        if !self.warps[index].released && !self.wait_for_warps(index, record, op) {
            return false;
        }
        let cost = &setup.code.costs[pc as usize];
        let warp = &mut self.warps[index];
        self.statistics.count_issue(warp.index, pc, cost.issue_slots);
        let sm = &mut self.sms[self.ctas[warp.cta].sm];
        let smsp = &mut sm.smsps[warp.index % 4];
        smsp.issue_busy_until = smsp.issue_busy_until.max(now) + cost.issue_slots;
        for &(unit, cycles) in &cost.unit_cycles {
            // The FMA unit has two halves. The instruction uses the half that is free first, at half the rate of the whole unit.
            if unit == Unit::Fma && setup.machine.rate.f32 > 64.0 {
                let heavy = &mut smsp.units[Unit::Heavy as usize];
                let half = if smsp.light_fma_busy_until <= *heavy { &mut smsp.light_fma_busy_until } else { heavy };
                *half = half.max(now) + 2.0 * cycles;
            } else {
                let unit = if unit == Unit::Fma { Unit::Heavy } else { unit };
                let free_at = &mut smsp.units[unit as usize];
                *free_at = free_at.max(now) + cycles;
                if setup.machine.rate.f32 <= 64.0 && unit == Unit::Heavy {
                    smsp.light_fma_busy_until = *free_at;
                }
            }
            self.statistics.add_unit_cycles(unit, cycles);
        }
        warp.earliest_issue = now + cost.issue_slots;
        warp.stall = StallReason::Slot;
        warp.attributed_until = warp.earliest_issue;
        if setup.spill_traffic && setup.code.spills[pc as usize] > 0.0 {
            self.add_spills(index, f64::from(setup.code.spills[pc as usize]));
        }
        let (ready, stall) = self.apply_effects(index, record, op, now + cost.latency);
        let warp = &mut self.warps[index];
        let next_pc = warp.stream.records.get(record + 1).map(|next| next.pc);
        if setup.code.converted_branches[pc as usize] {
            // The instructions that the branch skips are predicated off in machine code: they take issue slots without effect.
            let skipped = pc as usize + 1..next_pc.unwrap_or(0) as usize;
            warp.earliest_issue +=
                setup.code.costs.get(skipped).map_or(0.0, |costs| costs.iter().map(|cost| cost.issue_slots).sum());
        } else if matches!(op, Op::Branch { .. } | Op::BranchIndirect { .. }) && next_pc.is_some_and(|next| next != pc + 1) {
            warp.earliest_issue += setup.machine.latency.branch;
            warp.stall = StallReason::Branch;
        }
        for &slot in setup.code.operands[pc as usize].1.iter() {
            (warp.ready_times[slot as usize], warp.ready_stalls[slot as usize]) = (ready, stall);
        }
        true
    }

    /// Applies the effects of an instruction other than the use of its unit. Returns the time at which its result is ready, and the
    /// stall reason of instructions that wait for the result.
    fn apply_effects(&mut self, index: usize, record: usize, op: &Op, ready: f64) -> (f64, StallReason) {
        let setup = self.setup;
        let machine = setup.machine;
        let now = self.now;
        let stream = self.warps[index].stream;
        let events = stream.events_of(record);
        match op {
            Op::Load { .. } | Op::Store { .. } | Op::Atom { .. } | Op::LoadMatrix { .. } | Op::StoreMatrix { .. } => {
                self.execute_access(index, events, op, ready)
            }
            Op::Shuffle { .. } => {
                let sm = &mut self.sms[self.ctas[self.warps[index].cta].sm];
                sm.smem_port_busy_until = sm.smem_port_busy_until.max(now) + 1.0;
                self.statistics.add_engine_cycles(Engine::Port, 1.0);
                (ready, StallReason::Shared)
            }
            Op::Mma(_) => (ready, StallReason::Mma),
            Op::CopyAsync { .. } | Op::CopyCommit | Op::CopyArrive { .. } | Op::Bulk(_) | Op::BulkCommit => {
                self.execute_copy(index, events, op);
                (ready, StallReason::Arithmetic)
            }
            Op::CopyWait { max_open } => {
                self.warps[index].copies.remove_complete(*max_open);
                (ready, StallReason::Copies)
            }
            Op::BulkWait { max_open, read } => {
                if !read {
                    self.warps[index].stores.remove_complete(Some(*max_open));
                }
                (ready, StallReason::Stores)
            }
            Op::WgmmaWait { max_open } => {
                self.warps[index].mmas.remove_complete(Some(*max_open));
                (ready, StallReason::Mmas)
            }
            Op::Wgmma(_)
            | Op::WgmmaCommit
            | Op::Tcgen05Mma(_)
            | Op::Tcgen05Commit { .. }
            | Op::Tcgen05Copy { .. }
            | Op::TmemLoad { .. }
            | Op::TmemStore { .. }
            | Op::Tcgen05Allocate { .. }
            | Op::Tcgen05Wait { .. } => self.execute_tensor(index, events, op, ready),
            Op::Mbarrier { .. } | Op::CancelLaunch { .. } => self.execute_mbarrier(index, events, op, ready),
            Op::Nop | Op::ProxyFence => {
                let name = &setup.program.opcodes[setup.program.code[stream.records[record].pc as usize].opcode as usize];
                let stall_cycles = match name.split('.').next() {
                    Some("setmaxnreg") => machine.sync.set_registers,
                    Some("fence") if name.contains("proxy") => machine.sync.fence_proxy,
                    Some("fence" | "membar") if name.contains("gpu") || name.contains("sys") || name.contains(".gl") => {
                        machine.sync.fence_device
                    }
                    Some("fence" | "membar") => machine.sync.fence_cta,
                    _ => 0.0,
                };
                self.warps[index].earliest_issue += stall_cycles;
                if stall_cycles > 0.0 {
                    self.warps[index].stall = StallReason::Fence;
                }
                (ready, StallReason::Arithmetic)
            }
            Op::Exit => (ready, StallReason::Arithmetic),
            Op::Elementwise { .. } | Op::Move { .. } | Op::Select { .. } | Op::Pack { .. } | Op::Unpack { .. } => {
                let pc = stream.records[record].pc as usize;
                let uses_special_unit = setup.code.costs[pc].unit_cycles.iter().any(|(unit, _)| *unit == Unit::Special);
                (ready, if uses_special_unit { StallReason::Special } else { StallReason::Arithmetic })
            }
            _ => (ready, StallReason::Arithmetic),
        }
    }
}
