//! Emits TMA tile copies (`cp.async.bulk.tensor`) between global and shared memory, in both directions.
//! One elected lane of one warp issues the copies. The instruction has a predicate, so that all lanes of the warp execute the
//! same code, and no branch splits the warp.
//!
//! The tensor map is a hidden kernel parameter, of which the code uses the address only. Coordinates are 32-bit element numbers,
//! clamped to `OUTSIDE_COORDINATE`. A tile that is outside the tensor in the program is therefore outside for the TMA unit too.

use super::{Emitter, StridedMemory};
use crate::ir::Val;
use base::Value;
use base::diag::Result;
use base::ir::Op as OpId;
use core_dialect::memory::AtomicMode;
use core_dialect::tile::View;
use inkwell::IntPredicate;
use inkwell::values::IntValue;
use tileas::tma_windows::{self, ArrayWindow};
use tileas::{Buffer, MapId, Type, tma_tiles};

/// The part of the PTX name of a copy from global to shared memory that follows the destination state space. An mbarrier counts the
/// copied bytes. The destination is `shared::cta`, unless the copy involves another CTA. Reason: with `shared::cluster` on sm_120,
/// `ptxas` reports an external call in the kernel (message C7506), and ignores the kernel's `setmaxnreg`.
const LOAD_SUFFIX: &str = "global.tile.mbarrier::complete_tx::bytes";
/// Destination and source state space in the PTX name of a copy from shared to global memory.
const STORE_SPACES: &str = "global.shared::cta";

/// A coordinate outside every tensor, because `.as` has no maps with larger extents.
const OUTSIDE_COORDINATE: u64 = i32::MAX as u64;

/// The TMA copies that together transfer one tile of the program. Each of them transfers one TMA tile.
struct TmaCopy<'c> {
    /// The shared-memory address of the buffer.
    start: IntValue<'c>,
    /// The name of the kernel parameter that holds the tensor map.
    map_parameter: String,
    /// The coordinates of the tile's first element in the tensor, along the map's dimensions.
    tile_origin: Vec<IntValue<'c>>,
    /// For each TMA copy, the coordinates of the TMA tile's first element, relative to the tile.
    tma_tile_starts: Vec<Vec<u32>>,
    /// Number of bytes of one TMA copy.
    bytes_per_copy: u32,
}

/// The names of `count` operands of inline assembly, from `first` on: `$3, $4`.
pub(super) fn operand_names(first: usize, count: usize) -> String {
    (first..first + count).map(|index| format!("${index}")).collect::<Vec<_>>().join(", ")
}

