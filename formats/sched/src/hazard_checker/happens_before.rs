//! Executes the events of all warp roles together and tracks the contents of shared memory and a vector clock for each role.
//!
//! Every warp role counts its events. An access completes at some event count of its role: at once, or when the role waits for its
//! copies or MMAs. The vector clock of a role has, for each role (itself included), the event count up to which all accesses are
//! known to be complete. A barrier joins the vector clocks of the warps of a role. An arrival at a pipeline publishes the clock of
//! the arriving role, and a waiter joins this clock. Threads, copies and MMAs thus follow one rule, *conflict order*. If two
//! accesses share bytes and one writes, the later role's clock must cover the earlier access.
//!
//! Either branch of a fork may have been taken. After the fork, accesses of both may be in flight, and the clock is the minimum of
//! both vector clocks. If a barrier of the access's own branch completes it, [`ShadowAccess`] stores that fact.
//!
//! In phase alloc no op synchronises, and an access may be to any stage of its staged buffer: only reads of unwritten memory are
//! faults.
//!
//! If the CTAs of a cluster multicast TMA tiles to each other, the checker executes all of them with all their warp roles. The CTAs
//! run the same program, each in its own memory. A shared stage is full when all CTAs have committed, and free when all consumers
//! have released it. Copies from one CTA to another have an entry of their own in the clock. In a CTA pair only the leader's roles
//! issue MMAs, in the memory of both.
//!
//! *Monotone phases*: a phase that satisfies a wait stays complete, and no role polls a barrier without waiting. The outcome
//! therefore does not depend on the order in which the roles are executed, so one order represents all.

use super::Fault;
use super::buffer_stage::BufferStage;
use super::event_trace::{Event, EventKind, Position, Program};
use super::last_access::LastExecutions;
use crate::FunctionAttrs;
use crate::module::{Drain, Fill, Pipeline, PipelineInfo, WarpRole};
use base::ir::{Op as OpId, Operation};
use std::collections::{BTreeMap, VecDeque};
use tileas::effects::{AccessKind, BufferAccess, Completes, Proxy};
use tileas::{Buffer, Space, tensor_memory};

/// The result of a check. The error is the message of a violation.
type Rule = Result<(), String>;
/// A vector clock with three groups of entries. First, for each warp role, the event count up to which all its accesses are known
/// to be complete. Second, for each pipeline and pair of CTAs, the event count of the commit up to which its copies are complete.
/// Third, for each warp role, the event count up to which its MMAs in tensor memory are complete.
type VectorClock = Vec<u64>;

/// An access to a stage with which a later access may conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ShadowAccess {
    /// The entry of the vector clock: a warp role, a pipeline, or the MMAs of a warp role.
    clock_entry: usize,
    op: OpId,
    /// The accessed memory.
    stage: BufferStage,
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
    /// By buffer, the number of asynchronous copies that have filled it.
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

/// A warp role's end of a pipeline: the number of its visits to stages, and the stages that it holds.
#[derive(Clone, Debug, Default)]
struct PipelineEnd {
    /// The number of stages entered so far.
    visits: u64,
    /// The stages entered but not left.
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
    /// Whether the program has its waits and barriers (phase materialize).
    pub(super) synchronised: bool,
    /// Whether reads of a buffer follow the order of its copies: each iteration reads its own copy.
    pub(super) in_order: bool,
}

