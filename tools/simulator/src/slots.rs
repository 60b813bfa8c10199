//! Which registers an instruction reads or writes.

use crate::program::{Address, Op, Slot};

impl Op {
    /// Calls `f` with every register of the instruction.
    pub(crate) fn for_each_slot(&self, mut f: impl FnMut(Slot)) {
        let mut each = |slots: &[Slot]| slots.iter().for_each(|&slot| f(slot));
        let at = |address: &Address| [address.base];
        match self {
            Op::Lane { dst, src, .. } => {
                each(&[*dst]);
                each(src);
            }
            Op::Move { dst, src } => each(&[*dst, *src]),
            Op::Select { dst, yes, no, predicate } => each(&[*dst, *yes, *no, *predicate]),
            Op::Unpack { dst, src, .. } => {
                each(dst);
                each(&[*src]);
            }
            Op::Pack { dst, src, .. } => {
                each(&[*dst]);
                each(src);
            }
            Op::Load { dst: slots, address, .. }
            | Op::Store { src: slots, address, .. }
            | Op::LoadMatrix { dst: slots, address, .. }
            | Op::StoreMatrix { src: slots, address, .. } => {
                each(slots);
                each(&at(address));
            }
            Op::Atom { dst, src, address, .. } => {
                each(&[*dst, address.base]);
                each(src);
            }
            Op::Call { args, result, .. } => {
                each(args);
                each(result.as_slice());
            }
            Op::Shuffle { dst, predicate, src, lane, .. } => {
                each(&[*dst, *src, *lane]);
                each(predicate.as_slice());
            }
            Op::Vote { dst, src, .. } | Op::Match { dst, src, .. } | Op::Reduce { dst, src, .. } | Op::MoveMatrix { dst, src } => {
                each(&[*dst, *src]);
            }
            Op::Mma(op) => {
                for slots in [&op.d, &op.a.slots, &op.b.slots, &op.c] {
                    each(slots);
                }
            }
            Op::Wgmma(op) => {
                each(&op.registers);
                each(&[op.b, op.accumulate]);
            }
            Op::BranchIndirect { index: slot, .. }
            | Op::Clock { dst: slot }
            | Op::ActiveMask { dst: slot }
            | Op::Elect { dst: slot, .. }
            | Op::MapToCta { dst: slot, .. }
            | Op::CtaRank { dst: slot, .. } => each(&[*slot]),
            Op::Mbarrier { address, operand, dst, .. } => {
                each(&[address.base, *operand]);
                each(dst.as_slice());
            }
            Op::CopyAsync { to, from, read, .. } => {
                each(&[to.base, from.base]);
                each(read.as_slice());
            }
            Op::Bulk(op) => {
                each(&op.coordinates);
                each(&[op.to.base, op.from.base, op.map, op.bytes, op.multicast]);
            }
            Op::TensorLoad { dst: slots, address, .. } | Op::TensorStore { src: slots, address, .. } => {
                each(slots);
                each(&at(address));
            }
            Op::TensorAllocate { address: Address { base: slot, .. }, columns: other }
            | Op::TensorFree { address: slot, columns: other }
            | Op::TensorCopy { to: Address { base: slot, .. }, from: other, .. } => each(&[*slot, *other]),
            Op::TensorCommit { address, multicast } => {
                each(&at(address));
                each(multicast.as_slice());
            }
            Op::TensorProduct(op) => each(&[op.d.base, op.a_shared, op.b, op.descriptor, op.accumulate]),
            Op::Barrier(op) => each(&[op.id]),
            Op::CopyArrive { address, .. } => each(&at(address)),
            Op::CancelLaunch { response, barrier, .. } => each(&[response.base, barrier.base]),
            Op::ReplaceInMap { address, value, .. } => each(&[address.base, *value]),
            Op::Nothing
            | Op::ProxyFence
            | Op::TensorRelinquish
            | Op::TensorWait { .. }
            | Op::TensorFence { .. }
            | Op::Branch { .. }
            | Op::Exit
            | Op::Trap
            | Op::Yield
            | Op::WarpSync { .. }
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
