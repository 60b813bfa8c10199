//! Generates launches from the inferred parameters of a kernel. The cases have several sizes, full and partial tiles, and several
//! kinds of array contents.

use crate::arrays::{Kernel, Param, SizeOrStride, View};
use base::diag::{Diagnostic, Result};
use differential::Output;
use numerics::Scalar;
use numerics::arith::Rounding;
use numerics::float::{OverflowResult, encode};
use serde_json::{Value, json};
use std::path::Path;

/// A generated launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// Number of tiles along each dimension of each array.
    tiles: i64,
    /// Whether the last tile is partial.
    is_partial: bool,
    contents: InputKind,
}

/// The kind of the contents of all arrays of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
enum InputKind {
    /// Floats in [-1, 1).
    SignedRange,
    Zeros,
    /// Floats with integer values from -4 to 4. In most formats their dot products are exact in any order.
    SmallIntegers,
    /// Numbers of both signs. One float in eight is special: an infinity, a NaN, a negative zero or the smallest subnormal.
    Edges,
}

/// Returns a case with `tiles` tiles along each dimension.
const fn new_case(tiles: i64, is_partial: bool, contents: InputKind) -> Case {
    Case { tiles, is_partial, contents }
}

/// The generated launches of every kernel.
pub(crate) const CASES: [Case; 7] = [
    new_case(1, false, InputKind::SignedRange),
    new_case(2, false, InputKind::SignedRange),
    new_case(2, true, InputKind::SignedRange),
    new_case(3, true, InputKind::SmallIntegers),
    // More tiles than the prologue of a pipelined loop loads.
    new_case(9, true, InputKind::SignedRange),
    new_case(1, true, InputKind::Zeros),
    new_case(1, true, InputKind::Edges),
];

/// The tile extent that is assumed for a dimension whose tile extent is unknown or 1.
const DEFAULT_TILE_EXTENT: i64 = 64;
/// The number of elements of an array without a view.
const DEFAULT_ARRAY_ELEMENTS: i64 = 1 << 16;
/// Maximum number of tile blocks along a grid axis. Three blocks include a first, a middle and a last one.
const MAX_BLOCKS_PER_AXIS: i64 = 3;
/// Size limit of an array, in elements.
const MAX_ARRAY_ELEMENTS: i64 = 1 << 22;

impl Case {
    /// Returns the description of the case for messages.
    pub(crate) fn describe(&self) -> String {
        let partial = if self.is_partial { ", the last one partial" } else { "" };
        let contents = match self.contents {
            InputKind::SignedRange => "numbers around zero",
            InputKind::Zeros => "zeros, mixed with other numbers for integers",
            InputKind::SmallIntegers => "small integers",
            InputKind::Edges => "numbers of both signs, infinities and NaNs",
        };
        format!("{} tiles along each dimension{partial}; {contents}", self.tiles)
    }

    /// Writes the launch description and the input files to a folder, and returns the outputs to compare. Returns `None` if a size
    /// of the kernel is unknown, or an array would be too large.
    pub(crate) fn write(&self, kernel: &Kernel, tolerance: f64, folder: &Path) -> Result<Option<Vec<Output>>> {
        let Some(param_values) = self.integer_values(kernel) else { return Ok(None) };
        let (mut buffers, mut params, mut outputs) = (Vec::new(), Vec::new(), Vec::new());
        for (index, param) in kernel.params.iter().enumerate() {
            match param {
                Param::Number { ty, .. } if ty.is_int() => params.push(integer_argument(*ty, param_values[index])),
                Param::Number { ty, .. } => params.push(json!({ ty.name(): 0.75 })),
                Param::Array { element, views } => {
                    let elements =
                        views.iter().map(|view| element_span(view, &param_values)).max().unwrap_or(DEFAULT_ARRAY_ELEMENTS);
                    if !(0..=MAX_ARRAY_ELEMENTS).contains(&elements) {
                        return Ok(None);
                    }
                    let name = format!("arg{index}");
                    let bytes = self.array_bytes(*element, elements as usize, index as u64 + 1);
                    common::write_file(Some(&folder.join(format!("{name}.in"))), &bytes)?;
                    buffers.push(json!({ "name": name, "file": format!("{name}.in") }));
                    params.push(json!({ "ptr": name }));
                    outputs.push(Output {
                        name,
                        scalar: *element,
                        tolerance: tolerance * error_bound(*element, kernel.rounding_step),
                        expected: None,
                    });
                }
            }
        }
        // If a kernel reads no tile block index, all its tile blocks behave the same, so one tile block is enough.
        let grid = if kernel.grid_axes == 0 { vec![1] } else { vec![self.tiles.min(MAX_BLOCKS_PER_AXIS); kernel.grid_axes] };
        let launch = json!({ "entry": kernel.name, "grid": grid, "buffers": buffers, "params": params });
        common::write_file(Some(&folder.join("launch.json")), launch.to_string().as_bytes())?;
        Ok(Some(outputs))
    }

