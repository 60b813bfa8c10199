//! Infers the roles of a kernel's parameters from its views. A parameter is an array, an extent or a stride of an array, or another
//! number.

use base::ir::Operation;
use base::{Op as OpId, Value};
use numerics::Scalar;
use std::collections::{BTreeMap, BTreeSet};
use tileir::types::{Attribute, DYNAMIC, Element};
use tileir::{Function, Module, Op, Type};

/// A size or stride of a tensor view: a constant, or the index of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SizeOrStride {
    Constant(i64),
    Param(usize),
}

/// A tensor view of an array parameter.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) sizes: Vec<SizeOrStride>,
    pub(crate) strides: Vec<SizeOrStride>,
    /// For each dimension, the largest tile extent among the views based on this tensor view; 1 if there is none.
    pub(crate) tile_extents: Vec<i64>,
}

/// A parameter of a kernel: the pointer of an array, with its views, or an integer with its assumed divisor.
#[derive(Clone, Debug)]
pub(crate) enum Param {
    Array { element: Scalar, views: Vec<View> },
    Number { ty: Scalar, divisor: i64 },
}

/// The parameters and properties of a kernel from which its launches are generated.
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) params: Vec<Param>,
    /// The number of grid axes that the kernel uses: one more than the last axis whose tile block index it reads.
    pub(crate) grid_axes: usize,
    /// The coarsest relative rounding step of intermediate values; 0 if the kernel rounds no intermediate value to a coarser type.
    /// A small error before such a rounding can become an error of a full step.
    pub(crate) rounding_step: f64,
}

impl Kernel {
    /// Analyses a kernel. Returns `None` if a parameter is neither a number nor a pointer.
    pub(crate) fn analyze(module: &Module, function: &Function) -> Option<Kernel> {
        let analysis = KernelAnalysis { module, function };
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
        analysis.record_divisors(&ops, &mut params);
        for (param_index, view) in analysis.views(&ops) {
            if let Param::Array { views, .. } = &mut params[param_index] {
                views.push(view);
            }
        }
        let name = module.string(function.name).to_string();
        Some(Kernel { name, params, grid_axes: analysis.grid_axes(&ops), rounding_step: analysis.rounding_step(&ops) })
    }
}

/// Analyses the ops of one kernel.
struct KernelAnalysis<'a> {
    module: &'a Module,
    function: &'a Function,
}

