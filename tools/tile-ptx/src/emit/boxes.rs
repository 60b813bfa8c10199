//! Copies by boxes of a tensor map: `cp.async.bulk.tensor`, which one thread asks for.
//!
//! The map is a hidden parameter, of which only the address is used. Coordinates are 32-bit numbers of elements; what the program
//! means by a tile outside of the tensor, however far, is outside for the copy engine too.

use super::Emitter;
use crate::kernel;
use base::Value;
use base::diag::Result;
use base::ir::Op as OpId;
use inkwell::IntPredicate;
use inkwell::values::IntValue;
use std::fmt::Write as _;
use tileas::{Type, boxes};

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
        let address = ir.asm(Some(ir.i64().into()), &address, "=l", &[], false).expect("the assembly gives an address");
        let rank = order.len();
        let bytes = stated.box_bytes();
        self.guarded(Some(self.first_thread()), &[], |e| {
            for (at, origin) in boxes::boxes(&tile, &stated.extent).iter().enumerate() {
                let mut text = format!(
                    "cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [$0+{}], [$1, {{",
                    at as u32 * bytes
                );
                let mut args = vec![start.into(), address, full.into()];
                for (dim, part) in origin.iter().enumerate() {
                    let coordinate = e.no_more(ir.add(origins[dim], ir.const64(u64::from(*part))));
                    let _ = write!(text, "{}${}", if dim == 0 { "" } else { ", " }, args.len());
                    args.push(ir.resize(coordinate, ir.i32(), false).into());
                }
                text += "}], [$2];";
                let letters = format!("r,l,r{}", ",r".repeat(rank));
                ir.asm(None, &text, &letters, &args, true);
            }
            Vec::new()
        });
        self.set_token(result);
        Ok(())
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
