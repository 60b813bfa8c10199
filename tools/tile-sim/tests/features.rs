//! Features of PTX from other compilers, such as launch sizes, rounding, cluster launch control and modified tensor maps. Also
//! tests the statistics.

mod support;

use support::{Case, Outcome, counting_words, kernel, output_word, run};

fn run_case(ptx: &str, grid: u32, options: &[&str]) -> Outcome {
    let outcome = Case { ptx, grid: [grid, 1, 1], buffer: counting_words(256), options, files: &[] }.run();
    assert_eq!(outcome.code, 0, "{}", outcome.errors);
    outcome
}

/// Executes the instructions of `body`. Returns the value of `%r10` for 32 bits, or of `%rd10` for 64 bits.
fn result_register(body: &str, bits: u32) -> u64 {
    let name = if bits == 64 { "%rd10" } else { "%r10" };
    let ptx = kernel("sm_90", 1, 64, &format!("{body}\nst.global.b{bits} [%rd1], {name};"));
    let outcome = run_case(&ptx, 1, &[]);
    u64::from(output_word(&outcome, 0)) | if bits == 64 { u64::from(output_word(&outcome, 1)) << 32 } else { 0 }
}

#[test]
fn mul24_and_mad24() {
    for (instruction, expected) in [
        ("mul24.lo.u32 %r10, 0xff000003, 0x800005;", 0x0280_000fu32.wrapping_sub(0x0100_0000)),
        ("mul24.hi.u32 %r10, 0x800000, 0x800000;", 0x4000_0000),
        ("mul24.lo.s32 %r10, 0x00ffffff, 7;", -7i32 as u32),
        ("mul24.hi.s32 %r10, 0x00800000, 0x00010000;", (-(1i64 << 39) >> 16) as u32),
        ("mad24.lo.s32 %r10, 1000, 1000, -1;", 999_999),
        ("mad24.hi.sat.s32 %r10, 0x7fffff, 0x7fffff, 0x7fffffff;", 0x7fff_ffff),
    ] {
        assert_eq!(result_register(instruction, 32), u64::from(expected), "{instruction}");
    }
}

#[test]
fn pairs_of_16_bit_numbers() {
    for (instruction, expected) in [
        ("add.u16x2 %r10, 0x0001ffff, 0x00020003;", 0x0003_0002_u64),
        ("add.s16x2 %r10, 0xffff7fff, 0xffff0001;", 0xfffe_8000),
        ("min.s16x2 %r10, 0x00018000, 0xffff7fff;", 0xffff_8000),
        ("max.u16x2 %r10, 0x00018000, 0xffff7fff;", 0xffff_8000),
        ("max.relu.s16x2 %r10, 0xfffe0003, 0xffff0001;", 0x0000_0003),
    ] {
        assert_eq!(result_register(instruction, 32), expected, "{instruction}");
    }
}

#[test]
fn dot_products_of_halves_and_bytes() {
    for (instruction, expected) in [
        ("dp2a.lo.u32.u32 %r10, 0x00030002, 0x07060504, 10;", 10 + 2 * 4 + 3 * 5),
        ("dp2a.hi.u32.u32 %r10, 0x00030002, 0x07060504, 10;", 10 + 2 * 6 + 3 * 7),
        ("dp2a.lo.s32.u32 %r10, 0xfffffffe, 0x0000ff04, 0;", -2 * 4 - 0xff),
        ("dp2a.lo.u32.s32 %r10, 0xffff0002, 0x0000ff04, 0;", 2 * 4 - 0xffff),
        ("dp2a.hi.s32.s32 %r10, 0x80007fff, 0x807f0000, -1;", -1 + 0x7fff * 0x7f + 0x8000 * 0x80),
        ("dp4a.s32.u32 %r10, 0xff02ff01, 0x04030201, 7;", 7 + 1 - 2 + 2 * 3 - 4),
    ] {
        assert_eq!(result_register(instruction, 32), u64::from(expected as u32), "{instruction}");
    }
}

