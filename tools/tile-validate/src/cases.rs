//! Generates launches from the inferred parameters of a kernel: several sizes, full and partial tiles, and several kinds of
//! contents.

use crate::arrays::{Kernel, Number, Param, View};
use base::diag::{Diagnostic, Result};
use differential::Output;
use numerics::Scalar;
use numerics::arith::Rounding;
use numerics::float::{Overflow, encode};
use serde_json::{Value, json};
use std::path::Path;

/// One launch to try.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// Tiles along each dimension of each array.
    tiles: i64,
    /// Whether the last tile is partial.
    cut: bool,
    contents: InputKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum InputKind {
    SignedRange,
    Zeros,
    /// Dot products of these are exact in any order, in most formats.
    SmallIntegers,
    /// Numbers of both signs, and of floats what is special about them: infinities, no numbers, zeros with a sign, the smallest.
    Edges,
}

const fn case(tiles: i64, cut: bool, contents: InputKind) -> Case {
    Case { tiles, cut, contents }
}

pub(crate) const CASES: [Case; 7] = [
    case(1, false, InputKind::SignedRange),
    case(2, false, InputKind::SignedRange),
    case(2, true, InputKind::SignedRange),
    case(3, true, InputKind::SmallIntegers),
    // More than a pipelined loop fetches before its first iteration.
    case(9, true, InputKind::SignedRange),
    case(1, true, InputKind::Zeros),
    case(1, true, InputKind::Edges),
];

/// Extent of a dimension without a known tile size, and of an array without a view.
const ANY_EXTENT: i64 = 64;
const ANY_ARRAY: i64 = 1 << 16;
/// Maximum number of blocks along a grid axis; further blocks behave alike.
const MOST_BLOCKS: i64 = 3;
/// Size limit of an array, in elements.
const MOST: i64 = 1 << 22;

impl Case {
    pub(crate) fn describe(&self) -> String {
        let cut = if self.cut { ", the last one partial" } else { "" };
        let contents = match self.contents {
            InputKind::SignedRange => "numbers around zero",
            InputKind::Zeros => "zeros, mixed with other numbers for integers",
            InputKind::SmallIntegers => "small integers",
            InputKind::Edges => "numbers of both signs, infinities and NaNs",
        };
        format!("{} tiles along each dimension{cut}; {contents}", self.tiles)
    }

    /// Writes the launch; returns the outputs to compare. None if too little is known of the kernel, or the arrays would be too large.
    pub(crate) fn write(&self, kernel: &Kernel, tolerance: f64, folder: &Path) -> Result<Option<Vec<Output>>> {
        let Some(numbers) = self.numbers(kernel) else { return Ok(None) };
        let (mut buffers, mut params, mut outputs) = (Vec::new(), Vec::new(), Vec::new());
        for (index, param) in kernel.params.iter().enumerate() {
            match param {
                Param::Number { ty, .. } if ty.is_int() => params.push(number(*ty, numbers[index])),
                Param::Number { ty, .. } => params.push(json!({ ty.name(): 0.75 })),
                Param::Array { element, views } => {
                    let elements = views.iter().map(|view| extent(view, &numbers)).max().unwrap_or(ANY_ARRAY);
                    if !(0..=MOST).contains(&elements) {
                        return Ok(None);
                    }
                    let name = format!("arg{index}");
                    let bytes = self.bytes(*element, elements as usize, index as u64 + 1);
                    common::write_file(Some(&folder.join(format!("{name}.in"))), &bytes)?;
                    buffers.push(json!({ "name": name, "file": format!("{name}.in") }));
                    params.push(json!({ "ptr": name }));
                    outputs.push(Output {
                        name,
                        scalar: *element,
                        tolerance: tolerance * loss(*element, kernel.step),
                        expected: None,
                    });
                }
            }
        }
        // A kernel that reads no block index behaves the same in every block.
        let grid = if kernel.axes == 0 { vec![1] } else { vec![self.tiles.min(MOST_BLOCKS); kernel.axes] };
        let launch = json!({ "entry": kernel.name, "grid": grid, "buffers": buffers, "params": params });
        common::write_file(Some(&folder.join("launch.json")), launch.to_string().as_bytes())?;
        Ok(Some(outputs))
    }

    /// The values of all integer parameters. Sizes come first, because strides depend on them.
    fn numbers(&self, kernel: &Kernel) -> Option<Vec<i64>> {
        let mut numbers = vec![None; kernel.params.len()];
        let divisor = |index: usize| match &kernel.params[index] {
            Param::Number { divisor, .. } => *divisor,
            Param::Array { .. } => 1,
        };
        let views: Vec<&View> =
            kernel.params.iter().flat_map(|param| if let Param::Array { views, .. } = param { &views[..] } else { &[] }).collect();
        for view in &views {
            for (size, tile) in view.sizes.iter().zip(&view.tiles) {
                if let Number::Param(index) = size {
                    let tile = if *tile == 1 { ANY_EXTENT } else { *tile };
                    let by = divisor(*index);
                    let full = multiple(tile * self.tiles, by);
                    let wanted = if self.cut { (full - tile / 3 - 1).max(1) / by * by } else { full };
                    numbers[*index] = Some(numbers[*index].unwrap_or(0).max(wanted.max(by)));
                }
            }
        }
        for view in &views {
            let mut inner = 1;
            for dim in order(view) {
                let size = value(view.sizes[dim], &numbers)?;
                let stride = match view.strides[dim] {
                    Number::Constant(stride) => stride,
                    // Rows need not follow each other without a gap.
                    Number::Param(index) => *numbers[index].insert(multiple(inner + i64::from(self.cut), divisor(index))),
                };
                inner = inner.max(stride.checked_mul(size)?);
            }
        }
        // Other numbers are small, as counts and offsets are.
        Some(
            numbers
                .into_iter()
                .enumerate()
                .map(|(index, number)| number.unwrap_or_else(|| multiple(self.tiles, divisor(index))))
                .collect(),
        )
    }

