//! The state of a stopped kernel that a front end shows: call stack, visible values and source variables.

use crate::call_stack::Frame;
use crate::debuggee::Debuggee;
use base::Value as ValueId;
use executor::{Moment, Value};

/// The reason for which a run stopped.
#[derive(Clone, Debug)]
pub(crate) enum StopReason {
    /// The first op.
    Entry,
    Step,
    /// The breakpoints with these numbers.
    Breakpoint(Vec<u64>),
    /// A fault after which the run can continue: the keyword for `--ignore`, and the message.
    Fault(&'static str, String),
    /// An error that ends the run.
    Failure(String),
    /// The value of the op differs from its value at the stage of `--against`.
    Difference(String),
    /// The user requested a pause.
    Pause,
    /// The value of a watched expression changed: its number, and the change.
    Watch(u64, String),
}

impl StopReason {
    /// Returns the text that the front ends show.
    pub(crate) fn describe(&self) -> String {
        match self {
            StopReason::Entry => "the first op".into(),
            StopReason::Step => "a step".into(),
            StopReason::Breakpoint(ids) => {
                let ids: Vec<_> = ids.iter().map(u64::to_string).collect();
                format!("breakpoint {}", ids.join(", "))
            }
            StopReason::Fault(kind, text) => format!("fault ({kind}): {text}"),
            StopReason::Failure(text) => format!("failure: {text}"),
            StopReason::Difference(text) => format!("difference: {text}"),
            StopReason::Pause => "pause".into(),
            StopReason::Watch(id, change) => format!("watch {id}: {change}"),
        }
    }
}

/// The position of a stop.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    pub(crate) reason: StopReason,
    /// The number of events before the stop, equal in every run. Front ends show it as the moment.
    pub(crate) event_count: u64,
    /// The row of the listing, that is, the op.
    pub(crate) row: usize,
    /// The number of visible frames of the row, counted from the outermost one. After a step over a call, the frames of the called
    /// function are hidden, although the op belongs to that function.
    pub(crate) call_depth: usize,
}

/// A stopped kernel.
pub(crate) struct Scene<'a> {
    pub(crate) debuggee: &'a Debuggee<'a>,
    pub(crate) moment: &'a Moment<'a>,
    pub(crate) stop: &'a Stop,
}

impl Scene<'_> {
    /// Returns the visible frames, the innermost last.
    pub(crate) fn frames(&self) -> &[Frame] {
        let frames = &self.debuggee.frames[self.stop.row];
        &frames[..self.stop.call_depth.min(frames.len())]
    }

    /// Returns the current value with the number `id`. The error message states why there is no value.
    pub(crate) fn value(&self, id: ValueId) -> Result<Value, String> {
        if id.0 as usize >= self.debuggee.listing.value_count {
            return Err(format!("the kernel has no value {id}"));
        }
        self.moment.value(id).ok_or_else(|| format!("{id} is not computed yet"))
    }

    /// Returns the values in scope that are computed, except tokens, in program order. At a stop after an op, the values include
    /// the results of the op.
    pub(crate) fn visible_values(&self) -> Vec<ValueId> {
        let mut visible = self.debuggee.listing.visible_values(self.stop.row);
        visible.extend(self.debuggee.listing.rows[self.stop.row].results.iter().copied());
        visible.retain(|id| !matches!(self.moment.value(*id), None | Some(Value::Token(_))));
        visible
    }

    /// Returns the source variable that holds a value in the innermost visible frame.
    pub(crate) fn variable_name(&self, id: ValueId) -> Option<&str> {
        self.debuggee.variable_names.variable_of(id, self.frames())
    }

    /// Returns the value of a source variable: `None` if the program has no such variable, an error if the variable has no value at
    /// this stop.
    pub(crate) fn variable_value(&self, name: &str) -> Option<Result<Value, String>> {
        match self.visible_values().into_iter().rev().find(|id| self.variable_name(*id) == Some(name)) {
            Some(id) => Some(self.value(id)),
            None => self.debuggee.variable_names.has_variable(name).then(|| Err(format!("'{name}' has no value here"))),
        }
    }

    /// Returns the source variables that have a value at this stop, each with its value. If several values have the same name, the
    /// variable has the last of them.
    pub(crate) fn variables(&self) -> Vec<(String, ValueId)> {
        let mut variables: Vec<(String, ValueId)> = Vec::new();
        for id in self.visible_values() {
            let Some(name) = self.variable_name(id) else { continue };
            variables.retain(|(other_name, _)| other_name != name);
            variables.push((name.to_string(), id));
        }
        variables
    }

    /// Returns the text of the current tile block and, if the program has several warp roles, of the current warp role.
    pub(crate) fn block_and_role_text(&self) -> String {
        let [x, y, z] = self.moment.block_position().index;
        let warp_roles = self.debuggee.listing.rows.iter().any(|row| row.mnemonic == "warp_role");
        let warp_role = if warp_roles { format!(", warp role {}", self.moment.warp_role()) } else { String::new() };
        format!("block [{x}, {y}, {z}]{warp_role}")
    }
}
