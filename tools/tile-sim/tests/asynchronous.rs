//! The rules for asynchronous work and proxies. Each test runs a correct program and faulty variants. Most tests run the programs
//! twice: asynchronous work completes as early as permitted in the first run, and as late as permitted in the second run.

mod support;

use support::{check_rule, kernel, output_word, run};

#[test]
fn asynchronous_copies_need_a_wait() {
    let body = "shl.b32 %r3, %r1, 4;\nadd.s32 %r4, %r2, %r3;\ncvt.u64.u32 %rd2, %r3;\nadd.s64 %rd3, %rd1, %rd2;\n\
        cp.async.ca.shared.global [%r4], [%rd3], 16;\ncp.async.commit_group;\ncp.async.wait_group 0;\nld.shared.b32 %r5, [%r4];\n\
        st.global.b32 [%rd3+512], %r5;";
    let ptx = kernel("sm_80", 32, 512, body);
    assert_eq!(output_word(&run(&ptx, &["--delivery", "late"]), 132), 4);
    check_rule("SIM031", &ptx, "wait_group 0", "wait_group 1", &["--delivery", "late"]);
    check_rule("SIM031", &ptx, "cp.async.commit_group;\n", "", &["--delivery", "late"]);
}

/// Thread 0 copies 256 bytes to shared memory. All threads wait, and each thread adds 1 to a word. Thread 0 copies the result to
/// global memory.
const BULK_COPIES: &str = "setp.ne.b32 %p1, %r1, 0;\nmov.b32 %r3, 1;\n@!%p1 mbarrier.init.shared.b64 [smem+512], %r3;\nbar.sync 0;\n\
    mov.b32 %r9, 256;\n@%p1 bra W;\nmbarrier.arrive.expect_tx.shared.b64 _, [smem+512], %r9;\n\
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [smem], [%rd1], 256, [smem+512];\n\
    W:\nmov.b32 %r4, 0;\nmbarrier.try_wait.parity.shared.b64 %p2, [smem+512], %r4;\n@!%p2 bra W;\n\
    shl.b32 %r5, %r1, 2;\nadd.s32 %r6, %r2, %r5;\nld.shared.b32 %r7, [%r6];\nadd.s32 %r8, %r7, 1;\nst.shared.b32 [%r6], %r8;\n\
    fence.proxy.async.shared::cta;\nbar.sync 0;\n@%p1 bra E;\n\
    cp.async.bulk.global.shared::cta.bulk_group [%rd1], [smem], 256;\ncp.async.bulk.commit_group;\n\
    cp.async.bulk.wait_group.read 0;\nst.shared.b32 [smem], %r3;\nE:";

#[test]
fn bulk_copies() {
    let ptx = kernel("sm_90a", 64, 1024, BULK_COPIES);
    for delivery in ["early", "late"] {
        assert_eq!(output_word(&run(&ptx, &["--delivery", delivery]), 63), 64);
        check_rule("SIM030", &ptx, "fence.proxy.async.shared::cta;\n", "", &["--delivery", delivery]);
    }
    let wait = "mbarrier.try_wait.parity.shared.b64 %p2, [smem+512], %r4;\n@!%p2 bra W;\n";
    check_rule("SIM035|SIM036", &ptx, wait, "", &["--delivery", "early"]);
    // `mbarrier.try_wait` may return false before the phase is complete, so a program must repeat it in a loop.
    check_rule("SIM031|SIM035", &ptx, "@!%p2 bra W;\n", "", &["--delivery", "late"]);
    check_rule("SIM032", &ptx, "cp.async.bulk.wait_group.read 0;\n", "", &["--delivery", "late"]);
    check_rule("SIM040", &ptx, "%r9, 256", "%r9, 272", &[]);
    check_rule("SIM071", &ptx, "[%rd1], 256, [smem", "[%rd1], 250, [smem", &[]);
}