    /// Returns the values of all integer parameters. This function computes the sizes first, because strides depend on them.
    fn integer_values(&self, kernel: &Kernel) -> Option<Vec<i64>> {
        let mut param_values = vec![None; kernel.params.len()];
        let divisor = |index: usize| match &kernel.params[index] {
            Param::Number { divisor, .. } => *divisor,
            Param::Array { .. } => 1,
        };
        let views: Vec<&View> =
            kernel.params.iter().flat_map(|param| if let Param::Array { views, .. } = param { &views[..] } else { &[] }).collect();
        for view in &views {
            for (size, tile_extent) in view.sizes.iter().zip(&view.tile_extents) {
                if let SizeOrStride::Param(index) = size {
                    let tile_extent = if *tile_extent == 1 { DEFAULT_TILE_EXTENT } else { *tile_extent };
                    let divisor = divisor(*index);
                    let full_size = round_up(tile_extent * self.tiles, divisor);
                    let case_size =
                        if self.is_partial { (full_size - tile_extent / 3 - 1).max(1) / divisor * divisor } else { full_size };
                    param_values[*index] = Some(param_values[*index].unwrap_or(0).max(case_size.max(divisor)));
                }
            }
        }
        for view in &views {
            let mut inner_span = 1;
            for dim in dims_inner_first(view) {
                let size = known_value(view.sizes[dim], &param_values)?;
                let stride = match view.strides[dim] {
                    SizeOrStride::Constant(stride) => stride,
                    // In cases with partial tiles, the stride leaves a gap after each row.
                    SizeOrStride::Param(index) => {
                        *param_values[index].insert(round_up(inner_span + i64::from(self.is_partial), divisor(index)))
                    }
                };
                inner_span = inner_span.max(stride.checked_mul(size)?);
            }
        }
        // Other parameters may be counts or offsets, so their values are small.
        Some(
            param_values
                .into_iter()
                .enumerate()
                .map(|(index, number)| number.unwrap_or_else(|| round_up(self.tiles, divisor(index))))
                .collect(),
        )
    }

    /// Returns the contents of an array parameter. The seed selects the pseudo-random sequence.
    fn array_bytes(&self, element: Scalar, count: usize, seed: u64) -> Vec<u8> {
        let element_bytes = element.bytes() as usize;
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut out = Vec::with_capacity(count * element_bytes);
        for index in 0..count as u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let signed_unit = (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
            let bits = match self.contents {
                InputKind::Edges if element.is_int() && state >> 63 == 0 => {
                    small_integer(index, seed).wrapping_neg() & element.mask()
                }
                InputKind::Zeros if element.is_int() => small_integer(index, seed) % 3 & element.mask(),
                // Small, because integers may be indices or shift counts. Not zero, because a division by zero is undefined.
                _ if element.is_int() => small_integer(index, seed) & element.mask(),
                InputKind::Zeros => 0,
                InputKind::SignedRange => encode(element, signed_unit, Rounding::NearestEven, OverflowResult::Saturate),
                InputKind::SmallIntegers => {
                    encode(element, (signed_unit * 4.0).round(), Rounding::NearestEven, OverflowResult::Saturate)
                }
                // One element in eight is special, so that most results that depend on a few elements are not NaN.
                InputKind::Edges if state >> 61 == 0 => special_float(element, state >> 58 & 7),
                InputKind::Edges => encode(element, signed_unit * 4.0, Rounding::NearestEven, OverflowResult::Saturate),
            };
            out.extend(&bits.to_le_bytes()[..element_bytes]);
        }
        out
    }
}

/// Returns an integer from 1 to 7 that depends on the element index and the seed.
fn small_integer(index: u64, seed: u64) -> u64 {
    (index * 5 + seed) % 7 + 1
}

/// Returns the bits of a special float. If the format lacks it, `encode` returns the nearest value that the format has.
fn special_float(element: Scalar, selector: u64) -> u64 {
    let value = match selector {
        0 => f64::INFINITY,
        1 => f64::NEG_INFINITY,
        2 | 3 => f64::NAN,
        4 | 5 => -0.0,
        _ => 2f64.powi(-1074),
    };
    encode(element, value, Rounding::PositiveInf, OverflowResult::Ieee)
}

