//! Registers per thread and spills: from the report of ptxas, or estimated from liveness without ptxas.

use crate::code::Code;
use crate::spilled::{self, SpillPositions};
use common::{child, toolkit};
use simulator::program::{Op, Program};

/// Number of registers that ptxas needs in addition to the live values. The value is an estimate.
const REGISTER_OVERHEAD: u32 = 12;

/// The register allocation of a kernel.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Registers {
    pub(crate) count: u32,
    /// The largest register count that a warp requests with `setmaxnreg.inc`; 0 without such a request.
    pub(crate) raised_count: u32,
    /// Stack bytes per thread.
    pub(crate) stack_bytes: u32,
    /// Number of spill instructions in the code, not of executed ones.
    pub(crate) spill_instructions: u32,
}

/// Returns the register allocation that `ptxas` reports for an entry, and the positions of its spills. Returns `None` if ptxas is
/// missing or rejects the PTX. The positions are `None` without spills or without nvdisasm.
pub(crate) fn ptxas_report(text: &str, module: &ptx::Module, entry: &str) -> Option<(Registers, Option<SpillPositions>)> {
    let ptxas = toolkit::ptxas().ok()?;
    let folder = tempfile::Builder::new().prefix("tile-time-").tempdir().ok()?;
    let input = folder.path().join("k.ptx");
    std::fs::write(&input, text).ok()?;
    let cubin = folder.path().join("k.cubin");
    let arguments = ["-v", "-lineinfo", "-arch", module.target.first()?, "-o"];
    let output = child::command(ptxas.path).args(arguments).arg(&cubin).arg(&input).output().ok()?;
    let report = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    // "Compiling entry function 'name' ..." comes some lines before "Used 40 registers, ...".
    let registers = parse_report(report.split_once(&format!("'{entry}'"))?.1)?;
    let positions = if registers.spill_instructions > 0 { spilled::read_spill_positions(&cubin, entry) } else { None };
    Some((registers, positions))
}

/// Parses "16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads", and on a later line "Used 40 registers".
fn parse_report(report: &str) -> Option<Registers> {
    let (properties, used) = report.split_once("Used ")?;
    let number_before = |words: &str| -> Option<u32> { properties.split_once(words)?.0.rsplit([' ', '\n']).next()?.parse().ok() };
    let bytes_before = |words: &str| number_before(words).unwrap_or(0);
    let spilled_bytes = bytes_before(" bytes spill stores").saturating_add(bytes_before(" bytes spill loads"));
    let count = used.split_whitespace().next()?.parse().ok()?;
    Some(Registers {
        count,
        raised_count: 0,
        stack_bytes: bytes_before(" bytes stack frame"),
        spill_instructions: spilled_bytes / 4,
    })
}

/// Estimates the register count of a kernel from the register pressure at each instruction.
pub(crate) fn estimate_register_count(pressure: &[u32]) -> u32 {
    let max_pressure = pressure.iter().copied().max().unwrap_or(0);
    (max_pressure + REGISTER_OVERHEAD).next_multiple_of(8).clamp(16, 255)
}

/// Returns for each instruction its estimated number of spill instructions. The numbers are proportional to the excess of the
/// register pressure over the register count. If the pressure never exceeds the count, all instructions with at least 90 % of the
/// maximum pressure get an equal share.
pub(crate) fn spread_spills(code: &Code, pressure: &[u32], registers: Registers) -> Vec<f32> {
    let excess =
        |pc: usize| pressure[pc].saturating_add(REGISTER_OVERHEAD).saturating_sub(registers.raised_count.max(registers.count));
    let max_pressure = pressure.iter().copied().max().unwrap_or(0);
    let exceeds_count = (0..pressure.len()).any(|pc| excess(pc) > 0);
    let weight = |pc: usize| match exceeds_count {
        _ if code.folded[pc] => 0.0,
        true => f64::from(excess(pc)),
        false => f64::from(u8::from(pressure[pc] * 10 >= max_pressure * 9)),
    };
    let sum: f64 = (0..pressure.len()).map(weight).sum();
    (0..pressure.len()).map(|pc| (f64::from(registers.spill_instructions) * weight(pc) / sum.max(1.0)) as f32).collect()
}

/// Returns the largest register count of a `setmaxnreg.inc` in the text; 0 without one.
pub(crate) fn max_raised_count(text: &str) -> u32 {
    let raises = text.split("setmaxnreg.inc.sync.aligned.u32").skip(1);
    raises.filter_map(|rest| rest.split(';').next()?.trim().parse().ok()).max().unwrap_or(0)
}

