//! Tests of kernels with tensor maps, which are hidden kernel parameters. The host object in the cubin must compute the same tensor
//! maps as `tile-sim` computes from the recipes in the PTX. Other tests execute kernels with TMA operands as `.as`, `.sched` and
//! PTX.

use std::fs;
use tests::compare::ExpectedOutputs;
use tests::{for_each, root, run, run_in, temporary_folder};

/// PTX of a kernel with two tensor maps. TMA copies tiles of a matrix of 32-bit words and of a vector of 16-bit floats to shared
/// memory. The threads copy these tiles to the output.
const PTX: &str = r#"//!tile ptx 1 final
//!tile target sm_90
//!tile tensor-map (entry:"k",param:"words",map:(base:param(0),element:int32,dims:[max(param(1),const(1)),param(2)],strides:[product(param(3),const(4))],extent:[32,4],swizzle:bytes128,tf32:false))
//!tile tensor-map (entry:"k",param:"halves",map:(base:sum(param(0),const(64)),element:f16,dims:[param(1)],strides:[],extent:[64],swizzle:none,tf32:false))
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 .ptr .global .align 1 in, .param .u32 columns, .param .u32 rows, .param .u16 stride,
    .param .u64 .ptr .global .align 1 out, .hidden .param .align 64 .b8 words[128], .hidden .param .align 64 .b8 halves[128])
.reqntid 32
{
.reg .pred %p<4>;
.reg .b32 %r<20>;
.reg .b64 %rd<20>;
.shared .align 1024 .b8 smem[1024];
ld.param.b64 %rd1, [out];
mov.u32 %r1, %tid.x;
mov.b32 %r2, smem;
setp.ne.b32 %p1, %r1, 0;
mov.b32 %r3, 1;
@!%p1 mbarrier.init.shared.b64 [smem+1016], %r3;
fence.mbarrier_init.release.cluster;
bar.sync 0;
mov.b64 %rd2, words;
cvta.param.u64 %rd3, %rd2;
mov.b64 %rd4, halves;
cvta.param.u64 %rd5, %rd4;
mov.b32 %r4, 0;
@%p1 bra W;
mov.b32 %r5, 640;
mbarrier.arrive.expect_tx.shared.b64 _, [smem+1016], %r5;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [smem], [%rd3, {%r4, 1}], [smem+1016];
cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [smem+512], [%rd5, {8}], [smem+1016];
W:
mbarrier.try_wait.parity.shared.b64 %p2, [smem+1016], %r4;
@!%p2 bra W;
shl.b32 %r6, %r1, 4;
add.s32 %r7, %r2, %r6;
cvt.u64.u32 %rd6, %r6;
add.s64 %rd7, %rd1, %rd6;
ld.shared.v4.b32 {%r8, %r9, %r10, %r11}, [%r7];
st.global.v4.b32 [%rd7], {%r8, %r9, %r10, %r11};
shl.b32 %r6, %r1, 2;
add.s32 %r7, %r2, %r6;
cvt.u64.u32 %rd6, %r6;
add.s64 %rd7, %rd1, %rd6;
ld.shared.b32 %r8, [%r7+512];
st.global.b32 [%rd7+512], %r8;
ret;
}
"#;

