//! Each rule that `tile-sim` holds a program to: a program that keeps it, and the same one with the fault.

use std::path::PathBuf;
use std::process::Command;

struct Outcome {
    code: i32,
    errors: String,
    printed: String,
    /// The only buffer, `out`.
    out: Vec<u8>,
}

/// A kernel of `threads` threads with one parameter, the address of a buffer of 1024 bytes that holds 0, 1, 2, … as words.
fn kernel(target: &str, threads: u32, shared: u32, body: &str) -> String {
    format!(
        ".version 9.0\n.target {target}\n.address_size 64\n.visible .global .align 4 .b8 unused[4];\n\
         .visible .entry k(.param .u64 k_param_0)\n.reqntid {threads}\n{{\n\
         .reg .pred %p<20>;\n.reg .b16 %rs<20>;\n.reg .b32 %r<300>;\n.reg .b64 %rd<40>;\n\
         .shared .align 1024 .b8 smem[{shared}];\n\
         ld.param.b64 %rd1, [k_param_0];\nmov.u32 %r1, %tid.x;\nmov.b32 %r2, smem;\n{body}\nret;\n}}\n"
    )
}

fn run(ptx: &str, options: &[&str]) -> Outcome {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let folder: PathBuf = std::env::temp_dir().join(format!("tile-sim-rules-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let words: Vec<u8> = (0..256u32).flat_map(u32::to_le_bytes).collect();
    std::fs::write(folder.join("out.bin"), words).unwrap();
    let launch = r#"{"entry": null, "grid": [1, 1, 1], "params": [{"ptr": "out"}], "outputs": ["out"],
        "buffers": [{"name": "out", "file": "out.bin", "align": 256, "address": 65536}]}"#;
    std::fs::write(folder.join("launch.json"), launch).unwrap();
    std::fs::write(folder.join("k.ptx"), ptx).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_tile-sim"))
        .current_dir(&folder)
        .args(["k.ptx", "--launch", "launch.json", "--out-dir", "result", "--races", "error"])
        .args(options)
        .output()
        .unwrap();
    let outcome = Outcome {
        code: output.status.code().unwrap_or(-1),
        errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        printed: String::from_utf8_lossy(&output.stdout).into_owned(),
        out: std::fs::read(folder.join("result/out.bin")).unwrap_or_default(),
    };
    std::fs::remove_dir_all(&folder).unwrap();
    outcome
}

/// The program runs; with `good` replaced by `bad` it is refused with a code (or one of several, where the order of warps decides).
fn rule(code: &str, ptx: &str, good: &str, bad: &str, options: &[&str]) -> Outcome {
    let kept = run(ptx, options);
    assert_eq!(kept.code, 0, "the corrected program for {code}: {}", kept.errors);
    assert!(ptx.contains(good), "'{good}' is not in the program");
    let broken = run(&ptx.replacen(good, bad, 1), options);
    assert_eq!(broken.code, 1, "{code}: {}", broken.errors);
    let found = code.split('|').any(|code| broken.errors.contains(&format!("[{code}]")));
    assert!(found, "{code}: {}", broken.errors);
    broken
}

fn word(outcome: &Outcome, index: usize) -> u32 {
    u32::from_le_bytes(outcome.out[4 * index..4 * index + 4].try_into().unwrap())
}

#[test]
fn global_bounds_and_alignment() {
    let ptx = kernel("sm_80", 32, 64, "mul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd3, %rd1, %rd2;\nst.global.b32 [%rd3+896], %r1;");
    let broken = rule("SIM010", &ptx, "+896", "+900", &[]);
    assert!(broken.errors.contains("k.ptx:18") && broken.errors.contains("lanes 31"), "{}", broken.errors);
    assert!(broken.errors.contains("'out' has 1024 bytes"), "{}", broken.errors);
    rule("SIM011", &ptx, "+896", "+898", &[]);
}

#[test]
fn shared_bounds() {
    let ptx = kernel("sm_80", 32, 128, "shl.b32 %r3, %r1, 2;\nadd.s32 %r4, %r2, %r3;\nst.shared.b32 [%r4], %r1;");
    rule("SIM010", &ptx, "[%r4]", "[%r4+4]", &[]);
}

#[test]
fn registers_and_memory_that_nothing_set() {
    let ptx = kernel("sm_80", 32, 64, "mov.b32 %r3, 1;\nsetp.eq.b32 %p1, %r3, 0;\n@%p1 bra L;\nst.global.b32 [%rd1], %r3;\nL:");
    rule("SIM020", &ptx, "mov.b32 %r3, 1;", "", &[]);
    let ptx = kernel(
        "sm_80",
        32,
        64,
        "mov.b32 %r4, 0;\nst.shared.b32 [%r2], %r4;\nld.shared.b32 %r3, [%r2];\nadd.s32 %r5, %r2, %r3;\nst.shared.b32 [%r5+16], %r4;",
    );
    rule("SIM020", &ptx, "st.shared.b32 [%r2], %r4;\n", "", &[]);
}

const EXCHANGE: &str = "shl.b32 %r3, %r1, 2;\nadd.s32 %r4, %r2, %r3;\nst.shared.b32 [%r4], %r1;\nbar.sync 0;\n\
    xor.b32 %r5, %r3, 128;\nadd.s32 %r6, %r2, %r5;\nld.shared.b32 %r7, [%r6];\nbar.sync 1;\nst.shared.b32 [%r4], %r7;\n\
    cvt.u64.u32 %rd2, %r3;\nadd.s64 %rd3, %rd1, %rd2;\nst.global.b32 [%rd3], %r7;";

#[test]
fn missing_barriers_between_warps() {
    let ptx = kernel("sm_80", 64, 256, EXCHANGE);
    assert_eq!(word(&run(&ptx, &[]), 3), 35);
    rule("SIM035|SIM036", &ptx, "bar.sync 0;\n", "", &[]);
    rule("SIM035|SIM036", &ptx, "bar.sync 1;\n", "", &[]);
    for seed in ["1", "2", "3"] {
        assert_eq!(word(&run(&ptx, &["--schedule-seed", seed]), 40), 8);
    }
}

#[test]
fn a_missing_barrier_before_a_read() {
    let body = "setp.ge.u32 %p1, %r1, 32;\n@%p1 bra L;\nst.shared.b32 [%r2], %r1;\nL:\nbar.sync 0;\nld.shared.b32 %r3, [%r2];";
    let broken = rule("SIM035", &kernel("sm_80", 64, 64, body), "bar.sync 0;\n", "", &[]);
    assert!(broken.errors.contains("it was written in line 18"), "{}", broken.errors);
}

#[test]
fn barriers_with_wrong_counts() {
    let ptx = kernel("sm_80", 64, 64, "barrier.sync 1, 64;");
    let broken = rule("SIM040", &ptx, "1, 64", "1, 96", &[]);
    assert!(broken.errors.contains("barrier 1, at which 64 of 96 threads are"), "{}", broken.errors);
    rule("SIM050", &ptx, "1, 64", "1, 60", &[]);
    rule("SIM050", &ptx, "1, 64", "16, 64", &[]);
    let ptx = kernel("sm_80", 64, 64, "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra L;\nbar.sync 2, 64;\nbra M;\nL:\nbar.sync 2, 64;\nM:");
    rule("SIM040", &ptx, "M;\nL:\nbar.sync 2, 64;", "M;\nL:\nbar.sync 2, 32;", &[]);
    rule("SIM051", &ptx, "M;\nL:\nbar.sync 2, 64;", "M;\nL:\nbar.sync 2, 96;", &[]);
}

#[test]
fn lanes_missing_from_a_collective() {
    let body = "mov.b32 %r3, 5;\nsetp.lt.u32 %p1, %r1, 16;\n@%p1 bra L;\nmov.b32 %r3, 6;\nL:\n\
        shfl.sync.idx.b32 %r4, %r3, 31, 31, -1;\nst.global.b32 [%rd1], %r4;";
    let ptx = kernel("sm_80", 32, 64, body);
    assert_eq!(word(&run(&ptx, &[]), 0), 6);
    let broken = rule("SIM040", &ptx, "mov.b32 %r3, 6;\n", "W: bra W2;\nW2: bar.warp.sync 0xffffffff;\n", &[]);
    assert!(broken.errors.contains("its lanes 0-15 to come"), "{}", broken.errors);
    rule("SIM052", &ptx, "31, 31, -1", "31, 31, 0xffff", &[]);
}

const BARRIER: &str = "setp.ne.b32 %p1, %r1, 0;\nmov.b32 %r3, 32;\n@!%p1 mbarrier.init.shared.b64 [smem], %r3;\nbar.sync 0;\n\
    mbarrier.arrive.shared.b64 _, [smem];\nmov.b32 %r4, 0;\nW:\nmbarrier.try_wait.parity.shared.b64 %p2, [smem], %r4;\n@!%p2 bra W;";

#[test]
fn mbarriers_with_wrong_counts() {
    let ptx = kernel("sm_90a", 32, 64, BARRIER);
    let broken = rule("SIM040", &ptx, "%r3, 32", "%r3, 33", &[]);
    assert!(broken.errors.contains("1 of 33 arrivals"), "{}", broken.errors);
    rule("SIM054", &ptx, "%r3, 32", "%r3, 20", &[]);
    rule("SIM053", &ptx, "@!%p1 mbarrier.init.shared.b64 [smem], %r3;\n", "", &[]);
}

#[test]
fn asynchronous_copies_are_waited_for() {
    let body = "shl.b32 %r3, %r1, 4;\nadd.s32 %r4, %r2, %r3;\ncvt.u64.u32 %rd2, %r3;\nadd.s64 %rd3, %rd1, %rd2;\n\
        cp.async.ca.shared.global [%r4], [%rd3], 16;\ncp.async.commit_group;\ncp.async.wait_group 0;\nld.shared.b32 %r5, [%r4];\n\
        st.global.b32 [%rd3+512], %r5;";
    let ptx = kernel("sm_80", 32, 512, body);
    assert_eq!(word(&run(&ptx, &["--delivery", "late"]), 132), 4);
    rule("SIM031", &ptx, "wait_group 0", "wait_group 1", &["--delivery", "late"]);
    rule("SIM031", &ptx, "cp.async.commit_group;\n", "", &["--delivery", "late"]);
}

/// One thread copies 256 bytes in, all wait, each adds one, one thread copies them out.
const BULK: &str = "setp.ne.b32 %p1, %r1, 0;\nmov.b32 %r3, 1;\n@!%p1 mbarrier.init.shared.b64 [smem+512], %r3;\nbar.sync 0;\n\
    mov.b32 %r9, 256;\n@%p1 bra W;\nmbarrier.arrive.expect_tx.shared.b64 _, [smem+512], %r9;\n\
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [smem], [%rd1], 256, [smem+512];\n\
    W:\nmov.b32 %r4, 0;\nmbarrier.try_wait.parity.shared.b64 %p2, [smem+512], %r4;\n@!%p2 bra W;\n\
    shl.b32 %r5, %r1, 2;\nadd.s32 %r6, %r2, %r5;\nld.shared.b32 %r7, [%r6];\nadd.s32 %r8, %r7, 1;\nst.shared.b32 [%r6], %r8;\n\
    fence.proxy.async.shared::cta;\nbar.sync 0;\n@%p1 bra E;\n\
    cp.async.bulk.global.shared::cta.bulk_group [%rd1], [smem], 256;\ncp.async.bulk.commit_group;\n\
    cp.async.bulk.wait_group.read 0;\nst.shared.b32 [smem], %r3;\nE:";

#[test]
fn bulk_copies() {
    let ptx = kernel("sm_90a", 64, 1024, BULK);
    for delivery in ["early", "late"] {
        assert_eq!(word(&run(&ptx, &["--delivery", delivery]), 63), 64);
        rule("SIM030", &ptx, "fence.proxy.async.shared::cta;\n", "", &["--delivery", delivery]);
    }
    let wait = "mbarrier.try_wait.parity.shared.b64 %p2, [smem+512], %r4;\n@!%p2 bra W;\n";
    rule("SIM035|SIM036", &ptx, wait, "", &["--delivery", "early"]);
    // A wait may give up, so it needs its loop.
    rule("SIM031|SIM035", &ptx, "@!%p2 bra W;\n", "", &["--delivery", "late"]);
    rule("SIM032", &ptx, "cp.async.bulk.wait_group.read 0;\n", "", &["--delivery", "late"]);
    rule("SIM040", &ptx, "%r9, 256", "%r9, 272", &[]);
    rule("SIM071", &ptx, "[%rd1], 256, [smem", "[%rd1], 250, [smem", &[]);
}

/// A slot is filled twice; the second copy has to wait until the first was read.
#[test]
fn a_slot_is_released_before_it_is_used_again() {
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
        assert_eq!(word(&run(&ptx, &["--delivery", delivery]), 128 + 5), 5 + 37);
        let code = if delivery == "late" { "SIM031|SIM036" } else { "SIM035|SIM036" };
        rule(
            code,
            &ptx,
            "Q:\nmbarrier.try_wait.parity.shared.b64 %p6, [smem+520], %r4;\n@!%p6 bra Q;\n",
            "",
            &["--delivery", delivery],
        );
    }
}

