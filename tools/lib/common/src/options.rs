//! Compiler options that the envelope of a stage file carries through the pipeline. The first stage that needs an option records
//! it. A later stage accepts the option only with the recorded value. Each struct is a group of options. A stage flattens the
//! groups that it accepts into its command line and calls their `record` functions.

use base::diag::{Diagnostic, Result};
use base::{Envelope, Target};
use clap::Args;

/// The option `-O`. tile-lower-aa is the first stage that needs it, and records it in the file.
#[derive(Args, Clone, Debug, Default)]
pub struct OptLevel {
    /// Optimization level, 0 to 3 [default: the level recorded in the file, else 3]
    #[arg(short = 'O', long = "opt-level", value_name = "N", value_parser = clap::value_parser!(u8).range(0..=3))]
    pub opt_level: Option<u8>,
}

/// The option `--check-bounds`. tile-lower-aa is the first stage that needs it, and records it in the file.
#[derive(Args, Clone, Debug, Default)]
pub struct CheckBounds {
    /// Insert bounds-check assertions before memory accesses whose array extents are known
    #[arg(long)]
    pub check_bounds: bool,
}

/// The option `--gpu-name`. tile-lower-as is the first stage that needs it, and records it in the file.
#[derive(Args, Clone, Debug, Default)]
pub struct GpuName {
    /// Target GPU architecture, e.g. sm_90 (sm_90a is equivalent)
    #[arg(long, alias = "arch", value_name = "SM", value_parser = parse_target)]
    pub gpu_name: Option<Target>,
}

/// Options that override decisions of tile-lower-as, which is the first stage that needs them. tile-lower-as applies each option or
/// rejects it with the reason.
#[derive(Args, Clone, Debug, Default)]
pub struct Lowering {
    /// Warps per CTA: 1, 2, 4, 8, 16 or 32 [default: num_worker_warps_per_cta of the program, else chosen from its tile sizes]
    #[arg(long, value_name = "N", value_parser = parse_warps)]
    pub warps: Option<u32>,
    /// CTAs per SM that registers and shared memory must allow, 1 to 32 [default: occupancy of the program, else one more than
    /// the register estimate allows]
    #[arg(long, value_name = "N", value_parser = parse_occupancy)]
    pub occupancy: Option<u32>,
    /// CTAs per cluster, which divide each tile block among them: 1, 2 or 4 [default: num_cta_in_cga of the program, if profitable]
    #[arg(long, value_name = "N", value_parser = parse_cluster)]
    pub cluster: Option<u32>,
    /// Work stealing with cluster launch control (CLC): on (an error if impossible) or off [default: off]
    #[arg(long, value_name = "WHEN", value_parser = ["on", "off"])]
    pub clc: Option<String>,
    /// Compute each MMA in two halves of its rows: auto (if accumulators, or operands computed from them, would not fit registers
    /// or tensor memory), on (an error if impossible) or off [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = ["auto", "on", "off"])]
    pub split_m: Option<String>,
    /// Instruction for all MMAs: mma (per warp), wgmma (per warp group) or tcgen05 (accumulators in tensor memory) [default: the
    /// fastest that the target has]
    #[arg(long, value_name = "ATOM", value_parser = ["mma", "wgmma", "tcgen05"])]
    pub mma: Option<String>,
    /// Use TMA for MMA operand loads, result stores and reductions into memory: auto (if profitable), on (wherever possible) or off
    /// [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = ["auto", "on", "off"])]
    pub tma: Option<String>,
    /// Prefetch loads that feed no MMA into shared memory, one or more iterations ahead: auto (in persistent loops and in kernels
    /// with one tile block, if profitable), on (in every loop where it is possible) or off [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = ["auto", "on", "off"])]
    pub prefetch: Option<String>,
}

/// Options that override decisions of tile-sched, which is the first stage that needs them.
#[derive(Args, Clone, Debug, Default)]
pub struct Scheduling {
    /// Pipeline stages of each loop with asynchronous copies, 1 to 8; the prefetch distance is one less [default: enough to hide
    /// the copy latency]
    #[arg(long, value_name = "N", value_parser = parse_stages)]
    pub stages: Option<u32>,
    /// Warp specialization, a dedicated producer warp for TMA copies: auto (if profitable), on (wherever possible) or off
    /// [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = ["auto", "on", "off"])]
    pub roles: Option<String>,
    /// Split tcgen05 MMAs between two warp roles, to overlap them with the previous iteration or with the computation of the other
    /// half of the rows: auto (if profitable), on (an error if impossible) or off [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = ["auto", "on", "off"])]
    pub overlap: Option<String>,
    /// TMA multicast of loads that all CTAs of a cluster need: auto (wherever possible), on (an error if no load can be multicast)
    /// or off [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = ["auto", "on", "off"])]
    pub multicast: Option<String>,
    /// CTA-pair MMAs (tcgen05 with cta_group::2) in clusters of two CTAs: auto (if possible), on (an error if impossible) or off
    /// [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = ["auto", "on", "off"])]
    pub cta_pairs: Option<String>,
}

