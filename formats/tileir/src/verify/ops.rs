//! The rules of single ops that the op table cannot express.

use super::{BlockContext, Check, OpView, join, memory, multimem};
use crate::ops::Op;
use crate::types::{Attribute, Element};
use base::ir::Value;
use numerics::Scalar;
use numerics::arith::{Overflow, Rounding, Signedness};

/// Checks the ranges of attributes. NVIDIA's verifier checks them before operands.
pub(super) fn check_attribute_ranges(op: &Op) -> Check {
    let fail = |name: &str, what: &str| Err(format!("attribute '{name}' failed to satisfy constraint: {what}"));
    match op {
        Op::PreviewCall { const_args, .. } => super::preview::check_call(const_args),
        Op::Reduce { dim, .. } | Op::Scan { dim, .. } if *dim < 0 => {
            fail("dim", "32-bit signless integer attribute whose value is non-negative")
        }
        Op::Alloca { num_elem, .. } if *num_elem < 0 => {
            fail("num_elem", "64-bit signless integer attribute whose minimum value is 0")
        }
        Op::Alloca { alignment, .. } if *alignment < 0 => {
            fail("alignment", "64-bit signless integer attribute whose minimum value is 0")
        }
        _ => Ok(()),
    }
}

/// Checks the rule of a single op that the op table cannot express.
pub(super) fn check_op(view: &OpView<'_, '_>, context: BlockContext) -> Check {
    use Rounding::{Approx, Full, NearestEven, NearestIntToZero, NegativeInf, PositiveInf, Zero};
    const IEEE: &[Rounding] = &[NearestEven, Zero, NegativeInf, PositiveInf];
    match &view.node.kind {
        Op::AddF { rounding_mode, flush_to_zero, .. }
        | Op::SubF { rounding_mode, flush_to_zero, .. }
        | Op::MulF { rounding_mode, flush_to_zero, .. }
        | Op::Fma { rounding_mode, flush_to_zero, .. } => {
            check_rounding(*rounding_mode, IEEE)?;
            check_only_f32(view, *flush_to_zero, "flush_to_zero")
        }
        Op::DivF { rounding_mode, flush_to_zero, .. } => {
            check_rounding(*rounding_mode, &[NearestEven, Zero, NegativeInf, PositiveInf, Approx, Full])?;
            check_only_f32(view, *flush_to_zero, "flush_to_zero")?;
            check_only_f32(view, *rounding_mode == Approx, "approx")?;
            check_only_f32(view, *rounding_mode == Full, "full")
        }
        Op::Sqrt { rounding_mode, flush_to_zero, .. } => {
            check_rounding(*rounding_mode, &[NearestEven, Zero, NegativeInf, PositiveInf, Approx])?;
            check_only_f32(view, *flush_to_zero, "flush_to_zero")?;
            check_only_f32(view, *rounding_mode == Approx, "approx")
        }
        Op::MaxF { flush_to_zero, .. }
        | Op::MinF { flush_to_zero, .. }
        | Op::Rsqrt { flush_to_zero, .. }
        | Op::Exp2 { flush_to_zero, .. } => check_only_f32(view, *flush_to_zero, "flush_to_zero"),
        Op::Exp { rounding_mode, .. } | Op::TanH { rounding_mode, .. } => {
            check_rounding(*rounding_mode, &[Approx, Full])?;
            check_only_f32(view, *rounding_mode == Approx, "approx")
        }
        Op::DivI { signedness, rounding: mode, .. } => {
            check_rounding(*mode, &[Zero, NegativeInf, PositiveInf])?;
            if *mode == NegativeInf && *signedness == Signedness::Unsigned {
                return Err("rounding mode 'negative_inf' is not allowed with 'unsigned' flag".into());
            }
            Ok(())
        }
        Op::NegI { overflow, .. } if *overflow == Overflow::NoUnsignedWrap => {
            Err("'no_unsigned_wrap' overflow flag is not supported".into())
        }
        Op::ExtI { from, .. } if view.result_tile().0.bits() <= view.tile(*from).0.bits() => {
            Err("extending to smaller or identical integer".into())
        }
        Op::TruncI { from, .. } if view.result_tile().0.bits() >= view.tile(*from).0.bits() => {
            Err("truncating to larger or identical integer".into())
        }
        Op::FToF { rounding_mode, from } => check_ftof(view, *rounding_mode, *from),
        Op::FToI { rounding_mode, .. } if *rounding_mode != NearestIntToZero => {
            Err("invalid rounding mode specified. Only 'nearest_int_to_zero' is supported".into())
        }
        Op::IToF { rounding_mode, .. } => check_itof(view, *rounding_mode),
        Op::Bitcast { source } => check_bitcast(view, *source),
        Op::Broadcast { source } => check_broadcast(view, *source),
        Op::Reshape { source } if element_count(view.tile(*source).1) != element_count(view.result_tile().1) => {
            Err("expected source tile and result tile to have the same number of elements".into())
        }
        Op::Permute { permutation, source } => check_permute(view, permutation, *source),
        Op::Cat { dim, lhs, rhs } => check_cat(view, *dim, *lhs, *rhs),
        Op::Extract { source, indices } => check_slice(view, *source, view.node.results[0], ("source", "result"), indices),
        Op::Insert { source, destination, indices } => check_slice(view, *destination, *source, ("result", "source"), indices),
        Op::Iota {} => check_iota(view),
        Op::Pack { source } | Op::Unpack { source } => check_pack(view, *source),
        Op::Select { .. } if view.result_tile().0 == Element::Scalar(Scalar::F4E2M1FN) => {
            Err("cannot operate on sub-byte type F4E2M1FN".into())
        }
        Op::JoinTokens { tokens } if tokens.len() < 2 => Err("expect two or more tokens".into()),
        Op::PrintTko { format, args, .. } => check_print(view.module().string(*format), args.len()),
        Op::Assume { predicate, .. } => check_assume(view, predicate),
        Op::MmaF { lhs, rhs, acc, .. } => {
            check_mma_shapes(view, *lhs, *rhs, *acc)?;
            check_mmaf_types(view, *lhs, *acc)
        }
        Op::MmaI { lhs, rhs, acc, .. } => check_mma_shapes(view, *lhs, *rhs, *acc),
        Op::MmaFScaled { lhs, rhs, acc, lhs_scale, rhs_scale } => {
            check_mma_shapes(view, *lhs, *rhs, *acc)?;
            check_scales(view, [*lhs, *rhs, *lhs_scale, *rhs_scale])
        }
        Op::LoadPtrTko { memory_ordering, memory_scope, source, .. } => {
            memory::check_not_multicast(view, *source, "multicast pointer is not allowed")?;
            memory::check_load_ordering(*memory_ordering, *memory_scope)
        }
        Op::StorePtrTko { memory_ordering, memory_scope, destination, .. } => {
            memory::check_not_multicast(view, *destination, "multicast pointer is not allowed")?;
            memory::check_store_ordering(*memory_ordering, *memory_scope)
        }
        Op::LoadViewTko { memory_ordering, memory_scope, view: target, index, inbounds, .. } => {
            memory::check_view_access(view, *target, index, view.node.results[0], inbounds)?;
            memory::check_single_device_view(view, *target)?;
            memory::check_load_ordering(*memory_ordering, *memory_scope)
        }
        Op::StoreViewTko { memory_ordering, memory_scope, tile, view: target, index, inbounds, .. } => {
            memory::check_view_access(view, *target, index, *tile, inbounds)?;
            memory::check_single_device_view(view, *target)?;
            memory::check_store_ordering(*memory_ordering, *memory_scope)
        }
        Op::AtomicCASTko { .. } | Op::AtomicRMWTko { .. } | Op::AtomicRedViewTko { .. } => memory::check_atomic(view),
        Op::MultimemLoadReduceViewTko { .. } | Op::MultimemReduceViewTko { .. } | Op::MultimemStoreViewTko { .. } => {
            multimem::check_multimem(view)
        }
        Op::MakeTensorView { base, dynamic_shape, dynamic_strides } => {
            memory::check_make_tensor_view(view, *base, dynamic_shape, dynamic_strides)
        }
        Op::MakePartitionView { tensor_view } | Op::MakeStridedView { tensor_view } | Op::MakeGatherScatterView { tensor_view } => {
            memory::check_make_view(view, *tensor_view)
        }
        Op::GetIndexSpaceShape { src } => {
            let rank = view.ty(*src).tile_view().map_or(0, |(tile, _)| tile.len());
            check_result_per_dimension(view, rank, "view index space rank")
        }
        Op::GetTensorShape { src } => {
            let crate::Type::TensorView { shape, .. } = view.ty(*src) else { return Ok(()) };
            check_result_per_dimension(view, shape.len(), "tensor rank")
        }
        Op::Alloca { alignment, .. } => memory::check_alloca(view, *alignment),
        _ => super::regions::check_before_regions(view, context),
    }
}

