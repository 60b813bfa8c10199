//! Tests the roofline and the advice on kernels whose operation and byte counts follow from their source.

use crate::support::{Kernel, repeat};

const GPU: &str = "h100-sxm";

/// Returns a kernel whose CTAs of 128 threads each copy 128 x 16 bytes from the first half of a buffer to the second half.
fn copy_kernel(grid: u32) -> Kernel {
    let half = grid as usize * 2048;
    let body = format!(
        "mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %tid.x;\nshl.b32 %r3, %r1, 7;\nadd.s32 %r3, %r3, %r2;\nmul.wide.u32 %rd2, %r3, 16;\n\
         add.s64 %rd3, %rd1, %rd2;\nld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%rd3];\nadd.s64 %rd4, %rd3, {half};\n\
         st.global.v4.b32 [%rd4], {{%r4, %r5, %r6, %r7}};"
    );
    Kernel::new("sm_90a", 128).grid(grid).out_bytes(2 * half).shared_bytes(1024).registers(32).body(body)
}

/// Returns a kernel with CTAs of 128 threads. Each thread executes a chain of 2000 dependent FMAs.
fn chain_kernel(grid: u32) -> Kernel {
    let body = repeat(2000, |_| "fma.rn.f32 %f1, %f1, %f2, %f3;".into()) + "st.global.f32 [%rd1], %f1;";
    Kernel::new("sm_90a", 128).grid(grid).body(body)
}

/// Returns the what-if scenarios of a report, each with the share of the time that it would save.
fn advice_list(report: &serde_json::Value) -> Vec<(String, f64)> {
    let entry = |advice: &serde_json::Value| {
        (advice["scenario"].as_str().expect("text").into(), advice["saved_share"].as_f64().expect("a number"))
    };
    report["advice"].as_array().expect("there is a list").iter().map(entry).collect()
}

/// Returns the report of a kernel with its potential savings.
fn report_with_advice(kernel: &Kernel) -> serde_json::Value {
    kernel.report_with_advice(GPU)
}

#[test]
fn roofline_counts_executed_operations_and_bytes() {
    let report = chain_kernel(132).report(GPU);
    let flops = report["roofline"]["flops"].as_f64().expect("a number");
    assert_eq!(flops, 132.0 * 128.0 * 2000.0 * 2.0);
    assert_eq!(report["roofline"]["source"], "executed");
    assert_eq!(report["roofline"]["limited_by"], "compute");
    let tflops = report["tflops"].as_f64().expect("a number");
    assert!((tflops * 1e12 * report["seconds"].as_f64().expect("a number") / flops - 1.0).abs() < 1e-9);

    let report = copy_kernel(8192).report(GPU);
    assert_eq!(report["roofline"]["bytes"].as_f64(), Some(2.0 * 8192.0 * 2048.0));
    assert_eq!(report["roofline"]["limited_by"], "memory");
    let reached_share = report["roofline"]["reached_share"].as_f64().expect("a number");
    assert!((0.3..=1.0).contains(&reached_share), "{reached_share}");
}

#[test]
fn work_stated_by_the_launch_overrides_counted_work() {
    let report = chain_kernel(132).flops(1e9).report(GPU);
    assert_eq!((&report["roofline"]["source"], report["roofline"]["flops"].as_f64()), (&"stated".into(), Some(1e9)));
}

#[test]
fn the_report_advises_more_ctas_if_the_last_wave_is_partial() {
    let saved_share = |grid: u32| -> Option<f64> {
        advice_list(&report_with_advice(&chain_kernel(grid)))
            .into_iter()
            .find(|(scenario, _)| scenario.starts_with("a grid that fills"))
            .map(|(_, share)| share)
    };
    let full_wave = chain_kernel(132 * 2).report(GPU);
    let number = |key: &str| full_wave[key].as_f64().expect("a number");
    let ctas_per_wave = 132 * number("resident_ctas") as u32 / number("waves").ceil() as u32;
    assert_eq!(ctas_per_wave, 264, "two CTAs of 96 KiB are resident on an SM");
    // A chain waits for its own results. Twice the number of CTAs, each with half of the work, therefore takes half of the time.
    let half_full_wave = saved_share(132).expect("there is advice");
    assert!((0.4..0.55).contains(&half_full_wave), "{half_full_wave}");
    let quarter_full_wave = saved_share(66).expect("there is advice");
    assert!((0.6..0.8).contains(&quarter_full_wave), "{quarter_full_wave}");
    // With 265 CTAs, the second wave has one CTA.
    assert!(saved_share(265).is_some_and(|share| share > 0.3));
    assert_eq!(saved_share(264), None);
}

#[test]
fn the_report_does_not_advise_to_reduce_compulsory_dram_traffic() {
    let report = report_with_advice(&copy_kernel(32768));
    let utilization = report["utilization"].as_array().expect("a list");
    let dram = utilization.iter().find(|entry| entry["unit"] == "DRAM").expect("it is there");
    assert!(dram["share"].as_f64().expect("a number") > 0.7, "{dram}");
    assert!(!advice_list(&report).iter().any(|(scenario, _)| scenario.contains("DRAM")), "{:?}", advice_list(&report));
}
