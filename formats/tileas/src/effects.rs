//! What ops of `.as` and `.sched` do besides computing results from operands: the last column of both op tables.
//!
//! Everything that asks which memory an op touches, when it is done or what it makes others wait for asks here: hazards, the order
//! of global accesses, purity, the verifiers, the checker, the executors. An op without the column does not compile.

use crate::Buffer;
use base::Value;
use core_dialect::core_ops::Effect;
use core_dialect::memory::{MemoryOrdering, Order};

/// The effects of one op, without those of the ops in its regions.
#[derive(Clone, Debug, Default)]
pub struct Effects<'a> {
    /// Accesses to buffers of the function's table.
    pub buffers: Vec<BufferAccess>,
    /// The access to memory that is not the block's own.
    pub global: Option<GlobalAccess<'a>>,
    pub synchronises: Option<Synchronises>,
    pub completes: Completes,
    /// What shared ops do.
    pub other: Effect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferAccess {
    pub buffer: Buffer,
    /// Of a staged_buffer; a buffer with one stage has no number for it.
    pub stage: Option<Value>,
    pub access_kind: AccessKind,
    pub proxy: Proxy,
}

/// What an access does with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessKind {
    Reads,
    /// Writes all of it.
    Writes,
    /// Writes part of it; what was there does not matter.
    Fills,
    /// Writes part of it, or what depends on what was there.
    Changes,
    /// Writes all of it where the scalar is true, and otherwise changes it.
    WritesIf(Value),
}

/// By which proxy an access reaches shared memory. A fence stands between a write by one proxy and an access by another where the
/// hardware does not order them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Proxy {
    /// Loads and stores of threads.
    Generic,
    /// `cp.async`.
    Copies,
    /// Mma that take operands from shared memory, or have accumulators or operands in tensor memory.
    Mma,
    /// The copy engine, which copies tma_tiles.
    Tma,
}

/// When an op is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Completes {
    /// Before the next op of the thread.
    #[default]
    AtOnce,
    /// In a program that has waits (`.sched` from phase materialize on) when its group of copies was waited for; in one that has
    /// none, at once.
    WithItsCopies,
    /// When its group of mmas was waited for.
    WithMmaGroup,
    /// In a program that has waits, when a stage of a pipe was waited for to which its agent committed its mmas; in one that has
    /// none, at once.
    WithItsCommit,
    /// In a program that has waits, when the stage of a pipe that it fills was waited for; in one that has none, at once.
    WithItsStage,
}

/// What an op makes its thread, or others, wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchronises {
    /// Threads for each other.
    Barrier,
    /// Ends a group of copies, for which a wait can be.
    EndsCopies,
    WaitsForCopies,
    WaitsForMmas,
    /// Makes what threads wrote visible by other ways.
    Fence,
    /// The steps of a pipe: until a stage is free, that it is filled, until it is filled, that it is free.
    Acquires,
    Commits,
    WaitsForStage,
    Releases,
}

/// An access to global memory, or to the block's own behind pointers.
#[derive(Clone, Copy, Debug)]
pub struct GlobalAccess<'a> {
    pub access_kind: AccessKind,
    /// A view, or pointers.
    pub base: Value,
    /// Of the tile of a view.
    pub index: &'a [Value],
    pub moved: Moved,
    pub token: Option<Value>,
    pub order: Order,
    /// Whether one thread alone reads each element, for all that hold it: others may change it meanwhile.
    pub once: bool,
}

/// What a global access moves, whose layout says which thread accesses what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// The op's first result.
    Result,
    Operand(Value),
    /// Nothing that is in registers.
    Buffer,
}

impl AccessKind {
    pub fn writes(self) -> bool {
        self != AccessKind::Reads
    }
    /// Whether what was there before matters, or may.
    pub fn needs_content(self) -> bool {
        !matches!(self, AccessKind::Writes | AccessKind::Fills)
    }
}

