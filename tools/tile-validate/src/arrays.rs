//! Infers the meaning of a kernel's parameters from its views: arrays, their extents and strides, and their tile sizes.

use base::ir::Operation;
use base::{Op as OpId, Value};
use numerics::Scalar;
use std::collections::{BTreeMap, BTreeSet};
use tileir::types::{Attribute, DYNAMIC, Element};
use tileir::{Function, Module, Op, Type};

/// An extent or stride of a view: a constant or a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Constant(i64),
    Param(usize),
}

/// A view of an array in the kernel.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) sizes: Vec<Number>,
    pub(crate) strides: Vec<Number>,
    /// Tile extents.
    pub(crate) tiles: Vec<i64>,
}

#[derive(Clone, Debug)]
pub(crate) enum Param {
    Array { element: Scalar, views: Vec<View> },
    Number { ty: Scalar, divisor: i64 },
}

/// The parameters of a kernel, and the grid axes whose block index it reads.
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) params: Vec<Param>,
    pub(crate) axes: usize,
    /// The coarsest rounding step of intermediate float types: a small error before a rounding can become a full step after it.
    pub(crate) step: f64,
}

impl Kernel {
    /// Analyses a kernel; none if a parameter is neither a number nor a pointer.
    pub(crate) fn of(module: &Module, function: &Function) -> Option<Kernel> {
        let reader = Reader { module, function };
        let mut params = Vec::new();
        for value in function.params() {
            let Type::Tile { element, shape } = module.ty(*function.body.ty(*value)) else { return None };
            params.push(match element {
                _ if !shape.is_empty() => return None,
                Element::Scalar(ty) => Param::Number { ty: *ty, divisor: 1 },
                Element::Ptr(pointer) => Param::Array { element: pointer.pointee, views: Vec::new() },
            });
        }
        let ops = function.body.walk(function.region);
        reader.divisors(&ops, &mut params);
        for (root, view) in reader.views(&ops) {
            if let Param::Array { views, .. } = &mut params[root] {
                views.push(view);
            }
        }
        let name = module.string(function.name).to_string();
        Some(Kernel { name, params, axes: reader.axes(&ops), step: reader.step(&ops) })
    }
}

struct Reader<'a> {
    module: &'a Module,
    function: &'a Function,
}

