//! Tests of matmuls whose accumulators are in tensor memory (TMEM). `tile-run` executes their `.as` and `.sched` files, and
//! `tile-sim` their PTX, with several schedule seeds and with early and late delivery of asynchronous writes. All outputs must be
//! equal. The hazard checker and both executors must detect every injected fault.

mod fault_matrix;
mod program;
mod scales;

use numerics::{Scalar, literal};
use program::{Form, Matmul, Operand, PLAIN};
use std::path::Path;
use std::process::ExitCode;
use tests::need::Need;
use tests::scheduled::{
    check_both_detect, check_hazards, execute_for_output, executions, file_of_tool, replace_once, without_lines_starting_with,
    write_program_and_ptx,
};
use tests::suite::Suite;
use tests::{for_each, run, temporary_folder, tests};

/// Trip counts of the loop that contains the MMAs.
const TRIP_COUNTS: [usize; 5] = [0, 1, 2, 3, 8];
/// The trip count of the K loop, for matmuls that a test executes with a single trip count.
const ONLY_TRIP_COUNT: usize = 4;

/// An f16 matmul. The definitions of the other matmuls change a few of its fields.
const F16: Matmul = Matmul {
    target: "sm_100",
    elem: Scalar::F16,
    acc: Scalar::F32,
    atom: "tcgen05.k16.f32",
    extents: [128, 64, 32],
    lhs: PLAIN,
    rhs: PLAIN,
    left_in_tensor: false,
    lanes: "32x32b",
    chunk: 32,
    warps: 4,
    tiles: 1,
};

/// An operand whose first dimension is contiguous in its buffer.
const COLUMN_MAJOR: Operand = Operand { transposed: false, inner: 0 };
/// An operand whose buffer holds the transposed matrix.
const TRANSPOSED: Operand = Operand { transposed: true, inner: 1 };
/// An operand whose buffer holds the transposed matrix, with a contiguous first dimension.
const TRANSPOSED_COLUMN_MAJOR: Operand = Operand { transposed: true, inner: 0 };

/// Matmuls with each type, each number of rows of an accumulator, each operand orientation, and each way to load accumulators.
fn matmuls() -> Vec<Matmul> {
    let byte_matmul = Matmul { extents: [128, 32, 64], rhs: TRANSPOSED, ..F16 };
    vec![
        F16,
        Matmul { elem: Scalar::BF16, target: "sm_103", rhs: TRANSPOSED, ..F16 },
        Matmul { acc: Scalar::F16, atom: "tcgen05.k16.f16", chunk: 64, target: "sm_110", ..F16 },
        Matmul { elem: Scalar::TF32, atom: "tcgen05.k8.f32", rhs: TRANSPOSED, ..F16 },
        Matmul { elem: Scalar::F8E4M3FN, atom: "tcgen05.k32.f32", ..byte_matmul },
        Matmul { elem: Scalar::F8E5M2, atom: "tcgen05.k32.f32", rhs: PLAIN, ..byte_matmul },
        Matmul { elem: Scalar::F8E4M3FN, acc: Scalar::F16, atom: "tcgen05.k32.f16", ..byte_matmul },
        Matmul { elem: Scalar::I8, acc: Scalar::I32, atom: "tcgen05.k32.s32", ..byte_matmul },
        Matmul { lhs: COLUMN_MAJOR, ..F16 },
        Matmul { lhs: TRANSPOSED, rhs: TRANSPOSED_COLUMN_MAJOR, ..F16 },
        Matmul { lhs: TRANSPOSED_COLUMN_MAJOR, rhs: COLUMN_MAJOR, extents: [128, 128, 64], chunk: 64, ..F16 },
        Matmul { extents: [64, 64, 32], lanes: "16x32bx2", ..F16 },
        Matmul { extents: [64, 32, 64], lanes: "16x64b", lhs: COLUMN_MAJOR, ..F16 },
        Matmul { extents: [64, 128, 32], lanes: "16x128b", ..F16 },
        Matmul { extents: [64, 64, 32], lanes: "16x256b", chunk: 64, ..F16 },
        Matmul { lanes: "16x256b", ..F16 },
        Matmul { extents: [256, 32, 32], chunk: 32, ..F16 },
        // Accumulators of eight columns. An MMA instruction over 128 rows has at least sixteen columns.
        Matmul { extents: [128, 8, 32], rhs: COLUMN_MAJOR, chunk: 8, ..F16 },
        Matmul { extents: [256, 8, 64], rhs: TRANSPOSED, chunk: 8, lanes: "16x256b", ..F16 },
        Matmul { warps: 8, chunk: 64, ..F16 },
        Matmul { left_in_tensor: true, ..F16 },
        Matmul { left_in_tensor: true, elem: Scalar::F8E4M3FN, atom: "tcgen05.k32.f32", ..byte_matmul },
    ]
}

