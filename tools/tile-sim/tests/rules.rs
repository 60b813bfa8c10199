//! The rules that `tile-sim` checks. Each test runs a correct program and faulty variants. The tests of the rules for asynchronous
//! work are in `asynchronous.rs`.

mod support;

use support::{check_rule, kernel, output_word, run};

#[test]
fn global_accesses_out_of_bounds_or_misaligned_are_faults() {
    let ptx = kernel("sm_80", 32, 64, "mul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd3, %rd1, %rd2;\nst.global.b32 [%rd3+896], %r1;");
    let broken = check_rule("SIM010", &ptx, "+896", "+900", &[]);
    assert!(broken.errors.contains("k.ptx:18") && broken.errors.contains("lanes 31"), "{}", broken.errors);
    assert!(broken.errors.contains("'out' has 1024 bytes"), "{}", broken.errors);
    check_rule("SIM011", &ptx, "+896", "+898", &[]);
}

#[test]
fn shared_accesses_out_of_bounds_are_faults() {
    let ptx = kernel("sm_80", 32, 128, "shl.b32 %r3, %r1, 2;\nadd.s32 %r4, %r2, %r3;\nst.shared.b32 [%r4], %r1;");
    check_rule("SIM010", &ptx, "[%r4]", "[%r4+4]", &[]);
}

#[test]
fn uses_of_undefined_registers_and_memory_are_faults() {
    let ptx = kernel("sm_80", 32, 64, "mov.b32 %r3, 1;\nsetp.eq.b32 %p1, %r3, 0;\n@%p1 bra L;\nst.global.b32 [%rd1], %r3;\nL:");
    check_rule("SIM020", &ptx, "mov.b32 %r3, 1;", "", &[]);
    let ptx = kernel(
        "sm_80",
        32,
        64,
        "mov.b32 %r4, 0;\nst.shared.b32 [%r2], %r4;\nld.shared.b32 %r3, [%r2];\nadd.s32 %r5, %r2, %r3;\nst.shared.b32 [%r5+16], %r4;",
    );
    check_rule("SIM020", &ptx, "st.shared.b32 [%r2], %r4;\n", "", &[]);
    // A packed operand may contain an undefined part if no instruction uses this part.
    let body = "mov.b32 %r3, 1;\nmov.b64 %rd2, {%r3, %r4};\nmov.b64 {%r5, _}, %rd2;\nsetp.eq.b32 %p1, %r5, 0;\n@%p1 bra L;\n\
        st.global.b32 [%rd1], %r5;\nL:";
    check_rule("SIM020", &kernel("sm_80", 32, 64, body), "mov.b32 %r3, 1;", "", &[]);
    // A source of a permutation may be undefined if the selector uses none of its bytes.
    let body =
        "mov.b32 %r3, 1;\nprmt.b32 %r5, %r3, %r4, 0x3210;\nsetp.eq.b32 %p1, %r5, 0;\n@%p1 bra L;\nst.global.b32 [%rd1], %r5;\nL:";
    check_rule("SIM020", &kernel("sm_80", 32, 64, body), "mov.b32 %r3, 1;", "", &[]);
}

/// Each thread stores its index to shared memory, loads the index of a thread of the other warp, and stores this index to the
/// buffer.
const WARP_EXCHANGE: &str = "shl.b32 %r3, %r1, 2;\nadd.s32 %r4, %r2, %r3;\nst.shared.b32 [%r4], %r1;\nbar.sync 0;\n\
    xor.b32 %r5, %r3, 128;\nadd.s32 %r6, %r2, %r5;\nld.shared.b32 %r7, [%r6];\nbar.sync 1;\nst.shared.b32 [%r4], %r7;\n\
    cvt.u64.u32 %rd2, %r3;\nadd.s64 %rd3, %rd1, %rd2;\nst.global.b32 [%rd3], %r7;";

