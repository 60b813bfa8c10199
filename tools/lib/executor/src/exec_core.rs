//! Executes the core dialect, the ops that `.aa`, `.as` and `.sched` share, on complete tiles.

use crate::check::stride_assumptions::Use;
use crate::exec::{Control, Env, Results, effects};
use crate::tile::{self, Tile, memory_bits, shape};
use crate::value::{Tensor, Value, View};
use crate::world::START_TOKEN;
use base::diag::{Diagnostic, Result};
use base::ir::Operation;
use base::{DebugInfo, Loc, Value as Id};
use core_dialect::core_ops::Core;
use core_dialect::tile::{Dense, Elem, MemRef, Shape, element_count};
use numerics::arith::Lanes;
use smallvec::smallvec;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The types of a format, as far as core ops construct values of them.
pub(crate) trait Typed {
    fn tile(&self) -> Option<(Elem, Shape)>;
    fn memref(&self) -> Option<&MemRef>;
    fn view(&self) -> Option<&core_dialect::tile::View>;
}

/// The context of an op.
pub(crate) struct Context<'a, T> {
    /// The result types.
    pub(crate) types: Vec<&'a T>,
    pub(crate) loc: Loc,
    pub(crate) debug: &'a DebugInfo,
    /// Addresses of the module's globals, by name.
    pub(crate) globals: &'a BTreeMap<String, u64>,
}

impl<T: Typed> Context<'_, T> {
    pub(crate) fn tile_type(&self) -> (Elem, Shape) {
        self.types[0].tile().expect("the verifier guarantees that the result is a tile")
    }
    /// Returns a scalar with the type of result `index`.
    fn integer(&self, index: usize, value: i64) -> Value {
        let (elem, _) = self.types[index].tile().expect("the verifier guarantees that the result is a scalar");
        Value::Tile(Tile::scalar(elem, value as u64 & elem.carrier().mask()))
    }
}

pub(crate) fn control(op: &Core) -> Control<'_> {
    match op {
        Core::If { cond, then, otherwise } => Control::If { cond: *cond, then: *then, otherwise: *otherwise },
        Core::For { lower, upper, step, init, unsigned, body } => {
            Control::For { lower: *lower, upper: *upper, step: *step, init, unsigned: *unsigned, body: *body }
        }
        Core::Loop { init, body } => Control::Loop { init, body: *body },
        Core::Yield { values } => Control::Yield(values),
        Core::Continue { values } => Control::Continue(values),
        Core::Break { values } => Control::Break(values),
        Core::Return {} => Control::Return,
        _ => Control::None,
    }
}

/// Classifies how an op uses strides.
pub(crate) fn stride_use(op: &Core) -> Use<'_> {
    match op {
        Core::Assume { value, .. } => Use::Assume(*value),
        Core::MakeMemRef { base, sizes, strides } => Use::Tensor { others: sizes.iter().chain([base]).copied().collect(), strides },
        _ => Use::Other,
    }
}

/// Returns the dynamic strides of dimensions with more than one element.
pub(crate) fn strides_in_use<'a>(memref: &'a MemRef, strides: &'a [Id], sizes: &'a [i64]) -> impl Iterator<Item = Id> + 'a {
    let open = (0..memref.strides.len()).filter(|dim| memref.strides[*dim].is_none());
    open.zip(strides).filter(|(dim, _)| sizes[*dim] > 1).map(|(_, stride)| *stride)
}

/// Returns whether the op may occur in a reduction body that runs for many elements at once.
pub(crate) fn is_elementwise(op: &Core) -> bool {
    op.is_elementwise() && !matches!(op, Core::Assume { .. }) || matches!(op, Core::Constant { .. } | Core::Yield { .. })
}

pub(crate) fn constant(value: &Dense, elem: Elem, shape: Shape) -> Tile {
    match value {
        Dense::Splat(bits) => Tile::splat(shape, elem, *bits),
        Dense::Elements(all) => Tile::new(shape, elem, Lanes::collect(elem.carrier(), all.iter().copied())),
    }
}

fn tile(tile: Tile) -> Result<Results> {
    Ok(smallvec![Value::Tile(tile)])
}

