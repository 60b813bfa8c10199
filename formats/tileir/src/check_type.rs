//! The rules of types. Error messages have the wording of NVIDIA's tileiras.

use crate::enums::WireEnum;
use crate::types::{DYNAMIC, Element, Type, TypeId};
use base::Arena;
use core_dialect::memory::Padding;
use numerics::Scalar;

/// The maximum number of elements of a tile: 2^24, as in NVIDIA's tileiras.
pub const MAX_TILE_ELEMENTS: i64 = 16_777_216;

type Check<T = ()> = Result<T, String>;

/// The scalar types other than i4, as NVIDIA's messages list them.
const SCALARS_EXCEPT_I4: &str = "f16 or bf16 or f32 or tf32 or f64 or f8E4M3FN or f8E5M2 or f8E8M0FNU or f4E2M1FN or \
                                 fnv8E5M3FNU or i1 or i8 or i16 or i32 or i64";

/// Checks a type parameter that must be a scalar type other than i4, and returns the scalar type.
pub fn scalar_except_i4(ty: &Type, parameter: &str) -> Check<Scalar> {
    match ty {
        Type::Scalar(scalar) if *scalar != Scalar::I4 => Ok(*scalar),
        _ => Err(format!("failed to verify '{parameter}': {SCALARS_EXCEPT_I4}")),
    }
}

/// Checks the element type of a tile, and returns it.
pub fn tile_element(ty: &Type) -> Check<Element> {
    match ty {
        Type::Scalar(scalar) => Ok(Element::Scalar(*scalar)),
        Type::Ptr(pointer) => Ok(Element::Ptr(*pointer)),
        _ => Err(format!(
            "failed to verify 'elementType': {SCALARS_EXCEPT_I4} or Pointer type or i4 or A not-yet-resolved (parametric) dtype usable as an element type"
        )),
    }
}

/// Checks the shape of a tile.
pub fn check_tile(element: Element, shape: &[i64]) -> Check {
    if element == Element::Scalar(Scalar::F4E2M1FN) && shape.iter().all(|dim| dim % 2 != 0) {
        return Err("F4E2M1FN tiles must have an even number of elements".into());
    }
    if matches!(element, Element::Ptr(pointer) if pointer.pointee == Scalar::F4E2M1FN) && !shape.is_empty() {
        return Err("tiles of ptr<f4E2M1FN> must have rank 0; use an f4 tile view for memory accesses".into());
    }
    let mut element_count: i64 = 1;
    for &dim in shape {
        if dim <= 0 {
            return Err(format!("all dimensions must be positive constants, got {}", join(shape, i64::to_string)));
        }
        if dim & (dim - 1) != 0 {
            return Err(format!("all dimensions must be powers of two, got {}", join(shape, i64::to_string)));
        }
        element_count = element_count.saturating_mul(dim);
        if element_count > MAX_TILE_ELEMENTS {
            return Err(format!("tile would exceed the maximum of {MAX_TILE_ELEMENTS} elements"));
        }
    }
    Ok(())
}

/// Checks the shape and the strides of a tensor view.
pub fn check_tensor_view(shape: &[i64], strides: &[i64]) -> Check {
    if shape.len() != strides.len() {
        let (shape, strides) = (shape.len(), strides.len());
        return Err(format!(
            "expected shape and stride to be of same rank but got shape of rank {shape} and stride of rank {strides}"
        ));
    }
    for (values, what) in [(shape, "sizes"), (strides, "strides")] {
        if values.iter().any(|value| *value <= 0 && *value != DYNAMIC) {
            let values = join(values, |value| if *value == DYNAMIC { "?".into() } else { value.to_string() });
            return Err(format!("dimensions must have strictly positive constant {what} but got [{values}]"));
        }
    }
    Ok(())
}

