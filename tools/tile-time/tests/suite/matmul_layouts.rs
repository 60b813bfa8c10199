//! Compares predictions with a published series of matmul kernels on A100. The kernels differ in the shared-memory layout of their
//! tiles: unpadded rows with bank conflicts, padded rows, and permuted rows with two stages. Each computes a 4096 x 4096 x 4096
//! matmul in bf16 with four warps, `cp.async`, `ldmatrix` and `mma.sync`.

use crate::rates::assert_near;
use crate::support::{Kernel, repeat};

/// Rows, columns and depth of the matmul.
const SIZE: usize = 4096;
/// Bytes of a row of A, and of a row of B, which is transposed.
const ROW_BYTES: usize = 2 * SIZE;
/// Extent of a tile along K, in elements.
const TILE_DEPTH: usize = 64;

/// A kernel of the published series.
struct SeriesKernel {
    /// Columns of a CTA's output tile; it has 128 rows.
    columns: usize,
    /// Distance between two rows of a tile in shared memory, in bytes.
    stride: usize,
    /// Whether the kernel permutes the 16-byte units of a row by an XOR with the row number.
    permuted: bool,
    stages: usize,
}

impl SeriesKernel {
    /// Returns the shared memory of one stage: 128 rows of A and `columns` rows of B.
    fn stage_bytes(&self) -> usize {
        (128 + self.columns) * self.stride
    }

    /// Returns PTX that computes the addresses of a thread: %rd2, %rd3 and %r10 for its copies, and %rd5 for its stores. The loads
    /// of A and B use %a and %b, with one register for each of the four steps of K.
    fn thread_offsets(&self) -> String {
        let half_columns = self.columns / 2;
        let log2_tiles_per_row = (SIZE / self.columns).trailing_zeros();
        // Returns PTX that permutes the index of a 16-byte unit, if the kernel permutes units.
        let permute_unit_text = |unit: &str, row: &str| {
            if self.permuted { format!("and.b32 %i9, {row}, 7;\nxor.b32 {unit}, {unit}, %i9;\n") } else { String::new() }
        };
        // Returns PTX that computes the addresses of the `ldmatrix` loads of an operand, one for each step of K.
        let load_addresses = |to: &str, start: usize| {
            let steps = |step: usize| match self.permuted {
                true => format!("xor.b32 {to}{step}, %i8, {};", 32 * step),
                false => format!("add.s32 {to}{step}, %i8, {};", 32 * step),
            };
            format!(
                "{}mad.lo.s32 %i8, %i6, {}, %r1;\nshl.b32 %i7, %i7, 4;\nadd.s32 %i8, %i8, %i7;\nadd.s32 %i8, %i8, {start};\n{}",
                permute_unit_text("%i7", "%i6"),
                self.stride,
                repeat(4, steps)
            )
        };
        // Permuted kernels load B with `ldmatrix.x4`. Its third and fourth 8x8 matrix contain the eight rows after the first eight.
        let b_row = if self.permuted { "shr.u32 %i9, %i1, 4;\nmad.lo.s32 %i6, %i9, 8, %i6;\n" } else { "" };
        format!(
            "mov.u32 %r13, {ROW_BYTES};\nmov.u32 %r1, buffer;\nmov.u32 %r3, %tid.x;\nmov.u32 %r6, %ctaid.x;\nshr.u32 %i0, %r3, 5;\nand.b32 %i1, %r3, 31;\n\
             shr.u32 %i2, %i0, 1;\nand.b32 %i3, %i0, 1;\nshr.u32 %i4, %r6, {log2_tiles_per_row};\nand.b32 %i5, %r6, {};\n\
             shr.u32 %i6, %r3, 3;\nand.b32 %i7, %r3, 7;\nmad.lo.s32 %i8, %i4, 128, %i6;\nmul.wide.u32 %rd4, %i8, {ROW_BYTES};\nadd.s64 %rd2, %rd1, %rd4;\n\
             mad.lo.s32 %i8, %i5, {}, %i6;\nmul.wide.u32 %rd4, %i8, {ROW_BYTES};\nadd.s64 %rd3, %rd1, %rd4;\nadd.s64 %rd3, %rd3, {};\n\
             mul.wide.u32 %rd4, %i7, 16;\nadd.s64 %rd2, %rd2, %rd4;\nadd.s64 %rd3, %rd3, %rd4;\n{}shl.b32 %i7, %i7, 4;\n\
             mad.lo.s32 %r10, %i6, {}, %r1;\nadd.s32 %r10, %r10, %i7;\n\
             and.b32 %i6, %i1, 15;\nmad.lo.s32 %i6, %i2, 64, %i6;\nshr.u32 %i7, %i1, 4;\n{}\
             and.b32 %i6, %i1, 7;\n{b_row}mad.lo.s32 %i6, %i3, {half_columns}, %i6;\nshr.u32 %i7, %i1, 3;\nand.b32 %i7, %i7, 1;\n{}\
             shr.u32 %i6, %i1, 2;\nmad.lo.s32 %i6, %i2, 64, %i6;\nmad.lo.s32 %i6, %i4, 128, %i6;\nmul.wide.u32 %rd4, %i6, {ROW_BYTES};\nadd.s64 %rd5, %rd1, %rd4;\n\
             and.b32 %i7, %i1, 3;\nshl.b32 %i7, %i7, 1;\nmad.lo.s32 %i7, %i3, {half_columns}, %i7;\nmad.lo.s32 %i7, %i5, {}, %i7;\nmul.wide.u32 %rd4, %i7, 2;\n\
             add.s64 %rd5, %rd5, %rd4;\nadd.s64 %rd5, %rd5, {};\n",
            SIZE / self.columns - 1,
            self.columns,
            SIZE * ROW_BYTES,
            permute_unit_text("%i7", "%i6"),
            self.stride,
            load_addresses("%a", 0),
            load_addresses("%b", 128 * self.stride),
            self.columns,
            2 * SIZE * ROW_BYTES,
        )
    }

