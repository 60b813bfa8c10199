//! One row a target: what it has, its limits, and what its multiprocessors do per cycle.
//!
//! Rows that are alike share a generation, and name what differs. The rates are from published measurements; where several
//! devices of a target differ, they are those of the data-centre or workstation one.

/// What only some targets have. Each is asked for where a stage chooses between ways to do the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Clusters of blocks, a grid that starts before the one before it has ended.
    Clusters,
    /// Copies of boxes by tensor maps (TMA), and waits for `mbarrier` that sleep (`try_wait`).
    BoxCopies,
    /// Warps store matrices of 16-bit elements to shared memory (`stmatrix`).
    MatrixStores,
    /// Warps give registers to others while a block runs (`setmaxnreg`).
    MovesRegisters,
    /// `mma.sync` of 8-bit floats. Targets between those that have it have such products in `wgmma` and `tcgen05` only: there
    /// ptxas makes each of conversions, two products and separate additions.
    MmaFp8,
    /// `mma.sync` whose operands have a scale for each block of elements.
    MmaBlockScaled,
    /// Products of warp groups, `wgmma`.
    WarpGroupProducts,
    /// Tensor memory, and products that have their sums there (`tcgen05`).
    TensorMemory,
    /// Those of 8-bit integers.
    TensorProductsInt8,
    /// `redux.sync` of f32.
    ReduxF32,
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
    SharedPointers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    Ampere,
    Hopper,
    Blackwell,
    SmallBlackwell,
}

/// A row.
pub struct Capabilities {
    /// As `--gpu-name` spells it, and as people write it.
    pub name: &'static str,
    pub title: &'static str,
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
    pub tensor_columns: u32,
    /// 32-bit registers of a multiprocessor, and those that one thread can have.
    pub registers: u32,
    pub thread_registers: u32,
    /// Where a kernel's parameters start in the constant bank.
    pub parameters_at: u32,
    pub rates: Rates,
}

/// What a multiprocessor does per cycle, and after how many cycles results are there.
pub struct Rates {
    /// Multiply-adds of `mma.sync`, by the bits of an operand's element.
    pub products: &'static [(u32, u32)],
    /// Those of warp groups, and those of `tcgen05` for tiles of 128 rows.
    pub group_products: &'static [(u32, u32)],
    pub tensor_products: &'static [(u32, u32)],
    /// Additions, products and multiply-adds of floats.
    pub multiply_add: u32,
    /// Everything else that is plain: integers, logic, comparisons, minima, conversions.
    pub integer: u32,
    /// Transcendental operations, and among them exponentials.
    pub special: u32,
    pub exponential: u32,
    /// Bytes to and from shared memory, and from global memory as one of all multiprocessors gets it from L2.
    pub shared: u32,
    pub copy: u32,
    pub product_latency: u32,
    pub arithmetic_latency: u32,
    pub shared_latency: u32,
    /// Of global memory: for the first byte, and per KiB that is on its way.
    pub copy_latency: u32,
    pub copy_latency_per_kib: u32,
}

impl Rates {
    /// One of the rates of products, if the unit has elements of so many bits.
    pub fn of(products: &[(u32, u32)], bits: u32) -> Option<u32> {
        products.iter().find(|(width, _)| *width == bits).map(|(_, rate)| *rate)
    }
    /// Cycles until a tile of so many bytes is there from global memory, while all multiprocessors read.
    pub fn copy_latency(&self, bytes: u32) -> u32 {
        self.copy_latency + u32::try_from(u64::from(bytes) * u64::from(self.copy_latency_per_kib) / 1024).unwrap_or(u32::MAX / 2)
    }
}

use Feature::*;

const KIB: u32 = 1024;

const AMPERE: Capabilities = Capabilities {
    name: "sm_80",
    title: "SM 80",
    generation: Generation::Ampere,
    ptx_target: "sm_80",
    ptx_version: "9.2",
    llvm_processor: "sm_80",
    features: &[],
    shared_memory: 163 * KIB,
    tensor_columns: 0,
    registers: 64 * KIB,
    thread_registers: 255,
    parameters_at: 0x160,
    rates: Rates {
        products: &[(8, 2048), (16, 1024), (32, 512), (64, 64)],
        group_products: &[],
        tensor_products: &[],
        multiply_add: 64,
        integer: 64,
        special: 16,
        exponential: 16,
        shared: 128,
        copy: 64,
        product_latency: 33,
        arithmetic_latency: 6,
        shared_latency: 30,
        copy_latency: 900,
        copy_latency_per_kib: 36,
    },
};

/// Small multiprocessors of the same generation, with less memory and twice the float arithmetic.
const SMALL_AMPERE: Capabilities = Capabilities {
    shared_memory: 99 * KIB,
    rates: Rates { products: &[(8, 1024), (16, 512), (32, 256), (64, 2)], multiply_add: 128, ..AMPERE.rates },
    ..AMPERE
};

