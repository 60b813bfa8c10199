//! What lies in shared memory while a function is played, and who may still be at it.
//!
//! An access is followed until the next barrier of all threads: until then another warp may not have got there. A copy is under way
//! until the thread has waited for its group, a product in flight reads until it was waited for; from then on they are accesses like
//! others. So two accesses to the same bytes, of which one writes, need a barrier between them, and before it a wait for the first if
//! it is asynchronous. What products read in place was fenced, by those who wrote it, before a barrier.

use crate::FunctionAttrs;
use base::ir::Op as OpId;
use std::collections::BTreeMap;
use tileas::effects::{BufferAccess, Completes, Does, Way};
use tileas::{Buffer, BufferInfo, Space};

/// A slot of a buffer, and its bytes, or its columns of tensor memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot {
    pub(super) buffer: Buffer,
    pub(super) number: u32,
    pub(super) space: Space,
    start: u64,
    end: u64,
}

impl Slot {
    pub(super) fn of(attrs: &FunctionAttrs, buffer: Buffer, number: u32) -> Slot {
        let (place, info) = (attrs.placements[buffer], &attrs.program.buffers[buffer]);
        let length = Slot::length(info);
        let start = u64::from(place.offset) + length * u64::from(number);
        Slot { buffer, number, space: info.space, start, end: start + length }
    }
    fn length(info: &BufferInfo) -> u64 {
        u64::from(match info.space {
            Space::Shared => info.bytes(),
            Space::Tensor => info.columns(),
        })
    }
    pub(super) fn meets(&self, other: &Slot) -> bool {
        self.space == other.space && self.start < other.end && other.start < self.end
    }
}

impl std::fmt::Display for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "slot {} of {}", self.number, self.buffer)
    }
}

/// An access since the last barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Recent {
    slot: Slot,
    writes: bool,
    copied: bool,
}

/// A copy that no thread has waited for, and how many groups were ended since it was issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Copy {
    slot: Slot,
    ended: u64,
}

/// A product in flight, and how many were issued after it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Product {
    op: OpId,
    later: u64,
    reads: Vec<Slot>,
}

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Content {
    slot: Slot,
    /// The number of its copy among those to its buffer.
    copy: Option<u64>,
    /// Written since the last barrier.
    new: bool,
    fenced: bool,
}

#[derive(Clone, PartialEq)]
pub(super) struct Memory<'a> {
    attrs: &'a FunctionAttrs,
    /// Whether the program has its waits and barriers.
    synchronised: bool,
    /// Whether copies are read in their order: each iteration has its own.
    in_order: bool,
    recent: Vec<Recent>,
    copies: Vec<Copy>,
    products: Vec<Product>,
    contents: Vec<Content>,
    /// Of rings the slot that the op being played means.
    selected: BTreeMap<Buffer, u32>,
    copied: BTreeMap<Buffer, u64>,
    read: BTreeMap<Buffer, u64>,
}

type Rule = Result<(), String>;

