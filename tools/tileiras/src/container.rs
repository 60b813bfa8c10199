//! Outputs for a host program that is compiled ahead of time: a fatbin with the code for several targets, the fatbin as a C array
//! or in an object file, and a C header with launch metadata.

use crate::failure::{DriverError, exit};
use base::Target;
use base::diag::Result;
use common::cl::Parsed;
use cubin::fatbin::{self, Code, Compression, Entry, HostSystem};
use cubin::{HostProcessor, write_link_object};
use std::fmt::Write as _;
use std::path::Path;

/// The form in which `--emit` requests a fatbin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Fatbin,
    CArray,
    Object,
}

impl Form {
    /// Returns the fatbin form that `--emit` requests; `None` if it requests an output other than a fatbin.
    pub(crate) fn detect(parsed: &Parsed) -> Option<Form> {
        match parsed.get("emit")? {
            "fatbin" => Some(Form::Fatbin),
            "c-array" => Some(Form::CArray),
            "object" => Some(Form::Object),
            _ => None,
        }
    }

    /// The extension of output files in `--out-dir`.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Form::Fatbin => "fatbin",
            Form::CArray => "c",
            Form::Object => "o",
        }
    }
}

/// The code of a program for one target.
pub(crate) struct TargetCode {
    pub(crate) target: Target,
    pub(crate) cubin: Vec<u8>,
    pub(crate) ptx: Vec<u8>,
}

/// Returns a fatbin with the cubin of each target, and PTX for GPUs that are newer than the targets. `code` is ordered by target.
///
/// The fatbin contains the PTX of the newest target. If only GPUs of this architecture can execute this PTX (as for `sm_100a`), the
/// fatbin also contains the PTX of the newest target without such a suffix. Every later GPU can execute PTX without a suffix.
pub(crate) fn write_fatbin(code: &[TargetCode], system: HostSystem) -> Result<Vec<u8>> {
    let ptx_target = |code: &TargetCode| code.target.ptx_target;
    let is_portable = |code: &&TargetCode| ptx_target(code) == code.target.name;
    let newest = code.last();
    let newest_portable = code.iter().rfind(is_portable).filter(|_| newest.is_some_and(|newest| !is_portable(&newest)));
    let ptx_modules: Vec<(&str, String)> = newest_portable
        .into_iter()
        .chain(newest)
        .map(|code| (ptx_target(code), String::from_utf8_lossy(&code.ptx).into_owned()))
        .collect();
    let cubins = code.iter().map(|code| Entry { target: ptx_target(code), code: Code::Cubin(&code.cubin) });
    let ptx = ptx_modules.iter().map(|(target, text)| Entry { target, code: Code::Ptx(text) });
    fatbin::write(&cubins.chain(ptx).collect::<Vec<_>>(), Compression::Zstd, system)
}

/// Returns the operating system of the host program, from `--host-os`.
pub(crate) fn host_system(parsed: &Parsed) -> HostSystem {
    if parsed.get("host-os") == Some("windows") { HostSystem::Windows } else { HostSystem::Linux }
}

/// Converts a fatbin to the form that `--emit` requests. `symbol` is the C symbol of the fatbin.
pub(crate) fn convert_fatbin(
    form: Form,
    fatbin: Vec<u8>,
    symbol: &str,
    parsed: &Parsed,
) -> std::result::Result<Vec<u8>, DriverError> {
    match form {
        Form::Fatbin => Ok(fatbin),
        Form::CArray => Ok(c_array(&fatbin, symbol).into_bytes()),
        Form::Object => {
            let processor = match parsed.get("host-arch").unwrap_or(std::env::consts::ARCH) {
                "x86_64" => HostProcessor::X86_64,
                "aarch64" => HostProcessor::Aarch64,
                other => {
                    let message = format!("--emit=object supports x86_64 and aarch64, not {other}; pass --host-arch");
                    return Err(DriverError::new(exit::CONFIGURATION, message));
                }
            };
            Ok(write_link_object(&fatbin, symbol, processor, host_system(parsed)))
        }
    }
}

