//! Mutants of programs with tensor memory MMAs, each with one change to an ordering op, an address or a descriptor.
//! `fault_matrix.md`, which `scripts/bless` writes, lists the tools that detect them.

use crate::program::{Form, Matmul};
use crate::{FAULT_TRIP_COUNT, SMALL, write_matmul_launch};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tests::scheduled::{check_hazards, execute_for_output, executions};
use tests::suite::{CaseResult, Suite, unified_diff};
use tests::{is_blessing, root, run, temporary_folder};

/// What a mutant changes in the original program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ChangeKind {
    /// A removed pipeline step, mbarrier instruction or CTA barrier.
    Barrier,
    /// A changed arrival count of an mbarrier.
    Count,
    /// A removed fence or wait for tensor memory.
    Fence,
    /// A flipped phase of a wait.
    Phase,
    /// A changed position or number of TMEM columns.
    Column,
    /// A removed `zero_init` operand, which selects zero-initialisation of the first MMA.
    Start,
    /// A flipped bit of an instruction or matrix descriptor.
    Descriptor,
}

impl ChangeKind {
    fn name(self) -> &'static str {
        match self {
            ChangeKind::Barrier => "a barrier step removed",
            ChangeKind::Count => "arrival count of a barrier",
            ChangeKind::Fence => "a fence or a TMEM wait removed",
            ChangeKind::Phase => "phase of a wait",
            ChangeKind::Column => "TMEM columns",
            ChangeKind::Start => "zero-initialisation of the first MMA",
            ChangeKind::Descriptor => "a bit of a descriptor",
        }
    }
}

/// The format of the changed text: `.sched` or PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Format {
    Sched,
    Ptx,
}

/// A program with one injected change.
struct Mutant {
    matmul: Matmul,
    format: Format,
    kind: ChangeKind,
    /// The changed line with its number, and a description of the change.
    change: String,
    text: String,
}

/// Generates the mutants of a text. Each mutant has one line changed.
struct Mutator<'a> {
    /// The lines of the original text.
    lines: Vec<&'a str>,
    /// For each mutant the kind and description of its change, and its text.
    mutants: Vec<(ChangeKind, String, String)>,
}

