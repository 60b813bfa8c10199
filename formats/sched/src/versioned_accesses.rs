//! Versioned accesses to tiles of a view. One version checks the bounds of each vector. The other has no checks, for tiles that are
//! fully within the bounds of the view. All threads take the same version. `tile-sched` selects the accesses.

use crate::{Function, Op};
use base::ir::OpNode;
use core_dialect::tile::ViewKind;
use tileas::Type;

/// Checks whether an access can have a version without bounds checks. The error is the reason why the access cannot.
pub fn check_versioned_access(function: &Function, op: &OpNode<Op>) -> Result<(), &'static str> {
    use tileas::Op as Program;
    let Op::Core(
        Program::LoadView { view, in_bounds, .. }
        | Program::StoreView { view, in_bounds, .. }
        | Program::ReduceView { view, in_bounds, .. }
        | Program::CopyView { view, in_bounds, .. },
    ) = &op.kind
    else {
        return Err("it does not access a tile of a view");
    };
    let Type::View(ty) = function.body.ty(*view) else { return Err("it does not access a tile of a view") };
    let mut checked_dims = (0..ty.tile.len()).filter(|dim| !in_bounds.get(*dim).copied().unwrap_or(false)).peekable();
    if checked_dims.peek().is_none() {
        return Err("no dimension has a bounds check");
    }
    match checked_dims.any(|dim| ty.kind == (ViewKind::Gather { sparse_dim: dim as u32 })) {
        true => Err("a gather checks each row by itself"),
        false => Ok(()),
    }
}