/// Checks a partition, strided or gather/scatter view. The type of its tensor view is in `types` and must be valid. Other types are
/// accepted.
pub fn check_view(types: &Arena<TypeId, Type>, ty: &Type) -> Check {
    let Some((tile_shape, tensor)) = ty.tile_view() else { return Ok(()) };
    let Type::TensorView { element, shape: tensor_shape, .. } = &types[tensor] else {
        return Err("a view must look at a tensor view".into());
    };
    if tile_shape.is_empty() {
        return Err("0-dimension tile shape is not supported".into());
    }
    if tile_shape.len() != tensor_shape.len() {
        let (rank, tile_rank) = (tensor_shape.len(), tile_shape.len());
        return Err(format!(
            "expected tensor_view rank and tile rank to match, got tensor_view of rank {rank} and tiles of rank {tile_rank}"
        ));
    }
    let dim_map = match ty {
        Type::PartitionView { dim_map, .. } | Type::StridedView { dim_map, .. } => Some(dim_map),
        _ => None,
    };
    if let Some(dim_map) = dim_map.filter(|dim_map| dim_map.len() != tile_shape.len()) {
        let (rank, got) = (tile_shape.len(), dim_map.len());
        return Err(format!("expected dim_map to map exactly all {rank} dimensions of the tile, got {got} mappings"));
    }
    if tile_shape.iter().any(|dim| *dim <= 0) {
        return Err(format!("tile shape dimensions must have positive length but got [{}]", join(tile_shape, i32::to_string)));
    }
    if tile_shape.iter().any(|dim| dim & (dim - 1) != 0) {
        return Err(format!("tile shape dimensions must have power of two length but got [{}]", join(tile_shape, i32::to_string)));
    }
    if let Some(dim_map) = dim_map {
        check_permutation(dim_map, tensor_shape.len())?;
    }
    if let Type::GatherScatterView { sparse_dim, .. } = ty
        && *sparse_dim as usize >= tensor_shape.len()
    {
        let rank = tensor_shape.len();
        return Err(format!(
            "gather dimension is outside of tensor view dimensions, expected strictly less than {rank}, got {sparse_dim}"
        ));
    }
    let tile_shape: Vec<i64> = tile_shape.iter().map(|dim| i64::from(*dim)).collect();
    check_tile(Element::Scalar(*element), &tile_shape)?;
    if let Some(padding) = ty.padding().filter(|padding| *padding != Padding::Zero && element.is_int()) {
        let padding = padding.spelling();
        return Err(format!("padding_value {padding} can only be used with floating point element types, got '{element}'"));
    }
    match ty {
        Type::StridedView { traversal, .. } => check_traversal_strides(traversal, tile_shape.len()),
        _ => Ok(()),
    }
}

/// Checks that a dimension map names each dimension of a tensor once.
fn check_permutation(dim_map: &[i32], rank: usize) -> Check {
    let mut used = vec![None; rank];
    for (tile_dim, &target) in dim_map.iter().enumerate() {
        if target < 0 {
            return Err(format!("target dimension must not be negative, got {target}"));
        }
        let Some(slot) = used.get_mut(target as usize) else {
            return Err(format!(
                "target dimension is outside of tensor view dimensions, expected strictly less than {rank}, got {target}"
            ));
        };
        if let Some(earlier) = slot.replace(tile_dim) {
            return Err(format!("target dimension {target} mapped at least twice (for tile dimensions {earlier} and {tile_dim})"));
        }
    }
    Ok(())
}

fn check_traversal_strides(strides: &[i32], rank: usize) -> Check {
    if strides.len() != rank {
        return Err(format!("expected {rank} traversal strides, got {}", strides.len()));
    }
    if strides.iter().any(|stride| *stride <= 0) {
        return Err(format!("traversal strides must be strictly positive but got [{}]", join(strides, i32::to_string)));
    }
    Ok(())
}

/// Joins texts with commas.
fn join<T>(values: &[T], text: impl Fn(&T) -> String) -> String {
    values.iter().map(text).collect::<Vec<_>>().join(", ")
}
