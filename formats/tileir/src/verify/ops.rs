//! Each op's own rule, beyond its types and relations.

use super::{BlockContext, Check, OpView, list, memory, multimem};
use crate::ops::Op;
use crate::types::{Attribute, Element};
use base::ir::Value;
use numerics::Scalar;
use numerics::arith::{Overflow, Rounding, Signedness};

/// Attribute ranges, which NVIDIA's verifier checks before operands.
pub(super) fn attributes(op: &Op) -> Check {
    let outside = |name: &str, what: &str| Err(format!("attribute '{name}' failed to satisfy constraint: {what}"));
    match op {
        Op::PreviewCall { const_args, .. } => super::preview::call(const_args),
        Op::Reduce { dim, .. } | Op::Scan { dim, .. } if *dim < 0 => {
            outside("dim", "32-bit signless integer attribute whose value is non-negative")
        }
        Op::Alloca { num_elem, .. } if *num_elem < 0 => {
            outside("num_elem", "64-bit signless integer attribute whose minimum value is 0")
        }
        Op::Alloca { alignment, .. } if *alignment < 0 => {
            outside("alignment", "64-bit signless integer attribute whose minimum value is 0")
        }
        _ => Ok(()),
    }
}

pub(super) fn check(view: &OpView<'_, '_>, context: BlockContext) -> Check {
    use Rounding::{Approx, Full, NearestEven, NearestIntToZero, NegativeInf, PositiveInf, Zero};
    const IEEE: &[Rounding] = &[NearestEven, Zero, NegativeInf, PositiveInf];
    match &view.node.kind {
        Op::AddF { rounding_mode, flush_to_zero, .. }
        | Op::SubF { rounding_mode, flush_to_zero, .. }
        | Op::MulF { rounding_mode, flush_to_zero, .. }
        | Op::Fma { rounding_mode, flush_to_zero, .. } => {
            rounding(*rounding_mode, IEEE)?;
            only_f32(view, *flush_to_zero, "flush_to_zero")
        }
        Op::DivF { rounding_mode, flush_to_zero, .. } => {
            rounding(*rounding_mode, &[NearestEven, Zero, NegativeInf, PositiveInf, Approx, Full])?;
            only_f32(view, *flush_to_zero, "flush_to_zero")?;
            only_f32(view, *rounding_mode == Approx, "approx")?;
            only_f32(view, *rounding_mode == Full, "full")
        }
        Op::Sqrt { rounding_mode, flush_to_zero, .. } => {
            rounding(*rounding_mode, &[NearestEven, Zero, NegativeInf, PositiveInf, Approx])?;
            only_f32(view, *flush_to_zero, "flush_to_zero")?;
            only_f32(view, *rounding_mode == Approx, "approx")
        }
        Op::MaxF { flush_to_zero, .. }
        | Op::MinF { flush_to_zero, .. }
        | Op::Rsqrt { flush_to_zero, .. }
        | Op::Exp2 { flush_to_zero, .. } => only_f32(view, *flush_to_zero, "flush_to_zero"),
        Op::Exp { rounding_mode, .. } | Op::TanH { rounding_mode, .. } => {
            rounding(*rounding_mode, &[Approx, Full])?;
            only_f32(view, *rounding_mode == Approx, "approx")
        }
        Op::DivI { signedness, rounding: mode, .. } => {
            rounding(*mode, &[Zero, NegativeInf, PositiveInf])?;
            if *mode == NegativeInf && *signedness == Signedness::Unsigned {
                return Err("rounding mode 'negative_inf' is not allowed with 'unsigned' flag".into());
            }
            Ok(())
        }
        Op::NegI { overflow, .. } if *overflow == Overflow::NoUnsignedWrap => {
            Err("'no_unsigned_wrap' overflow flag is not supported".into())
        }
        Op::ExtI { from, .. } if view.result().0.bits() <= view.tile(*from).0.bits() => {
            Err("extending to smaller or identical integer".into())
        }
        Op::TruncI { from, .. } if view.result().0.bits() >= view.tile(*from).0.bits() => {
            Err("truncating to larger or identical integer".into())
        }
        Op::FToF { rounding_mode, from } => ftof(view, *rounding_mode, *from),
        Op::FToI { rounding_mode, .. } if *rounding_mode != NearestIntToZero => {
            Err("invalid rounding mode specified. Only 'nearest_int_to_zero' is supported".into())
        }
        Op::IToF { rounding_mode, .. } => itof(view, *rounding_mode),
        Op::Bitcast { source } => bitcast(view, *source),
        Op::Broadcast { source } => broadcast(view, *source),
        Op::Reshape { source } if elements(view.tile(*source).1) != elements(view.result().1) => {
            Err("expected source tile and result tile to have the same number of elements".into())
        }
        Op::Permute { permutation, source } => permute(view, permutation, *source),
        Op::Cat { dim, lhs, rhs } => cat(view, *dim, *lhs, *rhs),
        Op::Extract { source, indices } => slice(view, *source, view.node.results[0], ("source", "result"), indices),
        Op::Insert { source, destination, indices } => slice(view, *destination, *source, ("result", "source"), indices),
        Op::Iota {} => iota(view),
        Op::Pack { source } | Op::Unpack { source } => pack(view, *source),
        Op::Select { .. } if view.result().0 == Element::Scalar(Scalar::F4E2M1FN) => {
            Err("cannot operate on sub-byte type F4E2M1FN".into())
        }
        Op::JoinTokens { tokens } if tokens.len() < 2 => Err("expect two or more tokens".into()),
        Op::PrintTko { format, args, .. } => print(view.module().string(*format), args.len()),
        Op::Assume { predicate, .. } => assume(view, predicate),
        Op::MmaF { lhs, rhs, acc, .. } => {
            mma_shapes(view, *lhs, *rhs, *acc)?;
            mmaf_types(view, *lhs, *acc)
        }
        Op::MmaI { lhs, rhs, acc, .. } => mma_shapes(view, *lhs, *rhs, *acc),
        Op::MmaFScaled { lhs, rhs, acc, lhs_scale, rhs_scale } => {
            mma_shapes(view, *lhs, *rhs, *acc)?;
            scales(view, [*lhs, *rhs, *lhs_scale, *rhs_scale])
        }
        Op::LoadPtrTko { memory_ordering, memory_scope, source, .. } => {
            memory::not_multicast(view, *source, "multicast pointer is not allowed")?;
            memory::load_ordering(*memory_ordering, *memory_scope)
        }
        Op::StorePtrTko { memory_ordering, memory_scope, destination, .. } => {
            memory::not_multicast(view, *destination, "multicast pointer is not allowed")?;
            memory::store_ordering(*memory_ordering, *memory_scope)
        }
        Op::LoadViewTko { memory_ordering, memory_scope, view: target, index, inbounds, .. } => {
            memory::view_access(view, *target, index, view.node.results[0], inbounds)?;
            memory::single_device_view(view, *target)?;
            memory::load_ordering(*memory_ordering, *memory_scope)
        }
        Op::StoreViewTko { memory_ordering, memory_scope, tile, view: target, index, inbounds, .. } => {
            memory::view_access(view, *target, index, *tile, inbounds)?;
            memory::single_device_view(view, *target)?;
            memory::store_ordering(*memory_ordering, *memory_scope)
        }
        Op::AtomicCASTko { .. } | Op::AtomicRMWTko { .. } | Op::AtomicRedViewTko { .. } => memory::atomic(view),
        Op::MultimemLoadReduceViewTko { .. } | Op::MultimemReduceViewTko { .. } | Op::MultimemStoreViewTko { .. } => {
            multimem::check(view)
        }
        Op::MakeTensorView { base, dynamic_shape, dynamic_strides } => {
            memory::make_tensor_view(view, *base, dynamic_shape, dynamic_strides)
        }
        Op::MakePartitionView { tensor_view } | Op::MakeStridedView { tensor_view } | Op::MakeGatherScatterView { tensor_view } => {
            memory::make_view(view, *tensor_view)
        }
        Op::GetIndexSpaceShape { src } => {
            let rank = view.ty(*src).tile_view().map_or(0, |(tile, _)| tile.len());
            result_per_dimension(view, rank, "view index space rank")
        }
        Op::GetTensorShape { src } => {
            let crate::Type::TensorView { shape, .. } = view.ty(*src) else { return Ok(()) };
            result_per_dimension(view, shape.len(), "tensor rank")
        }
        Op::Alloca { alignment, .. } => memory::alloca(view, *alignment),
        _ => super::regions::check_before_regions(view, context),
    }
}

