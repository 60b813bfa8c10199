//! Parses and evaluates expressions over values and memory of a stopped kernel, for `print` and for conditions. Examples are
//! `%7[0:4, 3]`, `sum(a[128:256]) > 0.5` and `block.x == 3`.
//!
//! | expression | syntax |
//! |---|---|
//! | values, by number | `%7` |
//! | source variables, buffers, parameters | `acc`, `arg0` |
//! | slice of a value or array | `[2]`, `[0:4, :]` |
//! | the tile block | `block.x`, `block.y`, `block.z`, `grid.x` |
//! | reduction of a tile | `min max sum mean any all count nans` with `(...)` |
//! | arithmetic, element by element | `+ - * / % == != < <= > >= && \|\| !`, `abs(...)` |

use crate::debuggee::Array;
use crate::scene::Scene;
use core_dialect::tile::{Elem, Shape};
use executor::{Tile, Value, from_bytes};
use numerics::Scalar;

/// The value of an expression.
#[derive(Clone, Debug)]
pub(crate) enum Datum {
    /// A tile of the kernel.
    Tile(Tile),
    /// An array in memory. The debugger reads it when an expression needs its elements.
    Array(Array),
    /// Another value of the kernel: a view or a token.
    Other(Value),
    /// The numbers that an expression computes.
    Numbers(Vec<f64>),
}

/// Maximum number of elements that one expression reads.
const MAX_ELEMENTS: usize = 1 << 24;
/// Maximum nesting depth of brackets and signs.
const MAX_NESTING: usize = 64;

/// Evaluates an expression at a stop. An error message describes the mistake to the user.
pub(crate) fn evaluate(text: &str, scene: &Scene<'_>) -> Result<Datum, String> {
    let mut parser = Parser { rest: text.trim_start(), scene, depth: 0 };
    let datum = parser.parse_or()?;
    match parser.rest {
        "" => Ok(datum),
        rest => Err(format!("'{rest}' is not understood")),
    }
}

/// Evaluates a condition, whose value must be a single number. Any number but 0 is true.
pub(crate) fn condition_holds(text: &str, scene: &Scene<'_>) -> Result<bool, String> {
    match to_numbers(&evaluate(text, scene)?, scene)?[..] {
        [number] => Ok(number != 0.0),
        ref numbers => Err(format!("a condition is one number, and this is {}; use any(...) or all(...)", numbers.len())),
    }
}

/// Returns the elements of a tile, decoded to `f64`.
pub(crate) fn elements_as_f64(tile: &Tile) -> Vec<f64> {
    let ty = tile.carrier();
    let number = |bits: u64| match ty {
        Scalar::I1 => (bits & 1) as f64,
        _ if ty.is_float() => numerics::float::decode(ty, bits),
        _ => ty.sign_extend(bits) as f64,
    };
    tile.element_words().iter().map(number).collect()
}

/// Returns the elements of a value as numbers. If the value is an array, reads its elements from memory.
fn to_numbers(datum: &Datum, scene: &Scene<'_>) -> Result<Vec<f64>, String> {
    match datum {
        Datum::Numbers(numbers) => Ok(numbers.clone()),
        Datum::Tile(tile) => Ok(elements_as_f64(tile)),
        Datum::Array(array) => Ok(elements_as_f64(&read_array(array, scene)?)),
        Datum::Other(_) => Err("a view has no elements of its own; its memory has".into()),
    }
}

