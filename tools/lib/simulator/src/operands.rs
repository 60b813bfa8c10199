//! Enumeration of the registers that an instruction reads and writes.

use crate::program::{Address, Instr, Op, RegSlot, WgmmaA};

impl Instr {
    /// Calls `read` for each register that the instruction reads, including its guard, and `write` for each register that it
    /// writes.
    pub fn for_each_operand(&self, mut read: impl FnMut(RegSlot), write: impl FnMut(RegSlot)) {
        self.guard.iter().for_each(|&(slot, _)| read(slot));
        self.op.for_each_operand(read, write);
    }
}

impl Op {
    /// Calls `f` with every register of the instruction.
    pub(crate) fn for_each_reg_slot(&self, f: impl FnMut(RegSlot)) {
        let f = std::cell::RefCell::new(f);
        self.for_each_operand(|slot| f.borrow_mut()(slot), |slot| f.borrow_mut()(slot));
    }

    /// Calls `read` for each register slot that the op reads, and `write` for each slot that it writes.
    fn for_each_operand(&self, mut read: impl FnMut(RegSlot), mut write: impl FnMut(RegSlot)) {
        let mut reads = |slots: &[RegSlot]| slots.iter().for_each(|&slot| read(slot));
        let mut writes = |slots: &[RegSlot]| slots.iter().for_each(|&slot| write(slot));
        let base_of = |address: &Address| [address.base];
        match self {
            Op::Elementwise { dst, src, .. } => {
                writes(&[*dst]);
                reads(src);
            }
            Op::Move { dst, src } | Op::MoveMatrix { dst, src } => {
                writes(&[*dst]);
                reads(&[*src]);
            }
            Op::Select { dst, yes, no, predicate } => {
                writes(&[*dst]);
                reads(&[*yes, *no, *predicate]);
            }
            Op::Unpack { dst, src, .. } => {
                writes(dst);
                reads(&[*src]);
            }
            Op::Pack { dst, src, .. } => {
                writes(&[*dst]);
                reads(src);
            }
            Op::Load { dst, address, .. } | Op::LoadMatrix { dst, address, .. } | Op::TmemLoad { dst, address, .. } => {
                writes(dst);
                reads(&base_of(address));
            }
            Op::Store { src, address, .. } | Op::StoreMatrix { src, address, .. } | Op::TmemStore { src, address, .. } => {
                reads(src);
                reads(&base_of(address));
            }
            Op::Atom { dst, src, address, .. } => {
                writes(&[*dst]);
                reads(src);
                reads(&base_of(address));
            }
            Op::MultimemReduce { src, old_value_dst, address, .. } => {
                writes(&[*old_value_dst]);
                reads(src);
                reads(&base_of(address));
            }
            Op::Call { args, result, .. } => {
                reads(args);
                writes(result.as_slice());
            }
            Op::Shuffle { dst, predicate, src, lane, clamp, members, .. } => {
                writes(&[*dst]);
                writes(predicate.as_slice());
                reads(&[*src, *lane, *clamp, *members]);
            }
            Op::Vote { dst, src, members, .. } | Op::Reduce { dst, src, members, .. } => {
                writes(&[*dst]);
                reads(&[*src, *members]);
            }
            Op::Match { dst, predicate, src, members, .. } => {
                writes(&[*dst]);
                writes(predicate.as_slice());
                reads(&[*src, *members]);
            }
            Op::Elect { dst, predicate, members } => {
                writes(&[*dst, *predicate]);
                reads(&[*members]);
            }
            Op::Mma(op) => {
                writes(&op.d);
                for slots in [&op.a.slots, &op.b.slots, &op.c] {
                    reads(slots);
                }
                for scale in op.scale_a.iter().chain(&op.scale_b) {
                    reads(&[scale.slot, scale.byte_id, scale.thread_id]);
                }
            }
            Op::Wgmma(op) => {
                writes(&op.d);
                match &op.a {
                    WgmmaA::Shared(slot) => reads(&[*slot]),
                    WgmmaA::Registers(slots) => reads(slots),
                }
                reads(&[op.b, op.accumulate]);
            }
            Op::Clock { dst } | Op::ActiveMask { dst } => writes(&[*dst]),
            Op::MapToCta { dst, address, rank } => {
                writes(&[*dst]);
                reads(&[*address, *rank]);
            }
            Op::CtaRank { dst, address } => {
                writes(&[*dst]);
                reads(&[*address]);
            }
            Op::Mbarrier { address, operand, dst, .. } => {
                writes(dst.as_slice());
                reads(&[address.base, *operand]);
            }
            Op::CopyAsync { to, from, src_size, .. } => {
                reads(&[to.base, from.base]);
                reads(src_size.as_slice());
            }
            Op::Bulk(op) => {
                reads(&op.coordinates);
                reads(&[op.to.base, op.from.base, op.tensor_map, op.bytes, op.cta_mask]);
                reads(op.barrier.map(|address| address.base).as_slice());
            }
            Op::Tcgen05Allocate { address: Address { base: slot, .. }, columns: other }
            | Op::Tcgen05Free { address: slot, columns: other }
            | Op::Tcgen05Copy { to: Address { base: slot, .. }, from: other, .. } => reads(&[*slot, *other]),
            Op::Tcgen05Commit { address, cta_mask } => {
                reads(&base_of(address));
                reads(cta_mask.as_slice());
            }
            Op::Tcgen05Mma(op) => {
                reads(&[op.d.base, op.a_shared, op.b, op.instruction_descriptor, op.accumulate]);
                reads(op.a_tensor.map(|address| address.base).as_slice());
                reads(&op.disabled_lanes);
                if let Some((a, b)) = op.scales {
                    reads(&[a.base, b.base]);
                }
            }
            Op::Barrier(op) => {
                reads(&[op.id]);
                reads(op.threads.as_slice());
                if let Some((dst, predicate, _)) = op.reduce {
                    writes(&[dst]);
                    reads(&[predicate]);
                }
            }
            Op::BranchIndirect { index: slot, .. } | Op::WarpSync { members: slot } => reads(&[*slot]),
            Op::CopyArrive { address, .. } => reads(&base_of(address)),
            Op::CancelLaunch { response, barrier, .. } => reads(&[response.base, barrier.base]),
            Op::CopyTensorMap { to, from } => reads(&[to.base, from.base]),
            Op::ReplaceTensorMapField { address, value, .. } => reads(&[address.base, *value]),
            Op::Nop
            | Op::ProxyFence
            | Op::Tcgen05RelinquishAllocPermit
            | Op::Tcgen05Wait { .. }
            | Op::Tcgen05Fence { .. }
            | Op::Branch { .. }
            | Op::Exit
            | Op::Trap
            | Op::Yield
            | Op::ClusterBarrier { .. }
            | Op::CopyCommit
            | Op::CopyWait { .. }
            | Op::BulkCommit
            | Op::BulkWait { .. }
            | Op::WgmmaFence
            | Op::WgmmaCommit
            | Op::WgmmaWait { .. } => {}
        }
    }
}
