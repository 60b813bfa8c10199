//! One row a target: what it has, and its limits. What its multiprocessors do in a clock is in `machines/`.
//!
//! Rows that are alike share a generation, and name what differs.

/// What only some targets have. Each is asked for where a stage chooses between ways to do the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Clusters of blocks, a grid that starts before the one before it has ended.
    Clusters,
    /// Copies of boxes by tensor maps (TMA), and waits for `mbarrier` that sleep (`try_wait`).
    Tma,
    /// Such a copy goes to several blocks of a cluster at once.
    TmaMulticast,
    /// A block takes over another one of the launch that has not begun (`clusterlaunchcontrol`).
    ClusterLaunchControl,
    /// Warps store matrices of 16-bit elements to shared memory (`stmatrix`).
    StMatrix,
    /// Warps load matrices of bytes transposed from shared memory (`ldmatrix` of `m16n16`).
    LdMatrixTransB8,
    /// Warps give registers to others while a block runs (`setmaxnreg`).
    SetMaxNReg,
    /// `mma.sync` of 8-bit floats. Targets between those that have it have such products in `wgmma` and `tcgen05` only: there
    /// ptxas makes each of conversions, two products and separate additions.
    MmaFp8,
    /// `mma.sync` whose operands have a scale for each block of elements.
    MmaBlockScaled,
    /// Products of warp groups, `wgmma`.
    Wgmma,
    /// Tensor memory, and products that have their sums there (`tcgen05`).
    TensorMemory,
    /// Those of 8-bit integers.
    Tcgen05Int8,
    /// `redux.sync` of f32.
    ReduxF32,
    /// The largest and the smallest of three f32.
    MinMax3,
    /// Arithmetic on pairs of f32.
    PackedF32,
    /// `red` and `atom` that add bf16.
    AtomicAddBf16,
    /// Conversions of pairs of 8-bit floats.
    ConvertFp8,
    /// Conversions of pairs of 4-bit floats.
    ConvertFp4,
    /// Conversion to tf32 that rounds to nearest even or to zero; all targets have ties away from zero.
    ConvertTf32,
    /// Pointers that a program calls unicast or multicast, and `multimem` instructions on what the latter lead to.
    MultimemPointers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    Ampere,
    Hopper,
    Blackwell,
    BlackwellSm120,
}

/// A row.
pub struct Capabilities {
    /// As `--gpu-name` spells it, and as people write it.
    pub name: &'static str,
    pub title: &'static str,
    /// The suffixes that its name may have: `a` for architecture-specific features, `f` for those of its family.
    pub suffixes: &'static [&'static str],
    /// Targets whose kernels are launched alike; those of a generation stand together.
    pub generation: Generation,
    /// In PTX: the name after `.target`, with the letter of architecture-specific features where there are any, and `.version`.
    /// `.language` came with PTX 9.2; `tile-link` lowers the version for an older assembler.
    pub ptx_target: &'static str,
    pub ptx_version: &'static str,
    /// The nearest processor that LLVM knows.
    pub llvm_processor: &'static str,
    pub features: &'static [Feature],
    /// Bytes of shared memory that one block can have.
    pub shared_memory: u32,
    /// Columns of tensor memory that a multiprocessor has, each of a 32-bit word in 128 lanes.
    pub tmem_columns: u32,
    /// 32-bit registers of a multiprocessor, and those that one thread can have.
    pub registers: u32,
    pub thread_registers: u32,
    /// Where a kernel's parameters start in the constant bank.
    pub parameter_offset: u32,
}

use Feature::*;

const KIB: u32 = 1024;

const AMPERE: Capabilities = Capabilities {
    name: "sm_80",
    title: "SM 80",
    suffixes: &[],
    generation: Generation::Ampere,
    ptx_target: "sm_80",
    ptx_version: "9.2",
    llvm_processor: "sm_80",
    features: &[],
    shared_memory: 163 * KIB,
    tmem_columns: 0,
    registers: 64 * KIB,
    thread_registers: 255,
    parameter_offset: 0x160,
};

/// Small multiprocessors of the same generation, with less memory.
const AMPERE_SM86: Capabilities = Capabilities { shared_memory: 99 * KIB, ..AMPERE };

const HOPPER: Capabilities = Capabilities {
    generation: Generation::Hopper,
    suffixes: &["a"],
    features: &[Clusters, Tma, TmaMulticast, StMatrix, SetMaxNReg, Wgmma, AtomicAddBf16, ConvertFp8, ConvertTf32],
    shared_memory: 227 * KIB,
    parameter_offset: 0x210,
    ..AMPERE
};

