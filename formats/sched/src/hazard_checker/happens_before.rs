//! Plays the events of all warp_roles together: what lies in shared memory, and who clock that it may be touched.
//!
//! Every warp_role counts its events. An access is over at some count of its warp_role: at once, or when its copies or mmas were waited
//! for. What an warp_role clock of the others, and of the other warps of its own, is for each warp_role a count up to which everything of
//! it is over. A barrier tells the warps of an warp_role about each other; an arrival at a pipeline leaves what the arriving warp_role clock,
//! and who waits for that stage learns it. So threads, copies and mmas are one thing: two accesses to the same bytes, of which
//! one writes, need the later one's warp_role to know that the earlier one is over.
//!
//! Of two forks either may have been taken: accesses of both may still be in flight where they meet, and what an warp_role clock is what it
//! clock on both. That an access on one of them is over by then, because of a barrier there, is remembered with the access.
//!
//! In phase alloc nothing synchronises yet, and an access may be to any stage of its staged_buffer: what is read must be there.
//!
//! Where the blocks of a cluster bring each other tma_tiles, all of them are played, each with all its warp_roles: they do the same, each in
//! memory of its own, and a stage that they fill together is filled when all have committed their part, and free when the consumers of
//! all have left it. Copies from one block to another have a place of their own in what warp_roles know. Where two blocks are a pair only the
//! first one's warp_roles make mmas and what belongs to them, in the memory of both.
//!
//! As every wait is for a phase that stays reached, and nobody looks without waiting, the outcome does not depend on the order in
//! which the warp_roles are played, so one order stands for all.

use super::Fault;
use super::buffer_stage::BufferStage;
use super::event_trace::{Event, Position, Program, What};
use super::last_access::Reached;
use crate::FunctionAttrs;
use crate::module::{Drain, Fill, Pipeline, PipelineInfo, WarpRole};
use base::ir::{Op as OpId, Operation};
use std::collections::{BTreeMap, VecDeque};
use tileas::effects::{AccessKind, BufferAccess, Completes, Proxy};
use tileas::{Buffer, Space, tensor_memory};

type Rule = Result<(), String>;
/// For each warp_role up to which of its events everything is known to be over; for each pipeline, whose copies are over when a stage is
/// filled, up to which commit, from each block to each; and for each warp_role again up to which of its events its mmas in tensor
/// memory are.
type VectorClock = Vec<u64>;

/// An access that a later one may meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ShadowAccess {
    /// A place in what warp_roles know: an warp_role, a pipeline, or the mmas of an warp_role.
    by: usize,
    op: OpId,
    stage: BufferStage,
    writes: bool,
    proxy: Proxy,
    /// The count at which it was over, and at which a fence followed.
    over: Option<u64>,
    fenced: Option<u64>,
    /// Groups of copies, or mmas, begun after it, while it is in flight.
    later: u64,
    /// The warp_roles, as bits, that know that it is over on the only proxy on which it is, or that it was fenced there.
    over_for: u64,
    fenced_for: u64,
}

/// What a stage holds.
#[derive(Clone, Copy, Debug)]
struct Content {
    stage: BufferStage,
    /// The number of its copy among those to its buffer.
    copy: Option<u64>,
}

/// A buffer, of a block of a cluster.
type CtaBuffer = (usize, Buffer);

/// What may be otherwise on another proxy.
#[derive(Clone)]
struct PathState {
    touches: Vec<ShadowAccess>,
    /// What was written last to each stage that still holds it.
    contents: Vec<Content>,
    /// By buffer, how many copies were made to it, and which of them was read last.
    copied: BTreeMap<CtaBuffer, u64>,
    read: BTreeMap<CtaBuffer, u64>,
    /// By warp_role and op, when that last reached global memory.
    reached: BTreeMap<(usize, OpId), Reached>,
    /// What the warp_role that goes these forks clock, and its first thread.
    clock: VectorClock,
    first: VectorClock,
}

/// Two forks that are open.
struct Fork {
    before: PathState,
    /// The one that was gone first, when it is gone.
    one: Option<PathState>,
}

/// One side of a stage of a pipeline: how often it was completed, the arrivals since, and what those who arrived know.
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

/// An warp_role's end of a pipeline: the stages it visited, and those that it is at.
#[derive(Clone, Debug, Default)]
struct End {
    visited: u64,
    open: Vec<u32>,
}

struct RoleExecution {
    warp_role: WarpRole,
    /// Its block, of those of a cluster that are played.
    rank: usize,
    name: String,
    threads: u32,
    events: VecDeque<Event>,
    now: u64,
    clock: VectorClock,
    /// What its first thread clock, which alone asks for tma_tiles, makes mmas in tensor memory and waits for what concerns them.
    first: VectorClock,
    /// By pipeline and side of its stages.
    ends: BTreeMap<(Pipeline, usize), End>,
    forks: Vec<Fork>,
}

/// What is held of a program.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    /// Whether it has its waits and barriers.
    pub(super) synchronised: bool,
    /// Whether copies to a buffer are read in their order: each iteration has its own.
    pub(super) in_order: bool,
}

