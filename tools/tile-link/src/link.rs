//! Links PTX: writes the host object, runs ptxas, and applies `--program` and `--emit`. `--program` embeds the program in the
//! cubin. `--emit` wraps the cubin in a fatbin or an object file.
//!
//! A kernel with TMA copies has a hidden parameter for each tensor map, after the visible parameters. Whenever the arguments of a
//! launch change, the driver calls the kernel's function in the host object with the parameter bytes. This function encodes the
//! maps. The envelope (the leading comments of the PTX) has a recipe for each map: its fields as expressions of the visible
//! parameters. A hidden parameter without a recipe is an error, because the kernel would read an uninitialised map.

use crate::host::{self, Convention, Machine};
use crate::ptxas::{Job, Ptxas};
use crate::source::Source;
use base::diag::{Diagnostic, Result};
use common::{Session, toolkit};
use cubin::fatbin::{self, Code, Compression, Entry, HostSystem};
use std::path::Path;

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Emit {
    Cubin,
    Fatbin,
    HostObject,
}

/// Links the PTX and returns the bytes of the output. `program` is the path of the bytecode to embed.
pub(crate) fn link(session: &mut Session, source: &Source, emit: Emit, program: Option<&Path>) -> Result<Vec<u8>> {
    let options = &source.envelope.options;
    let machine = parse_machine(options.get("host-arch").unwrap_or(std::env::consts::ARCH))?;
    let convention = match options.get("host-os") {
        Some("windows") => Convention::Windows,
        _ => Convention::SystemV,
    };
    let host_object = session.timed("host object", |_| host::write_host_object(machine, convention, &source.entries, &source.maps));
    let ptxas = toolkit::ptxas()?;
    session.write_stderr(&format!("ptxas is {}, found by {}", ptxas.path.display(), ptxas.found_by));
    let sanitize = options.get("sanitize") == Some("memcheck");
    let ptxas_job = Job {
        chip: &source.chip,
        opt_level: options.opt_level(),
        sanitize,
        options: options.get("ptxas-options").unwrap_or_default(),
        text: &source.text,
        host_object: &host_object,
        entries: &source.entries,
        memory_limit: session.limits().memory_bytes(),
    };
    let assembled = session.timed("ptxas", |_| Ptxas(ptxas.path).assemble(&ptxas_job))?;
    session.write_stderr(&assembled.command);
    match ptxas_job.options {
        "" => assembled.messages.iter().for_each(|line| session.write_stderr(line)),
        // With --ptxas-options, print the output of ptxas even without --verbose.
        _ => assembled.messages.iter().for_each(|line| session.print_stderr(&format!("{line}\n"))),
    }
    let cubin = match program {
        Some(path) => {
            let bytecode = common::read_file(Some(path))?.bytes;
            session.timed("embed", |_| cubin::program::embed(&assembled.cubin, &[&bytecode, source.text.as_bytes()]))?
        }
        None => assembled.cubin,
    };
    match emit {
        Emit::Cubin => Ok(cubin),
        Emit::Fatbin | Emit::HostObject => {
            let system = if convention == Convention::Windows { HostSystem::Windows } else { HostSystem::Linux };
            let entry = Entry { target: &source.chip, code: Code::Cubin(&cubin) };
            let fatbin = fatbin::write(&[entry], Compression::None, system)?;
            Ok(if emit == Emit::Fatbin { fatbin } else { host::write_fatbin_object(machine, convention, &fatbin) })
        }
    }
}

/// Parses the value of `--host-arch`.
fn parse_machine(name: &str) -> Result<Machine> {
    match name {
        "x86_64" => Ok(Machine::X86_64),
        "aarch64" => Ok(Machine::Aarch64),
        other => Err(Diagnostic::unsupported("LNK020", format!("host code cannot be generated for {other}; pass --host-arch"))),
    }
}
