//! The conventions of all tools: arguments, input and output files, diagnostics, passes, exit codes.
//!
//! The `main` of a tool has a few lines. A filter, which reads one file and writes one (`tool [INPUT|-] [-o OUTPUT|-]`), calls
//! [`filter`]. A tool with no output file or with several (`tile-run`, `tile-sim`) calls [`runner`]. [`filter`] and [`runner`] call
//! a function of the tool with a [`Session`] and the tool's own options:
//!
//! ```no_run
//! # use common::{About, Pass, Session, options::OptLevel};
//! const ABOUT: About = About {
//!     name: "tile-lower-aa",
//!     summary: "Lowers .tile to .aa, with explicit memory",
//!     examples: &[("tile-lower-aa -O3 k.tile -o k.aa", "one file to another")],
//!     passes: &["convert", "fold"],
//!     writes_stage_files: true,
//! };
//!
//! fn main() -> std::process::ExitCode {
//!     common::filter::<OptLevel>(&ABOUT, |session, options| {
//!         // let input: File<tileir::Module> = session.read()?;
//!         // let mut file = session.step("convert", || convert(&input))?;
//!         // options.record(&mut file.envelope)?;
//!         // session.run(PASSES, &mut file)?;
//!         // session.write(&file)
//!         # Ok(())
//!     })
//! }
//! ```

mod about;
mod bug;
mod cancellation;
pub mod child;
pub mod cl;
mod closed_stdout;
mod difference;
mod embedded;
pub mod explain;
mod files;
pub mod kernel_plan;
pub mod launch;
mod limits;
pub mod options;
mod passes;
pub mod plan_file;
mod report;
mod running;
mod session;
mod start;
pub mod toolkit;

pub use about::About;
pub use cancellation::Control;
pub use difference::{Colour, difference};
pub use embedded::{EmbeddedRun, run_embedded};
pub use files::{Input, os_error_text, read_at_most, read_file, write_file};
pub use limits::{DEFAULT_TIME_SECONDS, Limits};
pub use passes::{Pass, Show, pass_names};
pub use report::{ErrorFormat, Reporter, write_stderr};
pub use session::{Format, Session};
pub use start::{fail_writes_beyond_file_size_limit, filter, interactive, runner};

/// Exit codes of the stage tools. The driver uses the exit codes of NVIDIA's tileiras.
pub mod exit {
    pub const OK: u8 = 0;
    /// The input is invalid.
    pub const INVALID: u8 = 1;
    /// The command line is invalid.
    pub const USAGE: u8 = 2;
    /// The tool does not support the program or an option.
    pub const UNSUPPORTED: u8 = 3;
    /// Input, output or a child process failed.
    pub const IO: u8 = 4;
    /// An internal error; Rust's exit code after a panic.
    pub const BUG: u8 = 101;
}