#[test]
fn accumulators_are_left_alone_until_the_wait() {
    let registers: Vec<String> = (100..104).map(|n| format!("%r{n}")).collect();
    let registers = registers.join(", ");
    let zero: String = (100..104).map(|n| format!("mov.b32 %r{n}, 0f3F800000;\n")).collect();
    let body = format!(
        "shl.b32 %r3, %r1, 4;\nadd.s32 %r4, %r2, %r3;\nmov.b32 %r5, 0x3c003c00;\nst.shared.v4.b32 [%r4], {{%r5, %r5, %r5, %r5}};\n\
         fence.proxy.async.shared::cta;\nbar.sync 0;\n{zero}\
         shr.u32 %r6, %r2, 4;\ncvt.u64.u32 %rd2, %r6;\nor.b64 %rd3, %rd2, 0x0000001000080000;\n\
         wgmma.fence.sync.aligned;\n\
         wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{{registers}}}, %rd3, %rd3, 1, 1, 1, 0, 0;\n\
         wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nst.global.b32 [%rd1], %r100;"
    );
    let ptx = kernel("sm_90a", 128, 2048, &body);
    for delivery in ["early", "late"] {
        assert_eq!(word(&run(&ptx, &["--delivery", delivery]), 0), 17f32.to_bits());
        rule("SIM033", &ptx, "wgmma.wait_group.sync.aligned 0;\n", "", &["--delivery", delivery]);
        rule("SIM030", &ptx, "fence.proxy.async.shared::cta;\n", "", &["--delivery", delivery]);
        rule("SIM035", &ptx, "bar.sync 0;\n", "", &["--delivery", delivery]);
    }
}

