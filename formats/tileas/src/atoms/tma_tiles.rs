//! The shared-memory layout of TMA tiles, and the tensor map of a view.
//!
//! One TMA copy moves one TMA tile (`boxDim` of the tensor map). A tile consists of one or more TMA tiles. In the buffer, a TMA
//! tile is row-major, and a row is along the contiguous dimension. The map's swizzle permutes the 16-byte chunks by row number. If
//! the tile is larger than a TMA tile, TMA tiles with further rows come next. TMA tiles further along the contiguous dimension come
//! last.

use super::tma_windows::{self, ArrayWindow};
use crate::layout::Strides;
use crate::{BufferInfo, Space};
use base::{Body, Value};
use core_dialect::core_ops::Core;
use core_dialect::memory::AtomicMode;
use core_dialect::rules::{CoreDialectOp, CoreDialectType, CoreType};
use core_dialect::tile::{Dense, Elem, MemRef, View, ViewKind};
use numerics::Scalar;
use numerics::arith::{Convert, Signedness};
use tensormap::{DataType, Expr, Map, Swizzle};

/// Maximum bytes of a row of a TMA tile with a swizzle (CUDA Driver API, `cuTensorMapEncodeTiled`).
const MAX_ROW_BYTES: u32 = 128;
/// Bytes of the chunks that the swizzle permutes.
const CHUNK_BYTES: u32 = 16;
/// Maximum extent of a TMA tile along a dimension (CUDA Driver API, `cuTensorMapEncodeTiled`).
const MAX_EXTENT: u32 = 256;
/// Minimum alignment of a TMA tile in shared memory, in bytes (PTX ISA). With a swizzle, the alignment is 8 rows, the period of the
/// swizzle.
const MIN_ALIGN_BYTES: u32 = 128;

/// The tile's dimensions in the order of the tensor map. The contiguous dimension is first. The other dimensions of the memref
/// follow from the last to the first. `None` if no dimension is contiguous.
pub fn dims_in_map_order(view: &View) -> Option<Vec<usize>> {
    let tile_dim = |dim: usize| view.dim_map.iter().position(|mapped| *mapped as usize == dim);
    let rank = view.memref.strides.len();
    let inner = (0..rank).rev().find(|dim| view.memref.strides[*dim] == Some(1))?;
    let others = (0..rank).rev().filter(|dim| *dim != inner);
    std::iter::once(inner).chain(others).map(tile_dim).collect()
}

/// The extents of the TMA tile, and the swizzle, for tiles of the extents `tile`. Both lists of extents are in the map's order.
/// `None` if the bytes of a row are not 16, 32, 64 or a multiple of 128.
pub fn tma_tile_of(elem: Scalar, tile: &[u32]) -> Option<(Vec<u32>, Swizzle)> {
    let bytes = elem.bits() / 8;
    let row_bytes = (tile.first()? * bytes).min(MAX_ROW_BYTES);
    let swizzle = match row_bytes {
        128 => Swizzle::Bytes128,
        64 => Swizzle::Bytes64,
        32 => Swizzle::Bytes32,
        16 => Swizzle::None,
        _ => return None,
    };
    let rows = tile[1..].iter().map(|extent| (*extent).min(MAX_EXTENT));
    Some((std::iter::once(row_bytes / bytes).chain(rows).collect(), swizzle))
}

/// The extents of the TMA tile, and the swizzle, for the tiles of a view in a map of `rank` dimensions. The map of a window has
/// more dimensions than the view.
pub fn view_tma_tile(view: &View, rank: usize) -> Option<(Vec<u32>, Swizzle)> {
    let tile: Vec<u32> = dims_in_map_order(view)?.iter().map(|t| view.tile[*t]).collect();
    let (mut extent, swizzle) = tma_tile_of(view.memref.elem, &tile)?;
    extent.resize(rank, 1);
    Some((extent, swizzle))
}

