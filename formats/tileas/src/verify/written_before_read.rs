//! In `.as`, every path to a read of a buffer contains a write to it (rule AS011).
//!
//! A data-flow analysis computes, for each program point, the buffers written on all paths to this point; a merge takes the
//! intersection. Inside a branch of an `if`, the analysis derives more facts from the condition:
//! - If a branch tests that the lower bound of an earlier `for` is below the upper bound, the loop ran an iteration.
//! - The lattice value of an i1 is two sets of buffers. One set has the buffers that are written if the i1 is true, and the other
//!   set those that are written if it is false. For the constant true, the set for false has all buffers. For the constant false,
//!   the set for true has all buffers. If control flow forwards an i1, the analysis adds the buffers written at that point to both
//!   sets. A merge takes the intersection of each set.
//!
//! Loop-carried states start at the top of the lattice (everything written). The function is walked again with the states of the
//! last walk until they no longer change. States only shrink from walk to walk, so a read that one walk rejects stays rejected. The
//! time is linear in the size of the function, because the number of walks and of analysed buffers is limited.
//!
//! After an `if`, the analysis intersects the states of both branches, even if one ends in a `break`, `continue` or `return`. After
//! a `loop`, it also intersects the state at the end of the body. Reason: the hazard checker of `.sched` executes these paths.
//!
//! The analysis complements `check_written_before_read`, which follows program order and is the only rule for `.sched`. In
//! `.sched`, loops are split into main and epilogue loops, and the hazard checker executes the program instead.

use crate::effects::AccessKind;
use crate::{Buffer, FunctionAttrs, Op, Type};
use base::ir::{Def, Op as OpId, Operation};
use base::{Body, Loc, Region, Value};
use core_dialect::core_ops::Core;
use core_dialect::rules::{CoreDialectOp, OpParents};
use core_dialect::structured_ops::{LoopBounds, LoopOp, StructuredOp};
use core_dialect::tile::Dense;
use numerics::arith::{Compare, Predicate, Signedness};
use std::collections::BTreeMap;

/// The result of a check. The error is the location and the message of a violation.
type LocatedResult<T = ()> = Result<T, (Loc, String)>;
/// A set of at most 64 buffers, which one [`Walk`] analyses together, as bits.
type BufferSet = u64;
/// The top of the lattice: all buffers are written.
const ALL_BUFFERS: BufferSet = BufferSet::MAX;

/// Maximum walks until loop-carried states reach a fixed point. Each predicate that one loop forwards to another may need one walk.
const MAX_WALKS: usize = 16;
/// Maximum buffers of a function that need the analysis.
const MAX_ANALYSED: usize = 1024;

/// The state at a program point: the buffers written so far, and whether the point is reachable.
#[derive(Clone, Copy)]
struct PointState {
    /// The buffers that every path to the point has written.
    written: BufferSet,
    /// Whether any path leads to the point.
    reached: bool,
}

/// The buffers written if a predicate is true, and if it is false. Both sets are empty for a value that is not a predicate.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct WrittenIf {
    if_true: BufferSet,
    if_false: BufferSet,
}

impl WrittenIf {
    /// The greatest lower bound in the lattice: the buffers that both values imply.
    fn meet(self, other: WrittenIf) -> WrittenIf {
        WrittenIf { if_true: self.if_true & other.if_true, if_false: self.if_false & other.if_false }
    }
}

/// The paths that meet at one program point, and the lattice values of the values that they forward.
struct MergedPaths {
    /// The state that holds on all of the paths.
    state: PointState,
    written_ifs: Vec<WrittenIf>,
}

impl MergedPaths {
    /// Merges further paths. An unreachable path has no influence on a reachable path.
    fn merge(&mut self, other: MergedPaths) {
        match (self.state.reached, other.state.reached) {
            (false, true) => *self = other,
            (true, false) => {}
            _ => {
                self.state.written &= other.state.written;
                meet(&mut self.written_ifs, &other.written_ifs);
            }
        }
    }
}

