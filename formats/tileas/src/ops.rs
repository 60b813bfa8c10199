//! The ops of `.as`: the core ops, and the ops that move data between threads and memory or combine elements.

use crate::atoms::MmaAtom;
use crate::atoms::tensor_memory::LaneMove;
use crate::effects::constructors::{accesses, accesses_pointers, accesses_view, changes, computes, fills, reads, writes};
use crate::effects::{AccessKind, Completes, Effects, MovedTile, Proxy};
use crate::layout::LayoutId;
use base::ir::Dense;
use base::ops::Field;
use base::{Region, Value};
use core_dialect::core_ops::Core;
pub use core_dialect::memory::Order;
use core_dialect::memory::{AtomicMode, MulticastReduction, MulticastWrite};
use core_dialect::rules::CoreDialectOp;
use serde::{Deserialize, Serialize};

base::entity! {
    /// A buffer of the function's table, in shared or tensor memory.
    pub struct Buffer = "buffer";
}
base::entity! {
    /// A tensor map of the function's table.
    pub struct MapId = "map";
}

/// The instruction that moves a part of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyAtom {
    /// `ld` or `st` of a vector of `1 << vector_bits` neighbouring elements. The lowest register bits number the elements of a
    /// vector.
    Vector { vector_bits: u32 },
    /// `ldmatrix` or `stmatrix`: eight lanes supply the addresses of the eight rows of each 16-byte-wide matrix. `trans` transposes
    /// its 16-bit elements.
    Matrix { trans: bool },
    /// `cp.async` of `bytes` bytes, from global to shared memory.
    Async { bytes: u32 },
    /// `ldmatrix` of bytes: sixteen lanes supply the addresses of the sixteen rows of each 16-byte-wide matrix. The instruction
    /// transposes the matrix.
    ByteMatrix,
}

/// The location of an operand or of the accumulator of an MMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MmaOperand {
    /// In registers, in the layout that the atom requires.
    Registers(Value),
    /// In a buffer, in the buffer's layout. `transposed`: the buffer holds the transposed operand.
    Memory {
        buffer: Buffer,
        #[serde(default)]
        stage: Option<Value>,
        #[serde(default)]
        transposed: bool,
    },
}

