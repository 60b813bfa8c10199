//! Options that travel in the envelope. Each is given once, to the first stage that needs it; a later stage takes it too, but
//! only with the same value. A stage flattens those it needs or may be given, and calls `record`.

use base::diag::{Diagnostic, Result};
use base::{Envelope, Target};
use clap::Args;

/// `-O`: first needed by tile-lower-aa.
#[derive(Args, Clone, Debug, Default)]
pub struct OptLevel {
    /// Optimization level, 0 to 3 [default: the one in the file, or 3 where it has none]
    #[arg(short = 'O', long = "opt-level", value_name = "N", value_parser = clap::value_parser!(u8).range(0..=3))]
    pub opt_level: Option<u8>,
}

/// `--check-bounds`: first needed by tile-lower-aa.
#[derive(Args, Clone, Debug, Default)]
pub struct CheckBounds {
    /// Assert before each access that it stays within the array it is meant for, where that is known
    #[arg(long)]
    pub check_bounds: bool,
}

/// `--gpu-name`: first needed by tile-lower-as.
#[derive(Args, Clone, Debug, Default)]
pub struct GpuName {
    /// Target, such as sm_90; sm_90a is the same
    #[arg(long, alias = "arch", value_name = "SM", value_parser = parse_target)]
    pub gpu_name: Option<Target>,
}

/// What tile-lower-as decides, unless a user does: each is carried out, or refused with the reason. First needed there.
#[derive(Args, Clone, Debug, Default)]
pub struct Lowering {
    /// Warps of a block: a power of two up to 32 [default: num_worker_warps_per_cta of the program, or what its tiles keep busy]
    #[arg(long, value_name = "N", value_parser = parse_warps)]
    pub warps: Option<u32>,
    /// CTAs per SM that registers and memory must allow, 1 to 32 [default: occupancy of the program, or one
    /// more than registers quite have room for]
    #[arg(long, value_name = "N", value_parser = parse_occupancy)]
    pub occupancy: Option<u32>,
    /// Blocks of a cluster that share each tile block out among them, 1, 2 or 4 [default: num_cta_in_cga of the program, where that pays]
    #[arg(long, value_name = "N", value_parser = parse_cluster)]
    pub cluster: Option<u32>,
    /// Whether blocks that are done take over others of the launch that have not begun (launch control): on (refused where that cannot be) or
    /// off [default: off]
    #[arg(long, value_name = "WHEN", value_parser = ["on", "off"])]
    pub clc: Option<String>,
    /// Whether MMAs are computed in two split_m of their rows: auto (if accumulators, or operands computed from them, do not fit registers
    /// or tensor memory otherwise), on (refused where that cannot be) or off [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = ["auto", "on", "off"])]
    pub split_m: Option<String>,
    /// What makes all mma: mma (warps), wgmma (warp groups) or tcgen05 (into tensor memory) [default: what is fastest]
    #[arg(long, value_name = "ATOM", value_parser = ["mma", "wgmma", "tcgen05"])]
    pub mma: Option<String>,
    /// Whether the copy engine copies operands of mma, stores what they gave and combines tiles with memory, by tensor maps: auto
    /// (for mma of tensor cores, and of large tiles, where it pays), on (where it can) or off [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = ["auto", "on", "off"])]
    pub tma: Option<String>,
    /// Whether loads that no product reads are copied to shared memory, an iteration or more ahead: auto (in persistent loops, where it
    /// pays), on (in every loop where it can be) or off [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = ["auto", "on", "off"])]
    pub prefetch: Option<String>,
}

/// What tile-sched decides, unless a user does. First needed there.
#[derive(Args, Clone, Debug, Default)]
pub struct Scheduling {
    /// Stages of each loop with asynchronous copies, 1 to 8: copies run one iteration less ahead [default: as many as hide them]
    #[arg(long, value_name = "N", value_parser = parse_stages)]
    pub stages: Option<u32>,
    /// Whether the copy engine's copies have warps of their own: auto (where that pays), on (where it can be) or off [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = ["auto", "on", "off"])]
    pub roles: Option<String>,
    /// Whether mma in tensor memory have a second agent, so that those that a round begins with are made during the round before, or
    /// those of one half of rows while another agent computes the other half: auto (where that pays), on (or why not) or off [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = ["auto", "on", "off"])]
    pub overlap: Option<String>,
    /// Whether the blocks of a cluster bring each other the boxes that they all need: auto (what can be), on (some, or why none) or off
    /// [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = ["auto", "on", "off"])]
    pub multicast: Option<String>,
    /// Whether the two blocks of a cluster make mma in tensor memory together: auto (where they can), on (or why not) or off
    /// [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = ["auto", "on", "off"])]
    pub cta_pairs: Option<String>,
}

