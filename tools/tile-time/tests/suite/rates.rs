//! Compares the model with the microbenchmarks that set its parameters: dependent chains, streams, bank conflicts, MMAs, copies.
//! Each test runs a small kernel whose time follows from one or two machine parameters. Each tolerance is the accepted error of the
//! part of the model that the test covers.

use crate::support::{Kernel, repeat};

/// Returns the predicted cycles per repetition of an instruction sequence. `kernel(count)` repeats the sequence `count` times. The
/// result is the difference between `counts.1` and `counts.0` repetitions, so it excludes prologue and epilogue.
pub(crate) fn cycles_per_repetition(gpu: &str, kernel: impl Fn(usize) -> Kernel, counts: (usize, usize)) -> f64 {
    let (few, many) = (kernel(counts.0).cycles(gpu), kernel(counts.1).cycles(gpu));
    (many - few) / (counts.1 - counts.0) as f64
}

/// Checks that `predicted` is within a relative tolerance of `measured`. `quantity` names the compared quantity in the message.
pub(crate) fn assert_near(quantity: &str, predicted: f64, measured: f64, tolerance: f64) {
    assert!((predicted / measured - 1.0).abs() <= tolerance, "{quantity}: {predicted:.3}, measured on the machine {measured}");
}

/// Returns a kernel with a chain of `count` instructions, each dependent on the previous one.
fn dependent_chain(target: &'static str, instruction: &'static str, count: usize) -> Kernel {
    Kernel::new(target, 32).body(repeat(count, |_| instruction.to_string()))
}

/// Returns a kernel with `count` instructions in each warp. Each instruction depends on the instruction eight places earlier. The
/// mark `#` in `instruction` stands for a register number.
fn independent_stream(target: &'static str, threads: u32, instruction: &'static str, count: usize) -> Kernel {
    Kernel::new(target, threads).body(repeat(count, |index| instruction.replace('#', &(10 + index % 8).to_string())))
}

#[test]
fn dependent_chain_latency() {
    for (gpu, target) in [("a100", "sm_80"), ("h100-sxm", "sm_90"), ("b200", "sm_100"), ("rtx5090", "sm_120")] {
        assert_near(
            "fma",
            cycles_per_repetition(gpu, |n| dependent_chain(target, "fma.rn.f32 %f1, %f1, %f1, %f1;", n), (64, 192)),
            4.0,
            0.03,
        );
        assert_near(
            "add",
            cycles_per_repetition(gpu, |n| dependent_chain(target, "add.s32 %r9, %r9, %r9;", n), (64, 192)),
            4.0,
            0.03,
        );
        assert_near(
            "ex2",
            cycles_per_repetition(gpu, |n| dependent_chain(target, "ex2.approx.ftz.f32 %f1, %f1;", n), (64, 192)),
            18.0,
            0.03,
        );
        let shuffle = "shfl.sync.bfly.b32 %r9, %r9, 1, 31, -1;";
        assert_near(
            "shfl",
            cycles_per_repetition(gpu, |n| dependent_chain(target, shuffle, n), (64, 192)),
            if target == "sm_80" { 23.0 } else { 24.0 },
            0.03,
        );
    }
}

