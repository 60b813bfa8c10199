//! Symbols for the scalars that an abstract execution cannot compute, and the outcomes of conditions on them.
//!
//! Two values have one symbol if equal ops compute them from equal operands. A load counts as such an op unless tokens order it
//! with a write of the kernel. Warp roles that repeat a load and the computation of a condition therefore share the condition's
//! symbol. An execution gives the condition one outcome in all these roles. The checker cannot follow some values. Such a value
//! gets a new symbol each time a role computes the value.
//!
//! See also: value numbering, and the path conditions of symbolic execution.

use super::scalars::{ScalarValue, Scalars};
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
    /// The result with index `result` of an op. `kind` is the number of the op's text (`Symbols::op_texts`).
    Computed { kind: u32, operands: Vec<Option<ScalarValue>>, result: usize },
    /// The result of a condition that selects one of two values.
    Selected { cond: ScalarValue, one: ScalarValue, other: ScalarValue },
    /// A value that the checker cannot follow. `before` is how often the role has computed the value before.
    Unknown { warp_role: WarpRole, value: Value, before: u32 },
}

/// The symbols of a function.
#[derive(Default)]
pub(super) struct Symbols {
    /// The symbol of each origin.
    symbols: BTreeMap<Origin, Symbol>,
    /// The number of each op text. The text of an op omits the operands.
    op_texts: BTreeMap<String, u32>,
    /// For each op, the number of its text; `None` if equal operands do not imply equal results.
    kinds: BTreeMap<OpId, Option<u32>>,
    /// How often each warp role has computed a value that the checker cannot follow.
    times_computed: BTreeMap<(WarpRole, Value), u32>,
}

impl Symbols {
    /// Starts another execution of the function.
    pub(super) fn start_execution(&mut self) {
        self.times_computed.clear();
    }

    fn symbol_of(&mut self, origin: Origin) -> Symbol {
        let next = Symbol(self.symbols.len() as u32);
        *self.symbols.entry(origin).or_insert(next)
    }

    /// The symbol of a value that the checker cannot follow.
    pub(super) fn unknown_symbol(&mut self, warp_role: WarpRole, value: Value) -> Symbol {
        let before = self.times_computed.entry((warp_role, value)).or_default();
        let origin = Origin::Unknown { warp_role, value, before: *before };
        *before += 1;
        self.symbol_of(origin)
    }

    /// The value of a result of an `if` with the condition `cond`, from the values that both paths forward.
    pub(super) fn selected_value(&mut self, cond: ScalarValue, one: ScalarValue, other: ScalarValue) -> ScalarValue {
        if one == other { one } else { ScalarValue::Symbol(self.symbol_of(Origin::Selected { cond, one, other })) }
    }

    /// The symbols of an op's results. Empty if the op may give different results for equal operands, or if an operand is unknown.
    pub(super) fn result_symbols(&mut self, function: &Function, op: OpId, scalars: &Scalars<'_>) -> Vec<Option<ScalarValue>> {
        let node = &function.body.ops[op];
        let kind = match self.kinds.get(&op) {
            Some(kind) => *kind,
            None => {
                let kind = text_without_operands(&node.kind).map(|text| {
                    let next = self.op_texts.len() as u32;
                    *self.op_texts.entry(text).or_insert(next)
                });
                self.kinds.insert(op, kind);
                kind
            }
        };
        let Some(kind) = kind else { return Vec::new() };
        let mut operands = Vec::new();
        for value in node.kind.operands() {
            match function.body.ty(value) {
                // The result of a load does not depend on its token: loads that tokens order with writes have no symbol.
                Type::Token => operands.push(None),
                _ => match scalars.value(&value) {
                    Some(known) => operands.push(Some(known)),
                    None => return Vec::new(),
                },
            }
        }
        let origin = |result| Origin::Computed { kind, operands: operands.clone(), result };
        (0..node.results.len()).map(|result| Some(ScalarValue::Symbol(self.symbol_of(origin(result))))).collect()
    }
}

/// An op without its operands, as text. `None` if equal operands do not imply equal results.
fn text_without_operands(kind: &Op) -> Option<String> {
    let effects = kind.effects();
    let is_weak_load = effects.global.as_ref().is_some_and(|access| {
        access.access_kind == AccessKind::Reads && access.order.scope.is_none() && effects.buffers.is_empty()
    });
    if !(kind.is_pure() || is_weak_load) || !kind.regions().is_empty() {
        return None;
    }
    let mut kind = kind.clone();
    kind.for_each_operand_mut(&mut |value| *value = Value(0));
    Some(format!("{kind:?}"))
}

/// The outcomes of the conditions in one execution. The first conditions have the outcomes of a sequence, and later conditions
/// repeat the sequence.
pub(super) struct Outcomes {
    /// The outcomes of the first conditions in this execution.
    sequence: Vec<bool>,
    /// The checker executes every sequence of this many outcomes.
    length: usize,
    /// The outcomes of the conditions that the execution has evaluated.
    decided: BTreeMap<Symbol, bool>,
}

impl Outcomes {
    /// The number of conditions after which outcomes alternate, so that no loop runs forever.
    const ALTERNATING: usize = 16;

    pub(super) fn first_execution(length: usize) -> Outcomes {
        Outcomes { sequence: Vec::new(), length, decided: BTreeMap::new() }
    }

    /// The outcomes of the next execution; `None` after the last execution.
    pub(super) fn next_execution(mut self) -> Option<Outcomes> {
        self.sequence.resize(self.decided.len().min(self.length), false);
        while self.sequence.pop()? {}
        self.sequence.push(true);
        Some(Outcomes { decided: BTreeMap::new(), ..self })
    }

    /// Returns whether a condition with this symbol is true. A symbol without an outcome gets the next outcome of the sequence if
    /// the condition decides pipeline steps (`decides_steps`). Otherwise the result is `None`.
    pub(super) fn outcome_of(&mut self, symbol: Symbol, decides_steps: bool) -> Option<bool> {
        if let Some(outcome) = self.decided.get(&symbol) {
            return Some(*outcome);
        }
        if !decides_steps {
            return None;
        }
        let position = self.decided.len();
        let outcome = match position {
            Outcomes::ALTERNATING.. => position % 2 == 1,
            _ => self.sequence.get(position % self.length).copied().unwrap_or(false),
        };
        self.decided.insert(symbol, outcome);
        Some(outcome)
    }
}
