//! Rates that the compiler's cost models use. They are numbers of a target's chip, rounded to integers.
//!
//! A cost model compares alternatives by closed formulas. An MMA therefore has a rate, and a copy has a latency that grows with its
//! bytes. Every rate comes from a number in `machines/`; this file defines none.

use crate::{Machine, MmaRate, chips};
use base::Target;
use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

/// Throughput per cycle of an SM, and latencies in cycles.
#[derive(Clone, Debug)]
pub struct Rates {
    /// Cycles of `mma.sync` for 16 rows, 8 columns and 32 bytes of K; for f64, 8 rows, 8 columns and 4 elements of K.
    mma: [(MmaRate, f64); MmaRate::ALL.len()],
    /// The rate of `wgmma`; `None` on targets without `wgmma`.
    pub wgmma: Option<ColumnRate>,
    /// The rate of `tcgen05.mma` with 128 rows; `None` on targets without `tcgen05`.
    pub tcgen05: Option<ColumnRate>,
    /// Additions, multiplications and multiply-adds of floats per cycle.
    pub multiply_add: u32,
    /// Other simple operations per cycle: integer, logic, comparisons, minima, conversions.
    pub integer: u32,
    /// Transcendental operations except exponentials, per cycle.
    pub special: u32,
    /// Exponentials per cycle.
    pub exponential: u32,
    /// Bytes per cycle to and from shared memory.
    pub shared: u32,
    /// Bytes per cycle from L2 to one SM while all SMs read.
    pub copy: u32,
    /// Cycles from the issue of `mma.sync` to its result.
    pub mma_latency: u32,
    /// Cycles of an arithmetic op on a tile.
    pub arithmetic_latency: u32,
    /// Cycles from the issue of a load from shared memory to its result.
    pub shared_latency: u32,
    /// Cycles until the first byte of a copy from global memory has arrived.
    copy_latency: u32,
    /// Additional cycles for each KiB of a copy from global memory.
    copy_latency_per_kib: u32,
}

/// The rate of an MMA instruction. In `cycles` cycles, the instruction multiplies `rows` rows of A by one column of B, over 32
/// bytes of K.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnRate {
    /// The rows of A. For `mma.sync`, rows times columns of the instructions that the four sub-partitions execute at the same time.
    rows: f64,
    /// The cycles for this number of rows.
    cycles: f64,
}

impl ColumnRate {
    /// Returns the multiply-adds per cycle of an SM, for operands of `bits` bits.
    pub fn multiply_adds(self, bits: u32) -> u32 {
        to_u32(self.rows * 256.0 / f64::from(bits) / self.cycles)
    }
}

/// Rounds a number to the nearest integer.
fn to_u32(number: f64) -> u32 {
    number.round() as u32
}

impl Rates {
    /// Returns the multiply-adds of `mma.sync` per cycle of an SM, for operands of `bits` bits.
    pub fn mma(&self, class: MmaRate, bits: u32) -> u32 {
        let (_, cycles) = self.mma.iter().find(|(known, _)| *known == class).expect("`MmaRate::ALL` has all classes");
        // Each of the four SM sub-partitions issues one instruction in `cycles` cycles.
        match class {
            MmaRate::F64 => to_u32(4.0 * 8.0 * 8.0 * 4.0 / cycles),
            _ => ColumnRate { rows: 4.0 * 16.0 * 8.0, cycles: *cycles }.multiply_adds(bits),
        }
    }
    /// Returns the cycles until a tile of `bytes` bytes from global memory has arrived while all SMs read.
    pub fn copy_latency(&self, bytes: u32) -> u32 {
        self.copy_latency + u32::try_from(u64::from(bytes) * u64::from(self.copy_latency_per_kib) / 1024).unwrap_or(u32::MAX / 2)
    }

    /// Returns the rates of a machine.
    fn new(machine: &Machine) -> Rates {
        let mma = &machine.mma;
        let cycles = |class: MmaRate| match class {
            MmaRate::F16 => mma.f16,
            MmaRate::F16Accumulator => mma.f16_accumulator,
            MmaRate::Tf32 => mma.tf32,
            MmaRate::F64 => mma.f64,
            MmaRate::I8 => mma.i8,
            MmaRate::F8 => mma.f8,
            MmaRate::BlockScaled => mma.scaled,
        };
        let column = |rows: f64, cycles: f64| (cycles > 0.0).then_some(ColumnRate { rows, cycles });
        Rates {
            mma: MmaRate::ALL.map(|class| (class, cycles(class))),
            wgmma: column(64.0, machine.wgmma.column),
            tcgen05: column(128.0, machine.tcgen05.column),
            multiply_add: to_u32(machine.rate.f32),
            integer: to_u32(machine.rate.logic),
            special: to_u32(machine.rate.special),
            exponential: to_u32(machine.rate.ex2),
            shared: to_u32(machine.shared.bytes),
            copy: to_u32(machine.global.l2_bytes),
            mma_latency: to_u32(mma.latency),
            arithmetic_latency: to_u32(machine.plan.arithmetic),
            shared_latency: to_u32(machine.shared.latency),
            copy_latency: to_u32(machine.plan.copy),
            copy_latency_per_kib: to_u32(machine.plan.copy_kib),
        }
    }
}

