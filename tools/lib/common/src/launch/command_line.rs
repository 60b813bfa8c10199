//! Launches from command-line arguments.
//!
//! Each argument is a number or an array. An array is a `.npy` file, or a fill with a type such as `zeros:f32[4, 8]` (also `ones`,
//! `iota`, `empty`). An array is passed as one parameter, a pointer. With `--abi=cutile` it is passed as several parameters:
//! pointer, extents and strides, as cuTile does. `name=arg` names the array. The default name is `argN`, where N is the position
//! among all arguments, from 0.

use super::params::{Number, argument_bits, type_list};
use super::{
    ArrayType, Buffer, ByTarget, Contents, Extents, Fill, Launch, MEMORY_LIMIT, Param, ParamType, PlainFill, check_plain_name, npy,
};
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

/// Parses the arguments of a launch. `types` are the types of the kernel's parameters.
pub(super) fn parse_launch(args: &[String], types: &[ParamType], grid: Extents, abi: Abi) -> Result<Launch> {
    let mut builder = Builder { types, abi, remaining_bytes: MEMORY_LIMIT, params: Vec::new(), buffers: Vec::new() };
    args.iter().enumerate().try_for_each(|(index, arg)| builder.add_argument(index, arg))?;
    if builder.params.len() != types.len() {
        let (given, expected) = (builder.params.len(), types.len());
        let count_text = |count: usize| format!("{count} parameter{}", if count == 1 { "" } else { "s" });
        let error =
            usage_error(format!("the arguments fill {}, the kernel has {expected}: {}", count_text(given), type_list(types)));
        let has_fill = args.iter().any(|arg| arg.contains('['));
        let hint = "--abi=cutile passes the extents and strides of an array after its pointer, as kernels of cuTile Python expect";
        return Err(if given < expected && abi == Abi::Pointer && has_fill { error.note(hint) } else { error });
    }
    let mut launch = Launch { grid: ByTarget::All(grid), buffers: builder.buffers, params: builder.params, ..Launch::default() };
    launch.check_buffers()?;
    launch.assign_addresses()?;
    Ok(launch)
}

/// Returns the error for an invalid argument.
fn usage_error(message: String) -> Box<Diagnostic> {
    Diagnostic::usage("LCH015", message)
}

/// The parameters and buffers of the arguments parsed so far.
struct Builder<'a> {
    /// The types of all parameters of the kernel.
    types: &'a [ParamType],
    abi: Abi,
    /// The bytes of the memory limit that the buffers have not used.
    remaining_bytes: u64,
    params: Vec<Param>,
    buffers: Vec<Buffer>,
}

