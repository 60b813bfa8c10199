//! Formats values: the type, the first and last elements, and statistics of all elements.

use crate::expression::{Datum, elements, read};
use crate::scene::Scene;
use crate::subject::{Array, elem_name};
use core_dialect::tile::Elem;
use executor::{Tile, Value, short_float, shortened};

/// Size limit for statistics of arrays, in elements.
const MOST_COUNTED: i64 = 1 << 20;

/// A value as one line.
pub(crate) fn line(value: &Value, scene: &Scene<'_>) -> String {
    match value {
        Value::Tile(tile) => match tile.elem {
            Elem::Ptr { .. } if tile.count() == 1 => pointer(tile, scene),
            _ => shortened(tile),
        },
        Value::Token(_) => "a token".into(),
        Value::Tensor(tensor) => {
            format!(
                "array of {} at {}, extents {:?}, strides {:?}",
                tensor.elem,
                address(tensor.base, scene),
                tensor.sizes,
                tensor.strides
            )
        }
        Value::View(view) => {
            let base = address(view.tensor.base, scene);
            format!("view of {base}: {:?} tiles of {:?} {}", view.index_space(), &view.tile[..], view.tensor.elem)
        }
    }
}

/// The type of a tile, and its elements.
pub(crate) fn typed(tile: &Tile, scene: &Scene<'_>) -> (String, String) {
    let line = line(&Value::Tile(tile.clone()), scene);
    // Only the extents contain spaces before the elements.
    let end = if tile.shape.is_empty() { line.find(' ') } else { line.find("] ").map(|at| at + 1) };
    let (ty, shown) = line.split_at(end.unwrap_or(line.len()));
    (ty.to_string(), shown.trim_start().to_string())
}

fn pointer(tile: &Tile, scene: &Scene<'_>) -> String {
    format!("{} {}", elem_name(tile.elem), address(tile.lanes().get(0), scene))
}

/// An address, as an offset into its buffer.
fn address(address: u64, scene: &Scene<'_>) -> String {
    let inside = scene.subject.call.launch.buffers.iter().find(|buffer| {
        let end = buffer.address + buffer.contents.len() as u64;
        (buffer.address..end.max(buffer.address + 1)).contains(&address)
    });
    match inside {
        Some(buffer) if buffer.address == address => buffer.name.clone(),
        Some(buffer) => format!("{} + {} bytes", buffer.name, address - buffer.address),
        None => format!("{address:#x}"),
    }
}

/// An array in memory: type and extents, and the elements of a small array.
pub(crate) fn array_line(array: &Array) -> String {
    let extents: Vec<_> = array.sizes.iter().map(i64::to_string).collect();
    format!("{}[{}]", array.elem.name(), extents.join(", "))
}

/// A detailed description of an expression's value.
pub(crate) fn describe(datum: &Datum, scene: &Scene<'_>) -> Result<String, String> {
    Ok(match datum {
        Datum::Tile(tile) => with_statistics(line(&Value::Tile(tile.clone()), scene), &elements(tile)),
        Datum::Array(array)
            if array.sizes.iter().try_fold(1i64, |all, size| all.checked_mul(*size)).is_some_and(|n| n <= MOST_COUNTED) =>
        {
            let tile = read(array, scene)?;
            with_statistics(shortened(&tile), &elements(&tile))
        }
        Datum::Array(array) => format!("{}, too large to display; select a part of it", array_line(array)),
        Datum::Other(value) => line(value, scene),
        Datum::Numbers(numbers) => {
            let shown: Vec<_> = numbers.iter().take(16).map(f64::to_string).collect();
            let more = if numbers.len() > 16 { ", ..." } else { "" };
            match numbers.len() {
                1 => shown[0].clone(),
                _ => with_statistics(format!("[{}{more}]", shown.join(", ")), numbers),
            }
        }
    })
}

fn with_statistics(line: String, numbers: &[f64]) -> String {
    if numbers.len() < 2 { line } else { format!("{line}\n  {}", statistics(numbers)) }
}

/// Minimum, maximum, mean, and the number of NaNs, infinities and zeros.
pub(crate) fn statistics(numbers: &[f64]) -> String {
    let finite = || numbers.iter().copied().filter(|number| number.is_finite());
    let count = finite().count();
    let (low, high) = finite().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    let mut parts = Vec::new();
    if count > 0 {
        let mean = finite().sum::<f64>() / count as f64;
        parts.push(format!("min {}, max {}, mean {}", short_float(low), short_float(high), short_float(mean)));
    }
    let nans = numbers.iter().filter(|number| number.is_nan()).count();
    let infinite = numbers.len() - count - nans;
    let zeros = numbers.iter().filter(|number| **number == 0.0).count();
    for (count, what) in [(zeros, "zero"), (infinite, "infinite"), (nans, "NaN")] {
        if count > 0 {
            parts.push(format!("{count} of {} {what}", numbers.len()));
        }
    }
    parts.join(", ")
}