/// Options for debug information. tile-ptx is the first stage that needs them, and records them in the file.
#[derive(Args, Clone, Debug, Default)]
pub struct Debug {
    /// Generate line-number information for profilers
    #[arg(long)]
    pub lineinfo: bool,
    /// Generate full debug information; requires -O0
    #[arg(short = 'g', long)]
    pub device_debug: bool,
}

/// Options of the last stage, tile-link: the platform of the host object, and options for ptxas.
#[derive(Args, Clone, Debug, Default)]
pub struct Host {
    /// Architecture of the host code: x86_64 or aarch64 [default: that of this machine]
    #[arg(long, value_name = "ARCH", value_parser = ["x86_64", "aarch64"])]
    pub host_arch: Option<String>,
    /// Operating system of the host: linux or windows [default: linux]
    #[arg(long, value_name = "OS", value_parser = ["linux", "windows"])]
    pub host_os: Option<String>,
    /// Instrument the kernel for a sanitizer: memcheck
    #[arg(long, value_name = "KIND", value_parser = ["memcheck"])]
    pub sanitize: Option<String>,
    /// Additional options for ptxas, separated by spaces; its output is printed
    #[arg(long, value_name = "OPTIONS", value_parser = parse_ptxas_options, allow_hyphen_values = true)]
    pub ptxas_options: Option<String>,
}

/// Prefixes of ptxas options that users cannot pass. tile-link sets them itself, except `--options-file`, which would read further
/// options from a file without this check.
const RESERVED_PTXAS_OPTIONS: [&str; 7] = ["-o", "-O", "-arch", "--output-file", "--gpu-name", "--opt-level", "--options-file"];

/// Checks the options for ptxas, and separates them by single spaces.
fn parse_ptxas_options(text: &str) -> Result<String, String> {
    for word in text.split_whitespace() {
        if !word.starts_with('-') {
            return Err(format!("'{word}' is not an option; write values as --name=value"));
        }
        let name = word.split('=').next().unwrap_or(word);
        if RESERVED_PTXAS_OPTIONS.iter().any(|reserved| name.starts_with(reserved)) {
            return Err(format!("{name} is set by tile-link"));
        }
    }
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Parses the value of `--warps`.
fn parse_warps(text: &str) -> Result<u32, String> {
    let warps = text.parse().ok().filter(|warps: &u32| warps.is_power_of_two() && *warps <= 32);
    warps.ok_or_else(|| "a CTA has 1, 2, 4, 8, 16 or 32 warps".into())
}

/// Parses the value of `--cluster`.
fn parse_cluster(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|ctas| [1, 2, 4].contains(ctas)).ok_or_else(|| "a cluster has 1, 2 or 4 CTAs".into())
}

/// Parses the value of `--occupancy`.
fn parse_occupancy(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|ctas| (1..=32).contains(ctas)).ok_or_else(|| "an SM has 1 to 32 CTAs".into())
}

/// Parses the value of `--stages`.
fn parse_stages(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|stages| (1..=8).contains(stages)).ok_or_else(|| "a loop has 1 to 8 stages".into())
}

/// Returns the error of a tool that needs a target and has none.
pub fn no_target() -> Box<Diagnostic> {
    Diagnostic::usage("OPT002", format!("no target: pass --gpu-name=TARGET; the targets are {}", Target::names()))
}

/// Parses the value of `--gpu-name`.
fn parse_target(name: &str) -> Result<Target, String> {
    Target::parse(name).ok_or_else(|| format!("the targets are {}", Target::names()))
}

impl OptLevel {
    pub fn record(&self, envelope: &mut Envelope) -> Result<()> {
        record_option(envelope, "opt-level", self.opt_level.map(|level| level.to_string()).as_deref())
    }
    /// Records the level. If there is none, records the default, because later stages must use the same level.
    pub fn record_or_default(&self, envelope: &mut Envelope) -> Result<()> {
        self.record(envelope)?;
        let level = envelope.options.opt_level().to_string();
        envelope.options.set("opt-level", &level)
    }
}

impl CheckBounds {
    pub fn record(&self, envelope: &mut Envelope) -> Result<()> {
        record_option(envelope, "check-bounds", self.check_bounds.then_some("true"))
    }
}

