//! What the stages reckon with: the numbers of a target's chip, as whole results in a clock.
//!
//! A stage compares ways to do the same by a closed form, so a product is a rate and a copy a latency that grows with its bytes. What
//! is one number of `machines/` is that number; nothing is said twice.

use crate::{Machine, of_target};
use base::Target;
use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

/// What a multiprocessor does in a clock, and after how many clocks results are there.
#[derive(Clone, Debug)]
pub struct Rates {
    /// Multiply-adds of `mma.sync`, by the bits of an operand's element.
    pub products: Vec<(u32, u32)>,
    /// Those of warp groups, and those of `tcgen05` for tiles of 128 rows.
    pub group_products: Vec<(u32, u32)>,
    pub tensor_products: Vec<(u32, u32)>,
    /// Additions, products and multiply-adds of floats.
    pub multiply_add: u32,
    /// Everything else that is plain: integers, logic, comparisons, minima, conversions.
    pub integer: u32,
    /// Transcendental operations, and among them exponentials.
    pub special: u32,
    pub exponential: u32,
    /// Bytes to and from shared memory, and from global memory as one of all multiprocessors gets it from the second-level cache.
    pub shared: u32,
    pub copy: u32,
    pub product_latency: u32,
    pub arithmetic_latency: u32,
    pub shared_latency: u32,
    /// Of global memory: for the first byte, and for each KiB that is on its way.
    copy_latency: u32,
    copy_latency_per_kib: u32,
}

impl Rates {
    /// One of the rates of products, if the unit has elements of so many bits.
    pub fn of(products: &[(u32, u32)], bits: u32) -> Option<u32> {
        products.iter().find(|(width, _)| *width == bits).map(|(_, rate)| *rate)
    }
    /// Clocks until a tile of so many bytes is there from global memory, while all multiprocessors read.
    pub fn copy_latency(&self, bytes: u32) -> u32 {
        self.copy_latency + u32::try_from(u64::from(bytes) * u64::from(self.copy_latency_per_kib) / 1024).unwrap_or(u32::MAX / 2)
    }

    fn new(machine: &Machine) -> Rates {
        let whole = |number: f64| number.round() as u32;
        let mma = &machine.mma;
        // An instruction for each of four parts, or one for all: rows by 8 columns, or for a column, by 32 bytes of K.
        let rate = |rows: f64, bits: u32, clocks: f64| (bits, whole(rows * 256.0 / f64::from(bits) / clocks));
        let warps = |bits: u32, clocks: f64| rate(4.0 * 16.0 * 8.0, bits, clocks);
        let doubles = (64, whole(4.0 * 8.0 * 8.0 * 4.0 / mma.f64));
        let apart = |rows: f64, column: f64, widths: &[u32]| {
            widths.iter().filter(|_| column > 0.0).map(|&bits| rate(rows, bits, column)).collect::<Vec<_>>()
        };
        Rates {
            products: vec![warps(8, mma.i8), warps(16, mma.f16), warps(32, mma.tf32), doubles],
            group_products: apart(64.0, machine.wgmma.column, &[8, 16, 32]),
            tensor_products: apart(128.0, machine.tcgen05.column, &[4, 8, 16, 32]),
            multiply_add: whole(machine.rate.f32),
            integer: whole(machine.rate.logic),
            special: whole(machine.rate.special),
            exponential: whole(machine.rate.ex2),
            shared: whole(machine.shared.bytes),
            copy: whole(machine.global.l2_bytes),
            product_latency: whole(mma.latency),
            arithmetic_latency: whole(machine.plan.arithmetic),
            shared_latency: whole(machine.shared.latency),
            copy_latency: whole(machine.plan.copy),
            copy_latency_per_kib: whole(machine.plan.copy_kib),
        }
    }
}

/// The chip whose numbers are those of a target. Where devices of a target differ it is the one of data centres or workstations.
fn chip(target: Target) -> &'static str {
    match of_target(target.name).expect("every target has a chip, which a test holds") {
        "rtx5090" => "rtxpro6000",
        other => other,
    }
}

/// Of each target, once somebody asks: reading the machines of all takes longer than scheduling a small kernel.
static RATES: LazyLock<BTreeMap<&'static str, OnceLock<Rates>>> =
    LazyLock::new(|| Target::all().map(|target| (target.name, OnceLock::new())).collect());

/// The rates of a target.
pub fn rates(target: Target) -> &'static Rates {
    RATES[target.name].get_or_init(|| Rates::new(&Machine::named(chip(target)).expect("the project's files are whole")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hardware::Feature;

    fn of(name: &str) -> &'static Rates {
        rates(Target::parse(name).unwrap())
    }

    #[test]
    fn every_target_has_rates() {
        for target in Target::all() {
            let Rates { products, group_products, tensor_products, .. } = rates(target);
            assert!(products.iter().chain(group_products).chain(tensor_products).all(|(_, rate)| *rate > 0), "{target}");
            assert_eq!(target.has(Feature::WarpGroupProducts), !group_products.is_empty(), "{target}");
            assert_eq!(target.has(Feature::TensorMemory), !tensor_products.is_empty(), "{target}");
        }
    }

    /// Multiply-adds in a clock, as data sheets have them.
    #[test]
    fn rates_are_those_of_data_sheets() {
        assert_eq!(of("sm_80").products, [(8, 2048), (16, 1024), (32, 512), (64, 64)]);
        assert_eq!(of("sm_90").group_products, [(8, 4096), (16, 2048), (32, 1024)]);
        assert_eq!(of("sm_100").tensor_products, [(4, 16384), (8, 8192), (16, 4096), (32, 2048)]);
        assert_eq!(Rates::of(&of("sm_120").products, 16), Some(512));
        assert_eq!((of("sm_80").multiply_add, of("sm_89").multiply_add, of("sm_103").exponential), (64, 128, 32));
        assert_eq!(of("sm_90").copy_latency(16384), 900 + 16 * 36);
    }
}
