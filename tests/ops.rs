//! Executes every variant of every op on edge values, and compares the results with those of NVIDIA's compiler (the reference). A
//! row is the 256 results of one variant on one type. A case checks the rows of one kernel: `tile-run` executes its `.tile` file
//! (`f16_arithmetic/as_written`), or `tile-sim` executes its PTX (`f16_arithmetic/sm_80`).
//!
//! `scripts/op_table.py` generates the kernels and `rows.txt` of `tests/ops`, and documents the format. `reasons.toml` explains
//! each row that differs from the reference: each such row has one reason, and each reason has rows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use tests::suite::{CaseResult, Suite};
use tests::{root, run, temporary_folder, tests};

/// The number of results in a row.
const ROW_ELEMENTS: usize = 256;

/// The expected results of a row.
enum Expected {
    /// All results must have this hash. `matches_reference` states whether the reference has the same bits.
    Bits { hash: u64, matches_reference: bool },
    /// Each compared result must be at most `ulps` units in the last place from the value of the reference. `values` has the values
    /// of every `256 / values.len()`th element.
    Near { ulps: u64, values: Vec<u64> },
}

/// A variant of an op on one element type, with its expected result.
struct Row {
    kernel: String,
    name: String,
    elem: String,
    expected: Expected,
}

fn ops_folder() -> PathBuf {
    root().join("tests/ops")
}

fn read_rows() -> Vec<Row> {
    let text = std::fs::read_to_string(ops_folder().join("rows.txt")).expect("rows.txt is there");
    let row = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [kernel, name, elem] = [0, 1, 2].map(|i: usize| words[i].to_string());
        let hash = || u64::from_str_radix(words[4], 16).expect("a hash");
        let expected = match words[3] {
            "=" => Expected::Bits { hash: hash(), matches_reference: true },
            "!" => Expected::Bits { hash: hash(), matches_reference: false },
            "~" => {
                let digits = element_bytes(&elem) * 2;
                let value = |at: usize| u64::from_str_radix(&words[5][at..at + digits], 16).expect("digits");
                let values = (0..words[5].len()).step_by(digits).map(value).collect();
                Expected::Near { ulps: words[4].parse().expect("a number"), values }
            }
            other => panic!("'{other}' is no kind of row"),
        };
        Row { kernel, name, elem, expected }
    };
    text.lines().map(row).collect()
}

fn element_bytes(elem: &str) -> usize {
    match elem {
        "i8" => 1,
        "i16" | "f16" | "bf16" => 2,
        "i32" | "f32" => 4,
        _ => 8,
    }
}

/// The number of fraction bits of a float type; None for integer types.
fn fraction_bits(elem: &str) -> Option<u32> {
    match elem {
        "f16" => Some(10),
        "bf16" => Some(7),
        "f32" => Some(23),
        "f64" => Some(52),
        _ => None,
    }
}

/// The bits of each element. All NaNs get the same bits, so that their payloads are not compared.
fn normalized_words(elem: &str, data: &[u8]) -> Vec<u64> {
    let size = element_bytes(elem);
    let sign_bit = 1u64 << (8 * size - 1);
    let word = |bytes: &[u8]| {
        let word = bytes.iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
        match fraction_bits(elem).map(|bits| sign_bit - (1 << bits)) {
            Some(infinity) if word & (sign_bit - 1) > infinity => infinity + 1,
            _ => word,
        }
    };
    data.chunks_exact(size).map(word).collect()
}

/// The 64-bit FNV-1a hash of the elements' bytes in little-endian order.
fn hash_of_elements(elem: &str, words: &[u64]) -> u64 {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes()[..element_bytes(elem)].to_vec());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The distance of two floats in units in the last place (ulps).
fn ulp_distance(elem: &str, a: u64, b: u64) -> u64 {
    let sign_bit = 1u64 << (8 * element_bytes(elem) - 1);
    let infinity = sign_bit - (1 << fraction_bits(elem).expect("a float"));
    let is_nan = |word: u64| word & (sign_bit - 1) > infinity;
    let signed_order = |word: u64| if word & sign_bit != 0 { -i128::from(word & (sign_bit - 1)) } else { i128::from(word) };
    match (a == b, is_nan(a) || is_nan(b)) {
        (true, _) => 0,
        (_, true) => u64::MAX,
        _ => (signed_order(a) - signed_order(b)).unsigned_abs().try_into().unwrap_or(u64::MAX),
    }
}

