//! A kernel as it is executed: names are slots, labels are indices, types are resolved.

use crate::fault::{Fault, Result};
use crate::lanes::LaneFn;
use crate::mma_arith::{Accumulator, Kind};
use crate::tmem::Shape;
use common::launch::ParamType;
use std::collections::BTreeMap;

/// Index of a register in a warp's file.
pub type RegSlot = u32;

pub struct Program {
    pub entry: String,
    pub code: Vec<Instr>,
    /// Opcode of each instruction, for faults and statistics.
    pub names: Vec<String>,
    pub slots: u32,
    /// The width of each register that the text declares; 0 for what decoding adds.
    pub bits: Vec<u8>,
    /// Slots that hold the same value in every lane.
    pub constants: Vec<(RegSlot, u64)>,
    pub specials: Vec<(RegSlot, Special)>,
    pub params: Vec<ParamField>,
    pub param_bytes: u32,
    pub shared_bytes: u32,
    pub local_bytes: u32,
    /// Module variables in global and constant memory.
    pub globals: Vec<GlobalVariable>,
    /// Where labels are, by place.
    pub labels: BTreeMap<u32, String>,
    pub threads: u32,
    pub block: [u32; 3],
    pub dynamic_shared: u32,
    /// Bytes of global memory that each CTA has for itself.
    pub cta_memory: u64,
    pub cluster: [u32; 3],
    /// The grid counts clusters, not CTAs.
    pub grid_of_clusters: bool,
}

pub struct Instr {
    pub guard: Option<(RegSlot, bool)>,
    pub op: Op,
    pub line: u32,
    /// Index into `Program::names`.
    pub name: u32,
}

#[derive(Debug)]
pub struct ParamField {
    pub offset: u32,
    pub bytes: u32,
    pub hidden: bool,
    pub name: String,
    /// What a launch may give for it; nothing where a launch has no word for it, such as a structure.
    pub ty: Option<ParamType>,
}

#[derive(Debug)]
pub struct GlobalVariable {
    pub name: String,
    pub address: u64,
    pub data: Vec<u8>,
}

/// Values a warp finds in special registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Special {
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
    /// The address of a variable in the shared memory of the own CTA.
    SharedAddress(u32),
    LaneId,
    WarpId,
    NwarpId,
    LaneMask(LaneMask),
    Zero,
    One,
    SharedSize,
    DynamicShared,
    /// The address of the memory of the own CTA, and how much it is.
    CtaMemory,
    CtaMemorySize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LaneMask {
    Eq,
    Le,
    Lt,
    Ge,
    Gt,
}

/// Where an access goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    Generic,
    Global,
    SharedCta,
    SharedCluster,
    Local,
    Param,
}

#[derive(Clone, Copy, Debug)]
pub struct Address {
    pub base: RegSlot,
    pub offset: i64,
}

