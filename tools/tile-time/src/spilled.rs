//! Finds the PTX lines of spill instructions. ptxas records the PTX line of each machine instruction, and nvdisasm prints this
//! line. Without nvdisasm, `registers::spread_spills` estimates the lines.

use crate::code::Code;
use common::{child, toolkit};
use simulator::program::{Op, Program};
use std::collections::BTreeMap;
use std::path::Path;

/// For each PTX line: the number of 32-bit registers that spill instructions of the line store or reload, and the number of machine
/// MMAs of the line.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SpillPositions {
    spilled_registers: BTreeMap<u32, f64>,
    mmas: BTreeMap<u32, f64>,
}

/// Disassembles a cubin with PTX line information, and returns the spill positions of the kernel `entry`. Returns `None` if
/// nvdisasm is missing, nvdisasm rejects the file, or the kernel has no spill instructions.
pub(crate) fn read_spill_positions(cubin: &Path, entry: &str) -> Option<SpillPositions> {
    let tool = toolkit::nvdisasm().ok()?;
    let output = child::command(&tool.path).args(["-c", "-gp"]).arg(cubin).output().ok()?;
    output
        .status
        .success()
        .then(|| parse_listing(&String::from_utf8_lossy(&output.stdout), entry))
        .filter(|positions| !positions.spilled_registers.is_empty())
}

/// Returns the spill positions of the kernel `entry` in the listing of nvdisasm.
fn parse_listing(listing: &str, entry: &str) -> SpillPositions {
    let mut positions = SpillPositions::default();
    let (mut line, mut inside) = (0, false);
    for text in listing.lines() {
        if let Some(section) = text.trim_start().strip_prefix(".section") {
            inside = section.trim_start().trim_start_matches(".text.").split([',', ' ', '\t']).next() == Some(entry);
        } else if let Some((_, at)) = text.split_once("//## File").and_then(|(_, at)| at.split_once(", line ")) {
            line = at.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).unwrap_or(line);
        } else if let (true, Some((_, instruction))) = (inside, text.split_once("*/")) {
            let opcode = instruction.split_whitespace().find(|word| !word.starts_with('@')).unwrap_or("");
            let register_count = match opcode {
                _ if opcode.ends_with(".128") => 4.0,
                _ if opcode.ends_with(".64") => 2.0,
                _ => 1.0,
            };
            if text.contains("SpillRefill") {
                *positions.spilled_registers.entry(line).or_default() += register_count;
            } else if opcode.contains("MMA") {
                *positions.mmas.entry(line).or_default() += 1.0;
            }
        }
    }
    positions
}

impl SpillPositions {
    /// Returns for each PTX instruction the number of spilled registers per execution. The assembler may have unrolled the loop of
    /// the instruction. The unroll factor is the number of machine MMAs of one PTX MMA in the loop.
    pub(crate) fn spread_spills(&self, program: &Program, code: &Code) -> Vec<f32> {
        let mut iterations = vec![1.0f64; code.loops.len()];
        for (pc, instr) in program.code.iter().enumerate() {
            if let (Op::Mma(_), Some(index)) = (&instr.op, code.innermost_loop_of(pc as u32)) {
                iterations[index] = iterations[index].max(self.mmas.get(&instr.line).copied().unwrap_or(0.0));
            }
        }
        let lines: Vec<u32> = program.code.iter().map(|instr| instr.line).collect();
        let mut spills = vec![0.0; lines.len()];
        for (line, count) in &self.spilled_registers {
            let at = lines.iter().position(|other| other == line).unwrap_or(0);
            // Folded instructions are never issued, so attribute their spills to the next instruction that is issued.
            let Some(pc) = (at..lines.len()).find(|&pc| !code.folded[pc]) else { continue };
            let iterations = code.innermost_loop_of(pc as u32).map_or(1.0, |index| iterations[index]);
            spills[pc] += (count / iterations) as f32;
        }
        spills
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_an_nvdisasm_listing() {
        let listing = "	.section	.text.k,\"ax\",@progbits\n	//## File \".nv_debug_ptx_txt\", line 62\n        /*0dd0*/                   STL [R1+0x428], RZ   (*\"SpillRefill\"*);\n.L_x_127:\n	//## File \".nv_debug_ptx_txt\", line 70 inlined at \".nv_debug_ptx_txt\", line 9\n        /*0df0*/               @P0 LDL.128 R4, [R1+0x428] (*\"SpillRefill\"*);\n        /*0e00*/                   LDL R4, [R2] ;\n        /*0e10*/                   HMMA.16816.F32 R4, R8, R10, R4 ;\n	.section	.text.other,\"ax\",@progbits\n        /*0000*/                   STL [R1], RZ   (*\"SpillRefill\"*);\n";
        let positions = parse_listing(listing, "k");
        assert_eq!(positions.spilled_registers, BTreeMap::from([(62, 1.0), (70, 4.0)]));
        assert_eq!(positions.mmas, BTreeMap::from([(70, 1.0)]));
    }
}