impl<'a> Memory<'a> {
    pub(super) fn new(attrs: &'a FunctionAttrs, synchronised: bool, in_order: bool) -> Memory<'a> {
        Memory {
            attrs,
            synchronised,
            in_order,
            recent: Vec::new(),
            copies: Vec::new(),
            products: Vec::new(),
            contents: Vec::new(),
            selected: BTreeMap::new(),
            copied: BTreeMap::new(),
            read: BTreeMap::new(),
        }
    }

    /// The slot that an access means; before accesses name slots it may be any.
    fn slot(&self, buffer: Buffer) -> Slot {
        if !self.synchronised {
            return self.ring(buffer);
        }
        Slot::of(self.attrs, buffer, self.selected.get(&buffer).copied().unwrap_or(0))
    }
    /// All slots of a buffer as one.
    fn ring(&self, buffer: Buffer) -> Slot {
        let (place, info) = (self.attrs.placements[buffer], &self.attrs.program.buffers[buffer]);
        let start = u64::from(place.offset);
        Slot { buffer, number: 0, space: info.space, start, end: start + Slot::length(info) * u64::from(place.depth) }
    }

    pub(super) fn select(&mut self, buffer: Buffer, slot: Option<u64>) -> Rule {
        let slot = slot.ok_or("the slot is not computed from loop counters")?;
        let depth = self.attrs.placements[buffer].depth;
        if slot >= u64::from(depth) {
            return Err(format!("{buffer} has {depth} slots, and slot {slot} is meant"));
        }
        self.selected.insert(buffer, slot as u32);
        Ok(())
    }

    // Accesses.

    /// The accesses of one execution of an op.
    pub(super) fn accesses(&mut self, op: OpId, accesses: &[BufferAccess], completes: Completes) -> Rule {
        for access in accesses {
            self.access(*access, self.slot(access.buffer), completes)?;
        }
        if completes == Completes::WithItsProducts && self.synchronised {
            self.products.iter_mut().for_each(|product| product.later += 1);
            let reads = accesses.iter().map(|access| self.slot(access.buffer)).collect();
            self.products.push(Product { op, later: 0, reads });
        }
        Ok(())
    }

    fn access(&mut self, access: BufferAccess, slot: Slot, completes: Completes) -> Rule {
        let writes = access.does.writes();
        if self.synchronised {
            self.is_ordered(slot, writes)?;
        }
        if access.does.needs_content() {
            self.is_there(slot, access.way)?;
        }
        if completes == Completes::WithItsSlot && self.synchronised {
            return Err(format!("{slot} is of no pipe, so nothing says when its copy is there"));
        }
        if completes == Completes::WithItsCommit && self.synchronised {
            return Err("there is no pipe to which the product is committed, so nothing says when it is complete".into());
        }
        let copied = writes && access.way == Way::Copies;
        if matches!(access.does, Does::Writes | Does::Fills) {
            let count = self.copied.entry(slot.buffer).or_default();
            let copy = copied.then_some(*count);
            *count += u64::from(copied);
            self.contents.retain(|content| !content.slot.meets(&slot));
            self.contents.push(Content { slot, copy, new: true, fenced: false });
        } else if writes {
            let changed = self.contents.iter_mut().filter(|content| content.slot.meets(&slot));
            changed.for_each(|content| (content.new, content.fenced) = (true, false));
        }
        match completes {
            Completes::WithItsCopies if copied => self.copies.push(Copy { slot, ended: 0 }),
            Completes::WithItsProducts => {}
            _ => self.note(Recent { slot, writes, copied }),
        }
        Ok(())
    }

    fn note(&mut self, recent: Recent) {
        if self.synchronised && !self.recent.contains(&recent) {
            self.recent.push(recent);
        }
    }

    /// A barrier stands between this access and those that it meets, and none of them is under way.
    fn is_ordered(&self, slot: Slot, writes: bool) -> Rule {
        let done = if writes { "overwritten" } else { "read" };
        if let Some(copy) = self.copies.iter().find(|copy| copy.slot.meets(&slot)) {
            return Err(match copy.slot == slot && !writes {
                true => format!("{slot} is read before its copy was waited for"),
                false => format!("{slot} is {done} while a copy to {} is under way", copy.slot),
            });
        }
        let reads = |product: &&Product| product.reads.iter().any(|read| read.meets(&slot));
        if writes && self.products.iter().any(|product| reads(&product)) {
            return Err(format!("{slot} is overwritten while a product in flight reads it"));
        }
        let meets = |recent: &&Recent| (writes || recent.writes) && recent.slot.meets(&slot);
        let Some(recent) = self.recent.iter().find(meets) else { return Ok(()) };
        let other = if recent.slot == slot { String::new() } else { format!(" (of {})", recent.slot) };
        Err(match (recent.writes, recent.copied) {
            (true, true) => format!("{slot} is {done} before a barrier after the wait{other}"),
            (true, false) => format!("{slot} is {done} before a barrier after it was written{other}"),
            (false, _) => format!("{slot} is overwritten before a barrier after its last read{other}"),
        })
    }

    /// What is read is what was written to the slot; a buffer's copies are read in their order, those of one iteration perhaps several
    /// times.
    fn is_there(&mut self, slot: Slot, way: Way) -> Rule {
        let Some(content) = self.contents.iter().find(|content| content.slot == slot) else {
            let other = self.contents.iter().find(|content| content.slot.meets(&slot));
            return Err(match other {
                Some(other) => format!("{slot} is read, but its memory was given to {}", other.slot),
                None => format!("{slot} is read before anything is written to it"),
            });
        };
        let shared = slot.space == Space::Shared;
        let in_place = matches!(way, Way::Products | Way::Boxes);
        if in_place && shared && self.synchronised && !content.fenced {
            return Err(format!("{slot} is read in place without a fence before the barrier"));
        }
        let ring = self.in_order || self.attrs.placements[slot.buffer].depth > 1;
        if let Some(number) = content.copy.filter(|_| ring && self.synchronised) {
            let last = self.read.insert(slot.buffer, number);
            let due = last.map_or(0, |last| last + 1);
            if number != due && Some(number) != last {
                return Err(format!("{slot} holds copy {number}, and copy {due} is due"));
            }
        }
        Ok(())
    }

    // What synchronises.

    pub(super) fn barrier(&mut self) {
        self.recent.clear();
        let under_way: Vec<Slot> = self.copies.iter().map(|copy| copy.slot).collect();
        let there = self.contents.iter_mut().filter(|content| !under_way.contains(&content.slot));
        there.for_each(|content| content.new = false);
    }
    pub(super) fn fence(&mut self) {
        let under_way: Vec<Slot> = self.copies.iter().map(|copy| copy.slot).collect();
        let own = self.contents.iter_mut().filter(|content| content.new && !under_way.contains(&content.slot));
        own.for_each(|content| content.fenced = true);
    }
    pub(super) fn end_copies(&mut self) {
        self.copies.iter_mut().for_each(|copy| copy.ended += 1);
    }
    pub(super) fn wait_for_copies(&mut self, pending: u64) {
        let (done, left) = self.copies.drain(..).partition(|copy| copy.ended > pending);
        self.copies = left;
        let done: Vec<Copy> = done;
        done.into_iter().for_each(|copy| self.note(Recent { slot: copy.slot, writes: true, copied: true }));
    }
    /// Each warp waits for itself: until a barrier another one's part of the product may still read.
    pub(super) fn wait_for_products(&mut self, pending: u64) {
        let (done, left) = self.products.drain(..).partition(|product| product.later >= pending);
        self.products = left;
        let done: Vec<Product> = done;
        for slot in done.into_iter().flat_map(|product| product.reads) {
            self.note(Recent { slot, writes: false, copied: false });
        }
    }
    pub(super) fn is_in_flight(&self, op: OpId) -> bool {
        self.products.iter().any(|product| product.op == op)
    }
    /// A product that is in flight at the end.
    pub(super) fn left_in_flight(&self) -> Option<OpId> {
        self.products.first().map(|product| product.op)
    }

    // Copies that run ahead, before they do.

    /// From here on copies may fill any slot of a ring.
    pub(super) fn run_ahead(&mut self, buffer: Buffer) {
        let slot = self.ring(buffer);
        self.contents.retain(|content| !content.slot.meets(&slot));
        self.contents.push(Content { slot, copy: None, new: false, fenced: true });
    }
    /// Nothing else was written to the ring.
    pub(super) fn is_alone(&self, buffer: Buffer) -> Rule {
        let slot = self.ring(buffer);
        match self.contents.iter().any(|content| content.slot == slot) {
            true => Ok(()),
            false => Err(format!("{buffer} is filled ahead of its iteration, but its memory is used for something else meanwhile")),
        }
    }

    // Ways that meet.

    /// Either this way was taken or the other one; both started `from` the same.
    pub(super) fn merge(&mut self, other: Memory<'a>, from: &Memory<'a>) {
        for recent in other.recent {
            self.note(recent);
        }
        for copy in other.copies {
            match self.copies.iter_mut().find(|own| own.slot == copy.slot) {
                Some(own) => own.ended = own.ended.min(copy.ended),
                None => self.copies.push(copy),
            }
        }
        for product in other.products {
            match self.products.iter_mut().find(|own| own.op == product.op && own.reads == product.reads) {
                Some(own) => own.later = own.later.min(product.later),
                None => self.products.push(product),
            }
        }
        let was = |slot: &Slot| from.contents.iter().any(|content| content.slot == *slot);
        let theirs = |slot: &Slot| other.contents.iter().find(|content| content.slot == *slot);
        // What either way has overwritten is gone.
        self.contents.retain(|content| theirs(&content.slot).is_some() || !was(&content.slot));
        for content in &mut self.contents {
            if let Some(their) = theirs(&content.slot) {
                content.new |= their.new;
                content.fenced &= their.fenced;
                content.copy = content.copy.max(their.copy);
            }
        }
        let missing = |content: &&Content| !was(&content.slot) && self.contents.iter().all(|own| own.slot != content.slot);
        let added: Vec<Content> = other.contents.iter().filter(missing).copied().collect();
        self.contents.extend(added);
        for (buffer, count) in other.copied {
            let own = self.copied.entry(buffer).or_default();
            *own = count.max(*own);
        }
        for (buffer, count) in other.read {
            let own = self.read.entry(buffer).or_default();
            *own = count.max(*own);
        }
    }
}
