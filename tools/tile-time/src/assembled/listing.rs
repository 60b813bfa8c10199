//! Parses the output of `nvdisasm -c -hex` and counts the instructions of each kernel and loop. Each instruction takes two lines:
//! the first has its text and the first half of its encoding, and the second has the second half of its encoding.
//!
//! The second half contains the control information of the assembler. Bits 41 to 44 are the stall cycles before the next
//! instruction, and bits 52 to 57 select which of the six scoreboards the instruction waits for. The stall cycles of a loop add up
//! to the minimum time of an iteration of one warp.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The fewest stall cycles per iteration of a loop in the report. The report omits shorter loops: they are spin loops that wait for
/// a barrier.
const MIN_LOOP_STALL_CYCLES: u64 = 16;

/// Statistics of the machine code of one kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct InstructionStatistics {
    instructions: u64,
    /// The sum of the stall cycles of all instructions: the cycles that a warp takes to issue each instruction once.
    stall_cycles: u64,
    /// Number of spill instructions: LDL reloads a register, STL stores one.
    spill_loads: u64,
    spill_stores: u64,
    /// Number of instructions of each kind in `KINDS`.
    instructions_by_kind: BTreeMap<&'static str, u64>,
    loops: Vec<Loop>,
}

/// A loop in the machine code. `first` is the address of a backward branch's target, and `last` the address of the branch.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Loop {
    first: u64,
    last: u64,
    instructions: u64,
    stall_cycles: u64,
    /// Number of instructions that wait for a scoreboard.
    scoreboard_waits: u64,
    instructions_by_kind: BTreeMap<&'static str, u64>,
}

/// A machine instruction in the output of nvdisasm.
struct Instruction {
    address: u64,
    opcode: String,
    /// Whether the instruction executes under a predicate, such as `@P0`.
    is_predicated: bool,
    /// The label of the branch target; `None` if the instruction has no label as operand.
    target: Option<String>,
    stall_cycles: u64,
    waits_for_scoreboard: bool,
}

/// A kernel in the output of nvdisasm.
#[derive(Default)]
struct Kernel {
    name: String,
    instructions: Vec<Instruction>,
    /// The address of each label.
    labels: BTreeMap<String, u64>,
}

impl Kernel {
    /// Computes the statistics of the kernel, and returns them with its name.
    fn into_statistics(self) -> (String, InstructionStatistics) {
        let Kernel { name, instructions, labels } = self;
        let mut statistics = InstructionStatistics { instructions: instructions.len() as u64, ..InstructionStatistics::default() };
        for instruction in &instructions {
            statistics.stall_cycles += instruction.stall_cycles;
            *statistics.instructions_by_kind.entry(instruction_kind(&instruction.opcode)).or_default() += 1;
            statistics.spill_loads += u64::from(instruction.opcode.starts_with("LDL"));
            statistics.spill_stores += u64::from(instruction.opcode.starts_with("STL"));
            let Some(&first) = instruction.target.as_ref().and_then(|label| labels.get(label)) else { continue };
            if first > instruction.address || !instruction.opcode.starts_with("BRA") {
                continue;
            }
            let body = || instructions.iter().filter(|other| (first..=instruction.address).contains(&other.address));
            // ptxas places the retry code of waits after the final `EXIT`. The branch of this code back into the main code does not
            // form a loop of the kernel.
            if body().any(|other| other.opcode == "EXIT" && !other.is_predicated) {
                continue;
            }
            let mut natural_loop = Loop { first, last: instruction.address, ..Loop::default() };
            for other in body() {
                natural_loop.instructions += 1;
                natural_loop.stall_cycles += other.stall_cycles;
                natural_loop.scoreboard_waits += u64::from(other.waits_for_scoreboard);
                *natural_loop.instructions_by_kind.entry(instruction_kind(&other.opcode)).or_default() += 1;
            }
            if natural_loop.stall_cycles >= MIN_LOOP_STALL_CYCLES {
                statistics.loops.push(natural_loop);
            }
        }
        statistics.loops.sort_by_key(|l| (l.first, l.last));
        (name, statistics)
    }
}

