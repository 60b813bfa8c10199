//! The command line of `tile-sched`.

use crate::{PASSES, PASSES_BEFORE_PIPELINING, Scheduling, check, convert_to_sched, trace};
use base::envelope::{Form, Sniffed, sniff};
use common::{About, Session, options};

pub const ABOUT: About = About {
    name: "tile-sched",
    summary: "Schedules loops and places buffers and barriers: .as to .sched",
    examples: &[
        ("tile-sched k.as -o k.sched", "one file to another"),
        ("tile-sched --stop-after=alloc --format=text k.as -o k.sched", "write the schedule for editing before it is applied"),
        ("tile-sched k.sched -o done.sched", "continue from an edited schedule"),
        ("tile-sched --schedule-trace=k.json k.as -o k.sched", "write op timings for a trace viewer"),
    ],
    passes: &common::pass_names::<_, { PASSES.len() }>(&[], PASSES, &[]),
    writes_stage_files: true,
};

/// The options of `tile-sched`.
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    opt: options::OptLevel,
    #[command(flatten)]
    gpu: options::GpuName,
    #[command(flatten)]
    decisions: options::Scheduling,
    /// Write the loop schedules as a Chrome trace
    #[arg(long, value_name = "FILE")]
    schedule_trace: Option<std::path::PathBuf>,
}

/// Runs `tile-sched`.
pub fn run(session: &mut Session, options: &Options) -> base::diag::Result<()> {
    let input = session.input()?;
    let is_sched = matches!(sniff(&input.bytes), Sniffed::Stage { ref format, form: Form::Binary | Form::Ron | Form::Text } if format == "sched");
    let producer = session.producer();
    let mut file = if is_sched {
        session.decode::<sched::Module>(&input)?
    } else {
        convert_to_sched(&session.decode::<tileas::Module>(&input)?, &producer)
    };
    options.opt.record(&mut file.envelope)?;
    options.gpu.record(&mut file.envelope)?;
    options.decisions.record(&mut file.envelope)?;
    if session.verify_only() {
        return check(&file);
    }
    // The trace needs the scheduled loops, which the later passes replace.
    let (scheduling, rewriting) = PASSES.split_at(PASSES_BEFORE_PIPELINING);
    let mut state = Scheduling::new(file);
    session.run(scheduling, &mut state)?;
    if let Some(path) = &options.schedule_trace {
        common::write_file(Some(path), trace(&state.file)?.as_bytes())?;
    }
    session.run(rewriting, &mut state)?;
    session.write(&*state.written_file())
}
