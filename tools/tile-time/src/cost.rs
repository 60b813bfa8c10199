//! The cost of a PTX instruction: the number of machine instructions, the units that they occupy and for how long, and the latency
//! of the result. The opcode with its modifiers determines the cost. `engine` adds the time of memory accesses beyond their issue.
//!
//! Rates and latencies come from the machine file. The number of machine instructions is an estimate of the code of ptxas.

use perf_model::Machine;
use simulator::AccumulatorType;
use simulator::program::{Instr, MmaOp, Op, Program, Space};

/// A unit of an SM sub-partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unit {
    /// The FMA unit: an instruction uses either of its two halves.
    Fma,
    /// The half of the FMA unit that also executes integer multiplies and packed pairs.
    Heavy,
    Integer,
    /// Special functions, conversions, bit counts.
    Special,
    Double,
    /// The tensor unit, for `mma.sync` and `wgmma`.
    Tensor,
    /// The queue of the load-store unit: loads, stores, shuffles.
    Memory,
}

/// All units, in the order of the enum.
pub(crate) const UNITS: [Unit; 7] =
    [Unit::Fma, Unit::Heavy, Unit::Integer, Unit::Special, Unit::Double, Unit::Tensor, Unit::Memory];

impl Unit {
    /// Returns the name of the unit for reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::Fma => "float unit",
            Unit::Heavy => "heavy float and multiply unit",
            Unit::Integer => "integer unit",
            Unit::Special => "special functions",
            Unit::Double => "double unit",
            Unit::Tensor => "tensor units",
            Unit::Memory => "memory issue",
        }
    }
}

/// The cost of one PTX instruction of a warp.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cost {
    /// The number of machine instructions, each of which takes an issue slot. 0 for an instruction that the assembler folds.
    pub(crate) issue_slots: f64,
    /// The units, and the cycles for which the instruction occupies each.
    pub(crate) unit_cycles: Vec<(Unit, f64)>,
    /// Cycles from the issue to the result.
    pub(crate) latency: f64,
}

/// The source of rates and latencies for the costs of machine instructions.
struct CostTable<'a> {
    machine: &'a Machine,
}

impl CostTable<'_> {
    /// Returns the cycles between two instructions of a class on one SM sub-partition. `rate` is in results per cycle and SM. The
    /// factor 128 is 32 results of a warp times four sub-partitions of an SM.
    fn issue_interval(rate: f64) -> f64 {
        128.0 / rate.max(0.01)
    }
    /// Returns the cost of `count` machine instructions. Each instruction after the first adds two cycles to the latency. `rate` is
    /// in results per cycle and SM.
    fn unit_cost(&self, unit: Unit, rate: f64, latency: f64, count: f64) -> Cost {
        Cost {
            issue_slots: count,
            unit_cycles: vec![(unit, count * Self::issue_interval(rate))],
            latency: latency + (count - 1.0).max(0.0) * 2.0,
        }
    }
    /// Returns the cost of `count` f32 additions, multiplications or multiply-adds.
    fn float_cost(&self, count: f64) -> Cost {
        self.unit_cost(Unit::Fma, self.machine.rate.f32, self.machine.latency.f32, count)
    }
    /// Returns the cost of `count` logic instructions.
    fn logic_cost(&self, count: f64) -> Cost {
        self.unit_cost(Unit::Integer, self.machine.rate.logic, self.machine.latency.integer, count)
    }
    /// Returns the cost of `count` integer additions.
    fn add_cost(&self, count: f64) -> Cost {
        self.unit_cost(Unit::Integer, self.machine.rate.add, self.machine.latency.integer, count)
    }
    /// Returns the cost of `count` integer multiplications.
    fn multiply_cost(&self, count: f64) -> Cost {
        self.unit_cost(Unit::Heavy, self.machine.rate.multiply, self.machine.latency.multiply, count)
    }
    /// Returns the cost of `count` special functions, such as `ex2`.
    fn special_cost(&self, count: f64) -> Cost {
        self.unit_cost(Unit::Special, self.machine.rate.special, self.machine.latency.special, count)
    }
    /// Returns the cost of `count` dependent f64 instructions. Their latencies add up.
    fn double_cost(&self, count: f64) -> Cost {
        let mut cost = self.unit_cost(Unit::Double, self.machine.rate.f64, self.machine.latency.f64, count);
        cost.latency = self.machine.latency.f64 * count;
        cost
    }
}

