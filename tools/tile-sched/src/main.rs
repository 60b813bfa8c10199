//! `tile-sched`: schedules loops, gives buffers addresses, and places barriers.

use base::envelope::{Form, Sniffed, sniff};
use common::{About, options};
use tile_sched::{PASSES, start};

const ABOUT: About = About {
    name: "tile-sched",
    summary: "Schedules loops, places buffers and barriers: .as to .sched",
    examples: &[
        ("tile-sched k.as -o k.sched", "one file to another"),
        ("tile-sched --stop-after=alloc --format=text k.as -o k.sched", "the schedule before it is applied, to edit"),
        ("tile-sched k.sched -o done.sched", "go on from an edited schedule"),
    ],
    passes: &["analysis", "alloc", "materialize"],
};

#[derive(clap::Args)]
struct Options {
    #[command(flatten)]
    opt: options::OptLevel,
    #[command(flatten)]
    gpu: options::GpuName,
}

fn main() -> std::process::ExitCode {
    common::filter::<Options>(&ABOUT, |session, options| {
        let input = session.input()?;
        let own = matches!(sniff(&input.bytes), Sniffed::Stage { ref format, form: Form::Binary | Form::Ron | Form::Text } if format == "sched");
        let producer = session.producer();
        let mut file = if own {
            session.decode::<sched::Module>(&input)?
        } else {
            start(&session.decode::<tileas::Module>(&input)?, &producer)
        };
        options.opt.record(&mut file.envelope)?;
        options.gpu.record(&mut file.envelope)?;
        if session.verify_only() {
            return Ok(());
        }
        session.run(PASSES, &mut file)?;
        session.write(&file)
    })
}
