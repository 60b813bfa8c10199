//! What a kernel is run with: from `launch.json`, or from words that a person types.
//!
//! Each word is one parameter: a number, a `.npy` file, or `zeros:f32[4, 8]` (also `ones`, `iota`, `empty`), all of which but the
//! number are a pointer to an array. `name=word` names the array. With `--abi=cutile` an array is its pointer, its extents and
//! its strides, as cuTile passes arrays.

use crate::npy::{self, Array};
use base::diag::{Diagnostic, Result};
use common::launch::{Buffer, Launch, Param};
use numerics::arith::{Rounding, Signedness};
use numerics::{Scalar, arith, float};
use std::collections::BTreeSet;
use std::path::Path;
use vocabulary::tile::Elem;

/// How arrays are passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Abi {
    /// The pointer
    #[default]
    Pointer,
    /// Pointer, extents and strides
    Cutile,
}

/// A launch, and what is known of its buffers beyond it.
pub(crate) struct Arguments {
    pub(crate) launch: Launch,
    /// Arrays by the index of their buffer; none for a launch.json, which does not say.
    pub(crate) arrays: Vec<(String, Array)>,
    /// Buffers that hold nothing yet.
    pub(crate) empty: BTreeSet<String>,
}

impl Arguments {
    pub(crate) fn from_file(path: &Path) -> Result<Arguments> {
        Ok(Arguments { launch: Launch::read(path)?, arrays: Vec::new(), empty: BTreeSet::new() })
    }

    /// `types` are those of the kernel's parameters.
    pub(crate) fn from_words(words: &[String], types: &[Elem], grid: [u32; 3], abi: Abi) -> Result<Arguments> {
        let mut builder = Builder { types, abi, params: Vec::new(), arrays: Vec::new(), empty: BTreeSet::new() };
        words.iter().try_for_each(|word| builder.add(word))?;
        if builder.params.len() != types.len() {
            let (given, wanted) = (builder.params.len(), types.len());
            return Err(usage(format!("the arguments make {given} parameters, the kernel has {wanted}: {}", listed(types))));
        }
        let buffers = builder.arrays.iter().map(|(name, array)| Buffer {
            name: name.clone(),
            file: String::new(),
            align: 256,
            address: 0,
            pointers: Vec::new(),
            data: array.data.clone(),
        });
        let mut launch = Launch {
            entry: None,
            grid,
            buffers: buffers.collect(),
            params: builder.params,
            outputs: builder.arrays.iter().map(|(name, _)| name.clone()).collect(),
        };
        launch.place()?;
        Ok(Arguments { launch, arrays: builder.arrays, empty: builder.empty })
    }
}

fn usage(message: String) -> Box<Diagnostic> {
    Diagnostic::usage("RUN051", message)
}

pub(crate) fn type_name(elem: Elem) -> String {
    match elem {
        Elem::Scalar(ty) => ty.name().into(),
        Elem::Ptr { pointee, .. } => format!("ptr<{pointee}>"),
    }
}

fn listed(types: &[Elem]) -> String {
    types.iter().map(|ty| type_name(*ty)).collect::<Vec<_>>().join(", ")
}

struct Builder<'a> {
    types: &'a [Elem],
    abi: Abi,
    params: Vec<Param>,
    arrays: Vec<(String, Array)>,
    empty: BTreeSet<String>,
}

