//! Generators of scans and reductions with associative, non-commutative bodies over known numbers. The generator computes the
//! expected results on the host, so it also finds errors that all stages have in common.

use crate::builder::TileKind;
use crate::program::{Generator, INTS};
use base::ir::{Region, Value};
use numerics::Scalar;
use numerics::arith::{Predicate, Signedness};
use tileir::Op;
use tileir::enums::Direction;

/// An associative body of a reduction or scan, over one or two operands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OrderedBody {
    /// The right element, or the left element if the right one is zero.
    LastNonzero,
    /// Composition of affine functions `x -> a x + b`.
    Recurrence,
    /// For the first operand, the first non-zero element; for the second operand, the last non-zero element.
    Sides,
    /// The sum of the first operand's elements, and the bitwise OR of the second operand's elements. This body is commutative.
    SumAndOr,
}

impl OrderedBody {
    /// Returns the number of tiles that the reduction or scan has as operands.
    fn operand_count(self) -> usize {
        if self == OrderedBody::LastNonzero { 1 } else { 2 }
    }

    /// Returns the identity element of each operand.
    fn identities(self) -> &'static [u64] {
        if self == OrderedBody::Recurrence { &[1, 0] } else { &[0; 2][..self.operand_count()] }
    }

    /// Evaluates the body on the host. `left` and `right` have one number per operand.
    fn combine(self, left: &[u64], right: &[u64]) -> Vec<u64> {
        match self {
            OrderedBody::LastNonzero => vec![nonzero_or(right[0], left[0])],
            OrderedBody::Recurrence => vec![left[0].wrapping_mul(right[0]), left[1].wrapping_mul(right[0]).wrapping_add(right[1])],
            OrderedBody::Sides => vec![nonzero_or(left[0], right[0]), nonzero_or(right[1], left[1])],
            OrderedBody::SumAndOr => vec![left[0].wrapping_add(right[0]), left[1] | right[1]],
        }
    }
}

/// Returns `number`, or `other` if `number` is zero.
fn nonzero_or(number: u64, other: u64) -> u64 {
    if number == 0 { other } else { number }
}

/// The op that applies the body: a scan in a direction, or a reduction.
#[derive(Clone, Copy)]
enum Traversal {
    Scan(Direction),
    Reduce,
}

/// Returns the lines along a dimension. A line is the list of the row-major indices of its elements.
fn element_lines(shape: &[i64], dim: usize) -> Vec<Vec<usize>> {
    let inner: i64 = shape[dim + 1..].iter().product();
    let outer: i64 = shape[..dim].iter().product();
    let linear_index = |outer: i64, along: i64, inside: i64| ((outer * shape[dim] + along) * inner + inside) as usize;
    let line = |outer, inside| (0..shape[dim]).map(move |along| linear_index(outer, along, inside)).collect();
    (0..outer).flat_map(|outer| (0..inner).map(move |inside| line(outer, inside))).collect()
}

/// Computes the expected result tile of each operand of a scan or reduction of `tiles` along `dim`. `mask` truncates the numbers to
/// the width of an element.
fn expected_tiles(
    body: OrderedBody,
    traversal: Traversal,
    tiles: &[Vec<u64>],
    shape: &[i64],
    dim: usize,
    mask: u64,
) -> Vec<Vec<u64>> {
    let elements_at = |linear_index: usize| tiles.iter().map(|tile| tile[linear_index]).collect::<Vec<u64>>();
    let truncate = |numbers: Vec<u64>| numbers.into_iter().map(|number| number & mask).collect::<Vec<u64>>();
    let mut out = match traversal {
        Traversal::Scan(_) => tiles.to_vec(),
        Traversal::Reduce => vec![Vec::new(); tiles.len()],
    };
    for mut line in element_lines(shape, dim) {
        if matches!(traversal, Traversal::Scan(Direction::Reverse)) {
            line.reverse();
        }
        let mut accumulated = elements_at(line[0]);
        for linear_index in &line[1..] {
            accumulated = truncate(body.combine(&accumulated, &elements_at(*linear_index)));
            if matches!(traversal, Traversal::Scan(_)) {
                out.iter_mut().zip(&accumulated).for_each(|(tile, number)| tile[*linear_index] = *number);
            }
        }
        if matches!(traversal, Traversal::Reduce) {
            out.iter_mut().zip(&accumulated).for_each(|(tile, number)| tile.push(*number));
        }
    }
    out
}

