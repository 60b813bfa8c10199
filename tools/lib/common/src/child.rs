//! Child processes. A child ends when its parent ends, its captured output is bounded, and files passed to it are in memory.

use crate::cancellation::Control;
use rustix::fs::MemfdFlags;
use rustix::process::{Resource, Rlimit, Signal, getpid, getppid, set_parent_process_death_signal, setrlimit};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::time::Duration;

/// The maximum size of a captured output stream, in bytes.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;

/// Makes the process of a command end when the thread that starts the process ends, even if the system kills this thread. With
/// `memory`, limits the data segment of the process to that number of bytes.
#[allow(unsafe_code, reason = "code between fork and exec must not allocate or lock; these are plain system calls")]
pub fn end_with_parent(command: &mut Command, memory: Option<u64>) {
    let parent = getpid();
    let prepare_child = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != Some(parent) {
            return Err(rustix::io::Errno::SRCH.into()); // the parent has already ended
        }
        if memory.is_some() {
            setrlimit(Resource::Data, Rlimit { current: memory, maximum: memory })?;
        }
        Ok(())
    };
    unsafe { command.pre_exec(prepare_child) };
}

/// Creates a command whose process ends when the thread that starts the process ends.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    end_with_parent(&mut command, None);
    command
}

/// Reads a stream to its end and returns the first `MAX_OUTPUT_BYTES`, followed by a note with the number of omitted bytes. The
/// function reads the omitted bytes too, so that the child never blocks on a full Unix pipe.
pub fn read_bounded(mut source: impl Read) -> Vec<u8> {
    let mut captured = Vec::new();
    let _ = (&mut source).take(MAX_OUTPUT_BYTES).read_to_end(&mut captured);
    let omitted_bytes = io::copy(&mut source, &mut io::sink()).unwrap_or(0);
    if omitted_bytes > 0 {
        captured.extend(format!("\n... and {omitted_bytes} bytes more\n").into_bytes());
    }
    captured
}

/// Runs a command with empty standard input, waits for it and returns its captured output. The process ends when this thread
/// ends. `memory` is the limit of its data segment in bytes.
pub fn run_captured(command: &mut Command, memory: Option<u64>) -> io::Result<Output> {
    end_with_parent(command, memory);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (stderr, stdout) = std::thread::scope(|scope| {
        let out = scope.spawn(move || out.map(read_bounded));
        (err.map(read_bounded).unwrap_or_default(), out.join().ok().flatten().unwrap_or_default())
    });
    Ok(Output { status: child.wait()?, stdout, stderr })
}

/// The interval at which a waiting thread checks whether its run is cancelled.
const CANCELLATION_INTERVAL: Duration = Duration::from_millis(20);

/// Runs a command on `input` as [`run_captured`] does, and kills it if the run is cancelled. Captures at most `max_output_bytes` of
/// standard output; a longer output is an error.
pub fn run_cancellable(
    command: &mut Command,
    input: &[u8],
    memory: Option<u64>,
    max_output_bytes: u64,
    control: &Control,
) -> io::Result<Output> {
    end_with_parent(command, memory);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (stdin, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        // A write error is ignored: a command that ends early does not read all of its input.
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(input)));
        let stderr = scope.spawn(move || err.map(read_bounded).unwrap_or_default());
        let (sender, receiver) = std::sync::mpsc::channel();
        scope.spawn(move || {
            let mut stdout = Vec::new();
            let read = out.map_or(Ok(0), |out| out.take(max_output_bytes + 1).read_to_end(&mut stdout));
            let _ = sender.send(read.map(|_| stdout));
        });
        // Standard output ends when the command does.
        let stdout = loop {
            match receiver.recv_timeout(CANCELLATION_INTERVAL) {
                Ok(stdout) => break stdout,
                Err(_) if control.is_cancelled() => {
                    let _ = child.kill();
                    break Ok(Vec::new());
                }
                Err(_) => {}
            }
        };
        let stdout = stdout.and_then(|stdout| match stdout.len() as u64 > max_output_bytes {
            true => Err(io::Error::other(format!("its output is larger than {max_output_bytes} bytes"))),
            false => Ok(stdout),
        });
        if stdout.is_err() {
            let _ = child.kill();
        }
        // Without this wait, a child that has ended stays in the process table.
        let status = child.wait()?;
        Ok(Output { status, stdout: stdout?, stderr: stderr.join().unwrap_or_default() })
    })
}

/// An in-memory file that children can read and write. It exists until it is dropped.
#[derive(Debug)]
pub struct MemoryFile(File);

impl MemoryFile {
    /// Creates a file with this content. `name` appears only in `/proc`.
    pub fn new(name: &str, bytes: &[u8]) -> io::Result<MemoryFile> {
        let mut file = File::from(rustix::fs::memfd_create(name, MemfdFlags::empty())?);
        file.write_all(bytes)?;
        Ok(MemoryFile(file))
    }
    /// Returns the path with which a child process opens the file. The child inherits the file descriptor.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
    /// Returns the content of the file, and drops the file.
    pub fn read(mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.0.rewind()?;
        self.0.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// The cause of the signal that terminated a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalCause {
    /// A fault of the child itself, such as a segmentation fault or an abort.
    Fault,
    /// Another process, the system or a resource limit.
    External,
}

/// Classifies the signal that terminated a child; `None` if the child exited by itself.
pub fn signal_cause(status: ExitStatus) -> Option<SignalCause> {
    let signal = Signal::from_named_raw(status.signal()?);
    let fault_signals = [Signal::SEGV, Signal::BUS, Signal::ILL, Signal::FPE, Signal::ABORT, Signal::TRAP, Signal::SYS];
    Some(if signal.is_some_and(|signal| fault_signals.contains(&signal)) { SignalCause::Fault } else { SignalCause::External })
}

/// Describes in words how a child ended: its exit code, or the signal and the likely reason.
pub fn describe(status: ExitStatus) -> String {
    let likely_reason = match status.signal().and_then(Signal::from_named_raw) {
        Some(Signal::KILL) => ": it was killed; perhaps the machine was out of memory",
        Some(Signal::XFSZ) => ": it exceeded the file size limit (ulimit -f)",
        Some(Signal::XCPU) => ": it exceeded the CPU time limit (ulimit -t)",
        Some(Signal::HUP | Signal::INT | Signal::QUIT | Signal::TERM) => ": it was terminated",
        _ => "",
    };
    format!("{status}{likely_reason}")
}