/// Reads the elements of an array from memory.
pub(crate) fn read_array(array: &Array, scene: &Scene<'_>) -> Result<Tile, String> {
    let count = array.sizes.iter().try_fold(1usize, |all, size| all.checked_mul(usize::try_from(*size).ok()?));
    let count = count.filter(|count| *count <= MAX_ELEMENTS);
    let count =
        count.ok_or_else(|| format!("that is more than {MAX_ELEMENTS} elements; select a slice, as in {}[0:16]", array.name))?;
    let bits = if array.elem.bits() == 4 { 4 } else { i128::from(array.elem.bytes()) * 8 };
    let elem = Elem::Scalar(array.elem);
    let mut index = vec![0i64; array.sizes.len()];
    let mut element_words = numerics::arith::ElementWords::splat(array.elem, 0, count);
    for element in 0..count {
        let offset: i128 = index.iter().zip(&array.strides).map(|(i, stride)| i128::from(*i) * i128::from(*stride)).sum();
        let mut bytes = vec![0; (bits as usize).div_ceil(8)];
        let address = array.base.wrapping_add((offset * bits >> 3) as u64);
        scene.moment.peek(address, &mut bytes).map_err(|error| error.message)?;
        let is_upper_nibble = bits == 4 && offset & 1 == 1;
        element_words.set(element, from_bytes(elem, &bytes).get(usize::from(is_upper_nibble)));
        for dim in (0..index.len()).rev() {
            index[dim] += 1;
            if index[dim] < array.sizes[dim] {
                break;
            }
            index[dim] = 0;
        }
    }
    let shape: Shape = array.sizes.iter().map(|size| *size as u32).collect();
    Ok(Tile::new(shape, elem, element_words))
}

/// The index or range of one dimension, such as `3` or `1:5`. A single index removes the dimension from the result.
struct IndexRange {
    start: i64,
    end: i64,
    is_single_index: bool,
}

/// Parses and evaluates an expression in one pass. Each precedence level has a method, from
/// [`parse_or`](Parser::parse_or), the lowest, to [`parse_primary`](Parser::parse_primary), the highest.
struct Parser<'t, 's> {
    /// The text that is not parsed yet.
    rest: &'t str,
    scene: &'s Scene<'s>,
    /// The current nesting depth of brackets and signs.
    depth: usize,
}

type ParseResult = Result<Datum, String>;

impl Parser<'_, '_> {
    /// If the remaining text starts with a token, consumes the token and the blanks after it. Returns whether it consumed the
    /// token.
    fn consume(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    /// Consumes a token, or returns an error if the remaining text does not start with it.
    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.consume(token) { Ok(()) } else { Err(format!("'{token}' is expected before '{}'", self.rest)) }
    }

