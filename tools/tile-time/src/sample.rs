//! Samples the launch: executes a few clusters, records the instructions of each warp, and measures the data that clusters share.

use crate::Arguments;
use crate::assembled::CubinStatistics;
use crate::code::Code;
use crate::registers::{self, Registers};
use base::Target;
use base::diag::{Diagnostic, Result};
use common::launch::{Call, Launch, Work};
use perf_model::Machine;
use simulator::hidden::{self, TensorMapSources};
use simulator::program::{Op, Program};
use simulator::{
    Delivery, DeviceGlobalMemory, Event, ExecutionMode, Fault, LaunchSizes, Machine as Executor, Options, Races, Record, Recording,
    WarpTrace, decode,
};
use std::collections::BTreeSet;

/// Number of warp instructions after which `tile-time` samples no further cluster. The number counts the instructions of all
/// samples.
const MAX_SAMPLED_INSTRUCTIONS: u64 = 1_000_000;
/// `MAX_SAMPLED_INSTRUCTIONS` for a grid of a single wave. The limit is higher, because the longest CTA determines the time of a
/// single wave.
const MAX_SAMPLED_INSTRUCTIONS_OF_ONE_WAVE: u64 = 8_000_000;
/// Maximum number of clusters that a sampled cluster executes with work stealing, its own work included.
const MAX_CLUSTERS_PER_SAMPLE: u64 = 64;
/// Maximum number of clusters that the function `distinct_share` executes, and the maximum sum of their warp instructions.
const SHARING_CLUSTERS: u64 = 96;
const SHARING_INSTRUCTIONS: u64 = 600_000;

/// The recording of a representative cluster, and properties of the launch that follow from all samples.
pub(crate) struct Sample {
    pub(crate) program: Program,
    pub(crate) code: Code,
    /// The recording of the representative cluster. In a grid of a single wave, this is the longest sampled cluster. In other
    /// grids, it is the first sampled cluster.
    pub(crate) recording: Recording,
    /// The number of warp instructions of the representative cluster.
    pub(crate) instructions: u64,
    /// Warp instructions of the longest sampled cluster, divided by those of the representative cluster.
    pub(crate) longest_ratio: f64,
    /// Whether the representative cluster was executed completely.
    pub(crate) complete: bool,
    /// The executed share of a cluster's MMAs, if the sample was truncated.
    pub(crate) executed_share: Option<f64>,
    /// Number of clusters that the GPU launches. With work stealing, it excludes the clusters that running clusters steal.
    pub(crate) clusters: u64,
    /// Floating-point operations and bytes that the launch description states; `None` if it states none.
    pub(crate) work: Option<Work>,
    /// Whether the kernel has tensor-map parameters.
    pub(crate) has_tensor_maps: bool,
    /// Whether the model assumes that the previous launch was equal, so that L2 holds its data.
    pub(crate) repeated_launch: bool,
    pub(crate) registers: Registers,
    /// Whether a cubin, an option or ptxas states `registers`. Otherwise `tile-time` estimates them.
    pub(crate) registers_reported: bool,
    /// Share of the warps that execute spill instructions.
    pub(crate) spilling_share: f64,
    /// The mean share of the lines read by a cluster that no earlier cluster has read.
    pub(crate) distinct_share: f64,
    /// Bytes of global memory that the representative cluster reads and writes, each line counted once.
    pub(crate) read_bytes: f64,
    pub(crate) written_bytes: f64,
    /// Bytes of all data that the grid reads and writes.
    pub(crate) footprint_bytes: f64,
    /// Floating-point operations and bytes of the launch, counted in the samples.
    pub(crate) executed_work: ExecutedWork,
}

/// The work of a launch, extrapolated from its samples.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExecutedWork {
    /// Operations of MMAs and of thread arithmetic; `None` if the representative cluster was truncated.
    pub(crate) flops: Option<f64>,
    /// Bytes read and written, each counted once.
    pub(crate) bytes: f64,
}

