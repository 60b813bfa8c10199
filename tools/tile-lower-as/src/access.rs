//! How wide each memory access may be, and the layout in which it would be widest.
//!
//! An access of `1 << bits` neighbouring elements is allowed when its address is a multiple of its size and bounds cut only
//! between such groups.

use base::core_ops::{Core, Fact};
use base::ir::Op as OpId;
use base::tile::{Dense, View, ViewKind};
use base::{Value, arith};
use std::collections::BTreeMap;
use tileaa::{Function, Op, Type};
use tileas::Layout;
use tileas::layout::Strides;

/// The widest access of a thread, in bytes.
const WIDEST: u32 = 16;

pub(crate) struct Access {
    pub(crate) vector_bits: u32,
    pub(crate) layout: Layout,
}

/// The accesses of a function, by op.
pub(crate) struct Accesses(BTreeMap<OpId, Access>);

impl Accesses {
    pub(crate) fn of(function: &Function, warp_bits: usize) -> Accesses {
        let divisors = Divisors { function };
        let accesses = function.body.walk(function.region).into_iter().filter_map(|op| {
            let view = match &function.body.ops[op].kind {
                Op::LoadView { view, .. } | Op::StoreView { view, .. } => *view,
                _ => return None,
            };
            Some((op, divisors.view_access(view, warp_bits)))
        });
        Accesses(accesses.collect())
    }
    pub(crate) fn get(&self, op: OpId) -> Option<&Access> {
        self.0.get(&op)
    }
}

/// A layout with the bits in `order`, whose vectors are as wide as allowed but leave no thread idle.
pub(crate) fn blocked(order: &[u32], widest_bits: u32, warp_bits: usize) -> (u32, Layout) {
    let threads = (tileas::layout::LANE_BITS + warp_bits) as u32;
    let vector_bits = widest_bits.min((order.len() as u32).saturating_sub(threads));
    (vector_bits, Layout::blocked(order, vector_bits as usize, warp_bits))
}

/// The layout of a tile that no access shaped: rows along lanes.
pub(crate) fn default_layout(shape: &[u32], bytes: u32, warp_bits: usize) -> Layout {
    let bits: u32 = shape.iter().map(|extent| extent.trailing_zeros()).sum();
    let order: Vec<u32> = (0..bits).collect();
    let row = shape.last().map_or(0, |extent| extent.trailing_zeros());
    blocked(&order, (WIDEST / bytes.clamp(1, WIDEST)).trailing_zeros().min(row), warp_bits).1
}

/// What the facts say about multiples.
struct Divisors<'a> {
    function: &'a Function,
}

impl Divisors<'_> {
    fn view_access(&self, value: Value, warp_bits: usize) -> Access {
        let Type::View(view) = self.function.body.ty(value) else { unreachable!("the verifier holds that views are views") };
        let strides = Strides::of(&view.tile);
        let gathers = |t: usize| matches!(view.kind, ViewKind::Gather { sparse_dim } if sparse_dim as usize == t);
        let contiguous = (0..view.tile.len()).find(|&t| view.memref.strides[view.dim_map[t] as usize] == Some(1) && !gathers(t));
        let widest = contiguous.map_or(0, |t| self.widest(value, view, t));
        let others = (0..view.tile.len()).rev().filter(|t| Some(*t) != contiguous);
        let order: Vec<u32> = contiguous.into_iter().chain(others).flat_map(|t| strides.dim_bits(t)).collect();
        let (vector_bits, layout) = blocked(&order, widest, warp_bits);
        Access { vector_bits, layout }
    }

    /// Log2 of the elements that one access along tile dimension `t` may take.
    fn widest(&self, value: Value, view: &View, t: usize) -> u32 {
        let bytes = u64::from(view.memref.elem.bytes());
        let dim = view.dim_map[t] as usize;
        let Some((base, sizes, strides)) = self.memref_operands(value) else { return 0 };
        let mut elements = (u64::from(WIDEST) / bytes).min(u64::from(view.tile[t])).min(self.divisor(base) / bytes);
        elements = elements.min(u64::from(view.kind.step(&view.tile, t)) & u64::from(view.kind.step(&view.tile, t)).wrapping_neg());
        elements = elements.min(lowest_bit(self.dimension(&view.memref.sizes, &sizes, dim)));
        for other in (0..view.memref.strides.len()).filter(|other| *other != dim) {
            elements = elements.min(lowest_bit(self.dimension(&view.memref.strides, &strides, other)));
        }
        elements.max(1).ilog2()
    }

    fn memref_operands(&self, view: Value) -> Option<(Value, Vec<Value>, Vec<Value>)> {
        let op = |value: Value| Some(&self.function.body.ops[self.function.body.defining_op(value)?].kind);
        let Some(Op::Core(Core::MakeView { memref })) = op(view) else { return None };
        let Some(Op::Core(Core::MakeMemRef { base, sizes, strides })) = op(*memref) else { return None };
        Some((*base, sizes.clone(), strides.clone()))
    }

    /// What the extent or stride of a dimension is a multiple of, static or not.
    fn dimension(&self, known: &[Option<u64>], operands: &[Value], dim: usize) -> u64 {
        match known[dim] {
            Some(value) => value,
            None => self.divisor(operands[known[..dim].iter().filter(|known| known.is_none()).count()]),
        }
    }

    /// A power of two that divides the value.
    fn divisor(&self, value: Value) -> u64 {
        let Some(op) = self.function.body.defining_op(value) else { return 1 };
        match &self.function.body.ops[op].kind {
            Op::Core(Core::Assume { value, fact: Fact::DivBy { divisor, every: None, along: None } }) => {
                lowest_bit(*divisor).max(self.divisor(*value))
            }
            Op::Core(Core::Assume { value, .. }) => self.divisor(*value),
            Op::Core(Core::Constant { value: Dense::Splat(bits) }) => lowest_bit(*bits),
            Op::Core(Core::Binary { kind: arith::Binary::MulI { .. }, lhs, rhs }) => {
                self.divisor(*lhs).saturating_mul(self.divisor(*rhs)).min(1 << 62)
            }
            Op::Core(Core::Binary { kind: arith::Binary::AddI { .. } | arith::Binary::SubI { .. }, lhs, rhs }) => {
                self.divisor(*lhs).min(self.divisor(*rhs))
            }
            _ => 1,
        }
    }
}

/// The largest power of two that divides a number; a large one for 0.
fn lowest_bit(number: u64) -> u64 {
    if number == 0 { 1 << 62 } else { number & number.wrapping_neg() }
}