/// Returns the cost of an instruction with the cost `first`, and a dependent instruction with the cost `second`.
fn sequential_cost(mut first: Cost, second: Cost) -> Cost {
    first.issue_slots += second.issue_slots;
    for (unit, cycles) in second.unit_cycles {
        match first.unit_cycles.iter_mut().find(|(other, _)| *other == unit) {
            Some((_, sum)) => *sum += cycles,
            None => first.unit_cycles.push((unit, cycles)),
        }
    }
    first.latency += second.latency;
    first
}

/// Returns the cost of a PTX instruction.
pub(crate) fn instruction_cost(program: &Program, instr: &Instr, machine: &Machine) -> Cost {
    let table = CostTable { machine };
    let name = &program.opcodes[instr.opcode as usize];
    match &instr.op {
        Op::Mma(op) => mma_cost(op, name, machine),
        // `engine` adds the time of the shared-memory port, because the bank conflicts are known only from the recorded events.
        Op::Load { space: Space::Param, .. } => Cost::default(),
        Op::Load { .. }
        | Op::Store { .. }
        | Op::Atom { .. }
        | Op::CopyAsync { .. }
        | Op::LoadMatrix { .. }
        | Op::StoreMatrix { .. } => {
            Cost { issue_slots: 1.0, unit_cycles: vec![(Unit::Memory, 1.0)], latency: machine.latency.integer }
        }
        Op::Shuffle { .. } => table.unit_cost(Unit::Memory, machine.rate.shuffle * 4.0, machine.latency.shuffle, 1.0),
        Op::Vote { .. } | Op::ActiveMask { .. } => table.unit_cost(Unit::Integer, machine.rate.vote, machine.latency.vote, 1.0),
        Op::Match { .. } => Cost { latency: 375.0, ..table.special_cost(10.0) },
        Op::Reduce { .. } => table.unit_cost(Unit::Special, machine.rate.redux, machine.latency.redux, 1.0),
        Op::Elect { .. } => Cost { latency: machine.sync.elect, ..table.logic_cost(1.0) },
        Op::WarpSync { .. } => Cost { issue_slots: 1.0, unit_cycles: vec![], latency: machine.sync.warp },
        Op::Move { src, .. } => match program.specials.iter().any(|(slot, _)| slot == src) {
            true => Cost { issue_slots: 1.0, unit_cycles: vec![(Unit::Special, 4.0)], latency: machine.latency.special_register },
            false => Cost::default(),
        },
        Op::Pack { .. } | Op::Unpack { .. } => pack_or_unpack_cost(&instr.op, &table),
        Op::Select { .. } => {
            let register_count = if name.ends_with("64") { 2.0 } else { 1.0 };
            table.unit_cost(Unit::Integer, machine.rate.select, machine.latency.integer, register_count)
        }
        Op::Elementwise { .. } => elementwise_cost(name, &table),
        Op::MapToCta { .. } | Op::CtaRank { .. } => table.logic_cost(1.0),
        Op::Nop => match name.split('.').next() {
            Some("fence" | "membar" | "setmaxnreg" | "prefetch" | "griddepcontrol") => Cost { issue_slots: 1.0, ..Cost::default() },
            _ => Cost::default(),
        },
        Op::Call { .. } => table.logic_cost(40.0),
        Op::Clock { .. } => Cost { issue_slots: 1.0, unit_cycles: vec![], latency: machine.latency.special_register },
        // Asynchronous work, barriers and control: one instruction. `engine` adds the time of the work and of waits.
        _ => Cost { issue_slots: 1.0, unit_cycles: vec![], latency: machine.latency.integer },
    }
}

/// Returns the cost of `mov` that packs parts into a register or unpacks a register. A 64-bit value is a pair of adjacent
/// registers, so parts of 32 bits need no instruction. Parts of fewer than 32 bits need instructions.
fn pack_or_unpack_cost(op: &Op, table: &CostTable) -> Cost {
    match op {
        Op::Pack { bits, src, .. } if *bits < 32 => table.logic_cost((src.len() as f64 - 1.0).max(1.0)),
        Op::Unpack { bits, dst, .. } if *bits < 32 => table.logic_cost(dst.len() as f64 / 2.0),
        _ => Cost::default(),
    }
}

