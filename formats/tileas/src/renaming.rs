//! Core ops that only rearrange or repeat elements (`permute`, `broadcast`, `reshape`), and the test whether such an op needs no
//! instructions.

use crate::layout::{Layout, Strides};
use core_dialect::core_ops::Core;

/// The map from an element number of the result to the element number of the operand, for `permute`, `broadcast` and `reshape`.
/// `from` and `to` are the shapes of the operand and the result.
pub fn source_element<'a>(core: &'a Core, from: &'a [u32], to: &'a [u32]) -> impl Fn(u32) -> u32 + 'a {
    let (operand, result) = (Strides::for_shape(from), Strides::for_shape(to));
    move |element| match core {
        Core::Permute { order, .. } => {
            (0..to.len()).map(|k| result.coordinate(element, k) << operand.shift[order[k] as usize]).sum()
        }
        Core::Broadcast { .. } if from.is_empty() => 0,
        Core::Broadcast { .. } => {
            (0..to.len()).filter(|d| from[*d] != 1).map(|d| result.coordinate(element, d) << operand.shift[d]).sum()
        }
        _ => element,
    }
}

/// Returns whether an op is a `reshape` or `permute` that leaves each thread's registers unchanged, so that it needs no
/// instructions.
pub fn keeps_registers(core: &Core, [from, to]: [&[u32]; 2], [source_layout, layout]: [&Layout; 2]) -> bool {
    let is_permutation = matches!(core, Core::Reshape { .. } | Core::Permute { .. });
    let renaming = || layout.renaming(source_layout, source_element(core, from, to));
    let is_identity = |renaming: Vec<usize>| renaming.iter().enumerate().all(|(register, source)| register == *source);
    is_permutation && renaming().is_some_and(is_identity)
}