impl<'a> Mutator<'a> {
    fn new(text: &'a str) -> Mutator<'a> {
        Mutator { lines: text.lines().collect(), mutants: Vec::new() }
    }

    /// Adds a mutant: the original text with line `at` replaced by `line`.
    fn add_mutant(&mut self, kind: ChangeKind, at: usize, change: &str, line: String) {
        let mut lines: Vec<&str> = self.lines.clone();
        lines[at] = &line;
        let text = lines.join("\n") + "\n";
        // A function header is long, because it lists all pipelines and buffers. The description does not quote it.
        let quoted_line = if self.lines[at].len() > 120 { "the head" } else { self.lines[at].trim() };
        self.mutants.push((kind, format!("line {}, '{quoted_line}', {change}", at + 1), text));
    }

    /// Adds a mutant for each number that follows `word` in line `at`, and for each of its `replacements`.
    fn add_number_mutants(&mut self, kind: ChangeKind, at: usize, word: &str, replacements: impl Fn(u32) -> Vec<u32>) {
        let line = self.lines[at];
        for (start, _) in line.match_indices(word) {
            let (head, rest) = line.split_at(start + word.len());
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let Ok(number) = rest[..digits].parse() else { continue };
            for replacement in replacements(number) {
                self.add_mutant(
                    kind,
                    at,
                    &format!("{word}{replacement} for {word}{number}"),
                    format!("{head}{replacement}{}", &rest[digits..]),
                );
            }
        }
    }
}

/// The mutants of a `.sched` text. Each mutant removes a pipeline step or a fence, flips a phase, changes a count by one, changes
/// TMEM columns, or removes a `zero_init` operand.
fn schedule_mutants(text: &str) -> Vec<(ChangeKind, String, String)> {
    let mut mutator = Mutator::new(text);
    for at in 0..mutator.lines.len() {
        let line = mutator.lines[at];
        let op = line.trim();
        if op.starts_with("pipeline_") {
            mutator.add_mutant(ChangeKind::Barrier, at, "removed", String::new());
        }
        if op.starts_with("async_fence") {
            mutator.add_mutant(ChangeKind::Fence, at, "removed", String::new());
        }
        if let Some((head, phase)) = line.split_once("phase: ").filter(|_| op.starts_with("pipeline_")) {
            let phase = phase.split(')').next().expect("the phase comes last");
            let flip_ops = format!("%1000 = constant(1) : i32 @0\n%1001 = binary(kind: xor, lhs: {phase}, rhs: %1000) : i32 @0\n");
            mutator.add_mutant(ChangeKind::Phase, at, "of the other phase", format!("{flip_ops}{head}phase: %1001) @0"));
        }
        if let Some((head, zero_init)) = line.split_once("zero_init: ").filter(|_| op.starts_with("mma(")) {
            let rest = zero_init.split_once(", ").expect("the atom comes last").1;
            mutator.add_mutant(ChangeKind::Start, at, "always adds", format!("{head}{rest}"));
        }
        if op.contains("tmem_load(") {
            mutator.add_number_mutants(ChangeKind::Column, at, "from: ", |column| vec![column ^ 64]);
        }
        if op.starts_with("func ") {
            let neighbours = |count: u32| vec![count - 1, count + 1];
            mutator.add_number_mutants(ChangeKind::Count, at, "full: ", neighbours);
            mutator.add_number_mutants(ChangeKind::Count, at, "empty: ", neighbours);
            mutator.add_number_mutants(ChangeKind::Column, at, "columns: ", |columns| vec![columns / 2]);
            let placements_start = line.find("placements").expect("the header has the placements of buffers");
            let offsets: Vec<usize> =
                line[placements_start..].match_indices("(offset: ").map(|(start, _)| placements_start + start).collect();
            for (number, start) in offsets.into_iter().enumerate() {
                mutator.add_placement_mutants(at, start, number);
            }
        }
    }
    mutator.mutants
}

impl Mutator<'_> {
    /// Adds mutants that move a TMEM buffer to the columns of another buffer, or to columns that are not allocated.
    fn add_placement_mutants(&mut self, at: usize, start: usize, buffer: usize) {
        let line = self.lines[at];
        let buffer_infos: Vec<&str> = line[..start].split("(elem: ").skip(1).collect();
        if !buffer_infos.get(buffer).is_some_and(|info| info.contains("space: tensor")) {
            return;
        }
        let (head, rest) = line.split_at(start + "(offset: ".len());
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let own: u32 = rest[..digits].parse().expect("an offset is a number");
        for other in [own ^ 256, own ^ 512] {
            let changed = format!("{head}{other}{}", &rest[digits..]);
            self.add_mutant(ChangeKind::Column, at, &format!("buffer {buffer} at column {other} for {own}"), changed);
        }
    }
}