/// Two bulk copies fill the same bytes of shared memory. The second copy must wait until the threads have read the data of the
/// first copy.
#[test]
fn reuse_of_a_stage_before_its_release_is_a_race() {
    let body = "setp.ne.b32 %p1, %r1, 0;\nmov.b32 %r3, 1;\nmov.b32 %r10, 32;\n\
        @%p1 bra I;\nmbarrier.init.shared.b64 [smem+512], %r3;\nmbarrier.init.shared.b64 [smem+520], %r10;\nmbarrier.init.shared.b64 [smem+528], %r3;\nI:\nbar.sync 0;\n\
        mov.b32 %r9, 128;\nmov.b32 %r4, 0;\nsetp.lt.u32 %p3, %r1, 32;\n@%p3 bra C;\n\
        setp.ne.b32 %p4, %r1, 32;\n@%p4 bra E;\n\
        mbarrier.arrive.expect_tx.shared.b64 _, [smem+512], %r9;\n\
        cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [smem], [%rd1], 128, [smem+512];\n\
        P:\nmbarrier.try_wait.parity.shared.b64 %p5, [smem+512], %r4;\n@!%p5 bra P;\n\
        Q:\nmbarrier.try_wait.parity.shared.b64 %p6, [smem+520], %r4;\n@!%p6 bra Q;\n\
        mbarrier.arrive.expect_tx.shared.b64 _, [smem+528], %r9;\n\
        cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [smem], [%rd1+128], 128, [smem+528];\nbra E;\n\
        C:\nmbarrier.try_wait.parity.shared.b64 %p2, [smem+512], %r4;\n@!%p2 bra C;\n\
        shl.b32 %r5, %r1, 2;\nadd.s32 %r6, %r2, %r5;\nld.shared.b32 %r7, [%r6];\nmbarrier.arrive.shared.b64 _, [smem+520];\n\
        D:\nmbarrier.try_wait.parity.shared.b64 %p2, [smem+528], %r4;\n@!%p2 bra D;\nld.shared.b32 %r8, [%r6];\n\
        add.s32 %r8, %r8, %r7;\ncvt.u64.u32 %rd2, %r5;\nadd.s64 %rd3, %rd1, %rd2;\nst.global.b32 [%rd3+512], %r8;\nE:";
    let ptx = kernel("sm_90a", 64, 1024, body);
    for delivery in ["early", "late"] {
        assert_eq!(output_word(&run(&ptx, &["--delivery", delivery]), 128 + 5), 5 + 37);
        let code = if delivery == "late" { "SIM031|SIM036" } else { "SIM035|SIM036" };
        check_rule(
            code,
            &ptx,
            "Q:\nmbarrier.try_wait.parity.shared.b64 %p6, [smem+520], %r4;\n@!%p6 bra Q;\n",
            "",
            &["--delivery", delivery],
        );
        // Without the CTA barrier, the other warp can use the mbarriers before their initialisation.
        check_rule("SIM035", &ptx, "I:\nbar.sync 0;\n", "I:\n", &["--delivery", delivery]);
    }
}

#[test]
fn accumulators_are_not_accessed_before_the_wait() {
    let registers: Vec<String> = (100..104).map(|n| format!("%r{n}")).collect();
    let registers = registers.join(", ");
    let ones: String = (100..104).map(|n| format!("mov.b32 %r{n}, 0f3F800000;\n")).collect();
    let body = format!(
        "shl.b32 %r3, %r1, 4;\nadd.s32 %r4, %r2, %r3;\nmov.b32 %r5, 0x3c003c00;\nst.shared.v4.b32 [%r4], {{%r5, %r5, %r5, %r5}};\n\
         fence.proxy.async.shared::cta;\nbar.sync 0;\n{ones}\
         shr.u32 %r6, %r2, 4;\ncvt.u64.u32 %rd2, %r6;\nor.b64 %rd3, %rd2, 0x0000001000080000;\n\
         wgmma.fence.sync.aligned;\n\
         wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{{registers}}}, %rd3, %rd3, 1, 1, 1, 0, 0;\n\
         wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nst.global.b32 [%rd1], %r100;"
    );
    let ptx = kernel("sm_90a", 128, 2048, &body);
    for delivery in ["early", "late"] {
        assert_eq!(output_word(&run(&ptx, &["--delivery", delivery]), 0), 17f32.to_bits());
        check_rule("SIM033", &ptx, "wgmma.wait_group.sync.aligned 0;\n", "", &["--delivery", delivery]);
        check_rule("SIM030", &ptx, "fence.proxy.async.shared::cta;\n", "", &["--delivery", delivery]);
        check_rule("SIM035", &ptx, "bar.sync 0;\n", "", &["--delivery", delivery]);
    }
}

