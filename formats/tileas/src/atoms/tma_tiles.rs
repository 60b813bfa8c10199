//! TMA copies of a tensor map: the shared-memory layout of TMA tiles, and the tensor map of a view.
//!
//! One TMA copy moves one TMA tile (`boxDim` of the tensor map); a tile consists of one or more. In the buffer a TMA tile is
//! row-major, the contiguous dimension first, and the map's swizzle permutes its 16-byte chunks by row number. If the tile is
//! larger than a TMA tile, TMA tiles with further rows come next, and TMA tiles further along the contiguous dimension come last.

use crate::layout::Strides;
use crate::{BufferInfo, Space};
use base::{Body, Value};
use core_dialect::core_ops::Core;
use core_dialect::memory::AtomicMode;
use core_dialect::rules::{MiddleOp, MiddleType, Seen};
use core_dialect::tile::{Dense, Elem, MemRef, View, ViewKind};
use numerics::Scalar;
use numerics::arith::{Convert, Signedness};
use tensormap::{Element, Expr, Map, Swizzle};

/// Maximum bytes of a row of a TMA tile, and bytes of the chunks that the swizzle permutes.
const LINE: u32 = 128;
const PIECE: u32 = 16;
/// Maximum extent of a TMA tile along a dimension.
const MAX_EXTENT: u32 = 256;
/// Minimum alignment of a TMA tile in shared memory, in bytes; a swizzle repeats after 8 rows.
const ALIGN: u32 = 128;

/// The tile's dimensions in the map's order: the contiguous one first, then the others from the last of memory on.
pub fn order(view: &View) -> Option<Vec<usize>> {
    let of_memory = |dim: usize| view.dim_map.iter().position(|own| *own as usize == dim);
    let rank = view.memref.strides.len();
    let inner = (0..rank).rev().find(|dim| view.memref.strides[*dim] == Some(1))?;
    let others = (0..rank).rev().filter(|dim| *dim != inner);
    std::iter::once(inner).chain(others).map(of_memory).collect()
}

/// The TMA tile and swizzle for tiles of these extents, in the map's order.
pub fn tma_tile_of(elem: Scalar, tile: &[u32]) -> Option<(Vec<u32>, Swizzle)> {
    let bytes = elem.bits() / 8;
    let row = (tile.first()? * bytes).min(LINE);
    let swizzle = match row {
        128 => Swizzle::Bytes128,
        64 => Swizzle::Bytes64,
        32 => Swizzle::Bytes32,
        16 => Swizzle::None,
        _ => return None,
    };
    let rows = tile[1..].iter().map(|extent| (*extent).min(MAX_EXTENT));
    Some((std::iter::once(row / bytes).chain(rows).collect(), swizzle))
}

/// The TMA tile and swizzle for the tiles of a view.
pub fn tma_tiles_of(view: &View) -> Option<(Vec<u32>, Swizzle)> {
    let tile: Vec<u32> = order(view)?.iter().map(|t| view.tile[*t]).collect();
    tma_tile_of(view.memref.elem, &tile)
}

/// The buffer that TMA tiles of these extents fill; none if a stage would not start where the swizzle pattern does.
pub fn buffer(view: &View, extent: &[u32], swizzle: Swizzle) -> Option<BufferInfo> {
    let (elem, order) = (Elem::Scalar(view.memref.elem), order(view)?);
    let strides = Strides::of(&view.tile);
    let dim_bits = |at: usize| (extent[at].trailing_zeros() as usize, strides.dim_bits(order[at]).map(|bit| 1u32 << bit));
    let inside = (0..order.len()).flat_map(|at| dim_bits(at).1.take(dim_bits(at).0));
    let outside = (1..order.len()).chain([0]).flat_map(|at| dim_bits(at).1.skip(dim_bits(at).0));
    let mut offsets: Vec<u32> = inside.chain(outside).collect();
    let bits_of = |length: u32| (length / elem.bytes()).ilog2() as usize;
    let (line, piece) = (bits_of(LINE), bits_of(PIECE));
    for bit in 0..swizzle.max_row_bytes().map_or(0, |row| (row / PIECE).ilog2() as usize) {
        if line + bit < offsets.len() {
            offsets[line + bit] ^= offsets[piece + bit];
        }
    }
    let repeats = swizzle.max_row_bytes().map_or(ALIGN, |row| (8 * row).max(ALIGN));
    let info = BufferInfo { elem, shape: view.tile.clone(), offsets, align: repeats, space: Space::Shared };
    let full_tma_tiles = extent.iter().product::<u32>() * elem.bytes() >= ALIGN;
    (full_tma_tiles && info.bytes().is_multiple_of(repeats)).then_some(info)
}

