//! The report of a prediction, as text and as JSON.

use crate::advice::Advice;
use crate::assembled::CubinStatistics;
use crate::cost::UNITS;
use crate::engine::{ENGINES, Engine, InstructionTime, STALL_REASONS};
use crate::grid::Prediction;
use crate::sample::Sample;
use perf_model::Machine;
use serde::Serialize;
use simulator::SourceLocations;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The report. Its fields are the fields of the JSON.
#[derive(Serialize)]
pub(crate) struct Report {
    kernel: String,
    gpu: String,
    /// Cycles of the full grid, without launch overhead.
    cycles: f64,
    seconds: f64,
    /// The launch overhead, which `seconds` excludes.
    launch_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    tflops: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gigabytes_per_second: Option<f64>,
    roofline: Roofline,
    /// Mean cycles from the start to the end of a CTA.
    cta_cycles: f64,
    /// Cycles that each wave after the first adds to the launch.
    wave_cycles: f64,
    /// The grid size divided by the number of CTAs that the GPU holds at once.
    waves: f64,
    /// CTAs that an SM holds at once, and the resource that limits this number.
    resident_ctas: usize,
    limited_by: &'static str,
    /// Registers per thread.
    registers: u32,
    /// Number of spill instructions (stores and reloads) in the code.
    spill_instructions: u32,
    /// Stack bytes per thread.
    stack_bytes: u32,
    /// Whether `tile-time` estimated `registers`, because neither a cubin, nor an option, nor ptxas states them.
    registers_estimated: bool,
    /// Whether `tile-time` executed the sample CTA up to its end.
    complete: bool,
    /// The executed share of the MMAs of a truncated sample CTA, from which the time is extrapolated.
    #[serde(skip_serializing_if = "Option::is_none")]
    executed_share: Option<f64>,
    /// Number of warp instructions of the sample cluster whose timing the model simulates.
    sampled_instructions: u64,
    /// DRAM and L2 traffic of the grid in bytes.
    dram_bytes: f64,
    l2_bytes: f64,
    /// Share of the cache lines requested from L2 that come from DRAM.
    dram_share: f64,
    /// Utilization of each unit, engine and memory.
    utilization: Vec<Utilization>,
    warp_roles: Vec<RoleTime>,
    /// The time of all warps by PTX line.
    lines: Vec<LineTime>,
    /// What-if scenarios with the share of time that each would save.
    advice: Vec<Advice>,
    /// Statistics of the machine code, if the command line names a cubin.
    #[serde(skip_serializing_if = "Option::is_none")]
    cubin: Option<CubinStatistics>,
}

/// The roofline: the minimum times of the busiest compute unit and of DRAM. The larger of these two times is the lower bound.
#[derive(Serialize)]
struct Roofline {
    /// Source of the operation and byte counts: stated by the launch, or counted in the executed samples.
    source: &'static str,
    /// Floating-point operations of the launch. Absent if they are unknown or 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    flops: Option<f64>,
    /// Compulsory DRAM traffic of the launch: each byte counts once.
    bytes: f64,
    compute_seconds: f64,
    memory_seconds: f64,
    limited_by: &'static str,
    /// The lower bound divided by the predicted time.
    reached_share: f64,
}