/// How the bytes of an element become a register's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    pub bytes: u32,
    /// Sign-extend to the register's width.
    pub signed_to: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomOp {
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
pub enum ShuffleMode {
    Up,
    Down,
    Butterfly,
    Index,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VoteMode {
    All,
    Any,
    Uniform,
    Ballot,
}

pub enum Op {
    /// An element-wise function; slot 0 (zero) fills unused sources.
    Lane {
        f: LaneFn,
        dst: RegSlot,
        src: [RegSlot; 4],
        /// The first two sources give bytes of the result, which is known as soon as one of them is: compilers leave unset what
        /// gives bytes that nobody looks at.
        parts: bool,
    },
    Move {
        dst: RegSlot,
        src: RegSlot,
    },
    Select {
        dst: RegSlot,
        yes: RegSlot,
        no: RegSlot,
        predicate: RegSlot,
    },
    /// Splits a register into parts of `bits`.
    Unpack {
        dst: Box<[RegSlot]>,
        src: RegSlot,
        bits: u32,
    },
    Pack {
        dst: RegSlot,
        src: Box<[RegSlot]>,
        bits: u32,
    },
    Clock {
        dst: RegSlot,
    },
    Load {
        space: Space,
        element: Element,
        dst: Box<[RegSlot]>,
        address: Address,
    },
    Store {
        space: Space,
        bytes: u32,
        src: Box<[RegSlot]>,
        address: Address,
    },
    Atom {
        space: Space,
        op: AtomOp,
        ty: ptx::Type,
        dst: RegSlot,
        src: [RegSlot; 2],
        address: Address,
    },
    /// Elements combined with those in memory, each atomically.
    Combine {
        space: Space,
        op: AtomOp,
        ty: ptx::Type,
        src: Box<[RegSlot]>,
        /// Where old values go that nobody asks for.
        unused: RegSlot,
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
        index: RegSlot,
        targets: Box<[u32]>,
    },
    Exit,
    Trap,
    Yield,
    Call {
        function: Builtin,
        args: Box<[RegSlot]>,
        result: Option<RegSlot>,
    },
    Shuffle {
        mode: ShuffleMode,
        dst: RegSlot,
        predicate: Option<RegSlot>,
        src: RegSlot,
        lane: RegSlot,
        clamp: RegSlot,
        members: RegSlot,
    },
    Vote {
        mode: VoteMode,
        dst: RegSlot,
        src: RegSlot,
        members: RegSlot,
    },
    Match {
        all: bool,
        bits: u32,
        dst: RegSlot,
        predicate: Option<RegSlot>,
        src: RegSlot,
        members: RegSlot,
    },
    Reduce {
        op: AtomOp,
        ty: ptx::Type,
        abs: bool,
        nan: bool,
        dst: RegSlot,
        src: RegSlot,
        members: RegSlot,
    },
    Elect {
        dst: RegSlot,
        predicate: RegSlot,
        members: RegSlot,
    },
    ActiveMask {
        dst: RegSlot,
    },
    WarpSync {
        members: RegSlot,
    },
    Barrier(BarrierOp),
    ClusterBarrier {
        arrive: bool,
    },
    Mbarrier {
        op: MbarrierOp,
        address: Address,
        operand: RegSlot,
        dst: Option<RegSlot>,
    },
    /// Takes the next cluster of the grid away from those to be launched.
    CancelLaunch {
        response: Address,
        barrier: Address,
        multicast: bool,
    },
    /// Copies a tensor map from shared to global memory.
    CopyMap {
        to: Address,
        from: Address,
    },
    /// Changes a field of a tensor map.
    ReplaceInMap {
        space: Space,
        address: Address,
        field: MapField,
        value: RegSlot,
    },
    MapToCta {
        dst: RegSlot,
        address: RegSlot,
        rank: RegSlot,
    },
    CtaRank {
        dst: RegSlot,
        address: RegSlot,
    },
    CopyAsync {
        bytes: u32,
        to: Address,
        from: Address,
        read: Option<RegSlot>,
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
        dst: Box<[RegSlot]>,
        address: Address,
    },
    StoreMatrix {
        shape: MatrixShape,
        transposed: bool,
        src: Box<[RegSlot]>,
        address: Address,
    },
    MoveMatrix {
        dst: RegSlot,
        src: RegSlot,
    },
    Mma(Box<MmaOp>),
    WgmmaFence,
    TensorAllocate {
        address: Address,
        columns: RegSlot,
    },
    TensorFree {
        address: RegSlot,
        columns: RegSlot,
    },
    TensorRelinquish,
    TmemLoad {
        shape: Shape,
        packed: bool,
        split: u32,
        dst: Box<[RegSlot]>,
        address: Address,
    },
    TmemStore {
        shape: Shape,
        packed: bool,
        split: u32,
        src: Box<[RegSlot]>,
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
        from: RegSlot,
    },
    TensorCommit {
        address: Address,
        multicast: Option<RegSlot>,
    },
    TensorMma(Box<TensorMma>),
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
pub enum MapField {
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
pub enum MatrixShape {
    M8n8,
    M8n16,
    M16n16,
    M16n8,
}

pub struct MmaOp {
    /// Counts the bits that differ, not those that both have.
    pub exclusive: bool,
    pub m: usize,
    pub k: usize,
    pub d: Box<[RegSlot]>,
    pub a: MmaOperand,
    pub b: MmaOperand,
    pub c: Box<[RegSlot]>,
    pub d_type: Accumulator,
    pub c_type: Accumulator,
    pub d_packed: bool,
    pub c_packed: bool,
    pub scale_a: Option<ScaleOp>,
    pub scale_b: Option<ScaleOp>,
}

/// The kinds of `tcgen05.mma`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorKind {
    F16,
    Tf32,
    F8f6f4,
    I8,
    Mxf8f6f4,
    Mxf4,
}

/// Rows and bits of a row of `tcgen05.cp`; 64 rows go to the warps of even and odd number, or to the first and last two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyShape {
    S128x256,
    S4x256,
    S128x128,
    S64x128Apart,
    S64x128Together,
    S32x128,
}

/// A product into tensor memory.
pub struct TensorMma {
    pub kind: TensorKind,
    /// Of two CTAs.
    pub pair: bool,
    /// Elements that share a scale.
    pub block: u32,
    pub d: Address,
    pub a_tensor: Option<Address>,
    pub a_shared: RegSlot,
    pub b: RegSlot,
    pub descriptor: RegSlot,
    pub scales: Option<(Address, Address)>,
    pub disabled: Box<[RegSlot]>,
    pub accumulate: RegSlot,
    pub shift: u32,
}

/// A product of a warp group.
pub struct WgmmaOp {
    pub n: usize,
    pub k: usize,
    pub d: Box<[RegSlot]>,
    pub a: WgmmaA,
    pub b: RegSlot,
    pub accumulate: RegSlot,
    pub d_type: Accumulator,
    pub a_kind: Kind,
    pub b_kind: Kind,
    pub a_table: Vec<f64>,
    pub b_table: Vec<f64>,
    /// Bytes of an element.
    pub element: u32,
    pub negate_a: bool,
    pub negate_b: bool,
    pub transpose_a: bool,
    pub transpose_b: bool,
    /// Registers that belong to the product while it is in flight.
    pub registers: Box<[RegSlot]>,
}

pub enum WgmmaA {
    Shared(RegSlot),
    Registers(Box<[RegSlot]>),
}

impl WgmmaOp {
    pub(crate) fn registers(&self) -> &[RegSlot] {
        &self.registers
    }
    pub(crate) fn a_value(&self, bits: u64) -> f64 {
        self.a_table.get(bits as usize).copied().unwrap_or_else(|| self.a_kind.value(bits))
    }
    pub(crate) fn b_value(&self, bits: u64) -> f64 {
        self.b_table.get(bits as usize).copied().unwrap_or_else(|| self.b_kind.value(bits))
    }
}

pub struct MmaOperand {
    pub slots: Box<[RegSlot]>,
    pub kind: Kind,
    /// Bits of an element, of the place it lies in, and where in it.
    pub width: u32,
    pub container: u32,
    pub shift: u32,
    /// The values of all bit patterns, for small elements.
    pub table: Vec<f64>,
}

pub struct ScaleOp {
    pub slot: RegSlot,
    pub byte: RegSlot,
    pub thread: RegSlot,
    pub kind: Kind,
    pub count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MbarrierOp {
    Init,
    Invalidate,
    Arrive { drop: bool },
    ArriveExpect,
    Expect,
    Complete,
    Wait { parity: bool, blocking: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Global,
    Shared,
}

/// A copy by the copy engine. A tensor copy has a map and coordinates on its global side, another one an address and a size.
#[derive(Clone, Debug)]
pub struct BulkOp {
    pub tensor: bool,
    pub to_side: Side,
    pub from_side: Side,
    pub to: Address,
    pub from: Address,
    pub map: RegSlot,
    pub map_offset: i64,
    pub coordinates: Box<[RegSlot]>,
    /// The coordinates are a column and four rows of a matrix.
    pub four_rows: bool,
    pub bytes: RegSlot,
    pub barrier: Option<Address>,
    pub multicast: RegSlot,
    pub is_multicast: bool,
    /// `.cta_group::2`: the barrier may be the one of the pair's other CTA.
    pub pair: bool,
    pub reduce: Option<(AtomOp, ptx::Type)>,
}

/// Functions that exist without a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builtin {
    Vprintf,
    AlignedMalloc,
    Malloc,
    Free,
}

#[derive(Clone, Copy, Debug)]
pub struct BarrierOp {
    pub id: RegSlot,
    /// Threads that take part; all when absent.
    pub threads: Option<RegSlot>,
    pub arrive_only: bool,
    /// `(dst, source predicate, popc/and/or)`
    pub reduce: Option<(RegSlot, RegSlot, VoteMode)>,
    pub aligned: bool,
}

impl Program {
    /// The parameters a launch names: those that are not hidden.
    pub fn visible_params(&self) -> impl Iterator<Item = &ParamField> {
        self.params.iter().filter(|param| !param.hidden)
    }
    /// Their types, as launches know them.
    pub fn param_types(&self) -> Result<Vec<ParamType>> {
        let of = |slot: &ParamField| slot.ty.ok_or_else(|| Fault::unsupported(format!("parameter '{}' of its type", slot.name)));
        self.visible_params().map(of).collect()
    }
    pub fn hidden_params(&self) -> impl Iterator<Item = &ParamField> {
        self.params.iter().filter(|param| param.hidden)
    }
}
