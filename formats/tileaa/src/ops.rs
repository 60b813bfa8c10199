//! The ops of `.aa`: the core ops, and the ops that access memory or combine elements.

use base::ir::Dense;
use base::{Region, Target, Value};
use core_dialect::core_ops::Core;
pub use core_dialect::memory::Order;
use core_dialect::memory::{AtomicMode, MulticastReduction, MulticastWrite};
use core_dialect::rules::MiddleOp;
use serde::{Deserialize, Serialize};

/// The hints of the program's author for one access, on a target or on all other targets (`default`). A pass may ignore them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AccessHint {
    pub target: String,
    pub allow_tma: Option<bool>,
    pub latency: Option<u32>,
}

impl AccessHint {
    /// The field `what` of the hint for this target, or else of the default hint.
    pub fn of<T>(hints: &[AccessHint], target: Target, what: impl Fn(&AccessHint) -> Option<T>) -> Option<T> {
        let named = |name: &str| hints.iter().find(|hint| hint.target == name).and_then(&what);
        named(target.name).or_else(|| named("default"))
    }
}

base::plain_fields! { AccessHint, Identity }

/// The neutral element of one operand of a reduction or scan, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity(pub u64);

base::ops! {
    /// An op of `.aa`.
    pub enum Op includes Core {
        /// The tile of a view at an index; elements outside are the view's padding. `in_bounds[t]` promises that tile
        /// dimension `t` lies inside. Results: tile, token.
        LoadView "load_view" { view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, hints: Vec<AccessHint> },
        /// Elements outside are not written. Result: token.
        StoreView "store_view" { tile: Value, view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, hints: Vec<AccessHint> },
        /// Combines the tile into memory atomically, element by element. Result: token.
        ReduceView "reduce_view" { tile: Value, view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, mode: AtomicMode },
        /// Combines, element by element, the copies of all devices under multicast pointers; elements outside are the view's
        /// padding. Results: tile, token.
        MulticastLoad "multicast_load" { view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, reduction: MulticastReduction },
        /// Writes the tile to the memory of each device, or combines it there. Result: token.
        MulticastStore "multicast_store" { tile: Value, view: Value, index: Vec<Value>, token: Option<Value>, order: Order, in_bounds: Vec<bool>, write: MulticastWrite },
        /// Element by element; where the mask is false the element is `other`, or unspecified. Results: tile, token.
        Load "load" { ptr: Value, mask: Option<Value>, other: Option<Value>, token: Option<Value>, order: Order, hints: Vec<AccessHint> },
        /// Result: token.
        Store "store" { ptr: Value, value: Value, mask: Option<Value>, token: Option<Value>, order: Order, hints: Vec<AccessHint> },
        /// Results: the old elements, token.
        AtomicRmw "atomic_rmw" { ptr: Value, value: Value, mask: Option<Value>, token: Option<Value>, order: Order, mode: AtomicMode },
        /// Compares bits. Results: the old elements, token.
        AtomicCas "atomic_cas" { ptr: Value, compare: Value, value: Value, mask: Option<Value>, token: Option<Value>, order: Order },

        /// Combines the elements along `dim`. The body takes for each operand a left and a right value, each an element or the
        /// result of a combination, and yields one. The left value starts at a lower index. The body
        /// must be associative. Apart from that rule, elements may be combined in any order, and the identities may be operands of
        /// further combinations.
        Reduce "reduce" { operands: Vec<Value>, dim: u32, identities: Vec<Identity>, body: Region },
        /// The inclusive prefix scan along `dim`, from the end if `reverse`. The body takes for each operand the prefix so far and
        /// the next value, and yields their combination. The prefix is the left value: it combines the elements at lower indices,
        /// or with `reverse` at higher indices.
        Scan "scan" { operands: Vec<Value>, dim: u32, reverse: bool, identities: Vec<Identity>, body: Region },
        /// `acc + lhs * rhs`, with an optional leading batch dimension. `signed_lhs` and `signed_rhs` give the signedness of
        /// integer operands.
        Mma "mma" { lhs: Value, rhs: Value, acc: Value, signed_lhs: bool, signed_rhs: bool, fast_acc: bool },
        /// Each block of elements along K is multiplied by its scale. Bytes are pairs of 4-bit floats along K, the lower half
        /// first.
        MmaScaled "mma_scaled" { lhs: Value, rhs: Value, acc: Value, lhs_scale: Value, rhs_scale: Value },
    }
}

impl Op {
    pub fn is_pure(&self) -> bool {
        match self {
            Op::Core(core) => core.is_pure(),
            Op::Reduce { .. } | Op::Scan { .. } | Op::Mma { .. } | Op::MmaScaled { .. } => true,
            _ => false,
        }
    }

    /// The values that a terminator forwards to its target.
    pub fn forwarded_values(&self) -> Option<&[Value]> {
        match self {
            Op::Core(Core::Yield { values } | Core::Continue { values } | Core::Break { values }) => Some(values),
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
