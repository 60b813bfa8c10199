//! The slots of buffers, and what memory they take.

use crate::FunctionAttrs;
use tileas::{Buffer, BufferInfo, Space};

/// A slot of a buffer, and its bytes, or its columns of tensor memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot {
    pub(super) buffer: Buffer,
    pub(super) number: u32,
    pub(super) space: Space,
    /// The block of a cluster whose memory it is.
    pub(super) rank: usize,
    start: u64,
    end: u64,
}

impl Slot {
    pub(super) fn of(attrs: &FunctionAttrs, buffer: Buffer, number: u32) -> Slot {
        let (place, info) = (attrs.placements[buffer], &attrs.program.buffers[buffer]);
        let length = Slot::length(info);
        let start = u64::from(place.offset) + length * u64::from(number);
        Slot { buffer, number, space: info.space, rank: 0, start, end: start + length }
    }
    /// All slots of a buffer as one.
    pub(super) fn ring(attrs: &FunctionAttrs, buffer: Buffer) -> Slot {
        let (place, first) = (attrs.placements[buffer], Slot::of(attrs, buffer, 0));
        Slot { end: first.start + Slot::length(&attrs.program.buffers[buffer]) * u64::from(place.depth), ..first }
    }
    /// The same one of another block of the cluster.
    pub(super) fn of_block(self, rank: usize) -> Slot {
        Slot { rank, ..self }
    }
    /// One of so many parts, of which each block of a cluster brings one.
    pub(super) fn part(self, number: usize, of: usize) -> Slot {
        let length = (self.end - self.start) / of as u64;
        let start = self.start + length * number as u64;
        Slot { start, end: start + length, ..self }
    }
    fn length(info: &BufferInfo) -> u64 {
        u64::from(match info.space {
            Space::Shared => info.bytes(),
            Space::Tensor => info.columns(),
        })
    }
    pub(super) fn meets(&self, other: &Slot) -> bool {
        (self.space, self.rank) == (other.space, other.rank) && self.start < other.end && other.start < self.end
    }
}

impl std::fmt::Display for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "slot {} of {}", self.number, self.buffer)
    }
}
