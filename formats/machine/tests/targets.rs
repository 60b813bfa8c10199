//! The stages take their rates from the table of targets, which they can look up when they are built; `tile-time` takes the numbers of
//! `machines/`. Both say the same of the chip that a row of the table is about.

use base::Target;
use machine::Machine;

/// The rows that have rates of their own, and whose those are.
const CHIPS: [(&str, &str); 5] =
    [("sm_80", "a100"), ("sm_90", "h100-sxm"), ("sm_100", "b200"), ("sm_103", "b300"), ("sm_120", "rtxpro6000")];

/// Where the stages decide by another number than the model has, and which: they were tuned with it, so that a new one is to be tried
/// on kernels first.
const OTHERWISE: [(&str, &str, f64, f64); 6] = [
    ("sm_100", "bytes from the second-level cache", 64.0, 77.0),
    ("sm_103", "bytes from the second-level cache", 64.0, 77.0),
    ("sm_120", "bytes from the second-level cache", 64.0, 40.0),
    ("sm_100", "latency of a product", 33.0, 23.0),
    ("sm_103", "latency of a product", 33.0, 23.0),
    ("sm_120", "latency of a product", 33.0, 35.0),
];

#[test]
fn the_stages_have_the_rates_of_the_model() {
    let mut wrong = Vec::new();
    for (target, chip) in CHIPS {
        let rates = &Target::parse(target).expect("a row").rates;
        let machine = Machine::named(chip).expect("a chip");
        let mut facts = vec![
            ("multiply-adds", f64::from(rates.multiply_add), machine.rate.f32, 0.0),
            ("integers", f64::from(rates.integer), machine.rate.logic, 0.0),
            ("special functions", f64::from(rates.special), machine.rate.special, 0.0),
            ("exponentials", f64::from(rates.exponential), machine.rate.ex2, 0.0),
            ("bytes of shared memory", f64::from(rates.shared), machine.shared.bytes, 0.0),
            ("bytes from the second-level cache", f64::from(rates.copy), machine.global.l2_bytes, 0.0),
            ("latency of a product", f64::from(rates.product_latency), machine.mma.latency, 0.0),
            ("latency of shared memory", f64::from(rates.shared_latency), machine.shared.latency, 0.05),
        ];
        // An instruction of 32 bytes of K: 16 x 8 for `mma.sync` on four parts, 64 or 128 rows for the others.
        for &(bits, rate) in rates.products {
            let clocks = match bits {
                8 => machine.mma.i8,
                16 => machine.mma.f16,
                32 => machine.mma.tf32,
                _ => continue,
            };
            facts.push(("products of warps", f64::from(rate), 4.0 * 16.0 * 8.0 * 256.0 / f64::from(bits) / clocks, 0.03));
        }
        for &(bits, rate) in rates.group_products {
            facts.push(("products of warp groups", f64::from(rate), 64.0 * 256.0 / f64::from(bits) / machine.wgmma.column, 0.0));
        }
        for &(bits, rate) in rates.tensor_products {
            facts.push((
                "products in tensor memory",
                f64::from(rate),
                128.0 * 256.0 / f64::from(bits) / machine.tcgen05.column,
                0.0,
            ));
        }
        for (what, stages, model, tolerance) in facts {
            let known = OTHERWISE.contains(&(target, what, stages, model));
            if !known && (stages / model - 1.0).abs() > tolerance {
                wrong.push(format!("{target}, {what}: {stages} in the table, {model} in machines/"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
