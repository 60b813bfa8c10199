//! Tests of matmuls in a persistent loop over output tiles. The pipelines of the K loop keep their stage and phase from one output
//! tile to the next. Launches vary the number of tiles and the trip count of the K loop. The hazard checker must refuse every
//! injected fault, and both executors must detect it.

use std::path::Path;
use tests::scheduled::{
    check_all_executions, check_both_detect, check_hazards, execute_for_output, executions, file_of_tool, replace_once,
    without_lines_starting_with, write_program_and_ptx,
};
use tests::{for_each, run, temporary_folder};

/// The Tile IR text of a persistent matmul. Each CTA of a grid of two computes every second output tile. The arguments `%tiles` and
/// `%steps` are the number of output tiles and the trip count of the K loop.
const KERNEL: &str = "//!tile tileir 2 read
//!tile producer test
//!tile input 0
entry @persistent(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %tiles: tile<i32>, %steps: tile<i32>) {
  %a16 = assume div_by<16>, %a : tile<ptr<f16>>
  %b16 = assume div_by<16>, %b : tile<ptr<f16>>
  %c16 = assume div_by<16>, %c : tile<ptr<f32>>
  %lhs = make_tensor_view %a16, shape = [ROWS, DEPTH], strides = [DEPTH, 1] : tensor_view<ROWSxDEPTHxf16, strides=[DEPTH,1]>
  %rhs = make_tensor_view %b16, shape = [DEPTH, COLUMNS], strides = [COLUMNS, 1] : tensor_view<DEPTHxCOLUMNSxf16, strides=[COLUMNS,1]>
  %out = make_tensor_view %c16, shape = [ROWS, COLUMNS], strides = [COLUMNS, 1] : tensor_view<ROWSxCOLUMNSxf32, strides=[COLUMNS,1]>
  %ls = make_partition_view %lhs : partition_view<tile=(TALLx32), tensor_view<ROWSxDEPTHxf16, strides=[DEPTH,1]>>
  %rs = make_partition_view %rhs : partition_view<tile=(32xCOLUMNS), tensor_view<DEPTHxCOLUMNSxf16, strides=[COLUMNS,1]>>
  %os = make_partition_view %out : partition_view<tile=(TALLxCOLUMNS), tensor_view<ROWSxCOLUMNSxf32, strides=[COLUMNS,1]>>
  %x, %y, %z = get_tile_block_id : tile<i32>
  %blocks, %by, %bz = get_num_tile_blocks : tile<i32>
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %none = constant <f32: 0.000000e+00> : tile<TALLxCOLUMNSxf32>
  for %t in (%x to %tiles, step %blocks) : tile<i32> {
    %sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<TALLxCOLUMNSxf32>) {
      %l, %lt = load_view_tko weak %ls[%t, %i] : partition_view<tile=(TALLx32), tensor_view<ROWSxDEPTHxf16, strides=[DEPTH,1]>>, tile<i32> -> tile<TALLx32xf16>, token
      %r, %rt = load_view_tko weak %rs[%i, %zero] : partition_view<tile=(32xCOLUMNS), tensor_view<DEPTHxCOLUMNSxf16, strides=[COLUMNS,1]>>, tile<i32> -> tile<32xCOLUMNSxf16>, token
      %next = mmaf %l, %r, %acc : tile<TALLx32xf16>, tile<32xCOLUMNSxf16>, tile<TALLxCOLUMNSxf32>
      continue %next : tile<TALLxCOLUMNSxf32>
    }
    %stored = store_view_tko weak %sum, %os[%t, %zero] : tile<TALLxCOLUMNSxf32>, partition_view<tile=(TALLxCOLUMNS), tensor_view<ROWSxCOLUMNSxf32, strides=[COLUMNS,1]>>, tile<i32> -> token
    continue
  }
  return
}
";
/// The number of output tiles in the array C. A launch computes at most this number of tiles.
const TILES: usize = 6;
/// The maximum trip count of the K loop. The arrays A and B have elements for this number of iterations.
const STEPS: usize = 10;
/// The extent of the arrays along K, in elements.
const DEPTH: usize = STEPS * 32;
/// Rows and columns of an output tile, in most tests.
const TILE: [usize; 2] = [128, 64];
/// Rows and columns of an output tile whose accumulator takes several `tmem_load` ops.
const WIDE_TILE: [usize; 2] = [128, 256];
/// Rows and columns of an output tile that a CTA pair computes.
const PAIR_TILE: [usize; 2] = [256, 128];

