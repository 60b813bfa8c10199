//! Plays the events of all agents together: what lies in shared memory, and who knows that it may be touched.
//!
//! Every agent counts its events. An access is over at some count of its agent: at once, or when its copies or products were waited
//! for. What an agent knows of the others, and of the other warps of its own, is for each agent a count up to which everything of
//! it is over. A barrier tells the warps of an agent about each other; an arrival at a pipe leaves what the arriving agent knows,
//! and who waits for that slot learns it. So threads, copies and products are one thing: two accesses to the same bytes, of which
//! one writes, need the later one's agent to know that the earlier one is over.
//!
//! Of two ways either may have been taken: accesses of both may still be under way where they meet, and what an agent knows is what it
//! knows on both. That an access on one of them is over by then, because of a barrier there, is remembered with the access.
//!
//! In phase alloc nothing synchronises yet, and an access may be to any slot of its ring: what is read must be there.
//!
//! Where the blocks of a cluster bring each other boxes, all of them are played, each with all its agents: they do the same, each in
//! memory of its own, and a slot that they fill together is filled when all have committed their part, and free when the consumers of
//! all have left it. Copies from one block to another have a place of their own in what agents know. Where two blocks are a pair only the
//! first one's agents make products and what belongs to them, in the memory of both.
//!
//! As every wait is for a phase that stays reached, and nobody looks without waiting, the outcome does not depend on the order in
//! which the agents are played, so one order stands for all.

use super::Fault;
use super::reached::Reached;
use super::slots::Slot;
use super::unroll::{Event, Position, Program, What};
use crate::FunctionAttrs;
use crate::module::{Agent, Drain, Fill, Pipe, PipeInfo};
use base::ir::{Op as OpId, Operation};
use std::collections::{BTreeMap, VecDeque};
use tileas::effects::{BufferAccess, Completes, Does, Way};
use tileas::{Buffer, Space, tensor};

type Rule = Result<(), String>;
/// For each agent up to which of its events everything is known to be over; for each pipe, whose copies are over when a slot is
/// filled, up to which commit, from each block to each; and for each agent again up to which of its events its products in tensor
/// memory are.
type Knowledge = Vec<u64>;

/// An access that a later one may meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Touch {
    /// A place in what agents know: an agent, a pipe, or the products of an agent.
    by: usize,
    op: OpId,
    slot: Slot,
    writes: bool,
    way: Way,
    /// The count at which it was over, and at which a fence followed.
    over: Option<u64>,
    fenced: Option<u64>,
    /// Groups of copies, or products, begun after it, while it is under way.
    later: u64,
    /// The agents, as bits, that know that it is over on the only way on which it is, or that it was fenced there.
    known_over: u64,
    known_fenced: u64,
}

/// What a slot holds.
#[derive(Clone, Copy, Debug)]
struct Content {
    slot: Slot,
    /// The number of its copy among those to its buffer.
    copy: Option<u64>,
}

/// A buffer, of a block of a cluster.
type Held = (usize, Buffer);

/// What may be otherwise on another way.
#[derive(Clone)]
struct Ground {
    touches: Vec<Touch>,
    /// What was written last to each slot that still holds it.
    contents: Vec<Content>,
    /// By buffer, how many copies were made to it, and which of them was read last.
    copied: BTreeMap<Held, u64>,
    read: BTreeMap<Held, u64>,
    /// By agent and op, when that last reached global memory.
    reached: BTreeMap<(usize, OpId), Reached>,
    /// What the agent that goes these ways knows, and its first thread.
    knows: Knowledge,
    first: Knowledge,
}

/// Two ways that are open.
struct Ways {
    before: Ground,
    /// The one that was gone first, when it is gone.
    one: Option<Ground>,
}

/// One side of a slot of a pipe: how often it was completed, the arrivals since, and what those who arrived know.
#[derive(Clone, Debug, Default)]
struct Side {
    completed: u64,
    arrived: u32,
    pending: Knowledge,
    known: Knowledge,
}

impl Side {
    fn arrive(&mut self, threads: u32, all: u32, knows: &Knowledge) {
        learn(&mut self.pending, knows);
        self.arrived += threads;
        if self.arrived >= all {
            self.arrived = 0;
            self.completed += 1;
            let pending = self.pending.clone();
            learn(&mut self.known, &pending);
        }
    }
}

fn learn(own: &mut Knowledge, other: &Knowledge) {
    own.resize(own.len().max(other.len()), 0);
    own.iter_mut().zip(other).for_each(|(own, other)| *own = (*own).max(*other));
}

/// An agent's end of a pipe: the slots it visited, and those that it is at.
#[derive(Clone, Debug, Default)]
struct End {
    visited: u64,
    open: Vec<u32>,
}

struct Player {
    agent: Agent,
    /// Its block, of those of a cluster that are played.
    rank: usize,
    name: String,
    threads: u32,
    events: VecDeque<Event>,
    now: u64,
    knows: Knowledge,
    /// What its first thread knows, which alone asks for boxes, makes products in tensor memory and waits for what concerns them.
    first: Knowledge,
    /// By pipe and side of its slots.
    ends: BTreeMap<(Pipe, usize), End>,
    ways: Vec<Ways>,
}

