//! Runs ptxas with the arguments that NVIDIA's compiler tileiras uses. The files that ptxas reads and writes are in memory, so no
//! file remains if `tile-link` is killed. ptxas ends with `tile-link`, so `--max-time` limits the time of ptxas too.

use crate::source;
use base::diag::{Diagnostic, ResourceKind, Result};
use common::child::{self, MemoryFile};
use std::path::PathBuf;
use std::process::Command;

/// The inputs of a ptxas run.
pub(crate) struct Job<'a> {
    /// The target, such as `sm_90a`.
    pub(crate) chip: &'a str,
    pub(crate) opt_level: u32,
    /// Whether ptxas instruments the code for the memory checker.
    pub(crate) sanitize: bool,
    /// The options of `--ptxas-options`, separated by blanks.
    pub(crate) options: &'a str,
    /// The PTX.
    pub(crate) text: &'a str,
    pub(crate) host_object: &'a [u8],
    /// The kernels that the cubin must contain.
    pub(crate) entries: &'a [String],
    /// Memory limit of the ptxas process in bytes; `None` if it has no limit.
    pub(crate) memory_limit: Option<u64>,
}

/// The result of a successful ptxas run: the cubin, the messages of ptxas, and its command line.
pub(crate) struct Assembled {
    pub(crate) cubin: Vec<u8>,
    pub(crate) messages: Vec<String>,
    pub(crate) command: String,
}

/// The path of the ptxas program.
pub(crate) struct Ptxas(pub(crate) PathBuf);

impl Ptxas {
    /// Assembles the PTX. If ptxas is too old for the `.version` of the PTX, assembles it again with the highest version that
    /// ptxas supports.
    pub(crate) fn assemble(&self, job: &Job) -> Result<Assembled> {
        match self.run(job)? {
            Ok(assembled) => Ok(assembled),
            Err(messages) => match highest_supported_version(&messages) {
                Some(version) => {
                    let text = lower_version(job.text, version);
                    self.run(&Job { text: &text, ..*job })?.map_err(|messages| Self::rejection_error(&messages))
                }
                None => Err(Self::rejection_error(&messages)),
            },
        }
    }

    /// Runs ptxas once. The outer error is a failure to run ptxas; the inner error has the messages with which ptxas rejected the
    /// PTX.
    fn run(&self, job: &Job) -> Result<Result<Assembled, Vec<String>>> {
        let io_error = |action: &str, error: std::io::Error| {
            Diagnostic::io("LNK012", format!("cannot {action}: {}", common::os_error_text(&error)))
        };
        let memory_file =
            |name: &str, bytes: &[u8]| MemoryFile::new(name, bytes).map_err(|error| io_error("make a temporary file", error));
        let (ptx, host, out) =
            (memory_file("ptx", job.text.as_bytes())?, memory_file("host", job.host_object)?, memory_file("cubin", &[])?);
        let mut command = Command::new(&self.0);
        command.arg("-arch").arg(job.chip).arg(ptx.path()).arg("-o").arg(out.path());
        command.arg("--opt-level").arg(job.opt_level.to_string()).arg("--enable-extended-smem=true");
        command.arg(format!("--nv-host={}", host.path().display())).arg("-uumn");
        if job.sanitize {
            command.args(["-sanitize=memcheck", "-g-tmem-access-check"]);
        }
        command.args(job.options.split_whitespace());
        let command_line = format!("{command:?}");
        let output = child::run_captured(&mut command, job.memory_limit);
        let output = output.map_err(|error| io_error(&format!("run {}", self.0.display()), error))?;
        let output_text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        let ptx_path = ptx.path().display().to_string();
        let messages: Vec<String> = output_text.lines().map(|line| line.replace(&ptx_path, "kernel.ptx")).collect();
        if !output.status.success() {
            if output.status.code().is_none() {
                let error = Diagnostic::io("LNK015", format!("ptxas died: {}", child::describe(output.status)));
                return Err(messages.iter().filter(|line| !line.trim().is_empty()).fold(error, |error, line| error.note(line)));
            }
            return Ok(Err(messages));
        }
        let cubin = out.read().map_err(|error| io_error("read what ptxas wrote", error))?;
        cubin::check(&cubin, "what ptxas wrote", job.entries).map_err(|error| Diagnostic::io("LNK014", error.message))?;
        Ok(Ok(Assembled { cubin, messages, command: command_line }))
    }