/// Targets and options. They select the MMA instruction (`tcgen05`, `wgmma` or `mma.sync`), and whether warp roles divide the work.
const EXECUTIONS: [(&str, &[&str]); 7] = [
    ("sm_100", &[]),
    ("sm_100", &["--roles=off"]),
    ("sm_90", &["--tma=on"]),
    ("sm_90", &["--tma=on", "--roles=off"]),
    ("sm_90", &["--tma=off"]),
    ("sm_120", &["--tma=on"]),
    ("sm_120", &["--tma=on", "--roles=off"]),
];

/// Numbers of tiles, and trip counts of the K loop: zero, less than the number of pipeline stages, and more.
const COUNTS: [[usize; 2]; 6] = [[0, 3], [5, 0], [6, 1], [5, 3], [6, 7], [5, 10]];

/// Compiles the kernel for a target with options of `tile-lower-as` and `tile-sched`. Returns the `.sched` text.
fn scheduled_text(target: &str, options: &[&str], [tile_rows, columns]: [usize; 2]) -> String {
    let folder = temporary_folder();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let sizes = [("ROWS", TILES * tile_rows), ("DEPTH", DEPTH), ("COLUMNS", columns), ("TALL", tile_rows)];
    let kernel = sizes.iter().fold(KERNEL.to_string(), |text, (name, size)| text.replace(name, &size.to_string()));
    std::fs::write(path("k.tile"), kernel).expect("the folder takes files");
    let run_stage = |tool: &str, options: &[&str], from: &str, to: &str| {
        let (from, to) = (path(from), path(to));
        run(tool, &[options, &[&from, "-o", &to]].concat(), b"").ok(&format!("{tool} for {target}"));
    };
    let (scheduling_options, lowering_options): (Vec<&str>, Vec<&str>) =
        options.iter().partition(|option| option.starts_with("--roles") || option.starts_with("--cta-pairs"));
    run_stage("tile-lower-aa", &["-O3"], "k.tile", "k.aa");
    run_stage("tile-lower-as", &[&["--gpu-name", target], &lowering_options[..]].concat(), "k.aa", "k.as");
    run_stage("tile-sched", &[&["--format=text"], &scheduling_options[..]].concat(), "k.as", "k.sched");
    std::fs::read_to_string(path("k.sched")).expect("it was written")
}

/// An element of the left operand. Elements are small integers, so that f32 accumulators are exact.
fn lhs_element(row: usize, k: usize) -> i32 {
    (row * 7 + k * 3 + k / 32 + row / 128) as i32 % 5 - 2
}
/// An element of the right operand: a small integer, as in `lhs_element`.
fn rhs_element(k: usize, column: usize) -> i32 {
    (k * 5 + column * 2 + k / 32) as i32 % 3 - 1
}
/// The little-endian f16 bytes of an integer from -2 to 2.
fn f16_bytes(number: i32) -> [u8; 2] {
    let magnitude: u16 = [0, 0x3c00, 0x4000][number.unsigned_abs() as usize];
    (magnitude | u16::from(number < 0) << 15).to_le_bytes()
}

