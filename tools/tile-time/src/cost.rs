//! The cost of a PTX instruction: the number of machine instructions, the units that they occupy and for how long, and the latency
//! of the result. The table is by opcode. The engine adds the cost of memory accesses beyond their issue.

use perf_model::Machine;
use simulator::Accumulator;
use simulator::program::{Instr, MmaOp, Op, Program, Space};

/// A unit of an SM sub-partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unit {
    /// Either half of the FMA unit.
    Fma,
    /// The half of the FMA unit that also executes integer multiplies and packed pairs.
    Heavy,
    Integer,
    /// Special functions, conversions, counts of bits.
    Special,
    Double,
    /// The tensor unit, for `mma.sync` and `wgmma`.
    Tensor,
    /// The queue of the load-store unit: loads, stores, shuffles.
    Memory,
}

pub(crate) const UNITS: [Unit; 7] =
    [Unit::Fma, Unit::Heavy, Unit::Integer, Unit::Special, Unit::Double, Unit::Tensor, Unit::Memory];

impl Unit {
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

#[derive(Clone, Debug, Default)]
pub(crate) struct Cost {
    /// Issue slots: the number of machine instructions; zero for folded instructions.
    pub(crate) slots: f64,
    /// The units, and the cycles for which the instruction occupies each.
    pub(crate) uses: Vec<(Unit, f64)>,
    /// Latency in cycles.
    pub(crate) latency: f64,
}

/// The costs of one or more machine instructions on a unit.
struct Table<'a> {
    machine: &'a Machine,
}

impl Table<'_> {
    /// The issue interval of an instruction class in cycles, from its rate in results per cycle and SM.
    fn interval(rate: f64) -> f64 {
        128.0 / rate.max(0.01)
    }
    fn unit_cost(&self, unit: Unit, rate: f64, latency: f64, count: f64) -> Cost {
        Cost { slots: count, uses: vec![(unit, count * Self::interval(rate))], latency: latency + (count - 1.0).max(0.0) * 2.0 }
    }
    fn float(&self, count: f64) -> Cost {
        self.unit_cost(Unit::Fma, self.machine.rate.f32, self.machine.latency.f32, count)
    }
    fn logic(&self, count: f64) -> Cost {
        self.unit_cost(Unit::Integer, self.machine.rate.logic, self.machine.latency.integer, count)
    }
    fn add(&self, count: f64) -> Cost {
        self.unit_cost(Unit::Integer, self.machine.rate.add, self.machine.latency.integer, count)
    }
    fn multiply(&self, count: f64) -> Cost {
        self.unit_cost(Unit::Heavy, self.machine.rate.multiply, self.machine.latency.multiply, count)
    }
    fn special(&self, count: f64) -> Cost {
        self.unit_cost(Unit::Special, self.machine.rate.special, self.machine.latency.special, count)
    }
    fn double(&self, count: f64) -> Cost {
        let mut cost = self.unit_cost(Unit::Double, self.machine.rate.f64, self.machine.latency.f64, count);
        cost.latency = self.machine.latency.f64 * count;
        cost
    }
}

/// The cost of an instruction followed by one that depends on it.
fn followed_by(mut first: Cost, second: Cost) -> Cost {
    first.slots += second.slots;
    for (unit, cycles) in second.uses {
        match first.uses.iter_mut().find(|(other, _)| *other == unit) {
            Some((_, sum)) => *sum += cycles,
            None => first.uses.push((unit, cycles)),
        }
    }
    first.latency += second.latency;
    first
}

/// The cost of an instruction.
pub(crate) fn cost(program: &Program, instr: &Instr, machine: &Machine) -> Cost {
    let table = Table { machine };
    let name = &program.names[instr.name as usize];
    match &instr.op {
        Op::Mma(op) => mma_cost(op, name, machine),
        // `engine` adds the time of the shared-memory port, because the recorded events have the bank conflicts.
        Op::Load { space: Space::Param, .. } => Cost::default(),
        Op::Load { .. }
        | Op::Store { .. }
        | Op::Atom { .. }
        | Op::CopyAsync { .. }
        | Op::LoadMatrix { .. }
        | Op::StoreMatrix { .. } => Cost { slots: 1.0, uses: vec![(Unit::Memory, 1.0)], latency: machine.latency.integer },
        Op::Shuffle { .. } => table.unit_cost(Unit::Memory, machine.rate.shuffle * 4.0, machine.latency.shuffle, 1.0),
        Op::Vote { .. } | Op::ActiveMask { .. } => table.unit_cost(Unit::Integer, machine.rate.vote, machine.latency.vote, 1.0),
        Op::Match { .. } => Cost { latency: 375.0, ..table.special(10.0) },
        Op::Reduce { .. } => table.unit_cost(Unit::Special, machine.rate.redux, machine.latency.redux, 1.0),
        Op::Elect { .. } => Cost { latency: machine.sync.elect, ..table.logic(1.0) },
        Op::WarpSync { .. } => Cost { slots: 1.0, uses: vec![], latency: machine.sync.warp },
        Op::Move { src, .. } => match program.specials.iter().any(|(slot, _)| slot == src) {
            true => Cost { slots: 1.0, uses: vec![(Unit::Special, 4.0)], latency: machine.latency.special_register },
            false => Cost::default(),
        },
        Op::Pack { .. } | Op::Unpack { .. } => half_moves(&instr.op, &table),
        Op::Select { .. } => {
            let wide = if name.ends_with("64") { 2.0 } else { 1.0 };
            table.unit_cost(Unit::Integer, machine.rate.select, machine.latency.integer, wide)
        }
        Op::Elementwise { .. } => elementwise_cost(name, &table),
        Op::MapToCta { .. } | Op::CtaRank { .. } => table.logic(1.0),
        Op::Nothing => match name.split('.').next() {
            Some("fence" | "membar" | "setmaxnreg" | "prefetch" | "griddepcontrol") => Cost { slots: 1.0, ..Cost::default() },
            _ => Cost::default(),
        },
        Op::Call { .. } => table.logic(40.0),
        Op::Clock { .. } => Cost { slots: 1.0, uses: vec![], latency: machine.latency.special_register },
        // Asynchronous work, barriers and control: one instruction. `engine` adds the time of the work and of waits.
        _ => Cost { slots: 1.0, uses: vec![], latency: machine.latency.integer },
    }
}

