//! The stages that run in the host process.

use common::{About, Control, EmbeddedRun, Session};
use std::sync::Arc;

/// All stages except `tile-ptx`, which contains LLVM, and `tile-link`, which runs ptxas.
pub(crate) struct InProcess;

impl tileiras::Stages for InProcess {
    fn run(
        &self,
        tool: &str,
        arguments: &[String],
        input: &Arc<Vec<u8>>,
        name: &str,
        control: &Arc<Control>,
    ) -> Option<EmbeddedRun> {
        let stage = Stage { arguments, input, name, control };
        match tool {
            "tile-read" => Some(stage.run(&tile_read::ABOUT, tile_read::run)),
            "tile-lower-aa" => Some(stage.run(&tile_lower_aa::ABOUT, tile_lower_aa::run)),
            "tile-lower-as" => Some(stage.run(&tile_lower_as::ABOUT, tile_lower_as::run)),
            "tile-sched" => Some(stage.run(&tile_sched::ABOUT, tile_sched::run)),
            _ => None,
        }
    }
}

/// One run of a stage.
struct Stage<'a> {
    arguments: &'a [String],
    input: &'a Arc<Vec<u8>>,
    name: &'a str,
    control: &'a Arc<Control>,
}

impl Stage<'_> {
    /// Runs the function of a stage on a thread of this process.
    fn run<E: clap::Args + Send + 'static>(
        &self,
        about: &'static About,
        run: fn(&mut Session, &E) -> base::diag::Result<()>,
    ) -> EmbeddedRun {
        let input = common::Input { name: self.name.to_string(), bytes: self.input.clone(), piped: false };
        common::run_embedded(about, self.arguments, input, self.control.clone(), run)
    }
}
