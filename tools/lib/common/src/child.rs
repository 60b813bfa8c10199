//! Children of a tool: they end with it, what they say is bounded, and files for them live in memory.

use rustix::fs::MemfdFlags;
use rustix::process::{Resource, Rlimit, Signal, getpid, getppid, set_parent_process_death_signal, setrlimit};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Output, Stdio};

/// Bytes of what a child says that are kept.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;

/// Makes a command's process end when the thread that starts it does, however that comes about. It gets no more than `memory`
/// bytes of its own.
#[allow(unsafe_code, reason = "what runs between fork and exec must not allocate or lock: these are plain system calls")]
pub fn tie(command: &mut Command, memory: Option<u64>) {
    let parent = getpid();
    let bind = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != Some(parent) {
            return Err(rustix::io::Errno::SRCH.into()); // it has ended before
        }
        if memory.is_some() {
            setrlimit(Resource::Data, Rlimit { current: memory, maximum: memory })?;
        }
        Ok(())
    };
    unsafe { command.pre_exec(bind) };
}

/// A command whose process ends when the thread that starts it does.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    tie(&mut command, None);
    command
}

/// Reads to the end, but keeps only so much.
pub fn listen(mut source: impl Read) -> Vec<u8> {
    let mut captured = Vec::new();
    let _ = (&mut source).take(MAX_OUTPUT_BYTES).read_to_end(&mut captured);
    let more = io::copy(&mut source, &mut io::sink()).unwrap_or(0);
    if more > 0 {
        captured.extend(format!("\n... and {more} bytes more\n").into_bytes());
    }
    captured
}

/// Runs a command to its end, without input. It ends with this thread and gets no more than `memory` bytes of its own.
pub fn output(command: &mut Command, memory: Option<u64>) -> io::Result<Output> {
    tie(command, memory);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (stderr, stdout) = std::thread::scope(|scope| {
        let out = scope.spawn(move || out.map(listen));
        (err.map(listen).unwrap_or_default(), out.join().ok().flatten().unwrap_or_default())
    });
    Ok(Output { status: child.wait()?, stdout, stderr })
}

/// A file that lives as long as this process, for children to read and write.
#[derive(Debug)]
pub struct MemoryFile(File);

impl MemoryFile {
    pub fn new(name: &str, bytes: &[u8]) -> io::Result<MemoryFile> {
        let mut file = File::from(rustix::fs::memfd_create(name, MemfdFlags::empty())?);
        file.write_all(bytes)?;
        Ok(MemoryFile(file))
    }
    /// What a child opens it as.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
    pub fn read(mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.0.rewind()?;
        self.0.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Who ended a child that a signal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Killed {
    /// Itself, by a fault of its own.
    Fault,
    /// Somebody, or a limit.
    Others,
}

/// What to make of the signal that ended a child, if one did.
pub fn killed(status: ExitStatus) -> Option<Killed> {
    let signal = Signal::from_named_raw(status.signal()?);
    let faults = [Signal::SEGV, Signal::BUS, Signal::ILL, Signal::FPE, Signal::ABORT, Signal::TRAP, Signal::SYS];
    Some(if signal.is_some_and(|signal| faults.contains(&signal)) { Killed::Fault } else { Killed::Others })
}

/// How a child ended, in words.
pub fn describe(status: ExitStatus) -> String {
    let guess = match status.signal().and_then(Signal::from_named_raw) {
        Some(Signal::KILL) => ": it was killed; perhaps the machine was out of memory",
        Some(Signal::XFSZ) => ": it wrote a larger file than the limit (ulimit -f)",
        Some(Signal::XCPU) => ": it took more time than the limit (ulimit -t)",
        Some(Signal::HUP | Signal::INT | Signal::QUIT | Signal::TERM) => ": it was stopped",
        _ => "",
    };
    format!("{status}{guess}")
}