/// The dimension along which a buffer holds half of a tile, if it does.
pub fn halved(tile: &[u32], buffer: &[u32]) -> Option<usize> {
    let mut differ = (0..tile.len()).filter(|dim| buffer.get(*dim) != Some(&tile[*dim]));
    let dim = differ.next().filter(|dim| buffer.get(*dim).is_some_and(|own| own * 2 == tile[*dim]))?;
    (differ.next().is_none() && tile.len() == buffer.len()).then_some(dim)
}

/// Returns whether TMA tiles of extents `extent` divide those of extents `whole` without splitting rows.
pub fn are_subtiles(extent: &[u32], whole: &[u32]) -> bool {
    let row = extent.first() == whole.first();
    row && extent.len() == whole.len() && extent.iter().zip(whole).all(|(part, whole)| *part > 0 && whole.is_multiple_of(*part))
}

/// Halves a TMA tile along its last dimension with more than one element. In the buffer, the halves follow each other in the place
/// of the full tile. None if a half would be too small or start inside a swizzle pattern.
pub fn halves(extent: &[u32], bytes: u32, swizzle: Swizzle) -> Option<Vec<u32>> {
    let last = (1..extent.len()).rfind(|at| extent[*at] > 1)?;
    let half = bytes / 2;
    let mut extent = extent.to_vec();
    extent[last] /= 2;
    half.is_multiple_of(swizzle.max_row_bytes().map_or(ALIGN, |row| (8 * row).max(ALIGN))).then_some(extent)
}

/// The origins of a tile's TMA tiles along the map's dimensions, in buffer order.
pub fn tma_tiles(tile: &[u32], extent: &[u32]) -> Vec<Vec<u32>> {
    let mut all = vec![vec![0; tile.len()]];
    for at in (1..tile.len()).chain([0]) {
        let steps = 0..tile[at] / extent[at];
        all = steps
            .flat_map(|step| {
                all.iter().map(move |origin| {
                    let mut origin = origin.clone();
                    origin[at] = step * extent[at];
                    origin
                })
            })
            .collect();
    }
    all
}

/// Returns whether TMA can reduce such elements into memory. TMA treats all integers as unsigned.
pub fn can_reduce(mode: AtomicMode, elem: Scalar) -> bool {
    match mode {
        AtomicMode::Add | AtomicMode::And | AtomicMode::Or | AtomicMode::Xor | AtomicMode::UMax | AtomicMode::UMin => {
            matches!(elem, Scalar::I32 | Scalar::I64)
        }
        AtomicMode::AddF => matches!(elem, Scalar::F16 | Scalar::BF16 | Scalar::F32),
        AtomicMode::Max | AtomicMode::Min | AtomicMode::Xchg => false,
    }
}

fn element(scalar: Scalar) -> Option<Element> {
    Some(match scalar {
        Scalar::F16 => Element::F16,
        Scalar::BF16 => Element::Bf16,
        Scalar::F32 | Scalar::TF32 => Element::F32,
        Scalar::F64 => Element::F64,
        _ => match scalar.bits() {
            8 => Element::Byte,
            16 => Element::Int16,
            32 => Element::Int32,
            64 => Element::Int64,
            _ => return None,
        },
    })
}