/// Writes the launch of a kernel to a directory. Returns the expected bytes of C. Tiles that the persistent loop does not compute
/// keep their initial bytes.
fn write_launch(folder: &Path, [tiles, steps]: [usize; 2], [tile_rows, columns]: [usize; 2]) -> Vec<u8> {
    let rows = TILES * tile_rows;
    let a: Vec<u8> = (0..rows * DEPTH).flat_map(|i| f16_bytes(lhs_element(i / DEPTH, i % DEPTH))).collect();
    let b: Vec<u8> = (0..DEPTH * columns).flat_map(|i| f16_bytes(rhs_element(i / columns, i % columns))).collect();
    for (name, data) in [("a.in", a), ("b.in", b), ("c.in", vec![0xff; rows * columns * 4])] {
        std::fs::write(folder.join(name), data).expect("the folder takes files");
    }
    let buffers = ["a", "b", "c"].map(|name| format!(r#"{{"name": "{name}", "file": "{name}.in"}}"#)).join(", ");
    let params = format!(r#"{{"ptr": "a"}}, {{"ptr": "b"}}, {{"ptr": "c"}}, {{"i32": {tiles}}}, {{"i32": {steps}}}"#);
    let text = format!(r#"{{"entry": null, "grid": [2, 1, 1], "buffers": [{buffers}], "params": [{params}], "outputs": ["c"]}}"#);
    std::fs::write(folder.join("launch.json"), text).expect("the folder takes files");
    let sum = |row: usize, column: usize| (0..steps * 32).map(|k| lhs_element(row, k) * rhs_element(k, column)).sum::<i32>() as f32;
    let element = |i: usize| match i / columns < tiles * tile_rows {
        true => sum(i / columns, i % columns).to_le_bytes(),
        false => [0xff; 4],
    };
    (0..rows * columns).flat_map(element).collect()
}

#[test]
fn persistent_matmuls_are_correct_in_every_execution() {
    let programs: Vec<(String, String)> = EXECUTIONS
        .iter()
        .map(|(target, options)| (format!("{target} {options:?}"), scheduled_text(target, options, TILE)))
        .collect();
    for (name, text) in &programs {
        let pipelines = text.matches("pipeline_acquire(").count();
        assert_eq!(
            pipelines == 0,
            name.contains("off\"]") && name.contains("tma=off"),
            "{name} has {pipelines} steps of pipelines"
        );
        assert_eq!(text.contains("tcgen05"), name.contains("sm_100"), "{name}");
        check_hazards(text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
    }
    let runs: Vec<(&(String, String), [usize; 2])> =
        programs.iter().flat_map(|program| COUNTS.map(|counts| (program, counts))).collect();
    for_each(&runs, |((name, text), counts)| {
        let folder = temporary_folder();
        let expected = write_launch(folder.path(), *counts, TILE);
        write_program_and_ptx(folder.path(), text);
        for (tool, options) in executions(1).into_iter().filter(|(_, options)| !options.contains(&"2")) {
            let output = execute_for_output(folder.path(), tool, file_of_tool(tool), &options)
                .map_err(|error| format!("{name}: {error}"))?;
            if output != expected {
                return Err(format!("{name}: {tool} {options:?} has a wrong output for {counts:?} tiles and iterations"));
            }
        }
        Ok(())
    });
}

/// Both CTAs of a pair compute each tile. They start the next tile after both have loaded the accumulators of the previous tile.
#[test]
fn a_persistent_cta_pair_advances_over_tiles() {
    for target in ["sm_100", "sm_110"] {
        let text = scheduled_text(target, &["--cluster=2", "--cta-pairs=on"], PAIR_TILE);
        check_hazards(&text).unwrap_or_else(|error| panic!("{target}: {error}\n{text}"));
        for_each(&[[0, 3], [5, 0], [6, 1], [5, 7]], |counts| {
            let folder = temporary_folder();
            let expected = write_launch(folder.path(), *counts, PAIR_TILE);
            check_all_executions(folder.path(), &text, &expected, executions(2))
                .map_err(|reported| format!("{target}, {counts:?} tiles and steps: {reported}"))
        });
    }
}

/// The first CTA issues the MMAs of both CTAs. It must not overwrite accumulators that the second CTA has not loaded yet. The test
/// removes the signal of the second CTA, and `tile-sim` must detect that.
#[test]
fn tile_sim_detects_a_missing_signal_of_the_second_cta() {
    let (folder, counts) = (temporary_folder(), [6, 7]);
    let expected = write_launch(folder.path(), counts, PAIR_TILE);
    write_program_and_ptx(folder.path(), &scheduled_text("sm_100", &["--cluster=2", "--cta-pairs=on"], PAIR_TILE));
    let path = folder.path().join("k.ptx");
    let ptx = std::fs::read_to_string(&path).expect("tile-ptx has written it");
    let line = ptx.lines().find(|line| line.contains("@signals mapa")).expect("the first CTA is signalled");
    let without_mapa =
        line.split_once("@signals mapa").and_then(|(before, rest)| Some(format!("{before}{}", rest.split_once("; ")?.1)));
    std::fs::write(&path, ptx.replace(line, &without_mapa.expect("it is found first"))).expect("the folder takes files");
    let reported = execute_for_output(folder.path(), "tile-sim", "k.ptx", &["--races=error"]).map(|output| output == expected);
    assert!(reported.as_ref().is_err_and(|reported| reported.contains("SIM040")), "{reported:?}");
}

#[test]
fn wide_accumulators_are_loaded_in_chunks() {
    let text = scheduled_text("sm_100", &[], WIDE_TILE);
    assert_eq!(text.matches("tmem_load(").count(), 4, "{text}");
    for_each(&[[3, 0], [5, 3]], |counts| {
        let folder = temporary_folder();
        let expected = write_launch(folder.path(), *counts, WIDE_TILE);
        write_program_and_ptx(folder.path(), &text);
        for (tool, options) in executions(1).into_iter().filter(|(_, options)| !options.contains(&"2")) {
            let output = execute_for_output(folder.path(), tool, file_of_tool(tool), &options)?;
            if output != expected {
                return Err(format!("{tool} {options:?} has a wrong output for {counts:?} tiles and iterations"));
            }
        }
        Ok(())
    });
}

// Tests of programs with an injected fault.

/// Injects a fault: the persistent loop of warp role `loop_number` forwards its loop-carried value number `value` unchanged to the
/// next iteration. Without warp roles, `loop_number` is 0.
fn with_unchanged_value(text: &str, loop_number: usize, value: usize) -> String {
    let is_outer = |line: &&str| line.contains(" = for(") && line.contains("init: [%") && !line.contains("tile<");
    let outer_line = text.lines().filter(is_outer).nth(2 * loop_number).expect("tiles are in a loop");
    let after_loop = &text[text.find(outer_line).expect("it is there") + outer_line.len()..];
    let args = after_loop.lines().find(|line| line.trim_start().starts_with("(%")).expect("a loop has arguments");
    let arg = args.split("(%").nth(1).and_then(|rest| rest.split(", %").nth(value + 1)).expect("it carries the value");
    let arg = format!("%{}", arg.split(':').next().expect("it has a type"));
    let indent = outer_line.len() - outer_line.trim_start().len() + 2;
    let is_end = |line: &&str| line.starts_with(&format!("{}continue(", " ".repeat(indent)));
    let end_line = after_loop.lines().find(is_end).expect("an iteration ends");
    let values = end_line.split(['[', ']']).nth(1).expect("it carries values");
    let mut next_values: Vec<&str> = values.split(", ").collect();
    next_values[value] = &arg;
    replace_once(text, end_line, &end_line.replace(values, &next_values.join(", ")))
}

/// Programs with a race between output tiles, each with a part of the report that the hazard checker must print.
fn broken_programs() -> Vec<(String, &'static str)> {
    let (without_roles, with_load_role) =
        (scheduled_text("sm_100", &["--roles=off"], TILE), scheduled_text("sm_90", &["--tma=on"], TILE));
    let with_mma_role = scheduled_text("sm_100", &[], TILE);
    vec![
        (with_unchanged_value(&without_roles, 0, 0), "is not the next one of the CTA"),
        (with_unchanged_value(&without_roles, 0, 1), "the CTA is at phase 1 of stage 1 of pipeline0, not 0"),
        (with_unchanged_value(&without_roles, 0, 2), "the CTA is at phase 1 of stage 0 of pipeline1, not 0"),
        (
            without_lines_starting_with(&without_roles, "pipeline_release(pipeline: 1"),
            "stage 0 of pipeline1 is waited for and never released",
        ),
        (without_lines_starting_with(&without_roles, "async_fence"), "is read by TMA without a fence after accesses of threads"),
        (
            without_lines_starting_with(&without_roles, "pipeline_wait(pipeline: 2"),
            "stage 0 of buffer3 is read before a barrier after it was written",
        ),
        // The buffer of stored tiles has two stages, which alternate.
        (
            without_lines_starting_with(&with_mma_role, "pipeline_wait(pipeline: 2"),
            "stage 0 of buffer3 is read before anything is written to it",
        ),
        (without_lines_starting_with(&with_mma_role, "pipeline_release(pipeline: 2"), "is waited for and never released"),
        (
            without_lines_starting_with(&with_mma_role, "async_fence"),
            "is read by TMA without a fence after accesses of threads, by warp role 'compute'",
        ),
        (with_unchanged_value(&with_load_role, 0, 0), "is not the next one of warp role 'compute'"),
        (with_unchanged_value(&with_load_role, 1, 0), "is not the next one of warp role 'load'"),
        (with_unchanged_value(&with_load_role, 1, 1), "warp role 'load' is at phase 1 of stage 0 of pipeline0, not 0"),
        // Accumulators alternate between two stages.
        (
            with_unchanged_value(&with_mma_role, 0, 0),
            "stage 0 of pipeline1 is not the next one of warp role 'compute', which is stage 1",
        ),
        (
            with_unchanged_value(&with_mma_role, 2, 2),
            "stage 0 of pipeline1 is not the next one of warp role 'mma', which is stage 1",
        ),
        (with_unchanged_value(&with_mma_role, 2, 3), "warp role 'mma' is at phase 1 of stage 0 of pipeline1, not 0"),
    ]
}

#[test]
fn hazard_checker_and_executors_detect_races_between_tiles() {
    for_each(&broken_programs(), |(text, expected)| {
        let reported = check_hazards(text).err().ok_or_else(|| format!("not refused, instead of '{expected}':\n{text}"))?;
        if !reported.contains(expected) {
            return Err(format!("'{reported}' instead of '{expected}':\n{text}"));
        }
        let folder = temporary_folder();
        let correct_output = write_launch(folder.path(), [6, 10], TILE);
        write_program_and_ptx(folder.path(), text);
        check_both_detect(folder.path(), &correct_output, expected)
    });
}
