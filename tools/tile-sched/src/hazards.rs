//! Accesses to shared memory as the passes compare them.

use sched::Op;
use tileas::Buffer;
use tileas::effects::{BufferAccess, Does, Way};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Touch {
    Read(Buffer),
    Write(Buffer),
    /// A write that is only done when it was waited for.
    Copy(Buffer),
}

impl Touch {
    pub(crate) fn buffer(self) -> Buffer {
        match self {
            Touch::Read(buffer) | Touch::Write(buffer) | Touch::Copy(buffer) => buffer,
        }
    }
    /// Whether the order of two accesses to overlapping memory matters.
    pub(crate) fn conflicts(self, other: Touch) -> bool {
        !matches!((self, other), (Touch::Read(_), Touch::Read(_)))
    }
}

pub(crate) fn touches(op: &Op) -> Vec<Touch> {
    let touch = |access: BufferAccess| match (access.does, access.way) {
        (Does::Reads, _) => Touch::Read(access.buffer),
        (_, Way::Copies | Way::Boxes) => Touch::Copy(access.buffer),
        (_, Way::Threads | Way::Products) => Touch::Write(access.buffer),
    };
    op.effects().buffers.into_iter().map(touch).collect()
}
