//! The choice between stages in processes and stages in a host process.

use crate::host::{Host, run_in_host};
use crate::pipeline::Step;
use crate::run::{Outcome, run};

/// Where the stages run: as child processes of the driver, or inside a host process that uses libtileworks.
#[derive(Clone, Copy)]
pub(crate) enum Runner<'a> {
    Processes,
    Host(&'a Host<'a>),
}

impl Runner<'_> {
    /// Runs the stages, each on the output of the previous stage. The first stage reads `input`, whose name in messages is `name`.
    pub(crate) fn run(self, steps: &[Step], input: &[u8], name: Option<&str>) -> Outcome {
        match self {
            Runner::Processes => run(steps, input, name),
            Runner::Host(host) => run_in_host(host, steps, input, name),
        }
    }
}
