//! The debugging engine: decides where a run stops and how it resumes. To step back, the engine runs the kernel again from the
//! start and stops earlier. Invariant (determinism): every run reports the same sequence of events, one before and one after each
//! op. The number of events since the start of the run therefore identifies a moment.

use crate::compare::{ComparisonCursor, Recording};
use crate::debuggee::Debuggee;
use crate::expression;
use crate::scene::{Scene, Stop, StopReason};
use crate::session_settings::{Control, DIFFERENCE, FAULTS, RoleId};
use base::diag::{Diagnostic, Result};
use executor::{BlockPosition, Moment, Observer, RunOptions, Value};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// The point at which a resumed run stops next. The run also stops earlier, at a breakpoint, a watch or a fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ResumeKind {
    /// At the next breakpoint, watch or fault.
    Continue,
    /// At the next line of the function or of one of its callers.
    StepOver,
    /// At the next line, also in a called function.
    StepInto,
    /// At the line that called the function.
    StepOut,
    /// At the next op.
    StepOp,
    /// At the first op of the debugged tile block, in a new run.
    Restart,
}

/// The command with which the run resumes after a stop.
pub(crate) enum Resume {
    Forward(ResumeKind),
    /// To the last moment before the current stop at which a forward run of this kind would stop.
    Back(ResumeKind),
    /// To the moment after this number of events.
    ToMoment(u64),
    Quit,
}

/// The result of a run that reached the end of the kernel.
pub(crate) struct RunEnd<'a> {
    pub(crate) failure: Option<&'a Diagnostic>,
    pub(crate) fault_count: usize,
    pub(crate) event_count: u64,
}

