//! Execution of decoded instructions. This file dispatches on the instruction and executes element-wise instructions and branches.
//! The submodules execute the other instructions.

pub(crate) mod bulk;
mod collective;
pub(crate) mod cp_async;
pub(crate) mod launch;
mod matrix;
mod mbarrier;
mod memory;
pub(crate) mod mma;
mod named_barrier;
mod print;
mod register_copies;
pub(crate) mod tcgen05;
pub(crate) mod tcgen05_mma;
pub(crate) mod wgmma;

use crate::address_space::map_to_cta;
use crate::warp::Flow;
use memory::cta_rank_of_address;

use crate::fault::{Fault, Result};
use crate::lanes::{Lanes, WARP_SIZE, mask_of};
use crate::machine::{Cluster, ExecutionMode, Machine};
use crate::program::{Builtin, Instr, Op, RegSlot};
use crate::warp::{Wait, Warp};

impl Machine<'_> {
    /// Executes one instruction for the lanes of a warp split, that is, for converged lanes.
    #[inline]
    pub(crate) fn execute(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &mut Warp,
        split: usize,
        instr: &Instr,
    ) -> Result<Flow> {
        let mut mask = warp.splits[split].mask;
        if let Some((slot, negated)) = instr.guard {
            if let Err(fault) = check_defined(warp, slot, mask, "a predicate") {
                self.report_violation(fault)?;
            }
            let values = mask_of(warp.read(slot));
            mask &= if negated { !values } else { values };
            if mask == 0 {
                return Ok(Flow::Next);
            }
        }
        if warp.any_in_flight() {
            // NVIDIA's compiler may copy a register before the wait for the asynchronous work that writes the register.
            let pc = warp.splits[split].pc;
            if register_copies::copies_in_flight_register(warp, &instr.op) {
                self.copy_in_flight(warp, mask, pc, &instr.op);
                return Ok(Flow::Next);
            }
            check_in_flight(warp, &instr.op)?;
        }
        if !warp.tmem_load_registers.is_empty() {
            check_tmem_loads(warp, &instr.op)?;
        }
        match &instr.op {
            Op::Elementwise { f, dst, src, selects_bytes } => {
                let mut out: Lanes = [0; WARP_SIZE];
                let sources = src.map(|slot| &warp.regs[slot as usize]);
                f(&sources, &mut out);
                let [a, b, c, d] = src.map(|slot| warp.undefined[slot as usize]);
                let undefined = if *selects_bytes { a & b | c } else { a | b | c | d };
                warp.write_result(*dst, mask, &out, undefined);
            }
            op @ (Op::Move { .. } | Op::Pack { .. } | Op::Unpack { .. }) => register_copies::execute_copy(warp, mask, op),
            Op::Select { dst, yes, no, predicate } => execute_select(warp, mask, *dst, *yes, *no, *predicate),
            Op::Nop => {}
            Op::ProxyFence => {
                let cta = &mut cluster.ctas[cta];
                cta.proxy_fence_times[warp.index] = cta.shared.write_count;
            }
            Op::Branch { target } => return Ok(Flow::Branch { target: *target, taken: mask }),
            Op::BranchIndirect { index, targets } => return branch_indirect(warp, mask, *index, targets),
            Op::Exit => return Ok(Flow::Exit(mask)),
            Op::Trap => return Err(Fault::new("SIM060", "the program traps").lanes(mask)),
            Op::Yield => return Ok(Flow::Yield),
            Op::Clock { dst } => {
                // The simulated clock advances by 1000 cycles per warp instruction, so that loops that poll the clock end soon.
                let now = self.warp_instructions * 1000;
                warp.write_result(*dst, mask, &[now; WARP_SIZE], 0);
                return Ok(Flow::Yield);
            }
            Op::Call { function, args, result } => self.call_builtin(warp, mask, *function, args, *result)?,
            Op::Load { space, element, dst, address } => {
                self.execute_load(cluster, cta, warp, mask, *space, *element, dst, *address)?;
            }
            Op::Store { space, bytes, src, address } => {
                self.execute_store(cluster, cta, warp, mask, *space, *bytes, src, *address)?;
            }
            Op::Atom { space, op, ty, dst, src, address } => {
                self.execute_atomic(cluster, cta, warp, mask, *space, *op, *ty, *dst, *src, *address)?;
            }
            Op::MultimemReduce { space, op, ty, src, old_value_dst, address } => {
                self.multimem_reduce(cluster, cta, warp, mask, *space, *address, *op, *ty, src, *old_value_dst)?;
            }
            Op::Barrier(op) => return self.execute_barrier(cluster, cta, warp, split, op, mask),
            Op::ClusterBarrier { is_arrival } => return self.execute_cluster_barrier(cluster, cta, warp, *is_arrival, mask),
            Op::Mbarrier { op, address, operand, dst } => {
                return self.execute_mbarrier(cluster, cta, warp, split, mask, *op, *address, *operand, *dst);
            }
            Op::MapToCta { dst, address, rank } => {
                let (addresses, ranks) = (warp.read(*address), warp.read(*rank));
                let out: Lanes = std::array::from_fn(|lane| map_to_cta(addresses[lane], ranks[lane] & 0xff));
                warp.write_result(*dst, mask, &out, warp.undefined[*address as usize]);
            }
            Op::CtaRank { dst, address } => {
                let out = warp.read(*address).map(cta_rank_of_address);
                warp.write_result(*dst, mask, &out, 0);
            }
            Op::CopyAsync { bytes, to, from, src_size } => {
                self.copy_async(cluster, cta, warp, mask, *bytes, *to, *from, *src_size)?
            }
            Op::CancelLaunch { response, barrier, multicast } => {
                return self.cancel_launch(cluster, cta, warp, mask, *response, *barrier, *multicast);
            }
            Op::CopyTensorMap { to, from } => self.copy_tensor_map(cluster, cta, warp, mask, *to, *from)?,
            Op::ReplaceTensorMapField { space, address, field, value } => {
                self.replace_tensor_map_field(cluster, cta, warp, mask, *space, *address, *field, *value)?;
            }
            Op::CopyCommit => self.copy_commit(warp, mask),
            Op::CopyWait { max_open } => self.copy_wait(cluster, warp, mask, *max_open)?,
            Op::CopyArrive { address, increment } => {
                return self.copy_arrive(cluster, cta, warp, mask, *address, *increment);
            }
            Op::Bulk(op) => self.execute_bulk_copy(cluster, cta, warp, mask, op)?,
            Op::BulkCommit => warp.bulk_groups += 1,
            Op::BulkWait { max_open, read } => self.bulk_wait(cluster, cta, warp, *max_open, *read)?,
            Op::LoadMatrix { shape, transposed, bits, dst, address } => {
                return self.load_matrix(cluster, cta, warp, mask, *shape, *transposed, *bits, dst, *address);
            }
            Op::StoreMatrix { shape, transposed, src, address } => {
                return self.store_matrix(cluster, cta, warp, mask, *shape, *transposed, src, *address);
            }
            Op::MoveMatrix { dst, src } => return matrix::move_matrix(warp, mask, *dst, *src),
            Op::Mma(op) if self.options.mode == ExecutionMode::Full => return mma::execute_mma(warp, mask, op),
            Op::Mma(_) => {
                if let Some(flow) = matrix::require_whole_warp(warp, mask)? {
                    return Ok(flow);
                }
            }
            Op::Wgmma(op) => {
                let pc = warp.splits[split].pc;
                return self.execute_wgmma(cluster, cta, warp, mask, pc, op);
            }
            Op::WgmmaFence => warp.fence_registers(),
            Op::WgmmaCommit => self.wgmma_commit(warp),
            Op::WgmmaWait { max_open } => return self.wgmma_wait(cluster, cta, warp, *max_open),
            Op::Tcgen05Allocate { .. }
            | Op::Tcgen05Free { .. }
            | Op::Tcgen05RelinquishAllocPermit
            | Op::TmemLoad { .. }
            | Op::TmemStore { .. }
            | Op::Tcgen05Wait { .. }
            | Op::Tcgen05Fence { .. }
            | Op::Tcgen05Copy { .. }
            | Op::Tcgen05Commit { .. }
            | Op::Tcgen05Mma(_) => {
                let pc = warp.splits[split].pc;
                return self.execute_tcgen05(cluster, cta, warp, mask, pc, &instr.op);
            }
            op => return collective::execute_collective(warp, mask, op),
        }
        Ok(Flow::Next)
    }

    /// Calls a function that the simulator implements, such as `vprintf`.
    fn call_builtin(
        &mut self,
        warp: &mut Warp,
        mask: u32,
        function: Builtin,
        args: &[RegSlot],
        result: Option<RegSlot>,
    ) -> Result<()> {
        for &slot in args {
            check_defined(warp, slot, mask, "an argument")?;
        }
        let mut out: Lanes = [0; WARP_SIZE];
        for lane in crate::lanes::lanes_of(mask) {
            let arg = |index: usize| warp.read(args[index])[lane];
            out[lane] = match function {
                Builtin::Vprintf => self.vprintf(warp, lane, arg(0), arg(1))?,
                Builtin::AlignedMalloc => {
                    self.global.allocate(arg(0), arg(1).max(1).checked_next_power_of_two().unwrap_or(1 << 63)).unwrap_or(0)
                }
                Builtin::Malloc => self.global.allocate(arg(0), 16).unwrap_or(0),
                Builtin::Free => 0,
            };
        }
        if let Some(slot) = result {
            warp.write_result(slot, mask, &out, 0);
        }
        Ok(())
    }
}

