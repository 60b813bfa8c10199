//! The ops of `.as`: the shared ones, and those that name how data moves between threads and memory.

use crate::atoms::MmaAtom;
use crate::atoms::tensor::LaneMove;
use crate::effects::words::{at_pointers, at_view, changes, computes, fills, reads, touches, writes};
use crate::effects::{Completes, Does, Effects, Moved, Way};
use crate::layout::LayoutId;
use base::ir::Dense;
use base::ops::Field;
use base::{Region, Value};
use serde::{Deserialize, Serialize};
use vocabulary::core_ops::Core;
pub use vocabulary::memory::Order;
use vocabulary::memory::{AtomicMode, MulticastReduction, MulticastWrite};
use vocabulary::rules::MiddleOp;

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

/// Where a product finds an operand, or its sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In the layout that the atom asks for.
    Registers(Value),
    /// In a buffer as it is, which holds it transposed where that is said.
    Memory {
        buffer: Buffer,
        #[serde(default)]
        slot: Option<Value>,
        #[serde(default)]
        transposed: bool,
    },
}

impl Place {
    pub fn buffer(&self) -> Option<Buffer> {
        match self {
            Place::Registers(_) => None,
            Place::Memory { buffer, .. } => Some(*buffer),
        }
    }
    pub fn registers(&self) -> Option<Value> {
        match self {
            Place::Registers(value) => Some(*value),
            Place::Memory { .. } => None,
        }
    }
    fn effects<'a>(&self, way: Way) -> Effects<'a> {
        self.touched(Does::Reads, way)
    }
    fn touched<'a>(&self, does: Does, way: Way) -> Effects<'a> {
        match self {
            Place::Registers(_) => computes(),
            Place::Memory { buffer, slot, .. } => touches(buffer, slot, does, way),
        }
    }
}

impl Field for Place {
    fn values(&self, f: &mut dyn FnMut(Value)) {
        match self {
            Place::Registers(value) => f(*value),
            Place::Memory { slot, .. } => slot.values(f),
        }
    }
    fn values_mut(&mut self, f: &mut dyn FnMut(&mut Value)) {
        match self {
            Place::Registers(value) => f(value),
            Place::Memory { slot, .. } => slot.values_mut(f),
        }
    }
}

/// By which way products with this atom read buffers.
fn way(atom: &MmaAtom) -> Way {
    match atom {
        MmaAtom::Group(_) | MmaAtom::Tensor(_) => Way::Products,
        MmaAtom::Sync(_) | MmaAtom::MultiplyAdd(_) => Way::Threads,
    }
}

/// What happens to sums in memory.
fn summed(fresh: &Option<Value>) -> Does {
    fresh.map_or(Does::Changes, Does::WritesIf)
}

/// When a product with this atom is done.
fn completes(atom: &MmaAtom, in_flight: bool) -> Completes {
    match atom {
        MmaAtom::Tensor(_) => Completes::WithItsCommit,
        _ if in_flight => Completes::WithItsProducts,
        _ => Completes::AtOnce,
    }
}

/// The effects of operands that need not be there.
fn of_scales<'a>(scales: &Option<Place>, way: Way) -> Effects<'a> {
    scales.map_or(computes(), |place| place.effects(way))
}

