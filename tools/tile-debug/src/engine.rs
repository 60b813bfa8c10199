//! The debugging engine: decides where a run stops and how it resumes. Stepping back runs the kernel again from the start and stops
//! earlier. Invariant (determinism): every run reports the same sequence of events, so an event count identifies a moment.

use crate::compare::{Compared, Recording};
use crate::expression;
use crate::scene::{Scene, Stop, Why};
use crate::subject::Subject;
use base::diag::{Diagnostic, Result};
use executor::{BlockPosition, Check, Moment, Observer, Value, Watch};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// A motion: where to continue to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Motion {
    /// The next breakpoint or fault.
    Go,
    /// The next line in the function or one of its callers.
    Over,
    /// The next line, including called functions.
    Into,
    /// The line that called the function.
    Out,
    /// The next op.
    Op,
    /// The first op of the debugged tile block.
    Start,
}

/// How the run resumes after a stop.
pub(crate) enum Resume {
    Forward(Motion),
    Back(Motion),
    To(u64),
    Quit,
}

pub(crate) struct Breakpoint {
    pub(crate) id: u64,
    /// A file name or a suffix of it; empty for any file.
    pub(crate) file: String,
    pub(crate) line: u32,
    /// The function, for a breakpoint on a function.
    pub(crate) function: Option<String>,
    pub(crate) condition: Option<String>,
    /// The breakpoint stops from this hit on.
    pub(crate) times: u64,
    /// For a logpoint: the message, with `{expressions}`. A logpoint does not stop.
    pub(crate) message: Option<String>,
    /// Number of hits in this run.
    hits: u64,
}

/// A watched expression: the run stops when its value changes.
pub(crate) struct Watched {
    pub(crate) id: u64,
    pub(crate) expression: String,
    /// Its last known value in this run.
    last: BTreeMap<RoleId, String>,
}

/// Breakpoints, watches and filters of the run. They can change at every stop.
pub(crate) struct Control {
    pub(crate) breakpoints: Vec<Breakpoint>,
    pub(crate) watches: Vec<Watched>,
    last_id: u64,
    /// Keywords of ignored faults.
    pub(crate) ignored: BTreeSet<String>,
    /// The debugged tile block; `None` is all.
    pub(crate) block: Option<u64>,
    pub(crate) max_ops: u64,
    pub(crate) seed: u64,
}

impl Control {
    pub(crate) fn new(max_ops: u64, seed: u64) -> Control {
        Control { breakpoints: Vec::new(), watches: Vec::new(), last_id: 0, ignored: BTreeSet::new(), block: None, max_ops, seed }
    }

    /// Watches an expression, starting with its current value.
    pub(crate) fn watch(&mut self, expression: &str, now: Option<(RoleId, String)>) -> u64 {
        self.last_id += 1;
        let last = now.into_iter().collect();
        self.watches.push(Watched { id: self.last_id, expression: expression.to_string(), last });
        self.last_id
    }

    /// Replaces the watched expressions. An expression that is already watched keeps its number and its values.
    pub(crate) fn replace_watches(&mut self, updated: Vec<(String, Option<(RoleId, String)>)>) -> Vec<u64> {
        let mut before = std::mem::take(&mut self.watches);
        let each =
            updated.into_iter().map(|(expression, now)| match before.iter().position(|watched| watched.expression == expression) {
                Some(at) => {
                    let mut watched = before.swap_remove(at);
                    watched.last.extend(now);
                    self.watches.push(watched);
                    self.watches.last().map_or(0, |watched| watched.id)
                }
                None => self.watch(&expression, now),
            });
        each.collect()
    }

    pub(crate) fn add(&mut self, file: &str, line: u32) -> &mut Breakpoint {
        self.last_id += 1;
        let (id, file) = (self.last_id, file.to_string());
        self.breakpoints.push(Breakpoint { id, file, line, function: None, condition: None, times: 1, message: None, hits: 0 });
        self.breakpoints.last_mut().expect("just added")
    }
}

