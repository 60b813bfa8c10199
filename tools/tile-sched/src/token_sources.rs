//! Follows tokens back to the accesses from which they derive.

use base::Value;
use base::ir::{Def, Op as OpId, Operation};
use core_dialect::core_ops::Core;
use core_dialect::region_nesting::RegionNesting;
use sched::Function;
use std::collections::BTreeSet;

/// The accesses that some tokens order before their users. [`TokenSources::follow`] adds the accesses of one token.
pub(crate) struct TokenSources<'a> {
    function: &'a Function,
    nesting: RegionNesting,
    /// The followed tokens, and all tokens from which they derive.
    pub(crate) seen: BTreeSet<Value>,
    /// The accesses that precede the followed tokens.
    pub(crate) accesses: BTreeSet<OpId>,
    /// Whether one of `accesses` writes, or has a memory scope.
    has_write_or_scoped_access: bool,
    /// Whether a followed token comes from an op through which the analysis cannot follow tokens. `accesses` is then incomplete.
    pub(crate) is_incomplete: bool,
}

impl<'a> TokenSources<'a> {
    pub(crate) fn new(function: &'a Function) -> TokenSources<'a> {
        let nesting = RegionNesting::analyse(&function.body, function.region);
        TokenSources {
            function,
            nesting,
            seen: BTreeSet::new(),
            accesses: BTreeSet::new(),
            has_write_or_scoped_access: false,
            is_incomplete: false,
        }
    }

    /// Returns whether a token orders its users only after loads.
    pub(crate) fn orders_after_loads_only(function: &'a Function, token: Value) -> bool {
        let mut sources = TokenSources::new(function);
        sources.follow(token);
        !sources.has_write_or_scoped_access && !sources.is_incomplete
    }

    /// Follows a token back to the accesses from which it derives, and adds these accesses.
    pub(crate) fn follow(&mut self, token: Value) {
        let mut work = vec![token];
        while let Some(token) = work.pop() {
            if self.seen.insert(token) {
                work.extend(self.source_tokens(token));
            }
        }
    }

    /// The tokens from which a token directly derives. If an access produces the token, records the access.
    fn source_tokens(&mut self, token: Value) -> Vec<Value> {
        let body = &self.function.body;
        let (op, index, is_argument) = match body.values[token].def {
            Def::Result { op, index } => (Some(op), index as usize, false),
            Def::Argument { block, index } => (self.nesting.enclosing_op(block), index as usize, true),
        };
        let Some(op) = op else { return Vec::new() };
        let ended_with = |index: usize, exit: fn(&Core) -> bool| {
            let ends = self.nesting.terminators(op).iter().map(|end| &body.ops[*end].kind);
            let ends = ends.filter(move |end| end.core().is_some_and(exit));
            ends.filter_map(|end| end.operands().get(index).copied()).collect::<Vec<_>>()
        };
        let is_continue = |core: &Core| matches!(core, Core::Continue { .. });
        let kind = &body.ops[op].kind;
        match kind.core() {
            Some(Core::MakeToken {}) => Vec::new(),
            Some(Core::JoinTokens { tokens }) => tokens.clone(),
            Some(core) if core.is_for() || core.is_loop() && is_argument => {
                let loop_op = core.as_loop().expect("the op is a loop");
                let index = if is_argument { index.saturating_sub(loop_op.counter_args()) } else { index };
                loop_op.init.get(index).copied().into_iter().chain(ended_with(index, is_continue)).collect()
            }
            Some(core) if core.is_loop() => ended_with(index, |core| matches!(core, Core::Break { .. })),
            Some(core) if core.is_if() => ended_with(index, |core| matches!(core, Core::Yield { .. })),
            Some(_) => {
                self.is_incomplete = true;
                Vec::new()
            }
            None => {
                let access = kind.effects().global;
                self.accesses.insert(op);
                self.has_write_or_scoped_access |=
                    access.is_none_or(|access| access.access_kind.writes() || access.order.scope.is_some());
                access.and_then(|access| access.token).into_iter().collect()
            }
        }
    }
}
