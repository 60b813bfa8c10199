//! The names of values in the text. Some ops name their results; a suffix makes such a name unique. All other values have a number
//! as name.
//!
//! The naming scheme is that of NVIDIA's disassembler, because the text must match its output byte for byte. All values of a region
//! get their names before the values of nested regions. After a region, the names of its values are free for other regions.

use crate::module::Module;
use crate::ops::Op;
use crate::types::{Element, TypeId};
use base::Body;
use base::ir::{self, Def, Operation, Region, Value};
use numerics::Scalar;
use std::collections::HashSet;

/// The maximum number of chained `assume` ops that add to the name of a value. It bounds the length of names.
const MAX_ASSUME_CHAIN: usize = 256;

/// The name of a value in the text.
#[derive(Clone, Debug)]
enum Name {
    /// The result shares the name of an earlier result of its op.
    None,
    Number(u32),
    Text(String),
}

/// The name of each value of a function, by value id.
pub(super) struct Names(Vec<Name>);

impl Names {
    /// Names all values of a function, whose root region is `region`.
    pub(super) fn new(module: &Module, body: &Body<Op, TypeId>, region: Region) -> Names {
        let names = vec![Name::None; body.values.len()];
        let mut namer = Namer { module, body, names, used: HashSet::new(), scopes: Vec::new(), counters: Counters::default() };
        namer.name_function(region);
        Names(namer.names)
    }

    /// Writes a reference to a value.
    pub(super) fn write(&self, out: &mut String, body: &Body<Op, TypeId>, value: Value) {
        match body.values[value].def {
            Def::Result { op, index } => {
                let results = &body.ops[op].results;
                let (start, length) = self.result_group(results, index as usize);
                self.write_name(out, results[start]);
                if length > 1 {
                    out.push_str(&format!("#{}", index as usize - start));
                }
            }
            Def::Argument { .. } => self.write_name(out, value),
        }
    }

    /// Writes the text before the `=` of an op.
    pub(super) fn write_results(&self, out: &mut String, results: &[Value]) {
        let mut index = 0;
        while index < results.len() {
            let (_, length) = self.result_group(results, index);
            if index > 0 {
                out.push_str(", ");
            }
            self.write_name(out, results[index]);
            if length > 1 {
                out.push_str(&format!(":{length}"));
            }
            index += length;
        }
    }

    /// The group of results of an op that share a name with the result at `index`. Returns the index of the first result of the
    /// group, and the number of results in it.
    fn result_group(&self, results: &[Value], index: usize) -> (usize, usize) {
        let has_own_name = |position: usize| position == 0 || !matches!(self.0[results[position].0 as usize], Name::None);
        let start = (0..=index).rev().find(|position| has_own_name(*position)).unwrap_or(0);
        let end = (index + 1..results.len()).find(|position| has_own_name(*position)).unwrap_or(results.len());
        (start, end - start)
    }

    fn write_name(&self, out: &mut String, value: Value) {
        out.push('%');
        match &self.0[value.0 as usize] {
            Name::None => out.push('?'),
            Name::Number(number) => out.push_str(&number.to_string()),
            Name::Text(text) => out.push_str(text),
        }
    }
}

/// The next number of each kind of name. A region continues the numbers of the enclosing region.
#[derive(Clone, Copy, Default)]
struct Counters {
    value: u32,
    argument: u32,
    /// The next number that makes a used name unique.
    conflict: u32,
}

/// The state of naming the values of a function.
struct Namer<'a> {
    module: &'a Module,
    body: &'a Body<Op, TypeId>,
    names: Vec<Name>,
    /// The names of all values in scope.
    used: HashSet<String>,
    /// The names in use, for each open region; the innermost region is last.
    scopes: Vec<Vec<String>>,
    counters: Counters,
}