impl Builder<'_> {
    fn add(&mut self, word: &str) -> Result<()> {
        let index = self.params.len();
        let ty = *self.types.get(index).ok_or_else(|| usage(format!("'{word}' is one argument too many")))?;
        if let Elem::Scalar(ty) = ty {
            self.params.push(number(word, ty)?);
            return Ok(());
        }
        let (name, word) = match word.split_once('=') {
            Some((name, word)) => (name.to_string(), word),
            None => (format!("arg{index}"), word),
        };
        let array = array(word)?;
        if word.starts_with("empty:") {
            self.empty.insert(name.clone());
        }
        self.params.push(Param::Ptr(name.clone()));
        if self.abi == Abi::Cutile {
            self.shape_and_strides(&array)?;
        }
        self.arrays.push((name, array));
        Ok(())
    }

    fn shape_and_strides(&mut self, array: &Array) -> Result<()> {
        let mut strides = vec![1; array.shape.len()];
        for dim in (1..array.shape.len()).rev() {
            strides[dim - 1] = strides[dim] * array.shape[dim];
        }
        for value in array.shape.iter().chain(&strides) {
            match self.types.get(self.params.len()) {
                Some(Elem::Scalar(ty)) if ty.is_int() => self.params.push(number(&value.to_string(), *ty)?),
                _ => {
                    let message = format!(
                        "an array of {} dimensions does not fit the kernel's parameters: {}",
                        array.shape.len(),
                        listed(self.types)
                    );
                    return Err(usage(message));
                }
            }
        }
        Ok(())
    }
}

fn number(word: &str, ty: Scalar) -> Result<Param> {
    let wrong = || usage(format!("'{word}' is not a number of type {ty}"));
    if ty.is_float() {
        let value: f64 = word.parse().map_err(|_| wrong())?;
        return match ty {
            Scalar::F16 => Ok(Param::F16(value)),
            Scalar::BF16 => Ok(Param::Bf16(value)),
            Scalar::F32 => Ok(Param::F32(value)),
            Scalar::F64 => Ok(Param::F64(value)),
            _ => Err(usage(format!("a parameter of type {ty} cannot be given as a number"))),
        };
    }
    let value = match (word, word.strip_prefix("0x")) {
        ("true", _) => 1,
        ("false", _) => 0,
        (_, Some(digits)) => i128::from_str_radix(digits, 16).map_err(|_| wrong())?,
        _ => word.parse().map_err(|_| wrong())?,
    };
    let half = 1i128 << (ty.bits() - 1);
    if !(-half..2 * half).contains(&value) {
        return Err(wrong());
    }
    Ok(match ty {
        Scalar::I1 => Param::I1(value != 0),
        Scalar::I8 => Param::I8(value as i64),
        Scalar::I16 => Param::I16(value as i64),
        Scalar::I32 => Param::I32(value as i64),
        _ => Param::I64(value as i64),
    })
}

fn array(word: &str) -> Result<Array> {
    let Some((fill, ty)) = word.split_once(':').filter(|(fill, _)| ["zeros", "ones", "iota", "empty"].contains(fill)) else {
        let (bytes, _) = common::read_file(Some(Path::new(word))).map(|input| (input.bytes, input.name))?;
        return Array::parse(&bytes, word);
    };
    let wrong = || usage(format!("'{word}' is not like zeros:f32[4, 8]"));
    let (ty, shape) = ty.strip_suffix(']').and_then(|ty| ty.split_once('[')).ok_or_else(wrong)?;
    let shape: std::result::Result<Vec<usize>, _> = shape.split(',').map(|dim| dim.trim().parse()).collect();
    let shape = shape.map_err(|_| wrong())?;
    let (Some(descr), Some(scalar)) = (npy::descr(ty), npy::scalar(ty)) else { return Err(wrong()) };
    let item = scalar.bytes() as usize;
    let size = shape.iter().try_fold(item, |size, dim| size.checked_mul(*dim)).filter(|size| *size <= npy::MOST_BYTES);
    let count = size.ok_or_else(wrong)? / item;
    let mut data = vec![0; count * item];
    if fill == "ones" || fill == "iota" {
        for (i, slot) in data.chunks_exact_mut(item).enumerate() {
            let value = if fill == "ones" { 1 } else { i as u64 };
            slot.copy_from_slice(&of_int(scalar, value).to_le_bytes()[..item]);
        }
    }
    Ok(Array { descr: descr.into(), shape, data })
}

fn of_int(ty: Scalar, value: u64) -> u64 {
    match ty.is_int() {
        true => value & ty.mask(),
        false => {
            arith::Convert::IToF { signedness: Signedness::Unsigned, rounding: Rounding::NearestEven }.eval(Scalar::I64, ty, value)
        }
    }
}