/// Describes how the computed results of a row differ from the expected results. None if they agree.
fn row_difference(row: &Row, found: &[u64]) -> Option<String> {
    match &row.expected {
        Expected::Bits { hash, .. } => {
            let got_hash = hash_of_elements(&row.elem, found);
            (got_hash != *hash).then(|| format!("{}: other bits, {got_hash:016x}", row.name))
        }
        Expected::Near { ulps: max_ulps, values } => {
            let step = ROW_ELEMENTS / values.len();
            let max_distance =
                found.iter().step_by(step).zip(values).map(|(found, value)| ulp_distance(&row.elem, *found, *value)).max()?;
            (max_distance > *max_ulps).then(|| format!("{}: {max_distance} ulps, {max_ulps} are known", row.name))
        }
    }
}

/// Writes the launch of a kernel, its inputs and zeroed outputs to the directory `to`.
fn write_launch(kernel: &str, to: &Path) {
    let text = std::fs::read_to_string(ops_folder().join(format!("{kernel}.json"))).expect("a kernel has its launch");
    let launch: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    std::fs::write(to.join("launch.json"), text).expect("a new folder");
    for buffer in launch["buffers"].as_array().expect("buffers") {
        let name = buffer["file"].as_str().expect("a name");
        let data = match name.strip_suffix(".zeros").and_then(|name| name.split_once('.')) {
            Some((elem, rows)) => vec![0; ROW_ELEMENTS * element_bytes(elem) * rows.parse::<usize>().expect("a number of rows")],
            None => std::fs::read(ops_folder().join(name)).expect("an input"),
        };
        std::fs::write(to.join(name), data).expect("a new folder");
    }
}

/// Executes a file with the launch in the directory `at`, and compares the rows of its kernel.
fn execute(tool: &str, file: &str, at: &Path, rows: &[Row], reasons: &[Reason]) -> CaseResult {
    let (launch, out) = (at.join("launch.json").display().to_string(), at.join("out").display().to_string());
    std::fs::create_dir_all(&out).expect("a new folder");
    let ran = run(tool, &[file, "--launch", &launch, "--out-dir", &out], b"");
    if ran.code != Some(0) {
        return Err(format!("{tool}: {}", ran.stderr.trim()));
    }
    let mut data: BTreeMap<&str, std::vec::IntoIter<u64>> = BTreeMap::new();
    let mut complaints = Vec::new();
    for row in rows {
        let elem = row.elem.as_str();
        let remaining = data.entry(elem).or_insert_with(|| {
            let bytes = std::fs::read(at.join("out").join(format!("{elem}.bin"))).expect("an output");
            normalized_words(elem, &bytes).into_iter()
        });
        let found_words: Vec<u64> = remaining.by_ref().take(ROW_ELEMENTS).collect();
        // If the op does not define the result, PTX may have other bits than `tile-run`. A reason with `everywhere` forbids that.
        let must_match = || reasons.iter().any(|reason| reason.everywhere && reason.covers(row));
        if tool == "tile-run" || !matches!(row.expected, Expected::Bits { matches_reference: false, .. }) || must_match() {
            complaints.extend(row_difference(row, &found_words));
        }
    }
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("; ")) }
}

/// A kernel of `tests/ops` with its rows, in the order of its outputs.
struct Kernel {
    name: String,
    rows: Vec<Row>,
    reasons: Arc<Vec<Reason>>,
}

impl Kernel {
    /// The path of the kernel's `.tile` file.
    fn source(&self) -> String {
        ops_folder().join(format!("{}.tile", self.name)).display().to_string()
    }

    fn check_as_written(&self) -> CaseResult {
        let folder = temporary_folder();
        write_launch(&self.name, folder.path());
        execute("tile-run", &self.source(), folder.path(), &self.rows, &self.reasons)
    }

    /// Compiles the kernel to PTX and compares its rows. Passes without a comparison if the target lacks the element types of the
    /// kernel.
    fn check_ptx(&self, target: &str) -> CaseResult {
        let folder = temporary_folder();
        let at = folder.path();
        write_launch(&self.name, at);
        let (bytecode, ptx) = (at.join("k.bc").display().to_string(), at.join("k.ptx").display().to_string());
        run("tile-write", &[&self.source(), "-o", &bytecode], b"").ok(&self.name);
        let ran = run("tileiras", &[&bytecode, "--gpu-name", target, "--emit=ptx", "-o", &ptx], b"");
        if ran.stderr.contains("Incompatibility with architecture") {
            return Ok(());
        }
        ran.ok(&self.name);
        execute("tile-sim", &ptx, at, &self.rows, &self.reasons)
    }
}

