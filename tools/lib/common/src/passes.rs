//! The pass manager. It runs the passes of a tool in order, and implements `--print-after`, `--print-changed` and `--stop-after`.
//! It records the time and the name of the running pass, for `--time` and for reports of internal errors. In debug builds it
//! verifies the state after every pass.

use crate::difference::{Colour, difference};
use crate::session::Session;
use base::diag::Result;
use base::{File, Payload};

/// One pass of a tool, which transforms a state `S`. The state is usually the [`File`] that the tool writes.
pub struct Pass<S> {
    pub name: &'static str,
    pub run: fn(&mut S) -> Result<()>,
}

/// Concatenates pass names for [`crate::About::passes`]: `before`, the names of the passes in `table`, and `after`.
pub const fn pass_names<S, const N: usize>(
    before: &[&'static str],
    table: &[Pass<S>],
    after: &[&'static str],
) -> [&'static str; N] {
    assert!(N == before.len() + table.len() + after.len());
    let mut names = [""; N];
    let mut index = 0;
    while index < N {
        names[index] = if index < before.len() {
            before[index]
        } else if index < before.len() + table.len() {
            table[index - before.len()].name
        } else {
            after[index - before.len() - table.len()]
        };
        index += 1;
    }
    names
}

/// A state that passes transform.
pub trait Show {
    /// Returns the text of the state, for `--print-after` and `--print-changed`.
    fn show(&self) -> String;
    /// Verifies the state, after every pass in debug builds.
    fn check(&self) -> Result<()>;
}

impl<P: Payload> Show for File<P> {
    fn show(&self) -> String {
        self.payload.print(&self.envelope, base::Locations::Omitted)
    }
    fn check(&self) -> Result<()> {
        self.payload.verify(&self.envelope)
    }
}

impl Session {
    /// Runs the passes in order, up to the pass that `--stop-after` names.
    pub fn run<S: Show>(&mut self, passes: &[Pass<S>], state: &mut S) -> Result<()> {
        if self.prints_changed() && self.previous_ir.is_none() {
            self.previous_ir = Some(state.show());
        }
        for pass in passes {
            if self.stopped() {
                return Ok(());
            }
            self.timed(pass.name, |_| (pass.run)(state))?;
            if cfg!(debug_assertions) {
                state.check().map_err(|error| error.note(format!("found after pass '{}'", pass.name)))?;
            }
            self.end_pass(pass.name, state);
        }
        Ok(())
    }

    /// Runs a step that creates the state, such as the conversion from one format to the next, as the pass `name`.
    pub fn step<S: Show>(&mut self, name: &'static str, step: impl FnOnce() -> Result<S>) -> Result<S> {
        let state = self.timed(name, |_| step())?;
        self.end_pass(name, &state);
        Ok(state)
    }

    /// Ends a pass whose result is a [`Show`] state.
    fn end_pass<S: Show>(&mut self, name: &'static str, state: &S) {
        self.passed(name, || state.show());
    }

    /// Prints the difference between the previous IR and `result`, the IR after the pass `name`. After the first pass, prints the
    /// number of lines.
    fn print_change(&self, name: &str, result: &str) {
        let tool = self.about.name;
        let text = match &self.previous_ir {
            None => format!("// {tool}: {} lines after {name}\n", result.lines().count()),
            Some(before) => match difference(before, result, Colour::for_stderr()) {
                changes if changes.is_empty() => format!("// {tool}: no changes in {name}\n"),
                changes => format!("// {tool}: changes in {name}\n{changes}"),
            },
        };
        self.print_stderr(&text);
    }

    /// Ends a pass whose result is not a [`Show`] state: prints the text of its result if an option requests it, and stops the run
    /// if `--stop-after` names the pass. [`Session::run`] and [`Session::step`] call this function themselves.
    pub fn passed(&mut self, name: &'static str, result: impl Fn() -> String) {
        debug_assert!(self.about.passes.contains(&name), "pass '{name}' is not in the tool's About");
        if self.prints_after(name) {
            self.print_stderr(&format!("// {} after {name}\n{}\n", self.about.name, result().trim_end()));
        }
        if self.prints_changed() {
            let result = result();
            self.print_change(name, &result);
            self.previous_ir = Some(result);
        }
        self.stop_if_named(name);
    }
}