/// Moves of register parts: 64-bit pairs are adjacent registers and free, 16-bit halves need a move.
fn half_moves(op: &Op, table: &Table) -> Cost {
    match op {
        Op::Pack { bits, src, .. } if *bits < 32 => table.logic((src.len() as f64 - 1.0).max(1.0)),
        Op::Unpack { bits, dst, .. } if *bits < 32 => table.logic(dst.len() as f64 / 2.0),
        _ => Cost::default(),
    }
}

fn elementwise_cost(name: &str, table: &Table) -> Cost {
    let words: Vec<&str> = name.split('.').collect();
    let has = |word: &str| words.contains(&word);
    let last = words.last().copied().unwrap_or("");
    let wide = matches!(last, "s64" | "u64" | "b64");
    let scale = if wide { 2.0 } else { 1.0 };
    let machine = table.machine;
    let double = last == "f64";
    let half = matches!(last, "f16" | "bf16" | "f16x2" | "bf16x2");
    let float = last == "f32";
    let pair = last == "f32x2";
    let half_op = |count: f64| table.unit_cost(Unit::Heavy, machine.rate.half2, machine.latency.half2, count);
    let ftz = has("ftz");
    match words[0] {
        "add" | "sub" | "mul" | "fma" | "mad" if float => table.float(1.0),
        "add" | "sub" | "mul" | "fma" if pair => table.unit_cost(Unit::Heavy, machine.rate.f32x2, machine.latency.f32, 1.0),
        "add" | "sub" | "mul" | "fma" | "min" | "max" if half => half_op(1.0),
        "add" | "sub" | "mul" | "fma" | "mad" if double => table.double(1.0),
        "min" | "max" if double => table.double(2.0),
        "min" | "max" if float => table.unit_cost(Unit::Integer, machine.rate.f32_compare, machine.latency.integer, 1.0),
        // Negation and absolute value are operand modifiers.
        "neg" | "abs" if float || half || double => Cost::default(),
        "copysign" => table.logic(1.0),
        "add" | "sub" | "addc" | "subc" => table.add(scale),
        "neg" | "abs" => table.add(scale),
        "min" | "max" => table.unit_cost(Unit::Integer, machine.rate.compare, machine.latency.integer, 2.0 * scale - 1.0),
        "mul" if has("wide") || has("hi") && !wide => table.multiply(1.0),
        "mul" if wide => table.multiply(if has("hi") { 10.0 } else { 3.0 }),
        "mul" | "mul24" => table.multiply(1.0),
        "mad" if wide && !has("wide") => table.multiply(3.0),
        "mad" | "mad24" | "madc" => table.multiply(1.0),
        "dp4a" | "dp2a" => table.multiply(1.0),
        "div" | "rem" if wide && !double => followed_by(table.special(2.0), table.add(70.0)),
        "div" | "rem" if !float && !double && !half => {
            followed_by(table.special(1.0), table.add(if words[0] == "rem" { 22.0 } else { 20.0 }))
        }
        "div" if has("approx") => followed_by(table.special(1.0), table.float(if ftz { 1.0 } else { 4.0 })),
        "div" if has("full") => followed_by(table.special(1.0), table.float(8.0)),
        "div" if double => followed_by(table.special(1.0), table.double(10.0)),
        "div" => followed_by(table.special(1.0), table.float(13.0)),
        "rcp" | "sqrt" | "rsqrt" if double => followed_by(table.special(1.0), table.double(8.0)),
        "rcp" if has("approx") => followed_by(table.special(1.0), table.float(if ftz { 0.0 } else { 2.0 })),
        "rsqrt" | "lg2" if !half => followed_by(table.special(1.0), table.float(if ftz { 0.0 } else { 3.0 })),
        "sqrt" if has("approx") => followed_by(table.special(1.0), table.float(if ftz { 1.0 } else { 3.0 })),
        "sqrt" => followed_by(table.special(1.0), table.float(11.0)),
        "rcp" => followed_by(table.special(1.0), table.float(7.0)),
        "sin" | "cos" => followed_by(table.float(1.0), table.special(1.0)),
        "tanh" => table.special(1.0),
        "ex2" => {
            let ex2 = table.unit_cost(Unit::Special, machine.rate.ex2, machine.latency.special, 1.0);
            if float && !ftz { followed_by(table.float(3.0), ex2) } else { ex2 }
        }
        "popc" | "clz" | "brev" | "bfind" => table.unit_cost(Unit::Special, machine.rate.popc, machine.latency.convert, scale),
        "setp" | "set" if double => table.double(1.0),
        "setp" | "set" if half => half_op(1.0),
        "setp" | "set" if float => table.unit_cost(Unit::Integer, machine.rate.f32_compare, machine.latency.predicate, 1.0),
        "setp" | "set" => Cost {
            latency: machine.latency.predicate,
            ..table.unit_cost(Unit::Integer, machine.rate.compare, machine.latency.integer, scale)
        },
        "selp" | "slct" => table.unit_cost(Unit::Integer, machine.rate.select, machine.latency.integer, scale),
        "and" | "or" | "xor" | "not" if last == "pred" => Cost { latency: machine.latency.integer, ..table.logic(0.5) },
        "shl" | "shr" if wide => table.logic(2.0),
        "cvt" => convert(&words, table),
        "cvta" | "mov" | "isspacep" => Cost::default(),
        _ => table.logic(scale),
    }
}