/// The kernels of `tests/ops` with their rows. Each kernel shares the reasons for differences from the reference.
fn read_kernels() -> Vec<Arc<Kernel>> {
    let reasons = Arc::new(read_reasons().reason);
    let mut kernels: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    read_rows().into_iter().for_each(|row| kernels.entry(row.kernel.clone()).or_default().push(row));
    assert!(kernels.len() > 20);
    kernels.into_iter().map(|(name, rows)| Arc::new(Kernel { name, rows, reasons: Arc::clone(&reasons) })).collect()
}

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for kernel in read_kernels() {
        let kernel_as_written = Arc::clone(&kernel);
        suite.case(format!("{}/as_written", kernel.name), move || kernel_as_written.check_as_written());
        for target in ["sm_80", "sm_100"] {
            let kernel = Arc::clone(&kernel);
            suite.case(format!("{}/{target}", kernel.name), move || kernel.check_ptx(target));
        }
    }
    suite.functions(
        "rules/",
        tests![each_difference_from_the_reference_has_one_reason, refused_op_variants_are_listed_with_reasons],
    );
    suite.run()
}

/// The contents of `reasons.toml`.
#[derive(serde::Deserialize)]
struct Reasons {
    /// Reasons for rows that differ from the reference.
    reason: Vec<Reason>,
    /// Reasons for variants that `tile-read` refuses.
    refused: Vec<Reason>,
}

fn read_reasons() -> Reasons {
    let text = std::fs::read_to_string(ops_folder().join("reasons.toml")).expect("reasons.toml is there");
    toml::from_str(&text).expect("TOML")
}

/// The reason why some rows differ from the reference, or why `tile-read` refuses some variants.
#[derive(serde::Deserialize)]
struct Reason {
    /// `KERNEL ROW`; a trailing `*` matches any rest. For refused rows: the type of the operand and the op.
    rows: Vec<String>,
    why: String,
    /// The largest difference in ulps that the reason explains. A reason without it explains undefined bits.
    ulps: Option<u64>,
    /// Whether the undefined bits must be the same in PTX and in `tile-run`.
    #[serde(default)]
    everywhere: bool,
}

impl Reason {
    /// Whether the reason applies to a row.
    fn covers(&self, row: &Row) -> bool {
        let name = format!("{} {}", row.kernel, row.name);
        self.rows.iter().any(|rows| rows.strip_suffix('*').map_or(*rows == name, |start| name.starts_with(start)))
    }
}

fn each_difference_from_the_reference_has_one_reason() {
    let reasons = read_reasons().reason;
    assert!(reasons.iter().all(|reason| !reason.why.is_empty()));
    let mut used = BTreeSet::new();
    for row in read_rows() {
        let covering_reasons: Vec<usize> = (0..reasons.len()).filter(|i| reasons[*i].covers(&row)).collect();
        let (kernel, name) = (&row.kernel, &row.name);
        match (&row.expected, &covering_reasons[..]) {
            (Expected::Bits { matches_reference: true, .. } | Expected::Near { ulps: 0, .. }, []) => {}
            (Expected::Bits { matches_reference: true, .. } | Expected::Near { ulps: 0, .. }, _) => {
                panic!("{kernel} {name} is as the reference has it")
            }
            (Expected::Bits { .. }, [i]) => assert!(reasons[*i].ulps.is_none(), "{kernel} {name} is far off"),
            (Expected::Near { ulps, .. }, [i]) => {
                assert!(reasons[*i].ulps.is_some_and(|max_ulps| *ulps <= max_ulps), "{kernel} {name} is {ulps} ulps off");
            }
            _ => panic!("{kernel} {name} has {} reasons", covering_reasons.len()),
        }
        used.extend(covering_reasons);
    }
    assert_eq!(used.len(), reasons.len(), "a reason has no rows");
}

fn refused_op_variants_are_listed_with_reasons() {
    let folder = temporary_folder();
    let file = folder.path().join("k.tile").display().to_string();
    let header = "//!tile tileir 2 read\n//!tile producer test\n//!tile input 0\n";
    for row in read_reasons().refused.iter().flat_map(|refused| &refused.rows) {
        let (kind, op) = row.split_once(' ').expect("a type and an op");
        let read = |op: &str| {
            let text = format!(
                "{header}entry @k(%p: tile<{kind}>) {{\n  %x = broadcast %q : tile<1x{kind}> -> tile<8x{kind}>\n  %r = {op}\n  return\n}}\n"
            );
            let text = text.replace("{\n  %x", &format!("{{\n  %q = reshape %p : tile<{kind}> -> tile<1x{kind}>\n  %x"));
            std::fs::write(&file, text).expect("a new folder");
            run("tile-read", &[&file, "-o", &format!("{file}.out")], b"")
        };
        assert_ne!(read(op).code, Some(0), "{op} is taken");
        // The verifier refuses the op itself, not its context.
        read(&format!("negf %x : tile<8x{kind}>")).ok(op);
    }
}
