//! Tests of `--check-bounds`. An access outside an argument's array must stop the kernel with a message that names the source line.
//! Accesses inside the array must not stop the kernel. `tile-run` executes the file of each stage, and `tile-sim` the PTX.

use std::fs;
use std::path::Path;
use tests::{RunResult, run_in, shell, temporary_folder};

/// Loads 64 elements of `%a` from `%off` on, and stores them through `%c`; both have 256 elements.
const POINTERS: &str = r#"entry @NAME(%a: tile<ptr<f32>>, %n: tile<i32>, %s: tile<i32>, %c: tile<ptr<f32>>, %m: tile<i32>, %t: tile<i32>, %off: tile<i32>) {
  %token = make_token : token loc(#loc)
VIEW  %iota = iota : tile<64xi32> loc(#loc)
  %row = reshape %off : tile<i32> -> tile<1xi32> loc(#loc)
  %rows = broadcast %row : tile<1xi32> -> tile<64xi32> loc(#loc)
  %index = addi %rows, %iota : tile<64xi32> loc(#loc)
  %from = reshape %a : tile<ptr<f32>> -> tile<1xptr<f32>> loc(#loc)
  %from64 = broadcast %from : tile<1xptr<f32>> -> tile<64xptr<f32>> loc(#loc)
  %source = offset %from64, %index : tile<64xptr<f32>>, tile<64xi32> -> tile<64xptr<f32>> loc(#loc)
  %tile, %loaded = load_ptr_tko weak %source token=%token : tile<64xptr<f32>> -> tile<64xf32>, token loc(#loc)
  %to = reshape %c : tile<ptr<f32>> -> tile<1xptr<f32>> loc(#loc)
  %to64 = broadcast %to : tile<1xptr<f32>> -> tile<64xptr<f32>> loc(#loc)
  %destination = offset %to64, %iota : tile<64xptr<f32>>, tile<64xi32> -> tile<64xptr<f32>> loc(#loc)
  %stored = store_ptr_tko weak %destination, %tile token=%loaded : tile<64xptr<f32>>, tile<64xf32> -> token loc(#loc)
  return loc(#loc)
} loc(#loc)
#loc = loc("kernel.py":11:8)
"#;

/// Loads tile `%off` through a view with `inbounds`, the assumption that the tile is inside the array.
const VIEWS: &str = r#"entry @k(%a: tile<ptr<f32>>, %n: tile<i32>, %s: tile<i32>, %c: tile<ptr<f32>>, %m: tile<i32>, %t: tile<i32>, %off: tile<i32>) {
  %view = make_tensor_view %a, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]> loc(#loc)
  %part = make_partition_view %view : partition_view<tile=(64), tensor_view<?xf32, strides=[1]>> loc(#loc)
  %tile, %token = load_view_tko weak %part[%off] inbounds = [true] : partition_view<tile=(64), tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<64xf32>, token loc(#loc)
  %out = make_tensor_view %c, shape = [%m], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]> loc(#loc)
  %parts = make_partition_view %out : partition_view<tile=(64), tensor_view<?xf32, strides=[1]>> loc(#loc)
  %done = store_view_tko weak %tile, %parts[%off] : tile<64xf32>, partition_view<tile=(64), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token loc(#loc)
  return loc(#loc)
} loc(#loc)
#loc = loc("kernel.py":11:8)
"#;

/// Each access to multicast memory, of tile `%off`, with the assumption that the tile is inside the array.
const MULTICAST: &str = r#"entry @k(%a: tile<ptr<i32, <multicast>>>, %n: tile<i32>, %s: tile<i32>, %c: tile<ptr<i32, <multicast>>>, %m: tile<i32>, %t: tile<i32>, %off: tile<i32>) {
  %five = constant <i32: 5> : tile<64xi32> loc(#loc)
  %view = make_tensor_view %a, shape = [%n], strides = [1] : tile<ptr<i32, <multicast>>>, tile<i32> -> tensor_view<?xi32, strides=[1], #cuda_tile.ptr_attr<multicast>> loc(#loc)
  %part = make_partition_view %view : partition_view<tile=(64), tensor_view<?xi32, strides=[1], #cuda_tile.ptr_attr<multicast>>> loc(#loc)
  ACCESS
  return loc(#loc)
} loc(#loc)
#loc = loc("kernel.py":11:8)
"#;

const VIEW_OF_A: &str =
    "  %view = make_tensor_view %a, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]> loc(#loc)
  %extent = get_tensor_shape %view : tensor_view<?xf32, strides=[1]> -> tile<i32> loc(#loc)
";

fn compile_all_stages(folder: &Path, text: &str, target: &str) -> String {
    fs::write(folder.join("k.txt"), text).unwrap();
    let line = format!(
        "set -e; tile-read k.txt | tile-lower-aa -v --check-bounds -o k.aa; tile-lower-as --gpu-name {target} k.aa -o k.as; \
         tile-sched k.as -o k.sched; tile-ptx k.sched -o k.ptx"
    );
    let ran = shell(folder, &line);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran.stderr
}

/// Executes the file of each stage and the PTX. Each pointer argument has 256 elements, and the last argument is `off`. Returns the
/// result of each file.
fn execute(folder: &Path, off: i32) -> Vec<(&'static str, RunResult)> {
    let numbers: Vec<u8> = (0..256).flat_map(|n| (n as f32).to_le_bytes()).collect();
    fs::write(folder.join("a.bin"), &numbers).unwrap();
    fs::write(folder.join("c.bin"), &numbers).unwrap();
    let buffer = |name: &str| format!(r#"{{"name":"{name}","file":"{name}.bin","align":256}}"#);
    let array = |name: &str| format!(r#"{{"ptr":"{name}"}},{{"i32":256}},{{"i32":1}}"#);
    let launch = format!(
        r#"{{"grid":[1,1,1],"buffers":[{},{}],"params":[{},{},{{"i32":{off}}}],"outputs":["c"]}}"#,
        buffer("a"),
        buffer("c"),
        array("a"),
        array("c")
    );
    fs::write(folder.join("launch.json"), launch).unwrap();
    let files = [("tile-run", "k.aa"), ("tile-run", "k.as"), ("tile-run", "k.sched"), ("tile-sim", "k.ptx")];
    files.map(|(tool, file)| (file, run_in(folder, tool, &[file, "--launch", "launch.json", "--out-dir", "."], b""))).into()
}

fn check_accesses(text: &str, target: &str, inside: &[i32], outside: &[i32], message: &str) {
    let folder = temporary_folder();
    compile_all_stages(folder.path(), text, target);
    for off in inside {
        for (file, ran) in execute(folder.path(), *off) {
            assert_eq!(ran.code, Some(0), "{file} with {off}: {}", ran.stderr);
        }
    }
    for off in outside {
        for (file, ran) in execute(folder.path(), *off) {
            let reported = ran.text() + &ran.stderr;
            assert_eq!(ran.code, Some(1), "{file} with {off}: {reported}");
            assert!(
                reported.contains("kernel.py:11: tile block: [0, 0, 0]: ") && reported.contains(message),
                "{file} with {off}: {reported}"
            );
            // The device prints the fault once, with one of the indices outside, and the extent.
            let printed = ran.text();
            let indices: Vec<i64> =
                printed.split("index ").skip(1).filter_map(|rest| rest.split_once(", extent 256")?.0.parse().ok()).collect();
            assert!(matches!(indices[..], [index] if !(0..256).contains(&index)), "{file} with {off}: {reported}");
        }
    }
}

fn pointers_are_checked_against_the_array_that_the_kernel_name_encodes() {
    let text = POINTERS.replace("NAME", "pick_Kt1_A1f32_1t1_p16_A1f32_Si32_I64").replace("VIEW", "");
    check_accesses(&text, "sm_80", &[0, 192], &[193, -1, 1 << 20], "load outside the array of parameter 0");
}

fn pointers_are_checked_against_views_of_the_same_parameter() {
    let text = POINTERS.replace("NAME", "k").replace("VIEW", VIEW_OF_A);
    check_accesses(&text, "sm_80", &[0, 192], &[193, -64], "load outside the array of parameter 0");
}

fn elements_that_a_mask_leaves_out_are_not_checked() {
    let load = "  %tile, %loaded = load_ptr_tko weak %source token=%token : tile<64xptr<f32>> -> tile<64xf32>, token loc(#loc)\n";
    let masked = "  %end = constant <i32: 300> : tile<64xi32> loc(#loc)
  %mask = cmpi less_than %index, %end, signed : tile<64xi32> -> tile<64xi1> loc(#loc)
  %zero = constant <f32: 0.0> : tile<64xf32> loc(#loc)
  %tile, %loaded = load_ptr_tko weak %source, %mask, %zero token=%token : tile<64xptr<f32>>, tile<64xi1>, tile<64xf32> -> tile<64xf32>, token loc(#loc)\n";
    assert!(POINTERS.contains(load));
    let text = POINTERS.replace(load, masked).replace("NAME", "pick_Kt1_A1f32_1t1_p16_A1f32_Si32_I64").replace("VIEW", "");
    // From 300 on the kernel loads nothing; below, indices of 256 and more are outside.
    check_accesses(&text, "sm_80", &[0, 192, 300, 1 << 20], &[193, 299, -1], "load outside the array of parameter 0");
}

fn views_are_checked_under_an_inbounds_assumption() {
    check_accesses(VIEWS, "sm_80", &[0, 3], &[4, -1], "load outside the array along dimension 0");
}

fn multicast_accesses_are_checked_under_an_inbounds_assumption() {
    let view = "partition_view<tile=(64), tensor_view<?xi32, strides=[1], #cuda_tile.ptr_attr<multicast>>>";
    let accesses = [
        (
            "load",
            format!(
                "%x, %u = multimem_load_reduce_view_tko weak %part[%off] inbounds = [true] : {view}, tile<i32> -> tile<64xi32>, token loc(#loc)"
            ),
        ),
        (
            "store",
            format!(
                "%u = multimem_store_view_tko weak %part, %five[%off] inbounds = [true] : {view}, tile<64xi32>, tile<i32> -> token loc(#loc)"
            ),
        ),
        (
            "store",
            format!(
                "%u = multimem_reduce_view_tko relaxed device %part, %five[%off] inbounds = [true] : {view}, tile<64xi32>, tile<i32> -> token loc(#loc)"
            ),
        ),
    ];
    for (name, access) in accesses {
        let message = format!("multicast {name} outside the array along dimension 0");
        check_accesses(&MULTICAST.replace("ACCESS", &access), "sm_100", &[0, 3], &[4, -1], &message);
    }
}

fn unchecked_accesses_are_reported() {
    let folder = temporary_folder();
    let reported = compile_all_stages(folder.path(), &POINTERS.replace("NAME", "k").replace("VIEW", ""), "sm_80");
    assert!(reported.contains("load is not checked: the extent of the array of parameter 0 is unknown"), "{reported}");
}

pub(crate) const TESTS: &[(&str, fn())] = tests::tests![
    pointers_are_checked_against_the_array_that_the_kernel_name_encodes,
    pointers_are_checked_against_views_of_the_same_parameter,
    elements_that_a_mask_leaves_out_are_not_checked,
    views_are_checked_under_an_inbounds_assumption,
    multicast_accesses_are_checked_under_an_inbounds_assumption,
    unchecked_accesses_are_reported,
];