/// `cvt.TO.FROM`. Integer conversions rename or mask a register. Other conversions use the special-function unit, except packing
/// into halves.
fn convert(words: &[&str], table: &Table) -> Cost {
    let types: Vec<&str> = words.iter().copied().filter(|word| is_type(word)).collect();
    let [to, from] = types[..] else { return table.special(1.0) };
    let machine = table.machine;
    let is_float = |ty: &str| !matches!(ty.as_bytes()[0], b's' | b'u' | b'b') || ty.starts_with("bf");
    match (is_float(to), is_float(from)) {
        (false, false) => match (to, from) {
            ("u64" | "b64", "u32") | (_, "u64" | "s64" | "b64") | ("u32" | "s32", "u16" | "u8") | ("u16" | "s16", _) => {
                Cost::default()
            }
            _ => table.logic(1.0),
        },
        // Saturation.
        (true, true) if to == from && words.contains(&"sat") => table.float(1.0),
        (true, true) if to == from => table.unit_cost(Unit::Special, machine.rate.convert_integer, machine.latency.convert, 1.0),
        (true, true) if to == "f64" || from == "f64" => table.double(2.0),
        // Widening halves is a shift or a multiply-add.
        (true, true) if to == "f32" && matches!(from, "bf16" | "f16") => table.logic(1.0),
        (true, true) if to == "tf32" => table.logic(1.0),
        (true, true) => table.unit_cost(Unit::Integer, machine.rate.convert_half, machine.latency.integer + 2.0, 1.0),
        _ => table.unit_cost(Unit::Special, machine.rate.convert_integer, machine.latency.convert, 1.0),
    }
}

fn is_type(word: &str) -> bool {
    let digits = word.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    matches!(
        word,
        "e4m3x2" | "e5m2x2" | "e2m1x2" | "e3m2x2" | "e2m3x2" | "ue8m0x2" | "tf32" | "bf16x2" | "f16x2" | "e4m3x4" | "e5m2x4"
    ) || !word.is_empty() && word.len() > digits.len() && matches!(digits, "8" | "16" | "32" | "64") && word.len() <= 4
}

/// `mma.sync`: cycles are proportional to rows and to bytes of K.
fn mma_cost(op: &MmaOp, name: &str, machine: &Machine) -> Cost {
    let mma = &machine.mma;
    let has = |word: &str| name.contains(word);
    let bits = op.a.container.min(64) as f64;
    let small = op.d_type == Accumulator::Float(numerics::Scalar::F16);
    let interval = if op.scale_a.is_some() || has("block_scale") {
        mma.scaled
    } else if has(".f64") {
        mma.f64
    } else if has(".tf32") {
        mma.tf32
    } else if has(".e4m3") || has(".e5m2") || has("f8f6f4") {
        if small { mma.f8 / (mma.f16 / mma.f16_accumulator) } else { mma.f8 }
    } else if bits <= 8.0 {
        mma.i8
    } else if small {
        mma.f16_accumulator
    } else {
        mma.f16
    };
    let part = if has(".f64") { op.m as f64 / 8.0 * op.k as f64 / 4.0 } else { op.m as f64 / 16.0 * (op.k as f64 * bits / 256.0) };
    Cost { slots: 1.0, uses: vec![(Unit::Tensor, interval * part)], latency: mma.latency - (1.0 - part).max(0.0) * 2.0 * interval }
}
