//! The number of warps that a kernel requests by an optimization hint: the CTA size for each request, the remark about the request,
//! and equal results for all requests.

use std::path::Path;
use tests::{for_each, run, shell, temporary_folder};

/// Rows and columns of the only tile.
const ROWS: usize = 16;
const COLUMNS: usize = 64;

/// `x + prefix sums along the columns + the row sum`, and the same transposed.
const KERNEL: &str = "//!tile tileir 2 read
//!tile producer test
//!tile input 0
entry @requested(%x: tile<ptr<i32>>, %o: tile<ptr<i32>>, %t: tile<ptr<i32>>) HINT{
  %zero = constant <i32: 0> : tile<i32>
  %xv = make_tensor_view %x, shape = [16, 64], strides = [64, 1] : tensor_view<16x64xi32, strides=[64,1]>
  %xp = make_partition_view %xv : partition_view<tile=(16x64), tensor_view<16x64xi32, strides=[64,1]>>
  %a, %at = load_view_tko weak %xp[%zero, %zero] : partition_view<tile=(16x64), tensor_view<16x64xi32, strides=[64,1]>>, tile<i32> -> tile<16x64xi32>, token
  %sums = reduce %a dim=1 identities=[0 : i32] : tile<16x64xi32> -> tile<16xi32>
  (%l: tile<i32>, %r: tile<i32>) {
    %lr = addi %l, %r : tile<i32>
    yield %lr : tile<i32>
  }
  %down = scan %a dim=0 reverse=false identities=[0 : i32] : tile<16x64xi32> -> tile<16x64xi32>
  (%p: tile<i32>, %e: tile<i32>) {
    %pe = addi %p, %e : tile<i32>
    yield %pe : tile<i32>
  }
  %column = reshape %sums : tile<16xi32> -> tile<16x1xi32>
  %wide = broadcast %column : tile<16x1xi32> -> tile<16x64xi32>
  %b = addi %a, %down : tile<16x64xi32>
  %c = addi %b, %wide : tile<16x64xi32>
  %turned = permute %c [1, 0] : tile<16x64xi32> -> tile<64x16xi32>
  %ov = make_tensor_view %o, shape = [16, 64], strides = [64, 1] : tensor_view<16x64xi32, strides=[64,1]>
  %op = make_partition_view %ov : partition_view<tile=(16x64), tensor_view<16x64xi32, strides=[64,1]>>
  %s = store_view_tko weak %c, %op[%zero, %zero] : tile<16x64xi32>, partition_view<tile=(16x64), tensor_view<16x64xi32, strides=[64,1]>>, tile<i32> -> token
  %tv = make_tensor_view %t, shape = [64, 16], strides = [16, 1] : tensor_view<64x16xi32, strides=[16,1]>
  %tp = make_partition_view %tv : partition_view<tile=(64x16), tensor_view<64x16xi32, strides=[16,1]>>
  %u = store_view_tko weak %turned, %tp[%zero, %zero] : tile<64x16xi32>, partition_view<tile=(64x16), tensor_view<64x16xi32, strides=[16,1]>>, tile<i32> -> token
  return
}
";
const LAUNCH: &str = r#"{"entry": null, "grid": [1, 1, 1],
  "buffers": [{"name": "x", "file": "x.bin", "align": 256}, {"name": "o", "bytes": 4096, "fill": "zero"}, {"name": "t", "bytes": 4096, "fill": "zero"}],
  "params": [{"ptr": "x"}, {"ptr": "o"}, {"ptr": "t"}], "outputs": ["o", "t"]}"#;

/// An element of the input `x`. The elements of neighbouring rows and columns differ.
fn element(row: usize, column: usize) -> i32 {
    ((row * 31 + column * 17) % 23) as i32 - 11
}

/// The expected contents of `o` and `t`.
fn expected_outputs() -> [Vec<i32>; 2] {
    let row_sum = |row: usize| (0..COLUMNS).map(|column| element(row, column)).sum::<i32>();
    let prefix_sum = |row: usize, column: usize| (0..=row).map(|row| element(row, column)).sum::<i32>();
    let result = |row, column| element(row, column) + prefix_sum(row, column) + row_sum(row);
    let row_major = (0..ROWS * COLUMNS).map(|at| result(at / COLUMNS, at % COLUMNS)).collect();
    let transposed = (0..ROWS * COLUMNS).map(|at| result(at % ROWS, at / ROWS)).collect();
    [row_major, transposed]
}

