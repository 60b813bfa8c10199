//! A decoded kernel: registers are slots, labels are indices, types are resolved.

use crate::fault::{Fault, Result};
use crate::lanes::LaneFn;
use crate::mma_arith::{AccumulatorType, MmaElement};
use crate::tmem::TmemShape;
use common::launch::ParamType;
use std::collections::BTreeMap;

/// Index of a register in a warp's register file.
pub type RegSlot = u32;

/// The decoded kernel.
pub struct Program {
    /// The name of the kernel.
    pub entry: String,
    pub code: Vec<Instr>,
    /// The distinct opcodes with their modifiers, for faults and statistics. `Instr::opcode` is an index into this table.
    pub opcodes: Vec<String>,
    /// Number of register slots.
    pub slot_count: u32,
    /// Width in bits of each declared register; 0 for registers that decoding added.
    pub register_bits: Vec<u8>,
    /// The slots that hold a constant, each with its value.
    pub constants: Vec<(RegSlot, u64)>,
    /// The slots that hold a special register.
    pub specials: Vec<(RegSlot, Special)>,
    pub params: Vec<ParamField>,
    pub param_bytes: u32,
    pub shared_bytes: u32,
    pub local_bytes: u32,
    /// Module variables in global and constant memory.
    pub globals: Vec<GlobalVariable>,
    /// The label at each instruction index that has one.
    pub labels: BTreeMap<u32, String>,
    /// Threads per CTA.
    pub cta_threads: u32,
    /// Threads per CTA along x, y and z.
    pub block_dim: [u32; 3],
    pub dynamic_shared_bytes: u32,
    /// Bytes of private global memory per CTA.
    pub cta_memory_bytes: u64,
    /// CTAs per cluster along x, y and z.
    pub cluster_dim: [u32; 3],
    /// Whether the grid counts clusters instead of CTAs.
    pub grid_of_clusters: bool,
}

/// An instruction.
pub struct Instr {
    /// The predicate register, and whether it is negated.
    pub guard: Option<(RegSlot, bool)>,
    pub op: Op,
    /// The line of the PTX text.
    pub line: u32,
    /// Index into `Program::opcodes`.
    pub opcode: u32,
}

/// A parameter of the kernel.
#[derive(Debug)]
pub struct ParamField {
    /// The offset in parameter memory, in bytes.
    pub offset: u32,
    pub bytes: u32,
    /// Whether a launch does not provide this parameter, because the compiler added it: a tensor map, or the address of per-CTA
    /// memory.
    pub hidden: bool,
    pub name: String,
    /// The launch type of the parameter. `None` if launches cannot express it, for example for a structure.
    pub ty: Option<ParamType>,
}

/// A global variable of the module, with its initial contents.
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
    /// A register that the simulator always reads as 0, such as `%smid`, or as 1, such as `%nsmid`.
    Zero,
    One,
    /// The bytes of shared memory per CTA: in total, and the dynamic part.
    SharedSize,
    DynamicShared,
    /// The address and the size of the CTA's private global memory.
    CtaMemory,
    CtaMemorySize,
}

/// The lanes of a `%lanemask` register, relative to the own lane.
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

/// An address operand: the value of a register plus an offset in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    pub base: RegSlot,
    pub offset: i64,
}

/// The conversion from an element's bytes to a register value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementConversion {
    pub bytes: u32,
    /// The width in bits to which a load sign-extends the value. `None`: the load zero-extends it.
    pub sign_extended_bits: Option<u32>,
}

/// The operation of an atomic or a reduction.
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

/// The mode of `shfl.sync`, which determines the source lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShuffleMode {
    Up,
    Down,
    Butterfly,
    Index,
}

/// The mode of `vote.sync` and of `barrier.red`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VoteMode {
    All,
    Any,
    Uniform,
    Ballot,
}