/// A function takes two numbers in an array. It returns the sum and the difference of the numbers in another array.
#[test]
fn calls_pass_and_return_byte_arrays() {
    let function = ".func (.param .align 8 .b8 out[16]) both(.param .align 8 .b8 in[12], .param .b32 third) {\n\
        .reg .b32 %r<4>;\n.reg .b64 %rd<9>;\nld.param.b64 %rd1, [in];\nld.param.s32 %rd2, [in+8];\nadd.s64 %rd3, %rd1, %rd2;\n\
        sub.s64 %rd4, %rd1, %rd2;\nld.param.s32 %rd5, [third];\nadd.s64 %rd4, %rd4, %rd5;\nst.param.b64 [out+8], %rd4;\n\
        st.param.b64 [out], %rd3;\nret;\n}\n.visible .entry";
    let call = |first: u32, second: u32| {
        format!(
            "{{\n.param .align 8 .b8 a[12];\n.param .b32 b;\n.param .align 8 .b8 c[16];\nst.param.b64 [a], {first};\n\
             st.param.b32 [a+8], {second};\nst.param.b32 [b], 1000;\ncall.uni (c), both, (a, b);\n\
             ld.param.v2.b64 {{%rd5, %rd6}}, [c];\n}}\n"
        )
    };
    let body = format!("{}mov.b64 %rd7, %rd6;\n{}st.global.v2.b64 [%rd1], {{%rd5, %rd7}};", call(50, 8), call(70, 9));
    let ptx = kernel("sm_80", 32, 64, &body).replace(".visible .entry", function);
    let outcome = run(&ptx, &[]);
    assert_eq!((outcome.code, output_word(&outcome, 0), output_word(&outcome, 2)), (0, 79, 1042), "{}", outcome.errors);
    let other = run(&ptx.replace("c[16]", "c[8]"), &[]);
    assert!(other.code == 3 && other.errors.contains("an array whose size differs"), "{}", other.errors);
}

/// Both CTAs of a pair arrive at the barrier of the even CTA.
#[test]
fn bit_24_of_a_shared_address_selects_the_cta_of_a_pair() {
    let body = "setp.ne.b32 %p1, %r1, 0;\nmov.b32 %r3, 2;\n@!%p1 mbarrier.init.shared.b64 [smem], %r3;\n\
        fence.mbarrier_init.release.cluster;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\nand.b32 %r4, %r2, 0xfefffff8;\n\
        @!%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];\nmov.u32 %r5, %cluster_ctarank;\n\
        mov.b32 %r6, 0;\nsetp.ne.b32 %p2, %r5, 0;\n@%p2 bra E;\nW:\nmbarrier.try_wait.parity.shared.b64 %p3, [smem], %r6;\n\
        @!%p3 bra W;\nE:\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\nshr.u32 %r7, %r2, 24;\nmapa.shared::cluster.u32 %r8, %r2, 1;\n\
        shl.b32 %r9, %r5, 2;\ncvt.u64.u32 %rd2, %r9;\nadd.s64 %rd3, %rd1, %rd2;\n@!%p1 st.global.b32 [%rd3], %r7;\n\
        shr.u32 %r8, %r8, 24;\n@!%p1 st.global.b32 [%rd3+8], %r8;";
    let ptx = kernel("sm_100a", 32, 64, body).replace("{\n.reg .pred", ".reqnctapercluster 2\n.blocksareclusters\n{\n.reg .pred");
    let outcome = run(&ptx, &[]);
    assert_eq!(outcome.code, 0, "{}", outcome.errors);
    assert_eq!([0, 1, 2, 3].map(|at| output_word(&outcome, at)), [0, 1, 1, 1]);
}

