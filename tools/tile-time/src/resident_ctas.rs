//! Occupancy: the number of CTAs that an SM holds at the same time.

use base::Target;
use perf_model::Machine;

/// Sub-partitions of an SM. Each has a quarter of the registers and runs every fourth warp.
const SUB_PARTITIONS: f64 = 4.0;

/// Returns the number of CTAs that an SM holds at the same time (at least 1), and the resource that limits this number. `threads`
/// and `shared_bytes` are per CTA (without the bytes that the driver reserves), and `registers` per thread. `tmem_columns` is the TMEM allocation of a CTA, and
/// `sm_tmem_columns` the number of TMEM columns of an SM.
pub(crate) fn occupancy(
    threads: u32,
    shared_bytes: f64,
    registers: u32,
    tmem_columns: u32,
    sm_tmem_columns: u32,
    machine: &Machine,
) -> (usize, &'static str) {
    let chip = &machine.chip;
    let warps = f64::from(threads.div_ceil(32));
    let registers = (f64::from(registers.max(1)) / 8.0).ceil() * 8.0;
    let limits = [
        (chip.ctas, "the number of CTAs"),
        ((chip.warps / warps).floor(), "the number of warps"),
        ((chip.shared * 1024.0 / (shared_bytes + f64::from(Target::RESERVED_SHARED_MEMORY))).floor(), "shared memory"),
        (((chip.registers / SUB_PARTITIONS / 32.0 / registers).floor() * SUB_PARTITIONS / warps).floor(), "registers"),
        // A CTA that finds no free TMEM columns waits until another CTA frees them.
        (f64::from(sm_tmem_columns.checked_div(tmem_columns).unwrap_or(u32::MAX)), "tensor memory"),
    ];
    let (count, limit) = limits.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((1.0, "registers"));
    ((count as usize).max(1), limit)
}
