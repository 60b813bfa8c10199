//! The target table: one row per target with its features and limits. The throughput of SMs is in `machines/`.
//!
//! Similar rows are copies of a common constant with some fields overridden.

/// A capability that only some targets have. A pass queries a feature to choose between instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Thread block clusters, and programmatic dependent launch.
    Clusters,
    /// Tensor Memory Accelerator copies (TMA), and `mbarrier` waits that suspend the thread (`try_wait`).
    Tma,
    /// TMA multicast to several CTAs of a cluster.
    TmaMulticast,
    /// Cluster launch control (`clusterlaunchcontrol`): a CTA cancels a CTA that has not started, and processes the tile block of
    /// the cancelled CTA.
    ClusterLaunchControl,
    /// Warp-wide stores of matrices of 16-bit elements to shared memory (`stmatrix`).
    StMatrix,
    /// Transposed warp-wide loads of byte matrices from shared memory (`ldmatrix` of `m16n16`).
    LdMatrixTransB8,
    /// Moving registers between the warpgroups of a running CTA (`setmaxnreg`).
    SetMaxNReg,
    /// `mma.sync` of 8-bit floats as one instruction. Some later targets have MMAs of 8-bit floats only in `wgmma` and `tcgen05`.
    /// On these targets, ptxas translates `mma.sync` of 8-bit floats to conversions, two MMAs and separate additions.
    MmaFp8,
    /// `mma.sync` with block scales.
    MmaBlockScaled,
    /// Warpgroup MMAs (`wgmma`).
    Wgmma,
    /// Tensor memory, and MMAs with accumulators in tensor memory (`tcgen05`).
    TensorMemory,
    /// `tcgen05` MMAs of 8-bit integers.
    Tcgen05Int8,
    /// `redux.sync` of f32.
    ReduxF32,
    /// Three-input minimum and maximum of f32.
    MinMax3,
    /// Packed f32 arithmetic (`f32x2`).
    PackedF32,
    /// Addition of bf16 by `red` and `atom`.
    AtomicAddBf16,
    /// Conversions of pairs of 8-bit floats.
    ConvertFp8,
    /// Conversions of pairs of 4-bit floats.
    ConvertFp4,
    /// Conversion to tf32 with rounding to nearest even or to zero. All targets can convert with rounding to nearest, ties away
    /// from zero.
    ConvertTf32,
    /// Pointers that a program declares unicast or multicast, and `multimem` instructions on multicast pointers.
    MultimemPointers,
}

/// Targets with the same launch interface. If a launch description has no value for a target, the value for an earlier target of
/// the family applies. sm_89 (Ada) belongs to `Ampere`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchFamily {
    Ampere,
    Hopper,
    Blackwell,
    BlackwellSm120,
}

/// A row of the table.
pub struct Capabilities {
    /// The name as in `--gpu-name` and in documents, such as `sm_90`.
    pub name: &'static str,
    /// The title of the target in lists.
    pub title: &'static str,
    /// Valid suffixes of the name: `a` for architecture-specific features, `f` for family-specific features.
    pub suffixes: &'static [&'static str],
    /// The targets with the same launch interface. Their rows are adjacent.
    pub launch_family: LaunchFamily,
    /// PTX `.target`, with the suffix for architecture-specific features if the target has them.
    pub ptx_target: &'static str,
    /// PTX `.version`. The directive `.language`, which marks a tile kernel, needs PTX 9.2. `tile-link` lowers the version for an
    /// older ptxas.
    pub ptx_version: &'static str,
    /// The most similar processor (`-mcpu`) that LLVM supports.
    pub llvm_processor: &'static str,
    /// The optional instructions and units that the target has.
    pub features: &'static [Feature],
    /// Maximum shared memory of one CTA, in bytes.
    pub shared_memory: u32,
    /// TMEM columns of an SM; 0 without tensor memory. A column has a 32-bit word in each of 128 lanes.
    pub tmem_columns: u32,
    /// 32-bit registers of an SM.
    pub registers: u32,
    /// Maximum 32-bit registers of a thread.
    pub thread_registers: u32,
    /// Offset in bytes of a kernel's parameters in the constant bank.
    pub parameter_offset: u32,
}

use Feature::*;

/// Bytes of a KiB.
const KIB: u32 = 1024;

/// The row of sm_80, from which all other rows start.
const AMPERE: Capabilities = Capabilities {
    name: "sm_80",
    title: "SM 80",
    suffixes: &[],
    launch_family: LaunchFamily::Ampere,
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

/// Targets of the launch family `Ampere` with less shared memory.
const AMPERE_SM86: Capabilities = Capabilities { shared_memory: 99 * KIB, ..AMPERE };

/// The row of sm_90.
const HOPPER: Capabilities = Capabilities {
    launch_family: LaunchFamily::Hopper,
    suffixes: &["a"],
    features: &[Clusters, Tma, TmaMulticast, StMatrix, SetMaxNReg, Wgmma, AtomicAddBf16, ConvertFp8, ConvertTf32],
    shared_memory: 227 * KIB,
    parameter_offset: 0x210,
    ..AMPERE
};

/// The row of sm_100, from which other Blackwell rows with tensor memory start.
const BLACKWELL: Capabilities = Capabilities {
    launch_family: LaunchFamily::Blackwell,
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

/// The features of Blackwell targets without `tcgen05` MMAs of integers.
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

/// The row of sm_120, from which the row of sm_121 starts.
const BLACKWELL_SM120: Capabilities = Capabilities {
    launch_family: LaunchFamily::BlackwellSm120,
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

/// The rows of all targets, in ascending order of the number in the name.
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
