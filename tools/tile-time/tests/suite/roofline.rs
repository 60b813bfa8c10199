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

/// Returns the what-if scenarios of a report with their gains.
fn advice_list(report: &serde_json::Value) -> Vec<(String, f64)> {
    let list = report["advice"].as_array().expect("there is a list");
    list.iter().map(|one| (one["if"].as_str().expect("text").into(), one["gain"].as_f64().expect("a number"))).collect()
}

/// Returns the report of a kernel with its potential savings.
fn with_advice(kernel: &Kernel) -> serde_json::Value {
    kernel.report_with_advice(GPU)
}

#[test]
fn operations_and_bytes_are_counted_in_the_execution() {
    let report = chain_kernel(132).report(GPU);
    let flops = report["roofline"]["flops"].as_f64().expect("a number");
    assert_eq!(flops, 132.0 * 128.0 * 2000.0 * 2.0);
    assert_eq!(report["roofline"]["from"], "executed");
    assert_eq!(report["roofline"]["limited_by"], "compute");
    let tflops = report["tflops"].as_f64().expect("a number");
    assert!((tflops * 1e12 * report["seconds"].as_f64().expect("a number") / flops - 1.0).abs() < 1e-9);

    let report = copy_kernel(8192).report(GPU);
    assert_eq!(report["roofline"]["bytes"].as_f64(), Some(2.0 * 8192.0 * 2048.0));
    assert_eq!(report["roofline"]["limited_by"], "memory");
    let reached = report["roofline"]["reached"].as_f64().expect("a number");
    assert!((0.3..=1.0).contains(&reached), "{reached}");
}

#[test]
fn stated_work_overrides_counted_work() {
    let report = chain_kernel(132).flops(1e9).report(GPU);
    assert_eq!((&report["roofline"]["from"], report["roofline"]["flops"].as_f64()), (&"stated".into(), Some(1e9)));
}

#[test]
fn the_report_advises_more_ctas_if_the_last_wave_is_partial() {
    let gain_of = |grid: u32| -> Option<f64> {
        advice_list(&with_advice(&chain_kernel(grid)))
            .into_iter()
            .find(|(if_, _)| if_.starts_with("a grid that fills"))
            .map(|(_, gain)| gain)
    };
    let two = chain_kernel(132 * 2).report(GPU);
    let fits =
        132 * two["resident_ctas"].as_u64().expect("a number") as u32 / two["waves"].as_f64().expect("a number").ceil() as u32;
    assert_eq!(fits, 264, "two CTAs of 96 KiB are resident on an SM");
    // A chain waits for its own results, so twice the number of CTAs, each with half of the work, takes half of the time.
    let half = gain_of(132).expect("there is advice");
    assert!((0.4..0.55).contains(&half), "{half}");
    let quarter = gain_of(66).expect("there is advice");
    assert!((0.6..0.8).contains(&quarter), "{quarter}");
    // The second wave is nearly empty.
    assert!(gain_of(265).is_some_and(|gain| gain > 0.3));
    assert_eq!(gain_of(264), None);
}

#[test]
fn the_report_does_not_advise_to_reduce_compulsory_dram_traffic() {
    let report = with_advice(&copy_kernel(32768));
    let dram = report["busy"].as_array().expect("a list").iter().find(|busy| busy["unit"] == "DRAM").expect("it is there");
    assert!(dram["part"].as_f64().expect("a number") > 0.7, "{dram}");
    assert!(!advice_list(&report).iter().any(|(if_, _)| if_.contains("DRAM")), "{:?}", advice_list(&report));
}
