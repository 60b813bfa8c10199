//! The effects of `.as` and `.sched` ops besides the computation of results from operands. In both `base::ops!` tables, the effects
//! of an op are the last column, after `=`.
//!
//! The column states the memory accesses, completion and synchronisation of the op. The scheduler, the verifiers, the hazard
//! checker and the executors read it. The compiler rejects an op without the column.

use crate::Buffer;
use base::Value;
use core_dialect::core_ops::Effect;
use core_dialect::memory::{MemoryOrdering, Order};

/// The effects of one op, without the effects of ops in its regions.
#[derive(Clone, Debug, Default)]
pub struct Effects<'a> {
    /// Accesses to buffers of the function's table.
    pub buffers: Vec<BufferAccess>,
    /// The access to memory outside the function's buffers.
    pub global: Option<GlobalAccess<'a>>,
    /// The synchronisation that the op performs, if any.
    pub synchronises: Option<Synchronises>,
    /// When the op's asynchronous accesses are complete.
    pub completes: Completes,
    /// The effect of a core op; [`Effect::Nothing`] for other ops.
    pub core_effect: Effect,
}

/// An access to a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferAccess {
    pub buffer: Buffer,
    /// The scalar that holds the stage number; `None` for a buffer with one stage.
    pub stage: Option<Value>,
    pub access_kind: AccessKind,
    /// The proxy through which the op accesses memory.
    pub proxy: Proxy,
}

/// The kind of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessKind {
    /// Reads the accessed memory.
    Reads,
    /// Writes all of the accessed memory.
    Writes,
    /// Writes part of the accessed memory, regardless of the old content.
    Fills,
    /// Writes part of the accessed memory, or writes values that depend on the old content.
    Changes,
    /// If the scalar is true, writes all of the accessed memory. If it is false, changes the memory, depending on the old content.
    WritesIf(Value),
}

/// The proxy through which an access reaches shared or tensor memory. If the hardware does not order two proxies, a fence must
/// separate a write through one proxy from an access through the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Proxy {
    /// Loads and stores of threads.
    Generic,
    /// `cp.async`.
    Copies,
    /// MMAs with operands in shared memory, or with accumulators or operands in tensor memory.
    Mma,
    /// TMA copies.
    Tma,
}

/// The point at which an op is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Completes {
    /// Before the next op of the thread.
    #[default]
    AtOnce,
    /// When a thread has waited for the copy group of the op. In a program without waits (`.as`, and `.sched` before its last
    /// phase), as [`Self::AtOnce`].
    WithItsCopies,
    /// When a wait for the op's MMA group has completed.
    WithMmaGroup,
    /// When a wait for the pipeline stage to which the warp role committed the op has completed. In a program without waits, as
    /// [`Self::AtOnce`].
    WithItsCommit,
    /// When a wait for the pipeline stage that the op fills has completed. In a program without waits, as [`Self::AtOnce`].
    WithItsStage,
}

/// The synchronisation that an op performs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchronises {
    /// The threads wait for each other.
    Barrier,
    /// Ends a group of `cp.async` copies. Threads can then wait for the group.
    EndsCopies,
    /// The threads wait for groups of `cp.async` copies.
    WaitsForCopies,
    /// The threads wait for MMAs in flight.
    WaitsForMmas,
    /// Makes earlier writes of the thread visible to other proxies.
    Fence,
    /// The producer waits until a pipeline stage is empty.
    Acquires,
    /// The producer signals that a pipeline stage is full.
    Commits,
    /// A consumer waits until a pipeline stage is full.
    WaitsForStage,
    /// A consumer signals that a pipeline stage is empty.
    Releases,
}

/// An access to global memory, or through pointers to memory of the CTA.
#[derive(Clone, Copy, Debug)]
pub struct GlobalAccess<'a> {
    pub access_kind: AccessKind,
    /// The view that the op accesses, or the tile of pointers through which it accesses memory.
    pub base: Value,
    /// The index of the tile in the view; empty for pointers.
    pub index: &'a [Value],
    pub moved_tile: MovedTile,
    /// The token that orders the access after earlier accesses.
    pub token: Option<Value>,
    /// The memory ordering and scope of the access.
    pub order: Order,
    /// Whether a single thread accesses each element for all threads that hold it, as for atomics and ordered accesses. Reason:
    /// other CTAs or devices may change the element between two reads.
    pub one_thread_per_element: bool,
}

/// The tile that a global access moves. Its layout determines which thread accesses which element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MovedTile {
    /// The op's first result.
    Result,
    /// An operand of the op.
    Operand(Value),
    /// No tile in registers: the access moves data to or from a buffer.
    Buffer,
}

impl AccessKind {
    pub fn writes(self) -> bool {
        self != AccessKind::Reads
    }
    /// Returns whether the access may depend on the content of the memory before the access.
    pub fn needs_content(self) -> bool {
        !matches!(self, AccessKind::Writes | AccessKind::Fills)
    }
}