/// An MMA of shape 128 by 32 by 16, whose operands are ones in shared memory and whose accumulator is in tensor memory. Each thread
/// loads an element of the result.
const TENSOR_MEMORY_MMA: &str = "setp.ne.b32 %p1, %r1, 0;\nmov.b32 %r3, 1;\n@!%p1 mbarrier.init.shared.b64 [smem+8192], %r3;\n\
    shl.b32 %r4, %r1, 5;\nadd.s32 %r5, %r2, %r4;\nmov.b32 %r6, 0x3c003c00;\n\
    st.shared.v4.b32 [%r5], {%r6, %r6, %r6, %r6};\nst.shared.v4.b32 [%r5+16], {%r6, %r6, %r6, %r6};\n\
    fence.proxy.async.shared::cta;\nmov.b32 %r7, 32;\nsetp.ge.u32 %p2, %r1, 32;\n@%p2 bra A;\n\
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [smem+8200], %r7;\n\
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\nA:\nbar.sync 0;\nld.shared.b32 %r8, [smem+8200];\n\
    shr.u32 %r9, %r2, 4;\ncvt.u64.u32 %rd2, %r9;\nor.b64 %rd3, %rd2, 0x0000401000080000;\nmov.b32 %r10, 0x8080010;\n\
    setp.ne.b32 %p3, %r3, 1;\n@%p1 bra B;\n\
    tcgen05.mma.cta_group::1.kind::f16 [%r8], %rd3, %rd3, %r10, %p3;\n\
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [smem+8192];\nB:\nmov.b32 %r11, 0;\n\
    W:\nmbarrier.try_wait.parity.shared.b64 %p4, [smem+8192], %r11;\n@!%p4 bra W;\n\
    tcgen05.fence::after_thread_sync;\nand.b32 %r12, %r1, 96;\nshl.b32 %r13, %r12, 16;\nadd.s32 %r14, %r13, %r8;\n\
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r15}, [%r14+31];\ntcgen05.wait::ld.sync.aligned;\n\
    shl.b32 %r16, %r1, 2;\ncvt.u64.u32 %rd4, %r16;\nadd.s64 %rd5, %rd1, %rd4;\nst.global.b32 [%rd5], %r15;\n\
    bar.sync 0;\n@%p2 bra E;\ntcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, %r7;\nE:";

#[test]
fn tensor_memory() {
    let ptx = kernel("sm_100a", 128, 10240, TENSOR_MEMORY_MMA);
    for delivery in ["early", "late"] {
        assert_eq!(output_word(&run(&ptx, &["--delivery", delivery]), 127), 16f32.to_bits());
        check_rule("SIM030", &ptx, "fence.proxy.async.shared::cta;\n", "", &["--delivery", delivery]);
        check_rule("SIM038", &ptx, "tcgen05.fence::after_thread_sync;\n", "", &["--delivery", delivery]);
        check_rule("SIM033", &ptx, "tcgen05.wait::ld.sync.aligned;\n", "", &["--delivery", delivery]);
    }
    let unfinished = check_rule("SIM034", &ptx, "@!%p4 bra W;\n", "", &["--delivery", "late"]);
    assert!(unfinished.errors.contains("in flight"), "{}", unfinished.errors);
    check_rule("SIM040", &ptx, "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [smem+8192];\n", "", &[]);
    check_rule("SIM081", &ptx, "%r1, 96", "%r1, 32", &[]);
    check_rule("SIM081", &ptx, "[%r14+31]", "[%r14+32]", &[]);
    check_rule("SIM081", &ptx, "%r13, %r12, 16;", "%r13, %r12, 16;\nor.b32 %r13, %r13, 0x100000;", &[]);
    check_rule("SIM083", &ptx, "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, %r7;\n", "", &[]);
    check_rule("SIM080", &ptx, "mov.b32 %r7, 32;", "mov.b32 %r7, 33;", &[]);
}

