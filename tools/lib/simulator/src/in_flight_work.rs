//! The asynchronous work that a cluster or a warp has in flight. The modules of `exec` issue the work and perform its effect.

use crate::happens_before::Actor;
use crate::lanes::{Lanes, WARP_SIZE};
use crate::location::SharedLocation;
use crate::mma_arith::{AccumulatorType, MmaElement};
use crate::program::*;
use crate::tensor_map::TensorMap;
use ptx::Type;
use std::collections::VecDeque;

/// An entry of the queue: one piece of asynchronous work in flight.
pub(crate) struct Pending {
    /// The issuing warp.
    pub(crate) actor: Actor,
    pub(crate) action: Action,
}

/// The effect of asynchronous work, which takes place when the work completes.
pub(crate) enum Action {
    /// `cp.async` copies with the mbarrier arrival that follows them.
    Copies {
        copies: Vec<AsyncCopy>,
        /// The CTA and the address of the mbarrier.
        barrier: SharedLocation,
    },
    Load(BulkLoad),
    Store(BulkStore),
    Mma(Box<IssuedTcgen05Mma>),
    TmemCopy(TmemCopy),
    Response(ClcResponse),
    /// `tcgen05.commit`: mbarrier arrivals when the preceding MMAs and TMEM copies are complete.
    Commit {
        /// The CTA and the address of each mbarrier.
        barriers: Vec<SharedLocation>,
        /// The sequence number of the commit within its warp.
        commit_number: u32,
    },
}

/// A `cp.async` copy of one lane in flight.
#[derive(Clone, Debug)]
pub(crate) struct AsyncCopy {
    pub(crate) lane: usize,
    /// The number of the commit group to which the copy belongs, counted per lane.
    pub(crate) group: u32,
    /// The rank of the destination CTA, and the address in its shared memory.
    pub(crate) to: SharedLocation,
    pub(crate) from: u64,
    pub(crate) bytes: u32,
    /// Number of bytes to read. The copy writes zeros to the remaining bytes of the destination.
    pub(crate) src_size: u32,
}

/// The `cp.async` state of a warp: the copies in flight, and the number of groups that each lane has committed.
#[derive(Default)]
pub(crate) struct Copies {
    pub(crate) in_flight: Vec<AsyncCopy>,
    pub(crate) committed_groups: [u32; WARP_SIZE],
}

/// A bulk copy to shared memory in flight.
#[derive(Clone, Debug)]
pub(crate) struct BulkLoad {
    pub(crate) from: BulkLoadSource,
    /// The destinations: the rank of a CTA, and an address in its shared memory. A multicast writes the same data to several CTAs.
    pub(crate) to: Vec<SharedLocation>,
    /// For each destination, the mbarrier that the copy signals: the rank of its CTA, and its address.
    pub(crate) barriers: Vec<SharedLocation>,
    pub(crate) bytes: u32,
    /// For each destination, the time of the issue in the happens-before analysis.
    pub(crate) issue_times: Vec<u32>,
}

/// The source of a bulk copy to shared memory.
#[derive(Clone, Debug)]
pub(crate) enum BulkLoadSource {
    /// A tile of a tensor in global memory.
    Tensor(TmaTile),
    /// An address in global memory.
    Global(u64),
    /// The rank of a CTA, and an address in its shared memory.
    Shared(SharedLocation),
}

/// A bulk copy from shared memory to global memory in flight.
#[derive(Clone, Debug)]
pub(crate) struct BulkStore {
    pub(crate) cta: usize,
    pub(crate) warp: usize,
    /// The number of the commit group to which the store belongs, counted per warp.
    pub(crate) group: u32,
    pub(crate) from: u32,
    pub(crate) bytes: u32,
    pub(crate) to: BulkStoreDestination,
    pub(crate) reduce: Option<(AtomOp, Type)>,
    /// The data from shared memory. `None` until TMA has read the source.
    pub(crate) data: Option<Vec<u8>>,
}

/// The destination of a bulk copy to global memory.
#[derive(Clone, Debug)]
pub(crate) enum BulkStoreDestination {
    /// A tile of a tensor.
    Tensor(TmaTile),
    /// An address in global memory.
    Global(u64),
}

/// The tile of a tensor that one copy moves.
#[derive(Clone, Debug)]
pub(crate) struct TmaTile {
    pub(crate) map: TensorMap,
    pub(crate) coordinates: [i32; 5],
    /// Whether the tile consists of four rows with separate row numbers (`gather4` or `scatter4`).
    pub(crate) four_rows: bool,
}

/// Flag in the upper 64 bits of a `try_cancel` response: the launch of a cluster was cancelled. The lower three 32-bit words of the
/// response are the position of the first CTA of this cluster.
pub(crate) const CANCELED: u64 = 1 << 63;