/// Tests the throughput of each instruction class in lanes per cycle and SM, with 16 warps of eight independent instructions each.
#[test]
fn arithmetic_throughput_by_class() {
    let classes = [
        ("fma.rn.f32 %f#, %f#, %f#, %f#;", [64.0, 128.0, 128.0, 128.0]),
        ("and.b32 %r#, %r#, %r#;", [64.0; 4]),
        ("add.s32 %r#, %r#, %r#;", [64.0, 64.0, 64.0, 128.0]),
        ("mul.lo.s32 %r#, %r#, %r#;", [64.0; 4]),
        ("max.f32 %f#, %f#, %f#;", [64.0; 4]),
        ("ex2.approx.ftz.f32 %f#, %f#;", [16.0; 4]),
        ("popc.b32 %r#, %r#;", [16.0; 4]),
        ("shfl.sync.bfly.b32 %r#, %r#, 1, 31, -1;", [32.0; 4]),
    ];
    for (index, (gpu, target)) in
        [("a100", "sm_80"), ("h100-sxm", "sm_90"), ("b200", "sm_100"), ("rtx5090", "sm_120")].into_iter().enumerate()
    {
        for (instruction, rates) in classes {
            let cycles = cycles_per_repetition(gpu, |n| independent_stream(target, 512, instruction, n), (64, 256));
            assert_near(&format!("{gpu} {instruction}"), 16.0 * 32.0 / cycles, rates[index], 0.03);
        }
    }
    let cycles =
        cycles_per_repetition("b300", |n| independent_stream("sm_103a", 512, "ex2.approx.ftz.f32 %f#, %f#;", n), (64, 256));
    assert_near("ex2 on b300", 512.0 / cycles, 32.0, 0.03);
}

/// Tests `mma.sync`: cycles between two MMAs of an SM sub-partition, and cycles to the result.
#[test]
fn warp_mma_interval_and_latency() {
    let mma = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f#, %f#, %f#, %f#}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f#, %f#, %f#, %f#};";
    let half_depth_mma =
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f#, %f#, %f#, %f#}, {%r1, %r2}, {%r5}, {%f#, %f#, %f#, %f#};";
    let gpus = [
        ("a100", "sm_80", 8.0, 33.0),
        ("h100-sxm", "sm_90", 6.4, 33.0),
        ("b200", "sm_100", 8.1, 23.0),
        ("rtxpro6000", "sm_120", 16.0, 35.0),
        ("rtx5090", "sm_120", 32.0, 35.0),
    ];
    for (gpu, target, interval, latency) in gpus {
        assert_near(gpu, cycles_per_repetition(gpu, |n| independent_stream(target, 512, mma, n), (32, 96)) / 4.0, interval, 0.03);
        assert_near(
            gpu,
            cycles_per_repetition(gpu, |n| independent_stream(target, 512, half_depth_mma, n), (32, 96)) / 4.0,
            interval / 2.0,
            0.03,
        );
        let dependent = |n| Kernel::new(target, 32).body(repeat(n, |_| mma.replace('#', "1")));
        assert_near(gpu, cycles_per_repetition(gpu, dependent, (32, 96)), latency, 0.03);
    }
}

/// `tile-time` extrapolates a truncated CTA from its executed part, in proportion to the number of executed MMAs.
#[test]
fn a_truncated_cta_is_extrapolated() {
    let mma = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f#, %f#, %f#, %f#}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f#, %f#, %f#, %f#};";
    let kernel = independent_stream("sm_90", 128, mma, 2000).flops(4.0 * 2000.0 * 4096.0);
    let cycles_of_complete_cta = kernel.cycles("h100-sxm");
    let report = kernel.report_with("h100-sxm", &["--instruction-limit", "3200"]);
    let executed_share = report["executed_share"].as_f64().expect("the CTA is truncated");
    assert!(report["complete"] == false && (0.3..0.5).contains(&executed_share), "{report}");
    assert_near("truncated CTA", report["cycles"].as_f64().expect("a number"), cycles_of_complete_cta, 0.05);
}