/// The highest hint about latency.
pub const MOST_LATENCY: u32 = 10;

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

        /// As in `.aa`, by an atom. In `.sched`, `two_ways` says that the access is there twice: with a check of each piece, and without
        /// any for a tile that lies inside. Results: tile, token.
        LoadView "load_view" { view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, atom: CopyAtom, two_ways: bool }
            = at_view(Does::Reads, view, index, Moved::Result, token, order),
        StoreView "store_view" { tile: Value, view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, atom: CopyAtom, two_ways: bool }
            = at_view(Does::Writes, view, index, Moved::Operand(*tile), token, order),
        /// Copies a tile of a view straight into a buffer: each thread the elements that `layout` gives it, in pieces of the atom's
        /// bytes, which are its lowest registers. Elements outside become zero; `whole` promises that no bound cuts a piece.
        /// `latency` is what its author says of how long memory takes, from 1 to 10.
        /// Complete when executed. Result: token.
        CopyView "copy_view" { view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, whole: bool, buffer: Buffer, slot: Option<Value>, layout: LayoutId, latency: Option<u32>, atom: CopyAtom, two_ways: bool }
            = at_view(Does::Reads, view, index, Moved::Buffer, token, order).and(writes(buffer, slot, Way::Copies)).done(Completes::WithItsCopies),
        /// The same through pointers, in whose layout the threads copy. Where the mask is false zeros are written.
        Copy "copy" { ptr: Value, mask: Option<Value>, token: Option<Value>, order: Order, buffer: Buffer, slot: Option<Value>, latency: Option<u32>, atom: CopyAtom }
            = at_pointers(Does::Reads, ptr, Moved::Buffer, token, order).and(writes(buffer, slot, Way::Copies)).done(Completes::WithItsCopies),
        /// Copies a tile of a view to a buffer by boxes of a tensor map: one thread asks the copy engine for it. Elements outside
        /// become zero. Complete when executed. Result: token.
        CopyBoxes "copy_boxes" { view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, buffer: Buffer, slot: Option<Value>, latency: Option<u32>, map: MapId }
            = at_view(Does::Reads, view, index, Moved::Buffer, token, order).and(writes(buffer, slot, Way::Boxes)).done(Completes::WithItsSlot),
        ReduceView "reduce_view" { tile: Value, view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, mode: AtomicMode, two_ways: bool }
            = at_view(Does::Changes, view, index, Moved::Operand(*tile), token, order),
        /// Multimem instructions take whole words: 16-bit elements by pairs of neighbours.
        MulticastLoad "multicast_load" { view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, reduction: MulticastReduction, atom: CopyAtom }
            = at_view(Does::Reads, view, index, Moved::Result, token, order).once(),
        MulticastStore "multicast_store" { tile: Value, view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, write: MulticastWrite, atom: CopyAtom }
            = at_view(Does::Changes, view, index, Moved::Operand(*tile), token, order),
        Load "load" { ptr: Value, mask: Option<Value>, other: Option<Value>, token: Option<Value>, order: Order, atom: CopyAtom }
            = at_pointers(Does::Reads, ptr, Moved::Result, token, order),
        Store "store" { ptr: Value, value: Value, mask: Option<Value>, token: Option<Value>, order: Order, atom: CopyAtom }
            = at_pointers(Does::Writes, ptr, Moved::Operand(*value), token, order),
        AtomicRmw "atomic_rmw" { ptr: Value, value: Value, mask: Option<Value>, token: Option<Value>, order: Order, mode: AtomicMode }
            = at_pointers(Does::Changes, ptr, Moved::Operand(*value), token, order),
        AtomicCas "atomic_cas" { ptr: Value, compare: Value, value: Value, mask: Option<Value>, token: Option<Value>, order: Order }
            = at_pointers(Does::Changes, ptr, Moved::Operand(*value), token, order),

        /// Writes a tile to a buffer, each element at its place in the buffer's layout.
        SharedStore "shared_store" { x: Value, buffer: Buffer, slot: Option<Value>, atom: CopyAtom }
            = writes(buffer, slot, Way::Threads),
        /// Reads a whole buffer into the result's layout. In `.sched`, `in_pieces` says that each piece is read when the product for
        /// which it is comes to it, and `early` of a loop's that PTX has the first pieces of the next round, with what is waited for before
        /// them, in front of the last products of this one.
        SharedLoad "shared_load" { buffer: Buffer, slot: Option<Value>, atom: CopyAtom, in_pieces: bool, early: bool }
            = reads(buffer, slot, Way::Threads),
        /// Reads, for each element of `index` (an element number of the buffer), the element there.
        SharedGather "shared_gather" { buffer: Buffer, slot: Option<Value>, index: Value }
            = reads(buffer, slot, Way::Threads),

        /// Writes each element of a tile to the place that the element number in `index` has in the buffer.
        SharedScatter "shared_scatter" { x: Value, buffer: Buffer, slot: Option<Value>, index: Value }
            = changes(buffer, slot, Way::Threads),

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
        /// or `memory(buffer: 0, slot: %8, transposed: true)`. So are the sums: those in registers give a result, those in tensor memory
        /// are changed there. Where `fresh` is true, which atoms of warp groups and of tensor memory can be told, they count as zero
        /// whatever they are. Atoms that take scales have one for each block
        /// of elements along K, in their layout for scales. Complete when executed, unless `in_flight`: then
        /// until a `group_wait` of `.sched` nothing but the next of them may touch the sums, or change what is read. Where a program has
        /// waits, one with sums in tensor memory is complete when a pipe was waited for to which its agent committed it.
        Mma "mma" { in_flight: bool, lhs: Place, rhs: Place, acc: Place, fresh: Option<Value>, lhs_scale: Option<Place>, rhs_scale: Option<Place>, signed_lhs: bool, signed_rhs: bool, atom: MmaAtom }
            = lhs.effects(way(atom)).and(rhs.effects(way(atom))).and(of_scales(lhs_scale, way(atom))).and(of_scales(rhs_scale, way(atom)))
                .and(acc.touched(summed(fresh), way(atom))).done(completes(atom, *in_flight)),
        /// Loads part of a buffer in tensor memory: as many of the elements of its rows as the result has, from that on.
        TensorLoad "tensor_load" { buffer: Buffer, slot: Option<Value>, from: u32, atom: LaneMove }
            = reads(buffer, slot, Way::Threads),
        /// Stores to part of a buffer in tensor memory.
        TensorStore "tensor_store" { x: Value, buffer: Buffer, slot: Option<Value>, from: u32, atom: LaneMove }
            = fills(buffer, slot, Way::Threads),
        /// Multiplies each row of sums in tensor memory by the factor that `by` has for it; fresh ones are zeros until then, and are
        /// there afterwards. Its threads have the rows as if they loaded all by the atom. What is there and multiplied by 1 need not
        /// be touched.
        TensorScale "tensor_scale" { by: Value, buffer: Buffer, slot: Option<Value>, fresh: Value, atom: LaneMove }
            = touches(buffer, slot, Does::WritesIf(*fresh), Way::Threads),
        /// Stores what a buffer holds to a tile of a view by boxes of a tensor map, or with a `mode` combines it with what is there: one
        /// thread asks the copy engine for it. Elements outside are left out. The buffer has been read when executed; no later access of
        /// the kernel sees what is stored. In `.sched`, `waits` says that it is only asked for when all that was stored so before is
        /// there. Result: token.
        StoreBoxes "store_boxes" { view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, buffer: Buffer, slot: Option<Value>, map: MapId, mode: Option<AtomicMode>, waits: bool }
            = at_view(mode.map_or(Does::Writes, |_| Does::Changes), view, index, Moved::Buffer, token, order).and(reads(buffer, slot, Way::Boxes)),
    }
}

