//! Executes the events of all warp roles together and tracks the contents of shared memory and a vector clock for each role.
//!
//! Every warp role counts its events. An access completes at some event count of its role: at once, or when the role waits for the
//! copies or MMAs. The vector clock of a role has, for each role (itself included), the event count up to which all accesses are
//! known to be complete. A barrier joins the vector clocks of the warps of a role. An arrival at a pipeline publishes the clock of
//! the arriving role, and a waiter joins this clock. Threads, copies and MMAs thus follow one rule, *conflict order*. If two
//! accesses share bytes and one writes, the clock of the role with the later access must cover the earlier access.
//!
//! A program takes one branch of a fork, and the checker does not know which. After the fork, accesses of both branches may be in
//! flight, and the clock is the minimum of both vector clocks. If a barrier in the branch of an access completes the access,
//! [`ShadowAccess`] stores that fact.
//!
//! From phase `alloc` to `pipeline-loops` no op synchronises, and an access may be to any stage of a multi-stage buffer. Only reads
//! of unwritten memory are then faults.
//!
//! If the CTAs of a cluster multicast TMA tiles to each other, the checker executes all of them with all their warp roles. The CTAs
//! run the same program, each in its own memory. A shared stage is full when all CTAs have committed, and free when all consumers
//! have released it. Copies from one CTA to another have an entry of their own in the clock. In a CTA pair only the leader's roles
//! issue MMAs, which access the memory of both CTAs.
//!
//! *Monotone phases*: a phase that satisfies a wait stays complete, and no role polls a barrier without waiting. The result of the
//! check therefore does not depend on the order in which the checker executes the roles, so one order represents all.

mod buffer_accesses;
mod execution_paths;
mod pipeline_stages;

use super::Fault;
use super::buffer_stage::BufferStage;
use super::event_trace::{Event, EventKind, Position, Program};
use super::last_access::LastExecutions;
use crate::FunctionAttrs;
use crate::module::{Fill, Pipeline, PipelineInfo, WarpRole};
use base::ir::{Op as OpId, Operation};
use std::collections::{BTreeMap, VecDeque};
use tileas::Buffer;
use tileas::effects::{BufferAccess, Completes, Proxy};

/// The result of a check. The error is the message of a violation.
type CheckResult = Result<(), String>;
/// A vector clock with three groups of entries. First, for each warp role, the event count up to which all its accesses are known
/// to be complete. Second, for each pipeline and pair of CTAs, the event count of the commit up to which its copies are complete.
/// Third, for each warp role, the event count up to which its MMAs in tensor memory are complete.
type VectorClock = Vec<u64>;

/// An access to a stage with which a later access may conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ShadowAccess {
    /// The index of the vector-clock entry that covers the access: of a warp role, of a pipeline, or of the MMAs of a warp role.
    clock_entry: usize,
    op: OpId,
    /// The accessed memory.
    stage: BufferStage,
    /// Whether the access writes the memory. Otherwise the access only reads.
    writes: bool,
    proxy: Proxy,
    /// The event count at which the access completed; `None` while the access is in flight.
    completed_at: Option<u64>,
    /// The event count at which a fence followed the access.
    fenced_at: Option<u64>,
    /// The number of copy groups or MMAs that began after this access, while it is in flight.
    later_groups: u64,
    /// For an access on one path only: the bit set of the role executions for which it is known to be complete.
    completed_for: u64,
    /// For an access on one path only: the bit set of the role executions for which it is known to be fenced.
    fenced_for: u64,
}

/// The write whose data a stage holds.
#[derive(Clone, Copy, Debug)]
struct Content {
    /// The memory that holds the data.
    stage: BufferStage,
    /// For an asynchronous copy, its number among the copies to the buffer.
    copy_number: Option<u64>,
}

/// A buffer of one CTA of a cluster.
type CtaBuffer = (usize, Buffer);