/// The tensor map of a view, from its type and the ops that define it, or why it has none. The caller must prove the launch-time
/// requirements on addresses, extents and strides.
pub fn map<O: MiddleOp, T: MiddleType>(body: &Body<O, T>, params: &[Value], value: Value) -> Result<Map, &'static str> {
    let Seen::View(view) = body.ty(value).seen() else { return Err("it is not a view") };
    if matches!(view.kind, ViewKind::Gather { .. }) {
        return Err("it gathers rows by index");
    }
    let definition = |value: Value| body.defining_op(value).and_then(|op| body.ops[op].kind.core());
    let Some(Core::MakeView { memref }) = definition(value) else { return Err("the op that defines it is unknown") };
    let Some(Core::MakeMemRef { base, sizes, strides }) = definition(*memref) else {
        return Err("the op that defines its memref is unknown");
    };
    let known = ParamExprs { body, params };
    let MemRef { elem, sizes: known_sizes, strides: known_strides, .. } = &view.memref;
    let order = order(view).ok_or("no dimension is contiguous in memory")?;
    if !(1..=5).contains(&order.len()) {
        return Err("it has more than five dimensions");
    }
    let element = element(*elem).ok_or("its elements are smaller than a byte")?;
    let tile: Vec<u32> = order.iter().map(|t| view.tile[*t]).collect();
    let (extent, swizzle) = tma_tile_of(*elem, &tile).ok_or("its rows are shorter than 16 bytes")?;
    let sizes = known.extents(known_sizes, sizes).ok_or("its extents are not computed from parameters")?;
    let strides = known.extents(known_strides, strides).ok_or("its strides are not computed from parameters")?;
    let of_memory = |t: &usize| view.dim_map[*t] as usize;
    let bytes = Expr::Const(element.bytes().into());
    Ok(Map {
        base: known.address(*base).ok_or("its address is not computed from parameters")?,
        element,
        // A map has no extent of zero. If a view has one, no element is inside, and the copy handles it.
        dims: order.iter().map(|t| sizes[of_memory(t)].clone().max(1)).collect(),
        strides: order[1..].iter().map(|t| strides[of_memory(t)].clone().product(bytes.clone())).collect(),
        extent,
        swizzle,
        tf32: false,
    })
}

/// The values of a function as expressions over its parameters.
struct ParamExprs<'a, O, T> {
    body: &'a Body<O, T>,
    params: &'a [Value],
}

/// Limit on the chain of ops from a parameter to a map.
const MAX_FOLLOWED: usize = 16;

impl<O: MiddleOp, T: MiddleType> ParamExprs<'_, O, T> {
    fn extents(&self, known: &[Option<u64>], open: &[Value]) -> Option<Vec<Expr>> {
        let mut open = open.iter();
        let extent = |known: &Option<u64>| match known {
            Some(known) => i64::try_from(*known).ok().map(Expr::Const),
            None => self.number(*open.next()?, 0),
        };
        known.iter().map(extent).collect()
    }

    fn param(&self, value: Value) -> Option<Expr> {
        self.params.iter().position(|param| *param == value).map(|index| Expr::Param(index as u32))
    }

    fn defining_core(&self, value: Value) -> Option<&Core> {
        self.body.defining_op(value).and_then(|op| self.body.ops[op].kind.core())
    }

    /// A signed number.
    fn number(&self, value: Value, followed: usize) -> Option<Expr> {
        if let Some(param) = self.param(value) {
            return Some(param);
        }
        match self.defining_core(value).filter(|_| followed < MAX_FOLLOWED)? {
            Core::Constant { value: Dense::Splat(bits) } => {
                let Seen::Tile { elem, .. } = self.body.ty(value).seen() else { return None };
                let shift = 64 - elem.bits();
                Some(Expr::Const((bits << shift) as i64 >> shift))
            }
            Core::Assume { value, .. } => self.number(*value, followed + 1),
            Core::Convert { kind: Convert::ExtI { signedness }, x } if *signedness == Signedness::Signed => {
                self.number(*x, followed + 1)
            }
            _ => None,
        }
    }

    fn address(&self, mut value: Value) -> Option<Expr> {
        for _ in 0..MAX_FOLLOWED {
            if let Some(param) = self.param(value) {
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