pub(super) struct AbstractExecution<'a> {
    program: &'a Program<'a>,
    attrs: &'a FunctionAttrs,
    /// How the program is hazard_checked.
    rules: Rules,
    /// Whether tma_tiles or mmas reach memory, which threads must have fenced before.
    fences: bool,
    /// Blocks of a cluster that bring each other tma_tiles.
    ranks: usize,
    /// Those of one block after the other.
    executions: Vec<RoleExecution>,
    /// Of each stage of each pipeline of each block the sides: filled, free.
    sides: BTreeMap<(usize, Pipeline, u32), [Side; 2]>,
    touches: Vec<ShadowAccess>,
    contents: Vec<Content>,
    copied: BTreeMap<CtaBuffer, u64>,
    read: BTreeMap<CtaBuffer, u64>,
    reached: BTreeMap<(usize, OpId), Reached>,
    /// By warp_role: for stages that tma_tiles fill, what the thread that asks for them learned when it acquired the stage. The warps of an
    /// warp_role take turns in that; where there is one, its first thread does it all.
    issuers: BTreeMap<(usize, Pipeline, u32), VectorClock>,
}

const WARP: u32 = 32;
const FULL: usize = 0;
const EMPTY: usize = 1;

impl<'a> AbstractExecution<'a> {
    pub(super) fn new(program: &'a Program<'a>, rules: Rules) -> AbstractExecution<'a> {
        let attrs = &program.function.attrs;
        let warp_roles: Vec<WarpRole> = attrs.warp_roles.ids().chain(attrs.warp_roles.is_empty().then_some(WarpRole(0))).collect();
        // Before there are pipelines a block does what it does by itself.
        let ranks = if rules.synchronised { attrs.cooperating_ctas() as usize } else { 1 };
        let count = ranks * (2 * warp_roles.len() + ranks * attrs.pipelines.len());
        let of_block = |rank: usize| if ranks > 1 { format!(" of block {rank}") } else { String::new() };
        let execution = |rank: usize, warp_role: WarpRole| RoleExecution {
            warp_role,
            rank,
            name: attrs.warp_roles.get(warp_role).map_or("the block".into(), |info| format!("warp_role '{}'", info.name))
                + &of_block(rank),
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
        let reaches = |op: &OpId| body.ops[*op].kind.effects().buffers.iter().any(uses_async_proxy);
        AbstractExecution {
            program,
            attrs,
            rules,
            fences: program.relevant.values().flatten().any(reaches),
            ranks,
            executions: (0..ranks).flat_map(|rank| warp_roles.iter().map(move |warp_role| execution(rank, *warp_role))).collect(),
            sides: BTreeMap::new(),
            touches: Vec::new(),
            contents: Vec::new(),
            copied: BTreeMap::new(),
            read: BTreeMap::new(),
            reached: BTreeMap::new(),
            issuers: BTreeMap::new(),
        }
    }

    /// An warp_role's next event. Those of one that is alone are played as they come, which takes no memory.
    pub(super) fn add(&mut self, warp_role: WarpRole, event: Event) -> Result<(), Fault> {
        let warp_roles = self.executions.len() / self.ranks;
        let others = if self.is_of_leader(&event) { 1..1 } else { 1..self.ranks };
        for rank in others {
            self.executions[rank * warp_roles + warp_role.0 as usize].events.push_back(event.clone());
        }
        self.executions[warp_role.0 as usize].events.push_back(event);
        if self.executions.len() == 1 && !self.step(0)? {
            return self.ended();
        }
        Ok(())
    }

    /// Whether only the first block of a pair does it, for both: their mmas, and what these wait for and tell.
    fn is_of_leader(&self, event: &Event) -> bool {
        let of_cta_pair = |pipeline: Pipeline| self.attrs.is_of_cta_pair(self.info(pipeline));
        match &event.what {
            What::Acquire(Position { pipeline, .. }) | What::Commit(pipeline, _) => {
                of_cta_pair(*pipeline) && self.info(*pipeline).fill == Fill::Mma
            }
            What::Wait(Position { pipeline, .. }) | What::Release(pipeline, _) => {
                of_cta_pair(*pipeline) && self.info(*pipeline).drains_alone()
            }
            What::Accesses(_, completes) => self.is_cta_pair_mma(*completes),
            _ => false,
        }
    }

    fn is_cta_pair_mma(&self, completes: Completes) -> bool {
        self.attrs.program.cta_pair && completes == Completes::WithItsCommit
    }

    /// Plays what all warp_roles do.
    pub(super) fn run(mut self) -> Result<(), Fault> {
        loop {
            let mut moved = false;
            for at in 0..self.executions.len() {
                while self.step(at)? {
                    moved = true;
                }
            }
            if !moved {
                return self.ended();
            }
        }
    }