/// Returns a fault if a register is undefined in a lane of the mask. Callers check operands on which the effect of an instruction
/// depends, such as a branch condition or an address.
#[inline]
pub(crate) fn check_defined(warp: &Warp, slot: RegSlot, mask: u32, operand_name: &str) -> Result<()> {
    let lanes = warp.undefined[slot as usize] & mask;
    if lanes == 0 {
        return Ok(());
    }
    Err(Fault::new("SIM020", format!("{operand_name} depends on an undefined register or uninitialised memory")).lanes(lanes))
}

/// Returns a fault if an instruction accesses a register that asynchronous work owns.
#[cold]
fn check_in_flight(warp: &Warp, op: &Op) -> Result<()> {
    let mut used = false;
    op.for_each_reg_slot(|slot| used |= warp.is_in_flight(slot));
    // Consecutive `wgmma` instructions may use the same registers.
    if used && !matches!(op, Op::Wgmma(_)) {
        return Err(Fault::new("SIM033", "a register that asynchronous work owns is used before the wait for that work"));
    }
    Ok(())
}

/// Returns a fault if an op uses the result of a `tcgen05.ld` before the `tcgen05.wait::ld`.
fn check_tmem_loads(warp: &Warp, op: &Op) -> Result<()> {
    let mut used = false;
    op.for_each_reg_slot(|slot| used |= warp.tmem_load_registers.contains(&slot));
    if used {
        return Err(Fault::new("SIM033", "a register that tcgen05.ld loads is used before tcgen05.wait::ld"));
    }
    Ok(())
}

