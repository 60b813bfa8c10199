//! The configuration of the CPU device, which the driver reads from environment variables. `tileworks run` sets the variables.

use executor::Check;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;
use target_info::Target;

/// The program that launches execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The Tile IR or stage file in the module, or the PTX if the module contains only PTX.
    Program,
    /// The PTX in the module.
    Ptx,
}

/// The configuration of the CPU device, from the environment variables.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) target: Target,
    /// The chip in `machines/` that the device imitates.
    pub(crate) chip: &'static str,
    pub(crate) stage: Stage,
    /// The checks that the executors perform on each launch.
    pub(crate) checks: BTreeSet<Check>,
    /// Whether a finding of a check makes the launch fail.
    pub(crate) findings_fail: bool,
    /// Whether a fault ends the process.
    pub(crate) faults_abort: bool,
    /// The time limit of a launch, or `None` for no limit.
    pub(crate) time_limit: Option<Duration>,
    /// The folder to which the process writes its statistics.
    pub(crate) report: Option<PathBuf>,
    /// Whether the driver prints the name and the result of each call.
    pub(crate) trace: bool,
}

/// The chip that the device imitates if `TILEWORKS_DEVICE` is not set.
const DEFAULT_DEVICE: &str = "h100-sxm";

impl Config {
    /// Reads the configuration from environment variables. An empty variable means the same as a variable that is not set.
    pub(crate) fn from_environment() -> Result<Config, String> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let (target, chip) = find_device(variable("TILEWORKS_DEVICE").as_deref().unwrap_or(DEFAULT_DEVICE))?;
        let stage = match variable("TILEWORKS_STAGE").as_deref() {
            None | Some("tile" | "aa" | "as" | "sched") => Stage::Program,
            Some("ptx") => Stage::Ptx,
            Some(other) => return Err(format!("TILEWORKS_STAGE: '{other}' is not one of tile, aa, as, sched, ptx")),
        };
        let (checks, findings_fail) = match variable("TILEWORKS_CHECK").as_deref() {
            None | Some("off") => (BTreeSet::new(), false),
            Some("warn") => (Check::DEFAULTS.into(), false),
            Some("error") => (Check::DEFAULTS.into(), true),
            Some(other) => return Err(format!("TILEWORKS_CHECK: '{other}' is not one of off, warn, error")),
        };
        let faults_abort = match variable("TILEWORKS_FAULT").as_deref() {
            None | Some("error") => false,
            Some("abort") => true,
            Some(other) => return Err(format!("TILEWORKS_FAULT: '{other}' is not one of error, abort")),
        };
        let seconds = match variable("TILEWORKS_TIME_LIMIT") {
            None => None,
            Some(text) => {
                let seconds: f64 =
                    text.parse().map_err(|_| format!("TILEWORKS_TIME_LIMIT: '{text}' is not a number of seconds"))?;
                Some(Duration::try_from_secs_f64(seconds).map_err(|error| format!("TILEWORKS_TIME_LIMIT: {error}"))?)
            }
        };
        Ok(Config {
            target,
            chip,
            stage,
            checks,
            findings_fail,
            faults_abort,
            time_limit: seconds.filter(|limit| !limit.is_zero()),
            report: variable("TILEWORKS_REPORT").map(PathBuf::from),
            trace: variable("TILEWORKS_TRACE").is_some(),
        })
    }
}

/// Returns the number in the name of a target, for example 90 for `sm_90`, which means compute capability 9.0.
pub(crate) fn compute_capability(target: Target) -> u32 {
    target.name.split_once('_').and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
}

/// Returns the target and the chip of the device to imitate. `name` is a target such as `sm_90`, or a chip such as `h200`.
fn find_device(name: &str) -> Result<(Target, &'static str), String> {
    if let Some(target) = Target::parse(name) {
        let chip = perf_model::typical_chip(target.name).ok_or_else(|| format!("TILEWORKS_DEVICE: no chip is known for {name}"))?;
        return Ok((target, chip));
    }
    let chip = perf_model::names().find(|chip| *chip == name);
    let found = chip.and_then(|chip| {
        let machine = perf_model::Machine::named(chip).ok()?;
        let target = Target::all().find(|target| compute_capability(*target) == machine.chip.compute_capability as u32)?;
        Some((target, chip))
    });
    let chips: Vec<&str> = perf_model::names().collect();
    found
        .ok_or_else(|| format!("TILEWORKS_DEVICE: '{name}' is not a target ({}) or a chip ({})", Target::names(), chips.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::{DEFAULT_DEVICE, find_device};

    #[test]
    fn devices_are_targets_or_chips() {
        assert_eq!(find_device("sm_80").map(|(target, chip)| (target.name, chip)), Ok(("sm_80", "a100")));
        assert_eq!(find_device("h200").map(|(target, chip)| (target.name, chip)), Ok(("sm_90", "h200")));
        assert_eq!(find_device(DEFAULT_DEVICE), find_device("sm_90"));
        assert!(find_device("sm_1").is_err_and(|error| error.contains("sm_90") && error.contains("h200")));
    }
}