/// Returns the cost of an element-wise instruction, from its opcode with modifiers.
fn elementwise_cost(name: &str, table: &CostTable) -> Cost {
    let words: Vec<&str> = name.split('.').collect();
    let has_modifier = |word: &str| words.contains(&word);
    let type_word = words.last().copied().unwrap_or("");
    let is_wide = matches!(type_word, "s64" | "u64" | "b64");
    let registers_per_value = if is_wide { 2.0 } else { 1.0 };
    let machine = table.machine;
    let is_double = type_word == "f64";
    let is_half = matches!(type_word, "f16" | "bf16" | "f16x2" | "bf16x2");
    let is_float = type_word == "f32";
    let is_f32x2 = type_word == "f32x2";
    let half_precision_cost = |count: f64| table.unit_cost(Unit::Heavy, machine.rate.half2, machine.latency.half2, count);
    let ftz = has_modifier("ftz");
    match words[0] {
        "add" | "sub" | "mul" | "fma" | "mad" if is_float => table.float_cost(1.0),
        "add" | "sub" | "mul" | "fma" if is_f32x2 => table.unit_cost(Unit::Heavy, machine.rate.f32x2, machine.latency.f32, 1.0),
        "add" | "sub" | "mul" | "fma" | "min" | "max" if is_half => half_precision_cost(1.0),
        "add" | "sub" | "mul" | "fma" | "mad" if is_double => table.double_cost(1.0),
        "min" | "max" if is_double => table.double_cost(2.0),
        "min" | "max" if is_float => table.unit_cost(Unit::Integer, machine.rate.f32_compare, machine.latency.integer, 1.0),
        // Negation and absolute value are operand modifiers.
        "neg" | "abs" if is_float || is_half || is_double => Cost::default(),
        "copysign" => table.logic_cost(1.0),
        "add" | "sub" | "addc" | "subc" => table.add_cost(registers_per_value),
        "neg" | "abs" => table.add_cost(registers_per_value),
        "min" | "max" => {
            table.unit_cost(Unit::Integer, machine.rate.compare, machine.latency.integer, 2.0 * registers_per_value - 1.0)
        }
        "mul" if has_modifier("wide") || has_modifier("hi") && !is_wide => table.multiply_cost(1.0),
        "mul" if is_wide => table.multiply_cost(if has_modifier("hi") { 10.0 } else { 3.0 }),
        "mul" | "mul24" => table.multiply_cost(1.0),
        "mad" if is_wide && !has_modifier("wide") => table.multiply_cost(3.0),
        "mad" | "mad24" | "madc" => table.multiply_cost(1.0),
        "dp4a" | "dp2a" => table.multiply_cost(1.0),
        "div" | "rem" if is_wide && !is_double => sequential_cost(table.special_cost(2.0), table.add_cost(70.0)),
        "div" | "rem" if !is_float && !is_double && !is_half => {
            sequential_cost(table.special_cost(1.0), table.add_cost(if words[0] == "rem" { 22.0 } else { 20.0 }))
        }
        "div" if has_modifier("approx") => sequential_cost(table.special_cost(1.0), table.float_cost(if ftz { 1.0 } else { 4.0 })),
        "div" if has_modifier("full") => sequential_cost(table.special_cost(1.0), table.float_cost(8.0)),
        "div" if is_double => sequential_cost(table.special_cost(1.0), table.double_cost(10.0)),
        "div" => sequential_cost(table.special_cost(1.0), table.float_cost(13.0)),
        "rcp" | "sqrt" | "rsqrt" if is_double => sequential_cost(table.special_cost(1.0), table.double_cost(8.0)),
        "rcp" if has_modifier("approx") => sequential_cost(table.special_cost(1.0), table.float_cost(if ftz { 0.0 } else { 2.0 })),
        "rsqrt" | "lg2" if !is_half => sequential_cost(table.special_cost(1.0), table.float_cost(if ftz { 0.0 } else { 3.0 })),
        "sqrt" if has_modifier("approx") => sequential_cost(table.special_cost(1.0), table.float_cost(if ftz { 1.0 } else { 3.0 })),
        "sqrt" => sequential_cost(table.special_cost(1.0), table.float_cost(11.0)),
        "rcp" => sequential_cost(table.special_cost(1.0), table.float_cost(7.0)),
        "sin" | "cos" => sequential_cost(table.float_cost(1.0), table.special_cost(1.0)),
        "tanh" => table.special_cost(1.0),
        "ex2" => {
            let ex2 = table.unit_cost(Unit::Special, machine.rate.ex2, machine.latency.special, 1.0);
            if is_float && !ftz { sequential_cost(table.float_cost(3.0), ex2) } else { ex2 }
        }
        "popc" | "clz" | "brev" | "bfind" => {
            table.unit_cost(Unit::Special, machine.rate.popc, machine.latency.convert, registers_per_value)
        }
        "setp" | "set" if is_double => table.double_cost(1.0),
        "setp" | "set" if is_half => half_precision_cost(1.0),
        "setp" | "set" if is_float => table.unit_cost(Unit::Integer, machine.rate.f32_compare, machine.latency.predicate, 1.0),
        "setp" | "set" => Cost {
            latency: machine.latency.predicate,
            ..table.unit_cost(Unit::Integer, machine.rate.compare, machine.latency.integer, registers_per_value)
        },
        "selp" | "slct" => table.unit_cost(Unit::Integer, machine.rate.select, machine.latency.integer, registers_per_value),
        "and" | "or" | "xor" | "not" if type_word == "pred" => Cost { latency: machine.latency.integer, ..table.logic_cost(0.5) },
        "shl" | "shr" if is_wide => table.logic_cost(2.0),
        "cvt" => conversion_cost(&words, table),
        "cvta" | "mov" | "isspacep" => Cost::default(),
        _ => table.logic_cost(registers_per_value),
    }
}