/// The mutants of a PTX text. Each mutant removes a fence or a barrier instruction, flips the phase of a wait, or flips a bit of an
/// address or a descriptor.
fn ptx_mutants(text: &str) -> Vec<(ChangeKind, String, String)> {
    const BARRIERS: [&str; 6] = ["tcgen05.commit", "tcgen05.dealloc", "mbarrier.init", "mbarrier.arrive", "barrier", "bar.sync"];
    const FENCES: [&str; 3] = ["tcgen05.fence", "tcgen05.wait", "fence."];
    let mut mutator = Mutator::new(text);
    for at in 0..mutator.lines.len() {
        let line = mutator.lines[at];
        let op = line.trim();
        let has = |words: &[&str]| words.iter().any(|word| op.contains(word));
        if has(&FENCES) {
            mutator.add_mutant(ChangeKind::Fence, at, "removed", String::new());
        } else if has(&BARRIERS) {
            mutator.add_mutant(ChangeKind::Barrier, at, "removed", String::new());
        }
        if op.contains("parity") {
            let (head, phase) = line.rsplit_once(", ").expect("the phase comes last");
            let phase = phase.trim_end_matches(';');
            let other_phase = match phase.parse::<u32>() {
                Ok(phase) => format!("{head}, {};", phase ^ 1),
                Err(_) => format!("{{ .reg .b32 other; xor.b32 other, {phase}, 1; {head}, other; }}"),
            };
            mutator.add_mutant(ChangeKind::Phase, at, "of the other phase", other_phase);
        }
        if let Some((number, tail)) = last_number(line) {
            let (kind, bits) = flipped_bits(op);
            for bit in bits {
                let head = &line[..line.len() - number.len() - tail.len()];
                let changed = number.parse::<i64>().expect("it is a number") ^ 1 << bit;
                mutator.add_mutant(kind, at, &format!("bit {bit} changed"), format!("{head}{changed}{tail}"));
            }
        }
    }
    mutator.mutants
}

/// The last number of a line, and the text after the number. None if the line has no number, or if no space precedes the number.
fn last_number(line: &str) -> Option<(&str, &str)> {
    let end = line.rfind(|c: char| c.is_ascii_digit())? + 1;
    let start = line[..end].rfind(|c: char| !c.is_ascii_digit() && c != '-')? + 1;
    let is_separate = line[..start].ends_with(' ');
    is_separate.then(|| (&line[start..end], &line[end..]))
}

/// The bits to flip in the last number of a PTX line, and the kind of these mutants. Without bits, the line has no such mutants.
fn flipped_bits(text: &str) -> (ChangeKind, Vec<u32>) {
    let starts_with = |word: &str| text.starts_with(word);
    match () {
        // The instruction descriptor: types, orientations and extents of an MMA.
        () if starts_with("mov.b32 form,") => (ChangeKind::Descriptor, vec![4, 5, 7, 10, 15, 16, 19, 20, 24, 26, 27]),
        // The offset in a matrix descriptor that advances along K.
        () if starts_with("add.s64 a,") || starts_with("add.s64 b,") => (ChangeKind::Descriptor, vec![0, 1, 3]),
        // Strides, version and swizzle of a matrix descriptor.
        () if starts_with("or.b64") && text.contains(", -") => (ChangeKind::Descriptor, vec![16, 21, 32, 37, 38, 46, 61, 62]),
        () if starts_with("add.s32 a,") => (ChangeKind::Column, vec![0, 1, 3]),
        () if starts_with("add.s32 d,") => (ChangeKind::Column, vec![0, 4]),
        () if starts_with("tcgen05.alloc") || starts_with("tcgen05.dealloc") => (ChangeKind::Column, vec![5, 6, 7]),
        () => (ChangeKind::Column, Vec::new()),
    }
}

/// Mutants that no tool detects, because they compute the same results as the original. A row has their format, a part of the
/// changed line, their count, and the reason.
const HARMLESS: [(Format, &str, usize, &str); 5] = [
    (Format::Ptx, "fence.mbarrier_init", 2, "neither another CTA nor TMA arrives at these barriers"),
    (Format::Ptx, "tcgen05.fence::before_thread_sync", 2, "at the end of the kernel, no later access needs the order"),
    (Format::Ptx, "tcgen05.fence::after_thread_sync", 5, "at the end of the kernel, or before a wait with its own fence"),
    (Format::Ptx, "or.b64", 2, "an operand with one block along K needs no stride"),
    (Format::Ptx, "mov.b32 form", 1, "an operand in tensor memory has only one orientation"),
];

/// The tools that detect a mutant.
#[derive(Clone, Copy, Default)]
struct Detection {
    /// For each tool of `DETECTORS`, whether it detects the mutant.
    by: [bool; 3],
}