/// What is held of a program.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    /// Whether it has its waits and barriers.
    pub(super) synchronised: bool,
    /// Whether copies to a buffer are read in their order: each iteration has its own.
    pub(super) in_order: bool,
}

pub(super) struct Game<'a> {
    program: &'a Program<'a>,
    attrs: &'a FunctionAttrs,
    /// How the program is judged.
    rules: Rules,
    /// Whether boxes or products reach memory, which threads must have fenced before.
    fences: bool,
    /// Blocks of a cluster that bring each other boxes.
    ranks: usize,
    /// Those of one block after the other.
    players: Vec<Player>,
    /// Of each slot of each pipe of each block the sides: filled, free.
    sides: BTreeMap<(usize, Pipe, u32), [Side; 2]>,
    touches: Vec<Touch>,
    contents: Vec<Content>,
    copied: BTreeMap<Held, u64>,
    read: BTreeMap<Held, u64>,
    reached: BTreeMap<(usize, OpId), Reached>,
    /// By agent: for slots that boxes fill, what the thread that asks for them learned when it acquired the slot. The warps of an
    /// agent take turns in that; where there is one, its first thread does it all.
    asking: BTreeMap<(usize, Pipe, u32), Knowledge>,
}

const WARP: u32 = 32;
const FULL: usize = 0;
const EMPTY: usize = 1;

