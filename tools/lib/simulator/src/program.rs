//! Data structures of a decoded kernel. Registers are slots of the register file, branch targets are instruction indices, and types
//! are resolved.

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
    /// The slots that contain a constant during the whole run, each with its value.
    pub constants: Vec<(RegSlot, u64)>,
    /// The slots that contain the value of a special register, such as `%tid.x`.
    pub specials: Vec<(RegSlot, Special)>,
    pub params: Vec<ParamField>,
    pub param_bytes: u32,
    pub shared_bytes: u32,
    pub local_bytes: u32,
    /// Module variables in global and constant memory.
    pub globals: Vec<GlobalVariable>,
    /// The labels of the PTX text. The key is the index of the instruction after the label.
    pub labels: BTreeMap<u32, String>,
    /// Threads per CTA.
    pub cta_threads: u32,
    /// Threads per CTA along x, y and z.
    pub block_dim: [u32; 3],
    pub dynamic_shared_bytes: u32,
    /// Bytes of private global memory per CTA (directive `.minperctamemory`).
    pub cta_memory_bytes: u64,
    /// CTAs per cluster along x, y and z.
    pub cluster_dim: [u32; 3],
    /// Whether the grid counts clusters instead of CTAs.
    pub grid_of_clusters: bool,
}

/// A decoded instruction: the operation, the guard and the place in the PTX text.
pub struct Instr {
    /// The predicate register of the guard `@p` or `@!p`. The flag is true for `@!p`.
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

/// A special register, or another value that does not change during the life of a warp. A number in a variant such as `Tid` is the
/// axis: 0 for x, 1 for y, 2 for z.
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
    /// A register that the simulator always reads as 0, such as `%smid`.
    Zero,
    /// A register that the simulator always reads as 1, such as `%nsmid`.
    One,
    /// Bytes of shared memory per CTA, static and dynamic.
    SharedSize,
    /// Bytes of dynamic shared memory per CTA.
    DynamicShared,
    /// The address of the CTA's private global memory.
    CtaMemory,
    /// Bytes of the CTA's private global memory.
    CtaMemorySize,
}

/// The lanes of a `%lanemask_*` register, compared with the lane that reads the register. Example: `Lt` is `%lanemask_lt`.
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

/// The conversion of a loaded element to a register value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementConversion {
    /// Bytes of the element in memory.
    pub bytes: u32,
    /// The width in bits to which a load sign-extends the value. `None`: the load zero-extends it.
    pub sign_extended_bits: Option<u32>,
}