#[test]
fn directed_rounding_of_doubles() {
    let (one, tiny) = ("0d3FF0000000000000", "0d3C00000000000000");
    let (up, down) = (1.0f64.next_up().to_bits(), 1.0f64.next_down().to_bits());
    for (instruction, expected) in [
        (format!("add.rz.f64 %rd10, {one}, {tiny};"), 1f64.to_bits()),
        (format!("add.rp.f64 %rd10, {one}, {tiny};"), up),
        (format!("sub.rm.f64 %rd10, {one}, {tiny};"), down),
        (format!("sub.rn.f64 %rd10, {one}, {tiny};"), 1f64.to_bits()),
        (format!("fma.rp.f64 %rd10, {tiny}, {tiny}, {one};"), up),
        ("mul.rm.f64 %rd10, 0d3FF0000000000001, 0d3FF0000000000001;".into(), 0x3ff0_0000_0000_0002),
        ("mul.rp.f64 %rd10, 0d3FF0000000000001, 0d3FF0000000000001;".into(), 0x3ff0_0000_0000_0003),
        ("div.rz.f64 %rd10, 0d3FF0000000000000, 0d4008000000000000;".into(), 0x3fd5_5555_5555_5555),
        ("rcp.rp.f64 %rd10, 0d4008000000000000;".into(), 0x3fd5_5555_5555_5556),
        ("sqrt.rm.f64 %rd10, 0d4000000000000000;".into(), 0x3ff6_a09e_667f_3bcc),
        ("cvt.rp.f64.s64 %rd10, 9007199254740993;".into(), 0x4340_0000_0000_0001),
    ] {
        assert_eq!(result_register(&instruction, 64), expected, "{instruction}");
    }
}

#[test]
fn ctas_have_three_dimensions() {
    let body = "mov.u32 %r4, %tid.y;\nmov.u32 %r5, %tid.z;\nmad.lo.u32 %r6, %r5, 2, %r4;\nmad.lo.u32 %r6, %r6, 4, %r1;\n\
        mov.u32 %r7, %ntid.z;\nmad.lo.u32 %r8, %r5, 100, %r7;\nmad.lo.u32 %r8, %r4, 1000, %r8;\nmad.lo.u32 %r8, %r1, 10000, %r8;\n\
        mul.wide.u32 %rd2, %r6, 4;\nadd.s64 %rd3, %rd1, %rd2;\nst.global.b32 [%rd3], %r8;";
    let ptx = kernel("sm_80", 32, 64, body).replace(".reqntid 32", ".reqntid 4, 2, 5");
    let outcome = run_case(&ptx, 1, &[]);
    for (at, x, y, z) in [(0, 0, 0, 0), (3, 3, 0, 0), (6, 2, 1, 0), (39, 3, 1, 4), (33, 1, 0, 4)] {
        assert_eq!(output_word(&outcome, at), x * 10000 + y * 1000 + z * 100 + 5, "thread {at}");
    }
    assert_eq!(output_word(&outcome, 40), 40);
    let open = ptx.replace(".reqntid 4, 2, 5\n", "");
    assert_eq!(run_case(&open, 1, &["--block", "4,2,5"]).out, outcome.out);
    assert_eq!(run(&ptx, &["--block", "4,2,4"]).code, 1);
    assert_eq!(run(&ptx, &["--block", "4,2,5,6"]).code, 2);
}

#[test]
fn dynamic_shared_memory() {
    let body = "mov.u32 %r3, dynamic;\nst.shared.b32 [%r3+124], %r1;\nld.shared.b32 %r4, [dynamic+124];\nmov.u32 %r5, %dynamic_smem_size;\n\
        st.global.b32 [%rd1], %r5;";
    let ptx =
        kernel("sm_80", 1, 64, body).replace(".visible .global", ".extern .shared .align 16 .b8 dynamic[];\n.visible .global");
    assert_eq!(output_word(&run_case(&ptx, 1, &["--dynamic-shared", "128"]), 0), 128);
    let refused = run(&ptx, &[]);
    assert!(refused.code == 1 && refused.errors.contains("use --dynamic-shared"), "{}", refused.errors);
    assert_eq!(run(&ptx, &["--dynamic-shared", "1000000"]).code, 1);
}

