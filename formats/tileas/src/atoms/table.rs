//! The hardware's MMA atoms, one per row: shape, element types, required target feature, and the fragment element of each register
//! of each lane.
//!
//! Fragment layouts follow the matrix tables of the PTX ISA, written as bits: `Row(i)` is bit `i` of the row number. A register
//! here holds one element; the instruction packs as many elements as fit into a 32-bit register.

use numerics::Scalar;
use perf_model::MmaRate;
use target_info::Feature;

/// A bit of the row or column number of an element in a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bit {
    Row(u32),
    Col(u32),
}
use Bit::{Col, Row};

/// The fragment of an operand: the row or column bit that each bit of the register and lane number selects, lowest bit first.
pub struct Fragment {
    /// The bits that the register number selects.
    pub register: &'static [Bit],
    /// The bits that the lane number selects.
    pub lane: [Bit; 5],
}

/// An `mma.sync` atom for an MMA of `m` rows, `n` columns and depth `k`.
#[derive(Clone, Copy)]
pub struct SyncAtom {
    /// The name in `.as`.
    pub name: &'static str,
    pub m: u32,
    pub n: u32,
    pub k: u32,
    /// Rows of the instruction. The rows beyond `m` that the instruction computes are ignored.
    pub rows: u32,
    /// Element types of both operands; the op gives integer signedness.
    pub operands: &'static [Scalar],
    /// The number of scales of each row of A and column of B in one atom; 0 for an atom without scales.
    pub scales: u32,
    pub acc: Scalar,
    /// Whether each lane widens its 8-bit operands to f16 and executes two MMAs of half the depth.
    pub widens_to_f16: bool,
    /// The rate class of the instruction.
    pub rate: MmaRate,
    /// Bits of an operand element of the instruction.
    pub element_bits: u32,
    /// The feature that the target must have.
    pub required_feature: Option<Feature>,
    pub a: &'static Fragment,
    pub b: &'static Fragment,
    pub c: &'static Fragment,
}

// The fragments of the left operand (A) and the right operand (B) for elements of 16, 32, 8, 64 and 4 bits.
const A16: Fragment = Fragment { register: &[Col(0), Row(3), Col(3)], lane: [Col(1), Col(2), Row(0), Row(1), Row(2)] };
const B16: Fragment = Fragment { register: &[Row(0), Row(3)], lane: [Row(1), Row(2), Col(0), Col(1), Col(2)] };
const A32: Fragment = Fragment { register: &[Row(3), Col(2)], lane: [Col(0), Col(1), Row(0), Row(1), Row(2)] };
const B32: Fragment = Fragment { register: &[Row(2)], lane: [Row(0), Row(1), Col(0), Col(1), Col(2)] };
const A8: Fragment = Fragment { register: &[Col(0), Col(1), Row(3), Col(4)], lane: [Col(2), Col(3), Row(0), Row(1), Row(2)] };
const B8: Fragment = Fragment { register: &[Row(0), Row(1), Row(4)], lane: [Row(2), Row(3), Col(0), Col(1), Col(2)] };
const A64: Fragment = Fragment { register: &[], lane: [Col(0), Col(1), Row(0), Row(1), Row(2)] };
const B64: Fragment = Fragment { register: &[], lane: [Row(0), Row(1), Col(0), Col(1), Col(2)] };
const A4: Fragment =
    Fragment { register: &[Col(0), Col(1), Col(2), Row(3), Col(5)], lane: [Col(3), Col(4), Row(0), Row(1), Row(2)] };
const B4: Fragment = Fragment { register: &[Row(0), Row(1), Row(2), Row(5)], lane: [Row(3), Row(4), Col(0), Col(1), Col(2)] };
// The first eight rows of the left operands above: the same fragments without the register bit `Row(3)`.
const A16_HALF: Fragment = Fragment { register: &[Col(0), Col(3)], lane: A16.lane };
const A32_HALF: Fragment = Fragment { register: &[Col(2)], lane: A32.lane };
const A8_HALF: Fragment = Fragment { register: &[Col(0), Col(1), Col(4)], lane: A8.lane };
// The accumulator fragments of 8 rows and of 16 rows, with 8 columns.
const C8X8: Fragment = Fragment { register: &[Col(0)], lane: [Col(1), Col(2), Row(0), Row(1), Row(2)] };
const C16X8: Fragment = Fragment { register: &[Col(0), Row(3)], lane: [Col(1), Col(2), Row(0), Row(1), Row(2)] };

