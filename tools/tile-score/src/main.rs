//! `tile-score` compares two PTX files, or two cubins, of the same kernels.
//!
//! For PTX it counts the static instructions by kind. For cubins it shows code size, registers, stack and shared memory.
//! `tile-sim --stats` counts executed instructions.

mod instruction_counts;

use base::diag::{Diagnostic, Result};
use base::envelope::sniff;
use common::{About, Session};
use instruction_counts::KernelStatistics;
use std::fmt::Write as _;
use std::path::PathBuf;

const ABOUT: About = About {
    name: "tile-score",
    summary: "Compares two PTX files or cubins of the same kernels",
    examples: &[
        ("tile-score ours.ptx theirs.ptx", "instructions by kind, side by side, with ratios"),
        ("tile-score ours.cubin theirs.cubin", "registers, stack, shared memory and code size"),
    ],
    passes: &[],
    writes_stage_files: false,
};

#[derive(clap::Args)]
struct Options {
    /// The file to compare the input with
    #[arg(value_name = "OTHER")]
    other: Option<PathBuf>,
}

fn main() -> std::process::ExitCode {
    common::filter::<Options>(&ABOUT, |session, options| {
        let Some(other) = &options.other else {
            return Err(Diagnostic::usage("SCO003", "expected two files: tile-score FIRST SECOND"));
        };
        let first = session.input()?;
        let second = common::read_file(Some(other))?;
        if sniff(&first.bytes) != sniff(&second.bytes) {
            let kinds = [(&first, sniff(&first.bytes)), (&second, sniff(&second.bytes))]
                .map(|(file, kind)| format!("{} is {}", file.name, kind.describe()));
            return Err(Diagnostic::usage("SCO004", format!("{}: only files of one kind can be compared", kinds.join(", and "))));
        }
        let (first, second) =
            (KernelStatistics::of_file(&first.bytes, &first.name)?, KernelStatistics::of_file(&second.bytes, &second.name)?);
        write_comparison(session, &first, &second)
    })
}

/// Writes a table for each pair of kernels: the two numbers of each row, and their ratio.
fn write_comparison(session: &mut Session, first: &[KernelStatistics], second: &[KernelStatistics]) -> Result<()> {
    let mut out = String::new();
    let pairs = pair_kernels(first, second);
    if pairs.is_empty() {
        return Err(Diagnostic::invalid("SCO002", "the files have no kernel in common"));
    }
    for (first, second) in pairs {
        let _ = writeln!(out, "{}\n{:28} {:>10} {:>10} {:>8}", first.kernel, "", "first", "second", "ratio");
        for ((name, a), (_, b)) in first.rows.iter().zip(&second.rows).filter(|((_, a), (_, b))| *a != 0 || *b != 0) {
            let ratio = if *b == 0 { "-".to_string() } else { format!("{:.2}", *a as f64 / *b as f64) };
            let _ = writeln!(out, "{name:28} {a:>10} {b:>10} {ratio:>8}");
        }
    }
    session.write_bytes(out.as_bytes(), false)
}

/// Pairs kernels with the same name. If each file has a single kernel, the two kernels are a pair, even with different names.
fn pair_kernels<'a>(
    first: &'a [KernelStatistics],
    second: &'a [KernelStatistics],
) -> Vec<(&'a KernelStatistics, &'a KernelStatistics)> {
    if let ([first], [second]) = (first, second) {
        return vec![(first, second)];
    }
    first.iter().filter_map(|a| Some((a, second.iter().find(|b| b.kernel == a.kernel)?))).collect()
}