/// Parses the output of `nvdisasm -c -hex`. Returns the name and the statistics of each kernel.
pub(crate) fn parse(text: &str) -> Vec<(String, InstructionStatistics)> {
    let mut listings = Vec::new();
    let mut kernel: Option<Kernel> = None;
    let mut labels: Vec<String> = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix(".text.").and_then(|name| name.strip_suffix(':')) {
            listings.extend(kernel.take().map(Kernel::into_statistics));
            kernel = Some(Kernel { name: name.into(), ..Kernel::default() });
            continue;
        }
        if let Some(label) = line.strip_suffix(':') {
            labels.push(label.into());
            continue;
        }
        let (Some(kernel), Some((address, body))) = (&mut kernel, parse_address_prefix(line)) else { continue };
        // The second half of the encoding is on the next line.
        let Some(control) = lines.peek().and_then(|next| parse_second_half(next)) else { continue };
        lines.next();
        let code = body.split(';').next().unwrap_or(body);
        let mut words = code.split_whitespace().skip_while(|word| word.starts_with('@') || *word == "{");
        let opcode = words.next().unwrap_or_default().to_string();
        let target = code.split_once("`(").and_then(|(_, rest)| rest.split_once(')')).map(|(label, _)| label.to_string());
        kernel.labels.extend(labels.drain(..).map(|label| (label, address)));
        let is_predicated = code.trim_start().starts_with('@');
        kernel.instructions.push(Instruction {
            address,
            opcode,
            is_predicated,
            target,
            stall_cycles: control >> 41 & 15,
            waits_for_scoreboard: control >> 52 & 63 != 0,
        });
    }
    listings.extend(kernel.take().map(Kernel::into_statistics));
    listings
}

/// Splits `/*0040*/ IADD3 R5, RZ, -R0, RZ ; /* 0x80000000ff057210 */` into the address and the remainder. Returns `None` for a line
/// without an address.
fn parse_address_prefix(line: &str) -> Option<(u64, &str)> {
    let (address, body) = line.strip_prefix("/*")?.split_once("*/")?;
    Some((u64::from_str_radix(address.trim(), 16).ok()?, body.trim()))
}

/// Parses a line that contains only the second half of an encoding. Returns `None` for other lines.
fn parse_second_half(line: &str) -> Option<u64> {
    let number = line.trim().strip_prefix("/*")?.strip_suffix("*/")?.trim();
    u64::from_str_radix(number.strip_prefix("0x")?, 16).ok()
}

/// The instruction instructions_by_kind, each with the prefixes of its opcodes. The first kind with a matching prefix counts.
const KINDS: [(&str, &[&str]); 10] = [
    ("local memory", &["LDL", "STL"]),
    (
        "MMAs",
        &["HMMA", "IMMA", "QMMA", "OMMA", "DMMA", "HGMMA", "IGMMA", "QGMMA", "BGMMA", "UTCHMMA", "UTCIMMA", "UTCQMMA", "UTCOMMA"],
    ),
    ("TMA", &["UTMA", "UBLK"]),
    ("tensor memory", &["LDTM", "STTM", "UTCCP", "UTCATOM"]),
    ("shared memory", &["LDS", "STS", "ATOMS"]),
    ("global memory", &["LDG", "STG", "ATOM", "RED", "LD.", "ST."]),
    ("special functions", &["MUFU", "F2I", "I2F.", "I2F ", "FRND", "POPC", "FLO", "BREV", "F2F"]),
    ("floats", &["FFMA", "FADD", "FMUL", "HFMA2", "HADD2", "HMUL2", "DFMA", "DADD", "DMUL"]),
    (
        "barriers and waits",
        &["BAR", "SYNCS", "MEMBAR", "FENCE", "DEPBAR", "WARPSYNC", "ERRBAR", "CCTL", "UCGABAR", "UTCBAR", "BSSY", "BSYNC"],
    ),
    ("branches", &["BRA", "BRX", "EXIT", "CALL", "RET", "JMP", "NOP"]),
];

/// Returns the kind under which the statistics count an opcode.
fn instruction_kind(opcode: &str) -> &'static str {
    let matches_any_prefix = |words: &[&str]| words.iter().any(|word| opcode.starts_with(word));
    KINDS.iter().find(|(_, words)| matches_any_prefix(words)).map_or("integers, logic and moves", |(name, _)| name)
}