/// The first cluster cancels the launch of the other clusters of the grid and executes their work. For each CTA index, the
/// executing CTA stores its own index plus 1000.
const STEAL_CLUSTERS: &str = "mov.u32 %r10, %ctaid.x;\nmov.u32 %r11, %r10;\nmov.b32 %r3, 1;\nmbarrier.init.shared.b64 [smem+16], %r3;\n\
    mov.b32 %r4, 0;\nNEXT:\nmul.wide.u32 %rd2, %r11, 4;\nadd.s64 %rd3, %rd1, %rd2;\nadd.s32 %r12, %r10, 1000;\nst.global.b32 [%rd3], %r12;\n\
    fence.proxy.async.shared::cta;\nmbarrier.arrive.expect_tx.shared.b64 _, [smem+16], 16;\n\
    clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [smem], [smem+16];\n\
    W:\nmbarrier.try_wait.parity.shared.b64 %p2, [smem+16], %r4;\n@!%p2 bra W;\nxor.b32 %r4, %r4, 1;\nld.shared.b128 %rq1, [smem];\n\
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %rq1;\n@!%p1 ret;\n\
    clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r11, _, _, _}, %rq1;\nbra NEXT;";

#[test]
fn clusters_are_stolen() {
    let ptx = kernel("sm_100a", 1, 64, STEAL_CLUSTERS).replace(".reg .pred", ".reg .b128 %rq<3>;\n.reg .pred");
    for delivery in ["early", "late"] {
        let outcome = run_case(&ptx, 5, &["--delivery", delivery, "--races", "error"]);
        assert_eq!((0..6).map(|at| output_word(&outcome, at)).collect::<Vec<_>>(), [1000, 1000, 1000, 1000, 1000, 5]);
    }
    let part = ptx.replace("get_first_ctaid.v4.b32.b128 {%r11, _, _, _}", "get_first_ctaid::x.b32.b128 %r11");
    assert_eq!(output_word(&run_case(&part, 3, &[]), 2), 1000);
}

/// Runs a kernel that writes the tensor map of `recipe` to the end of the buffer. The kernel then changes the map with the PTX
/// `change`, and copies 32 words with the PTX `copy`.
fn copy_with_map(change: &str, copy: &str, recipe: &str) -> Outcome {
    let body = format!(
        "mov.b32 %r3, 1;\nmbarrier.init.shared.b64 [smem+512], %r3;\nadd.s64 %rd10, %rd1, 896;\n{}{change}fence.proxy.async;\n\
         mbarrier.arrive.expect_tx.shared.b64 _, [smem+512], 128;\n{copy}\nmov.b32 %r4, 0;\n\
         W:\nmbarrier.try_wait.parity.shared.b64 %p2, [smem+512], %r4;\n@!%p2 bra W;\n{}",
        (0..16)
            .map(|n| format!("ld.param.b64 %rd11, [k_param_1+{0}];\nst.global.b64 [%rd10+{0}], %rd11;\n", 8 * n))
            .collect::<String>(),
        (0..32).map(|n| format!("ld.shared.b32 %r5, [smem+{0}];\nst.global.b32 [%rd1+{0}], %r5;\n", 4 * n)).collect::<String>()
    );
    let hidden = "(.param .u64 k_param_0, .hidden .param .align 64 .b8 k_param_1[128])";
    let ptx = kernel("sm_100a", 1, 1024, &body).replace("(.param .u64 k_param_0)", hidden);
    let ptx = ptx.replace(".reqntid", ".minperctamemory 128\n.reqntid");
    run_case(&format!("//!tile ptx 1 final\n//!tile tensor-map {recipe}\n{ptx}"), 1, &[])
}

const MATRIX_RECIPE: &str = "(entry:\"k\",param:\"k_param_1\",map:(base:param(0),element:int32,dims:[const(16),const(14)],strides:[const(64)],\
    extent:[8,4],swizzle:none,tf32:false))";