/// The buffer that TMA tiles of these extents fill. `None` if a TMA tile has fewer than 128 bytes, or if a stage would not start at
/// a period of the swizzle.
pub fn tma_buffer(view: &View, extent: &[u32], swizzle: Swizzle) -> Option<BufferInfo> {
    let (elem, order) = (Elem::Scalar(view.memref.elem), dims_in_map_order(view)?);
    let strides = Strides::for_shape(&view.tile);
    // For each dimension of the map, the number of its bits inside a TMA tile, and the bases of all its bits.
    let dim_bits = |dim: usize| (extent[dim].trailing_zeros() as usize, strides.dim_bits(order[dim]).map(|bit| 1u32 << bit));
    let inside_tma_tile = (0..order.len()).flat_map(|dim| dim_bits(dim).1.take(dim_bits(dim).0));
    let further_tma_tiles = (1..order.len()).chain([0]).flat_map(|dim| dim_bits(dim).1.skip(dim_bits(dim).0));
    let mut offset_bases: Vec<u32> = inside_tma_tile.chain(further_tma_tiles).collect();
    let bits_of = |length: u32| (length / elem.bytes()).ilog2() as usize;
    let (row_bits, chunk_bits) = (bits_of(MAX_ROW_BYTES), bits_of(CHUNK_BYTES));
    for bit in 0..swizzle.max_row_bytes().map_or(0, |row| (row / CHUNK_BYTES).ilog2() as usize) {
        if row_bits + bit < offset_bases.len() {
            offset_bases[row_bits + bit] ^= offset_bases[chunk_bits + bit];
        }
    }
    let align = swizzle_alignment(swizzle);
    let info = BufferInfo { elem, shape: view.tile.clone(), offset_bases, align, space: Space::Shared };
    let has_aligned_tma_tiles = extent.iter().product::<u32>() * elem.bytes() >= MIN_ALIGN_BYTES;
    (has_aligned_tma_tiles && info.bytes().is_multiple_of(align)).then_some(info)
}

/// The alignment in bytes of a buffer that TMA fills with this swizzle.
fn swizzle_alignment(swizzle: Swizzle) -> u32 {
    swizzle.max_row_bytes().map_or(MIN_ALIGN_BYTES, |row| (8 * row).max(MIN_ALIGN_BYTES))
}

/// The dimension along which a buffer holds half of a tile. `None` if the buffer does not hold half of the tile.
pub fn halved_dim(tile: &[u32], buffer: &[u32]) -> Option<usize> {
    let mut different_dims = (0..tile.len()).filter(|dim| buffer.get(*dim) != Some(&tile[*dim]));
    let dim = different_dims.next().filter(|dim| buffer.get(*dim).is_some_and(|extent| extent * 2 == tile[*dim]))?;
    (different_dims.next().is_none() && tile.len() == buffer.len()).then_some(dim)
}

/// Returns whether TMA tiles of extents `extent` divide those of extents `whole` without splitting rows.
pub fn are_subtiles(extent: &[u32], whole: &[u32]) -> bool {
    let has_full_rows = extent.first() == whole.first();
    has_full_rows
        && extent.len() == whole.len()
        && extent.iter().zip(whole).all(|(part, whole)| *part > 0 && whole.is_multiple_of(*part))
}

/// Halves a TMA tile of `bytes` bytes along its last dimension with more than one element, except the contiguous dimension. In the
/// buffer, the halves follow each other in the place of the full TMA tile. `None` if no dimension can be halved, or if a half would
/// start inside a period of the swizzle.
pub fn halve_tma_tile(extent: &[u32], bytes: u32, swizzle: Swizzle) -> Option<Vec<u32>> {
    let last = (1..extent.len()).rfind(|dim| extent[*dim] > 1)?;
    let half = bytes / 2;
    let mut extent = extent.to_vec();
    extent[last] /= 2;
    half.is_multiple_of(swizzle_alignment(swizzle)).then_some(extent)
}

