//! Accesses to buffers in shared memory and TMEM, reduced to the kinds that the passes compare.

use sched::Op;
use tileas::Buffer;
use tileas::effects::{AccessKind, BufferAccess, Proxy};

/// A buffer access, reduced to a read, a synchronous write or an asynchronous copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SchedulingAccess {
    Read(Buffer),
    Write(Buffer),
    /// An asynchronous write, which completes only when a thread waits for it.
    Copy(Buffer),
}

impl SchedulingAccess {
    pub(crate) fn buffer(self) -> Buffer {
        match self {
            SchedulingAccess::Read(buffer) | SchedulingAccess::Write(buffer) | SchedulingAccess::Copy(buffer) => buffer,
        }
    }
    /// Returns whether two accesses to overlapping memory must stay in order: at least one writes.
    pub(crate) fn conflicts(self, other: SchedulingAccess) -> bool {
        !matches!((self, other), (SchedulingAccess::Read(_), SchedulingAccess::Read(_)))
    }
}

/// The buffer accesses of an op, without those of its regions.
pub(crate) fn buffer_accesses(op: &Op) -> Vec<SchedulingAccess> {
    let to_scheduling_access = |access: BufferAccess| match (access.access_kind, access.proxy) {
        (AccessKind::Reads, _) => SchedulingAccess::Read(access.buffer),
        (_, Proxy::Copies | Proxy::Tma) => SchedulingAccess::Copy(access.buffer),
        (_, Proxy::Generic | Proxy::Mma) => SchedulingAccess::Write(access.buffer),
    };
    op.effects().buffers.into_iter().map(to_scheduling_access).collect()
}
