//! The numbers of a machine and their units. A machine file, with the file that it inherits from, has exactly these numbers.

use crate::{Number, Numbers};
use base::diag::{Diagnostic, Result};

macro_rules! sections {
    ($( $(#[$about:meta])* $section:ident: $kind:ident { $( $(#[$unit:meta])* $field:ident, )* } )*) => {
        $( $(#[$about])* #[derive(Clone, Debug, PartialEq)] pub struct $kind { $( $(#[$unit])* pub $field: f64, )* } )*

        /// The numbers of one chip, from a machine file.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Machine {
            /// The name of the chip.
            pub name: String,
            /// All numbers with their trust and source, by `section.name`.
            pub numbers: std::collections::BTreeMap<String, Number>,
            $( pub $section: $kind, )*
        }

        impl Machine {
            pub(crate) fn from_numbers(name: &str, numbers: Numbers) -> Result<Machine> {
                let known = [$( $( concat!(stringify!($section), ".", stringify!($field)), )* )*];
                if let Some(key) = numbers.keys().find(|key| !known.contains(&key.as_str())) {
                    return Err(Diagnostic::invalid("MCH004", format!("machine '{name}': there is no number '{key}'")));
                }
                let get = |key: &str| match numbers.get(key) {
                    Some(number) => Ok(number.value),
                    None => Err(Diagnostic::invalid("MCH004", format!("machine '{name}' lacks '{key}'"))),
                };
                Ok(Machine {
                    name: name.into(),
                    $( $section: $kind { $( $field: get(concat!(stringify!($section), ".", stringify!($field)))?, )* }, )*
                    numbers,
                })
            }
        }
    };
}

sections! {
    /// The chip's resources.
    chip: Chip {
        /// The compute capability times 10, such as 80 for sm_80.
        compute_capability,
        /// The number of SMs.
        sms,
        /// Clock in MHz that the chip sustains under heavy load.
        clock,
        /// Maximum resident warps of an SM.
        warps,
        /// Maximum resident CTAs of an SM.
        ctas,
        /// 32-bit registers of an SM.
        registers,
        /// Shared memory of an SM in KiB.
        shared,
        /// Maximum shared memory of one CTA in KiB.
        shared_cta,
        /// Shared memory and L1 cache of an SM together, in KiB.
        l1,
        /// The L2 capacity in MB that the accesses of one SM can use. This capacity is less than the total size if each L2
        /// partition has a copy of the data of its own, as on the A100.
        l2,
        /// The total L2 capacity in MiB, as the CUDA driver reports it.
        l2_total,
        /// Peak memory bandwidth in GB/s.
        memory,
    }
    /// Results per cycle of an SM, by instruction class.
    rate: Rate {
        /// Additions, multiplications and multiply-adds of f32.
        f32,
        /// Packed `f32x2` instructions, counted as one result per lane.
        f32x2,
        /// Packed instructions on pairs of f16 or bf16, counted as one result per lane.
        half2,
        /// Additions, multiplications and multiply-adds of f64.
        f64,
        /// Integer additions.
        add,
        /// Logic operations and shifts.
        logic,
        /// Integer comparisons, minima and maxima.
        compare,
        /// Comparisons, minima and maxima of f32.
        f32_compare,
        /// Integer multiplications and multiply-adds.
        multiply,
        /// Selects by a predicate (`selp`).
        select,
        /// Special functions except `ex2`: reciprocals, square roots, logarithms, sines.
        special,
        /// Exponentials (`ex2`).
        ex2,
        /// Conversions of any types. The estimates of the compiler do not distinguish the types.
        convert,
        /// Conversions between floats that need no special-function unit, such as f32 to f16.
        convert_half,
        /// Conversions between integers and floats.
        convert_integer,
        /// Bit counts and bit reversals (`popc`, `clz`, `brev`, `bfind`).
        popc,
        /// Exchanges between lanes (`shfl`).
        shuffle,
        /// Votes of a warp (`vote`).
        vote,
        /// Reductions over a warp (`redux`).
        redux,
    }
    /// Cycles from the issue of an instruction to the issue of an instruction that needs its result.
    latency: Latency {
        /// Arithmetic of f32.
        f32,
        /// Integer additions, logic operations and shifts.
        integer,
        /// Integer multiplications.
        multiply,
        /// Packed arithmetic of f16 and bf16.
        half2,
        /// Arithmetic of f64.
        f64,
        /// Comparisons that write a predicate (`setp`).
        predicate,
        /// Special functions, such as `ex2` and `rcp`.
        special,
        /// Exchanges between lanes (`shfl`).
        shuffle,
        /// Votes of a warp (`vote`).
        vote,
        /// Reductions over a warp (`redux`).
        redux,
        /// Conversions (`cvt`), and bit counts and bit reversals (`popc`, `clz`, `brev`, `bfind`).
        convert,
        /// Reads of special registers, such as `%clock`.
        special_register,
        /// Cycles in which a warp issues nothing after a taken branch.
        branch,
    }
    /// `mma.sync`. By class, the cycles between two instructions for 32 bytes of K on one of the four SM sub-partitions.
    mma: Mma {
        /// f16 and bf16 operands with an f32 accumulator.
        f16,
        /// f16 operands with an f16 accumulator.
        f16_accumulator,
        /// tf32 operands.
        tf32,
        /// 8-bit integer operands.
        i8,
        /// 8-bit float operands without block scales.
        f8,
        /// 8-bit or 4-bit float operands with block scales.
        scaled,
        /// f64 operands. An f64 instruction covers 4 elements of K.
        f64,
        /// Cycles from the issue of an instruction to its result.
        latency,
    }
    /// `wgmma` with 64 rows, N columns, and 32 bytes of K, in cycles.
    wgmma: Wgmma {
        /// Cycles per column of N.
        column,
        /// Cycles of the shared-memory port for A in shared memory.
        a_shared,
        /// Cycles of the shared-memory port per column of B.
        b_column,
        /// Minimum cycles with A in registers.
        registers_min,
        /// Cycles from the end of the last MMA to the return of `wgmma.wait_group`.
        drain,
    }
    /// `tcgen05.mma` for 32 bytes of K, and the other `tcgen05` instructions, in cycles.
    tcgen05: Tcgen05 {
        /// Cycles per column of N.
        column,
        /// With A in shared memory and 128 rows, an MMA takes at least `shared_base + shared_column * N` cycles.
        shared_base,
        /// Cycles per column of N in the minimum `shared_base + shared_column * N`.
        shared_column,
        /// The same number as `shared_base`, for a CTA pair with 256 rows.
        pair_base,
        /// The same number as `shared_base`, for a CTA pair with 128 rows.
        pair_small_base,
        /// The same number as `shared_column`, for a CTA pair with 128 rows.
        pair_small_column,
        /// Cycles from the end of the last MMA until the threads that wait for the mbarrier run, with A in shared memory.
        commit,
        /// The same number as `commit`, with A in tensor memory.
        commit_tensor,
        /// The same number as `commit`, for a CTA pair.
        commit_pair,
        /// The same number as `commit`, for a CTA pair with A in tensor memory.
        commit_pair_tensor,
        /// The same number as `commit`, for an MMA of 64 rows.
        commit_half,
        /// Cycles of `tcgen05.alloc`.
        allocate,
        /// `tcgen05.ld`: cycles of an SM sub-partition's port per column of 32 lanes.
        load_column,
        /// `tcgen05.ld`: latency before the first column.
        load_latency,
        /// Cycles of `tcgen05.wait`.
        wait,
        /// Cycles of `tcgen05.cp` of 32 bytes in 128 rows.
        copy,
    }
    /// Shared memory of an SM.
    shared: SharedMemory {
        /// Bytes per cycle.
        bytes,
        /// Latency of a 32-bit load in cycles.
        latency,
        /// Additional latency in cycles if each lane loads 64 bits instead of 32.
        wide64,
        /// Additional latency in cycles if each lane loads 128 bits instead of 32.
        wide128,
        /// Latency of `ldmatrix` in cycles.
        matrix,
        /// Additional latency of an atomic over a load, in cycles.
        atomic,
        /// Latency of the shared memory of another CTA in the cluster (distributed shared memory), in cycles.
        remote_latency,
        /// Bytes per cycle from the shared memory of another CTA in the cluster.
        remote_bytes,
    }
    /// Global memory and its caches.
    global: GlobalMemory {
        /// Latency in cycles of a load that hits the L1 cache.
        l1_latency,
        /// Mean latency in cycles of a load that hits the L2 cache.
        l2_latency,
        /// Latency in cycles of a load from device memory.
        memory_latency,
        /// Cycles by which the latency of a line in the far L2 partition exceeds the mean. In the near partition, the latency is
        /// lower than the mean by the same number of cycles.
        far,
        /// Bytes of consecutive addresses that are in one L2 partition.
        slice_interleave,
        /// Bytes per cycle from L2 to one SM.
        l2_bytes,
        /// Bytes per cycle from L2 to all SMs together.
        l2_chip_bytes,
        /// Fraction of the peak memory bandwidth that reads reach.
        read,
        /// Fraction of the peak memory bandwidth that reads mixed with writes reach.
        mixed,
        /// Additional latency of loads and stores by threads when memory bandwidth is saturated, as a fraction of the latency.
        queue,
    }
    /// Instruction fetch.
    code: CodeCache {
        /// Instruction cache of an SM in KiB.
        cache,
        /// Bytes of a line of the instruction cache.
        line,
        /// Lines that the instruction cache prefetches.
        prefetch_lines,
    }
    /// Copies to and from shared memory.
    copy: Copy {
        /// Additional latency of a TMA copy over a load, in cycles.
        tma_latency,
        /// Cycles between two TMA copies that one thread issues.
        tma_issue,
        /// Cycles of a TMA copy per row of a TMA tile; a row has up to 128 bytes.
        tma_row,
        /// Bytes per cycle of TMA copies.
        tma_bytes,
        /// Additional latency of the first use of a tensor map, in cycles.
        tensor_map,
        /// Cycles until a TMA store has read shared memory.
        store_read,
        /// Cycles until a TMA store is complete.
        store_done,
        /// Additional latency of `cp.async` over a load, in cycles.
        async_latency,
    }
    /// Barriers and fences, in cycles.
    sync: Sync {
        /// A CTA barrier (`bar.sync`), without the part that grows with the number of warps.
        barrier,
        /// The additional cycles of a CTA barrier for each warp.
        barrier_warp,
        /// Cycles from an arrival at an mbarrier to the end of its phase.
        arrive,
        /// Cycles from the end of a phase to the first instruction of a thread that waited for the phase.
        wake,
        /// Cycles of a wait for a phase that has already ended.
        ready,
        /// A memory fence of CTA or cluster scope.
        fence_cta,
        /// A memory fence of device or system scope.
        fence_device,
        /// A proxy fence (`fence.proxy`).
        fence_proxy,
        /// A cluster barrier that orders no memory accesses.
        cluster,
        /// A cluster barrier that orders the memory accesses of the CTAs.
        cluster_ordered,
        /// The election of a lane (`elect.sync`).
        elect,
        /// A change of a warpgroup's register count (`setmaxnreg`).
        set_registers,
        /// A warp barrier (`bar.warp.sync`).
        warp,
    }
    /// The launch of grids and CTAs.
    launch: Launch {
        /// Microseconds of a kernel launch without tensor maps.
        fixed,
        /// Microseconds of a kernel launch with tensor maps.
        fixed_maps,
        /// Cycles until a CTA's first instruction.
        start,
        /// Cycles from the end of a CTA to the start of the next CTA in its place.
        next,
    }
    /// Estimates of the compiler for ops on tiles, in cycles.
    plan: Plan {
        /// Cycles of an arithmetic op on a tile.
        arithmetic,
        /// Latency of the first byte of a tile copy while all SMs load.
        copy,
        /// Additional latency of a tile copy per KiB while all SMs load.
        copy_kib,
    }
}
