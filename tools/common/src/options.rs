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
    /// Target, such as sm_90
    #[arg(long, alias = "arch", value_name = "SM", value_parser = parse_target)]
    pub gpu_name: Option<Target>,
}

/// `--tma`: first needed by tile-lower-as.
#[derive(Args, Clone, Debug, Default)]
pub struct Tma {
    /// Whether the copy engine copies operands of products, by tensor maps: auto (those of products in tensor memory, where it pays),
    /// on (where it can) or off [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = ["auto", "on", "off"])]
    pub tma: Option<String>,
}

/// `--agents`: first needed by tile-sched.
#[derive(Args, Clone, Debug, Default)]
pub struct Agents {
    /// Whether the copy engine's copies have warps of their own, where that can be: on or off [default: on]
    #[arg(long, value_name = "WHEN", value_parser = ["on", "off"])]
    pub agents: Option<String>,
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
}

fn parse_target(name: &str) -> Result<Target, String> {
    let known = || Target::all().map(|target| target.name).collect::<Vec<_>>().join(", ");
    Target::parse(name).ok_or_else(|| format!("the targets are {}", known()))
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
        envelope.target.ok_or_else(|| Diagnostic::usage("OPT002", "no target: give --gpu-name"))
    }
}

impl Tma {
    pub fn record(&self, envelope: &mut Envelope) -> Result<()> {
        set(envelope, "tma", self.tma.as_deref())
    }
}

impl Agents {
    pub fn record(&self, envelope: &mut Envelope) -> Result<()> {
        set(envelope, "agents", self.agents.as_deref())
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
        set(envelope, "sanitize", self.sanitize.as_deref())
    }
}

fn set(envelope: &mut Envelope, name: &str, value: Option<&str>) -> Result<()> {
    value.map_or(Ok(()), |value| envelope.options.set(name, value))
}
