//! A kernel as it is executed: names are slots, labels are indices, types are resolved.

use crate::lanes::LaneFn;
use crate::product::{Accumulator, Kind};
use crate::tmem::Shape;
use std::collections::BTreeMap;

/// Index of a register in a warp's file.
pub(crate) type Slot = u32;

pub(crate) struct Program {
    pub(crate) entry: String,
    pub(crate) code: Vec<Instr>,
    /// Opcode of each instruction, for faults and statistics.
    pub(crate) names: Vec<String>,
    pub(crate) slots: u32,
    /// Slots that hold the same value in every lane.
    pub(crate) constants: Vec<(Slot, u64)>,
    pub(crate) specials: Vec<(Slot, Special)>,
    pub(crate) params: Vec<ParamSlot>,
    pub(crate) param_bytes: u32,
    pub(crate) shared_bytes: u32,
    pub(crate) local_bytes: u32,
    /// Module variables in global and constant memory.
    pub(crate) globals: Vec<GlobalVariable>,
    /// Where labels are, by place.
    pub(crate) labels: BTreeMap<u32, String>,
    pub(crate) threads: u32,
    pub(crate) block: [u32; 3],
    pub(crate) dynamic_shared: u32,
    pub(crate) cluster: [u32; 3],
    /// The grid counts clusters, not CTAs.
    pub(crate) grid_of_clusters: bool,
}

pub(crate) struct Instr {
    pub(crate) guard: Option<(Slot, bool)>,
    pub(crate) op: Op,
    pub(crate) line: u32,
    /// Index into `Program::names`.
    pub(crate) name: u32,
}

#[derive(Debug)]
pub(crate) struct ParamSlot {
    pub(crate) offset: u32,
    pub(crate) bytes: u32,
    pub(crate) hidden: bool,
    pub(crate) name: String,
}

#[derive(Debug)]
pub(crate) struct GlobalVariable {
    pub(crate) name: String,
    pub(crate) address: u64,
    pub(crate) data: Vec<u8>,
}

/// Values a warp finds in special registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    ClusterId(u8),
    NclusterId(u8),
    ClusterCtaid(u8),
    ClusterNctaid(u8),
    ClusterCtarank,
    ClusterNctarank,
    LaneId,
    WarpId,
    NwarpId,
    LaneMask(LaneMask),
    Zero,
    One,
    SharedSize,
    DynamicShared,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LaneMask {
    Eq,
    Le,
    Lt,
    Ge,
    Gt,
}

/// Where an access goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Generic,
    Global,
    SharedCta,
    SharedCluster,
    Local,
    Param,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub(crate) base: Slot,
    pub(crate) offset: i64,
}

