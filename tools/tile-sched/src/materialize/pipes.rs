//! The steps of the pipes that copies by boxes fill.
//!
//! A slot is filled at the start of an iteration, for the one that is so far ahead; where copies do not run ahead, where the first of
//! its group stands. It is waited for where the first of its buffers is read, and left at the end of the iteration, or of the next
//! where a product in flight still reads it. What the steps order needs no barrier.

use super::{Frame, Lane, Map, Weaver, scalar};
use crate::boxes::Group;
use base::Value;
use base::ir::{Op as OpId, Operation};
use numerics::Scalar;
use numerics::arith::{Binary, Compare, Predicate, Signedness};
use sched::Op;
use std::collections::BTreeSet;
use tileas::Buffer;
use tileas::effects::Way;
use vocabulary::core_ops::Core;

impl Weaver<'_> {
    /// Where both sides of each pipe begin in the loop: some slots were filled before it.
    pub(super) fn lanes(&mut self) -> Vec<Lane> {
        let plan = self.plan;
        let lane = |group: &Group| {
            let [first, next] = [0, group.ahead % group.depth].map(|slot| self.number(slot));
            let [before, after] = [0, group.ahead / group.depth % 2].map(|phase| self.number(phase));
            Lane { read: [first, before], write: [next, after] }
        };
        plan.groups.iter().map(lane).collect()
    }

    /// The slot and phase that follow.
    pub(super) fn next_place(&mut self, [slot, phase]: [Value; 2], depth: u32) -> [Value; 2] {
        let number = scalar(Scalar::I32);
        let next = self.next_slot(slot, depth);
        let zero = self.number(0);
        let kind = Compare::Int { predicate: Predicate::Equal, signedness: Signedness::Unsigned };
        let around = self.core(Core::Compare { kind, lhs: next, rhs: zero }, scalar(Scalar::I1));
        let one = self.number(1);
        let other = self.binary(Binary::Xor, phase, one, &number);
        [next, self.core(Core::Select { cond: around, yes: other, no: phase }, number)]
    }

    /// Fills a slot for the iteration with that index.
    pub(super) fn fill(
        &mut self,
        frame: &Frame,
        group: &Group,
        index: Value,
        [slot, phase]: [Value; 2],
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
        let of = |group: &Group| group.copies.iter().any(|(copy, _)| *copy == op);
        let at = plan.groups.iter().position(of).expect("each copy by boxes is in a group");
        if !filled.insert(at) {
            return;
        }
        let (group, place) = (&plan.groups[at], lanes[at].write);
        if group.ahead == 0 {
            return self.fill(frame, group, counter, place, 0, map);
        }
        let distance = frame.distances[&group.ahead];
        let exists = self.more_than(frame, distance, counter);
        self.guarded(exists, |weaver| {
            let index = weaver.add(counter, distance, &frame.index.clone());
            weaver.fill(frame, group, index, place, group.ahead as i32, map);
        });
    }

    /// Waits for the slots of the buffers that an op reads, once in an iteration.
    pub(super) fn take_slots(&mut self, read: &[Buffer], lanes: &[Lane], taken: &mut BTreeSet<usize>) {
        let plan = self.plan;
        for (at, (group, lane)) in plan.groups.iter().zip(lanes).enumerate() {
            if group.copies.iter().any(|(_, buffer)| read.contains(buffer)) && taken.insert(at) {
                let [slot, phase] = lane.read;
                self.append(Op::PipeWait { pipe: group.pipe, slot: (group.depth > 1).then_some(slot), phase }, []);
            }
        }
    }

    /// The slots that the next op reads.
    pub(super) fn read_slots(&mut self, lanes: &[Lane]) {
        for (group, lane) in self.plan.groups.iter().zip(lanes).filter(|(group, _)| group.depth > 1) {
            self.read.extend(group.copies.iter().map(|(_, buffer)| (*buffer, lane.read[0])));
        }
    }

    /// At the end of an iteration.
    pub(super) fn leave_slots(&mut self, frame: &Frame, lower: Value, counter: Value, lanes: &[Lane]) {
        let plan = self.plan;
        for (group, lane) in plan.groups.iter().zip(lanes) {
            if !self.is_in_flight(group) {
                self.release(group, lane.read[0]);
                continue;
            }
            let later = self.less(frame, lower, counter);
            self.guarded(later, |weaver| {
                let before = weaver.slot_before(lane.read[0], group.depth);
                weaver.release(group, before);
            });
        }
    }

    /// Behind the loop, what its last products have read; `places` are those that its end leaves.
    pub(super) fn release_last(&mut self, frame: &Frame, lower: Value, places: &[Value]) {
        let plan = self.plan;
        for (group, place) in plan.groups.iter().zip(places.chunks(4)) {
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
