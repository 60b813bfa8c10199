//! Compares the output buffers of an executed kernel with the expected contents.

use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The file `expect.json` of a case: the output buffers, and the relative and absolute tolerance of their elements.
#[derive(Deserialize)]
pub struct ExpectedOutputs {
    rtol: f64,
    atol: f64,
    outputs: Vec<Output>,
}

/// An output of a case: the name of the buffer, the file with its expected contents, and the numpy element type.
#[derive(Deserialize)]
struct Output {
    buffer: String,
    file: String,
    r#type: String,
}

impl ExpectedOutputs {
    pub fn read(case: &Path) -> ExpectedOutputs {
        let text = std::fs::read_to_string(case.join("expect.json")).expect("a case has expect.json");
        serde_json::from_str(&text).expect("expect.json is as scripts/make-examples writes it")
    }

    /// Compares the output buffers in `folder` with the expected contents of the case.
    pub fn check(&self, case: &Path, folder: &Path) -> Result<(), String> {
        self.compare(folder, |output| case.join(&output.file))
    }

    /// Compares the buffers of two runs, with the tolerances of the case.
    pub fn compare_runs(&self, expected: &Path, folder: &Path) -> Result<(), String> {
        self.compare(folder, |output| expected.join(format!("{}.bin", output.buffer)))
    }

    /// Compares the output buffers in `folder` with the files that `path_of_expected` returns.
    fn compare(&self, folder: &Path, path_of_expected: impl Fn(&Output) -> PathBuf) -> Result<(), String> {
        for output in &self.outputs {
            let name = format!("{}.bin", output.buffer);
            let got = std::fs::read(folder.join(&name)).map_err(|error| format!("{name}: {error}"))?;
            let expected_path = path_of_expected(output);
            let expected_bytes = std::fs::read(&expected_path).map_err(|error| format!("{}: {error}", expected_path.display()))?;
            if got.len() != expected_bytes.len() {
                return Err(format!("{name} has {} bytes, not {}", got.len(), expected_bytes.len()));
            }
            let is_exact = self.rtol == 0.0 && self.atol == 0.0;
            if is_exact && got == expected_bytes {
                continue;
            }
            self.check_numbers(&output.r#type, &got, &expected_bytes)
                .map_err(|complaint| format!("{}: {complaint}", output.buffer))?;
        }
        Ok(())
    }

    /// Compares elements within the tolerances of the case. A NaN equals only a NaN.
    fn check_numbers(&self, kind: &str, got: &[u8], expected: &[u8]) -> Result<(), String> {
        let (got, expected) = (decode_numbers(kind, got)?, decode_numbers(kind, expected)?);
        let differs = |(got, expected): (&f64, &f64)| {
            (got - expected).abs() > self.atol + self.rtol * expected.abs() || got.is_nan() != expected.is_nan()
        };
        let wrong_indices: Vec<usize> = (0..got.len()).filter(|i| differs((&got[*i], &expected[*i]))).collect();
        match wrong_indices.first() {
            None => Ok(()),
            Some(first_index) => Err(format!(
                "{} of {} differ, first [{first_index}]: {} instead of {}",
                wrong_indices.len(),
                got.len(),
                got[*first_index],
                expected[*first_index]
            )),
        }
    }
}

/// Decodes the elements of a numpy element type, such as `float16`.
fn decode_numbers(kind: &str, bytes: &[u8]) -> Result<Vec<f64>, String> {
    let chunks = |width: usize| bytes.chunks_exact(width);
    Ok(match kind {
        "float32" => chunks(4).map(|b| f64::from(f32::from_le_bytes(b.try_into().expect("four bytes")))).collect(),
        "float16" => chunks(2).map(|b| f16_to_f64(u16::from_le_bytes(b.try_into().expect("two bytes")))).collect(),
        "int32" => chunks(4).map(|b| f64::from(i32::from_le_bytes(b.try_into().expect("four bytes")))).collect(),
        other => return Err(format!("the harness does not compare {other}")),
    })
}

/// Converts the bits of an f16 to f64.
fn f16_to_f64(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}