/// The tools that can detect a mutant.
const DETECTORS: [&str; 3] = ["hazard checker", "tile-run", "tile-sim"];

/// Runs all detectors that can read the mutant.
fn detect(mutant: &Mutant) -> Detection {
    let folder = temporary_folder();
    let path = |name: &str| folder.path().join(name);
    let correct_output = write_matmul_launch(&mutant.matmul, folder.path(), FAULT_TRIP_COUNT);
    let differs = |tool: &str, file: &str, options: &[&str]| {
        execute_for_output(folder.path(), tool, file, options).map_or(true, |output| output != correct_output)
    };
    let write = |name: &str| std::fs::write(path(name), &mutant.text).expect("the folder takes files");
    match mutant.format {
        Format::Ptx => {
            write("k.ptx");
            // A short time limit is enough: a deadlocked program never ends.
            let by_ptx = ["early", "late"].into_iter().any(|delivery| {
                differs("tile-sim", "k.ptx", &["--races=error", "--delivery", delivery, "--instruction-limit", "300000"])
            });
            Detection { by: [false, false, by_ptx] }
        }
        Format::Sched => {
            write("k.sched");
            let detected_by = |tool: &str, file: &str| {
                executions(3).into_iter().filter(|(other, _)| *other == tool).any(|(_, options)| differs(tool, file, &options))
            };
            let by_run = detected_by("tile-run", "k.sched");
            Detection {
                by: [check_hazards(&mutant.text).is_err(), by_run, emit_ptx(folder.path()) && detected_by("tile-sim", "k.ptx")],
            }
        }
    }
}

/// Compiles `k.sched` in a directory to `k.ptx`. Returns false if `tile-ptx` refuses the program.
fn emit_ptx(folder: &Path) -> bool {
    let path = |name: &str| folder.join(name).display().to_string();
    run("tile-ptx", &["--skip-hazard-check", &path("k.sched"), "-o", &path("k.ptx")], b"").code == Some(0)
}

/// The mutants of two matmuls, as `.sched` and as PTX.
fn all_mutants() -> Vec<Mutant> {
    let wide = Matmul { extents: [128, 128, 32], chunk: 64, tiles: 3, ..SMALL };
    let cases = [wide, Matmul { left_in_tensor: true, ..wide }];
    let mutants_of_matmul = |matmul: Matmul| {
        let schedule = matmul.text(Form::WarpRoles);
        let folder = temporary_folder();
        tests::scheduled::write_program_and_ptx(folder.path(), &schedule);
        let ptx = std::fs::read_to_string(folder.path().join("k.ptx")).expect("it was written");
        let to_mutants = |format: Format, texts: Vec<(ChangeKind, String, String)>| {
            texts.into_iter().map(move |(kind, change, text)| Mutant { matmul, format, kind, change, text })
        };
        to_mutants(Format::Sched, schedule_mutants(&schedule)).chain(to_mutants(Format::Ptx, ptx_mutants(&ptx))).collect::<Vec<_>>()
    };
    cases.into_iter().flat_map(mutants_of_matmul).collect()
}

/// The results of the cases that ended, by the number of the mutant.
static DETECTED: Mutex<BTreeMap<usize, Detection>> = Mutex::new(BTreeMap::new());

impl Mutant {
    /// Why the mutant computes the same results as the original. None if `HARMLESS` does not list the mutant.
    fn harmless_reason(&self) -> Option<&'static str> {
        let mut reasons = HARMLESS.iter().filter(|(format, line, ..)| self.format == *format && self.change.contains(line));
        reasons.next().map(|(.., why)| *why)
    }

    fn check(&self, number: usize) -> CaseResult {
        let seen = detect(self);
        DETECTED.lock().expect("no case panics while it notes a result").insert(number, seen);
        match (seen.by, self.harmless_reason()) {
            ([false, false, false], None) => Err(format!("no tool detects it: {:?}, {}", self.format, self.change)),
            _ => Ok(()),
        }
    }
}

