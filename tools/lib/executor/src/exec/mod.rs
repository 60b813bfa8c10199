//! Format-independent interpreter. It executes structured control flow on an explicit stack, for one CTA at a time.
//!
//! Each format implements [`Program`], which classifies control-flow ops and executes all other ops.

pub(crate) mod access;
pub(crate) mod combine;
pub(crate) mod effects;
mod nan;
mod observed_program;
mod role_scheduler;
pub(crate) mod schedule;

use crate::check_kind::Check;
use crate::cta_state::CtaState;
use crate::kernel_memory::KernelMemory;
use crate::observe::{Moment, Observer};
use crate::tile::Tile;
use crate::value::{Tensor, Value, View};
use base::diag::{Diagnostic, Result};
use base::ir::Operation;
use base::{Block, Body, DebugInfo, Loc, Op, Region, Value as Id};
use role_scheduler::{RoleScheduler, SchedulerStatus};
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Instant;

/// The results of an executed op.
pub(crate) type Results = SmallVec<[Value; 2]>;

/// The control-flow effect of an op.
pub(crate) enum Control<'a> {
    /// No control flow: [`Program::execute`] computes the results.
    None,
    If {
        cond: Id,
        then: Region,
        otherwise: Region,
    },
    For {
        lower: Id,
        upper: Id,
        step: Id,
        init: &'a [Id],
        unsigned: bool,
        body: Region,
    },
    Loop {
        init: &'a [Id],
        body: Region,
    },
    Yield(&'a [Id]),
    Continue(&'a [Id]),
    Break(&'a [Id]),
    Return,
    /// A warp role, which runs concurrently with the adjacent roles.
    WarpRole {
        index: usize,
        body: Region,
    },
}

/// A program of one format, for the interpreter.
pub(crate) trait Program: Sync {
    type Op: Operation;
    type Ty;

    fn body(&self) -> &Body<Self::Op, Self::Ty>;
    fn debug(&self) -> &DebugInfo;
    /// Returns the number of CTAs that share a tile block.
    fn ctas_per_tile_block(&self) -> u32 {
        1
    }
    /// Returns whether a CTA may process tile blocks of other CTAs (work stealing by cluster launch control).
    fn uses_clc(&self) -> bool {
        false
    }
    /// Returns the number of CTAs per cluster that signal each other's pipelines.
    fn synchronised_ctas(&self) -> u32 {
        1
    }
    /// Returns the control-flow effect of an op.
    fn control<'a>(&self, op: &'a Self::Op) -> Control<'a>;
    /// Computes the results of an op without control flow.
    fn execute(&self, op: Op, env: &mut Env<'_>) -> Result<Results>;
    /// Returns the reason for which an op must wait, as text for messages. `None` if the op can execute now.
    fn wait_reason(&self, _op: Op, _env: &mut Env<'_>) -> Option<String> {
        None
    }
    /// Returns whether the op is element-wise or ends a body. An op is element-wise if each result element depends only on the
    /// operand elements at the same position.
    fn is_elementwise(&self, op: &Self::Op) -> bool;
    /// Converts a value to the form that a debugger displays, for example a distributed tile to a full tile.
    fn display_value(&self, _id: Id, value: &Value) -> Value {
        value.clone()
    }
    /// Returns whether `--check=nan` covers the op. It does not cover loads, for example, because memory may contain a NaN.
    fn may_create_nan(&self, op: &Self::Op) -> bool;
}

/// The execution environment of an op: the state of its CTA, memory, and the observer.
pub(crate) struct Env<'a> {
    pub(crate) state: &'a mut CtaState,
    pub(crate) kernel_memory: &'a mut dyn KernelMemory,
    pub(crate) observer: &'a mut dyn Observer,
}

/// Number of ops between two checks of the deadline. Reason: reading the clock takes longer than many ops.
const DEADLINE_PERIOD: u64 = 64;
/// Maximum nesting depth of reductions. Reason: the interpreter recurses on the host stack for each level.
const MAX_REDUCTION_DEPTH: u32 = 64;

impl Env<'_> {
    /// Reports a use of undetermined elements, with `--check=padding`. A load without padding leaves elements undetermined that are
    /// masked out or outside the tensor. `use_text` is the subject and verb of the message.
    pub(crate) fn report_undetermined(&mut self, loc: Loc, use_text: &str) {
        let message =
            format!("{use_text} elements that a load without padding left undetermined (outside the tensor or masked out)");
        self.kernel_memory.report(Check::Padding, loc, message);
    }
    /// Returns the run-time value of an SSA value.
    pub(crate) fn value(&self, id: Id) -> &Value {
        self.state.values[id.0 as usize].as_ref().expect("the verifier guarantees that a value is defined before its use")
    }
    /// Returns the run-time value of an SSA value whose type is a tile.
    pub(crate) fn tile(&self, id: Id) -> &Tile {
        match self.value(id) {
            Value::Tile(tile) => tile,
            other => panic!("{id} is {other:?}, not a tile"),
        }
    }
    pub(crate) fn tensor(&self, id: Id) -> Arc<Tensor> {
        match self.value(id) {
            Value::Tensor(tensor) => tensor.clone(),
            other => panic!("{id} is {other:?}, not a tensor view"),
        }
    }
    pub(crate) fn view(&self, id: Id) -> Arc<View> {
        match self.value(id) {
            Value::View(view) => view.clone(),
            other => panic!("{id} is {other:?}, not a view"),
        }
    }
    pub(crate) fn tiles(&self, ids: &[Id]) -> Vec<Tile> {
        ids.iter().map(|id| self.tile(*id).clone()).collect()
    }
    fn set_value(&mut self, id: Id, value: Value) {
        self.state.values[id.0 as usize] = Some(value);
    }
    fn set_values(&mut self, ids: &[Id], values: impl IntoIterator<Item = Value>) {
        ids.iter().zip(values).for_each(|(id, value)| self.set_value(*id, value));
    }
    fn clone_values(&self, ids: &[Id]) -> Vec<Value> {
        ids.iter().map(|id| self.value(*id).clone()).collect()
    }
}

