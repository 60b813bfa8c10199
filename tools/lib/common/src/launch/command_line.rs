//! Launches from command-line arguments.
//!
//! Each argument is one parameter: a number, or an array as a `.npy` file or `zeros:f32[4, 8]` (also `ones`, `iota`, `empty`). An
//! array is passed as a pointer. `name=arg` names the array. The default name is `argN`, where N is the position among all
//! arguments, from 0. With `--abi=cutile` an array is passed as pointer, extents and strides, as cuTile does.

use super::params::{Number, bits, type_list};
use super::{ArrayType, Buffer, ByTarget, Contents, Extents, Fill, Launch, MEMORY_LIMIT, Param, ParamType, Plain, npy, plain_name};
use base::diag::{Diagnostic, Result};
use numerics::Scalar;
use std::path::Path;

/// The calling convention of arrays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Abi {
    /// The pointer
    #[default]
    Pointer,
    /// Pointer, extents and strides
    Cutile,
}

/// Parses a launch. `types` are the types of the kernel's parameters.
pub(super) fn launch(args: &[String], types: &[ParamType], grid: Extents, abi: Abi) -> Result<Launch> {
    let mut builder = Builder { types, abi, remaining: MEMORY_LIMIT, params: Vec::new(), buffers: Vec::new() };
    args.iter().enumerate().try_for_each(|(index, arg)| builder.add(index, arg))?;
    if builder.params.len() != types.len() {
        let (given, expected) = (builder.params.len(), types.len());
        let count_text = |count: usize| format!("{count} parameter{}", if count == 1 { "" } else { "s" });
        let error = usage(format!("the arguments fill {}, the kernel has {expected}: {}", count_text(given), type_list(types)));
        let arrays = args.iter().any(|arg| arg.contains('['));
        let hint = "--abi=cutile passes the extents and strides of an array after its pointer, as kernels of cuTile Python expect";
        return Err(if given < expected && abi == Abi::Pointer && arrays { error.note(hint) } else { error });
    }
    let mut launch = Launch { grid: ByTarget::All(grid), buffers: builder.buffers, params: builder.params, ..Launch::default() };
    launch.check_names()?;
    launch.assign_addresses()?;
    Ok(launch)
}

fn usage(message: String) -> Box<Diagnostic> {
    Diagnostic::usage("LCH015", message)
}

struct Builder<'a> {
    types: &'a [ParamType],
    abi: Abi,
    /// Remaining bytes for arrays.
    remaining: u64,
    params: Vec<Param>,
    buffers: Vec<Buffer>,
}

impl Builder<'_> {
    fn add(&mut self, index: usize, arg: &str) -> Result<()> {
        let ty = *self.types.get(self.params.len()).ok_or_else(|| usage(format!("'{arg}' is one argument too many")))?;
        let array_like = is_array(arg);
        let scalar = match ty {
            ParamType::Scalar(Scalar::I64) if array_like => None,
            ParamType::Scalar(scalar) => Some(scalar),
            ParamType::Bits(bits) => {
                return Err(usage(format!("a parameter of type b{bits} cannot be given on the command line: write a launch.json")));
            }
            ParamType::Pointer(_) => None,
        };
        if let Some(scalar) = scalar {
            self.params.push(number(arg, scalar)?);
            return Ok(());
        }
        let (name, arg) = match arg.split_once('=') {
            Some((name, arg)) => (name.to_string(), arg),
            None => (format!("arg{index}"), arg),
        };
        plain_name(&name)?;
        let buffer = self.array(&name, arg)?;
        self.params.push(Param::Ptr(name));
        if let (Abi::Cutile, Some(array)) = (self.abi, &buffer.array) {
            self.shape_and_strides(&array.shape.clone())?;
        }
        self.buffers.push(buffer);
        Ok(())
    }

    fn shape_and_strides(&mut self, shape: &[usize]) -> Result<()> {
        let mut strides = vec![1; shape.len()];
        for dim in (1..shape.len()).rev() {
            strides[dim - 1] = strides[dim] * shape[dim];
        }
        for value in shape.iter().chain(&strides) {
            match self.types.get(self.params.len()) {
                Some(ParamType::Scalar(ty)) if ty.is_int() => self.params.push(number(&value.to_string(), *ty)?),
                _ => {
                    let (rank, types) = (shape.len(), type_list(self.types));
                    return Err(usage(format!("an array of {rank} dimensions does not fit the kernel's parameters: {types}")));
                }
            }
        }
        Ok(())
    }

    fn array(&mut self, name: &str, arg: &str) -> Result<Buffer> {
        let mut buffer = match split_fill(arg) {
            Some((fill, ty)) => {
                let array = ArrayType::parse(ty).ok_or_else(|| usage(format!("'{arg}' is not like zeros:f32[4, 8]")))?;
                let fill = named_fill(fill, &array);
                Buffer::of_fill(name, array, fill)
            }
            None => {
                let bytes = crate::read_file(Some(Path::new(arg)))?.bytes;
                let (array, data) = npy::parse(bytes.to_vec(), arg)?;
                let contents = Contents::from(data);
                Buffer { array: Some(array), contents, ..Buffer::of_file(name, arg) }
            }
        };
        if let Some(fill) = &buffer.fill {
            let bytes = buffer.array.as_ref().and_then(ArrayType::bytes).filter(|bytes| *bytes as u64 <= self.remaining);
            let bytes = bytes.ok_or_else(|| usage(format!("'{arg}' is larger than the memory limit of 16 GiB")))?;
            buffer.contents = Contents::filled(fill.clone(), bytes)?;
        }
        self.remaining = self.remaining.saturating_sub(buffer.contents.len() as u64);
        Ok(buffer)
    }
}