/// PTX from NVIDIA's compilers violates these rules. A violation is therefore a warning, unless `--races` is `error`.
#[test]
fn rules_that_other_compilers_violate_are_warnings() {
    let warp_group_mma = warp_group_mma();
    let fence = "bra SKIP;\nwgmma.fence.sync.aligned;\n";
    let tensor = kernel("sm_100a", 128, 10240, TENSOR_MEMORY_MMA);
    let guard = kernel("sm_80", 32, 64, "mov.b32 %r3, 1;\nsetp.eq.b32 %p1, %r3, 0;\n@%p1 bra L;\nst.global.b32 [%rd1], 5;\nL:");
    let cases = [
        ("SIM020", guard.replace("mov.b32 %r3, 1;\n", ""), 0),
        ("SIM030", tensor.replace("fence.proxy.async.shared::cta;\n", ""), 16f32.to_bits()),
        ("SIM037", warp_group_mma.replace(fence, &format!("{fence}add.s32 %r102, %r102, 0;\n")), 17f32.to_bits()),
        // Every warp uses an address with lane 0, but the hardware accesses the lanes of the warp.
        ("SIM081", tensor.replace("%r1, 96", "%r1, 0"), 16f32.to_bits()),
    ];
    for (code, ptx, expected) in cases {
        for delivery in ["early", "late"] {
            let warned = run(&ptx, &["--races", "warn", "--delivery", delivery]);
            assert_eq!(warned.code, 0, "{code}: {}", warned.errors);
            assert_eq!(warned.errors.matches(&format!("warning[{code}]")).count(), 1, "{code}: {}", warned.errors);
            assert!(code == "SIM020" || output_word(&warned, 0) == expected, "{code}");
            assert_eq!(run(&ptx, &["--delivery", delivery]).code, 1, "{code}");
        }
    }
}

/// A proxy fence must follow a write of the generic proxy before TMA overwrites the same bytes.
#[test]
fn a_generic_write_before_a_tma_write_needs_a_proxy_fence() {
    let body = "setp.ne.b32 %p1, %r1, 0;\nmov.b32 %r3, 1;\nst.shared.b32 [%r2], %r3;\n\
        @!%p1 mbarrier.init.shared.b64 [smem+512], %r3;\nfence.proxy.async.shared::cta;\nbar.sync 0;\nmov.b32 %r9, 256;\n@%p1 bra W;\n\
        mbarrier.arrive.expect_tx.shared.b64 _, [smem+512], %r9;\n\
        cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [smem], [%rd1], 256, [smem+512];\n\
        W:\nmov.b32 %r4, 0;\nmbarrier.try_wait.parity.shared.b64 %p2, [smem+512], %r4;\n@!%p2 bra W;";
    let ptx = kernel("sm_90a", 32, 1024, body);
    for delivery in ["early", "late"] {
        check_rule("SIM030", &ptx, "fence.proxy.async.shared::cta;\n", "", &["--delivery", delivery]);
    }
}

