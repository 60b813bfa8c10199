//! The type constraints of operands and results.

use crate::types::{Element, Type};
use numerics::Scalar::{self, *};

/// A set of types. `summary` is the name of the set in NVIDIA's messages, and `holds` tests whether a type is in the set.
#[derive(Debug)]
pub struct Constraint {
    pub summary: &'static str,
    pub holds: fn(&Type) -> bool,
}

macro_rules! constraints {
    ($($name:ident $summary:literal $holds:expr;)*) => {
        $(pub const $name: Constraint = Constraint { summary: $summary, holds: $holds };)*
    };
}

/// The integer element types except i4.
const INTS: &[Scalar] = &[I1, I8, I16, I32, I64];
/// The float element types with general arithmetic.
const BASE_FLOATS: &[Scalar] = &[F16, BF16, F32, F64];
/// The element types of the operands of `mmaf`.
const MMAF_OPERAND_ELEMENTS: &[Scalar] = &[F16, BF16, F32, F64, TF32, F8E4M3FN, F8E5M2];
/// The element types of the accumulator and result of `mmaf`.
const MMAF_RESULT_ELEMENTS: &[Scalar] = &[F16, F32, F64];

fn is_tile_of(ty: &Type, elements: &[Scalar]) -> bool {
    ty.tile().and_then(|(element, _)| element.scalar()).is_some_and(|scalar| elements.contains(&scalar))
}
fn is_scalar_tile_of(ty: &Type, elements: &[Scalar]) -> bool {
    is_tile_of(ty, elements) && ty.tile().is_some_and(|(_, shape)| shape.is_empty())
}
fn is_pointer_tile(ty: &Type) -> bool {
    matches!(ty, Type::Tile { element: Element::Ptr(_), .. })
}

constraints! {
    ANY "any type" |_| true;
    TILE "Tile type" |ty| ty.tile().is_some();
    FLOAT "tile of f16 or bf16 or f32 or f64 values" |ty| is_tile_of(ty, BASE_FLOATS);
    ANY_FLOAT "tile of f16 or bf16 or f32 or f64 or tf32 or f8E4M3FN or f8E5M2 or f8E8M0FNU or f4E2M1FN or fnv8E5M3FNU values"
        |ty| ty.tile().is_some_and(|(element, _)| element.scalar().is_some_and(Scalar::is_float));
    INT "tile of i1 or i8 or i16 or i32 or i64 values" |ty| is_tile_of(ty, INTS);
    INT_TO_I32 "tile of i1 or i8 or i16 or i32 values" |ty| is_tile_of(ty, &[I1, I8, I16, I32]);
    INT_OR_I4 "tile of i1 or i8 or i16 or i32 or i64 or i4 values"
        |ty| ty.tile().is_some_and(|(element, _)| element.scalar().is_some_and(Scalar::is_int));
    NUMBER "tile of i1 or i8 or i16 or i32 or i64 or f16 or bf16 or f32 or f64 or tf32 or f8E4M3FN or f8E5M2 or f8E8M0FNU or \
        f4E2M1FN or fnv8E5M3FNU values" |ty| ty.tile().is_some_and(|(element, _)| element.scalar().is_some_and(|s| s != I4));
    BOOL "tile of i1 values" |ty| is_tile_of(ty, &[I1]);
    I8_TILE "tile of i8 values" |ty| is_tile_of(ty, &[I8]);
    I32_TILE "tile of i32 values" |ty| is_tile_of(ty, &[I32]);
    I64_TILE "tile of i64 values" |ty| is_tile_of(ty, &[I64]);
    UNPACKED "tile of i1 or i8 or i16 or i32 or i64 or f16 or bf16 or f32 or f64 or tf32 or f8E4M3FN or f8E5M2 or f8E8M0FNU or \
        f4E2M1FN or fnv8E5M3FNU or i4 values" |ty| ty.tile().is_some_and(|(element, _)| element.scalar().is_some());
    POINTER "tile of Pointer type values" is_pointer_tile;
    SCALAR_POINTER "0D tile of Pointer type values" |ty| is_pointer_tile(ty) && ty.tile().is_some_and(|(_, shape)| shape.is_empty());
    SCALAR_BOOL "0D tile of i1 values" |ty| is_scalar_tile_of(ty, &[I1]);
    SCALAR_I32 "0D tile of i32 values" |ty| is_scalar_tile_of(ty, &[I32]);
    SCALAR_INT "0D tile of i1 or i8 or i16 or i32 or i64 values" |ty| is_scalar_tile_of(ty, INTS);
    TOKEN "cuda tile token type" Type::is_token;
    TENSOR_VIEW "tensor view type" |ty| matches!(ty, Type::TensorView { .. });
    TILE_VIEW "TileView instance" |ty| ty.tile_view().is_some();
    PARTITION_VIEW "partition view type" |ty| matches!(ty, Type::PartitionView { .. });
    STRIDED_VIEW "strided view type" |ty| matches!(ty, Type::StridedView { .. });
    GATHER_SCATTER_VIEW "gather/scatter view type" |ty| matches!(ty, Type::GatherScatterView { .. });
    MMAF_OPERAND "mmaf operand tile type of f16 or bf16 or f32 or f64 or tf32 or f8E4M3FN or f8E5M2 values" |ty| is_tile_of(ty, MMAF_OPERAND_ELEMENTS);
    MMAF_RESULT "mmaf acc/result tile type of f16 or f32 or f64 values" |ty| is_tile_of(ty, MMAF_RESULT_ELEMENTS);
    MMAI_OPERAND "mmai operand tile type of i8 values" |ty| is_tile_of(ty, &[I8]);
    MMAI_ACC "mmai acc tile type of i32 values" |ty| is_tile_of(ty, &[I32]);
    MMAI_RESULT "mmai result tile type of i32 values" |ty| is_tile_of(ty, &[I32]);
    MMAF_SCALED_OPERAND "mmaf_scaled operand tile type of f8E4M3FN or f8E5M2 or f4E2M1FN values"
        |ty| is_tile_of(ty, &[F8E4M3FN, F8E5M2, F4E2M1FN]);
    MMAF_SCALED_RESULT "mmaf_scaled result tile type of f32 values" |ty| is_tile_of(ty, &[F32]);
    MMAF_SCALED_SCALE "mmaf_scaled scale tile type of f8E4M3FN or f8E8M0FNU or fnv8E5M3FNU values"
        |ty| is_tile_of(ty, &[F8E8M0FNU, F8E4M3FN, F8E5M3FNU]);
}