    fn bytes(&self, element: Scalar, count: usize, seed: u64) -> Vec<u8> {
        let size = element.bytes() as usize;
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut out = Vec::with_capacity(count * size);
        for index in 0..count as u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let unit = (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
            let bits = match self.contents {
                InputKind::Edges if element.is_int() && state >> 63 == 0 => small(index, seed).wrapping_neg() & element.mask(),
                InputKind::Zeros if element.is_int() => small(index, seed) % 3 & element.mask(),
                // Small, since they may be indices or counts of shifts, and else never zero, by which dividing means nothing.
                _ if element.is_int() => small(index, seed) & element.mask(),
                InputKind::Zeros => 0,
                InputKind::SignedRange => encode(element, unit, Rounding::NearestEven, Overflow::Saturate),
                InputKind::SmallIntegers => encode(element, (unit * 4.0).round(), Rounding::NearestEven, Overflow::Saturate),
                // Few enough that most of what is computed from rows of them is a number.
                InputKind::Edges if state >> 61 == 0 => special(element, state >> 58 & 7),
                InputKind::Edges => encode(element, unit * 4.0, Rounding::NearestEven, Overflow::Saturate),
            };
            out.extend(&bits.to_le_bytes()[..size]);
        }
        out
    }
}

/// A whole number that is small and not zero.
fn small(index: u64, seed: u64) -> u64 {
    (index * 5 + seed) % 7 + 1
}

/// The bits of a float that is special, if the format has such a one.
fn special(element: Scalar, which: u64) -> u64 {
    let value = match which {
        0 => f64::INFINITY,
        1 => f64::NEG_INFINITY,
        2 | 3 => f64::NAN,
        4 | 5 => -0.0,
        _ => 2f64.powi(-1074),
    };
    encode(element, value, Rounding::PositiveInf, Overflow::Ieee)
}

/// The error bound of reordered accumulation by rounding alone. Intermediate values may be rounded in larger steps.
fn loss(element: Scalar, step: f64) -> f64 {
    const MOST: f64 = 0.3;
    /// Steps that results are off where what they are summed from is rounded the other way.
    const STEPS: f64 = 8.0;
    let own = match element.bytes() {
        _ if element.is_int() => return 0.0,
        1 => MOST,
        2 => 0.03,
        4 => 2e-3,
        _ => 1e-9,
    };
    own.max((STEPS * step).min(MOST))
}

/// Dimensions from the innermost on: those whose stride is known first, the smaller before, then the last before the first.
fn order(view: &View) -> Vec<usize> {
    let mut dims: Vec<usize> = (0..view.sizes.len()).rev().collect();
    dims.sort_by_key(|dim| if let Number::Constant(stride) = view.strides[*dim] { stride } else { i64::MAX });
    dims
}

/// The number, or the next that is a multiple.
fn multiple(number: i64, divisor: i64) -> i64 {
    (number + divisor - 1) / divisor * divisor
}

fn value(number: Number, numbers: &[Option<i64>]) -> Option<i64> {
    match number {
        Number::Constant(number) => Some(number),
        Number::Param(index) => numbers[index],
    }
}

/// Elements from the first to the last of a view.
fn extent(view: &View, numbers: &[i64]) -> i64 {
    let known = |number: Number| match number {
        Number::Constant(number) => number,
        Number::Param(index) => numbers[index],
    };
    let last = view.sizes.iter().zip(&view.strides).try_fold(0i64, |sum, (size, stride)| {
        (known(*size).max(1) - 1).checked_mul(known(*stride)).and_then(|steps| sum.checked_add(steps))
    });
    last.map_or(i64::MAX, |last| last.saturating_add(1))
}

fn number(ty: Scalar, number: i64) -> Value {
    if ty == Scalar::I1 { json!({ "i1": number % 2 == 1 }) } else { json!({ ty.name(): number }) }
}

/// What is compared after a launch that was given, which is copied to the folder.
pub(crate) fn given(path: &Path, kernel: &Kernel, tolerance: f64, folder: &Path) -> Result<Vec<Output>> {
    let launch = common::launch::Launch::read(path)?;
    let mut described = serde_json::to_value(&launch).expect("a launch is plain data");
    for (buffer, row) in launch.buffers.iter().zip(described["buffers"].as_array_mut().into_iter().flatten()) {
        let mut bytes = vec![0; buffer.contents.len()];
        buffer.contents.read(0, &mut bytes);
        common::write_file(Some(&folder.join(format!("{}.in", buffer.name))), &bytes)?;
        *row =
            json!({ "name": buffer.name, "file": format!("{}.in", buffer.name), "align": buffer.align, "address": buffer.address });
    }
    described["outputs"] = Value::Null;
    described["entry"] = json!(kernel.name);
    common::write_file(Some(&folder.join("launch.json")), described.to_string().as_bytes())?;
    let mut outputs: Vec<Output> = Vec::new();
    for (given, param) in launch.params.iter().zip(&kernel.params) {
        if let (common::launch::Param::Ptr(name), Param::Array { element, .. }) = (given, param)
            && outputs.iter().all(|output| output.name != *name)
        {
            outputs.push(Output {
                name: name.clone(),
                scalar: *element,
                tolerance: tolerance * loss(*element, kernel.step),
                expected: None,
            });
        }
    }
    match outputs.is_empty() {
        true => Err(Diagnostic::usage("VAL003", format!("{} passes no buffer to the kernel", path.display()))),
        false => Ok(outputs),
    }
}