impl Sample {
    /// Returns the compulsory DRAM traffic in bytes, from the launch description or else measured in the samples.
    pub(crate) fn compulsory_traffic(&self) -> f64 {
        self.work.as_ref().map_or(self.executed_work.bytes, |work| work.bytes)
    }

    /// Executes and records samples of the launch, and determines the registers and spills of the kernel.
    pub(crate) fn record(
        module: &ptx::Module,
        text: &str,
        file: &str,
        arguments: &Arguments,
        assembled: Option<&CubinStatistics>,
        machine: &Machine,
    ) -> Result<Sample> {
        let as_diagnostic = |fault: Box<Fault>| fault.diagnostic(file, text);
        let path = arguments.launch.as_ref().ok_or_else(|| {
            Diagnostic::invalid("TIM007", "the time of a kernel depends on its launch")
                .note("pass a launch description with --launch")
        })?;
        let launch = Launch::read(path)?;
        let launch_sizes = LaunchSizes { block: arguments.block, dynamic_shared: arguments.dynamic_shared };
        let program = decode(module, launch.entry.as_deref(), launch_sizes).map_err(as_diagnostic)?;
        let target = module.target.first().and_then(|name| Target::parse(name));
        let call = launch.call(&program.entry, &program.param_types().map_err(as_diagnostic)?, target)?;
        let maps = TensorMapSources { file: arguments.tensor_maps.as_deref(), host_object: arguments.host_object.as_deref() };
        let has_tensor_maps = program.hidden_params().next().is_some();
        let params = hidden::parameter_bytes(&program, module, &call, maps)?;
        let mut code = Code::new(&program, machine);
        let options = Options {
            delivery: Delivery::Early,
            races: Races::Ignore,
            seed: None,
            instruction_limit: u64::MAX,
            deadline: None,
            mode: ExecutionMode::TimingOnly,
        };
        let mut executor = Executor::new(&program, options, call.grid, params, global_memory(&program, &call));
        let clusters = executor.cluster_number_range().map_err(as_diagnostic)?.end;
        let one_wave = clusters as f64 * f64::from(program.cluster_dim.iter().product::<u32>()) <= machine.chip.sms;
        let max_instructions = if one_wave { MAX_SAMPLED_INSTRUCTIONS_OF_ONE_WAVE } else { MAX_SAMPLED_INSTRUCTIONS };
        // With work stealing, only the clusters of the first wave exist.
        let first_wave_clusters = (machine.chip.sms as u64 / u64::from(program.cluster_dim.iter().product::<u32>())).max(1);
        let steals_work = program.code.iter().any(|instruction| matches!(instruction.op, Op::CancelLaunch { .. }));
        let clusters_per_launched = if steals_work { clusters.div_ceil(first_wave_clusters).max(1) } else { 1 };
        // The number of clusters whose work a sampled cluster executes. If this number exceeds the maximum, several equal samples
        // share the work.
        let clusters_per_sample = clusters_per_launched.div_ceil(clusters_per_launched.div_ceil(MAX_CLUSTERS_PER_SAMPLE));
        let mut recordings: Vec<Recording> = Vec::new();
        let mut sampled_instructions = 0;
        for number in sampled_clusters(&executor, &call, target, clusters).map_err(as_diagnostic)? {
            let stolen_clusters =
                (1..clusters_per_sample).map(|wave| number + wave * first_wave_clusters).map(|other| other % clusters.max(1));
            let recording = executor
                .record_with_stolen(number, stolen_clusters.collect(), arguments.instruction_limit)
                .map_err(as_diagnostic)?;
            sampled_instructions += instruction_count(&recording);
            recordings.push(recording);
            if sampled_instructions >= max_instructions {
                break;
            }
        }
        let lengths: Vec<u64> = recordings.iter().map(instruction_count).collect();
        let longest = (0..lengths.len()).max_by_key(|&index| lengths[index]).unwrap_or(0);
        let representative = if one_wave { longest } else { 0 };
        if lengths.iter().all(|&length| length == 0) {
            return Err(Diagnostic::invalid("TIM003", "the sampled tile blocks execute no instruction"));
        }
        let distinct_share =
            distinct_share(&mut executor, &program, clusters, arguments.instruction_limit).map_err(as_diagnostic)?;
        let recording = recordings.swap_remove(representative);
        let known_registers = match assembled {
            Some(assembled) => Some((assembled.registers(&program.entry)?, None)),
            None => match arguments.registers {
                Some(count) => {
                    let (spill_instructions, stack_bytes) = arguments.spills.unwrap_or_default();
                    Some((Registers { count, spill_instructions, stack_bytes, ..Registers::default() }, None))
                }
                None => registers::ptxas_report(text, module, &program.entry),
            },
        };
        let pressure = registers::register_pressure(&program, &code);
        let estimated_count = || registers::estimate_register_count(&pressure).min(max_registers(module, &program.entry));
        let registers_reported = known_registers.is_some();
        let (mut registers, positions) =
            known_registers.unwrap_or_else(|| (Registers { count: estimated_count(), ..Registers::default() }, None));
        registers.raised_count = registers::max_raised_count(text);
        code.spills = match positions {
            Some(positions) => positions.spread_spills(&program, &code),
            None => registers::spread_spills(&code, &pressure, registers),
        };
        let spilling_share = spilling_share(&code, &recording);
        let buffers = call.launch.buffers.iter().map(|buffer| buffer.contents.len() as f64).sum();
        let (read_bytes, written_bytes) = traffic_bytes(&program, &recording);
        let launched_clusters = clusters.div_ceil(clusters_per_sample) as f64;
        let executed_work = ExecutedWork {
            flops: recording
                .complete
                .then(|| launched_clusters * (mma_operations(&program, &recording) + thread_operations(&program, &recording))),
            bytes: compulsory_bytes(
                &call,
                &program,
                &recording,
                distinct_share * read_bytes * launched_clusters,
                written_bytes * launched_clusters,
            ),
        };
        let work = call.launch.work.as_ref().filter(|work| work.flops > 0.0);
        let clusters = clusters.div_ceil(clusters_per_sample);
        let executed_share = work.map(|work| mma_operations(&program, &recording) * clusters as f64 / work.flops);
        Ok(Sample {
            executed_share: executed_share.filter(|executed_share| !recording.complete && (0.02..1.0).contains(executed_share)),
            instructions: lengths[representative],
            longest_ratio: lengths[longest] as f64 / lengths[representative].max(1) as f64,
            complete: recording.complete,
            clusters,
            registers,
            registers_reported,
            spilling_share,
            distinct_share,
            read_bytes,
            written_bytes,
            // A launch may use only part of its buffers.
            footprint_bytes: call.launch.work.as_ref().map_or(buffers, |work| buffers.min(work.bytes)),
            executed_work,
            work: call.launch.work.clone(),
            has_tensor_maps,
            repeated_launch: arguments.repeated_launch,
            recording,
            code,
            program,
        })
    }
}

