//! Executes the events of all warp roles together and tracks the contents of shared memory and a vector clock for each role.
//!
//! Every warp role counts its events. An access completes at some count of its role: at once, or when the role waits for its copies
//! or MMAs. The vector clock of a role has, for each role (itself included), the count up to which everything is known to be
//! complete. A barrier joins the vector clocks of the warps of a role. An arrival at a pipeline publishes the clock of the arriving
//! role, and a waiter joins this clock. Threads, copies and MMAs thus follow one rule, *conflict order*. If two accesses share
//! bytes and one writes, the later role's clock must cover the earlier access.
//!
//! Either branch of a fork may have been taken. After the fork, accesses of both may be in flight, and the clock is the minimum of
//! both vector clocks. An access that a barrier of its branch completes stores that fact itself.
//!
//! In phase alloc no op synchronises, and an access may be to any stage of its staged buffer: only reads of unwritten memory are
//! faults.
//!
//! If the CTAs of a cluster multicast TMA tiles to each other, the checker executes all of them with all their warp roles. They run
//! the same program, each in its own memory. A shared stage is full when all CTAs have committed, and free when all consumers have
//! released it. Copies from one CTA to another have an entry of their own in the clock. In a CTA pair only the leader's roles issue
//! MMAs, in the memory of both.
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
    stage: BufferStage,
    writes: bool,
    proxy: Proxy,
    /// The counts at which the access completed, and at which a fence followed.
    completed_at: Option<u64>,
    fenced_at: Option<u64>,
    /// The number of copy groups or MMAs that began after this access, while it is in flight.
    later_groups: u64,
    /// The warp roles, as a bit set, that know the access to be complete, or fenced, on the only path that contains it.
    completed_for: u64,
    fenced_for: u64,
}

/// The write whose data a stage holds.
#[derive(Clone, Copy, Debug)]
struct Content {
    stage: BufferStage,
    /// The number of the copy among those to its buffer.
    copy: Option<u64>,
}

/// A buffer of one CTA of a cluster.
type CtaBuffer = (usize, Buffer);

/// The state that may differ between two paths.
#[derive(Clone)]
struct PathState {
    shadow_accesses: Vec<ShadowAccess>,
    /// The last write to each stage that still holds it.
    contents: Vec<Content>,
    /// By buffer, the number of copies that have filled it, and the number of the copy that was read last.
    copied: BTreeMap<CtaBuffer, u64>,
    read: BTreeMap<CtaBuffer, u64>,
    /// By warp role and op, the last executions of the accesses to global memory.
    global_accesses: BTreeMap<(usize, OpId), LastExecutions>,
    /// The vector clocks of the warp role on this path, and of its first thread.
    clock: VectorClock,
    first: VectorClock,
}

/// A fork that is still open.
struct Fork {
    before: PathState,
    /// The state after the first branch, once it has been executed.
    first_branch: Option<PathState>,
}

/// One side of a pipeline stage: how often it completed, the arrivals since then, and the joined vector clocks of the arrivals.
#[derive(Clone, Debug, Default)]
struct Side {
    completed: u64,
    arrived: u32,
    pending: VectorClock,
    known: VectorClock,
}

impl Side {
    fn arrive(&mut self, threads: u32, all: u32, clock: &VectorClock) {
        merge(&mut self.pending, clock);
        self.arrived += threads;
        if self.arrived >= all {
            self.arrived = 0;
            self.completed += 1;
            let pending = self.pending.clone();
            merge(&mut self.known, &pending);
        }
    }
}

fn merge(own: &mut VectorClock, other: &VectorClock) {
    own.resize(own.len().max(other.len()), 0);
    own.iter_mut().zip(other).for_each(|(own, other)| *own = (*own).max(*other));
}

/// A warp role's end of a pipeline: the stages that it has visited, and those that it holds.
#[derive(Clone, Debug, Default)]
struct End {
    visited: u64,
    open: Vec<u32>,
}

struct RoleExecution {
    warp_role: WarpRole,
    /// Its CTA among the executed CTAs of the cluster.
    rank: usize,
    name: String,
    threads: u32,
    events: VecDeque<Event>,
    /// The number of events that the role has executed.
    now: u64,
    clock: VectorClock,
    /// The clock of the first thread, which alone issues TMA copies and tensor-memory MMAs and waits for what they need.
    first: VectorClock,
    /// By pipeline and side of its stages.
    ends: BTreeMap<(Pipeline, usize), End>,
    forks: Vec<Fork>,
}