/// The operation of `atom`, `red`, `redux`, `multimem.red` or a bulk reduction.
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
    /// An instruction that computes each lane of `dst` from the same lane of the sources. Unused sources are slot 0, which is zero.
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
    /// Combines registers of `bits` bits into one register.
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
    /// `fence.proxy.async`: makes the warp's earlier generic-proxy writes visible to the async proxy.
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
    /// `match.sync`. `all` selects the mode `.all` instead of `.any`.
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
    /// `clusterlaunchcontrol.try_cancel`: cancels the launch of the next cluster of the grid.
    CancelLaunch {
        response: Address,
        barrier: Address,
        multicast: bool,
    },
    /// `tensormap.cp_fenceproxy`: copies a tensor map from shared to global memory.
    CopyTensorMap {
        to: Address,
        from: Address,
    },
    /// `tensormap.replace`: replaces a field of a tensor map.
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
    /// `getctarank`: the rank of the CTA whose shared memory contains an address.
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
    /// `cp.async.commit_group`.
    CopyCommit,
    /// `cp.async.wait_group`: waits until at most `max_open` commit groups are incomplete. `None` (`cp.async.wait_all`) waits for
    /// all copies.
    CopyWait {
        max_open: Option<u32>,
    },
    /// `cp.async.mbarrier.arrive`. With `increment` (no `.noinc`), the instruction first increments the pending count of the
    /// mbarrier. Reason: the expected count of the mbarrier then does not include this arrival.
    CopyArrive {
        address: Address,
        increment: bool,
    },
    /// `cp.async.bulk`, `cp.reduce.async.bulk` and their tensor forms.
    Bulk(Box<BulkOp>),
    /// `cp.async.bulk.commit_group`.
    BulkCommit,
    /// `ldmatrix`.
    LoadMatrix {
        shape: MatrixShape,
        transposed: bool,
        /// Bits of an element in memory: 16, 8, or fewer with expansion to 8.
        bits: u32,
        dst: Box<[RegSlot]>,
        address: Address,
    },
    /// `stmatrix`.
    StoreMatrix {
        shape: MatrixShape,
        transposed: bool,
        src: Box<[RegSlot]>,
        address: Address,
    },
    /// `movmatrix`: transposes an 8x8 matrix of 16-bit elements across the lanes of a warp.
    MoveMatrix {
        dst: RegSlot,
        src: RegSlot,
    },
    /// `mma.sync`.
    Mma(Box<MmaOp>),
    WgmmaFence,
    /// `tcgen05.alloc`: allocates TMEM columns and stores their address in shared memory.
    Tcgen05Allocate {
        address: Address,
        columns: RegSlot,
    },
    /// `tcgen05.dealloc`.
    Tcgen05Free {
        address: RegSlot,
        columns: RegSlot,
    },
    /// `tcgen05.relinquish_alloc_permit`.
    Tcgen05RelinquishAllocPermit,
    TmemLoad {
        shape: TmemShape,
        /// Whether a register contains two 16-bit elements of neighbouring columns (`pack::16b`, `unpack::16b`).
        packed: bool,
        /// The offset in TMEM columns of the second half-warp (`16x32bx2` only).
        split: u32,
        dst: Box<[RegSlot]>,
        address: Address,
    },
    TmemStore {
        shape: TmemShape,
        /// As for `TmemLoad`.
        packed: bool,
        /// As for `TmemLoad`.
        split: u32,
        src: Box<[RegSlot]>,
        address: Address,
    },
    /// `tcgen05.wait::ld` (`loads`) or `tcgen05.wait::st`.
    Tcgen05Wait {
        loads: bool,
    },
    /// `tcgen05.fence::before_thread_sync` (`before`) or `::after_thread_sync`.
    Tcgen05Fence {
        before: bool,
    },
    /// `tcgen05.cp`: a copy from shared memory to tensor memory.
    Tcgen05Copy {
        shape: Tcgen05CopyShape,
        cta_pair: bool,
        to: Address,
        from: RegSlot,
    },
    /// `tcgen05.commit`.
    Tcgen05Commit {
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
    /// `cp.async.bulk.wait_group`: waits until at most `max_open` bulk groups are incomplete. With `read`, a store counts as
    /// complete when TMA has read its source.
    BulkWait {
        max_open: u32,
        read: bool,
    },
}

/// A field of a tensor map. A number in a variant is the dimension, for a field that each dimension has.
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

/// The operands of `mma.sync`. All shapes have N = 8.
pub struct MmaOp {
    /// Whether a `.b1` MMA combines the bits of A and B by XOR before it counts them. Otherwise it combines them by AND.
    pub uses_xor: bool,
    pub m: usize,
    pub k: usize,
    pub d: Box<[RegSlot]>,
    pub a: MmaOperand,
    pub b: MmaOperand,
    pub c: Box<[RegSlot]>,
    pub d_type: AccumulatorType,
    pub c_type: AccumulatorType,
    /// Whether a register of D contains two elements.
    pub d_packed: bool,
    /// Whether a register of C contains two elements.
    pub c_packed: bool,
    pub scale_a: Option<ScaleOp>,
    pub scale_b: Option<ScaleOp>,
}

/// The kinds of `tcgen05.mma`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tcgen05MmaKind {
    F16,
    Tf32,
    F8f6f4,
    I8,
    Mxf8f6f4,
    Mxf4,
}

/// The rows, and the bits per row, that `tcgen05.cp` copies. With 64 rows, the variants differ in the TMEM lanes of the
/// destination. `warpx2::02_13`: the first 32 rows go to the lanes of warps 0 and 2, the last 32 rows to the lanes of warps 1 and
/// 3. `warpx2::01_23`: the first 32 rows go to the lanes of warps 0 and 1, the last 32 rows to the lanes of warps 2 and 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tcgen05CopyShape {
    S128x256,
    S4x256,
    S128x128,
    S64x128Warps02_13,
    S64x128Warps01_23,
    S32x128,
}

