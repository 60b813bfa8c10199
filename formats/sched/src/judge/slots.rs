//! The slots of buffers, and what memory they take.

use crate::FunctionAttrs;
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
    /// All slots of a buffer as one.
    pub(super) fn ring(attrs: &FunctionAttrs, buffer: Buffer) -> Slot {
        let (place, first) = (attrs.placements[buffer], Slot::of(attrs, buffer, 0));
        Slot { end: first.start + Slot::length(&attrs.program.buffers[buffer]) * u64::from(place.depth), ..first }
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