    /// Plays an warp_role's next event, if it has one and need not wait.
    fn step(&mut self, at: usize) -> Result<bool, Fault> {
        let Some(event) = self.executions[at].events.pop_front() else { return Ok(false) };
        let op = event.op;
        let broken = |message: String| Fault::Broken { op, message };
        if let What::Acquire(position) | What::Wait(position) = event.what {
            let side = if matches!(event.what, What::Acquire(_)) { EMPTY } else { FULL };
            self.is_next(at, position, side).map_err(broken)?;
            if !self.may_pass(at, position, side) {
                self.executions[at].events.push_front(event);
                return Ok(false);
            }
        }
        self.executions[at].now += 1;
        self.accumulators_are_complete(at, &event).map_err(broken)?;
        match event.what {
            What::Accesses(accesses, completes) => self.accesses(at, op, &accesses, completes).map_err(broken)?,
            What::Barrier => {
                let execution = &mut self.executions[at];
                execution.first[at] = execution.now;
                let own = self.issuers.iter().filter(|((warp_role, ..), _)| *warp_role == at);
                own.for_each(|(_, asked)| merge(&mut execution.first, asked));
                execution.clock.clone_from(&execution.first);
                self.forget(at);
            }
            What::Fence => {
                let now = self.executions[at].now;
                let own = self.touches.iter_mut().filter(|touch| touch.by == at && touch.over.is_some());
                own.for_each(|touch| touch.fenced = touch.fenced.or(Some(now)));
            }
            What::EndCopies => {
                self.in_flight(at, Proxy::Copies).for_each(|copy| copy.later += 1);
            }
            What::WaitForCopies(pending) => self.wait_for(at, Proxy::Copies, pending + 1),
            What::WaitForMmas(pending) => self.wait_for(at, Proxy::Mma, pending),
            What::Acquire(position) => self.pass(at, position, EMPTY),
            What::Wait(position) => self.pass(at, position, FULL),
            What::Commit(pipeline, stage) => self.commit(at, pipeline, stage).map_err(broken)?,
            What::Release(pipeline, stage) => self.release(at, pipeline, stage).map_err(broken)?,
            What::Reaches => self.reaches(at, op).map_err(broken)?,
            What::NextIteration => self.next_iteration(at, op),
            What::Computes => {}
            What::Prefetched(buffer) => self.prefetch(buffer),
            What::SingleThread(buffer) => self.has_exclusive_memory(buffer).map_err(broken)?,
            What::Fork => {
                let before = self.path_state(at);
                self.executions[at].forks.push(Fork { before, one: None });
            }
            What::OtherPath => {
                let gone = self.path_state(at);
                let forks = self.executions[at].forks.last_mut().expect("two forks are open");
                forks.one = Some(gone);
                let before = forks.before.clone();
                self.stand_on(at, before);
            }
            What::PathsJoin => {
                let Fork { before, one } = self.executions[at].forks.pop().expect("two forks are open");
                self.meet(at, one.expect("one proxy was gone"), &before);
            }
        }
        Ok(true)
    }

    /// What all of an warp_role that is alone know to be over no later access has to come after, if none goes another proxy, for which
    /// there would be fences.
    fn forget(&mut self, at: usize) {
        if self.executions.len() == 1 && !self.fences {
            let clock = &self.executions[at].clock;
            self.touches.retain(|touch| touch.over.is_none_or(|over| over > clock[touch.by]));
        }
    }

    // Fork.

    fn path_state(&self, at: usize) -> PathState {
        let RoleExecution { clock, first, .. } = &self.executions[at];
        PathState {
            touches: self.touches.clone(),
            contents: self.contents.clone(),
            copied: self.copied.clone(),
            read: self.read.clone(),
            reached: self.reached.clone(),
            clock: clock.clone(),
            first: first.clone(),
        }
    }

    fn stand_on(&mut self, at: usize, path_state: PathState) {
        let PathState { touches, contents, copied, read, reached, clock, first } = path_state;
        (self.touches, self.contents, self.copied, self.read) = (touches, contents, copied, read);
        self.reached = reached;
        (self.executions[at].clock, self.executions[at].first) = (clock, first);
    }