/// Replaces each lattice value in `values` by its greatest lower bound with the value at the same index of `other`.
fn meet(values: &mut [WrittenIf], other: &[WrittenIf]) {
    values.iter_mut().zip(other).for_each(|(value, other)| *value = value.meet(*other));
}

/// The state at the end of a loop's iteration.
#[derive(Clone, PartialEq, Eq)]
struct IterationState {
    /// The buffers written at the end of every iteration.
    written: BufferSet,
    /// The lattice values of the loop-carried values.
    written_ifs: Vec<WrittenIf>,
}

/// The bounds that decide whether a `for` runs an iteration: lower and upper bound, and whether they are unsigned.
type TripTestBounds = (Bound, Bound, bool);

/// A bound of a loop: a constant or a value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Bound {
    Constant(u64),
    Variable(Value),
}

/// The operands of a `for`.
struct ForLoop<'a> {
    lower: Value,
    upper: Value,
    unsigned: bool,
    /// The initial values of the loop-carried values.
    init: &'a [Value],
    /// The region of the loop's body.
    inner: Region,
}

/// The state of one walk over a function, for at most 64 buffers.
struct Walk<'a> {
    body: &'a Body<Op, Type>,
    /// The op that contains each op.
    nesting: &'a OpParents,
    /// By buffer, the set with its bit only; 0 for a buffer outside this analysis.
    sets: Vec<BufferSet>,
    /// The lattice value of each value, by value id.
    written_ifs: Vec<WrittenIf>,
    /// By loop, the state at the end of an iteration that this walk assumes.
    assumed: BTreeMap<OpId, IterationState>,
    /// The buffers that this walk assumes to be written at the end of an iteration of each loop without an entry in `assumed`.
    assumed_elsewhere: BufferSet,
    /// By loop, the state at the end of an iteration that this walk computes.
    computed: BTreeMap<OpId, IterationState>,
    /// By loop, the paths that end an iteration.
    iteration_ends: BTreeMap<OpId, MergedPaths>,
    /// By `if` or `loop`, the paths that leave the op.
    exits: BTreeMap<OpId, MergedPaths>,
    /// By loop counter, the `for` op that defines the counter.
    counters: BTreeMap<Value, OpId>,
    /// By bounds, the buffers that earlier loops with these bounds wrote if they ran an iteration.
    written_by_loops: BTreeMap<TripTestBounds, BufferSet>,
    /// For each change of `written_by_loops`, the previous entry. The end of a region undoes its changes.
    changes: Vec<(TripTestBounds, Option<BufferSet>)>,
}

/// Checks that every path writes a buffer before the path reads the buffer. Regions and terminators must be valid.
pub(super) fn check_every_path(body: &Body<Op, Type>, root: Region, attrs: &FunctionAttrs) -> LocatedResult {
    let undominated = buffers_to_analyse(body, root, attrs);
    if let Some((buffer, loc)) = undominated.get(MAX_ANALYSED) {
        let message =
            format!("{buffer} is one of more than {MAX_ANALYSED} buffers whose first write does not dominate all other accesses");
        return Err((*loc, message));
    }
    if undominated.is_empty() {
        return Ok(());
    }
    let nesting = OpParents::analyse(body, root);
    undominated.chunks(BufferSet::BITS as usize).try_for_each(|buffers| {
        let mut sets = vec![0; attrs.buffers.len()];
        buffers.iter().enumerate().for_each(|(bit, (buffer, _))| sets[buffer.0 as usize] = 1 << bit);
        Walk::new(body, &nesting, sets).run_to_fixed_point(root)
    })
}