/// Tests loads from shared memory: latency, bandwidth, and bank conflicts. `degree` is the number of lanes that access one bank.
#[test]
fn shared_memory_latency_and_bank_conflicts() {
    for (gpu, target) in [("a100", "sm_80"), ("h100-sxm", "sm_90"), ("b200", "sm_100")] {
        let pointer = |n| {
            Kernel::new(target, 32)
                .body(repeat(n, |_| "ld.shared.b32 %r9, [%r9];".into()))
                .prologue("mov.u32 %r9, buffer;\nst.shared.b32 [%r9], %r9;")
        };
        assert_near("latency", cycles_per_repetition(gpu, pointer, (16, 80)), 29.0, 0.05);
        for degree in [1u32, 2, 4, 8, 32] {
            let prologue = format!(
                "mov.u32 %r1, %tid.x;\nand.b32 %r1, %r1, 31;\nmul.lo.s32 %r1, %r1, {};\nmov.u32 %r2, buffer;\nadd.s32 %r2, %r2, %r1;",
                4 * degree
            );
            let load = |n| {
                Kernel::new(target, 512).body(repeat(n, |i| format!("ld.shared.b32 %r{}, [%r2];", 10 + i % 8))).prologue(&prologue)
            };
            assert_near(&format!("{gpu} degree {degree}"), cycles_per_repetition(gpu, load, (64, 192)) / 16.0, degree.into(), 0.05);
        }
        let prologue =
            "mov.u32 %r1, %tid.x;\nand.b32 %r1, %r1, 31;\nshl.b32 %r1, %r1, 4;\nmov.u32 %r2, buffer;\nadd.s32 %r2, %r2, %r1;";
        let matrix = |n| {
            let row = |_| "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r2];".into();
            Kernel::new(target, 512).body(repeat(n, row)).prologue(prologue)
        };
        assert_near("ldmatrix", cycles_per_repetition(gpu, matrix, (64, 192)) / 16.0, 4.0, 0.05);
    }
}

/// A barrier of a CTA with w warps takes 22 + 2w cycles, as measured.
#[test]
fn barrier_latency_by_warps() {
    for (warps, cycles) in [(1, 24.0), (4, 30.0), (8, 38.0), (32, 86.0)] {
        let kernel = |n| Kernel::new("sm_100", 32 * warps).body(repeat(n, |_| "bar.sync 0;".into()));
        assert_near("barrier", cycles_per_repetition("b300", kernel, (16, 80)), cycles, 0.1);
    }
}

/// Diverged threads of a warp execute a barrier instruction separately, and each group of threads waits for the barrier.
#[test]
fn barriers_of_diverged_warps() {
    let iteration = |i: usize| {
        format!(
            "@%p1 bra OTHERS{i};\nadd.s32 %r9, %r9, %r9;\nbarrier.sync 1, 64;\nbra NEXT{i};\nOTHERS{i}:\nbarrier.sync 1, 64;\nNEXT{i}:"
        )
    };
    let prologue = "mov.u32 %r1, %tid.x;\nand.b32 %r2, %r1, 31;\nsetp.ne.s32 %p1, %r2, 0;\n";
    let cycles =
        cycles_per_repetition("b300", |n| Kernel::new("sm_100", 64).prologue(prologue).body(repeat(n, iteration)), (16, 80));
    assert!((26.0..80.0).contains(&cycles), "{cycles} cycles for a barrier and two branches");
}

/// Tests the cycles of `wgmma` m64nNk16 with A in shared memory, by N.
#[test]
fn wgmma_cycles_by_columns() {
    for (n, cycles) in [(256usize, 128.0), (128, 64.0), (64, 32.0), (32, 24.0), (16, 20.0), (8, 18.0)] {
        let accumulator: Vec<String> = (0..n / 2).map(|i| format!("%f{}", 100 + i)).collect();
        let mma_text = format!(
            "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 {{{}}}, %rd8, %rd8, 1, 1, 1, 0, 0;",
            accumulator.join(", ")
        );
        let kernel = |count| {
            let body = format!(
                "wgmma.fence.sync.aligned;\n{}wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n",
                repeat(count, |_| mma_text.clone())
            );
            Kernel::new("sm_90a", 128).prologue("mov.b64 %rd8, 4611686293305294912;").body(body)
        };
        assert_near(&format!("n{n}"), cycles_per_repetition("h800-pcie", kernel, (16, 80)), cycles, 0.03);
    }
}

