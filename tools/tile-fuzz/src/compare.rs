//! Runs one program at every stage, as processes, and compares what it leaves in memory.

use crate::program::Program;
use base::diag::{Diagnostic, Result};
use base::envelope::Form;
use base::{Envelope, File, Scalar};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What came of one program on one target.
pub(crate) enum Outcome {
    Same,
    /// A stage or executor says that it does not do this.
    Unsupported(String),
    Wrong(String),
}

pub(crate) struct Bench {
    /// Where the tools are.
    pub(crate) tools: PathBuf,
    pub(crate) level: String,
}

/// Seconds that one process may take.
const PATIENCE: &str = "60";

enum Ran {
    Done,
    Failed(Outcome),
}

impl Bench {
    /// Runs a tool; exit code 3 is its way to say that it does not do something.
    fn run(&self, tool: &str, args: &[&str]) -> Result<Ran> {
        let path = self.tools.join(tool);
        let output = Command::new("timeout").arg(PATIENCE).arg(&path).args(args).output();
        let output = output.map_err(|error| Diagnostic::io("FUZ001", format!("{}: {error}", path.display())))?;
        let told = String::from_utf8_lossy(&output.stderr);
        let first = told.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        Ok(match output.status.code() {
            Some(0) => Ran::Done,
            Some(3) => Ran::Failed(Outcome::Unsupported(format!("{tool}: {first}"))),
            code => Ran::Failed(Outcome::Wrong(format!("{tool} ends with {code:?}: {first}"))),
        })
    }

    pub(crate) fn write(program: &Program, folder: &Path) -> Result<()> {
        let failed = |error: std::io::Error| Diagnostic::io("FUZ002", format!("{}: {error}", folder.display()));
        std::fs::create_dir_all(folder).map_err(failed)?;
        for (name, data) in &program.data {
            std::fs::write(folder.join(format!("{name}.in")), data).map_err(failed)?;
        }
        let launch = serde_json::to_string_pretty(&program.launch).expect("a launch is made of plain values");
        std::fs::write(folder.join("launch.json"), launch).map_err(failed)?;
        let envelope = Envelope::new::<tileir::Module>(tileir::import::PHASE, "tile-fuzz", &[]);
        let file = File { envelope, payload: program.module.clone() };
        std::fs::write(folder.join("k.tile"), file.write(Form::Binary)?).map_err(failed)
    }

    /// Every stage must leave what the program itself does.
    pub(crate) fn compare(&self, program: &Program, folder: &Path, target: &str) -> Result<Outcome> {
        Self::write(program, folder)?;
        let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let (tile, aa, atoms, sched, ptx) = (path("k.tile"), path("k.aa"), path("k.as"), path("k.sched"), path("k.ptx"));
        if let Some(outcome) = self.execute("tile-run", &tile, folder, "tile")? {
            return Ok(outcome);
        }
        let level = format!("-O{}", self.level);
        let steps: [(&str, Vec<&str>, &str, &str); 4] = [
            ("tile-lower-aa", vec![&level, &tile, "-o", &aa], &aa, "tile-run"),
            ("tile-lower-as", vec!["--gpu-name", target, &aa, "-o", &atoms], &atoms, "tile-run"),
            ("tile-sched", vec![&atoms, "-o", &sched], &sched, "tile-run"),
            ("tile-ptx", vec![&sched, "-o", &ptx], &ptx, "tile-sim"),
        ];
        for (tool, args, file, executor) in steps {
            if let Ran::Failed(outcome) = self.run(tool, &args)? {
                return Ok(outcome);
            }
            let stage = file.rsplit('.').next().unwrap_or_default();
            if let Some(outcome) = self.execute(executor, file, folder, stage)? {
                return Ok(outcome);
            }
            if let Some(difference) = self.difference(program, folder, stage)? {
                return Ok(Outcome::Wrong(format!("{tool}: {difference}")));
            }
        }
        Ok(Outcome::Same)
    }

    fn execute(&self, executor: &str, file: &str, folder: &Path, stage: &str) -> Result<Option<Outcome>> {
        let (launch, out) = (folder.join("launch.json"), folder.join(stage));
        let args = [file, "--launch", &launch.to_string_lossy(), "--out-dir", &out.to_string_lossy()];
        Ok(match self.run(executor, &args)? {
            Ran::Done => None,
            Ran::Failed(Outcome::Wrong(message)) => Some(Outcome::Wrong(format!(".{stage}: {message}"))),
            Ran::Failed(outcome) => Some(outcome),
        })
    }

    fn difference(&self, program: &Program, folder: &Path, stage: &str) -> Result<Option<String>> {
        for (name, scalar) in &program.outputs {
            let read = |stage: &str| {
                let path = folder.join(stage).join(format!("{name}.bin"));
                std::fs::read(&path).map_err(|error| Diagnostic::io("FUZ002", format!("{}: {error}", path.display())))
            };
            let (want, got) = (read("tile")?, read(stage)?);
            let size = scalar.bytes() as usize;
            let pairs = want.chunks_exact(size).zip(got.chunks_exact(size));
            let odd: Vec<usize> = pairs.enumerate().filter(|(_, (want, got))| !same(*scalar, want, got)).map(|(i, _)| i).collect();
            if let Some(first) = odd.first() {
                let bits = |data: &[u8]| word(&data[first * size..][..size]);
                let (count, all) = (odd.len(), want.len() / size);
                let (got, want) = (bits(&got), bits(&want));
                return Ok(Some(format!("{name} ({scalar}): {count} of {all} differ, first {first}: {got:#x} for {want:#x}")));
            }
        }
        Ok(None)
    }
}

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// Equal in every bit, or both NaN.
fn same(scalar: Scalar, a: &[u8], b: &[u8]) -> bool {
    let nan = |bytes: &[u8]| scalar.is_float() && base::float::decode(scalar, word(bytes)).is_nan();
    a == b || nan(a) && nan(b)
}