/// The buffers that need the analysis, each with the location of its first read that no write dominates. A buffer needs no analysis
/// if its first access is a write that dominates all other accesses.
fn buffers_to_analyse(body: &Body<Op, Type>, root: Region, attrs: &FunctionAttrs) -> Vec<(Buffer, Loc)> {
    let order = body.walk(root);
    let blocks = body.op_blocks();
    let mut positions = vec![0; body.ops.len()];
    order.iter().enumerate().for_each(|(position, op)| positions[op.0 as usize] = position);
    // For each accessed buffer, the end of the range of positions that its first write dominates.
    let mut dominated_ends: Vec<Option<usize>> = vec![None; attrs.buffers.len()];
    let mut undominated = BTreeMap::new();
    for (position, op) in order.iter().enumerate() {
        for access in body.ops[*op].kind.effects().buffers {
            let end =
                || blocks[op.0 as usize].and_then(|block| body.terminator(block)).map_or(0, |last| positions[last.0 as usize]);
            let writes = !access.access_kind.needs_content();
            let dominated_end = dominated_ends[access.buffer.0 as usize].get_or_insert_with(|| if writes { end() } else { 0 });
            if !writes && position >= *dominated_end {
                undominated.entry(access.buffer).or_insert(body.ops[*op].loc);
            }
        }
    }
    undominated.into_iter().collect()
}

