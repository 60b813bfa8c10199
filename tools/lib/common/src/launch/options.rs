//! The command-line options of a launch, shared by all tools that execute kernels on the CPU.

use super::command_line::{self, Abi};
use super::{Call, Extents, Launch, ParamType, extents};
use base::Target;
use base::diag::{Diagnostic, Result};
use std::path::PathBuf;

/// A launch with more floating-point operations than this takes minutes on a CPU, and therefore requires `--full-grid` or
/// `--sample-blocks`.
const MAX_FLOPS: f64 = 2e10;
/// A launch with more global-memory traffic than this, in bytes, also takes minutes.
const MAX_BYTES: f64 = 1e9;

#[derive(clap::Args, Clone, Debug)]
pub struct LaunchOptions {
    /// Arguments, one per parameter: a number, a .npy file, or `FILL:TYPE[SHAPE]` with FILL one of zeros, ones, iota, empty
    #[arg(value_name = "ARG", allow_negative_numbers = true)]
    args: Vec<String>,
    /// Launch description: grid, buffers and arguments
    #[arg(long, value_name = "FILE", conflicts_with_all = ["args", "grid"])]
    launch: Option<PathBuf>,
    /// Tile blocks along each dimension [default: 1]
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = parse_grid)]
    grid: Option<Extents>,
    /// Run only these tile blocks [default: the representative blocks of the launch description]
    #[arg(long, value_name = "X:Y:Z,..", num_args = 0..=1, require_equals = true, value_delimiter = ',', value_parser = parse_block)]
    sample_blocks: Option<Vec<Extents>>,
    /// Run the full grid even if the launch declares more work than a CPU does in minutes
    #[arg(long, conflicts_with = "sample_blocks")]
    full_grid: bool,
    /// Kernel to run, if the file has several
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// Folder for the outputs
    #[arg(long, value_name = "DIR")]
    pub(super) out_dir: Option<PathBuf>,
    /// Calling convention of arrays
    #[arg(long, value_name = "ABI", value_enum, default_value_t = Abi::Pointer)]
    abi: Abi,
    /// Print the outputs, abbreviated
    #[arg(long)]
    pub(super) print_outputs: bool,
}

/// The options of a launch, with the description that `--launch` names. It is not yet checked against a kernel, because the
/// description may name the kernel.
pub struct OpenedLaunch<'a> {
    options: &'a LaunchOptions,
    /// `None` without `--launch`.
    launch: Option<Launch>,
}

impl LaunchOptions {
    /// Returns whether the command line describes a launch. `--verify-only` needs none.
    pub fn is_given(&self) -> bool {
        self.launch.is_some() || self.grid.is_some() || !self.args.is_empty()
    }

    /// Reads the description that `--launch` names, if there is one.
    pub fn open(&self) -> Result<OpenedLaunch<'_>> {
        let launch = self.launch.as_deref().map(Launch::read).transpose()?;
        Ok(OpenedLaunch { options: self, launch })
    }
}

impl OpenedLaunch<'_> {
    /// Returns the name of the kernel that `--entry` or the description requests.
    pub fn entry(&self) -> Option<&str> {
        self.options.entry.as_deref().or(self.launch.as_ref().and_then(|launch| launch.entry.as_deref()))
    }

    /// Checks the launch against a kernel with these parameter types.
    pub fn call(self, kernel: &str, types: &[ParamType], target: Option<Target>) -> Result<Call> {
        let options = self.options;
        let launch = match self.launch {
            Some(launch) => launch,
            None => command_line::parse_launch(&options.args, types, options.grid.unwrap_or(Extents([1; 3])), options.abi)?,
        };
        let mut call = launch.call(kernel, types, target)?;
        if let Some(requested) = &options.sample_blocks {
            call.blocks = Some(call.sample_blocks(requested, target)?);
        } else if !options.full_grid {
            call.reject_large_work()?;
        }
        Ok(call)
    }
}

