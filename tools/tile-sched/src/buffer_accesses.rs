//! Accesses to buffers in shared memory and TMEM, reduced to the kinds that the passes compare.

use sched::Op;
use tileas::Buffer;
use tileas::effects::{AccessKind, BufferAccess, Proxy};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Touch {
    Read(Buffer),
    Write(Buffer),
    /// An asynchronous write, which completes only when a thread waits for it.
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
    let touch = |access: BufferAccess| match (access.access_kind, access.proxy) {
        (AccessKind::Reads, _) => Touch::Read(access.buffer),
        (_, Proxy::Copies | Proxy::Tma) => Touch::Copy(access.buffer),
        (_, Proxy::Generic | Proxy::Mma) => Touch::Write(access.buffer),
    };
    op.effects().buffers.into_iter().map(touch).collect()
}