impl Effects<'_> {
    /// Returns whether a pass can move or repeat the op freely, and remove it if nothing uses its results.
    pub fn is_pure(&self) -> bool {
        self.buffers.is_empty() && self.global.is_none() && self.synchronises.is_none() && self.core_effect == Effect::Nothing
    }

    /// Returns whether a single thread computes each element of the first result for all threads that hold it (the single-thread
    /// rule AS014). Within a warp that thread broadcasts the element; other warps load it from a buffer.
    pub fn is_computed_by_one_thread(&self) -> bool {
        self.global.is_some_and(|access| access.one_thread_per_element) || self.core_effect == Effect::Allocates
    }

    /// The buffer that the op fills by TMA; `None` if it fills none.
    pub fn filled_by_tma(&self) -> Option<Buffer> {
        let fills = |access: &&BufferAccess| access.proxy == Proxy::Tma && access.access_kind.writes();
        self.buffers.iter().find(fills).map(|access| access.buffer)
    }

    /// The buffer that the op fills by an asynchronous copy (`cp.async` or TMA); `None` if it fills none.
    pub fn copied_to(&self) -> Option<Buffer> {
        let copied = |access: &&BufferAccess| matches!(access.proxy, Proxy::Copies | Proxy::Tma) && access.access_kind.writes();
        self.buffers.iter().find(copied).map(|access| access.buffer)
    }
}

impl From<Effect> for Effects<'_> {
    fn from(core_effect: Effect) -> Self {
        Effects { core_effect, ..Effects::default() }
    }
}

/// Constructors for the effects column of the op tables.
pub mod constructors {
    use super::*;

    /// An access of any kind to a buffer.
    pub fn accesses<'a>(buffer: &Buffer, stage: &Option<Value>, access_kind: AccessKind, proxy: Proxy) -> Effects<'a> {
        buffer_effects(*buffer, *stage, access_kind, proxy)
    }
    /// No effect besides the computation of results from operands.
    pub fn computes<'a>() -> Effects<'a> {
        Effects::default()
    }
    pub fn reads<'a>(buffer: &Buffer, stage: &Option<Value>, proxy: Proxy) -> Effects<'a> {
        buffer_effects(*buffer, *stage, AccessKind::Reads, proxy)
    }
    pub fn writes<'a>(buffer: &Buffer, stage: &Option<Value>, proxy: Proxy) -> Effects<'a> {
        buffer_effects(*buffer, *stage, AccessKind::Writes, proxy)
    }
    pub fn fills<'a>(buffer: &Buffer, stage: &Option<Value>, proxy: Proxy) -> Effects<'a> {
        buffer_effects(*buffer, *stage, AccessKind::Fills, proxy)
    }
    pub fn changes<'a>(buffer: &Buffer, stage: &Option<Value>, proxy: Proxy) -> Effects<'a> {
        buffer_effects(*buffer, *stage, AccessKind::Changes, proxy)
    }
    pub fn synchronises<'a>(synchronises: Synchronises) -> Effects<'a> {
        Effects { synchronises: Some(synchronises), ..Effects::default() }
    }

    /// An access to a tile of a view.
    pub fn accesses_view<'a>(
        access_kind: AccessKind,
        view: &Value,
        index: &'a [Value],
        moved_tile: MovedTile,
        token: &Option<Value>,
        order: &Order,
    ) -> Effects<'a> {
        global_effects(GlobalAccess {
            access_kind,
            base: *view,
            index,
            moved_tile,
            token: *token,
            order: *order,
            one_thread_per_element: needs_one_thread_per_element(access_kind, order),
        })
    }
    /// An access through pointers.
    pub fn accesses_pointers<'a>(
        access_kind: AccessKind,
        ptr: &Value,
        moved_tile: MovedTile,
        token: &Option<Value>,
        order: &Order,
    ) -> Effects<'a> {
        global_effects(GlobalAccess {
            access_kind,
            base: *ptr,
            index: &[],
            moved_tile,
            token: *token,
            order: *order,
            one_thread_per_element: needs_one_thread_per_element(access_kind, order),
        })
    }

    impl<'a> Effects<'a> {
        /// Adds the memory accesses of `other`. All other fields remain those of `self`.
        pub(crate) fn with_accesses_of(mut self, other: Effects<'a>) -> Effects<'a> {
            self.buffers.extend(other.buffers);
            self.global = self.global.or(other.global);
            self
        }
        /// The same effects, but a single thread accesses each element in global memory.
        pub(crate) fn with_one_thread_per_element(mut self) -> Effects<'a> {
            self.global.iter_mut().for_each(|access| access.one_thread_per_element = true);
            self
        }
        /// The same effects, with another point of completion.
        pub(crate) fn with_completion(self, completes: Completes) -> Effects<'a> {
            Effects { completes, ..self }
        }
    }

    /// Returns whether a single thread accesses each element. See [`GlobalAccess::one_thread_per_element`].
    fn needs_one_thread_per_element(access_kind: AccessKind, order: &Order) -> bool {
        access_kind == AccessKind::Changes || order.semantics != MemoryOrdering::Weak
    }
    fn buffer_effects<'a>(buffer: Buffer, stage: Option<Value>, access_kind: AccessKind, proxy: Proxy) -> Effects<'a> {
        Effects { buffers: vec![BufferAccess { buffer, stage, access_kind, proxy }], ..Effects::default() }
    }
    fn global_effects(access: GlobalAccess<'_>) -> Effects<'_> {
        Effects { global: Some(access), ..Effects::default() }
    }
}