/// Returns the share of the warps that execute spill instructions.
fn spilling_share(code: &Code, recording: &Recording) -> f64 {
    let spills = |stream: &WarpTrace| stream.records.iter().map(|record| f64::from(code.spills[record.pc as usize])).sum::<f64>();
    let warps: Vec<f64> = recording.ctas.iter().flatten().map(spills).collect();
    let max_spills = warps.iter().copied().fold(0.0, f64::max);
    warps.iter().filter(|&&spills| spills > 0.05 * max_spills).count() as f64 / warps.len().max(1) as f64
}

/// Returns the number of floating-point operations of the recorded MMAs.
fn mma_operations(program: &Program, recording: &Recording) -> f64 {
    let operations = |record: &Record, events: &[Event]| -> usize {
        let instruction = &program.code[record.pc as usize];
        match &instruction.op {
            Op::Mma(op) => 2 * op.m * 8 * op.k,
            // Each of the four warps of the group records the MMA, and computes 16 of its 64 rows.
            Op::Wgmma(op) => 2 * 16 * op.n * op.k,
            Op::Tcgen05Mma(_) => {
                let kinds = [("kind::f16", 16), ("kind::tf32", 8), ("kind::mxf4", 64)];
                let kind = kinds.iter().find(|(kind, _)| program.opcodes[instruction.opcode as usize].contains(kind));
                let k = kind.map_or(32, |(_, k)| *k);
                events
                    .iter()
                    .map(|event| if let Event::Mma { m, n, .. } = event { 2 * *m as usize * *n as usize * k } else { 0 })
                    .sum()
            }
            _ => 0,
        }
    };
    let streams = recording.ctas.iter().flatten();
    streams
        .map(|stream| {
            stream.records.iter().enumerate().map(|(index, record)| operations(record, stream.events_of(index)) as f64).sum::<f64>()
        })
        .sum()
}