impl Generator {
    /// Emits the region of a body for scalars of the given type.
    fn ordered_body(&mut self, body: OrderedBody, scalar: Scalar) -> Region {
        let kind = TileKind::new(scalar, &[]);
        let ty = self.builder.tile_type(&kind);
        let (region, args, outer_block) = self.builder.open_region(&vec![ty; 2 * body.operand_count()]);
        let operands = match body {
            OrderedBody::LastNonzero => vec![self.emit_nonzero_or(args[1], args[0], &kind)],
            OrderedBody::Recurrence => {
                let factor = self.builder.emit_mul(&kind, args[0], args[1]);
                let carried = self.builder.emit_mul(&kind, args[2], args[1]);
                vec![factor, self.builder.emit_add(&kind, carried, args[3])]
            }
            OrderedBody::Sides => {
                vec![self.emit_nonzero_or(args[0], args[1], &kind), self.emit_nonzero_or(args[3], args[2], &kind)]
            }
            OrderedBody::SumAndOr => {
                let bitwise_or = Op::OrI { lhs: args[2], rhs: args[3] };
                vec![self.builder.emit_add(&kind, args[0], args[1]), self.builder.emit(&kind, bitwise_or)]
            }
        };
        self.builder.emit_with_types(Op::Yield { operands: operands.into() }, &[]);
        self.builder.close_region(outer_block);
        region
    }

    /// Emits the function [`nonzero_or`].
    fn emit_nonzero_or(&mut self, number: Value, other: Value, kind: &TileKind) -> Value {
        let rhs = self.splat(kind, 0);
        let (comparison_predicate, signedness) = (Predicate::NotEqual, Signedness::Signed);
        let cond =
            self.builder.emit(&TileKind::new(Scalar::I1, &[]), Op::CmpI { comparison_predicate, signedness, lhs: number, rhs });
        self.builder.emit(kind, Op::Select { cond, val_if_true: number, val_if_false: other })
    }

    /// Loads a tile of numbers that are known on the host, about half of them zero. Returns the tile, and its contents for each
    /// tile block. If `nonzero_ends` names a dimension, the first and the last element of each line along this dimension are not
    /// zero.
    fn load_known_tile(&mut self, kind: &TileKind, nonzero_ends: Option<usize>) -> (Value, Vec<Vec<u64>>) {
        let mut numbers_of_blocks = Vec::new();
        let end_indices: Vec<usize> = match nonzero_ends {
            Some(dim) => element_lines(&kind.shape, dim).iter().flat_map(|line| [line[0], line[line.len() - 1]]).collect(),
            None => Vec::new(),
        };
        for _ in 0..self.grid {
            let zero_or_random = |generator: &mut Generator| match generator.random.one_in(2) {
                true => 0,
                false => generator.random.next() & kind.scalar.mask(),
            };
            let mut numbers: Vec<u64> = (0..kind.count()).map(|_| zero_or_random(self)).collect();
            end_indices.iter().for_each(|linear_index| numbers[*linear_index] |= 1);
            numbers_of_blocks.push(numbers);
        }
        let bytes = kind.scalar.bytes() as usize;
        let data = numbers_of_blocks.iter().flatten().flat_map(|number| number.to_le_bytes()[..bytes].to_vec()).collect();
        let pointer = self.add_input_buffer(kind.scalar, data);
        let (view, index) = (self.own_view(pointer, kind), self.own_index(kind));
        (self.load_view(view, &index, kind, None).0, numbers_of_blocks)
    }

