//! Executes ops of `.tile` that create tensor views, or partition, strided and gather views of them, or return their extents.

use super::{TileProgram, integer_tile};
use crate::exec::{Env, Results};
use crate::value::{Tensor, Value, View};
use base::diag::Result;
use base::{Op as OpId, Value as Id};
use core_dialect::tile::ViewKind;
use smallvec::smallvec;
use std::sync::Arc;
use tileir::types::DYNAMIC;
use tileir::{Op, Type};

impl TileProgram<'_> {
    /// Executes an op that creates a tensor view or a view of one, or returns extents of a view.
    pub(super) fn execute_view_op(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        Ok(match kind {
            Op::MakeTensorView { base, dynamic_shape, dynamic_strides } => {
                let tensor = self.make_tensor(op, *base, dynamic_shape, dynamic_strides, env);
                self.check_strides(op, dynamic_strides, &tensor.sizes, env);
                smallvec![Value::Tensor(Arc::new(tensor))]
            }
            Op::MakePartitionView { tensor_view }
            | Op::MakeStridedView { tensor_view }
            | Op::MakeGatherScatterView { tensor_view } => {
                smallvec![Value::View(Arc::new(self.make_view(op, env.tensor(*tensor_view))))]
            }
            Op::GetTensorShape { src } => self.integer_results(op, &env.tensor(*src).sizes),
            Op::GetIndexSpaceShape { src } => self.integer_results(op, &env.view(*src).index_space()),
            _ => unreachable!("handles view ops only"),
        })
    }

    /// Returns extents as the results of an op, each a scalar of the result type.
    fn integer_results(&self, op: OpId, values: &[i64]) -> Results {
        let results = &self.function.body.ops[op].results;
        results.iter().zip(values).map(|(id, value)| Value::Tile(integer_tile(self.ty(*id), *value))).collect()
    }

    /// Returns the tensor of a `make_tensor_view` op. The operands provide the dynamic extents and strides.
    fn make_tensor(&self, op: OpId, base: Id, sizes: &[Id], strides: &[Id], env: &Env<'_>) -> Tensor {
        let Type::TensorView { element, shape, strides: stride_type, .. } = self.ty(self.function.body.result(op)) else {
            unreachable!("the verifier guarantees that the result is a tensor view")
        };
        // Extents are unsigned; strides may be negative.
        let mut sizes = sizes.iter().map(|id| env.tile(*id)).map(|tile| tile.first().min(i64::MAX as u64) as i64);
        let mut strides = strides.iter().map(|id| env.tile(*id).first_signed());
        let fill_dynamic = |extents: &[i64], dynamic: &mut dyn Iterator<Item = i64>| -> Vec<i64> {
            extents.iter().map(|extent| if *extent == DYNAMIC { dynamic.next().unwrap_or(0) } else { *extent }).collect()
        };
        Tensor {
            base: env.tile(base).first(),
            elem: *element,
            sizes: fill_dynamic(shape, &mut sizes),
            strides: fill_dynamic(stride_type, &mut strides),
        }
    }

    /// Returns the partition, strided or gather view that an op creates from a tensor.
    fn make_view(&self, op: OpId, tensor: Arc<Tensor>) -> View {
        let ty = self.ty(self.function.body.result(op));
        let identity = || (0..tensor.sizes.len()).collect();
        let dim_indices = |dims: &[i32]| dims.iter().map(|dim| *dim as usize).collect();
        let (kind, dim_map) = match ty {
            Type::PartitionView { dim_map, .. } => (ViewKind::Partition, dim_indices(dim_map)),
            Type::StridedView { dim_map, traversal, .. } => {
                (ViewKind::Strided { steps: traversal.iter().map(|step| *step as u32).collect() }, dim_indices(dim_map))
            }
            Type::GatherScatterView { sparse_dim, .. } => (ViewKind::Gather { sparse_dim: *sparse_dim }, identity()),
            _ => unreachable!("the verifier guarantees that the result is a view"),
        };
        let (tile, _) = ty.tile_view().expect("a view has a tile shape");
        let tile = tile.iter().map(|dim| *dim as u32).collect();
        View { tensor, tile, dim_map, kind, padding: ty.padding() }
    }
}
