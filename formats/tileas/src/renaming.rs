//! Ops of which each element of the result is one of the operand.

use crate::layout::{Layout, Strides};
use core_dialect::core_ops::Core;

/// The operand's element that each element of the result is.
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

/// Whether an op that renames elements leaves each thread's registers as they are.
pub fn keeps_registers(core: &Core, [from, to]: [&[u32]; 2], [source_layout, layout]: [&Layout; 2]) -> bool {
    let renames = matches!(core, Core::Reshape { .. } | Core::Permute { .. });
    let names = || layout.renaming(source_layout, source(core, from, to));
    renames && names().is_some_and(|names| names.iter().enumerate().all(|(register, name)| register == *name))
}
