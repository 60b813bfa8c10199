//! Ops whose result elements are each an element of the operand.

use crate::layout::{Layout, Strides};
use core_dialect::core_ops::Core;

/// The operand element of each result element.
pub fn source<'a>(core: &'a Core, from: &'a [u32], to: &'a [u32]) -> impl Fn(u32) -> u32 + 'a {
    let (source, target) = (Strides::of(from), Strides::of(to));
    move |element| match core {
        Core::Permute { order, .. } => {
            (0..to.len()).map(|k| target.coordinate(element, k) << source.shift[order[k] as usize]).sum()
        }
        Core::Broadcast { .. } if from.is_empty() => 0,
        Core::Broadcast { .. } => {
            (0..to.len()).filter(|d| from[*d] != 1).map(|d| target.coordinate(element, d) << source.shift[d]).sum()
        }
        _ => element,
    }
}

/// Returns whether an op that permutes elements leaves each thread's registers unchanged.
pub fn keeps_registers(core: &Core, [from, to]: [&[u32]; 2], [source_layout, layout]: [&Layout; 2]) -> bool {
    let renames = matches!(core, Core::Reshape { .. } | Core::Permute { .. });
    let names = || layout.renaming(source_layout, source(core, from, to));
    renames && names().is_some_and(|names| names.iter().enumerate().all(|(register, name)| register == *name))
}
