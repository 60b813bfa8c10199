//! The steps of the pipes that copies by boxes fill.
//!
//! A slot is filled at the start of an iteration, for the one that is so far ahead, or while its first product by warp groups is made,
//! so that who asks for the boxes keeps nobody waiting; where copies do not run ahead, where the first of
//! its group stands. It is waited for where the first of its buffers is read, and left at the end of the iteration, or of the next
//! where a product in flight still reads it; what products into tensor memory read, behind the last of them. What the steps order
//! needs no barrier. Where the memory of the slots had another use before the loop, a fence and a barrier of all threads end that, and
//! a pipe without buffers tells another agent of it.

use super::{Frame, Lane, Map, Weaver, scalar};
use crate::boxes::Group;
use base::Value;
use base::ir::{Def, Op as OpId, Operation, ValueNode};
use numerics::Scalar;
use numerics::arith::{Binary, Compare, Predicate, Signedness};
use sched::{Drain, Op};
use std::collections::BTreeSet;
use tileas::Buffer;
use tileas::effects::Way;
use vocabulary::core_ops::Core;

impl Weaver<'_> {
    /// Nobody is at the memory of the slots any more, and the copy engine sees it so; another agent that asks for boxes is told.
    pub(super) fn take_memory(&mut self) {
        if self.plan.had_before {
            self.append(Op::AsyncFence {}, []);
            self.append(Op::Barrier { id: 0, threads: self.threads }, []);
        }
        if let Some(pipe) = self.plan.told_by {
            let (slot, phase) = (None, self.number(0));
            self.append(Op::PipeAcquire { pipe, slot, phase }, []);
            self.append(Op::PipeCommit { pipe, slot }, []);
            self.append(Op::PipeWait { pipe, slot, phase }, []);
            self.append(Op::PipeRelease { pipe, slot }, []);
        }
    }

    /// Where each pipe begins in the loop: the slot and phase that are read.
    pub(super) fn first_lanes(&mut self) -> Vec<Lane> {
        self.plan.groups.iter().map(|_| self.lane([0, 0])).collect()
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
        for ((group, own), place) in self.plan.groups.iter().zip(lanes).zip(places.chunks(2)) {
            if let Some(later) = self.begins.insert(group.pipe, *own) {
                self.body.replace_uses(later.slot, place[0]);
                self.body.replace_uses(later.phase, place[1]);
            }
        }
    }

    /// The slot and phase that are so many further on, less than all.
    pub(super) fn further(&mut self, Lane { slot, phase }: Lane, steps: u32, depth: u32) -> Lane {
        let number = scalar(Scalar::I32);
        let [steps, depth, one] = [steps, depth, 1].map(|value| self.number(value));
        let next = self.add(slot, steps, &number);
        let kind = Compare::Int { predicate: Predicate::LessThan, signedness: Signedness::Unsigned };
        let inside = self.core(Core::Compare { kind, lhs: next, rhs: depth }, scalar(Scalar::I1));
        let around = self.binary(Binary::SubI { overflow: numerics::arith::Overflow::None }, next, depth, &number);
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
        let slot = (group.depth > 1).then_some(slot);
        self.append(Op::PipeAcquire { pipe: group.pipe, slot, phase }, []);
        for (op, _) in &group.copies {
            let copy = self.plan.boxes.iter().find(|copy| copy.op == *op).expect("a group is of the loop's copies");
            self.copy(frame, copy, index, slot, iteration, map);
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

    /// Waits for the slots of the buffers that an op reads, once in an iteration.
    pub(super) fn take_slots(&mut self, read: &[Buffer], lanes: &[Lane], taken: &mut BTreeSet<usize>) {
        let plan = self.plan;
        for (at, (group, lane)) in plan.groups.iter().zip(lanes).enumerate() {
            if group.copies.iter().any(|(_, buffer)| read.contains(buffer)) && taken.insert(at) {
                let slot = (group.depth > 1).then_some(lane.slot);
                self.append(Op::PipeWait { pipe: group.pipe, slot, phase: lane.phase }, []);
            }
        }
    }

    /// The slots that the next op reads.
    pub(super) fn read_slots(&mut self, lanes: &[Lane]) {
        for (group, lane) in self.plan.groups.iter().zip(lanes).filter(|(group, _)| group.depth > 1) {
            self.read.extend(group.copies.iter().map(|(_, buffer)| (*buffer, lane.slot)));
        }
    }

    /// Behind the last product that reads what a group fills.
    pub(super) fn leave_what_products_read(&mut self, op: OpId, lanes: &[Lane]) {
        let plan = self.plan;
        let reads = |other: OpId, group: &Group| {
            self.touched(other).iter().any(|touch| group.copies.iter().any(|(_, buffer)| touch.buffer() == *buffer))
        };
        let last = |group: &Group| plan.order.iter().copied().rfind(|other| !group.is_filled_by(*other) && reads(*other, group));
        let done = plan.groups.iter().zip(lanes).filter(|(group, _)| group.drain == Drain::Products && last(group) == Some(op));
        for (group, lane) in done.collect::<Vec<_>>() {
            self.release(group, lane.slot);
        }
    }

    /// At the end of an iteration.
    pub(super) fn leave_slots(&mut self, frame: &Frame, lower: Value, counter: Value, lanes: &[Lane]) {
        let plan = self.plan;
        for (group, lane) in plan.groups.iter().zip(lanes) {
            if group.drain == Drain::Products {
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
        for (group, place) in plan.groups.iter().zip(places.chunks(2)) {
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
