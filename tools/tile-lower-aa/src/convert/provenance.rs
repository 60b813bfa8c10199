//! Pointer analysis: the address space of every pointer of a function and the object from which it is derived.
//!
//! `.tile` pointers have neither. A forward data-flow analysis propagates both from definitions through ops and control flow to a
//! fixed point. See also: LLVM's `InferAddressSpaces` and `getUnderlyingObject`.

use base::Value;
use base::ir::{Op as OpId, Operation, Region};
use core_dialect::tile::Space;
use std::collections::BTreeMap;
use tileir::{Element, Function, Module, Op, Type};

/// Lattice value of a pointer's origin: unknown (bottom), a single origin, or several (top).
#[derive(Clone, Copy, PartialEq)]
enum Known<T> {
    Nothing,
    One(T),
    Several,
}

impl<T: PartialEq> Known<T> {
    fn join(self, other: Self) -> Self {
        match (self, other) {
            (Known::Nothing, known) | (known, Known::Nothing) => known,
            (Known::One(a), Known::One(b)) if a == b => Known::One(a),
            _ => Known::Several,
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
struct Origin {
    space: Known<Space>,
    root: Known<u32>,
}

const NOWHERE: Origin = Origin { space: Known::Nothing, root: Known::Nothing };

pub(super) struct Provenance {
    origins: Vec<Origin>,
}

impl Provenance {
    pub(super) fn of(module: &Module, function: &Function) -> Provenance {
        let mut flow = Flow {
            module,
            function,
            edges: vec![Vec::new(); function.body.values.len()],
            origins: vec![NOWHERE; function.body.values.len()],
            integers: Vec::new(),
            addresses: Vec::new(),
            roots: 0,
            globals: BTreeMap::new(),
        };
        flow.build();
        let seeds: Vec<Value> = function.body.values.ids().filter(|value| flow.origins[value.0 as usize] != NOWHERE).collect();
        flow.propagate(seeds);
        // An integer can only become an address of a CTA's own memory if such an address was converted to an integer.
        let leaked = flow.addresses.iter().any(|ptr| flow.origins[ptr.0 as usize].space != Known::One(Space::Global));
        let space = if leaked { Space::Generic } else { Space::Global };
        let integers = std::mem::take(&mut flow.integers);
        for value in &integers {
            flow.origins[value.0 as usize] = Origin { space: Known::One(space), root: Known::Several };
        }
        flow.propagate(integers);
        Provenance { origins: flow.origins }
    }

    pub(super) fn space(&self, value: Value) -> Space {
        match self.origins[value.0 as usize].space {
            // A pointer without reachable definition is never dereferenced.
            Known::Nothing => Space::Global,
            Known::One(space) => space,
            Known::Several => Space::Generic,
        }
    }

    /// The alias scope of the object from which a pointer is derived; 0 if unknown.
    pub(super) fn root(&self, value: Value) -> u32 {
        match self.origins[value.0 as usize].root {
            Known::One(root) => root,
            _ => 0,
        }
    }
}

struct Flow<'a> {
    module: &'a Module,
    function: &'a Function,
    /// The values to which each pointer flows.
    edges: Vec<Vec<Value>>,
    origins: Vec<Origin>,
    /// Pointers converted from integers.
    integers: Vec<Value>,
    /// Pointers converted to integers.
    addresses: Vec<Value>,
    /// The number of objects found so far, and the alias scopes of globals.
    roots: u32,
    globals: BTreeMap<&'a str, u32>,
}

/// The innermost loop around a block (`for` or `loop`), and the innermost `loop`.
#[derive(Clone, Copy, Default)]
struct Around {
    nearest: Option<OpId>,
    breakable: Option<OpId>,
    conditional: Option<OpId>,
}

impl<'a> Flow<'a> {
    fn is_pointer(&self, value: Value) -> bool {
        matches!(self.module.ty(*self.function.body.ty(value)), Type::Tile { element: Element::Ptr(_), .. })
    }

    fn edge(&mut self, from: Value, to: Value) {
        if self.is_pointer(from) && self.is_pointer(to) {
            self.edges[from.0 as usize].push(to);
        }
    }

    fn edges(&mut self, from: &[Value], to: &[Value]) {
        from.iter().zip(to).for_each(|(from, to)| self.edge(*from, *to));
    }

    fn new_root(&mut self) -> u32 {
        self.roots += 1;
        self.roots
    }

    fn seed(&mut self, value: Value, space: Space, root: u32) {
        self.origins[value.0 as usize] = Origin { space: Known::One(space), root: Known::One(root) };
    }

    fn build(&mut self) {
        let body = &self.function.body;
        for &param in self.function.params() {
            if self.is_pointer(param) {
                let root = self.new_root();
                self.seed(param, Space::Global, root);
            }
        }
        let mut around = vec![Around::default(); body.blocks.len()];
        let place = body.op_blocks();
        for op in body.walk(self.function.region) {
            let node = &body.ops[op];
            let inside = place[op.0 as usize].map_or(Around::default(), |block| around[block.0 as usize]);
            let inner = match node.kind {
                Op::For { .. } => Around { nearest: Some(op), breakable: None, conditional: None },
                Op::Loop { .. } => Around { nearest: Some(op), breakable: Some(op), conditional: None },
                Op::If { .. } => Around { conditional: Some(op), ..inside },
                _ => Around::default(),
            };
            for region in node.kind.regions() {
                body.regions[region].blocks.iter().for_each(|block| around[block.0 as usize] = inner);
            }
            self.op(op, inside);
        }
    }

    fn args(&self, region: Region) -> Vec<Value> {
        let body = &self.function.body;
        body.regions[region].blocks.first().map_or(Vec::new(), |block| body.blocks[*block].args.clone())
    }

    fn op(&mut self, op: OpId, around: Around) {
        let function = self.function;
        let node = &function.body.ops[op];
        let results = &node.results;
        match &node.kind {
            Op::GetGlobal { name } => {
                let name = self.module.string(name.0);
                let known = self.globals.get(name).copied();
                let root = known.unwrap_or_else(|| self.new_root());
                self.globals.insert(name, root);
                self.seed(results[0], Space::Global, root);
            }
            Op::Alloca { .. } => {
                let root = self.new_root();
                self.seed(results[0], Space::Local, root);
            }
            Op::IntToPtr { .. } => self.integers.push(results[0]),
            Op::PtrToInt { source } => self.addresses.push(*source),
            Op::For { init_values, body, .. } => {
                self.edges(init_values, results);
                self.edges(init_values, &self.args(*body)[1..]);
            }
            Op::Loop { init_values, body } => self.edges(init_values, &self.args(*body)),
            Op::Reduce { operands, body, .. } | Op::Scan { operands, body, .. } => {
                let args = self.args(*body);
                for (i, &operand) in operands.iter().enumerate() {
                    self.edge(operand, results[i]);
                    args.iter().skip(2 * i).take(2).for_each(|arg| self.edge(operand, *arg));
                }
            }
            Op::Continue { operands } => {
                let Some(target) = around.nearest else { return };
                match &function.body.ops[target].kind {
                    Op::For { body, .. } => {
                        self.edges(operands, &self.args(*body)[1..]);
                        self.edges(operands, &function.body.ops[target].results);
                    }
                    Op::Loop { body, .. } => self.edges(operands, &self.args(*body)),
                    _ => {}
                }
            }
            Op::Break { operands } => {
                around.breakable.into_iter().for_each(|target| self.edges(operands, &function.body.ops[target].results));
            }
            Op::Yield { operands } => {
                around.conditional.into_iter().for_each(|target| self.edges(operands, &function.body.ops[target].results));
            }
            other => {
                for &result in results {
                    other.for_each_operand(&mut |operand| self.edge(operand, result));
                }
            }
        }
    }

    fn propagate(&mut self, mut changed: Vec<Value>) {
        while let Some(from) = changed.pop() {
            let origin = self.origins[from.0 as usize];
            for &to in &self.edges[from.0 as usize] {
                let old = self.origins[to.0 as usize];
                let new = Origin { space: old.space.join(origin.space), root: old.root.join(origin.root) };
                if new != old {
                    self.origins[to.0 as usize] = new;
                    changed.push(to);
                }
            }
        }
    }
}
