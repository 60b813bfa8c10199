//! `tile-launch`: launches a cubin on a GPU through the CUDA driver, writes its outputs, and times it.
//!
//! `tile-launch` reads the same launch descriptions as `tile-run` and `tile-sim`, but the CUDA driver chooses the addresses of
//! buffers. The tool writes the outputs after the first launch. The timed launches follow and use the same memory. With
//! `--against`, the launches of all cubins alternate, so that clock frequency and temperature affect all cubins equally.

mod driver;
mod kernel;
mod report;

use base::diag::{Diagnostic, Result};
use common::launch::{Call, Contents, Extents, Launch};
use common::{About, Session};
use driver::{Device, Memory, Module};
use kernel::Kernel;
use rayon::prelude::*;
use report::{CubinReport, Gpu, Report};
use std::path::PathBuf;

const ABOUT: About = About {
    name: "tile-launch",
    summary: "Launches a cubin on a GPU through the CUDA driver, writes its outputs and measures its time",
    examples: &[
        ("tile-launch k.cubin --launch launch.json --out-dir out", "run a kernel, write its output buffers"),
        ("tile-launch k.cubin --launch launch.json --repeat 100 --json -", "time it, for programs"),
        ("tile-launch k.cubin --against other.cubin --launch launch.json --repeat 100", "time two cubins alternating"),
    ],
    passes: &[],
    writes_stage_files: false,
};

#[derive(clap::Args)]
struct Arguments {
    /// Launch description: kernel, grid, buffers and arguments
    #[arg(long, value_name = "FILE", required_unless_present = "describe")]
    launch: Option<PathBuf>,
    /// Print the properties of the GPU as JSON and exit
    #[arg(long, conflicts_with_all = ["launch", "out_dir", "json"])]
    describe: bool,
    /// Folder for the outputs
    #[arg(long, value_name = "DIR")]
    out_dir: Option<PathBuf>,
    /// Number of timed launches, after the launch whose outputs are written
    #[arg(long, value_name = "N", default_value_t = 0)]
    repeat: u32,
    /// Other cubins of the kernel; timed launches alternate between all cubins
    #[arg(long, value_name = "CUBIN", requires = "repeat")]
    against: Vec<PathBuf>,
    /// Fill the buffers before each timed launch, for kernels that modify their inputs
    #[arg(long)]
    refill: bool,
    /// Tile blocks along each dimension; overrides the launch description
    #[arg(long, value_name = "X[,Y[,Z]]", value_delimiter = ',')]
    grid: Option<Vec<u32>>,
    /// Kernel to launch, if the cubin has several
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// Number of the GPU
    #[arg(long, value_name = "N", default_value_t = 0)]
    device: i32,
    /// Path of the driver library [default: the system's]
    #[arg(long, value_name = "FILE")]
    driver: Option<PathBuf>,
    /// Write device and times as JSON to this file; `-` is standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Maximum size of one upload in bytes. The maximum limits the host memory that a large buffer needs.
const UPLOAD_CHUNK_BYTES: usize = 64 << 20;
/// Number of bytes of an upload that one CPU thread generates at a time.
const FILL_PART_BYTES: usize = 1 << 20;

fn main() -> std::process::ExitCode {
    common::runner::<Arguments>(&ABOUT, run)
}

fn run(session: &mut Session, arguments: &Arguments) -> Result<()> {
    let Some(description) = &arguments.launch else {
        let device = Device::open(arguments.driver.as_deref(), arguments.device)?;
        return common::write_file(None, report::json(&Gpu::query(&device)?).as_bytes());
    };
    let input = session.input()?;
    let mut launch = Launch::read(description)?;
    let entry = arguments.entry.clone().or(launch.entry.clone());
    let kernel = Kernel::find(&cubin::read(&input.bytes, &input.name)?, &input.name, entry.as_deref())?;
    let other_cubins = arguments.against.iter().map(|path| {
        let file = common::read_file(Some(path))?;
        let other = Kernel::find(&cubin::read(&file.bytes, &file.name)?, &file.name, entry.as_deref())?;
        if other.types != kernel.types {
            let message = format!("the kernels of {} and {} have different parameters", input.name, file.name);
            return Err(Diagnostic::invalid("LAU004", message));
        }
        Ok((other, file))
    });
    let other_cubins: Vec<_> = other_cubins.collect::<Result<_>>()?;
    if let Some(grid) = &arguments.grid {
        launch.grid = Extents::of_grid(grid)?.into();
    }
    // Check the launch before opening a device, because `--verify-only` must work without one.
    launch.clone().call(&kernel.name, &kernel.types, kernel.target)?;
    if session.verify_only() {
        return Ok(());
    }
    let device = Device::open(arguments.driver.as_deref(), arguments.device)?;
    let memory: Vec<Memory> = launch.buffers.iter().map(|buffer| device.allocate(buffer.contents.len())).collect::<Result<_>>()?;
    launch.move_buffers(&memory.iter().map(|memory| memory.address).collect::<Vec<_>>())?;
    let call = launch.call(&kernel.name, &kernel.types, kernel.target)?;
    let device_launch = DeviceLaunch { device: &device, memory: &memory, call: &call };
    let module = device.load(&input.bytes)?;
    session.timed("fill", |_| device_launch.fill())?;
    session.timed("launch", |_| device_launch.launch(&module, &kernel).and_then(|()| device.synchronize()))?;
    if let Some(folder) = &arguments.out_dir {
        let outputs = session.timed("outputs", |_| device_launch.download_outputs())?;
        call.write_outputs(folder, |buffer| outputs.iter().find(|(name, _)| *name == buffer.name).map(|(_, contents)| contents))?;
    }
    let mut cubin_reports = vec![CubinReport::new(&input.name, &kernel)];
    let mut modules = vec![(module, &kernel)];
    for (other, file) in &other_cubins {
        cubin_reports.push(CubinReport::new(&file.name, other));
        modules.push((device.load(&file.bytes)?, other));
        let (module, _) = modules.last().expect("just pushed");
        device_launch.launch(module, other).and_then(|()| device.synchronize())?;
    }
    for _ in 0..arguments.repeat {
        for ((module, kernel), cubin_report) in modules.iter().zip(&mut cubin_reports) {
            if arguments.refill {
                device_launch.fill()?;
            }
            cubin_report.milliseconds.push(device.measure(|| device_launch.launch(module, kernel))?);
        }
    }
    let report = Report::new(&device, &call, cubin_reports)?;
    match &arguments.json {
        Some(path) => {
            common::write_file(Some(path.as_path()).filter(|path| path.as_os_str() != "-"), report::json(&report).as_bytes())
        }
        None => common::write_file(None, report.text().as_bytes()),
    }
}

/// A launch whose buffers are in device memory. `memory` has an allocation for each buffer of the launch description, in order.
struct DeviceLaunch<'a> {
    device: &'a Device,
    memory: &'a [Memory<'a>],
    call: &'a Call,
}

