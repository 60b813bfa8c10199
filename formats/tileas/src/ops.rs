//! The ops of `.as`: the shared ones, and those that name how data moves between threads and memory.

use crate::atoms::MmaAtom;
use crate::atoms::tensor_memory::LaneMove;
use crate::effects::words::{at_pointers, at_view, changes, computes, fills, reads, touches, writes};
use crate::effects::{AccessKind, Completes, Effects, Moved, Proxy};
use crate::layout::LayoutId;
use base::ir::Dense;
use base::ops::Field;
use base::{Region, Value};
use core_dialect::core_ops::Core;
pub use core_dialect::memory::Order;
use core_dialect::memory::{AtomicMode, MulticastReduction, MulticastWrite};
use core_dialect::rules::MiddleOp;
use serde::{Deserialize, Serialize};

base::entity! {
    /// A buffer of the function's table, in shared or tensor memory.
    pub struct Buffer = "buffer";
}
base::entity! {
    /// A tensor map of the function's table.
    pub struct MapId = "map";
}

/// The instruction that moves a piece of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyAtom {
    /// `ld`/`st` of `1 << vector_bits` neighbouring elements, which are the lowest register bits.
    Vector { vector_bits: u32 },
    /// `ldmatrix` or `stmatrix`: eight lanes give the addresses of the eight rows of each 16-byte-wide matrix; `trans` swaps rows and columns
    /// of its 16-bit elements.
    Matrix { trans: bool },
    /// `cp.async` of as many bytes, from global to shared memory.
    Async { bytes: u32 },
    /// `ldmatrix` of bytes: sixteen lanes give the addresses of the sixteen rows of each 16-byte-wide matrix, whose rows and columns
    /// are swapped.
    ByteMatrix,
}

/// Where a mma finds an operand, or its accumulators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MmaOperand {
    /// In the layout that the atom asks for.
    Registers(Value),
    /// In a buffer as it is, which holds it transposed where that is said.
    Memory {
        buffer: Buffer,
        #[serde(default)]
        stage: Option<Value>,
        #[serde(default)]
        transposed: bool,
    },
}

impl MmaOperand {
    pub fn buffer(&self) -> Option<Buffer> {
        match self {
            MmaOperand::Registers(_) => None,
            MmaOperand::Memory { buffer, .. } => Some(*buffer),
        }
    }
    pub fn registers(&self) -> Option<Value> {
        match self {
            MmaOperand::Registers(value) => Some(*value),
            MmaOperand::Memory { .. } => None,
        }
    }
    fn effects<'a>(&self, proxy: Proxy) -> Effects<'a> {
        self.touched(AccessKind::Reads, proxy)
    }
    fn touched<'a>(&self, access_kind: AccessKind, proxy: Proxy) -> Effects<'a> {
        match self {
            MmaOperand::Registers(_) => computes(),
            MmaOperand::Memory { buffer, stage, .. } => touches(buffer, stage, access_kind, proxy),
        }
    }
}

impl Field for MmaOperand {
    fn values(&self, f: &mut dyn FnMut(Value)) {
        match self {
            MmaOperand::Registers(value) => f(*value),
            MmaOperand::Memory { stage, .. } => stage.values(f),
        }
    }
    fn values_mut(&mut self, f: &mut dyn FnMut(&mut Value)) {
        match self {
            MmaOperand::Registers(value) => f(value),
            MmaOperand::Memory { stage, .. } => stage.values_mut(f),
        }
    }
}

/// By which proxy mmas with this atom read buffers.
fn proxy(atom: &MmaAtom) -> Proxy {
    match atom {
        MmaAtom::Group(_) | MmaAtom::Tensor(_) => Proxy::Mma,
        MmaAtom::Sync(_) | MmaAtom::MultiplyAdd(_) => Proxy::Generic,
    }
}

/// What happens to accumulators in memory.
fn accumulator_access(zero_init: &Option<Value>) -> AccessKind {
    zero_init.map_or(AccessKind::Changes, AccessKind::WritesIf)
}

/// When a mma with this atom is done.
fn completes(atom: &MmaAtom, in_flight: bool) -> Completes {
    match atom {
        MmaAtom::Tensor(_) => Completes::WithItsCommit,
        _ if in_flight => Completes::WithMmaGroup,
        _ => Completes::AtOnce,
    }
}