/// A product of ones in tensor memory, 128 by 32 by 16, and back.
const TENSOR: &str = "setp.ne.b32 %p1, %r1, 0;\nmov.b32 %r3, 1;\n@!%p1 mbarrier.init.shared.b64 [smem+8192], %r3;\n\
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
    and.b32 %r12, %r1, 96;\nshl.b32 %r13, %r12, 16;\nadd.s32 %r14, %r13, %r8;\n\
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r15}, [%r14+31];\ntcgen05.wait::ld.sync.aligned;\n\
    shl.b32 %r16, %r1, 2;\ncvt.u64.u32 %rd4, %r16;\nadd.s64 %rd5, %rd1, %rd4;\nst.global.b32 [%rd5], %r15;\n\
    bar.sync 0;\n@%p2 bra E;\ntcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, %r7;\nE:";

#[test]
fn tensor_memory() {
    let ptx = kernel("sm_100a", 128, 10240, TENSOR);
    for delivery in ["early", "late"] {
        assert_eq!(word(&run(&ptx, &["--delivery", delivery]), 127), 16f32.to_bits());
        rule("SIM030", &ptx, "fence.proxy.async.shared::cta;\n", "", &["--delivery", delivery]);
    }
    rule("SIM034", &ptx, "@!%p4 bra W;\n", "", &["--delivery", "late"]).errors.contains("under way");
    rule("SIM040", &ptx, "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [smem+8192];\n", "", &[]);
    rule("SIM081", &ptx, "%r1, 96", "%r1, 32", &[]);
    rule("SIM081", &ptx, "[%r14+31]", "[%r14+32]", &[]);
    rule("SIM083", &ptx, "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, %r7;\n", "", &[]);
    rule("SIM080", &ptx, "mov.b32 %r7, 32;", "mov.b32 %r7, 33;", &[]);
}