/// The origins of a tile's TMA tiles along the map's dimensions, in buffer order.
pub fn tma_tile_origins(tile: &[u32], extent: &[u32]) -> Vec<Vec<u32>> {
    let mut origins = vec![vec![0; tile.len()]];
    for dim in (1..tile.len()).chain([0]) {
        let steps = 0..tile[dim] / extent[dim];
        origins = steps
            .flat_map(|step| {
                origins.iter().map(move |origin| {
                    let mut origin = origin.clone();
                    origin[dim] = step * extent[dim];
                    origin
                })
            })
            .collect();
    }
    origins
}

/// Returns whether TMA can reduce elements of this type into memory with this operation. TMA treats all integers as unsigned, so it
/// has no signed minimum and maximum.
pub fn can_reduce(mode: AtomicMode, elem: Scalar) -> bool {
    match mode {
        AtomicMode::Add | AtomicMode::And | AtomicMode::Or | AtomicMode::Xor | AtomicMode::UMax | AtomicMode::UMin => {
            matches!(elem, Scalar::I32 | Scalar::I64)
        }
        AtomicMode::AddF => matches!(elem, Scalar::F16 | Scalar::BF16 | Scalar::F32),
        AtomicMode::Max | AtomicMode::Min | AtomicMode::Xchg => false,
    }
}

/// The element type of a tensor map for a scalar type. `None` if the type has less than a byte.
fn data_type(scalar: Scalar) -> Option<DataType> {
    Some(match scalar {
        Scalar::F16 => DataType::F16,
        Scalar::BF16 => DataType::Bf16,
        Scalar::F32 | Scalar::TF32 => DataType::F32,
        Scalar::F64 => DataType::F64,
        _ => match scalar.bits() {
            8 => DataType::Byte,
            16 => DataType::Int16,
            32 => DataType::Int32,
            64 => DataType::Int64,
            _ => return None,
        },
    })
}

/// The tensor map of the view `value`, from its type and the ops that define it. The error is the reason why the view has no map.
/// With an [`ArrayWindow`], the map describes the array which contains the view. The caller must prove the launch-time requirements
/// on addresses, extents and strides.
pub fn tensor_map<O: CoreDialectOp, T: CoreDialectType>(
    body: &Body<O, T>,
    params: &[Value],
    value: Value,
) -> Result<(Map, Option<ArrayWindow>), &'static str> {
    let CoreType::View(view) = body.ty(value).core_type() else { return Err("it is not a view") };
    if matches!(view.kind, ViewKind::Gather { .. }) {
        return Err("it gathers rows by index");
    }
    let definition = |value: Value| body.defining_op(value).and_then(|op| body.ops[op].kind.core());
    let Some(Core::MakeView { memref }) = definition(value) else { return Err("the op that defines it is unknown") };
    let Some(Core::MakeMemRef { base, sizes, strides }) = definition(*memref) else {
        return Err("the op that defines its memref is unknown");
    };
    let exprs = ParamExprs { body, params };
    let MemRef { elem, sizes: known_sizes, strides: known_strides, .. } = &view.memref;
    let order = dims_in_map_order(view).ok_or("no dimension is contiguous in memory")?;
    if !(1..=5).contains(&order.len()) {
        return Err("it has more than five dimensions");
    }
    let element = data_type(*elem).ok_or("its elements are smaller than a byte")?;
    let tile: Vec<u32> = order.iter().map(|t| view.tile[*t]).collect();
    let (extent, swizzle) = tma_tile_of(*elem, &tile).ok_or("its rows are shorter than 16 bytes")?;
    let (sizes, strides) = (exprs.extent_exprs(known_sizes, sizes), exprs.extent_exprs(known_strides, strides));
    let memory_dim = |t: &usize| view.dim_map[*t] as usize;
    let dims: Vec<Option<Expr>> = order.iter().map(|t| sizes[memory_dim(t)].clone()).collect();
    let strides: Option<Vec<Expr>> = order[1..].iter().map(|t| strides[memory_dim(t)].clone()).collect();
    let strides = strides.ok_or("its strides are not computed from parameters")?;
    let bytes = Expr::Const(element.bytes().into());
    let array = exprs.array_of(*base);
    let window = match array == *base && dims.iter().all(Option::is_some) {
        true => None,
        false => Some(ArrayWindow::from_dims(array, &dims)?),
    };
    let mut map = Map {
        base: exprs.address_expr(array).ok_or("its address is not computed from parameters")?,
        element,
        // A map cannot have an extent of zero. A view with such an extent has no elements, and the op of the copy handles this
        // case.
        dims: dims.into_iter().map(|dim| dim.map_or(Expr::Const(tma_windows::END), |dim| dim.max(1))).collect(),
        strides: strides.into_iter().map(|stride| stride.product(bytes.clone())).collect(),
        extent,
        swizzle,
        tf32: false,
    };
    if let Some(window) = window {
        window.add_dims(&mut map);
    }
    Ok((map, window))
}