const FILLS: [&str; 4] = ["zeros", "ones", "iota", "empty"];

/// Splits `zeros:f32[4]` into fill and type.
fn split_fill(arg: &str) -> Option<(&str, &str)> {
    arg.split_once(':').filter(|(fill, _)| FILLS.contains(fill))
}

/// Returns whether an argument is an array. In PTX a 64-bit parameter may be an address.
fn is_array(arg: &str) -> bool {
    let arg = arg.split_once('=').map_or(arg, |(_, arg)| arg);
    split_fill(arg).is_some() || arg.ends_with(".npy")
}

fn named_fill(arg: &str, array: &ArrayType) -> Fill {
    match (arg, array.element) {
        ("ones", Some(element)) => Fill::Constant { constant: element, value: 1.0 },
        ("iota", Some(element)) => Fill::Iota { iota: element, modulo: None },
        ("empty", _) => Fill::Plain(Plain::Empty),
        _ => Fill::Plain(Plain::Zero),
    }
}

fn number(arg: &str, ty: Scalar) -> Result<Param> {
    let wrong = || usage(format!("'{arg}' is not a number of type {ty}"));
    if ty.is_float() {
        let value: f64 = arg.parse().map_err(|_| wrong())?;
        bits(Number::Real(value), ty).ok_or_else(wrong)?;
        return match ty {
            Scalar::F16 => Ok(Param::F16(value)),
            Scalar::BF16 => Ok(Param::Bf16(value)),
            Scalar::F32 => Ok(Param::F32(value)),
            Scalar::F64 => Ok(Param::F64(value)),
            _ => Err(usage(format!("a parameter of type {ty} cannot be given as a number"))),
        };
    }
    let value = match (arg, arg.strip_prefix("0x")) {
        ("true", _) => 1,
        ("false", _) => 0,
        (_, Some(digits)) => i128::from_str_radix(digits, 16).map_err(|_| wrong())?,
        _ => arg.parse().map_err(|_| wrong())?,
    };
    let value = bits(Number::Integer(value), ty).ok_or_else(wrong)?;
    Ok(match ty {
        Scalar::I1 => Param::I1(value != 0),
        Scalar::I8 => Param::I8(value),
        Scalar::I16 => Param::I16(value),
        Scalar::I32 => Param::I32(value),
        _ => Param::I64(value),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINTER: ParamType = ParamType::Pointer(Some(Scalar::F32));
    const I32: ParamType = ParamType::Scalar(Scalar::I32);

    fn parsed(args: &[&str], types: &[ParamType], abi: Abi) -> Result<Launch> {
        let args: Vec<String> = args.iter().map(|arg| arg.to_string()).collect();
        launch(&args, types, Extents([1; 3]), abi)
    }

    #[test]
    fn each_argument_is_a_parameter() {
        let launch = parsed(&["zeros:f32[2, 3]", "-1", "0x10"], &[POINTER, I32, I32], Abi::Pointer).unwrap();
        assert_eq!(launch.params, [Param::Ptr("arg0".into()), Param::I32(-1), Param::I32(16)]);
        assert_eq!(launch.buffers[0].contents.len(), 24);
        assert!(parsed(&["1"], &[I32, I32], Abi::Pointer).is_err());
        assert!(parsed(&["4294967296"], &[I32], Abi::Pointer).is_err());
        assert!(parsed(&["1e39"], &[ParamType::Scalar(Scalar::F32)], Abi::Pointer).is_err());
        assert!(parsed(&["zeros:f32[99999999999,99999999999]"], &[POINTER], Abi::Pointer).is_err());
        assert!(parsed(&["a=zeros:f32[1]", "a=zeros:f32[1]"], &[POINTER, POINTER], Abi::Pointer).is_err());
        assert!(parsed(&["../a=zeros:f32[1]"], &[POINTER], Abi::Pointer).is_err());
    }

    #[test]
    fn cutile_passes_shapes_and_strides() {
        let mut launch = parsed(&["a=ones:f32[2, 3]"], &[POINTER, I32, I32, I32, I32], Abi::Cutile).unwrap();
        let numbers: Vec<_> = launch.params[1..].to_vec();
        assert_eq!(numbers, [Param::I32(2), Param::I32(3), Param::I32(3), Param::I32(1)]);
        assert_eq!(launch.buffers[0].contents.get(0..4), 1f32.to_le_bytes());
        assert!(parsed(&["ones:f32[2]"], &[POINTER, I32], Abi::Cutile).is_err());
    }

    /// The default name of an array has its position among the arguments, not among the parameters.
    #[test]
    fn arrays_are_named_by_argument() {
        let launch =
            parsed(&["ones:f32[2]", "7", "zeros:f32[2]"], &[POINTER, I32, I32, I32, POINTER, I32, I32], Abi::Cutile).unwrap();
        assert_eq!(launch.output_names(), ["arg0", "arg2"]);
    }

    /// PTX may declare a pointer as a plain 64-bit number.
    #[test]
    fn an_array_may_stand_for_a_number_of_64_bits() {
        let types = [ParamType::Scalar(Scalar::I64); 2];
        let launch = parsed(&["zeros:i32[4]", "4"], &types, Abi::Pointer).unwrap();
        assert_eq!(launch.params, [Param::Ptr("arg0".into()), Param::I64(4)]);
    }
}