impl KernelAnalysis<'_> {
    /// Returns the coarsest relative rounding step of the conversions to a coarser float type whose results the kernel uses for
    /// more than stores.
    fn rounding_step(&self, ops: &[OpId]) -> f64 {
        let body = &self.function.body;
        let type_step = |value: Value| {
            let (element, _) = self.module.ty(*body.ty(value)).tile()?;
            Some(numerics::float::epsilon(element.scalar()?))
        };
        let is_store = |op: &Op| matches!(op, Op::StorePtrTko { .. } | Op::StoreViewTko { .. } | Op::MultimemStoreViewTko { .. });
        let non_stores = ops.iter().map(|op| &body.ops[*op].kind).filter(|op| !is_store(op));
        let used_outside_stores: BTreeSet<Value> = non_stores.flat_map(Operation::operands).collect();
        let rounding_steps = ops.iter().filter_map(|op| match &body.ops[*op].kind {
            Op::FToF { from, .. } if used_outside_stores.contains(&body.result(*op)) => {
                type_step(body.result(*op)).filter(|to| Some(*to) > type_step(*from))
            }
            _ => None,
        });
        rounding_steps.fold(0.0, f64::max)
    }

    /// Returns the index of the parameter that a value equals, directly or through `assume` ops.
    fn param_of(&self, mut value: Value) -> Option<usize> {
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

    /// Records the divisor that the kernel assumes of each integer parameter.
    fn record_divisors(&self, ops: &[OpId], params: &mut [Param]) {
        for op in ops {
            if let Op::Assume { predicate: Attribute::DivBy { divisor: by, every: None, .. }, value } =
                &self.function.body.ops[*op].kind
                && let Some(Param::Number { divisor, .. }) = self.param_of(*value).map(|index| &mut params[index])
            {
                *divisor = (*divisor).max(i64::try_from(*by).unwrap_or(1).clamp(1, 1 << 20));
            }
        }
    }

    /// Returns each tensor view with the index of its pointer parameter. Omits a view if one of its sizes or strides is neither a
    /// constant nor a parameter.
    fn views(&self, ops: &[OpId]) -> Vec<(usize, View)> {
        let body = &self.function.body;
        let mut views_by_value: BTreeMap<Value, (usize, View)> = BTreeMap::new();
        for op in ops {
            let node = &body.ops[*op];
            match &node.kind {
                Op::MakeTensorView { base, dynamic_shape, dynamic_strides } => {
                    let Type::TensorView { shape, strides, .. } = self.module.ty(*body.ty(node.results[0])) else { continue };
                    let resolve_all = |fixed: &[i64], values: &[Value]| {
                        let mut values = values.iter();
                        let size_or_stride = |number: &i64| match *number {
                            DYNAMIC => self.param_of(*values.next()?).map(SizeOrStride::Param),
                            constant => Some(SizeOrStride::Constant(constant)),
                        };
                        fixed.iter().map(size_or_stride).collect::<Option<Vec<_>>>()
                    };
                    if let (Some(param_index), Some(sizes), Some(strides)) =
                        (self.param_of(*base), resolve_all(shape, dynamic_shape), resolve_all(strides, dynamic_strides))
                    {
                        let tile_extents = vec![1; sizes.len()];
                        views_by_value.insert(node.results[0], (param_index, View { sizes, strides, tile_extents }));
                    }
                }
                Op::MakePartitionView { tensor_view }
                | Op::MakeStridedView { tensor_view }
                | Op::MakeGatherScatterView { tensor_view } => {
                    let Some((_, view)) = views_by_value.get_mut(tensor_view) else { continue };
                    let (tile, map): (&[i32], Vec<usize>) = match self.module.ty(*body.ty(node.results[0])) {
                        Type::PartitionView { tile, dim_map, .. } | Type::StridedView { tile, dim_map, .. } => {
                            (tile, dim_map.iter().map(|dim| *dim as usize).collect())
                        }
                        Type::GatherScatterView { tile, .. } => (tile, (0..tile.len()).collect()),
                        _ => continue,
                    };
                    for (extent, dim) in tile.iter().zip(map) {
                        view.tile_extents[dim] = view.tile_extents[dim].max(i64::from(*extent));
                    }
                }
                _ => {}
            }
        }
        views_by_value.into_values().collect()
    }

    /// Returns one more than the last axis whose tile block index the kernel uses; 0 if it uses none.
    fn grid_axes(&self, ops: &[OpId]) -> usize {
        let body = &self.function.body;
        let mut used_values = std::collections::BTreeSet::new();
        for op in ops {
            base::ir::Operation::for_each_operand(&body.ops[*op].kind, &mut |value| {
                used_values.insert(value);
            });
        }
        let block_id_ops = ops.iter().filter(|op| matches!(body.ops[**op].kind, Op::GetTileBlockId { .. }));
        let used_axes =
            block_id_ops.flat_map(|op| body.ops[*op].results.iter().enumerate().filter(|(_, result)| used_values.contains(result)));
        used_axes.map(|(axis, _)| axis + 1).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the rounding step of a kernel that converts an f32 `%x` to the type `rounded`, as `%y`, and then executes
    /// `use_of_y`.
    fn rounding_step(rounded: &str, use_of_y: &str) -> f64 {
        let text = format!(
            "cuda_tile.module @m {{ entry @k(%p: tile<ptr<f32>>, %q: tile<ptr<bf16>>) {{
  %x, %t = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
  %y = ftof %x rounding<nearest_even> : tile<f32> -> tile<{rounded}>
  {use_of_y}
  return
}} }}"
        );
        let module = tileir::text::parse(&text, "k", 1, &mut Default::default()).unwrap();
        Kernel::analyze(&module, &module.functions[0]).unwrap().rounding_step
    }

    #[test]
    fn rounding_step_ignores_values_that_are_only_stored() {
        let store_y = "%u = store_ptr_tko weak %q, %y : tile<ptr<bf16>>, tile<bf16> -> token";
        assert_eq!(rounding_step("bf16", store_y), 0.0);
        let convert_y_back = |from: &str| format!("%z = ftof %y rounding<nearest_even> : tile<{from}> -> tile<f32>");
        assert_eq!(rounding_step("bf16", &convert_y_back("bf16")), 1.0 / 128.0);
        assert_eq!(rounding_step("tf32", &convert_y_back("tf32")), 1.0 / 1024.0);
    }
}