    /// Returns the error for PTX that ptxas rejects, with the messages of ptxas as notes.
    fn rejection_error(messages: &[String]) -> Box<Diagnostic> {
        let mut ptxas_failed = Diagnostic::io("LNK013", "ptxas failed");
        if let Some((kind, needed, available)) = messages.iter().find_map(|line| exceeded_resource(line)) {
            ptxas_failed = ptxas_failed.exceeds(kind, needed, available);
        }
        messages.iter().filter(|line| !line.trim().is_empty()).fold(ptxas_failed, |diagnostic, line| diagnostic.note(line.as_str()))
    }
}

/// Parses a message of ptxas about a resource, such as `uses too much shared data (0x493e0 bytes, 0x38c00 max)`. Returns the
/// resource, the needed and the available amount.
fn exceeded_resource(line: &str) -> Option<(ResourceKind, u64, u64)> {
    let (_, message) = line.split_once("uses too much ")?;
    let (resource, amounts) = message.split_once(" (")?;
    let kind = match resource {
        "shared data" => ResourceKind::SharedMemory,
        "parameter space" => ResourceKind::Parameters,
        _ => return None,
    };
    let (needed, available) = amounts.split_once(" max)")?.0.split_once(" bytes, ")?;
    let parse = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    Some((kind, parse(needed)?, parse(available)?))
}

/// Returns the highest PTX version that ptxas supports, if its messages reject the version of the PTX.
fn highest_supported_version(messages: &[String]) -> Option<(u32, u32)> {
    let line = messages.iter().find(|line| line.contains("Unsupported .version"))?;
    let version = line.rsplit_once("current version is '")?.1.split('\'').next()?;
    parse_version(version)
}

/// Parses a PTX version such as `9.4`.
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Rewrites the PTX for a ptxas that supports at most `version`. Removes the directive `.language` for versions before 9.2, in
/// which it does not exist; the directive does not affect the generated code. Does not change embedded source text.
fn lower_version(text: &str, version: (u32, u32)) -> String {
    let keeps_language = version >= (9, 2);
    let starts_with_directive = |line: &str, word: &str| line.trim_start().starts_with(word);
    let lines = source::lines_with_origin(text)
        .filter(|(line, is_ptx)| keeps_language || !is_ptx || !starts_with_directive(line, ".language "));
    let lowered_lines = lines.map(|(line, is_ptx)| match is_ptx && starts_with_directive(line, ".version") {
        true => format!(".version {}.{}\n", version.0, version.1),
        false => format!("{line}\n"),
    });
    lowered_lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message in `line` is the output of ptxas 13.5.
    #[test]
    fn resource_messages_give_needed_and_available_amounts() {
        let line = "ptxas error   : Entry function 'k' uses too much shared data (0x493e0 bytes, 0x38c00 max)";
        assert_eq!(exceeded_resource(line), Some((ResourceKind::SharedMemory, 0x493e0, 0x38c00)));
        for other in ["ptxas error : uses too much shared data", "uses too much patience (0x1 bytes, 0x0 max)", "uses too much "] {
            assert_eq!(exceeded_resource(other), None, "{other}");
        }
    }

    #[test]
    fn lowering_the_version_removes_the_language_directive() {
        let messages = ["ptxas x.ptx, line 9; fatal   : Unsupported .version 9.4; current version is '9.1'".to_string()];
        assert_eq!(highest_supported_version(&messages), Some((9, 1)));
        let text = ".version 9.4\n.target sm_80\n.language 7\n{ }\n";
        assert_eq!(lower_version(text, (9, 1)), ".version 9.1\n.target sm_80\n{ }\n");
        assert_eq!(lower_version(text, (9, 3)), ".version 9.3\n.target sm_80\n.language 7\n{ }\n");
        assert_eq!(highest_supported_version(&["ptxas fatal : something else".into()]), None);
        let with_embedded_source = ".version 9.4\n.source_begin\n.version 9.4\n.language 7\n.source_end\n.language 7\n";
        assert_eq!(
            lower_version(with_embedded_source, (9, 1)),
            ".version 9.1\n.source_begin\n.version 9.4\n.language 7\n.source_end\n"
        );
    }
}