/// The state that may differ between two paths.
#[derive(Clone)]
struct PathState {
    /// The accesses with which later accesses may conflict.
    shadow_accesses: Vec<ShadowAccess>,
    /// For each stage with valid data, the write of this data.
    contents: Vec<Content>,
    /// By buffer, the number of asynchronous copies that have filled the buffer so far.
    copy_counts: BTreeMap<CtaBuffer, u64>,
    /// By buffer, the number of the asynchronous copy that was read last.
    last_read_copies: BTreeMap<CtaBuffer, u64>,
    /// By warp role and op, the last executions of the accesses to global memory.
    global_accesses: BTreeMap<(usize, OpId), LastExecutions>,
    /// The vector clock of the warp role on this path.
    clock: VectorClock,
    /// The vector clock of the role's first thread on this path.
    first_thread_clock: VectorClock,
}

/// A fork in a warp role's events of which only one branch, or part of it, has been executed.
struct Fork {
    /// The state at the start of the fork.
    before: PathState,
    /// The state after the first branch, once it has been executed.
    first_branch: Option<PathState>,
}

/// One side of a pipeline stage: how often it completed, the arrivals since then, and the joined vector clocks of the arrivals.
#[derive(Clone, Debug, Default)]
struct Side {
    /// How often the side's barrier has completed a phase.
    completions: u64,
    /// The arrivals in the current phase.
    arrived: u32,
    /// The joined vector clocks of the arrivals.
    pending_clock: VectorClock,
    /// The joined vector clocks of the completed phases, which a waiting role then knows.
    published_clock: VectorClock,
}

impl Side {
    /// Counts arrivals. Completes the phase once `expected` arrivals have come, and then publishes their vector clocks.
    fn arrive(&mut self, arrivals: u32, expected: u32, clock: &VectorClock) {
        join_clock(&mut self.pending_clock, clock);
        self.arrived += arrivals;
        if self.arrived >= expected {
            self.arrived = 0;
            self.completions += 1;
            let pending_clock = self.pending_clock.clone();
            join_clock(&mut self.published_clock, &pending_clock);
        }
    }
}

/// Joins another vector clock into a clock: each entry becomes the maximum.
fn join_clock(own: &mut VectorClock, other: &VectorClock) {
    own.resize(own.len().max(other.len()), 0);
    own.iter_mut().zip(other).for_each(|(own, other)| *own = (*own).max(*other));
}

/// The progress of a warp role on one side of a pipeline: the number of its visits to stages, and the stages that it holds.
#[derive(Clone, Debug, Default)]
struct PipelineEnd {
    /// The number of visits so far.
    visits: u64,
    /// The stages that the role holds: it acquired them and has not committed them, or waited for them and has not released them.
    held_stages: Vec<u32>,
}

/// The execution of a warp role in one CTA.
struct RoleExecution {
    warp_role: WarpRole,
    /// The index of the role's CTA among the executed CTAs of the cluster.
    rank: usize,
    /// The name of the role, for messages.
    name: String,
    /// The number of threads of the role in one CTA.
    threads: u32,
    /// The events that the role has not executed yet.
    events: VecDeque<Event>,
    /// The number of events that the role has executed.
    now: u64,
    /// For each clock entry, the event count up to which this role knows the accesses to be complete.
    clock: VectorClock,
    /// The clock of the first thread. Only this thread issues TMA copies and tensor-memory MMAs, and waits for the stages that they
    /// need.
    first_thread_clock: VectorClock,
    /// The role's ends of pipelines, by pipeline and side ([`FULL`] or [`EMPTY`]).
    ends: BTreeMap<(Pipeline, usize), PipelineEnd>,
    /// The open forks, outermost first.
    forks: Vec<Fork>,
}

/// The rules that a program must obey.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    /// Whether the program has its waits and barriers (phase `materialize`).
    pub(super) synchronised: bool,
    /// Whether the reads of a buffer must follow the order of the copies to it: each iteration reads the copy of that iteration.
    pub(super) in_order: bool,
}