fn result_per_dimension(view: &OpView<'_, '_>, rank: usize, why: &str) -> Check {
    let got = view.node.results.len();
    if got != rank {
        return Err(format!("expected {rank} results due to {why}, but got {got}"));
    }
    Ok(())
}

fn rounding(mode: Rounding, allowed: &[Rounding]) -> Check {
    if allowed.contains(&mode) {
        return Ok(());
    }
    let names: Vec<&str> = allowed.iter().map(|mode| super::spelling(*mode)).collect();
    Err(format!("invalid rounding mode specified, expect one of [{}]", names.join(", ")))
}

/// A modifier that only f32 supports.
fn only_f32(view: &OpView<'_, '_>, present: bool, name: &str) -> Check {
    let element = view.result().0;
    if present && element != Element::Scalar(Scalar::F32) {
        let element = element.scalar().map_or("?", Scalar::name);
        return Err(format!("{name} modifier only supported for f32 data type, but got: '{element}'"));
    }
    Ok(())
}

fn ftof(view: &OpView<'_, '_>, mode: Rounding, from: Value) -> Check {
    use Rounding::{NearestAway, NearestEven, NegativeInf, PositiveInf, Zero};
    use Scalar::{BF16, F8E8M0FNU, F16, F32, F64, TF32};
    let (Some(source), Some(target)) = (view.tile(from).0.scalar(), view.result().0.scalar()) else { return Ok(()) };
    if source == target {
        return Err("converting tiles must not be a no-op".into());
    }
    let precise = |scalar: Scalar| matches!(scalar, F16 | BF16 | F32 | F64 | TF32);
    let (allowed, message): (&[Rounding], _) = match (source, target) {
        (_, F8E8M0FNU) => (
            &[Zero, PositiveInf],
            "invalid rounding mode specified for conversion to f8E8M0FNU. Only 'zero' and 'positive_inf' are supported",
        ),
        (_, target) if !precise(target) => (
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

fn itof(view: &OpView<'_, '_>, mode: Rounding) -> Check {
    if view.result().0 == Element::Scalar(Scalar::F8E8M0FNU) {
        let what = "integer to f8E8M0FNU conversion is not supported";
        return Err(format!("{what}, please first convert to another float type"));
    }
    if mode != Rounding::NearestEven {
        return Err("invalid rounding mode specified. Only 'nearest_even' is supported".into());
    }
    Ok(())
}

/// The width in NVIDIA's count, where tf32 has 19 bits.
fn width(element: Element) -> u32 {
    if element == Element::Scalar(Scalar::TF32) { 19 } else { element.bits() }
}

fn bitcast(view: &OpView<'_, '_>, source: Value) -> Check {
    let (from, to) = (width(view.tile(source).0), width(view.result().0));
    if from == to {
        return Ok(());
    }
    let (source, result) = (view.quoted(view.id(source)), view.quoted(view.result_id(0)));
    Err(format!("types must be equal width, cannot convert {source} of width {from} to type {result} of width {to}"))
}

fn broadcast(view: &OpView<'_, '_>, source: Value) -> Check {
    let (from, to) = (view.tile(source).1, view.result().1);
    if from.iter().zip(to).all(|(from, to)| from == to || *from == 1) {
        return Ok(());
    }
    let what = "expects the shape of source tile to be compatible with that of the result tile";
    Err(format!("{what}, but got: {} and {}", list(from), list(to)))
}

fn elements(shape: &[i64]) -> i64 {
    shape.iter().product()
}

fn permute(view: &OpView<'_, '_>, permutation: &[i32], source: Value) -> Check {
    let (shape, result) = (view.tile(source).1, view.result().1);
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

fn cat(view: &OpView<'_, '_>, dim: i64, lhs: Value, rhs: Value) -> Check {
    let (lhs, rhs, result) = (view.tile(lhs).1, view.tile(rhs).1, view.result().1);
    let rank = lhs.len();
    let Some(along) = usize::try_from(dim).ok().filter(|dim| *dim < rank) else {
        return Err(format!("expect dim to be [0, {rank}), but got: {dim}"));
    };
    let sum = lhs[along] + rhs[along];
    if sum != result[along] {
        return Err(format!("invalid concat at position {dim}, expected: {sum} but got: {}", result[along]));
    }
    for i in (0..rank).filter(|i| *i != along) {
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

/// Extraction or insertion of a slice: `part` divides `whole`, with one index per dimension.
fn slice(view: &OpView<'_, '_>, whole: Value, part: Value, names: (&str, &str), indices: &[Value]) -> Check {
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

fn iota(view: &OpView<'_, '_>) -> Check {
    let (element, shape) = view.result();
    let [elements] = shape else { return Err("expects result type to be 1-d tile".into()) };
    let bits = element.bits();
    if bits < 64 && *elements as u64 > 1 << bits {
        let element = element.scalar().map_or("?", Scalar::name);
        return Err(format!("the number of elements {elements} exceeds the maximum value of element type '{element}'"));
    }
    Ok(())
}

fn pack(view: &OpView<'_, '_>, source: Value) -> Check {
    let ((from, from_shape), (to, to_shape)) = (view.tile(source), view.result());
    if from_shape.len() != 1 {
        return Err("expects source and result to be rank-1 tiles".into());
    }
    if width(from) == width(to) {
        return Err("expects source and result to have different element type widths".into());
    }
    let size = |element: Element, shape: &[i64]| i64::from(element.bits()) * elements(shape);
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

fn print(format: &str, args: usize) -> Check {
    let mut expected = 0;
    let mut rest = format;
    while let Some(start) = rest.find('%') {
        let after = &rest[start + 1..];
        let Some(end) = after.find(|c: char| "diuoxXeEfFgGaAcsSpn%".contains(c)) else {
            return Err("found unterminated format expression".into());
        };
        let escaped = end == 0 && after.starts_with('%');
        expected += usize::from(!escaped);
        // NVIDIA's verifier continues directly after the percent sign, except for an escaped one.
        rest = &after[usize::from(escaped)..];
    }
    if expected != args {
        return Err(format!("incorrect number of operands: expected {expected}, found {args}"));
    }
    Ok(())
}

fn assume(view: &OpView<'_, '_>, predicate: &Attribute) -> Check {
    let ty = view.ty(view.node.results[0]);
    let tile = ty.tile();
    let integral = tile.filter(|(element, _)| element.scalar().is_none_or(Scalar::is_int));
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
            let whole = |what: &str| Err(format!("{NAME} 'every'/'along' cannot be used if the constrained value is a {what}"));
            if matches!(ty, crate::Type::TensorView { .. }) {
                return if every.is_some() { whole("tensor_view") } else { Ok(()) };
            }
            if tile.is_some_and(|(_, shape)| shape.is_empty()) && every.is_some() {
                return whole("0D tile");
            }
            let Some((_, shape)) = integral else {
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
            let Some((_, shape)) = integral else {
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
            let Some(scalar) = integral.and_then(|(element, _)| element.scalar()) else {
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

/// Checks that batch, rows, columns and the K dimension match.
fn mma_shapes(view: &OpView<'_, '_>, lhs: Value, rhs: Value, acc: Value) -> Check {
    let (lhs, rhs, acc) = (view.tile(lhs).1, view.tile(rhs).1, view.tile(acc).1);
    if lhs.len() != 2 && lhs.len() != 3 {
        return Err("operands must be 2D or 3D tiles".into());
    }
    let batched = usize::from(lhs.len() == 3);
    let (row, column) = (batched, batched + 1);
    let (lhs, rhs, acc) = (("lhs", lhs), ("rhs", rhs), ("acc", acc));
    if batched == 1 {
        same_dim("", (lhs, 0), (rhs, 0))?;
        same_dim("", (lhs, 0), (acc, 0))?;
    }
    same_dim(" ", (lhs, column), (rhs, row))?;
    same_dim(" ", (lhs, row), (acc, row))?;
    same_dim(" ", (rhs, column), (acc, column))
}

type Named<'a> = (&'static str, &'a [i64]);

/// Some of NVIDIA's messages begin with a space.
fn same_dim(lead: &str, ((name, shape), dim): (Named<'_>, usize), ((other, other_shape), other_dim): (Named<'_>, usize)) -> Check {
    let (size, other_size) = (shape[dim], other_shape[other_dim]);
    if size == other_size {
        return Ok(());
    }
    let (shape, other_shape) = (list(shape), list(other_shape));
    Err(format!(
        "{lead}shape error: dim {dim} of {name} ({size}) and dim {other_dim} of {other} ({other_size}) must match, but got {name} \
         shape ({shape}) and {other} shape ({other_shape})"
    ))
}

fn mmaf_types(view: &OpView<'_, '_>, lhs: Value, acc: Value) -> Check {
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
    let names: Vec<String> = allowed.iter().map(|scalar| format!("'{scalar}'")).collect();
    let names = names.join(", ");
    Err(format!(
        "unsupported combination of element types. Input type '{input}' expects accumulator/result type to be one of {{{names}}}, \
         but got '{output}'"
    ))
}

fn scales(view: &OpView<'_, '_>, values: [Value; 4]) -> Check {
    let [lhs, rhs, lhs_scale, rhs_scale] = values.map(|value| view.tile(value));
    let batched = usize::from(lhs.1.len() == 3);
    let (row, column) = (batched, batched + 1);
    let named = [("lhs", lhs.1), ("rhs", rhs.1), ("lhs_scale", lhs_scale.1), ("rhs_scale", rhs_scale.1)];
    if batched == 1 {
        same_dim("", (named[0], 0), (named[2], 0))?;
        same_dim("", (named[1], 0), (named[3], 0))?;
    }
    same_dim("", (named[0], row), (named[2], row))?;
    same_dim("", (named[1], column), (named[3], column))?;
    same_dim("", (named[2], column), (named[3], row))?;
    let (Some(element), Some(scale)) = (lhs.0.scalar(), lhs_scale.0.scalar()) else { return Ok(()) };
    if matches!(scale, Scalar::F8E4M3FN | Scalar::F8E5M3FNU) && element != Scalar::F4E2M1FN {
        return Err(format!(
            "unsupported combination of element types. Scale type '{scale}' expects lhs and rhs element types to be 'f4E2M1FN', \
             but got '{element}'"
        ));
    }
    let (depth, scale_depth) = (lhs.1[column], lhs_scale.1[column]);
    if depth % scale_depth != 0 {
        let (scale_shape, shape) = (list(lhs_scale.1), list(lhs.1));
        return Err(format!(
            "shape error: dim {column} of lhs_scale ({scale_depth}) must be a divisor of dim {column} of lhs ({depth}), but got \
             lhs_scale shape ({scale_shape}) and lhs shape ({shape})"
        ));
    }
    let block = depth / scale_depth;
    let (allowed, what): (&[i64], _) = match (element, scale) {
        (Scalar::F4E2M1FN, Scalar::F8E4M3FN) => (&[16], format!("f4E2M1FN element type with {scale} scales requires")),
        (Scalar::F4E2M1FN, _) => (&[16, 32], format!("f4E2M1FN element type with {scale} scales requires")),
        _ => (&[32], "f8 element type requires".into()),
    };
    if allowed.contains(&block) {
        return Ok(());
    }
    let sizes: Vec<String> = allowed.iter().map(i64::to_string).collect();
    let sizes = sizes.join(" or ");
    Err(format!("shape error: {what} block scale factor of lhs_scale and rhs_scale to be {sizes}, but got {block}"))
}
