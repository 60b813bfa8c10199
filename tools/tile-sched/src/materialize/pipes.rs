//! The steps of the pipes that copies by boxes fill.
//!
//! A slot is filled at the start of an iteration, for the one that is so far ahead, or while its first product by warp groups is made,
//! so that who asks for the boxes keeps nobody waiting; where copies do not run ahead, where the first of
//! its group stands. It is waited for where the first of its buffers is read, and left at the end of the iteration, or of the next
//! where a product in flight still reads it; what products into tensor memory read, behind the last of them, and so what several copies
//! fill in turn. What the steps order
//! needs no barrier. Where the memory of the slots had another use before the loop, a fence and a barrier of all threads end that, or
//! where another agent asks for the boxes, a fence and a pipe without buffers, which all threads fill.

use super::{Copy, Frame, Lane, Map, Weaver, scalar};
use crate::boxes::Group;
use base::Value;
use base::ir::{Def, Op as OpId, Operation, ValueNode};
use numerics::Scalar;
use numerics::arith::{Binary, Compare, Predicate, Signedness};
use sched::{Drain, Op, Pipe};
use std::collections::{BTreeMap, BTreeSet};
use tileas::Buffer;
use tileas::effects::Way;
use vocabulary::core_ops::Core;

impl Weaver<'_> {
    /// Nobody is at the memory of the slots any more, and the copy engine sees it so; another agent that asks for boxes is told.
    pub(super) fn take_memory(&mut self) {
        if self.plan.had_before {
            self.append(Op::AsyncFence {}, []);
            // Who is told waits for all threads.
            if self.plan.told_by.is_none() {
                self.append(Op::Barrier { id: 0, threads: self.threads }, []);
            }
        }
        if let Some(pipe) = self.plan.told_by {
            let (slot, phase) = (None, self.number(0));
            self.append(Op::PipeAcquire { pipe, slot, phase }, []);
            self.append(Op::PipeCommit { pipe, slot }, []);
            self.append(Op::PipeWait { pipe, slot, phase }, []);
            self.append(Op::PipeRelease { pipe, slot }, []);
        }
    }

    /// The loop's pipes, each by the first group that fills it.
    fn pipes(&self) -> Vec<usize> {
        let groups = &self.plan.groups;
        let is_first = |at: &usize| groups[..*at].iter().all(|group| group.pipe != groups[*at].pipe);
        (0..groups.len()).filter(is_first).collect()
    }

    /// Where each pipe begins in the loop: the slot and phase that are read.
    pub(super) fn first_lanes(&mut self) -> Vec<Lane> {
        self.pipes().into_iter().map(|_| self.lane([0, 0])).collect()
    }

    /// The places of all groups in an iteration that begins with these of the pipes: each takes the slot behind that of the group before.
    pub(super) fn lanes_of_groups(&mut self, starts: &[Lane]) -> Vec<Lane> {
        let plan = self.plan;
        let mut now: BTreeMap<Pipe, Lane> = BTreeMap::new();
        for (at, lane) in self.pipes().into_iter().zip(starts) {
            now.insert(plan.groups[at].pipe, *lane);
        }
        let mut lanes: Vec<Lane> = Vec::new();
        for (at, group) in plan.groups.iter().enumerate() {
            let lane = match plan.groups[..at].iter().rposition(|before| before.pipe == group.pipe) {
                Some(before) => self.further(lanes[before], 1, group.depth),
                None => now[&group.pipe],
            };
            lanes.push(lane);
        }
        lanes
    }

    /// Where the pipes go on in the next iteration.
    pub(super) fn next_lanes(&mut self, lanes: &[Lane]) -> Vec<Lane> {
        let plan = self.plan;
        let last = |pipe: Pipe| plan.groups.iter().rposition(|group| group.pipe == pipe).expect("a pipe is filled by a group");
        let ends: Vec<usize> = self.pipes().into_iter().map(|first| last(plan.groups[first].pipe)).collect();
        ends.into_iter().map(|at| self.further(lanes[at], 1, plan.groups[at].depth)).collect()
    }

    pub(super) fn lane(&mut self, place: [u32; 2]) -> Lane {
        let [slot, phase] = place.map(|number| self.number(number));
        Lane { slot, phase }
    }

    /// The same where loops go round it: they carry the places from one round to the next. None without such loops.
    pub(super) fn carried_lanes(&mut self) -> Vec<Lane> {
        let Some(&outermost) = self.around.first() else { return Vec::new() };
        let outer = std::mem::take(&mut self.out);
        let mut places: Vec<Value> = self.first_lanes().into_iter().flat_map(|lane| [lane.slot, lane.phase]).collect();
        let zeros = std::mem::replace(&mut self.out, outer);
        let (block, at) = self.place_of(outermost);
        self.body.blocks[block].ops.splice(at..at, zeros);
        for op in self.around.clone() {
            let Op::Core(tileas::Op::Core(Core::For { init, body: region, .. })) = &mut self.body.ops[op].kind else {
                unreachable!("only `for` loops are around")
            };
            init.extend(&places);
            let region = *region;
            let block = self.body.block_of(region);
            places.iter_mut().for_each(|place| *place = self.body.add_argument(block, scalar(Scalar::I32)));
        }
        places.chunks(2).map(|lane| Lane { slot: lane[0], phase: lane[1] }).collect()
    }

    /// The loops around go on with the places that the end of this one leaves.
    pub(super) fn hand_on(&mut self, places: &[Value]) {
        let mut places = places.to_vec();
        for op in self.around.clone().into_iter().rev() {
            let Some(Core::For { body: region, .. }) = self.body.ops[op].kind.core() else {
                unreachable!("only `for` loops are around")
            };
            let end = self.body.terminator(self.body.block_of(*region)).expect("a loop's body ends in continue");
            if let Op::Core(tileas::Op::Core(Core::Continue { values })) = &mut self.body.ops[end].kind {
                values.extend(&places);
            }
            for place in &mut places {
                let index = self.body.ops[op].results.len() as u32;
                *place = self.body.values.push(ValueNode { ty: scalar(Scalar::I32), def: Def::Result { op, index } });
                self.body.ops[op].results.push(*place);
            }
        }
    }

    /// A loop behind that fills the same slots goes on where this one ends; it was written before.
    pub(super) fn go_on_behind(&mut self, places: &[Value], lanes: &[Lane]) {
        if !self.around.is_empty() {
            return;
        }
        for ((at, own), place) in self.pipes().into_iter().zip(lanes).zip(places.chunks(2)) {
            if let Some(later) = self.begins.insert(self.plan.groups[at].pipe, *own) {
                self.body.replace_uses(later.slot, place[0]);
                self.body.replace_uses(later.phase, place[1]);
            }
        }
    }

    /// The slot and phase that are so many further on, less than all.
    pub(super) fn further(&mut self, Lane { slot, phase }: Lane, steps: u32, depth: u32) -> Lane {
        let number = scalar(Scalar::I32);
        let [step, depth, one, first] = [steps, depth, 1, 0].map(|value| self.number(value));
        let next = self.add(slot, step, &number);
        let kind = Compare::Int { predicate: Predicate::LessThan, signedness: Signedness::Unsigned };
        let inside = self.core(Core::Compare { kind, lhs: next, rhs: depth }, scalar(Scalar::I1));
        let around = match steps {
            1 => first,
            _ => self.binary(Binary::SubI { overflow: numerics::arith::Overflow::None }, next, depth, &number),
        };
        let other = self.binary(Binary::Xor, phase, one, &number);
        let slot = self.core(Core::Select { cond: inside, yes: next, no: around }, number.clone());
        Lane { slot, phase: self.core(Core::Select { cond: inside, yes: phase, no: other }, number) }
    }

    /// Fills a slot for the iteration with that index.
    pub(super) fn fill(
        &mut self,
        frame: &Frame,
        group: &Group,
        index: Value,
        Lane { slot, phase }: Lane,
        iteration: i32,
        map: &Map,
    ) {
        let plan = self.plan;
        let slot = (group.depth > 1).then_some(slot);
        let filled = |op| plan.boxes.iter().find(|copy| copy.op == op).expect("a group is of the loop's copies");
        let copies: Vec<&Copy> = group.copies.iter().map(|(op, _)| filled(*op)).collect();
        // What they are looked up by may be on its way while the slot is waited for.
        let map = self.addresses(frame, &copies, index, map);
        self.append(Op::PipeAcquire { pipe: group.pipe, slot, phase }, []);
        for copy in copies {
            self.issue(copy, slot, iteration, &map);
        }
        self.append(Op::PipeCommit { pipe: group.pipe, slot }, []);
    }

    /// All copies of the group that a copy belongs to, once in an iteration, if there is the iteration that they are for.
    pub(super) fn scheduled_fill(
        &mut self,
        frame: &Frame,
        op: OpId,
        counter: Value,
        lanes: &[Lane],
        filled: &mut BTreeSet<usize>,
        map: &Map,
    ) {
        let plan = self.plan;
        let at = plan.groups.iter().position(|group| group.is_filled_by(op)).expect("each copy by boxes is in a group");
        if !filled.insert(at) {
            return;
        }
        let (group, lane) = (&plan.groups[at], lanes[at]);
        if group.ahead == 0 {
            return self.fill(frame, group, counter, lane, 0, map);
        }
        let distance = frame.distances[&group.ahead];
        let exists = self.more_than(frame, distance, counter);
        self.guarded(exists, |weaver| {
            let index = weaver.add(counter, distance, &frame.index.clone());
            let place = weaver.further(lane, group.ahead, group.depth);
            weaver.fill(frame, group, index, place, group.ahead as i32, map);
        });
    }

    /// The slots for later iterations.
    pub(super) fn fill_ahead(&mut self, frame: &Frame, counter: Value, lanes: &[Lane], filled: &mut BTreeSet<usize>, map: &Map) {
        let plan = self.plan;
        for group in plan.groups.iter().filter(|group| group.ahead > 0) {
            self.scheduled_fill(frame, group.copies[0].0, counter, lanes, filled, map);
        }
    }

    /// Whether what a group fills is read at a place in an iteration where these were filled; of those that fill a buffer in turn that is
    /// the last one.
    fn is_current(&self, at: usize, filled: &BTreeSet<usize>) -> bool {
        let groups = &self.plan.groups;
        !groups[at].in_turn || filled.iter().rfind(|other| groups[**other].pipe == groups[at].pipe) == Some(&at)
    }

    /// Waits for the slots of the buffers that an op reads, once in an iteration.
    pub(super) fn take_slots(&mut self, read: &[Buffer], lanes: &[Lane], filled: &BTreeSet<usize>, taken: &mut BTreeSet<usize>) {
        let plan = self.plan;
        for (at, (group, lane)) in plan.groups.iter().zip(lanes).enumerate() {
            if !self.is_current(at, filled) {
                continue;
            }
            if group.copies.iter().any(|(_, buffer)| read.contains(buffer)) && taken.insert(at) {
                let slot = (group.depth > 1).then_some(lane.slot);
                self.append(Op::PipeWait { pipe: group.pipe, slot, phase: lane.phase }, []);
            }
        }
    }

    /// The slots that the next op reads.
    pub(super) fn read_slots(&mut self, lanes: &[Lane], filled: &BTreeSet<usize>) {
        for (at, (group, lane)) in self.plan.groups.iter().zip(lanes).enumerate() {
            if group.depth > 1 && self.is_current(at, filled) {
                self.read.extend(group.copies.iter().map(|(_, buffer)| (*buffer, lane.slot)));
            }
        }
    }

    /// Behind the last op that reads what a group fills, if that is not left at the end of the iteration.
    pub(super) fn leave_behind(&mut self, op: OpId, lanes: &[Lane]) {
        let plan = self.plan;
        let done = plan.groups.iter().zip(lanes);
        let done = done.filter(|(group, _)| self.is_left_early(group) && self.last_reader(group) == Some(op));
        for (group, lane) in done.collect::<Vec<_>>() {
            self.release(group, lane.slot);
        }
    }

    fn is_left_early(&self, group: &Group) -> bool {
        let takes_turns = || self.plan.groups.iter().any(|other| group.takes_turns_with(other));
        let is_read_here = || !self.is_in_flight(group) && self.last_reader(group).is_some();
        group.drain == Drain::Products || group.in_turn || takes_turns() && is_read_here()
    }

    /// The last op of an iteration that reads what a group fills, before another one fills the same slots.
    fn last_reader(&self, group: &Group) -> Option<OpId> {
        let order = &self.plan.order;
        let filled_later = |op: &OpId| {
            let other = self.plan.groups.iter().find(|other| other.is_filled_by(*op));
            group.in_turn && !group.is_filled_by(*op) && other.is_some_and(|other| other.pipe == group.pipe)
        };
        let from = if group.in_turn { order.iter().position(|op| group.is_filled_by(*op))? } else { 0 };
        let reads = |op: &&OpId| {
            let touched = self.touched(**op);
            !group.is_filled_by(**op) && group.copies.iter().any(|(_, own)| touched.iter().any(|touch| touch.buffer() == *own))
        };
        order[from..].iter().take_while(|op| !filled_later(op)).filter(reads).last().copied()
    }

    /// At the end of an iteration.
    pub(super) fn leave_slots(&mut self, frame: &Frame, lower: Value, counter: Value, lanes: &[Lane]) {
        let plan = self.plan;
        for (group, lane) in plan.groups.iter().zip(lanes) {
            if self.is_left_early(group) {
                continue;
            }
            if !self.is_in_flight(group) {
                self.release(group, lane.slot);
                continue;
            }
            let later = self.less(frame, lower, counter);
            self.guarded(later, |weaver| {
                let before = weaver.slot_before(lane.slot, group.depth);
                weaver.release(group, before);
            });
        }
    }

    /// Behind the loop, what its last products have read; `places` are those that its end leaves.
    pub(super) fn release_last(&mut self, frame: &Frame, lower: Value, places: &[Value]) {
        let plan = self.plan;
        for (at, place) in self.pipes().into_iter().zip(places.chunks(2)) {
            let group = &plan.groups[at];
            if !self.is_in_flight(group) {
                continue;
            }
            let ran = self.less(frame, lower, frame.upper);
            self.guarded(ran, |weaver| {
                let before = weaver.slot_before(place[0], group.depth);
                weaver.release(group, before);
            });
        }
    }

    fn is_in_flight(&self, group: &Group) -> bool {
        let mut products = self.plan.in_flight.iter();
        products.any(|product| group.copies.iter().any(|(_, buffer)| product.reads.contains(buffer)))
    }

    /// What threads have read the copy engine may overwrite behind a fence of theirs.
    fn release(&mut self, group: &Group, slot: Value) {
        let reads = |buffer: &Buffer| {
            self.plan.order.iter().any(|op| {
                let inner = self.body.ops[*op].kind.regions().into_iter().flat_map(|region| self.body.walk(region));
                let mut all = std::iter::once(*op).chain(inner).flat_map(|op| self.body.ops[op].kind.effects().buffers);
                all.any(|access| access.buffer == *buffer && access.way == Way::Threads)
            })
        };
        if group.copies.iter().any(|(_, buffer)| reads(buffer)) {
            self.append(Op::AsyncFence {}, []);
        }
        if common::planted("sched.release") {
            return;
        }
        self.append(Op::PipeRelease { pipe: group.pipe, slot: (group.depth > 1).then_some(slot) }, []);
    }

    fn slot_before(&mut self, slot: Value, depth: u32) -> Value {
        let number = scalar(Scalar::I32);
        let [zero, one, last] = [0, 1, depth - 1].map(|value| self.number(value));
        let kind = Compare::Int { predicate: Predicate::Equal, signedness: Signedness::Unsigned };
        let first = self.core(Core::Compare { kind, lhs: slot, rhs: zero }, scalar(Scalar::I1));
        let before = self.binary(Binary::SubI { overflow: numerics::arith::Overflow::None }, slot, one, &number);
        self.core(Core::Select { cond: first, yes: last, no: before }, number)
    }
}