/// The reason for which an interpreter returned.
pub(crate) enum InterpreterStatus {
    /// The region ended with these values.
    Done(Vec<Value>),
    /// The CTA ended a loop iteration with an access that may synchronise with other tile blocks. The CTA yields to the other tile
    /// blocks.
    Waiting,
    /// The CTA waits, for this reason, until another warp role or CTA makes progress.
    Blocked(String),
    /// The warp role used up its time slice.
    SliceEnd,
}

/// The op that owns the region of a frame.
enum FrameKind {
    /// The function, or the body of a reduction.
    Outermost,
    If,
    For {
        /// The induction variable of the current or next iteration.
        counter: i128,
        upper: i128,
        step: i128,
    },
    Loop,
}

/// A running region, on the control stack.
struct Frame {
    block: Block,
    /// The index of the next op in the block.
    next_op: usize,
    kind: FrameKind,
    /// The op that owns the region. `None` for the function or the body of a reduction.
    owner: Option<Op>,
    /// The number of live allocations at region entry. Region exit frees later allocations.
    allocation_mark: usize,
}

/// Interprets one region op by op: a function, the body of a warp role, or the body of a reduction.
pub(crate) struct RegionInterpreter<'p, P: Program> {
    program: &'p P,
    frames: Vec<Frame>,
    /// The scheduler of the active warp roles, until all of them are done.
    scheduler: Option<RoleScheduler<'p, P>>,
}

impl<'p, P: Program> RegionInterpreter<'p, P> {
    /// Returns an interpreter at the start of a region. `arguments` are the values of the block arguments.
    pub(crate) fn new(program: &'p P, region: Region, arguments: impl IntoIterator<Item = Value>, env: &mut Env<'_>) -> Self {
        let block = program.body().block_of(region);
        env.set_values(&program.body().blocks[block].args, arguments);
        let allocation_mark = env.kernel_memory.allocation_mark();
        RegionInterpreter {
            program,
            frames: vec![Frame { block, next_op: 0, kind: FrameKind::Outermost, owner: None, allocation_mark }],
            scheduler: None,
        }
    }