/// Returns the number of floating-point operations of threads. An FMA counts as two, and a packed pair counts twice.
fn thread_operations(program: &Program, recording: &Recording) -> f64 {
    let lane_operations = |name: &str| -> f64 {
        let mut parts = name.split('.');
        let count = match parts.next().unwrap_or_default() {
            "fma" | "mad" => 2.0,
            "add" | "sub" | "mul" | "div" | "min" | "max" | "neg" | "abs" | "rcp" | "sqrt" | "rsqrt" | "ex2" | "lg2" | "sin"
            | "cos" | "tanh" => 1.0,
            _ => return 0.0,
        };
        match parts.next_back().unwrap_or_default() {
            "f16" | "bf16" | "f32" | "f64" => count,
            "f16x2" | "bf16x2" | "f32x2" => 2.0 * count,
            _ => 0.0,
        }
    };
    let operations_by_opcode: Vec<f64> = program.opcodes.iter().map(|name| 32.0 * lane_operations(name)).collect();
    let records = recording.ctas.iter().flatten().flat_map(|stream| &stream.records);
    records.map(|record| operations_by_opcode[program.code[record.pc as usize].opcode as usize]).sum()
}

/// Returns the compulsory traffic of the launch: the bytes that it reads or writes, each counted once. `read` and `written` are
/// estimates from the samples. The estimates are limited by the total size of the buffers that the samples access.
fn compulsory_bytes(call: &Call, program: &Program, recording: &Recording, read: f64, written: f64) -> f64 {
    let (read_lines, written_lines) = accessed_lines(program, recording);
    let buffer_bytes = |lines: &BTreeSet<u64>| -> f64 {
        let is_accessed = |address: u64, bytes: u64| lines.range(address / 128..(address + bytes).div_ceil(128)).next().is_some();
        let buffer_extents = call.launch.buffers.iter().map(|buffer| (buffer.address, buffer.contents.len() as u64));
        buffer_extents.filter(|(address, bytes)| is_accessed(*address, *bytes)).map(|(_, bytes)| bytes as f64).sum()
    };
    read.min(buffer_bytes(&read_lines)) + written.min(buffer_bytes(&written_lines))
}

/// Returns the maximum registers of a thread: the `.maxnreg` of the PTX, or else 255, the limit of the hardware.
fn max_registers(module: &ptx::Module, entry: &str) -> u32 {
    let function = module.items.iter().find_map(|item| match item {
        ptx::Item::Function(function) if function.name == entry => Some(function),
        _ => None,
    });
    let limit = function.and_then(|function| function.directive("maxnreg")?.first().copied());
    limit.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(255)
}

/// Returns the initial global memory: the buffers of the launch and the global variables of the program.
fn global_memory(program: &Program, call: &Call) -> DeviceGlobalMemory {
    let mut global = DeviceGlobalMemory::default();
    for buffer in &call.launch.buffers {
        global.add(&buffer.name, buffer.address, buffer.contents.clone());
    }
    for variable in &program.globals {
        global.add(&format!("variable {}", variable.name), variable.address, variable.data.clone());
    }
    global
}

/// Returns the number of recorded warp instructions.
pub(crate) fn instruction_count(recording: &Recording) -> u64 {
    recording.ctas.iter().flatten().map(|stream| stream.records.len() as u64).sum()
}