/// Recoverable faults: the check, its keyword and its description.
pub(crate) const FAULTS: [(Check, &str, &str); 7] = [
    (Check::Memory, "memory", "Accesses out of bounds"),
    (Check::Init, "init", "Reads of memory that was never written"),
    (Check::Token, "token", "Accesses to the same bytes without a token order"),
    (Check::Race, "race", "Races between tile blocks"),
    (Check::Assume, "assume", "False assumptions"),
    (Check::Facts, "facts", "False facts of an .aa file"),
    (Check::Nan, "nan", "NaN results of operands without NaN"),
];

/// The keyword for a value that differs from another stage.
pub(crate) const DIFFERENCE: &str = "difference";

/// The end of a run.
pub(crate) struct End<'a> {
    pub(crate) failure: Option<&'a Diagnostic>,
    pub(crate) faults: usize,
    pub(crate) tick: u64,
}

/// A front end: the terminal or an editor.
pub(crate) trait Front {
    fn stopped(&mut self, control: &mut Control, scene: &Scene<'_>) -> Resume;
    fn ended(&mut self, control: &mut Control, end: &End<'_>) -> Resume;
    /// Shows the output of the kernel or of a logpoint.
    fn output(&mut self, text: &str);
    /// Whether the run should pause; polled regularly.
    fn pauses(&mut self, control: &mut Control) -> bool;
}

/// A warp role of a CTA, or the tile block.
pub(crate) type RoleId = (u64, usize);

/// The start of a motion.
#[derive(Clone, Copy)]
struct Origin {
    role_id: RoleId,
    level: usize,
}

#[derive(Clone)]
enum Goal {
    Go {
        motion: Motion,
        origin: Option<Origin>,
    },
    /// A moment that an earlier run reached.
    Reach(Stop),
    /// Search the last moment before `until` at which the motion stops.
    Seek {
        until: u64,
        motion: Motion,
        origin: Option<Origin>,
        last: Option<Stop>,
    },
}

impl Goal {
    fn start() -> Goal {
        Goal::Go { motion: Motion::Start, origin: None }
    }
    /// The end of a search.
    fn found(last: &mut Option<Stop>) -> Goal {
        last.take().map_or_else(Goal::start, Goal::Reach)
    }
}

/// Debugs until the front end quits.
pub(crate) fn debug(subject: &Subject<'_>, control: &mut Control, front: &mut dyn Front, other: Option<&Recording>) -> Result<()> {
    let printed = RefCell::new(String::new());
    let mut goal = Goal::start();
    loop {
        control.breakpoints.iter_mut().for_each(|breakpoint| breakpoint.hits = 0);
        control.watches.iter_mut().for_each(|watched| watched.last.clear());
        let watch = Watch {
            limit: control.max_ops,
            seed: control.seed,
            checks: FAULTS.iter().map(|(check, ..)| *check).collect(),
            deadline: None,
        };
        let mut run = Run {
            subject,
            control,
            front,
            printed: &printed,
            goal,
            tick: 0,
            faults: 0,
            failed: false,
            last: BTreeMap::new(),
            compared: other.map(Compared::new),
            next: None,
        };
        let outcome = subject.kernel.run(&subject.call, watch, &mut |text| printed.borrow_mut().push_str(text), &mut run)?;
        run.report_progress();
        let (next, faults, tick) = (run.next.take(), run.faults, run.tick);
        let sought = if let Goal::Seek { last, .. } = &mut run.goal { Some(Goal::found(last)) } else { None };
        goal = match (next, sought) {
            (Some(Next::Quit), _) => return Ok(()),
            (Some(Next::Again(goal)), _) | (None, Some(goal)) => goal,
            (None, None) => {
                let end = End { failure: outcome.failure.as_deref(), faults, tick };
                loop {
                    match front.ended(control, &end) {
                        Resume::Quit => return Ok(()),
                        // Nothing remains to run.
                        Resume::Forward(Motion::Start) => break Goal::start(),
                        Resume::Forward(_) => {}
                        Resume::Back(motion) => break Goal::Seek { until: u64::MAX, motion, origin: None, last: None },
                        Resume::To(tick) => break reach(tick),
                    }
                }
            }
        };
    }
}

/// A goal that is given by its event count only.
fn reach(tick: u64) -> Goal {
    Goal::Reach(Stop { why: Why::Step, tick, row: 0, level: usize::MAX })
}

/// Why a run was abandoned.
enum Next {
    Again(Goal),
    Quit,
}

struct Run<'r, 's> {
    subject: &'r Subject<'s>,
    control: &'r mut Control,
    front: &'r mut dyn Front,
    printed: &'r RefCell<String>,
    goal: Goal,
    tick: u64,
    /// Number of reported faults.
    faults: usize,
    failed: bool,
    /// The previous row of each role.
    last: BTreeMap<RoleId, usize>,
    compared: Option<Compared<'r>>,
    next: Option<Next>,
}

/// The polling interval for pause requests, in ops.
const POLL: u64 = 64;

/// The internal error that ends an abandoned run.
fn given_up() -> Box<Diagnostic> {
    Diagnostic::invalid("DBG001", "the debugger abandoned the run")
}

impl Run<'_, '_> {
    fn report_progress(&mut self) {
        let text = std::mem::take(&mut *self.printed.borrow_mut());
        // An earlier run has already reported everything up to the goal.
        if !text.is_empty() && matches!(self.goal, Goal::Go { .. }) {
            self.front.output(&text);
        }
    }

    fn is_looked_at(&self, moment: &Moment<'_>) -> bool {
        self.control.block.is_none_or(|block| block == moment.block_position().linear)
    }

    /// The outermost frame in which the op is on another line than the previous op. A loop with a one-line body arrives at the line
    /// in every iteration.
    fn arrival(&mut self, moment: &Moment<'_>, row: usize) -> Option<usize> {
        let frames = &self.subject.frames[row];
        if frames.is_empty() || !self.subject.begins_line[row] {
            return None;
        }
        let last = self.last.insert((moment.block_position().linear, moment.warp_role()), row);
        let Some(last) = last else { return Some(0) };
        let before = &self.subject.frames[last];
        let line = |frame: &crate::subject::Frame| (frame.file, frame.line);
        let other = (0..frames.len()).find(|level| before.get(*level).map(line) != Some(line(&frames[*level])));
        let again = row <= last && moment.bodies() == 0 && before.len() == frames.len();
        other.or(again.then_some(frames.len() - 1))
    }

    /// Decides whether a motion stops before an op.
    fn sought(&mut self, moment: &Moment<'_>, row: usize) -> Option<(Why, usize)> {
        let arrival = self.arrival(moment, row);
        if !self.is_looked_at(moment) {
            return None;
        }
        if let Some(why) = self.changed(moment, row) {
            return Some((why, usize::MAX));
        }
        if let Some(arrival) = arrival
            && let Some(found) = self.breakpoint(moment, row, arrival)
        {
            return Some(found);
        }
        let (motion, origin) = match &self.goal {
            Goal::Go { motion, origin } | Goal::Seek { motion, origin, .. } => (*motion, *origin),
            Goal::Reach(_) => return None,
        };
        let depth = self.subject.frames[row].len();
        let here = (moment.block_position().linear, moment.warp_role());
        let role_id = origin.is_none_or(|origin| origin.role_id == here);
        let level = origin.map_or(usize::MAX, |origin| origin.level);
        match motion {
            Motion::Start => Some((Why::Entry, arrival.map_or(depth, |arrival| arrival + 1))),
            Motion::Go => None,
            _ if !role_id => None,
            Motion::Op => Some((Why::Step, depth)),
            Motion::Into => arrival.map(|arrival| (Why::Step, arrival + 1)),
            Motion::Over => arrival.filter(|arrival| *arrival < level).map(|arrival| (Why::Step, arrival + 1)),
            Motion::Out if depth > 0 && depth < level && self.subject.begins_line[row] => Some((Why::Step, depth)),
            Motion::Out => arrival.filter(|arrival| *arrival + 1 < level).map(|arrival| (Why::Step, arrival + 1)),
        }
    }

    /// The first watched expression with a changed value. An expression without a value keeps its last one.
    fn changed(&mut self, moment: &Moment<'_>, row: usize) -> Option<Why> {
        let role_id = (moment.block_position().linear, moment.warp_role());
        let stop = Stop { why: Why::Step, tick: self.tick, row, level: usize::MAX };
        let scene = Scene { subject: self.subject, moment, stop: &stop };
        let mut found = None;
        for watched in &mut self.control.watches {
            let value = expression::evaluate(&watched.expression, &scene).and_then(|datum| crate::values::describe(&datum, &scene));
            let Ok(value) = value else { continue };
            let before = watched.last.insert(role_id, value.clone());
            if let Some(before) = before.filter(|before| *before != value) {
                found.get_or_insert_with(|| Why::Watch(watched.id, format!("{}: {before} -> {value}", watched.expression)));
            }
        }
        found
    }

    fn breakpoint(&mut self, moment: &Moment<'_>, row: usize, arrival: usize) -> Option<(Why, usize)> {
        let subject = self.subject;
        let (mut hit, mut shown) = (Vec::new(), usize::MAX);
        let mut reported = Vec::new();
        for breakpoint in &mut self.control.breakpoints {
            let frames = subject.frames[row].iter().enumerate().skip(arrival);
            let mut at = frames.filter(|(_, frame)| frame.line == breakpoint.line && subject.is_file(frame.file, &breakpoint.file));
            let Some((frame, _)) = at.next() else { continue };
            let stop = Stop { why: Why::Step, tick: self.tick, row, level: frame + 1 };
            let scene = Scene { subject, moment, stop: &stop };
            match breakpoint.condition.as_deref().map_or(Ok(true), |condition| expression::holds(condition, &scene)) {
                Ok(false) => continue,
                Ok(true) => {}
                Err(error) => reported.push(format!("breakpoint {}: {error}\n", breakpoint.id)),
            }
            breakpoint.hits += 1;
            if breakpoint.hits < breakpoint.times {
                continue;
            }
            match &breakpoint.message {
                Some(message) => reported.push(filled(message, &scene) + "\n"),
                None => {
                    hit.push(breakpoint.id);
                    shown = shown.min(frame + 1);
                }
            }
        }
        if matches!(self.goal, Goal::Go { .. }) {
            reported.iter().for_each(|text| self.front.output(text));
        }
        (!hit.is_empty()).then_some((Why::Breakpoint(hit), shown))
    }

    /// Stops, records the stop for a backward search, or continues.
    fn decide(&mut self, found: Option<(Why, usize)>, moment: &Moment<'_>, row: usize) -> Result<()> {
        let tick = self.tick;
        match &mut self.goal {
            Goal::Reach(stop) if stop.tick == tick => {
                let stop = Stop { row, ..stop.clone() };
                return self.stop(stop, moment);
            }
            Goal::Seek { until, last, .. } if tick >= *until => {
                self.next = Some(Next::Again(Goal::found(last)));
                return Err(given_up());
            }
            Goal::Seek { last, .. } => *last = found.map(|(why, level)| Stop { why, tick, row, level }).or(last.take()),
            Goal::Go { .. } => {
                if let Some((why, level)) = found {
                    return self.stop(Stop { why, tick, row, level }, moment);
                }
            }
            Goal::Reach(_) => {}
        }
        Ok(())
    }

    fn stop(&mut self, mut stop: Stop, moment: &Moment<'_>) -> Result<()> {
        stop.level = stop.level.min(self.subject.frames[stop.row].len());
        loop {
            let scene = Scene { subject: self.subject, moment, stop: &stop };
            let resume = self.front.stopped(self.control, &scene);
            let origin = Some(Origin { role_id: (moment.block_position().linear, moment.warp_role()), level: stop.level });
            let next = match resume {
                // The op is in a function that the line calls.
                Resume::Forward(Motion::Into) if stop.level < self.subject.frames[stop.row].len() => {
                    stop.level += 1;
                    stop.why = Why::Step;
                    continue;
                }
                Resume::Forward(Motion::Start) => Next::Again(Goal::start()),
                Resume::Forward(motion) => {
                    self.goal = Goal::Go { motion, origin };
                    return Ok(());
                }
                Resume::Back(motion) => Next::Again(Goal::Seek { until: stop.tick, motion, origin, last: None }),
                Resume::To(tick) => Next::Again(reach(tick)),
                Resume::Quit => Next::Quit,
            };
            self.next = Some(next);
            return Err(given_up());
        }
    }
}

impl Observer for Run<'_, '_> {
    fn before(&mut self, moment: &Moment<'_>) -> Result<()> {
        self.report_progress();
        self.tick += 1;
        let row = self.subject.listing.row(moment.op);
        let mut found = self.sought(moment, row);
        if self.tick.is_multiple_of(POLL) && self.front.pauses(self.control) && found.is_none() {
            found = Some((Why::Pause, usize::MAX));
        }
        self.decide(found, moment, row)
    }

    fn after(&mut self, moment: &Moment<'_>, results: &[Value]) -> Result<()> {
        self.tick += 1;
        let row = self.subject.listing.row(moment.op);
        let mut found = None;
        for finding in moment.findings().iter().skip(self.faults) {
            let word = FAULTS.iter().find(|(check, ..)| *check == finding.check).map_or("", |(_, word, _)| word);
            let other = finding.other.and_then(|loc| moment.debug().position(loc));
            let other = other.map_or(String::new(), |(file, line, _)| format!("; the other access is at {file}:{line}"));
            if !self.control.ignored.contains(word) {
                found.get_or_insert((Why::Fault(word, format!("{}{other}", finding.message)), usize::MAX));
            }
        }
        self.faults = moment.findings().len();
        if let Some(compared) = &mut self.compared
            && let Some(text) = compared.look(self.subject, moment, row, results)
            && !self.control.ignored.contains(DIFFERENCE)
        {
            found.get_or_insert((Why::Difference(text), usize::MAX));
        }
        let found = found.filter(|_| self.is_looked_at(moment));
        self.decide(found, moment, row)
    }

    fn failed(&mut self, moment: &Moment<'_>, error: &Diagnostic) {
        // Enclosing ops fail with the op, and abandoning a run is not a failure: report each failure once.
        if self.failed || self.next.is_some() {
            return;
        }
        self.failed = true;
        self.tick += 1;
        let row = self.subject.listing.row(moment.op);
        let notes: String = error.notes.iter().map(|note| format!("; {note}")).collect();
        let why = Why::Failure(format!("[{}] {}{notes}", error.code, error.message));
        // The result is ignored: a failure ends the run anyway.
        let _ = self.decide(Some((why, usize::MAX)), moment, row);
    }

    fn ended(&mut self, place: BlockPosition) -> Result<()> {
        self.last.retain(|(block, _), _| *block != place.linear);
        // A step past the end of a tile block stops in the next one.
        if let Goal::Go { origin, .. } = &mut self.goal
            && origin.is_some_and(|origin| origin.role_id.0 == place.linear)
        {
            *origin = None;
        }
        Ok(())
    }
}

/// Evaluates the `{expressions}` of a message.
fn filled(message: &str, scene: &Scene<'_>) -> String {
    let mut out = String::new();
    let mut rest = message;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let Some((inside, after)) = after.split_once('}') else {
            out.push('{');
            rest = after;
            continue;
        };
        let shown = expression::evaluate(inside, scene).and_then(|datum| crate::values::describe(&datum, scene));
        out.push_str(shown.unwrap_or_else(|error| format!("<{error}>")).lines().next().unwrap_or_default());
        rest = after;
    }
    out + rest
}