impl Namer<'_> {
    /// Names the values of all regions, an outer region before its nested regions.
    fn name_function(&mut self, root: Region) {
        let mut pending = vec![(root, None, Counters::default(), 0)];
        while let Some((region, parent, counters, depth)) = pending.pop() {
            self.counters = counters;
            while self.scopes.len() > depth {
                for name in self.scopes.pop().expect("there is a scope") {
                    self.used.remove(&name);
                }
            }
            self.scopes.push(Vec::new());
            self.name_region(region, parent);
            for block in &self.body.regions[region].blocks {
                for op in &self.body.blocks[*block].ops {
                    for nested_region in self.body.ops[*op].kind.regions() {
                        pending.push((nested_region, Some(*op), self.counters, depth + 1));
                    }
                }
            }
        }
    }

    /// Names the arguments and results of the blocks of a region. `parent` is the op with the region.
    fn name_region(&mut self, region: Region, parent: Option<ir::Op>) {
        for (block_index, block) in self.body.regions[region].blocks.iter().enumerate() {
            let args = &self.body.blocks[*block].args;
            for (index, arg) in args.iter().enumerate() {
                let fixed_name =
                    parent.filter(|_| block_index == 0).and_then(|op| argument_name(&self.body.ops[op].kind, index, args.len()));
                let name = match fixed_name {
                    Some(name) => name,
                    None if block_index == 0 => {
                        self.counters.argument += 1;
                        format!("arg{}", self.counters.argument - 1)
                    }
                    None => String::new(),
                };
                self.set_name(*arg, name);
            }
            for op in &self.body.blocks[*block].ops {
                self.name_results(*op);
            }
        }
    }

    /// Names the results of an op: each result that the op names, and otherwise the first result by a number.
    fn name_results(&mut self, op: ir::Op) {
        let node = &self.body.ops[op];
        for (index, result) in node.results.iter().enumerate() {
            if let Some(name) = self.result_name(op, index) {
                self.set_name(*result, name);
            }
        }
        if let Some(first) = node.results.first()
            && matches!(self.names[first.0 as usize], Name::None)
        {
            self.names[first.0 as usize] = Name::Number(self.counters.value);
            self.counters.value += 1;
        }
    }

    /// Assigns a unique form of a name to a value. An empty name stands for the next number.
    fn set_name(&mut self, value: Value, name: String) {
        self.names[value.0 as usize] = if name.is_empty() {
            self.counters.value += 1;
            Name::Number(self.counters.value - 1)
        } else {
            Name::Text(self.unique_name(name))
        };
    }

    /// Appends numbers to a name until no value in scope has it.
    fn unique_name(&mut self, name: String) -> String {
        let mut candidate = name.clone();
        while self.used.contains(&candidate) {
            candidate = format!("{name}_{}", self.counters.conflict);
            self.counters.conflict += 1;
        }
        self.used.insert(candidate.clone());
        self.scopes.last_mut().expect("a region is open").push(candidate.clone());
        candidate
    }

    /// The name that an op gives one of its results, before deduplication.
    fn result_name(&self, op: ir::Op, index: usize) -> Option<String> {
        let node = &self.body.ops[op];
        let info = node.kind.opcode().info();
        if info.results.len() > 1 {
            return info.results.get(index).map(|result| result.name.to_string());
        }
        if index > 0 {
            return None;
        }
        Some(match &node.kind {
            Op::Assume { value, .. } => self.assume_name(*value),
            Op::Broadcast { .. } => "bcast".into(),
            Op::Reshape { .. } => "reshape".into(),
            Op::For { .. } => "for".into(),
            Op::Reduce { .. } => "reduce".into(),
            Op::MakeTensorView { .. } => "tview".into(),
            Op::MakePartitionView { .. } => "pview".into(),
            Op::MakeStridedView { .. } => "sview".into(),
            Op::MakeGatherScatterView { .. } => "gsview".into(),
            Op::Constant { value } => constant_name(self.module, *value, *self.body.ty(node.results[0])),
            _ => return None,
        })
    }

    /// The name of an `assume` op: `assume`, and the name of its operand if the operand's op names its results.
    fn assume_name(&self, mut value: Value) -> String {
        let mut name = String::from("assume");
        for _ in 0..MAX_ASSUME_CHAIN {
            let Def::Result { op, index } = self.body.values[value].def else { break };
            let node = &self.body.ops[op];
            if let Op::Assume { value: inner, .. } = &node.kind {
                name.push_str("_assume");
                value = *inner;
                continue;
            }
            let names_results = node.kind.opcode().info().results.len() > 1
                || matches!(
                    node.kind,
                    Op::Broadcast { .. }
                        | Op::Reshape { .. }
                        | Op::For { .. }
                        | Op::Reduce { .. }
                        | Op::Constant { .. }
                        | Op::MakeTensorView { .. }
                        | Op::MakePartitionView { .. }
                        | Op::MakeStridedView { .. }
                        | Op::MakeGatherScatterView { .. }
                );
            if names_results {
                name.push('_');
                name.push_str(&self.result_name(op, index as usize).unwrap_or_default());
            }
            break;
        }
        name
    }
}

/// The name of argument `index` of the body of a loop or reduction with `count` arguments.
fn argument_name(parent: &Op, index: usize, count: usize) -> Option<String> {
    match parent {
        Op::For { .. } if index == 0 => Some("loopIdx".into()),
        Op::For { .. } => Some(format!("iterArg{}", index - 1)),
        Op::Reduce { .. } => {
            let side = if index.is_multiple_of(2) { "reduce_lhs" } else { "reduce_rhs" };
            Some(if count > 2 { format!("{side}{}", index / 2) } else { side.into() })
        }
        _ => None,
    }
}

/// The name of a constant. If all elements are equal, the name includes their value, as in `cst_4_i32`.
fn constant_name(module: &Module, data: crate::ConstantId, ty: TypeId) -> String {
    let (Element::Scalar(scalar), _) = module.tile(ty) else { return "cst".into() };
    if scalar == Scalar::I1 {
        let mut elements = module.elements(data, ty);
        let first = elements.next().unwrap_or_default();
        let all_equal = module.splat(data, ty).is_some() || elements.all(|bits| bits == first);
        return if !all_equal {
            "cst_i1"
        } else if first != 0 {
            "true"
        } else {
            "false"
        }
        .into();
    }
    let value = module.splat(data, ty).and_then(|bits| match scalar.is_int() {
        true => Some(scalar.sign_extend(bits).to_string()),
        false => integer_text(numerics::float::decode(scalar, bits)),
    });
    match value {
        Some(value) => format!("cst_{value}_{scalar}"),
        None => format!("cst_{scalar}"),
    }
}

/// Returns the digits of a float whose value is an unsigned 64-bit integer, or `NaN` for a NaN. Returns `None` for other floats.
fn integer_text(value: f64) -> Option<String> {
    if value.is_nan() {
        return Some("NaN".into());
    }
    let is_exact = value.is_sign_positive() && value < 2f64.powi(64) && value.fract() == 0.0;
    is_exact.then(|| format!("{}", value as u64))
}