    /// Consumes and returns the longest prefix of accepted characters.
    fn consume_while(&mut self, accepts: impl Fn(char) -> bool) -> String {
        let end = self.rest.find(|c| !accepts(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        word.to_string()
    }

    fn parse_or(&mut self) -> ParseResult {
        let mut left = self.parse_and()?;
        while self.consume("||") {
            let right = self.parse_and()?;
            left = self.combine(&left, &right, |a, b| f64::from(a != 0.0 || b != 0.0))?;
        }
        Ok(left)
    }

    fn parse_and(&mut self) -> ParseResult {
        let mut left = self.parse_comparison()?;
        while self.consume("&&") {
            let right = self.parse_comparison()?;
            left = self.combine(&left, &right, |a, b| f64::from(a != 0.0 && b != 0.0))?;
        }
        Ok(left)
    }

    fn parse_comparison(&mut self) -> ParseResult {
        let left = self.parse_sum()?;
        type Compare = fn(f64, f64) -> bool;
        let operators: [(&str, Compare); 6] = [
            ("==", |a, b| a == b),
            ("!=", |a, b| a != b),
            ("<=", |a, b| a <= b),
            (">=", |a, b| a >= b),
            ("<", |a, b| a < b),
            (">", |a, b| a > b),
        ];
        for (token, compare) in operators {
            if self.consume(token) {
                let right = self.parse_sum()?;
                return self.combine(&left, &right, |a, b| f64::from(compare(a, b)));
            }
        }
        Ok(left)
    }

    fn parse_sum(&mut self) -> ParseResult {
        let mut left = self.parse_product()?;
        loop {
            let subtract = if self.consume("+") {
                false
            } else if self.consume("-") {
                true
            } else {
                return Ok(left);
            };
            let right = self.parse_product()?;
            left = self.combine(&left, &right, |a, b| if subtract { a - b } else { a + b })?;
        }
    }

    fn parse_product(&mut self) -> ParseResult {
        let mut left = self.parse_unary()?;
        loop {
            let kind = match self.rest.chars().next() {
                Some(kind @ ('*' | '/' | '%')) => kind,
                _ => return Ok(left),
            };
            self.rest = self.rest[1..].trim_start();
            let right = self.parse_unary()?;
            left = self.combine(&left, &right, |a, b| match kind {
                '*' => a * b,
                '/' => a / b,
                _ => a.rem_euclid(b),
            })?;
        }
    }

    /// Parses an operand with its signs `-` and `!`. Returns an error if operands are nested too deeply.
    fn parse_unary(&mut self) -> ParseResult {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(format!("brackets and signs are more than {MAX_NESTING} deep"));
        }
        let map_elements = |parser: &Self, datum: Datum, f: fn(f64) -> f64| -> ParseResult {
            Ok(Datum::Numbers(to_numbers(&datum, parser.scene)?.into_iter().map(f).collect()))
        };
        let is_negation = self.rest.starts_with('!') && !self.rest.starts_with("!=");
        let result = if self.consume("-") {
            let datum = self.parse_unary()?;
            map_elements(self, datum, |x| -x)
        } else if is_negation && self.consume("!") {
            let datum = self.parse_unary()?;
            map_elements(self, datum, |x| f64::from(x == 0.0))
        } else {
            self.parse_indexed()
        };
        self.depth -= 1;
        result
    }

    /// Parses an operand and the slices that follow it, such as `x[0:4, 3]`.
    fn parse_indexed(&mut self) -> ParseResult {
        let mut datum = self.parse_primary()?;
        while self.consume("[") {
            let mut ranges = Vec::new();
            loop {
                ranges.push(self.parse_index_range()?);
                if !self.consume(",") {
                    break;
                }
            }
            self.expect("]")?;
            datum = match datum {
                Datum::Tile(tile) => Datum::Tile(slice_tile(&tile, &ranges)?),
                Datum::Array(array) => Datum::Array(slice_array(&array, &ranges)?),
                _ => return Err("only tiles and memory can be sliced".into()),
            };
        }
        Ok(datum)
    }

    /// Parses `3`, `1:5`, `:5`, `1:` or `:`.
    fn parse_index_range(&mut self) -> Result<IndexRange, String> {
        let number = |parser: &mut Self| -> Result<Option<i64>, String> {
            let digits = parser.consume_while(|c| c.is_ascii_digit() || c == '-');
            if digits.is_empty() { Ok(None) } else { digits.parse().map(Some).map_err(|_| format!("'{digits}' is no index")) }
        };
        let start = number(self)?;
        if self.consume(":") {
            let end = number(self)?;
            return Ok(IndexRange { start: start.unwrap_or(0), end: end.unwrap_or(i64::MAX), is_single_index: false });
        }
        let start = start.ok_or_else(|| format!("an index is expected before '{}'", self.rest))?;
        Ok(IndexRange { start, end: start.saturating_add(1), is_single_index: true })
    }

    /// Parses a parenthesis, a value such as `%7`, a number, a function call or a name.
    fn parse_primary(&mut self) -> ParseResult {
        if self.consume("(") {
            let datum = self.parse_or()?;
            self.expect(")")?;
            return Ok(datum);
        }
        if self.rest.starts_with('%') {
            self.rest = &self.rest[1..];
            let digits = self.consume_while(|c| c.is_ascii_digit());
            let number = digits.parse().map_err(|_| format!("'%{digits}' is no value"))?;
            return self.scene.value(base::Value(number)).map(datum_from_value);
        }
        if self.rest.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            let mut end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(self.rest.len());
            // The sign of an exponent.
            if self.rest[..end].ends_with(['e', 'E']) && self.rest[end..].starts_with(['-', '+']) {
                end += 1;
                end += self.rest[end..].find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len() - end);
            }
            let (digits, rest) = self.rest.split_at(end);
            let number = digits.parse().map_err(|_| format!("'{digits}' is no number"))?;
            self.rest = rest.trim_start();
            return Ok(Datum::Numbers(vec![number]));
        }
        let name = self.consume_while(|c| c.is_alphanumeric() || c == '_' || c == '.');
        if name.is_empty() {
            return Err(if self.rest.is_empty() {
                "something is missing at the end".into()
            } else {
                format!("'{}' is not understood", self.rest)
            });
        }
        if self.consume("(") {
            let argument = self.parse_or()?;
            self.expect(")")?;
            return apply_function(&name, &to_numbers(&argument, self.scene)?);
        }
        let block_position = self.scene.moment.block_position();
        let axis = |axes: [u32; 3], axis: &str| ["x", "y", "z"].iter().position(|name| *name == axis).map(|axis| axes[axis]);
        let tile_block_number = match name.split_once('.') {
            Some(("block", dim)) => axis(block_position.index, dim),
            Some(("grid", dim)) => axis(block_position.grid, dim),
            _ => None,
        };
        if let Some(number) = tile_block_number {
            return Ok(Datum::Numbers(vec![number.into()]));
        }
        match self.scene.variable_value(&name) {
            Some(value) => value.map(datum_from_value),
            None => self.scene.debuggee.array_named(&name).cloned().map(Datum::Array).ok_or_else(|| {
                let arrays: Vec<&str> = self.scene.debuggee.arrays.iter().map(|array| array.name.as_str()).collect();
                format!("nothing is called '{name}' here; buffers are {}, values %N", arrays.join(", "))
            }),
        }
    }

    /// Applies `f` to each pair of corresponding elements. If one side is a single number, it combines with every element of the
    /// other side.
    fn combine(&self, left: &Datum, right: &Datum, f: impl Fn(f64, f64) -> f64) -> ParseResult {
        let (left, right) = (to_numbers(left, self.scene)?, to_numbers(right, self.scene)?);
        let pairs = |count: usize, a: &dyn Fn(usize) -> f64, b: &dyn Fn(usize) -> f64| (0..count).map(|i| f(a(i), b(i))).collect();
        Ok(Datum::Numbers(match (left.len(), right.len()) {
            (a, b) if a == b => pairs(a, &|i| left[i], &|i| right[i]),
            (1, count) => pairs(count, &|_| left[0], &|i| right[i]),
            (count, 1) => pairs(count, &|i| left[i], &|_| right[0]),
            (a, b) => return Err(format!("{a} elements cannot be combined with {b}")),
        }))
    }
}