/// Checks that the op has a result for each of `rank` dimensions. `why` names the rank in messages.
fn check_result_per_dimension(view: &OpView<'_, '_>, rank: usize, why: &str) -> Check {
    let got = view.node.results.len();
    if got != rank {
        return Err(format!("expected {rank} results due to {why}, but got {got}"));
    }
    Ok(())
}

fn check_rounding(mode: Rounding, allowed: &[Rounding]) -> Check {
    if allowed.contains(&mode) {
        return Ok(());
    }
    let spellings: Vec<&str> = allowed.iter().map(|mode| super::spelling(*mode)).collect();
    Err(format!("invalid rounding mode specified, expect one of [{}]", spellings.join(", ")))
}

/// Checks a modifier that only f32 supports. `present` is whether the op has the modifier, and `name` its name in messages.
fn check_only_f32(view: &OpView<'_, '_>, present: bool, name: &str) -> Check {
    let element = view.result_tile().0;
    if present && element != Element::Scalar(Scalar::F32) {
        let element = element.scalar().map_or("?", Scalar::name);
        return Err(format!("{name} modifier only supported for f32 data type, but got: '{element}'"));
    }
    Ok(())
}

/// Checks that a conversion between float types supports the rounding mode.
fn check_ftof(view: &OpView<'_, '_>, mode: Rounding, from: Value) -> Check {
    use Rounding::{NearestAway, NearestEven, NegativeInf, PositiveInf, Zero};
    use Scalar::{BF16, F8E8M0FNU, F16, F32, F64, TF32};
    let (Some(source), Some(target)) = (view.tile(from).0.scalar(), view.result_tile().0.scalar()) else { return Ok(()) };
    if source == target {
        return Err("converting tiles must not be a no-op".into());
    }
    let is_standard_float = |scalar: Scalar| matches!(scalar, F16 | BF16 | F32 | F64 | TF32);
    let (allowed, message): (&[Rounding], _) = match (source, target) {
        (_, F8E8M0FNU) => (
            &[Zero, PositiveInf],
            "invalid rounding mode specified for conversion to f8E8M0FNU. Only 'zero' and 'positive_inf' are supported",
        ),
        (_, target) if !is_standard_float(target) => (
            &[NearestEven],
            "invalid rounding mode specified for conversion to low-precision type. Only 'nearest_even' is supported",
        ),
        (F8E8M0FNU, F16 | BF16 | F32 | TF32) | (F16, BF16) | (BF16, F16) | (F32 | F64 | TF32, F16 | BF16) | (F64, TF32) => (
            &[NearestEven, Zero],
            "invalid rounding mode specified. Only 'nearest_even' and 'zero' are supported for narrowing conversions to \
             standard types",
        ),
        (F64, F32) => (
            &[NearestEven, Zero, NegativeInf, PositiveInf],
            "invalid rounding mode specified. Only 'nearest_even', 'zero', 'negative_inf' and 'positive_inf' are supported",
        ),
        (F32, TF32) => (
            &[NearestEven, Zero, NearestAway],
            "invalid rounding mode specified for conversion from f32 to tf32. Only 'nearest_even', 'zero', and 'nearest_away' are \
             supported",
        ),
        _ => (
            &[NearestEven, Zero, NegativeInf, PositiveInf, NearestAway],
            "invalid rounding mode specified for widening conversion. Only IEEE float rounding modes are supported: \
             'nearest_even', 'zero', 'negative_inf', 'positive_inf', 'nearest_away'",
        ),
    };
    if allowed.contains(&mode) { Ok(()) } else { Err(message.into()) }
}