impl Roofline {
    /// Computes the minimum times by compute and by memory traffic, and the share of the roofline that is reached.
    fn new(sample: &Sample, machine: &Machine, prediction: &Prediction, utilization: &[Utilization], seconds: f64) -> Roofline {
        // The names of the engines and units that compute. All other engines and units move data, issue or synchronize.
        const COMPUTE: [&str; 6] = [
            "float unit",
            "heavy float and multiply unit",
            "special functions",
            "double unit",
            "tensor units",
            "tensor memory MMAs",
        ];
        let compute_units = utilization.iter().filter(|entry| COMPUTE.contains(&entry.unit));
        let compute = compute_units.map(|entry| entry.share).fold(0.0, f64::max);
        let compute_seconds = compute * seconds * prediction.active_sms / machine.chip.sms;
        let bytes = sample.compulsory_traffic();
        let memory_seconds = bytes / (machine.chip.memory * 1e9);
        let stated = sample.work.as_ref().map(|work| work.flops).filter(|flops| *flops > 0.0);
        Roofline {
            source: if sample.work.is_some() { "stated" } else { "executed" },
            flops: stated.or(sample.executed_work.flops).filter(|flops| *flops > 0.0),
            bytes,
            compute_seconds,
            memory_seconds,
            limited_by: if compute_seconds > memory_seconds { "compute" } else { "memory" },
            reached_share: compute_seconds.max(memory_seconds) / seconds,
        }
    }

    /// Returns the roofline as a line of text.
    fn text(&self) -> String {
        let flops =
            self.flops.map(|flops| format!("{:.3} GFLOP, {:.1} FLOP/B; ", flops / 1e9, flops / self.bytes)).unwrap_or_default();
        let source = if self.source == "executed" { "(measured in the samples)" } else { "(stated by the launch)" };
        let (limit, percent) = (self.limited_by, 100.0 * self.reached_share);
        let min_time = format_time(self.compute_seconds.max(self.memory_seconds));
        format!("roofline {source}: {flops}{:.3} MB; {limit}-bound minimum {min_time}, {percent:.0} % reached", self.bytes / 1e6)
    }
}

/// The utilization of a unit, an engine or a memory.
#[derive(Serialize)]
struct Utilization {
    unit: &'static str,
    /// Share of the time in which the unit is busy.
    share: f64,
}

/// The time of a warp role. A warp role is the set of all warps that execute the same code.
#[derive(Serialize)]
struct RoleTime {
    /// The warp numbers as ranges, such as `0-3, 7`.
    warps: String,
    /// The kinds of work, such as `MMAs, TMA copies`.
    work: String,
    /// Number of issued warp instructions, summed over the warps of the role.
    instructions: u64,
    waits: Vec<Wait>,
    loops: Vec<LoopTime>,
}

/// The time of a warp role or a loop that one stall reason takes.
#[derive(Serialize)]
struct Wait {
    /// The stall reason, or `issuing`.
    reason: &'static str,
    /// Share of the time of the warp role or loop.
    share: f64,
    /// The PTX lines with the longest waits (at most three), and their source locations.
    lines: Vec<u32>,
    source: Vec<String>,
}

/// The time of a warp role in a loop, without the time in inner loops.
#[derive(Serialize)]
struct LoopTime {
    /// The PTX label of the loop header.
    label: String,
    /// The first and the last PTX line of the loop.
    first_line: u32,
    last_line: u32,
    /// Iterations of each warp of a CTA.
    iterations: u64,
    cycles_per_iteration: f64,
    /// Share of the time of the warp role.
    share: f64,
    waits: Vec<Wait>,
}

/// The time of all warps at the instructions of one PTX line.
#[derive(Serialize)]
struct LineTime {
    line: u32,
    /// Share of the time of all warps.
    share: f64,
    /// The reason that takes most of the time at the line: `issuing` or a stall reason.
    main_reason: &'static str,
}