impl Call {
    /// Returns the requested blocks; if the list is empty, the representative blocks of the launch. Returns an error if a block is
    /// outside the grid.
    pub fn sample_blocks(&self, requested: &[Extents], target: Option<Target>) -> Result<Vec<[u32; 3]>> {
        let blocks = match (&self.launch.sample_blocks, requested) {
            (_, [_, ..]) => requested,
            (Some(representative_blocks), []) => representative_blocks.for_target(target, "list of sample blocks")?,
            (None, []) => {
                let message = "the launch names no sample blocks; list them as in --sample-blocks=0:0:0,1:0:0";
                return Err(Diagnostic::usage("LCH016", message));
            }
        };
        let is_in_grid = |block: &Extents| block.0.iter().zip(self.grid).all(|(index, extent)| *index < extent);
        match blocks.iter().find(|block| !is_in_grid(block)) {
            Some(block) => Err(Diagnostic::invalid("LCH016", format!("block {:?} is not in the grid of {:?}", block.0, self.grid))),
            None => Ok(blocks.iter().map(|block| block.0).collect()),
        }
    }

    /// Returns an error if the declared work of the launch exceeds `MAX_FLOPS` or `MAX_BYTES`.
    fn reject_large_work(&self) -> Result<()> {
        let Some(work) = self.launch.work.as_ref().filter(|work| work.flops > MAX_FLOPS || work.bytes > MAX_BYTES) else {
            return Ok(());
        };
        let block_count: u64 = self.grid.iter().map(|extent| u64::from(*extent)).product();
        let message = format!(
            "this launch is {:.3e} operations and {:.3e} bytes in {block_count} blocks, too much for a CPU: run some of them with --sample-blocks, \
             or all with --full-grid",
            work.flops, work.bytes
        );
        Err(Diagnostic::usage("LCH012", message))
    }
}

/// Parses a grid such as `4`, `4,2` or `4,2,1`.
fn parse_grid(text: &str) -> std::result::Result<Extents, String> {
    let parts: std::result::Result<Vec<u32>, _> = text.split(',').map(|part| part.trim().parse()).collect();
    match parts.as_deref() {
        Ok(parts @ ([_] | [_, _] | [_, _, _])) if parts.iter().all(|n| (1..=extents::MAX_EXTENT).contains(n)) => {
            Ok(Extents(std::array::from_fn(|axis| parts.get(axis).copied().unwrap_or(1))))
        }
        _ => Err(format!("a grid is X[,Y[,Z]], each from 1 to {}", extents::MAX_EXTENT)),
    }
}

/// Parses a block index such as `4`, `4:2` or `4:2:1`.
fn parse_block(text: &str) -> std::result::Result<Extents, String> {
    let parts: std::result::Result<Vec<u32>, _> = text.split(':').map(|part| part.trim().parse()).collect();
    match parts.as_deref() {
        Ok(parts @ ([_] | [_, _] | [_, _, _])) => Ok(Extents(std::array::from_fn(|axis| parts.get(axis).copied().unwrap_or(0)))),
        _ => Err("a block is X[:Y[:Z]]".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        options: LaunchOptions,
    }

    fn call(json: &str, options: &[&str]) -> Result<Call> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("launch.json");
        std::fs::write(&path, json).unwrap();
        let args = ["tool", "--launch", path.to_str().unwrap()];
        let line = CommandLine::try_parse_from(args.iter().chain(options)).unwrap();
        line.options.open()?.call("k", &[], Target::parse("sm_90"))
    }

    const LARGE: &str = r#"{"params": [], "grid": {"sm_90": [132], "sm_100": [148]}, "work": {"flops": 1e12, "bytes": 1e6},
        "sample_blocks": {"sm_90": [[66, 0, 0], [131]], "sm_100": [[147]]}}"#;

    #[test]
    fn sample_blocks_come_from_the_command_line_or_the_description() {
        assert_eq!(call(LARGE, &["--sample-blocks"]).unwrap().blocks, Some(vec![[66, 0, 0], [131, 0, 0]]));
        assert_eq!(call(LARGE, &["--sample-blocks=3,5:0:0"]).unwrap().blocks, Some(vec![[3, 0, 0], [5, 0, 0]]));
        let outside = call(LARGE, &["--sample-blocks=132"]).unwrap_err();
        assert!(outside.message.contains("block [132, 0, 0] is not in the grid of [132, 1, 1]"), "{}", outside.message);
        assert!(call(r#"{"params": []}"#, &["--sample-blocks"]).unwrap_err().message.contains("names no sample blocks"));
    }

    #[test]
    fn a_large_grid_needs_confirmation() {
        let error = call(LARGE, &[]).unwrap_err();
        assert_eq!(error.code, "LCH012");
        assert!(error.message.contains("1.000e12 operations") && error.message.contains("--sample-blocks"), "{}", error.message);
        assert_eq!(call(LARGE, &["--full-grid"]).unwrap().blocks, None);
    }
}
