//! The stages of buffers and the memory that they occupy.

use crate::FunctionAttrs;
use tileas::{Buffer, BufferInfo, Space};

/// A stage of a buffer, with its byte range, or its range of TMEM columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BufferStage {
    pub(super) buffer: Buffer,
    pub(super) stage_number: u32,
    pub(super) space: Space,
    /// The rank in the cluster of the CTA that owns the memory.
    pub(super) rank: usize,
    /// The start of the range, in bytes of shared memory or in TMEM columns.
    start: u64,
    /// The end of the range, excluded.
    end: u64,
}

impl BufferStage {
    /// A stage of a buffer in the CTA with rank 0.
    pub(super) fn new(attrs: &FunctionAttrs, buffer: Buffer, stage_number: u32) -> BufferStage {
        let (place, info) = (attrs.placements[buffer], &attrs.program.buffers[buffer]);
        let length = BufferStage::stage_length(info);
        let start = u64::from(place.offset) + length * u64::from(stage_number);
        BufferStage { buffer, stage_number, space: info.space, rank: 0, start, end: start + length }
    }
    /// The memory of all stages of a buffer as one range, in the CTA with rank 0.
    pub(super) fn all_stages(attrs: &FunctionAttrs, buffer: Buffer) -> BufferStage {
        let (place, first) = (attrs.placements[buffer], BufferStage::new(attrs, buffer, 0));
        BufferStage {
            end: first.start + BufferStage::stage_length(&attrs.program.buffers[buffer]) * u64::from(place.depth),
            ..first
        }
    }
    /// The same stage in another CTA of the cluster.
    pub(super) fn in_cta(self, rank: usize) -> BufferStage {
        BufferStage { rank, ..self }
    }
    /// One of `parts` equal parts of the stage; with TMA multicast, each CTA of a cluster copies one part.
    pub(super) fn part(self, part: usize, parts: usize) -> BufferStage {
        let part_length = (self.end - self.start) / parts as u64;
        let start = self.start + part_length * part as u64;
        BufferStage { start, end: start + part_length, ..self }
    }
    /// The size of a stage, in bytes of shared memory or in TMEM columns.
    fn stage_length(info: &BufferInfo) -> u64 {
        u64::from(match info.space {
            Space::Shared => info.bytes(),
            Space::Tensor => info.columns(),
        })
    }
    /// Whether two stages have common memory.
    pub(super) fn overlaps(&self, other: &BufferStage) -> bool {
        (self.space, self.rank) == (other.space, other.rank) && self.start < other.end && other.start < self.end
    }
}

impl std::fmt::Display for BufferStage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stage {} of {}", self.stage_number, self.buffer)
    }
}