impl<'c> Emitter<'c, '_> {
    /// Emits the TMA copies of a tile from global memory to a buffer of a pipeline. One lane of one warp issues them.
    pub(super) fn emit_tma_load(&mut self, op: OpId, program: &tileas::Op, result: Value) -> Result<()> {
        let tileas::Op::TmaLoad { view, index, buffer, map, .. } = program else { unreachable!("called for TMA loads only") };
        let Some((pipeline, info)) = self.function.attrs.pipeline_of(*buffer) else { return Err(self.unsupported(op)) };
        let Some(mut tile) = self.tma_copy(*view, index, *buffer, *map) else { return Err(self.unsupported(op)) };
        let full_barrier_address = self.full_barrier(pipeline, *buffer);
        let multicast = info.is_multicast(*buffer);
        let cta_group = if self.function.attrs.is_of_cta_pair(info) { ".cta_group::2" } else { "" };
        let space = if multicast || !cta_group.is_empty() { "shared::cluster" } else { "shared::cta" };
        if multicast {
            self.restrict_to_copies_of_this_cta(&mut tile, self.function.attrs.releasing_ctas(info));
        }
        self.emit_guarded(self.is_filling_warp(self.current_stages.get(buffer).copied()), &[], |e| {
            let map = e.map_address(&tile);
            let elected = e.elect_lane();
            for (at, coordinates) in e.tma_coordinates(&tile).into_iter().enumerate() {
                let rank = coordinates.len();
                let cta_mask: &[Val<'c>] = if multicast { &[e.all_ctas()] } else { &[] };
                let args = [&[tile.start.into(), map, full_barrier_address.into()], &coordinates[..], cta_mask].concat();
                let destination_offset = at as u32 * tile.bytes_per_copy;
                let text = |first: usize| {
                    let (map, barrier, origin) = (first + 1, first + 2, operand_names(first + 3, rank));
                    let (all, mask) = match multicast {
                        true => (".multicast::cluster", format!(", ${}", first + 3 + rank)),
                        false => ("", String::new()),
                    };
                    format!("cp.async.bulk.tensor.{rank}d.{space}.{LOAD_SUFFIX}{all}{cta_group} [${first}+{destination_offset}], [${map}, {{{origin}}}], [${barrier}]{mask};")
                };
                let mask = if multicast { ",h" } else { "" };
                e.emit_by_elected_lane(elected, text, &format!("r,l,r{}{mask}", ",r".repeat(rank)), &args);
            }
            Vec::new()
        });
        self.set_token(result);
        Ok(())
    }

    /// Emits a TMA store. The first warp issues the copies, and waits until they have read the buffer.
    pub(super) fn tma_store(&mut self, op: OpId, program: &tileas::Op, result: Value) -> Result<()> {
        let tileas::Op::TmaStore { view, index, buffer, map, mode, waits, .. } = program else {
            unreachable!("called for TMA stores only")
        };
        let (kind, reduction) = match mode {
            None => ("async", String::new()),
            Some(mode) => ("reduce.async", format!(".{}", reduction_name(*mode).ok_or_else(|| self.unsupported(op))?)),
        };
        let Some(tile) = self.tma_copy(*view, index, *buffer, *map) else { return Err(self.unsupported(op)) };
        self.emit_guarded(self.is_filling_warp(None), &[], |e| {
            let map = e.map_address(&tile);
            let elected = e.elect_lane();
            if *waits {
                e.emit_by_elected_lane(elected, |_| "cp.async.bulk.wait_group 0;".into(), "", &[]);
            }
            for (at, coordinates) in e.tma_coordinates(&tile).into_iter().enumerate() {
                let rank = coordinates.len();
                let args = [vec![tile.start.into(), map], coordinates].concat();
                let source_offset = at as u32 * tile.bytes_per_copy;
                let text = |first: usize| {
                    let (map, origin) = (first + 1, operand_names(first + 2, rank));
                    format!(
                        "cp.{kind}.bulk.tensor.{rank}d.{STORE_SPACES}{reduction}.tile.bulk_group [${map}, {{{origin}}}], [${first}+{source_offset}];"
                    )
                };
                e.emit_by_elected_lane(elected, text, &format!("r,l{}", ",r".repeat(rank)), &args);
            }
            e.emit_by_elected_lane(elected, |_| "cp.async.bulk.commit_group;".into(), "", &[]);
            e.emit_by_elected_lane(elected, |_| "cp.async.bulk.wait_group.read 0;".into(), "", &[]);
            Vec::new()
        });
        self.set_token(result);
        Ok(())
    }

    /// Computes the TMA copies between a tile of a view and a buffer. `None` if the view has no tensor map.
    fn tma_copy(&self, view: Value, index: &[Value], buffer: Buffer, map: MapId) -> Option<TmaCopy<'c>> {
        let Type::View(ty) = self.ty(view) else { unreachable!("the operand is a view") };
        let (order, ir) = (tma_tiles::dims_in_map_order(ty)?, self.ir);
        let tensor_map = &self.function.attrs.program.maps[map];
        let memory = self.strided_memory(view);
        // In a CTA pair, each CTA loads one half of the tile, which its rank selects.
        let buffer_shape = &self.function.attrs.program.buffers[buffer].shape;
        let halved_dim = tma_tiles::halved_dim(&ty.tile, buffer_shape);
        let body = &self.function.body;
        let (_, window) = tma_tiles::tensor_map(body, &body.blocks[self.function.entry()].args, view).ok()?;
        let ragged_dim = window.and_then(|window| window.ragged_dim);
        let origin = |(dim, t): (usize, &usize)| {
            let step = u64::from(ty.kind.step(&ty.tile, *t));
            let index = ir.resize(self.scalar_value(index[*t]).into_int_value(), ir.i64(), false);
            let start = ir.mul(self.clamp_to_outside(index), ir.const64(step));
            let size = memory.sizes[ty.dim_map[*t] as usize];
            let origin = if ragged_dim == Some(dim) { start } else { self.outside_if_empty(size, start) };
            let cta_rank = || ir.resize(self.cluster_rank(), ir.i64(), false);
            if halved_dim == Some(*t) { ir.add(origin, ir.mul(cta_rank(), ir.const64(buffer_shape[*t].into()))) } else { origin }
        };
        let mut tile_origin: Vec<IntValue<'c>> = order.iter().enumerate().map(origin).collect();
        if let Some(window) = window {
            self.window_origin_to_map_coordinates(window, &memory, ty, &order, &mut tile_origin);
        }
        let mut tile: Vec<u32> =
            order.iter().map(|t| if halved_dim == Some(*t) { buffer_shape[*t] } else { ty.tile[*t] }).collect();
        tile.resize(tensor_map.extent.len(), 1);
        let map_index =
            (0..).zip(self.function.attrs.program.maps.ids()).find(|(_, id)| *id == map).map_or(0, |(map_index, _)| map_index);
        Some(TmaCopy {
            start: ir.add(self.buffer_start(buffer), ir.const32(self.function.attrs.placements[buffer].offset)),
            map_parameter: map_parameter_name(self.function, map_index),
            tile_origin,
            tma_tile_starts: tma_tiles::tma_tile_origins(&tile, &tensor_map.extent),
            bytes_per_copy: tensor_map.tile_bytes(),
        })
    }

    /// Converts the origin of a tile from coordinates in a window to coordinates in the tensor map of the whole array. Appends the
    /// coordinates of the dimensions that only the map has. [`tma_windows`] explains the arithmetic.
    fn window_origin_to_map_coordinates(
        &self,
        window: ArrayWindow,
        memory: &StridedMemory<'c>,
        view: &View,
        order: &[usize],
        tile_origin: &mut Vec<IntValue<'c>>,
    ) {
        let ir = self.ir;
        let [end_coordinate, period] = [tma_windows::END, tma_windows::PERIOD].map(|number| ir.const64(number as u64));
        let array = self.scalar_value(window.array).into_pointer_value();
        let mut distance = ir.sub(ir.ptr_to_int(memory.base), ir.ptr_to_int(array));
        let mut row_stride = ir.const64(0);
        if let Some(dim) = window.ragged_dim {
            let memory_dim = view.dim_map[order[dim]] as usize;
            let bytes = view.memref.elem.bits() / 8;
            let size = ir.resize(memory.sizes[memory_dim], ir.i64(), true);
            row_stride = ir.mul(ir.resize(memory.strides[memory_dim], ir.i64(), true), ir.const64(bytes.into()));
            // Rows after the tile need no bound. An end at the tile keeps `distance` near the addresses that the tile accesses.
            let tile_end = ir.add(tile_origin[dim], ir.const64(view.tile[order[dim]].into()));
            let is_partial = ir.icmp(IntPredicate::SLT, size, tile_end);
            let end = ir.select(is_partial, size.into(), tile_end.into()).into_int_value();
            tile_origin[dim] = ir.add(end_coordinate, ir.sub(tile_origin[dim], end));
            distance = ir.add(distance, ir.mul(end, row_stride));
        }
        let period_bits = ir.const64(tma_windows::PERIOD.trailing_zeros().into());
        let periods = ir.shr(distance, period_bits, true);
        let in_period = ir.and(distance, ir.sub(period, ir.const64(1)));
        let fine_bytes = ir.add(in_period, ir.mul(periods, row_stride));
        tile_origin.push(ir.div(fine_bytes, ir.const64(tma_windows::FINE_STRIDE as u64), false));
        tile_origin.push(ir.add(end_coordinate, periods));
    }

    /// Reduces the TMA copies of a multicast tile to those that this CTA issues. Each CTA issues an equal number of consecutive
    /// copies, which its rank selects.
    fn restrict_to_copies_of_this_cta(&self, tile: &mut TmaCopy<'c>, ctas: u32) {
        let ir = self.ir;
        let copies_per_cta = tile.tma_tile_starts.len() / ctas as usize;
        let rank = self.cluster_rank();
        tile.start = ir.add(tile.start, ir.mul(rank, ir.const32(copies_per_cta as u32 * tile.bytes_per_copy)));
        // The copies advance along one dimension, and then along the next. Each bit of the rank therefore moves the origin along
        // one dimension only.
        let rank_bits = ctas.ilog2();
        for bit in 0..rank_bits {
            let upper_bits = ir.shr(rank, ir.const32(bit), false);
            let rank_bit = if bit + 1 < rank_bits { ir.and(upper_bits, ir.const32(1)) } else { upper_bits };
            let rank_bit = ir.resize(rank_bit, ir.i64(), false);
            let distances = tile.tma_tile_starts[copies_per_cta << bit]
                .iter()
                .zip(&tile.tma_tile_starts[0])
                .map(|(other, first)| other - first);
            for (origin, distance) in tile.tile_origin.iter_mut().zip(distances).filter(|(_, distance)| *distance > 0) {
                *origin = ir.add(*origin, ir.mul(rank_bit, ir.const64(distance.into())));
            }
        }
        tile.tma_tile_starts.truncate(copies_per_cta);
    }

    /// Emits the computation of the tensor map's generic address.
    fn map_address(&self, tile: &TmaCopy<'c>) -> Val<'c> {
        let text = format!("mov.b64 $0, {};\n\tcvta.param.u64 $0, $0;", tile.map_parameter);
        self.ir.asm(Some(self.ir.i64().into()), &text, "=l", &[], false).expect("the assembly returns an address")
    }

    /// For each TMA copy, the coordinates of its TMA tile in the tensor.
    fn tma_coordinates(&self, tile: &TmaCopy<'c>) -> Vec<Vec<Val<'c>>> {
        let ir = self.ir;
        let coordinate = |(tma_tile_start, origin): (&u32, &IntValue<'c>)| {
            let coordinate = self.clamp_to_outside(ir.add(*origin, ir.const64(u64::from(*tma_tile_start))));
            Val::from(ir.resize(coordinate, ir.i32(), false))
        };
        tile.tma_tile_starts
            .iter()
            .map(|tma_tile_start| tma_tile_start.iter().zip(&tile.tile_origin).map(coordinate).collect())
            .collect()
    }

    /// Whether this warp issues the TMA copies of a stage. The warps take turns, one stage each, so that the work is equal. `None`
    /// if there is one warp.
    pub(super) fn is_filling_warp(&self, stage: Option<IntValue<'c>>) -> Option<IntValue<'c>> {
        let ir = self.ir;
        let warp_of_thread = || ir.shr(self.thread_index, ir.const32(5), false);
        let filling_warp = stage.map_or(ir.const32(0), |stage| ir.and(stage, ir.const32(self.warp_count - 1)));
        (self.warp_count > 1).then(|| ir.icmp(IntPredicate::EQ, warp_of_thread(), filling_warp))
    }

    /// Whether this lane is the elected lane of its warp (`elect.sync`), which is always the same lane. `None` if a single thread
    /// executes the current code.
    pub(super) fn elect_lane(&self) -> Option<IntValue<'c>> {
        if self.thread_index.is_const() {
            return None;
        }
        let is_elected = self.ir.asm(Some(self.ir.context.bool_type().into()), "elect.sync _|$0, 0xffffffff;", "=b", &[], true);
        Some(is_elected.expect("the assembly returns a value").into_int_value())
    }

    /// Emits an instruction that only the elected lane executes. `text` receives the number of the instruction's first operand.
    pub(super) fn emit_by_elected_lane(
        &self,
        elected: Option<IntValue<'c>>,
        text: impl Fn(usize) -> String,
        letters: &str,
        args: &[Val<'c>],
    ) {
        match elected {
            None => _ = self.ir.asm(None, &text(0), letters, args, true),
            Some(elected) => {
                let text = format!("@$0 {}", text(1));
                let args = [&[elected.into()], args].concat();
                let letters = if letters.is_empty() { "b".into() } else { format!("b,{letters}") };
                self.ir.asm(None, &text, &letters, &args, true);
            }
        }
    }

    /// Clamps an unsigned number to `OUTSIDE_COORDINATE`.
    fn clamp_to_outside(&self, number: IntValue<'c>) -> IntValue<'c> {
        let ir = self.ir;
        let is_inside = ir.icmp(IntPredicate::ULT, number, ir.const64(OUTSIDE_COORDINATE));
        ir.select(is_inside, number.into(), ir.const64(OUTSIDE_COORDINATE).into()).into_int_value()
    }

    /// Returns a tile's origin, or `OUTSIDE_COORDINATE` if the dimension is empty. Reason: a map cannot have an extent of zero, so
    /// the map has an extent of one for an empty dimension.
    fn outside_if_empty(&self, size: IntValue<'c>, origin: IntValue<'c>) -> IntValue<'c> {
        let ir = self.ir;
        let is_empty = ir.icmp(IntPredicate::SLE, size, size.get_type().const_zero());
        ir.select(is_empty, ir.const64(OUTSIDE_COORDINATE).into(), origin.into()).into_int_value()
    }
}

/// The PTX name of the reduction in a TMA store; `None` if TMA has no such reduction.
fn reduction_name(mode: AtomicMode) -> Option<&'static str> {
    Some(match mode {
        AtomicMode::Add | AtomicMode::AddF => "add",
        AtomicMode::And => "and",
        AtomicMode::Or => "or",
        AtomicMode::Xor => "xor",
        AtomicMode::UMax => "max",
        AtomicMode::UMin => "min",
        AtomicMode::Max | AtomicMode::Min | AtomicMode::Xchg => return None,
    })
}

/// The PTX name of the hidden parameter for a tensor map. Hidden parameters follow the visible parameters; `map` is the map's
/// index.
pub(crate) fn map_parameter_name(function: &sched::Function, map: usize) -> String {
    format!("{}_param_{}", function.name, function.params().len() + map)
}