impl DeviceLaunch<'_> {
    /// Fills the buffers with the contents of the launch description.
    fn fill(&self) -> Result<()> {
        for (memory, buffer) in self.memory.iter().zip(&self.call.launch.buffers) {
            let size = buffer.contents.len();
            if size == 0 {
                continue;
            }
            if buffer.contents.is_untouched_zero_fill() {
                memory.clear(size)?;
                continue;
            }
            let mut upload_chunk = vec![0; size.min(UPLOAD_CHUNK_BYTES)];
            for start in (0..size).step_by(UPLOAD_CHUNK_BYTES) {
                let upload_part = &mut upload_chunk[..UPLOAD_CHUNK_BYTES.min(size - start)];
                upload_part
                    .par_chunks_mut(FILL_PART_BYTES)
                    .enumerate()
                    .for_each(|(index, upload_part)| buffer.contents.read(start + index * FILL_PART_BYTES, upload_part));
                memory.upload(start, upload_part)?;
            }
        }
        self.device.synchronize()
    }

    /// Submits a launch of the kernel with the arguments of the launch description.
    fn launch(&self, module: &Module, kernel: &Kernel) -> Result<()> {
        let mut params: Vec<[u8; 8]> = self.call.values.iter().map(|value| value.to_le_bytes()).collect();
        module.launch(&kernel.symbol, self.call.grid, kernel.cta_size, &mut params)
    }

    /// Copies the output buffers to the host. Returns their names and contents.
    fn download_outputs(&self) -> Result<Vec<(String, Contents)>> {
        let names = self.call.launch.output_names();
        let mut outputs = Vec::new();
        for (memory, buffer) in self.memory.iter().zip(&self.call.launch.buffers) {
            if names.contains(&buffer.name.as_str()) {
                let mut bytes = vec![0; buffer.contents.len()];
                memory.download(&mut bytes)?;
                outputs.push((buffer.name.clone(), bytes.into()));
            }
        }
        Ok(outputs)
    }
}