/// The effects of operands that need not be there.
fn of_scales<'a>(scales: &Option<MmaOperand>, proxy: Proxy) -> Effects<'a> {
    scales.map_or(computes(), |place| place.effects(proxy))
}

/// The highest hint about latency.
pub const MAX_LATENCY: u32 = 10;

/// How a value gets from one register layout to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// Registers change names; nothing moves between threads.
    Registers,
    /// Lanes of a warp exchange registers.
    Shuffle,
}

base::plain_fields! { Buffer, MapId, CopyAtom, MmaAtom, LaneMove, Route, LayoutId }

base::ops! {
    /// An op of `.as`.
    pub enum Op includes Core, with Effects<'_> {
        /// The coordinate of each element along `dim`.
        Coordinate "coordinate" { dim: u32 }
            = computes(),
        /// The same elements in the result's layout.
        ConvertLayout "convert_layout" { x: Value, route: Route }
            = computes(),

        /// As in `.aa`, by an atom. In `.sched`, `versioned` says that the access is there twice: with a check of each piece, and without
        /// any for a tile that lies inside. Results: tile, token.
        LoadView "load_view" { view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, atom: CopyAtom, versioned: bool }
            = at_view(AccessKind::Reads, view, index, Moved::Result, token, order),
        StoreView "store_view" { tile: Value, view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, atom: CopyAtom, versioned: bool }
            = at_view(AccessKind::Writes, view, index, Moved::Operand(*tile), token, order),
        /// Copies a tile of a view straight into a buffer: each thread the elements that `layout` gives it, in pieces of the atom's
        /// bytes, which are its lowest registers. Elements outside become zero; `whole` promises that no bound cuts a piece.
        /// `latency` is what its author says of how long memory takes, from 1 to 10.
        /// Complete when executed. Result: token.
        CopyView "copy_view" { view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, whole: bool, buffer: Buffer, stage: Option<Value>, layout: LayoutId, latency: Option<u32>, atom: CopyAtom, versioned: bool }
            = at_view(AccessKind::Reads, view, index, Moved::Buffer, token, order).and(writes(buffer, stage, Proxy::Copies)).done(Completes::WithItsCopies),
        /// The same through pointers, in whose layout the threads copy. Where the mask is false zeros are written.
        Copy "copy" { ptr: Value, mask: Option<Value>, token: Option<Value>, order: Order, buffer: Buffer, stage: Option<Value>, latency: Option<u32>, atom: CopyAtom }
            = at_pointers(AccessKind::Reads, ptr, Moved::Buffer, token, order).and(writes(buffer, stage, Proxy::Copies)).done(Completes::WithItsCopies),
        /// Copies a tile of a view to a buffer by tma_tiles of a tensor map: one thread asks the copy engine for it. Elements outside
        /// become zero. Complete when executed. Result: token.
        TmaLoad "tma_load" { view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, buffer: Buffer, stage: Option<Value>, latency: Option<u32>, map: MapId }
            = at_view(AccessKind::Reads, view, index, Moved::Buffer, token, order).and(writes(buffer, stage, Proxy::Tma)).done(Completes::WithItsStage),
        ReduceView "reduce_view" { tile: Value, view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, mode: AtomicMode, versioned: bool }
            = at_view(AccessKind::Changes, view, index, Moved::Operand(*tile), token, order),
        /// Multimem instructions take whole words: 16-bit elements by pairs of neighbours.
        MulticastLoad "multicast_load" { view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, reduction: MulticastReduction, atom: CopyAtom }
            = at_view(AccessKind::Reads, view, index, Moved::Result, token, order).once(),
        MulticastStore "multicast_store" { tile: Value, view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, write: MulticastWrite, atom: CopyAtom }
            = at_view(AccessKind::Changes, view, index, Moved::Operand(*tile), token, order),
        Load "load" { ptr: Value, mask: Option<Value>, other: Option<Value>, token: Option<Value>, order: Order, atom: CopyAtom }
            = at_pointers(AccessKind::Reads, ptr, Moved::Result, token, order),
        Store "store" { ptr: Value, value: Value, mask: Option<Value>, token: Option<Value>, order: Order, atom: CopyAtom }
            = at_pointers(AccessKind::Writes, ptr, Moved::Operand(*value), token, order),
        AtomicRmw "atomic_rmw" { ptr: Value, value: Value, mask: Option<Value>, token: Option<Value>, order: Order, mode: AtomicMode }
            = at_pointers(AccessKind::Changes, ptr, Moved::Operand(*value), token, order),
        AtomicCas "atomic_cas" { ptr: Value, compare: Value, value: Value, mask: Option<Value>, token: Option<Value>, order: Order }
            = at_pointers(AccessKind::Changes, ptr, Moved::Operand(*value), token, order),

        /// Writes a tile to a buffer, each element at its place in the buffer's layout.
        SharedStore "shared_store" { x: Value, buffer: Buffer, stage: Option<Value>, atom: CopyAtom }
            = writes(buffer, stage, Proxy::Generic),
        /// Reads a whole buffer into the result's layout. In `.sched`, `per_k_step` says that each piece is read when the mma for
        /// which it is comes to it, and `early` of a loop's that PTX has the first pieces of the next round, with what is waited for before
        /// them, in front of the last mmas of this one.
        SharedLoad "shared_load" { buffer: Buffer, stage: Option<Value>, atom: CopyAtom, per_k_step: bool, prefetch_next: bool }
            = reads(buffer, stage, Proxy::Generic),
        /// Reads, for each element of `index` (an element number of the buffer), the element there.
        SharedGather "shared_gather" { buffer: Buffer, stage: Option<Value>, index: Value }
            = reads(buffer, stage, Proxy::Generic),

        /// Writes each element of a tile to the place that the element number in `index` has in the buffer.
        SharedScatter "shared_scatter" { x: Value, buffer: Buffer, stage: Option<Value>, index: Value }
            = changes(buffer, stage, Proxy::Generic),

        /// Combines the registers of each thread along `dim`; the result has as many elements along it as there are threads in
        /// line. The body takes for each operand a left and a right value; the left one is of the lower registers.
        ReduceRegisters "reduce_registers" { operands: Vec<Value>, dim: u32, body: Region }
            = computes(),
        /// Combines over the lanes that share everything but `dim`, those with the highest numbers first; left is the value of
        /// the lower lane. Every one of them gets the result.
        ReduceLanes "reduce_lanes" { operands: Vec<Value>, dim: u32, body: Region }
            = computes(),
        /// Inclusive prefixes along `dim`, from the end when `reverse`. The dimension lies in registers and lanes only, its low
        /// bits in registers. The body takes for each operand what came before and what follows it.
        Scan "scan" { operands: Vec<Value>, dim: u32, reverse: bool, body: Region }
            = computes(),

        /// `acc + lhs * rhs` (with an optional leading batch dimension) by an atom. Each operand is where the atom finds it: `registers(%7)`,
        /// or `memory(buffer: 0, stage: %8, transposed: true)`. So are the accumulators: those in registers give a result, those in tensor memory
        /// are changed there. Where `zero_init` is true, which atoms of warp groups and of tensor memory can be told, they count as zero
        /// whatever they are. Atoms that take scales have one for each block
        /// of elements along K, in their layout for scales. Complete when executed, unless `in_flight`: then
        /// until a `group_wait` of `.sched` nothing but the next of them may touch the accumulators, or change what is read. Where a program has
        /// waits, one with accumulators in tensor memory is complete when a pipe was waited for to which its agent committed it.
        Mma "mma" { in_flight: bool, lhs: MmaOperand, rhs: MmaOperand, acc: MmaOperand, zero_init: Option<Value>, lhs_scale: Option<MmaOperand>, rhs_scale: Option<MmaOperand>, signed_lhs: bool, signed_rhs: bool, atom: MmaAtom }
            = lhs.effects(proxy(atom)).and(rhs.effects(proxy(atom))).and(of_scales(lhs_scale, proxy(atom))).and(of_scales(rhs_scale, proxy(atom)))
                .and(acc.touched(accumulator_access(zero_init), proxy(atom))).done(completes(atom, *in_flight)),
        /// Loads part of a buffer in tensor memory: as many of the elements of its rows as the result has, from that on.
        TmemLoad "tmem_load" { buffer: Buffer, stage: Option<Value>, from: u32, atom: LaneMove }
            = reads(buffer, stage, Proxy::Generic),
        /// Stores to part of a buffer in tensor memory.
        TmemStore "tmem_store" { x: Value, buffer: Buffer, stage: Option<Value>, from: u32, atom: LaneMove }
            = fills(buffer, stage, Proxy::Generic),
        /// Multiplies each row of accumulators in tensor memory by the factor that `by` has for it; zero_init ones are zeros until then, and are
        /// there afterwards. Its threads have the rows as if they loaded all by the atom. What is there and multiplied by 1 need not
        /// be touched.
        TmemScale "tmem_scale" { by: Value, buffer: Buffer, stage: Option<Value>, zero_init: Value, atom: LaneMove }
            = touches(buffer, stage, AccessKind::WritesIf(*zero_init), Proxy::Generic),
        /// Stores what a buffer holds to a tile of a view by tma_tiles of a tensor map, or with a `mode` combines it with what is there: one
        /// thread asks the copy engine for it. Elements outside are left out. The buffer has been read when executed; no later access of
        /// the kernel sees what is stored. In `.sched`, `waits` says that it is only asked for when all that was stored so before is
        /// there. Result: token.
        TmaStore "tma_store" { view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, buffer: Buffer, stage: Option<Value>, map: MapId, mode: Option<AtomicMode>, waits: bool }
            = at_view(mode.map_or(AccessKind::Writes, |_| AccessKind::Changes), view, index, Moved::Buffer, token, order).and(reads(buffer, stage, Proxy::Tma)),
    }
}