/// A cluster launch control (CLC) response in flight to shared memory.
#[derive(Clone, Debug)]
pub(crate) struct ClcResponse {
    /// The ranks of the CTAs that receive the response.
    pub(crate) to: Vec<usize>,
    /// The address of the response in the shared memory of each of these CTAs.
    pub(crate) address: u32,
    /// The address of the mbarrier in the shared memory of each of these CTAs.
    pub(crate) barrier: u32,
    /// The response: the position of the stolen cluster's first CTA, and the bit `CANCELED`.
    pub(crate) bytes: [u8; 16],
}

/// A `tcgen05.cp` copy from shared memory to tensor memory.
#[derive(Clone, Debug)]
pub(crate) struct TmemCopy {
    pub(crate) cta: usize,
    pub(crate) cta_pair: bool,
    /// The TMEM address of the destination.
    pub(crate) to: u32,
    /// The matrix descriptor of the source.
    pub(crate) from: u64,
    pub(crate) shape: Tcgen05CopyShape,
}

/// A `tcgen05.ld` or `tcgen05.st` of a warp. With late delivery, a store completes at its wait.
#[derive(Clone, Debug)]
pub(crate) struct TmemTransfer {
    /// The index of the instruction.
    pub(crate) pc: u32,
    /// The TMEM address of the first lane and column.
    pub(crate) address: u32,
    /// The values to store, one for each source register; empty for a load.
    pub(crate) values: Vec<Lanes>,
}

/// An MMA with the operand values at its issue.
#[derive(Clone, Debug)]
pub(crate) struct IssuedTcgen05Mma {
    pub(crate) cta: usize,
    pub(crate) cta_pair: bool,
    /// Elements along K that share a scale.
    pub(crate) scale_block: u32,
    /// The TMEM address of the accumulator.
    pub(crate) d: u32,
    pub(crate) a: OperandA,
    /// The matrix descriptor of B.
    pub(crate) b: u64,
    pub(crate) idesc: InstructionDescriptor,
    /// The TMEM addresses of the scales of A and B.
    pub(crate) scales: Option<(u32, u32)>,
    /// Bit masks of the TMEM lanes that keep their old values.
    pub(crate) disabled_lanes: Vec<u32>,
    pub(crate) accumulate: bool,
    /// The MMA divides the old accumulator by `2^scale_input_d`.
    pub(crate) scale_input_d: u32,
}

/// The location of operand A.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OperandA {
    /// The matrix descriptor of A in shared memory.
    Shared(u64),
    /// The TMEM address of A.
    Tensor(u32),
}

/// The fields of the instruction descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InstructionDescriptor {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) d: AccumulatorType,
    pub(crate) a: ElementFormat,
    pub(crate) b: ElementFormat,
    pub(crate) transpose_a: bool,
    pub(crate) transpose_b: bool,
    /// Whether the MMA negates the product of A and B: exactly one of A and B is negated.
    pub(crate) negate: bool,
    /// The type of a scale.
    pub(crate) scale: MmaElement,
    /// The byte of a TMEM word that has the first scale of A.
    pub(crate) scale_a: u32,
    /// The byte of a TMEM word that has the first scale of B.
    pub(crate) scale_b: u32,
}

/// The format of an operand's elements in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ElementFormat {
    pub(crate) kind: MmaElement,
    /// Bits of an element.
    pub(crate) width: u32,
    /// Elements per 16-byte chunk.
    pub(crate) per_chunk: usize,
}

/// An issued MMA, with the operand values at its issue.
#[derive(Clone, Debug)]
pub(crate) struct IssuedWgmma {
    /// The index of the instruction.
    pub(crate) pc: u32,
    /// The matrix descriptor of A. 0 if A is in registers.
    pub(crate) a: u64,
    /// The matrix descriptor of B.
    pub(crate) b: u64,
    pub(crate) accumulate: bool,
}

/// An operation on accumulators that executes when its MMA group completes: an MMA, or a copy of an accumulator register.
#[derive(Clone, Debug)]
pub(crate) enum AccumulatorStep {
    Mma(IssuedWgmma),
    Copy { pc: u32, mask: u32 },
}

/// The MMAs of a warp that no `wgmma.wait_group` has covered.
#[derive(Default)]
pub(crate) struct OpenMmas {
    /// The steps after the last `wgmma.commit_group`.
    pub(crate) open: Vec<AccumulatorStep>,
    /// The committed groups, oldest first.
    pub(crate) groups: VecDeque<Vec<AccumulatorStep>>,
    /// Number of MMAs issued so far.
    pub(crate) issued: u64,
}

/// The MMAs of a warp group. Its four warps must issue the same sequence.
#[derive(Default)]
pub(crate) struct WarpGroupMmas {
    /// The instruction index of each MMA from number `first` on.
    pub(crate) issued_at: VecDeque<u32>,
    /// All four warps have issued the MMAs before this number.
    pub(crate) first: u64,
    /// The number of MMAs that each warp has issued.
    pub(crate) issued: [u64; 4],
}
