//! TMA tile copies (`cp.async.bulk.tensor`) in both directions.
//! One elected lane of the filling warp issues a copy. The instruction is predicated, so that all lanes of the warp execute the
//! same code and no branch splits the warp.
//!
//! The tensor map is a hidden kernel parameter; only its address is used. Coordinates are 32-bit element numbers, clamped to
//! `OUTSIDE`. A tile that is outside the tensor in the program is therefore also outside for the TMA unit.

use super::Emitter;
use crate::ir::Val;
use crate::kernel;
use base::Value;
use base::diag::Result;
use base::ir::Op as OpId;
use core_dialect::memory::AtomicMode;
use inkwell::IntPredicate;
use inkwell::values::IntValue;
use tileas::{Buffer, MapId, Type, tma_tiles};

/// Global to shared memory; an mbarrier counts the bytes. The destination is `shared::cta` unless the copy also involves another
/// CTA. Reason: with `shared::cluster` on sm_120, `ptxas` reports an external call in the kernel and ignores its `setmaxnreg`
/// (C7506).
const LOAD: &str = "global.tile.mbarrier::complete_tx::bytes";
/// Shared to global memory, in a bulk group of the issuing thread.
const TO_GLOBAL: &str = "global.shared::cta";

/// A coordinate outside every tensor: `.as` has no maps with larger extents.
const OUTSIDE: u64 = i32::MAX as u64;

/// The TMA copies that move one tile of the program.
struct TmaCopy<'c> {
    /// The shared-memory address of the buffer.
    start: IntValue<'c>,
    /// The name of the kernel parameter that holds the map.
    parameter: String,
    /// The start of the tile in the tensor, along the map's dimensions.
    origins: Vec<IntValue<'c>>,
    /// For each TMA copy, its start in the tile.
    parts: Vec<Vec<u32>>,
    /// Number of bytes of one TMA copy.
    bytes: u32,
}

/// The names of `count` operands from `first` on.
pub(super) fn operands(first: usize, count: usize) -> String {
    (first..first + count).map(|number| format!("${number}")).collect::<Vec<_>>().join(", ")
}

