//! Samples the launch: executes a few CTAs, records the instructions of each warp, and measures the data that CTAs of a wave share.

use crate::Arguments;
use crate::assembled::Assembled;
use crate::code::Code;
use crate::registers::{self, Registers};
use base::Target;
use base::diag::{Diagnostic, Result};
use common::launch::{Call, Launch, Work};
use perf_model::Machine;
use simulator::hidden::{self, Maps};
use simulator::program::{Op, Program};
use simulator::{Delivery, Event, Fault, Global, Machine as Executor, Options, Races, Record, Recording, Sizes, Stream, decode};
use std::collections::BTreeSet;

/// Total warp instructions of all samples after which no further cluster is sampled.
const MAX_SAMPLED_INSTRUCTIONS: u64 = 1_000_000;
/// The limit for a grid of a single wave, where the longest CTA determines the time.
const MAX_SAMPLED_INSTRUCTIONS_OF_ONE_WAVE: u64 = 8_000_000;
/// Maximum number of clusters that a sampled cluster processes with work stealing, its own included.
const MAX_STOLEN: u64 = 64;
/// Clusters whose shared lines `distinct` counts, and the total of their warp instructions.
const SHARING_CLUSTERS: u64 = 96;
const SHARING_INSTRUCTIONS: u64 = 600_000;

pub(crate) struct Sample {
    pub(crate) program: Program,
    pub(crate) code: Code,
    /// The representative cluster: a typical one, or in a single wave the longest.
    pub(crate) recording: Recording,
    pub(crate) instructions: u64,
    /// The length of the longest cluster relative to the representative one.
    pub(crate) longest: f64,
    /// Whether the sample was executed completely.
    pub(crate) complete: bool,
    /// The executed share of a cluster's MMAs, if the sample was truncated.
    pub(crate) executed_share: Option<f64>,
    pub(crate) clusters: u64,
    pub(crate) work: Option<Work>,
    /// Whether the kernel has tensor-map parameters.
    pub(crate) maps: bool,
    /// Whether the previous launch was equal, so that L2 holds its data.
    pub(crate) repeated: bool,
    pub(crate) registers: Registers,
    pub(crate) registers_reported: bool,
    /// Share of the warps that execute spill instructions.
    pub(crate) spilling_share: f64,
    /// Share of the lines read by a cluster that no earlier cluster has read.
    pub(crate) distinct: f64,
    /// Bytes of global memory that a cluster reads and writes.
    pub(crate) read: f64,
    pub(crate) written: f64,
    /// Bytes of all data that the grid reads and writes.
    pub(crate) footprint: f64,
    /// Floating-point operations and bytes of the launch, counted in the samples.
    pub(crate) executed: Executed,
}

/// The work of a launch, extrapolated from its samples.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Executed {
    /// Operations of MMAs and of thread arithmetic; unknown if a sample was truncated.
    pub(crate) flops: Option<f64>,
    /// Bytes read and written, each counted once.
    pub(crate) bytes: f64,
}

impl Sample {
    /// Compulsory DRAM traffic, as stated by the launch or measured in the samples.
    pub(crate) fn compulsory_traffic(&self) -> f64 {
        self.work.as_ref().map_or(self.executed.bytes, |work| work.bytes)
    }

