//! The arguments of a kernel, checked against the types of its parameters.

use super::{Launch, element};
use base::diag::{Diagnostic, Result};
use numerics::Scalar;
use numerics::arith::Rounding;
use numerics::float::{OverflowResult, encode};
use serde::{Deserialize, Serialize};

/// An argument of a launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Param {
    /// The address of a buffer.
    Ptr(String),
    I1(bool),
    I8(i64),
    I16(i64),
    I32(i64),
    I64(i64),
    F16(#[serde(with = "real")] f64),
    Bf16(#[serde(with = "real")] f64),
    F32(#[serde(with = "real")] f64),
    F64(#[serde(with = "real")] f64),
}

/// The declared type of a kernel parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamType {
    /// An address, with the pointee type if it is declared. PTX does not declare pointee types.
    Pointer(Option<Scalar>),
    Scalar(Scalar),
    /// A PTX `.bN` parameter: only its width is known.
    Bits(u32),
}

impl std::fmt::Display for ParamType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ParamType::Pointer(None) => write!(f, "ptr"),
            ParamType::Pointer(Some(pointee)) => write!(f, "ptr<{pointee}>"),
            ParamType::Scalar(scalar) => write!(f, "{scalar}"),
            ParamType::Bits(bits) => write!(f, "b{bits}"),
        }
    }
}

impl ParamType {
    /// Returns whether a number of a type can be passed for the parameter.
    fn accepts(self, scalar: Scalar) -> bool {
        match self {
            // A number is accepted as an address, because a launch can also fix the addresses of its buffers.
            ParamType::Pointer(_) => scalar == Scalar::I64,
            ParamType::Scalar(declared) => declared == scalar,
            ParamType::Bits(bits) => bits == 8 * scalar.bytes(),
        }
    }
    /// Returns whether the address of a buffer can be passed for the parameter.
    fn accepts_pointers(self) -> bool {
        matches!(self, ParamType::Pointer(_) | ParamType::Scalar(Scalar::I64) | ParamType::Bits(64))
    }
}

/// Returns the error for an argument that does not fit its parameter, or for a wrong number of arguments.
fn params_error(message: String) -> Box<Diagnostic> {
    Diagnostic::invalid("LCH013", message)
}

/// Returns the values of all arguments, in the representation of [`Call::values`](super::Call::values). Returns an error unless
/// they fit the parameters.
pub(super) fn argument_values(launch: &Launch, kernel: &str, types: &[ParamType]) -> Result<Vec<i64>> {
    let (given_count, expected_count) = (launch.params.len(), types.len());
    if given_count != expected_count {
        return Err(params_error(format!(
            "'{kernel}' has {expected_count} parameters: {}; the launch gives {given_count}",
            type_list(types)
        )));
    }
    let checked_value = |(index, (param, ty)): (usize, (&Param, &ParamType))| {
        argument_value(launch, param, *ty).map_err(|reason| params_error(format!("parameter {index} of '{kernel}': {reason}")))
    };
    launch.params.iter().zip(types).enumerate().map(checked_value).collect()
}

/// Returns the types as a list for messages.
pub(super) fn type_list(types: &[ParamType]) -> String {
    types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the value of an argument for a parameter of a type, or the reason why it does not fit.
fn argument_value(launch: &Launch, param: &Param, ty: ParamType) -> std::result::Result<i64, String> {
    let integer = |scalar, value| number_value(Number::Integer(i128::from(value)), scalar, ty);
    let real = |scalar, value| number_value(Number::Real(value), scalar, ty);
    match param {
        Param::Ptr(name) => buffer_address(launch, name, ty),
        Param::I1(value) => integer(Scalar::I1, i64::from(*value)),
        Param::I8(value) => integer(Scalar::I8, *value),
        Param::I16(value) => integer(Scalar::I16, *value),
        Param::I32(value) => integer(Scalar::I32, *value),
        Param::I64(value) => integer(Scalar::I64, *value),
        Param::F16(value) => real(Scalar::F16, *value),
        Param::Bf16(value) => real(Scalar::BF16, *value),
        Param::F32(value) => real(Scalar::F32, *value),
        Param::F64(value) => real(Scalar::F64, *value),
    }
}

/// Returns the address of a buffer for a parameter of a type, or the reason why it does not fit.
fn buffer_address(launch: &Launch, name: &str, ty: ParamType) -> std::result::Result<i64, String> {
    let buffer = launch.buffer(name).map_err(|error| error.message)?;
    if !ty.accepts_pointers() {
        return Err(format!("it is {ty}, the launch gives the address of '{name}'"));
    }
    match (ty, &buffer.array) {
        (ParamType::Pointer(Some(pointee)), Some(array)) if !array.fits_pointer(pointee) => {
            Err(format!("it is {ty}, but '{name}' is {array}"))
        }
        _ => Ok(buffer.address as i64),
    }
}

/// A number as written in a launch or on the command line.
#[derive(Clone, Copy)]
pub(super) enum Number {
    Integer(i128),
    Real(f64),
}

/// Returns the value of a number of type `scalar` for a parameter of type `ty`, or the reason why it does not fit.
fn number_value(number: Number, scalar: Scalar, ty: ParamType) -> std::result::Result<i64, String> {
    if !ty.accepts(scalar) {
        return Err(format!("it is {ty}, the launch gives {scalar}"));
    }
    argument_bits(number, scalar).ok_or_else(|| match number {
        Number::Integer(value) => format!("{value} does not fit {scalar}"),
        Number::Real(value) => format!("{value} does not fit {scalar}"),
    })
}

/// Returns the value of a number as an argument of a type: a sign-extended integer, or the bits of a float. `None` if the type
/// cannot represent it: an integer that does not fit as a signed or unsigned integer, or a finite number that overflows to
/// infinity.
pub(super) fn argument_bits(number: Number, scalar: Scalar) -> Option<i64> {
    match number {
        Number::Integer(value) => {
            let signed_limit = 1i128 << (scalar.bits() - 1);
            let fits = (-signed_limit..2 * signed_limit).contains(&value);
            fits.then(|| if scalar == Scalar::I1 { value as i64 & 1 } else { scalar.sign_extend(value as u64 & scalar.mask()) })
        }
        Number::Real(value) => {
            let bits = encode(scalar, value, Rounding::NearestEven, OverflowResult::Ieee);
            (value.is_finite() <= numerics::float::decode(scalar, bits).is_finite()).then_some(bits as i64)
        }
    }
}

/// The JSON form of floats. Infinities and NaN are strings, because JSON has no such numbers.
mod real {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    /// A float in JSON: a number, or the name of an infinity or of NaN.
    #[derive(serde::Deserialize)]
    #[serde(untagged, expecting = "a number, or \"inf\", \"-inf\" or \"nan\"")]
    enum Real {
        Number(f64),
        Word(String),
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        match Real::deserialize(deserializer)? {
            Real::Number(value) => Ok(value),
            Real::Word(word) => match &*word {
                "inf" => Ok(f64::INFINITY),
                "-inf" => Ok(f64::NEG_INFINITY),
                "nan" => Ok(f64::NAN),
                _ => Err(D::Error::custom(format!("'{word}' is no number"))),
            },
        }
    }

    pub(super) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        match value.is_finite() {
            true => serializer.serialize_f64(*value),
            false => serializer.serialize_str(if value.is_nan() {
                "nan"
            } else if *value > 0.0 {
                "inf"
            } else {
                "-inf"
            }),
        }
    }
}