/// Adds a case for each mutant, such as `mutants/ptx/17`, and a check of the generated page.
pub(crate) fn add(suite: &mut Suite) {
    let mutants = Arc::new(all_mutants());
    for number in 0..mutants.len() {
        let all = Arc::clone(&mutants);
        let format = if mutants[number].format == Format::Ptx { "ptx" } else { "sched" };
        suite.case(format!("mutants/{format}/{number}"), move || all[number].check(number));
    }
    suite.summary("the fault matrix lists the detectors", move || check_table(&mutants));
}

/// Checks that there are enough mutants, that each row of `HARMLESS` has its number of undetected mutants, and that the page lists
/// the current results.
fn check_table(mutants: &[Mutant]) -> CaseResult {
    if mutants.len() < 100 {
        return Err(format!("there are {} mutants", mutants.len()));
    }
    let detections = DETECTED.lock().expect("no case panics while it notes a result");
    for (format, line, count, why) in HARMLESS {
        let is_one = |mutant: &Mutant| mutant.format == format && mutant.change.contains(line);
        let undetected =
            mutants.iter().zip(detections.values()).filter(|(mutant, seen)| is_one(mutant) && seen.by == [false; 3]).count();
        if undetected != count {
            return Err(format!("{undetected} mutants of {line} are undetected, not {count}: {why}"));
        }
    }
    let (page, path) = (matrix_page(mutants, &detections), root().join("tests/tmem/fault_matrix.md"));
    if is_blessing() {
        std::fs::write(&path, &page).map_err(|error| error.to_string())?;
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    if page == written {
        Ok(())
    } else {
        Err(format!("scripts/bless updates tests/tmem/fault_matrix.md:\n{}", unified_diff(&written, &page)))
    }
}

/// The text of `fault_matrix.md`.
fn matrix_page(mutants: &[Mutant], detections: &BTreeMap<usize, Detection>) -> String {
    let mut rows: BTreeMap<(Format, ChangeKind), [usize; 5]> = BTreeMap::new();
    for (mutant, seen) in mutants.iter().zip(detections.values()) {
        let row = rows.entry((mutant.format, mutant.kind)).or_default();
        row[0] += 1;
        for (count, by) in row[1..].iter_mut().zip(seen.by) {
            *count += usize::from(by);
        }
        row[4] += usize::from(seen.by == [false; 3]);
    }
    let mut page = String::from("# Detection of mutants of tensor memory MMAs\n\n");
    page += "`tests/tmem/fault_matrix.rs` generates this page; `scripts/bless` updates it. A mutant is a `.sched` file or a PTX file with one injected\n";
    page += "fault. The original programs are two persistent matmuls with warp roles. The hazard checker, `tile-run` and, after the lowering to PTX,\n";
    page += "`tile-sim` test the mutants of `.sched`; only `tile-sim` tests the mutants of PTX. If no tool detects a mutant, the test fails, unless the\n";
    page += "mutant is harmless and in the list after the table.\n\n";
    let _ = writeln!(page, "| format | change | mutants | {} | harmless |", DETECTORS.join(" | "));
    page += "|---|---|---|---|---|---|---|\n";
    for ((format, kind), [count, checker, by_run, by_sim, none]) in rows {
        let (format_name, [checker, by_run]) = match format {
            Format::Sched => ("`.sched`", [checker, by_run].map(|count| count.to_string())),
            Format::Ptx => ("PTX", [(); 2].map(|()| "-".to_string())),
        };
        let _ = writeln!(page, "| {format_name} | {} | {count} | {checker} | {by_run} | {by_sim} | {none} |", kind.name());
    }
    page += "\nHarmless mutants compute the same results as the original:\n\n";
    for (format, line, count, why) in HARMLESS {
        let format_name = if format == Format::Ptx { "PTX" } else { "`.sched`" };
        let _ = writeln!(page, "- {count} of `{line}` ({format_name}): {why}.");
    }
    page
}