#[test]
fn a_missing_barrier_between_warps_is_a_race() {
    let ptx = kernel("sm_80", 64, 256, WARP_EXCHANGE);
    assert_eq!(output_word(&run(&ptx, &[]), 3), 35);
    check_rule("SIM035|SIM036", &ptx, "bar.sync 0;\n", "", &[]);
    check_rule("SIM035|SIM036", &ptx, "bar.sync 1;\n", "", &[]);
    for seed in ["1", "2", "3"] {
        assert_eq!(output_word(&run(&ptx, &["--schedule-seed", seed]), 40), 8);
    }
}

#[test]
fn a_read_without_a_barrier_after_the_write_is_a_race() {
    let body = "setp.ge.u32 %p1, %r1, 32;\n@%p1 bra L;\nst.shared.b32 [%r2], %r1;\nL:\nbar.sync 0;\nld.shared.b32 %r3, [%r2];";
    let broken = check_rule("SIM035", &kernel("sm_80", 64, 64, body), "bar.sync 0;\n", "", &[]);
    assert!(broken.errors.contains("the write is in line 18"), "{}", broken.errors);
}

/// Two unordered writes to the same address are a race if their values differ. Several warps may write the same value without
/// order.
#[test]
fn unordered_writes_of_different_values_are_a_race() {
    let body = "setp.ge.u32 %p1, %r1, 32;\nmov.b32 %r3, 1;\nmov.b32 %r4, 2;\n@%p1 bra L;\nst.shared.b32 [%r2], %r3;\nL:\nbar.sync 0;\n\
        @!%p1 bra M;\nst.shared.b32 [%r2], %r4;\nM:";
    let ptx = kernel("sm_80", 64, 64, body);
    let broken = check_rule("SIM036", &ptx, "bar.sync 0;\n", "", &[]);
    assert!(broken.errors.contains("wrote another value"), "{}", broken.errors);
    let ptx_with_equal_values =
        kernel("sm_80", 64, 64, &body.replace("mov.b32 %r4, 2;", "mov.b32 %r4, 1;").replace("bar.sync 0;\n", ""));
    assert!(run(&ptx_with_equal_values, &["--races", "error"]).errors.is_empty());
}

/// Two warps wait at different barriers, and neither warp reaches the barrier of the other warp.
#[test]
fn a_deadlock_names_the_waits_of_each_warp() {
    let body = "setp.ge.u32 %p1, %r1, 32;\n@%p1 bra L;\nbarrier.sync 2, 64;\nbra M;\nL:\nbarrier.sync 2, 64;\nM:";
    let broken = check_rule("SIM040", &kernel("sm_80", 64, 64, body), "L:\nbarrier.sync 2", "L:\nbarrier.sync 3", &[]);
    for expected in ["warp 0, line 18, waits for barrier 2, where 32 of 64", "warp 1, line 21, waits for barrier 3, where 32 of 64"]
    {
        assert!(broken.errors.contains(expected), "{}", broken.errors);
    }
}

#[test]
fn cluster_barriers_order_accesses() {
    let body = "mapa.shared::cluster.u32 %r3, %r2, 1;\nst.shared.b32 [%r2], %r1;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n\
        ld.shared::cluster.b32 %r4, [%r3];\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\nst.global.b32 [%rd1], %r4;";
    let ptx = kernel("sm_90", 32, 64, body).replace("{\n.reg .pred", ".reqnctapercluster 2\n.blocksareclusters\n{\n.reg .pred");
    check_rule("SIM035|SIM036|SIM020", &ptx, "barrier.cluster.arrive;\nbarrier.cluster.wait;\n", "", &[]);
    check_rule("SIM051", &ptx, "barrier.cluster.wait;\n", "", &[]);
    check_rule("SIM051", &ptx, "barrier.cluster.arrive;\n", "", &[]);
    check_rule("SIM010", &ptx, "%r2, 1;", "%r2, 2;", &[]);
    let last = "barrier.cluster.arrive;\nbarrier.cluster.wait;\nst.global";
    check_rule(
        "SIM014",
        &ptx.replace("mapa", "mov.u32 %r9, %cluster_ctarank;\nsetp.eq.u32 %p1, %r9, 1;\nmapa"),
        last,
        "@%p1 ret;\nld.shared::cluster.b32 %r4, [%r3];\nst.global",
        &[],
    );
}