/// Tests `tcgen05.mma`: cycles by shape and by the memory that holds A, and the latency of one MMA with its commit and wait.
#[test]
fn tcgen05_mma_cycles_by_shape() {
    let kernel = |m: u32, n: u32, a_in_tensor_memory: bool, count: usize| {
        let descriptor = 1 << 4 | (n >> 3) << 17 | (m >> 4) << 24;
        let a = if a_in_tensor_memory { "[%r21]" } else { "%rd8" };
        let mma_text = format!("tcgen05.mma.cta_group::1.kind::f16 [%r20], {a}, %rd8, %r22, %p2;\n");
        let prologue = format!(
            "mov.u32 %r1, buffer;\nadd.s32 %r2, %r1, 8;\nmbarrier.init.shared.b64 [%r2], 1;\n\
             tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 512;\nld.shared.b32 %r20, [%r1];\nadd.s32 %r21, %r20, 256;\n\
             mov.b32 %r22, {descriptor};\nmov.b64 %rd8, 4611756662317416448;\nsetp.eq.s32 %p2, 0, 0;\nmov.u32 %r3, %tid.x;\nsetp.ne.s32 %p1, %r3, 0;\n@%p1 bra DONE;\n"
        );
        let after = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r2];\n\
             WAIT:\nmbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0;\n@!%p3 bra WAIT;\nDONE:\nbar.warp.sync -1;\n\
             tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r20, 512;\n";
        Kernel::new("sm_100a", 32).prologue(&prologue).body(format!("{}{after}", repeat(count, |_| mma_text.clone())))
    };
    for (m, n, tensor, cycles) in [
        (128, 64, false, 48.0),
        (128, 80, false, 52.0),
        (128, 96, false, 56.0),
        (128, 112, false, 60.0),
        (128, 128, false, 64.0),
        (128, 256, false, 128.0),
        (64, 64, false, 32.0),
        (64, 128, false, 64.0),
        (128, 64, true, 32.0),
        (128, 128, true, 64.0),
    ] {
        assert_near(
            &format!("m{m} n{n}"),
            cycles_per_repetition("b200", |count| kernel(m, n, tensor, count), (32, 160)),
            cycles,
            0.03,
        );
    }
    // From the issue through the commit to the end of the mbarrier wait: 136 + N/2 cycles with 128 rows from shared memory.
    let one = kernel(128, 256, false, 1).cycles("b200") - kernel(128, 256, false, 0).cycles("b200");
    assert_near("one MMA", one, 264.0, 0.1);
}

/// Returns PTX that waits until an iteration of the mbarrier at byte offset `bar` completes. `label` names the wait loop.
pub(crate) fn wait_text(label: &str, bar: usize, iteration: usize) -> String {
    format!("{label}:\nmbarrier.try_wait.parity.shared.b64 %p3, [%r1+{bar}], {};\n@!%p3 bra {label};\n", iteration % 2)
}

/// Returns PTX that makes the issued `tcgen05` MMAs signal the mbarrier at byte offset `bar` when they complete.
pub(crate) fn commit_text(bar: usize) -> String {
    format!("add.s32 %r5, %r1, {bar};\ntcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r5];\n")
}

/// An SM fetches code from L2 if the code exceeds the instruction cache. A miss fetches one line of eight instructions, and the SM
/// prefetches the next eight lines. These 72 instructions take the latency of one L2 access (330 cycles) plus the issue of one
/// line.
#[test]
fn code_larger_than_the_instruction_cache() {
    let cycles =
        cycles_per_repetition("b200", |n| independent_stream("sm_100", 128, "fma.rn.f32 %f#, %f#, %f#, %f#;", n), (12_000, 20_000));
    assert_near("an instruction", cycles, (330.0 + 8.0) / 72.0, 0.03);
}