    /// Returns PTX that copies a tile of A and a tile of B into a stage, 16 rows per instruction. The row size is in a register,
    /// because the published kernels have no constant matrix size.
    fn copies(&self, stage: usize, guard: &str) -> String {
        let copy = |index: usize| {
            let to = stage * self.stage_bytes() + index * 16 * self.stride;
            let (from, row) = if index < 8 { ("%rd2", index) } else { ("%rd3", index - 8) };
            format!(
                "mul.wide.s32 %rd6, %r13, {};\nadd.s64 %rd6, {from}, %rd6;\n{guard}cp.async.cg.shared.global [%r10+{to}], [%rd6], 16;",
                row * 16
            )
        };
        repeat(8 + self.columns / 16, copy)
            + &format!("cp.async.commit_group;\nadd.s64 %rd2, %rd2, {};\nadd.s64 %rd3, %rd3, {};\n", 2 * TILE_DEPTH, 2 * TILE_DEPTH)
    }

    /// Returns the `ldmatrix` and `mma.sync` instructions of one stage. Each of the four warps computes 64 rows and half of the
    /// columns.
    fn mmas(&self, stage: usize) -> String {
        let at = stage * self.stage_bytes();
        // Each warp computes half of the columns, 8 per MMA.
        let mmas_along_n = self.columns / 16;
        let b_loads = |step: usize| match self.permuted {
            true => repeat(mmas_along_n / 2, |pair| {
                let b = |index: usize| format!("%y{}", step % 2 * 32 + 4 * pair + index);
                format!(
                    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{}, {}, {}, {}}}, [%b{step}+{}];",
                    b(0),
                    b(1),
                    b(2),
                    b(3),
                    at + pair * 16 * self.stride
                )
            }),
            false => repeat(mmas_along_n, |n_index| {
                let b = step % 2 * 32 + 2 * n_index;
                format!(
                    "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {{%y{b}, %y{}}}, [%b{step}+{}];",
                    b + 1,
                    at + n_index * 8 * self.stride
                )
            }),
        };
        let mmas_of_rows = |step: usize, row: usize| {
            let a: Vec<String> = (0..4).map(|index| format!("%x{}", step % 2 * 16 + 4 * row + index)).collect();
            let a = a.join(", ");
            let load = format!("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{a}}}, [%a{step}+{}];\n", at + row * 16 * self.stride);
            let mmas = repeat(mmas_along_n, |n_index| {
                let accumulator: Vec<String> =
                    (0..4).map(|index| format!("%c{}", 4 * (row * mmas_along_n + n_index) + index)).collect();
                let (accumulator, b) = (accumulator.join(", "), step % 2 * 32 + 2 * n_index);
                format!(
                    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{{accumulator}}}, {{{a}}}, {{%y{b}, %y{}}}, {{{accumulator}}};",
                    b + 1
                )
            });
            load + &mmas
        };
        repeat(4, |step| b_loads(step) + &repeat(4, |row| mmas_of_rows(step, row)))
    }

    /// Returns the complete kernel, whose grid covers the output matrix.
    fn kernel(&self) -> Kernel {
        let mmas_along_n = self.columns / 16;
        let registers =
            ".reg .b32 %i<10>;\n.reg .b32 %a<4>;\n.reg .b32 %b<4>;\n.reg .b32 %x<32>;\n.reg .b32 %y<64>;\n.reg .f32 %c<128>;\n";
        let zeros = repeat(16 * mmas_along_n, |index| format!("mov.f32 %c{index}, 0f00000000;"));
        let iterations = SIZE / TILE_DEPTH;
        let iteration = match self.stages {
            1 => self.copies(0, "") + "cp.async.wait_all;\nbar.sync 0;\n" + &self.mmas(0) + "bar.sync 0;\nadd.s32 %i9, %i9, 1;\n",
            stages => repeat(stages, |stage| {
                format!(
                    "bar.sync 0;\nadd.s32 %i9, %i9, 1;\nsetp.lt.s32 %p1, %i9, {iterations};\n{}cp.async.wait_group {};\nbar.sync 0;\n{}",
                    self.copies((stage + stages - 1) % stages, "@%p1 "),
                    stages - 1,
                    self.mmas(stage)
                )
            }),
        };
        let first = if self.stages > 1 { self.copies(0, "") } else { String::new() };
        let store = |index: usize| {
            let (row, n_index, half_columns) = (index / 2 / mmas_along_n, index / 2 % mmas_along_n, index % 2);
            let accumulator = 4 * (row * mmas_along_n + n_index) + 2 * half_columns;
            format!(
                "cvt.rn.bf16x2.f32 %i0, %c{}, %c{accumulator};\nst.global.b32 [%rd5+{}], %i0;",
                accumulator + 1,
                (row * 16 + half_columns * 8) * ROW_BYTES + n_index * 16
            )
        };
        let body = format!(
            "{first}mov.b32 %i9, 0;\nLOOP:\n{iteration}setp.lt.s32 %p2, %i9, {iterations};\n@%p2 bra LOOP;\n{}",
            repeat(8 * mmas_along_n, store)
        );
        Kernel::new("sm_80", 128)
            .prologue(&(registers.to_string() + &self.thread_offsets() + &zeros))
            .body(body)
            .shared_bytes((self.stages * self.stage_bytes()) as u32)
            .grid((SIZE * SIZE / 128 / self.columns) as u32)
            .out_bytes(3 * SIZE * ROW_BYTES)
            .flops(2.0 * (SIZE as f64).powi(3))
            .registers(200)
    }
}

/// Compares the predicted TFLOP/s with measurements on A100 with 40 GB. The first kernel waits for shared memory, so it runs at the
/// maximum clock rate. The other kernels spend most of the time in MMAs, which reduces the clock rate. Their clock rate follows
/// from the 244 TFLOP/s of the fastest library on the same machine.
#[test]
fn matmul_rate_by_shared_memory_layout() {
    let series = [
        ("rows in the same banks", SeriesKernel { columns: 128, stride: 128, permuted: false, stages: 1 }, 1410, 64.9),
        ("rows with padding", SeriesKernel { columns: 128, stride: 144, permuted: false, stages: 1 }, 1139, 166.8),
        ("permuted rows, two stages", SeriesKernel { columns: 64, stride: 128, permuted: true, stages: 2 }, 1139, 220.8),
    ];
    let predicted = series.map(|(name, variant, clock, measured)| {
        let report = variant.kernel().report_with("a100-40", &["--set", &format!("chip.clock={clock}")]);
        let predicted = report["tflops"].as_f64().expect("a number");
        assert_near(name, predicted, measured, 0.15);
        predicted
    });
    assert!(predicted.is_sorted(), "{predicted:?}");
}