/// Converts a value of the kernel. A tensor view becomes an array, which [`read_array`] loads when an expression needs its
/// elements.
pub(crate) fn datum_from_value(value: Value) -> Datum {
    match value {
        Value::Tile(tile) => Datum::Tile(tile),
        Value::Tensor(tensor) => Datum::Array(Array {
            name: "the array".into(),
            base: tensor.base,
            elem: tensor.elem,
            sizes: tensor.sizes.clone(),
            strides: tensor.strides.clone(),
        }),
        other => Datum::Other(other),
    }
}

/// Applies a function such as `sum` to the elements of its argument.
fn apply_function(name: &str, numbers: &[f64]) -> ParseResult {
    let single_number = |number: f64| Ok(Datum::Numbers(vec![number]));
    let non_nan = || numbers.iter().copied().filter(|number| !number.is_nan());
    match name {
        "min" => single_number(non_nan().fold(f64::INFINITY, f64::min)),
        "max" => single_number(non_nan().fold(f64::NEG_INFINITY, f64::max)),
        "sum" => single_number(numbers.iter().sum()),
        "mean" => single_number(numbers.iter().sum::<f64>() / numbers.len() as f64),
        "any" => single_number(f64::from(numbers.iter().any(|number| *number != 0.0))),
        "all" => single_number(f64::from(numbers.iter().all(|number| *number != 0.0))),
        "count" => single_number(numbers.iter().filter(|number| **number != 0.0).count() as f64),
        "nans" => single_number(numbers.iter().filter(|number| number.is_nan()).count() as f64),
        "abs" => Ok(Datum::Numbers(numbers.iter().map(|number| number.abs()).collect())),
        _ => Err(format!("there is no function '{name}'; there are min, max, sum, mean, any, all, count, nans and abs")),
    }
}

