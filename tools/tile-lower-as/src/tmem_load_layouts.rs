//! Purpose: choose the shapes of `tcgen05.ld` and `tcgen05.st` for accumulators and operands.
//! Requires: `.aa` with TMEM accumulator chains. Tiles that elementwise ops combine form a group and share one layout.
//! Establishes: a group that is combined with a vector of one element per row, or reduced to such a vector, uses shape 32x32b. With
//! this shape, each thread has one row. A group that is combined only with vectors of one element per column uses 16x256b. Reason:
//! with 32x32b, every thread would load the whole vector from shared memory.
//! Preserves: the program; this is an analysis.
//! See also: Triton's `getTmemCompatibleLayout` and `OptimizeTMemLayouts`; CUTLASS `SM100_TMEM_LOAD_*` atoms.

use crate::tmem_accumulator_chains::Chain;
use base::ir::Operation;
use base::{UnionFind, Value};
use core_dialect::core_ops::Core;
use core_dialect::region_edges::{RegionEdge, region_edges};
use std::collections::BTreeSet;
use tileaa::{Function, Op};
use tileas::tensor_memory::{self, TmemSlice};
use tileas::{BufferInfo, Layout};

/// Shapes of `tcgen05.ld` and `tcgen05.st` in order of preference, with one row per thread first.
pub(crate) const BY_ROWS: &[&str] = &["32x32b", "16x32bx2", "16x256b"];
/// Shapes of `tcgen05.ld` and `tcgen05.st` in order of preference, with few columns per thread first.
const BY_COLUMNS: &[&str] = &["16x256b", "16x32bx2", "32x32b"];
/// All shapes of `tcgen05.ld` and `tcgen05.st`. With 16x128b a thread holds the same elements as with 16x256b of a tile whose
/// elements are twice as wide, for example an accumulator.
pub(crate) const ALL_SHAPES: &[&str] = &["32x32b", "16x32bx2", "16x256b", "16x128b"];

/// Groups of values that share a layout. For each group, also whether its tiles are combined with per-row or per-column vectors.
pub(crate) struct LayoutGroups {
    /// The groups, as a union-find structure over value ids.
    groups: UnionFind,
    /// The representatives of the groups that are combined with, or reduced to, a vector of one element per row.
    by_rows: BTreeSet<usize>,
    /// The representatives of the groups that are combined with, or reduced to, a vector of one element per column.
    by_columns: BTreeSet<usize>,
    /// By value id, whether the value is computed from scalars and constants only. Threads rematerialize such a value.
    rematerializable: Vec<bool>,
}

impl LayoutGroups {
    /// Groups the tiles of a function, and records whether each group is combined with per-row or per-column vectors.
    pub(crate) fn analyse(function: &Function) -> LayoutGroups {
        let body = &function.body;
        let count = body.values.len();
        let rematerializable = vec![false; count];
        let groups = UnionFind::new(count);
        let mut layout_groups = LayoutGroups { groups, by_rows: BTreeSet::new(), by_columns: BTreeSet::new(), rematerializable };
        let ops = body.walk(function.region);
        for &op in &ops {
            let node = &body.ops[op];
            layout_groups.record_rematerializable(function, op);
            match &node.kind {
                Op::Core(core) if core.is_elementwise() => {
                    let is_rematerialized =
                        |operand: &Value| layout_groups.rematerializable[operand.0 as usize] || is_broadcast(function, *operand);
                    let joined_operands: Vec<Value> =
                        core.operands().into_iter().filter(|operand| !is_rematerialized(operand)).collect();
                    let mut tiles = joined_operands.into_iter().chain(node.results.iter().copied());
                    if let Some(first) = tiles.next() {
                        tiles.for_each(|other| layout_groups.groups.join(first.0 as usize, other.0 as usize));
                    }
                }
                _ => {}
            }
        }
        for RegionEdge { from, to } in region_edges(body, function.region) {
            layout_groups.groups.join(from.0 as usize, to.0 as usize);
        }
        ops.into_iter().for_each(|op| layout_groups.record_vectors(function, op));
        layout_groups
    }

    /// Records whether the results of an op are computed from scalars and constants only.
    fn record_rematerializable(&mut self, function: &Function, op: base::ir::Op) {
        let node = &function.body.ops[op];
        let is_single_element =
            |value: &Value| function.body.ty(*value).tile().is_none_or(|(_, shape)| shape.iter().all(|extent| *extent == 1));
        let is_rematerializable = match &node.kind {
            Op::Core(Core::Constant { .. } | Core::Iota {}) => true,
            Op::Core(core @ (Core::Broadcast { .. } | Core::Reshape { .. })) => self.are_operands_rematerializable(core),
            Op::Core(core) if core.is_elementwise() => self.are_operands_rematerializable(core),
            _ => false,
        };
        for result in &node.results {
            self.rematerializable[result.0 as usize] = is_rematerializable || is_single_element(result);
        }
    }

    /// Whether all operands of an op are computed from scalars and constants only.
    fn are_operands_rematerializable(&self, core: &Core) -> bool {
        core.operands().iter().all(|operand| self.rematerializable[operand.0 as usize])
    }

    /// The representative of a value's group.
    fn representative(&self, value: Value) -> usize {
        self.groups.find(value.0 as usize)
    }