/// Returns PTX in which a warp group executes an MMA of ones. Each accumulator starts at 1 and becomes 17.
fn warp_group_mma() -> String {
    let registers: Vec<String> = (100..104).map(|n| format!("%r{n}")).collect();
    let registers = registers.join(", ");
    let ones: String = (100..104).map(|n| format!("mov.b32 %r{n}, 0f3F800000;\n")).collect();
    let mma_text = format!("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{{registers}}}, %rd3, %rd3, 1, 1, 1, 0, 0;\n");
    let body = format!(
        "shl.b32 %r3, %r1, 4;\nadd.s32 %r4, %r2, %r3;\nmov.b32 %r5, 0x3c003c00;\nst.shared.v4.b32 [%r4], {{%r5, %r5, %r5, %r5}};\n\
         fence.proxy.async.shared::cta;\nbar.sync 0;\n{ones}\
         shr.u32 %r6, %r2, 4;\ncvt.u64.u32 %rd2, %r6;\nor.b64 %rd3, %rd2, 0x0000001000080000;\nsetp.ge.u32 %p1, %r1, 128;\n\
         @%p1 bra SKIP;\nwgmma.fence.sync.aligned;\n{mma_text}bra DONE;\nSKIP:\nwgmma.fence.sync.aligned;\n{mma_text}DONE:\n\
         wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nbar.sync 1;\nst.shared.b32 [%r4], %r5;\nst.global.b32 [%rd1], %r100;"
    );
    kernel("sm_90a", 128, 2048, &body)
}

#[test]
fn wgmma_registers_are_fenced() {
    let ptx = warp_group_mma();
    for delivery in ["early", "late"] {
        let options = ["--delivery", delivery];
        assert_eq!(output_word(&run(&ptx, &options), 0), 17f32.to_bits());
        check_rule("SIM037", &ptx, "bra SKIP;\nwgmma.fence.sync.aligned;\n", "bra SKIP;\n", &options);
        let fence = "bra SKIP;\nwgmma.fence.sync.aligned;\n";
        check_rule("SIM037", &ptx, fence, &format!("{fence}add.s32 %r102, %r102, 0;\n"), &options);
    }
}

#[test]
fn all_warps_of_a_group_issue_the_same_wgmma() {
    let ptx = warp_group_mma();
    check_rule("SIM055", &ptx, "%r1, 128;", "%r1, 96;", &[]);
    let exit_early = "mov.u32 %r9, 96;\nsetp.ge.u32 %p1, %r1, %r9;\n@%p1 ret;\n@%p1 bra SKIP;";
    let broken = check_rule("SIM040", &ptx, "@%p1 bra SKIP;", exit_early, &[]);
    assert!(broken.errors.contains("waits for warps [3] of its group"), "{}", broken.errors);
}

/// A `wgmma` reads its operands until the `wgmma.wait_group` that waits for it.
#[test]
fn wgmma_operands_are_not_written_before_the_wait() {
    let late = ["--delivery", "late"];
    let wait = "wgmma.wait_group.sync.aligned 0;\nbar.sync 1;\nst.shared.b32 [%r4], %r5;\n";
    let swapped = "st.shared.b32 [%r4], %r5;\nwgmma.wait_group.sync.aligned 0;\nbar.sync 1;\n";
    check_rule("SIM032", &warp_group_mma(), wait, swapped, &late);
    let ptx =
        kernel("sm_100a", 128, 10240, TENSOR_MEMORY_MMA).replace("@!%p4 bra W;\n", "@!%p4 bra W;\nst.shared.b32 [%r5], %r6;\n");
    let (write, wait) = ("st.shared.b32 [%r5], %r6;\n", "B:\nmov.b32 %r11, 0;\n");
    assert_eq!(run(&ptx, &late).code, 0, "{}", run(&ptx, &late).errors);
    let early_write = ptx.replace(write, "").replace(wait, &format!("{wait}{write}"));
    for (delivery, races, codes) in [("late", "ignore", ["SIM032"; 2]), ("early", "error", ["SIM035", "SIM036"])] {
        let broken = run(&early_write, &["--delivery", delivery, "--races", races]);
        assert!(codes.iter().any(|code| broken.errors.contains(code)), "{}", broken.errors);
    }
}

#[test]
fn uninitialised_tensor_memory_is_not_read() {
    let ptx = kernel("sm_100a", 128, 10240, TENSOR_MEMORY_MMA);
    check_rule("SIM020", &ptx, "setp.ne.b32 %p3, %r3, 1;", "setp.eq.b32 %p3, %r3, 1;", &[]);
    // Column 32 is allocated, but no MMA wrote it.
    let ptx = ptx
        .replace("mov.b32 %r7, 32;", "mov.b32 %r7, 64;")
        .replace("add.s64 %rd5, %rd1, %rd4;", "mov.b64 %rd5, %rd1;\nsetp.eq.b32 %p5, %r15, 0;\n@%p5 trap;");
    check_rule("SIM020", &ptx, "[%r14+31]", "[%r14+32]", &[]);
}