fn check_itof(view: &OpView<'_, '_>, mode: Rounding) -> Check {
    if view.result_tile().0 == Element::Scalar(Scalar::F8E8M0FNU) {
        let what = "integer to f8E8M0FNU conversion is not supported";
        return Err(format!("{what}, please first convert to another float type"));
    }
    if mode != Rounding::NearestEven {
        return Err("invalid rounding mode specified. Only 'nearest_even' is supported".into());
    }
    Ok(())
}

/// The width of an element in bits as NVIDIA's verifier counts it: tf32 has 19 bits.
fn bit_width(element: Element) -> u32 {
    if element == Element::Scalar(Scalar::TF32) { 19 } else { element.bits() }
}

fn check_bitcast(view: &OpView<'_, '_>, source: Value) -> Check {
    let (from, to) = (bit_width(view.tile(source).0), bit_width(view.result_tile().0));
    if from == to {
        return Ok(());
    }
    let (source, result) = (view.quoted_type(view.type_id(source)), view.quoted_type(view.result_type_id(0)));
    Err(format!("types must be equal width, cannot convert {source} of width {from} to type {result} of width {to}"))
}

fn check_broadcast(view: &OpView<'_, '_>, source: Value) -> Check {
    let (from, to) = (view.tile(source).1, view.result_tile().1);
    if from.iter().zip(to).all(|(from, to)| from == to || *from == 1) {
        return Ok(());
    }
    let what = "expects the shape of source tile to be compatible with that of the result tile";
    Err(format!("{what}, but got: {} and {}", join(from), join(to)))
}