impl<'a> Game<'a> {
    pub(super) fn new(program: &'a Program<'a>, rules: Rules) -> Game<'a> {
        let attrs = &program.function.attrs;
        let agents: Vec<Agent> = attrs.agents.ids().chain(attrs.agents.is_empty().then_some(Agent(0))).collect();
        // Before there are pipes a block does what it does by itself.
        let ranks = if rules.synchronised { attrs.joined_blocks() as usize } else { 1 };
        let count = ranks * (2 * agents.len() + ranks * attrs.pipes.len());
        let of_block = |rank: usize| if ranks > 1 { format!(" of block {rank}") } else { String::new() };
        let player = |rank: usize, agent: Agent| Player {
            agent,
            rank,
            name: attrs.agents.get(agent).map_or("the block".into(), |info| format!("agent '{}'", info.name)) + &of_block(rank),
            threads: attrs.agent_threads(agent).unwrap_or(0),
            events: VecDeque::new(),
            now: 0,
            knows: vec![0; count],
            first: vec![0; count],
            ends: BTreeMap::new(),
            ways: Vec::new(),
        };
        let body = &program.function.body;
        let goes_another_way = |access: &BufferAccess| matches!(access.way, Way::Boxes | Way::Products);
        let reaches = |op: &OpId| body.ops[*op].kind.effects().buffers.iter().any(goes_another_way);
        Game {
            program,
            attrs,
            rules,
            fences: program.relevant.values().flatten().any(reaches),
            ranks,
            players: (0..ranks).flat_map(|rank| agents.iter().map(move |agent| player(rank, *agent))).collect(),
            sides: BTreeMap::new(),
            touches: Vec::new(),
            contents: Vec::new(),
            copied: BTreeMap::new(),
            read: BTreeMap::new(),
            reached: BTreeMap::new(),
            asking: BTreeMap::new(),
        }
    }

    /// An agent's next event. Those of one that is alone are played as they come, which takes no memory.
    pub(super) fn add(&mut self, agent: Agent, event: Event) -> Result<(), Fault> {
        let agents = self.players.len() / self.ranks;
        let others = if self.is_of_leader(&event) { 1..1 } else { 1..self.ranks };
        for rank in others {
            self.players[rank * agents + agent.0 as usize].events.push_back(event.clone());
        }
        self.players[agent.0 as usize].events.push_back(event);
        if self.players.len() == 1 && !self.step(0)? {
            return self.ended();
        }
        Ok(())
    }

    /// Whether only the first block of a pair does it, for both: their products, and what these wait for and tell.
    fn is_of_leader(&self, event: &Event) -> bool {
        let of_pair = |pipe: Pipe| self.attrs.is_of_pair(self.info(pipe));
        match &event.what {
            What::Acquire(Position { pipe, .. }) | What::Commit(pipe, _) => {
                of_pair(*pipe) && self.info(*pipe).fill == Fill::Products
            }
            What::Wait(Position { pipe, .. }) | What::Release(pipe, _) => of_pair(*pipe) && self.info(*pipe).drains_alone(),
            What::Accesses(_, completes) => self.is_product_of_pair(*completes),
            _ => false,
        }
    }

    fn is_product_of_pair(&self, completes: Completes) -> bool {
        self.attrs.program.pair && completes == Completes::WithItsCommit
    }

    /// Plays what all agents do.
    pub(super) fn whole(mut self) -> Result<(), Fault> {
        loop {
            let mut moved = false;
            for at in 0..self.players.len() {
                while self.step(at)? {
                    moved = true;
                }
            }
            if !moved {
                return self.ended();
            }
        }
    }

    /// Plays an agent's next event, if it has one and need not wait.
    fn step(&mut self, at: usize) -> Result<bool, Fault> {
        let Some(event) = self.players[at].events.pop_front() else { return Ok(false) };
        let op = event.op;
        let broken = |message: String| Fault::Broken { op, message };
        if let What::Acquire(position) | What::Wait(position) = event.what {
            let side = if matches!(event.what, What::Acquire(_)) { EMPTY } else { FULL };
            self.is_next(at, position, side).map_err(broken)?;
            if !self.may_pass(at, position, side) {
                self.players[at].events.push_front(event);
                return Ok(false);
            }
        }
        self.players[at].now += 1;
        self.sums_are_complete(at, &event).map_err(broken)?;
        match event.what {
            What::Accesses(accesses, completes) => self.accesses(at, op, &accesses, completes).map_err(broken)?,
            What::Barrier => {
                let player = &mut self.players[at];
                player.first[at] = player.now;
                let own = self.asking.iter().filter(|((agent, ..), _)| *agent == at);
                own.for_each(|(_, asked)| learn(&mut player.first, asked));
                player.knows.clone_from(&player.first);
                self.forget(at);
            }
            What::Fence => {
                let now = self.players[at].now;
                let own = self.touches.iter_mut().filter(|touch| touch.by == at && touch.over.is_some());
                own.for_each(|touch| touch.fenced = touch.fenced.or(Some(now)));
            }
            What::EndCopies => {
                self.under_way(at, Way::Copies).for_each(|copy| copy.later += 1);
            }
            What::WaitForCopies(pending) => self.wait_for(at, Way::Copies, pending + 1),
            What::WaitForProducts(pending) => self.wait_for(at, Way::Products, pending),
            What::Acquire(position) => self.pass(at, position, EMPTY),
            What::Wait(position) => self.pass(at, position, FULL),
            What::Commit(pipe, slot) => self.commit(at, pipe, slot).map_err(broken)?,
            What::Release(pipe, slot) => self.release(at, pipe, slot).map_err(broken)?,
            What::Reaches => self.reaches(at, op).map_err(broken)?,
            What::NextRound => self.next_round(at, op),
            What::Computes => {}
            What::RunsAhead(buffer) => self.run_ahead(buffer),
            What::IsAlone(buffer) => self.is_alone_in_its_memory(buffer).map_err(broken)?,
            What::Ways => {
                let before = self.ground(at);
                self.players[at].ways.push(Ways { before, one: None });
            }
            What::OtherWay => {
                let gone = self.ground(at);
                let ways = self.players[at].ways.last_mut().expect("two ways are open");
                ways.one = Some(gone);
                let before = ways.before.clone();
                self.stand_on(at, before);
            }
            What::WaysMeet => {
                let Ways { before, one } = self.players[at].ways.pop().expect("two ways are open");
                self.meet(at, one.expect("one way was gone"), &before);
            }
        }
        Ok(true)
    }

    /// What all of an agent that is alone know to be over no later access has to come behind, if none goes another way, for which
    /// there would be fences.
    fn forget(&mut self, at: usize) {
        if self.players.len() == 1 && !self.fences {
            let knows = &self.players[at].knows;
            self.touches.retain(|touch| touch.over.is_none_or(|over| over > knows[touch.by]));
        }
    }

    // Ways.

    fn ground(&self, at: usize) -> Ground {
        let Player { knows, first, .. } = &self.players[at];
        Ground {
            touches: self.touches.clone(),
            contents: self.contents.clone(),
            copied: self.copied.clone(),
            read: self.read.clone(),
            reached: self.reached.clone(),
            knows: knows.clone(),
            first: first.clone(),
        }
    }

    fn stand_on(&mut self, at: usize, ground: Ground) {
        let Ground { touches, contents, copied, read, reached, knows, first } = ground;
        (self.touches, self.contents, self.copied, self.read) = (touches, contents, copied, read);
        self.reached = reached;
        (self.players[at].knows, self.players[at].first) = (knows, first);
    }

    /// An agent comes from either of two ways; both started on the same ground.
    fn meet(&mut self, at: usize, mut one: Ground, before: &Ground) {
        let mut other = self.ground(at);
        for way in [&mut one, &mut other] {
            let Ground { touches, reached, knows, .. } = way;
            let own = reached.iter_mut().filter(|((by, _), _)| *by == at);
            own.for_each(|(_, reached)| reached.forget(knows[at]));
            for touch in touches {
                let is_known = |count: Option<u64>| count.is_some_and(|count| count <= knows[touch.by]);
                touch.known_over |= u64::from(is_known(touch.over)) << at;
                touch.known_fenced |= u64::from(is_known(touch.fenced)) << at;
            }
        }
        let less = |one: &Knowledge, other: &Knowledge| one.iter().zip(other).map(|(one, other)| *one.min(other)).collect();
        (other.knows, other.first) = (less(&one.knows, &other.knows), less(&one.first, &other.first));
        let new: Vec<Touch> = one.touches.into_iter().filter(|touch| !other.touches.contains(touch)).collect();
        other.touches.extend(new);
        let holds = |contents: &[Content], slot: &Slot| contents.iter().any(|content| content.slot == *slot);
        // What either way has overwritten is gone.
        other.contents.retain(|content| holds(&one.contents, &content.slot) || !holds(&before.contents, &content.slot));
        for content in one.contents {
            match other.contents.iter_mut().find(|own| own.slot == content.slot) {
                Some(own) => own.copy = own.copy.max(content.copy),
                None if holds(&before.contents, &content.slot) => {}
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

    /// What a loop has accessed was in an earlier round.
    fn next_round(&mut self, at: usize, for_op: OpId) {
        for op in self.program.order.inside.get(&for_op).into_iter().flatten() {
            if let Some(reached) = self.reached.get_mut(&(at, *op)) {
                reached.forget(self.players[at].knows[at]);
                reached.next_round(for_op);
            }
        }
    }

    /// What tokens order before an access is over, whichever threads did it.
    fn reaches(&mut self, at: usize, op: OpId) -> Rule {
        let Player { now, knows, .. } = &self.players[at];
        if let Some(before) = self.program.order.before.get(&op) {
            for (earlier, wait) in &before.earlier {
                let Some(reached) = self.reached.get_mut(&(at, *earlier)) else { continue };
                reached.forget(knows[at]);
                if let Some(in_earlier_round) = reached.is_missed(before, *wait) {
                    let earlier = self.program.function.body.ops[*earlier].kind.mnemonic();
                    let round = if in_earlier_round { " in an earlier round" } else { "" };
                    return Err(format!(
                        "a token orders it behind '{earlier}' of other threads{round}, and there is no barrier between"
                    ));
                }
            }
        }
        self.reached.entry((at, op)).or_default().now(*now);
        Ok(())
    }

    // Copies that run ahead, before they do.

    /// From here on copies may fill any slot of a ring.
    fn run_ahead(&mut self, buffer: Buffer) {
        let slot = Slot::ring(self.attrs, buffer);
        self.contents.retain(|content| !content.slot.meets(&slot));
        self.contents.push(Content { slot, copy: None });
    }

    fn is_alone_in_its_memory(&self, buffer: Buffer) -> Rule {
        let slot = Slot::ring(self.attrs, buffer);
        match self.contents.iter().any(|content| content.slot == slot) {
            true => Ok(()),
            false => Err(format!("{buffer} is filled ahead of its iteration, but its memory is used for something else meanwhile")),
        }
    }

    // Pipes.

    fn info(&self, pipe: Pipe) -> &'a PipeInfo {
        &self.attrs.pipes[pipe]
    }

    /// An agent visits the slots in turn, each once it has left it.
    fn is_next(&self, at: usize, position: Position, side: usize) -> Rule {
        let Position { pipe, slot, phase } = position;
        let depth = u64::from(self.info(pipe).depth);
        let player = &self.players[at];
        let none = End::default();
        let End { visited, open } = player.ends.get(&(pipe, side)).unwrap_or(&none);
        let (due, round) = (visited % depth, visited / depth & 1);
        if u64::from(slot) != due {
            return Err(format!("slot {slot} of {pipe} is not the next one of {}, which is slot {due}", player.name));
        }
        if phase != round {
            return Err(format!("{} is at phase {round} of slot {slot} of {pipe}, not {phase}", player.name));
        }
        if open.contains(&slot) {
            let missing = if side == EMPTY { "committed" } else { "released" };
            return Err(format!("slot {slot} of {pipe} was not {missing} before it is due again"));
        }
        Ok(())
    }

    fn side(&mut self, rank: usize, pipe: Pipe, slot: u32, side: usize) -> &mut Side {
        &mut self.sides.entry((rank, pipe, slot)).or_default()[side]
    }

    /// The blocks that a step of a pipe tells of a side of it: all that fill it together; where a pair has products, those of which the
    /// first block is told, or both by it.
    fn told(&self, at: usize, pipe: Pipe, side: usize) -> std::ops::Range<usize> {
        let (rank, info) = (self.players[at].rank, self.info(pipe));
        let by_products = if info.fill == Fill::Products { FULL } else { EMPTY };
        match self.attrs.is_of_pair(info) {
            true if side == by_products => 0..self.ranks,
            true => 0..1,
            false if info.multicast.is_some() => 0..self.ranks,
            false => rank..rank + 1,
        }
    }

    fn may_pass(&mut self, at: usize, Position { pipe, slot, .. }: Position, side: usize) -> bool {
        let depth = u64::from(self.info(pipe).depth);
        let rounds = self.players[at].ends.entry((pipe, side)).or_default().visited / depth;
        let completed = self.side(self.players[at].rank, pipe, slot, side).completed;
        // Slots are free at first.
        if side == EMPTY { completed >= rounds } else { completed > rounds }
    }

    fn pass(&mut self, at: usize, Position { pipe, slot, .. }: Position, side: usize) {
        let known = self.side(self.players[at].rank, pipe, slot, side).known.clone();
        let (alone, turns) = (self.is_alone(pipe, side), self.takes_turns(at, pipe, side));
        let player = &mut self.players[at];
        if turns {
            learn(self.asking.entry((at, pipe, slot)).or_default(), &known);
        } else {
            learn(&mut player.first, &known);
        }
        if !alone {
            learn(&mut player.knows, &known);
        }
        let end = player.ends.entry((pipe, side)).or_default();
        end.visited += 1;
        end.open.push(slot);
    }

    /// Whether the first thread of an agent does all steps of a pipe on that side.
    fn is_alone(&self, pipe: Pipe, side: usize) -> bool {
        let info = self.info(pipe);
        if side == EMPTY { info.fills_alone() } else { info.drains_alone() }
    }

    /// Whether its warps do them in turn.
    fn takes_turns(&self, at: usize, pipe: Pipe, side: usize) -> bool {
        side == EMPTY && self.info(pipe).fill == Fill::Boxes && self.players[at].threads > WARP
    }

    /// What the thread knows that asks for boxes to a slot.
    fn asker(&self, at: usize, slot: Slot) -> Knowledge {
        let player = &self.players[at];
        let Some((pipe, _)) = self.attrs.pipe_of(slot.buffer).filter(|(pipe, _)| self.takes_turns(at, *pipe, EMPTY)) else {
            return player.first.clone();
        };
        let mut knows = player.knows.clone();
        self.asking.get(&(at, pipe, slot.number)).into_iter().for_each(|asked| learn(&mut knows, asked));
        knows
    }

    /// The place of an agent's products in what agents know.
    fn products_of(&self, at: usize) -> usize {
        self.copies_of(self.ranks, 0, Pipe(0)) + at
    }

    /// The place of the copies with which a block fills a pipe's slots in another block.
    fn copies_of(&self, from: usize, to: usize, pipe: Pipe) -> usize {
        self.players.len() + (from * self.ranks + to) * self.attrs.pipes.len() + pipe.0 as usize
    }

    /// What is known when all products are complete that the first thread of an agent has made: what it knew itself besides.
    fn committed(&self, at: usize) -> Knowledge {
        let player = &self.players[at];
        let mut knows = player.first.clone();
        knows[self.products_of(at)] = player.now;
        knows
    }

    /// What an agent knows, with everything that its threads have done themselves.
    fn arrival(&self, at: usize) -> Knowledge {
        let player = &self.players[at];
        let mut knows = player.knows.clone();
        knows[at] = player.now;
        knows
    }

    fn leave(&mut self, at: usize, pipe: Pipe, slot: u32, side: usize) -> Rule {
        let (what, missing) = if side == EMPTY { ("committed", "acquired") } else { ("released", "waited for") };
        let player = &mut self.players[at];
        let end = player.ends.entry((pipe, side)).or_default();
        let Some(open) = end.open.iter().position(|open| *open == slot) else {
            return Err(format!("slot {slot} of {pipe} is {what}, but was not {missing} by {}", player.name));
        };
        end.open.remove(open);
        Ok(())
    }

    fn commit(&mut self, at: usize, pipe: Pipe, slot: u32) -> Rule {
        self.leave(at, pipe, slot, EMPTY)?;
        let info = self.info(pipe);
        let (now, mut knows, threads) = (self.players[at].now, self.arrival(at), self.players[at].threads);
        match info.fill {
            // They are there when the slot is filled: who waits for it knows, the producer itself does not.
            Fill::Copies => {
                let rank = self.players[at].rank;
                let by = self.copies_of(rank, rank, pipe);
                knows[by] = now;
                self.under_way(at, Way::Copies).for_each(|copy| (copy.by, copy.over) = (by, Some(now)));
            }
            Fill::Boxes => return self.commit_boxes(at, pipe, slot),
            Fill::Products => knows = self.committed(at),
            Fill::Threads => {
                let ring = |touch: &Touch| info.buffers.contains(&touch.slot.buffer) && touch.slot.number == slot;
                if let Some(copy) = self.under_way(at, Way::Copies).find(|touch| ring(touch)) {
                    return Err(format!("slot {slot} of {pipe} is committed while a copy to {} is under way", copy.slot));
                }
            }
        }
        let threads = if info.fills_alone() { 1 } else { threads };
        for rank in self.told(at, pipe, FULL) {
            self.side(rank, pipe, slot, FULL).arrive(threads, threads, &knows);
        }
        Ok(())
    }

    /// A slot is filled when the boxes of all are there that fill it together. In its own block the thread that asked for them says so, of
    /// what it knows of all; to others come only the boxes. The first block of a pair waits for those of both, each in its own memory.
    fn commit_boxes(&mut self, at: usize, pipe: Pipe, slot: u32) -> Rule {
        let (info, told) = (self.info(pipe), self.told(at, pipe, FULL));
        let Player { rank: own, now, ref knows, .. } = self.players[at];
        let of_pair = self.attrs.is_of_pair(info);
        let (knows, parts) = (knows.clone(), if of_pair { self.ranks } else { told.len() } as u32);
        for rank in told {
            let into = if of_pair { own } else { rank };
            let by = self.copies_of(own, into, pipe);
            for buffer in info.buffers.iter().filter(|buffer| into == own || info.is_multicast(**buffer)) {
                let filled = |touch: &&mut Touch| {
                    let Slot { buffer: of, number, rank: to, .. } = touch.slot;
                    (of, number, to) == (*buffer, slot, into)
                };
                let copies: Vec<&mut Touch> = self.under_way(at, Way::Boxes).filter(filled).collect();
                if copies.len() != 1 {
                    return Err(format!("slot {slot} of {pipe} is committed with {} copies to {buffer}, not one", copies.len()));
                }
                copies.into_iter().for_each(|copy| (copy.by, copy.over) = (by, Some(now)));
            }
            let mut given = if rank == own { knows.clone() } else { vec![0; knows.len()] };
            given[by] = now;
            self.side(rank, pipe, slot, FULL).arrive(1, parts, &given);
        }
        Ok(())
    }

    fn release(&mut self, at: usize, pipe: Pipe, slot: u32) -> Rule {
        self.leave(at, pipe, slot, FULL)?;
        let info = self.info(pipe);
        let ring = |touch: &Touch| info.buffers.contains(&touch.slot.buffer) && touch.slot.number == slot;
        if self.under_way(at, Way::Products).any(|touch| ring(touch)) {
            return Err(format!("slot {slot} of {pipe} is released while a product in flight reads it"));
        }
        let knows = if info.drains_alone() { self.committed(at) } else { self.arrival(at) };
        let threads = info.releases(self.players[at].threads);
        let all = self.attrs.draining_threads(info);
        for rank in self.told(at, pipe, EMPTY) {
            self.side(rank, pipe, slot, EMPTY).arrive(threads, all, &knows);
        }
        Ok(())
    }

    // Accesses.

    fn under_way(&mut self, at: usize, way: Way) -> impl Iterator<Item = &mut Touch> {
        self.touches.iter_mut().filter(move |touch| touch.by == at && touch.over.is_none() && touch.way == way)
    }

    /// Those are over after which enough others were begun.
    fn wait_for(&mut self, at: usize, way: Way, enough: u64) {
        let now = self.players[at].now;
        self.under_way(at, way).filter(|touch| touch.later >= enough).for_each(|touch| touch.over = Some(now));
    }

    fn sums_are_complete(&self, at: usize, event: &Event) -> Rule {
        let in_flight = |op: &OpId| self.touches.iter().any(|touch| touch.by == at && touch.over.is_none() && touch.op == *op);
        match event.needs.iter().find(|(_, products)| products.iter().any(in_flight)) {
            Some((value, _)) => Err(format!("{value} is used while the product that makes it is in flight")),
            None => Ok(()),
        }
    }

    /// The slot that an access means; before accesses name slots it may be any.
    fn slot(&self, at: usize, buffer: Buffer, number: u32) -> Slot {
        let slot = if self.rules.synchronised { Slot::of(self.attrs, buffer, number) } else { Slot::ring(self.attrs, buffer) };
        slot.of_block(self.players[at].rank)
    }

    /// The slots that an access means: a product of a pair those of both.
    fn held_by(&self, completes: Completes, slot: Slot) -> Vec<Slot> {
        match self.is_product_of_pair(completes) {
            true => (0..self.ranks).map(|rank| slot.of_block(rank)).collect(),
            false => vec![slot],
        }
    }

    /// What of that an access reaches: boxes that blocks bring each other are a part of the slot, in each of them.
    fn reached_by(&self, access: &BufferAccess, completes: Completes, slot: Slot) -> Vec<Slot> {
        if self.is_product_of_pair(completes) {
            return self.held_by(completes, slot);
        }
        let brought = self.attrs.pipe_of(slot.buffer).is_some_and(|(_, info)| info.is_multicast(slot.buffer));
        if !brought || access.way != Way::Boxes || !access.does.writes() {
            return vec![slot];
        }
        let part = slot.part(slot.rank, self.ranks);
        (0..self.ranks).map(|rank| part.of_block(rank)).collect()
    }

    fn accesses(&mut self, at: usize, op: OpId, accesses: &[(BufferAccess, u32)], completes: Completes) -> Rule {
        for (access, number) in accesses {
            let slot = self.slot(at, access.buffer, *number);
            if self.rules.synchronised {
                self.is_at(at, access, *number)?;
                let mut reached = self.reached_by(access, completes, slot).into_iter();
                reached.try_for_each(|slot| self.is_ordered(at, slot, access, completes))?;
            }
            self.held_by(completes, slot).into_iter().try_for_each(|slot| self.is_there(slot, access))?;
        }
        let in_flight = completes == Completes::WithItsProducts;
        if in_flight {
            self.under_way(at, Way::Products).for_each(|product| product.later += 1);
        }
        for (access, number) in accesses {
            let slot = self.slot(at, access.buffer, *number);
            self.held_by(completes, slot).into_iter().for_each(|slot| self.fill(slot, access));
            if self.rules.synchronised {
                for slot in self.reached_by(access, completes, slot) {
                    self.touch(at, op, slot, access, completes);
                }
            }
        }
        Ok(())
    }

    /// What a slot holds from now on, if an access writes all of it.
    fn fill(&mut self, slot: Slot, access: &BufferAccess) {
        if !matches!(access.does, Does::Writes | Does::Fills) {
            return;
        }
        let count = self.copied.entry((slot.rank, slot.buffer)).or_default();
        let copy = (access.way == Way::Copies).then_some(*count);
        *count += u64::from(copy.is_some());
        self.contents.retain(|content| !content.slot.meets(&slot));
        self.contents.push(Content { slot, copy });
    }

    fn touch(&mut self, at: usize, op: OpId, slot: Slot, access: &BufferAccess, completes: Completes) {
        let writes = access.does.writes();
        let under_way = match completes {
            Completes::WithItsCopies => access.way == Way::Copies,
            Completes::WithItsSlot => access.way == Way::Boxes,
            Completes::WithItsProducts => true,
            Completes::WithItsCommit | Completes::AtOnce => false,
        };
        let by = if completes == Completes::WithItsCommit { self.products_of(at) } else { at };
        let over = (!under_way).then_some(self.players[at].now);
        // What came before is known to be over, and so is needed no more where all of it is replaced.
        let replaced = |touch: &Touch| slot == touch.slot && (writes || touch.by == by && !touch.writes && touch.over.is_some());
        self.touches.retain(|touch| !replaced(touch));
        let (known_over, known_fenced) = (0, 0);
        self.touches.push(Touch { by, op, slot, writes, way: access.way, over, fenced: None, later: 0, known_over, known_fenced });
    }

    /// Buffers of a pipe are touched between taking and leaving a slot.
    fn is_at(&self, at: usize, access: &BufferAccess, number: u32) -> Rule {
        let Some((pipe, info)) = self.attrs.pipe_of(access.buffer).filter(|(_, info)| fills(info, access.way)) else {
            return match access.way {
                Way::Boxes if access.does.writes() => {
                    Err(format!("{} is of no pipe that boxes fill, so nothing says when its copy is there", access.buffer))
                }
                _ => Ok(()),
            };
        };
        let player = &self.players[at];
        let is_open = |side| player.ends.get(&(pipe, side)).is_some_and(|end| end.open.contains(&number));
        // Who fills a slot may look at it.
        // Products add to sums that threads change between them, and are known to be over where those may change them again.
        let by_products = access.way == Way::Products && info.drain == Drain::Products && info.fill == Fill::Threads;
        let adds = access.does.writes() && by_products;
        let writes = access.does.writes() && !adds;
        let open = is_open(EMPTY) && !adds || !writes && is_open(FULL);
        let (done, window) = match (writes, adds) {
            (true, _) => ("written", "acquire and commit"),
            (_, true) => ("added to", "wait and release"),
            _ => ("read", "wait and release"),
        };
        if writes && info.producer != player.agent {
            return Err(format!("slot {number} of {} is written by {}, which does not fill {pipe}", access.buffer, player.name));
        }
        match open {
            true => Ok(()),
            false => Err(format!("slot {number} of {} is {done} by {} outside {window} of {pipe}", access.buffer, player.name)),
        }
    }

    /// The agent knows that the accesses which this one meets are over, and what goes another way was fenced.
    fn is_ordered(&self, at: usize, slot: Slot, access: &BufferAccess, completes: Completes) -> Rule {
        let (player, writes) = (&self.players[at], access.does.writes());
        let done = if writes { "overwritten" } else { "read" };
        let by_boxes = access.way == Way::Boxes;
        let by_product = completes == Completes::WithItsCommit;
        let knows = match (by_boxes, by_product) {
            (true, _) => self.asker(at, slot),
            (_, true) => player.first.clone(),
            _ => player.knows.clone(),
        };
        for touch in self.touches.iter().filter(|touch| (writes || touch.writes) && touch.slot.meets(&slot)) {
            // Products of one thread follow one another, and so do the accesses of warps that have their lanes to themselves.
            let of_threads = matches!(touch.way, Way::Threads | Way::Copies);
            let in_order = match by_product {
                true => touch.by == self.products_of(at),
                false => slot.space == Space::Tensor && touch.by == at && of_threads && player.threads <= tensor::LANES,
            };
            if in_order {
                continue;
            }
            let other = if touch.slot == slot { String::new() } else { format!(" (of {})", touch.slot) };
            let by = match self.players.get(touch.by) {
                _ if touch.by == at => String::new(),
                Some(other) => format!(", by {}", other.name),
                None if touch.way == Way::Products => ", by a product".into(),
                None => ", by a copy of its pipe".into(),
            };
            let known = knows[touch.by];
            match touch.over {
                None if touch.way != Way::Products && !writes && touch.slot == slot => {
                    return Err(format!("{slot} is read before its copy was waited for{by}"));
                }
                None if touch.way != Way::Products => {
                    return Err(format!("{slot} is {done} while a copy to {} is under way{by}", touch.slot));
                }
                None => return Err(format!("{slot} is overwritten while a product in flight reads it{by}")),
                Some(over) if over > known && touch.known_over >> at & 1 == 0 => {
                    return Err(match (touch.by == at, touch.writes) {
                        (true, true) if touch.way == Way::Copies => {
                            format!("{slot} is {done} before a barrier after the wait{other}")
                        }
                        (true, true) => format!("{slot} is {done} before a barrier after it was written{other}"),
                        (true, false) => format!("{slot} is {done} before a barrier after its last read{other}"),
                        (false, true) => format!("{slot} is {done}, and nothing says that it was written{other}{by}"),
                        (false, false) => format!("{slot} is {done}, and nothing says that it was read{other}{by}"),
                    });
                }
                Some(_) => {}
            }
            let fenced = touch.fenced.is_some_and(|fenced| fenced <= known) || touch.known_fenced >> at & 1 == 1;
            let shared = slot.space == Space::Shared;
            if access.way == Way::Products && shared && touch.writes && of_threads && !fenced {
                return Err(format!("{slot} is read in place without a fence after it was written{by}"));
            }
            if by_boxes && of_threads && !fenced {
                return Err(format!("{slot} is {done} by boxes without a fence after threads were at it{by}"));
            }
        }
        Ok(())
    }

    /// What is read is what was written to the slot; a buffer's copies are read in their order, those of one iteration perhaps several
    /// times.
    fn is_there(&mut self, slot: Slot, access: &BufferAccess) -> Rule {
        if !access.does.needs_content() {
            return Ok(());
        }
        let Some(content) = self.contents.iter().find(|content| content.slot == slot) else {
            return Err(match self.contents.iter().find(|content| content.slot.meets(&slot)) {
                Some(other) => format!("{slot} is read, but its memory was given to {}", other.slot),
                None => format!("{slot} is read before anything is written to it"),
            });
        };
        // Of a pipe the order is that of its slots.
        let piped = self.attrs.pipe_of(slot.buffer).is_some();
        let counts = self.rules.synchronised && !piped && (self.rules.in_order || self.attrs.placements[slot.buffer].depth > 1);
        if let Some(number) = content.copy.filter(|_| counts) {
            let last = self.read.insert((slot.rank, slot.buffer), number);
            let due = last.map_or(0, |last| last + 1);
            if number != due && Some(number) != last {
                return Err(format!("{slot} holds copy {number}, and copy {due} is due"));
            }
        }
        Ok(())
    }

    // The end.

    /// Nobody can go on: all are at their end, and left nothing behind, or they wait for each other.
    fn ended(&self) -> Result<(), Fault> {
        let waiting: Vec<(&Player, &Event)> =
            self.players.iter().filter_map(|player| Some((player, player.events.front()?))).collect();
        if let Some((_, first)) = waiting.first() {
            let of = |(player, event): &(&Player, &Event)| match &event.what {
                What::Acquire(Position { pipe, slot, phase }) => {
                    format!("{} waits until slot {slot} of {pipe} is free, phase {phase}", player.name)
                }
                What::Wait(Position { pipe, slot, phase }) => {
                    format!("{} waits until slot {slot} of {pipe} is filled, phase {phase}", player.name)
                }
                _ => unreachable!("nothing else waits"),
            };
            let message = format!("it never goes on: {}", waiting.iter().map(of).collect::<Vec<_>>().join("; "));
            return Err(Fault::Broken { op: first.op, message });
        }
        if let Some(touch) = self.touches.iter().find(|touch| touch.over.is_none()) {
            let what = if touch.way == Way::Products { "product" } else { "copy" };
            return Err(Fault::Broken { op: touch.op, message: format!("nothing waits for the {what}") });
        }
        if let Some(product) = self.touches.iter().find(|touch| self.is_never_known(touch)) {
            return Err(Fault::Broken { op: product.op, message: "nothing waits for the product".into() });
        }
        self.left_open().map_or(Ok(()), |message| Err(Fault::Left { message }))
    }

    /// Whether a product in tensor memory may be under way when that is given back.
    fn is_never_known(&self, touch: &Touch) -> bool {
        let of_products = touch.by >= self.products_of(0);
        of_products && touch.over.is_some_and(|over| self.players.iter().all(|player| player.first[touch.by] < over))
    }

    fn left_open(&self) -> Option<String> {
        for (pipe, info) in self.attrs.pipes.iter() {
            // What one block of a cluster leaves the others leave, too.
            let end = |agent: Agent, side| {
                let player = self.players.iter().find(|player| player.agent == agent);
                player.and_then(|player| player.ends.get(&(pipe, side)))
            };
            let open = |agent, side| end(agent, side).and_then(|end| end.open.first());
            let visited = |agent, side| end(agent, side).map_or(0, |end| end.visited);
            let last = if self.attrs.ends_free(info) { info.depth as usize } else { 0 };
            match (open(info.producer, EMPTY), end(info.producer, EMPTY).map_or(0, |end| end.open.len())) {
                (_, slots) if slots == last => {}
                (Some(slot), _) if last == 0 => return Some(format!("slot {slot} of {pipe} is acquired and never committed")),
                _ => return Some(format!("{pipe}: products of another block may free a slot when this one has ended")),
            }
            for consumer in &info.consumers {
                if let Some(slot) = open(*consumer, FULL) {
                    return Some(format!("slot {slot} of {pipe} is waited for and never released"));
                }
                let (filled, taken) = (visited(info.producer, EMPTY) - last as u64, visited(*consumer, FULL));
                if filled != taken {
                    return Some(format!("{pipe} is filled {filled} times, and {taken} of them are taken by {consumer}"));
                }
            }
        }
        None
    }
}

/// Whether a pipe is one that accesses of this kind may meet; boxes need one that they fill.
fn fills(info: &PipeInfo, way: Way) -> bool {
    way != Way::Boxes || info.fill == Fill::Boxes
}

/// The arrivals that the table of pipes states are those that there are.
pub(super) fn arrivals(attrs: &FunctionAttrs) -> Rule {
    for (pipe, info) in attrs.pipes.iter() {
        let filling = attrs.filling_threads(info).unwrap_or(0);
        for (stated, there, what) in [(info.full, filling, "fill"), (info.empty, attrs.draining_threads(info), "free")] {
            if stated != there {
                return Err(format!("{there} threads {what} a slot of {pipe}, and its barrier counts {stated} arrivals"));
            }
        }
    }
    Ok(())
}