/// Returns the cost of `cvt.TO.FROM`. Conversions between integers rename or mask a register. Conversions between integers and
/// floats use the special-function unit. The cost of a conversion between floats depends on the types.
fn conversion_cost(words: &[&str], table: &CostTable) -> Cost {
    let types: Vec<&str> = words.iter().copied().filter(|word| is_type(word)).collect();
    let [to, from] = types[..] else { return table.special_cost(1.0) };
    let machine = table.machine;
    let is_float = |ty: &str| !matches!(ty.as_bytes()[0], b's' | b'u' | b'b') || ty.starts_with("bf");
    match (is_float(to), is_float(from)) {
        (false, false) => match (to, from) {
            ("u64" | "b64", "u32") | (_, "u64" | "s64" | "b64") | ("u32" | "s32", "u16" | "u8") | ("u16" | "s16", _) => {
                Cost::default()
            }
            _ => table.logic_cost(1.0),
        },
        // A conversion with `.sat` to the source type clamps the value to [0, 1].
        (true, true) if to == from && words.contains(&"sat") => table.float_cost(1.0),
        (true, true) if to == from => table.unit_cost(Unit::Special, machine.rate.convert_integer, machine.latency.convert, 1.0),
        (true, true) if to == "f64" || from == "f64" => table.double_cost(2.0),
        // Widening from 16 bits is a shift or a multiply-add.
        (true, true) if to == "f32" && matches!(from, "bf16" | "f16") => table.logic_cost(1.0),
        (true, true) if to == "tf32" => table.logic_cost(1.0),
        (true, true) => table.unit_cost(Unit::Integer, machine.rate.convert_half, machine.latency.integer + 2.0, 1.0),
        _ => table.unit_cost(Unit::Special, machine.rate.convert_integer, machine.latency.convert, 1.0),
    }
}

/// Returns whether a dot-separated word of a `cvt` opcode is a type, as `f32` in `cvt.rn.f16.f32`.
fn is_type(word: &str) -> bool {
    let digits = word.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    matches!(
        word,
        "e4m3x2" | "e5m2x2" | "e2m1x2" | "e3m2x2" | "e2m3x2" | "ue8m0x2" | "tf32" | "bf16x2" | "f16x2" | "e4m3x4" | "e5m2x4"
    ) || !word.is_empty() && word.len() > digits.len() && matches!(digits, "8" | "16" | "32" | "64") && word.len() <= 4
}

/// Returns the cost of `mma.sync`. The machine file has the interval of an MMA with 16 rows and 32 bytes along K (of m8n8k4 for
/// f64). The interval of another shape is proportional to its rows and to its bytes along K.
fn mma_cost(op: &MmaOp, name: &str, machine: &Machine) -> Cost {
    let mma = &machine.mma;
    let has_modifier = |word: &str| name.contains(word);
    let bits = op.a.container_bits.min(64) as f64;
    let has_f16_accumulator = op.d_type == AccumulatorType::Float(numerics::Scalar::F16);
    let interval = if op.scale_a.is_some() || has_modifier("block_scale") {
        mma.scaled
    } else if has_modifier(".f64") {
        mma.f64
    } else if has_modifier(".tf32") {
        mma.tf32
    } else if has_modifier(".e4m3") || has_modifier(".e5m2") || has_modifier("f8f6f4") {
        if has_f16_accumulator { mma.f8 / (mma.f16 / mma.f16_accumulator) } else { mma.f8 }
    } else if bits <= 8.0 {
        mma.i8
    } else if has_f16_accumulator {
        mma.f16_accumulator
    } else {
        mma.f16
    };
    let shape_factor = if has_modifier(".f64") {
        op.m as f64 / 8.0 * op.k as f64 / 4.0
    } else {
        op.m as f64 / 16.0 * (op.k as f64 * bits / 256.0)
    };
    Cost {
        issue_slots: 1.0,
        unit_cycles: vec![(Unit::Tensor, interval * shape_factor)],
        latency: mma.latency - (1.0 - shape_factor).max(0.0) * 2.0 * interval,
    }
}
