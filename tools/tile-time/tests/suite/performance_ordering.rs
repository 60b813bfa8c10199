//! Tests that the model predicts publicly known performance orderings. Two compared kernels differ only in one feature: CTA pairs,
//! or an epilogue that overlaps the MMAs of the next tile. `tests/cli/performance_ordering.rs` checks compiled kernels.

use crate::rates::{assert_near, commit_text, cycles_per_repetition, wait_text};
use crate::support::{Kernel, repeat};

/// Byte offsets in shared memory of the three mbarriers of stage 0. The mbarriers signal that the data of the stage has arrived,
/// that the stage is free, and that the data of the other CTA of the pair has arrived.
const FULL: usize = 0;
const FREE: usize = 128;
const PEER: usize = 256;

/// Returns PTX that initialises the mbarriers at byte offsets `bars` for a number of arrivals per phase.
fn mbarrier_inits(bars: impl Iterator<Item = usize>, arrivals: u32) -> String {
    bars.map(|bar| format!("mbarrier.init.shared.b64 [%r1+{bar}], {arrivals};\n")).collect()
}

/// Returns a matmul loop over a multi-stage buffer in 192 KiB of each CTA. Tiles have 128 rows, or 256 rows for a CTA pair, 256
/// columns and a depth of 64. A single CTA loads all columns of B. A CTA of a pair loads half of them, so it has smaller and more
/// stages.
fn multi_stage_matmul(pair: bool, count: usize) -> Kernel {
    let (group, rows, copies_per_stage, stages) = if pair { (2, 256, 2, 6) } else { (1, 128, 3, 4) };
    let wait_for_stage =
        |name: &str, tile: usize, bars: usize| wait_text(&format!("{name}{tile}"), bars + 8 * (tile % stages), tile / stages);
    let copy_tile = |tile: usize| {
        let free = if tile >= stages { wait_for_stage("FREE", tile - stages, FREE) } else { String::new() };
        let bar = FULL + 8 * (tile % stages);
        let part = |part: usize| {
            let (to, from) = (1024 + (tile % stages * copies_per_stage + part) * 16384, (copies_per_stage * tile + part) * 16384);
            format!(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+{to}], [%rd1+{from}], 16384, [%r1+{bar}];\n"
            )
        };
        let expect = format!("mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1+{bar}], {};\n", 16384 * copies_per_stage);
        free + &expect + &(0..copies_per_stage).map(part).collect::<String>()
    };
    let mma_text = format!("tcgen05.mma.cta_group::{group}.kind::f16 [%r20], %rd8, %rd8, %r22, %p2;\n").repeat(4);
    let mma_tile = |tile: usize| {
        let wait_for_data = wait_for_stage("FULL", tile, FULL);
        let bar = FREE + 8 * (tile % stages);
        if pair {
            let done = "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r5], %rs1;";
            wait_for_data + &wait_for_stage("PEER", tile, PEER) + &mma_text + &format!("add.s32 %r5, %r1, {bar};\n{done}\n")
        } else {
            wait_for_data + &mma_text + &commit_text(bar)
        }
    };
    // The second CTA of a pair signals the arrival of its data to the first CTA.
    let signal_peer_data = |tile: usize| {
        let bar = PEER + 8 * (tile % stages);
        wait_for_stage("THERE", tile, FULL) + &format!("mbarrier.arrive.shared::cluster.b64 _, [%r7+{bar}];\n")
    };
    let last = |name: &str| wait_for_stage(name, count - 1, FREE);
    let second_cta_text = if pair {
        format!("SIGNAL:\n{}{}bra.uni DONE;\n", repeat(count, signal_peer_data), last("SIGNALED"))
    } else {
        String::new()
    };
    let body = format!(
        "@%p4 bra FILL;\n{}{}{}bra.uni DONE;\n{second_cta_text}FILL:\n{}DONE:\nbar.warp.sync -1;\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n\
         @%p5 bra END;\ntcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %r20, 256;\nEND:\n",
        if pair { "@%p6 bra SIGNAL;\n" } else { "" },
        repeat(count, mma_tile),
        last("LAST"),
        repeat(count, copy_tile)
    );
    let bars = (0..stages).flat_map(|slot| [FULL, FREE, PEER].map(|bar| bar + 8 * slot));
    let prologue = format!(
        ".reg .b16 %rs<2>;\nmov.b16 %rs1, 3;\nmov.u32 %r1, buffer;\nmov.u32 %r3, %tid.x;\nmov.u32 %r6, %cluster_ctarank;\nsetp.ne.s32 %p6, %r6, 0;\n\
         mapa.shared::cluster.u32 %r7, %r1, 0;\nsetp.gt.u32 %p5, %r3, 31;\n@%p5 bra READY;\n\
         tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [%r1+512], 256;\nsetp.ne.s32 %p1, %r3, 0;\n@%p1 bra READY;\n{}READY:\n\
         bar.warp.sync -1;\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nld.shared.b32 %r20, [%r1+512];\nmov.b32 %r22, {};\n\
         mov.b64 %rd8, 4611756662317416448;\nsetp.eq.s32 %p2, 0, 0;\nand.b32 %r4, %r3, 31;\nsetp.ne.s32 %p1, %r4, 0;\n@%p1 bra DONE;\n\
         setp.eq.s32 %p4, %r3, 32;\n",
        mbarrier_inits(bars, 1),
        1 << 4 | (256 >> 3) << 17 | (rows >> 4) << 24
    );
    let kernel = Kernel::new("sm_100a", 64)
        .prologue(&prologue)
        .body(body)
        .shared_bytes(1024 + 196_608)
        .out_bytes(count * copies_per_stage * 16384);
    if pair { kernel.cluster(2).grid(2) } else { kernel }
}

