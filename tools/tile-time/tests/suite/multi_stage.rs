//! Compares the time of a multi-stage buffer on one SM with measurements. One thread fills the stages with TMA copies, and another
//! thread issues the MMAs.

use crate::rates::{assert_near, wait_text};
use crate::support::{Kernel, repeat};

/// The copies that fill a stage, and the MMAs that read it.
struct StageShape {
    /// Bytes of a row of a TMA tile.
    row_bytes: usize,
    /// Rows of each TMA copy of a stage.
    tma_copies: &'static [usize],
    /// Number of MMAs that read a stage, and columns of each MMA.
    mmas: usize,
    columns: u32,
    /// Whether L2 already holds all operands before the launch.
    cached: bool,
}

impl StageShape {
    /// Returns the shared memory of one stage.
    fn stage_bytes(&self) -> usize {
        self.row_bytes * self.tma_copies.iter().sum::<usize>()
    }

    /// Returns a kernel that fills and reads `count` stages, one after another, in a buffer of `stages` stages.
    fn kernel(&self, stages: usize, count: usize) -> Kernel {
        // Byte offset in shared memory of the mbarriers that signal a free stage. The mbarriers that signal a full stage start at
        // offset 0.
        const FREE: usize = 128;
        let mut maps: Vec<usize> = self.tma_copies.to_vec();
        maps.dedup();
        // Each of the two threads iterates over the stages (%r14) and waits for the phase with the parity in %r15.
        let stage_loop = |name: &str, parity: u32, bars: usize, work: &str| {
            format!(
                "{name}:\nmov.b32 %r14, 0;\nmov.b32 %r15, {parity};\nmov.b32 %r16, 0;\nNEXT_{name}:\nshl.b32 %r17, %r14, 3;\nadd.s32 %r17, %r17, %r1;\n\
                 WAIT_{name}:\nmbarrier.try_wait.parity.shared.b64 %p3, [%r17+{bars}], %r15;\n@!%p3 bra WAIT_{name};\n{work}\
                 add.s32 %r14, %r14, 1;\nsetp.eq.s32 %p6, %r14, {stages};\nselp.b32 %r18, 1, 0, %p6;\nxor.b32 %r15, %r15, %r18;\n\
                 selp.b32 %r14, 0, %r14, %p6;\nadd.s32 %r16, %r16, 1;\nsetp.lt.s32 %p7, %r16, {count};\n@%p7 bra NEXT_{name};\n"
            )
        };
        let mut rows_before = 0;
        let copies = self.tma_copies.iter().map(|&rows| {
            let number = maps.iter().position(|&other| other == rows).expect("there is a map for each size");
            let copy = format!(
                "add.s32 %r10, %r18, {};\nmov.b32 %r13, {rows_before};\n\
                 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r10], [%rd1{number}, {{%r19, %r13}}], [%r17];\n",
                1024 + rows_before * self.row_bytes
            );
            rows_before += rows;
            copy
        });
        let copy_step = format!(
            "mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r17], {};\nmad.lo.s32 %r18, %r14, {}, %r1;\nmul.lo.s32 %r19, %r16, {};\n{}",
            self.stage_bytes(),
            self.stage_bytes(),
            self.row_bytes / 2,
            copies.collect::<String>()
        );
        let mma_text = "tcgen05.mma.cta_group::1.kind::f16 [%r20], %rd8, %rd8, %r22, %p2;\n".repeat(self.mmas);
        let mma_step = format!(
            "{mma_text}add.s32 %r5, %r17, {FREE};\ntcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r5];\n"
        );
        let last = wait_text("LAST", FREE + 8 * ((count - 1) % stages), (count - 1) / stages);
        let body = format!(
            "@%p4 bra FILL;\n{}{last}bra DONE;\n{}DONE:\nbarrier.sync 0;\n@%p5 bra END;\nbar.warp.sync -1;\n\
             tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r20, 256;\nEND:\n",
            stage_loop("MULTIPLY", 0, 0, &mma_step),
            // The first wait for each free stage returns at once: a wait with parity 1 succeeds on a new mbarrier.
            stage_loop("FILL", 1, FREE, &copy_step)
        );
        let inits =
            repeat(2 * stages, |bar| format!("mbarrier.init.shared.b64 [%r1+{}], 1;", bar % stages * 8 + bar / stages * FREE));
        let map_addresses: String = (0..maps.len())
            .map(|number| format!("mov.b64 %rd1{number}, map{number};\ncvta.param.u64 %rd1{number}, %rd1{number};\n"))
            .collect();
        let prologue = format!(
            "{map_addresses}mov.u32 %r1, buffer;\nmov.u32 %r3, %tid.x;\nsetp.gt.u32 %p5, %r3, 31;\n@%p5 bra READY;\n\
             tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1+512], 256;\nsetp.ne.s32 %p1, %r3, 0;\n@%p1 bra READY;\n{inits}READY:\n\
             barrier.sync 0;\nld.shared.b32 %r20, [%r1+512];\nmov.b32 %r22, {};\nmov.b64 %rd8, 4611756662317416448;\n\
             setp.eq.s32 %p2, 0, 0;\nand.b32 %r4, %r3, 31;\nsetp.ne.s32 %p1, %r4, 0;\n@%p1 bra DONE;\nsetp.eq.s32 %p4, %r3, 32;\n",
            1 << 4 | (self.columns >> 3) << 17 | (128 >> 4) << 24
        );
        let tma_tiles: Vec<(usize, usize)> = maps.iter().map(|&rows| (self.row_bytes, rows)).collect();
        Kernel::new("sm_100a", 64)
            .prologue(&prologue)
            .body(body)
            .tma_tiles(&tma_tiles)
            .shared_bytes(1024 + (stages * self.stage_bytes()) as u32)
            .out_bytes(self.tma_copies.iter().sum::<usize>() * Kernel::MATRIX_ROW_BYTES)
    }

