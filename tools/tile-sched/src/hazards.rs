//! Which ops of a program read or write shared memory, and where.

use sched::Op;
use tileas::Buffer;

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
    use tileas::Op as Program;
    match op {
        Op::Core(Program::SharedStore { buffer, .. } | Program::SharedScatter { buffer, .. }) => vec![Touch::Write(*buffer)],
        Op::Core(Program::CopyView { buffer, .. } | Program::Copy { buffer, .. }) => vec![Touch::Copy(*buffer)],
        Op::Core(Program::SharedLoad { buffer, .. } | Program::SharedGather { buffer, .. }) => vec![Touch::Read(*buffer)],
        Op::Core(Program::MmaShared { lhs, rhs, .. }) => vec![Touch::Read(*lhs), Touch::Read(*rhs)],
        Op::Core(Program::MmaGroup { lhs_buffer, rhs, .. }) => {
            lhs_buffer.iter().chain([rhs]).map(|buffer| Touch::Read(*buffer)).collect()
        }
        _ => Vec::new(),
    }
}
