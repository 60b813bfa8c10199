//! A stopped kernel as seen by a front end.

use crate::subject::{Frame, Subject};
use base::Value as Id;
use executor::{Moment, Value};

/// The reason of a stop.
#[derive(Clone, Debug)]
pub(crate) enum Why {
    /// The first op.
    Entry,
    Step,
    /// Breakpoints with these numbers.
    Breakpoint(Vec<u64>),
    /// A recoverable fault; the keyword that disables it, and the message.
    Fault(&'static str, String),
    /// An unrecoverable fault.
    Failure(String),
    /// The value differs from that of another stage.
    Difference(String),
    Pause,
    /// The value of a watched expression changed: its number, and the change.
    Watch(u64, String),
}

impl Why {
    /// The reason as text.
    pub(crate) fn report(&self) -> String {
        match self {
            Why::Entry => "the first op".into(),
            Why::Step => "a step".into(),
            Why::Breakpoint(ids) => {
                let ids: Vec<_> = ids.iter().map(u64::to_string).collect();
                format!("breakpoint {}", ids.join(", "))
            }
            Why::Fault(kind, text) => format!("fault ({kind}): {text}"),
            Why::Failure(text) => format!("failure: {text}"),
            Why::Difference(text) => format!("difference: {text}"),
            Why::Pause => "pause".into(),
            Why::Watch(id, change) => format!("watch {id}: {change}"),
        }
    }
}

/// The position of a stop.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    pub(crate) why: Why,
    /// The number of events until the stop, equal in every run.
    pub(crate) tick: u64,
    pub(crate) row: usize,
    /// The number of visible frames of the row: a step over a call stops at the call, not inside it.
    pub(crate) level: usize,
}

pub(crate) struct Scene<'a> {
    pub(crate) subject: &'a Subject<'a>,
    pub(crate) moment: &'a Moment<'a>,
    pub(crate) stop: &'a Stop,
}

impl Scene<'_> {
    /// The frames, the innermost last.
    pub(crate) fn frames(&self) -> &[Frame] {
        let frames = &self.subject.frames[self.stop.row];
        &frames[..self.stop.level.min(frames.len())]
    }

    pub(crate) fn value(&self, id: Id) -> Result<Value, String> {
        if id.0 as usize >= self.subject.listing.values {
            return Err(format!("the kernel has no value {id}"));
        }
        self.moment.value(id).ok_or_else(|| format!("{id} is not computed yet"))
    }

    /// The visible values, most recently computed last. After a fault they include the op's own results.
    pub(crate) fn visible(&self) -> Vec<Id> {
        let mut visible = self.subject.listing.visible(self.stop.row);
        visible.extend(self.subject.listing.rows[self.stop.row].results.iter().copied());
        visible.retain(|id| !matches!(self.moment.value(*id), None | Some(Value::Token(_))));
        visible
    }

    /// The source variable of a value.
    pub(crate) fn name(&self, id: Id) -> Option<&str> {
        self.subject.names.of(id, self.frames())
    }

    /// The value of a source variable; none if there is no such variable.
    pub(crate) fn named(&self, name: &str) -> Option<Result<Value, String>> {
        match self.visible().into_iter().rev().find(|id| self.name(*id) == Some(name)) {
            Some(id) => Some(self.value(id)),
            None => self.subject.names.knows(name).then(|| Err(format!("'{name}' has no value here"))),
        }
    }

    /// The source variables with a value at this point.
    pub(crate) fn variables(&self) -> Vec<(String, Id)> {
        let mut found: Vec<(String, Id)> = Vec::new();
        for id in self.visible() {
            let Some(name) = self.name(id) else { continue };
            found.retain(|(known, _)| known != name);
            found.push((name.to_string(), id));
        }
        found
    }

    /// The tile block, and the warp role if there are several.
    pub(crate) fn description(&self) -> String {
        let [x, y, z] = self.moment.block_position().index;
        let warp_roles = self.subject.listing.rows.iter().any(|row| row.mnemonic == "warp_role");
        let warp_role = if warp_roles { format!(", warp role {}", self.moment.warp_role()) } else { String::new() };
        format!("block [{x}, {y}, {z}]{warp_role}")
    }
}