    /// Returns the predicted cycles per stage in the steady state of the multi-stage buffer.
    fn cycles(&self, stages: usize) -> f64 {
        let options: &[&str] = if self.cached { &["--repeated"] } else { &[] };
        let cycles = |count| self.kernel(stages, count).report_with("b200", options)["cycles"].as_f64().expect("a number");
        (cycles(96) - cycles(32)) / 64.0
    }
}

/// With few stages, a stage takes the round-trip latency divided by the number of stages. With more stages, the row rate of the TMA
/// copies limits the time. The measured times are in milliseconds on one SM of B200 at 1.965 GHz, with a K extent of 131072. The
/// previous launch leaves 32 MB or 48 MB of 8-bit operands in L2, but not 64 MB or more of bf16 operands.
#[test]
fn multi_stage_buffer_cycles_by_stage_count() {
    let bf16_stages = |tma_copies, mmas, columns| StageShape { row_bytes: 128, tma_copies, mmas, columns, cached: false };
    let fp8_stages = |row_bytes, tma_copies, mmas, columns| StageShape { row_bytes, tma_copies, mmas, columns, cached: true };
    let measured = [
        (
            "bf16 128x128x64",
            bf16_stages(&[128, 128], 4, 128),
            &[(2, 1.164), (3, 0.786), (4, 0.600), (5, 0.4915), (6, 0.429), (7, 0.4225)][..],
        ),
        ("bf16 128x256x64", bf16_stages(&[128, 256], 4, 256), &[(3, 1.038)]),
        ("bf16 128x128x128", bf16_stages(&[128; 4], 8, 128), &[(2, 0.801), (3, 0.543)]),
        ("bf16 128x256x128", bf16_stages(&[128, 128, 256, 256], 8, 256), &[(2, 1.131)]),
        ("fp8 128x128x64", fp8_stages(64, &[128, 128], 2, 128), &[(2, 0.743), (3, 0.497), (4, 0.412)]),
        ("fp8 128x128x128", fp8_stages(128, &[128, 128], 4, 128), &[(2, 0.444), (4, 0.227)]),
        ("fp8 128x256x64", fp8_stages(64, &[128, 256], 2, 256), &[(2, 0.953), (3, 0.642), (4, 0.617)]),
        ("fp8 128x256x128", fp8_stages(128, &[128, 256], 4, 256), &[(2, 0.589), (3, 0.416)]),
    ];
    for (name, stage_shape, rows) in measured {
        let depth = if name.ends_with("x128") { 128.0 } else { 64.0 };
        for &(stages, milliseconds) in rows {
            let cycles = milliseconds * 1.965e6 * depth / 131_072.0;
            assert_near(&format!("{name}, {stages} stages"), stage_shape.cycles(stages), cycles, 0.10);
        }
    }
}