/// The machine and the rates of each target, by the target's name. An entry is computed at its first use. Reason: parsing the files
/// of all machines takes longer than scheduling a small kernel.
static PLANNED: LazyLock<BTreeMap<&'static str, OnceLock<(Machine, Rates)>>> =
    LazyLock::new(|| Target::all().map(|target| (target.name, OnceLock::new())).collect());

/// Returns the name of the chip for which the compiler optimizes code of a target.
fn planned_chip(target: Target) -> &'static str {
    chips(target.name).expect("the test `every_target_has_rates` checks that each target has a chip").planned
}

/// Returns the machine for which the compiler optimizes code of a target, and the rates of the machine.
fn planned_machine_and_rates(target: Target) -> &'static (Machine, Rates) {
    PLANNED[target.name].get_or_init(|| {
        let machine = Machine::named(planned_chip(target)).expect("the built-in machine files are complete");
        let rates = Rates::new(&machine);
        (machine, rates)
    })
}

/// Returns the chip for which the compiler optimizes code of a target.
pub fn machine(target: Target) -> &'static Machine {
    &planned_machine_and_rates(target).0
}

/// Returns the rates of a target.
pub fn rates(target: Target) -> &'static Rates {
    &planned_machine_and_rates(target).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use target_info::Feature;

    fn rates_of(name: &str) -> &'static Rates {
        rates(Target::parse(name).unwrap())
    }

    #[test]
    fn every_target_has_rates() {
        for target in Target::all() {
            let rates = rates(target);
            for class in MmaRate::ALL {
                assert!(rates.mma(class, 8) > 0, "{target} {class:?}");
            }
            assert_eq!(target.has(Feature::Wgmma), rates.wgmma.is_some(), "{target}");
            assert_eq!(target.has(Feature::TensorMemory), rates.tcgen05.is_some(), "{target}");
        }
    }

    /// Multiply-adds per cycle, from data sheets.
    #[test]
    fn rates_are_those_of_data_sheets() {
        let mma_sync = |target, class, bits| rates_of(target).mma(class, bits);
        let column =
            |rate: Option<ColumnRate>, bits: &[u32]| bits.iter().map(|bits| rate.unwrap().multiply_adds(*bits)).collect::<Vec<_>>();
        let of_sm_80 = [(MmaRate::I8, 8), (MmaRate::F16, 16), (MmaRate::Tf32, 32), (MmaRate::F64, 64)];
        assert_eq!(of_sm_80.map(|(class, bits)| mma_sync("sm_80", class, bits)), [2048, 1024, 512, 64]);
        assert_eq!(column(rates_of("sm_90").wgmma, &[8, 16, 32]), [4096, 2048, 1024]);
        assert_eq!(column(rates_of("sm_100").tcgen05, &[4, 8, 16, 32]), [16384, 8192, 4096, 2048]);
        assert_eq!(mma_sync("sm_120", MmaRate::F16, 16), 512);
        // Dense FP8: L40S, 733 TFLOPS by 142 SMs at 2.52 GHz; RTX PRO 6000, 1000 TFLOPS by 188 SMs at 2.6 GHz.
        assert_eq!(["sm_89", "sm_120"].map(|target| mma_sync(target, MmaRate::F8, 8)), [1024, 1024]);
        // RTX PRO 6000: 2000 TFLOPS of dense FP4 by 188 SMs at 2.6 GHz.
        assert_eq!(mma_sync("sm_120", MmaRate::BlockScaled, 4), 2048);
        assert_eq!(mma_sync("sm_120", MmaRate::BlockScaled, 8), 1024);
        assert_eq!((rates_of("sm_80").multiply_add, rates_of("sm_89").multiply_add, rates_of("sm_103").exponential), (64, 128, 32));
        assert_eq!(rates_of("sm_90").copy_latency(16384), 900 + 16 * 36);
    }
}
