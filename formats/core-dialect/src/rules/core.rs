//! Rules for the operand and result types of the core ops.

use super::elements::{
    is_float, is_ieee_rounding, is_ptr, space_of, supports_binary, supports_convert, supports_ftz, supports_unary,
};
use super::types::is_permutation;
use super::{CoreDialectType, CoreType, OpContext, RuleResult, require};
use crate::core_ops::{Core, Fact};
use crate::tile::{Dense, Elem, MAX_ALIGNMENT, Space, element_count};
use base::Value;
use base::ir::Operation;
use numerics::Scalar;
use numerics::arith::{Binary, Compare};

/// The message for an element type that an operation does not support.
fn wrong_element_type() -> String {
    "the operation is not defined on elements of this type".into()
}

impl<O: Operation, T: CoreDialectType> OpContext<'_, O, T> {
    /// Checks the operand and result types of a core op.
    pub fn check_core(&self, core: &Core) -> RuleResult {
        match core {
            Core::Constant { .. }
            | Core::Unary { .. }
            | Core::Binary { .. }
            | Core::Fma { .. }
            | Core::Compare { .. }
            | Core::Convert { .. }
            | Core::Select { .. }
            | Core::IntToPtr { .. }
            | Core::PtrToInt { .. }
            | Core::PtrCast { .. }
            | Core::Offset { .. }
            | Core::Assume { .. } => self.check_elementwise(core),
            Core::Iota {}
            | Core::Broadcast { .. }
            | Core::Reshape { .. }
            | Core::Permute { .. }
            | Core::Cat { .. }
            | Core::Extract { .. }
            | Core::Insert { .. }
            | Core::Reinterpret { .. } => self.check_rearranged(core),
            Core::BlockId { .. }
            | Core::BlockCount { .. }
            | Core::ClusterRank {}
            | Core::ClcBlockCount {}
            | Core::ClcBlockId { .. }
            | Core::MakeMemRef { .. }
            | Core::MakeView { .. }
            | Core::MemRefShape { .. }
            | Core::ViewShape { .. }
            | Core::GlobalAddress { .. }
            | Core::Alloca { .. } => self.check_object(core),
            Core::If { cond, .. } => self.check_types(&[*cond], CoreType::scalar(Scalar::I1)),
            Core::For { lower, upper, step, .. } => {
                self.check_scalar_ints(&[*lower])?;
                self.check_types(&[*upper, *step], self.core_type(*lower))
            }
            Core::Loop { .. } => Ok(()),
            Core::Yield { .. } | Core::Continue { .. } | Core::Break { .. } | Core::Return {} => self.check_results(&[]),
            Core::MakeToken {} => self.check_results(&[CoreType::Token]),
            Core::JoinTokens { tokens } => {
                require(tokens.len() >= 2, || "it joins two tokens or more".into())?;
                self.check_tokens(tokens.iter().copied())?;
                self.check_results(&[CoreType::Token])
            }
            Core::AliasFence { token } => {
                self.check_tokens([*token])?;
                self.check_results(&[CoreType::Token])
            }
            Core::GridWait { token } | Core::GridLaunch { token } => {
                self.check_tokens(*token)?;
                self.check_results(&[CoreType::Token])
            }
            Core::Assert { cond, .. } => {
                require(self.scalar_tile(*cond)?.0 == Scalar::I1, || "the condition holds i1".into())?;
                self.check_results(&[])
            }
            Core::CheckIndex { index, extent, .. } => {
                require(self.scalar_tile(*index)?.0 == Scalar::I64, || "the index holds i64".into())?;
                self.check_types(&[*extent], CoreType::scalar(Scalar::I64))?;
                self.check_results(&[])
            }
            Core::Print { args, token, .. } => {
                args.iter().try_for_each(|arg| self.tile(*arg).map(drop))?;
                self.check_tokens(*token)?;
                if self.op.results.is_empty() { Ok(()) } else { self.check_results(&[CoreType::Token]) }
            }
        }
    }

    /// Checks the element-wise ops and constants.
    fn check_elementwise(&self, core: &Core) -> RuleResult {
        let (elem, shape) = self.result_tile()?;
        let result = CoreType::Tile { elem, shape };
        match core {
            Core::Constant { value } => {
                let scalar = elem.scalar().ok_or("a constant holds no pointers")?;
                let fits = match value {
                    Dense::Splat(bits) => bits & !scalar.mask() == 0,
                    Dense::Elements(elements) => {
                        elements.len() == element_count(shape) && elements.iter().all(|bits| bits & !scalar.mask() == 0)
                    }
                };
                require(fits, || "the data has bits or a number of elements that do not fit its type".into())
            }
            Core::Unary { kind, x } => {
                self.check_types(&[*x], result)?;
                require(supports_unary(*kind, elem), wrong_element_type)
            }
            Core::Binary { kind: Binary::PowI, lhs, rhs } => {
                self.check_types(&[*lhs], result)?;
                let (exponent, operand_shape) = self.scalar_tile(*rhs)?;
                require(is_float(elem) && exponent.is_int() && operand_shape == shape, wrong_element_type)
            }
            Core::Binary { kind, lhs, rhs } => {
                self.check_types(&[*lhs, *rhs], result)?;
                require(supports_binary(*kind, elem), wrong_element_type)
            }
            Core::Fma { kind, a, b, c } => {
                self.check_types(&[*a, *b, *c], result)?;
                require(is_float(elem) && is_ieee_rounding(kind.rounding) && supports_ftz(kind.ftz, elem), wrong_element_type)
            }
            Core::Compare { kind, lhs, rhs } => {
                self.check_types(&[*rhs], self.core_type(*lhs))?;
                let (compared, operand_shape) = self.scalar_tile(*lhs)?;
                let family_fits = matches!(kind, Compare::Float { .. }) == compared.is_float();
                require(family_fits && operand_shape == shape && elem == Elem::Scalar(Scalar::I1), wrong_element_type)
            }
            Core::Convert { kind, x } => {
                let (from, operand_shape) = self.scalar_tile(*x)?;
                let to = elem.scalar().ok_or_else(wrong_element_type)?;
                require(operand_shape == shape && supports_convert(*kind, from, to), wrong_element_type)
            }
            Core::Select { cond, yes, no } => {
                let (flag, operand_shape) = self.scalar_tile(*cond)?;
                require(flag == Scalar::I1 && operand_shape == shape, || {
                    "the condition holds i1 in the shape of the result".into()
                })?;
                let fit = [yes, no].iter().all(|value| self.core_type(**value).fits(result));
                require(fit, || "both choices have the type of the result".into())
            }
            Core::IntToPtr { x } => {
                let (from, operand_shape) = self.scalar_tile(*x)?;
                require(from == Scalar::I64 && is_ptr(elem) && operand_shape == shape, wrong_element_type)
            }
            Core::PtrToInt { x } => {
                let (from, operand_shape) = self.tile(*x)?;
                require(is_ptr(from) && elem == Elem::Scalar(Scalar::I64) && operand_shape == shape, wrong_element_type)
            }
            Core::PtrCast { x } => {
                let (from, operand_shape) = self.tile(*x)?;
                require(space_of(from).is_some() && space_of(from) == space_of(elem) && operand_shape == shape, wrong_element_type)
            }
            Core::Offset { ptr, offset } => {
                self.check_types(&[*ptr], result)?;
                let (distance, operand_shape) = self.scalar_tile(*offset)?;
                require(is_ptr(elem) && distance.is_int() && operand_shape == shape, wrong_element_type)
            }
            Core::Assume { value, fact } => {
                self.check_types(&[*value], result)?;
                self.check_fact(fact, elem, shape)
            }
            other => unreachable!("'{}' is not element-wise", other.mnemonic()),
        }
    }

    /// Checks that the fact of an `assume` is possible for a value of this type.
    fn check_fact(&self, fact: &Fact, elem: Elem, shape: &[u32]) -> RuleResult {
        let is_int = elem.scalar().is_some_and(Scalar::is_int);
        let fits = match fact {
            Fact::DivBy { divisor, every, along } => {
                let axis_fits = match (every, along) {
                    (None, None) => true,
                    (Some(every), Some(along)) => {
                        let extent = usize::try_from(*along).ok().and_then(|along| shape.get(along));
                        extent.is_some_and(|extent| (0..=i64::from(*extent)).contains(every))
                    }
                    _ => false,
                };
                divisor.is_power_of_two() && axis_fits && (is_int || is_ptr(elem))
            }
            Fact::Bounded { low, high } => is_int && low.zip(*high).is_none_or(|(low, high)| low <= high),
            Fact::SameElements { groups } => {
                let within = |(group, extent): (&i64, &u32)| (0..=i64::from(*extent)).contains(group);
                (is_int || is_ptr(elem)) && groups.len() == shape.len() && groups.iter().zip(shape).all(within)
            }
        };
        require(fits, || "the fact does not fit the value".into())
    }

    /// Checks the ops that rearrange elements without changing them, and `iota`.
    fn check_rearranged(&self, core: &Core) -> RuleResult {
        match core {
            Core::Iota {} => self.result_tile().and_then(|(elem, shape)| {
                let holds_indices =
                    |scalar: Scalar| scalar.is_int() && shape.len() == 1 && u64::from(shape[0]) - 1 <= scalar.mask();
                require(elem.scalar().is_some_and(holds_indices), || {
                    "it needs one dimension, and an integer type that holds its numbers".into()
                })
            }),
            Core::Broadcast { x } => self.check_reshaped(*x, |from, to| {
                from.is_empty() || from.len() == to.len() && from.iter().zip(to).all(|(a, b)| a == b || *a == 1)
            }),
            Core::Reshape { x } => self.check_reshaped(*x, |from, to| element_count(from) == element_count(to)),
            Core::Permute { x, order } => self.check_reshaped(*x, |from, to| {
                is_permutation(order, from.len())
                    && from.len() == to.len()
                    && to.iter().zip(order).all(|(extent, dim)| *extent == from[*dim as usize])
            }),
            Core::Cat { lhs, rhs, dim } => self.check_cat(*lhs, *rhs, *dim as usize),
            Core::Extract { x, indices } => self.check_reshaped(*x, |from, to| divides(to, from)).and_then(|()| {
                let rank = self.tile(*x)?.1.len();
                require(indices.len() == rank, || "it takes an index for each dimension".into())?;
                self.check_scalar_ints(indices)
            }),
            Core::Insert { x, into, indices } => self.result().and_then(|result| {
                self.check_types(&[*into], self.core_type(result))?;
                let (part, full_tile) = (self.tile(*x)?, self.tile(*into)?);
                require(part.0 == full_tile.0 && divides(part.1, full_tile.1), || "the part does not divide the whole".into())?;
                require(indices.len() == full_tile.1.len(), || "it takes an index for each dimension".into())?;
                self.check_scalar_ints(indices)
            }),
            Core::Reinterpret { x } => self.scalar_tile(*x).and_then(|(from, shape)| {
                let (elem, result_shape) = self.result_tile()?;
                let bits = |scalar: Scalar, shape: &[u32]| u64::from(scalar.bits()) * element_count(shape) as u64;
                let fits = elem.scalar().is_some_and(|to| bits(to, result_shape) == bits(from, shape));
                require(fits && shape.len() == 1 && result_shape.len() == 1, || "both have one dimension and as many bytes".into())
            }),
            other => unreachable!("'{}' moves no elements", other.mnemonic()),
        }
    }

    /// Checks that the result has the elements of `x`, and that the shapes of operand and result satisfy `fits`.
    fn check_reshaped(&self, x: Value, fits: impl Fn(&[u32], &[u32]) -> bool) -> RuleResult {
        let (from, shape) = self.tile(x)?;
        let (to, result_shape) = self.result_tile()?;
        require(from == to && fits(shape, result_shape), || "the shapes or elements of operand and result do not fit".into())
    }

    /// Checks that the extents of both operands add up to the result along `dim`, and are equal to it along other dimensions.
    fn check_cat(&self, lhs: Value, rhs: Value, dim: usize) -> RuleResult {
        let (elem, shape) = self.result_tile()?;
        let ((left_elem, left), (right_elem, right)) = (self.tile(lhs)?, self.tile(rhs)?);
        let fits = left.len() == shape.len()
            && right.len() == shape.len()
            && dim < shape.len()
            && (0..shape.len()).all(|i| {
                if i == dim { left[i].checked_add(right[i]) == Some(shape[i]) } else { left[i] == shape[i] && right[i] == shape[i] }
            });
        require(fits && left_elem == elem && right_elem == elem, || "the parts do not add up to the result".into())
    }

    /// Checks the ops that query the grid, and the ops that create or query memory objects and views.
    fn check_object(&self, core: &Core) -> RuleResult {
        match core {
            Core::BlockId { axis } | Core::BlockCount { axis } => {
                require(*axis < 3, || "the grid has three axes".into())?;
                self.check_results(&[CoreType::scalar(Scalar::I32)])
            }
            Core::ClusterRank {} | Core::ClcBlockCount {} => self.check_results(&[CoreType::scalar(Scalar::I32)]),
            Core::ClcBlockId { iteration, axis } => {
                require(*axis < 3, || "the grid has three axes".into())?;
                self.check_types(&[*iteration], CoreType::scalar(Scalar::I32))?;
                self.check_results(&[CoreType::scalar(Scalar::I32)])
            }
            Core::MakeMemRef { base, sizes, strides } => {
                let CoreType::MemRef(memref) = self.core_type(self.result()?) else { return Err("its result is a memref".into()) };
                let expected = CoreType::Tile { elem: Elem::Ptr { pointee: memref.elem, space: memref.space }, shape: &[] };
                require(self.core_type(*base).fits(expected), || "the base does not point to the memref's elements".into())?;
                let count_unknown = |known: &[Option<u64>]| known.iter().filter(|extent| extent.is_none()).count();
                let counts_fit = sizes.len() == count_unknown(&memref.sizes) && strides.len() == count_unknown(&memref.strides);
                require(counts_fit, || "it takes the sizes and strides that its type leaves open".into())?;
                self.check_scalar_ints(sizes)?;
                self.check_scalar_ints(strides)
            }
            Core::MakeView { memref } => {
                let CoreType::View(view) = self.core_type(self.result()?) else { return Err("its result is a view".into()) };
                require(matches!(self.core_type(*memref), CoreType::MemRef(found) if *found == view.memref), || {
                    "the view's type names another memref".into()
                })
            }
            Core::MemRefShape { memref } => match self.core_type(*memref) {
                CoreType::MemRef(memref) => self.check_extent_results(memref.sizes.len()),
                _ => Err("its operand is a memref".into()),
            },
            Core::ViewShape { view } => match self.core_type(*view) {
                CoreType::View(view) => self.check_extent_results(view.tile.len()),
                _ => Err("its operand is a view".into()),
            },
            Core::GlobalAddress { name } => {
                let global = self.globals.iter().find(|global| global.name == *name);
                let pointee = global.ok_or_else(|| format!("there is no global '{name}'"))?.elem;
                self.check_results(&[CoreType::Tile { elem: Elem::Ptr { pointee, space: Space::Global }, shape: &[] }])
            }
            Core::Alloca { align, .. } => match self.result_tile()? {
                (Elem::Ptr { pointee, space: Space::Local }, []) => {
                    let aligned = align.is_power_of_two() && (u64::from(pointee.bytes())..=MAX_ALIGNMENT).contains(align);
                    require(aligned, || {
                        format!("the alignment is a power of two of at least the element's size, and at most {MAX_ALIGNMENT}")
                    })
                }
                _ => Err("its result is a local pointer".into()),
            },
            other => unreachable!("'{}' makes no object", other.mnemonic()),
        }
    }

    /// Checks that the op returns `rank` integers, one for each dimension.
    fn check_extent_results(&self, rank: usize) -> RuleResult {
        require(self.op.results.len() == rank, || format!("it has {rank} results, one a dimension"))?;
        self.check_scalar_ints(&self.op.results)
    }
}

/// Returns whether each extent of `part` divides the extent of `whole`.
fn divides(part: &[u32], whole: &[u32]) -> bool {
    part.len() == whole.len() && part.iter().zip(whole).all(|(part, whole)| whole % part == 0)
}