/// The rules that a program must obey.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    /// Whether the program has its waits and barriers.
    pub(super) synchronised: bool,
    /// Whether reads of a buffer follow the order of its copies: each iteration reads its own copy.
    pub(super) in_order: bool,
}

pub(super) struct AbstractExecution<'a> {
    program: &'a Program<'a>,
    attrs: &'a FunctionAttrs,
    /// The rules under check.
    rules: Rules,
    /// Whether TMA copies or MMAs access memory, so that threads must fence first.
    needs_fences: bool,
    /// The number of CTAs that are executed together: those of a cluster with TMA multicast or of a CTA pair, otherwise 1.
    ranks: usize,
    /// The role executions, grouped by CTA.
    executions: Vec<RoleExecution>,
    /// The sides (full, empty) of each stage of each pipeline of each CTA.
    sides: BTreeMap<(usize, Pipeline, u32), [Side; 2]>,
    shadow_accesses: Vec<ShadowAccess>,
    contents: Vec<Content>,
    copied: BTreeMap<CtaBuffer, u64>,
    read: BTreeMap<CtaBuffer, u64>,
    global_accesses: BTreeMap<(usize, OpId), LastExecutions>,
    /// By warp role: for stages that TMA copies fill, the clock of the issuing thread when it acquired the stage. The warps of a
    /// role alternate; if the role has one warp, its first thread issues everything.
    issuers: BTreeMap<(usize, Pipeline, u32), VectorClock>,
}

const WARP: u32 = 32;
const FULL: usize = 0;
const EMPTY: usize = 1;

