//! Pointer analysis: the address space of every pointer of a function, and the object from which the pointer is derived.
//!
//! Pointer types of `.tile` state neither the address space nor the object. A forward data-flow analysis propagates both from
//! definitions through ops and control flow to a fixed point. See also: LLVM's `InferAddressSpaces` and `getUnderlyingObject`.

use base::Value;
use base::ir::{Op as OpId, Operation, Region};
use core_dialect::tile::Space;
use std::collections::BTreeMap;
use tileir::structured_ops::LoopOp;
use tileir::{Element, Function, Module, Op, Type};

/// Lattice value of a pointer's origin: unknown (bottom), a single origin, or several (top).
#[derive(Clone, Copy, PartialEq)]
enum OriginLattice<T> {
    Nothing,
    One(T),
    Several,
}

impl<T: PartialEq> OriginLattice<T> {
    /// The least upper bound of two lattice values.
    fn join(self, other: Self) -> Self {
        match (self, other) {
            (OriginLattice::Nothing, known) | (known, OriginLattice::Nothing) => known,
            (OriginLattice::One(a), OriginLattice::One(b)) if a == b => OriginLattice::One(a),
            _ => OriginLattice::Several,
        }
    }
}

/// The address space of a pointer, and the alias scope of the object from which it is derived.
#[derive(Clone, Copy, PartialEq)]
struct Origin {
    space: OriginLattice<Space>,
    alias_scope: OriginLattice<u32>,
}

/// The origin of a pointer before the analysis, and of a pointer that no definition reaches.
const UNKNOWN_ORIGIN: Origin = Origin { space: OriginLattice::Nothing, alias_scope: OriginLattice::Nothing };

/// The origin of each pointer of a function.
pub(super) struct Provenance {
    /// The origin of each value, by value id.
    origins: Vec<Origin>,
}

impl Provenance {
    /// Analyses the pointers of a function.
    pub(super) fn analyse(module: &Module, function: &Function) -> Provenance {
        let mut analysis = PointerAnalysis {
            module,
            function,
            edges: vec![Vec::new(); function.body.values.len()],
            origins: vec![UNKNOWN_ORIGIN; function.body.values.len()],
            from_integers: Vec::new(),
            to_integers: Vec::new(),
            alias_scope_count: 0,
            global_scopes: BTreeMap::new(),
        };
        analysis.collect_edges_and_seeds();
        let seeds: Vec<Value> =
            function.body.values.ids().filter(|value| analysis.origins[value.0 as usize] != UNKNOWN_ORIGIN).collect();
        analysis.propagate(seeds);
        // An integer can be the address of local memory only if the function converts a local address, or one of unknown space, to
        // an integer.
        let local_address_leaked =
            analysis.to_integers.iter().any(|ptr| analysis.origins[ptr.0 as usize].space != OriginLattice::One(Space::Global));
        let space = if local_address_leaked { Space::Generic } else { Space::Global };
        let from_integers = std::mem::take(&mut analysis.from_integers);
        for value in &from_integers {
            analysis.origins[value.0 as usize] = Origin { space: OriginLattice::One(space), alias_scope: OriginLattice::Several };
        }
        analysis.propagate(from_integers);
        Provenance { origins: analysis.origins }
    }

    /// The address space of a pointer.
    pub(super) fn space(&self, value: Value) -> Space {
        match self.origins[value.0 as usize].space {
            // No definition reaches this pointer, so the program never dereferences it, and any space is valid.
            OriginLattice::Nothing => Space::Global,
            OriginLattice::One(space) => space,
            OriginLattice::Several => Space::Generic,
        }
    }

    /// The alias scope of the object from which a pointer is derived; 0 if unknown.
    pub(super) fn alias_scope(&self, value: Value) -> u32 {
        match self.origins[value.0 as usize].alias_scope {
            OriginLattice::One(alias_scope) => alias_scope,
            _ => 0,
        }
    }
}

/// The state of the data-flow analysis.
struct PointerAnalysis<'a> {
    module: &'a Module,
    function: &'a Function,
    /// For each pointer, the values to which it flows.
    edges: Vec<Vec<Value>>,
    /// The origins found so far, by value id.
    origins: Vec<Origin>,
    /// Pointers converted from integers.
    from_integers: Vec<Value>,
    /// Pointers converted to integers.
    to_integers: Vec<Value>,
    /// The number of objects found so far. The alias scope of an object is its number, from 1.
    alias_scope_count: u32,
    /// The alias scopes of globals, by name.
    global_scopes: BTreeMap<&'a str, u32>,
}

/// The ops to which terminators of a block forward values. A `continue` forwards to the innermost loop, and a `break` too if that
/// loop is a `loop`. A `yield` forwards to the innermost `if`.
#[derive(Clone, Copy, Default)]
struct EnclosingOps {
    /// The innermost loop, which receives the operands of `continue`.
    innermost_loop: Option<OpId>,
    /// The innermost loop if it is a `loop`, which receives the operands of `break`.
    break_target: Option<OpId>,
    /// The innermost `if`, which receives the operands of `yield`.
    yield_target: Option<OpId>,
}

impl<'a> PointerAnalysis<'a> {
    /// Whether a value is a tile of pointers.
    fn is_pointer(&self, value: Value) -> bool {
        matches!(self.module.ty(*self.function.body.ty(value)), Type::Tile { element: Element::Ptr(_), .. })
    }

    /// Records that `from` flows to `to`, if both are pointers.
    fn add_edge(&mut self, from: Value, to: Value) {
        if self.is_pointer(from) && self.is_pointer(to) {
            self.edges[from.0 as usize].push(to);
        }
    }

