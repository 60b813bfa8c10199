//! Resource limits of an SM for the CTAs of a function. Every stage that decides about memory or registers uses these functions, so
//! each stage accepts the decisions of the previous stage.

use base::Target;
use target_info::Feature;

/// Bytes of shared memory that the buffers of a CTA may use together.
pub fn shared_memory(target: Target) -> u32 {
    target.shared_memory
}

/// Returns how many CTAs with `bytes` of shared memory each fit on an SM. The CUDA driver reserves
/// [`Target::RESERVED_SHARED_MEMORY`] for each of them.
pub fn ctas_by_shared_memory(target: Target, bytes: u32) -> u32 {
    (shared_memory(target) + Target::RESERVED_SHARED_MEMORY) / bytes.saturating_add(Target::RESERVED_SHARED_MEMORY)
}

/// Returns the bytes of shared memory that each CTA may use if `ctas` CTAs share an SM.
pub fn shared_memory_of_each(target: Target, ctas: u32) -> u32 {
    let reserved = Target::RESERVED_SHARED_MEMORY;
    ((shared_memory(target) + reserved) / ctas.max(1)).saturating_sub(reserved)
}

/// Maximum TMEM columns of a CTA if `occupancy` CTAs are resident on an SM, rounded down to a power of two. `tcgen05.alloc`
/// allocates only powers of two.
pub fn tmem_columns(target: Target, occupancy: u32) -> u32 {
    (target.tmem_columns / occupancy.max(1)).checked_ilog2().map_or(0, |bits| 1 << bits)
}

/// Sub-partitions of an SM. Each has a quarter of the registers and executes every fourth warp, so register limits count warps in
/// multiples of four. NVIDIA's occupancy calculator calls this multiple the "warp allocation granularity".
const SUB_PARTITIONS: u32 = 4;

/// Maximum registers of a thread that let `occupancy` CTAs of `warps` warps be resident on an SM.
pub fn registers(target: Target, warps: u32, occupancy: u32) -> u32 {
    let warps = warps.saturating_mul(occupancy).checked_next_multiple_of(SUB_PARTITIONS).unwrap_or(u32::MAX);
    let threads = warps.saturating_mul(32).max(1);
    (target.registers / threads).min(target.thread_registers)
}

/// Maximum registers of a thread for accumulators that are live together: half of its registers. With more, the other values of a
/// kernel spill.
pub fn accumulator_registers(target: Target, warps: u32) -> u32 {
    registers(target, warps, 1).div_ceil(4) * 2
}

/// Maximum registers of a thread for accumulators that are live together and MMA operands in registers: three quarters of its
/// registers. The last quarter is for the other values.
pub fn mma_registers(target: Target, warps: u32) -> u32 {
    registers(target, warps, 1).div_ceil(4) * 3
}

/// [`mma_registers`] for chained MMAs whose right operands are in shared memory: seven eighths of the registers. Right operands in
/// shared memory need no registers.
pub fn async_mma_registers(target: Target, warps: u32) -> u32 {
    registers(target, warps, 1).div_ceil(8) * 7
}

/// Returns whether warps can transfer registers to other warps while a CTA runs (`setmaxnreg`).
pub fn has_setmaxnreg(target: Target) -> bool {
    target.has(Feature::SetMaxNReg)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An SM of an H100 has 228 KiB of shared memory, of which each CTA takes one KiB more than its buffers (CUDA programming guide).
    #[test]
    fn each_cta_takes_reserved_shared_memory() {
        let target = Target::parse("sm_90").unwrap();
        assert_eq!(
            [0, 1024, 113 * 1024, 113 * 1024 + 1, 227 * 1024].map(|bytes| ctas_by_shared_memory(target, bytes)),
            [228, 114, 2, 1, 1]
        );
        assert_eq!(
            [0, 1, 2, 3, 1000].map(|ctas| shared_memory_of_each(target, ctas)),
            [227 * 1024, 227 * 1024, 113 * 1024, 75 * 1024, 0]
        );
        assert_eq!(ctas_by_shared_memory(target, u32::MAX), 0);
    }

    #[test]
    fn more_ctas_leave_each_thread_fewer_registers() {
        let target = Target::parse("sm_90").unwrap();
        assert_eq!([1, 2, 4, 8].map(|ctas| registers(target, 4, ctas)), [255, 255, 128, 64]);
        // Ten warps put three on two of the four sub-partitions: 16384 / 3 / 32 registers.
        assert_eq!([registers(target, 5, 1), registers(target, 5, 2)], [255, 170]);
        assert_eq!(registers(target, u32::MAX, 2), 0);
        assert_eq!([accumulator_registers(target, 4), mma_registers(target, 4)], [128, 192]);
    }
}