/// FMAs of a thread: `k` unrolled steps along K, which share one computation of the buffer address.
pub struct ThreadAtom {
    /// The name in `.as`.
    pub name: &'static str,
    pub k: u32,
}

/// The FMA atoms, with more unrolled steps last.
pub(super) const THREAD_ATOMS: &[ThreadAtom] = &[
    ThreadAtom { name: "multiply_add.k1", k: 1 },
    ThreadAtom { name: "multiply_add.k2", k: 2 },
    ThreadAtom { name: "multiply_add.k4", k: 4 },
    ThreadAtom { name: "multiply_add.k8", k: 8 },
];

// The atoms that `first_eight_rows` also offers with eight rows.
const F16: SyncAtom = SyncAtom {
    name: "mma.m16n8k16.f32",
    m: 16,
    n: 8,
    k: 16,
    rows: 16,
    operands: &[Scalar::F16, Scalar::BF16],
    scales: 0,
    acc: Scalar::F32,
    widens_to_f16: false,
    rate: MmaRate::F16,
    element_bits: 16,
    required_feature: None,
    a: &A16,
    b: &B16,
    c: &C16X8,
};
const F16_ACCUMULATOR: SyncAtom = SyncAtom {
    name: "mma.m16n8k16.f16",
    m: 16,
    n: 8,
    k: 16,
    rows: 16,
    operands: &[Scalar::F16],
    scales: 0,
    acc: Scalar::F16,
    widens_to_f16: false,
    rate: MmaRate::F16Accumulator,
    element_bits: 16,
    required_feature: None,
    a: &A16,
    b: &B16,
    c: &C16X8,
};
const TF32: SyncAtom = SyncAtom {
    name: "mma.m16n8k8.f32",
    m: 16,
    n: 8,
    k: 8,
    rows: 16,
    operands: &[Scalar::TF32],
    scales: 0,
    acc: Scalar::F32,
    widens_to_f16: false,
    rate: MmaRate::Tf32,
    element_bits: 32,
    required_feature: None,
    a: &A32,
    b: &B32,
    c: &C16X8,
};
const INT8: SyncAtom = SyncAtom {
    name: "mma.m16n8k32.s32",
    m: 16,
    n: 8,
    k: 32,
    rows: 16,
    operands: &[Scalar::I8],
    scales: 0,
    acc: Scalar::I32,
    widens_to_f16: false,
    rate: MmaRate::I8,
    element_bits: 8,
    required_feature: None,
    a: &A8,
    b: &B8,
    c: &C16X8,
};
const FP8: SyncAtom = SyncAtom {
    name: "mma.m16n8k32.f32",
    m: 16,
    n: 8,
    k: 32,
    rows: 16,
    operands: &[Scalar::F8E4M3FN, Scalar::F8E5M2],
    scales: 0,
    acc: Scalar::F32,
    widens_to_f16: false,
    rate: MmaRate::F8,
    element_bits: 8,
    required_feature: Some(Feature::MmaFp8),
    a: &A8,
    b: &B8,
    c: &C16X8,
};
const FP8_WIDENED: SyncAtom = SyncAtom {
    name: "mma.m16n8k32.f32.widened",
    m: 16,
    n: 8,
    k: 32,
    rows: 16,
    operands: &[Scalar::F8E4M3FN, Scalar::F8E5M2],
    scales: 0,
    acc: Scalar::F32,
    widens_to_f16: true,
    rate: MmaRate::F16,
    element_bits: 16,
    required_feature: Some(Feature::ConvertFp8),
    a: &A8,
    b: &B8,
    c: &C16X8,
};