impl Report {
    /// Builds the report from the prediction.
    pub(crate) fn new(
        sample: &Sample,
        source_locations: &SourceLocations<'_>,
        machine: &Machine,
        prediction: &Prediction,
        advice: Vec<Advice>,
        cubin: Option<CubinStatistics>,
    ) -> Report {
        let seconds = prediction.cycles / (machine.chip.clock * 1e6);
        let utilization = unit_utilization(machine, prediction);
        let roofline = Roofline::new(sample, machine, prediction, &utilization, seconds);
        Report {
            kernel: sample.program.entry.clone(),
            gpu: machine.name.clone(),
            cycles: prediction.cycles,
            seconds,
            launch_seconds: 1e-6
                * if sample.has_tensor_maps && !sample.repeated_launch { machine.launch.fixed_maps } else { machine.launch.fixed },
            tflops: roofline.flops.map(|flops| flops / seconds / 1e12),
            gigabytes_per_second: Some(roofline.bytes / seconds / 1e9),
            roofline,
            cta_cycles: prediction.cta_cycles,
            wave_cycles: prediction.wave_cycles,
            waves: prediction.waves,
            resident_ctas: prediction.resident_ctas,
            limited_by: prediction.limited_by,
            registers: sample.registers.count,
            spill_instructions: sample.registers.spill_instructions,
            stack_bytes: sample.registers.stack_bytes,
            registers_estimated: !sample.registers_reported,
            complete: sample.complete,
            executed_share: sample.executed_share,
            sampled_instructions: sample.instructions,
            dram_bytes: prediction.dram_bytes,
            l2_bytes: prediction.l2_bytes,
            dram_share: prediction.miss_rate,
            utilization,
            warp_roles: role_times(sample, source_locations, prediction),
            lines: line_times(sample, prediction),
            advice,
            cubin,
        }
    }

    /// Returns the report as text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        self.write_text(&mut text).expect("a string can be written to");
        text
    }

    fn write_text(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "{} on {}", self.kernel, self.gpu)?;
        writeln!(text, "  {:.0} cycles, {}", self.cycles, format_time(self.seconds))?;
        if let Some(tflops) = self.tflops {
            write!(text, "  {tflops:.1} TFLOP/s")?;
        }
        if let Some(rate) = self.gigabytes_per_second {
            write!(text, "  {rate:.0} GB/s of compulsory traffic")?;
        }
        writeln!(text)?;
        writeln!(text, "  {}", self.roofline.text())?;
        let registers = if self.registers_estimated { " (estimated)" } else { "" };
        writeln!(
            text,
            "  a CTA takes {:.0} cycles; {} resident, limited by {}; {:.2} waves; {} registers{registers}",
            self.cta_cycles, self.resident_ctas, self.limited_by, self.waves, self.registers
        )?;
        if self.spill_instructions > 0 {
            writeln!(text, "  {} spill instructions; {} bytes of stack per thread", self.spill_instructions, self.stack_bytes)?;
        }
        writeln!(
            text,
            "  DRAM traffic {:.3} GB, L2 traffic {:.3} GB; {:.0} % of lines come from DRAM",
            self.dram_bytes / 1e9,
            self.l2_bytes / 1e9,
            100.0 * self.dram_share
        )?;
        if !self.complete {
            match self.executed_share {
                Some(executed_share) => writeln!(
                    text,
                    "  the sample CTA was truncated after {:.0} % of its MMAs; the remainder is extrapolated linearly",
                    100.0 * executed_share
                )?,
                None => writeln!(text, "  the sample CTA was truncated; the time covers its executed part only")?,
            }
        }
        writeln!(text, "utilization")?;
        for entry in self.utilization.iter().filter(|entry| entry.share >= 0.005) {
            writeln!(text, "  {:5.1} %  {}", 100.0 * entry.share, entry.unit)?;
        }
        for warp_role in &self.warp_roles {
            writeln!(text, "warps {}: {}", warp_role.warps, warp_role.work)?;
            write_waits(text, "  ", &warp_role.waits)?;
            for loop_time in &warp_role.loops {
                writeln!(
                    text,
                    "  loop {} (lines {} to {}): {:.0} % of the time, {} iterations of {:.0} cycles",
                    loop_time.label,
                    loop_time.first_line,
                    loop_time.last_line,
                    100.0 * loop_time.share,
                    loop_time.iterations,
                    loop_time.cycles_per_iteration
                )?;
                write_waits(text, "    ", &loop_time.waits)?;
            }
        }
        if !self.advice.is_empty() {
            writeln!(text, "potential savings")?;
        }
        for advice in &self.advice {
            writeln!(text, "  {:5.1} %  {}: {}", 100.0 * advice.saved_share, advice.scenario, advice.suggestion)?;
        }
        if let Some(cubin) = &self.cubin {
            text.push_str(&cubin.text());
        }
        Ok(())
    }
}