impl Builder<'_> {
    /// Adds the parameters of an argument, and the buffer of an array. `index` is the position of the argument.
    fn add_argument(&mut self, index: usize, arg: &str) -> Result<()> {
        let ty = *self.types.get(self.params.len()).ok_or_else(|| usage_error(format!("'{arg}' is one argument too many")))?;
        let scalar = match ty {
            // PTX may declare a pointer as a 64-bit number.
            ParamType::Scalar(Scalar::I64) if is_array(arg) => None,
            ParamType::Scalar(scalar) => Some(scalar),
            ParamType::Bits(bits) => {
                return Err(usage_error(format!(
                    "a parameter of type b{bits} cannot be given on the command line: write a launch.json"
                )));
            }
            ParamType::Pointer(_) => None,
        };
        if let Some(scalar) = scalar {
            self.params.push(parse_number(arg, scalar)?);
            return Ok(());
        }
        let (name, arg) = match arg.split_once('=') {
            Some((name, arg)) => (name.to_string(), arg),
            None => (format!("arg{index}"), arg),
        };
        check_plain_name(&name)?;
        let buffer = self.array_buffer(&name, arg)?;
        self.params.push(Param::Ptr(name));
        if let (Abi::Cutile, Some(array)) = (self.abi, &buffer.array) {
            self.add_extents_and_strides(&array.shape.clone())?;
        }
        self.buffers.push(buffer);
        Ok(())
    }

    /// Adds the extents of a row-major array and its strides in elements.
    fn add_extents_and_strides(&mut self, shape: &[usize]) -> Result<()> {
        let mut strides = vec![1; shape.len()];
        for dim in (1..shape.len()).rev() {
            strides[dim - 1] = strides[dim] * shape[dim];
        }
        for value in shape.iter().chain(&strides) {
            match self.types.get(self.params.len()) {
                Some(ParamType::Scalar(ty)) if ty.is_int() => self.params.push(parse_number(&value.to_string(), *ty)?),
                _ => {
                    let (rank, types) = (shape.len(), type_list(self.types));
                    return Err(usage_error(format!(
                        "an array of {rank} dimensions does not fit the kernel's parameters: {types}"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Returns the buffer of an array argument: with a fill, or with the contents of a `.npy` file.
    fn array_buffer(&mut self, name: &str, arg: &str) -> Result<Buffer> {
        let mut buffer = match split_fill(arg) {
            Some((fill, ty)) => {
                let array = ArrayType::parse(ty).ok_or_else(|| usage_error(format!("'{arg}' is not like zeros:f32[4, 8]")))?;
                let fill = named_fill(fill, &array);
                Buffer::from_fill(name, array, fill)
            }
            None => {
                let bytes = crate::read_file(Some(Path::new(arg)))?.bytes;
                let (array, data) = npy::parse_npy(bytes.to_vec(), arg)?;
                let contents = Contents::from(data);
                Buffer { array: Some(array), contents, ..Buffer::from_file(name, arg) }
            }
        };
        if let Some(fill) = &buffer.fill {
            let bytes = buffer.array.as_ref().and_then(ArrayType::bytes).filter(|bytes| *bytes as u64 <= self.remaining_bytes);
            let bytes = bytes.ok_or_else(|| usage_error(format!("'{arg}' is larger than the memory limit of 16 GiB")))?;
            buffer.contents = Contents::filled(fill.clone(), bytes)?;
        }
        self.remaining_bytes = self.remaining_bytes.saturating_sub(buffer.contents.len() as u64);
        Ok(buffer)
    }
}

/// The fills of arrays on the command line.
const FILLS: [&str; 4] = ["zeros", "ones", "iota", "empty"];

/// Splits `zeros:f32[4]` into fill and type. Returns `None` unless the text before the colon is one of `FILLS`.
fn split_fill(arg: &str) -> Option<(&str, &str)> {
    arg.split_once(':').filter(|(fill, _)| FILLS.contains(fill))
}

/// Returns whether an argument, with or without a name, is an array.
fn is_array(arg: &str) -> bool {
    let unnamed = arg.split_once('=').map_or(arg, |(_, unnamed)| unnamed);
    split_fill(unnamed).is_some() || unnamed.ends_with(".npy")
}

/// Returns the fill with one of the names in `FILLS`.
fn named_fill(name: &str, array: &ArrayType) -> Fill {
    match (name, array.element) {
        ("ones", Some(element)) => Fill::Constant { constant: element, value: 1.0 },
        ("iota", Some(element)) => Fill::Iota { iota: element, modulo: None },
        ("empty", _) => Fill::Plain(PlainFill::Empty),
        _ => Fill::Plain(PlainFill::Zero),
    }
}

/// Parses a number as a parameter of a type. Returns an error if the type cannot represent the number.
fn parse_number(arg: &str, ty: Scalar) -> Result<Param> {
    let number_error = || usage_error(format!("'{arg}' is not a number of type {ty}"));
    if ty.is_float() {
        let value: f64 = arg.parse().map_err(|_| number_error())?;
        argument_bits(Number::Real(value), ty).ok_or_else(number_error)?;
        return match ty {
            Scalar::F16 => Ok(Param::F16(value)),
            Scalar::BF16 => Ok(Param::Bf16(value)),
            Scalar::F32 => Ok(Param::F32(value)),
            Scalar::F64 => Ok(Param::F64(value)),
            _ => Err(usage_error(format!("a parameter of type {ty} cannot be given as a number"))),
        };
    }
    let value = match (arg, arg.strip_prefix("0x")) {
        ("true", _) => 1,
        ("false", _) => 0,
        (_, Some(digits)) => i128::from_str_radix(digits, 16).map_err(|_| number_error())?,
        _ => arg.parse().map_err(|_| number_error())?,
    };
    let value = argument_bits(Number::Integer(value), ty).ok_or_else(number_error)?;
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

    fn parse(args: &[&str], types: &[ParamType], abi: Abi) -> Result<Launch> {
        let args: Vec<String> = args.iter().map(|arg| arg.to_string()).collect();
        parse_launch(&args, types, Extents([1; 3]), abi)
    }

    #[test]
    fn arguments_become_parameters_and_invalid_arguments_are_rejected() {
        let launch = parse(&["zeros:f32[2, 3]", "-1", "0x10"], &[POINTER, I32, I32], Abi::Pointer).unwrap();
        assert_eq!(launch.params, [Param::Ptr("arg0".into()), Param::I32(-1), Param::I32(16)]);
        assert_eq!(launch.buffers[0].contents.len(), 24);
        assert!(parse(&["1"], &[I32, I32], Abi::Pointer).is_err());
        assert!(parse(&["4294967296"], &[I32], Abi::Pointer).is_err());
        assert!(parse(&["1e39"], &[ParamType::Scalar(Scalar::F32)], Abi::Pointer).is_err());
        assert!(parse(&["zeros:f32[99999999999,99999999999]"], &[POINTER], Abi::Pointer).is_err());
        assert!(parse(&["a=zeros:f32[1]", "a=zeros:f32[1]"], &[POINTER, POINTER], Abi::Pointer).is_err());
        assert!(parse(&["../a=zeros:f32[1]"], &[POINTER], Abi::Pointer).is_err());
    }

    #[test]
    fn the_cutile_abi_passes_extents_and_strides() {
        let mut launch = parse(&["a=ones:f32[2, 3]"], &[POINTER, I32, I32, I32, I32], Abi::Cutile).unwrap();
        let extents_and_strides: Vec<_> = launch.params[1..].to_vec();
        assert_eq!(extents_and_strides, [Param::I32(2), Param::I32(3), Param::I32(3), Param::I32(1)]);
        assert_eq!(launch.buffers[0].contents.bytes_mut(0..4), 1f32.to_le_bytes());
        assert!(parse(&["ones:f32[2]"], &[POINTER, I32], Abi::Cutile).is_err());
    }

    #[test]
    fn default_names_have_the_position_of_the_argument_not_of_the_parameter() {
        let launch =
            parse(&["ones:f32[2]", "7", "zeros:f32[2]"], &[POINTER, I32, I32, I32, POINTER, I32, I32], Abi::Cutile).unwrap();
        assert_eq!(launch.output_names(), ["arg0", "arg2"]);
    }

    /// PTX may declare a pointer as a 64-bit number.
    #[test]
    fn an_array_can_be_passed_as_a_64_bit_number() {
        let types = [ParamType::Scalar(Scalar::I64); 2];
        let launch = parse(&["zeros:i32[4]", "4"], &types, Abi::Pointer).unwrap();
        assert_eq!(launch.params, [Param::Ptr("arg0".into()), Param::I64(4)]);
    }
}