#[test]
fn traps_loops_and_what_is_printed() {
    let ptx = kernel("sm_80", 32, 64, "setp.eq.b32 %p1, %r1, 77;\n@%p1 trap;");
    rule("SIM060", &ptx, "77", "7", &[]);
    let ptx = kernel("sm_80", 32, 64, "L:\nadd.s32 %r3, %r1, 1;\nsetp.eq.b32 %p1, %r1, 77;\n@%p1 bra L;");
    rule("SIM041", &ptx, "77", "7", &["--instruction-limit", "1000"]);
    let mut ptx = kernel(
        "sm_80",
        1,
        64,
        ".local .align 8 .b8 arguments[16];\nmov.b64 %rd2, arguments;\nst.local.b32 [%rd2], -3;\nst.local.b64 [%rd2+8], 0d3FF8000000000000;\n\
         cvta.local.u64 %rd3, %rd2;\nmov.b64 %rd4, text;\n{\n.param .b64 a;\n.param .b64 b;\n.param .b32 c;\nst.param.b64 [a], %rd4;\n\
         st.param.b64 [b], %rd3;\ncall.uni (c), vprintf, (a, b);\nld.param.b32 %r3, [c];\n}",
    );
    let declared = ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n\
        .global .align 1 .b8 text[16] = {91, 37, 53, 100, 93, 32, 37, 46, 50, 102, 32, 37, 37, 10};\n.visible .entry";
    ptx = ptx.replace(".visible .entry", declared);
    assert_eq!(run(&ptx, &[]).printed, "[   -3] 1.50 %\n");
}

#[test]
fn what_is_not_known_is_refused() {
    let refused = run(&kernel("sm_80", 32, 64, "add.rn.ftz.new.f32 %r3, %r3, %r3;"), &[]);
    assert_eq!(refused.code, 3, "{}", refused.errors);
    assert!(
        refused.errors.contains("'add.rn.ftz.new.f32' is not supported") && refused.errors.contains("k.ptx:16"),
        "{}",
        refused.errors
    );
    assert_eq!(run(&kernel("sm_80", 32, 64, "add.s32 %r3, %q3, 1;"), &[]).code, 1);
    assert_eq!(run("garbage", &[]).code, 1);
}
