//! Atomic read-modify-write and compare-and-swap, as inline assembly: LLVM drops their order and scope.

use super::Emitter;
use crate::ir::Val;
use base::Scalar;
use base::Value;
use base::diag::Result;
use base::ir::Op as OpId;
use base::memory::{AtomicMode, MemoryOrdering, MemoryScope, Order};
use base::tile::Elem;

impl<'c> Emitter<'c, '_> {
    pub(super) fn atomic(&mut self, op: OpId, program: &tileas::Op, results: &[Value]) -> Result<()> {
        let (ptr, values, mask, order, mode) = match program {
            tileas::Op::AtomicRmw { ptr, value, mask, order, mode, .. } => (*ptr, vec![*value], *mask, *order, Some(*mode)),
            tileas::Op::AtomicCas { ptr, compare, value, mask, order, .. } => (*ptr, vec![*compare, *value], *mask, *order, None),
            _ => unreachable!("only atomics come here"),
        };
        let elem = self.elem(results[0]);
        let (name, constraint) = self.atomic_name(op, elem, mode)?;
        let speaks = self.speaks(&self.layout(results[0]));
        if speaks.is_some() {
            // The old value would have to reach the other threads.
            return Err(self.unsupported(op));
        }
        let text = format!("atom{}.global.{name} $0, [$1], {};", qualifiers(order), if mode.is_some() { "$2" } else { "$2, $3" });
        let constraints = format!("={constraint},l{}", format!(",{constraint}").repeat(values.len()));
        let registers = (0..self.get(ptr).len()).map(|i| {
            let mut args = vec![self.get(ptr)[i]];
            args.extend(values.iter().map(|value| self.get(*value)[i]));
            let mask = mask.map(|mask| self.get(mask)[i].into_int_value());
            let otherwise = [args[1]];
            self.guarded(mask, &otherwise, |e| {
                vec![e.ir.asm(Some(e.ir.elem(elem)), &text, &constraints, &args, true).expect("atomics give the old value")]
            })[0]
        });
        let registers: Vec<Val<'c>> = registers.collect();
        self.set(results[0], registers);
        self.set_token(results[1]);
        Ok(())
    }

    fn atomic_name(&self, op: OpId, elem: Elem, mode: Option<AtomicMode>) -> Result<(String, &'static str)> {
        let scalar = elem.carrier();
        let bits = scalar.bits();
        let constraint = match scalar {
            Scalar::F32 => "f",
            Scalar::F64 => "d",
            Scalar::F16 | Scalar::BF16 => "h",
            _ if bits == 64 => "l",
            _ => "r",
        };
        let name = match mode {
            None => format!("cas.b{bits}"),
            Some(AtomicMode::Xchg) => format!("exch.b{bits}"),
            Some(AtomicMode::And) => format!("and.b{bits}"),
            Some(AtomicMode::Or) => format!("or.b{bits}"),
            Some(AtomicMode::Xor) => format!("xor.b{bits}"),
            Some(AtomicMode::Add) => format!("add.u{bits}"),
            Some(AtomicMode::Max) => format!("max.s{bits}"),
            Some(AtomicMode::Min) => format!("min.s{bits}"),
            Some(AtomicMode::UMax) => format!("max.u{bits}"),
            Some(AtomicMode::UMin) => format!("min.u{bits}"),
            Some(AtomicMode::AddF) => match scalar {
                Scalar::F32 => "add.f32".into(),
                Scalar::F64 => "add.f64".into(),
                Scalar::F16 => "add.noftz.f16".into(),
                Scalar::BF16 if self.target.0 >= 90 => "add.noftz.bf16".into(),
                _ => return Err(self.unsupported(op)),
            },
        };
        Ok((name, constraint))
    }
}

fn qualifiers(order: Order) -> String {
    let semantics = match order.semantics {
        MemoryOrdering::Weak | MemoryOrdering::Relaxed => ".relaxed",
        MemoryOrdering::Acquire => ".acquire",
        MemoryOrdering::Release => ".release",
        MemoryOrdering::AcqRel => ".acq_rel",
    };
    let scope = match order.scope {
        Some(MemoryScope::TileBlock) => ".cta",
        Some(MemoryScope::System) => ".sys",
        Some(MemoryScope::Device) | None => ".gpu",
    };
    format!("{semantics}{scope}")
}
