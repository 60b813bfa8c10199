//! Pointer arithmetic, and loads and stores through tiles of pointers.

use super::Emitter;
use crate::ir::{Val, address_space};
use base::Value;
use base::core_ops::Core;
use base::diag::Result;
use base::ir::Op as OpId;
use base::memory::MemoryOrdering;
use base::tile::{Elem, Space};
use inkwell::values::IntValue;

impl<'c> Emitter<'c, '_> {
    pub(super) fn pointer(&mut self, core: &Core, result: Value) {
        let ir = self.ir;
        let registers: Vec<Val<'c>> = match core {
            Core::IntToPtr { x } => {
                let Elem::Ptr { space, .. } = self.elem(result) else { unreachable!("the result is a pointer") };
                self.get(*x).iter().map(|x| ir.int_to_ptr(x.into_int_value(), space_number(space)).into()).collect()
            }
            Core::PtrToInt { x } => self.get(*x).iter().map(|x| ir.ptr_to_int(x.into_pointer_value()).into()).collect(),
            Core::PtrCast { x } => self.get(*x).to_vec(),
            Core::Offset { ptr, offset } => {
                let Elem::Ptr { pointee, .. } = self.elem(*ptr) else { unreachable!("the operand is a pointer") };
                let ty = ir.stored(Elem::Scalar(pointee));
                let pairs = self.get(*ptr).iter().zip(self.get(*offset));
                pairs
                    .map(|(ptr, offset)| {
                        let offset = ir.resize(offset.into_int_value(), ir.i64(), true);
                        ir.element_ptr(ty, ptr.into_pointer_value(), offset).into()
                    })
                    .collect()
            }
            _ => unreachable!("only pointer arithmetic comes here"),
        };
        self.set(result, registers);
    }

    pub(super) fn pointer_access(&mut self, op: OpId, program: &tileas::Op, results: &[Value]) -> Result<()> {
        match program {
            tileas::Op::Load { ptr, mask, other, order, .. } => {
                if order.semantics != MemoryOrdering::Weak {
                    return Err(self.unsupported(op));
                }
                let elem = self.elem(results[0]);
                let ty = self.ir.stored(elem);
                let registers = (0..self.get(*ptr).len()).map(|i| {
                    let ptr = self.get(*ptr)[i].into_pointer_value();
                    let mask = mask.map(|mask| self.get(mask)[i].into_int_value());
                    let other = other.map_or_else(|| self.ir.constant(elem, 0), |other| self.get(other)[i]);
                    self.guarded(mask, &[other], |e| vec![e.register_form(elem, e.ir.load(ty, ptr, elem.bytes()))])[0]
                });
                let registers = registers.collect();
                self.set(results[0], registers);
                self.set_token(results[1]);
            }
            tileas::Op::Store { ptr, value, mask, order, .. } => {
                if order.semantics != MemoryOrdering::Weak {
                    return Err(self.unsupported(op));
                }
                let elem = self.elem(*value);
                let speaks = self.speaks(&self.layout(*value));
                for i in 0..self.get(*ptr).len() {
                    let ptr = self.get(*ptr)[i].into_pointer_value();
                    let stored = self.memory_form(elem, self.get(*value)[i]);
                    let mask = mask.map(|mask| self.get(mask)[i].into_int_value());
                    let mask = self.both(mask, speaks);
                    self.guarded(mask, &[], |e| {
                        e.ir.store(stored, ptr, elem.bytes());
                        Vec::new()
                    });
                }
                self.set_token(results[0]);
            }
            _ => unreachable!("only pointer accesses come here"),
        }
        Ok(())
    }

    pub(super) fn both(&self, a: Option<IntValue<'c>>, b: Option<IntValue<'c>>) -> Option<IntValue<'c>> {
        match (a, b) {
            (Some(a), Some(b)) => Some(self.ir.and(a, b)),
            (a, b) => a.or(b),
        }
    }

    /// Runs `then` where the condition holds; elsewhere its values are `otherwise`.
    pub(super) fn guarded(
        &self,
        cond: Option<IntValue<'c>>,
        otherwise: &[Val<'c>],
        then: impl FnOnce(&Self) -> Vec<Val<'c>>,
    ) -> Vec<Val<'c>> {
        let ir = self.ir;
        let Some(cond) = cond else { return then(self) };
        let before = ir.here();
        let (inside, after) = (ir.block(self.kernel, ""), ir.block(self.kernel, ""));
        ir.branch(cond, inside, after);
        ir.builder.position_at_end(inside);
        let values = then(self);
        let end = ir.here();
        ir.go(after);
        ir.builder.position_at_end(after);
        let merge = |(value, otherwise): (&Val<'c>, &Val<'c>)| {
            let phi = ir.builder.build_phi(value.get_type(), "").expect("the builder is at the start of a block");
            phi.add_incoming(&[(value, end), (otherwise, before)]);
            phi.as_basic_value()
        };
        values.iter().zip(otherwise).map(merge).collect()
    }
}

fn space_number(space: Space) -> u16 {
    match space {
        Space::Global => crate::ir::GLOBAL,
        Space::Local => crate::ir::LOCAL,
        Space::Generic => {
            debug_assert_eq!(address_space(space), inkwell::AddressSpace::default());
            0
        }
    }
}
