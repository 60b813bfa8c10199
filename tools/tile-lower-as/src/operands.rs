//! Follows values between loads and MMAs in both directions, through permutes, reshapes and elementwise ops. Most of these searches
//! end after [`MAX_BETWEEN`] ops. All passes use these functions, so that they agree on the producer and the consumers of a tile.

use crate::access_layouts::Accesses;
use base::Value;
use base::ir::{Op as OpId, Operation};
use core_dialect::core_ops::Core;
use std::collections::{BTreeSet, VecDeque};
use tileaa::{Function, Op};
use tileas::layout::Strides;

/// Maximum ops that a search follows between a load and an MMA.
pub(crate) const MAX_BETWEEN: u32 = 8;

/// A permute, reshape or conversion between a load and an MMA: its kind and its operand.
pub(crate) struct OperandStep<'a> {
    /// The operand of the step.
    pub(crate) from: Value,
    pub(crate) step_kind: StepKind<'a>,
}

/// The kind of an [`OperandStep`]. A permute has its dimension order.
pub(crate) enum StepKind<'a> {
    /// A permute, with its order of dimensions.
    Permuted(&'a [u32]),
    /// A reshape.
    Reshaped,
    /// A conversion of the element type.
    Converted,
}

/// The step that defines a value, if any.
pub(crate) fn defining_step(function: &Function, value: Value) -> Option<OperandStep<'_>> {
    let op = function.body.defining_op(value)?;
    let (from, step_kind) = match &function.body.ops[op].kind {
        Op::Core(Core::Permute { x, order }) => (*x, StepKind::Permuted(order)),
        Op::Core(Core::Reshape { x }) => (*x, StepKind::Reshaped),
        Op::Core(Core::Convert { x, .. }) => (*x, StepKind::Converted),
        _ => return None,
    };
    Some(OperandStep { from, step_kind })
}

/// The operands and the accumulator of an MMA.
pub(crate) fn mma_operands(function: &Function, op: OpId) -> [Value; 3] {
    match function.body.ops[op].kind {
        Op::Mma { lhs, rhs, acc, .. } | Op::MmaScaled { lhs, rhs, acc, .. } => [lhs, rhs, acc],
        _ => unreachable!("called for MMA ops only"),
    }
}

/// The tile from which permutes and reshapes compute a value; the value itself if there are none.
pub(crate) fn rearranged_source(function: &Function, mut value: Value) -> Value {
    while let Some(OperandStep { from, step_kind: StepKind::Permuted(_) | StepKind::Reshaped }) = defining_step(function, value) {
        value = from;
    }
    value
}

/// The load that defines a tile, possibly through permutes and reshapes.
pub(crate) fn defining_load(function: &Function, value: Value) -> Option<OpId> {
    let op = function.body.defining_op(rearranged_source(function, value))?;
    matches!(function.body.ops[op].kind, Op::LoadView { .. } | Op::Load { .. }).then_some(op)
}

/// Whether a tile is an elementwise function of an MMA's result.
pub(crate) fn comes_from_mma(function: &Function, value: Value) -> bool {
    producing_mma(function, value).is_some()
}

/// The MMA from whose result elementwise ops compute a tile.
pub(crate) fn producing_mma(function: &Function, value: Value) -> Option<OpId> {
    let body = &function.body;
    let (mut seen, mut work) = (BTreeSet::new(), VecDeque::from([(value, 0)]));
    while let Some((value, between)) = work.pop_front() {
        let Some(op) = body.defining_op(value).filter(|op| seen.insert(*op)) else { continue };
        match &body.ops[op].kind {
            Op::Mma { .. } | Op::MmaScaled { .. } => return Some(op),
            Op::Core(core) if core.is_elementwise() && between < MAX_BETWEEN => {
                work.extend(core.operands().into_iter().map(|operand| (operand, between + 1)));
            }
            _ => {}
        }
    }
    None
}

/// The basis of the dimension along which a tile that comes from a load is contiguous in memory.
pub(crate) fn contiguous_basis(function: &Function, accesses: &Accesses, value: Value) -> Option<u32> {
    contiguous_basis_within(function, accesses, value, MAX_BETWEEN)
}

/// [`contiguous_basis`], following at most `max_steps` ops.
fn contiguous_basis_within(function: &Function, accesses: &Accesses, value: Value, max_steps: u32) -> Option<u32> {
    let body = &function.body;
    if let Some(access) = accesses.get(body.defining_op(value)?) {
        return access.order.first().map(|bit| 1 << bit);
    }
    let of_operand = |x: Value| contiguous_basis_within(function, accesses, x, max_steps.checked_sub(1)?);
    match defining_step(function, value) {
        Some(OperandStep { from: x, step_kind: StepKind::Permuted(order) }) => {
            let basis = of_operand(x)?;
            let (from, to) = (body.ty(x).tile()?.1, body.ty(value).tile()?.1);
            let (from, to) = (Strides::for_shape(from), Strides::for_shape(to));
            let moved = |(dim, source): (usize, &u32)| from.coordinate(basis, *source as usize) << to.shift[dim];
            Some(order.iter().enumerate().map(moved).sum())
        }
        Some(OperandStep { from, .. }) => of_operand(from),
        None => match &body.ops[body.defining_op(value)?].kind {
            Op::Core(core) if core.is_elementwise() => core.operands().into_iter().find_map(of_operand),
            _ => None,
        },
    }
}