/// How the bytes of an element become a register's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) bytes: u32,
    /// Sign-extend to the register's width.
    pub(crate) signed_to: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exchange,
    CompareSwap,
    Increment,
    Decrement,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShuffleMode {
    Up,
    Down,
    Butterfly,
    Index,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VoteMode {
    All,
    Any,
    Uniform,
    Ballot,
}

pub(crate) enum Op {
    /// An element-wise function; slot 0 (zero) fills unused sources.
    Lane {
        f: LaneFn,
        dst: Slot,
        src: [Slot; 4],
    },
    Move {
        dst: Slot,
        src: Slot,
    },
    Select {
        dst: Slot,
        yes: Slot,
        no: Slot,
        predicate: Slot,
    },
    /// Splits a register into parts of `bits`.
    Unpack {
        dst: Box<[Slot]>,
        src: Slot,
        bits: u32,
    },
    Pack {
        dst: Slot,
        src: Box<[Slot]>,
        bits: u32,
    },
    Clock {
        dst: Slot,
    },
    Load {
        space: Space,
        element: Element,
        dst: Box<[Slot]>,
        address: Address,
    },
    Store {
        space: Space,
        bytes: u32,
        src: Box<[Slot]>,
        address: Address,
    },
    Atom {
        space: Space,
        op: AtomOp,
        ty: ptx::Type,
        dst: Slot,
        src: [Slot; 2],
        address: Address,
    },
    /// Nothing to do but to count it: prefetches, fences without a model, hints.
    Nothing,
    /// The warp's writes so far are visible to the async proxy.
    ProxyFence,
    Branch {
        target: u32,
    },
    BranchIndirect {
        index: Slot,
        targets: Box<[u32]>,
    },
    Exit,
    Trap,
    Yield,
    Call {
        function: Builtin,
        args: Box<[Slot]>,
        result: Option<Slot>,
    },
    Shuffle {
        mode: ShuffleMode,
        dst: Slot,
        predicate: Option<Slot>,
        src: Slot,
        lane: Slot,
        clamp: Slot,
        members: Slot,
    },
    Vote {
        mode: VoteMode,
        dst: Slot,
        src: Slot,
        members: Slot,
    },
    Match {
        all: bool,
        bits: u32,
        dst: Slot,
        predicate: Option<Slot>,
        src: Slot,
        members: Slot,
    },
    Reduce {
        op: AtomOp,
        ty: ptx::Type,
        abs: bool,
        nan: bool,
        dst: Slot,
        src: Slot,
        members: Slot,
    },
    Elect {
        dst: Slot,
        predicate: Slot,
        members: Slot,
    },
    ActiveMask {
        dst: Slot,
    },
    WarpSync {
        members: Slot,
    },
    Barrier(BarrierOp),
    ClusterBarrier {
        arrive: bool,
    },
    Mbarrier {
        op: MbarrierOp,
        address: Address,
        operand: Slot,
        dst: Option<Slot>,
    },
    /// Takes the next cluster of the grid away from those to be launched.
    CancelLaunch {
        response: Address,
        barrier: Address,
        multicast: bool,
    },
    /// Changes a field of a tensor map.
    ReplaceInMap {
        space: Space,
        address: Address,
        field: MapField,
        value: Slot,
    },
    MapToCta {
        dst: Slot,
        address: Slot,
        rank: Slot,
    },
    CtaRank {
        dst: Slot,
        address: Slot,
    },
    CopyAsync {
        bytes: u32,
        to: Address,
        from: Address,
        read: Option<Slot>,
    },
    CopyCommit,
    /// Until at most so many groups are open; `None` waits for all copies.
    CopyWait {
        left: Option<u32>,
    },
    CopyArrive {
        address: Address,
        increment: bool,
    },
    Bulk(Box<BulkOp>),
    BulkCommit,
    LoadMatrix {
        shape: MatrixShape,
        transposed: bool,
        /// Bits of an element in memory: 16, 8, or fewer that are widened to 8.
        bits: u32,
        dst: Box<[Slot]>,
        address: Address,
    },
    StoreMatrix {
        shape: MatrixShape,
        transposed: bool,
        src: Box<[Slot]>,
        address: Address,
    },
    MoveMatrix {
        dst: Slot,
        src: Slot,
    },
    Mma(Box<MmaOp>),
    WgmmaFence,
    TensorAllocate {
        address: Address,
        columns: Slot,
    },
    TensorFree {
        address: Slot,
        columns: Slot,
    },
    TensorRelinquish,
    TensorLoad {
        shape: Shape,
        packed: bool,
        split: u32,
        dst: Box<[Slot]>,
        address: Address,
    },
    TensorStore {
        shape: Shape,
        packed: bool,
        split: u32,
        src: Box<[Slot]>,
        address: Address,
    },
    TensorWait {
        loads: bool,
    },
    /// `tcgen05.fence` before or after threads meet.
    TensorFence {
        before: bool,
    },
    TensorCopy {
        shape: CopyShape,
        pair: bool,
        to: Address,
        from: Slot,
    },
    TensorCommit {
        address: Address,
        multicast: Option<Slot>,
    },
    TensorProduct(Box<TensorProduct>),
    Wgmma(Box<WgmmaOp>),
    WgmmaCommit,
    WgmmaWait {
        left: u32,
    },
    BulkWait {
        left: u32,
        read: bool,
    },
}

/// A field of a tensor map, with the dimension it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MapField {
    Address,
    Rank,
    Box(u32),
    Dim(u32),
    Stride(u32),
    ElementStride,
    ElementType,
    Interleave,
    Swizzle,
    SwizzleAtom,
    Fill,
}

/// A matrix of `ldmatrix` and `stmatrix`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatrixShape {
    M8n8,
    M8n16,
    M16n16,
    M16n8,
}

pub(crate) struct MmaOp {
    /// Counts the bits that differ, not those that both have.
    pub(crate) exclusive: bool,
    pub(crate) m: usize,
    pub(crate) k: usize,
    pub(crate) d: Box<[Slot]>,
    pub(crate) a: MmaOperand,
    pub(crate) b: MmaOperand,
    pub(crate) c: Box<[Slot]>,
    pub(crate) d_type: Accumulator,
    pub(crate) c_type: Accumulator,
    pub(crate) d_packed: bool,
    pub(crate) c_packed: bool,
    pub(crate) scale_a: Option<ScaleOp>,
    pub(crate) scale_b: Option<ScaleOp>,
}

/// The kinds of `tcgen05.mma`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TensorKind {
    F16,
    Tf32,
    F8f6f4,
    I8,
    Mxf8f6f4,
    Mxf4,
}

/// Rows and bits of a row of `tcgen05.cp`; 64 rows go to the warps of even and odd number, or to the first and last two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyShape {
    S128x256,
    S4x256,
    S128x128,
    S64x128Apart,
    S64x128Together,
    S32x128,
}