/// An atom that uses the first eight rows of a sixteen-row instruction.
const fn first_eight_rows(name: &'static str, sixteen_rows: &SyncAtom, a: &'static Fragment) -> SyncAtom {
    SyncAtom { name, m: 8, a, c: &C8X8, ..*sixteen_rows }
}

/// A block-scaled atom on 4-bit floats that memory packs in pairs along K. In units of these bytes, its fragments equal the
/// fragments of 8-bit floats.
const fn packed_fp4(name: &'static str, scales: u32) -> SyncAtom {
    SyncAtom {
        name,
        m: 16,
        n: 8,
        k: 32,
        rows: 16,
        operands: &[Scalar::I8],
        scales,
        acc: Scalar::F32,
        widens_to_f16: false,
        rate: MmaRate::BlockScaled,
        element_bits: 8,
        required_feature: Some(Feature::MmaBlockScaled),
        a: &A8,
        b: &B8,
        c: &C16X8,
    }
}

/// The `mma.sync` atoms. If two atoms support an MMA, the first one is faster.
pub const SYNC_ATOMS: &[SyncAtom] = &[
    F16,
    F16_ACCUMULATOR,
    TF32,
    SyncAtom {
        name: "mma.m8n8k4.f64",
        m: 8,
        n: 8,
        k: 4,
        rows: 8,
        operands: &[Scalar::F64],
        scales: 0,
        acc: Scalar::F64,
        widens_to_f16: false,
        rate: MmaRate::F64,
        element_bits: 64,
        required_feature: None,
        a: &A64,
        b: &B64,
        c: &C8X8,
    },
    INT8,
    FP8,
    FP8_WIDENED,
    SyncAtom {
        name: "mma.m16n8k32.mxf8",
        m: 16,
        n: 8,
        k: 32,
        rows: 16,
        operands: &[Scalar::F8E4M3FN, Scalar::F8E5M2],
        scales: 1,
        acc: Scalar::F32,
        widens_to_f16: false,
        rate: MmaRate::BlockScaled,
        element_bits: 8,
        required_feature: Some(Feature::MmaBlockScaled),
        a: &A8,
        b: &B8,
        c: &C16X8,
    },
    SyncAtom {
        name: "mma.m16n8k64.mxf4",
        m: 16,
        n: 8,
        k: 64,
        rows: 16,
        operands: &[Scalar::F4E2M1FN],
        scales: 2,
        acc: Scalar::F32,
        widens_to_f16: false,
        rate: MmaRate::BlockScaled,
        element_bits: 4,
        required_feature: Some(Feature::MmaBlockScaled),
        a: &A4,
        b: &B4,
        c: &C16X8,
    },
    SyncAtom {
        name: "mma.m16n8k64.nvf4",
        m: 16,
        n: 8,
        k: 64,
        rows: 16,
        operands: &[Scalar::F4E2M1FN],
        scales: 4,
        acc: Scalar::F32,
        widens_to_f16: false,
        rate: MmaRate::BlockScaled,
        element_bits: 4,
        required_feature: Some(Feature::MmaBlockScaled),
        a: &A4,
        b: &B4,
        c: &C16X8,
    },
    // 4-bit floats in pairs along K. The field `k` counts bytes, so it is half of the depth in the name.
    packed_fp4("mma.m16n8k64.mxf4.packed", 2),
    packed_fp4("mma.m16n8k64.nvf4.packed", 4),
    // MMAs with few rows, as in the decoding of language models.
    first_eight_rows("mma.m8n8k16.f32", &F16, &A16_HALF),
    first_eight_rows("mma.m8n8k16.f16", &F16_ACCUMULATOR, &A16_HALF),
    first_eight_rows("mma.m8n8k8.f32", &TF32, &A32_HALF),
    first_eight_rows("mma.m8n8k32.s32", &INT8, &A8_HALF),
    first_eight_rows("mma.m8n8k32.f32", &FP8, &A8_HALF),
    first_eight_rows("mma.m8n8k32.f32.widened", &FP8_WIDENED, &A8_HALF),
];

