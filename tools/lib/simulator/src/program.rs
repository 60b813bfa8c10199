//! A decoded kernel: registers are slots, labels are indices, types are resolved.

use crate::fault::{Fault, Result};
use crate::lanes::LaneFn;
use crate::mma_arith::{Accumulator, Kind};
use crate::tmem::TmemShape;
use common::launch::ParamType;
use std::collections::BTreeMap;

/// Index of a register in a warp's register file.
pub type RegSlot = u32;

pub struct Program {
    pub entry: String,
    pub code: Vec<Instr>,
    /// Opcode of each instruction, for faults and statistics.
    pub names: Vec<String>,
    /// Number of register slots.
    pub slots: u32,
    /// Width in bits of each declared register; 0 for registers that decoding added.
    pub bits: Vec<u8>,
    /// Slots with the same value in every lane.
    pub constants: Vec<(RegSlot, u64)>,
    pub specials: Vec<(RegSlot, Special)>,
    pub params: Vec<ParamField>,
    pub param_bytes: u32,
    pub shared_bytes: u32,
    pub local_bytes: u32,
    /// Module variables in global and constant memory.
    pub globals: Vec<GlobalVariable>,
    /// Labels by instruction index.
    pub labels: BTreeMap<u32, String>,
    pub threads: u32,
    pub block: [u32; 3],
    pub dynamic_shared: u32,
    /// Bytes of private global memory per CTA.
    pub cta_memory: u64,
    pub cluster: [u32; 3],
    /// Whether the grid counts clusters instead of CTAs.
    pub grid_of_clusters: bool,
}

pub struct Instr {
    /// The predicate register, and whether it is negated.
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
    /// Whether the kernel does not declare it to the launch: a tensor map, or the address of per-CTA memory.
    pub hidden: bool,
    pub name: String,
    /// The launch type of the parameter. `None` if launches cannot express it, for example for a structure.
    pub ty: Option<ParamType>,
}

#[derive(Debug)]
pub struct GlobalVariable {
    pub name: String,
    pub address: u64,
    pub data: Vec<u8>,
}

/// Special registers, as a warp reads them.
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
    /// The address of a variable in the shared memory of the CTA.
    SharedAddress(u32),
    LaneId,
    WarpId,
    NwarpId,
    LaneMask(LaneMask),
    Zero,
    One,
    SharedSize,
    DynamicShared,
    /// The address and the size of the CTA's private global memory.
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

/// The address space of an access.
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

/// The conversion from an element's bytes to a register value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    pub bytes: u32,
    /// The width in bits to which the value is sign-extended; `None` zero-extends it.
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
    /// An element-wise function. Slot 0 (zero) fills unused sources.
    Elementwise {
        f: LaneFn,
        dst: RegSlot,
        src: [RegSlot; 4],
        /// Whether the instruction selects bytes of the first two sources (`prmt`). The result then counts as defined if one of the
        /// two is. Reason: compilers leave a source undefined if the selector uses none of its bytes.
        selects_bytes: bool,
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
    /// Splits a register into parts of `bits` bits.
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
    /// `multimem.red`: combines each element with its copy in memory, atomically per element.
    MultimemReduce {
        space: Space,
        op: AtomOp,
        ty: ptx::Type,
        src: Box<[RegSlot]>,
        /// Destination of old values that the program does not use.
        unused: RegSlot,
        address: Address,
    },
    /// An instruction without simulated effect: prefetches, fences without a model, hints.
    Nothing,
    /// Makes the warp's earlier writes visible to the async proxy.
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
    /// `redux`: reduces a register over the lanes of a warp.
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
    /// Cluster launch control: cancels the launch of the next cluster of the grid.
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
    /// Replaces a field of a tensor map.
    ReplaceInMap {
        space: Space,
        address: Address,
        field: MapField,
        value: RegSlot,
    },
    /// `mapa`: the address of the same variable in the shared memory of another CTA.
    MapToCta {
        dst: RegSlot,
        address: RegSlot,
        rank: RegSlot,
    },
    /// The rank of the CTA whose shared memory contains an address.
    CtaRank {
        dst: RegSlot,
        address: RegSlot,
    },
    /// `cp.async`.
    CopyAsync {
        bytes: u32,
        to: Address,
        from: Address,
        /// The number of bytes to read; the other destination bytes become zero. `None` reads all `bytes`.
        src_size: Option<RegSlot>,
    },
    CopyCommit,
    /// Waits until at most `max_open` groups are open; `None` waits for all copies.
    CopyWait {
        max_open: Option<u32>,
    },
    /// `cp.async.mbarrier.arrive`. `increment`: the arrival is not part of the count of the mbarrier.
    CopyArrive {
        address: Address,
        increment: bool,
    },
    /// `cp.async.bulk`, `cp.reduce.async.bulk` and their tensor forms.
    Bulk(Box<BulkOp>),
    BulkCommit,
    LoadMatrix {
        shape: MatrixShape,
        transposed: bool,
        /// Bits of an element in memory: 16, 8, or fewer with expansion to 8.
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
        shape: TmemShape,
        /// Whether a register holds two 16-bit elements of neighbouring columns (`pack::16b`, `unpack::16b`).
        packed: bool,
        /// The column offset of the second half-warp (`16x32bx2` only).
        split: u32,
        dst: Box<[RegSlot]>,
        address: Address,
    },
    TmemStore {
        shape: TmemShape,
        packed: bool,
        split: u32,
        src: Box<[RegSlot]>,
        address: Address,
    },
    TensorWait {
        loads: bool,
    },
    /// `tcgen05.fence` before or after a thread synchronisation.
    TensorFence {
        before: bool,
    },
    /// `tcgen05.cp`: a copy from shared memory to tensor memory.
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
        max_open: u32,
    },
    BulkWait {
        max_open: u32,
        read: bool,
    },
}

