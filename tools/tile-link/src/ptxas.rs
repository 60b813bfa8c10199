//! Runs ptxas with the arguments that NVIDIA's tileiras uses. The files of ptxas are in memory, so none remains even if this
//! process is killed. ptxas ends with this process, whose time `--max-time` limits.

use crate::source;
use base::diag::{Diagnostic, Result};
use common::child::{self, MemoryFile};
use std::path::PathBuf;
use std::process::Command;

pub(crate) struct Job<'a> {
    pub(crate) chip: &'a str,
    pub(crate) opt_level: u32,
    pub(crate) sanitize: bool,
    /// Additional options from the user.
    pub(crate) options: &'a str,
    pub(crate) text: &'a str,
    pub(crate) host_object: &'a [u8],
    /// The kernels that the cubin must contain.
    pub(crate) entries: &'a [String],
    /// Memory limit of ptxas in bytes.
    pub(crate) memory: Option<u64>,
}

/// The cubin, the messages of ptxas, and its command line.
pub(crate) struct Assembled {
    pub(crate) cubin: Vec<u8>,
    pub(crate) messages: Vec<String>,
    pub(crate) command: String,
}

/// The path of the program to run as ptxas.
pub(crate) struct Ptxas(pub(crate) PathBuf);

impl Ptxas {
    /// Assembles the PTX. If ptxas is too old for the `.version` of the PTX, assembles it again with the highest version that
    /// ptxas supports.
    pub(crate) fn assemble(&self, job: &Job) -> Result<Assembled> {
        match self.attempt(job)? {
            Ok(assembled) => Ok(assembled),
            Err(messages) => match highest_version(&messages) {
                Some(version) => {
                    let text = lower_version(job.text, version);
                    self.attempt(&Job { text: &text, ..*job })?.map_err(|messages| Self::failure(&messages))
                }
                None => Err(Self::failure(&messages)),
            },
        }
    }

    fn attempt(&self, job: &Job) -> Result<Result<Assembled, Vec<String>>> {
        let failed = |what: &str, error: std::io::Error| {
            Diagnostic::io("LNK012", format!("cannot {what}: {}", common::os_error_text(&error)))
        };
        let file = |name: &str, bytes: &[u8]| MemoryFile::new(name, bytes).map_err(|error| failed("make a temporary file", error));
        let (ptx, host, out) = (file("ptx", job.text.as_bytes())?, file("host", job.host_object)?, file("cubin", &[])?);
        let mut command = Command::new(&self.0);
        command.arg("-arch").arg(job.chip).arg(ptx.path()).arg("-o").arg(out.path());
        command.arg("--opt-level").arg(job.opt_level.to_string()).arg("--enable-extended-smem=true");
        command.arg(format!("--nv-host={}", host.path().display())).arg("-uumn");
        if job.sanitize {
            command.args(["-sanitize=memcheck", "-g-tmem-access-check"]);
        }
        command.args(job.options.split_whitespace());
        let line = format!("{command:?}");
        let output = child::output(&mut command, job.memory);
        let output = output.map_err(|error| failed(&format!("run {}", self.0.display()), error))?;
        let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        let ptx_path = ptx.path().display().to_string();
        let messages: Vec<String> = printed.lines().map(|line| line.replace(&ptx_path, "kernel.ptx")).collect();
        if !output.status.success() {
            if output.status.code().is_none() {
                let error = Diagnostic::io("LNK015", format!("ptxas died: {}", child::describe(output.status)));
                return Err(messages.iter().filter(|line| !line.trim().is_empty()).fold(error, |error, line| error.note(line)));
            }
            return Ok(Err(messages));
        }
        let cubin = out.read().map_err(|error| failed("read what ptxas wrote", error))?;
        cubin::check(&cubin, "what ptxas wrote", job.entries).map_err(|error| Diagnostic::io("LNK014", error.message))?;
        Ok(Ok(Assembled { cubin, messages, command: line }))
    }

    fn failure(messages: &[String]) -> Box<Diagnostic> {
        let start = Diagnostic::io("LNK013", "ptxas failed");
        messages.iter().filter(|line| !line.trim().is_empty()).fold(start, |all, line| all.note(line.as_str()))
    }
}

/// The highest PTX version that an older ptxas supports, from its error message.
fn highest_version(messages: &[String]) -> Option<(u32, u32)> {
    let line = messages.iter().find(|line| line.contains("Unsupported .version"))?;
    let version = line.rsplit_once("current version is '")?.1.split('\'').next()?;
    parse_version(version)
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Rewrites the PTX for a ptxas that supports at most `version`. PTX before 9.2 has no `.language`; it is only a label, so it is
/// removed. Embedded source text is unchanged.
fn lower_version(text: &str, version: (u32, u32)) -> String {
    let keeps_language = version >= (9, 2);
    let begins = |line: &str, word: &str| line.trim_start().starts_with(word);
    let lines = source::lines(text).filter(|(line, is_own)| keeps_language || !is_own || !begins(line, ".language "));
    let lowered = lines.map(|(line, is_own)| match is_own && begins(line, ".version") {
        true => format!(".version {}.{}\n", version.0, version.1),
        false => format!("{line}\n"),
    });
    lowered.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_ptxas_gets_its_own_version_and_no_language() {
        let printed = ["ptxas x.ptx, line 9; fatal   : Unsupported .version 9.4; current version is '9.1'".to_string()];
        assert_eq!(highest_version(&printed), Some((9, 1)));
        let text = ".version 9.4\n.target sm_80\n.language 7\n{ }\n";
        assert_eq!(lower_version(text, (9, 1)), ".version 9.1\n.target sm_80\n{ }\n");
        assert_eq!(lower_version(text, (9, 3)), ".version 9.3\n.target sm_80\n.language 7\n{ }\n");
        assert_eq!(highest_version(&["ptxas fatal : something else".into()]), None);
        let with_embedded_source = ".version 9.4\n.source_begin\n.version 9.4\n.language 7\n.source_end\n.language 7\n";
        assert_eq!(
            lower_version(with_embedded_source, (9, 1)),
            ".version 9.1\n.source_begin\n.version 9.4\n.language 7\n.source_end\n"
        );
    }
}