/// The execution of all warp roles of a function together.
pub(super) struct AbstractExecution<'a> {
    program: &'a Program<'a>,
    attrs: &'a FunctionAttrs,
    /// The rules under check.
    rules: Rules,
    /// Whether TMA copies or MMAs access memory, so that threads must fence first.
    needs_fences: bool,
    /// The number of CTAs that are executed together: those of a cluster with TMA multicast or of a CTA pair, otherwise 1.
    cta_count: usize,
    /// The role executions, grouped by CTA.
    executions: Vec<RoleExecution>,
    /// The sides (full, empty) of each stage of each pipeline of each CTA.
    sides: BTreeMap<(usize, Pipeline, u32), [Side; 2]>,
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
/// The sides of a stage: indices into the pairs of [`AbstractExecution::sides`].
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

    /// Adds the next event of a warp role in each CTA that executes it. If there is one CTA with one role, `add_event`
    /// executes the event immediately and stores nothing.
    pub(super) fn add_event(&mut self, warp_role: WarpRole, event: Event) -> Result<(), Fault> {
        let warp_roles = self.executions.len() / self.cta_count;
        let other_ctas = if self.is_of_leader(&event) { 1..1 } else { 1..self.cta_count };
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
    fn is_of_leader(&self, event: &Event) -> bool {
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

    /// Whether an access is by an MMA of a CTA pair.
    fn is_cta_pair_mma(&self, completes: Completes) -> bool {
        self.attrs.program.cta_pair && completes == Completes::WithItsCommit
    }

    /// Executes the events of all warp roles.
    pub(super) fn run(mut self) -> Result<(), Fault> {
        loop {
            let mut has_progress = false;
            for at in 0..self.executions.len() {
                while self.execute_next(at)? {
                    has_progress = true;
                }
            }
            if !has_progress {
                return self.check_end();
            }
        }
    }

    /// Executes the next event of a warp role. Returns false if there is none, or if the role must wait.
    fn execute_next(&mut self, at: usize) -> Result<bool, Fault> {
        let Some(event) = self.executions[at].events.pop_front() else { return Ok(false) };
        let op = event.op;
        let broken = |message: String| Fault::Broken { op, message };
        if let EventKind::Acquire(position) | EventKind::Wait(position) = event.kind {
            let side = if matches!(event.kind, EventKind::Acquire(_)) { EMPTY } else { FULL };
            self.check_stage_order(at, position, side).map_err(broken)?;
            if !self.is_stage_ready(at, position, side) {
                self.executions[at].events.push_front(event);
                return Ok(false);
            }
        }
        self.executions[at].now += 1;
        self.check_accumulators_complete(at, &event).map_err(broken)?;
        match event.kind {
            EventKind::Accesses(accesses, completes) => self.check_and_record(at, op, &accesses, completes).map_err(broken)?,
            EventKind::Barrier => {
                let execution = &mut self.executions[at];
                execution.first_thread_clock[at] = execution.now;
                let own = self.issuers.iter().filter(|((warp_role, ..), _)| *warp_role == at);
                own.for_each(|(_, acquired)| join_clock(&mut execution.first_thread_clock, acquired));
                execution.clock.clone_from(&execution.first_thread_clock);
                self.forget_completed(at);
            }
            EventKind::Fence => {
                let now = self.executions[at].now;
                let own =
                    self.shadow_accesses.iter_mut().filter(|earlier| earlier.clock_entry == at && earlier.completed_at.is_some());
                own.for_each(|earlier| earlier.fenced_at = earlier.fenced_at.or(Some(now)));
            }
            EventKind::EndCopies => {
                self.accesses_in_flight(at, Proxy::Copies).for_each(|copy| copy.later_groups += 1);
            }
            EventKind::WaitForCopies(pending) => self.wait_for(at, Proxy::Copies, pending + 1),
            EventKind::WaitForMmas(pending) => self.wait_for(at, Proxy::Mma, pending),
            EventKind::Acquire(position) => self.enter_stage(at, position, EMPTY),
            EventKind::Wait(position) => self.enter_stage(at, position, FULL),
            EventKind::Commit(pipeline, stage) => self.execute_commit(at, pipeline, stage).map_err(broken)?,
            EventKind::Release(pipeline, stage) => self.execute_release(at, pipeline, stage).map_err(broken)?,
            EventKind::GlobalAccess => self.check_global_order(at, op).map_err(broken)?,
            EventKind::NextIteration => self.next_iteration(at, op),
            EventKind::Computes => {}
            EventKind::Prefetched(buffer) => self.record_prefetch(buffer),
            EventKind::PrefetchingCopy(buffer) => self.check_exclusive_memory(buffer).map_err(broken)?,
            EventKind::Fork => {
                let before = self.path_state(at);
                self.executions[at].forks.push(Fork { before, first_branch: None });
            }
            EventKind::OtherPath => {
                let first_branch = self.path_state(at);
                let fork = self.executions[at].forks.last_mut().expect("a fork is open");
                fork.first_branch = Some(first_branch);
                let before = fork.before.clone();
                self.restore_state(at, before);
            }
            EventKind::PathsJoin => {
                let Fork { before, first_branch } = self.executions[at].forks.pop().expect("a fork is open");
                self.merge_paths(at, first_branch.expect("the first branch has been executed"), &before);
            }
        }
        Ok(true)
    }

    /// If there is only one role, drops the accesses that are complete for all its warps, so that the list stays short. No later
    /// access can conflict with them, unless it uses another proxy and thus needs a fence.
    fn forget_completed(&mut self, at: usize) {
        if self.executions.len() == 1 && !self.needs_fences {
            let clock = &self.executions[at].clock;
            self.shadow_accesses
                .retain(|earlier| earlier.completed_at.is_none_or(|completed| completed > clock[earlier.clock_entry]));
        }
    }

    // Forks.

    /// Copies the state that a branch of a fork may change.
    fn path_state(&self, at: usize) -> PathState {
        let RoleExecution { clock, first_thread_clock, .. } = &self.executions[at];
        PathState {
            shadow_accesses: self.shadow_accesses.clone(),
            contents: self.contents.clone(),
            copy_counts: self.copy_counts.clone(),
            last_read_copies: self.last_read_copies.clone(),
            global_accesses: self.global_accesses.clone(),
            clock: clock.clone(),
            first_thread_clock: first_thread_clock.clone(),
        }
    }

    /// Replaces the state by that of another path.
    fn restore_state(&mut self, at: usize, path_state: PathState) {
        let PathState { shadow_accesses, contents, copy_counts, last_read_copies, global_accesses, clock, first_thread_clock } =
            path_state;
        (self.shadow_accesses, self.contents, self.copy_counts, self.last_read_copies) =
            (shadow_accesses, contents, copy_counts, last_read_copies);
        self.global_accesses = global_accesses;
        (self.executions[at].clock, self.executions[at].first_thread_clock) = (clock, first_thread_clock);
    }

    /// Merges the two branches of a fork of a warp role; both started from the state `before`.
    fn merge_paths(&mut self, at: usize, mut one: PathState, before: &PathState) {
        let mut other = self.path_state(at);
        for path in [&mut one, &mut other] {
            let PathState { shadow_accesses, global_accesses, clock, .. } = path;
            let own = global_accesses.iter_mut().filter(|((role, _), _)| *role == at);
            own.for_each(|(_, executions)| executions.forget_completed(clock[at]));
            for earlier in shadow_accesses {
                let is_known = |count: Option<u64>| count.is_some_and(|count| count <= clock[earlier.clock_entry]);
                earlier.completed_for |= u64::from(is_known(earlier.completed_at)) << at;
                earlier.fenced_for |= u64::from(is_known(earlier.fenced_at)) << at;
            }
        }
        let minimum = |one: &VectorClock, other: &VectorClock| one.iter().zip(other).map(|(one, other)| *one.min(other)).collect();
        (other.clock, other.first_thread_clock) =
            (minimum(&one.clock, &other.clock), minimum(&one.first_thread_clock, &other.first_thread_clock));
        let only_in_one: Vec<ShadowAccess> =
            one.shadow_accesses.into_iter().filter(|earlier| !other.shadow_accesses.contains(earlier)).collect();
        other.shadow_accesses.extend(only_in_one);
        let holds = |contents: &[Content], stage: &BufferStage| contents.iter().any(|content| content.stage == *stage);
        // Drops the contents that either branch has overwritten.
        other.contents.retain(|content| holds(&one.contents, &content.stage) || !holds(&before.contents, &content.stage));
        for content in one.contents {
            match other.contents.iter_mut().find(|own| own.stage == content.stage) {
                Some(own) => own.copy_number = own.copy_number.max(content.copy_number),
                None if holds(&before.contents, &content.stage) => {}
                None => other.contents.push(content),
            }
        }
        for (op, their) in one.global_accesses {
            let own = other.global_accesses.remove(&op).unwrap_or_default();
            other.global_accesses.insert(op, own.merged(their));
        }
        for (own, their) in [(&mut other.copy_counts, one.copy_counts), (&mut other.last_read_copies, one.last_read_copies)] {
            for (buffer, count) in their {
                let own = own.entry(buffer).or_default();
                *own = count.max(*own);
            }
        }
        self.restore_state(at, other);
    }

    // Global memory.

    /// Begins another iteration of a loop: the recorded accesses of the loop now belong to an earlier iteration.
    fn next_iteration(&mut self, at: usize, loop_op: OpId) {
        for op in self.program.global_order.accesses_in_loop.get(&loop_op).into_iter().flatten() {
            if let Some(executions) = self.global_accesses.get_mut(&(at, *op)) {
                executions.forget_completed(self.executions[at].clock[at]);
                executions.next_iteration(loop_op);
            }
        }
    }

    /// Checks that the accesses that tokens order before this one are complete, whichever threads performed them.
    fn check_global_order(&mut self, at: usize, op: OpId) -> Rule {
        let RoleExecution { now, clock, .. } = &self.executions[at];
        if let Some(predecessors) = self.program.global_order.predecessors.get(&op) {
            for (earlier, required) in &predecessors.executions {
                let Some(executions) = self.global_accesses.get_mut(&(at, *earlier)) else { continue };
                executions.forget_completed(clock[at]);
                if let Some(in_earlier_iteration) = executions.violation(predecessors, *required) {
                    let earlier = self.program.function.body.ops[*earlier].kind.mnemonic();
                    let iteration = if in_earlier_iteration { " in an earlier iteration" } else { "" };
                    return Err(format!(
                        "a token orders it after '{earlier}' of other threads{iteration}, and there is no barrier between"
                    ));
                }
            }
        }
        self.global_accesses.entry((at, op)).or_default().record(*now);
        Ok(())
    }

    // Prefetching copies, before their first iteration.

    /// Records that from this event on, copies may fill any stage of a staged buffer.
    fn record_prefetch(&mut self, buffer: Buffer) {
        let stage = BufferStage::all_stages(self.attrs, buffer);
        self.contents.retain(|content| !content.stage.overlaps(&stage));
        self.contents.push(Content { stage, copy_number: None });
    }

    /// Checks that no other buffer uses the memory of a buffer that a loop prefetches.
    fn check_exclusive_memory(&self, buffer: Buffer) -> Rule {
        let stage = BufferStage::all_stages(self.attrs, buffer);
        match self.contents.iter().any(|content| content.stage == stage) {
            true => Ok(()),
            false => Err(format!("{buffer} is filled ahead of its iteration, but another buffer uses its memory meanwhile")),
        }
    }

    // Pipelines.

    fn pipeline_info(&self, pipeline: Pipeline) -> &'a PipelineInfo {
        &self.attrs.pipelines[pipeline]
    }

    /// Checks that a warp role visits the stages in order, and has left a stage before it visits the stage again.
    fn check_stage_order(&self, at: usize, position: Position, side: usize) -> Rule {
        let Position { pipeline, stage, phase } = position;
        let depth = u64::from(self.pipeline_info(pipeline).depth);
        let execution = &self.executions[at];
        let none = PipelineEnd::default();
        let PipelineEnd { visits, held_stages } = execution.ends.get(&(pipeline, side)).unwrap_or(&none);
        let (due_stage, due_phase) = (visits % depth, visits / depth & 1);
        if u64::from(stage) != due_stage {
            return Err(format!(
                "stage {stage} of {pipeline} is not the next one of {}, which is stage {due_stage}",
                execution.name
            ));
        }
        if phase != due_phase {
            return Err(format!("{} is at phase {due_phase} of stage {stage} of {pipeline}, not {phase}", execution.name));
        }
        if held_stages.contains(&stage) {
            let missing = if side == EMPTY { "committed" } else { "released" };
            return Err(format!("stage {stage} of {pipeline} was not {missing} before it is due again"));
        }
        Ok(())
    }

    fn stage_side(&mut self, rank: usize, pipeline: Pipeline, stage: u32, side: usize) -> &mut Side {
        &mut self.sides.entry((rank, pipeline, stage)).or_default()[side]
    }

    /// The CTAs whose barriers a pipeline step signals. With TMA multicast, these are all CTAs of the cluster. In a CTA pair, MMAs
    /// of the leader signal both CTAs, and all other steps signal the leader.
    fn signalled_ctas(&self, at: usize, pipeline: Pipeline, side: usize) -> std::ops::Range<usize> {
        let (rank, info) = (self.executions[at].rank, self.pipeline_info(pipeline));
        let mma_side = if info.fill == Fill::Mma { FULL } else { EMPTY };
        match self.attrs.is_of_cta_pair(info) {
            true if side == mma_side => 0..self.cta_count,
            true => 0..1,
            false if info.multicast.is_some() => 0..self.cta_count,
            false => rank..rank + 1,
        }
    }

    /// Whether a role that waits for a stage may proceed, because the stage's barrier has completed often enough.
    fn is_stage_ready(&mut self, at: usize, Position { pipeline, stage, .. }: Position, side: usize) -> bool {
        let depth = u64::from(self.pipeline_info(pipeline).depth);
        let iterations = self.executions[at].ends.entry((pipeline, side)).or_default().visits / depth;
        let completed = self.stage_side(self.executions[at].rank, pipeline, stage, side).completions;
        // Stages are free at first.
        if side == EMPTY { completed >= iterations } else { completed > iterations }
    }

    /// Joins what the stage's barrier published into the clock of the waiting role, and marks the stage as held.
    fn enter_stage(&mut self, at: usize, Position { pipeline, stage, .. }: Position, side: usize) {
        let published = self.stage_side(self.executions[at].rank, pipeline, stage, side).published_clock.clone();
        let (is_single_thread, alternates) = (self.is_single_thread(pipeline, side), self.alternates_warps(at, pipeline, side));
        let execution = &mut self.executions[at];
        if alternates {
            join_clock(self.issuers.entry((at, pipeline, stage)).or_default(), &published);
        } else {
            join_clock(&mut execution.first_thread_clock, &published);
        }
        if !is_single_thread {
            join_clock(&mut execution.clock, &published);
        }
        let end = execution.ends.entry((pipeline, side)).or_default();
        end.visits += 1;
        end.held_stages.push(stage);
    }

    /// Returns whether a single thread of a warp role executes all pipeline steps on that side.
    fn is_single_thread(&self, pipeline: Pipeline, side: usize) -> bool {
        let info = self.pipeline_info(pipeline);
        if side == EMPTY { info.fills_alone() } else { info.drains_alone() }
    }

    /// Returns whether the warps of a role take turns at the pipeline steps on that side. A producer of several warps does so if it
    /// issues TMA copies.
    fn alternates_warps(&self, at: usize, pipeline: Pipeline, side: usize) -> bool {
        side == EMPTY && self.pipeline_info(pipeline).fill == Fill::Tma && self.executions[at].threads > WARP_THREADS
    }

    /// The clock of the thread that issues TMA copies into a stage.
    fn issuer_clock(&self, at: usize, stage: BufferStage) -> VectorClock {
        let execution = &self.executions[at];
        let Some((pipeline, _)) =
            self.attrs.pipeline_of(stage.buffer).filter(|(pipeline, _)| self.alternates_warps(at, *pipeline, EMPTY))
        else {
            return execution.first_thread_clock.clone();
        };
        let mut clock = execution.clock.clone();
        self.issuers.get(&(at, pipeline, stage.stage_number)).into_iter().for_each(|acquired| join_clock(&mut clock, acquired));
        clock
    }

    /// The clock entry of a warp role's MMAs.
    fn mma_clock_entry(&self, at: usize) -> usize {
        self.copy_clock_entry(self.cta_count, 0, Pipeline(0)) + at
    }

    /// The clock entry of the copies with which one CTA fills a pipeline's stages in another CTA.
    fn copy_clock_entry(&self, from: usize, to: usize, pipeline: Pipeline) -> usize {
        self.executions.len() + (from * self.cta_count + to) * self.attrs.pipelines.len() + pipeline.0 as usize
    }

    /// The clock once all MMAs issued by a role's first thread are complete, joined with the clock of that thread.
    fn mma_completion_clock(&self, at: usize) -> VectorClock {
        let execution = &self.executions[at];
        let mut clock = execution.first_thread_clock.clone();
        clock[self.mma_clock_entry(at)] = execution.now;
        clock
    }

    /// The clock of a warp role, including all that its threads have done themselves.
    fn arrival_clock(&self, at: usize) -> VectorClock {
        let execution = &self.executions[at];
        let mut clock = execution.clock.clone();
        clock[at] = execution.now;
        clock
    }

    /// Checks that the role holds the stage, and removes the stage from the held ones.
    fn leave_stage(&mut self, at: usize, pipeline: Pipeline, stage: u32, side: usize) -> Rule {
        let (step, missing_step) = if side == EMPTY { ("committed", "acquired") } else { ("released", "waited for") };
        let execution = &mut self.executions[at];
        let end = execution.ends.entry((pipeline, side)).or_default();
        let Some(open) = end.held_stages.iter().position(|held| *held == stage) else {
            return Err(format!("stage {stage} of {pipeline} is {step}, but was not {missing_step} by {}", execution.name));
        };
        end.held_stages.remove(open);
        Ok(())
    }

    /// Signals that a stage is full. The vector clock of the arrival depends on what fills the stage.
    fn execute_commit(&mut self, at: usize, pipeline: Pipeline, stage: u32) -> Rule {
        self.leave_stage(at, pipeline, stage, EMPTY)?;
        let info = self.pipeline_info(pipeline);
        let (now, mut clock, threads) = (self.executions[at].now, self.arrival_clock(at), self.executions[at].threads);
        match info.fill {
            // The copies complete when the stage is full. A waiter then knows that they are complete, but the producer does not.
            Fill::Copies => {
                let rank = self.executions[at].rank;
                let clock_entry = self.copy_clock_entry(rank, rank, pipeline);
                clock[clock_entry] = now;
                self.accesses_in_flight(at, Proxy::Copies)
                    .for_each(|copy| (copy.clock_entry, copy.completed_at) = (clock_entry, Some(now)));
            }
            Fill::Tma => return self.commit_tma(at, pipeline, stage),
            Fill::Mma => clock = self.mma_completion_clock(at),
            Fill::Threads => {
                let is_in_stage =
                    |earlier: &ShadowAccess| info.buffers.contains(&earlier.stage.buffer) && earlier.stage.stage_number == stage;
                if let Some(copy) = self.accesses_in_flight(at, Proxy::Copies).find(|earlier| is_in_stage(earlier)) {
                    return Err(format!("stage {stage} of {pipeline} is committed while a copy to {} is in flight", copy.stage));
                }
            }
        }
        let threads = if info.fills_alone() { 1 } else { threads };
        for rank in self.signalled_ctas(at, pipeline, FULL) {
            self.stage_side(rank, pipeline, stage, FULL).arrive(threads, threads, &clock);
        }
        Ok(())
    }

    /// Commits a stage that TMA fills. The stage is full when the TMA copies of all CTAs that fill it have arrived. In its own CTA,
    /// the issuing thread publishes its whole clock with the arrival. In other CTAs, it publishes only the completion of the
    /// copies. The leader of a CTA pair waits for the copies of both CTAs, each of which fills its own memory.
    fn commit_tma(&mut self, at: usize, pipeline: Pipeline, stage: u32) -> Rule {
        let (info, signalled) = (self.pipeline_info(pipeline), self.signalled_ctas(at, pipeline, FULL));
        let RoleExecution { rank: own, now, ref clock, .. } = self.executions[at];
        let of_cta_pair = self.attrs.is_of_cta_pair(info);
        let (clock, arrivals) = (clock.clone(), if of_cta_pair { self.cta_count } else { signalled.len() } as u32);
        for rank in signalled {
            let filled_cta = if of_cta_pair { own } else { rank };
            let clock_entry = self.copy_clock_entry(own, filled_cta, pipeline);
            for buffer in info.buffers.iter().filter(|buffer| filled_cta == own || info.is_multicast(**buffer)) {
                let fills_buffer = |earlier: &&mut ShadowAccess| {
                    let BufferStage { buffer: of, stage_number, rank: to, .. } = earlier.stage;
                    (of, stage_number, to) == (*buffer, stage, filled_cta)
                };
                let copies: Vec<&mut ShadowAccess> = self.accesses_in_flight(at, Proxy::Tma).filter(fills_buffer).collect();
                if copies.len() != 1 {
                    return Err(format!(
                        "stage {stage} of {pipeline} is committed with {} copies to {buffer}, not one",
                        copies.len()
                    ));
                }
                copies.into_iter().for_each(|copy| (copy.clock_entry, copy.completed_at) = (clock_entry, Some(now)));
            }
            let mut published = if rank == own { clock.clone() } else { vec![0; clock.len()] };
            published[clock_entry] = now;
            self.stage_side(rank, pipeline, stage, FULL).arrive(1, arrivals, &published);
        }
        Ok(())
    }

    /// Signals that a stage is empty. Fails while an MMA in flight reads the stage.
    fn execute_release(&mut self, at: usize, pipeline: Pipeline, stage: u32) -> Rule {
        self.leave_stage(at, pipeline, stage, FULL)?;
        let info = self.pipeline_info(pipeline);
        let is_in_stage =
            |earlier: &ShadowAccess| info.buffers.contains(&earlier.stage.buffer) && earlier.stage.stage_number == stage;
        if self.accesses_in_flight(at, Proxy::Mma).any(|earlier| is_in_stage(earlier)) {
            return Err(format!("stage {stage} of {pipeline} is released while an MMA in flight reads it"));
        }
        let clock = if info.drains_alone() { self.mma_completion_clock(at) } else { self.arrival_clock(at) };
        let threads = info.release_arrivals(self.executions[at].threads);
        let expected = self.attrs.draining_arrivals(info);
        for rank in self.signalled_ctas(at, pipeline, EMPTY) {
            self.stage_side(rank, pipeline, stage, EMPTY).arrive(threads, expected, &clock);
        }
        Ok(())
    }

    // Accesses.

    /// The accesses of one proxy that a role has issued and that are not complete.
    fn accesses_in_flight(&mut self, at: usize, proxy: Proxy) -> impl Iterator<Item = &mut ShadowAccess> {
        self.shadow_accesses
            .iter_mut()
            .filter(move |earlier| earlier.clock_entry == at && earlier.completed_at.is_none() && earlier.proxy == proxy)
    }

    /// Completes the accesses in flight after which at least `min_later_groups` later groups have begun.
    fn wait_for(&mut self, at: usize, proxy: Proxy, min_later_groups: u64) {
        let now = self.executions[at].now;
        self.accesses_in_flight(at, proxy)
            .filter(|earlier| earlier.later_groups >= min_later_groups)
            .for_each(|earlier| earlier.completed_at = Some(now));
    }

    /// Checks that the MMAs which compute the accumulators used by an event are complete.
    fn check_accumulators_complete(&self, at: usize, event: &Event) -> Rule {
        let in_flight = |op: &OpId| {
            self.shadow_accesses
                .iter()
                .any(|earlier| earlier.clock_entry == at && earlier.completed_at.is_none() && earlier.op == *op)
        };
        match event.used_accumulators.iter().find(|(_, mmas)| mmas.iter().any(in_flight)) {
            Some((value, _)) => Err(format!("{value} is used while the MMA that computes it is in flight")),
            None => Ok(()),
        }
    }

    /// The stage of an access. Before phase `pipeline-loops`, accesses name no stage, so the result covers all stages.
    fn accessed_stage(&self, at: usize, buffer: Buffer, number: u32) -> BufferStage {
        let stage = if self.rules.synchronised {
            BufferStage::new(self.attrs, buffer, number)
        } else {
            BufferStage::all_stages(self.attrs, buffer)
        };
        stage.in_cta(self.executions[at].rank)
    }

    /// The stages of an access: for an MMA of a CTA pair, the stage in both CTAs.
    fn stages_of(&self, completes: Completes, stage: BufferStage) -> Vec<BufferStage> {
        match self.is_cta_pair_mma(completes) {
            true => (0..self.cta_count).map(|rank| stage.in_cta(rank)).collect(),
            false => vec![stage],
        }
    }

    /// The memory that an access covers, as parts of stages. A multicast TMA copy covers one part of the stage, in each CTA.
    fn covered_parts(&self, access: &BufferAccess, completes: Completes, stage: BufferStage) -> Vec<BufferStage> {
        if self.is_cta_pair_mma(completes) {
            return self.stages_of(completes, stage);
        }
        let is_multicast = self.attrs.pipeline_of(stage.buffer).is_some_and(|(_, info)| info.is_multicast(stage.buffer));
        if !is_multicast || access.proxy != Proxy::Tma || !access.access_kind.writes() {
            return vec![stage];
        }
        let part = stage.part(stage.rank, self.cta_count);
        (0..self.cta_count).map(|rank| part.in_cta(rank)).collect()
    }

    /// Checks the accesses of an op against earlier accesses, and records them.
    fn check_and_record(&mut self, at: usize, op: OpId, accesses: &[(BufferAccess, u32)], completes: Completes) -> Rule {
        for (access, number) in accesses {
            let stage = self.accessed_stage(at, access.buffer, *number);
            if self.rules.synchronised {
                self.check_stage_held(at, access, *number)?;
                let mut parts = self.covered_parts(access, completes, stage).into_iter();
                parts.try_for_each(|stage| self.check_conflict_order(at, stage, access, completes))?;
            }
            self.stages_of(completes, stage).into_iter().try_for_each(|stage| self.check_content(stage, access))?;
        }
        let in_flight = completes == Completes::WithMmaGroup;
        if in_flight {
            self.accesses_in_flight(at, Proxy::Mma).for_each(|mma| mma.later_groups += 1);
        }
        for (access, number) in accesses {
            let stage = self.accessed_stage(at, access.buffer, *number);
            self.stages_of(completes, stage).into_iter().for_each(|stage| self.record_content(stage, access));
            if self.rules.synchronised {
                for stage in self.covered_parts(access, completes, stage) {
                    self.record_access(at, op, stage, access, completes);
                }
            }
        }
        Ok(())
    }

    /// Records the new content of a stage, if an access writes all of it.
    fn record_content(&mut self, stage: BufferStage, access: &BufferAccess) {
        if !matches!(access.access_kind, AccessKind::Writes | AccessKind::Fills) {
            return;
        }
        let count = self.copy_counts.entry((stage.rank, stage.buffer)).or_default();
        let copy_number = (access.proxy == Proxy::Copies).then_some(*count);
        *count += u64::from(copy_number.is_some());
        self.contents.retain(|content| !content.stage.overlaps(&stage));
        self.contents.push(Content { stage, copy_number });
    }

    /// Adds an access to those with which later accesses may conflict, and drops the accesses that it replaces.
    fn record_access(&mut self, at: usize, op: OpId, stage: BufferStage, access: &BufferAccess, completes: Completes) {
        let writes = access.access_kind.writes();
        let in_flight = match completes {
            Completes::WithItsCopies => access.proxy == Proxy::Copies,
            Completes::WithItsStage => access.proxy == Proxy::Tma,
            Completes::WithMmaGroup => true,
            Completes::WithItsCommit | Completes::AtOnce => false,
        };
        let clock_entry = if completes == Completes::WithItsCommit { self.mma_clock_entry(at) } else { at };
        let completed_at = (!in_flight).then_some(self.executions[at].now);
        // `check_conflict_order` has proved that the conflicting earlier accesses are complete. This access replaces those that
        // cover the same stage.
        let replaced = |earlier: &ShadowAccess| {
            stage == earlier.stage
                && (writes || earlier.clock_entry == clock_entry && !earlier.writes && earlier.completed_at.is_some())
        };
        self.shadow_accesses.retain(|earlier| !replaced(earlier));
        self.shadow_accesses.push(ShadowAccess {
            clock_entry,
            op,
            stage,
            writes,
            proxy: access.proxy,
            completed_at,
            fenced_at: None,
            later_groups: 0,
            completed_for: 0,
            fenced_for: 0,
        });
    }

    /// Checks that a role accesses a buffer of a pipeline only while it holds the stage.
    fn check_stage_held(&self, at: usize, access: &BufferAccess, number: u32) -> Rule {
        let Some((pipeline, info)) = self.attrs.pipeline_of(access.buffer).filter(|(_, info)| can_belong_to(info, access.proxy))
        else {
            return match access.proxy {
                Proxy::Tma if access.access_kind.writes() => Err(format!(
                    "{} belongs to no pipeline that TMA fills, so nothing signals when its copy arrives",
                    access.buffer
                )),
                _ => Ok(()),
            };
        };
        let execution = &self.executions[at];
        let is_open = |side| execution.ends.get(&(pipeline, side)).is_some_and(|end| end.held_stages.contains(&number));
        // The producer of a stage may read it. If threads fill a stage with an accumulator, the MMAs that consume the stage add to
        // it. The MMAs are complete before threads may change the accumulator again.
        let by_mma = access.proxy == Proxy::Mma && info.drain == Drain::Mma && info.fill == Fill::Threads;
        let adds = access.access_kind.writes() && by_mma;
        let writes = access.access_kind.writes() && !adds;
        let open = is_open(EMPTY) && !adds || !writes && is_open(FULL);
        let (done, window) = match (writes, adds) {
            (true, _) => ("written", "acquire and commit"),
            (_, true) => ("added to", "wait and release"),
            _ => ("read", "wait and release"),
        };
        if writes && info.producer != execution.warp_role {
            return Err(format!(
                "stage {number} of {} is written by {}, which is not the producer of {pipeline}",
                access.buffer, execution.name
            ));
        }
        match open {
            true => Ok(()),
            false => {
                Err(format!("stage {number} of {} is {done} by {} outside {window} of {pipeline}", access.buffer, execution.name))
            }
        }
    }

    /// Checks conflict order: the clock covers all conflicting accesses, and a fence follows each conflicting access of another
    /// proxy.
    fn check_conflict_order(&self, at: usize, stage: BufferStage, access: &BufferAccess, completes: Completes) -> Rule {
        let (execution, writes) = (&self.executions[at], access.access_kind.writes());
        let done = if writes { "overwritten" } else { "read" };
        let by_tma = access.proxy == Proxy::Tma;
        let by_one_mma = completes == Completes::WithItsCommit;
        let clock = match (by_tma, by_one_mma) {
            (true, _) => self.issuer_clock(at, stage),
            (_, true) => execution.first_thread_clock.clone(),
            _ => execution.clock.clone(),
        };
        for earlier in self.shadow_accesses.iter().filter(|earlier| (writes || earlier.writes) && earlier.stage.overlaps(&stage)) {
            // MMAs of one thread execute in order. So do the TMEM accesses of a role of at most four warps, because each warp
            // accesses only its own lanes.
            let of_threads = matches!(earlier.proxy, Proxy::Generic | Proxy::Copies);
            let in_order = match by_one_mma {
                true => earlier.clock_entry == self.mma_clock_entry(at),
                false => {
                    stage.space == Space::Tensor
                        && earlier.clock_entry == at
                        && of_threads
                        && execution.threads <= tensor_memory::LANES
                }
            };
            if in_order {
                continue;
            }
            let other_stage = if earlier.stage == stage { String::new() } else { format!(" (of {})", earlier.stage) };
            let by = match self.executions.get(earlier.clock_entry) {
                _ if earlier.clock_entry == at => String::new(),
                Some(other) => format!(", by {}", other.name),
                None if earlier.proxy == Proxy::Mma => ", by an MMA".into(),
                None => ", by a copy of its pipeline".into(),
            };
            let covered = clock[earlier.clock_entry];
            match earlier.completed_at {
                None if earlier.proxy != Proxy::Mma && !writes && earlier.stage == stage => {
                    return Err(format!("{stage} is read before its copy was waited for{by}"));
                }
                None if earlier.proxy != Proxy::Mma => {
                    return Err(format!("{stage} is {done} while a copy to {} is in flight{by}", earlier.stage));
                }
                None => return Err(format!("{stage} is overwritten while an MMA in flight reads it{by}")),
                Some(completed) if completed > covered && earlier.completed_for >> at & 1 == 0 => {
                    return Err(match (earlier.clock_entry == at, earlier.writes) {
                        (true, true) if earlier.proxy == Proxy::Copies => {
                            format!("{stage} is {done} before a barrier after the wait{other_stage}")
                        }
                        (true, true) => format!("{stage} is {done} before a barrier after it was written{other_stage}"),
                        (true, false) => format!("{stage} is {done} before a barrier after its last read{other_stage}"),
                        (false, true) => format!("{stage} is {done}, and nothing signals that it was written{other_stage}{by}"),
                        (false, false) => format!("{stage} is {done}, and nothing signals that it was read{other_stage}{by}"),
                    });
                }
                Some(_) => {}
            }
            let fenced = earlier.fenced_at.is_some_and(|fenced| fenced <= covered) || earlier.fenced_for >> at & 1 == 1;
            let in_shared_memory = stage.space == Space::Shared;
            if access.proxy == Proxy::Mma && in_shared_memory && earlier.writes && of_threads && !fenced {
                return Err(format!("{stage} is read in place without a fence after it was written{by}"));
            }
            if by_tma && of_threads && !fenced {
                return Err(format!("{stage} is {done} by TMA without a fence after accesses of threads{by}"));
            }
        }
        Ok(())
    }

    /// Checks that a read finds data that was written to the stage. Reads of a buffer follow the order of its copies; several reads
    /// may read one copy.
    fn check_content(&mut self, stage: BufferStage, access: &BufferAccess) -> Rule {
        if !access.access_kind.needs_content() {
            return Ok(());
        }
        let Some(content) = self.contents.iter().find(|content| content.stage == stage) else {
            return Err(match self.contents.iter().find(|content| content.stage.overlaps(&stage)) {
                Some(other) => format!("{stage} is read, but its memory was given to {}", other.stage),
                None => format!("{stage} is read before anything is written to it"),
            });
        };
        // In a pipeline, the stages define the order.
        let in_pipeline = self.attrs.pipeline_of(stage.buffer).is_some();
        let checks_copy_order =
            self.rules.synchronised && !in_pipeline && (self.rules.in_order || self.attrs.placements[stage.buffer].depth > 1);
        if let Some(number) = content.copy_number.filter(|_| checks_copy_order) {
            let last_read = self.last_read_copies.insert((stage.rank, stage.buffer), number);
            let due = last_read.map_or(0, |last_read| last_read + 1);
            if number != due && Some(number) != last_read {
                return Err(format!("{stage} holds copy {number}, and copy {due} is due"));
            }
        }
        Ok(())
    }

    // The end.

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
            return Err(Fault::Broken { op: first.op, message });
        }
        if let Some(earlier) = self.shadow_accesses.iter().find(|earlier| earlier.completed_at.is_none()) {
            let access_name = if earlier.proxy == Proxy::Mma { "MMA" } else { "copy" };
            return Err(Fault::Broken { op: earlier.op, message: format!("nothing waits for the {access_name}") });
        }
        if let Some(mma) = self.shadow_accesses.iter().find(|earlier| self.may_outlive_cta(earlier)) {
            return Err(Fault::Broken { op: mma.op, message: "nothing waits for the MMA".into() });
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

    /// The message for a stage that is not committed or released at the end, or that a consumer did not wait for.
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

/// Returns whether accesses through this proxy may belong to a pipeline. TMA copies belong only to pipelines that TMA fills.
fn can_belong_to(info: &PipelineInfo, proxy: Proxy) -> bool {
    proxy != Proxy::Tma || info.fill == Fill::Tma
}

/// Checks that the arrival counts in the pipeline table match the threads that arrive.
pub(super) fn check_arrival_counts(attrs: &FunctionAttrs) -> Rule {
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