/// Debug information: first needed by tile-ptx.
#[derive(Args, Clone, Debug, Default)]
pub struct Debug {
    /// Keep source lines for profilers
    #[arg(long)]
    pub lineinfo: bool,
    /// Keep full debug information; needs -O0
    #[arg(short = 'g', long)]
    pub device_debug: bool,
}

/// What the last stage needs to know of the host and of ptxas.
#[derive(Args, Clone, Debug, Default)]
pub struct Host {
    /// Architecture of the host code: x86_64 or aarch64 [default: this machine's]
    #[arg(long, value_name = "ARCH", value_parser = ["x86_64", "aarch64"])]
    pub host_arch: Option<String>,
    /// Operating system of the host: linux or windows [default: linux]
    #[arg(long, value_name = "OS", value_parser = ["linux", "windows"])]
    pub host_os: Option<String>,
    /// Instrument the kernel: memcheck
    #[arg(long, value_name = "KIND", value_parser = ["memcheck"])]
    pub sanitize: Option<String>,
    /// Options that ptxas is given too, separated by spaces; what it then says is printed
    #[arg(long, value_name = "OPTIONS", value_parser = parse_ptxas_options, allow_hyphen_values = true)]
    pub ptxas_options: Option<String>,
}

/// How options of ptxas begin that tile-link gives it, or that would bring others which nothing looked at.
const OF_TILE_LINK: [&str; 7] = ["-o", "-O", "-arch", "--output-file", "--gpu-name", "--opt-level", "--options-file"];

fn parse_ptxas_options(text: &str) -> Result<String, String> {
    for word in text.split_whitespace() {
        if !word.starts_with('-') {
            return Err(format!("'{word}' is no option; give values as --name=value"));
        }
        let name = word.split('=').next().unwrap_or(word);
        if OF_TILE_LINK.iter().any(|own| name.starts_with(own)) {
            return Err(format!("{name} is for tile-link to give"));
        }
    }
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn parse_warps(text: &str) -> Result<u32, String> {
    let warps = text.parse().ok().filter(|warps: &u32| warps.is_power_of_two() && *warps <= 32);
    warps.ok_or_else(|| "a CTA has 1, 2, 4, 8, 16 or 32 warps".into())
}

fn parse_cluster(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|blocks| [1, 2, 4].contains(blocks)).ok_or_else(|| "a cluster has 1, 2 or 4 CTAs".into())
}

fn parse_occupancy(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|blocks| (1..=32).contains(blocks)).ok_or_else(|| "an SM has 1 to 32 CTAs".into())
}

fn parse_stages(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|stages| (1..=8).contains(stages)).ok_or_else(|| "a loop has 1 to 8 stages".into())
}

/// What is said where no target was named.
pub fn no_target() -> Box<Diagnostic> {
    Diagnostic::usage("OPT002", format!("no target: give --gpu-name=TARGET; the targets are {}", Target::names()))
}

fn parse_target(name: &str) -> Result<Target, String> {
    Target::parse(name).ok_or_else(|| format!("the targets are {}", Target::names()))
}

impl OptLevel {
    pub fn record(&self, envelope: &mut Envelope) -> Result<()> {
        set(envelope, "opt-level", self.opt_level.map(|level| level.to_string()).as_deref())
    }
    /// Records the level, or the default, for the first stage that needs it.
    pub fn record_or_default(&self, envelope: &mut Envelope) -> Result<()> {
        self.record(envelope)?;
        let level = envelope.options.opt_level().to_string();
        envelope.options.set("opt-level", &level)
    }
}

impl CheckBounds {
    pub fn record(&self, envelope: &mut Envelope) -> Result<()> {
        set(envelope, "check-bounds", self.check_bounds.then_some("true"))
    }
}

