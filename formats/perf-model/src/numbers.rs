//! The numbers of a machine and their units. A machine file has exactly these numbers.

use crate::{Number, Numbers};
use base::diag::{Diagnostic, Result};

macro_rules! sections {
    ($( $(#[$about:meta])* $section:ident: $kind:ident { $( $(#[$unit:meta])* $field:ident, )* } )*) => {
        $( $(#[$about])* #[derive(Clone, Debug, PartialEq)] pub struct $kind { $( $(#[$unit])* pub $field: f64, )* } )*

        /// One chip.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Machine {
            pub name: String,
            /// All numbers with trust and source, by `section.name`.
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
        /// 80 for sm_80.
        compute_capability,
        sms,
        /// Clock in MHz that the chip sustains under heavy load.
        clock,
        /// Maximum resident warps and CTAs of an SM, and its registers.
        warps,
        ctas,
        registers,
        /// Shared memory of an SM in KiB, and the part that one CTA can have.
        shared,
        shared_cta,
        /// Shared memory and L1 cache together, in KiB.
        l1,
        /// L2 cache in MB that every SM can use.
        l2,
        /// Peak memory bandwidth in GB/s.
        memory,
    }
    /// Results per cycle of an SM, by instruction class.
    rate: Rate {
        f32,
        /// Packed `f32x2` instructions, counted as one result per lane.
        f32x2,
        half2,
        f64,
        add,
        logic,
        compare,
        f32_compare,
        multiply,
        select,
        special,
        ex2,
        convert,
        convert_half,
        convert_integer,
        popc,
        shuffle,
        vote,
        redux,
    }
    /// Cycles from the issue of an instruction to that of an instruction that needs its result.
    latency: Latency {
        f32,
        integer,
        multiply,
        half2,
        f64,
        predicate,
        special,
        shuffle,
        vote,
        redux,
        convert,
        special_register,
        /// Cycles in which a warp issues nothing after a taken branch.
        branch,
    }
    /// `mma.sync`: cycles between two instructions on one of the four SM sub-partitions for 32 bytes of K, and cycles to the
    /// result.
    mma: Mma {
        f16,
        /// With a 16-bit accumulator.
        f16_accumulator,
        tf32,
        i8,
        f8,
        /// With block scales.
        scaled,
        f64,
        latency,
    }
    /// `wgmma` m64nNk(32 bytes): cycles per column of N, and cycles of the shared-memory port.
    wgmma: Wgmma {
        column,
        a_shared,
        b_column,
        /// Minimum with A in registers.
        registers_min,
        /// From the end of the last MMA to the return of `wgmma.wait_group`.
        drain,
    }
    /// `tcgen05.mma`, for 32 bytes of K.
    tcgen05: Tcgen05 {
        column,
        /// A in shared memory, 128 rows: at least `shared_base + shared_column * N`.
        shared_base,
        shared_column,
        /// The same for a CTA pair with 256 rows, and with 128 rows.
        pair_base,
        pair_small_base,
        pair_small_column,
        /// Cycles from the end of the last MMA until threads waiting on the mbarrier run: A in shared memory, A in tensor
        /// memory, a CTA pair, a CTA pair with A in tensor memory, 64 rows.
        commit,
        commit_tensor,
        commit_pair,
        commit_pair_tensor,
        commit_half,
        allocate,
        /// `tcgen05.ld`: cycles of an SM sub-partition's port per column of 32 lanes, and the latency before the first.
        load_column,
        load_latency,
        wait,
        /// `tcgen05.cp` of 32 bytes in 128 rows.
        copy,
    }
    /// Shared memory.
    shared: SharedMemory {
        /// Bytes per cycle.
        bytes,
        latency,
        /// Additional latency of 64-bit and 128-bit accesses per lane.
        wide64,
        wide128,
        matrix,
        atomic,
        /// Distributed shared memory of another CTA in the cluster: latency, and bytes per cycle.
        remote_latency,
        remote_bytes,
    }
    /// Global memory and its caches.
    global: GlobalMemory {
        l1_latency,
        l2_latency,
        memory_latency,
        /// Cycles by which a line in the far L2 partition takes longer than the mean, and a line in the near partition shorter; and
        /// the bytes of consecutive addresses in one partition.
        far,
        slice_interleave,
        /// Bytes per cycle from L2 to one SM, and to all SMs.
        l2_bytes,
        l2_chip_bytes,
        /// Fractions of the peak bandwidth that reads reach, and reads mixed with writes.
        read,
        mixed,
        /// Additional latency of loads and stores by threads when memory bandwidth is saturated, as a fraction of the latency.
        queue,
    }
    /// Instruction fetch.
    code: CodeCache {
        /// Instruction cache of an SM in KiB, bytes per line, and prefetched lines.
        cache,
        line,
        prefetch_lines,
    }
    /// Copies to and from shared memory.
    copy: Copy {
        /// Additional latency of a TMA copy over a load.
        tma_latency,
        /// TMA copies: cycles between two copies of one thread, cycles per row of up to 128 bytes of a TMA tile, and bytes per
        /// cycle.
        tma_issue,
        tma_row,
        tma_bytes,
        /// Additional latency of the first use of a tensor map.
        tensor_map,
        /// TMA stores: cycles until shared memory has been read, and until the store is complete.
        store_read,
        store_done,
        /// Additional latency of `cp.async` over a load.
        async_latency,
    }
    /// Barriers and fences.
    sync: Sync {
        barrier,
        barrier_warp,
        /// Cycles: from an arrival to the phase flip, from the flip to a blocked waiter's first instruction, and of a wait that
        /// does not block.
        arrive,
        wake,
        ready,
        fence_cta,
        fence_device,
        fence_proxy,
        cluster,
        cluster_ordered,
        elect,
        set_registers,
        warp,
    }
    /// The grid.
    launch: Launch {
        /// Microseconds of a kernel launch, without and with tensor maps.
        fixed,
        fixed_maps,
        /// Cycles until a CTA's first instruction, and from the end of a CTA to the start of its successor.
        start,
        next,
    }
    /// Planning constants of the compiler beyond single instructions: cycles of an op on a tile, and the latency of a tile copy
    /// while all SMs load, for the first byte and per KiB.
    plan: Plan {
        arithmetic,
        copy,
        copy_kib,
    }
}