impl super::ArrayType {
    /// Returns whether the array can be passed as a pointer to `pointee`.
    fn fits_pointer(&self, pointee: Scalar) -> bool {
        match self.element {
            Some(element) => element.scalar == pointee || (element.scalar, pointee) == (Scalar::I1, Scalar::I8),
            None => element::array_fits_pointee(&self.descr, pointee),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single_value(json: &str, ty: ParamType) -> std::result::Result<i64, String> {
        let launch: Launch = serde_json::from_str(&format!(r#"{{"params": [{json}]}}"#)).map_err(|error| error.to_string())?;
        argument_values(&launch, "k", &[ty]).map(|values| values[0]).map_err(|error| error.message)
    }

    #[test]
    fn numbers_fit_their_parameters_or_are_rejected() {
        let scalar = ParamType::Scalar;
        assert_eq!(single_value(r#"{"i32": 4294967295}"#, scalar(Scalar::I32)), Ok(-1));
        assert_eq!(single_value(r#"{"i32": -2147483648}"#, scalar(Scalar::I32)), Ok(-2_147_483_648));
        assert_eq!(single_value(r#"{"i1": true}"#, scalar(Scalar::I1)), Ok(1));
        assert_eq!(single_value(r#"{"f16": 1.5}"#, scalar(Scalar::F16)), Ok(0x3e00));
        assert_eq!(single_value(r#"{"f32": "inf"}"#, scalar(Scalar::F32)), Ok(0x7f80_0000));
        assert_eq!(single_value(r#"{"bf16": 1}"#, ParamType::Bits(16)), Ok(0x3f80));
        for (json, ty, message_part) in [
            (r#"{"i32": 4294967296}"#, scalar(Scalar::I32), "4294967296 does not fit i32"),
            (r#"{"i32": -2147483649}"#, scalar(Scalar::I32), "does not fit i32"),
            (r#"{"i8": 256}"#, scalar(Scalar::I8), "256 does not fit i8"),
            (r#"{"i16": 65536}"#, scalar(Scalar::I16), "does not fit i16"),
            (r#"{"f16": 65520}"#, scalar(Scalar::F16), "65520 does not fit f16"),
            (r#"{"f32": 1e39}"#, scalar(Scalar::F32), "does not fit f32"),
            (r#"{"f32": 1}"#, scalar(Scalar::I32), "parameter 0 of 'k': it is i32, the launch gives f32"),
            (r#"{"i32": 1}"#, scalar(Scalar::F32), "it is f32, the launch gives i32"),
            (r#"{"i32": 1}"#, scalar(Scalar::I64), "it is i64, the launch gives i32"),
            (r#"{"f16": 1}"#, scalar(Scalar::BF16), "it is bf16, the launch gives f16"),
            (r#"{"i32": 1}"#, ParamType::Pointer(None), "it is ptr, the launch gives i32"),
            (r#"{"i32": 1}"#, ParamType::Bits(16), "it is b16, the launch gives i32"),
            (r#"{"f32": "many"}"#, scalar(Scalar::F32), "'many' is no number"),
        ] {
            let error = single_value(json, ty).unwrap_err();
            assert!(error.contains(message_part), "{json} for {ty}: {error}");
        }
    }

    #[test]
    fn the_number_of_arguments_must_be_that_of_the_kernels_parameters() {
        let error = argument_values(&Launch::default(), "k", &[ParamType::Scalar(Scalar::I32)]).unwrap_err();
        assert_eq!(error.message, "'k' has 1 parameters: i32; the launch gives 0");
    }
}
