//! `tile-dump`: any file of the pipeline as text.

use base::envelope::{Sniffed, sniff};
use common::About;

const ABOUT: About = About {
    name: "tile-dump",
    summary: "Prints a file as text; bytecode as NVIDIA's tileirdisasm does",
    examples: &[("tile-dump k.tileirbc", "bytecode as text"), ("tile-dump -g k.tileirbc", "with source locations")],
    passes: &[],
};

#[derive(clap::Args)]
struct Options {
    /// Print source locations too
    #[arg(short = 'g', long)]
    print_debug_info: bool,
}

fn main() -> std::process::ExitCode {
    common::filter::<Options>(&ABOUT, |session, options| {
        let input = session.input()?;
        input.refuse_cut()?;
        let producer = session.producer();
        let file = tileir::import::open(&input.bytes, &input.name, &producer)?;
        let debug = options.print_debug_info.then_some(&file.envelope.debug);
        let _ = matches!(sniff(&input.bytes), Sniffed::Bytecode);
        session.write_bytes(tileir::text::print(&file.payload, debug).as_bytes(), false)
    })
}