/// Appends a line for each wait: its share of the time, its stall reason and its source locations.
fn write_waits(text: &mut String, indent: &str, waits: &[Wait]) -> std::fmt::Result {
    for wait in waits {
        let lines: Vec<String> = wait.lines.iter().map(u32::to_string).collect();
        let source = if wait.source.is_empty() { String::new() } else { format!("; {}", wait.source.join(", ")) };
        let source_location = if lines.is_empty() { source } else { format!(" (lines {}{source})", lines.join(", ")) };
        writeln!(text, "{indent}{:5.1} %  {}{source_location}", 100.0 * wait.share, wait.reason)?;
    }
    Ok(())
}

/// Formats a time with a unit that fits its magnitude.
pub(crate) fn format_time(seconds: f64) -> String {
    match seconds {
        ..1e-3 => format!("{:.2} us", seconds * 1e6),
        ..1.0 => format!("{:.3} ms", seconds * 1e3),
        _ => format!("{seconds:.3} s"),
    }
}

/// Returns the share of the time in which each unit, engine and memory is busy.
fn unit_utilization(machine: &Machine, prediction: &Prediction) -> Vec<Utilization> {
    let statistics = &prediction.statistics;
    let cycles = prediction.simulated_cycles * prediction.simulated_sms;
    let mut utilization = vec![Utilization { unit: "issue slots", share: statistics.issue_slots / cycles / 4.0 }];
    for unit in UNITS {
        utilization.push(Utilization { unit: unit.name(), share: statistics.unit_cycles[unit as usize] / cycles / 4.0 });
    }
    for (engine, name) in ENGINES {
        let units_per_sm = if engine == Engine::TensorMemory { 4.0 } else { 1.0 };
        utilization.push(Utilization { unit: name, share: statistics.engine_cycles[engine as usize] / cycles / units_per_sm });
    }
    let seconds = prediction.cycles / (machine.chip.clock * 1e6);
    let l2 = machine.global.l2_chip_bytes.min(machine.global.l2_bytes * prediction.active_sms);
    utilization.push(Utilization { unit: "L2 cache", share: prediction.l2_bytes / prediction.cycles / l2 });
    utilization.push(Utilization { unit: "DRAM", share: prediction.dram_bytes / seconds / (machine.chip.memory * 1e9) });
    utilization
}

/// Returns the times of each warp role. Warps with the same hot instructions form a role. Here an instruction is hot if its warp
/// executes it at least half as often as the most executed instruction.
fn role_times(sample: &Sample, source_locations: &SourceLocations<'_>, prediction: &Prediction) -> Vec<RoleTime> {
    let instruction_times = &prediction.statistics.instruction_times;
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let hot_instructions = |warp: usize| -> Vec<bool> {
        let max_count = instruction_times[warp].iter().map(|time| time.count).max().unwrap_or(0);
        instruction_times[warp].iter().map(|time| max_count > 0 && time.count * 2 >= max_count).collect()
    };
    for warp in (0..instruction_times.len()).filter(|&warp| !instruction_times[warp].is_empty()) {
        let own_instructions = hot_instructions(warp);
        match groups.iter_mut().find(|group| hot_instructions(group[0]) == own_instructions) {
            Some(group) => group.push(warp),
            None => groups.push(vec![warp]),
        }
    }
    groups.iter().map(|group| role_time(sample, source_locations, prediction, group)).collect()
}