impl<'a> AbstractExecution<'a> {
    pub(super) fn new(program: &'a Program<'a>, rules: Rules) -> AbstractExecution<'a> {
        let attrs = &program.function.attrs;
        let warp_roles: Vec<WarpRole> = attrs.warp_roles.ids().chain(attrs.warp_roles.is_empty().then_some(WarpRole(0))).collect();
        // Before pipelines exist, a CTA acts alone.
        let ranks = if rules.synchronised { attrs.cooperating_ctas() as usize } else { 1 };
        let count = ranks * (2 * warp_roles.len() + ranks * attrs.pipelines.len());
        let of_cta = |rank: usize| if ranks > 1 { format!(" of CTA {rank}") } else { String::new() };
        let execution = |rank: usize, warp_role: WarpRole| RoleExecution {
            warp_role,
            rank,
            name: attrs.warp_roles.get(warp_role).map_or("the CTA".into(), |info| format!("warp role '{}'", info.name))
                + &of_cta(rank),
            threads: attrs.role_threads(warp_role).unwrap_or(0),
            events: VecDeque::new(),
            now: 0,
            clock: vec![0; count],
            first: vec![0; count],
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
            needs_fences: program.relevant.values().flatten().any(is_async),
            ranks,
            executions: (0..ranks).flat_map(|rank| warp_roles.iter().map(move |warp_role| execution(rank, *warp_role))).collect(),
            sides: BTreeMap::new(),
            shadow_accesses: Vec::new(),
            contents: Vec::new(),
            copied: BTreeMap::new(),
            read: BTreeMap::new(),
            global_accesses: BTreeMap::new(),
            issuers: BTreeMap::new(),
        }
    }

    /// Adds the next event of a warp role. A single role executes its events at once, which needs no memory.
    pub(super) fn add(&mut self, warp_role: WarpRole, event: Event) -> Result<(), Fault> {
        let warp_roles = self.executions.len() / self.ranks;
        let others = if self.is_of_leader(&event) { 1..1 } else { 1..self.ranks };
        for rank in others {
            self.executions[rank * warp_roles + warp_role.0 as usize].events.push_back(event.clone());
        }
        self.executions[warp_role.0 as usize].events.push_back(event);
        if self.executions.len() == 1 && !self.step(0)? {
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

    fn is_cta_pair_mma(&self, completes: Completes) -> bool {
        self.attrs.program.cta_pair && completes == Completes::WithItsCommit
    }

    /// Executes the events of all warp roles.
    pub(super) fn run(mut self) -> Result<(), Fault> {
        loop {
            let mut moved = false;
            for at in 0..self.executions.len() {
                while self.step(at)? {
                    moved = true;
                }
            }
            if !moved {
                return self.check_end();
            }
        }
    }

    /// Executes the next event of a warp role, unless there is none or the role must wait.
    fn step(&mut self, at: usize) -> Result<bool, Fault> {
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
        self.accumulators_are_complete(at, &event).map_err(broken)?;
        match event.kind {
            EventKind::Accesses(accesses, completes) => self.accesses(at, op, &accesses, completes).map_err(broken)?,
            EventKind::Barrier => {
                let execution = &mut self.executions[at];
                execution.first[at] = execution.now;
                let own = self.issuers.iter().filter(|((warp_role, ..), _)| *warp_role == at);
                own.for_each(|(_, acquired)| merge(&mut execution.first, acquired));
                execution.clock.clone_from(&execution.first);
                self.forget_completed(at);
            }
            EventKind::Fence => {
                let now = self.executions[at].now;
                let own =
                    self.shadow_accesses.iter_mut().filter(|earlier| earlier.clock_entry == at && earlier.completed_at.is_some());
                own.for_each(|earlier| earlier.fenced_at = earlier.fenced_at.or(Some(now)));
            }
            EventKind::EndCopies => {
                self.in_flight(at, Proxy::Copies).for_each(|copy| copy.later_groups += 1);
            }
            EventKind::WaitForCopies(pending) => self.wait_for(at, Proxy::Copies, pending + 1),
            EventKind::WaitForMmas(pending) => self.wait_for(at, Proxy::Mma, pending),
            EventKind::Acquire(position) => self.enter_stage(at, position, EMPTY),
            EventKind::Wait(position) => self.enter_stage(at, position, FULL),
            EventKind::Commit(pipeline, stage) => self.commit(at, pipeline, stage).map_err(broken)?,
            EventKind::Release(pipeline, stage) => self.release(at, pipeline, stage).map_err(broken)?,
            EventKind::GlobalAccess => self.check_global_order(at, op).map_err(broken)?,
            EventKind::NextIteration => self.next_iteration(at, op),
            EventKind::Computes => {}
            EventKind::Prefetched(buffer) => self.prefetch(buffer),
            EventKind::PrefetchingCopy(buffer) => self.has_exclusive_memory(buffer).map_err(broken)?,
            EventKind::Fork => {
                let before = self.path_state(at);
                self.executions[at].forks.push(Fork { before, first_branch: None });
            }
            EventKind::OtherPath => {
                let first_branch = self.path_state(at);
                let fork = self.executions[at].forks.last_mut().expect("a fork is open");
                fork.first_branch = Some(first_branch);
                let before = fork.before.clone();
                self.restore(at, before);
            }
            EventKind::PathsJoin => {
                let Fork { before, first_branch } = self.executions[at].forks.pop().expect("a fork is open");
                self.merge_paths(at, first_branch.expect("the first branch has been executed"), &before);
            }
        }
        Ok(true)
    }

    /// Drops the accesses that all warps of a single role know to be complete. No later access can conflict, unless fences order
    /// another proxy.
    fn forget_completed(&mut self, at: usize) {
        if self.executions.len() == 1 && !self.needs_fences {
            let clock = &self.executions[at].clock;
            self.shadow_accesses.retain(|earlier| earlier.completed_at.is_none_or(|over| over > clock[earlier.clock_entry]));
        }
    }

    // Forks.

    fn path_state(&self, at: usize) -> PathState {
        let RoleExecution { clock, first, .. } = &self.executions[at];
        PathState {
            shadow_accesses: self.shadow_accesses.clone(),
            contents: self.contents.clone(),
            copied: self.copied.clone(),
            read: self.read.clone(),
            global_accesses: self.global_accesses.clone(),
            clock: clock.clone(),
            first: first.clone(),
        }
    }

    fn restore(&mut self, at: usize, path_state: PathState) {
        let PathState { shadow_accesses, contents, copied, read, global_accesses, clock, first } = path_state;
        (self.shadow_accesses, self.contents, self.copied, self.read) = (shadow_accesses, contents, copied, read);
        self.global_accesses = global_accesses;
        (self.executions[at].clock, self.executions[at].first) = (clock, first);
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
        let less = |one: &VectorClock, other: &VectorClock| one.iter().zip(other).map(|(one, other)| *one.min(other)).collect();
        (other.clock, other.first) = (less(&one.clock, &other.clock), less(&one.first, &other.first));
        let new: Vec<ShadowAccess> =
            one.shadow_accesses.into_iter().filter(|earlier| !other.shadow_accesses.contains(earlier)).collect();
        other.shadow_accesses.extend(new);
        let holds = |contents: &[Content], stage: &BufferStage| contents.iter().any(|content| content.stage == *stage);
        // Drops the contents that either branch has overwritten.
        other.contents.retain(|content| holds(&one.contents, &content.stage) || !holds(&before.contents, &content.stage));
        for content in one.contents {
            match other.contents.iter_mut().find(|own| own.stage == content.stage) {
                Some(own) => own.copy = own.copy.max(content.copy),
                None if holds(&before.contents, &content.stage) => {}
                None => other.contents.push(content),
            }
        }
        for (op, their) in one.global_accesses {
            let own = other.global_accesses.remove(&op).unwrap_or_default();
            other.global_accesses.insert(op, own.merged(their));
        }
        for (own, their) in [(&mut other.copied, one.copied), (&mut other.read, one.read)] {
            for (held, count) in their {
                let own = own.entry(held).or_default();
                *own = count.max(*own);
            }
        }
        self.restore(at, other);
    }

    // Global memory.

    /// The accesses of a loop now belong to an earlier iteration.
    fn next_iteration(&mut self, at: usize, for_op: OpId) {
        for op in self.program.order.inside.get(&for_op).into_iter().flatten() {
            if let Some(executions) = self.global_accesses.get_mut(&(at, *op)) {
                executions.forget_completed(self.executions[at].clock[at]);
                executions.next_iteration(for_op);
            }
        }
    }

    /// Checks that the accesses that tokens order before this one are complete, whichever threads performed them.
    fn check_global_order(&mut self, at: usize, op: OpId) -> Rule {
        let RoleExecution { now, clock, .. } = &self.executions[at];
        if let Some(before) = self.program.order.before.get(&op) {
            for (earlier, wait) in &before.earlier {
                let Some(executions) = self.global_accesses.get_mut(&(at, *earlier)) else { continue };
                executions.forget_completed(clock[at]);
                if let Some(in_earlier_iteration) = executions.violated(before, *wait) {
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

    /// From here on copies may fill any stage of a staged buffer.
    fn prefetch(&mut self, buffer: Buffer) {
        let stage = BufferStage::all_stages(self.attrs, buffer);
        self.contents.retain(|content| !content.stage.overlaps(&stage));
        self.contents.push(Content { stage, copy: None });
    }

    fn has_exclusive_memory(&self, buffer: Buffer) -> Rule {
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
        let none = End::default();
        let End { visited, open } = execution.ends.get(&(pipeline, side)).unwrap_or(&none);
        let (due, iteration) = (visited % depth, visited / depth & 1);
        if u64::from(stage) != due {
            return Err(format!("stage {stage} of {pipeline} is not the next one of {}, which is stage {due}", execution.name));
        }
        if phase != iteration {
            return Err(format!("{} is at phase {iteration} of stage {stage} of {pipeline}, not {phase}", execution.name));
        }
        if open.contains(&stage) {
            let missing = if side == EMPTY { "committed" } else { "released" };
            return Err(format!("stage {stage} of {pipeline} was not {missing} before it is due again"));
        }
        Ok(())
    }

    fn side(&mut self, rank: usize, pipeline: Pipeline, stage: u32, side: usize) -> &mut Side {
        &mut self.sides.entry((rank, pipeline, stage)).or_default()[side]
    }

    /// The CTAs whose barriers a pipeline step signals. With TMA multicast, these are all CTAs of the cluster. In a CTA pair, MMAs
    /// of the leader signal both CTAs, and all other steps signal the leader.
    fn signalled(&self, at: usize, pipeline: Pipeline, side: usize) -> std::ops::Range<usize> {
        let (rank, info) = (self.executions[at].rank, self.pipeline_info(pipeline));
        let by_mma = if info.fill == Fill::Mma { FULL } else { EMPTY };
        match self.attrs.is_of_cta_pair(info) {
            true if side == by_mma => 0..self.ranks,
            true => 0..1,
            false if info.multicast.is_some() => 0..self.ranks,
            false => rank..rank + 1,
        }
    }

    fn is_stage_ready(&mut self, at: usize, Position { pipeline, stage, .. }: Position, side: usize) -> bool {
        let depth = u64::from(self.pipeline_info(pipeline).depth);
        let iterations = self.executions[at].ends.entry((pipeline, side)).or_default().visited / depth;
        let completed = self.side(self.executions[at].rank, pipeline, stage, side).completed;
        // Stages are free at first.
        if side == EMPTY { completed >= iterations } else { completed > iterations }
    }

    fn enter_stage(&mut self, at: usize, Position { pipeline, stage, .. }: Position, side: usize) {
        let published = self.side(self.executions[at].rank, pipeline, stage, side).known.clone();
        let (is_single_thread, alternates) = (self.is_single_thread(pipeline, side), self.alternates_warps(at, pipeline, side));
        let execution = &mut self.executions[at];
        if alternates {
            merge(self.issuers.entry((at, pipeline, stage)).or_default(), &published);
        } else {
            merge(&mut execution.first, &published);
        }
        if !is_single_thread {
            merge(&mut execution.clock, &published);
        }
        let end = execution.ends.entry((pipeline, side)).or_default();
        end.visited += 1;
        end.open.push(stage);
    }

    /// Returns whether a single thread of a warp role executes all pipeline steps on that side.
    fn is_single_thread(&self, pipeline: Pipeline, side: usize) -> bool {
        let info = self.pipeline_info(pipeline);
        if side == EMPTY { info.fills_alone() } else { info.drains_alone() }
    }

    /// Returns whether the warps of the role alternate on that side.
    fn alternates_warps(&self, at: usize, pipeline: Pipeline, side: usize) -> bool {
        side == EMPTY && self.pipeline_info(pipeline).fill == Fill::Tma && self.executions[at].threads > WARP
    }

    /// The clock of the thread that issues TMA copies into a stage.
    fn issuer_clock(&self, at: usize, stage: BufferStage) -> VectorClock {
        let execution = &self.executions[at];
        let Some((pipeline, _)) =
            self.attrs.pipeline_of(stage.buffer).filter(|(pipeline, _)| self.alternates_warps(at, *pipeline, EMPTY))
        else {
            return execution.first.clone();
        };
        let mut clock = execution.clock.clone();
        self.issuers.get(&(at, pipeline, stage.number)).into_iter().for_each(|acquired| merge(&mut clock, acquired));
        clock
    }

    /// The clock entry of a warp role's MMAs.
    fn mma_clock_entry(&self, at: usize) -> usize {
        self.copy_clock_entry(self.ranks, 0, Pipeline(0)) + at
    }

    /// The clock entry of the copies with which one CTA fills a pipeline's stages in another CTA.
    fn copy_clock_entry(&self, from: usize, to: usize, pipeline: Pipeline) -> usize {
        self.executions.len() + (from * self.ranks + to) * self.attrs.pipelines.len() + pipeline.0 as usize
    }

    /// The clock once all MMAs issued by a role's first thread are complete, joined with the clock of that thread.
    fn mma_completion_clock(&self, at: usize) -> VectorClock {
        let execution = &self.executions[at];
        let mut clock = execution.first.clone();
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

    fn leave_stage(&mut self, at: usize, pipeline: Pipeline, stage: u32, side: usize) -> Rule {
        let (what, missing) = if side == EMPTY { ("committed", "acquired") } else { ("released", "waited for") };
        let execution = &mut self.executions[at];
        let end = execution.ends.entry((pipeline, side)).or_default();
        let Some(open) = end.open.iter().position(|open| *open == stage) else {
            return Err(format!("stage {stage} of {pipeline} is {what}, but was not {missing} by {}", execution.name));
        };
        end.open.remove(open);
        Ok(())
    }

    fn commit(&mut self, at: usize, pipeline: Pipeline, stage: u32) -> Rule {
        self.leave_stage(at, pipeline, stage, EMPTY)?;
        let info = self.pipeline_info(pipeline);
        let (now, mut clock, threads) = (self.executions[at].now, self.arrival_clock(at), self.executions[at].threads);
        match info.fill {
            // The copies complete when the stage is full. A waiter then knows that they are complete, but the producer does not.
            Fill::Copies => {
                let rank = self.executions[at].rank;
                let by = self.copy_clock_entry(rank, rank, pipeline);
                clock[by] = now;
                self.in_flight(at, Proxy::Copies).for_each(|copy| (copy.clock_entry, copy.completed_at) = (by, Some(now)));
            }
            Fill::Tma => return self.commit_tma(at, pipeline, stage),
            Fill::Mma => clock = self.mma_completion_clock(at),
            Fill::Threads => {
                let staged_buffer =
                    |earlier: &ShadowAccess| info.buffers.contains(&earlier.stage.buffer) && earlier.stage.number == stage;
                if let Some(copy) = self.in_flight(at, Proxy::Copies).find(|earlier| staged_buffer(earlier)) {
                    return Err(format!("stage {stage} of {pipeline} is committed while a copy to {} is in flight", copy.stage));
                }
            }
        }
        let threads = if info.fills_alone() { 1 } else { threads };
        for rank in self.signalled(at, pipeline, FULL) {
            self.side(rank, pipeline, stage, FULL).arrive(threads, threads, &clock);
        }
        Ok(())
    }

    /// A stage is full when the TMA copies of all CTAs that fill it have arrived. In its own CTA, the issuing thread publishes its
    /// whole clock with the arrival. In other CTAs, it publishes only the completion of the copies. The leader of a CTA pair waits
    /// for the copies of both CTAs, each of which fills its own memory.
    fn commit_tma(&mut self, at: usize, pipeline: Pipeline, stage: u32) -> Rule {
        let (info, signalled) = (self.pipeline_info(pipeline), self.signalled(at, pipeline, FULL));
        let RoleExecution { rank: own, now, ref clock, .. } = self.executions[at];
        let of_cta_pair = self.attrs.is_of_cta_pair(info);
        let (clock, parts) = (clock.clone(), if of_cta_pair { self.ranks } else { signalled.len() } as u32);
        for rank in signalled {
            let into = if of_cta_pair { own } else { rank };
            let by = self.copy_clock_entry(own, into, pipeline);
            for buffer in info.buffers.iter().filter(|buffer| into == own || info.is_multicast(**buffer)) {
                let filled = |earlier: &&mut ShadowAccess| {
                    let BufferStage { buffer: of, number, rank: to, .. } = earlier.stage;
                    (of, number, to) == (*buffer, stage, into)
                };
                let copies: Vec<&mut ShadowAccess> = self.in_flight(at, Proxy::Tma).filter(filled).collect();
                if copies.len() != 1 {
                    return Err(format!(
                        "stage {stage} of {pipeline} is committed with {} copies to {buffer}, not one",
                        copies.len()
                    ));
                }
                copies.into_iter().for_each(|copy| (copy.clock_entry, copy.completed_at) = (by, Some(now)));
            }
            let mut published = if rank == own { clock.clone() } else { vec![0; clock.len()] };
            published[by] = now;
            self.side(rank, pipeline, stage, FULL).arrive(1, parts, &published);
        }
        Ok(())
    }

    fn release(&mut self, at: usize, pipeline: Pipeline, stage: u32) -> Rule {
        self.leave_stage(at, pipeline, stage, FULL)?;
        let info = self.pipeline_info(pipeline);
        let staged_buffer = |earlier: &ShadowAccess| info.buffers.contains(&earlier.stage.buffer) && earlier.stage.number == stage;
        if self.in_flight(at, Proxy::Mma).any(|earlier| staged_buffer(earlier)) {
            return Err(format!("stage {stage} of {pipeline} is released while an MMA in flight reads it"));
        }
        let clock = if info.drains_alone() { self.mma_completion_clock(at) } else { self.arrival_clock(at) };
        let threads = info.releases(self.executions[at].threads);
        let all = self.attrs.draining_threads(info);
        for rank in self.signalled(at, pipeline, EMPTY) {
            self.side(rank, pipeline, stage, EMPTY).arrive(threads, all, &clock);
        }
        Ok(())
    }

    // Accesses.

    fn in_flight(&mut self, at: usize, proxy: Proxy) -> impl Iterator<Item = &mut ShadowAccess> {
        self.shadow_accesses
            .iter_mut()
            .filter(move |earlier| earlier.clock_entry == at && earlier.completed_at.is_none() && earlier.proxy == proxy)
    }

    /// Completes the accesses after which at least `enough` later groups have begun.
    fn wait_for(&mut self, at: usize, proxy: Proxy, enough: u64) {
        let now = self.executions[at].now;
        self.in_flight(at, proxy)
            .filter(|earlier| earlier.later_groups >= enough)
            .for_each(|earlier| earlier.completed_at = Some(now));
    }

    fn accumulators_are_complete(&self, at: usize, event: &Event) -> Rule {
        let in_flight = |op: &OpId| {
            self.shadow_accesses
                .iter()
                .any(|earlier| earlier.clock_entry == at && earlier.completed_at.is_none() && earlier.op == *op)
        };
        match event.needs.iter().find(|(_, mmas)| mmas.iter().any(in_flight)) {
            Some((value, _)) => Err(format!("{value} is used while the MMA that computes it is in flight")),
            None => Ok(()),
        }
    }

    /// The stage of an access; before accesses name stages it may be any stage.
    fn stage(&self, at: usize, buffer: Buffer, number: u32) -> BufferStage {
        let stage = if self.rules.synchronised {
            BufferStage::of(self.attrs, buffer, number)
        } else {
            BufferStage::all_stages(self.attrs, buffer)
        };
        stage.of_cta(self.executions[at].rank)
    }

    /// The stages of an access: for an MMA of a CTA pair, those of both CTAs.
    fn stages_of(&self, completes: Completes, stage: BufferStage) -> Vec<BufferStage> {
        match self.is_cta_pair_mma(completes) {
            true => (0..self.ranks).map(|rank| stage.of_cta(rank)).collect(),
            false => vec![stage],
        }
    }

    /// The part of the stage that an access covers. Multicast TMA tiles cover one part of the stage, in each CTA.
    fn covered_parts(&self, access: &BufferAccess, completes: Completes, stage: BufferStage) -> Vec<BufferStage> {
        if self.is_cta_pair_mma(completes) {
            return self.stages_of(completes, stage);
        }
        let is_multicast = self.attrs.pipeline_of(stage.buffer).is_some_and(|(_, info)| info.is_multicast(stage.buffer));
        if !is_multicast || access.proxy != Proxy::Tma || !access.access_kind.writes() {
            return vec![stage];
        }
        let part = stage.part(stage.rank, self.ranks);
        (0..self.ranks).map(|rank| part.of_cta(rank)).collect()
    }

    fn accesses(&mut self, at: usize, op: OpId, accesses: &[(BufferAccess, u32)], completes: Completes) -> Rule {
        for (access, number) in accesses {
            let stage = self.stage(at, access.buffer, *number);
            if self.rules.synchronised {
                self.check_stage_held(at, access, *number)?;
                let mut parts = self.covered_parts(access, completes, stage).into_iter();
                parts.try_for_each(|stage| self.check_conflict_order(at, stage, access, completes))?;
            }
            self.stages_of(completes, stage).into_iter().try_for_each(|stage| self.check_content(stage, access))?;
        }
        let in_flight = completes == Completes::WithMmaGroup;
        if in_flight {
            self.in_flight(at, Proxy::Mma).for_each(|mma| mma.later_groups += 1);
        }
        for (access, number) in accesses {
            let stage = self.stage(at, access.buffer, *number);
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
        let count = self.copied.entry((stage.rank, stage.buffer)).or_default();
        let copy = (access.proxy == Proxy::Copies).then_some(*count);
        *count += u64::from(copy.is_some());
        self.contents.retain(|content| !content.stage.overlaps(&stage));
        self.contents.push(Content { stage, copy });
    }

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
        // Earlier accesses are known to be complete, and are dropped if this access replaces their whole range.
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

    /// Checks that buffers of a pipeline are accessed only while the role holds the stage.
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
        let is_open = |side| execution.ends.get(&(pipeline, side)).is_some_and(|end| end.open.contains(&number));
        // The producer of a stage may read it. MMAs add to accumulators that threads change in between; they are complete before
        // the threads may change them again.
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

    /// Checks conflict order: the clock covers all conflicting accesses, and those of another proxy are fenced.
    fn check_conflict_order(&self, at: usize, stage: BufferStage, access: &BufferAccess, completes: Completes) -> Rule {
        let (execution, writes) = (&self.executions[at], access.access_kind.writes());
        let done = if writes { "overwritten" } else { "read" };
        let by_tma = access.proxy == Proxy::Tma;
        let by_one_mma = completes == Completes::WithItsCommit;
        let clock = match (by_tma, by_one_mma) {
            (true, _) => self.issuer_clock(at, stage),
            (_, true) => execution.first.clone(),
            _ => execution.clock.clone(),
        };
        for earlier in self.shadow_accesses.iter().filter(|earlier| (writes || earlier.writes) && earlier.stage.overlaps(&stage)) {
            // MMAs of one thread execute in order. Accesses of warps that own their TMEM lanes do so, too.
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
            let other = if earlier.stage == stage { String::new() } else { format!(" (of {})", earlier.stage) };
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
                Some(over) if over > covered && earlier.completed_for >> at & 1 == 0 => {
                    return Err(match (earlier.clock_entry == at, earlier.writes) {
                        (true, true) if earlier.proxy == Proxy::Copies => {
                            format!("{stage} is {done} before a barrier after the wait{other}")
                        }
                        (true, true) => format!("{stage} is {done} before a barrier after it was written{other}"),
                        (true, false) => format!("{stage} is {done} before a barrier after its last read{other}"),
                        (false, true) => format!("{stage} is {done}, and nothing signals that it was written{other}{by}"),
                        (false, false) => format!("{stage} is {done}, and nothing signals that it was read{other}{by}"),
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

    /// Checks that a read finds data that was written to the stage. Reads of a buffer follow the order of its copies; several may
    /// read one copy.
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
        let counts =
            self.rules.synchronised && !in_pipeline && (self.rules.in_order || self.attrs.placements[stage.buffer].depth > 1);
        if let Some(number) = content.copy.filter(|_| counts) {
            let last = self.read.insert((stage.rank, stage.buffer), number);
            let due = last.map_or(0, |last| last + 1);
            if number != due && Some(number) != last {
                return Err(format!("{stage} holds copy {number}, and copy {due} is due"));
            }
        }
        Ok(())
    }

    // The end.

    /// No role can continue: all have ended and left nothing in flight, or they deadlock.
    fn check_end(&self) -> Result<(), Fault> {
        let waiting: Vec<(&RoleExecution, &Event)> =
            self.executions.iter().filter_map(|execution| Some((execution, execution.events.front()?))).collect();
        if let Some((_, first)) = waiting.first() {
            let of = |(execution, event): &(&RoleExecution, &Event)| match &event.kind {
                EventKind::Acquire(Position { pipeline, stage, phase }) => {
                    format!("{} waits until stage {stage} of {pipeline} is free, phase {phase}", execution.name)
                }
                EventKind::Wait(Position { pipeline, stage, phase }) => {
                    format!("{} waits until stage {stage} of {pipeline} is filled, phase {phase}", execution.name)
                }
                _ => unreachable!("nothing else waits"),
            };
            let message = format!("deadlock: {}", waiting.iter().map(of).collect::<Vec<_>>().join("; "));
            return Err(Fault::Broken { op: first.op, message });
        }
        if let Some(earlier) = self.shadow_accesses.iter().find(|earlier| earlier.completed_at.is_none()) {
            let what = if earlier.proxy == Proxy::Mma { "MMA" } else { "copy" };
            return Err(Fault::Broken { op: earlier.op, message: format!("nothing waits for the {what}") });
        }
        if let Some(mma) = self.shadow_accesses.iter().find(|earlier| self.may_outlive_cta(earlier)) {
            return Err(Fault::Broken { op: mma.op, message: "nothing waits for the MMA".into() });
        }
        self.open_stages().map_or(Ok(()), |message| Err(Fault::FinalState { message }))
    }

    /// Returns whether an access is an MMA in tensor memory that may be in flight when the CTA frees this memory.
    fn may_outlive_cta(&self, earlier: &ShadowAccess) -> bool {
        let of_mmas = earlier.clock_entry >= self.mma_clock_entry(0);
        of_mmas
            && earlier
                .completed_at
                .is_some_and(|over| self.executions.iter().all(|execution| execution.first[earlier.clock_entry] < over))
    }

    fn open_stages(&self) -> Option<String> {
        for (pipeline, info) in self.attrs.pipelines.iter() {
            // All CTAs of a cluster end in the same state.
            let end = |warp_role: WarpRole, side| {
                let execution = self.executions.iter().find(|execution| execution.warp_role == warp_role);
                execution.and_then(|execution| execution.ends.get(&(pipeline, side)))
            };
            let open = |warp_role, side| end(warp_role, side).and_then(|end| end.open.first());
            let visited = |warp_role, side| end(warp_role, side).map_or(0, |end| end.visited);
            let last = if self.attrs.needs_producer_tail(info) { info.depth as usize } else { 0 };
            match (open(info.producer, EMPTY), end(info.producer, EMPTY).map_or(0, |end| end.open.len())) {
                (_, stages) if stages == last => {}
                (Some(stage), _) if last == 0 => {
                    return Some(format!("stage {stage} of {pipeline} is acquired and never committed"));
                }
                _ => return Some(format!("{pipeline}: MMAs of another CTA may release a stage after this one has ended")),
            }
            for consumer in &info.consumers {
                if let Some(stage) = open(*consumer, FULL) {
                    return Some(format!("stage {stage} of {pipeline} is waited for and never released"));
                }
                let (filled, taken) = (visited(info.producer, EMPTY) - last as u64, visited(*consumer, FULL));
                if filled != taken {
                    return Some(format!("{pipeline} is filled {filled} times, and {consumer} waits for {taken} of them"));
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
        let filling = attrs.filling_threads(info).unwrap_or(0);
        for (stated, arriving, what) in [(info.full, filling, "fill"), (info.empty, attrs.draining_threads(info), "free")] {
            if stated != arriving {
                return Err(format!("{arriving} threads {what} a stage of {pipeline}, and its barrier counts {stated} arrivals"));
            }
        }
    }
    Ok(())
}