/// A single CTA waits for TMA, which copies 384 rows for 512 cycles of MMAs. Each CTA of a pair copies only 256 rows for the same
/// cycles of MMAs.
#[test]
fn cta_pairs_outperform_single_ctas() {
    let [single_cta, pair] =
        [false, true].map(|pair| cycles_per_repetition("b200", |count| multi_stage_matmul(pair, count), (24, 72)));
    assert!(pair < 0.9 * single_cta, "{pair} cycles of a pair, {single_cta} of a single CTA");
}

/// Returns a persistent kernel with `count` output tiles of 128 x 128. One thread issues the MMAs; four epilogue warps load the
/// accumulators from tensor memory and store them. `stages` is the number of accumulators in tensor memory.
fn persistent_kernel(stages: usize, count: usize) -> Kernel {
    let wait_for_stage = |name: &str, tile: usize, bars: usize, iteration: usize| {
        wait_text(&format!("{name}{tile}"), bars + 8 * (tile % stages), iteration)
    };
    let mma_tile = |tile: usize| {
        let iteration = tile / stages;
        let free_wait_text = if iteration > 0 { wait_for_stage("FREE", tile, FREE, iteration - 1) } else { String::new() };
        let mma_text = format!(
            "add.s32 %r21, %r20, {};\n{}",
            128 * (tile % stages),
            "tcgen05.mma.cta_group::1.kind::f16 [%r21], %rd8, %rd8, %r22, %p2;\n".repeat(64)
        );
        free_wait_text + &mma_text + &commit_text(FULL + 8 * (tile % stages))
    };
    let epilogue = |tile: usize| {
        let load = |part: usize| {
            let registers: Vec<String> = (24..40).map(|register| format!("%r{register}")).collect();
            let stores: String =
                (0..16).map(|index| format!("st.global.b32 [%rd2+{}], %r{};\n", 512 * (16 * part + index), 24 + index)).collect();
            format!(
                "tcgen05.ld.sync.aligned.32x32b.x16.b32 {{{}}}, [%r21+{}];\ntcgen05.wait::ld.sync.aligned;\n{stores}",
                registers.join(", "),
                16 * part
            )
        };
        let wait_for_data =
            wait_for_stage("FULL", tile, FULL, tile / stages) + &format!("add.s32 %r21, %r23, {};\n", 128 * (tile % stages));
        wait_for_data
            + &(0..8).map(load).collect::<String>()
            + &format!("mbarrier.arrive.shared.b64 %rd9, [%r1+{}];\n", FREE + 8 * (tile % stages))
    };
    let prologue = format!(
        "mov.u32 %r1, buffer;\nmov.u32 %r3, %tid.x;\nsetp.gt.u32 %p5, %r3, 31;\n@%p5 bra READY;\n\
         tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1+512], 256;\nsetp.ne.s32 %p1, %r3, 0;\n@%p1 bra READY;\n{}{}READY:\n\
         barrier.sync 0;\nld.shared.b32 %r20, [%r1+512];\nmov.b32 %r22, {};\nmov.b64 %rd8, 4611756662317416448;\nsetp.eq.s32 %p2, 0, 0;\n\
         mul.wide.u32 %rd3, %r3, 4;\nadd.s64 %rd2, %rd1, %rd3;\nshr.u32 %r4, %r3, 5;\nshl.b32 %r4, %r4, 21;\nadd.s32 %r23, %r20, %r4;\n\
         setp.eq.s32 %p4, %r3, 128;\nsetp.gt.u32 %p6, %r3, 128;\n@%p6 bra DONE;\n",
        mbarrier_inits((0..stages).map(|place| FULL + 8 * place), 1),
        mbarrier_inits((0..stages).map(|place| FREE + 8 * place), 128),
        1 << 4 | (128 >> 3) << 17 | (128 >> 4) << 24
    );
    let body = format!(
        "@%p4 bra MULTIPLY;\n{}bra.uni DONE;\nMULTIPLY:\n{}DONE:\nbarrier.sync 0;\n@%p5 bra END;\n\
         tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r20, 256;\nEND:\n",
        repeat(count, epilogue),
        repeat(count, mma_tile)
    );
    Kernel::new("sm_100a", 160).prologue(&prologue).body(body).out_bytes(128 * 128 * 4)
}