/// Computes the values of a function as expressions over its parameters.
struct ParamExprs<'a, O, T> {
    body: &'a Body<O, T>,
    /// The parameters of the function.
    params: &'a [Value],
}

/// Maximum number of ops between a parameter and a tensor map, to limit the recursion.
const MAX_FOLLOWED: usize = 16;

impl<O: CoreDialectOp, T: CoreDialectType> ParamExprs<'_, O, T> {
    /// The sizes or strides of a memref: constants of its type, or the operands in `open`. `None` for a value that is not computed
    /// from parameters.
    fn extent_exprs(&self, known: &[Option<u64>], open: &[Value]) -> Vec<Option<Expr>> {
        let mut open = open.iter();
        let extent = |known: &Option<u64>| match known {
            Some(known) => i64::try_from(*known).ok().map(Expr::Const),
            None => self.number_expr(*open.next()?, 0),
        };
        known.iter().map(extent).collect()
    }

    /// A kernel parameter as an expression.
    fn param_expr(&self, value: Value) -> Option<Expr> {
        self.params.iter().position(|param| *param == value).map(|index| Expr::Param(index as u32))
    }

    /// The core op that defines a value.
    fn defining_core(&self, value: Value) -> Option<&Core> {
        self.body.defining_op(value).and_then(|op| self.body.ops[op].kind.core())
    }

    /// The value of a signed integer as an expression. `None` if it is not computed from parameters and constants. `followed` is
    /// the number of ops followed so far.
    fn number_expr(&self, value: Value, followed: usize) -> Option<Expr> {
        if let Some(param) = self.param_expr(value) {
            return Some(param);
        }
        match self.defining_core(value).filter(|_| followed < MAX_FOLLOWED)? {
            Core::Constant { value: Dense::Splat(bits) } => {
                let CoreType::Tile { elem, .. } = self.body.ty(value).core_type() else { return None };
                let shift = 64 - elem.bits();
                Some(Expr::Const((bits << shift) as i64 >> shift))
            }
            Core::Assume { value, .. } => self.number_expr(*value, followed + 1),
            Core::Convert { kind: Convert::ExtI { signedness }, x } if *signedness == Signedness::Signed => {
                self.number_expr(*x, followed + 1)
            }
            _ => None,
        }
    }

    /// The pointer to the array that contains `pointer`: the origin of the chain of `offset` ops that compute `pointer`.
    fn array_of(&self, pointer: Value) -> Value {
        let (mut array, mut value) = (pointer, pointer);
        for _ in 0..MAX_FOLLOWED {
            value = match self.defining_core(value) {
                Some(Core::Assume { value, .. }) => *value,
                Some(Core::PtrCast { x }) => *x,
                Some(Core::Offset { ptr, .. }) => {
                    array = *ptr;
                    *ptr
                }
                _ => break,
            };
        }
        array
    }

    /// The address of a pointer as an expression. `None` if the pointer is not a parameter.
    fn address_expr(&self, mut value: Value) -> Option<Expr> {
        for _ in 0..MAX_FOLLOWED {
            if let Some(param) = self.param_expr(value) {
                return Some(param);
            }
            value = match self.defining_core(value)? {
                Core::Assume { value, .. } => *value,
                Core::PtrCast { x } => *x,
                _ => return None,
            };
        }
        None
    }
}