/// An element of the left operand: a small integer, so that no sum is rounded.
fn lhs_element(row: usize, k: usize) -> i64 {
    (row * 7 + k * 3 + k / 32) as i64 % 5 - 2
}
/// An element of the right operand: a small integer, as in `lhs_element`.
fn rhs_element(k: usize, column: usize) -> i64 {
    (k * 5 + column * 2 + k / 32) as i64 % 3 - 1
}

/// The little-endian bytes of an integer, which is converted to an element type.
fn bytes_of(scalar: Scalar, number: i64) -> Vec<u8> {
    let text = if scalar.is_int() { number.to_string() } else { format!("{number}.0") };
    let bits = literal::parse(scalar, &text).expect("the number is one of the type");
    bits.to_le_bytes()[..scalar.bits().div_ceil(8) as usize].to_vec()
}

/// Writes the launch of a matmul with a trip count of the K loop to a directory. Returns the expected bytes of the result.
fn write_matmul_launch(matmul: &Matmul, folder: &Path, trip_count: usize) -> Vec<u8> {
    let k = matmul.extents[2] as usize;
    let shapes = matmul.array_extents();
    let [m, n] = shapes[2];
    let coordinates = |[_, columns]: [usize; 2], i: usize, is_transposed: bool| {
        let (row, column) = (i / columns, i % columns);
        if is_transposed { [column, row] } else { [row, column] }
    };
    let array = |operand_index: usize, operand: Operand, element: fn(usize, usize) -> i64| -> Vec<u8> {
        let [rows, columns] = shapes[operand_index];
        let number = |i: usize| {
            let [first, second] = coordinates(shapes[operand_index], i, operand.transposed);
            element(first, second)
        };
        (0..rows * columns).flat_map(|i| bytes_of(matmul.elem, number(i))).collect()
    };
    let (a, b) = (array(0, matmul.lhs, lhs_element), array(1, matmul.rhs, rhs_element));
    let size = matmul.acc.bits() as usize / 8;
    write_launch(folder, [("a", a), ("b", b), ("c", vec![0xff; m * n * size])], trip_count);
    let sum = |i: usize| (0..trip_count * k).map(|k| lhs_element(i / n, k) * rhs_element(k, i % n)).sum::<i64>();
    (0..m * n).flat_map(|i| bytes_of(matmul.acc, sum(i))).collect()
}