/// Returns the default tolerance of an output with elements of a type: the relative error of another accumulation order. The
/// tolerance is larger if the kernel rounds intermediate values to a type with coarser steps.
fn error_bound(element: Scalar, rounding_step: f64) -> f64 {
    /// Upper bound of the tolerance. With a larger tolerance, the comparison would accept most results.
    const MAX_TOLERANCE: f64 = 0.3;
    /// The expected error of a result in steps of the intermediate type, if its addends are rounded in the other direction.
    const ERROR_STEPS: f64 = 8.0;
    let type_tolerance = match element.bytes() {
        _ if element.is_int() => return 0.0,
        1 => MAX_TOLERANCE,
        2 => 0.03,
        4 => 2e-3,
        _ => 1e-9,
    };
    type_tolerance.max((ERROR_STEPS * rounding_step).min(MAX_TOLERANCE))
}

/// Returns the dimensions of a view from the innermost to the outermost. Dimensions with a constant stride come first, in order of
/// stride. Dimensions whose stride is a parameter follow, from the last to the first.
fn dims_inner_first(view: &View) -> Vec<usize> {
    let mut dims: Vec<usize> = (0..view.sizes.len()).rev().collect();
    dims.sort_by_key(|dim| if let SizeOrStride::Constant(stride) = view.strides[*dim] { stride } else { i64::MAX });
    dims
}

/// Rounds a number up to a multiple of the divisor.
fn round_up(number: i64, divisor: i64) -> i64 {
    (number + divisor - 1) / divisor * divisor
}

/// Returns the value of a size or stride: the constant, or the value of the parameter; `None` if the parameter has no value yet.
fn known_value(number: SizeOrStride, param_values: &[Option<i64>]) -> Option<i64> {
    match number {
        SizeOrStride::Constant(number) => Some(number),
        SizeOrStride::Param(index) => param_values[index],
    }
}

/// Returns the number of elements in memory from the first to the last element of a view.
fn element_span(view: &View, param_values: &[i64]) -> i64 {
    let resolve = |number: SizeOrStride| match number {
        SizeOrStride::Constant(number) => number,
        SizeOrStride::Param(index) => param_values[index],
    };
    let last_offset = view.sizes.iter().zip(&view.strides).try_fold(0i64, |sum, (size, stride)| {
        (resolve(*size).max(1) - 1).checked_mul(resolve(*stride)).and_then(|steps| sum.checked_add(steps))
    });
    last_offset.map_or(i64::MAX, |last_offset| last_offset.saturating_add(1))
}

/// Returns an integer argument in the form of a launch description.
fn integer_argument(ty: Scalar, number: i64) -> Value {
    if ty == Scalar::I1 { json!({ "i1": number % 2 == 1 }) } else { json!({ ty.name(): number }) }
}

/// Writes the launch of `--launch`, with its input arrays, to a folder. Returns the outputs to compare: all buffers that the launch
/// passes to array parameters.
pub(crate) fn copy_given_launch(path: &Path, kernel: &Kernel, tolerance: f64, folder: &Path) -> Result<Vec<Output>> {
    let launch = common::launch::Launch::read(path)?;
    let mut launch_json = serde_json::to_value(&launch).expect("a launch is plain data");
    for (buffer, buffer_json) in launch.buffers.iter().zip(launch_json["buffers"].as_array_mut().into_iter().flatten()) {
        let mut bytes = vec![0; buffer.contents.len()];
        buffer.contents.read(0, &mut bytes);
        common::write_file(Some(&folder.join(format!("{}.in", buffer.name))), &bytes)?;
        *buffer_json =
            json!({ "name": buffer.name, "file": format!("{}.in", buffer.name), "align": buffer.align, "address": buffer.address });
    }
    launch_json["outputs"] = Value::Null;
    launch_json["entry"] = json!(kernel.name);
    common::write_file(Some(&folder.join("launch.json")), launch_json.to_string().as_bytes())?;
    let mut outputs: Vec<Output> = Vec::new();
    for (argument, param) in launch.params.iter().zip(&kernel.params) {
        if let (common::launch::Param::Ptr(name), Param::Array { element, .. }) = (argument, param)
            && outputs.iter().all(|output| output.name != *name)
        {
            outputs.push(Output {
                name: name.clone(),
                scalar: *element,
                tolerance: tolerance * error_bound(*element, kernel.rounding_step),
                expected: None,
            });
        }
    }
    match outputs.is_empty() {
        true => Err(Diagnostic::usage("VAL003", format!("{} passes no buffer to the kernel", path.display()))),
        false => Ok(outputs),
    }
}