impl<'a> Walk<'a> {
    fn new(body: &'a Body<Op, Type>, nesting: &'a OpParents, sets: Vec<BufferSet>) -> Walk<'a> {
        Walk {
            body,
            nesting,
            sets,
            written_ifs: vec![WrittenIf::default(); body.values.len()],
            assumed: BTreeMap::new(),
            assumed_elsewhere: ALL_BUFFERS,
            computed: BTreeMap::new(),
            iteration_ends: BTreeMap::new(),
            exits: BTreeMap::new(),
            counters: BTreeMap::new(),
            written_by_loops: BTreeMap::new(),
            changes: Vec::new(),
        }
    }

    /// Walks the function until the states at the ends of iterations no longer change.
    fn run_to_fixed_point(mut self, root: Region) -> LocatedResult {
        let start = PointState { written: 0, reached: true };
        for _ in 0..MAX_WALKS {
            self.walk_region(root, start)?;
            let computed = std::mem::take(&mut self.computed);
            if computed == self.assumed {
                return Ok(());
            }
            self.assumed = computed;
        }
        // No fixed point: assume nothing about earlier iterations.
        self.assumed.clear();
        self.assumed_elsewhere = 0;
        self.walk_region(root, start).map(drop)
    }

    /// Walks a region and returns the state at its end, which is unreachable after the terminator.
    fn walk_region(&mut self, region: Region, mut here: PointState) -> LocatedResult<PointState> {
        let (body, outer_changes) = (self.body, self.changes.len());
        for &op in &body.blocks[body.block_of(region)].ops {
            let node = &body.ops[op];
            for access in node.kind.effects().buffers {
                self.record_access(access.buffer, access.access_kind, &mut here).map_err(|message| (node.loc, message))?;
            }
            match node.kind.core() {
                Some(core) if core.is_structured() => here = self.walk_structured_op(op, core, here)?,
                Some(core) if node.kind.is_terminator() => {
                    self.record_exit(op, core, here);
                    here.reached = false;
                }
                Some(core) => self.set_lattice_values(&node.results, &[self.computed_predicate(core)]),
                None => {}
            }
        }
        while self.changes.len() > outer_changes {
            let Some((bounds, before)) = self.changes.pop() else { break };
            match before {
                Some(before) => self.written_by_loops.insert(bounds, before),
                None => self.written_by_loops.remove(&bounds),
            };
        }
        Ok(here)
    }

    /// Checks that a buffer is written before this access reads it, and records its write.
    fn record_access(&self, buffer: Buffer, access_kind: AccessKind, here: &mut PointState) -> Result<(), String> {
        let buffer_set = self.sets[buffer.0 as usize];
        let written = match access_kind {
            // The MMA reads the accumulator only if `zero_init` is false.
            AccessKind::WritesIf(zero_init) => here.written | self.written_if(zero_init).if_false,
            _ => here.written,
        };
        if access_kind.needs_content() && buffer_set & !written != 0 {
            let why = "no op writes it on some path, and no condition here excludes that path";
            return Err(format!("{buffer} may be read before it is written: {why}"));
        }
        here.written |= if access_kind.writes() { buffer_set } else { 0 };
        Ok(())
    }

    /// Walks the regions of an `if` or a loop. Returns the state after this op.
    fn walk_structured_op(&mut self, op: OpId, core: &Core, here: PointState) -> LocatedResult<PointState> {
        match core.as_structured() {
            Some(StructuredOp::If(branch)) => self.walk_branches(op, branch.cond, branch.regions(), here),
            Some(StructuredOp::Loop(LoopOp { bounds: Some(bounds), init, body: inner })) => {
                let LoopBounds { lower, upper, unsigned, .. } = bounds;
                self.walk_for_loop(op, &ForLoop { lower, upper, unsigned, init, inner }, here)
            }
            Some(StructuredOp::Loop(loop_op)) => self.walk_unbounded_loop(op, loop_op.init, loop_op.body, here),
            None => Ok(here),
        }
    }

    /// Walks both branches of an `if`. Returns the state after the `if`.
    fn walk_branches(
        &mut self,
        op: OpId,
        cond: Value,
        [then, otherwise]: [Region; 2],
        here: PointState,
    ) -> LocatedResult<PointState> {
        let WrittenIf { mut if_true, mut if_false } = self.written_if(cond);
        if let Some((bounds, ran_if)) = self.compared_bounds(cond) {
            let written = self.written_by_loops.get(&bounds).copied().unwrap_or(0);
            *(if ran_if { &mut if_true } else { &mut if_false }) |= written;
        }
        let then_end = self.walk_region(then, PointState { written: here.written | if_true, ..here })?;
        let else_end = self.walk_region(otherwise, PointState { written: here.written | if_false, ..here })?;
        let written = then_end.written & else_end.written;
        let merged = self.merge_exits(op, written);
        Ok(PointState { written: merged.written & written, ..merged })
    }

    /// Walks the body of a `for`. Returns the state after the loop.
    fn walk_for_loop(&mut self, op: OpId, for_loop: &ForLoop<'_>, here: PointState) -> LocatedResult<PointState> {
        let body = self.body;
        let initial_values = self.forwarded_values(for_loop.init, here);
        let args = &body.blocks[body.block_of(for_loop.inner)].args;
        self.counters.insert(args[0], op);
        self.define_carried(op, &args[1..], &initial_values);
        let end = self.walk_region(for_loop.inner, here)?;
        let (last, mut results) = self.end_iteration(op, end, initial_values.len());
        let has_iteration = self.has_iteration(for_loop);
        let runs = has_iteration == Some(true);
        if !runs {
            meet(&mut results, &initial_values);
        }
        if has_iteration.is_none() {
            let bounds = (self.bound_of(for_loop.lower), self.bound_of(for_loop.upper), for_loop.unsigned);
            let before = self.written_by_loops.get(&bounds).copied();
            self.changes.push((bounds, before));
            self.written_by_loops.insert(bounds, before.unwrap_or(0) | last.written);
        }
        self.set_lattice_values(&body.ops[op].results, &results);
        Ok(if runs { last } else { here })
    }

    /// Walks the body of a `loop`. Returns the state after the loop.
    fn walk_unbounded_loop(&mut self, op: OpId, init: &[Value], inner: Region, here: PointState) -> LocatedResult<PointState> {
        let body = self.body;
        let initial_values = self.forwarded_values(init, here);
        self.define_carried(op, &body.blocks[body.block_of(inner)].args, &initial_values);
        let end = self.walk_region(inner, here)?;
        self.end_iteration(op, end, initial_values.len());
        let merged = self.merge_exits(op, end.written);
        Ok(PointState { written: merged.written & end.written, ..merged })
    }

    /// Sets the lattice values of a loop's loop-carried values `args`. Each result is the meet of two lattice values: that of the
    /// initial value, and that which this walk assumes at the end of an iteration.
    fn define_carried(&mut self, op: OpId, args: &[Value], initial_values: &[WrittenIf]) {
        let mut carried = initial_values.to_vec();
        match self.assumed.get(&op) {
            Some(iteration) => meet(&mut carried, &iteration.written_ifs),
            None => meet(
                &mut carried,
                &vec![WrittenIf { if_true: self.assumed_elsewhere, if_false: self.assumed_elsewhere }; initial_values.len()],
            ),
        }
        self.set_lattice_values(args, &carried);
    }

    /// Records the state at the end of an iteration, merged over all `continue` ops of the loop. Returns this state and the lattice
    /// values of the loop-carried values, which also hold after the last iteration. `count` is the number of loop-carried values.
    fn end_iteration(&mut self, op: OpId, end: PointState, count: usize) -> (PointState, Vec<WrittenIf>) {
        let unreachable_path =
            || MergedPaths { state: PointState { reached: false, ..end }, written_ifs: vec![WrittenIf::default(); count] };
        let MergedPaths { state, written_ifs } = self.iteration_ends.remove(&op).unwrap_or_else(unreachable_path);
        self.computed.insert(op, IterationState { written: state.written, written_ifs: written_ifs.clone() });
        (state, written_ifs)
    }

    /// Merges the paths that leave an op, and defines its results. Without such paths, the code after the op is unreachable, and
    /// `written` has its written buffers.
    fn merge_exits(&mut self, op: OpId, written: BufferSet) -> PointState {
        let results = &self.body.ops[op].results;
        let unreachable_path = || MergedPaths {
            state: PointState { written, reached: false },
            written_ifs: vec![WrittenIf::default(); results.len()],
        };
        let MergedPaths { state, written_ifs } = self.exits.remove(&op).unwrap_or_else(unreachable_path);
        self.set_lattice_values(results, &written_ifs);
        state
    }

    /// Adds the path of a terminator to the paths that leave or continue its target.
    fn record_exit(&mut self, op: OpId, core: &Core, here: PointState) {
        let (Core::Yield { values } | Core::Continue { values } | Core::Break { values }) = core else { return };
        let Some(target) = self.nesting.target[op.0 as usize] else { return };
        let path = MergedPaths { state: here, written_ifs: self.forwarded_values(values, here) };
        let paths = if matches!(core, Core::Continue { .. }) { &mut self.iteration_ends } else { &mut self.exits };
        match paths.get_mut(&target) {
            Some(merged) => merged.merge(path),
            None => _ = paths.insert(target, path),
        }
    }

    /// The lattice values of values that a terminator forwards at the point `here`. The buffers written at this point are added to
    /// both sets of each lattice value.
    fn forwarded_values(&self, values: &[Value], here: PointState) -> Vec<WrittenIf> {
        let add_written =
            |WrittenIf { if_true, if_false }| WrittenIf { if_true: if_true | here.written, if_false: if_false | here.written };
        values.iter().map(|value| add_written(self.written_if(*value))).collect()
    }

    /// The buffers written if a predicate is true, and if it is false.
    fn written_if(&self, value: Value) -> WrittenIf {
        self.written_ifs[value.0 as usize]
    }

    /// Sets the lattice value of each value in `values`.
    fn set_lattice_values(&mut self, values: &[Value], written_ifs: &[WrittenIf]) {
        values.iter().zip(written_ifs).for_each(|(value, written_if)| self.written_ifs[value.0 as usize] = *written_if);
    }

    /// The lattice value of the result of a core op.
    fn computed_predicate(&self, core: &Core) -> WrittenIf {
        match core {
            Core::Constant { value: Dense::Splat(0) } => WrittenIf { if_true: ALL_BUFFERS, if_false: 0 },
            Core::Constant { value: Dense::Splat(_) } => WrittenIf { if_true: 0, if_false: ALL_BUFFERS },
            Core::Assume { value, .. } => self.written_if(*value),
            Core::Select { cond, yes, no } => {
                let [cond, yes, no] = [cond, yes, no].map(|value| self.written_if(*value));
                WrittenIf {
                    if_true: (cond.if_true | yes.if_true) & (cond.if_false | no.if_true),
                    if_false: (cond.if_true | yes.if_false) & (cond.if_false | no.if_false),
                }
            }
            Core::Compare { kind: Compare::Int { predicate, .. }, lhs, rhs } => {
                let earlier = self.written_before_later_iterations(*lhs, *rhs) | self.written_before_later_iterations(*rhs, *lhs);
                match predicate {
                    Predicate::Equal => WrittenIf { if_true: 0, if_false: earlier },
                    Predicate::NotEqual => WrittenIf { if_true: earlier, if_false: 0 },
                    _ => WrittenIf::default(),
                }
            }
            _ => WrittenIf::default(),
        }
    }

    /// The buffers that are written before every iteration except the first, if `counter` is the index of a loop whose lower bound
    /// is `from`. Otherwise empty.
    fn written_before_later_iterations(&self, counter: Value, from: Value) -> BufferSet {
        let Some(op) = self.counters.get(&counter) else { return 0 };
        let Some(bounds) = self.body.ops[*op].kind.core().and_then(Core::loop_bounds) else { return 0 };
        if self.bound_of(bounds.lower) != self.bound_of(from) {
            return 0;
        }
        self.assumed.get(op).map_or(self.assumed_elsewhere, |iteration| iteration.written)
    }

    /// The loop bounds that a predicate compares, and the value of the predicate (true or false) that means lower < upper. `None`
    /// if the predicate is not an integer comparison with an order.
    fn compared_bounds(&self, cond: Value) -> Option<(TripTestBounds, bool)> {
        let core = self.body.ops[self.body.defining_op(cond)?].kind.core()?;
        let Core::Compare { kind: Compare::Int { predicate, signedness }, lhs, rhs } = core else { return None };
        let (lower, upper, ran_if) = match predicate {
            Predicate::LessThan => (lhs, rhs, true),
            Predicate::GreaterThan => (rhs, lhs, true),
            Predicate::GreaterThanOrEqual => (lhs, rhs, false),
            Predicate::LessThanOrEqual => (rhs, lhs, false),
            Predicate::Equal | Predicate::NotEqual => return None,
        };
        Some(((self.bound_of(*lower), self.bound_of(*upper), *signedness == Signedness::Unsigned), ran_if))
    }

    /// Returns whether a loop runs an iteration; `None` if a bound is not constant.
    fn has_iteration(&self, for_loop: &ForLoop<'_>) -> Option<bool> {
        let (Bound::Constant(lower), Bound::Constant(upper)) = (self.bound_of(for_loop.lower), self.bound_of(for_loop.upper))
        else {
            return None;
        };
        let scalar = self.body.ty(for_loop.lower).elem()?.scalar()?;
        Some(if for_loop.unsigned { lower < upper } else { scalar.sign_extend(lower) < scalar.sign_extend(upper) })
    }

    /// A loop bound: its number if a constant defines it, otherwise the SSA value.
    fn bound_of(&self, value: Value) -> Bound {
        let Def::Result { op, .. } = self.body.values[value].def else { return Bound::Variable(value) };
        match self.body.ops[op].kind.core() {
            Some(Core::Constant { value: Dense::Splat(bits) }) => Bound::Constant(*bits),
            _ => Bound::Variable(value),
        }
    }
}