/// Warps 0 and 4 access the same lanes of tensor memory. Warp 0 stores, warp 4 loads, and then warp 0 stores again.
const TMEM_HANDOFF: &str = "setp.ge.u32 %p1, %r1, 32;\nmov.b32 %r7, 32;\nsetp.lt.u32 %p2, %r1, 128;\n\
    @%p1 bra A;\ntcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [smem], %r7;\n\
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\nA:\nbar.sync 0;\nld.shared.b32 %r8, [smem];\n\
    @%p1 bra B;\ntcgen05.st.sync.aligned.32x32b.x1.b32 [%r8], {%r1};\ntcgen05.wait::st.sync.aligned;\n\
    tcgen05.fence::before_thread_sync;\nB:\nbar.sync 1;\nsetp.ge.u32 %p4, %r1, 160;\n@%p2 bra C;\n@%p4 bra C;\n\
    tcgen05.fence::after_thread_sync;\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {%r9}, [%r8];\ntcgen05.wait::ld.sync.aligned;\n\
    st.global.b32 [%rd1], %r9;\ntcgen05.fence::before_thread_sync;\nC:\nbar.sync 2;\n@%p1 bra E;\n\
    tcgen05.fence::after_thread_sync;\ntcgen05.st.sync.aligned.32x32b.x1.b32 [%r8], {%r7};\ntcgen05.wait::st.sync.aligned;\n\
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, %r7;\nE:";

#[test]
fn tensor_memory_is_fenced_between_warps() {
    let ptx = kernel("sm_100a", 256, 64, TMEM_HANDOFF);
    let without_second = |text: &str| {
        let at = ptx.find("C:\nbar.sync 2").unwrap();
        let from = if text.contains("before") { ptx[..at].rfind(text) } else { ptx[at..].find(text).map(|found| at + found) };
        let from = from.unwrap();
        format!("{}{}", &ptx[..from], &ptx[from + text.len()..])
    };
    for delivery in ["early", "late"] {
        let options = ["--delivery", delivery];
        check_rule("SIM038", &ptx, "tcgen05.fence::before_thread_sync;\n", "", &options);
        check_rule("SIM038", &ptx, "tcgen05.fence::after_thread_sync;\n", "", &options);
        check_rule("SIM038", &ptx, "bar.sync 1;\n", "", &options);
        check_rule("SIM033", &ptx, "tcgen05.wait::ld.sync.aligned;\n", "", &options);
        // Warp 4 does not use the loaded value, and warp 0 overwrites the tensor memory.
        let unused = ptx.replace("st.global.b32 [%rd1], %r9;\n", "");
        check_rule("SIM038", &unused, "tcgen05.wait::ld.sync.aligned;\n", "", &options);
        for fence in ["tcgen05.fence::before_thread_sync;\n", "tcgen05.fence::after_thread_sync;\n"] {
            let broken = run(&without_second(fence), &options);
            assert!(broken.errors.contains("[SIM038]"), "{}", broken.errors);
        }
    }
    check_rule("SIM034", &ptx, "tcgen05.wait::st.sync.aligned;\n", "", &["--delivery", "late"]);
}

#[test]
fn tensor_memory_mmas_are_committed() {
    let ptx = kernel("sm_100a", 128, 10240, TENSOR_MEMORY_MMA);
    let wait = "W:\nmbarrier.try_wait.parity.shared.b64 %p4, [smem+8192], %r11;\n@!%p4 bra W;\n";
    check_rule("SIM038", &ptx, wait, "tcgen05.fence::before_thread_sync;\nbar.sync 0;\ntcgen05.fence::after_thread_sync;\n", &[]);
    check_rule("SIM034", &ptx, wait, "", &["--delivery", "late", "--races", "ignore"]);
}