const HOPPER: Capabilities = Capabilities {
    generation: Generation::Hopper,
    features: &[Clusters, BoxCopies, MatrixStores, MovesRegisters, WarpGroupProducts, AtomicAddBf16, ConvertFp8, ConvertTf32],
    shared_memory: 227 * KIB,
    parameters_at: 0x210,
    rates: Rates {
        // Of `mma.sync` 0.63 to 0.65 of what warp groups reach.
        products: &[(8, 2560), (16, 1280), (32, 640), (64, 64)],
        group_products: &[(8, 4096), (16, 2048), (32, 1024)],
        multiply_add: 128,
        ..AMPERE.rates
    },
    ..AMPERE
};

const BLACKWELL: Capabilities = Capabilities {
    generation: Generation::Blackwell,
    features: &[
        Clusters,
        BoxCopies,
        MatrixStores,
        MovesRegisters,
        ReduxF32,
        PackedF32,
        AtomicAddBf16,
        ConvertFp8,
        ConvertFp4,
        ConvertTf32,
        SharedPointers,
        TensorMemory,
        TensorProductsInt8,
    ],
    shared_memory: 227 * KIB,
    tensor_columns: 512,
    parameters_at: 0x380,
    rates: Rates { tensor_products: &[(4, 16384), (8, 8192), (16, 4096)], multiply_add: 128, ..AMPERE.rates },
    ..AMPERE
};

/// What those of that generation have that multiply no integers in tensor memory.
const BLACKWELL_FLOATS: &[Feature] = &[
    Clusters,
    BoxCopies,
    MatrixStores,
    MovesRegisters,
    ReduxF32,
    PackedF32,
    AtomicAddBf16,
    ConvertFp8,
    ConvertFp4,
    ConvertTf32,
    SharedPointers,
    TensorMemory,
];

/// 16-bit products are those of workstations; consumer devices sum them in f32 at half the rate.
const SMALL_BLACKWELL: Capabilities = Capabilities {
    generation: Generation::SmallBlackwell,
    features: &[
        Clusters,
        BoxCopies,
        MatrixStores,
        MovesRegisters,
        MmaFp8,
        MmaBlockScaled,
        PackedF32,
        AtomicAddBf16,
        ConvertFp8,
        ConvertFp4,
        ConvertTf32,
    ],
    shared_memory: 99 * KIB,
    parameters_at: 0x380,
    rates: SMALL_AMPERE.rates,
    ..AMPERE
};

pub(crate) const TARGETS: &[Capabilities] = &[
    AMPERE,
    Capabilities { name: "sm_86", title: "SM 86", ptx_target: "sm_86", llvm_processor: "sm_86", ..SMALL_AMPERE },
    Capabilities { name: "sm_87", title: "SM 87", ptx_target: "sm_87", llvm_processor: "sm_87", ..AMPERE },
    Capabilities { name: "sm_88", title: "SM 88", ptx_target: "sm_88", llvm_processor: "sm_88", ..SMALL_AMPERE },
    Capabilities {
        name: "sm_89",
        title: "SM 89",
        ptx_target: "sm_89",
        llvm_processor: "sm_89",
        features: &[MmaFp8, ConvertFp8],
        ..SMALL_AMPERE
    },
    Capabilities { name: "sm_90", title: "SM 90", ptx_target: "sm_90a", llvm_processor: "sm_90a", ..HOPPER },
    Capabilities { name: "sm_100", title: "SM 100", ptx_target: "sm_100a", llvm_processor: "sm_100a", ..BLACKWELL },
    Capabilities {
        name: "sm_103",
        title: "SM 103",
        ptx_target: "sm_103a",
        llvm_processor: "sm_103a",
        features: BLACKWELL_FLOATS,
        rates: Rates { products: &[(8, 2048), (16, 1024), (32, 512), (64, 2)], exponential: 32, ..BLACKWELL.rates },
        ..BLACKWELL
    },
    Capabilities {
        name: "sm_107",
        title: "SM 107",
        ptx_target: "sm_107a",
        ptx_version: "9.4",
        llvm_processor: "sm_100a",
        features: BLACKWELL_FLOATS,
        ..BLACKWELL
    },
    Capabilities {
        name: "sm_110",
        title: "SM 110",
        ptx_target: "sm_110a",
        llvm_processor: "sm_110a",
        features: &[
            Clusters,
            BoxCopies,
            MovesRegisters,
            PackedF32,
            AtomicAddBf16,
            ConvertFp8,
            ConvertFp4,
            ConvertTf32,
            TensorMemory,
            TensorProductsInt8,
        ],
        ..BLACKWELL
    },
    Capabilities { name: "sm_120", title: "SM 120", ptx_target: "sm_120a", llvm_processor: "sm_120a", ..SMALL_BLACKWELL },
    Capabilities { name: "sm_121", title: "SM 121", ptx_target: "sm_121a", llvm_processor: "sm_121a", ..SMALL_BLACKWELL },
];