/// A `wgmma` atom.
pub struct GroupAtom {
    /// The name in `.as`.
    pub name: &'static str,
    pub operands: &'static [Scalar],
    pub acc: Scalar,
    /// Depth of one instruction in elements: 32 bytes.
    pub k: u32,
    /// Whether an operand in shared memory may be contiguous along M or N, not only along the depth K.
    pub transposes: bool,
}

/// The `wgmma` atoms, for targets with warp groups.
pub(super) const GROUP_ATOMS: &[GroupAtom] = &[
    GroupAtom { name: "wgmma.m64k16.f32", operands: &[Scalar::F16, Scalar::BF16], acc: Scalar::F32, k: 16, transposes: true },
    GroupAtom { name: "wgmma.m64k16.f16", operands: &[Scalar::F16], acc: Scalar::F16, k: 16, transposes: true },
    GroupAtom { name: "wgmma.m64k8.f32", operands: &[Scalar::TF32], acc: Scalar::F32, k: 8, transposes: false },
    GroupAtom {
        name: "wgmma.m64k32.f32",
        operands: &[Scalar::F8E4M3FN, Scalar::F8E5M2],
        acc: Scalar::F32,
        k: 32,
        transposes: false,
    },
    GroupAtom { name: "wgmma.m64k32.s32", operands: &[Scalar::I8], acc: Scalar::I32, k: 32, transposes: false },
];

/// An MMA with its accumulator in tensor memory.
pub struct TensorAtom {
    /// The name in `.as`.
    pub name: &'static str,
    /// The `.kind` of the instruction in PTX.
    pub kind: &'static str,
    pub operands: &'static [Scalar],
    pub acc: Scalar,
    /// Depth of one instruction, in elements of the operands' buffers: 32 bytes.
    pub k: u32,
    /// Whether an operand in shared memory may be contiguous along M or N, not only along the depth K.
    pub transposes: bool,
    /// The block scales of both operands, which are in tensor memory; `None` for an MMA without scales.
    pub scales: Option<BlockScales>,
    /// The feature that the target must have.
    pub required_feature: Feature,
}

/// The block scales of an MMA in tensor memory: one scale for each `block` elements along the depth.
pub struct BlockScales {
    /// The element types that the scales may have.
    pub elems: &'static [Scalar],
    /// The number of elements of the operands' buffers that share a scale.
    pub block: u32,
}

/// The 16-bit floating-point types.
const FLOATS_16_BIT: &[Scalar] = &[Scalar::F16, Scalar::BF16];
/// The 8-bit floating-point types.
const FLOATS_8_BIT: &[Scalar] = &[Scalar::F8E4M3FN, Scalar::F8E5M2];
/// The type of bytes that hold two 4-bit floats, adjacent along the depth. The low four bits hold the first float.
const FP4_PAIRS: &[Scalar] = &[Scalar::I8];

