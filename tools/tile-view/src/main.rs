//! `tile-view` generates an HTML page that shows a kernel at every stage: texts side by side, linked by source line, and drawings.
//! [`stages`] generates the files, [`panes`] and [`drawings`] build the [`mod@model`], and [`mod@page`] writes the page.

mod drawings;
mod model;
mod page;
mod panes;
mod stages;

use base::File;
use base::diag::Result;
use common::options::{GpuName, OptLevel};
use common::{About, Session};
use model::Model;
use panes::SourceTable;
use stages::{StageFiles, StageRequest};
use std::path::PathBuf;

const ABOUT: About = About {
    name: "tile-view",
    summary: "Shows a kernel at every stage, with layouts, memory, schedules and predicted time, as an HTML page",
    examples: &[
        ("tile-view k.tileirbc --gpu-name sm_90 -o k.html", "a self-contained page"),
        ("tile-view k.tileirbc --gpu-name sm_90 --launch launch.json -o k.html", "with predicted times"),
        ("tile-view edited.sched -o k.html", "the stages after an edited stage file"),
        ("tile-view k.tileirbc --gpu-name sm_90 --source src/ -o k.html", "with the source from a folder"),
        ("tile-view k.tileirbc --gpu-name sm_90 --json k.json -o k.html", "with the page's data as JSON"),
    ],
    passes: &[],
    writes_stage_files: false,
};

#[derive(clap::Args)]
struct Options {
    #[command(flatten)]
    target: GpuName,
    #[command(flatten)]
    level: OptLevel,
    /// Launch description, for predicted times
    #[arg(long, value_name = "FILE")]
    launch: Option<PathBuf>,
    /// GPU of the prediction [default: the default GPU of the target]
    #[arg(long, value_name = "NAME")]
    gpu: Option<String>,
    /// Source file, or folder with source files, if they are not at the paths in the program
    #[arg(long, value_name = "PATH")]
    source: Vec<PathBuf>,
    /// Also write the data of the page as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> std::process::ExitCode {
    common::filter::<Options>(&ABOUT, |session, options| {
        let input = session.input()?;
        let request = StageRequest {
            target: options.target.gpu_name.map(|target| target.name.into()),
            level: options.level.opt_level,
            launch: options.launch.clone(),
            gpu: options.gpu.clone(),
        };
        let files = stages::generate_files(session, &input, &request)?;
        if session.verify_only() {
            return Ok(());
        }
        let model = build_model(session, files, &options.source)?;
        if let Some(path) = &options.json {
            common::write_file(Some(path), page::model_json(&model)?.as_bytes())?;
        }
        session.write_bytes(page::render_page(&model)?.as_bytes(), false)
    })
}

/// Builds the data of the page from the stage files. `folders` has the paths in which to search for source files.
fn build_model(session: &Session, mut files: StageFiles, folders: &[PathBuf]) -> Result<Model> {
    let mut source_positions = SourceTable::default();
    let mut model = Model { producer: session.producer(), time: files.time.take(), missing: files.missing, ..Model::default() };
    if let Some(bytes) = &files.tile {
        model.panes.push(panes::tile_pane(&File::read(bytes, "k.tile")?, &mut source_positions));
    }
    if let Some(bytes) = &files.aa {
        let file = File::<tileaa::Module>::read(bytes, "k.aa")?;
        model.panes.push(panes::stage_pane("aa", ".aa: memory explicit", &file, &mut source_positions));
    }
    if let Some(bytes) = &files.as_file {
        let file = File::<tileas::Module>::read(bytes, "k.as")?;
        model.panes.push(panes::stage_pane("as", ".as: layouts and instructions", &file, &mut source_positions));
    }
    if let Some(bytes) = &files.sched {
        let file = File::<sched::Module>::read(bytes, "k.sched")?;
        let pane = panes::stage_pane("sched", ".sched: schedules, buffers, barriers", &file, &mut source_positions);
        let rows = panes::op_rows(&pane);
        model.panes.push(pane);
        model.layouts = drawings::layout_views(&file.payload);
        model.log = drawings::decisions(&file.envelope, &mut source_positions);
        model.target = file.envelope.target.map(|target| target.name.into());
        let functions = file.payload.functions.iter().zip(rows);
        model.functions = functions.map(|(function, rows)| drawings::function_view(&file.payload, function, rows)).collect();
    }
    if let Some((scheduled, trace)) = &files.scheduled {
        for (name, view) in drawings::loop_views(&File::read(scheduled, "placed.sched")?, trace, &mut source_positions) {
            if let Some(function) = model.functions.iter_mut().find(|function| function.name == name) {
                function.loops.push(view);
            }
        }
    }
    model.panes.push(panes::ptx_pane(&files.ptx, &mut source_positions));
    if let Some(bytes) = &files.sass {
        model.panes.push(panes::sass_pane(bytes, &mut source_positions));
    }
    source_positions.finish(&mut model);
    panes::add_source_panes(&mut model, folders)?;
    let names: Vec<&str> = model.functions.iter().map(|function| function.name.as_str()).collect();
    model.title = if names.is_empty() { "PTX".into() } else { names.join(", ") };
    Ok(model)
}