    /// Runs until the region ends or the CTA yields to other tile blocks. A blocked region is a deadlock.
    pub(crate) fn run(&mut self, env: &mut Env<'_>) -> Result<InterpreterStatus> {
        match self.advance(env)? {
            // The region is not a warp role, so no other warp role can unblock it.
            InterpreterStatus::Blocked(wait_reason) => Err(Diagnostic::invalid("RUN021", format!("deadlock: {wait_reason}"))),
            status => Ok(status),
        }
    }

    /// Runs until the region ends, blocks, or yields to other tile blocks.
    pub(crate) fn advance(&mut self, env: &mut Env<'_>) -> Result<InterpreterStatus> {
        self.run_for(u64::MAX, env)
    }

    /// Like `advance`, but returns after `max_ops` ops at the latest.
    fn run_for(&mut self, max_ops: u64, env: &mut Env<'_>) -> Result<InterpreterStatus> {
        let slice_end = env.state.ops_left.saturating_sub(max_ops);
        loop {
            if env.state.ops_left == slice_end && max_ops < u64::MAX {
                return Ok(InterpreterStatus::SliceEnd);
            }
            if let Some(scheduler) = &mut self.scheduler {
                match scheduler.run(env)? {
                    SchedulerStatus::Done => self.scheduler = None,
                    SchedulerStatus::Waiting => return Ok(InterpreterStatus::Waiting),
                    SchedulerStatus::Blocked(wait_reason) => return Ok(InterpreterStatus::Blocked(wait_reason)),
                }
            }
            let frame = self.frames.last_mut().expect("an interpreter that is done is not run again");
            env.state.ops_left = env.state.ops_left.checked_sub(1).ok_or_else(|| {
                let message = format!("block {} exceeds the op limit of --max-ops", env.state.block_position.linear);
                Diagnostic::invalid("RUN014", message)
            })?;
            if env.state.ops_left.is_multiple_of(DEADLINE_PERIOD)
                && env.state.deadline.is_some_and(|deadline| Instant::now() > deadline)
            {
                return Err(Diagnostic::invalid("RUN015", "the launch exceeds its time limit"));
            }
            let body = self.program.body();
            let status = match body.blocks[frame.block].ops.get(frame.next_op) {
                None => self.end_block(&[], env)?,
                Some(op) => {
                    if let Some(wait_reason) = self.program.wait_reason(*op, env) {
                        return Ok(InterpreterStatus::Blocked(wait_reason));
                    }
                    frame.next_op += 1;
                    let node = &body.ops[*op];
                    self.notify(*op, env, |observer, moment| observer.before_op(moment))?;
                    let result = match self.program.control(&node.kind) {
                        Control::None => self.execute_op(*op, env).map(|()| None),
                        control => self.enter_control_flow(*op, control, env),
                    };
                    result.map_err(|error| {
                        let error = error.at_loc(self.program.debug(), node.loc);
                        let _ = self.notify(*op, env, |observer, moment| {
                            observer.op_failed(moment, &error);
                            Ok(())
                        });
                        error
                    })?
                }
            };
            if let Some(status) = status {
                return Ok(status);
            }
        }
    }

    /// Executes an op without control flow and stores its results.
    fn execute_op(&self, op: Op, env: &mut Env<'_>) -> Result<()> {
        let body = self.program.body();
        let results = self.program.execute(op, env)?;
        let ids = &body.ops[op].results;
        if env.kernel_memory.checks(Check::Nan) && self.program.may_create_nan(&body.ops[op].kind) {
            nan::report_new_nan(&body.ops[op].kind, &results, body.ops[op].loc, env);
        }
        env.set_values(ids, results.iter().cloned());
        self.notify(op, env, |observer, moment| observer.after_op(moment, &results))
    }