    /// An warp_role comes from either of two forks; both started on the same path_state.
    fn meet(&mut self, at: usize, mut one: PathState, before: &PathState) {
        let mut other = self.path_state(at);
        for proxy in [&mut one, &mut other] {
            let PathState { touches, reached, clock, .. } = proxy;
            let own = reached.iter_mut().filter(|((by, _), _)| *by == at);
            own.for_each(|(_, reached)| reached.forget(clock[at]));
            for touch in touches {
                let is_known = |count: Option<u64>| count.is_some_and(|count| count <= clock[touch.by]);
                touch.over_for |= u64::from(is_known(touch.over)) << at;
                touch.fenced_for |= u64::from(is_known(touch.fenced)) << at;
            }
        }
        let less = |one: &VectorClock, other: &VectorClock| one.iter().zip(other).map(|(one, other)| *one.min(other)).collect();
        (other.clock, other.first) = (less(&one.clock, &other.clock), less(&one.first, &other.first));
        let new: Vec<ShadowAccess> = one.touches.into_iter().filter(|touch| !other.touches.contains(touch)).collect();
        other.touches.extend(new);
        let holds = |contents: &[Content], stage: &BufferStage| contents.iter().any(|content| content.stage == *stage);
        // What either proxy has overwritten is gone.
        other.contents.retain(|content| holds(&one.contents, &content.stage) || !holds(&before.contents, &content.stage));
        for content in one.contents {
            match other.contents.iter_mut().find(|own| own.stage == content.stage) {
                Some(own) => own.copy = own.copy.max(content.copy),
                None if holds(&before.contents, &content.stage) => {}
                None => other.contents.push(content),
            }
        }
        for (op, their) in one.reached {
            let own = other.reached.remove(&op).unwrap_or_default();
            other.reached.insert(op, own.or(their));
        }
        for (own, their) in [(&mut other.copied, one.copied), (&mut other.read, one.read)] {
            for (held, count) in their {
                let own = own.entry(held).or_default();
                *own = count.max(*own);
            }
        }
        self.stand_on(at, other);
    }

    // Global memory.

    /// What a loop has accessed was in an earlier iteration.
    fn next_iteration(&mut self, at: usize, for_op: OpId) {
        for op in self.program.order.inside.get(&for_op).into_iter().flatten() {
            if let Some(reached) = self.reached.get_mut(&(at, *op)) {
                reached.forget(self.executions[at].clock[at]);
                reached.next_iteration(for_op);
            }
        }
    }

    /// What tokens order before an access is over, whichever threads did it.
    fn reaches(&mut self, at: usize, op: OpId) -> Rule {
        let RoleExecution { now, clock, .. } = &self.executions[at];
        if let Some(before) = self.program.order.before.get(&op) {
            for (earlier, wait) in &before.earlier {
                let Some(reached) = self.reached.get_mut(&(at, *earlier)) else { continue };
                reached.forget(clock[at]);
                if let Some(in_earlier_iteration) = reached.is_missed(before, *wait) {
                    let earlier = self.program.function.body.ops[*earlier].kind.mnemonic();
                    let iteration = if in_earlier_iteration { " in an earlier iteration" } else { "" };
                    return Err(format!(
                        "a token orders it after '{earlier}' of other threads{iteration}, and there is no barrier between"
                    ));
                }
            }
        }
        self.reached.entry((at, op)).or_default().now(*now);
        Ok(())
    }

    // Copies that run ahead, before they do.

    /// From here on copies may fill any stage of a staged_buffer.
    fn prefetch(&mut self, buffer: Buffer) {
        let stage = BufferStage::staged_buffer(self.attrs, buffer);
        self.contents.retain(|content| !content.stage.meets(&stage));
        self.contents.push(Content { stage, copy: None });
    }

    fn has_exclusive_memory(&self, buffer: Buffer) -> Rule {
        let stage = BufferStage::staged_buffer(self.attrs, buffer);
        match self.contents.iter().any(|content| content.stage == stage) {
            true => Ok(()),
            false => Err(format!("{buffer} is filled ahead of its iteration, but its memory is used for something else meanwhile")),
        }
    }

    // Pipes.