    pub(crate) fn take(
        module: &ptx::Module,
        text: &str,
        file: &str,
        arguments: &Arguments,
        assembled: Option<&Assembled>,
        machine: &Machine,
    ) -> Result<Sample> {
        let as_diagnostic = |fault: Box<Fault>| fault.diagnostic(file, text);
        let path = arguments.launch.as_ref().ok_or_else(|| {
            Diagnostic::invalid("TIM007", "the time of a kernel depends on its launch")
                .note("pass a launch description with --launch")
        })?;
        let launch = Launch::read(path)?;
        let sizes = Sizes { block: arguments.block, dynamic_shared: arguments.dynamic_shared };
        let program = decode(module, launch.entry.as_deref(), sizes).map_err(as_diagnostic)?;
        let target = module.target.first().and_then(|name| Target::parse(name));
        let call = launch.call(&program.entry, &program.param_types().map_err(as_diagnostic)?, target)?;
        let maps = Maps { file: arguments.tensor_maps.as_deref(), host_object: arguments.host_object.as_deref() };
        let has_maps = program.hidden_params().next().is_some();
        let params = hidden::parameters(&program, module, &call, maps)?;
        let mut code = Code::new(&program, machine);
        let options = Options {
            delivery: Delivery::Early,
            races: Races::Ignore,
            seed: None,
            instruction_limit: u64::MAX,
            deadline: None,
            check_rules: false,
        };
        let mut executor = Executor::new(&program, options, call.grid, params, memory(&program, &call));
        let clusters = executor.clusters().map_err(as_diagnostic)?.end;
        let one_wave = clusters as f64 * f64::from(program.cluster.iter().product::<u32>()) <= machine.chip.sms;
        let max_instructions = if one_wave { MAX_SAMPLED_INSTRUCTIONS_OF_ONE_WAVE } else { MAX_SAMPLED_INSTRUCTIONS };
        // With work stealing, only the clusters of the first wave exist.
        let first_wave = (machine.chip.sms as u64 / u64::from(program.cluster.iter().product::<u32>())).max(1);
        let steals_work = program.code.iter().any(|instruction| matches!(instruction.op, Op::CancelLaunch { .. }));
        let all = if steals_work { clusters.div_ceil(first_wave).max(1) } else { 1 };
        let stolen = all.div_ceil(all.div_ceil(MAX_STOLEN));
        let mut recordings: Vec<Recording> = Vec::new();
        let mut total = 0;
        for number in sampled_clusters(&executor, &call, target, clusters).map_err(as_diagnostic)? {
            let others = (1..stolen).map(|wave| number + wave * first_wave).map(|other| other % clusters.max(1));
            let recording =
                executor.record_with_stolen(number, others.collect(), arguments.instruction_limit).map_err(as_diagnostic)?;
            total += length(&recording);
            recordings.push(recording);
            if total >= max_instructions {
                break;
            }
        }
        let lengths: Vec<u64> = recordings.iter().map(length).collect();
        let most = (0..lengths.len()).max_by_key(|&index| lengths[index]).unwrap_or(0);
        let typical = if one_wave { most } else { 0 };
        if lengths.iter().all(|&length| length == 0) {
            return Err(Diagnostic::invalid("TIM003", "the kernel executes nothing"));
        }
        let distinct = distinct_share(&mut executor, &program, clusters, arguments.instruction_limit).map_err(as_diagnostic)?;
        let recording = recordings.swap_remove(typical);
        let known = match assembled {
            Some(assembled) => Some((assembled.registers(&program.entry)?, None)),
            None => match arguments.registers {
                Some(count) => {
                    let (spills, stack) = arguments.spills.unwrap_or_default();
                    Some((Registers { count, spills, stack, ..Registers::default() }, None))
                }
                None => registers::report_of_ptxas(text, module, &program.entry),
            },
        };
        let pressure = registers::pressure(&program, &code);
        let estimate = || registers::estimate(&pressure).min(most_registers(module, &program.entry));
        let registers_reported = known.is_some();
        let (mut registers, places) = known.unwrap_or_else(|| (Registers { count: estimate(), ..Registers::default() }, None));
        registers.raised_count = registers::max_raised_count(text);
        code.spills = match places {
            Some(places) => places.spread(&program, &code),
            None => registers::spread_spills(&code, &pressure, registers),
        };
        let spilling_share = spilling_share(&code, &recording);
        let buffers = call.launch.buffers.iter().map(|buffer| buffer.contents.len() as f64).sum();
        let (read, written) = traffic(&program, &recording);
        let all_clusters = clusters.div_ceil(stolen) as f64;
        let executed = Executed {
            flops: recording
                .complete
                .then(|| all_clusters * (mma_operations(&program, &recording) + thread_operations(&program, &recording))),
            bytes: compulsory_bytes(&call, &program, &recording, (distinct * read * all_clusters, written * all_clusters)),
        };
        let work = call.launch.work.as_ref().filter(|work| work.flops > 0.0);
        let clusters = clusters.div_ceil(stolen);
        let executed_share = work.map(|work| mma_operations(&program, &recording) * clusters as f64 / work.flops);
        Ok(Sample {
            executed_share: executed_share.filter(|executed_share| !recording.complete && (0.02..1.0).contains(executed_share)),
            instructions: lengths[typical],
            longest: lengths[most] as f64 / lengths[typical].max(1) as f64,
            complete: recording.complete,
            clusters,
            registers,
            registers_reported,
            spilling_share,
            distinct,
            read,
            written,
            // A launch may use only part of its buffers.
            footprint: call.launch.work.as_ref().map_or(buffers, |work| buffers.min(work.bytes)),
            executed,
            work: call.launch.work.clone(),
            maps: has_maps,
            repeated: arguments.repeated,
            recording,
            code,
            program,
        })
    }
}