    /// Sends an event about an op to the observer, if the observer is active.
    fn notify(
        &self,
        op: Op,
        env: &mut Env<'_>,
        send_event: impl FnOnce(&mut dyn Observer, &Moment<'_>) -> Result<()>,
    ) -> Result<()> {
        if !env.observer.is_active() {
            return Ok(());
        }
        send_event(env.observer, &Moment::new(op, self.program, env.state, env.kernel_memory))
    }

    /// Starts the warp role that the current op begins, and all adjacent warp roles after it.
    fn start_roles(&mut self, env: &mut Env<'_>) {
        let body = self.program.body();
        let frame = self.frames.last_mut().expect("a warp role starts in a running block");
        let ops = &body.blocks[frame.block].ops[frame.next_op - 1..];
        let bodies = ops.iter().map_while(|op| match self.program.control(&body.ops[*op].kind) {
            Control::WarpRole { index, body } => Some((index, body)),
            _ => None,
        });
        let bodies: Vec<(usize, Region)> = bodies.collect();
        frame.next_op += bodies.len() - 1;
        let roles = bodies.into_iter().map(|(index, body)| (index, RegionInterpreter::new(self.program, body, [], env)));
        self.scheduler = Some(RoleScheduler::new(roles.collect::<Vec<_>>(), env.state.seed));
    }

    /// Pushes a frame for a region. Returns false if the region is empty.
    fn enter_region(&mut self, region: Region, kind: FrameKind, owner: Op, env: &Env<'_>) -> bool {
        let Some(block) = self.program.body().regions[region].blocks.first() else { return false };
        self.frames.push(Frame {
            block: *block,
            next_op: 0,
            kind,
            owner: Some(owner),
            allocation_mark: env.kernel_memory.allocation_mark(),
        });
        true
    }

    /// Executes a control-flow op. Returns a status if the interpreter must return to its caller.
    fn enter_control_flow(&mut self, op: Op, control: Control<'_>, env: &mut Env<'_>) -> Result<Option<InterpreterStatus>> {
        if env.kernel_memory.checks(Check::Padding) {
            let control_operands = match control {
                Control::If { cond, .. } => vec![cond],
                Control::For { lower, upper, step, .. } => vec![lower, upper, step],
                _ => Vec::new(),
            };
            if control_operands.iter().any(|id| env.tile(*id).undetermined().is_some()) {
                env.report_undetermined(self.program.body().ops[op].loc, "control flow depends on");
            }
        }
        match control {
            Control::None => unreachable!("the caller executes ops without control flow"),
            Control::If { cond, then, otherwise } => {
                let region = if env.tile(cond).is_true() { then } else { otherwise };
                self.enter_region(region, FrameKind::If, op, env);
                Ok(None)
            }
            Control::For { lower, upper, step, init, unsigned, body } => {
                let loop_operand = |id: Id| {
                    let tile = env.tile(id);
                    if unsigned { i128::from(tile.first()) } else { i128::from(tile.first_signed()) }
                };
                let (lower, upper, step) = (loop_operand(lower), loop_operand(upper), loop_operand(step));
                if step <= 0 && lower < upper {
                    return Err(Diagnostic::invalid("RUN010", format!("a 'for' with the step {step} never ends")));
                }
                let carried = env.clone_values(init);
                let block = self.program.body().block_of(body);
                env.set_values(&self.program.body().blocks[block].args[1..], carried);
                self.enter_region(body, FrameKind::For { counter: lower, upper, step }, op, env);
                self.begin_iteration(env)
            }
            Control::Loop { init, body } => {
                let carried = env.clone_values(init);
                let block = self.program.body().block_of(body);
                env.set_values(&self.program.body().blocks[block].args, carried);
                self.enter_region(body, FrameKind::Loop, op, env);
                Ok(None)
            }
            Control::Yield(values) => self.end_block(values, env),
            Control::Continue(values) => {
                self.unwind(|kind| matches!(kind, FrameKind::For { .. } | FrameKind::Loop), env)?;
                self.end_block(values, env)
            }
            Control::Break(values) => {
                self.unwind(|kind| matches!(kind, FrameKind::Loop), env)?;
                let values = env.clone_values(values);
                self.finish_region(values, env)
            }
            Control::WarpRole { .. } => {
                self.start_roles(env);
                Ok(None)
            }
            Control::Return => {
                self.unwind(|kind| matches!(kind, FrameKind::Outermost), env)?;
                self.end_block(&[], env)
            }
        }
    }

    /// Pops frames until the innermost frame satisfies the predicate.
    fn unwind(&mut self, is_target: impl Fn(&FrameKind) -> bool, env: &mut Env<'_>) -> Result<()> {
        while let Some(frame) = self.frames.last() {
            if is_target(&frame.kind) {
                return Ok(());
            }
            if matches!(frame.kind, FrameKind::Outermost) {
                break;
            }
            env.kernel_memory.release_allocations(frame.allocation_mark);
            self.frames.pop();
        }
        Err(Diagnostic::invalid("RUN011", "a 'break' or 'continue' outside any loop"))
    }

    /// Ends the innermost block with the values of its terminator. Continues the loop of the block, or returns to the enclosing
    /// region.
    fn end_block(&mut self, values: &[Id], env: &mut Env<'_>) -> Result<Option<InterpreterStatus>> {
        let values = env.clone_values(values);
        let frame = self.frames.last_mut().expect("a block ends only while its region runs");
        env.kernel_memory.release_allocations(frame.allocation_mark);
        match &mut frame.kind {
            FrameKind::Outermost => return Ok(Some(InterpreterStatus::Done(values))),
            FrameKind::If => return self.finish_region(values, env),
            FrameKind::For { counter, step, .. } => {
                *counter += *step;
                env.set_values(&self.program.body().blocks[frame.block].args[1..], values);
                return self.begin_iteration(env);
            }
            FrameKind::Loop => {
                frame.next_op = 0;
                env.set_values(&self.program.body().blocks[frame.block].args, values);
                if std::mem::take(&mut env.state.synchronised) {
                    return Ok(Some(InterpreterStatus::Waiting));
                }
            }
        }
        Ok(None)
    }

    /// Starts the next iteration of the innermost `for`, or ends the loop.
    fn begin_iteration(&mut self, env: &mut Env<'_>) -> Result<Option<InterpreterStatus>> {
        let frame = self.frames.last_mut().expect("a 'for' is running");
        let FrameKind::For { counter, upper, .. } = frame.kind else { unreachable!("only a 'for' iterates") };
        let args = &self.program.body().blocks[frame.block].args;
        if counter < upper {
            frame.next_op = 0;
            let elem = match frame.owner.map(|op| self.program.control(&self.program.body().ops[op].kind)) {
                Some(Control::For { lower, .. }) => env.tile(lower).elem,
                _ => unreachable!("a 'for' owns the frame"),
            };
            env.set_value(args[0], Value::Tile(Tile::scalar(elem, counter as u64 & elem.carrier().mask())));
        } else {
            let carried = env.clone_values(&args[1..]);
            return self.finish_region(carried, env);
        }
        Ok(None)
    }

    /// Pops the innermost frame and sets the results of its op.
    fn finish_region(&mut self, values: Vec<Value>, env: &mut Env<'_>) -> Result<Option<InterpreterStatus>> {
        let frame = self.frames.pop().expect("a region ends only while it runs");
        env.kernel_memory.release_allocations(frame.allocation_mark);
        if let Some(owner) = frame.owner {
            env.set_values(&self.program.body().ops[owner].results, values.iter().cloned());
            self.notify(owner, env, |observer, moment| observer.after_op(moment, &values))?;
        }
        Ok(None)
    }
}

/// Runs the body of a reduction to its end. Returns the yielded values.
pub(crate) fn run_reduction_body<P: Program>(
    program: &P,
    region: Region,
    arguments: Vec<Value>,
    env: &mut Env<'_>,
) -> Result<Vec<Value>> {
    if env.state.reduction_depth >= MAX_REDUCTION_DEPTH {
        return Err(Diagnostic::unsupported("RUN012", format!("reductions nested more than {MAX_REDUCTION_DEPTH} deep")));
    }
    env.state.reduction_depth += 1;
    let result = RegionInterpreter::new(program, region, arguments, env).run(env);
    env.state.reduction_depth -= 1;
    match result? {
        InterpreterStatus::Done(values) => Ok(values),
        InterpreterStatus::Waiting | InterpreterStatus::Blocked(_) | InterpreterStatus::SliceEnd => {
            Err(Diagnostic::unsupported("RUN013", "the body of a reduction waits for another tile block"))
        }
    }
}