    fn info(&self, pipeline: Pipeline) -> &'a PipelineInfo {
        &self.attrs.pipelines[pipeline]
    }

    /// An warp_role visits the stages in turn, each once it has left it.
    fn is_next(&self, at: usize, position: Position, side: usize) -> Rule {
        let Position { pipeline, stage, phase } = position;
        let depth = u64::from(self.info(pipeline).depth);
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

    /// The blocks that a step of a pipeline tells of a side of it: all that fill it together; where a pair has mmas, those of which the
    /// first block is told, or both by it.
    fn signalled(&self, at: usize, pipeline: Pipeline, side: usize) -> std::ops::Range<usize> {
        let (rank, info) = (self.executions[at].rank, self.info(pipeline));
        let by_mma = if info.fill == Fill::Mma { FULL } else { EMPTY };
        match self.attrs.is_of_cta_pair(info) {
            true if side == by_mma => 0..self.ranks,
            true => 0..1,
            false if info.multicast.is_some() => 0..self.ranks,
            false => rank..rank + 1,
        }
    }

    fn may_pass(&mut self, at: usize, Position { pipeline, stage, .. }: Position, side: usize) -> bool {
        let depth = u64::from(self.info(pipeline).depth);
        let iterations = self.executions[at].ends.entry((pipeline, side)).or_default().visited / depth;
        let completed = self.side(self.executions[at].rank, pipeline, stage, side).completed;
        // Slots are free at first.
        if side == EMPTY { completed >= iterations } else { completed > iterations }
    }

    fn pass(&mut self, at: usize, Position { pipeline, stage, .. }: Position, side: usize) {
        let known = self.side(self.executions[at].rank, pipeline, stage, side).known.clone();
        let (alone, turns) = (self.is_single_thread(pipeline, side), self.alternates_warps(at, pipeline, side));
        let execution = &mut self.executions[at];
        if turns {
            merge(self.issuers.entry((at, pipeline, stage)).or_default(), &known);
        } else {
            merge(&mut execution.first, &known);
        }
        if !alone {
            merge(&mut execution.clock, &known);
        }
        let end = execution.ends.entry((pipeline, side)).or_default();
        end.visited += 1;
        end.open.push(stage);
    }

    /// Whether the first thread of an warp_role does all steps of a pipeline on that side.
    fn is_single_thread(&self, pipeline: Pipeline, side: usize) -> bool {
        let info = self.info(pipeline);
        if side == EMPTY { info.fills_alone() } else { info.drains_alone() }
    }

    /// Whether its warps do them in turn.
    fn alternates_warps(&self, at: usize, pipeline: Pipeline, side: usize) -> bool {
        side == EMPTY && self.info(pipeline).fill == Fill::Tma && self.executions[at].threads > WARP
    }

    /// What the thread clock that asks for tma_tiles to a stage.
    fn issuer(&self, at: usize, stage: BufferStage) -> VectorClock {
        let execution = &self.executions[at];
        let Some((pipeline, _)) =
            self.attrs.pipeline_of(stage.buffer).filter(|(pipeline, _)| self.alternates_warps(at, *pipeline, EMPTY))
        else {
            return execution.first.clone();
        };
        let mut clock = execution.clock.clone();
        self.issuers.get(&(at, pipeline, stage.number)).into_iter().for_each(|asked| merge(&mut clock, asked));
        clock
    }

    /// The place of an warp_role's mmas in what warp_roles know.
    fn mmas_of(&self, at: usize) -> usize {
        self.copies_of(self.ranks, 0, Pipeline(0)) + at
    }

    /// The place of the copies with which a block fills a pipeline's stages in another block.
    fn copies_of(&self, from: usize, to: usize, pipeline: Pipeline) -> usize {
        self.executions.len() + (from * self.ranks + to) * self.attrs.pipelines.len() + pipeline.0 as usize
    }

    /// What is known when all mmas are complete that the first thread of an warp_role has made: what it knew itself besides.
    fn committed(&self, at: usize) -> VectorClock {
        let execution = &self.executions[at];
        let mut clock = execution.first.clone();
        clock[self.mmas_of(at)] = execution.now;
        clock
    }

    /// What an warp_role clock, with everything that its threads have done themselves.
    fn arrival(&self, at: usize) -> VectorClock {
        let execution = &self.executions[at];
        let mut clock = execution.clock.clone();
        clock[at] = execution.now;
        clock
    }

    fn leave(&mut self, at: usize, pipeline: Pipeline, stage: u32, side: usize) -> Rule {
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
        self.leave(at, pipeline, stage, EMPTY)?;
        let info = self.info(pipeline);
        let (now, mut clock, threads) = (self.executions[at].now, self.arrival(at), self.executions[at].threads);
        match info.fill {
            // They are there when the stage is filled: who waits for it clock, the producer itself does not.
            Fill::Copies => {
                let rank = self.executions[at].rank;
                let by = self.copies_of(rank, rank, pipeline);
                clock[by] = now;
                self.in_flight(at, Proxy::Copies).for_each(|copy| (copy.by, copy.over) = (by, Some(now)));
            }
            Fill::Tma => return self.commit_tma(at, pipeline, stage),
            Fill::Mma => clock = self.committed(at),
            Fill::Threads => {
                let staged_buffer =
                    |touch: &ShadowAccess| info.buffers.contains(&touch.stage.buffer) && touch.stage.number == stage;
                if let Some(copy) = self.in_flight(at, Proxy::Copies).find(|touch| staged_buffer(touch)) {
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

    /// A stage is filled when the tma_tiles of all are there that fill it together. In its own block the thread that asked for them says so, of
    /// what it clock of all; to others come only the tma_tiles. The first block of a pair waits for those of both, each in its own memory.
    fn commit_tma(&mut self, at: usize, pipeline: Pipeline, stage: u32) -> Rule {
        let (info, signalled) = (self.info(pipeline), self.signalled(at, pipeline, FULL));
        let RoleExecution { rank: own, now, ref clock, .. } = self.executions[at];
        let of_cta_pair = self.attrs.is_of_cta_pair(info);
        let (clock, parts) = (clock.clone(), if of_cta_pair { self.ranks } else { signalled.len() } as u32);
        for rank in signalled {
            let into = if of_cta_pair { own } else { rank };
            let by = self.copies_of(own, into, pipeline);
            for buffer in info.buffers.iter().filter(|buffer| into == own || info.is_multicast(**buffer)) {
                let filled = |touch: &&mut ShadowAccess| {
                    let BufferStage { buffer: of, number, rank: to, .. } = touch.stage;
                    (of, number, to) == (*buffer, stage, into)
                };
                let copies: Vec<&mut ShadowAccess> = self.in_flight(at, Proxy::Tma).filter(filled).collect();
                if copies.len() != 1 {
                    return Err(format!(
                        "stage {stage} of {pipeline} is committed with {} copies to {buffer}, not one",
                        copies.len()
                    ));
                }
                copies.into_iter().for_each(|copy| (copy.by, copy.over) = (by, Some(now)));
            }
            let mut given = if rank == own { clock.clone() } else { vec![0; clock.len()] };
            given[by] = now;
            self.side(rank, pipeline, stage, FULL).arrive(1, parts, &given);
        }
        Ok(())
    }

    fn release(&mut self, at: usize, pipeline: Pipeline, stage: u32) -> Rule {
        self.leave(at, pipeline, stage, FULL)?;
        let info = self.info(pipeline);
        let staged_buffer = |touch: &ShadowAccess| info.buffers.contains(&touch.stage.buffer) && touch.stage.number == stage;
        if self.in_flight(at, Proxy::Mma).any(|touch| staged_buffer(touch)) {
            return Err(format!("stage {stage} of {pipeline} is released while an MMA in flight reads it"));
        }
        let clock = if info.drains_alone() { self.committed(at) } else { self.arrival(at) };
        let threads = info.releases(self.executions[at].threads);
        let all = self.attrs.draining_threads(info);
        for rank in self.signalled(at, pipeline, EMPTY) {
            self.side(rank, pipeline, stage, EMPTY).arrive(threads, all, &clock);
        }
        Ok(())
    }

    // Accesses.

    fn in_flight(&mut self, at: usize, proxy: Proxy) -> impl Iterator<Item = &mut ShadowAccess> {
        self.touches.iter_mut().filter(move |touch| touch.by == at && touch.over.is_none() && touch.proxy == proxy)
    }

    /// Those are over after which enough others were begun.
    fn wait_for(&mut self, at: usize, proxy: Proxy, enough: u64) {
        let now = self.executions[at].now;
        self.in_flight(at, proxy).filter(|touch| touch.later >= enough).for_each(|touch| touch.over = Some(now));
    }

    fn accumulators_are_complete(&self, at: usize, event: &Event) -> Rule {
        let in_flight = |op: &OpId| self.touches.iter().any(|touch| touch.by == at && touch.over.is_none() && touch.op == *op);
        match event.needs.iter().find(|(_, mmas)| mmas.iter().any(in_flight)) {
            Some((value, _)) => Err(format!("{value} is used while the MMA that computes it is in flight")),
            None => Ok(()),
        }
    }

    /// The stage that an access means; before accesses name stages it may be any.
    fn stage(&self, at: usize, buffer: Buffer, number: u32) -> BufferStage {
        let stage = if self.rules.synchronised {
            BufferStage::of(self.attrs, buffer, number)
        } else {
            BufferStage::staged_buffer(self.attrs, buffer)
        };
        stage.of_block(self.executions[at].rank)
    }

    /// The stages that an access means: a mma of a pair those of both.
    fn held_by(&self, completes: Completes, stage: BufferStage) -> Vec<BufferStage> {
        match self.is_cta_pair_mma(completes) {
            true => (0..self.ranks).map(|rank| stage.of_block(rank)).collect(),
            false => vec![stage],
        }
    }

    /// What of that an access reaches: tma_tiles that blocks bring each other are a part of the stage, in each of them.
    fn reached_by(&self, access: &BufferAccess, completes: Completes, stage: BufferStage) -> Vec<BufferStage> {
        if self.is_cta_pair_mma(completes) {
            return self.held_by(completes, stage);
        }
        let brought = self.attrs.pipeline_of(stage.buffer).is_some_and(|(_, info)| info.is_multicast(stage.buffer));
        if !brought || access.proxy != Proxy::Tma || !access.access_kind.writes() {
            return vec![stage];
        }
        let part = stage.part(stage.rank, self.ranks);
        (0..self.ranks).map(|rank| part.of_block(rank)).collect()
    }

    fn accesses(&mut self, at: usize, op: OpId, accesses: &[(BufferAccess, u32)], completes: Completes) -> Rule {
        for (access, number) in accesses {
            let stage = self.stage(at, access.buffer, *number);
            if self.rules.synchronised {
                self.is_at(at, access, *number)?;
                let mut reached = self.reached_by(access, completes, stage).into_iter();
                reached.try_for_each(|stage| self.is_ordered(at, stage, access, completes))?;
            }
            self.held_by(completes, stage).into_iter().try_for_each(|stage| self.is_there(stage, access))?;
        }
        let in_flight = completes == Completes::WithMmaGroup;
        if in_flight {
            self.in_flight(at, Proxy::Mma).for_each(|mma| mma.later += 1);
        }
        for (access, number) in accesses {
            let stage = self.stage(at, access.buffer, *number);
            self.held_by(completes, stage).into_iter().for_each(|stage| self.fill(stage, access));
            if self.rules.synchronised {
                for stage in self.reached_by(access, completes, stage) {
                    self.touch(at, op, stage, access, completes);
                }
            }
        }
        Ok(())
    }

    /// What a stage holds from now on, if an access writes all of it.
    fn fill(&mut self, stage: BufferStage, access: &BufferAccess) {
        if !matches!(access.access_kind, AccessKind::Writes | AccessKind::Fills) {
            return;
        }
        let count = self.copied.entry((stage.rank, stage.buffer)).or_default();
        let copy = (access.proxy == Proxy::Copies).then_some(*count);
        *count += u64::from(copy.is_some());
        self.contents.retain(|content| !content.stage.meets(&stage));
        self.contents.push(Content { stage, copy });
    }

    fn touch(&mut self, at: usize, op: OpId, stage: BufferStage, access: &BufferAccess, completes: Completes) {
        let writes = access.access_kind.writes();
        let in_flight = match completes {
            Completes::WithItsCopies => access.proxy == Proxy::Copies,
            Completes::WithItsStage => access.proxy == Proxy::Tma,
            Completes::WithMmaGroup => true,
            Completes::WithItsCommit | Completes::AtOnce => false,
        };
        let by = if completes == Completes::WithItsCommit { self.mmas_of(at) } else { at };
        let over = (!in_flight).then_some(self.executions[at].now);
        // What came before is known to be over, and so is needed no more where all of it is replaced.
        let replaced =
            |touch: &ShadowAccess| stage == touch.stage && (writes || touch.by == by && !touch.writes && touch.over.is_some());
        self.touches.retain(|touch| !replaced(touch));
        let (over_for, fenced_for) = (0, 0);
        self.touches.push(ShadowAccess {
            by,
            op,
            stage,
            writes,
            proxy: access.proxy,
            over,
            fenced: None,
            later: 0,
            over_for,
            fenced_for,
        });
    }

    /// Buffers of a pipeline are touched between taking and leaving a stage.
    fn is_at(&self, at: usize, access: &BufferAccess, number: u32) -> Rule {
        let Some((pipeline, info)) = self.attrs.pipeline_of(access.buffer).filter(|(_, info)| fills(info, access.proxy)) else {
            return match access.proxy {
                Proxy::Tma if access.access_kind.writes() => {
                    Err(format!("{} is of no pipeline that tma_tiles fill, so nothing says when its copy is there", access.buffer))
                }
                _ => Ok(()),
            };
        };
        let execution = &self.executions[at];
        let is_open = |side| execution.ends.get(&(pipeline, side)).is_some_and(|end| end.open.contains(&number));
        // Who fills a stage may look at it.
        // Mma add to accumulators that threads change between them, and are known to be over where those may change them again.
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

    /// The warp_role clock that the accesses which this one meets are over, and what goes another proxy was fenced.
    fn is_ordered(&self, at: usize, stage: BufferStage, access: &BufferAccess, completes: Completes) -> Rule {
        let (execution, writes) = (&self.executions[at], access.access_kind.writes());
        let done = if writes { "overwritten" } else { "read" };
        let by_tma = access.proxy == Proxy::Tma;
        let by_one_mma = completes == Completes::WithItsCommit;
        let clock = match (by_tma, by_one_mma) {
            (true, _) => self.issuer(at, stage),
            (_, true) => execution.first.clone(),
            _ => execution.clock.clone(),
        };
        for touch in self.touches.iter().filter(|touch| (writes || touch.writes) && touch.stage.meets(&stage)) {
            // Mma of one thread follow one another, and so do the accesses of warps that have their lanes to themselves.
            let of_threads = matches!(touch.proxy, Proxy::Generic | Proxy::Copies);
            let in_order = match by_one_mma {
                true => touch.by == self.mmas_of(at),
                false => stage.space == Space::Tensor && touch.by == at && of_threads && execution.threads <= tensor_memory::LANES,
            };
            if in_order {
                continue;
            }
            let other = if touch.stage == stage { String::new() } else { format!(" (of {})", touch.stage) };
            let by = match self.executions.get(touch.by) {
                _ if touch.by == at => String::new(),
                Some(other) => format!(", by {}", other.name),
                None if touch.proxy == Proxy::Mma => ", by an MMA".into(),
                None => ", by a copy of its pipeline".into(),
            };
            let known = clock[touch.by];
            match touch.over {
                None if touch.proxy != Proxy::Mma && !writes && touch.stage == stage => {
                    return Err(format!("{stage} is read before its copy was waited for{by}"));
                }
                None if touch.proxy != Proxy::Mma => {
                    return Err(format!("{stage} is {done} while a copy to {} is in flight{by}", touch.stage));
                }
                None => return Err(format!("{stage} is overwritten while an MMA in flight reads it{by}")),
                Some(over) if over > known && touch.over_for >> at & 1 == 0 => {
                    return Err(match (touch.by == at, touch.writes) {
                        (true, true) if touch.proxy == Proxy::Copies => {
                            format!("{stage} is {done} before a barrier after the wait{other}")
                        }
                        (true, true) => format!("{stage} is {done} before a barrier after it was written{other}"),
                        (true, false) => format!("{stage} is {done} before a barrier after its last read{other}"),
                        (false, true) => format!("{stage} is {done}, and nothing says that it was written{other}{by}"),
                        (false, false) => format!("{stage} is {done}, and nothing says that it was read{other}{by}"),
                    });
                }
                Some(_) => {}
            }
            let fenced = touch.fenced.is_some_and(|fenced| fenced <= known) || touch.fenced_for >> at & 1 == 1;
            let shared = stage.space == Space::Shared;
            if access.proxy == Proxy::Mma && shared && touch.writes && of_threads && !fenced {
                return Err(format!("{stage} is read in place without a fence after it was written{by}"));
            }
            if by_tma && of_threads && !fenced {
                return Err(format!("{stage} is {done} by tma_tiles without a fence after threads were at it{by}"));
            }
        }
        Ok(())
    }

    /// What is read is what was written to the stage; a buffer's copies are read in their order, those of one iteration perhaps several
    /// times.
    fn is_there(&mut self, stage: BufferStage, access: &BufferAccess) -> Rule {
        if !access.access_kind.needs_content() {
            return Ok(());
        }
        let Some(content) = self.contents.iter().find(|content| content.stage == stage) else {
            return Err(match self.contents.iter().find(|content| content.stage.meets(&stage)) {
                Some(other) => format!("{stage} is read, but its memory was given to {}", other.stage),
                None => format!("{stage} is read before anything is written to it"),
            });
        };
        // Of a pipeline the order is that of its stages.
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

    /// Nobody can go on: all are at their end, and left nothing after, or they wait for each other.
    fn ended(&self) -> Result<(), Fault> {
        let waiting: Vec<(&RoleExecution, &Event)> =
            self.executions.iter().filter_map(|execution| Some((execution, execution.events.front()?))).collect();
        if let Some((_, first)) = waiting.first() {
            let of = |(execution, event): &(&RoleExecution, &Event)| match &event.what {
                What::Acquire(Position { pipeline, stage, phase }) => {
                    format!("{} waits until stage {stage} of {pipeline} is free, phase {phase}", execution.name)
                }
                What::Wait(Position { pipeline, stage, phase }) => {
                    format!("{} waits until stage {stage} of {pipeline} is filled, phase {phase}", execution.name)
                }
                _ => unreachable!("nothing else waits"),
            };
            let message = format!("it never goes on: {}", waiting.iter().map(of).collect::<Vec<_>>().join("; "));
            return Err(Fault::Broken { op: first.op, message });
        }
        if let Some(touch) = self.touches.iter().find(|touch| touch.over.is_none()) {
            let what = if touch.proxy == Proxy::Mma { "mma" } else { "copy" };
            return Err(Fault::Broken { op: touch.op, message: format!("nothing waits for the {what}") });
        }
        if let Some(mma) = self.touches.iter().find(|touch| self.is_never_ordered(touch)) {
            return Err(Fault::Broken { op: mma.op, message: "nothing waits for the MMA".into() });
        }
        self.left_open().map_or(Ok(()), |message| Err(Fault::Left { message }))
    }

    /// Whether a mma in tensor memory may be in flight when that is given back.
    fn is_never_ordered(&self, touch: &ShadowAccess) -> bool {
        let of_mmas = touch.by >= self.mmas_of(0);
        of_mmas && touch.over.is_some_and(|over| self.executions.iter().all(|execution| execution.first[touch.by] < over))
    }

    fn left_open(&self) -> Option<String> {
        for (pipeline, info) in self.attrs.pipelines.iter() {
            // What one block of a cluster leaves the others leave, too.
            let end = |warp_role: WarpRole, side| {
                let execution = self.executions.iter().find(|execution| execution.warp_role == warp_role);
                execution.and_then(|execution| execution.ends.get(&(pipeline, side)))
            };
            let open = |warp_role, side| end(warp_role, side).and_then(|end| end.open.first());
            let visited = |warp_role, side| end(warp_role, side).map_or(0, |end| end.visited);
            let last = if self.attrs.ends_free(info) { info.depth as usize } else { 0 };
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
                    return Some(format!("{pipeline} is filled {filled} times, and {taken} of them are taken by {consumer}"));
                }
            }
        }
        None
    }
}

/// Whether a pipeline is one that accesses of this kind may meet; tma_tiles need one that they fill.
fn fills(info: &PipelineInfo, proxy: Proxy) -> bool {
    proxy != Proxy::Tma || info.fill == Fill::Tma
}

/// The arrivals that the table of pipelines states are those that there are.
pub(super) fn arrivals(attrs: &FunctionAttrs) -> Rule {
    for (pipeline, info) in attrs.pipelines.iter() {
        let filling = attrs.filling_threads(info).unwrap_or(0);
        for (stated, there, what) in [(info.full, filling, "fill"), (info.empty, attrs.draining_threads(info), "free")] {
            if stated != there {
                return Err(format!("{there} threads {what} a stage of {pipeline}, and its barrier counts {stated} arrivals"));
            }
        }
    }
    Ok(())
}
