//! Which ops of a program read or write shared memory, and where.

use sched::Op;
use tileas::Buffer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    Read(Buffer),
    Write(Buffer),
}

impl Touch {
    pub(crate) fn buffer(self) -> Buffer {
        match self {
            Touch::Read(buffer) | Touch::Write(buffer) => buffer,
        }
    }
    /// Whether the order of two accesses to overlapping memory matters.
    pub(crate) fn conflicts(self, other: Touch) -> bool {
        matches!(self, Touch::Write(_)) || matches!(other, Touch::Write(_))
    }
}

pub(crate) fn touch(op: &Op) -> Option<Touch> {
    match op {
        Op::Core(tileas::Op::SharedStore { buffer, .. } | tileas::Op::SharedScatter { buffer, .. }) => Some(Touch::Write(*buffer)),
        Op::Core(tileas::Op::SharedLoad { buffer, .. } | tileas::Op::SharedGather { buffer, .. }) => Some(Touch::Read(*buffer)),
        _ => None,
    }
}