fn element_count(shape: &[i64]) -> i64 {
    shape.iter().product()
}

fn check_permute(view: &OpView<'_, '_>, permutation: &[i32], source: Value) -> Check {
    let (shape, result) = (view.tile(source).1, view.result_tile().1);
    let rank = shape.len();
    if rank < 2 {
        return Err(format!("expects at least rank 2, but got: {rank}"));
    }
    if permutation.len() != rank {
        let size = permutation.len();
        return Err(format!("expect permutation size ({size}) to equal the rank of the source ({rank})"));
    }
    let mut sorted = permutation.to_vec();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err("expect permutation elements to be unique".into());
    }
    if let Some((i, value)) = permutation.iter().enumerate().find(|(_, value)| !(0..rank as i32).contains(value)) {
        return Err(format!("permutation element at index {i} ({value}) is out of bound [0, {rank})"));
    }
    for (i, from) in permutation.iter().enumerate() {
        let (expected, got) = (shape[*from as usize], result[i]);
        if expected != got {
            return Err(format!("result shape invalid at index {i}, expected: {expected}, but got: {got}"));
        }
    }
    Ok(())
}

fn check_cat(view: &OpView<'_, '_>, dim: i64, lhs: Value, rhs: Value) -> Check {
    let (lhs, rhs, result) = (view.tile(lhs).1, view.tile(rhs).1, view.result_tile().1);
    let rank = lhs.len();
    let Some(concat_dim) = usize::try_from(dim).ok().filter(|dim| *dim < rank) else {
        return Err(format!("expect dim to be [0, {rank}), but got: {dim}"));
    };
    let sum = lhs[concat_dim] + rhs[concat_dim];
    if sum != result[concat_dim] {
        return Err(format!("invalid concat at position {dim}, expected: {sum} but got: {}", result[concat_dim]));
    }
    for i in (0..rank).filter(|i| *i != concat_dim) {
        for (other, what) in [(rhs[i], "rhs"), (result[i], "result")] {
            if lhs[i] != other {
                let expected = lhs[i];
                return Err(format!(
                    "expect lhs and {what} shapes to match at non-concat position {i}, expected: {expected} but got: {other}"
                ));
            }
        }
    }
    Ok(())
}

