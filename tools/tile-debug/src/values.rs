//! Formats values for the front ends: the type, the first and last elements, and statistics of all elements.

use crate::debuggee::{Array, elem_name};
use crate::expression::{Datum, elements_as_f64, read_array};
use crate::scene::Scene;
use core_dialect::tile::Elem;
use executor::{Tile, Value, format_tile, short_float};

/// Maximum number of elements of an array that the debugger displays. The statistics require that it reads all elements.
const MAX_DISPLAYED: i64 = 1 << 20;

/// Formats a value on one line. Long tiles show their first and last elements.
pub(crate) fn format_value(value: &Value, scene: &Scene<'_>) -> String {
    match value {
        Value::Tile(tile) => match tile.elem {
            Elem::Ptr { .. } if tile.count() == 1 => format_pointer(tile, scene),
            _ => format_tile(tile),
        },
        Value::Token(_) => "a token".into(),
        Value::Tensor(tensor) => {
            format!(
                "array of {} at {}, extents {:?}, strides {:?}",
                tensor.elem,
                format_address(tensor.base, scene),
                tensor.sizes,
                tensor.strides
            )
        }
        Value::View(view) => {
            let base = format_address(view.tensor.base, scene);
            format!("view of {base}: {:?} tiles of {:?} {}", view.index_space(), &view.tile[..], view.tensor.elem)
        }
    }
}

/// Returns the text of a tile's type and the text of its elements.
pub(crate) fn type_and_elements(tile: &Tile, scene: &Scene<'_>) -> (String, String) {
    let line = format_value(&Value::Tile(tile.clone()), scene);
    // A shape such as `[2, 4]` contains spaces, but no `] `, so the first `] ` ends the type.
    let end = if tile.shape.is_empty() { line.find(' ') } else { line.find("] ").map(|at| at + 1) };
    let (ty, shown) = line.split_at(end.unwrap_or(line.len()));
    (ty.to_string(), shown.trim_start().to_string())
}

/// Formats a single pointer: its type, and its address as an offset in a buffer.
fn format_pointer(tile: &Tile, scene: &Scene<'_>) -> String {
    format!("{} {}", elem_name(tile.elem), format_address(tile.element_words().get(0), scene))
}

/// Formats an address as an offset in its buffer, or as a hexadecimal number if it is in no buffer of the launch.
fn format_address(address: u64, scene: &Scene<'_>) -> String {
    let containing_buffer = scene.debuggee.call.launch.buffers.iter().find(|buffer| {
        let end = buffer.address + buffer.contents.len() as u64;
        (buffer.address..end.max(buffer.address + 1)).contains(&address)
    });
    match containing_buffer {
        Some(buffer) if buffer.address == address => buffer.name.clone(),
        Some(buffer) => format!("{} + {} bytes", buffer.name, address - buffer.address),
        None => format!("{address:#x}"),
    }
}

/// Returns the element type and the extents of an array in memory, such as `f32[4, 4]`.
pub(crate) fn array_type(array: &Array) -> String {
    let extents: Vec<_> = array.sizes.iter().map(i64::to_string).collect();
    format!("{}[{}]", array.elem.name(), extents.join(", "))
}

/// Returns the text that `print` shows for an expression: its value, and statistics if it has several elements.
pub(crate) fn describe(datum: &Datum, scene: &Scene<'_>) -> Result<String, String> {
    Ok(match datum {
        Datum::Tile(tile) => with_statistics(format_value(&Value::Tile(tile.clone()), scene), &elements_as_f64(tile)),
        Datum::Array(array)
            if array.sizes.iter().try_fold(1i64, |all, size| all.checked_mul(*size)).is_some_and(|n| n <= MAX_DISPLAYED) =>
        {
            let tile = read_array(array, scene)?;
            with_statistics(format_tile(&tile), &elements_as_f64(&tile))
        }
        Datum::Array(array) => format!("{}, too large to display; select a part of it", array_type(array)),
        Datum::Other(value) => format_value(value, scene),
        Datum::Numbers(numbers) => {
            let first_numbers: Vec<_> = numbers.iter().take(16).map(f64::to_string).collect();
            let more = if numbers.len() > 16 { ", ..." } else { "" };
            match numbers.len() {
                1 => first_numbers[0].clone(),
                _ => with_statistics(format!("[{}{more}]", first_numbers.join(", ")), numbers),
            }
        }
    })
}

/// Appends the statistics on a second line, if there are at least two numbers.
fn with_statistics(line: String, numbers: &[f64]) -> String {
    if numbers.len() < 2 { line } else { format!("{line}\n  {}", statistics(numbers)) }
}

/// Returns the minimum, maximum and mean of the finite numbers, and the number of zeros, infinities and NaNs.
pub(crate) fn statistics(numbers: &[f64]) -> String {
    let finite = || numbers.iter().copied().filter(|number| number.is_finite());
    let count = finite().count();
    let (min, max) = finite().fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), x| (min.min(x), max.max(x)));
    let mut parts = Vec::new();
    if count > 0 {
        let mean = finite().sum::<f64>() / count as f64;
        parts.push(format!("min {}, max {}, mean {}", short_float(min), short_float(max), short_float(mean)));
    }
    let nans = numbers.iter().filter(|number| number.is_nan()).count();
    let infinite = numbers.len() - count - nans;
    let zeros = numbers.iter().filter(|number| **number == 0.0).count();
    for (count, number_kind) in [(zeros, "zero"), (infinite, "infinite"), (nans, "NaN")] {
        if count > 0 {
            parts.push(format!("{count} of {} {number_kind}", numbers.len()));
        }
    }
    parts.join(", ")
}