    /// Records that each value of `from` flows to its counterpart in `to`.
    fn add_edges(&mut self, from: &[Value], to: &[Value]) {
        from.iter().zip(to).for_each(|(from, to)| self.add_edge(*from, *to));
    }

    /// Returns the alias scope of an object that has none yet.
    fn new_alias_scope(&mut self) -> u32 {
        self.alias_scope_count += 1;
        self.alias_scope_count
    }

    /// Sets the origin of a pointer whose object is known.
    fn seed_origin(&mut self, value: Value, space: Space, alias_scope: u32) {
        self.origins[value.0 as usize] = Origin { space: OriginLattice::One(space), alias_scope: OriginLattice::One(alias_scope) };
    }

    /// Collects the data-flow edges, and the origins of parameters, globals and `alloca`.
    fn collect_edges_and_seeds(&mut self) {
        let body = &self.function.body;
        for &param in self.function.params() {
            if self.is_pointer(param) {
                let alias_scope = self.new_alias_scope();
                self.seed_origin(param, Space::Global, alias_scope);
            }
        }
        let mut enclosing_by_block = vec![EnclosingOps::default(); body.blocks.len()];
        let block_of = body.op_blocks();
        for op in body.walk(self.function.region) {
            let node = &body.ops[op];
            let enclosing = block_of[op.0 as usize].map_or(EnclosingOps::default(), |block| enclosing_by_block[block.0 as usize]);
            let enclosing_of_regions = match node.kind.as_loop() {
                Some(loop_op) => {
                    let break_target = (!loop_op.has_counter).then_some(op);
                    EnclosingOps { innermost_loop: Some(op), break_target, yield_target: None }
                }
                None if node.kind.is_if() => EnclosingOps { yield_target: Some(op), ..enclosing },
                None => EnclosingOps::default(),
            };
            for region in node.kind.regions() {
                body.regions[region].blocks.iter().for_each(|block| enclosing_by_block[block.0 as usize] = enclosing_of_regions);
            }
            self.visit_op(op, enclosing);
        }
    }

    /// The arguments of a region's block; empty for a region without a block.
    fn region_args(&self, region: Region) -> Vec<Value> {
        let body = &self.function.body;
        body.regions[region].blocks.first().map_or(Vec::new(), |block| body.blocks[*block].args.clone())
    }

    /// Records the edges from values that a loop forwards to its next iteration: to the loop-carried arguments and, for a `for`, to
    /// the results, because any iteration may be the last.
    fn add_iteration_edges(&mut self, loop_op: LoopOp<'_>, values: &[Value], results: &[Value]) {
        if loop_op.has_counter {
            self.add_edges(values, results);
        }
        self.add_edges(values, &self.region_args(loop_op.body)[usize::from(loop_op.has_counter)..]);
    }

    /// Records the edges and origins that an op adds. `enclosing` are the ops to which its terminators forward values.
    fn visit_op(&mut self, op: OpId, enclosing: EnclosingOps) {
        let function = self.function;
        let node = &function.body.ops[op];
        let results = &node.results;
        if let Some(loop_op) = node.kind.as_loop() {
            self.add_iteration_edges(loop_op, loop_op.init, results);
            return;
        }
        match &node.kind {
            Op::GetGlobal { name } => {
                let name = self.module.string(name.0);
                let known_scope = self.global_scopes.get(name).copied();
                let alias_scope = known_scope.unwrap_or_else(|| self.new_alias_scope());
                self.global_scopes.insert(name, alias_scope);
                self.seed_origin(results[0], Space::Global, alias_scope);
            }
            Op::Alloca { .. } => {
                let alias_scope = self.new_alias_scope();
                self.seed_origin(results[0], Space::Local, alias_scope);
            }
            Op::IntToPtr { .. } => self.from_integers.push(results[0]),
            Op::PtrToInt { source } => self.to_integers.push(*source),
            Op::Reduce { operands, body, .. } | Op::Scan { operands, body, .. } => {
                let args = self.region_args(*body);
                for (i, &operand) in operands.iter().enumerate() {
                    self.add_edge(operand, results[i]);
                    args.iter().skip(2 * i).take(2).for_each(|arg| self.add_edge(operand, *arg));
                }
            }
            Op::Continue { operands } => {
                let Some(target) = enclosing.innermost_loop else { return };
                let target = &function.body.ops[target];
                target.kind.as_loop().into_iter().for_each(|loop_op| self.add_iteration_edges(loop_op, operands, &target.results));
            }
            Op::Break { operands } => {
                enclosing.break_target.into_iter().for_each(|target| self.add_edges(operands, &function.body.ops[target].results));
            }
            Op::Yield { operands } => {
                enclosing.yield_target.into_iter().for_each(|target| self.add_edges(operands, &function.body.ops[target].results));
            }
            other => {
                for &result in results {
                    other.for_each_operand(&mut |operand| self.add_edge(operand, result));
                }
            }
        }
    }

    /// Propagates origins along the edges, from the values in `changed`, to a fixed point.
    fn propagate(&mut self, mut changed: Vec<Value>) {
        while let Some(from) = changed.pop() {
            let origin = self.origins[from.0 as usize];
            for &to in &self.edges[from.0 as usize] {
                let old = self.origins[to.0 as usize];
                let new = Origin { space: old.space.join(origin.space), alias_scope: old.alias_scope.join(origin.alias_scope) };
                if new != old {
                    self.origins[to.0 as usize] = new;
                    changed.push(to);
                }
            }
        }
    }
}