/// A product into tensor memory.
pub(crate) struct TensorProduct {
    pub(crate) kind: TensorKind,
    /// Of two CTAs.
    pub(crate) pair: bool,
    /// Elements that share a scale.
    pub(crate) block: u32,
    pub(crate) d: Address,
    pub(crate) a_tensor: Option<Address>,
    pub(crate) a_shared: Slot,
    pub(crate) b: Slot,
    pub(crate) descriptor: Slot,
    pub(crate) scales: Option<(Address, Address)>,
    pub(crate) disabled: Box<[Slot]>,
    pub(crate) accumulate: Slot,
    pub(crate) shift: u32,
}

/// A product of a warp group.
pub(crate) struct WgmmaOp {
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) d: Box<[Slot]>,
    pub(crate) a: WgmmaA,
    pub(crate) b: Slot,
    pub(crate) accumulate: Slot,
    pub(crate) d_type: Accumulator,
    pub(crate) a_kind: Kind,
    pub(crate) b_kind: Kind,
    pub(crate) a_table: Vec<f64>,
    pub(crate) b_table: Vec<f64>,
    /// Bytes of an element.
    pub(crate) element: u32,
    pub(crate) negate_a: bool,
    pub(crate) negate_b: bool,
    pub(crate) transpose_a: bool,
    pub(crate) transpose_b: bool,
    /// Registers that belong to the product while it is under way.
    pub(crate) registers: Box<[Slot]>,
}

pub(crate) enum WgmmaA {
    Shared(Slot),
    Registers(Box<[Slot]>),
}

impl WgmmaOp {
    pub(crate) fn registers(&self) -> &[Slot] {
        &self.registers
    }
    pub(crate) fn a_value(&self, bits: u64) -> f64 {
        self.a_table.get(bits as usize).copied().unwrap_or_else(|| self.a_kind.value(bits))
    }
    pub(crate) fn b_value(&self, bits: u64) -> f64 {
        self.b_table.get(bits as usize).copied().unwrap_or_else(|| self.b_kind.value(bits))
    }
}

pub(crate) struct MmaOperand {
    pub(crate) slots: Box<[Slot]>,
    pub(crate) kind: Kind,
    /// Bits of an element, of the place it lies in, and where in it.
    pub(crate) width: u32,
    pub(crate) container: u32,
    pub(crate) shift: u32,
    /// The values of all bit patterns, for small elements.
    pub(crate) table: Vec<f64>,
}

pub(crate) struct ScaleOp {
    pub(crate) slot: Slot,
    pub(crate) byte: Slot,
    pub(crate) thread: Slot,
    pub(crate) kind: Kind,
    pub(crate) count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MbarrierOp {
    Init,
    Invalidate,
    Arrive { drop: bool },
    ArriveExpect,
    Expect,
    Complete,
    Wait { parity: bool, blocking: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Global,
    Shared,
}

/// A copy by the copy engine. A tensor copy has a map and coordinates on its global side, another one an address and a size.
#[derive(Clone, Debug)]
pub(crate) struct BulkOp {
    pub(crate) tensor: bool,
    pub(crate) to_side: Side,
    pub(crate) from_side: Side,
    pub(crate) to: Address,
    pub(crate) from: Address,
    pub(crate) map: Slot,
    pub(crate) map_offset: i64,
    pub(crate) coordinates: Box<[Slot]>,
    /// The coordinates are a column and four rows of a matrix.
    pub(crate) four_rows: bool,
    pub(crate) bytes: Slot,
    pub(crate) barrier: Option<Address>,
    pub(crate) multicast: Slot,
    pub(crate) is_multicast: bool,
    /// `.cta_group::2`: the barrier may be the one of the pair's other CTA.
    pub(crate) pair: bool,
    pub(crate) reduce: Option<(AtomOp, ptx::Type)>,
}

/// Functions that exist without a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Builtin {
    Vprintf,
    AlignedMalloc,
    Malloc,
    Free,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct BarrierOp {
    pub(crate) id: Slot,
    /// Threads that take part; all when absent.
    pub(crate) threads: Option<Slot>,
    pub(crate) arrive_only: bool,
    /// `(dst, source predicate, popc/and/or)`
    pub(crate) reduce: Option<(Slot, Slot, VoteMode)>,
    pub(crate) aligned: bool,
}

impl Program {
    /// The parameters a launch names: those that are not hidden.
    pub(crate) fn visible_params(&self) -> impl Iterator<Item = &ParamSlot> {
        self.params.iter().filter(|param| !param.hidden)
    }
    pub(crate) fn hidden_params(&self) -> impl Iterator<Item = &ParamSlot> {
        self.params.iter().filter(|param| param.hidden)
    }
}