/// Checks the extraction or insertion of a slice. Each extent of `part` must divide the extent of `whole`, and each dimension needs
/// an index. `names` are the names of `whole` and `part` in messages.
fn check_slice(view: &OpView<'_, '_>, whole: Value, part: Value, names: (&str, &str), indices: &[Value]) -> Check {
    let ((whole_element, whole), (part_element, part)) = (view.tile(whole), view.tile(part));
    if whole_element != part_element {
        return Err("source and result element type do not match".into());
    }
    if whole.len() != part.len() {
        return Err("source and result must have the same rank".into());
    }
    for (i, (size, piece)) in whole.iter().zip(part).enumerate() {
        if size % piece != 0 {
            let (whole, part) = names;
            return Err(format!(
                "{whole} dimension {i} size ({size}) must be evenly divisible by {part} dimension {i} size ({piece})"
            ));
        }
    }
    if indices.len() != whole.len() {
        let (rank, got) = (whole.len(), indices.len());
        return Err(format!("expected {rank} indices, but got {got}"));
    }
    Ok(())
}

fn check_iota(view: &OpView<'_, '_>) -> Check {
    let (element, shape) = view.result_tile();
    let [elements] = shape else { return Err("expects result type to be 1-d tile".into()) };
    let bits = element.bits();
    if bits < 64 && *elements as u64 > 1 << bits {
        let element = element.scalar().map_or("?", Scalar::name);
        return Err(format!("the number of elements {elements} exceeds the maximum value of element type '{element}'"));
    }
    Ok(())
}

/// Checks that `pack` or `unpack` keeps the tile's size in bytes, and changes the element width.
fn check_pack(view: &OpView<'_, '_>, source: Value) -> Check {
    let ((from, from_shape), (to, to_shape)) = (view.tile(source), view.result_tile());
    if from_shape.len() != 1 {
        return Err("expects source and result to be rank-1 tiles".into());
    }
    if bit_width(from) == bit_width(to) {
        return Err("expects source and result to have different element type widths".into());
    }
    let size = |element: Element, shape: &[i64]| i64::from(element.bits()) * element_count(shape);
    let (from, to) = (size(from, from_shape), size(to, to_shape));
    if from % 8 != 0 {
        return Err("expects source tile to be byte-aligned".into());
    }
    if to % 8 != 0 {
        return Err("expects result tile to be byte-aligned".into());
    }
    if from != to {
        let (from, to) = (from / 8, to / 8);
        return Err(format!(
            "expects source and result to have the same size in bytes, but got source tile size {from} bytes and result tile \
             size {to} bytes"
        ));
    }
    Ok(())
}

/// Checks that a print op has an operand for each format specifier.
fn check_print(format: &str, args: usize) -> Check {
    let mut expected = 0;
    let mut rest = format;
    while let Some(start) = rest.find('%') {
        let after_percent = &rest[start + 1..];
        let Some(end) = after_percent.find(|c: char| "diuoxXeEfFgGaAcsSpn%".contains(c)) else {
            return Err("found unterminated format expression".into());
        };
        let is_escaped = end == 0 && after_percent.starts_with('%');
        expected += usize::from(!is_escaped);
        // As NVIDIA's verifier, the search continues directly after the percent sign, or after both signs of `%%`.
        rest = &after_percent[usize::from(is_escaped)..];
    }
    if expected != args {
        return Err(format!("incorrect number of operands: expected {expected}, found {args}"));
    }
    Ok(())
}

