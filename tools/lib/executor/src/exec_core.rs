//! Executes the core dialect: the ops that `.aa`, `.as` and `.sched` have in common. Each op acts on complete tiles.

use crate::check::stride_assumptions::StrideUse;
use crate::exec::{Control, Env, Results, effects};
use crate::kernel_memory::START_TOKEN;
use crate::tile::{self, Tile, memory_bits, shape};
use crate::value::{Tensor, Value, View};
use base::diag::{Diagnostic, Result};
use base::ir::Operation;
use base::{DebugInfo, Loc, Value as Id};
use core_dialect::core_ops::Core;
use core_dialect::tile::{Dense, Elem, MemRef, Shape, element_count};
use numerics::arith::ElementWords;
use smallvec::smallvec;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A type of `.aa`, `.as` or `.sched`, with the properties that core ops need. Each method returns `None` for other kinds of types.
pub(crate) trait CoreType {
    fn tile(&self) -> Option<(Elem, Shape)>;
    fn memref(&self) -> Option<&MemRef>;
    fn view(&self) -> Option<&core_dialect::tile::View>;
    fn is_token(&self) -> bool;
}

/// The properties of an op that its execution needs, apart from its operands.
pub(crate) struct OpContext<'a, T> {
    /// The result types.
    pub(crate) types: Vec<&'a T>,
    pub(crate) loc: Loc,
    pub(crate) debug: &'a DebugInfo,
    /// Addresses of the module's globals, by name.
    pub(crate) globals: &'a BTreeMap<String, u64>,
}

impl<T: CoreType> OpContext<'_, T> {
    /// Returns the element type and shape of the first result, which is a tile.
    pub(crate) fn tile_type(&self) -> (Elem, Shape) {
        self.types[0].tile().expect("the verifier guarantees that the result is a tile")
    }
    /// Returns an integer with the type of result `index`.
    fn integer_result(&self, index: usize, value: i64) -> Value {
        let (elem, _) = self.types[index].tile().expect("the verifier guarantees that the result is a scalar");
        Value::Tile(Tile::scalar(elem, value as u64 & elem.carrier().mask()))
    }
}

/// Returns the control-flow effect of a core op.
pub(crate) fn control_flow(op: &Core) -> Control<'_> {
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

/// Returns how an op uses its operands as strides of a tensor.
pub(crate) fn stride_use(op: &Core) -> StrideUse<'_> {
    match op {
        Core::Assume { value, .. } => StrideUse::Assume(*value),
        Core::MakeMemRef { base, sizes, strides } => {
            StrideUse::Tensor { other_operands: sizes.iter().chain([base]).copied().collect(), strides }
        }
        _ => StrideUse::Other,
    }
}

/// Returns the dynamic strides of dimensions with more than one element. Other strides do not affect any address.
pub(crate) fn strides_in_use<'a>(memref: &'a MemRef, strides: &'a [Id], sizes: &'a [i64]) -> impl Iterator<Item = Id> + 'a {
    let dynamic_dims = (0..memref.strides.len()).filter(|dim| memref.strides[*dim].is_none());
    dynamic_dims.zip(strides).filter(|(dim, _)| sizes[*dim] > 1).map(|(_, stride)| *stride)
}

/// Returns whether an op acts on each element separately. A reduction body of such ops can run for many elements at once.
pub(crate) fn is_elementwise(op: &Core) -> bool {
    op.is_elementwise() && !matches!(op, Core::Assume { .. }) || matches!(op, Core::Constant { .. } | Core::Yield { .. })
}

/// Returns the tile of a constant.
pub(crate) fn constant_tile(value: &Dense, elem: Elem, shape: Shape) -> Tile {
    match value {
        Dense::Splat(bits) => Tile::splat(shape, elem, *bits),
        Dense::Elements(elements) => Tile::new(shape, elem, ElementWords::collect(elem.carrier(), elements.iter().copied())),
    }
}

/// Returns a tile as the only result.
fn tile_result(tile: Tile) -> Result<Results> {
    Ok(smallvec![Value::Tile(tile)])
}