/// Returns the number of live 32-bit registers before each instruction. Inside a loop, only registers that the innermost loop uses
/// count, because the assembler can spill the other registers around the loop.
pub(crate) fn register_pressure(program: &Program, code: &Code) -> Vec<u32> {
    let words = (program.slot_count as usize).div_ceil(64);
    let blocks: Vec<std::ops::Range<usize>> = code.block_starts.windows(2).map(|pair| pair[0] as usize..pair[1] as usize).collect();
    let block_of = |pc: u32| code.block_starts.binary_search(&pc).unwrap_or(blocks.len());
    let successors: Vec<Vec<usize>> = blocks
        .iter()
        .enumerate()
        .map(|(index, block)| {
            let last = block.end.checked_sub(1).and_then(|pc| program.code.get(pc));
            match last.map(|instr| (&instr.op, instr.guard)) {
                Some((Op::Branch { target }, None)) => vec![block_of(*target)],
                Some((Op::Branch { target }, _)) => vec![block_of(*target), index + 1],
                Some((Op::BranchIndirect { targets, .. }, _)) => targets.iter().map(|&target| block_of(target)).collect(),
                Some((Op::Exit | Op::Trap, None)) => vec![],
                _ => vec![index + 1],
            }
        })
        .collect();
    let mut live_in = vec![vec![0u64; words]; blocks.len() + 1];
    // Constants and special registers take no general-purpose register.
    let mut is_counted = vec![true; program.slot_count as usize];
    program.constants.iter().for_each(|&(slot, _)| is_counted[slot as usize] = false);
    program.specials.iter().for_each(|&(slot, _)| is_counted[slot as usize] = false);
    let update_live = |live: &mut [u64], pc: usize| {
        let (reads, writes) = &code.operands[pc];
        if program.code[pc].guard.is_none() {
            writes.iter().for_each(|&slot| live[slot as usize / 64] &= !(1 << (slot % 64)));
        }
        for &slot in reads.iter().filter(|&&slot| is_counted[slot as usize]) {
            live[slot as usize / 64] |= 1 << (slot % 64);
        }
    };
    let live_out = |live_in: &[Vec<u64>], index: usize| {
        let mut live = vec![0u64; words];
        for &next in &successors[index] {
            live.iter_mut().zip(&live_in[next.min(live_in.len() - 1)]).for_each(|(to, from)| *to |= from);
        }
        live
    };
    for _ in 0..64 {
        let mut changed = false;
        for index in (0..blocks.len()).rev() {
            let mut live = live_out(&live_in, index);
            blocks[index].clone().rev().for_each(|pc| update_live(&mut live, pc));
            changed |= live != live_in[index];
            live_in[index] = live;
        }
        if !changed {
            break;
        }
    }
    let registers_of_slot: Vec<u32> = program
        .register_bits
        .iter()
        .map(|&bits| match bits {
            1 => 0,
            0..=32 => 1,
            _ => 2,
        })
        .collect();
    let used_in_loops: Vec<Vec<u64>> =
        code.loops.iter().map(|l| registers_used_by(code, l.first as usize..=l.last as usize, words)).collect();
    let mut pressure = vec![0; program.code.len()];
    for index in 0..blocks.len() {
        let mut live = live_out(&live_in, index);
        for pc in blocks[index].clone().rev() {
            update_live(&mut live, pc);
            let mut sum = 0;
            let loop_registers = code.innermost_loop_of(pc as u32).map(|index| &used_in_loops[index]);
            for (word, &bits) in live.iter().enumerate() {
                let mut remaining_bits = bits & loop_registers.map_or(u64::MAX, |used| used[word]);
                while remaining_bits != 0 {
                    sum += registers_of_slot[word * 64 + remaining_bits.trailing_zeros() as usize];
                    remaining_bits &= remaining_bits - 1;
                }
            }
            pressure[pc] = sum;
        }
    }
    pressure
}

/// Returns the registers that a range of instructions reads or writes, as a bit set of `words` words.
fn registers_used_by(code: &Code, pcs: std::ops::RangeInclusive<usize>, words: usize) -> Vec<u64> {
    let mut used = vec![0; words];
    for (reads, writes) in &code.operands[pcs] {
        reads.iter().chain(writes).for_each(|&slot| used[slot as usize / 64] |= 1 << (slot % 64));
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_a_ptxas_report() {
        let text = " for 'sm_90a'\nptxas info    : Function properties for k\n    2248 bytes stack frame, 400 bytes spill stores, 412 bytes spill loads\nptxas info    : Used 255 registers, used 1 barriers";
        let Registers { count, stack_bytes, spill_instructions, .. } = parse_report(text).unwrap();
        assert_eq!((count, stack_bytes, spill_instructions), (255, 2248, 203));
        assert!(parse_report("error").is_none());
    }

    #[test]
    fn the_largest_setmaxnreg_increase_is_found() {
        assert_eq!(max_raised_count("setmaxnreg.dec.sync.aligned.u32 \t40;\nsetmaxnreg.inc.sync.aligned.u32 \t232;\n"), 232);
        assert_eq!(max_raised_count("setmaxnreg.inc.sync.aligned.u32"), 0);
    }
}