/// Checks that the predicate of an `assume` is valid for the type of its value.
fn check_assume(view: &OpView<'_, '_>, predicate: &Attribute) -> Check {
    let ty = view.ty(view.node.results[0]);
    let tile = ty.tile();
    let int_or_pointer_tile = tile.filter(|(element, _)| element.scalar().is_none_or(Scalar::is_int));
    match predicate {
        Attribute::DivBy { divisor, every, along } => {
            const NAME: &str = "'cuda_tile.div_by'";
            if !divisor.is_power_of_two() {
                return Err(format!("{NAME} divisor must be a power of 2"));
            }
            if every.is_some() != along.is_some() {
                return Err(format!("{NAME} 'every'/'along' must be used in combination"));
            }
            if *divisor > 1 << 62 {
                return Err(format!("{NAME} divisor is too large"));
            }
            let fail_for = |what: &str| Err(format!("{NAME} 'every'/'along' cannot be used if the constrained value is a {what}"));
            if matches!(ty, crate::Type::TensorView { .. }) {
                return if every.is_some() { fail_for("tensor_view") } else { Ok(()) };
            }
            if tile.is_some_and(|(_, shape)| shape.is_empty()) && every.is_some() {
                return fail_for("0D tile");
            }
            let Some((_, shape)) = int_or_pointer_tile else {
                return Err(format!("{NAME} is valid only for tile of integer/pointer or tensor_view values"));
            };
            let (Some(every), Some(along)) = (every, along) else { return Ok(()) };
            let rank = shape.len();
            let Some(size) = usize::try_from(*along).ok().and_then(|along| shape.get(along)) else {
                return Err(format!("{NAME} every_dim ({along}) must be >= 0 and < tile rank ({rank})"));
            };
            if !(0..=*size).contains(every) {
                return Err(format!("expected {NAME} every_dim to be within 0 and the size of the respective dimension ({size})"));
            }
            Ok(())
        }
        Attribute::SameElements(values) => {
            const NAME: &str = "'cuda_tile.same_elements'";
            let Some((_, shape)) = int_or_pointer_tile else {
                return Err(format!("{NAME} is valid only for tile of integer/pointer values"));
            };
            if values.len() != shape.len() {
                let (count, rank) = (values.len(), shape.len());
                return Err(format!("expected number of values in {NAME} ({count}) to match rank of constrained tile ({rank})"));
            }
            match values.iter().zip(shape).position(|(value, size)| !(0..=*size).contains(value)) {
                Some(i) => {
                    let size = shape[i];
                    Err(format!("expected {NAME} value {i} to be within 0 and the size of the respective dimension ({size})"))
                }
                None => Ok(()),
            }
        }
        Attribute::Bounded { lower, upper } => {
            const NAME: &str = "'cuda_tile.bounded'";
            let Some(scalar) = int_or_pointer_tile.and_then(|(element, _)| element.scalar()) else {
                return Err(format!("{NAME} is valid only for tile of integer values"));
            };
            let (min, max) = (i64::MIN >> (64 - scalar.bits()), i64::MAX >> (64 - scalar.bits()));
            for (bound, name) in [(lower, "lower"), (upper, "upper")] {
                if bound.is_some_and(|bound| !(min..=max).contains(&bound)) {
                    return Err(format!("{NAME} expects {name} bound to be within [{min}, {max}]"));
                }
            }
            if lower.zip(*upper).is_some_and(|(lower, upper)| lower > upper) {
                return Err(format!("{NAME} expects lower bound to be less than or equal to upper bound"));
            }
            Ok(())
        }
        _ => Err("must have a predicate".into()),
    }
}

/// Checks that the batch, M, N and K extents match.
fn check_mma_shapes(view: &OpView<'_, '_>, lhs: Value, rhs: Value, acc: Value) -> Check {
    let (lhs, rhs, acc) = (view.tile(lhs).1, view.tile(rhs).1, view.tile(acc).1);
    if lhs.len() != 2 && lhs.len() != 3 {
        return Err("operands must be 2D or 3D tiles".into());
    }
    let batch_dims = usize::from(lhs.len() == 3);
    let (row, column) = (batch_dims, batch_dims + 1);
    let (lhs, rhs, acc) = (("lhs", lhs), ("rhs", rhs), ("acc", acc));
    if batch_dims == 1 {
        check_same_dim("", (lhs, 0), (rhs, 0))?;
        check_same_dim("", (lhs, 0), (acc, 0))?;
    }
    check_same_dim(" ", (lhs, column), (rhs, row))?;
    check_same_dim(" ", (lhs, row), (acc, row))?;
    check_same_dim(" ", (rhs, column), (acc, column))
}

/// The name of an operand in messages, and the shape of the operand.
type NamedShape<'a> = (&'static str, &'a [i64]);

