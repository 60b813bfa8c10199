//! Copies by boxes of a tensor map: `cp.async.bulk.tensor`, which one thread asks for. The warp whose turn it is goes there as a whole
//! and stays together: what its other lanes leave out is predicated, so that no branch divides them.
//!
//! The map is a hidden parameter, of which only the address is used. Coordinates are 32-bit numbers of elements; what the program
//! means by a tile outside of the tensor, however far, is outside for the copy engine too.

use super::Emitter;
use crate::ir::Val;
use crate::kernel;
use base::Value;
use base::diag::Result;
use base::ir::Op as OpId;
use inkwell::IntPredicate;
use inkwell::values::IntValue;
use tileas::{Type, boxes};

/// From a tile of global memory to shared memory, where a barrier counts the bytes.
const KIND: &str = "shared::cluster.global.tile.mbarrier::complete_tx::bytes";

/// A coordinate that is outside of every tensor: `.as` has no maps with longer dimensions.
const OUTSIDE: u64 = i32::MAX as u64;

impl<'c> Emitter<'c, '_> {
    pub(super) fn copy_boxes(&mut self, op: OpId, program: &tileas::Op, result: Value) -> Result<()> {
        let tileas::Op::CopyBoxes { view, index, buffer, map, .. } = program else {
            unreachable!("only copies by boxes come here")
        };
        let Type::View(ty) = self.ty(*view) else { unreachable!("the operand is a view") };
        let (Some(order), Some((pipe, _))) = (boxes::order(ty), self.function.attrs.pipe_of(*buffer)) else {
            return Err(self.unsupported(op));
        };
        let stated = &self.function.attrs.program.maps[*map];
        let tile: Vec<u32> = order.iter().map(|t| ty.tile[*t]).collect();
        let ir = self.ir;
        let start = ir.add(self.buffer_start(*buffer), ir.const32(self.function.attrs.placements[*buffer].offset));
        let full = self.full_barrier(pipe, *buffer);
        let memory = self.memory(*view);
        let origins: Vec<IntValue<'c>> = order
            .iter()
            .map(|t| {
                let step = u64::from(ty.kind.step(&ty.tile, *t));
                let index = ir.resize(self.scalar(index[*t]).into_int_value(), ir.i64(), false);
                let origin = ir.mul(self.no_more(index), ir.const64(step));
                self.unless_empty(memory.sizes[ty.dim_map[*t] as usize], origin)
            })
            .collect();
        let number = (0..).zip(self.function.attrs.program.maps.ids()).find(|(_, id)| id == map).map_or(0, |(number, _)| number);
        let parameter = kernel::map_parameter(self.function, number);
        let address = format!("mov.b64 $0, {parameter};\n\tcvta.param.u64 $0, $0;");
        let rank = order.len();
        let bytes = stated.box_bytes();
        self.guarded(self.filling_warp(self.slots.get(buffer).copied()), &[], |e| {
            let address = ir.asm(Some(ir.i64().into()), &address, "=l", &[], false).expect("the assembly gives an address");
            let one = e.elected();
            for (at, origin) in boxes::boxes(&tile, &stated.extent).iter().enumerate() {
                let mut args = vec![start.into(), address, full.into()];
                args.extend(origin.iter().zip(&origins).map(|(part, origin)| {
                    let part = if common::planted("ptx.box") { &0 } else { part };
                    let coordinate = e.no_more(ir.add(*origin, ir.const64(u64::from(*part))));
                    Val::from(ir.resize(coordinate, ir.i32(), false))
                }));
                let text = |first: usize| {
                    let coordinates: Vec<String> = (0..rank).map(|dim| format!("${}", first + 3 + dim)).collect();
                    let (to, map, barrier) = (format!("${first}+{}", at as u32 * bytes), first + 1, first + 2);
                    let coordinates = coordinates.join(", ");
                    format!("cp.async.bulk.tensor.{rank}d.{KIND} [{to}], [${map}, {{{coordinates}}}], [${barrier}];")
                };
                e.by_one(one, text, &format!("r,l,r{}", ",r".repeat(rank)), &args);
            }
            Vec::new()
        });
        self.set_token(result);
        Ok(())
    }

    /// Whether this is the warp that fills a slot by boxes; they take turns, so that none falls behind the others.
    pub(super) fn filling_warp(&self, slot: Option<IntValue<'c>>) -> Option<IntValue<'c>> {
        let ir = self.ir;
        let warp = || ir.shr(self.thread, ir.const32(5), false);
        let turn = slot.map_or(ir.const32(0), |slot| ir.and(slot, ir.const32(self.warps - 1)));
        (self.warps > 1).then(|| ir.icmp(IntPredicate::EQ, warp(), turn))
    }

    /// A number that is not 0 for one lane of the warp, always the same; none where there is one thread only.
    pub(super) fn elected(&self) -> Option<IntValue<'c>> {
        if self.thread.is_const() {
            return None;
        }
        let text = "{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.b32 $0, 1, 0, p; }";
        let one = self.ir.asm(Some(self.ir.i32().into()), text, "=r", &[], true);
        Some(one.expect("the assembly gives a value").into_int_value())
    }

    /// An instruction that the elected lane alone executes; its text is told the number of its first operand.
    pub(super) fn by_one(&self, elected: Option<IntValue<'c>>, text: impl Fn(usize) -> String, letters: &str, args: &[Val<'c>]) {
        match elected {
            None => _ = self.ir.asm(None, &text(0), letters, args, true),
            Some(one) => {
                let text = format!("{{ .reg .pred p; setp.ne.b32 p, $0, 0; @p {} }}", text(1));
                let args = [&[one.into()], args].concat();
                self.ir.asm(None, &text, &format!("r,{letters}"), &args, true);
            }
        }
    }

    /// A number without a sign, or that of what is outside.
    fn no_more(&self, number: IntValue<'c>) -> IntValue<'c> {
        let ir = self.ir;
        let inside = ir.icmp(IntPredicate::ULT, number, ir.const64(OUTSIDE));
        ir.select(inside, number.into(), ir.const64(OUTSIDE).into()).into_int_value()
    }

    /// A map has no extent of zero, so of an empty dimension it has one element.
    fn unless_empty(&self, size: IntValue<'c>, origin: IntValue<'c>) -> IntValue<'c> {
        let ir = self.ir;
        let empty = ir.icmp(IntPredicate::SLE, size, size.get_type().const_zero());
        ir.select(empty, ir.const64(OUTSIDE).into(), origin.into()).into_int_value()
    }
}