/// Writes a launch whose arguments are arrays and a trip count, and a file for each array. The output is the array `c`.
fn write_launch<const N: usize>(folder: &Path, arrays: [(&str, Vec<u8>); N], trip_count: usize) {
    let for_each_name = |text: fn(&str) -> String| arrays.each_ref().map(|(name, _)| text(name)).join(", ");
    let buffers = for_each_name(|name| format!(r#"{{"name": "{name}", "file": "{name}.in"}}"#));
    let params = for_each_name(|name| format!(r#"{{"ptr": "{name}"}}"#));
    let text = format!(
        r#"{{"entry": null, "grid": [1, 1, 1], "buffers": [{buffers}], "params": [{params}, {{"i32": {trip_count}}}], "outputs": ["c"]}}"#
    );
    std::fs::write(folder.join("launch.json"), text).expect("the folder takes files");
    for (name, data) in arrays {
        std::fs::write(folder.join(name).with_extension("in"), data).expect("the folder takes files");
    }
}

fn tile_run_computes_expected_matmuls_from_as() {
    for_each(&matmuls(), |matmul| {
        let text = matmul.text(Form::As);
        let folder = temporary_folder();
        std::fs::write(folder.path().join("k.as"), &text).expect("the folder takes files");
        for trip_count in [0, 1, 3] {
            let expected = write_matmul_launch(matmul, folder.path(), trip_count);
            let output = execute_for_output(folder.path(), "tile-run", "k.as", &[])
                .map_err(|error| format!("{}: {error}\n{text}", matmul.name()))?;
            if output != expected {
                return Err(format!("{}: wrong output after {trip_count} iterations", matmul.name()));
            }
        }
        Ok(())
    });
}

/// Executes `.sched` programs and their PTX. The first matmul and a persistent matmul have several trip counts of the K loop; the
/// other matmuls have `ONLY_TRIP_COUNT`.
fn scheduled_matmuls_are_correct_in_every_execution() {
    let persistent = Matmul { tiles: 5, ..SMALL };
    let cases: Vec<(Matmul, Form, usize)> = matmuls()
        .into_iter()
        .enumerate()
        .flat_map(|(i, matmul)| {
            let trip_count = if i == 0 { TRIP_COUNTS.to_vec() } else { vec![ONLY_TRIP_COUNT] };
            [Form::SingleRole, Form::WarpRoles]
                .into_iter()
                .flat_map(move |form| trip_count.clone().into_iter().map(move |trip_count| (matmul, form, trip_count)))
        })
        .chain([0, 1, 3, 5].map(|trip_count| (persistent, Form::WarpRoles, trip_count)))
        .collect();
    for_each(&cases, |(matmul, form, trip_count)| {
        let text = matmul.text(*form);
        let describe = |error: String| format!("{}, {form:?}: {error}\n{text}", matmul.name());
        check_hazards(&text).map_err(describe)?;
        let folder = temporary_folder();
        let expected = write_matmul_launch(matmul, folder.path(), *trip_count);
        write_program_and_ptx(folder.path(), &text);
        // For `ONLY_TRIP_COUNT`, execute with seed 1 only, to save time.
        let has_one_trip_count = *trip_count == ONLY_TRIP_COUNT;
        for (tool, options) in executions(3).into_iter().filter(|(_, options)| !has_one_trip_count || options.contains(&"1")) {
            let file = file_of_tool(tool);
            let output = execute_for_output(folder.path(), tool, file, &options).map_err(describe)?;
            if output != expected {
                return Err(format!(
                    "{}, {form:?}: {tool} {options:?} has a wrong output after {trip_count} iterations",
                    matmul.name()
                ));
            }
        }
        Ok(())
    });
}

/// Checks that `tile-link`, which runs ptxas, writes a cubin for the PTX of each program.
fn ptxas_accepts_the_ptx() {
    for_each(&matmuls(), |matmul| {
        let folder = temporary_folder();
        write_program_and_ptx(folder.path(), &matmul.text(Form::WarpRoles));
        let path = |name: &str| folder.path().join(name).display().to_string();
        let ran = run("tile-link", &[&path("k.ptx"), "-o", &path("k.cubin")], b"");
        if ran.code == Some(0) { Ok(()) } else { Err(format!("{}: {}", matmul.name(), ran.stderr)) }
    });
}

// Tests of programs with an injected fault.

/// The trip count of programs with an injected fault.
const FAULT_TRIP_COUNT: usize = 5;
/// A matmul with few elements, so that programs with an injected fault execute in a short time.
const SMALL: Matmul = Matmul { extents: [128, 32, 16], ..F16 };

/// Moves the last line that contains `moved_text`. Its new position is after the last line that contains `anchor_text` if `after`
/// is set, else before the first line that contains `anchor_text`.
fn move_last_line(text: &str, moved_text: &str, anchor_text: &str, after: bool) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let from = lines.iter().rposition(|line| line.contains(moved_text)).expect(moved_text);
    let line = lines.remove(from);
    let to = match after {
        true => lines.iter().rposition(|line| line.contains(anchor_text)).expect(anchor_text) + 1,
        false => lines.iter().position(|line| line.contains(anchor_text)).expect(anchor_text),
    };
    lines.insert(to, line);
    lines.join("\n") + "\n"
}

/// Programs with an injected fault: the matmul, the `.sched` text, and a part of the report that the hazard checker must print.
fn broken_programs() -> Vec<(Matmul, String, &'static str)> {
    let tmem_lhs_matmul = Matmul { left_in_tensor: true, ..SMALL };
    let (warp_roles, without_roles) = (SMALL.text(Form::WarpRoles), SMALL.text(Form::SingleRole));
    let several_tiles = Matmul { tiles: 5, ..SMALL };
    let (tmem_lhs_program, persistent) = (tmem_lhs_matmul.text(Form::WarpRoles), several_tiles.text(Form::WarpRoles));
    let zero_init =
        warp_roles.split("zero_init: ").nth(1).and_then(|rest| rest.split(',').next()).expect("the MMA has a `zero_init` operand");
    let with_drain_by_threads = replace_once(&warp_roles, ", drain: mma", "");
    let with_fill_by_threads = replace_once(&warp_roles, "fill: mma", "fill: threads");
    let small_cases = [
        (
            without_lines_starting_with(&warp_roles, "pipeline_wait(pipeline: 0"),
            "read by warp role 'mma' outside wait and release of pipeline0",
        ),
        (
            without_lines_starting_with(&warp_roles, "pipeline_release(pipeline: 0"),
            "stage 0 of pipeline0 is waited for and never released",
        ),
        (
            without_lines_starting_with(&warp_roles, "pipeline_acquire(pipeline: 0"),
            "written by warp role 'load' outside acquire and commit of pipeline0",
        ),
        (
            without_lines_starting_with(&warp_roles, "pipeline_commit(pipeline: 1"),
            "deadlock: warp role 'compute' waits until stage 0 of pipeline1 is filled",
        ),
        (
            without_lines_starting_with(&warp_roles, "pipeline_wait(pipeline: 1"),
            "stage 0 of pipeline1 is released, but was not waited for by warp role 'compute'",
        ),
        (
            without_lines_starting_with(&warp_roles, "async_fence"),
            "is read in place without a fence after it was written, by warp role 'load'",
        ),
        (
            move_last_line(&warp_roles, "pipeline_release(pipeline: 0", "mma(", false),
            "read by warp role 'mma' outside wait and release",
        ),
        (
            move_last_line(&warp_roles, "pipeline_wait(pipeline: 1", "pipeline_release(pipeline: 1", false),
            "outside wait and release of pipeline1",
        ),
        (
            move_last_line(&warp_roles, "pipeline_commit(pipeline: 1", "mma(", false),
            "deadlock: warp role 'compute' waits until stage 0 of pipeline1",
        ),
        (
            replace_once(&with_drain_by_threads, "full: 128, empty: 1,", "full: 128, empty: 32,"),
            "and nothing signals that it was read, by an MMA",
        ),
        (replace_once(&with_fill_by_threads, "full: 1,", "full: 32,"), "and nothing signals that it was written, by an MMA"),
        (with_drain_by_threads, "32 threads free a stage of pipeline0, and its barrier counts 1 arrivals"),
        (
            replace_once(&warp_roles, &format!("zero_init: {zero_init}, "), ""),
            "stage 0 of buffer2 is read before anything is written to it",
        ),
        (
            without_lines_starting_with(&without_roles, "pipeline_release(pipeline: 0"),
            "stage 0 of pipeline0 is waited for and never released",
        ),
        (
            without_lines_starting_with(&without_roles, "pipeline_wait(pipeline: 1"),
            "stage 0 of pipeline1 is released, but was not waited for by the CTA",
        ),
        (
            without_lines_starting_with(&without_roles, "pipeline_wait(pipeline: 0"),
            "read by the CTA outside wait and release of pipeline0",
        ),
        (without_lines_starting_with(&without_roles, "async_fence"), "is read in place without a fence after it was written"),
    ];
    let left_in_tensor_cases = [
        // The accumulators get the TMEM columns of the first stages of the left operand.
        (
            replace_once(&tmem_lhs_program, "(offset: 32, depth: 3)", "(offset: 0, depth: 3)"),
            "stage 0 of buffer2 is overwritten, and nothing signals that it was written (of stage 1 of buffer0)",
        ),
        (
            without_lines_starting_with(&tmem_lhs_program, "pipeline_wait(pipeline: 0"),
            "read by warp role 'mma' outside wait and release of pipeline0",
        ),
        (
            move_last_line(&tmem_lhs_program, "tmem_store(", "pipeline_acquire(pipeline: 0", false),
            "written by warp role 'load' outside acquire and commit",
        ),
    ];
    let several_tiles_cases = [
        (
            without_lines_starting_with(&persistent, "pipeline_acquire(pipeline: 1"),
            "stage 0 of pipeline1 is committed, but was not acquired by warp role 'mma'",
        ),
        (
            without_lines_starting_with(&persistent, "pipeline_release(pipeline: 1"),
            "stage 0 of pipeline1 was not released before it is due again",
        ),
    ];
    let small_cases = small_cases.into_iter().map(|(text, why)| (SMALL, text, why));
    let several_tiles_cases = several_tiles_cases.into_iter().map(|(text, why)| (several_tiles, text, why));
    small_cases
        .chain(several_tiles_cases)
        .chain(left_in_tensor_cases.into_iter().map(|(text, why)| (tmem_lhs_matmul, text, why)))
        .collect()
}

fn hazard_checker_and_executors_detect_broken_matmuls() {
    for_each(&broken_programs(), |(matmul, text, expected)| {
        let message = check_hazards(text).err().ok_or(format!("the hazard checker accepts it: {expected}\n{text}"))?;
        if !message.contains(expected) {
            return Err(format!("the hazard checker reports '{message}', not '{expected}'"));
        }
        let folder = temporary_folder();
        let correct_output = write_matmul_launch(matmul, folder.path(), FAULT_TRIP_COUNT);
        write_program_and_ptx(folder.path(), text);
        check_both_detect(folder.path(), &correct_output, &message)
    });
}

// Tests of a chain of two MMAs: threads compute an operand of the second MMA from the accumulator of the first MMA.

/// The `.sched` text of the chain of two MMAs.
const CHAIN: &str = include_str!("attention.sched");

/// Writes the launch of the chain for `trip_count` blocks of 32 keys. Returns the expected bytes of `(q k) v`, summed over the
/// blocks. The program multiplies each accumulator row by `factor(row)` before each block except the first.
fn write_chain_launch(folder: &Path, trip_count: usize, factor: fn(usize) -> i64) -> Vec<u8> {
    const ROWS: usize = 128;
    const DEPTH: usize = 16;
    const KEYS: usize = 32 * program::MAX_TRIP_COUNT;
    const COLUMNS: usize = 32;
    let array = |rows: usize, columns: usize, element: fn(usize, usize) -> i64| {
        (0..rows * columns).flat_map(|i| bytes_of(Scalar::F16, element(i / columns, i % columns))).collect::<Vec<u8>>()
    };
    let value_element = |key: usize, column: usize| rhs_element(key + 1, column + 2);
    let v = array(KEYS, COLUMNS, |key, column| rhs_element(key + 1, column + 2));
    let arrays = [
        ("q", array(ROWS, DEPTH, lhs_element)),
        ("k", array(DEPTH, KEYS, rhs_element)),
        ("v", v),
        ("c", vec![0xff; ROWS * COLUMNS * 4]),
    ];
    write_launch(folder, arrays, trip_count);
    let score = |row: usize, key: usize| (0..DEPTH).map(|d| lhs_element(row, d) * rhs_element(d, key)).sum::<i64>();
    let scores: Vec<i64> =
        (0..ROWS * 32 * trip_count).map(|i| score(i / (32 * trip_count).max(1), i % (32 * trip_count).max(1))).collect();
    let sum = |row: usize, column: usize| {
        let factor_of_later_blocks = |key: usize| factor(row).pow((trip_count - 1 - key / 32) as u32);
        (0..32 * trip_count)
            .map(|key| scores[row * 32 * trip_count + key] * value_element(key, column) * factor_of_later_blocks(key))
            .sum::<i64>()
    };
    (0..ROWS * COLUMNS).flat_map(|i| bytes_of(Scalar::F32, sum(i / COLUMNS, i % COLUMNS))).collect()
}

fn mma_reads_tmem_operand_that_threads_computed() {
    check_chain(CHAIN, |_| 1);
}

/// Checks that the hazard checker accepts a chain, and that every execution has the expected output. `factor` returns the factor by
/// which the program scales an accumulator row before each block except the first.
fn check_chain(text: &str, factor: fn(usize) -> i64) {
    check_hazards(text).expect("the hazard checker accepts it");
    let folder = temporary_folder();
    write_program_and_ptx(folder.path(), text);
    for trip_count in TRIP_COUNTS {
        let expected = write_chain_launch(folder.path(), trip_count, factor);
        for (tool, options) in executions(3) {
            let file = file_of_tool(tool);
            let output = execute_for_output(folder.path(), tool, file, &options).expect(tool);
            assert!(output == expected, "{tool} {options:?} has a wrong output after {trip_count} iterations");
        }
    }
    let path = |name: &str| folder.path().join(name).display().to_string();
    run("tile-link", &[&path("k.ptx"), "-o", &path("k.cubin")], b"").ok("tile-link");
}

fn hazard_checker_and_executors_detect_broken_chains() {
    let cases = [
        (
            without_lines_starting_with(CHAIN, "pipeline_wait(pipeline: 3"),
            "read by warp role 'mma' outside wait and release of pipeline3",
        ),
        (
            without_lines_starting_with(CHAIN, "pipeline_wait(pipeline: 2"),
            "read by warp role 'compute' outside wait and release of pipeline2",
        ),
        (
            move_last_line(CHAIN, "pipeline_commit(pipeline: 3", "tmem_store(", false),
            "written by warp role 'compute' outside acquire and commit of pipeline3",
        ),
        // The accumulators get the TMEM columns of the scores.
        (
            replace_once(CHAIN, "(offset: 32, depth: 1)", "(offset: 0, depth: 1)"),
            "buffer5 is read, but its memory was given to stage 0 of buffer4",
        ),
        // The MMA that computes the scores moves after their first use, so a thread reads the scores too early.
        (
            move_last_line(CHAIN, "mma(lhs: memory(buffer: 0)", "mma(lhs: memory(buffer: 4)", true),
            "stage 0 of buffer3 is read before anything",
        ),
    ];
    for_each(&cases, |(text, expected)| {
        let message = check_hazards(text).err().ok_or(format!("the hazard checker accepts it: {expected}"))?;
        if !message.contains(expected) {
            return Err(format!("the hazard checker reports '{message}', not '{expected}'"));
        }
        let folder = temporary_folder();
        let correct_output = write_chain_launch(folder.path(), FAULT_TRIP_COUNT, |_| 1);
        write_program_and_ptx(folder.path(), text);
        check_both_detect(folder.path(), &correct_output, &message)
    });
}

/// A variant of the chain that multiplies the accumulator rows of the second MMA by 1 or 2 before each MMA. Some warps have rows
/// with both factors, some warps only rows with one factor.
fn scaled_chain() -> String {
    let edits = [
        ("func ", "layout #4 = (lane: [1, 2, 4, 8, 16], warp: [32, 64])\nfunc "),
        (
            "(buffers: [5], depth: 1, fill: mma, producer: 2, consumers: [0], full: 1, empty: 128,",
            "(buffers: [5], depth: 1, fill: threads, drain: mma, producer: 0, consumers: [2], full: 128, empty: 1,",
        ),
        ("    %21 = for(", SCALE_FACTORS),
        (
            "      pipeline_release(pipeline: 2) @0\n",
            "      pipeline_release(pipeline: 2) @0
      %76 = compare(kind: int(predicate: equal, signedness: signed), lhs: %22, rhs: %17) : i1 @0
      pipeline_acquire(pipeline: 4, phase: %23) @0
      tmem_scale(by: %75, buffer: 5, zero_init: %76, atom: \"32x32b\") @0
      pipeline_commit(pipeline: 4) @0\n",
        ),
        ("pipeline_wait(pipeline: 4, phase: %17)", "pipeline_acquire(pipeline: 4, phase: %21)"),
        ("pipeline_release(pipeline: 4)", "pipeline_commit(pipeline: 4)"),
        ("    pipeline_acquire(pipeline: 4, phase: %17) @0\n", ""),
        (
            "      pipeline_wait(pipeline: 3, phase: %56) @0\n",
            "      pipeline_wait(pipeline: 3, phase: %56) @0\n      pipeline_wait(pipeline: 4, phase: %56) @0\n",
        ),
        (
            "      pipeline_release(pipeline: 3) @0\n",
            "      pipeline_release(pipeline: 3) @0\n      pipeline_release(pipeline: 4) @0\n",
        ),
        (
            "    pipeline_commit(pipeline: 4) @0\n    pipeline_release(pipeline: 1) @0\n",
            "    pipeline_wait(pipeline: 4, phase: %52) @0\n    pipeline_release(pipeline: 4) @0\n    pipeline_release(pipeline: 1) @0\n",
        ),
    ];
    edits.into_iter().fold(CHAIN.to_string(), |text, (from, to)| replace_once(&text, from, to))
}

/// The lines that compute the scale factor of each row: 1 if `row % 64 < 48`, else 2.
const SCALE_FACTORS: &str = "    %70 = coordinate(dim: 0) : tile<128x1xi32, #4> @0
    %71 = constant(64) : tile<128x1xi32, #4> @0
    %72 = binary(kind: rem_i(signedness: unsigned), lhs: %70, rhs: %71) : tile<128x1xi32, #4> @0
    %73 = constant(48) : tile<128x1xi32, #4> @0
    %74 = compare(kind: int(predicate: less_than, signedness: signed), lhs: %72, rhs: %73) : tile<128x1xi1, #4> @0
    %77 = constant(1.0) : tile<128x1xf32, #4> @0
    %78 = constant(2.0) : tile<128x1xf32, #4> @0
    %75 = select(cond: %74, yes: %77, no: %78) : tile<128x1xf32, #4> @0
    %21 = for(";

fn threads_scale_accumulator_rows_between_mmas() {
    check_chain(&scaled_chain(), |row| if row % 64 < 48 { 1 } else { 2 });
}

fn hazard_checker_and_executors_detect_mistimed_scaling() {
    let text = scaled_chain();
    let zero_init = "zero_init: %76, atom";
    let early_release = replace_once(
        &replace_once(&text, "      pipeline_release(pipeline: 4) @0\n", ""),
        "      mma(lhs: memory(buffer: 4)",
        "      pipeline_release(pipeline: 4) @0\n      mma(lhs: memory(buffer: 4)",
    );
    // The next two changes do not affect the output. A zero-initialised MMA ignores the old accumulator. The warp role that
    // acquires the stage of the operand also has the stage of the accumulator. The conservative hazard checker still refuses both
    // programs.
    let never_zero_initialised = replace_once(
        &replace_once(&text, zero_init, "zero_init: %79, atom"),
        "      %76 = ",
        "      %79 = constant(false) : i1 @0\n      %76 = ",
    );
    for (text, expected) in [
        (never_zero_initialised, "stage 0 of buffer5 is read before anything is written to it"),
        (
            without_lines_starting_with(&text, "pipeline_acquire(pipeline: 4, phase: %23)"),
            "stage 0 of buffer5 is written by warp role 'compute' outside acquire and commit of pipeline4",
        ),
    ] {
        let message = check_hazards(&text).expect_err("it is refused");
        assert!(message.contains(expected), "{message}");
    }
    let cases = [
        (replace_once(&text, zero_init, "zero_init: %20, atom"), None),
        (
            without_lines_starting_with(&text, "pipeline_wait(pipeline: 4, phase: %56)"),
            Some("is added to by warp role 'mma' outside wait and release of pipeline4"),
        ),
        (early_release, Some("is added to by warp role 'mma' outside wait and release of pipeline4")),
    ];
    for_each(&cases, |(text, expected)| {
        let folder = temporary_folder();
        let correct_output = write_chain_launch(folder.path(), FAULT_TRIP_COUNT, |row| if row % 64 < 48 { 1 } else { 2 });
        write_program_and_ptx(folder.path(), text);
        let message = check_hazards(text).err();
        match expected {
            Some(expected) if message.as_ref().is_none_or(|message| !message.contains(expected)) => {
                Err(format!("the hazard checker reports '{message:?}', not '{expected}'"))
            }
            _ => check_both_detect(folder.path(), &correct_output, &message.unwrap_or_default()),
        }
    });
}

fn main() -> ExitCode {
    let mut suite = Suite::new();
    suite.functions_with(
        &[Need::Ptxas],
        "matmul/",
        tests![
            tile_run_computes_expected_matmuls_from_as,
            scheduled_matmuls_are_correct_in_every_execution,
            ptxas_accepts_the_ptx,
            hazard_checker_and_executors_detect_broken_matmuls,
            mma_reads_tmem_operand_that_threads_computed,
            hazard_checker_and_executors_detect_broken_chains,
            threads_scale_accumulator_rows_between_mmas,
            hazard_checker_and_executors_detect_mistimed_scaling,
        ],
    );
    suite.functions("scales/", scales::TESTS);
    fault_matrix::add(&mut suite);
    suite.run()
}