/// A machine file may describe an impossible instruction cache. The model then assumes that a line holds at least one instruction,
/// and it prefetches no line after the end of the code.
#[test]
fn impossible_instruction_caches_have_finite_times() {
    let kernel = independent_stream("sm_100", 32, "fma.rn.f32 %f#, %f#, %f#, %f#;", 100);
    for number in ["code.line=0", "code.line=1e-9", "code.cache=0", "code.prefetch_lines=1e30"] {
        let cycles = kernel.report_with("b200", &["--set", "code.cache=0", "--set", number])["cycles"].as_f64();
        assert!(cycles.is_some_and(|cycles| (100.0..1e6).contains(&cycles)), "{number}: {cycles:?}");
    }
}

/// With `--repeated`, loads hit the data that the previous launch left in L2.
#[test]
fn repeated_launches_hit_l2() {
    let load = "mov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd3, %rd1, %rd2;\nld.global.b32 %r9, [%rd3];";
    let kernel = Kernel::new("sm_100", 128).body(load);
    let dram_share = |options: &[&str]| kernel.report_with("b200", options)["dram_share"].as_f64().expect("a number");
    assert_eq!((dram_share(&[]), dram_share(&["--repeated"])), (1.0, 0.0));
}

/// Tests the cycles per commit group of `cp.async` on B200. Each thread on all SMs copies 16 bytes per group, and has one to four
/// groups in flight.
#[test]
fn cp_async_rates() {
    for (stages, threads, terabytes_per_second) in [(1usize, 128u32, 0.684), (1, 256, 1.352), (2, 256, 2.486), (4, 256, 4.234)] {
        let copy = "cp.async.cg.shared.global [%r4], [%rd7], 16;\ncp.async.commit_group;\nadd.s64 %rd7, %rd7, %rd8;\n";
        let kernel = |count: usize| {
            let prologue = format!(
                "mov.u32 %r1, buffer;\nmov.u32 %r3, %tid.x;\nshl.b32 %r5, %r3, 4;\nadd.s32 %r4, %r1, %r5;\nmov.u32 %r6, %ctaid.x;\n\
                 mul.wide.u32 %rd6, %r6, {};\ncvt.u64.u32 %rd5, %r5;\nadd.s64 %rd7, %rd1, %rd6;\nadd.s64 %rd7, %rd7, %rd5;\n\
                 mov.b64 %rd8, {};\n{}",
                16 * threads as usize * 40,
                16 * threads,
                copy.repeat(stages)
            );
            let body = repeat(count, |_| format!("cp.async.wait_group {};\n{copy}", stages - 1));
            let bytes = 148 * 16 * threads as usize * 40;
            Kernel::new("sm_100a", threads).prologue(&prologue).body(body).grid(148).out_bytes(bytes)
        };
        let cycles = 148.0 * 16.0 * f64::from(threads) / (terabytes_per_second * 1e12) * 1.965e9;
        assert_near(&format!("{stages} stages of {threads} threads"), cycles_per_repetition("b200", kernel, (8, 32)), cycles, 0.10);
    }
}

/// Tests the cycles per TMA copy from DRAM. All SMs copy, and each SM has one, two or four copies in flight before each wait.
#[test]
fn tma_copy_rates() {
    let single_copies =
        [(512usize, 900.0), (1024, 927.0), (2048, 968.0), (4096, 1038.0), (8192, 1258.0), (16384, 1405.0), (32768, 1757.0)];
    let copies_in_flight =
        [(4, 512, 257.0), (2, 4096, 546.0), (2, 8192, 663.0), (4, 8192, 406.0), (4, 16384, 659.0), (2, 32768, 1328.0)];
    for (tma_copies, bytes, cycles) in single_copies.map(|(bytes, cycles)| (1, bytes, cycles)).into_iter().chain(copies_in_flight) {
        let iteration = |index: usize| {
            let copies: String = (0..tma_copies)
                .map(|part| {
                    format!(
                        "add.s32 %r4, %r1, {};\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd7], {bytes}, [%r2];\n\
                         add.s64 %rd7, %rd7, {bytes};\n",
                        1024 + part * bytes
                    )
                })
                .collect();
            format!(
                "mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r2], {};\n{copies}{}",
                tma_copies * bytes,
                wait_text(&format!("WAIT{index}"), 8, index)
            )
        };
        let kernel = |count| {
            let prologue = format!(
                "mov.u32 %r1, buffer;\nadd.s32 %r2, %r1, 8;\nmbarrier.init.shared.b64 [%r2], 1;\n\
                 mov.u32 %r5, %ctaid.x;\nmul.wide.u32 %rd6, %r5, {};\nadd.s64 %rd7, %rd1, %rd6;\n",
                tma_copies * bytes * 40
            );
            let shared = (1024 + tma_copies * bytes) as u32;
            Kernel::new("sm_100a", 1)
                .prologue(&prologue)
                .body(repeat(count, iteration))
                .shared_bytes(shared)
                .grid(148)
                .out_bytes(148 * 40 * tma_copies * bytes)
        };
        assert_near(
            &format!("{tma_copies} of {bytes} bytes"),
            cycles_per_repetition("b200", kernel, (8, 32)) / tma_copies as f64,
            cycles,
            0.10,
        );
    }
}

