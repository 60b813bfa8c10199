//! The stages of buffers and the memory that they occupy.

use crate::FunctionAttrs;
use tileas::{Buffer, BufferInfo, Space};

/// A stage of a buffer, with its byte range, or its range of TMEM columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BufferStage {
    pub(super) buffer: Buffer,
    pub(super) number: u32,
    pub(super) space: Space,
    /// The CTA of the cluster that owns the memory.
    pub(super) rank: usize,
    start: u64,
    end: u64,
}

impl BufferStage {
    pub(super) fn of(attrs: &FunctionAttrs, buffer: Buffer, number: u32) -> BufferStage {
        let (place, info) = (attrs.placements[buffer], &attrs.program.buffers[buffer]);
        let length = BufferStage::length(info);
        let start = u64::from(place.offset) + length * u64::from(number);
        BufferStage { buffer, number, space: info.space, rank: 0, start, end: start + length }
    }
    /// The memory of all stages of a buffer.
    pub(super) fn all_stages(attrs: &FunctionAttrs, buffer: Buffer) -> BufferStage {
        let (place, first) = (attrs.placements[buffer], BufferStage::of(attrs, buffer, 0));
        BufferStage { end: first.start + BufferStage::length(&attrs.program.buffers[buffer]) * u64::from(place.depth), ..first }
    }
    /// The same stage in another CTA of the cluster.
    pub(super) fn of_cta(self, rank: usize) -> BufferStage {
        BufferStage { rank, ..self }
    }
    /// One of `of` equal parts; each CTA of a cluster copies one part.
    pub(super) fn part(self, number: usize, of: usize) -> BufferStage {
        let length = (self.end - self.start) / of as u64;
        let start = self.start + length * number as u64;
        BufferStage { start, end: start + length, ..self }
    }
    fn length(info: &BufferInfo) -> u64 {
        u64::from(match info.space {
            Space::Shared => info.bytes(),
            Space::Tensor => info.columns(),
        })
    }
    pub(super) fn overlaps(&self, other: &BufferStage) -> bool {
        (self.space, self.rank) == (other.space, other.rank) && self.start < other.end && other.start < self.end
    }
}

impl std::fmt::Display for BufferStage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stage {} of {}", self.number, self.buffer)
    }
}