/// A decoded instruction. Operands are register slots.
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
        element: ElementConversion,
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
    /// `multimem.red`: combines each source element with the element in memory, one atomic operation per element.
    MultimemReduce {
        space: Space,
        op: AtomOp,
        ty: ptx::Type,
        src: Box<[RegSlot]>,
        /// A temporary register for the old values in memory. The program does not read it.
        old_value_dst: RegSlot,
        address: Address,
    },
    /// An instruction without simulated effect, for example a prefetch, a hint or a fence other than a proxy fence.
    Nop,
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
    /// `redux`: reduces a register over the lanes of a warp. `abs`: absolute values. `nan`: a NaN source gives NaN.
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
    /// `barrier.cluster.arrive` or `barrier.cluster.wait`.
    ClusterBarrier {
        is_arrival: bool,
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
    CopyTensorMap {
        to: Address,
        from: Address,
    },
    /// Replaces a field of a tensor map.
    ReplaceTensorMapField {
        space: Space,
        address: Address,
        field: TensorMapField,
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
        /// The number of bytes to read. The other destination bytes become zero. `None` means all `bytes`.
        src_size: Option<RegSlot>,
    },
    CopyCommit,
    /// Waits until at most `max_open` commit groups are incomplete; `None` waits for all copies.
    CopyWait {
        max_open: Option<u32>,
    },
    /// `cp.async.mbarrier.arrive`. `increment` (without `.noinc`): the instruction first increments the pending count, because the
    /// expected count of the mbarrier does not include this arrival.
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
    /// `tcgen05.alloc`: allocates TMEM columns and stores their address in shared memory.
    Tcgen05Allocate {
        address: Address,
        columns: RegSlot,
    },
    /// `tcgen05.dealloc`.
    TensorFree {
        address: RegSlot,
        columns: RegSlot,
    },
    /// `tcgen05.relinquish_alloc_permit`.
    TensorRelinquish,
    TmemLoad {
        shape: TmemShape,
        /// Whether a register holds two 16-bit elements of neighbouring columns (`pack::16b`, `unpack::16b`).
        packed: bool,
        /// The offset in TMEM columns of the second half-warp (`16x32bx2` only).
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
    /// `tcgen05.wait::ld` (`loads`) or `tcgen05.wait::st`.
    Tcgen05Wait {
        loads: bool,
    },
    /// `tcgen05.fence::before_thread_sync` (`before`) or `::after_thread_sync`.
    TensorFence {
        before: bool,
    },
    /// `tcgen05.cp`: a copy from shared memory to tensor memory.
    Tcgen05Copy {
        shape: CopyShape,
        cta_pair: bool,
        to: Address,
        from: RegSlot,
    },
    /// `tcgen05.commit`.
    TensorCommit {
        address: Address,
        /// The mask of the CTAs whose barriers the commit signals; `None` means only `address`.
        cta_mask: Option<RegSlot>,
    },
    /// `tcgen05.mma`.
    Tcgen05Mma(Box<Tcgen05Mma>),
    Wgmma(Box<WgmmaOp>),
    WgmmaCommit,
    WgmmaWait {
        max_open: u32,
    },
    /// Waits until at most `max_open` bulk groups are incomplete. `read`: a store counts as complete after TMA has read its source.
    BulkWait {
        max_open: u32,
        read: bool,
    },
}

/// A field of a tensor map. The fields that exist per dimension name their dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorMapField {
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

/// `mma.sync`. N is 8 in all shapes.
pub struct MmaOp {
    /// Whether an MMA of single bits combines them by XOR instead of AND before it counts bits.
    pub uses_xor: bool,
    pub m: usize,
    pub k: usize,
    pub d: Box<[RegSlot]>,
    pub a: MmaOperand,
    pub b: MmaOperand,
    pub c: Box<[RegSlot]>,
    pub d_type: AccumulatorType,
    pub c_type: AccumulatorType,
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

/// Rows, and bits per row, of `tcgen05.cp`. With 64 rows, the first 32 rows go to the lanes of warps 0 and 2, the others to warps 1
/// and 3 (`warpx2::02_13`). With `warpx2::01_23`, the first 32 rows go to warps 0 and 1, the others to warps 2 and 3.
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
pub struct Tcgen05Mma {
    pub kind: TensorKind,
    /// Whether a CTA pair executes it (`cta_group::2`).
    pub cta_pair: bool,
    /// Elements along K that share a scale.
    pub scale_block: u32,
    pub d: Address,
    /// The address of A in tensor memory. `None`: `a_shared` has the matrix descriptor of A in shared memory.
    pub a_tensor: Option<Address>,
    pub a_shared: RegSlot,
    pub b: RegSlot,
    pub instruction_descriptor: RegSlot,
    pub scales: Option<(Address, Address)>,
    /// Bit masks of TMEM lanes that keep their old values (`disable-output-lane`).
    pub disabled_lanes: Box<[RegSlot]>,
    pub accumulate: RegSlot,
    /// The MMA divides the old accumulator by `2^scale_input_d` (`scale-input-d`).
    pub scale_input_d: u32,
}

/// An MMA of a warp group.
pub struct WgmmaOp {
    pub n: usize,
    pub k: usize,
    pub d: Box<[RegSlot]>,
    pub a: WgmmaA,
    pub b: RegSlot,
    pub accumulate: RegSlot,
    pub d_type: AccumulatorType,
    pub a_kind: MmaElement,
    pub b_kind: MmaElement,
    /// The value of each bit pattern of an element of A, and of B. Empty for elements of more than 8 bits.
    pub a_table: Vec<f64>,
    pub b_table: Vec<f64>,
    pub element_bytes: u32,
    pub negate_a: bool,
    pub negate_b: bool,
    pub transpose_a: bool,
    pub transpose_b: bool,
    /// The accumulator and A registers, which the MMA owns while it is in flight.
    pub registers: Box<[RegSlot]>,
}

/// The location of the left operand of a `wgmma`. The shared-memory operand is a descriptor.
pub enum WgmmaA {
    Shared(RegSlot),
    Registers(Box<[RegSlot]>),
}

impl WgmmaOp {
    pub(crate) fn registers(&self) -> &[RegSlot] {
        &self.registers
    }
    /// Decodes an element of the left operand.
    pub(crate) fn a_value(&self, bits: u64) -> f64 {
        self.a_table.get(bits as usize).copied().unwrap_or_else(|| self.a_kind.value(bits))
    }
    /// Decodes an element of the right operand.
    pub(crate) fn b_value(&self, bits: u64) -> f64 {
        self.b_table.get(bits as usize).copied().unwrap_or_else(|| self.b_kind.value(bits))
    }
}

/// Operand A or B of `mma.sync`.
pub struct MmaOperand {
    pub slots: Box<[RegSlot]>,
    pub kind: MmaElement,
    /// Bits of an element.
    pub element_bits: u32,
    /// Bits of the container in which a register holds an element, and the position of the element's lowest bit in the container.
    pub container_bits: u32,
    pub container_shift: u32,
    /// The value of each bit pattern of an element. Empty for elements of more than 8 bits.
    pub value_table: Vec<f64>,
}

/// The scales of an operand of a block-scaled `mma`.
pub struct ScaleOp {
    pub slot: RegSlot,
    /// The selectors `byte-id` and `thread-id`.
    pub byte_id: RegSlot,
    pub thread_id: RegSlot,
    pub kind: MmaElement,
    /// Number of scales per row of A or column of B.
    pub count: usize,
}

/// The operation of an mbarrier instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MbarrierOp {
    Init,
    Invalidate,
    Arrive { drop: bool },
    ArriveExpectTx,
    ExpectTx,
    CompleteTx,
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
    /// The address of the tensor map.
    pub tensor_map: RegSlot,
    pub map_offset: i64,
    pub coordinates: Box<[RegSlot]>,
    /// Whether the coordinates are a column and four row numbers of a matrix (`gather4` or `scatter4`).
    pub four_rows: bool,
    pub bytes: RegSlot,
    pub barrier: Option<Address>,
    pub is_multicast: bool,
    /// The mask of destination CTAs of a multicast.
    pub cta_mask: RegSlot,
    /// Whether the mbarrier may be in the peer CTA of the pair (`.cta_group::2`).
    pub cta_pair: bool,
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

/// `barrier.sync`, `barrier.arrive` or `barrier.red`.
#[derive(Clone, Copy, Debug)]
pub struct BarrierOp {
    pub id: RegSlot,
    /// Number of participating threads; `None` means all threads of the CTA.
    pub threads: Option<RegSlot>,
    pub arrive_only: bool,
    /// Of a `red` barrier: the destination, the source predicate, and the reduction (`Ballot` for `.popc`, `All` for `.and`, `Any`
    /// for `.or`).
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
        let launch_type =
            |param: &ParamField| param.ty.ok_or_else(|| Fault::unsupported(format!("the type of parameter '{}'", param.name)));
        self.visible_params().map(launch_type).collect()
    }
    /// Returns the hidden parameters, which are tensor maps.
    pub fn hidden_params(&self) -> impl Iterator<Item = &ParamField> {
        self.params.iter().filter(|param| param.hidden)
    }
}