/// Returns the total time of the given warps at each instruction.
fn times_of_warps(sample: &Sample, prediction: &Prediction, warps: &[usize]) -> Vec<InstructionTime> {
    let times = |pc: usize| warps.iter().map(move |&warp| &prediction.statistics.instruction_times[warp][pc]);
    let sum = |pc: usize| {
        let mut sum = InstructionTime::default();
        for time in times(pc) {
            sum.count += time.count;
            sum.issue_cycles += time.issue_cycles;
            sum.stall_cycles.iter_mut().zip(time.stall_cycles).for_each(|(to, from)| *to += from);
        }
        sum
    };
    (0..sample.program.code.len()).map(sum).collect()
}

/// Returns the PTX lines on which warps spend time, in order of the lines.
fn line_times(sample: &Sample, prediction: &Prediction) -> Vec<LineTime> {
    let warp_times = &prediction.statistics.instruction_times;
    let warps: Vec<usize> = (0..warp_times.len()).filter(|&warp| !warp_times[warp].is_empty()).collect();
    let times = times_of_warps(sample, prediction, &warps);
    let total: f64 = times.iter().map(total_time).sum();
    let mut lines: BTreeMap<u32, InstructionTime> = BTreeMap::new();
    for (instruction, time) in sample.program.code.iter().zip(&times) {
        let line = lines.entry(instruction.line).or_default();
        line.issue_cycles += time.issue_cycles;
        line.stall_cycles.iter_mut().zip(time.stall_cycles).for_each(|(to, from)| *to += from);
    }
    let line_time = |(line, time): (u32, InstructionTime)| {
        let waits = STALL_REASONS.iter().map(|(stall, name)| (f64::from(time.stall_cycles[*stall as usize]), *name));
        let longest = waits.chain([(time.issue_cycles, "issuing")]).max_by(|a, b| a.0.total_cmp(&b.0));
        LineTime { line, share: total_time(&time) / total, main_reason: longest.map_or("", |(_, name)| name) }
    };
    lines.into_iter().map(line_time).filter(|line| line.share > 0.0).collect()
}

/// Computes the time of a warp role: its waits, and its loops with at least 3 % of the time.
fn role_time(sample: &Sample, source_locations: &SourceLocations<'_>, prediction: &Prediction, warps: &[usize]) -> RoleTime {
    let times = times_of_warps(sample, prediction, warps);
    let total: f64 = times.iter().map(total_time).sum();
    let mut loops: Vec<LoopTime> = Vec::new();
    for (index, l) in sample.code.loops.iter().enumerate() {
        let inside: Vec<usize> =
            (l.first as usize..=l.last as usize).filter(|&pc| sample.code.innermost_loop_of(pc as u32) == Some(index)).collect();
        let cycles: f64 = inside.iter().map(|&pc| total_time(&times[pc])).sum();
        let iterations = times[l.last as usize].count.max(times[l.first as usize].count) / warps.len() as u64;
        if cycles < 0.03 * total || iterations < 2 {
            continue;
        }
        let lines = || inside.iter().map(|&pc| sample.program.code[pc].line);
        loops.push(LoopTime {
            label: l.label.clone(),
            first_line: lines().min().unwrap_or(0),
            last_line: lines().max().unwrap_or(0),
            iterations: iterations / (prediction.simulated_waves * prediction.resident_ctas) as u64,
            cycles_per_iteration: cycles / (iterations * warps.len() as u64) as f64,
            share: cycles / total,
            waits: significant_waits(sample, source_locations, &times, inside.iter().copied(), cycles),
        });
    }
    loops.sort_by(|a, b| b.share.total_cmp(&a.share));
    let instructions = times.iter().map(|time| time.count).sum();
    RoleTime {
        warps: format_ranges(warps),
        work: describe_work(sample, &times),
        instructions,
        waits: significant_waits(sample, source_locations, &times, 0..times.len(), total),
        loops,
    }
}