impl Op {
    pub fn is_pure(&self) -> bool {
        self.effects().is_pure()
    }

    /// The slot operands of the op's accesses, each with its buffer. An access that was missing here would be refused as one of
    /// a ring without a slot.
    pub fn slots_mut(&mut self) -> Vec<(Buffer, &mut Option<Value>)> {
        match self {
            Op::CopyView { buffer, slot, .. }
            | Op::CopyBoxes { buffer, slot, .. }
            | Op::StoreBoxes { buffer, slot, .. }
            | Op::Copy { buffer, slot, .. }
            | Op::SharedStore { buffer, slot, .. }
            | Op::SharedLoad { buffer, slot, .. }
            | Op::SharedGather { buffer, slot, .. }
            | Op::SharedScatter { buffer, slot, .. }
            | Op::TensorLoad { buffer, slot, .. }
            | Op::TensorStore { buffer, slot, .. }
            | Op::TensorScale { buffer, slot, .. } => vec![(*buffer, slot)],
            Op::Mma { lhs, rhs, acc, lhs_scale, rhs_scale, .. } => {
                let slot = |place| match place {
                    &mut Place::Memory { buffer, ref mut slot, .. } => Some((buffer, slot)),
                    Place::Registers(_) => None,
                };
                [lhs, rhs, acc].into_iter().chain(lhs_scale).chain(rhs_scale).filter_map(slot).collect()
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

    /// The operands of a product that are in registers, if those are all.
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