/// With one accumulator, the MMAs of a tile wait until the epilogue has loaded the accumulator of the previous tile from tensor
/// memory. With two accumulators, the longer of MMAs and epilogue determines the time of a tile.
#[test]
fn two_accumulators_outperform_one() {
    let [one, two] = [1, 2].map(|stages| cycles_per_repetition("b200", |count| persistent_kernel(stages, count), (4, 12)));
    assert!(two < 0.85 * one, "{two} cycles of a tile with two stages, {one} with one");
    assert!(two > 0.98 * 64.0 * 64.0, "{two} cycles, and the MMAs by themselves take 4096");
}

/// A softmax of 128 x 128 scores has 16384 exponentials, 16 per cycle, so it takes 1024 cycles. Its 16 MMAs with 128 columns take
/// 1024 cycles too. If both overlap, they take 1024 cycles together.
#[test]
fn exponentials_and_mmas_overlap() {
    let kernel = |exponentials: usize, mmas: usize, count: usize| {
        let prologue = format!(
            "mov.u32 %r1, buffer;\nmov.u32 %r3, %tid.x;\nsetp.gt.u32 %p5, %r3, 31;\n@%p5 bra READY;\n\
             tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1+512], 128;\nsetp.ne.s32 %p1, %r3, 0;\n@%p1 bra READY;\n\
             mbarrier.init.shared.b64 [%r1], 1;\nREADY:\nbarrier.sync 0;\nld.shared.b32 %r20, [%r1+512];\nmov.b32 %r22, {};\n\
             mov.b64 %rd8, 4611756662317416448;\nsetp.eq.s32 %p2, 0, 0;\nsetp.eq.s32 %p4, %r3, 128;\nsetp.gt.u32 %p6, %r3, 128;\n@%p6 bra DONE;\n",
            1 << 4 | (128 >> 3) << 17 | (128 >> 4) << 24
        );
        let mma_text = "tcgen05.mma.cta_group::1.kind::f16 [%r20], %rd8, %rd8, %r22, %p2;\n";
        let body = format!(
            "@%p4 bra MULTIPLY;\n{}bra.uni DONE;\nMULTIPLY:\n{}{}{}DONE:\nbarrier.sync 0;\n@%p5 bra END;\n\
             tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r20, 128;\nEND:\n",
            repeat(count * exponentials, |index| format!("ex2.approx.ftz.f32 %f{}, %f1;", 2 + index % 32)),
            mma_text.repeat(count * mmas),
            commit_text(FULL),
            wait_text("LAST", FULL, 0)
        );
        Kernel::new("sm_100a", 160).prologue(&prologue).body(body)
    };
    for (exponentials, mmas) in [(128, 0), (0, 16), (128, 16)] {
        let cycles = cycles_per_repetition("b200", |count| kernel(exponentials, mmas, count), (4, 12));
        assert_near(&format!("{exponentials} exponentials of a thread, {mmas} MMAs"), cycles, 1024.0, 0.03);
    }
}