/// The bits of a parameter as a value of the kernel's type.
pub(crate) fn bits(param: &Param, ty: Elem, launch: &Launch) -> Result<u64> {
    let fits = |wanted: Scalar| ty.scalar() == Some(wanted);
    let wrong = || Diagnostic::invalid("RUN052", format!("an argument of {param:?} for a parameter of type {}", type_name(ty)));
    let int = |value: i64, wanted: Scalar| if fits(wanted) { Ok(value as u64 & wanted.mask()) } else { Err(wrong()) };
    let real = |value: f64, wanted: Scalar| match fits(wanted) {
        true => Ok(float::encode(wanted, value, Rounding::NearestEven, float::Overflow::Ieee)),
        false => Err(wrong()),
    };
    match param {
        Param::Ptr(name) if ty.scalar().is_none() || fits(Scalar::I64) => launch.address(name),
        Param::Ptr(_) => Err(wrong()),
        Param::I64(address) if ty.scalar().is_none() => Ok(*address as u64),
        Param::I1(value) => int((*value).into(), Scalar::I1),
        Param::I8(value) => int(*value, Scalar::I8),
        Param::I16(value) => int(*value, Scalar::I16),
        Param::I32(value) => int(*value, Scalar::I32),
        Param::I64(value) => int(*value, Scalar::I64),
        Param::F16(value) => real(*value, Scalar::F16),
        Param::Bf16(value) => real(*value, Scalar::BF16),
        Param::F32(value) => real(*value, Scalar::F32),
        Param::F64(value) => real(*value, Scalar::F64),
    }
}

/// `4`, `4,2` or `4,2,1`.
pub(crate) fn parse_grid(text: &str) -> std::result::Result<[u32; 3], String> {
    let parts: std::result::Result<Vec<u32>, _> = text.split(',').map(|part| part.trim().parse()).collect();
    match parts.as_deref() {
        Ok(parts @ ([_] | [_, _] | [_, _, _])) if parts.iter().all(|n| (1..=0xff_ffff).contains(n)) => {
            let mut grid = [1; 3];
            grid[..parts.len()].copy_from_slice(parts);
            Ok(grid)
        }
        _ => Err("a grid is X[,Y[,Z]], each from 1 to 16777215".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocabulary::tile::Space;

    const POINTER: Elem = Elem::Ptr { pointee: Scalar::F32, space: Space::Generic };
    const I32: Elem = Elem::Scalar(Scalar::I32);

    fn words(words: &[&str], types: &[Elem], abi: Abi) -> Result<Arguments> {
        let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        Arguments::from_words(&words, types, [1, 1, 1], abi)
    }

    #[test]
    fn each_word_is_a_parameter() {
        let arguments = words(&["zeros:f32[2, 3]", "-1", "0x10"], &[POINTER, I32, I32], Abi::Pointer).unwrap();
        assert_eq!(arguments.launch.params, [Param::Ptr("arg0".into()), Param::I32(-1), Param::I32(16)]);
        assert_eq!(arguments.launch.buffers[0].data.len(), 24);
        assert!(words(&["1"], &[I32, I32], Abi::Pointer).is_err());
        assert!(words(&["4294967296"], &[I32], Abi::Pointer).is_err());
        assert!(words(&["zeros:f32[99999999999,99999999999]"], &[POINTER], Abi::Pointer).is_err());
    }

    #[test]
    fn cutile_passes_shapes_and_strides() {
        let arguments = words(&["a=ones:f32[2, 3]"], &[POINTER, I32, I32, I32, I32], Abi::Cutile).unwrap();
        let numbers: Vec<_> = arguments.launch.params[1..].to_vec();
        assert_eq!(numbers, [Param::I32(2), Param::I32(3), Param::I32(3), Param::I32(1)]);
        assert_eq!(arguments.launch.buffers[0].data[..4], 1f32.to_le_bytes());
        assert!(words(&["ones:f32[2]"], &[POINTER, I32], Abi::Cutile).is_err());
    }
}