/// A thread issues a TMA copy every 50 cycles. Between two copies, the TMA unit of the SM is free for copies of other CTAs. The
/// copies of four CTAs therefore take as long as the copies of one CTA.
#[test]
fn tma_copies_of_several_ctas_are_issued_concurrently() {
    const BYTES: usize = 128;
    for ctas in [1u32, 4] {
        let kernel = |count: usize| {
            let prologue = format!(
                "mov.u32 %r1, buffer;\nadd.s32 %r2, %r1, 8;\nadd.s32 %r4, %r1, 1024;\nmbarrier.init.shared.b64 [%r2], 1;\n\
                 mov.u32 %r5, %ctaid.x;\nmul.wide.u32 %rd6, %r5, {};\nadd.s64 %rd7, %rd1, %rd6;\n\
                 mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r2], {};\n",
                BYTES * 40,
                BYTES * count
            );
            let copy = |_| {
                format!(
                    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd7], {BYTES}, [%r2];\n\
                     add.s64 %rd7, %rd7, {BYTES};"
                )
            };
            Kernel::new("sm_100a", 1)
                .prologue(&prologue)
                .body(repeat(count, copy) + &wait_text("WAIT", 8, 0))
                .shared_bytes(2048)
                .grid(148 * ctas)
                .out_bytes(148 * ctas as usize * 40 * BYTES)
        };
        assert_near(&format!("{ctas} CTAs"), cycles_per_repetition("b200", kernel, (8, 32)), 50.0, 0.10);
    }
}

/// `ptxas` unrolls a short loop with an unknown trip count four times, and issues four loads together. A barrier in the loop
/// prevents this.
#[test]
fn loads_of_an_unrolled_loop_are_in_flight_together() {
    const MEMORY_LATENCY: f64 = 650.0;
    for (barrier, loads_in_flight) in [("", 4.0), ("bar.sync 0;\n", 1.0)] {
        let kernel = |count: usize| {
            let prologue = format!("mov.u32 %r5, %nctaid.x;\nmul.lo.u32 %r5, %r5, {count};\nmov.u32 %r4, 0;\nmov.u32 %r6, 0;\n");
            let body = format!(
                "LOOP:\nld.global.u32 %r7, [%rd1];\nadd.u32 %r6, %r6, %r7;\n{barrier}add.s64 %rd1, %rd1, 8192;\nadd.u32 %r4, %r4, 1;\n\
                 setp.lt.u32 %p1, %r4, %r5;\n@%p1 bra LOOP;\nst.global.u32 [%rd1], %r6;\n"
            );
            Kernel::new("sm_90", 32).prologue(&prologue).body(body).out_bytes(8192 * 257)
        };
        let cycles = cycles_per_repetition("h100-sxm", kernel, (64, 256));
        assert_near("a load", cycles, MEMORY_LATENCY / loads_in_flight, 0.20);
    }
}