impl GpuName {
    pub fn record(&self, envelope: &mut Envelope) -> Result<()> {
        match (envelope.target, self.gpu_name) {
            (Some(recorded), Some(requested)) if recorded != requested => {
                let message = format!("--gpu-name is {requested}, but an earlier stage recorded {recorded} in the file");
                Err(Diagnostic::usage("OPT001", message))
            }
            (recorded, requested) => {
                envelope.target = recorded.or(requested);
                Ok(())
            }
        }
    }
    /// Records the target and returns it. Returns an error if there is none.
    pub fn record_needed(&self, envelope: &mut Envelope) -> Result<Target> {
        self.record(envelope)?;
        envelope.target.ok_or_else(no_target)
    }
}

impl Lowering {
    fn given_options(&self) -> Vec<(&'static str, String)> {
        let number_options = [("warps", self.warps), ("occupancy", self.occupancy), ("cluster", self.cluster)]
            .map(|(name, value)| (name, value.map(|n| n.to_string())));
        let text_options =
            [("clc", &self.clc), ("split-m", &self.split_m), ("mma", &self.mma), ("tma", &self.tma), ("prefetch", &self.prefetch)];
        let text_options = text_options.map(|(name, value)| (name, value.clone()));
        number_options.into_iter().chain(text_options).filter_map(|(name, value)| Some((name, value?))).collect()
    }
    pub fn record(&self, envelope: &mut Envelope) -> Result<()> {
        self.given_options().into_iter().try_for_each(|(name, value)| envelope.options.set(name, &value))
    }
    /// Returns the equivalent command-line arguments.
    pub fn to_args(&self) -> Vec<String> {
        self.given_options().into_iter().map(|(name, value)| format!("--{name}={value}")).collect()
    }
    /// The `--warps` value recorded in a file.
    pub fn warps(envelope: &Envelope) -> Result<Option<u32>> {
        read_number(envelope, "warps", parse_warps)
    }
    /// The `--occupancy` value recorded in a file.
    pub fn occupancy(envelope: &Envelope) -> Result<Option<u32>> {
        read_number(envelope, "occupancy", parse_occupancy)
    }
    /// The `--cluster` value recorded in a file.
    pub fn cluster(envelope: &Envelope) -> Result<Option<u32>> {
        read_number(envelope, "cluster", parse_cluster)
    }
}

impl Scheduling {
    fn given_options(&self) -> Vec<(&'static str, String)> {
        let text_options =
            [("roles", &self.roles), ("overlap", &self.overlap), ("multicast", &self.multicast), ("cta-pairs", &self.cta_pairs)];
        let text_options = text_options.map(|(name, value)| (name, value.clone()));
        let options = [("stages", self.stages.map(|stages| stages.to_string()))].into_iter().chain(text_options);
        options.filter_map(|(name, value)| Some((name, value?))).collect()
    }
    pub fn record(&self, envelope: &mut Envelope) -> Result<()> {
        self.given_options().into_iter().try_for_each(|(name, value)| envelope.options.set(name, &value))
    }
    /// Returns the equivalent command-line arguments.
    pub fn to_args(&self) -> Vec<String> {
        self.given_options().into_iter().map(|(name, value)| format!("--{name}={value}")).collect()
    }
    /// The `--stages` value recorded in a file.
    pub fn stages(envelope: &Envelope) -> Result<Option<u32>> {
        read_number(envelope, "stages", parse_stages)
    }
}

impl Debug {
    pub fn record(&self, envelope: &mut Envelope) -> Result<()> {
        record_option(envelope, "lineinfo", self.lineinfo.then_some("true"))?;
        record_option(envelope, "device-debug", self.device_debug.then_some("true"))?;
        if envelope.options.flag("device-debug") && envelope.options.opt_level() != 0 {
            return Err(Diagnostic::usage("OPT003", "full debug information requires -O0"));
        }
        Ok(())
    }
}

impl Host {
    pub fn record(&self, envelope: &mut Envelope) -> Result<()> {
        record_option(envelope, "host-arch", self.host_arch.as_deref())?;
        record_option(envelope, "host-os", self.host_os.as_deref())?;
        record_option(envelope, "sanitize", self.sanitize.as_deref())?;
        record_option(envelope, "ptxas-options", self.ptxas_options.as_deref())
    }
}

/// Records an option that has a value. Returns an error if an earlier stage recorded another value.
fn record_option(envelope: &mut Envelope, name: &str, value: Option<&str>) -> Result<()> {
    value.map_or(Ok(()), |value| envelope.options.set(name, value))
}

/// Parses a number that the file records. `parse` checks the number again, because a user may have edited the file. `None` if the
/// file does not record the option.
fn read_number(envelope: &Envelope, name: &str, parse: fn(&str) -> Result<u32, String>) -> Result<Option<u32>> {
    let invalid_option = |why| Diagnostic::invalid("OPT004", format!("invalid option '{name}' in the file: {why}"));
    envelope.options.get(name).map(|text| parse(text).map_err(invalid_option)).transpose()
}