/// Executes a core op that is not control flow.
pub(crate) fn execute<T: CoreType>(op: &Core, context: &OpContext<'_, T>, env: &mut Env<'_>) -> Result<Results> {
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
        | Core::PtrCast { .. } => tile_result(execute_elementwise(op, context, env)),
        Core::Constant { .. }
        | Core::Iota {}
        | Core::Broadcast { .. }
        | Core::Reshape { .. }
        | Core::Permute { .. }
        | Core::Cat { .. }
        | Core::Extract { .. }
        | Core::Insert { .. }
        | Core::Reinterpret { .. } => tile_result(execute_rearrangement(op, context, env)?),
        Core::Assume { value, fact } => effects::assume(*value, || Some(fact.clone()), context.loc, env),
        Core::BlockId { axis } => tile_result(Tile::i32(env.state.block_position.index[*axis as usize].into())),
        Core::BlockCount { axis } => tile_result(Tile::i32(env.state.block_position.grid[*axis as usize].into())),
        Core::ClcBlockCount {} => tile_result(Tile::i32(env.state.processed_blocks.len() as i64)),
        Core::ClcBlockId { iteration, axis } => {
            let iteration = env.tile(*iteration).element_words().get(0) as usize;
            let index = env
                .state
                .processed_blocks
                .get(iteration)
                .expect("the verifier guarantees that it is an iteration of the work-stealing loop");
            tile_result(Tile::i32(index[*axis as usize].into()))
        }
        Core::ClusterRank {} => tile_result(Tile::i32(env.state.block_position.rank.into())),
        Core::GlobalAddress { name } => match context.globals.get(name) {
            Some(address) => tile_result(Tile::scalar(context.tile_type().0, *address)),
            None => Err(Diagnostic::invalid("RUN030", format!("no global is named '{name}'"))),
        },
        Core::Alloca { count, align, .. } => {
            let (elem, _) = context.tile_type();
            let Elem::Ptr { pointee, .. } = elem else { panic!("the verifier guarantees that an allocation is a pointer") };
            let bytes = count.saturating_mul(memory_bits(pointee).into()).div_ceil(8);
            tile_result(Tile::scalar(elem, env.kernel_memory.allocate(bytes, *align)?))
        }
        Core::MakeToken {} => Ok(smallvec![Value::Token(START_TOKEN)]),
        Core::JoinTokens { tokens } => {
            let tokens: Vec<_> = tokens.iter().map(|id| env.token(Some(*id))).collect();
            Ok(smallvec![Value::Token(env.kernel_memory.join_tokens(&tokens))])
        }
        // Only one grid runs at a time, and equal addresses always mean the same memory. Therefore these ops only return their
        // token.
        Core::AliasFence { token } => Ok(smallvec![Value::Token(env.token(Some(*token)))]),
        Core::GridWait { token } | Core::GridLaunch { token } => Ok(smallvec![Value::Token(env.token(*token))]),
        Core::Assert { cond, message } => effects::assert(&env.tile(*cond).clone(), message, context.debug, context.loc, env),
        Core::CheckIndex { index, extent, message } => {
            let (index, extent) = (env.tile(*index).clone(), env.tile(*extent).clone());
            effects::check_index(&index, &extent, message, context.debug, context.loc, env)
        }
        Core::Print { format, args, token } => effects::print(format, &env.tiles(args), *token, env),
        Core::MakeMemRef { .. } | Core::MakeView { .. } | Core::MemRefShape { .. } | Core::ViewShape { .. } => {
            Ok(execute_view_op(op, context, env))
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

/// Executes an element-wise op.
fn execute_elementwise<T: CoreType>(op: &Core, context: &OpContext<'_, T>, env: &Env<'_>) -> Tile {
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

/// Executes a constant, or an op that rearranges elements without arithmetic.
fn execute_rearrangement<T: CoreType>(op: &Core, context: &OpContext<'_, T>, env: &Env<'_>) -> Result<Tile> {
    let slice_index = |indices: &[Id]| -> Vec<u64> { indices.iter().map(|id| env.tile(*id).first()).collect() };
    let outside_tile = || Diagnostic::invalid("RUN032", "a slice outside the tile");
    Ok(match op {
        Core::Constant { value } => {
            let (elem, shape) = context.tile_type();
            constant_tile(value, elem, shape)
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
            shape::extract(env.tile(*x), context.tile_type().1, &slice_index(indices)).ok_or_else(outside_tile)?
        }
        Core::Insert { x, into, indices } => {
            shape::insert(env.tile(*x), env.tile(*into), &slice_index(indices)).ok_or_else(outside_tile)?
        }
        Core::Reinterpret { x } => {
            let (elem, shape) = context.tile_type();
            shape::reinterpret(env.tile(*x), shape, elem)
        }
        other => unreachable!("'{}' moves no elements", other.mnemonic()),
    })
}

/// Executes an op that creates a memref or a view, or returns its extents.
fn execute_view_op<T: CoreType>(op: &Core, context: &OpContext<'_, T>, env: &Env<'_>) -> Results {
    let integers = |values: &[i64]| values.iter().enumerate().map(|(i, value)| context.integer_result(i, *value)).collect();
    match op {
        Core::MakeMemRef { base, sizes, strides } => {
            let memref = context.types[0].memref().expect("the verifier guarantees that the result is a memref");
            // Extents are unsigned; strides may be negative.
            let mut sizes = sizes.iter().map(|id| env.tile(*id).first().min(i64::MAX as u64) as i64);
            let mut strides = strides.iter().map(|id| env.tile(*id).first_signed());
            let fill_dynamic = |extents: &[Option<u64>], dynamic: &mut dyn Iterator<Item = i64>| -> Vec<i64> {
                extents.iter().map(|extent| extent.map_or_else(|| dynamic.next().unwrap_or(0), |extent| extent as i64)).collect()
            };
            smallvec![Value::Tensor(Arc::new(Tensor {
                base: env.tile(*base).first(),
                elem: memref.elem,
                sizes: fill_dynamic(&memref.sizes, &mut sizes),
                strides: fill_dynamic(&memref.strides, &mut strides),
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

/// Returns the bytes of the initial value of a global.
pub(crate) fn global_bytes(global: &core_dialect::tile::Global) -> Vec<u8> {
    let shape: Shape = [global.count as u32].into_iter().collect();
    debug_assert_eq!(element_count(&shape) as u64, global.count);
    shape::to_bytes(&constant_tile(&global.value, Elem::Scalar(global.elem), shape))
}