/// Returns the start and the length of a range in a dimension with this extent. Negative indices count from the end.
fn resolve_range(index_range: &IndexRange, extent: i64, dim: usize) -> Result<(i64, i64), String> {
    let from_start = |index: i64| if index < 0 { index.saturating_add(extent) } else { index };
    let (start, end) = match index_range.is_single_index {
        true => (from_start(index_range.start), from_start(index_range.start).saturating_add(1)),
        false => (from_start(index_range.start), from_start(index_range.end).min(extent)),
    };
    match (0..=extent).contains(&start) && end <= extent && start <= end && (!index_range.is_single_index || start < extent) {
        true => Ok((start, end - start)),
        false => Err(format!("index {} of dimension {dim} is outside its {extent} elements", index_range.start)),
    }
}

/// Returns a slice of an array in memory. The slice has its own base address, sizes and strides, and shares the memory.
fn slice_array(array: &Array, ranges: &[IndexRange]) -> Result<Array, String> {
    if ranges.len() > array.sizes.len() {
        return Err(format!("{} indices for {} dimensions", ranges.len(), array.sizes.len()));
    }
    let mut out = Array { sizes: Vec::new(), strides: Vec::new(), ..array.clone() };
    let mut offset = 0i128;
    for dim in 0..array.sizes.len() {
        let (start, length) =
            ranges.get(dim).map_or(Ok((0, array.sizes[dim])), |index_range| resolve_range(index_range, array.sizes[dim], dim))?;
        offset += i128::from(start) * i128::from(array.strides[dim]);
        if ranges.get(dim).is_none_or(|index_range| !index_range.is_single_index) {
            out.sizes.push(length);
            out.strides.push(array.strides[dim]);
        }
    }
    if array.elem.bits() == 4 && offset % 2 != 0 {
        return Err("two elements share a byte; begin at an even one".into());
    }
    let bits = if array.elem.bits() == 4 { 4 } else { i128::from(array.elem.bytes()) * 8 };
    out.base = array.base.wrapping_add((offset * bits / 8) as u64);
    Ok(out)
}

/// Returns a slice of a tile, with copies of the elements.
fn slice_tile(tile: &Tile, ranges: &[IndexRange]) -> Result<Tile, String> {
    let sizes: Vec<i64> = tile.shape.iter().map(|extent| i64::from(*extent)).collect();
    let mut strides = vec![1; sizes.len()];
    (1..sizes.len()).rev().for_each(|dim| strides[dim - 1] = strides[dim] * sizes[dim]);
    // An array of one-byte elements at address 0: the address of an element is its index in the tile.
    let array = Array { name: String::new(), base: 0, elem: Scalar::I8, sizes, strides };
    let selected = slice_array(&array, ranges)?;
    let mut element_indices = vec![selected.base as usize];
    for (size, stride) in selected.sizes.iter().zip(&selected.strides) {
        element_indices = element_indices.iter().flat_map(|start| (0..*size).map(move |i| start + (i * stride) as usize)).collect();
    }
    let shape: Shape = selected.sizes.iter().map(|size| *size as u32).collect();
    Ok(Tile::new(shape, tile.elem, tile.element_words().gather(element_indices.into_iter())))
}

/// Returns the extent of the first dimension; `None` for scalars, views, tokens and computed numbers.
pub(crate) fn first_extent(datum: &Datum) -> Option<usize> {
    match datum {
        Datum::Tile(tile) => tile.shape.first().map(|extent| *extent as usize),
        Datum::Array(array) => array.sizes.first().map(|extent| (*extent).max(0) as usize),
        Datum::Other(_) | Datum::Numbers(_) => None,
    }
}

/// Returns the element or slice at an index of the first dimension.
pub(crate) fn element_or_slice_at(datum: &Datum, index: i64) -> Result<Datum, String> {
    let ranges = [IndexRange { start: index, end: index.saturating_add(1), is_single_index: true }];
    match datum {
        Datum::Tile(tile) => slice_tile(tile, &ranges).map(Datum::Tile),
        Datum::Array(array) => slice_array(array, &ranges).map(Datum::Array),
        Datum::Other(_) | Datum::Numbers(_) => Err("it has no parts".into()),
    }
}