impl GpuName {
    pub fn record(&self, envelope: &mut Envelope) -> Result<()> {
        match (envelope.target, self.gpu_name) {
            (Some(earlier), Some(now)) if earlier != now => {
                let message = format!("--gpu-name is {now} here, but {earlier} in the file, where an earlier stage recorded it");
                Err(Diagnostic::usage("OPT001", message))
            }
            (earlier, now) => {
                envelope.target = earlier.or(now);
                Ok(())
            }
        }
    }
    /// The target, for the first stage that needs it.
    pub fn record_needed(&self, envelope: &mut Envelope) -> Result<Target> {
        self.record(envelope)?;
        envelope.target.ok_or_else(no_target)
    }
}

impl Lowering {
    fn given(&self) -> Vec<(&'static str, String)> {
        let numbers = [("warps", self.warps), ("occupancy", self.occupancy), ("cluster", self.cluster)]
            .map(|(name, value)| (name, value.map(|n| n.to_string())));
        let to_args =
            [("clc", &self.clc), ("split-m", &self.split_m), ("mma", &self.mma), ("tma", &self.tma), ("prefetch", &self.prefetch)];
        let to_args = to_args.map(|(name, value)| (name, value.clone()));
        numbers.into_iter().chain(to_args).filter_map(|(name, value)| Some((name, value?))).collect()
    }
    pub fn record(&self, envelope: &mut Envelope) -> Result<()> {
        self.given().into_iter().try_for_each(|(name, value)| envelope.options.set(name, &value))
    }
    /// The to_args of a command line that says the same.
    pub fn to_args(&self) -> Vec<String> {
        self.given().into_iter().map(|(name, value)| format!("--{name}={value}")).collect()
    }
    /// `--warps` of a file.
    pub fn warps(envelope: &Envelope) -> Result<Option<u32>> {
        read(envelope, "warps", parse_warps)
    }
    /// `--occupancy` of a file.
    pub fn occupancy(envelope: &Envelope) -> Result<Option<u32>> {
        read(envelope, "occupancy", parse_occupancy)
    }
    /// `--cluster` of a file.
    pub fn cluster(envelope: &Envelope) -> Result<Option<u32>> {
        read(envelope, "cluster", parse_cluster)
    }
}

impl Scheduling {
    fn given(&self) -> Vec<(&'static str, String)> {
        let to_args = [
            ("roles", &self.roles),
            ("overlap", &self.overlap),
            ("multicast", &self.multicast),
            ("cta-cta_pairs", &self.cta_pairs),
        ];
        let to_args = to_args.map(|(name, value)| (name, value.clone()));
        let all = [("stages", self.stages.map(|stages| stages.to_string()))].into_iter().chain(to_args);
        all.filter_map(|(name, value)| Some((name, value?))).collect()
    }
    pub fn record(&self, envelope: &mut Envelope) -> Result<()> {
        self.given().into_iter().try_for_each(|(name, value)| envelope.options.set(name, &value))
    }
    /// The to_args of a command line that says the same.
    pub fn to_args(&self) -> Vec<String> {
        self.given().into_iter().map(|(name, value)| format!("--{name}={value}")).collect()
    }
    /// `--stages` of a file.
    pub fn stages(envelope: &Envelope) -> Result<Option<u32>> {
        read(envelope, "stages", parse_stages)
    }
}

impl Debug {
    pub fn record(&self, envelope: &mut Envelope) -> Result<()> {
        set(envelope, "lineinfo", self.lineinfo.then_some("true"))?;
        set(envelope, "device-debug", self.device_debug.then_some("true"))?;
        if envelope.options.flag("device-debug") && envelope.options.opt_level() != 0 {
            return Err(Diagnostic::usage("OPT003", "full debug information needs -O0"));
        }
        Ok(())
    }
}

impl Host {
    pub fn record(&self, envelope: &mut Envelope) -> Result<()> {
        set(envelope, "host-arch", self.host_arch.as_deref())?;
        set(envelope, "host-os", self.host_os.as_deref())?;
        set(envelope, "sanitize", self.sanitize.as_deref())?;
        set(envelope, "ptxas-options", self.ptxas_options.as_deref())
    }
}

fn set(envelope: &mut Envelope, name: &str, value: Option<&str>) -> Result<()> {
    value.map_or(Ok(()), |value| envelope.options.set(name, value))
}

/// A number that was recorded, by this program or by who edited the file.
fn read(envelope: &Envelope, name: &str, parse: fn(&str) -> Result<u32, String>) -> Result<Option<u32>> {
    let wrong = |why| Diagnostic::invalid("OPT004", format!("option '{name}' of the file: {why}"));
    envelope.options.get(name).map(|text| parse(text).map_err(wrong)).transpose()
}