pub(crate) fn execute<T: Typed>(op: &Core, context: &Context<'_, T>, env: &mut Env<'_>) -> Result<Results> {
    match op {
        Core::Unary { .. }
        | Core::Binary { .. }
        | Core::Fma { .. }
        | Core::Compare { .. }
        | Core::Convert { .. }
        | Core::Select { .. }
        | Core::Offset { .. }
        | Core::IntToPtr { .. }
        | Core::PtrToInt { .. }
        | Core::PtrCast { .. } => tile(elementwise(op, context, env)),
        Core::Constant { .. }
        | Core::Iota {}
        | Core::Broadcast { .. }
        | Core::Reshape { .. }
        | Core::Permute { .. }
        | Core::Cat { .. }
        | Core::Extract { .. }
        | Core::Insert { .. }
        | Core::Reinterpret { .. } => tile(rearranged(op, context, env)?),
        Core::Assume { value, fact } => effects::assume(*value, || Some(fact.clone()), context.loc, env),
        Core::BlockId { axis } => tile(Tile::i32(env.state.block_position.index[*axis as usize].into())),
        Core::BlockCount { axis } => tile(Tile::i32(env.state.block_position.grid[*axis as usize].into())),
        Core::ClcBlockCount {} => tile(Tile::i32(env.state.stolen_blocks.len() as i64)),
        Core::ClcBlockId { iteration, axis } => {
            let iteration = env.tile(*iteration).lanes().get(0) as usize;
            let index = env
                .state
                .stolen_blocks
                .get(iteration)
                .expect("the verifier guarantees that it is an iteration of the work-stealing loop");
            tile(Tile::i32(index[*axis as usize].into()))
        }
        Core::ClusterRank {} => tile(Tile::i32(env.state.block_position.rank.into())),
        Core::GlobalAddress { name } => match context.globals.get(name) {
            Some(address) => tile(Tile::scalar(context.tile_type().0, *address)),
            None => Err(Diagnostic::invalid("RUN030", format!("no global is named '{name}'"))),
        },
        Core::Alloca { count, align, .. } => {
            let (elem, _) = context.tile_type();
            let Elem::Ptr { pointee, .. } = elem else { panic!("the verifier guarantees that an allocation is a pointer") };
            let bytes = count.saturating_mul(memory_bits(pointee).into()).div_ceil(8);
            tile(Tile::scalar(elem, env.world.allocate(bytes, *align)?))
        }
        Core::MakeToken {} => Ok(smallvec![Value::Token(START_TOKEN)]),
        Core::JoinTokens { tokens } => {
            let tokens: Vec<_> = tokens.iter().map(|id| env.token(Some(*id))).collect();
            Ok(smallvec![Value::Token(env.world.join(&tokens))])
        }
        // One grid runs at a time, and every pointer to an address refers to the same memory. There is nothing to wait for.
        Core::AliasFence { token } => Ok(smallvec![Value::Token(env.token(Some(*token)))]),
        Core::GridWait { token } | Core::GridLaunch { token } => Ok(smallvec![Value::Token(env.token(*token))]),
        Core::Assert { cond, message } => effects::assert(&env.tile(*cond).clone(), message, context.debug, context.loc, env),
        Core::CheckIndex { index, extent, message } => {
            let (index, extent) = (env.tile(*index).clone(), env.tile(*extent).clone());
            effects::check_index(&index, &extent, message, context.debug, context.loc, env)
        }
        Core::Print { format, args, token } => effects::print(format, &env.tiles(args), *token, env),
        Core::MakeMemRef { .. } | Core::MakeView { .. } | Core::MemRefShape { .. } | Core::ViewShape { .. } => {
            Ok(view_op(op, context, env))
        }
        Core::If { .. }
        | Core::For { .. }
        | Core::Loop { .. }
        | Core::Yield { .. }
        | Core::Continue { .. }
        | Core::Break { .. }
        | Core::Return {} => unreachable!("the interpreter's loop handles '{}'", op.mnemonic()),
    }
}

pub(crate) fn elementwise<T: Typed>(op: &Core, context: &Context<'_, T>, env: &Env<'_>) -> Tile {
    let tile = |id: &Id| env.tile(*id);
    match op {
        Core::Unary { kind, x } => tile::unary(*kind, tile(x)),
        Core::Binary { kind, lhs, rhs } => tile::binary(*kind, tile(lhs), tile(rhs)),
        Core::Fma { kind, a, b, c } => tile::fma(*kind, tile(a), tile(b), tile(c)),
        Core::Compare { kind, lhs, rhs } => tile::compare(*kind, tile(lhs), tile(rhs)),
        Core::Convert { kind, x } => tile::convert(*kind, context.tile_type().0.carrier(), tile(x)),
        Core::Select { cond, yes, no } => tile::select(tile(cond), tile(yes), tile(no)),
        Core::Offset { ptr, offset } => tile::offset(tile(ptr), tile(offset)),
        Core::IntToPtr { x } | Core::PtrToInt { x } | Core::PtrCast { x } => tile(x).with_elem(context.tile_type().0),
        other => unreachable!("'{}' is not element-wise", other.mnemonic()),
    }
}