fn the_host_object_fills_the_tensor_maps_of_the_recipes() {
    let folder = temporary_folder();
    let file = |name: &str| folder.path().join(name);
    fs::write(file("k.ptx"), PTX).unwrap();
    run_in(folder.path(), "tile-link", &["k.ptx", "-o", "k.cubin"], b"").ok("tile-link");
    for (columns, rows, stride) in [(48, 8, 64), (1, 3, 32), (20, 4, 36)] {
        let launch = format!(
            r#"{{"grid": [1], "buffers": [{{"name": "in", "type": "i32[1024]", "fill": {{"iota": "i32"}}}}, {{"name": "out", "type": "i32[160]", "fill": "empty"}}],
            "params": [{{"ptr": "in"}}, {{"i32": {columns}}}, {{"i32": {rows}}}, {{"i16": {stride}}}, {{"ptr": "out"}}], "outputs": ["out"]}}"#
        );
        fs::write(file("launch.json"), launch).unwrap();
        let output_of = |out: &str, options: &[&str]| {
            let arguments = [&["k.ptx", "--launch", "launch.json", "--out-dir", out, "--races", "error"], options].concat();
            run_in(folder.path(), "tile-sim", &arguments, b"").ok(out);
            fs::read(file(out).join("out.npy")).unwrap()
        };
        let output_by_recipes = output_of("recipes", &[]);
        assert_eq!(output_of("native", &["--host-object", "k.cubin", "--allow-native"]), output_by_recipes);
        let words: Vec<u32> = output_by_recipes[output_by_recipes.len() - 640..]
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect();
        for at in 0..128 {
            // Rows of 128 bytes with a swizzle: chunks of 16 bytes are permuted by the row number.
            let (row, column) = (at / 32, (at % 32 ^ at / 32 << 2) as u32);
            let is_inside = column < columns && 1 + row < rows;
            assert_eq!(words[at], if is_inside { (1 + row as u32) * stride + column } else { 0 }, "word {at} of {columns} columns");
        }
        assert_eq!(words[128], if columns > 9 { 16 + 4 } else { 0 });
    }
    // A hidden parameter without a recipe is an error.
    fs::write(file("k.ptx"), PTX.replace("param:\"halves\"", "param:\"other\"")).unwrap();
    let refused = run_in(folder.path(), "tile-link", &["k.ptx", "-o", "k.cubin"], b"");
    assert!(refused.code == Some(3) && refused.stderr.contains("hidden parameter 'halves'"), "{}", refused.stderr);
}

/// Executes matmuls with TMA operands on targets with different MMA instructions.
fn mma_operands_are_loaded_by_tma() {
    let cases = [
        "matmul_f16",
        "matmul_f32",
        "matmul_transposed",
        "matmul_bytes",
        "matmul_dequantised",
        "matmul_gathered",
        "relu_attention",
    ];
    let runs: Vec<(&str, &str)> =
        cases.iter().flat_map(|case| ["sm_90", "sm_100", "sm_120"].map(|target| (*case, target))).collect();
    for_each(&runs, |(name, target)| {
        let (case, folder) = (root().join("tests/run").join(name), temporary_folder());
        let text = |path: std::path::PathBuf| path.display().to_string();
        let save_temps = format!("--save-temps={}", folder.path().display());
        let (kernel, launch) = (text(case.join("kernel.tileirbc")), text(case.join("launch.json")));
        let arguments =
            [&kernel, "--gpu-name", target, "--tma=on", "--emit=ptx", &save_temps, "-o", &text(folder.path().join("k.ptx"))];
        run("tileiras", &arguments, b"").ok(name);
        run_in(folder.path(), "tile-link", &["k.ptx", "-o", "k.cubin"], b"").ok(name);
        let ptx = fs::read_to_string(folder.path().join("k.ptx")).unwrap();
        if !ptx.contains("cp.async.bulk.tensor") {
            return Err(format!("{name} {target}: no operand uses TMA"));
        }
        let native_options = ["--host-object", "k.cubin", "--allow-native"];
        let executions: [(&str, &str, &[&str]); 6] = [
            ("tile-run", "kernel.as", &[]),
            ("tile-run", "kernel.sched", &[]),
            ("tile-sim", "k.ptx", &["--races", "error"]),
            ("tile-sim", "k.ptx", &["--races", "error", "--delivery", "late"]),
            ("tile-sim", "k.ptx", &["--races", "error", "--delivery", "late", "--schedule-seed", "5"]),
            ("tile-sim", "k.ptx", &native_options),
        ];
        for (tool, file, options) in executions {
            let words = [&[file, "--launch", &launch, "--out-dir", "out"], options].concat();
            run_in(folder.path(), tool, &words, b"").ok(&format!("{name} {target} {file}"));
            let result = ExpectedOutputs::read(&case).check(&case, &folder.path().join("out"));
            result.map_err(|complaint| format!("{name} {target} {file} {options:?}: {complaint}"))?;
        }
        Ok(())
    });
}

pub(crate) const TESTS: &[(&str, fn())] =
    tests::tests![the_host_object_fills_the_tensor_maps_of_the_recipes, mma_operands_are_loaded_by_tma,];