const BLACKWELL: Capabilities = Capabilities {
    generation: Generation::Blackwell,
    suffixes: &["a", "f"],
    features: &[
        Clusters,
        ClusterLaunchControl,
        Tma,
        StMatrix,
        SetMaxNReg,
        LdMatrixTransB8,
        ReduxF32,
        MinMax3,
        PackedF32,
        AtomicAddBf16,
        ConvertFp8,
        ConvertFp4,
        ConvertTf32,
        MultimemPointers,
        TmaMulticast,
        TensorMemory,
        Tcgen05Int8,
    ],
    shared_memory: 227 * KIB,
    tmem_columns: 512,
    parameter_offset: 0x380,
    ..AMPERE
};

/// What those of that generation have that multiply no integers in tensor memory.
const BLACKWELL_NO_INT8: &[Feature] = &[
    Clusters,
    ClusterLaunchControl,
    Tma,
    StMatrix,
    SetMaxNReg,
    LdMatrixTransB8,
    ReduxF32,
    MinMax3,
    PackedF32,
    AtomicAddBf16,
    ConvertFp8,
    ConvertFp4,
    ConvertTf32,
    MultimemPointers,
    TmaMulticast,
    TensorMemory,
];

const BLACKWELL_SM120: Capabilities = Capabilities {
    generation: Generation::BlackwellSm120,
    suffixes: &["a", "f"],
    features: &[
        Clusters,
        ClusterLaunchControl,
        Tma,
        StMatrix,
        SetMaxNReg,
        LdMatrixTransB8,
        MmaFp8,
        MmaBlockScaled,
        MinMax3,
        PackedF32,
        AtomicAddBf16,
        ConvertFp8,
        ConvertFp4,
        ConvertTf32,
    ],
    shared_memory: 99 * KIB,
    parameter_offset: 0x380,
    ..AMPERE
};

pub(crate) const TARGETS: &[Capabilities] = &[
    AMPERE,
    Capabilities { name: "sm_86", title: "SM 86", ptx_target: "sm_86", llvm_processor: "sm_86", ..AMPERE_SM86 },
    Capabilities { name: "sm_87", title: "SM 87", ptx_target: "sm_87", llvm_processor: "sm_87", ..AMPERE },
    Capabilities { name: "sm_88", title: "SM 88", ptx_target: "sm_88", llvm_processor: "sm_88", ..AMPERE_SM86 },
    Capabilities {
        name: "sm_89",
        title: "SM 89",
        ptx_target: "sm_89",
        llvm_processor: "sm_89",
        features: &[MmaFp8, ConvertFp8],
        ..AMPERE_SM86
    },
    Capabilities { name: "sm_90", title: "SM 90", ptx_target: "sm_90a", llvm_processor: "sm_90a", ..HOPPER },
    Capabilities { name: "sm_100", title: "SM 100", ptx_target: "sm_100a", llvm_processor: "sm_100a", ..BLACKWELL },
    Capabilities {
        name: "sm_103",
        title: "SM 103",
        ptx_target: "sm_103a",
        llvm_processor: "sm_103a",
        features: BLACKWELL_NO_INT8,
        ..BLACKWELL
    },
    Capabilities {
        name: "sm_107",
        title: "SM 107",
        ptx_target: "sm_107a",
        ptx_version: "9.4",
        llvm_processor: "sm_100a",
        features: BLACKWELL_NO_INT8,
        ..BLACKWELL
    },
    Capabilities {
        name: "sm_110",
        title: "SM 110",
        ptx_target: "sm_110a",
        llvm_processor: "sm_110a",
        features: &[
            Clusters,
            ClusterLaunchControl,
            Tma,
            SetMaxNReg,
            LdMatrixTransB8,
            PackedF32,
            AtomicAddBf16,
            ConvertFp8,
            ConvertFp4,
            ConvertTf32,
            TmaMulticast,
            TensorMemory,
            Tcgen05Int8,
        ],
        ..BLACKWELL
    },
    Capabilities { name: "sm_120", title: "SM 120", ptx_target: "sm_120a", llvm_processor: "sm_120a", ..BLACKWELL_SM120 },
    Capabilities { name: "sm_121", title: "SM 121", ptx_target: "sm_121a", llvm_processor: "sm_121a", ..BLACKWELL_SM120 },
];