/// The share of the warps that execute spill instructions.
fn spilling_share(code: &Code, recording: &Recording) -> f64 {
    let moves = |stream: &Stream| stream.records.iter().map(|record| f64::from(code.spills[record.pc as usize])).sum::<f64>();
    let warps: Vec<f64> = recording.ctas.iter().flatten().map(moves).collect();
    let most = warps.iter().copied().fold(0.0, f64::max);
    warps.iter().filter(|&&moves| moves > 0.05 * most).count() as f64 / warps.len().max(1) as f64
}

/// Operations of the recorded MMAs.
fn mma_operations(program: &Program, recording: &Recording) -> f64 {
    let of = |record: &Record, events: &[Event]| -> usize {
        let instruction = &program.code[record.pc as usize];
        match &instruction.op {
            Op::Mma(op) => 2 * op.m * 8 * op.k,
            // An MMA of 64 rows is recorded by four warps.
            Op::Wgmma(op) => 2 * 16 * op.n * op.k,
            Op::TensorMma(_) => {
                let kinds = [("kind::f16", 16), ("kind::tf32", 8), ("kind::mxf4", 64)];
                let kind = kinds.iter().find(|(kind, _)| program.names[instruction.name as usize].contains(kind));
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
            stream.records.iter().enumerate().map(|(index, record)| of(record, stream.events_of(index)) as f64).sum::<f64>()
        })
        .sum()
}

/// Floating-point operations of threads: an FMA counts two, a packed pair twice as many.
fn thread_operations(program: &Program, recording: &Recording) -> f64 {
    let lane = |name: &str| -> f64 {
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
    let by_name: Vec<f64> = program.names.iter().map(|name| 32.0 * lane(name)).collect();
    let records = recording.ctas.iter().flatten().flat_map(|stream| &stream.records);
    records.map(|record| by_name[program.code[record.pc as usize].name as usize]).sum()
}

/// Compulsory bytes, estimated from the samples and limited by the size of the touched buffers.
fn compulsory_bytes(call: &Call, program: &Program, recording: &Recording, (read, written): (f64, f64)) -> f64 {
    let (from, to) = lines(program, recording);
    let sizes = |lines: &BTreeSet<u64>| -> f64 {
        let touched = |address: u64, bytes: u64| lines.range(address / 128..(address + bytes).div_ceil(128)).next().is_some();
        let sizes = call.launch.buffers.iter().map(|buffer| (buffer.address, buffer.contents.len() as u64));
        sizes.filter(|(address, bytes)| touched(*address, *bytes)).map(|(_, bytes)| bytes as f64).sum()
    };
    read.min(sizes(&from)) + written.min(sizes(&to))
}

/// The register limit of a thread in the PTX.
fn most_registers(module: &ptx::Module, entry: &str) -> u32 {
    let function = module.items.iter().find_map(|item| match item {
        ptx::Item::Function(function) if function.name == entry => Some(function),
        _ => None,
    });
    let most = function.and_then(|function| function.directive("maxnreg")?.first().copied());
    most.and_then(|most| u32::try_from(most).ok()).unwrap_or(255)
}

fn memory(program: &Program, call: &Call) -> Global {
    let mut global = Global::default();
    for buffer in &call.launch.buffers {
        global.add(&buffer.name, buffer.address, buffer.contents.clone());
    }
    for variable in &program.globals {
        global.add(&format!("variable {}", variable.name), variable.address, variable.data.clone());
    }
    global
}

pub(crate) fn length(recording: &Recording) -> u64 {
    recording.ctas.iter().flatten().map(|stream| stream.records.len() as u64).sum()
}

/// The representative clusters: those that the launch names, or one in the middle.
fn sampled_clusters(executor: &Executor, call: &Call, target: Option<Target>, clusters: u64) -> simulator::Result<Vec<u64>> {
    let named = call.launch.sample_blocks.as_ref().and_then(|blocks| blocks.for_target(target, "sample_blocks").ok());
    match named {
        Some(blocks) if !blocks.is_empty() => executor.cluster_numbers(&blocks.iter().map(|extents| extents.0).collect::<Vec<_>>()),
        _ => Ok(vec![clusters / 2]),
    }
}

/// Executes the start of the first clusters and measures the share of lines that no earlier cluster has read. The first half warms
/// the L2 cache; the second half finds the lines of recent clusters there.
fn distinct_share(executor: &mut Executor, program: &Program, clusters: u64, limit: u64) -> simulator::Result<f64> {
    let count = clusters.min(SHARING_CLUSTERS);
    let each = (SHARING_INSTRUCTIONS / count.max(1)).min(limit);
    let mut all = BTreeSet::<u64>::new();
    let (mut distinct_lines, mut requested_lines) = ([0; 2], [0; 2]);
    for number in 0..count {
        let recording = executor.record(number, each)?;
        let mut own = BTreeSet::<u64>::new();
        for stream in recording.ctas.iter().flatten() {
            for (index, record) in stream.records.iter().enumerate() {
                for event in stream.events_of(index) {
                    let lines = match *event {
                        Event::Global { first, count, .. } if reads(&program.code[record.pc as usize].op) => first..first + count,
                        Event::Bulk { to_shared: true, lines, .. } => lines.0..lines.1,
                        _ => continue,
                    };
                    own.extend(&stream.lines[lines.start as usize..lines.end as usize]);
                }
            }
        }
        let half = usize::from(2 * number >= count);
        requested_lines[half] += own.len();
        distinct_lines[half] += own.into_iter().filter(|line| all.insert(*line)).count();
    }
    let part =
        |half: usize| if requested_lines[half] == 0 { 1.0 } else { distinct_lines[half] as f64 / requested_lines[half] as f64 };
    let first = count as f64 / 2.0 / clusters.max(1) as f64;
    Ok(if count < 2 { part(0) } else { part(0) * first + part(1) * (1.0 - first) })
}

fn reads(op: &Op) -> bool {
    matches!(op, Op::Load { .. } | Op::CopyAsync { .. })
}

/// Bytes read and written by a cluster, each line counted once.
fn traffic(program: &Program, recording: &Recording) -> (f64, f64) {
    let (from, to) = lines(program, recording);
    (128.0 * from.len() as f64, 128.0 * to.len() as f64)
}

/// The lines that a cluster reads and writes.
fn lines(program: &Program, recording: &Recording) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let (mut from, mut to) = (BTreeSet::<u64>::new(), BTreeSet::<u64>::new());
    for stream in recording.ctas.iter().flatten() {
        for (index, record) in stream.records.iter().enumerate() {
            for event in stream.events_of(index) {
                let (lines, reading) = match *event {
                    Event::Global { first, count, .. } => (first..first + count, reads(&program.code[record.pc as usize].op)),
                    Event::Bulk { to_shared, lines, .. } => (lines.0..lines.1, to_shared),
                    _ => continue,
                };
                let lines = &stream.lines[lines.start as usize..lines.end as usize];
                if reading { from.extend(lines) } else { to.extend(lines) }
            }
        }
    }
    (from, to)
}
