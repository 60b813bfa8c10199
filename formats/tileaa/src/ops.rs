//! The ops of `.aa`: the core ops, and the ops that access memory or combine elements.

use base::ir::Dense;
use base::{Region, Target, Value};
use core_dialect::core_ops::Core;
pub use core_dialect::memory::Order;
use core_dialect::memory::{AtomicMode, MulticastReduction, MulticastWrite};
use core_dialect::rules::CoreDialectOp;
use serde::{Deserialize, Serialize};

/// The hints of the program's author for one access, on a target or on all other targets (`default`). A pass may ignore hints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AccessHint {
    /// The name of the target, or `default`.
    pub target: String,
    /// Whether the access may use TMA; `None` without a hint.
    pub allow_tma: Option<bool>,
    /// The expected latency of the access; `None` without a hint.
    pub latency: Option<u32>,
}

impl AccessHint {
    /// The value that `field` returns for the hint of this target, or else for the default hint. `None` if neither has a value.
    pub fn value_for<T>(hints: &[AccessHint], target: Target, field: impl Fn(&AccessHint) -> Option<T>) -> Option<T> {
        let from_hint = |name: &str| hints.iter().find(|hint| hint.target == name).and_then(&field);
        from_hint(target.name).or_else(|| from_hint("default"))
    }
}

base::plain_fields! { AccessHint, Identity }

/// The neutral element of one operand of a reduction or scan, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity(pub u64);

base::ops! {
    /// An op of `.aa`.
    pub enum Op includes Core {
        /// Loads the tile of a view at an index. Elements outside the memref have the value of the view's padding. `in_bounds[t]`
        /// promises that the tile is inside along tile dimension `t`. Results: tile, token.
        LoadView "load_view" { view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, hints: Vec<AccessHint> },
        /// Stores the tile of a view at an index, except the elements outside the memref. Result: token.
        StoreView "store_view" { tile: Value, view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, hints: Vec<AccessHint> },
        /// Combines each element of the tile atomically with the element in memory. Result: token.
        ReduceView "reduce_view" { tile: Value, view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, mode: AtomicMode },
        /// Loads through multicast pointers: combines, for each element, its copies on all devices. Elements outside the memref
        /// have the value of the view's padding. Results: tile, token.
        MulticastLoad "multicast_load" { view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, reduction: MulticastReduction },
        /// Writes the tile to the memory of each device, or combines the tile with this memory. Result: token.
        MulticastStore "multicast_store" { tile: Value, view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, write: MulticastWrite },
        /// Loads an element through each pointer. Where the mask is false, the element is `other`, or unspecified without `other`.
        /// Results: tile, token.
        Load "load" { ptr: Value, mask: Option<Value>, other: Option<Value>, token: Option<Value>, order: Order, hints: Vec<AccessHint> },
        /// Stores an element through each pointer where the mask is true. Result: token.
        Store "store" { ptr: Value, value: Value, mask: Option<Value>, token: Option<Value>, order: Order, hints: Vec<AccessHint> },
        /// An atomic read-modify-write through each pointer. Results: the old elements, token.
        AtomicRmw "atomic_rmw" { ptr: Value, value: Value, mask: Option<Value>, token: Option<Value>, order: Order, mode: AtomicMode },
        /// An atomic compare-and-swap through each pointer, which compares bits. Results: the old elements, token.
        AtomicCas "atomic_cas" { ptr: Value, compare: Value, value: Value, mask: Option<Value>, token: Option<Value>, order: Order },

        /// Combines the elements along `dim`. The body takes for each operand a left and a right value, each an element or the
        /// result of a combination, and yields one value. The first element of the left value has a lower index than the first
        /// element of the right value. Apart from this rule, executors may combine the elements in any order, and may add the
        /// identities as operands. The body must be associative.
        Reduce "reduce" { operands: Vec<Value>, dim: u32, identities: Vec<Identity>, body: Region },
        /// The inclusive prefix scan along `dim`, from the end if `reverse`. The body takes for each operand the prefix so far and
        /// the next value, and yields their combination. The prefix is the left value: it combines the elements at lower indices,
        /// or with `reverse` at higher indices.
        Scan "scan" { operands: Vec<Value>, dim: u32, reverse: bool, identities: Vec<Identity>, body: Region },
        /// `acc + lhs * rhs`, with an optional leading batch dimension. `signed_lhs` and `signed_rhs` give the signedness of
        /// integer operands.
        Mma "mma" { lhs: Value, rhs: Value, acc: Value, signed_lhs: bool, signed_rhs: bool, fast_acc: bool },
        /// An MMA that multiplies each block of elements along K by its scale. Operands of type i8 hold pairs of 4-bit floats,
        /// adjacent along K; the low four bits are the first float.
        MmaScaled "mma_scaled" { lhs: Value, rhs: Value, acc: Value, lhs_scale: Value, rhs_scale: Value },
    }
}

impl Op {
    /// Returns whether a pass can move or repeat the op freely, and remove it if nothing uses its results.
    pub fn is_pure(&self) -> bool {
        match self {
            Op::Core(core) => core.is_pure(),
            Op::Reduce { .. } | Op::Scan { .. } | Op::Mma { .. } | Op::MmaScaled { .. } => true,
            Op::LoadView { .. }
            | Op::StoreView { .. }
            | Op::ReduceView { .. }
            | Op::MulticastLoad { .. }
            | Op::MulticastStore { .. }
            | Op::Load { .. }
            | Op::Store { .. }
            | Op::AtomicRmw { .. }
            | Op::AtomicCas { .. } => false,
        }
    }

    /// The values that a terminator forwards to its target; `None` for `return` and for other ops.
    pub fn forwarded_values(&self) -> Option<&[Value]> {
        match self {
            Op::Core(Core::Yield { values } | Core::Continue { values } | Core::Break { values }) => Some(values),
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
            Op::Reduce { operands, body, .. } | Op::Scan { operands, body, .. } => Some((operands, *body)),
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