/// Returns the cycles that a warp spends at an instruction: its issue cycles and its stall cycles.
fn total_time(time: &InstructionTime) -> f64 {
    time.issue_cycles + time.stall_cycles.iter().map(|&wait| f64::from(wait)).sum::<f64>()
}

/// Returns the stall reasons, and `issuing`, that take at least 2 % of `total` cycles, longest first. `times` has the times of all
/// instructions, and `pcs` selects instructions.
fn significant_waits(
    sample: &Sample,
    source_locations: &SourceLocations<'_>,
    times: &[InstructionTime],
    pcs: impl Iterator<Item = usize> + Clone,
    total: f64,
) -> Vec<Wait> {
    let issue: f64 = pcs.clone().map(|pc| times[pc].issue_cycles).sum();
    let mut list = vec![Wait { reason: "issuing", share: issue / total, lines: Vec::new(), source: Vec::new() }];
    for (stall, name) in STALL_REASONS {
        let mut longest: Vec<(f64, u32)> =
            pcs.clone().map(|pc| (f64::from(times[pc].stall_cycles[stall as usize]), sample.program.code[pc].line)).collect();
        let sum: f64 = longest.iter().map(|wait| wait.0).sum();
        longest.retain(|wait| wait.0 >= 0.2 * sum && sum > 0.0);
        longest.sort_by(|a, b| b.0.total_cmp(&a.0));
        let lines: Vec<u32> = longest.iter().take(3).map(|wait| wait.1).collect();
        let mut source = Vec::new();
        for source_location in lines.iter().filter_map(|line| source_locations.at(*line)) {
            let source_location =
                format!("{}:{}", source_location.file.rsplit('/').next().unwrap_or(source_location.file), source_location.line);
            if !source.contains(&source_location) {
                source.push(source_location);
            }
        }
        list.push(Wait { reason: name, share: sum / total, lines, source });
    }
    list.retain(|wait| wait.share >= 0.02);
    list.sort_by(|a, b| b.share.total_cmp(&a.share));
    list
}

/// Returns the kinds of work of warps, such as `MMAs, TMA copies`, from the opcodes that the warps execute.
fn describe_work(sample: &Sample, times: &[InstructionTime]) -> String {
    let count = |words: &[&str]| -> u64 {
        let opcode = |pc: usize| &sample.program.opcodes[sample.program.code[pc].opcode as usize];
        times
            .iter()
            .enumerate()
            .filter(|(pc, _)| words.iter().any(|word| opcode(*pc).starts_with(word)))
            .map(|(_, s)| s.count)
            .sum()
    };
    let kinds: [(&str, &[&str]); 8] = [
        ("MMAs", &["mma.", "wgmma.mma_async", "tcgen05.mma"]),
        ("TMA copies", &["cp.async.bulk"]),
        ("cp.async copies", &["cp.async.ca", "cp.async.cg"]),
        ("tensor memory", &["tcgen05.ld", "tcgen05.st"]),
        ("special functions", &["ex2", "tanh", "rcp", "sin", "cos", "lg2", "rsqrt", "sqrt", "div"]),
        ("global loads", &["ld.global"]),
        ("global stores", &["st.global"]),
        ("atomic operations", &["atom", "red"]),
    ];
    let work_kinds: Vec<&str> = kinds.iter().filter(|(_, words)| count(words) > 0).map(|(name, _)| *name).collect();
    if work_kinds.is_empty() { "control flow only".into() } else { work_kinds.join(", ") }
}

/// Formats ascending numbers as ranges, for example `0-3, 7`.
fn format_ranges(numbers: &[usize]) -> String {
    let mut parts = Vec::new();
    let mut index = 0;
    while index < numbers.len() {
        let mut end = index;
        while end + 1 < numbers.len() && numbers[end + 1] == numbers[end] + 1 {
            end += 1;
        }
        parts.push(if end == index { numbers[index].to_string() } else { format!("{}-{}", numbers[index], numbers[end]) });
        index = end + 1;
    }
    parts.join(", ")
}