#[test]
fn tensor_maps_are_changed() {
    let copy = "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [smem], [%rd10, {0, 1}], [smem+512];";
    let assert_tile_row = |outcome: &Outcome, row: u32, word_at: &dyn Fn(u32, u32) -> u32| {
        (0..8).for_each(|column| assert_eq!(output_word(outcome, (8 * row + column) as usize), word_at(row, column)));
    };
    let unchanged = copy_with_map("", copy, MATRIX_RECIPE);
    (0..4).for_each(|row| assert_tile_row(&unchanged, row, &|row, column| (row + 1) * 16 + column));
    let replace_fields = "add.s64 %rd12, %rd1, 64;\ntensormap.replace.tile.global_address.global.b1024.b64 [%rd10], %rd12;\n\
        tensormap.replace.tile.global_dim.global.b1024.b32 [%rd10], 0, 6;\ntensormap.replace.tile.global_stride.global.b1024.b64 [%rd10], 0, 32;\n";
    let replaced = copy_with_map(replace_fields, copy, MATRIX_RECIPE);
    (0..4).for_each(|row| assert_tile_row(&replaced, row, &|row, column| if column < 6 { 16 + (row + 1) * 8 + column } else { 0 }));
}

/// The kernel writes a map to shared memory, and copies the map to the private global memory of the CTA.
#[test]
fn tensor_maps_are_copied() {
    let store_map_to_shared: String = (0..16)
        .map(|n| format!("ld.global.b64 %rd11, [%rd10+{0}];\nst.shared.b64 [%r2+{1}], %rd11;\n", 8 * n, 768 + 8 * n))
        .collect();
    let copy_map_to_global = "mov.u64 %rd10, %perctamemoryoffset;\nadd.s32 %r6, %r2, 768;\n\
        tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd10], [%r6], 128;\n\
        fence.proxy.tensormap::generic.acquire.gpu [%rd10], 128;\n";
    let copy = "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [smem], [%rd10, {0, 1}], [smem+512];";
    let outcome = copy_with_map(&format!("{store_map_to_shared}{copy_map_to_global}"), copy, MATRIX_RECIPE);
    (0..32).for_each(|at| assert_eq!(output_word(&outcome, at as usize), (at / 8 + 1) * 16 + at % 8));
}

#[test]
fn each_cta_has_private_memory() {
    let body = "mov.u32 %r3, %ctaid.x;\nmul.wide.u32 %rd3, %r3, 8;\nadd.s64 %rd3, %rd3, %rd1;\nmov.u64 %rd2, %perctamemoryoffset;\n\
        mov.u32 %r4, %perctamemorysize;\nst.global.b32 [%rd2+256], %r4;\nld.global.b32 %r4, [%rd2+256];\n\
        cvt.u32.u64 %r5, %rd2;\nst.global.v2.b32 [%rd3], {%r4, %r5};";
    let ptx = kernel("sm_90", 1, 64, body).replace(".reqntid", ".minperctamemory 260\n.reqntid");
    let outcome = run_case(&ptx, 6, &[]);
    assert!((0..6).all(|cta| output_word(&outcome, 2 * cta) == 260));
    let mut memory_addresses: Vec<u32> = (0..6).map(|cta| output_word(&outcome, 2 * cta + 1)).collect();
    memory_addresses.sort();
    assert!(memory_addresses.is_sorted_by(|a, b| a % 128 == 0 && b - a >= 260), "{memory_addresses:?}");
    let broken = ptx.replace("[%rd2+256]", "[%rd2+260]");
    let broken = Case { ptx: &broken, grid: [6, 1, 1], buffer: counting_words(256), options: &[], files: &[] }.run();
    assert!(broken.code == 1 && broken.errors.contains("SIM010"), "{}", broken.errors);
}

#[test]
fn gather4_copies_four_rows() {
    let copy = "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes \
        [smem], [%rd10, {4, 9, 2, 30, 5}], [smem+512];";
    let outcome = copy_with_map("", copy, &MATRIX_RECIPE.replace("[8,4]", "[8,1]"));
    for (at, row) in [9, 2, 30, 5].into_iter().enumerate() {
        for column in 0..8 {
            assert_eq!(output_word(&outcome, 8 * at + column as usize), if row < 14 { row * 16 + 4 + column } else { 0 });
        }
    }
}

