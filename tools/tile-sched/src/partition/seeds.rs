//! Which agent does what: an op that does more than compute has one agent, by what it does.

use super::Why;
use super::slice::Slice;
use crate::boxes;
use base::ir::{Def, Op as OpId, Operation};
use base::{Region, Value};
use sched::{Agent, Fill, Function, Op};
use std::collections::BTreeSet;
use tileas::Type;
use vocabulary::core_ops::{Core, Effect};

/// What an agent is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Everything that no other does.
    Compute,
    /// Asks for boxes.
    Load,
    /// Has given up its registers, and nothing to do.
    Idle,
}

impl Role {
    /// Agents have the order of the roles.
    pub(super) fn agent(self) -> Agent {
        Agent(self as u32)
    }
    pub(super) fn name(self) -> &'static str {
        match self {
            Role::Compute => "compute",
            Role::Load => "load",
            Role::Idle => "idle",
        }
    }

    /// Whose an op is; none of an op that only computes or branches, which each executes that needs it.
    pub(super) fn of(function: &Function, kind: &Op) -> Option<Role> {
        let by_boxes = |pipe| function.attrs.pipes[pipe].fill == Fill::Boxes;
        match kind {
            Op::PipeAcquire { pipe, .. } | Op::PipeCommit { pipe, .. } if by_boxes(*pipe) => Some(Role::Load),
            _ if boxes::filled(kind).is_some() => Some(Role::Load),
            _ if kind.is_pure() || matches!(kind.effects().other, Effect::Branches | Effect::Leaves) => None,
            _ => Some(Role::Compute),
        }
    }
}

/// What keeps a function from being divided, whoever does what.
pub(super) fn check(function: &Function) -> Result<(), Why> {
    let body = &function.body;
    let all = body.walk(function.region);
    let copies: Vec<OpId> = all.iter().copied().filter(|op| boxes::filled(&body.ops[*op].kind).is_some()).collect();
    if copies.is_empty() {
        return Err("the copy engine has nothing to do".into());
    }
    let last = body.terminator(function.entry());
    for &op in &all {
        let kind = &body.ops[op].kind;
        if matches!(kind.core(), Some(Core::Return {})) && Some(op) != last {
            return Err("it returns before its end".into());
        }
        match kind.effects().other {
            Effect::Allocates => return Err("it takes memory of the block's own".into()),
            Effect::Orders => return Err(format!("{} orders what all agents do", kind.mnemonic())),
            _ => {}
        }
    }
    for op in copies {
        let token = body.ops[op].kind.effects().global.and_then(|access| access.token);
        if token.is_some_and(|token| !Order { function, seen: BTreeSet::new() }.is_of_loads(token)) {
            return Err("a copy is ordered behind something else than loads".into());
        }
    }
    Ok(())
}

/// Follows tokens to what they order.
struct Order<'a> {
    function: &'a Function,
    seen: BTreeSet<Value>,
}

impl Order<'_> {
    /// Whether nothing but loads has to come before.
    fn is_of_loads(&mut self, token: Value) -> bool {
        let body = &self.function.body;
        if !self.seen.insert(token) {
            return true;
        }
        let ends = |region: Region| {
            body.terminator(body.block_of(region)).filter(|end| !matches!(body.ops[*end].kind.core(), Some(Core::Return {})))
        };
        let (op, carried) = match body.values[token].def {
            Def::Result { op, index } => (op, index as usize),
            Def::Argument { block, index } => {
                let around = |op: &OpId| body.ops[*op].kind.regions().iter().any(|region| body.block_of(*region) == block);
                let Some(op) = body.ops.ids().find(around) else { return false };
                match (body.ops[op].kind.core(), index as usize) {
                    (Some(Core::For { .. }), index) if index > 0 => (op, index - 1),
                    _ => return false,
                }
            }
        };
        let kind = &body.ops[op].kind;
        let from: Vec<Value> = match kind.core() {
            Some(Core::MakeToken {}) => Vec::new(),
            Some(Core::JoinTokens { tokens }) => tokens.clone(),
            Some(Core::For { init, body: region, .. }) => {
                let next = ends(*region).map(|end| body.ops[end].kind.operands()[carried]);
                init.get(carried).copied().into_iter().chain(next).collect()
            }
            Some(Core::If { then, otherwise, .. }) => {
                [then, otherwise].into_iter().filter_map(|region| Some(body.ops[ends(*region)?].kind.operands()[carried])).collect()
            }
            Some(_) => return false,
            None => match kind.effects().global {
                Some(access) if access.order.scope.is_none() && !access.does.writes() => access.token.into_iter().collect(),
                _ => return false,
            },
        };
        from.into_iter().all(|token| self.is_of_loads(token))
    }
}

/// An agent beside the one that computes has no tiles, and looks at no memory.
pub(super) fn is_scalar(function: &Function, slice: &Slice) -> Result<(), Why> {
    let body = &function.body;
    for op in slice.ops() {
        let node = &body.ops[op];
        let tile = |value: &Value| matches!(body.ty(*value), Type::Tile { .. });
        let foreign = Role::of(function, &node.kind).is_some_and(|role| role != slice.role());
        let of = || if node.kind.effects().global.is_some() { "memory" } else { "a tile" };
        if foreign || node.results.iter().any(|value| tile(value) && slice.has(*value)) {
            return Err(format!("the place or time of a copy depends on {}", of()));
        }
    }
    Ok(())
}