#[test]
fn wrong_thread_counts_of_barriers_are_faults() {
    let ptx = kernel("sm_80", 64, 64, "barrier.sync 1, 64;");
    let broken = check_rule("SIM040", &ptx, "1, 64", "1, 96", &[]);
    assert!(broken.errors.contains("barrier 1, where 64 of 96 threads have arrived"), "{}", broken.errors);
    check_rule("SIM050", &ptx, "1, 64", "1, 60", &[]);
    check_rule("SIM050", &ptx, "1, 64", "16, 64", &[]);
    let ptx = kernel("sm_80", 64, 64, "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra L;\nbar.sync 2, 64;\nbra M;\nL:\nbar.sync 2, 64;\nM:");
    check_rule("SIM040", &ptx, "M;\nL:\nbar.sync 2, 64;", "M;\nL:\nbar.sync 2, 32;", &[]);
    check_rule("SIM051", &ptx, "M;\nL:\nbar.sync 2, 64;", "M;\nL:\nbar.sync 2, 96;", &[]);
}

#[test]
fn a_collective_without_all_lanes_is_a_fault() {
    let body = "mov.b32 %r3, 5;\nsetp.lt.u32 %p1, %r1, 16;\n@%p1 bra L;\nmov.b32 %r3, 6;\nL:\n\
        shfl.sync.idx.b32 %r4, %r3, 31, 31, -1;\nst.global.b32 [%rd1], %r4;";
    let ptx = kernel("sm_80", 32, 64, body);
    assert_eq!(output_word(&run(&ptx, &[]), 0), 6);
    let broken = check_rule("SIM040", &ptx, "mov.b32 %r3, 6;\n", "W: bra W2;\nW2: bar.warp.sync 0xffffffff;\n", &[]);
    assert!(broken.errors.contains("its lanes 0-15 to reach"), "{}", broken.errors);
    check_rule("SIM052", &ptx, "31, 31, -1", "31, 31, 0xffff", &[]);
}

/// Thread 0 initialises an mbarrier for 32 arrivals. All threads arrive at the mbarrier and wait for it.
const MBARRIER_OF_32_THREADS: &str = "setp.ne.b32 %p1, %r1, 0;\nmov.b32 %r3, 32;\n@!%p1 mbarrier.init.shared.b64 [smem], %r3;\nbar.sync 0;\n\
    mbarrier.arrive.shared.b64 _, [smem];\nmov.b32 %r4, 0;\nW:\nmbarrier.try_wait.parity.shared.b64 %p2, [smem], %r4;\n@!%p2 bra W;";

#[test]
fn wrong_arrival_counts_of_mbarriers_are_faults() {
    let ptx = kernel("sm_90a", 32, 64, MBARRIER_OF_32_THREADS);
    let broken = check_rule("SIM040", &ptx, "%r3, 32", "%r3, 33", &[]);
    assert!(broken.errors.contains("1 of 33 arrivals"), "{}", broken.errors);
    check_rule("SIM054", &ptx, "%r3, 32", "%r3, 20", &[]);
    check_rule("SIM053", &ptx, "@!%p1 mbarrier.init.shared.b64 [smem], %r3;\n", "", &[]);
}

#[test]
fn traps_and_endless_loops_are_faults_and_vprintf_prints() {
    let ptx = kernel("sm_80", 32, 64, "setp.eq.b32 %p1, %r1, 77;\n@%p1 trap;");
    check_rule("SIM060", &ptx, "77", "7", &[]);
    let ptx = kernel("sm_80", 32, 64, "L:\nadd.s32 %r3, %r1, 1;\nsetp.eq.b32 %p1, %r1, 77;\n@%p1 bra L;");
    check_rule("SIM041", &ptx, "77", "7", &["--instruction-limit", "1000"]);
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
fn unknown_instructions_are_refused() {
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