    /// Emits a scan or reduction of known numbers, and outputs with its expected results. Requires that every tile block executes
    /// the current position.
    pub(crate) fn ordered_reduction_or_scan(&mut self) {
        let shape = self.any_shape();
        if shape.is_empty() {
            return;
        }
        let kind = TileKind::new(self.random.pick(&INTS), &shape);
        let dim = self.random.below(shape.len());
        // Tile IR does not define the order in which a reduction combines the elements of a line. So a non-commutative reduction
        // uses a body whose result depends only on the two ends of the line.
        let traversal = match self.random.below(3) {
            0 => Traversal::Reduce,
            1 => Traversal::Scan(Direction::Forward),
            _ => Traversal::Scan(Direction::Reverse),
        };
        let body = match traversal {
            Traversal::Reduce if self.commutative => OrderedBody::SumAndOr,
            Traversal::Reduce => OrderedBody::Sides,
            Traversal::Scan(_) => self.random.pick(&[OrderedBody::LastNonzero, OrderedBody::Recurrence, OrderedBody::Sides]),
        };
        let (tiles, numbers): (Vec<Value>, Vec<Vec<Vec<u64>>>) = {
            let ends = matches!(traversal, Traversal::Reduce).then_some(dim);
            (0..body.operand_count()).map(|_| self.load_known_tile(&kind, ends)).unzip()
        };
        let region = self.ordered_body(body, kind.scalar);
        let mut result_kind = kind.clone();
        if matches!(traversal, Traversal::Reduce) {
            result_kind.shape.remove(dim);
        }
        let types = vec![self.builder.tile_type(&result_kind); tiles.len()];
        let identities = body.identities().iter().map(|bits| self.scalar_attribute(kind.scalar, *bits)).collect();
        let (dim, operands) = (dim as i32, tiles.into());
        let results = match traversal {
            Traversal::Scan(direction) => {
                self.builder.emit_with_types(Op::Scan { dim, direction, identities, operands, body: region }, &types)
            }
            Traversal::Reduce => self.builder.emit_with_types(Op::Reduce { dim, identities, operands, body: region }, &types),
        };
        let expected_of_block = |block: usize| {
            let tiles: Vec<Vec<u64>> = numbers.iter().map(|blocks| blocks[block].clone()).collect();
            expected_tiles(body, traversal, &tiles, &shape, dim as usize, kind.scalar.mask())
        };
        let expected_of_blocks: Vec<Vec<Vec<u64>>> = (0..self.grid as usize).map(expected_of_block).collect();
        let stored_kind = match result_kind.shape.is_empty() {
            true => TileKind::new(result_kind.scalar, &[1]),
            false => result_kind.clone(),
        };
        for (i, value) in results.into_iter().enumerate() {
            let pointer = self.add_output(result_kind.scalar, stored_kind.count() * self.grid, 0.0);
            let bytes = result_kind.scalar.bytes() as usize;
            let expected_bytes =
                expected_of_blocks.iter().flat_map(|tiles| &tiles[i]).flat_map(|number| number.to_le_bytes()[..bytes].to_vec());
            self.outputs.last_mut().expect("the output was just added").expected = Some(expected_bytes.collect());
            let tile = self.reshape(value, &result_kind, &stored_kind.shape);
            let (view, index) = (self.own_view(pointer, &stored_kind), self.own_index(&stored_kind));
            self.store_view(view, &index, tile, None);
            self.add_to_pool(value, result_kind.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_tiles_follow_body_and_direction() {
        let tiles = [vec![1, 2, 3, 4], vec![5, 6, 7, 0]];
        let expected = |body, traversal, dim| expected_tiles(body, traversal, &tiles, &[2, 2], dim, 0xff);
        assert_eq!(expected(OrderedBody::Sides, Traversal::Reduce, 1), [[1, 3], [6, 7]]);
        assert_eq!(expected(OrderedBody::Sides, Traversal::Reduce, 0), [[1, 2], [7, 6]]);
        assert_eq!(expected(OrderedBody::SumAndOr, Traversal::Reduce, 1), [[3, 7], [7, 7]]);
        assert_eq!(expected(OrderedBody::Sides, Traversal::Scan(Direction::Reverse), 1), [[2, 2, 4, 4], [5, 6, 7, 0]]);
        // The first line composes `x -> x + 5` with `x -> 2 x + 6`, which gives `x -> 2 x + 16`.
        assert_eq!(expected(OrderedBody::Recurrence, Traversal::Scan(Direction::Forward), 1)[1], [5, 16, 7, 28]);
        let zeros = [vec![0, 9, 0, 0]];
        let last =
            |direction| expected_tiles(OrderedBody::LastNonzero, Traversal::Scan(direction), &zeros, &[4], 0, 0xff).remove(0);
        assert_eq!(last(Direction::Forward), [0, 9, 9, 9]);
        assert_eq!(last(Direction::Reverse), [9, 9, 0, 0]);
    }
}
