//! Value names: derived from the defining op, with a number if the name is taken; otherwise a number.
//!
//! The scheme is NVIDIA's, because the text must match byte for byte. All values of a region get their names before those of nested
//! regions. A name is free again after the region that uses it.

use crate::module::Module;
use crate::ops::Op;
use crate::types::{Element, TypeId};
use base::Body;
use base::ir::{self, Def, Operation, Region, Value};
use numerics::Scalar;
use std::collections::HashSet;

/// Further ops of a longer chain of `assume` do not lengthen the name.
const MAX_ASSUME_CHAIN: usize = 256;

#[derive(Clone, Debug)]
enum Name {
    None,
    Number(u32),
    Text(String),
}

pub(super) struct Names(Vec<Name>);

impl Names {
    pub(super) fn new(module: &Module, body: &Body<Op, TypeId>, region: Region) -> Names {
        let names = vec![Name::None; body.values.len()];
        let mut namer = Namer { module, body, names, used: HashSet::new(), scopes: Vec::new(), counters: Counters::default() };
        namer.run(region);
        Names(namer.names)
    }

    /// Writes a reference to a value.
    pub(super) fn write(&self, out: &mut String, body: &Body<Op, TypeId>, value: Value) {
        match body.values[value].def {
            Def::Result { op, index } => {
                let results = &body.ops[op].results;
                let (start, length) = self.group(results, index as usize);
                self.write_plain(out, results[start]);
                if length > 1 {
                    out.push_str(&format!("#{}", index as usize - start));
                }
            }
            Def::Argument { .. } => self.write_plain(out, value),
        }
    }

    /// The text before the `=` of an op.
    pub(super) fn write_results(&self, out: &mut String, results: &[Value]) {
        let mut at = 0;
        while at < results.len() {
            let (_, length) = self.group(results, at);
            if at > 0 {
                out.push_str(", ");
            }
            self.write_plain(out, results[at]);
            if length > 1 {
                out.push_str(&format!(":{length}"));
            }
            at += length;
        }
    }

    /// The results that share a name: the start and length of the group.
    fn group(&self, results: &[Value], index: usize) -> (usize, usize) {
        let named = |at: usize| at == 0 || !matches!(self.0[results[at].0 as usize], Name::None);
        let start = (0..=index).rev().find(|at| named(*at)).unwrap_or(0);
        let end = (index + 1..results.len()).find(|at| named(*at)).unwrap_or(results.len());
        (start, end - start)
    }

    fn write_plain(&self, out: &mut String, value: Value) {
        out.push('%');
        match &self.0[value.0 as usize] {
            Name::None => out.push('?'),
            Name::Number(number) => out.push_str(&number.to_string()),
            Name::Text(text) => out.push_str(text),
        }
    }
}

/// The state that a region inherits from the enclosing one.
#[derive(Clone, Copy, Default)]
struct Counters {
    value: u32,
    argument: u32,
    conflict: u32,
}

struct Namer<'a> {
    module: &'a Module,
    body: &'a Body<Op, TypeId>,
    names: Vec<Name>,
    used: HashSet<String>,
    /// The names in use per open region, innermost last.
    scopes: Vec<Vec<String>>,
    counters: Counters,
}

impl Namer<'_> {
    fn run(&mut self, root: Region) {
        let mut pending = vec![(root, None, Counters::default(), 0)];
        while let Some((region, parent, counters, depth)) = pending.pop() {
            self.counters = counters;
            while self.scopes.len() > depth {
                for name in self.scopes.pop().expect("there is a scope") {
                    self.used.remove(&name);
                }
            }
            self.scopes.push(Vec::new());
            self.region(region, parent);
            for block in &self.body.regions[region].blocks {
                for op in &self.body.blocks[*block].ops {
                    for inner in self.body.ops[*op].kind.regions() {
                        pending.push((inner, Some(*op), self.counters, depth + 1));
                    }
                }
            }
        }
    }

    fn region(&mut self, region: Region, parent: Option<ir::Op>) {
        for (number, block) in self.body.regions[region].blocks.iter().enumerate() {
            let args = &self.body.blocks[*block].args;
            for (index, arg) in args.iter().enumerate() {
                let special =
                    parent.filter(|_| number == 0).and_then(|op| argument_name(&self.body.ops[op].kind, index, args.len()));
                let name = match special {
                    Some(name) => name,
                    None if number == 0 => {
                        self.counters.argument += 1;
                        format!("arg{}", self.counters.argument - 1)
                    }
                    None => String::new(),
                };
                self.set(*arg, name);
            }
            for op in &self.body.blocks[*block].ops {
                self.op(*op);
            }
        }
    }

    fn op(&mut self, op: ir::Op) {
        let node = &self.body.ops[op];
        for (index, result) in node.results.iter().enumerate() {
            if let Some(name) = self.result_name(op, index) {
                self.set(*result, name);
            }
        }
        if let Some(first) = node.results.first()
            && matches!(self.names[first.0 as usize], Name::None)
        {
            self.names[first.0 as usize] = Name::Number(self.counters.value);
            self.counters.value += 1;
        }
    }

    fn set(&mut self, value: Value, name: String) {
        self.names[value.0 as usize] = if name.is_empty() {
            self.counters.value += 1;
            Name::Number(self.counters.value - 1)
        } else {
            Name::Text(self.unique(name))
        };
    }

    fn unique(&mut self, name: String) -> String {
        let mut free = name.clone();
        while self.used.contains(&free) {
            free = format!("{name}_{}", self.counters.conflict);
            self.counters.conflict += 1;
        }
        self.used.insert(free.clone());
        self.scopes.last_mut().expect("a region is open").push(free.clone());
        free
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

    /// The name of an `assume` after its operand's name, if the operand has one.
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

fn constant_name(module: &Module, data: crate::ConstantId, ty: TypeId) -> String {
    let (Element::Scalar(scalar), _) = module.tile(ty) else { return "cst".into() };
    if scalar == Scalar::I1 {
        let mut elements = module.elements(data, ty);
        let first = elements.next().unwrap_or_default();
        let same = module.splat(data, ty).is_some() || elements.all(|bits| bits == first);
        return if !same {
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

/// The digits of a float that is an unsigned 64-bit integer, or `NaN`; none for other floats.
fn integer_text(value: f64) -> Option<String> {
    if value.is_nan() {
        return Some("NaN".into());
    }
    let exact = value.is_sign_positive() && value < 2f64.powi(64) && value.fract() == 0.0;
    exact.then(|| format!("{}", value as u64))
}
