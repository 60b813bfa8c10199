//! Packed arithmetic on two neighbouring registers: f16x2 and bf16x2 on all targets, f32x2 if the target has the instructions.
//! `tile-sched` selects the ops; the verifier checks that the target has the instruction.

use crate::{Function, Op};
use base::Target;
use base::ir::{OpNode, Operation};
use base::ops::Field;
use base::{Region, Value};
use core_dialect::core_ops::Core;
use core_dialect::tile::Elem;
use numerics::Scalar;
use numerics::arith::{Binary, Fma, Rounding};
use serde::{Deserialize, Serialize};
use target_info::Feature;
use tileas::layout::{Layout, LayoutId};
use tileas::{CopyAtom, Type};

/// The `.as` op that `pairs` executes on two registers at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Paired(pub tileas::Op);

impl Field for Paired {
    fn values(&self, f: &mut dyn FnMut(Value)) {
        self.0.for_each_operand(f);
    }
    fn values_mut(&mut self, f: &mut dyn FnMut(&mut Value)) {
        self.0.for_each_operand_mut(f);
    }
    fn regions(&self, f: &mut dyn FnMut(Region)) {
        self.0.for_each_region(f);
    }
    fn regions_mut(&mut self, f: &mut dyn FnMut(&mut Region)) {
        self.0.for_each_region_mut(f);
    }
}

/// An operation with a packed instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packed {
    Add,
    Sub,
    Mul,
    Fma,
    Max { propagate_nan: bool },
    Min { propagate_nan: bool },
}

impl Packed {
    /// The packed operation of an op, if there is one with the same rounding.
    pub fn from_op(op: &tileas::Op) -> Option<Packed> {
        match op {
            tileas::Op::Core(Core::Binary { kind, .. }) => Packed::of_binary(*kind),
            tileas::Op::Core(Core::Fma { kind: Fma { rounding, ftz }, .. }) => {
                has_packed_rounding(*rounding, *ftz).then_some(Packed::Fma)
            }
            _ => None,
        }
    }

    /// The packed operation for a binary float op with these flags.
    pub fn of_binary(kind: Binary) -> Option<Packed> {
        match kind {
            Binary::AddF { rounding, ftz } if has_packed_rounding(rounding, ftz) => Some(Packed::Add),
            Binary::SubF { rounding, ftz } if has_packed_rounding(rounding, ftz) => Some(Packed::Sub),
            Binary::MulF { rounding, ftz } if has_packed_rounding(rounding, ftz) => Some(Packed::Mul),
            Binary::MaxF { propagate_nan, ftz: false } => Some(Packed::Max { propagate_nan }),
            Binary::MinF { propagate_nan, ftz: false } => Some(Packed::Min { propagate_nan }),
            _ => None,
        }
    }

    /// Returns whether the target has the packed instruction for an element type.
    pub fn has_instruction(self, elem: Elem, target: Target) -> bool {
        let is_min_or_max = matches!(self, Packed::Max { .. } | Packed::Min { .. });
        match elem {
            Elem::Scalar(Scalar::F16 | Scalar::BF16) => true,
            Elem::Scalar(Scalar::F32) => target.has(Feature::PackedF32) && !is_min_or_max,
            _ => false,
        }
    }
}

/// Returns whether an op rounds like packed instructions: to nearest even, with subnormals.
fn has_packed_rounding(rounding: Rounding, ftz: bool) -> bool {
    rounding == Rounding::NearestEven && !ftz
}

/// Checks whether an op can execute on two registers at once. The error is the reason why the op cannot.
pub fn check_packed_op(
    function: &Function,
    layouts: &base::Arena<LayoutId, Layout>,
    op: &OpNode<Op>,
    target: Target,
) -> Result<(), String> {
    let (Op::Core(program) | Op::Pairs { op: Paired(program) }) = &op.kind else {
        return Err("it computes nothing on registers".into());
    };
    let name = program.mnemonic();
    let packed = Packed::from_op(program).ok_or_else(|| format!("this kind of '{name}' has no packed form"))?;
    let [result] = op.results[..] else { return Err(format!("'{name}' has one result")) };
    let ty = function.body.ty(result);
    let elem = ty.elem().filter(|elem| packed.has_instruction(*elem, target));
    elem.ok_or_else(|| format!("{target} has no packed '{name}' of {}", base::text::TypeText::print(ty)))?;
    match registers_per_thread(layouts, ty) {
        2.. => Ok(()),
        _ => Err("each thread has one register of it".into()),
    }
}

/// The number of elements of a value in each thread, where one register holds one element.
pub fn registers_per_thread(layouts: &base::Arena<LayoutId, Layout>, ty: &Type) -> usize {
    ty.layout().map_or(1, |layout| layouts[layout].registers())
}

/// Returns whether an op loads or stores neighbouring registers of a thread by one instruction.
pub fn moves_vectors(op: &Op) -> bool {
    use tileas::Op as Program;
    let Op::Core(program) = op else { return false };
    match program {
        Program::LoadView { atom, .. }
        | Program::StoreView { atom, .. }
        | Program::Load { atom, .. }
        | Program::Store { atom, .. }
        | Program::SharedLoad { atom, .. } => matches!(atom, CopyAtom::Vector { vector_bits: 1.. }),
        Program::SharedStore { atom, .. } => matches!(atom, CopyAtom::Vector { vector_bits: 1.. } | CopyAtom::Matrix { .. }),
        _ => false,
    }
}
