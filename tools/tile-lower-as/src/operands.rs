//! Follows values from loads to MMAs and back, through permutes, reshapes and elementwise ops. Most of these searches end after
//! [`MAX_BETWEEN`] ops. All passes use these functions, so that the passes agree on the producer and the consumers of a tile.

use crate::access_layouts::Accesses;
use base::Value;
use base::ir::{Op as OpId, Operation};
use core_dialect::core_ops::Core;
use std::collections::{BTreeSet, VecDeque};
use tileaa::{Function, Op};
use tileas::layout::Strides;

/// Maximum number of ops between a load and an MMA that a search follows.
pub(crate) const MAX_BETWEEN: u32 = 8;

/// A permute, reshape or conversion between a load and an MMA.
pub(crate) struct OperandStep<'a> {
    /// The operand of the permute, reshape or conversion.
    pub(crate) from: Value,
    /// Whether the op is a permute, a reshape or a conversion.
    pub(crate) step_kind: StepKind<'a>,
}

/// The kind of an [`OperandStep`].
pub(crate) enum StepKind<'a> {
    /// A permute, with its order of dimensions.
    Permuted(&'a [u32]),
    /// A reshape.
    Reshaped,
    /// A conversion of the element type.
    Converted,
}

/// The permute, reshape or conversion that defines a value. `None` if another op or no op defines it.
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

/// The left operand, right operand and accumulator of an MMA.
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

/// The load from whose result permutes and reshapes compute a tile. `None` if the tile does not come from a load in this way.
pub(crate) fn defining_load(function: &Function, value: Value) -> Option<OpId> {
    let op = function.body.defining_op(rearranged_source(function, value))?;
    matches!(function.body.ops[op].kind, Op::LoadView { .. } | Op::Load { .. }).then_some(op)
}

/// Whether elementwise ops compute a tile from an MMA's result, or an MMA computes it.
pub(crate) fn comes_from_mma(function: &Function, value: Value) -> bool {
    producing_mma(function, value).is_some()
}

/// The MMA that computes a tile, or from whose result elementwise ops compute it. `None` if the search finds no such MMA.
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

/// The basis (step of the linear element index) to the element that is next in memory, for a tile that comes from a load. `None` if
/// no planned access is found.
pub(crate) fn contiguous_basis(function: &Function, accesses: &Accesses, value: Value) -> Option<u32> {
    contiguous_basis_within(function, accesses, value, MAX_BETWEEN)
}

/// [`contiguous_basis`] with a search through at most `max_steps` ops.
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

/// The MMAs in all pairs in which elementwise ops compute the left operand of one MMA from the result of the other, as in
/// attention. If each warp has full rows of both MMAs, this operand stays in registers, and reductions along rows stay within a
/// warp.
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
                // The accumulator operand may come from another MMA for the same rows, which is chained, too.
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

/// By value id, whether all uses of the value are left or right operands of MMAs. Also true for a value without uses.
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

/// The MMAs without scales of a function, in program order.
pub(crate) fn unscaled_mmas(function: &Function) -> Vec<OpId> {
    let is_plain = |op: &OpId| matches!(function.body.ops[*op].kind, Op::Mma { .. });
    function.body.walk(function.region).into_iter().filter(is_plain).collect()
}

/// The MMAs with scales of a function, in program order.
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

    /// The ops that use a value, once for each use.
    pub(crate) fn users(&self, value: Value) -> &[OpId] {
        &self.users[value.0 as usize]
    }

    /// The ops that use a value directly or through permutes, reshapes and elementwise ops, without these intermediate ops. On a
    /// path of more than `MAX_BETWEEN` intermediate ops, the result contains the op at which the search ends.
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