/// Returns the numbers of the clusters to sample: the clusters of the launch's `sample_blocks`, or else the cluster in the middle
/// of the grid.
fn sampled_clusters(executor: &Executor, call: &Call, target: Option<Target>, clusters: u64) -> simulator::Result<Vec<u64>> {
    let named_ctas = call.launch.sample_blocks.as_ref().and_then(|blocks| blocks.for_target(target, "sample_blocks").ok());
    match named_ctas {
        Some(blocks) if !blocks.is_empty() => executor.cluster_numbers(&blocks.iter().map(|extents| extents.0).collect::<Vec<_>>()),
        _ => Ok(vec![clusters / 2]),
    }
}

/// Executes the start of the first clusters of the launch. Returns the mean share of the lines read by a cluster that no earlier
/// cluster has read. The first half of the executed clusters represents a cold L2 cache, and the second half represents all later
/// clusters of the launch.
fn distinct_share(executor: &mut Executor, program: &Program, clusters: u64, limit: u64) -> simulator::Result<f64> {
    let count = clusters.min(SHARING_CLUSTERS);
    let instruction_limit = (SHARING_INSTRUCTIONS / count.max(1)).min(limit);
    let mut seen_lines = BTreeSet::<u64>::new();
    let (mut distinct_lines, mut requested_lines) = ([0; 2], [0; 2]);
    for number in 0..count {
        let recording = executor.record(number, instruction_limit)?;
        let mut cluster_lines = BTreeSet::<u64>::new();
        for stream in recording.ctas.iter().flatten() {
            for (index, record) in stream.records.iter().enumerate() {
                for event in stream.events_of(index) {
                    let lines = match *event {
                        Event::Global { first, count, .. } if reads_global_memory(&program.code[record.pc as usize].op) => {
                            first..first + count
                        }
                        Event::Bulk { to_shared: true, lines, .. } => lines.0..lines.1,
                        _ => continue,
                    };
                    cluster_lines.extend(&stream.lines[lines.start as usize..lines.end as usize]);
                }
            }
        }
        let half = usize::from(2 * number >= count);
        requested_lines[half] += cluster_lines.len();
        distinct_lines[half] += cluster_lines.into_iter().filter(|line| seen_lines.insert(*line)).count();
    }
    let share_of_half =
        |half: usize| if requested_lines[half] == 0 { 1.0 } else { distinct_lines[half] as f64 / requested_lines[half] as f64 };
    let first_half_share = count as f64 / 2.0 / clusters.max(1) as f64;
    Ok(if count < 2 { share_of_half(0) } else { share_of_half(0) * first_half_share + share_of_half(1) * (1.0 - first_half_share) })
}

/// Returns whether an op may read global memory.
fn reads_global_memory(op: &Op) -> bool {
    matches!(op, Op::Load { .. } | Op::CopyAsync { .. })
}

/// Returns the bytes that the recorded cluster reads, and the bytes that it writes. Each line counts once.
fn traffic_bytes(program: &Program, recording: &Recording) -> (f64, f64) {
    let (read_lines, written_lines) = accessed_lines(program, recording);
    (128.0 * read_lines.len() as f64, 128.0 * written_lines.len() as f64)
}

/// Returns the lines that the recorded cluster reads, and the lines that it writes.
fn accessed_lines(program: &Program, recording: &Recording) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let (mut read_lines, mut written_lines) = (BTreeSet::<u64>::new(), BTreeSet::<u64>::new());
    for stream in recording.ctas.iter().flatten() {
        for (index, record) in stream.records.iter().enumerate() {
            for event in stream.events_of(index) {
                let (lines, is_read) = match *event {
                    Event::Global { first, count, .. } => {
                        (first..first + count, reads_global_memory(&program.code[record.pc as usize].op))
                    }
                    Event::Bulk { to_shared, lines, .. } => (lines.0..lines.1, to_shared),
                    _ => continue,
                };
                let lines = &stream.lines[lines.start as usize..lines.end as usize];
                if is_read { read_lines.extend(lines) } else { written_lines.extend(lines) }
            }
        }
    }
    (read_lines, written_lines)
}
