//! Rules for accesses to buffers in shared memory: element types match, the atom fits both layouts, and writes precede reads.

use super::zero_init::ZeroInit;
use super::{CoreType, FunctionChecker, OpContext, RuleResult, TileAsOp, Type, Value, require};
use crate::effects::{AccessKind, BufferAccess, Effects};
use crate::{Buffer, BufferInfo, CopyAtom, FunctionAttrs, Op, Space};
use base::{Body, Loc, Region};
use std::collections::BTreeSet;
use target_info::Feature;

impl FunctionChecker<'_> {
    /// The table entry of a buffer.
    pub(super) fn buffer_info(&self, buffer: Buffer) -> Result<&BufferInfo, String> {
        self.attrs.buffers.get(buffer).ok_or_else(|| format!("{buffer} is not in the table"))
    }

    /// Checks an access of threads to a buffer in shared memory.
    pub(super) fn check_shared_access<O: TileAsOp>(&self, context: &OpContext<'_, O, Type>, kind: &Op) -> RuleResult {
        match kind {
            Op::SharedStore { x, buffer, atom, .. } => {
                context.check_results(&[])?;
                self.check_full_access(context, *x, *buffer, *atom)
            }
            Op::SharedLoad { buffer, atom, .. } => self.check_full_access(context, context.result()?, *buffer, *atom),
            Op::SharedGather { buffer, index, .. } => self.check_indexed_access(context, *buffer, context.result()?, *index),
            Op::SharedScatter { x, buffer, index, .. } => {
                context.check_results(&[])?;
                self.check_indexed_access(context, *buffer, *x, *index)
            }
            _ => unreachable!("only accesses to buffers come here"),
        }
    }

    /// Checks a load or store of a full tile.
    fn check_full_access<O: TileAsOp>(
        &self,
        context: &OpContext<'_, O, Type>,
        tile: Value,
        buffer: Buffer,
        atom: CopyAtom,
    ) -> RuleResult {
        let info = self.buffer_info(buffer)?;
        require(info.space == Space::Shared, || format!("{buffer} is not in shared memory"))?;
        let has_tile_type = context.core_type(tile) == CoreType::Tile { elem: info.elem, shape: &info.shape };
        require(has_tile_type, || format!("{buffer} does not hold tiles like {tile}"))?;
        let layout = self.layout_of(context, tile);
        let fits = match atom {
            CopyAtom::Vector { vector_bits } => vector_bits <= 4 && info.has_vectors(&layout, vector_bits),
            CopyAtom::Matrix { .. } if context.op.results.is_empty() => {
                let target = self.target;
                require(target.has(Feature::StMatrix), || format!("{target} has no `stmatrix`"))?;
                info.stmatrix_atom(&layout) == Some(atom)
            }
            CopyAtom::Matrix { .. } => info.ldmatrix_atom(&layout) == Some(atom),
            CopyAtom::ByteMatrix => {
                let target = self.target;
                require(target.has(Feature::LdMatrixTransB8), || format!("{target} has no `ldmatrix` that transposes bytes"))?;
                !context.op.results.is_empty() && info.byte_matrices(&layout).is_some()
            }
            CopyAtom::Async { .. } => false,
        };
        require(fits, || format!("its atom does not fit the layouts of {tile} and {buffer}"))
    }

    /// Checks a gather or scatter: `index` has, for each of the `elements`, the number of the buffer element.
    fn check_indexed_access<O: TileAsOp>(
        &self,
        context: &OpContext<'_, O, Type>,
        buffer: Buffer,
        elements: Value,
        index: Value,
    ) -> RuleResult {
        let info = self.buffer_info(buffer)?;
        require(info.space == Space::Shared, || format!("{buffer} is not in shared memory"))?;
        let ((elem, shape), (index_elem, index_shape)) = (context.tile(elements)?, context.scalar_tile(index)?);
        require(elem == info.elem && !shape.is_empty(), || format!("{buffer} does not hold elements like those of {elements}"))?;
        require(index_elem.is_int() && shape == index_shape, || {
            format!("{index} does not give an element number for each element of {elements}")
        })?;
        self.check_same_layout(context, &[elements, index])
    }
}

/// Checks that only stores to buffers use a value that a single thread computes for several warps. The other threads load the value
/// from the buffer. `is_in_several` returns whether several warps hold a value. The error is a use by another op.
pub(super) fn check_single_thread_values<O: TileAsOp>(
    body: &Body<O, Type>,
    is_in_several: impl Fn(Value) -> bool,
) -> Result<(), (Loc, String)> {
    let mut single_thread_results = BTreeSet::new();
    for op in body.ops.values() {
        let result = op.kind.effects().filter(Effects::is_computed_by_one_thread).and(op.results.first());
        single_thread_results.extend(result.copied().filter(|value| is_in_several(*value)));
    }
    if single_thread_results.is_empty() {
        return Ok(());
    }
    for op in body.ops.values().filter(|op| !op.kind.reads_from_one_thread()) {
        if let Some(value) = op.kind.operands().into_iter().find(|value| single_thread_results.contains(value)) {
            let message =
                format!("{} uses {value}, which one thread computes: other threads must load it from a buffer", op.kind.mnemonic());
            return Err((op.loc, message));
        }
    }
    Ok(())
}

/// Checks that in program order, every buffer is written before it is read. If no op writes an accumulator before its first MMA,
/// this MMA must zero-initialise the accumulator.
pub(super) fn check_written_before_read<O: TileAsOp>(
    body: &Body<O, Type>,
    root: Region,
    attrs: &FunctionAttrs,
) -> Result<(), (Loc, String)> {
    let mut written = vec![false; attrs.buffers.len()];
    let mut zero_init = None;
    for op in body.walk(root) {
        let node = &body.ops[op];
        let Some(kind) = node.kind.tileas_op() else { continue };
        for BufferAccess { buffer, access_kind, .. } in kind.effects().buffers {
            if written[buffer.0 as usize] {
                continue;
            }
            let needs_content = match access_kind {
                AccessKind::WritesIf(is_zero_init) => {
                    !zero_init.get_or_insert_with(|| ZeroInit::new(body, root)).is_true_at_first_use(is_zero_init)
                }
                access_kind => access_kind.needs_content(),
            };
            if needs_content {
                return Err((node.loc, format!("{buffer} is read before anything is written to it")));
            }
            written[buffer.0 as usize] = access_kind.writes();
        }
    }
    Ok(())
}