/// The execution of all warp roles of a function together.
pub(super) struct AbstractExecution<'a> {
    program: &'a Program<'a>,
    attrs: &'a FunctionAttrs,
    /// The rules under check.
    rules: Rules,
    /// Whether TMA copies or MMAs access memory, so that threads must execute an async-proxy fence first.
    needs_fences: bool,
    /// The number of CTAs that the checker executes together: the cluster size with TMA multicast or CTA pairs, otherwise 1.
    cta_count: usize,
    /// The role executions, grouped by CTA.
    executions: Vec<RoleExecution>,
    /// The sides (full, empty) of each stage of each pipeline of each CTA.
    sides: BTreeMap<(usize, Pipeline, u32), [Side; 2]>,
    // The next five fields are the same as in `PathState`.
    shadow_accesses: Vec<ShadowAccess>,
    contents: Vec<Content>,
    copy_counts: BTreeMap<CtaBuffer, u64>,
    last_read_copies: BTreeMap<CtaBuffer, u64>,
    global_accesses: BTreeMap<(usize, OpId), LastExecutions>,
    /// For stages that TMA copies fill, the clock of the issuing thread when it acquired the stage, by role execution, pipeline and
    /// stage. The warps of a role alternate as issuers. A role of one warp has no entry: its first thread issues everything.
    issuers: BTreeMap<(usize, Pipeline, u32), VectorClock>,
}

/// Threads of a warp.
const WARP_THREADS: u32 = 32;
/// The side on which a consumer waits until a stage is full, as an index into a stage's two sides ([`AbstractExecution::sides`]).
const FULL: usize = 0;
/// The side on which a producer waits until a stage is empty, as an index into a stage's two sides.
const EMPTY: usize = 1;