/// The operands of `tcgen05.mma`, whose accumulator is in tensor memory.
pub struct Tcgen05Mma {
    pub kind: Tcgen05MmaKind,
    /// Whether a CTA pair executes the MMA (`cta_group::2`).
    pub cta_pair: bool,
    /// Elements along K that share a scale.
    pub scale_block: u32,
    pub d: Address,
    /// The address of A in tensor memory. `None`: `a_shared` has the matrix descriptor of A in shared memory.
    pub a_tensor: Option<Address>,
    pub a_shared: RegSlot,
    /// The matrix descriptor of B in shared memory.
    pub b: RegSlot,
    pub instruction_descriptor: RegSlot,
    /// The TMEM addresses of the scales of A and of B.
    pub scales: Option<(Address, Address)>,
    /// Bit masks of TMEM lanes that keep their old values (`disable-output-lane`).
    pub disabled_lanes: Box<[RegSlot]>,
    /// The predicate `enable-input-d`. If it is false, the MMA ignores the old accumulator.
    pub accumulate: RegSlot,
    /// The MMA divides the old accumulator by `2^scale_input_d` (`scale-input-d`).
    pub scale_input_d: u32,
}

/// The operands of `wgmma.mma_async`, an MMA of a warp group with 64 rows.
pub struct WgmmaOp {
    pub n: usize,
    pub k: usize,
    pub d: Box<[RegSlot]>,
    pub a: WgmmaA,
    /// The matrix descriptor of B in shared memory.
    pub b: RegSlot,
    /// The predicate `scale-d`. If it is false, the MMA ignores the old accumulator.
    pub accumulate: RegSlot,
    pub d_type: AccumulatorType,
    pub a_kind: MmaElement,
    pub b_kind: MmaElement,
    /// The value of each bit pattern of an element of A. Empty for elements of more than 8 bits.
    pub a_table: Vec<f64>,
    /// The value of each bit pattern of an element of B. Empty for elements of more than 8 bits.
    pub b_table: Vec<f64>,
    pub element_bytes: u32,
    pub negate_a: bool,
    pub negate_b: bool,
    pub transpose_a: bool,
    pub transpose_b: bool,
    /// The registers of the accumulator and of A. Other instructions must not access them while the MMA is in flight.
    pub registers: Box<[RegSlot]>,
}

/// Operand A of a `wgmma`.
pub enum WgmmaA {
    /// A is in shared memory. The register has the matrix descriptor.
    Shared(RegSlot),
    /// The registers have the elements of A.
    Registers(Box<[RegSlot]>),
}

impl WgmmaOp {
    /// Returns the registers of the accumulator and of A.
    pub(crate) fn registers(&self) -> &[RegSlot] {
        &self.registers
    }
    /// Returns the value of an element of A.
    pub(crate) fn a_value(&self, bits: u64) -> f64 {
        self.a_table.get(bits as usize).copied().unwrap_or_else(|| self.a_kind.value(bits))
    }
    /// Returns the value of an element of B.
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
    /// Bits of a register that one element occupies. More than `element_bits` for padded elements, such as `e2m1` in 8 bits.
    pub container_bits: u32,
    /// The position of the element's lowest bit in the `container_bits` bits.
    pub container_shift: u32,
    /// The value of each bit pattern of an element. Empty for elements of more than 8 bits.
    pub value_table: Vec<f64>,
}

/// The scales of an operand of a block-scaled `mma`.
pub struct ScaleOp {
    /// The register with the scales.
    pub slot: RegSlot,
    /// The selector `byte-id`: the index of the register's byte that has the first scale.
    pub byte_id: RegSlot,
    /// The selector `thread-id`: the lanes of each quad whose registers have the scales.
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

/// The memory that a bulk copy reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkCopySpace {
    Global,
    Shared,
}

/// The operands of a bulk copy. A tensor copy has a tensor map and coordinates for its global memory. A copy without a tensor map
/// has an address and a size.
#[derive(Clone, Debug)]
pub struct BulkOp {
    /// Whether the copy uses a tensor map (`cp.async.bulk.tensor`).
    pub tensor: bool,
    pub to_space: BulkCopySpace,
    pub from_space: BulkCopySpace,
    pub to: Address,
    pub from: Address,
    /// The register with the address of the tensor map.
    pub tensor_map: RegSlot,
    /// The offset in bytes of the tensor map from the address in the register `tensor_map`.
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

/// An external device function that the simulator implements, because the module declares it without a body.
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
    /// For `barrier.red`: the destination, the source predicate, and the reduction. `Ballot` means `.popc`, `All` means `.and`, and
    /// `Any` means `.or`.
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
    /// Returns the hidden parameters: tensor maps and the address of per-CTA memory.
    pub fn hidden_params(&self) -> impl Iterator<Item = &ParamField> {
        self.params.iter().filter(|param| param.hidden)
    }
}
