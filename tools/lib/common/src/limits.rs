//! Limits of memory and time. The thread that started the work looks from time to time, says what is too much and ends the
//! process, with whatever it runs; nothing that is written meanwhile has a name yet.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// What every tool takes.
#[derive(clap::Args, Debug, Clone, Copy, Default)]
pub struct Limits {
    /// MiB of memory that the tool may use, 0 for any [default: three quarters of the machine's]
    #[arg(long, value_name = "MIB")]
    pub max_memory: Option<u64>,
    /// Seconds that the tool may take, 0 for any [default: 1800]
    #[arg(long, value_name = "SECONDS")]
    pub max_time: Option<u64>,
}

const DEFAULT_TIME: u64 = 1800;
/// How often is looked. Most runs have ended before the first time.
const INTERVAL: Duration = Duration::from_millis(50);

impl Limits {
    fn time(&self) -> Option<Duration> {
        Some(self.max_time.unwrap_or(DEFAULT_TIME)).filter(|seconds| *seconds > 0).map(Duration::from_secs)
    }

    /// In bytes.
    pub fn memory(&self) -> Option<u64> {
        let given = self.max_memory.map(|mebibytes| mebibytes.saturating_mul(1 << 20));
        given.or_else(|| Some(memory_of_the_machine()? / 4 * 3)).filter(|bytes| *bytes > 0)
    }

    /// Waits for what `work` sends when it ends; gives up, with a reason, when it takes too much.
    pub(crate) fn wait<T>(self, work: &Receiver<T>) -> Result<T, String> {
        let mut watch = Watch::new(self);
        loop {
            match work.recv_timeout(INTERVAL) {
                Ok(result) => return Ok(result),
                Err(RecvTimeoutError::Disconnected) => return Err("its work ended without a result".into()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(reason) = watch.exceeded() {
                return Err(reason);
            }
        }
    }

    /// For a program whose first thread does the work: another one looks, and calls `give_up` with a reason, which ends the process.
    pub fn watch(self, give_up: impl FnOnce(String) + Send + 'static) {
        let mut watch = Watch::new(self);
        let look = move || {
            let reason = loop {
                std::thread::sleep(INTERVAL);
                if let Some(reason) = watch.exceeded() {
                    break reason;
                }
            };
            give_up(reason);
        };
        // Without a thread for it there is too little memory for the work too, which will say so.
        let _ = std::thread::Builder::new().spawn(look);
    }
}

/// Limits, and since when they count.
struct Watch {
    limits: Limits,
    start: Instant,
    /// Asked for when it is looked at for the first time, which most runs do not last to see.
    memory: Option<Option<u64>>,
}

impl Watch {
    fn new(limits: Limits) -> Watch {
        Watch { limits, start: Instant::now(), memory: None }
    }

    /// What is too much by now.
    fn exceeded(&mut self) -> Option<String> {
        if let Some(limit) = self.limits.time().filter(|limit| self.start.elapsed() > *limit) {
            return Some(format!("it takes longer than {} s (--max-time)", limit.as_secs()));
        }
        let limit = (*self.memory.get_or_insert_with(|| self.limits.memory()))?;
        let over = resident().is_some_and(|bytes| bytes > limit);
        over.then(|| format!("it takes more than {} MiB of memory (--max-memory)", limit >> 20))
    }
}

/// Memory of this process that is in use.
fn resident() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(pages.split(' ').nth(1)?.parse::<u64>().ok()? * rustix::param::page_size() as u64)
}

/// What the machine has, or the group of processes may use.
fn memory_of_the_machine() -> Option<u64> {
    let information = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kibibytes = information.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.trim().trim_end_matches(" kB");
    let all = kibibytes.parse::<u64>().ok()? << 10;
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    Some(group.map_or(all, |group: u64| group.min(all)))
}
