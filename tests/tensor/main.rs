//! Products in tensor memory, from `.as` to PTX: the same sums everywhere, in several orders and under both deliveries; and broken
//! in each way that there is, which the judge refuses and the executors see.

mod program;

use base::File;
use numerics::{Scalar, literal};
use program::{Form, Operand, PLAIN, Product};
use std::path::Path;
use tests::{for_each, run, temporary};

const TRIPS: [usize; 5] = [0, 1, 2, 3, 8];
const LIMIT: &str = "4000000";

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
    let [m, n, k] = product.extents.map(|extent| extent as usize);
    let shapes = product.arrays();
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
    for (name, data) in [("a.in", a), ("b.in", b), ("c.in", vec![0xff; m * n * size])] {
        std::fs::write(folder.join(name), data).expect("the folder takes files");
    }
    let buffers = ["a", "b", "c"].map(|name| format!(r#"{{"name": "{name}", "file": "{name}.in"}}"#)).join(", ");
    let params = format!(r#"{{"ptr": "a"}}, {{"ptr": "b"}}, {{"ptr": "c"}}, {{"i32": {steps}}}"#);
    let text = format!(r#"{{"entry": null, "grid": [1, 1, 1], "buffers": [{buffers}], "params": [{params}], "outputs": ["c"]}}"#);
    std::fs::write(folder.join("launch.json"), text).expect("the folder takes files");
    let sum = |i: usize| (0..steps * k).map(|k| left(i / n, k) * right(k, i % n)).sum::<i64>();
    (0..m * n).flat_map(|i| bytes_of(product.acc, sum(i))).collect()
}

/// Executes a file in a folder; what it left, or what was said about it.
fn executed(folder: &Path, tool: &str, file: &str, options: &[&str]) -> Result<Vec<u8>, String> {
    let path = |name: &str| folder.join(name).display().to_string();
    let (program, launch, out) = (path(file), path("launch.json"), path("out"));
    let arguments = [options, &[&program, "--launch", &launch, "--out-dir", &out]].concat();
    let ran = run(tool, &arguments, b"");
    match ran.code {
        Some(0) => Ok(std::fs::read(folder.join("out/c.bin")).expect("there is an output")),
        _ => Err(ran.stderr),
    }
}

/// The ways in which a program is executed: by `tile-run` in several orders, and its PTX under both deliveries.
fn ways() -> Vec<(&'static str, Vec<&'static str>)> {
    let runs = ["0", "1", "2"].map(|seed| ("tile-run", vec!["--unjudged", "--schedule-seed", seed]));
    let sims = [("early", "1"), ("early", "2"), ("late", "1"), ("late", "2")].map(|(delivery, seed)| {
        let options = ["--races=error", "--delivery", delivery, "--schedule-seed", seed, "--instruction-limit", LIMIT];
        ("tile-sim", options.to_vec())
    });
    runs.into_iter().chain(sims).collect()
}

/// Writes the program and its PTX.
fn written(folder: &Path, text: &str) {
    let path = |name: &str| folder.join(name).display().to_string();
    std::fs::write(path("k.sched"), text).expect("the folder takes files");
    run("tile-ptx", &["--unjudged", &path("k.sched"), "-o", &path("k.ptx")], b"").ok("tile-ptx");
}

fn judged(text: &str) -> Result<(), String> {
    File::<sched::Module>::read(text.as_bytes(), "case").map(drop).map_err(|error| format!("{}: {}", error.code, error.message))
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
    let cases: Vec<(Product, Form, usize)> = products()
        .into_iter()
        .enumerate()
        .flat_map(|(i, product)| {
            let trips = if i == 0 { TRIPS.to_vec() } else { vec![4] };
            [Form::One, Form::Agents]
                .into_iter()
                .flat_map(move |form| trips.clone().into_iter().map(move |trips| (product, form, trips)))
        })
        .collect();
    for_each(&cases, |(product, form, trips)| {
        let text = product.text(*form);
        let said = |error: String| format!("{}, {form:?}: {error}\n{text}", product.name());
        judged(&text).map_err(said)?;
        let folder = temporary();
        let wanted = launch(product, folder.path(), *trips);
        written(folder.path(), &text);
        for (tool, options) in ways() {
            let file = if tool == "tile-run" { "k.sched" } else { "k.ptx" };
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
