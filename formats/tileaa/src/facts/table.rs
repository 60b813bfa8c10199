//! The table of facts in a file. The verifier derives the facts again from the ops, and rejects a table that claims more.

use super::{AxisInfo, Facts, TileFacts, full_range};
use crate::{Function, Op};
use base::Value;
use core_dialect::core_ops::Core;
use serde::{Deserialize, Serialize};

/// The facts about one value that go beyond its type and its defining op.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueFacts {
    pub value: Value,
    /// A divisor of every element, in bytes for pointers; `None` if it is 1.
    pub divisor: Option<u64>,
    /// Bounds of every element, both included; `None` for the full range of the type.
    pub range: Option<(i64, i64)>,
    /// The facts along each dimension; empty if no dimension has facts.
    pub axes: Vec<AxisInfo>,
}

/// Computes the table of facts about the values of a function. It omits the results of `constant` ops, and values without facts.
pub fn derive_table(function: &Function) -> Vec<ValueFacts> {
    let facts = Facts::derive(function);
    let rows = function.body.values.iter().filter_map(|(value, node)| {
        let (elem, _) = node.ty.tile()?;
        let info = facts.info(value)?;
        let op = function.body.defining_op(value).map(|op| &function.body.ops[op].kind);
        if matches!(op, Some(Op::Core(Core::Constant { .. }))) {
            return None;
        }
        let row = ValueFacts {
            value,
            divisor: (info.divisor > 1).then_some(info.divisor),
            range: (info.range != full_range(elem)).then_some(info.range),
            axes: if info.axes.iter().all(|axis| *axis == AxisInfo::UNKNOWN) { Vec::new() } else { info.axes.to_vec() },
        };
        let has_facts = row.divisor.is_some() || row.range.is_some() || !row.axes.is_empty();
        has_facts.then_some(row)
    });
    rows.collect()
}

/// The first value about which a table claims more than the analysis derives; `None` if the analysis derives the full table.
pub(crate) fn first_underivable(function: &Function, table: &[ValueFacts]) -> Option<Value> {
    if table.is_empty() {
        return None;
    }
    let facts = Facts::derive(function);
    let exceeds_analysis = |claim: &&ValueFacts| {
        let in_function = (claim.value.0 as usize) < function.body.values.len();
        !in_function || !facts.info(claim.value).is_some_and(|info| implies(info, claim))
    };
    table.iter().find(exceeds_analysis).map(|claim| claim.value)
}

/// Returns whether the facts that the analysis derives imply a claim.
fn implies(info: &TileFacts, claim: &ValueFacts) -> bool {
    let divisor_holds = claim.divisor.is_none_or(|divisor| divisor.is_power_of_two() && divisor <= info.divisor);
    let range_holds = claim.range.is_none_or(|(low, high)| low <= info.range.0 && info.range.1 <= high);
    let rank_fits = claim.axes.is_empty() || claim.axes.len() == info.axes.len();
    divisor_holds
        && range_holds
        && rank_fits
        && claim.axes.iter().zip(&info.axes).all(|(claim, known)| axis_implies(*known, *claim))
}

/// Whether the facts that are known along a dimension imply the claimed facts.
fn axis_implies(known: AxisInfo, claim: AxisInfo) -> bool {
    [claim.contiguity, claim.divisibility, claim.constancy].iter().all(|length| length.is_power_of_two())
        && claim.contiguity <= known.contiguity
        && claim.divisibility <= known.divisor_at(claim.contiguity, 1)
        && claim.constancy <= known.constancy
}