/// If some lanes of `needed` have neither exited nor reached the instruction, returns the flow that waits for these lanes. `mask`
/// has the lanes that have reached the instruction.
pub(crate) fn wait_for_missing_lanes(warp: &Warp, mask: u32, needed: u32) -> Option<Flow> {
    let missing = needed & warp.live_lanes() & !mask;
    (missing != 0).then_some(Flow::Wait(Wait::Lanes { missing }))
}

/// Executes `selp`. A lane's result is undefined if its predicate or its selected source is undefined.
fn execute_select(warp: &mut Warp, mask: u32, dst: RegSlot, yes: RegSlot, no: RegSlot, predicate: RegSlot) {
    let chosen = mask_of(warp.read(predicate));
    let (a, b) = (warp.read(yes), warp.read(no));
    let out: Lanes = std::array::from_fn(|lane| if chosen >> lane & 1 == 1 { a[lane] } else { b[lane] });
    let undefined_lanes = |slot: RegSlot| warp.undefined[slot as usize];
    let undefined = undefined_lanes(predicate) | undefined_lanes(yes) & chosen | undefined_lanes(no) & !chosen;
    warp.write_result(dst, mask, &out, undefined);
}

/// Branches all lanes to the target that they select. Lanes that select different targets are unsupported.
fn branch_indirect(warp: &mut Warp, mask: u32, index: RegSlot, targets: &[u32]) -> Result<Flow> {
    check_defined(warp, index, mask, "a branch")?;
    let values = *warp.read(index);
    let mut groups: Vec<(u32, u32)> = Vec::new();
    for lane in crate::lanes::lanes_of(mask) {
        let Some(&target) = targets.get(values[lane] as usize) else {
            return Err(
                Fault::new("SIM061", format!("target {} of {} does not exist", values[lane], targets.len())).lanes(1 << lane)
            );
        };
        match groups.iter_mut().find(|(other, _)| *other == target) {
            Some((_, lanes)) => *lanes |= 1 << lane,
            None => groups.push((target, 1 << lane)),
        }
    }
    if groups.len() > 1 {
        return Err(Fault::unsupported("an indirect branch whose lanes go to different targets"));
    }
    let (target, taken) = groups[0];
    Ok(Flow::Branch { target, taken })
}