/// A field of a tensor map, with its dimension.
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

/// A matrix shape of `ldmatrix` and `stmatrix`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixShape {
    M8n8,
    M8n16,
    M16n16,
    M16n8,
}

pub struct MmaOp {
    /// Whether an MMA of single bits combines them by XOR instead of AND before it counts bits.
    pub uses_xor: bool,
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

/// Rows, and bits per row, of `tcgen05.cp`. With 64 rows, the lower and the upper half go to warps {0, 2} and {1, 3}
/// (`warpx2::02_13`), or to warps {0, 1} and {2, 3} (`warpx2::01_23`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyShape {
    S128x256,
    S4x256,
    S128x128,
    S64x128Warps02_13,
    S64x128Warps01_23,
    S32x128,
}

/// An MMA into tensor memory.
pub struct TensorMma {
    pub kind: TensorKind,
    /// Whether a CTA pair executes it (`cta_group::2`).
    pub pair: bool,
    /// Elements along K that share a scale.
    pub scale_block: u32,
    pub d: Address,
    /// A in tensor memory, or else the matrix descriptor of A in shared memory.
    pub a_tensor: Option<Address>,
    pub a_shared: RegSlot,
    pub b: RegSlot,
    pub instruction_descriptor: RegSlot,
    pub scales: Option<(Address, Address)>,
    /// Bit masks of TMEM lanes that keep their old values (`disable-output-lane`).
    pub disabled: Box<[RegSlot]>,
    pub accumulate: RegSlot,
    /// The old accumulator is divided by two to this power (`scale-input-d`).
    pub shift: u32,
}

/// An MMA of a warp group.
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
    pub element_bytes: u32,
    pub negate_a: bool,
    pub negate_b: bool,
    pub transpose_a: bool,
    pub transpose_b: bool,
    /// Registers that the MMA owns while it is in flight.
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
    /// Bits of an element, bits of the container in which a register holds it, and the position of its lowest bit there.
    pub width: u32,
    pub container: u32,
    pub shift: u32,
    /// The values of all bit patterns, for small elements.
    pub table: Vec<f64>,
}

/// The scales of an operand of a block-scaled `mma`.
pub struct ScaleOp {
    pub slot: RegSlot,
    /// The selectors of the byte and of the thread (`byte-id`, `thread-id`).
    pub byte: RegSlot,
    pub thread: RegSlot,
    pub kind: Kind,
    /// Scales per row of A or column of B.
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

/// The memory at one end of a bulk copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Global,
    Shared,
}

/// A bulk copy. A tensor copy has a tensor map and coordinates on its global side; another bulk copy has an address and a size.
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
    /// The coordinates are a column and four row numbers of a matrix (gather4 or scatter4).
    pub four_rows: bool,
    pub bytes: RegSlot,
    pub barrier: Option<Address>,
    pub multicast: RegSlot,
    pub is_multicast: bool,
    /// `.cta_group::2`: the barrier may be in the peer CTA of the pair.
    pub pair: bool,
    pub reduce: Option<(AtomOp, ptx::Type)>,
}

/// Functions that the simulator provides, without a body in the module.
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
    /// Participating threads; `None` means all.
    pub threads: Option<RegSlot>,
    pub arrive_only: bool,
    /// `(dst, source predicate, popc/and/or)`
    pub reduce: Option<(RegSlot, RegSlot, VoteMode)>,
    pub aligned: bool,
}

impl Program {
    /// Returns the visible parameters, which a launch must provide.
    pub fn visible_params(&self) -> impl Iterator<Item = &ParamField> {
        self.params.iter().filter(|param| !param.hidden)
    }
    /// Returns the types of the visible parameters in the form that launches use.
    pub fn param_types(&self) -> Result<Vec<ParamType>> {
        let of = |slot: &ParamField| slot.ty.ok_or_else(|| Fault::unsupported(format!("the type of parameter '{}'", slot.name)));
        self.visible_params().map(of).collect()
    }
    pub fn hidden_params(&self) -> impl Iterator<Item = &ParamField> {
        self.params.iter().filter(|param| param.hidden)
    }
}