/// Returns the C symbol of the fatbin: the value of `--symbol`, or the stem of the input with `_fatbin`.
pub(crate) fn symbol(parsed: &Parsed, input: &str) -> std::result::Result<String, DriverError> {
    let is_identifier = |text: &str| {
        let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        starts_well && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if let Some(symbol) = parsed.get("symbol") {
        return match is_identifier(symbol) {
            true => Ok(symbol.to_string()),
            false => Err(DriverError::new(exit::USAGE, format!("--symbol: '{symbol}' is not a C identifier"))),
        };
    }
    let stem = Path::new(input).file_stem().unwrap_or_default().to_string_lossy();
    let mut symbol: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    symbol.push_str("_fatbin");
    Ok(if is_identifier(&symbol) { symbol } else { format!("_{symbol}") })
}

/// Returns the declarations of the fatbin and its size, for C and C++.
pub(crate) fn declarations(symbol: &str) -> String {
    format!("extern const unsigned long long {symbol}[];\nextern const unsigned long long {symbol}_size;\n")
}

pub(crate) const OPEN_EXTERN_C: &str = "#ifdef __cplusplus\nextern \"C\" {\n#endif\n";
pub(crate) const CLOSE_EXTERN_C: &str = "#ifdef __cplusplus\n}\n#endif\n";

/// Returns a C source file with the fatbin as an array. The elements are words of 64 bits, so the array has the alignment that the
/// CUDA driver requires. All hosts of CUDA are little-endian.
fn c_array(fatbin: &[u8], symbol: &str) -> String {
    const WORDS_PER_LINE: usize = 6;
    let words: Vec<String> = fatbin
        .chunks(8)
        .map(|bytes| {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            format!("0x{:x}ull", u64::from_le_bytes(padded))
        })
        .collect();
    let lines: String = words.chunks(WORDS_PER_LINE).map(|line| format!("    {},\n", line.join(", "))).collect();
    let mut out = format!("/* Generated by tileiras; do not edit. */\n{OPEN_EXTERN_C}{}", declarations(symbol));
    let _ = write!(out, "const unsigned long long {symbol}[] = {{\n{lines}}};\n");
    let _ = writeln!(out, "const unsigned long long {symbol}_size = {}ull;", fatbin.len());
    out + CLOSE_EXTERN_C
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(names: &[&str]) -> Vec<TargetCode> {
        let ptx = |name: &str| format!(".version 9.2\n.target {name}\n").into_bytes();
        let code = names.iter().map(|name| {
            let target = Target::parse(name).unwrap();
            TargetCode { target, cubin: format!("cubin for {name}").into_bytes(), ptx: ptx(target.ptx_target) }
        });
        code.collect()
    }

    /// Returns the targets of the PTX in a fatbin for the targets `names`.
    fn ptx_targets(names: &[&str]) -> Vec<String> {
        let fatbin = write_fatbin(&code(names), HostSystem::Linux).unwrap();
        let cubins = cubin::cubins(&fatbin, "k").unwrap();
        assert_eq!(cubins.len(), names.len());
        let modules = cubin::ptx(&fatbin, "k").unwrap();
        modules.iter().map(|ptx| ptx.text.rsplit(' ').next().unwrap().trim().to_string()).collect()
    }

    #[test]
    fn a_fatbin_has_ptx_of_the_newest_target_and_portable_ptx() {
        assert_eq!(ptx_targets(&["sm_80", "sm_89"]), ["sm_89"]);
        assert_eq!(ptx_targets(&["sm_80", "sm_86", "sm_90", "sm_100"]), ["sm_86", "sm_100a"]);
        assert_eq!(ptx_targets(&["sm_90", "sm_120"]), ["sm_120a"]);
    }

    #[test]
    fn default_symbol_is_a_c_identifier_and_an_invalid_symbol_is_an_error() {
        let parsed = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|arg| arg.to_string()).collect();
            common::cl::parse(crate::options::OPTIONS, "tileiras", &args)
        };
        assert_eq!(symbol(&parsed(&[]), "a/my-kernel.v2.tileirbc").unwrap(), "my_kernel_v2_fatbin");
        assert_eq!(symbol(&parsed(&[]), "2d.bc").unwrap(), "_2d_fatbin");
        assert_eq!(symbol(&parsed(&["--symbol=x1"]), "k.bc").unwrap(), "x1");
        assert!(symbol(&parsed(&["--symbol=x-1"]), "k.bc").is_err());
    }

    #[test]
    fn a_c_array_has_the_words_of_the_fatbin() {
        let text = c_array(&[1, 0, 0, 0, 0, 0, 0, 0, 2, 1], "k");
        assert!(text.contains("    0x1ull, 0x102ull,\n};\nconst unsigned long long k_size = 10ull;\n"), "{text}");
    }
}