impl MmaOperand {
    /// The buffer of an operand in shared or tensor memory.
    pub fn buffer(&self) -> Option<Buffer> {
        match self {
            MmaOperand::Registers(_) => None,
            MmaOperand::Memory { buffer, .. } => Some(*buffer),
        }
    }
    /// The tile of an operand in registers.
    pub fn registers(&self) -> Option<Value> {
        match self {
            MmaOperand::Registers(value) => Some(*value),
            MmaOperand::Memory { .. } => None,
        }
    }
    /// The effects of reading the operand.
    fn read_effects<'a>(&self, proxy: Proxy) -> Effects<'a> {
        self.access_effects(AccessKind::Reads, proxy)
    }
    /// The effects of an access to the operand; none if the operand is in registers.
    fn access_effects<'a>(&self, access_kind: AccessKind, proxy: Proxy) -> Effects<'a> {
        match self {
            MmaOperand::Registers(_) => computes(),
            MmaOperand::Memory { buffer, stage, .. } => accesses(buffer, stage, access_kind, proxy),
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

/// The proxy through which MMAs with this atom access buffers.
fn mma_proxy(atom: &MmaAtom) -> Proxy {
    match atom {
        MmaAtom::Group(_) | MmaAtom::Tensor(_) => Proxy::Mma,
        MmaAtom::Sync(_) | MmaAtom::MultiplyAdd(_) => Proxy::Generic,
    }
}

/// The access of an MMA to an accumulator in memory.
fn accumulator_access(zero_init: &Option<Value>) -> AccessKind {
    zero_init.map_or(AccessKind::Changes, AccessKind::WritesIf)
}

/// The completion of an MMA with this atom.
fn mma_completion(atom: &MmaAtom, in_flight: bool) -> Completes {
    match atom {
        MmaAtom::Tensor(_) => Completes::WithItsCommit,
        _ if in_flight => Completes::WithMmaGroup,
        _ => Completes::AtOnce,
    }
}

/// The effects of reading the scales of an operand, if it has scales.
fn scale_effects<'a>(scales: &Option<MmaOperand>, proxy: Proxy) -> Effects<'a> {
    scales.map_or(computes(), |scales| scales.read_effects(proxy))
}

/// The maximum latency hint of a copy, as in Tile IR's optimization hints; the minimum is 1.
pub const MAX_LATENCY: u32 = 10;

/// How a conversion between two register layouts moves elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// A renaming of registers; no element moves between threads.
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
        /// The elements of `x`, in the layout of the result's type.
        ConvertLayout "convert_layout" { x: Value, route: Route }
            = computes(),

        /// Loads a tile of a view, as in `.aa`, by an atom. In `.sched`, a `versioned` access has two versions. One version checks
        /// the bounds of each vector. The other has no checks, and executes if the tile is fully within the view. Results: tile,
        /// token.
        LoadView "load_view" { view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, atom: CopyAtom, versioned: bool }
            = accesses_view(AccessKind::Reads, view, index, MovedTile::Result, token, order),
        /// Stores a tile to a tile of a view, as in `.aa`, by an atom. `versioned` is as for `load_view`. Result: token.
        StoreView "store_view" { tile: Value, view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, atom: CopyAtom, versioned: bool }
            = accesses_view(AccessKind::Writes, view, index, MovedTile::Operand(*tile), token, order),
        /// Copies a tile of a view into a buffer by `cp.async`. Each thread copies the elements that `layout` assigns to it, in
        /// vectors of the atom's bytes. The lowest registers of the layout are the elements of a vector. Elements outside become
        /// zero. `whole` promises that no vector crosses a bound. `latency` is the author's hint on the memory latency, from 1 to
        /// 10. In `.as`, the copy is complete when the op ends. Result: token.
        CopyView "copy_view" { view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, whole: bool, buffer: Buffer, stage: Option<Value>, layout: LayoutId, latency: Option<u32>, atom: CopyAtom, versioned: bool }
            = accesses_view(AccessKind::Reads, view, index, MovedTile::Buffer, token, order).with_accesses_of(writes(buffer, stage, Proxy::Copies)).with_completion(Completes::WithItsCopies),
        /// Copies elements through pointers into a buffer by `cp.async`. The layout of the pointers assigns elements to threads.
        /// Where the mask is false, the copy writes zeros. `latency` and the completion are as for `copy_view`. Result: token.
        Copy "copy" { ptr: Value, mask: Option<Value>, token: Option<Value>, order: Order, buffer: Buffer, stage: Option<Value>, latency: Option<u32>, atom: CopyAtom }
            = accesses_pointers(AccessKind::Reads, ptr, MovedTile::Buffer, token, order).with_accesses_of(writes(buffer, stage, Proxy::Copies)).with_completion(Completes::WithItsCopies),
        /// Copies a tile of a view to a buffer through a tensor map. One thread issues the TMA copies. Elements outside become
        /// zero. In `.as`, the copy is complete when the op ends. Result: token.
        TmaLoad "tma_load" { view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, buffer: Buffer, stage: Option<Value>, latency: Option<u32>, map: MapId }
            = accesses_view(AccessKind::Reads, view, index, MovedTile::Buffer, token, order).with_accesses_of(writes(buffer, stage, Proxy::Tma)).with_completion(Completes::WithItsStage),
        /// Reduces a tile into a tile of a view, as in `.aa`. `versioned` is as for `load_view`. Result: token.
        ReduceView "reduce_view" { tile: Value, view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, mode: AtomicMode, versioned: bool }
            = accesses_view(AccessKind::Changes, view, index, MovedTile::Operand(*tile), token, order),
        /// Loads the reduction of a tile over all devices of a multicast view, as in `.aa`. `multimem` instructions access 32-bit
        /// words, so threads access 16-bit elements in pairs of neighbours. Results: tile, token.
        MulticastLoad "multicast_load" { view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, reduction: MulticastReduction, atom: CopyAtom }
            = accesses_view(AccessKind::Reads, view, index, MovedTile::Result, token, order).with_one_thread_per_element(),
        /// Stores a tile to all devices of a multicast view, as in `.aa`, in the vectors of `multicast_load`. Result: token.
        MulticastStore "multicast_store" { tile: Value, view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, write: MulticastWrite, atom: CopyAtom }
            = accesses_view(AccessKind::Changes, view, index, MovedTile::Operand(*tile), token, order),
        /// Loads a tile through a tile of pointers, as in `.aa`, by an atom. Results: tile, token.
        Load "load" { ptr: Value, mask: Option<Value>, other: Option<Value>, token: Option<Value>, order: Order, atom: CopyAtom }
            = accesses_pointers(AccessKind::Reads, ptr, MovedTile::Result, token, order),
        /// Stores a tile through a tile of pointers, as in `.aa`, by an atom. Result: token.
        Store "store" { ptr: Value, value: Value, mask: Option<Value>, token: Option<Value>, order: Order, atom: CopyAtom }
            = accesses_pointers(AccessKind::Writes, ptr, MovedTile::Operand(*value), token, order),
        /// Reads, modifies and writes each element atomically, as in `.aa`. Results: the old elements, token.
        AtomicRmw "atomic_rmw" { ptr: Value, value: Value, mask: Option<Value>, token: Option<Value>, order: Order, mode: AtomicMode }
            = accesses_pointers(AccessKind::Changes, ptr, MovedTile::Operand(*value), token, order),
        /// Compares and swaps each element atomically, as in `.aa`. Results: the old elements, token.
        AtomicCas "atomic_cas" { ptr: Value, compare: Value, value: Value, mask: Option<Value>, token: Option<Value>, order: Order }
            = accesses_pointers(AccessKind::Changes, ptr, MovedTile::Operand(*value), token, order),

        /// Stores a tile to a buffer, each element at its offset in the buffer's layout.
        SharedStore "shared_store" { x: Value, buffer: Buffer, stage: Option<Value>, atom: CopyAtom }
            = writes(buffer, stage, Proxy::Generic),
        /// Loads a full buffer into the result's layout. In `.sched`, `per_k_step` loads each fragment right before its MMA step.
        /// With `prefetch_next`, the first fragments for a loop's next iteration are loaded before the last MMAs of this iteration.
        /// They are loaded after the waits that they need.
        SharedLoad "shared_load" { buffer: Buffer, stage: Option<Value>, atom: CopyAtom, per_k_step: bool, prefetch_next: bool }
            = reads(buffer, stage, Proxy::Generic),
        /// Loads, for each element of `index`, the buffer element with this element number.
        SharedGather "shared_gather" { buffer: Buffer, stage: Option<Value>, index: Value }
            = reads(buffer, stage, Proxy::Generic),

        /// Stores each element of a tile as the buffer element whose number is in `index`.
        SharedScatter "shared_scatter" { x: Value, buffer: Buffer, stage: Option<Value>, index: Value }
            = changes(buffer, stage, Proxy::Generic),

        /// Combines the registers of each thread along `dim`. Along this dimension, the result has one element for each thread. The
        /// body takes for each operand a left and a right value. The left value is from the lower registers.
        ReduceRegisters "reduce_registers" { operands: Vec<Value>, dim: u32, body: Region }
            = computes(),
        /// Combines the values of the lanes of a warp whose elements differ only along `dim`. The first step combines lanes that
        /// differ in the highest bit of the lane number. The left value is that of the lower lane. All these lanes receive the
        /// result.
        ReduceLanes "reduce_lanes" { operands: Vec<Value>, dim: u32, body: Region }
            = computes(),
        /// The inclusive prefix scan along `dim`, from the end if `reverse`. The dimension occupies registers and lanes only, its
        /// low bits in registers. The body takes for each operand the prefix so far and the next value.
        Scan "scan" { operands: Vec<Value>, dim: u32, reverse: bool, body: Region }
            = computes(),

        /// `acc + lhs * rhs` (with an optional leading batch dimension) by an atom. Each operand and the accumulator name their
        /// location: `registers(%7)`, or `memory(buffer: 0, stage: %8, transposed: true)`. With an accumulator in registers, the op
        /// has a result. It updates an accumulator in tensor memory in place. If `zero_init` is true, the accumulator counts as
        /// zero whatever it contains (PTX `scale-d = 0`). Only wgmma and tcgen05 atoms support `zero_init`. Atoms with block scales
        /// take one scale for each block of elements along K, in their scale layout. The op is complete when executed, unless it is
        /// `in_flight`. Up to the `group_wait` of an MMA in flight, only another MMA in flight may access the accumulator, and no
        /// op may change the operands. In a program with waits, an MMA in tensor memory is complete after a wait for the pipeline
        /// stage to which its role committed it.
        Mma "mma" { in_flight: bool, lhs: MmaOperand, rhs: MmaOperand, acc: MmaOperand, zero_init: Option<Value>, lhs_scale: Option<MmaOperand>, rhs_scale: Option<MmaOperand>, signed_lhs: bool, signed_rhs: bool, atom: MmaAtom }
            = lhs.read_effects(mma_proxy(atom)).with_accesses_of(rhs.read_effects(mma_proxy(atom))).with_accesses_of(scale_effects(lhs_scale, mma_proxy(atom))).with_accesses_of(scale_effects(rhs_scale, mma_proxy(atom)))
                .with_accesses_of(acc.access_effects(accumulator_access(zero_init), mma_proxy(atom))).with_completion(mma_completion(atom, *in_flight)),
        /// Loads a slice of a buffer in tensor memory. From each row, it loads as many elements as a row of the result has, from
        /// element `from` on.
        TmemLoad "tmem_load" { buffer: Buffer, stage: Option<Value>, from: u32, atom: LaneMove }
            = reads(buffer, stage, Proxy::Generic),
        /// Stores a tile to a slice of a buffer in tensor memory, as `tmem_load` loads it.
        TmemStore "tmem_store" { x: Value, buffer: Buffer, stage: Option<Value>, from: u32, atom: LaneMove }
            = fills(buffer, stage, Proxy::Generic),
        /// Multiplies each row of an accumulator in tensor memory by its factor in `by`. If `zero_init` is true, the accumulator
        /// counts as zero, and the op writes zeros. The threads hold the factors as if they loaded the full buffer with the atom.
        /// The op need not access rows with factor 1.
        TmemScale "tmem_scale" { by: Value, buffer: Buffer, stage: Option<Value>, zero_init: Value, atom: LaneMove }
            = accesses(buffer, stage, AccessKind::WritesIf(*zero_init), Proxy::Generic),
        /// Stores a buffer to a tile of a view through a tensor map; with a `mode`, reduces it into memory. One thread issues the
        /// TMA copies, which skip elements outside. When the op is complete, the buffer has been read, but the data may not be in
        /// memory yet: later accesses of the kernel need not see it. In `.sched`, `waits` delays the store until all earlier TMA
        /// stores are complete. Result: token.
        TmaStore "tma_store" { view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, buffer: Buffer, stage: Option<Value>, map: MapId, mode: Option<AtomicMode>, waits: bool }
            = accesses_view(mode.map_or(AccessKind::Writes, |_| AccessKind::Changes), view, index, MovedTile::Buffer, token, order).with_accesses_of(reads(buffer, stage, Proxy::Tma)),
    }
}

impl Op {
    /// Returns whether a pass can move or repeat the op freely, and remove it if nothing uses its results.
    pub fn is_pure(&self) -> bool {
        self.effects().is_pure()
    }

    /// The buffers that the op accesses, each with its stage operand. The list must be complete: the verifier rejects an access to
    /// a multi-stage buffer without a stage.
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
                let buffer_and_stage = |operand| match operand {
                    &mut MmaOperand::Memory { buffer, ref mut stage, .. } => Some((buffer, stage)),
                    MmaOperand::Registers(_) => None,
                };
                [lhs, rhs, acc].into_iter().chain(lhs_scale).chain(rhs_scale).filter_map(buffer_and_stage).collect()
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

    /// The left and right operand of an MMA, if both are in registers. Otherwise `None`.
    pub fn fragments(&self) -> Option<[Value; 2]> {
        match self {
            Op::Mma { lhs, rhs, .. } => Some([lhs.registers()?, rhs.registers()?]),
            _ => None,
        }
    }
}

impl CoreDialectOp for Op {
    fn core(&self) -> Option<&Core> {
        if let Op::Core(core) = self { Some(core) } else { None }
    }
    fn core_mut(&mut self) -> Option<&mut Core> {
        if let Op::Core(core) = self { Some(core) } else { None }
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