/// All MMAs of pairs in which elementwise ops compute the left operand of the second MMA from the result of the first MMA. If each
/// warp has full rows of both MMAs, the operand stays in registers and row reductions stay in a warp.
pub(crate) fn chained_mmas(function: &Function) -> BTreeSet<OpId> {
    let body = &function.body;
    let mut chained = BTreeSet::new();
    for op in body.walk(function.region) {
        let Op::Mma { lhs, .. } = &body.ops[op].kind else { continue };
        let mut seen = BTreeSet::new();
        let mut work = vec![*lhs];
        while let Some(from) = work.pop().and_then(|value| body.defining_op(value)) {
            if !seen.insert(from) {
                continue;
            }
            match &body.ops[from].kind {
                // The accumulator operand comes from another MMA for the same rows.
                Op::Mma { acc, .. } => {
                    chained.extend([op, from]);
                    work.push(*acc);
                }
                Op::Core(core) if core.is_elementwise() => work.extend(core.operands()),
                _ => {}
            }
        }
    }
    chained
}

/// For each value, whether all its uses are left or right operands of MMAs. Also true for a value without uses.
pub(crate) fn used_by_mmas_only(function: &Function) -> Vec<bool> {
    let body = &function.body;
    let mut mma_only = vec![true; body.values.len()];
    for op in body.walk(function.region) {
        let is_mma = is_mma(function, op);
        for (operand_index, value) in body.ops[op].kind.operands().into_iter().enumerate() {
            mma_only[value.0 as usize] &= is_mma && operand_index < 2;
        }
    }
    mma_only
}

/// The unscaled MMAs of a function in program order.
pub(crate) fn unscaled_mmas(function: &Function) -> Vec<OpId> {
    let is_plain = |op: &OpId| matches!(function.body.ops[*op].kind, Op::Mma { .. });
    function.body.walk(function.region).into_iter().filter(is_plain).collect()
}

/// The scaled MMAs of a function in program order.
pub(crate) fn scaled_mmas(function: &Function) -> Vec<OpId> {
    let is_scaled = |op: &OpId| matches!(function.body.ops[*op].kind, Op::MmaScaled { .. });
    function.body.walk(function.region).into_iter().filter(is_scaled).collect()
}

/// Whether an op is an MMA, with or without scales.
pub(crate) fn is_mma(function: &Function, op: OpId) -> bool {
    matches!(function.body.ops[op].kind, Op::Mma { .. } | Op::MmaScaled { .. })
}

/// Def-use chains of a function.
pub(crate) struct Uses<'a> {
    function: &'a Function,
    /// The ops that use each value, by value id.
    users: Vec<Vec<OpId>>,
}

impl<'a> Uses<'a> {
    /// Collects the users of all values of a function.
    pub(crate) fn collect(function: &'a Function) -> Uses<'a> {
        let body = &function.body;
        let mut users = vec![Vec::new(); body.values.len()];
        for op in body.walk(function.region) {
            body.ops[op].kind.for_each_operand(&mut |value| users[value.0 as usize].push(op));
        }
        Uses { function, users }
    }

    /// The users of a value, once for each use.
    pub(crate) fn users(&self, value: Value) -> &[OpId] {
        &self.users[value.0 as usize]
    }

    /// The first users of a value that are not permutes, reshapes or elementwise ops, for example MMAs. The search ends after
    /// `MAX_BETWEEN` ops, and then returns the op at which it ends.
    pub(crate) fn end_users(&self, value: Value) -> Vec<OpId> {
        // Breadth first, so that the shortest path to an op counts.
        let (mut end_users, mut seen, mut work) = (Vec::new(), BTreeSet::new(), VecDeque::from([(value, 0)]));
        while let Some((value, between)) = work.pop_front() {
            for &user in self.users(value).iter().filter(|user| seen.insert(**user)) {
                match self.is_passed_through(user) && between < MAX_BETWEEN {
                    true => work.push_back((self.function.body.result(user), between + 1)),
                    false => end_users.push(user),
                }
            }
        }
        end_users
    }

    /// Whether any end user of a value is an MMA.
    pub(crate) fn reaches_mma(&self, value: Value) -> bool {
        self.end_users(value).into_iter().any(|op| is_mma(self.function, op))
    }
    /// Whether all end users of a value are MMAs.
    pub(crate) fn reaches_only_mmas(&self, value: Value) -> bool {
        self.end_users(value).into_iter().all(|op| is_mma(self.function, op))
    }

    /// Whether a search for end users continues through an op.
    fn is_passed_through(&self, op: OpId) -> bool {
        match &self.function.body.ops[op].kind {
            Op::Core(Core::Permute { .. } | Core::Reshape { .. }) => true,
            Op::Core(core) => core.is_elementwise(),
            _ => false,
        }
    }
}