    /// Records for a tile's group whether an op combines the tile with, or reduces it to, a per-row or per-column vector.
    fn record_vectors(&mut self, function: &Function, op: base::ir::Op) {
        let node = &function.body.ops[op];
        let rank = |value: Value| function.body.ty(value).tile().map_or(0, |(_, shape)| shape.len());
        match &node.kind {
            Op::Core(core) if core.is_elementwise() => {
                let group = self.representative(node.results[0]);
                for operand in core.operands() {
                    match self.broadcast_direction(function, operand) {
                        Some(Repeats::Rows) => _ = self.by_columns.insert(group),
                        Some(Repeats::Columns) => _ = self.by_rows.insert(group),
                        None => {}
                    }
                }
            }
            Op::Reduce { operands, dim, .. } => {
                let (group, dims_from_end) = (self.representative(operands[0]), rank(operands[0]).saturating_sub(*dim as usize));
                match dims_from_end {
                    1 => _ = self.by_rows.insert(group),
                    2 => _ = self.by_columns.insert(group),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// The direction in which a tile repeats a vector. `None` if the tile is no broadcast of a vector, or if threads rematerialize
    /// the vector.
    fn broadcast_direction(&self, function: &Function, value: Value) -> Option<Repeats> {
        let body = &function.body;
        let Op::Core(Core::Broadcast { x }) = body.ops[body.defining_op(value)?].kind else { return None };
        let shape = body.ty(x).tile().filter(|_| !self.rematerializable[x.0 as usize])?.1;
        match shape[..] {
            [.., 1, columns] if columns > 1 => Some(Repeats::Rows),
            [.., rows, 1] if rows > 1 => Some(Repeats::Columns),
            _ => None,
        }
    }

    /// The shapes for `tcgen05.ld` of an accumulator, in order of preference.
    pub(crate) fn load_shapes(&self, accumulator: Value) -> &'static [&'static str] {
        let group = self.representative(accumulator);
        if self.by_columns.contains(&group) && !self.by_rows.contains(&group) { BY_COLUMNS } else { BY_ROWS }
    }

    /// The register layout from which `tcgen05.st` stores an operand to the TMEM buffer `info`. If the operand is computed from the
    /// accumulator of one of `chains`, each thread stores the rows that it loaded, if possible. `None` if no layout gives each warp
    /// elements of its own.
    pub(crate) fn store_layout(
        &self,
        function: &Function,
        operand: Value,
        info: &BufferInfo,
        chains: &[Chain],
        warp_bits: usize,
    ) -> Option<Layout> {
        let group = self.representative(operand);
        let accumulator = chains.iter().map(|chain| chain.result).find(|accumulator| self.representative(*accumulator) == group);
        let load_layout = accumulator.and_then(|accumulator| {
            let (elem, shape) = function.body.ty(accumulator).tile()?;
            tmem_register_layout(self.load_shapes(accumulator), &tensor_memory::accumulator_buffer(elem, shape)?, warp_bits)
        });
        let keeps_rows = |layout: &Layout| {
            load_layout.as_ref().is_some_and(|load_layout| (&load_layout.lane, &load_layout.warp) == (&layout.lane, &layout.warp))
        };
        // Two warps must not store the same element. With more warps than columns, some layouts repeat elements.
        let gives_warps_distinct_elements = |layout: &Layout| layout.warp.iter().all(|basis| *basis != 0);
        let layouts_of = |atoms: &'static [&'static str]| {
            atoms.iter().filter_map(|name| tmem_register_layout(&[name], info, warp_bits)).filter(gives_warps_distinct_elements)
        };
        layouts_of(ALL_SHAPES).find(keeps_rows).or_else(|| layouts_of(BY_ROWS).next())
    }
}

/// The direction in which a broadcast repeats a vector.
enum Repeats {
    /// All rows of the tile are equal.
    Rows,
    /// All columns of the tile are equal.
    Columns,
}

/// Whether a broadcast, constant or iota defines a tile, so that each use rematerializes the tile in the layout that the use needs.
fn is_broadcast(function: &Function, value: Value) -> bool {
    let definition = function.body.defining_op(value).map(|op| &function.body.ops[op].kind);
    matches!(definition, Some(Op::Core(Core::Broadcast { .. } | Core::Constant { .. } | Core::Iota {})))
}

/// The register layout in which threads load or store a full TMEM buffer with the first of the `tcgen05.ld` and `tcgen05.st` shapes
/// `atoms` that fits. `None` if none fits.
pub(crate) fn tmem_register_layout(atoms: &[&str], info: &BufferInfo, warp_bits: usize) -> Option<Layout> {
    tmem_part_layout(atoms, info, &TmemSlice::from_extents(&info.shape, &info.shape, 0)?, warp_bits)
}

/// The register layout in which threads load or store the part `part` of a TMEM buffer with the first of the shapes `atoms` that
/// fits. `None` if none fits.
pub(crate) fn tmem_part_layout(atoms: &[&str], info: &BufferInfo, part: &TmemSlice, warp_bits: usize) -> Option<Layout> {
    atoms.iter().filter_map(|name| tensor_memory::lane_atom_named(name)).find_map(|atom| atom.layout(info, part, warp_bits))
}
