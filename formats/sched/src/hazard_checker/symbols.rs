//! Symbols for the scalars that an abstract execution cannot compute, and the outcomes of conditions on them.
//!
//! Two values have one symbol if equal ops compute them from equal operands. A load counts as such an op unless tokens order it
//! with a write of the kernel. So warp roles that repeat a load and the computation of a condition share the condition's symbol.
//! The execution gives the symbol one outcome for all of them. A value that the checker cannot follow has a symbol of its own each
//! time it is computed.
//!
//! See also: value numbering, and the path conditions of symbolic execution.

use super::scalars::{Known, Scalars};
use crate::module::WarpRole;
use crate::{Function, Op};
use base::Value;
use base::ir::{Op as OpId, Operation};
use std::collections::BTreeMap;
use tileas::Type;
use tileas::effects::AccessKind;

/// An unknown value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Symbol(u32);

/// The computation that a symbol stands for.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    /// A result of an op, which `Symbols::kinds` numbers.
    Computed { kind: u32, operands: Vec<Option<Known>>, result: usize },
    /// The result of a condition that selects one of two values.
    Selected { cond: Known, one: Known, other: Known },
    /// A value of a warp role that the checker cannot follow, and how often the role has computed it before.
    Unknown { warp_role: WarpRole, value: Value, before: u32 },
}

/// The symbols of a function.
#[derive(Default)]
pub(super) struct Symbols {
    symbols: BTreeMap<Origin, Symbol>,
    /// The ops without their operands, as text, and the number of each op's text.
    texts: BTreeMap<String, u32>,
    kinds: BTreeMap<OpId, Option<u32>>,
    computed: BTreeMap<(WarpRole, Value), u32>,
}

impl Symbols {
    /// Starts another execution of the function.
    pub(super) fn restart(&mut self) {
        self.computed.clear();
    }

    fn symbol(&mut self, origin: Origin) -> Symbol {
        let next = Symbol(self.symbols.len() as u32);
        *self.symbols.entry(origin).or_insert(next)
    }

    /// The symbol of a value that the checker cannot follow.
    pub(super) fn unknown(&mut self, warp_role: WarpRole, value: Value) -> Symbol {
        let before = self.computed.entry((warp_role, value)).or_default();
        let origin = Origin::Unknown { warp_role, value, before: *before };
        *before += 1;
        self.symbol(origin)
    }

    /// The value of a condition's result, from the values of both paths.
    pub(super) fn selected(&mut self, cond: Known, one: Known, other: Known) -> Known {
        if one == other { one } else { Known::Symbol(self.symbol(Origin::Selected { cond, one, other })) }
    }

    /// The symbols of an op's results. None if the op is no function of operands that the checker follows.
    pub(super) fn results(&mut self, function: &Function, op: OpId, scalars: &Scalars<'_>) -> Vec<Option<Known>> {
        let node = &function.body.ops[op];
        let kind = match self.kinds.get(&op) {
            Some(kind) => *kind,
            None => {
                let kind = text(&node.kind).map(|text| {
                    let next = self.texts.len() as u32;
                    *self.texts.entry(text).or_insert(next)
                });
                self.kinds.insert(op, kind);
                kind
            }
        };
        let Some(kind) = kind else { return Vec::new() };
        let mut operands = Vec::new();
        for value in node.kind.operands() {
            match function.body.ty(value) {
                // Loads that tokens order with writes have no symbols, and others do not depend on tokens.
                Type::Token => operands.push(None),
                _ => match scalars.known(&value) {
                    Some(known) => operands.push(Some(known)),
                    None => return Vec::new(),
                },
            }
        }
        let origin = |result| Origin::Computed { kind, operands: operands.clone(), result };
        (0..node.results.len()).map(|result| Some(Known::Symbol(self.symbol(origin(result))))).collect()
    }
}

/// An op without its operands, as text; none if equal operands do not imply equal results.
fn text(kind: &Op) -> Option<String> {
    let effects = kind.effects();
    let reads = effects.global.as_ref().is_some_and(|access| {
        access.access_kind == AccessKind::Reads && access.order.scope.is_none() && effects.buffers.is_empty()
    });
    if !(kind.is_pure() || reads) || !kind.regions().is_empty() {
        return None;
    }
    let mut kind = kind.clone();
    kind.for_each_operand_mut(&mut |value| *value = Value(0));
    Some(format!("{kind:?}"))
}

/// The outcomes of the conditions in one execution. The first conditions have the outcomes of a word, and later ones repeat it.
pub(super) struct Outcomes {
    word: Vec<bool>,
    /// Length of the words. Every sequence of this many outcomes is executed.
    length: usize,
    decided: BTreeMap<Symbol, bool>,
}

impl Outcomes {
    /// Conditions after which outcomes alternate, so that no loop runs forever.
    const ALTERNATING: usize = 16;

    pub(super) fn first(length: usize) -> Outcomes {
        Outcomes { word: Vec::new(), length, decided: BTreeMap::new() }
    }

    /// The outcomes of the next execution; none after the last one.
    pub(super) fn next(mut self) -> Option<Outcomes> {
        self.word.resize(self.decided.len().min(self.length), false);
        while self.word.pop()? {}
        self.word.push(true);
        Some(Outcomes { decided: BTreeMap::new(), ..self })
    }

    /// Returns whether a condition with this symbol holds. Without `decides`, only if another condition has decided it.
    pub(super) fn of(&mut self, symbol: Symbol, decides: bool) -> Option<bool> {
        if let Some(taken) = self.decided.get(&symbol) {
            return Some(*taken);
        }
        if !decides {
            return None;
        }
        let at = self.decided.len();
        let taken = match at {
            Outcomes::ALTERNATING.. => at % 2 == 1,
            _ => self.word.get(at % self.length).copied().unwrap_or(false),
        };
        self.decided.insert(symbol, taken);
        Some(taken)
    }
}