/// Executes ops that move elements, and constants.
fn rearranged<T: Typed>(op: &Core, context: &Context<'_, T>, env: &Env<'_>) -> Result<Tile> {
    let numbers = |indices: &[Id]| -> Vec<u64> { indices.iter().map(|id| env.tile(*id).first()).collect() };
    let outside = || Diagnostic::invalid("RUN032", "a slice outside the tile");
    Ok(match op {
        Core::Constant { value } => {
            let (elem, shape) = context.tile_type();
            constant(value, elem, shape)
        }
        Core::Iota {} => {
            let (elem, shape) = context.tile_type();
            shape::iota(shape, elem)
        }
        Core::Broadcast { x } => shape::broadcast(env.tile(*x), context.tile_type().1),
        Core::Reshape { x } => env.tile(*x).with_shape(context.tile_type().1),
        Core::Permute { x, order } => {
            let order: Vec<usize> = order.iter().map(|dim| *dim as usize).collect();
            shape::permute(env.tile(*x), &order)
        }
        Core::Cat { lhs, rhs, dim } => shape::cat(env.tile(*lhs), env.tile(*rhs), *dim as usize),
        Core::Extract { x, indices } => {
            shape::extract(env.tile(*x), context.tile_type().1, &numbers(indices)).ok_or_else(outside)?
        }
        Core::Insert { x, into, indices } => shape::insert(env.tile(*x), env.tile(*into), &numbers(indices)).ok_or_else(outside)?,
        Core::Reinterpret { x } => {
            let (elem, shape) = context.tile_type();
            shape::reinterpret(env.tile(*x), shape, elem)
        }
        other => unreachable!("'{}' moves no elements", other.mnemonic()),
    })
}

fn view_op<T: Typed>(op: &Core, context: &Context<'_, T>, env: &Env<'_>) -> Results {
    let integers = |values: &[i64]| values.iter().enumerate().map(|(i, value)| context.integer(i, *value)).collect();
    match op {
        Core::MakeMemRef { base, sizes, strides } => {
            let memref = context.types[0].memref().expect("the verifier guarantees that the result is a memref");
            // Extents are unsigned; strides may be negative.
            let mut sizes = sizes.iter().map(|id| env.tile(*id).first().min(i64::MAX as u64) as i64);
            let mut strides = strides.iter().map(|id| env.tile(*id).first_signed());
            let fill = |known: &[Option<u64>], given: &mut dyn Iterator<Item = i64>| -> Vec<i64> {
                known.iter().map(|value| value.map_or_else(|| given.next().unwrap_or(0), |value| value as i64)).collect()
            };
            smallvec![Value::Tensor(Arc::new(Tensor {
                base: env.tile(*base).first(),
                elem: memref.elem,
                sizes: fill(&memref.sizes, &mut sizes),
                strides: fill(&memref.strides, &mut strides),
            }))]
        }
        Core::MakeView { memref } => {
            let view = context.types[0].view().expect("the verifier guarantees that the result is a view");
            smallvec![Value::View(Arc::new(View {
                tensor: env.tensor(*memref),
                tile: view.tile.clone(),
                dim_map: view.dim_map.iter().map(|dim| *dim as usize).collect(),
                kind: view.kind.clone(),
                padding: view.padding,
            }))]
        }
        Core::MemRefShape { memref } => integers(&env.tensor(*memref).sizes),
        Core::ViewShape { view } => integers(&env.view(*view).index_space()),
        _ => unreachable!("handles view ops only"),
    }
}

/// Returns the bytes of a global's initial value.
pub(crate) fn global_bytes(global: &core_dialect::tile::Global) -> Vec<u8> {
    let shape: Shape = [global.count as u32].into_iter().collect();
    debug_assert_eq!(element_count(&shape) as u64, global.count);
    shape::to_bytes(&constant(&global.value, Elem::Scalar(global.elem), shape))
}