impl Reader<'_> {
    fn step(&self, ops: &[OpId]) -> f64 {
        let body = &self.function.body;
        let step = |value: Value| {
            let (element, _) = self.module.ty(*body.ty(value)).tile()?;
            Some(numerics::float::epsilon(element.scalar()?))
        };
        let stores = |op: &Op| matches!(op, Op::StorePtrTko { .. } | Op::StoreViewTko { .. } | Op::MultimemStoreViewTko { .. });
        let computing = ops.iter().map(|op| &body.ops[*op].kind).filter(|op| !stores(op));
        let used: BTreeSet<Value> = computing.flat_map(Operation::operands).collect();
        let rounded = ops.iter().filter_map(|op| match &body.ops[*op].kind {
            Op::FToF { from, .. } if used.contains(&body.result(*op)) => {
                step(body.result(*op)).filter(|to| Some(*to) > step(*from))
            }
            _ => None,
        });
        rounded.fold(0.0, f64::max)
    }

    /// The parameter that a value is, perhaps with assumptions.
    fn param(&self, mut value: Value) -> Option<usize> {
        loop {
            if let Some(index) = self.function.params().iter().position(|param| *param == value) {
                return Some(index);
            }
            value = match &self.function.body.ops[self.function.body.defining_op(value)?].kind {
                Op::Assume { value, .. } => *value,
                _ => return None,
            };
        }
    }

    fn divisors(&self, ops: &[OpId], params: &mut [Param]) {
        for op in ops {
            if let Op::Assume { predicate: Attribute::DivBy { divisor: by, every: None, .. }, value } =
                &self.function.body.ops[*op].kind
                && let Some(Param::Number { divisor, .. }) = self.param(*value).map(|index| &mut params[index])
            {
                *divisor = (*divisor).max(i64::try_from(*by).unwrap_or(1).clamp(1, 1 << 20));
            }
        }
    }

    /// Each view with the pointer parameter that it is based on; sizes and strides that are computed count as unknown, and the view
    /// is left out.
    fn views(&self, ops: &[OpId]) -> Vec<(usize, View)> {
        let body = &self.function.body;
        let mut found: BTreeMap<Value, (usize, View)> = BTreeMap::new();
        for op in ops {
            let node = &body.ops[*op];
            match &node.kind {
                Op::MakeTensorView { base, dynamic_shape, dynamic_strides } => {
                    let Type::TensorView { shape, strides, .. } = self.module.ty(*body.ty(node.results[0])) else { continue };
                    let numbers = |fixed: &[i64], values: &[Value]| {
                        let mut values = values.iter();
                        let one = |number: &i64| match *number {
                            DYNAMIC => self.param(*values.next()?).map(Number::Param),
                            known => Some(Number::Constant(known)),
                        };
                        fixed.iter().map(one).collect::<Option<Vec<_>>>()
                    };
                    if let (Some(root), Some(sizes), Some(strides)) =
                        (self.param(*base), numbers(shape, dynamic_shape), numbers(strides, dynamic_strides))
                    {
                        let tiles = vec![1; sizes.len()];
                        found.insert(node.results[0], (root, View { sizes, strides, tiles }));
                    }
                }
                Op::MakePartitionView { tensor_view }
                | Op::MakeStridedView { tensor_view }
                | Op::MakeGatherScatterView { tensor_view } => {
                    let Some((_, view)) = found.get_mut(tensor_view) else { continue };
                    let (tile, map): (&[i32], Vec<usize>) = match self.module.ty(*body.ty(node.results[0])) {
                        Type::PartitionView { tile, dim_map, .. } | Type::StridedView { tile, dim_map, .. } => {
                            (tile, dim_map.iter().map(|dim| *dim as usize).collect())
                        }
                        Type::GatherScatterView { tile, .. } => (tile, (0..tile.len()).collect()),
                        _ => continue,
                    };
                    for (extent, dim) in tile.iter().zip(map) {
                        view.tiles[dim] = view.tiles[dim].max(i64::from(*extent));
                    }
                }
                _ => {}
            }
        }
        found.into_values().collect()
    }

    /// One more than the last axis along which a block asks where it is; none when all blocks do the same.
    fn axes(&self, ops: &[OpId]) -> usize {
        let body = &self.function.body;
        let mut used = std::collections::BTreeSet::new();
        for op in ops {
            base::ir::Operation::for_each_operand(&body.ops[*op].kind, &mut |value| {
                used.insert(value);
            });
        }
        let places = ops.iter().filter(|op| matches!(body.ops[**op].kind, Op::GetTileBlockId { .. }));
        let axes = places.flat_map(|op| body.ops[*op].results.iter().enumerate().filter(|(_, result)| used.contains(result)));
        axes.map(|(axis, _)| axis + 1).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The step of a kernel that rounds a number in one way and then does this with it.
    fn step(rounded: &str, then: &str) -> f64 {
        let text = format!(
            "cuda_tile.module @m {{ entry @k(%p: tile<ptr<f32>>, %q: tile<ptr<bf16>>) {{
  %x, %t = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
  %y = ftof %x rounding<nearest_even> : tile<f32> -> tile<{rounded}>
  {then}
  return
}} }}"
        );
        let module = tileir::text::parse(&text, "k", 1, &mut Default::default()).unwrap();
        Kernel::of(&module, &module.functions[0]).unwrap().step
    }

    #[test]
    fn rounded_then_stored_values_are_not_intermediate() {
        let stored = "%u = store_ptr_tko weak %q, %y : tile<ptr<bf16>>, tile<bf16> -> token";
        assert_eq!(step("bf16", stored), 0.0);
        let back = |from: &str| format!("%z = ftof %y rounding<nearest_even> : tile<{from}> -> tile<f32>");
        assert_eq!(step("bf16", &back("bf16")), 1.0 / 128.0);
        assert_eq!(step("tf32", &back("tf32")), 1.0 / 1024.0);
    }
}
