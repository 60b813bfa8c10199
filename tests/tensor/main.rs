//! Products in tensor memory, from `.as` to PTX: the same sums everywhere, in several orders and under both deliveries; and broken
//! in each way that there is, which the judge refuses and the executors see.

mod mutants;
mod program;
mod scales;

use numerics::{Scalar, literal};
use program::{Form, Operand, PLAIN, Product};
use std::path::Path;
use tests::scheduled::{edited, executed, file_for, judged, seen_by_both, ways, without, written};
use tests::{for_each, run, temporary};

const TRIPS: [usize; 5] = [0, 1, 2, 3, 8];
/// Of the products that are executed in one number of steps.
const ONE: usize = 4;

const F16: Product = Product {
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

const DOWN: Operand = Operand { transposed: false, inner: 0 };
const TURNED: Operand = Operand { transposed: true, inner: 1 };
const TURNED_DOWN: Operand = Operand { transposed: true, inner: 0 };

/// Each type, both numbers of rows, operands every way round, every way to load sums.
fn products() -> Vec<Product> {
    let bytes = Product { extents: [128, 32, 64], rhs: TURNED, ..F16 };
    vec![
        F16,
        Product { elem: Scalar::BF16, target: "sm_103", rhs: TURNED, ..F16 },
        Product { acc: Scalar::F16, atom: "tcgen05.k16.f16", chunk: 64, target: "sm_110", ..F16 },
        Product { elem: Scalar::TF32, atom: "tcgen05.k8.f32", rhs: TURNED, ..F16 },
        Product { elem: Scalar::F8E4M3FN, atom: "tcgen05.k32.f32", ..bytes },
        Product { elem: Scalar::F8E5M2, atom: "tcgen05.k32.f32", rhs: PLAIN, ..bytes },
        Product { elem: Scalar::F8E4M3FN, acc: Scalar::F16, atom: "tcgen05.k32.f16", ..bytes },
        Product { elem: Scalar::I8, acc: Scalar::I32, atom: "tcgen05.k32.s32", ..bytes },
        Product { lhs: DOWN, ..F16 },
        Product { lhs: TURNED, rhs: TURNED_DOWN, ..F16 },
        Product { lhs: TURNED_DOWN, rhs: DOWN, extents: [128, 128, 64], chunk: 64, ..F16 },
        Product { extents: [64, 64, 32], lanes: "16x32bx2", ..F16 },
        Product { extents: [64, 32, 64], lanes: "16x64b", lhs: DOWN, ..F16 },
        Product { extents: [64, 128, 32], lanes: "16x128b", ..F16 },
        Product { extents: [64, 64, 32], lanes: "16x256b", chunk: 64, ..F16 },
        Product { lanes: "16x256b", ..F16 },
        Product { extents: [256, 32, 32], chunk: 32, ..F16 },
        // An instruction of all rows has sixteen columns or more.
        Product { extents: [128, 8, 32], rhs: DOWN, chunk: 8, ..F16 },
        Product { extents: [256, 8, 64], rhs: TURNED, chunk: 8, lanes: "16x256b", ..F16 },
        Product { warps: 8, chunk: 64, ..F16 },
        Product { left_in_tensor: true, ..F16 },
        Product { left_in_tensor: true, elem: Scalar::F8E4M3FN, atom: "tcgen05.k32.f32", ..bytes },
    ]
}

/// Small whole numbers, so small that no sum is rounded.
fn left(row: usize, k: usize) -> i64 {
    (row * 7 + k * 3 + k / 32) as i64 % 5 - 2
}
fn right(k: usize, column: usize) -> i64 {
    (k * 5 + column * 2 + k / 32) as i64 % 3 - 1
}

fn bytes_of(scalar: Scalar, number: i64) -> Vec<u8> {
    let text = if scalar.is_int() { number.to_string() } else { format!("{number}.0") };
    let bits = literal::parse(scalar, &text).expect("the number is one of the type");
    bits.to_le_bytes()[..scalar.bits().div_ceil(8) as usize].to_vec()
}

/// The launch for some number of steps in a folder, and what it has to leave.
fn launch(product: &Product, folder: &Path, steps: usize) -> Vec<u8> {
    let k = product.extents[2] as usize;
    let shapes = product.arrays();
    let [m, n] = shapes[2];
    let at = |[_, columns]: [usize; 2], i: usize, turned: bool| {
        let (row, column) = (i / columns, i % columns);
        if turned { [column, row] } else { [row, column] }
    };
    let array = |which: usize, operand: Operand, element: fn(usize, usize) -> i64| -> Vec<u8> {
        let [rows, columns] = shapes[which];
        let number = |i: usize| {
            let [first, second] = at(shapes[which], i, operand.transposed);
            element(first, second)
        };
        (0..rows * columns).flat_map(|i| bytes_of(product.elem, number(i))).collect()
    };
    let (a, b) = (array(0, product.lhs, left), array(1, product.rhs, right));
    let size = product.acc.bits() as usize / 8;
    described(folder, [("a", a), ("b", b), ("c", vec![0xff; m * n * size])], steps);
    let sum = |i: usize| (0..steps * k).map(|k| left(i / n, k) * right(k, i % n)).sum::<i64>();
    (0..m * n).flat_map(|i| bytes_of(product.acc, sum(i))).collect()
}

/// Writes arrays and a launch with them and a number of steps, which leaves the last one.
fn described<const N: usize>(folder: &Path, arrays: [(&str, Vec<u8>); N], steps: usize) {
    let each = |text: fn(&str) -> String| arrays.each_ref().map(|(name, _)| text(name)).join(", ");
    let buffers = each(|name| format!(r#"{{"name": "{name}", "file": "{name}.in"}}"#));
    let params = each(|name| format!(r#"{{"ptr": "{name}"}}"#));
    let text = format!(
        r#"{{"entry": null, "grid": [1, 1, 1], "buffers": [{buffers}], "params": [{params}, {{"i32": {steps}}}], "outputs": ["c"]}}"#
    );
    std::fs::write(folder.join("launch.json"), text).expect("the folder takes files");
    for (name, data) in arrays {
        std::fs::write(folder.join(name).with_extension("in"), data).expect("the folder takes files");
    }
}

#[test]
fn products_of_every_kind_have_the_same_sums_in_as() {
    for_each(&products(), |product| {
        let text = product.text(Form::Atoms);
        let folder = temporary();
        std::fs::write(folder.path().join("k.as"), &text).expect("the folder takes files");
        for steps in [0, 1, 3] {
            let wanted = launch(product, folder.path(), steps);
            let left =
                executed(folder.path(), "tile-run", "k.as", &[]).map_err(|error| format!("{}: {error}\n{text}", product.name()))?;
            if left != wanted {
                return Err(format!("{} is something else in {steps} steps", product.name()));
            }
        }
        Ok(())
    });
}

/// The first in full, of the others one number of steps.
#[test]
fn agents_and_the_whole_block_make_them_in_every_order() {
    let persistent = Product { tiles: 5, ..SMALL };
    let cases: Vec<(Product, Form, usize)> = products()
        .into_iter()
        .enumerate()
        .flat_map(|(i, product)| {
            let trips = if i == 0 { TRIPS.to_vec() } else { vec![ONE] };
            [Form::One, Form::Agents]
                .into_iter()
                .flat_map(move |form| trips.clone().into_iter().map(move |trips| (product, form, trips)))
        })
        .chain([0, 1, 3, 5].map(|trips| (persistent, Form::Agents, trips)))
        .collect();
    for_each(&cases, |(product, form, trips)| {
        let text = product.text(*form);
        let said = |error: String| format!("{}, {form:?}: {error}\n{text}", product.name());
        judged(&text).map_err(said)?;
        let folder = temporary();
        let wanted = launch(product, folder.path(), *trips);
        written(folder.path(), &text);
        // All orders for the first few, of the others one by each executor and delivery.
        let few = *trips == ONE;
        for (tool, options) in ways(3).into_iter().filter(|(_, options)| !few || options.contains(&"1")) {
            let file = file_for(tool);
            let left = executed(folder.path(), tool, file, &options).map_err(said)?;
            if left != wanted {
                return Err(format!("{}, {form:?}: {tool} {options:?} computes something else in {trips} steps", product.name()));
            }
        }
        Ok(())
    });
}

/// What `tile-link` writes of them is a cubin: ptxas takes their PTX.
#[test]
fn an_assembler_takes_them() {
    for_each(&products(), |product| {
        let folder = temporary();
        written(folder.path(), &product.text(Form::Agents));
        let path = |name: &str| folder.path().join(name).display().to_string();
        let ran = run("tile-link", &[&path("k.ptx"), "-o", &path("k.cubin")], b"");
        if ran.code == Some(0) { Ok(()) } else { Err(format!("{}: {}", product.name(), ran.stderr)) }
    });
}

// Broken programs.

const BROKEN_TRIPS: usize = 5;
const SMALL: Product = Product { extents: [128, 32, 16], ..F16 };

/// The last line that contains `what` moved before the first, or behind the last, that contains `other`.
fn moved(text: &str, what: &str, other: &str, behind: bool) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let from = lines.iter().rposition(|line| line.contains(what)).expect(what);
    let line = lines.remove(from);
    let to = match behind {
        true => lines.iter().rposition(|line| line.contains(other)).expect(other) + 1,
        false => lines.iter().position(|line| line.contains(other)).expect(other),
    };
    lines.insert(to, line);
    lines.join("\n") + "\n"
}

/// Each broken program, and what the judge says of it.
fn broken() -> Vec<(Product, String, &'static str)> {
    let in_tensor = Product { left_in_tensor: true, ..SMALL };
    let (agents, one) = (SMALL.text(Form::Agents), SMALL.text(Form::One));
    let several = Product { tiles: 5, ..SMALL };
    let (left, tiles) = (in_tensor.text(Form::Agents), several.text(Form::Agents));
    let fresh = agents.split("fresh: ").nth(1).and_then(|rest| rest.split(',').next()).expect("sums are fresh at first");
    let by_threads = edited(&agents, ", drain: products", "");
    let sums_by_threads = edited(&agents, "fill: products", "fill: threads");
    let of_small = [
        (without(&agents, "pipe_wait(pipe: 0"), "read by agent 'multiply' outside wait and release of pipe0"),
        (without(&agents, "pipe_release(pipe: 0"), "slot 0 of pipe0 is waited for and never released"),
        (without(&agents, "pipe_acquire(pipe: 0"), "written by agent 'load' outside acquire and commit of pipe0"),
        (without(&agents, "pipe_commit(pipe: 1"), "it never goes on: agent 'compute' waits until slot 0 of pipe1 is filled"),
        (without(&agents, "pipe_wait(pipe: 1"), "slot 0 of pipe1 is released, but was not waited for by agent 'compute'"),
        (without(&agents, "async_fence"), "is read in place without a fence after it was written, by agent 'load'"),
        (moved(&agents, "pipe_release(pipe: 0", "mma(", false), "read by agent 'multiply' outside wait and release"),
        (moved(&agents, "pipe_wait(pipe: 1", "pipe_release(pipe: 1", false), "outside wait and release of pipe1"),
        (moved(&agents, "pipe_commit(pipe: 1", "mma(", false), "it never goes on: agent 'compute' waits until slot 0 of pipe1"),
        (edited(&by_threads, "full: 128, empty: 1,", "full: 128, empty: 32,"), "and nothing says that it was read, by a product"),
        (edited(&sums_by_threads, "full: 1,", "full: 32,"), "and nothing says that it was written, by a product"),
        (by_threads, "32 threads free a slot of pipe0, and its barrier counts 1 arrivals"),
        (edited(&agents, &format!("fresh: {fresh}, "), ""), "slot 0 of buffer2 is read before anything is written to it"),
        (without(&one, "pipe_release(pipe: 0"), "slot 0 of pipe0 is waited for and never released"),
        (without(&one, "pipe_wait(pipe: 1"), "slot 0 of pipe1 is released, but was not waited for by the block"),
        (without(&one, "pipe_wait(pipe: 0"), "read by the block outside wait and release of pipe0"),
        (without(&one, "async_fence"), "is read in place without a fence after it was written"),
    ];
    let of_left = [
        // The sums lie where the first slots of the operand do.
        (
            edited(&left, "(offset: 32, depth: 3)", "(offset: 0, depth: 3)"),
            "slot 0 of buffer2 is overwritten, and nothing says that it was written (of slot 1 of buffer0)",
        ),
        (without(&left, "pipe_wait(pipe: 0"), "read by agent 'multiply' outside wait and release of pipe0"),
        (moved(&left, "tensor_store(", "pipe_acquire(pipe: 0", false), "written by agent 'load' outside acquire and commit"),
    ];
    let of_several = [
        (without(&tiles, "pipe_acquire(pipe: 1"), "slot 0 of pipe1 is committed, but was not acquired by agent 'multiply'"),
        (without(&tiles, "pipe_release(pipe: 1"), "slot 0 of pipe1 was not released before it is due again"),
    ];
    let of_small = of_small.into_iter().map(|(text, why)| (SMALL, text, why));
    let of_several = of_several.into_iter().map(|(text, why)| (several, text, why));
    of_small.chain(of_several).chain(of_left.into_iter().map(|(text, why)| (in_tensor, text, why))).collect()
}

#[test]
fn broken_programs_are_refused_and_their_faults_are_seen() {
    for_each(&broken(), |(product, text, wanted)| {
        let message = judged(text).err().ok_or(format!("the judge takes it: {wanted}\n{text}"))?;
        if !message.contains(wanted) {
            return Err(format!("the judge says '{message}', not '{wanted}'"));
        }
        let folder = temporary();
        let right = launch(product, folder.path(), BROKEN_TRIPS);
        written(folder.path(), text);
        seen_by_both(folder.path(), &right, &message)
    });
}

// Two products of which the second takes what threads made of the first.

const CHAIN: &str = include_str!("attention.sched");

/// The launch of the chain for some number of blocks of 32 keys: `(q k) v`, summed over the blocks; a row's sums are multiplied by a
/// factor before each block but the first.
fn chained(folder: &Path, steps: usize, factor: fn(usize) -> i64) -> Vec<u8> {
    const ROWS: usize = 128;
    const DEPTH: usize = 16;
    const KEYS: usize = 32 * program::STEPS;
    const COLUMNS: usize = 32;
    let array = |rows: usize, columns: usize, element: fn(usize, usize) -> i64| {
        (0..rows * columns).flat_map(|i| bytes_of(Scalar::F16, element(i / columns, i % columns))).collect::<Vec<u8>>()
    };
    let value = |key: usize, column: usize| right(key + 1, column + 2);
    let v = array(KEYS, COLUMNS, |key, column| right(key + 1, column + 2));
    let arrays =
        [("q", array(ROWS, DEPTH, left)), ("k", array(DEPTH, KEYS, right)), ("v", v), ("c", vec![0xff; ROWS * COLUMNS * 4])];
    described(folder, arrays, steps);
    let score = |row: usize, key: usize| (0..DEPTH).map(|d| left(row, d) * right(d, key)).sum::<i64>();
    let scores: Vec<i64> = (0..ROWS * 32 * steps).map(|i| score(i / (32 * steps).max(1), i % (32 * steps).max(1))).collect();
    let sum = |row: usize, column: usize| {
        let later = |key: usize| factor(row).pow((steps - 1 - key / 32) as u32);
        (0..32 * steps).map(|key| scores[row * 32 * steps + key] * value(key, column) * later(key)).sum::<i64>()
    };
    (0..ROWS * COLUMNS).flat_map(|i| bytes_of(Scalar::F32, sum(i / COLUMNS, i % COLUMNS))).collect()
}

#[test]
fn what_threads_make_of_sums_is_multiplied_where_it_lies() {
    computes(CHAIN, |_| 1);
}

/// A chain computes in every form and order what it means, with the factor of each row.
fn computes(text: &str, factor: fn(usize) -> i64) {
    judged(text).expect("the judge takes it");
    let folder = temporary();
    written(folder.path(), text);
    for trips in TRIPS {
        let wanted = chained(folder.path(), trips, factor);
        for (tool, options) in ways(3) {
            let file = file_for(tool);
            let left = executed(folder.path(), tool, file, &options).expect(tool);
            assert!(left == wanted, "{tool} {options:?} computes something else in {trips} steps");
        }
    }
    let path = |name: &str| folder.path().join(name).display().to_string();
    run("tile-link", &[&path("k.ptx"), "-o", &path("k.cubin")], b"").ok("tile-link");
}

#[test]
fn a_broken_chain_is_refused_and_its_faults_are_seen() {
    let cases = [
        (without(CHAIN, "pipe_wait(pipe: 3"), "read by agent 'multiply' outside wait and release of pipe3"),
        (without(CHAIN, "pipe_wait(pipe: 2"), "read by agent 'compute' outside wait and release of pipe2"),
        (
            moved(CHAIN, "pipe_commit(pipe: 3", "tensor_store(", false),
            "written by agent 'compute' outside acquire and commit of pipe3",
        ),
        // The sums lie where the scores do.
        (
            edited(CHAIN, "(offset: 32, depth: 1)", "(offset: 0, depth: 1)"),
            "buffer5 is read, but its memory was given to slot 0 of buffer4",
        ),
        // Scores are read before they are made.
        (
            moved(CHAIN, "mma(lhs: memory(buffer: 0)", "mma(lhs: memory(buffer: 4)", true),
            "slot 0 of buffer3 is read before anything",
        ),
    ];
    for_each(&cases, |(text, wanted)| {
        let message = judged(text).err().ok_or(format!("the judge takes it: {wanted}"))?;
        if !message.contains(wanted) {
            return Err(format!("the judge says '{message}', not '{wanted}'"));
        }
        let folder = temporary();
        let right = chained(folder.path(), BROKEN_TRIPS, |_| 1);
        written(folder.path(), text);
        seen_by_both(folder.path(), &right, &message)
    });
}

/// The chain with the rows of its last sums multiplied before each product, some by 2 and the others by 1: some warps have both, some not.
fn scaled() -> String {
    let edits = [
        ("func ", "layout #4 = (lane: [1, 2, 4, 8, 16], warp: [32, 64])\nfunc "),
        (
            "(buffers: [5], depth: 1, fill: products, producer: 2, consumers: [0], full: 1, empty: 128,",
            "(buffers: [5], depth: 1, fill: threads, drain: products, producer: 0, consumers: [2], full: 128, empty: 1,",
        ),
        ("    %21 = for(", ROWS),
        (
            "      pipe_release(pipe: 2) @0\n",
            "      pipe_release(pipe: 2) @0
      %76 = compare(kind: int(predicate: equal, signedness: signed), lhs: %22, rhs: %17) : i1 @0
      pipe_acquire(pipe: 4, phase: %23) @0
      tensor_scale(by: %75, buffer: 5, fresh: %76, atom: \"32x32b\") @0
      pipe_commit(pipe: 4) @0\n",
        ),
        ("pipe_wait(pipe: 4, phase: %17)", "pipe_acquire(pipe: 4, phase: %21)"),
        ("pipe_release(pipe: 4)", "pipe_commit(pipe: 4)"),
        ("    pipe_acquire(pipe: 4, phase: %17) @0\n", ""),
        (
            "      pipe_wait(pipe: 3, phase: %56) @0\n",
            "      pipe_wait(pipe: 3, phase: %56) @0\n      pipe_wait(pipe: 4, phase: %56) @0\n",
        ),
        ("      pipe_release(pipe: 3) @0\n", "      pipe_release(pipe: 3) @0\n      pipe_release(pipe: 4) @0\n"),
        (
            "    pipe_commit(pipe: 4) @0\n    pipe_release(pipe: 1) @0\n",
            "    pipe_wait(pipe: 4, phase: %52) @0\n    pipe_release(pipe: 4) @0\n    pipe_release(pipe: 1) @0\n",
        ),
    ];
    edits.into_iter().fold(CHAIN.to_string(), |text, (from, to)| edited(&text, from, to))
}

const ROWS: &str = "    %70 = coordinate(dim: 0) : tile<128x1xi32, #4> @0
    %71 = constant(64) : tile<128x1xi32, #4> @0
    %72 = binary(kind: rem_i(signedness: unsigned), lhs: %70, rhs: %71) : tile<128x1xi32, #4> @0
    %73 = constant(48) : tile<128x1xi32, #4> @0
    %74 = compare(kind: int(predicate: less_than, signedness: signed), lhs: %72, rhs: %73) : tile<128x1xi1, #4> @0
    %77 = constant(1.0) : tile<128x1xf32, #4> @0
    %78 = constant(2.0) : tile<128x1xf32, #4> @0
    %75 = select(cond: %74, yes: %77, no: %78) : tile<128x1xf32, #4> @0
    %21 = for(";

#[test]
fn threads_multiply_rows_of_sums_between_products() {
    computes(&scaled(), |row| if row % 64 < 48 { 1 } else { 2 });
}

#[test]
fn sums_that_are_multiplied_at_the_wrong_time_are_refused_and_seen() {
    let text = scaled();
    let fresh = "fresh: %76, atom";
    let early = edited(
        &edited(&text, "      pipe_release(pipe: 4) @0\n", ""),
        "      mma(lhs: memory(buffer: 4)",
        "      pipe_release(pipe: 4) @0\n      mma(lhs: memory(buffer: 4)",
    );
    // These do no harm: no product keeps what is fresh, and who has the slot of the operand has that of the sums. The judge says so all
    // the same.
    let never =
        edited(&edited(&text, fresh, "fresh: %79, atom"), "      %76 = ", "      %79 = constant(false) : i1 @0\n      %76 = ");
    for (text, wanted) in [
        (never, "slot 0 of buffer5 is read before anything is written to it"),
        (
            without(&text, "pipe_acquire(pipe: 4, phase: %23)"),
            "slot 0 of buffer5 is written by agent 'compute' outside acquire and commit of pipe4",
        ),
    ] {
        let said = judged(&text).expect_err("it is refused");
        assert!(said.contains(wanted), "{said}");
    }
    let cases = [
        (edited(&text, fresh, "fresh: %20, atom"), None),
        (
            without(&text, "pipe_wait(pipe: 4, phase: %56)"),
            Some("is added to by agent 'multiply' outside wait and release of pipe4"),
        ),
        (early, Some("is added to by agent 'multiply' outside wait and release of pipe4")),
    ];
    for_each(&cases, |(text, wanted)| {
        let folder = temporary();
        let right = chained(folder.path(), BROKEN_TRIPS, |row| if row % 64 < 48 { 1 } else { 2 });
        written(folder.path(), text);
        let message = judged(text).err();
        match wanted {
            Some(wanted) if message.as_ref().is_none_or(|message| !message.contains(wanted)) => {
                Err(format!("the judge says '{message:?}', not '{wanted}'"))
            }
            _ => seen_by_both(folder.path(), &right, &message.unwrap_or_default()),
        }
    });
}