impl Op {
    pub fn is_pure(&self) -> bool {
        self.effects().is_pure()
    }

    /// The stage operands of the op's accesses, each with its buffer. An access that was missing here would be refused as one of
    /// a staged_buffer without a stage.
    pub fn stages_mut(&mut self) -> Vec<(Buffer, &mut Option<Value>)> {
        match self {
            Op::CopyView { buffer, stage, .. }
            | Op::TmaLoad { buffer, stage, .. }
            | Op::TmaStore { buffer, stage, .. }
            | Op::Copy { buffer, stage, .. }
            | Op::SharedStore { buffer, stage, .. }
            | Op::SharedLoad { buffer, stage, .. }
            | Op::SharedGather { buffer, stage, .. }
            | Op::SharedScatter { buffer, stage, .. }
            | Op::TmemLoad { buffer, stage, .. }
            | Op::TmemStore { buffer, stage, .. }
            | Op::TmemScale { buffer, stage, .. } => vec![(*buffer, stage)],
            Op::Mma { lhs, rhs, acc, lhs_scale, rhs_scale, .. } => {
                let stage = |place| match place {
                    &mut MmaOperand::Memory { buffer, ref mut stage, .. } => Some((buffer, stage)),
                    MmaOperand::Registers(_) => None,
                };
                [lhs, rhs, acc].into_iter().chain(lhs_scale).chain(rhs_scale).filter_map(stage).collect()
            }
            Op::Core(_)
            | Op::Coordinate { .. }
            | Op::ConvertLayout { .. }
            | Op::LoadView { .. }
            | Op::StoreView { .. }
            | Op::ReduceView { .. }
            | Op::MulticastLoad { .. }
            | Op::MulticastStore { .. }
            | Op::Load { .. }
            | Op::Store { .. }
            | Op::AtomicRmw { .. }
            | Op::AtomicCas { .. }
            | Op::ReduceRegisters { .. }
            | Op::ReduceLanes { .. }
            | Op::Scan { .. } => Vec::new(),
        }
    }

    /// The operands of a mma that are in registers, if those are all.
    pub fn fragments(&self) -> Option<[Value; 2]> {
        match self {
            Op::Mma { lhs, rhs, .. } => Some([lhs.registers()?, rhs.registers()?]),
            _ => None,
        }
    }
}

impl MiddleOp for Op {
    fn core(&self) -> Option<&Core> {
        match self {
            Op::Core(core) => Some(core),
            _ => None,
        }
    }
    fn is_pure(&self) -> bool {
        Op::is_pure(self)
    }
    fn combination(&self) -> Option<(&[Value], Region)> {
        match self {
            Op::ReduceRegisters { operands, body, .. }
            | Op::ReduceLanes { operands, body, .. }
            | Op::Scan { operands, body, .. } => Some((operands, *body)),
            _ => None,
        }
    }
}

impl base::text::OpText for Op {
    fn constant(&self) -> Option<&Dense> {
        self.core().and_then(Core::constant)
    }
    fn from_constant(value: Dense) -> Self {
        Op::Core(Core::Constant { value })
    }
}