/// `tile-sim` runs independent CTAs in parallel. The results and the statistics equal the results and the statistics of a
/// sequential run.
#[test]
fn independent_ctas_run_in_parallel() {
    let body = "mov.u32 %r3, %ctaid.x;\nmul.wide.u32 %rd2, %r3, 4;\nadd.s64 %rd3, %rd1, %rd2;\nld.global.b32 %r4, [%rd3];\n\
        mad.lo.u32 %r4, %r4, 3, 1;\nst.global.b32 [%rd3], %r4;";
    let ptx = kernel("sm_80", 1, 64, body);
    let outcome = run_case(&ptx, 250, &["--stats", "stats.json"]);
    assert!((0..256).all(|at| output_word(&outcome, at) == if at < 250 { at as u32 * 3 + 1 } else { at as u32 }));
    assert!(outcome.stats.contains("\"global_bytes\": 2000"), "{}", outcome.stats);
    let last = Case { ptx: &ptx, grid: [257, 1, 1], buffer: counting_words(256), options: &[], files: &[] }.run();
    assert!(last.code == 1 && last.errors.contains("cluster [256, 0, 0]"), "{}", last.errors);
    let sum = "mov.u32 %r3, %ctaid.x;\natom.global.add.u32 %r4, [%rd1], %r3;";
    assert_eq!(output_word(&run_case(&kernel("sm_80", 1, 64, sum), 100, &[]), 0), 4950);
}

#[test]
fn bank_conflicts_are_listed_by_instruction() {
    let body = "mov.u32 %r3, %tid.x;\nshl.b32 %r4, %r3, 3;\nmov.u32 %r5, smem;\nadd.s32 %r4, %r4, %r5;\nst.shared.b32 [%r4], %r3;\n\
        shl.b32 %r4, %r3, 2;\nadd.s32 %r4, %r4, %r5;\nst.shared.b32 [%r4], %r3;";
    let outcome = run_case(&kernel("sm_90", 32, 256, body), 1, &["--stats", "stats.json"]);
    let (_, conflicts) = outcome.stats.split_once("\"conflicts\"").expect("they are listed");
    assert_eq!(conflicts.matches("\"opcode\": \"st.shared.b32\"").count(), 1, "{conflicts}");
    for part in ["\"executed\": 1", "\"shared_wavefronts\": 2", "\"bank_conflicts\": 1"] {
        assert!(conflicts.contains(part), "{part}: {conflicts}");
    }
}

#[test]
fn loops_are_counted() {
    let body = "mov.b32 %r3, 0;\nmov.b32 %r4, 1;\nmbarrier.init.shared.b64 [smem+64], %r4;\nLOOP:\nshl.b32 %r5, %r1, 3;\nadd.s32 %r5, %r5, %r2;\n\
        ld.global.b32 %r6, [%rd1];\nadd.s32 %r3, %r3, 1;\nsetp.lt.u32 %p1, %r3, 5;\n@%p1 bra LOOP;";
    let outcome = run_case(&kernel("sm_90", 32, 128, body), 1, &["--stats", "stats.json"]);
    for part in ["\"label\": \"LOOP\"", "\"repeats\": 4", "\"ld.global.b32\": 5", "\"global_sectors\": 5", "\"failed_waits\": 0"] {
        assert!(outcome.stats.contains(part), "{part}: {}", outcome.stats);
    }
}

/// Like ptxas, `tile-sim` accepts alignments of up to 2^30 bytes.
#[test]
fn globals_may_have_large_alignments() {
    for (align, code) in [(1u64 << 28, 0), (1 << 30, 0), (1 << 31, 1)] {
        let ptx = kernel("sm_90", 1, 64, "st.global.b32 [%rd1], 7;")
            .replace(".global .align 4 .b8 unused[4]", &format!(".global .align {align} .b8 unused[4]"));
        let outcome = Case { ptx: &ptx, grid: [1, 1, 1], buffer: counting_words(4), options: &[], files: &[] }.run();
        assert_eq!(outcome.code, code, "{align}: {}", outcome.errors);
    }
}
