//! Accesses to buffers in shared memory and TMEM, reduced to the kinds that the passes compare.

use sched::Op;
use tileas::Buffer;
use tileas::effects::{AccessKind, BufferAccess, Proxy};

/// An access to a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BufferTouch {
    Read(Buffer),
    Write(Buffer),
    /// An asynchronous write, which completes only when a thread waits for it.
    Copy(Buffer),
}

impl BufferTouch {
    pub(crate) fn buffer(self) -> Buffer {
        match self {
            BufferTouch::Read(buffer) | BufferTouch::Write(buffer) | BufferTouch::Copy(buffer) => buffer,
        }
    }
    /// Returns whether two accesses to overlapping memory must stay in order: at least one writes.
    pub(crate) fn conflicts(self, other: BufferTouch) -> bool {
        !matches!((self, other), (BufferTouch::Read(_), BufferTouch::Read(_)))
    }
}

/// The buffer accesses of an op, without those of its regions.
pub(crate) fn touches(op: &Op) -> Vec<BufferTouch> {
    let touch = |access: BufferAccess| match (access.access_kind, access.proxy) {
        (AccessKind::Reads, _) => BufferTouch::Read(access.buffer),
        (_, Proxy::Copies | Proxy::Tma) => BufferTouch::Copy(access.buffer),
        (_, Proxy::Generic | Proxy::Mma) => BufferTouch::Write(access.buffer),
    };
    op.effects().buffers.into_iter().map(touch).collect()
}
