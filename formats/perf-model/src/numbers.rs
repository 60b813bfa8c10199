//! Which numbers a machine has, in which unit. A machine file has exactly these.

use crate::{Number, Numbers};
use base::diag::{Diagnostic, Result};

macro_rules! sections {
    ($( $(#[$about:meta])* $section:ident: $kind:ident { $( $(#[$unit:meta])* $field:ident, )* } )*) => {
        $( $(#[$about])* #[derive(Clone, Debug, PartialEq)] pub struct $kind { $( $(#[$unit])* pub $field: f64, )* } )*

        /// One chip.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Machine {
            pub name: String,
            /// All numbers by `section.name`, with trust and source.
            pub numbers: std::collections::BTreeMap<String, Number>,
            $( pub $section: $kind, )*
        }

        impl Machine {
            pub(crate) fn from_numbers(name: &str, numbers: Numbers) -> Result<Machine> {
                let known = [$( $( concat!(stringify!($section), ".", stringify!($field)), )* )*];
                if let Some(key) = numbers.keys().find(|key| !known.contains(&key.as_str())) {
                    return Err(Diagnostic::invalid("MCH004", format!("machine '{name}': no number is called '{key}'")));
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
    /// What a chip consists of.
    chip: Chip {
        /// 80 for sm_80.
        compute_capability,
        sms,
        /// MHz that it keeps under a heavy load.
        clock,
        /// Warps and blocks of a multiprocessor, and its registers.
        warps,
        ctas,
        registers,
        /// KiB of shared memory of a multiprocessor, and what a block may have of it.
        shared,
        shared_cta,
        /// KiB of shared memory and first-level cache together.
        l1,
        /// MB of the second-level cache that all sms can count on.
        l2,
        /// GB/s of memory at its peak.
        memory,
    }
    /// Results of a multiprocessor in a clock, by class of instruction.
    rate: Rate {
        f32,
        /// Instructions on pairs, counted as one result a lane.
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
    /// Clocks from the issue of an instruction to that of one that needs its result.
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
        /// Clocks that a warp issues nothing after a branch that is taken.
        branch,
    }
    /// `mma.sync`: cycles between two on one of the four parts of a multiprocessor, for 32 bytes of K; and to the result.
    mma: Mma {
        f16,
        /// With an accumulator of 16 bits.
        f16_accumulator,
        tf32,
        i8,
        f8,
        /// With scales for blocks.
        scaled,
        f64,
        latency,
    }
    /// `wgmma`, for m64nNk(32 bytes): cycles for each column of N, and for the port of shared memory.
    wgmma: Wgmma {
        column,
        a_shared,
        b_column,
        /// The least when A is in registers.
        registers_min,
        /// From the end of the last product to the return of the wait.
        drain,
    }
    /// `tcgen05`, for 32 bytes of K.
    tcgen05: Tcgen05 {
        column,
        /// A from shared memory with 128 rows: `shared_base + shared_column * N` at least.
        shared_base,
        shared_column,
        /// The same for a pair with 256 rows, and with 128.
        pair_base,
        pair_small_base,
        pair_small_column,
        /// From the end of the last product to the mbarrier, waiters awake: A in shared memory, in tensor memory, a pair, a pair
        /// with A in tensor memory, 64 rows.
        commit,
        commit_tensor,
        commit_pair,
        commit_pair_tensor,
        commit_half,
        allocate,
        /// Clocks of the port of a part for each column of 32 lanes, and the latency before.
        load_column,
        load_latency,
        wait,
        /// A copy of 32 bytes in 128 rows.
        copy,
    }
    /// Shared memory.
    shared: SharedMemory {
        /// Bytes in a clock.
        bytes,
        latency,
        /// What 64 and 128 bits a lane take longer.
        wide64,
        wide128,
        matrix,
        atomic,
        /// Another block's, in a cluster: latency, and bytes in a clock.
        remote_latency,
        remote_bytes,
    }
    /// Global memory and the caches before it.
    global: GlobalMemory {
        l1_latency,
        l2_latency,
        memory_latency,
        /// What far lines take longer than the mean and near ones shorter, and bytes of an address that lie on one side.
        far,
        slice_interleave,
        /// Bytes in a clock from the second-level cache to one multiprocessor, and to all.
        l2_bytes,
        l2_chip_bytes,
        /// Parts of the peak that reading, and reading with writing, reach.
        read,
        mixed,
        /// How much of its latency an access of threads waits longer when memory is fully used.
        queue,
    }
    /// Instructions on their way to a multiprocessor.
    code: CodeCache {
        /// KiB of code that a multiprocessor keeps, bytes of a line, and lines that are asked for ahead.
        cache,
        line,
        prefetch_lines,
    }
    /// Copies to and from shared memory.
    copy: Copy {
        /// What a copy by the copy engine takes longer than a load.
        tma_latency,
        /// Clocks between two copies of one thread, for each row of up to 128 bytes of a tensor map's box, and bytes in a clock.
        tma_issue,
        tma_row,
        tma_bytes,
        /// The first use of a tensor map.
        tensor_map,
        /// Until a store's shared memory is read, and until it is done.
        store_read,
        store_done,
        /// What `cp.async` takes longer than a load.
        async_latency,
    }
    /// Barriers and fences.
    sync: Sync {
        barrier,
        barrier_warp,
        /// From an arrival to the phase's end, from there to the first instruction of who waits, and when nobody has to wait.
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
        /// Microseconds that the launch of a kernel takes.
        fixed,
        fixed_maps,
        /// Clocks until the first instruction of a block, and from the end of one to the next in its place.
        start,
        next,
    }
    /// What the stages reckon with beyond single instructions: cycles of an op of a tile, and until a tile is there while all
    /// sms load, at first and for each KiB.
    plan: Plan {
        arithmetic,
        copy,
        copy_kib,
    }
}
