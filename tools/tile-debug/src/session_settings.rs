//! The settings of a debugging session: breakpoints, watches, ignored faults and limits.

use executor::Check;
use std::collections::{BTreeMap, BTreeSet};

/// The linear index of a tile block, and the index of a warp role in it. Without warp roles the second index is 0.
pub(crate) type RoleId = (u64, usize);

/// A breakpoint on a line or on a function, or a logpoint.
pub(crate) struct Breakpoint {
    pub(crate) id: u64,
    /// The name or path of the source file; only the last component matters. If it is empty, the breakpoint applies to every file.
    pub(crate) file: String,
    pub(crate) line: u32,
    /// The function whose first line has the breakpoint; `None` for a breakpoint on a line.
    pub(crate) function: Option<String>,
    /// The expression that must be true for a hit; `None` if every execution of the line is a hit.
    pub(crate) condition: Option<String>,
    /// The number of the first hit that stops the run; the debugger only counts earlier hits.
    pub(crate) first_hit: u64,
    /// For a logpoint: the message, with `{expressions}`. A logpoint does not stop.
    pub(crate) message: Option<String>,
    /// Number of hits in this run.
    pub(crate) hits: u64,
}

/// A watched expression: the run stops when its value changes.
pub(crate) struct WatchedExpression {
    pub(crate) id: u64,
    pub(crate) expression: String,
    /// The most recent value in this run, for each warp role in which the expression had a value.
    pub(crate) last_values: BTreeMap<RoleId, String>,
}

/// The settings of a session: breakpoints, watches, ignored faults and limits. A front end changes them when the user requests it.
pub(crate) struct Control {
    pub(crate) breakpoints: Vec<Breakpoint>,
    pub(crate) watches: Vec<WatchedExpression>,
    /// The number of the newest breakpoint or watch.
    last_id: u64,
    /// Keywords of the faults at which the debugger does not stop; see [`FAULTS`].
    pub(crate) ignored_faults: BTreeSet<String>,
    /// The linear index of the debugged tile block. `None` debugs all tile blocks.
    pub(crate) block: Option<u64>,
    /// Maximum number of ops per tile block.
    pub(crate) max_ops: u64,
    /// Seed of the order in which the warp roles of a CTA run.
    pub(crate) seed: u64,
}

impl Control {
    /// Returns settings without breakpoints and watches, for all tile blocks.
    pub(crate) fn new(max_ops: u64, seed: u64) -> Control {
        Control {
            breakpoints: Vec::new(),
            watches: Vec::new(),
            last_id: 0,
            ignored_faults: BTreeSet::new(),
            block: None,
            max_ops,
            seed,
        }
    }

    /// Adds a watch of an expression. `current_value` is its value in the warp role of the current stop, if it has one. Returns the
    /// number of the watch.
    pub(crate) fn add_watch(&mut self, expression: &str, current_value: Option<(RoleId, String)>) -> u64 {
        self.last_id += 1;
        let last_values = current_value.into_iter().collect();
        self.watches.push(WatchedExpression { id: self.last_id, expression: expression.to_string(), last_values });
        self.last_id
    }

    /// Replaces all watches, and returns the numbers of the requested watches. If an expression is already watched, its watch keeps
    /// its number and its values.
    pub(crate) fn replace_watches(&mut self, requested: Vec<(String, Option<(RoleId, String)>)>) -> Vec<u64> {
        let mut previous = std::mem::take(&mut self.watches);
        let ids = requested.into_iter().map(|(expression, current_value)| {
            match previous.iter().position(|watched| watched.expression == expression) {
                Some(index) => {
                    let mut watched = previous.swap_remove(index);
                    watched.last_values.extend(current_value);
                    self.watches.push(watched);
                    self.watches.last().map_or(0, |watched| watched.id)
                }
                None => self.add_watch(&expression, current_value),
            }
        });
        ids.collect()
    }

    /// Adds a breakpoint on a line. The caller can change its other fields.
    pub(crate) fn add_breakpoint(&mut self, file: &str, line: u32) -> &mut Breakpoint {
        self.last_id += 1;
        let (id, file) = (self.last_id, file.to_string());
        self.breakpoints.push(Breakpoint { id, file, line, function: None, condition: None, first_hit: 1, message: None, hits: 0 });
        self.breakpoints.last_mut().expect("just added")
    }
}

/// The faults after which a run can continue: the check of the executor, the keyword for `--ignore`, and the description.
pub(crate) const FAULTS: [(Check, &str, &str); 7] = [
    (Check::Memory, "memory", "Accesses out of bounds"),
    (Check::Init, "init", "Reads of memory that was never written"),
    (Check::Token, "token", "Accesses to the same bytes without a token order"),
    (Check::Race, "race", "Races between tile blocks"),
    (Check::Assume, "assume", "False assumptions"),
    (Check::Facts, "facts", "False facts of an .aa file"),
    (Check::Nan, "nan", "NaN results of operands without NaN"),
];

/// The keyword of `--ignore` for a value that differs from its value at the stage of `--against`.
pub(crate) const DIFFERENCE: &str = "difference";