impl<'c> Emitter<'c, '_> {
    pub(super) fn tma_load(&mut self, op: OpId, program: &tileas::Op, result: Value) -> Result<()> {
        let tileas::Op::TmaLoad { view, index, buffer, map, .. } = program else { unreachable!("called for TMA loads only") };
        let Some((pipeline, info)) = self.function.attrs.pipeline_of(*buffer) else { return Err(self.unsupported(op)) };
        let Some(mut tile) = self.tma_copy(*view, index, *buffer, *map) else { return Err(self.unsupported(op)) };
        let full = self.full_barrier(pipeline, *buffer);
        let multicast = info.is_multicast(*buffer);
        let group = if self.function.attrs.is_of_cta_pair(info) { ".cta_group::2" } else { "" };
        let space = if multicast || !group.is_empty() { "shared::cluster" } else { "shared::cta" };
        if multicast {
            self.keep_own_share(&mut tile, self.function.attrs.ctas_of(info));
        }
        self.guarded(self.filling_warp(self.stages.get(buffer).copied()), &[], |e| {
            let map = e.map_address(&tile);
            let one = e.elected();
            for (at, coordinates) in e.coordinates(&tile).into_iter().enumerate() {
                let rank = coordinates.len();
                let to_all: &[Val<'c>] = if multicast { &[e.all_ctas()] } else { &[] };
                let args = [&[tile.start.into(), map, full.into()], &coordinates[..], to_all].concat();
                let to = at as u32 * tile.bytes;
                let text = |first: usize| {
                    let (map, barrier, origin) = (first + 1, first + 2, operands(first + 3, rank));
                    let (all, mask) = match multicast {
                        true => (".multicast::cluster", format!(", ${}", first + 3 + rank)),
                        false => ("", String::new()),
                    };
                    format!("cp.async.bulk.tensor.{rank}d.{space}.{LOAD}{all}{group} [${first}+{to}], [${map}, {{{origin}}}], [${barrier}]{mask};")
                };
                let mask = if multicast { ",h" } else { "" };
                e.by_elected_lane(one, text, &format!("r,l,r{}{mask}", ",r".repeat(rank)), &args);
            }
            Vec::new()
        });
        self.set_token(result);
        Ok(())
    }

    /// Makes the first warp issue the stores, and wait until they have read the buffer.
    pub(super) fn tma_store(&mut self, op: OpId, program: &tileas::Op, result: Value) -> Result<()> {
        let tileas::Op::TmaStore { view, index, buffer, map, mode, waits, .. } = program else {
            unreachable!("called for TMA stores only")
        };
        let (kind, how) = match mode {
            None => ("async", String::new()),
            Some(mode) => ("reduce.async", format!(".{}", combination(*mode).ok_or_else(|| self.unsupported(op))?)),
        };
        let Some(tile) = self.tma_copy(*view, index, *buffer, *map) else { return Err(self.unsupported(op)) };
        self.guarded(self.filling_warp(None), &[], |e| {
            let map = e.map_address(&tile);
            let one = e.elected();
            if *waits {
                e.by_elected_lane(one, |_| "cp.async.bulk.wait_group 0;".into(), "", &[]);
            }
            for (at, coordinates) in e.coordinates(&tile).into_iter().enumerate() {
                let rank = coordinates.len();
                let args = [vec![tile.start.into(), map], coordinates].concat();
                let from = at as u32 * tile.bytes;
                let text = |first: usize| {
                    let (map, origin) = (first + 1, operands(first + 2, rank));
                    format!(
                        "cp.{kind}.bulk.tensor.{rank}d.{TO_GLOBAL}{how}.tile.bulk_group [${map}, {{{origin}}}], [${first}+{from}];"
                    )
                };
                e.by_elected_lane(one, text, &format!("r,l{}", ",r".repeat(rank)), &args);
            }
            e.by_elected_lane(one, |_| "cp.async.bulk.commit_group;".into(), "", &[]);
            e.by_elected_lane(one, |_| "cp.async.bulk.wait_group.read 0;".into(), "", &[]);
            Vec::new()
        });
        self.set_token(result);
        Ok(())
    }

    /// The TMA copies of a tile of a view, and their destination in a buffer.
    fn tma_copy(&self, view: Value, index: &[Value], buffer: Buffer, map: MapId) -> Option<TmaCopy<'c>> {
        let Type::View(ty) = self.ty(view) else { unreachable!("the operand is a view") };
        let (order, ir) = (tma_tiles::order(ty)?, self.ir);
        let tensor_map = &self.function.attrs.program.maps[map];
        let memory = self.memory(view);
        // In a CTA pair each CTA loads the half of the tile that its rank selects.
        let buffer_shape = &self.function.attrs.program.buffers[buffer].shape;
        let halved_dim = tma_tiles::halved(&ty.tile, buffer_shape);
        let origin = |t: &usize| {
            let step = u64::from(ty.kind.step(&ty.tile, *t));
            let index = ir.resize(self.scalar(index[*t]).into_int_value(), ir.i64(), false);
            let origin =
                self.outside_if_empty(memory.sizes[ty.dim_map[*t] as usize], ir.mul(self.clamped(index), ir.const64(step)));
            let rank = || ir.resize(self.cluster_rank(), ir.i64(), false);
            if halved_dim == Some(*t) { ir.add(origin, ir.mul(rank(), ir.const64(buffer_shape[*t].into()))) } else { origin }
        };
        let tile: Vec<u32> = order.iter().map(|t| if halved_dim == Some(*t) { buffer_shape[*t] } else { ty.tile[*t] }).collect();
        let number = (0..).zip(self.function.attrs.program.maps.ids()).find(|(_, id)| *id == map).map_or(0, |(number, _)| number);
        Some(TmaCopy {
            start: ir.add(self.buffer_start(buffer), ir.const32(self.function.attrs.placements[buffer].offset)),
            parameter: kernel::map_parameter(self.function, number),
            origins: order.iter().map(origin).collect(),
            parts: tma_tiles::tma_tiles(&tile, &tensor_map.extent),
            bytes: tensor_map.tile_bytes(),
        })
    }

    /// Keeps only the TMA copies that this CTA issues for a multicast: an equal share, selected by the CTA's rank.
    fn keep_own_share(&self, tile: &mut TmaCopy<'c>, ctas: u32) {
        let ir = self.ir;
        let share = tile.parts.len() / ctas as usize;
        let rank = self.cluster_rank();
        let rank = if common::fault_injected("ptx.part") { ir.const32(0) } else { rank };
        tile.start = ir.add(tile.start, ir.mul(rank, ir.const32(share as u32 * tile.bytes)));
        // The copies advance along one dimension, then along the next. Each bit of the rank therefore moves the origin along one
        // dimension.
        let bits = ctas.ilog2();
        for bit in 0..bits {
            let upper_bits = ir.shr(rank, ir.const32(bit), false);
            let set = if bit + 1 < bits { ir.and(upper_bits, ir.const32(1)) } else { upper_bits };
            let set = ir.resize(set, ir.i64(), false);
            let distances = tile.parts[share << bit].iter().zip(&tile.parts[0]).map(|(other, first)| other - first);
            for (origin, distance) in tile.origins.iter_mut().zip(distances).filter(|(_, distance)| *distance > 0) {
                *origin = ir.add(*origin, ir.mul(set, ir.const64(distance.into())));
            }
        }
        tile.parts.truncate(share);
    }

    /// The generic address of the tensor map.
    fn map_address(&self, tile: &TmaCopy<'c>) -> Val<'c> {
        let text = format!("mov.b64 $0, {};\n\tcvta.param.u64 $0, $0;", tile.parameter);
        self.ir.asm(Some(self.ir.i64().into()), &text, "=l", &[], false).expect("the assembly returns an address")
    }

    /// For each TMA copy, its coordinates.
    fn coordinates(&self, tile: &TmaCopy<'c>) -> Vec<Vec<Val<'c>>> {
        let ir = self.ir;
        let coordinate = |(part, origin): (&u32, &IntValue<'c>)| {
            let part = if common::fault_injected("ptx.tma_tile") { &0 } else { part };
            let coordinate = self.clamped(ir.add(*origin, ir.const64(u64::from(*part))));
            Val::from(ir.resize(coordinate, ir.i32(), false))
        };
        tile.parts.iter().map(|part| part.iter().zip(&tile.origins).map(coordinate).collect()).collect()
    }

    /// Whether this warp fills the stage by TMA. The warps take turns, one stage each, so that no warp lags behind.
    pub(super) fn filling_warp(&self, stage: Option<IntValue<'c>>) -> Option<IntValue<'c>> {
        let ir = self.ir;
        let warp = || ir.shr(self.thread, ir.const32(5), false);
        let turn = stage.map_or(ir.const32(0), |stage| ir.and(stage, ir.const32(self.warps - 1)));
        (self.warps > 1).then(|| ir.icmp(IntPredicate::EQ, warp(), turn))
    }

    /// Whether this lane is the elected one of its warp, which is always the same lane. `None` if a single thread executes the
    /// code.
    pub(super) fn elected(&self) -> Option<IntValue<'c>> {
        if self.thread.is_const() {
            return None;
        }
        let one = self.ir.asm(Some(self.ir.context.bool_type().into()), "elect.sync _|$0, 0xffffffff;", "=b", &[], true);
        Some(one.expect("the assembly returns a value").into_int_value())
    }

    /// Emits an instruction for the elected lane only. `text` receives the number of the instruction's first operand.
    pub(super) fn by_elected_lane(
        &self,
        elected: Option<IntValue<'c>>,
        text: impl Fn(usize) -> String,
        letters: &str,
        args: &[Val<'c>],
    ) {
        match elected {
            None => _ = self.ir.asm(None, &text(0), letters, args, true),
            Some(one) => {
                let text = format!("@$0 {}", text(1));
                let args = [&[one.into()], args].concat();
                let letters = if letters.is_empty() { "b".into() } else { format!("b,{letters}") };
                self.ir.asm(None, &text, &letters, &args, true);
            }
        }
    }

    /// Clamps an unsigned number to `OUTSIDE`.
    fn clamped(&self, number: IntValue<'c>) -> IntValue<'c> {
        let ir = self.ir;
        let inside = ir.icmp(IntPredicate::ULT, number, ir.const64(OUTSIDE));
        ir.select(inside, number.into(), ir.const64(OUTSIDE).into()).into_int_value()
    }

    /// Moves a tile's origin outside the tensor if the dimension is empty. Reason: a map cannot have a zero extent, so the map of
    /// an empty dimension has one element.
    fn outside_if_empty(&self, size: IntValue<'c>, origin: IntValue<'c>) -> IntValue<'c> {
        let ir = self.ir;
        let empty = ir.icmp(IntPredicate::SLE, size, size.get_type().const_zero());
        ir.select(empty, ir.const64(OUTSIDE).into(), origin.into()).into_int_value()
    }
}

/// The PTX name of a TMA store's reduction. The verifier checks that one exists.
fn combination(mode: AtomicMode) -> Option<&'static str> {
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