impl InstructionStatistics {
    /// Returns the number of instructions that store or reload spilled registers.
    pub(crate) fn spill_instructions(&self) -> u32 {
        u32::try_from(self.spill_loads + self.spill_stores).unwrap_or(u32::MAX)
    }

    /// Appends the statistics of one kernel to `text`.
    pub(crate) fn write_text(&self, text: &mut String) -> std::fmt::Result {
        writeln!(
            text,
            "  {} instructions, {} cycles to issue each once: {}",
            self.instructions,
            self.stall_cycles,
            format_counts(&self.instructions_by_kind)
        )?;
        if self.spill_loads + self.spill_stores > 0 {
            writeln!(text, "  spilled registers: {} loads, {} stores", self.spill_loads, self.spill_stores)?;
        }
        for l in &self.loops {
            writeln!(
                text,
                "  loop {:#06x} to {:#06x}: {} instructions, an iteration takes a warp at least {} cycles, {} instructions wait for results: {}",
                l.first,
                l.last,
                l.instructions,
                l.stall_cycles,
                l.scoreboard_waits,
                format_counts(&l.instructions_by_kind)
            )?;
        }
        Ok(())
    }
}

/// Formats the number of instructions of each kind, largest number first, such as `12 floats, 3 branches`.
fn format_counts(instructions_by_kind: &BTreeMap<&'static str, u64>) -> String {
    let mut list: Vec<(&str, u64)> = instructions_by_kind.iter().map(|(name, count)| (*name, *count)).collect();
    list.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    list.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loop of four instructions with 1 + 2 + 13 + 5 stall cycles. The second instruction waits for scoreboard 0.
    const TEXT: &str = "\t.target\tsm_90a
.text.k:
        /*0000*/                   S2R R0, SR_TID.X ;                /* 0x0000000000007919 */
                                                                     /* 0x000e220000002100 */
.L_x_1:
        /*0010*/                   FADD R1, R1, R0 ;                 /* 0x0000000001017221 */
                                                                     /* 0x0000020000000000 */
        /*0020*/              @!P0 LDL R2, [R1+0x8] ;                /* 0x0000080001028983 */
                                                                     /* 0x0010040000000000 */
        /*0030*/                   FADD R1, R1, R2 ;                 /* 0x0000000201017221 */
                                                                     /* 0x00001a0000000000 */
        /*0040*/               @P0 BRA `(.L_x_1) ;                   /* 0xfffffffc00f00947 */
                                                                     /* 0x00000a0000000000 */
        /*0050*/                   EXIT ;                            /* 0x000000000000794d */
                                                                     /* 0x000fea0003800000 */
        /*0058*/               @P0 BRA `(.L_x_1) ;                   /* 0xfffffffc00f00947 */
                                                                     /* 0x00000a0000000000 */
.L_x_2:
        /*0060*/                   BRA `(.L_x_2) ;                   /* 0xfffffffc00fc7947 */
                                                                     /* 0x000fc0000383ffff */
";

    #[test]
    fn stalls_of_a_loop_are_the_sum_over_its_instructions() {
        let [(name, statistics)] = &parse(TEXT)[..] else { panic!("one kernel") };
        assert_eq!((name.as_str(), statistics.instructions, statistics.spill_loads, statistics.spill_stores), ("k", 8, 1, 0));
        let [natural_loop] = &statistics.loops[..] else {
            panic!("the spin loop at the end must not count: {:?}", statistics.loops)
        };
        assert_eq!(
            (
                natural_loop.first,
                natural_loop.last,
                natural_loop.instructions,
                natural_loop.stall_cycles,
                natural_loop.scoreboard_waits
            ),
            (0x10, 0x40, 4, 21, 1)
        );
        assert_eq!(natural_loop.instructions_by_kind, BTreeMap::from([("branches", 1), ("floats", 2), ("local memory", 1)]));
    }

    #[test]
    fn instructions_without_second_half_are_ignored() {
        for text in ["", "/*", "/*zz*/ A ;", ".text.:\n/*0*/", "a:\n/*10*/ B ; /* 0x1 */"] {
            assert!(parse(text).iter().all(|(_, statistics)| statistics.instructions == 0), "{text}");
        }
    }
}