impl<'a> AbstractExecution<'a> {
    pub(super) fn new(program: &'a Program<'a>, rules: Rules) -> AbstractExecution<'a> {
        let attrs = &program.function.attrs;
        let warp_roles: Vec<WarpRole> = attrs.warp_roles.ids().chain(attrs.warp_roles.is_empty().then_some(WarpRole(0))).collect();
        // Before pipelines exist, a CTA acts alone.
        let cta_count = if rules.synchronised { attrs.cooperating_ctas() as usize } else { 1 };
        let clock_entries = cta_count * (2 * warp_roles.len() + cta_count * attrs.pipelines.len());
        let of_cta = |rank: usize| if cta_count > 1 { format!(" of CTA {rank}") } else { String::new() };
        let execution = |rank: usize, warp_role: WarpRole| RoleExecution {
            warp_role,
            rank,
            name: attrs.warp_roles.get(warp_role).map_or("the CTA".into(), |info| format!("warp role '{}'", info.name))
                + &of_cta(rank),
            threads: attrs.role_threads(warp_role).unwrap_or(0),
            events: VecDeque::new(),
            now: 0,
            clock: vec![0; clock_entries],
            first_thread_clock: vec![0; clock_entries],
            ends: BTreeMap::new(),
            forks: Vec::new(),
        };
        let body = &program.function.body;
        let uses_async_proxy = |access: &BufferAccess| matches!(access.proxy, Proxy::Tma | Proxy::Mma);
        let is_async = |op: &OpId| body.ops[*op].kind.effects().buffers.iter().any(uses_async_proxy);
        AbstractExecution {
            program,
            attrs,
            rules,
            needs_fences: program.relevant_ops.values().flatten().any(is_async),
            cta_count,
            executions: (0..cta_count)
                .flat_map(|rank| warp_roles.iter().map(move |warp_role| execution(rank, *warp_role)))
                .collect(),
            sides: BTreeMap::new(),
            shadow_accesses: Vec::new(),
            contents: Vec::new(),
            copy_counts: BTreeMap::new(),
            last_read_copies: BTreeMap::new(),
            global_accesses: BTreeMap::new(),
            issuers: BTreeMap::new(),
        }
    }

    /// Appends an event of a warp role in each CTA that executes the event: the leader CTA of a pair, or all CTAs. A single role of
    /// a single CTA executes the event immediately, so no events are stored.
    pub(super) fn add_event(&mut self, warp_role: WarpRole, event: Event) -> Result<(), Fault> {
        let warp_roles = self.executions.len() / self.cta_count;
        let other_ctas = if self.only_leader_executes(&event) { 1..1 } else { 1..self.cta_count };
        for rank in other_ctas {
            self.executions[rank * warp_roles + warp_role.0 as usize].events.push_back(event.clone());
        }
        self.executions[warp_role.0 as usize].events.push_back(event);
        if self.executions.len() == 1 && !self.execute_next(0)? {
            return self.check_end();
        }
        Ok(())
    }

    /// Returns whether only the leader CTA of a pair executes an event, for both CTAs: an MMA, or a pipeline step of the MMAs.
    fn only_leader_executes(&self, event: &Event) -> bool {
        let of_cta_pair = |pipeline: Pipeline| self.attrs.is_of_cta_pair(self.pipeline_info(pipeline));
        match &event.kind {
            EventKind::Acquire(Position { pipeline, .. }) | EventKind::Commit(pipeline, _) => {
                of_cta_pair(*pipeline) && self.pipeline_info(*pipeline).fill == Fill::Mma
            }
            EventKind::Wait(Position { pipeline, .. }) | EventKind::Release(pipeline, _) => {
                of_cta_pair(*pipeline) && self.pipeline_info(*pipeline).drains_alone()
            }
            EventKind::Accesses(_, completes) => self.is_cta_pair_mma(*completes),
            _ => false,
        }
    }

    /// Whether an access with this completion is by an MMA of a CTA pair.
    fn is_cta_pair_mma(&self, completes: Completes) -> bool {
        self.attrs.program.cta_pair && completes == Completes::WithItsCommit
    }

    /// Executes the events of all warp roles.
    pub(super) fn run(mut self) -> Result<(), Fault> {
        loop {
            let mut has_progress = false;
            for role_index in 0..self.executions.len() {
                while self.execute_next(role_index)? {
                    has_progress = true;
                }
            }
            if !has_progress {
                return self.check_end();
            }
        }
    }

    /// Executes the next event of a warp role. Returns false if there is none, or if the role must wait.
    fn execute_next(&mut self, role_index: usize) -> Result<bool, Fault> {
        let Some(event) = self.executions[role_index].events.pop_front() else { return Ok(false) };
        let op = event.op;
        let broken = |message: String| Fault::OpViolation { op, message };
        if let EventKind::Acquire(position) | EventKind::Wait(position) = event.kind {
            let side = if matches!(event.kind, EventKind::Acquire(_)) { EMPTY } else { FULL };
            self.check_stage_order(role_index, position, side).map_err(broken)?;
            if !self.is_stage_ready(role_index, position, side) {
                self.executions[role_index].events.push_front(event);
                return Ok(false);
            }
        }
        self.executions[role_index].now += 1;
        self.check_accumulators_complete(role_index, &event).map_err(broken)?;
        match event.kind {
            EventKind::Accesses(accesses, completes) => {
                self.check_and_record(role_index, op, &accesses, completes).map_err(broken)?
            }
            EventKind::Barrier => {
                let execution = &mut self.executions[role_index];
                execution.first_thread_clock[role_index] = execution.now;
                let own = self.issuers.iter().filter(|((warp_role, ..), _)| *warp_role == role_index);
                own.for_each(|(_, acquired)| join_clock(&mut execution.first_thread_clock, acquired));
                execution.clock.clone_from(&execution.first_thread_clock);
                self.forget_completed(role_index);
            }
            EventKind::Fence => {
                let now = self.executions[role_index].now;
                let own = self
                    .shadow_accesses
                    .iter_mut()
                    .filter(|earlier| earlier.clock_entry == role_index && earlier.completed_at.is_some());
                own.for_each(|earlier| earlier.fenced_at = earlier.fenced_at.or(Some(now)));
            }
            EventKind::EndCopies => {
                self.accesses_in_flight(role_index, Proxy::Copies).for_each(|copy| copy.later_groups += 1);
            }
            EventKind::WaitForCopies(pending) => self.wait_for(role_index, Proxy::Copies, pending + 1),
            EventKind::WaitForMmas(pending) => self.wait_for(role_index, Proxy::Mma, pending),
            EventKind::Acquire(position) => self.enter_stage(role_index, position, EMPTY),
            EventKind::Wait(position) => self.enter_stage(role_index, position, FULL),
            EventKind::Commit(pipeline, stage) => self.execute_commit(role_index, pipeline, stage).map_err(broken)?,
            EventKind::Release(pipeline, stage) => self.execute_release(role_index, pipeline, stage).map_err(broken)?,
            EventKind::GlobalAccess => self.check_global_order(role_index, op).map_err(broken)?,
            EventKind::NextIteration => self.next_iteration(role_index, op),
            EventKind::Computes => {}
            EventKind::Prefetched(buffer) => self.record_prefetch(buffer),
            EventKind::PrefetchingCopy(buffer) => self.check_exclusive_memory(buffer).map_err(broken)?,
            EventKind::Fork => {
                let before = self.path_state(role_index);
                self.executions[role_index].forks.push(Fork { before, first_branch: None });
            }
            EventKind::OtherPath => {
                let first_branch = self.path_state(role_index);
                let fork = self.executions[role_index].forks.last_mut().expect("a fork is open");
                fork.first_branch = Some(first_branch);
                let before = fork.before.clone();
                self.restore_state(role_index, before);
            }
            EventKind::PathsJoin => {
                let Fork { before, first_branch } = self.executions[role_index].forks.pop().expect("a fork is open");
                self.merge_paths(role_index, first_branch.expect("the first branch has been executed"), &before);
            }
        }
        Ok(true)
    }

    /// Checks that the accesses to global memory which tokens order before the access `op` are complete. Then records `op`.
    fn check_global_order(&mut self, role_index: usize, op: OpId) -> CheckResult {
        let RoleExecution { now, clock, .. } = &self.executions[role_index];
        if let Some(predecessors) = self.program.global_order.predecessors.get(&op) {
            for (earlier, required) in &predecessors.executions {
                let Some(executions) = self.global_accesses.get_mut(&(role_index, *earlier)) else { continue };
                executions.forget_completed(clock[role_index]);
                if let Some(in_earlier_iteration) = executions.violation(predecessors, *required) {
                    let earlier = self.program.function.body.ops[*earlier].kind.mnemonic();
                    let iteration = if in_earlier_iteration { " in an earlier iteration" } else { "" };
                    return Err(format!(
                        "a token orders it after '{earlier}' of other threads{iteration}, and there is no barrier between"
                    ));
                }
            }
        }
        self.global_accesses.entry((role_index, op)).or_default().record(*now);
        Ok(())
    }

    /// Records that from this event on, copies may fill any stage of a staged buffer.
    fn record_prefetch(&mut self, buffer: Buffer) {
        let stage = BufferStage::all_stages(self.attrs, buffer);
        self.contents.retain(|content| !content.stage.overlaps(&stage));
        self.contents.push(Content { stage, copy_number: None });
    }

    /// Checks that no other buffer uses the memory of a buffer that a loop prefetches.
    fn check_exclusive_memory(&self, buffer: Buffer) -> CheckResult {
        let stage = BufferStage::all_stages(self.attrs, buffer);
        match self.contents.iter().any(|content| content.stage == stage) {
            true => Ok(()),
            false => Err(format!("{buffer} is filled ahead of its iteration, but another buffer uses its memory meanwhile")),
        }
    }

    /// Checks the state in which no role can continue: all roles must have ended, with nothing in flight. Roles that still wait are
    /// in a deadlock.
    fn check_end(&self) -> Result<(), Fault> {
        let waiting: Vec<(&RoleExecution, &Event)> =
            self.executions.iter().filter_map(|execution| Some((execution, execution.events.front()?))).collect();
        if let Some((_, first)) = waiting.first() {
            let describe_wait = |(execution, event): &(&RoleExecution, &Event)| match &event.kind {
                EventKind::Acquire(Position { pipeline, stage, phase }) => {
                    format!("{} waits until stage {stage} of {pipeline} is free, phase {phase}", execution.name)
                }
                EventKind::Wait(Position { pipeline, stage, phase }) => {
                    format!("{} waits until stage {stage} of {pipeline} is filled, phase {phase}", execution.name)
                }
                _ => unreachable!("nothing else waits"),
            };
            let message = format!("deadlock: {}", waiting.iter().map(describe_wait).collect::<Vec<_>>().join("; "));
            return Err(Fault::OpViolation { op: first.op, message });
        }
        if let Some(earlier) = self.shadow_accesses.iter().find(|earlier| earlier.completed_at.is_none()) {
            let access_name = if earlier.proxy == Proxy::Mma { "MMA" } else { "copy" };
            return Err(Fault::OpViolation { op: earlier.op, message: format!("nothing waits for the {access_name}") });
        }
        if let Some(mma) = self.shadow_accesses.iter().find(|earlier| self.may_outlive_cta(earlier)) {
            return Err(Fault::OpViolation { op: mma.op, message: "nothing waits for the MMA".into() });
        }
        self.open_stage_message().map_or(Ok(()), |message| Err(Fault::FinalState { message }))
    }

    /// Returns whether an access is an MMA in tensor memory that may be in flight when the CTA frees this memory.
    fn may_outlive_cta(&self, earlier: &ShadowAccess) -> bool {
        let of_mmas = earlier.clock_entry >= self.mma_clock_entry(0);
        of_mmas
            && earlier.completed_at.is_some_and(|completed| {
                self.executions.iter().all(|execution| execution.first_thread_clock[earlier.clock_entry] < completed)
            })
    }

    /// The message for a stage that is not committed or released at the end, or that a consumer did not wait for. `None` if there
    /// is no such stage.
    fn open_stage_message(&self) -> Option<String> {
        for (pipeline, info) in self.attrs.pipelines.iter() {
            // All CTAs of a cluster end in the same state.
            let end = |warp_role: WarpRole, side| {
                let execution = self.executions.iter().find(|execution| execution.warp_role == warp_role);
                execution.and_then(|execution| execution.ends.get(&(pipeline, side)))
            };
            let open = |warp_role, side| end(warp_role, side).and_then(|end| end.held_stages.first());
            let visited = |warp_role, side| end(warp_role, side).map_or(0, |end| end.visits);
            let tail_stages = if self.attrs.needs_producer_tail(info) { info.depth as usize } else { 0 };
            match (open(info.producer, EMPTY), end(info.producer, EMPTY).map_or(0, |end| end.held_stages.len())) {
                (_, stages) if stages == tail_stages => {}
                (Some(stage), _) if tail_stages == 0 => {
                    return Some(format!("stage {stage} of {pipeline} is acquired and never committed"));
                }
                _ => return Some(format!("{pipeline}: MMAs of another CTA may release a stage after this one has ended")),
            }
            for consumer in &info.consumers {
                if let Some(stage) = open(*consumer, FULL) {
                    return Some(format!("stage {stage} of {pipeline} is waited for and never released"));
                }
                let (filled, waited) = (visited(info.producer, EMPTY) - tail_stages as u64, visited(*consumer, FULL));
                if filled != waited {
                    return Some(format!("{pipeline} is filled {filled} times, and {consumer} waits for {waited} of them"));
                }
            }
        }
        None
    }
}

/// Returns whether accesses through this proxy must follow the steps of a pipeline. TMA copies follow only the steps of pipelines
/// that TMA fills.
fn can_belong_to(info: &PipelineInfo, proxy: Proxy) -> bool {
    proxy != Proxy::Tma || info.fill == Fill::Tma
}

/// Checks that the arrival counts in the pipeline table match the threads that arrive.
pub(super) fn check_arrival_counts(attrs: &FunctionAttrs) -> CheckResult {
    for (pipeline, info) in attrs.pipelines.iter() {
        let filling = attrs.filling_arrivals(info).unwrap_or(0);
        for (stated, arriving, verb) in [(info.full, filling, "fill"), (info.empty, attrs.draining_arrivals(info), "free")] {
            if stated != arriving {
                return Err(format!("{arriving} threads {verb} a stage of {pipeline}, and its barrier counts {stated} arrivals"));
            }
        }
    }
    Ok(())
}