/// A front end: the terminal or an editor.
pub(crate) trait FrontEnd {
    /// Handles commands at a stop until a command resumes the run.
    fn kernel_stopped(&mut self, control: &mut Control, scene: &Scene<'_>) -> Resume;
    /// Handles commands after the end of the kernel until a command starts a new run or quits.
    fn kernel_ended(&mut self, control: &mut Control, end: &RunEnd<'_>) -> Resume;
    /// Shows the output of the kernel or of a logpoint.
    fn show_output(&mut self, text: &str);
    /// Returns whether the user requests a pause. The engine calls this method every [`PAUSE_POLL_EVENTS`] events.
    fn should_pause(&mut self, control: &mut Control) -> bool;
}

/// The position from which the user resumed the run.
#[derive(Clone, Copy)]
struct Origin {
    role_id: RoleId,
    /// Number of visible frames of the call stack.
    call_depth: usize,
}

/// The purpose of a run: the condition under which it stops or ends.
#[derive(Clone)]
enum Goal {
    /// The run stops at the next point that `kind` describes.
    Forward { kind: ResumeKind, resume_origin: Option<Origin> },
    /// The run stops at a moment that an earlier run reached.
    Reach(Stop),
    /// The run starts at the start of the kernel and searches for the last moment before event `until` at which a forward run of
    /// this kind would stop. `last_stop` is the last such moment so far. The next run stops at the moment that the search found.
    Backward { until: u64, kind: ResumeKind, resume_origin: Option<Origin>, last_stop: Option<Stop> },
}

impl Goal {
    /// Returns the goal of a new run: a stop at the first op.
    fn start() -> Goal {
        Goal::Forward { kind: ResumeKind::Restart, resume_origin: None }
    }
    /// Returns the goal of the run after a backward search: the stop `last_stop` that the search found, or else the first op.
    fn after_search(last_stop: &mut Option<Stop>) -> Goal {
        last_stop.take().map_or_else(Goal::start, Goal::Reach)
    }
}

/// Debugs the kernel until the front end quits. Each iteration of the loop is one run of the kernel.
pub(crate) fn debug(
    debuggee: &Debuggee<'_>,
    control: &mut Control,
    front_end: &mut dyn FrontEnd,
    recording: Option<&Recording>,
) -> Result<()> {
    let unshown_output = RefCell::new(String::new());
    let mut goal = Goal::start();
    loop {
        control.breakpoints.iter_mut().for_each(|breakpoint| breakpoint.hits = 0);
        control.watches.iter_mut().for_each(|watched| watched.last_values.clear());
        let run_options = RunOptions {
            max_ops: control.max_ops,
            seed: control.seed,
            checks: FAULTS.iter().map(|(check, ..)| *check).collect(),
            deadline: None,
        };
        let mut run = Run {
            debuggee,
            control,
            front_end,
            unshown_output: &unshown_output,
            goal,
            event_count: 0,
            fault_count: 0,
            has_failed: false,
            last_rows: BTreeMap::new(),
            comparison: recording.map(ComparisonCursor::new),
            after_run: None,
        };
        let outcome =
            debuggee.kernel.run(&debuggee.call, run_options, &mut |text| unshown_output.borrow_mut().push_str(text), &mut run)?;
        run.report_printed();
        let (after_run, fault_count, event_count) = (run.after_run.take(), run.fault_count, run.event_count);
        let search_goal =
            if let Goal::Backward { last_stop, .. } = &mut run.goal { Some(Goal::after_search(last_stop)) } else { None };
        goal = match (after_run, search_goal) {
            (Some(AfterRun::Quit), _) => return Ok(()),
            (Some(AfterRun::Rerun(goal)), _) | (None, Some(goal)) => goal,
            (None, None) => {
                let end = RunEnd { failure: outcome.failure.as_deref(), fault_count, event_count };
                loop {
                    match front_end.kernel_ended(control, &end) {
                        Resume::Quit => return Ok(()),
                        Resume::Forward(ResumeKind::Restart) => break Goal::start(),
                        // At the end of the kernel, no op remains to run.
                        Resume::Forward(_) => {}
                        Resume::Back(kind) => break Goal::Backward { until: u64::MAX, kind, resume_origin: None, last_stop: None },
                        Resume::ToMoment(event_count) => break goal_at_moment(event_count),
                    }
                }
            }
        };
    }
}

/// Returns the goal of a jump to a moment. The run fills in the row and the call depth when it reaches the moment.
fn goal_at_moment(event_count: u64) -> Goal {
    Goal::Reach(Stop { reason: StopReason::Step, event_count, row: 0, call_depth: usize::MAX })
}

/// What the debugger does after it abandons a run.
enum AfterRun {
    Rerun(Goal),
    Quit,
}

/// A run of the kernel, from its start to its end or to the point at which the debugger abandons it.
struct Run<'r, 's> {
    debuggee: &'r Debuggee<'s>,
    control: &'r mut Control,
    front_end: &'r mut dyn FrontEnd,
    /// The output of the kernel that the front end has not shown yet.
    unshown_output: &'r RefCell<String>,
    goal: Goal,
    /// Number of events of the run so far, which identifies the current moment.
    event_count: u64,
    /// Number of faults that the executor has reported in this run.
    fault_count: usize,
    /// Whether an op has failed.
    has_failed: bool,
    /// For each warp role, the row of the listing whose op began a line most recently.
    last_rows: BTreeMap<RoleId, usize>,
    comparison: Option<ComparisonCursor<'r>>,
    /// The next action if the debugger has abandoned the run.
    after_run: Option<AfterRun>,
}

/// The interval at which the engine polls for pause requests, in events.
const PAUSE_POLL_EVENTS: u64 = 64;

/// Returns the error with which an observer makes the executor end a run that the debugger abandons.
fn abandoned_run_error() -> Box<Diagnostic> {
    Diagnostic::invalid("DBG001", "the debugger abandoned the run")
}

impl Run<'_, '_> {
    /// Passes the output that the kernel has printed since the last call to the front end.
    fn report_printed(&mut self) {
        let text = std::mem::take(&mut *self.unshown_output.borrow_mut());
        // Only a forward run reports the output. Other runs repeat a part of an earlier run, which has reported it.
        if !text.is_empty() && matches!(self.goal, Goal::Forward { .. }) {
            self.front_end.show_output(&text);
        }
    }

    /// Returns whether the run can stop in the current tile block.
    fn is_debugged_block(&self, moment: &Moment<'_>) -> bool {
        self.control.block.is_none_or(|block| block == moment.block_position().linear)
    }

    /// Returns the index of the outermost frame whose line differs from its line at the previous op of the warp role; `None` if no
    /// line differs. If an op executes again, as in a loop with a one-line body, the innermost frame counts as changed.
    fn outermost_changed_frame(&mut self, moment: &Moment<'_>, row: usize) -> Option<usize> {
        let frames = &self.debuggee.frames[row];
        if frames.is_empty() || !self.debuggee.begins_line[row] {
            return None;
        }
        let last_row = self.last_rows.insert((moment.block_position().linear, moment.warp_role()), row);
        let Some(last_row) = last_row else { return Some(0) };
        let last_frames = &self.debuggee.frames[last_row];
        let line = |frame: &crate::call_stack::Frame| (frame.file, frame.line);
        let changed = (0..frames.len()).find(|index| last_frames.get(*index).map(line) != Some(line(&frames[*index])));
        // The ops of a reduction body execute once per combined pair of elements. These repetitions do not reach the line again.
        let executes_again = row <= last_row && moment.reduction_depth() == 0 && last_frames.len() == frames.len();
        changed.or(executes_again.then_some(frames.len() - 1))
    }

    /// Returns the reason for a stop before an op (a watch, a breakpoint, or the end of the current step) and the number of visible
    /// frames at the stop. Returns `None` if the run does not stop.
    fn stop_reason(&mut self, moment: &Moment<'_>, row: usize) -> Option<(StopReason, usize)> {
        // `outermost_changed_frame` also records the row, so it is called for every tile block, debugged or not.
        let changed_frame = self.outermost_changed_frame(moment, row);
        if !self.is_debugged_block(moment) {
            return None;
        }
        if let Some(reason) = self.changed_watch(moment, row) {
            return Some((reason, usize::MAX));
        }
        if let Some(changed_frame) = changed_frame
            && let Some(breakpoint_stop) = self.hit_breakpoints(moment, row, changed_frame)
        {
            return Some(breakpoint_stop);
        }
        let (kind, resume_origin) = match &self.goal {
            Goal::Forward { kind, resume_origin } | Goal::Backward { kind, resume_origin, .. } => (*kind, *resume_origin),
            Goal::Reach(_) => return None,
        };
        let depth = self.debuggee.frames[row].len();
        let role_id = (moment.block_position().linear, moment.warp_role());
        let is_role_of_origin = resume_origin.is_none_or(|resume_origin| resume_origin.role_id == role_id);
        let start_depth = resume_origin.map_or(usize::MAX, |resume_origin| resume_origin.call_depth);
        match kind {
            ResumeKind::Restart => Some((StopReason::Entry, changed_frame.map_or(depth, |frame| frame + 1))),
            ResumeKind::Continue => None,
            _ if !is_role_of_origin => None,
            ResumeKind::StepOp => Some((StopReason::Step, depth)),
            ResumeKind::StepInto => changed_frame.map(|frame| (StopReason::Step, frame + 1)),
            ResumeKind::StepOver => changed_frame.filter(|frame| *frame < start_depth).map(|frame| (StopReason::Step, frame + 1)),
            ResumeKind::StepOut if depth > 0 && depth < start_depth && self.debuggee.begins_line[row] => {
                Some((StopReason::Step, depth))
            }
            ResumeKind::StepOut => {
                changed_frame.filter(|frame| *frame + 1 < start_depth).map(|frame| (StopReason::Step, frame + 1))
            }
        }
    }

    /// Returns a stop at the first watch whose value changed since its last value. A watch keeps its last value at ops at which the
    /// expression has no value.
    fn changed_watch(&mut self, moment: &Moment<'_>, row: usize) -> Option<StopReason> {
        let role_id = (moment.block_position().linear, moment.warp_role());
        let stop = Stop { reason: StopReason::Step, event_count: self.event_count, row, call_depth: usize::MAX };
        let scene = Scene { debuggee: self.debuggee, moment, stop: &stop };
        let mut first_change = None;
        for watched in &mut self.control.watches {
            let current =
                expression::evaluate(&watched.expression, &scene).and_then(|datum| crate::values::describe(&datum, &scene));
            let Ok(current) = current else { continue };
            let previous = watched.last_values.insert(role_id, current.clone());
            if let Some(previous) = previous.filter(|previous| *previous != current) {
                first_change.get_or_insert_with(|| {
                    StopReason::Watch(watched.id, format!("{}: {previous} -> {current}", watched.expression))
                });
            }
        }
        first_change
    }

    /// Counts hits of the breakpoints on the lines of the op's frames, from frame `changed_frame` to the innermost frame. Returns
    /// the breakpoints that stop the run, and the number of visible frames. Prints the messages of logpoints.
    fn hit_breakpoints(&mut self, moment: &Moment<'_>, row: usize, changed_frame: usize) -> Option<(StopReason, usize)> {
        let debuggee = self.debuggee;
        let (mut stopping, mut call_depth) = (Vec::new(), usize::MAX);
        let mut messages = Vec::new();
        for breakpoint in &mut self.control.breakpoints {
            let frames = debuggee.frames[row].iter().enumerate().skip(changed_frame);
            let mut frames_on_line =
                frames.filter(|(_, frame)| frame.line == breakpoint.line && debuggee.file_matches(frame.file, &breakpoint.file));
            let Some((frame, _)) = frames_on_line.next() else { continue };
            let stop = Stop { reason: StopReason::Step, event_count: self.event_count, row, call_depth: frame + 1 };
            let scene = Scene { debuggee, moment, stop: &stop };
            match breakpoint.condition.as_deref().map_or(Ok(true), |condition| expression::condition_holds(condition, &scene)) {
                Ok(false) => continue,
                Ok(true) => {}
                Err(error) => messages.push(format!("breakpoint {}: {error}\n", breakpoint.id)),
            }
            breakpoint.hits += 1;
            if breakpoint.hits < breakpoint.first_hit {
                continue;
            }
            match &breakpoint.message {
                Some(message) => messages.push(expand_message(message, &scene) + "\n"),
                None => {
                    stopping.push(breakpoint.id);
                    call_depth = call_depth.min(frame + 1);
                }
            }
        }
        if matches!(self.goal, Goal::Forward { .. }) {
            messages.iter().for_each(|text| self.front_end.show_output(text));
        }
        (!stopping.is_empty()).then_some((StopReason::Breakpoint(stopping), call_depth))
    }

    /// Applies the goal of the run to an event. `candidate_stop` is the reason and call depth with which a forward run would stop
    /// at this event. Depending on the goal, the run stops, or records the stop for a backward search.
    fn handle_event(&mut self, candidate_stop: Option<(StopReason, usize)>, moment: &Moment<'_>, row: usize) -> Result<()> {
        let event_count = self.event_count;
        match &mut self.goal {
            Goal::Reach(stop) if stop.event_count == event_count => {
                let stop = Stop { row, ..stop.clone() };
                return self.handle_stop(stop, moment);
            }
            Goal::Backward { until, last_stop, .. } if event_count >= *until => {
                self.after_run = Some(AfterRun::Rerun(Goal::after_search(last_stop)));
                return Err(abandoned_run_error());
            }
            Goal::Backward { last_stop, .. } => {
                let stop = candidate_stop.map(|(reason, call_depth)| Stop { reason, event_count, row, call_depth });
                *last_stop = stop.or(last_stop.take());
            }
            Goal::Forward { .. } => {
                if let Some((reason, call_depth)) = candidate_stop {
                    return self.handle_stop(Stop { reason, event_count, row, call_depth }, moment);
                }
            }
            Goal::Reach(_) => {}
        }
        Ok(())
    }

    /// Passes a stop to the front end. Returns an error if the resume command requires another run.
    fn handle_stop(&mut self, mut stop: Stop, moment: &Moment<'_>) -> Result<()> {
        stop.call_depth = stop.call_depth.min(self.debuggee.frames[stop.row].len());
        loop {
            let scene = Scene { debuggee: self.debuggee, moment, stop: &stop };
            let resume = self.front_end.kernel_stopped(self.control, &scene);
            let resume_origin =
                Some(Origin { role_id: (moment.block_position().linear, moment.warp_role()), call_depth: stop.call_depth });
            let after_run = match resume {
                // The op is in a function that the stopped line calls, so the step only makes the called frame visible.
                Resume::Forward(ResumeKind::StepInto) if stop.call_depth < self.debuggee.frames[stop.row].len() => {
                    stop.call_depth += 1;
                    stop.reason = StopReason::Step;
                    continue;
                }
                Resume::Forward(ResumeKind::Restart) => AfterRun::Rerun(Goal::start()),
                Resume::Forward(kind) => {
                    self.goal = Goal::Forward { kind, resume_origin };
                    return Ok(());
                }
                Resume::Back(kind) => {
                    AfterRun::Rerun(Goal::Backward { until: stop.event_count, kind, resume_origin, last_stop: None })
                }
                Resume::ToMoment(event_count) => AfterRun::Rerun(goal_at_moment(event_count)),
                Resume::Quit => AfterRun::Quit,
            };
            self.after_run = Some(after_run);
            return Err(abandoned_run_error());
        }
    }
}

impl Observer for Run<'_, '_> {
    fn before_op(&mut self, moment: &Moment<'_>) -> Result<()> {
        self.report_printed();
        self.event_count += 1;
        let row = self.debuggee.listing.row(moment.op);
        let mut stop = self.stop_reason(moment, row);
        if self.event_count.is_multiple_of(PAUSE_POLL_EVENTS) && self.front_end.should_pause(self.control) && stop.is_none() {
            stop = Some((StopReason::Pause, usize::MAX));
        }
        self.handle_event(stop, moment, row)
    }

    fn after_op(&mut self, moment: &Moment<'_>, results: &[Value]) -> Result<()> {
        self.event_count += 1;
        let row = self.debuggee.listing.row(moment.op);
        let mut stop = None;
        for finding in moment.findings().iter().skip(self.fault_count) {
            let keyword = FAULTS.iter().find(|(check, ..)| *check == finding.check).map_or("", |(_, keyword, _)| keyword);
            let other_position = finding.other_loc.and_then(|loc| moment.debug().position(loc));
            let other_position_text =
                other_position.map_or(String::new(), |(file, line, _)| format!("; the other access is at {file}:{line}"));
            if !self.control.ignored_faults.contains(keyword) {
                stop.get_or_insert((StopReason::Fault(keyword, format!("{}{other_position_text}", finding.message)), usize::MAX));
            }
        }
        self.fault_count = moment.findings().len();
        if let Some(comparison) = &mut self.comparison
            && let Some(text) = comparison.compare_results(self.debuggee, moment, row, results)
            && !self.control.ignored_faults.contains(DIFFERENCE)
        {
            stop.get_or_insert((StopReason::Difference(text), usize::MAX));
        }
        let stop = stop.filter(|_| self.is_debugged_block(moment));
        self.handle_event(stop, moment, row)
    }

    fn op_failed(&mut self, moment: &Moment<'_>, error: &Diagnostic) {
        // After an op fails, its enclosing ops fail too; only the first failure counts. The error that abandons a run is not a
        // failure of the program.
        if self.has_failed || self.after_run.is_some() {
            return;
        }
        self.has_failed = true;
        self.event_count += 1;
        let row = self.debuggee.listing.row(moment.op);
        let notes: String = error.notes.iter().map(|note| format!("; {note}")).collect();
        let reason = StopReason::Failure(format!("[{}] {}{notes}", error.code, error.message));
        // Ignore the result, because the failure ends the run anyway.
        let _ = self.handle_event(Some((reason, usize::MAX)), moment, row);
    }

    fn block_ended(&mut self, block_position: BlockPosition) -> Result<()> {
        self.last_rows.retain(|(block, _), _| *block != block_position.linear);
        // A step past the end of a tile block stops in the next tile block that runs, in any warp role.
        if let Goal::Forward { resume_origin, .. } = &mut self.goal
            && resume_origin.is_some_and(|resume_origin| resume_origin.role_id.0 == block_position.linear)
        {
            *resume_origin = None;
        }
        Ok(())
    }
}

/// Replaces each `{expression}` of a logpoint message by its value.
fn expand_message(message: &str, scene: &Scene<'_>) -> String {
    let mut out = String::new();
    let mut rest = message;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let Some((expression_text, after)) = after.split_once('}') else {
            out.push('{');
            rest = after;
            continue;
        };
        let value_text = expression::evaluate(expression_text, scene).and_then(|datum| crate::values::describe(&datum, scene));
        out.push_str(value_text.unwrap_or_else(|error| format!("<{error}>")).lines().next().unwrap_or_default());
        rest = after;
    }
    out + rest
}