/// The `tcgen05.mma` atoms.
pub(super) const TENSOR_ATOMS: &[TensorAtom] = &[
    TensorAtom {
        name: "tcgen05.k16.f32",
        kind: "f16",
        operands: FLOATS_16_BIT,
        acc: Scalar::F32,
        k: 16,
        transposes: true,
        scales: None,
        required_feature: Feature::TensorMemory,
    },
    TensorAtom {
        name: "tcgen05.k16.f16",
        kind: "f16",
        operands: &[Scalar::F16],
        acc: Scalar::F16,
        k: 16,
        transposes: true,
        scales: None,
        required_feature: Feature::TensorMemory,
    },
    TensorAtom {
        name: "tcgen05.k8.f32",
        kind: "tf32",
        operands: &[Scalar::TF32],
        acc: Scalar::F32,
        k: 8,
        transposes: false,
        scales: None,
        required_feature: Feature::TensorMemory,
    },
    TensorAtom {
        name: "tcgen05.k32.f32",
        kind: "f8f6f4",
        operands: FLOATS_8_BIT,
        acc: Scalar::F32,
        k: 32,
        transposes: true,
        scales: None,
        required_feature: Feature::TensorMemory,
    },
    TensorAtom {
        name: "tcgen05.k32.f16",
        kind: "f8f6f4",
        operands: FLOATS_8_BIT,
        acc: Scalar::F16,
        k: 32,
        transposes: true,
        scales: None,
        required_feature: Feature::TensorMemory,
    },
    TensorAtom {
        name: "tcgen05.k32.s32",
        kind: "i8",
        operands: &[Scalar::I8],
        acc: Scalar::I32,
        k: 32,
        transposes: true,
        scales: None,
        required_feature: Feature::Tcgen05Int8,
    },
    TensorAtom {
        name: "tcgen05.k32.block32.f32",
        kind: "mxf8f6f4.block_scale.scale_vec::1X",
        operands: FLOATS_8_BIT,
        acc: Scalar::F32,
        k: 32,
        transposes: true,
        scales: Some(BlockScales { elems: &[Scalar::F8E8M0FNU], block: 32 }),
        required_feature: Feature::TensorMemory,
    },
    TensorAtom {
        name: "tcgen05.k64.block32.f32",
        kind: "mxf4nvf4.block_scale.scale_vec::2X",
        operands: FP4_PAIRS,
        acc: Scalar::F32,
        k: 32,
        transposes: false,
        scales: Some(BlockScales { elems: &[Scalar::F8E8M0FNU], block: 16 }),
        required_feature: Feature::TensorMemory,
    },
    TensorAtom {
        name: "tcgen05.k64.block16.f32",
        kind: "mxf4nvf4.block_scale.scale_vec::4X",
        operands: FP4_PAIRS,
        acc: Scalar::F32,
        k: 32,
        transposes: false,
        scales: Some(BlockScales { elems: &[Scalar::F8E4M3FN, Scalar::F8E8M0FNU], block: 8 }),
        required_feature: Feature::TensorMemory,
    },
];

/// The bit of a tensor-memory address that a bit of a thread's lane or register number selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TmemBit {
    Lane(u32),
    Column(u32),
    /// The column bit that the split offset of the instruction selects (`immHalfSplitoff` of `16x32bx2`).
    SplitOffset,
}

/// An instruction with which a warp moves words between its registers and its lanes of tensor memory.
pub struct LaneAtom {
    /// The name in PTX and `.as`.
    pub name: &'static str,
    /// The address bits that the bits of the lane number select.
    pub lane: [TmemBit; 5],
    /// The address bits that the lowest bits of the register number select, one word per register. The other register bits select
    /// the remaining columns.
    pub register: &'static [TmemBit],
}

/// The shapes of `tcgen05.ld` and `tcgen05.st`.
pub(super) const LANE_ATOMS: &[LaneAtom] = &[
    LaneAtom {
        name: "32x32b",
        lane: [TmemBit::Lane(0), TmemBit::Lane(1), TmemBit::Lane(2), TmemBit::Lane(3), TmemBit::Lane(4)],
        register: &[],
    },
    LaneAtom {
        name: "16x32bx2",
        lane: [TmemBit::Lane(0), TmemBit::Lane(1), TmemBit::Lane(2), TmemBit::Lane(3), TmemBit::SplitOffset],
        register: &[],
    },
    LaneAtom {
        name: "16x64b",
        lane: [TmemBit::Lane(3), TmemBit::Column(0), TmemBit::Lane(0), TmemBit::Lane(1), TmemBit::Lane(2)],
        register: &[],
    },
    LaneAtom {
        name: "16x128b",
        lane: [TmemBit::Column(0), TmemBit::Column(1), TmemBit::Lane(0), TmemBit::Lane(1), TmemBit::Lane(2)],
        register: &[TmemBit::Lane(3)],
    },
    LaneAtom {
        name: "16x256b",
        lane: [TmemBit::Column(1), TmemBit::Column(2), TmemBit::Lane(0), TmemBit::Lane(1), TmemBit::Lane(2)],
        register: &[TmemBit::Column(0), TmemBit::Lane(3)],
    },
];
