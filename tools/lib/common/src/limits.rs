//! Memory and time limits of a tool. The thread that started the work polls both limits. If a limit is exceeded, this thread
//! reports the limit and ends the process, which ends the child processes too. Output files have no name until they are complete,
//! so no partial file remains.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// The limit options of every tool.
#[derive(clap::Args, Debug, Clone, Copy, Default)]
pub struct Limits {
    /// Memory limit in MiB, 0 for none [default: three quarters of the machine's memory]
    #[arg(long, value_name = "MIB")]
    pub max_memory: Option<u64>,
    /// Time limit in seconds, 0 for none [default: 1800]
    #[arg(long, value_name = "SECONDS")]
    pub max_time: Option<u64>,
}

/// The default of `--max-time`, in seconds.
pub const DEFAULT_TIME_SECONDS: u64 = 1800;
/// The interval at which the limits are checked. Most runs end before the first check.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

impl Limits {
    /// Returns the time limit; `None` if there is none.
    fn time_limit(&self) -> Option<Duration> {
        Some(self.max_time.unwrap_or(DEFAULT_TIME_SECONDS)).filter(|seconds| *seconds > 0).map(Duration::from_secs)
    }

    /// Returns the memory limit in bytes; `None` if there is none, or if the size of the machine's memory is unknown.
    pub fn memory_bytes(&self) -> Option<u64> {
        let requested = self.max_memory.map(|mebibytes| mebibytes.saturating_mul(1 << 20));
        requested.or_else(|| Some(available_memory_bytes()? / 4 * 3)).filter(|bytes| *bytes > 0)
    }

    /// Waits for the result that another thread sends. Returns the reason as an error if a limit is exceeded first, or if the
    /// other thread ends without a result.
    pub(crate) fn wait<T>(self, result: &Receiver<T>) -> Result<T, String> {
        let mut watch = Watch::new(self);
        loop {
            match result.recv_timeout(POLL_INTERVAL) {
                Ok(result) => return Ok(result),
                Err(RecvTimeoutError::Disconnected) => return Err("its work ended without a result".into()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(reason) = watch.exceeded() {
                return Err(reason);
            }
        }
    }

    /// Polls on another thread, for programs that do their work on the main thread. If a limit is exceeded, calls `on_exceeded`
    /// with the reason. `on_exceeded` must end the process.
    pub fn watch(self, on_exceeded: impl FnOnce(String) + Send + 'static) {
        let mut watch = Watch::new(self);
        let poll = move || {
            let reason = loop {
                std::thread::sleep(POLL_INTERVAL);
                if let Some(reason) = watch.exceeded() {
                    break reason;
                }
            };
            on_exceeded(reason);
        };
        // If the thread cannot be created, the process has too little memory, and the work itself will fail with an error.
        let _ = std::thread::Builder::new().spawn(poll);
    }
}

/// Limits, and the state for checking them.
struct Watch {
    limits: Limits,
    /// The time from which the time limit counts.
    start: Instant,
    /// The memory limit in bytes; the inner `None` means no limit. The outer `None` means not yet computed: the first poll computes
    /// the limit, because most runs end before the first poll.
    memory_bytes: Option<Option<u64>>,
}

impl Watch {
    fn new(limits: Limits) -> Watch {
        Watch { limits, start: Instant::now(), memory_bytes: None }
    }

    /// Checks the limits. Returns the message of an exceeded limit. `None` if no limit is exceeded.
    fn exceeded(&mut self) -> Option<String> {
        if let Some(limit) = self.limits.time_limit().filter(|limit| self.start.elapsed() > *limit) {
            return Some(format!("exceeded the time limit of {} s (--max-time)", limit.as_secs()));
        }
        let limit = (*self.memory_bytes.get_or_insert_with(|| self.limits.memory_bytes()))?;
        let exceeds_limit = resident_bytes().is_some_and(|bytes| bytes > limit);
        exceeds_limit.then(|| format!("exceeded the memory limit of {} MiB (--max-memory)", limit >> 20))
    }
}

/// Returns the resident memory of this process in bytes.
fn resident_bytes() -> Option<u64> {
    let page_counts = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(page_counts.split(' ').nth(1)?.parse::<u64>().ok()? * rustix::param::page_size() as u64)
}

/// Returns the size of the machine's memory in bytes, or the limit of the control group if that is lower.
fn available_memory_bytes() -> Option<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kibibytes = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.trim().trim_end_matches(" kB");
    let machine_bytes = kibibytes.parse::<u64>().ok()? << 10;
    let cgroup_bytes = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    Some(cgroup_bytes.map_or(machine_bytes, |cgroup_bytes: u64| cgroup_bytes.min(machine_bytes)))
}