impl Effects<'_> {
    /// Whether the op can be dropped when nothing uses its results, and be repeated or moved freely.
    pub fn is_pure(&self) -> bool {
        self.buffers.is_empty() && self.global.is_none() && self.synchronises.is_none() && self.other == Effect::Nothing
    }

    /// Whether one thread alone finds out what each element of the first result is, for all that hold it. Within a warp it tells the
    /// others; to other warps it goes through a buffer.
    pub fn is_found_once(&self) -> bool {
        self.global.is_some_and(|access| access.once) || self.other == Effect::Allocates
    }

    /// The buffer that tma_tiles fill.
    pub fn filled_by_tma(&self) -> Option<Buffer> {
        let fills = |access: &&BufferAccess| access.proxy == Proxy::Tma && access.access_kind.writes();
        self.buffers.iter().find(fills).map(|access| access.buffer)
    }

    /// The buffer that an asynchronous copy fills.
    pub fn copied_to(&self) -> Option<Buffer> {
        let copied = |access: &&BufferAccess| matches!(access.proxy, Proxy::Copies | Proxy::Tma) && access.access_kind.writes();
        self.buffers.iter().find(copied).map(|access| access.buffer)
    }
}

impl From<Effect> for Effects<'_> {
    fn from(other: Effect) -> Self {
        Effects { other, ..Effects::default() }
    }
}

/// The words of which the column is made.
pub mod words {
    use super::*;

    pub fn touches<'a>(buffer: &Buffer, stage: &Option<Value>, access_kind: AccessKind, proxy: Proxy) -> Effects<'a> {
        access(*buffer, *stage, access_kind, proxy)
    }
    /// Results from operands, and nothing else.
    pub fn computes<'a>() -> Effects<'a> {
        Effects::default()
    }
    pub fn reads<'a>(buffer: &Buffer, stage: &Option<Value>, proxy: Proxy) -> Effects<'a> {
        access(*buffer, *stage, AccessKind::Reads, proxy)
    }
    pub fn writes<'a>(buffer: &Buffer, stage: &Option<Value>, proxy: Proxy) -> Effects<'a> {
        access(*buffer, *stage, AccessKind::Writes, proxy)
    }
    pub fn fills<'a>(buffer: &Buffer, stage: &Option<Value>, proxy: Proxy) -> Effects<'a> {
        access(*buffer, *stage, AccessKind::Fills, proxy)
    }
    pub fn changes<'a>(buffer: &Buffer, stage: &Option<Value>, proxy: Proxy) -> Effects<'a> {
        access(*buffer, *stage, AccessKind::Changes, proxy)
    }
    pub fn synchronises<'a>(synchronises: Synchronises) -> Effects<'a> {
        Effects { synchronises: Some(synchronises), ..Effects::default() }
    }

    /// An access to a tile of a view.
    pub fn at_view<'a>(
        access_kind: AccessKind,
        view: &Value,
        index: &'a [Value],
        moved: Moved,
        token: &Option<Value>,
        order: &Order,
    ) -> Effects<'a> {
        global(GlobalAccess {
            access_kind,
            base: *view,
            index,
            moved,
            token: *token,
            order: *order,
            once: is_once(access_kind, order),
        })
    }
    /// An access through pointers.
    pub fn at_pointers<'a>(
        access_kind: AccessKind,
        ptr: &Value,
        moved: Moved,
        token: &Option<Value>,
        order: &Order,
    ) -> Effects<'a> {
        global(GlobalAccess {
            access_kind,
            base: *ptr,
            index: &[],
            moved,
            token: *token,
            order: *order,
            once: is_once(access_kind, order),
        })
    }

    impl<'a> Effects<'a> {
        /// Both effects.
        pub(crate) fn and(mut self, other: Effects<'a>) -> Effects<'a> {
            self.buffers.extend(other.buffers);
            self.global = self.global.or(other.global);
            self
        }
        pub(crate) fn once(mut self) -> Effects<'a> {
            self.global.iter_mut().for_each(|access| access.once = true);
            self
        }
        pub(crate) fn done(self, completes: Completes) -> Effects<'a> {
            Effects { completes, ..self }
        }
    }

    fn is_once(access_kind: AccessKind, order: &Order) -> bool {
        access_kind == AccessKind::Changes || order.semantics != MemoryOrdering::Weak
    }
    fn access<'a>(buffer: Buffer, stage: Option<Value>, access_kind: AccessKind, proxy: Proxy) -> Effects<'a> {
        Effects { buffers: vec![BufferAccess { buffer, stage, access_kind, proxy }], ..Effects::default() }
    }
    fn global(access: GlobalAccess<'_>) -> Effects<'_> {
        Effects { global: Some(access), ..Effects::default() }
    }
}