/// Checks that two dimensions of two shapes have equal extents. `lead` begins the message: some of NVIDIA's messages begin with a
/// space.
fn check_same_dim(
    lead: &str,
    ((name, shape), dim): (NamedShape<'_>, usize),
    ((other, other_shape), other_dim): (NamedShape<'_>, usize),
) -> Check {
    let (size, other_size) = (shape[dim], other_shape[other_dim]);
    if size == other_size {
        return Ok(());
    }
    let (shape, other_shape) = (join(shape), join(other_shape));
    Err(format!(
        "{lead}shape error: dim {dim} of {name} ({size}) and dim {other_dim} of {other} ({other_size}) must match, but got {name} \
         shape ({shape}) and {other} shape ({other_shape})"
    ))
}

/// Checks that there is an MMA with these element types of operands and accumulator.
fn check_mmaf_types(view: &OpView<'_, '_>, lhs: Value, acc: Value) -> Check {
    use Scalar::{F16, F32, F64};
    let (Some(input), Some(output)) = (view.tile(lhs).0.scalar(), view.tile(acc).0.scalar()) else { return Ok(()) };
    let allowed: &[Scalar] = match input {
        Scalar::F8E4M3FN | Scalar::F8E5M2 | F16 => &[F16, F32],
        F64 => &[F64],
        _ => &[F32],
    };
    if allowed.contains(&output) {
        return Ok(());
    }
    let allowed_names: Vec<String> = allowed.iter().map(|scalar| format!("'{scalar}'")).collect();
    let allowed_names = allowed_names.join(", ");
    Err(format!(
        "unsupported combination of element types. Input type '{input}' expects accumulator/result type to be one of {{{allowed_names}}}, \
         but got '{output}'"
    ))
}

/// Checks the shapes and types of the scales of a block-scaled MMA. `values` are the operands, then their scales.
fn check_scales(view: &OpView<'_, '_>, values: [Value; 4]) -> Check {
    let [lhs, rhs, lhs_scale, rhs_scale] = values.map(|value| view.tile(value));
    let batch_dims = usize::from(lhs.1.len() == 3);
    let (row, column) = (batch_dims, batch_dims + 1);
    let named_shapes = [("lhs", lhs.1), ("rhs", rhs.1), ("lhs_scale", lhs_scale.1), ("rhs_scale", rhs_scale.1)];
    if batch_dims == 1 {
        check_same_dim("", (named_shapes[0], 0), (named_shapes[2], 0))?;
        check_same_dim("", (named_shapes[1], 0), (named_shapes[3], 0))?;
    }
    check_same_dim("", (named_shapes[0], row), (named_shapes[2], row))?;
    check_same_dim("", (named_shapes[1], column), (named_shapes[3], column))?;
    check_same_dim("", (named_shapes[2], column), (named_shapes[3], row))?;
    let (Some(element), Some(scale)) = (lhs.0.scalar(), lhs_scale.0.scalar()) else { return Ok(()) };
    if matches!(scale, Scalar::F8E4M3FN | Scalar::F8E5M3FNU) && element != Scalar::F4E2M1FN {
        return Err(format!(
            "unsupported combination of element types. Scale type '{scale}' expects lhs and rhs element types to be 'f4E2M1FN', \
             but got '{element}'"
        ));
    }
    let (depth, scale_depth) = (lhs.1[column], lhs_scale.1[column]);
    if depth % scale_depth != 0 {
        let (scale_shape, shape) = (join(lhs_scale.1), join(lhs.1));
        return Err(format!(
            "shape error: dim {column} of lhs_scale ({scale_depth}) must be a divisor of dim {column} of lhs ({depth}), but got \
             lhs_scale shape ({scale_shape}) and lhs shape ({shape})"
        ));
    }
    let block_size = depth / scale_depth;
    let (allowed, what): (&[i64], _) = match (element, scale) {
        (Scalar::F4E2M1FN, Scalar::F8E4M3FN) => (&[16], format!("f4E2M1FN element type with {scale} scales requires")),
        (Scalar::F4E2M1FN, _) => (&[16, 32], format!("f4E2M1FN element type with {scale} scales requires")),
        _ => (&[32], "f8 element type requires".into()),
    };
    if allowed.contains(&block_size) {
        return Ok(());
    }
    let sizes: Vec<String> = allowed.iter().map(i64::to_string).collect();
    let sizes = sizes.join(" or ");
    Err(format!("shape error: {what} block scale factor of lhs_scale and rhs_scale to be {sizes}, but got {block_size}"))
}