fn to_bytes(numbers: &[i32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Executes a file and compares the outputs `o` and `t` with the expected contents.
fn check_execution(tool: &str, file: &str, at: &Path) -> Result<(), String> {
    let (launch, out) = (at.join("launch.json").display().to_string(), at.join("out").display().to_string());
    std::fs::create_dir_all(&out).expect("a new folder");
    let ran = run(tool, &[file, "--launch", &launch, "--out-dir", &out], b"");
    if ran.code != Some(0) {
        return Err(format!("{tool} {file}: {}", ran.stderr));
    }
    for (name, numbers) in ["o", "t"].iter().zip(expected_outputs()) {
        let output = std::fs::read(at.join("out").join(format!("{name}.bin"))).expect("an output");
        if output != to_bytes(&numbers) {
            return Err(format!("{tool} {file}: {name} is wrong"));
        }
    }
    Ok(())
}

/// Compiles for a target with a request, and executes the `.tile`, `.as`, `.sched` and `.ptx` files. Returns the number of warps in
/// the PTX, and the remark.
fn compile_and_execute(requested: Option<u32>, target: &str, at: &Path) -> Result<(u32, String), String> {
    let hint = requested
        .map_or(String::new(), |requested| format!("optimization_hints=<{target} = {{num_worker_warps_per_cta = {requested}}}> "));
    let input: Vec<i32> = (0..ROWS * COLUMNS).map(|at| element(at / COLUMNS, at % COLUMNS)).collect();
    std::fs::write(at.join("x.bin"), to_bytes(&input)).expect("a new folder");
    std::fs::write(at.join("launch.json"), LAUNCH).expect("a new folder");
    std::fs::write(at.join("k.mlir"), KERNEL.replace("HINT", &hint)).expect("a new folder");
    let commands = format!(
        "tile-read k.mlir -o k.tile && tile-write k.tile -o k.bc && tile-lower-aa k.tile -o k.aa && tile-lower-as --gpu-name \
         {target} k.aa -o k.as && tile-sched k.as -o k.sched && tile-ptx k.sched -o k.ptx && tileiras k.bc --gpu-name {target} \
         --remarks=all --emit=ptx -o driver.ptx"
    );
    let ran = shell(at, &commands);
    if ran.code != Some(0) {
        return Err(ran.stderr);
    }
    for (tool, name) in [("tile-run", "k.tile"), ("tile-run", "k.as"), ("tile-run", "k.sched"), ("tile-sim", "k.ptx")] {
        check_execution(tool, &at.join(name).display().to_string(), at)?;
    }
    let ptx = std::fs::read_to_string(at.join("k.ptx")).expect("PTX");
    let threads = ptx.lines().find_map(|line| line.trim().strip_prefix(".reqntid ")).and_then(|rest| rest.split(',').next());
    let threads: u32 = threads.and_then(|threads| threads.trim().parse().ok()).ok_or("no .reqntid")?;
    let remark = ran.text().split("remark[").find(|remark| remark.contains("name: WorkerWarps")).unwrap_or("").to_string();
    Ok((threads / 32, remark))
}

#[test]
fn requests_up_to_and_beyond_the_limit() {
    let sm_80_requests = (0..=33).chain([64]).map(|requested| (requested, "sm_80"));
    let requests: Vec<(u32, &str)> = sm_80_requests.chain([1, 2, 8, 16, 32].map(|requested| (requested, "sm_100"))).collect();
    for_each(&requests, |(requested, target)| {
        let folder = temporary_folder();
        let (warps, remark) = compile_and_execute(Some(*requested), target, folder.path())?;
        let (expected_warps, reported) = match requested {
            64 => (32, "missed]: num_worker_warps_per_cta = 64 exceeds the CTA limit: 32 warps".to_string()),
            _ if requested.is_power_of_two() => (*requested, format!("passed]: {requested} warps, from num_worker_warps_per_cta")),
            _ => (4, format!("missed]: num_worker_warps_per_cta = {requested} is not used: it is not a power of two")),
        };
        match warps == expected_warps && remark.starts_with(&reported) {
            true => Ok(()),
            false => Err(format!("{requested} for {target}: {warps} warps, and '{remark}'")),
        }
    });
}

#[test]
fn without_a_request_nothing_is_logged() {
    let folder = temporary_folder();
    let (warps, remark) = compile_and_execute(None, "sm_90", folder.path()).expect("it compiles");
    assert_eq!((warps, remark.as_str()), (4, ""));
}
