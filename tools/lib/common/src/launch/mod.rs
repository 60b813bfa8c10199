//! Launches: the kernel, its grid, memory and arguments. `tile-run`, `tile-sim`, `tile-time` and `tile-launch` share the parsing of
//! `launch.json` and command-line arguments, the checks, and the writing of outputs.
//!
//! [`Launch`] is the description. [`Launch::call`] checks it against a kernel and a target and returns a [`Call`]. It rejects
//! numbers that do not fit the types of their parameters, arrays whose element type does not fit the kernel's pointee type, and
//! invalid grids.
//!
//! The description is untrusted. The names of input files and buffers must be plain file names, so that the tools read only from
//! the folder of `launch.json` and write only to the output folder. Sizes are checked, every pointer names a buffer of the
//! description, and no two buffers overlap.

mod command_line;
mod contents;
mod element;
mod extents;
mod fill;
mod npy;
mod options;
mod outputs;
mod params;

pub use contents::Contents;
pub use element::Element;
pub use extents::{ByTarget, Extents};
pub use fill::{Fill, PlainFill};
pub use npy::ArrayType;
pub use options::LaunchOptions;
pub use outputs::nested_list;
pub use params::{Param, ParamType};

use base::Target;
use base::diag::{Diagnostic, Place, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Component, Path};

/// The maximum total size of the buffers of one launch, in bytes.
const MEMORY_LIMIT: u64 = 16 << 30;
/// Lower bound of the addresses that [`Launch::parse`] assigns to buffers without a fixed address.
const FIRST_ADDRESS: u64 = 0x10_0000_0000;

/// The description of a launch, as in `launch.json`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// The kernel's symbol; optional if the program has a single kernel.
    #[serde(default)]
    pub entry: Option<String>,
    /// Tile blocks per dimension.
    #[serde(default)]
    pub grid: ByTarget<Extents>,
    #[serde(default)]
    pub buffers: Vec<Buffer>,
    /// The arguments for the kernel's parameters, in order. An extent or stride of an array that is a
    /// parameter of the kernel has an argument of its own.
    pub params: Vec<Param>,
    /// The buffers to write to the output folder after the launch; by default all buffers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Vec<String>>,
    /// The algorithmic work of the launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// Tile blocks that represent the full grid; the first is the most typical.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_blocks: Option<ByTarget<Vec<Extents>>>,
}

/// A buffer in global memory, with its initial contents.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    pub name: String,
    /// The file with the initial contents, as raw bytes or in the format `.npy`. It is in the folder of the description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The size in bytes. A buffer with a fill needs `bytes` or `array`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The array type, from the description or from the `.npy` file.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayType>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill: Option<Fill>,
    /// The alignment of the address, in bytes: a power of two.
    #[serde(default = "default_align")]
    pub align: u64,
    /// The virtual address of the buffer in simulated memory. If the description has none, [`Launch::parse`] assigns one.
    #[serde(default)]
    pub address: u64,
    /// The pointers to other buffers that this buffer contains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pointers: Vec<Pointer>,
    /// The initial bytes, including the addresses that `pointers` describes.
    #[serde(skip)]
    pub contents: Contents,
}

/// An eight-byte location in a buffer that holds the address of another buffer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pointer {
    /// The offset of the location, in bytes.
    pub at: u64,
    /// The name of the other buffer.
    pub to: String,
}

/// The algorithmic work of a launch, independent of the generated code.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// The floating-point operations of the algorithm in the full grid.
    pub flops: f64,
    /// The compulsory traffic of global memory in bytes: each input is read once, and each output is written once.
    pub bytes: f64,
    /// The problem size in words, which the tools ignore.
    #[serde(default)]
    pub shape: String,
    /// A comment, which the tools ignore.
    #[serde(default)]
    pub note: String,
}

/// A launch that has been checked against a kernel and a target.
#[derive(Clone, Debug)]
pub struct Call {
    /// Tile blocks per dimension.
    pub grid: [u32; 3],
    /// The indices of the tile blocks to run. `None` means the full grid.
    pub blocks: Option<Vec<[u32; 3]>>,
    /// The arguments, one per parameter: integers sign-extended, floats as their bits, pointers as addresses.
    pub values: Vec<i64>,
    /// The declared types of the kernel's parameters.
    pub types: Vec<ParamType>,
    pub launch: Launch,
}

/// Returns the error for a description that does not parse, with the location of the error.
fn parse_error(text: &str, name: &str, error: &serde_json::Error) -> Box<Diagnostic> {
    let (line, column) = (error.line(), error.column());
    let message = error.to_string();
    let message = message.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&message);
    let excerpt = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    let is_comment = excerpt.get(column.saturating_sub(1)..).is_some_and(|rest| rest.starts_with(['/', '#']));
    let message = if is_comment { "JSON has no comments" } else { message };
    let place = Place::Text { file: name.into(), line: line as u32, column: column as u32, excerpt: excerpt.into() };
    let error = Diagnostic::invalid("LCH001", format!("the launch description does not parse: {message}")).at(place);
    error.note("docs/launch-files.md lists the fields")
}

/// The maximum size of a description, in bytes.
const MAX_DESCRIPTION_BYTES: u64 = 64 << 20;

/// Returns the alignment in bytes of a buffer without a stated alignment. `cudaMalloc` guarantees this alignment.
fn default_align() -> u64 {
    256
}

impl Launch {
    /// Reads the description and the files of its buffers.
    pub fn read(path: &Path) -> Result<Launch> {
        let file = std::fs::File::open(path).map_err(|error| io_error(path, &error))?;
        let bytes = crate::read_at_most(file, &path.display().to_string(), MAX_DESCRIPTION_BYTES)?;
        let text =
            String::from_utf8(bytes).map_err(|_| Diagnostic::invalid("LCH001", format!("{}: it is not text", path.display())))?;
        Launch::parse(&text, &path.display().to_string(), path.parent().unwrap_or(Path::new(".")))
    }

    /// Parses a description and reads the files of its buffers from `folder`. `name` is the name of the description for messages.
    pub fn parse(text: &str, name: &str, folder: &Path) -> Result<Launch> {
        let mut launch: Launch = serde_json::from_str(text).map_err(|error| parse_error(text, name, &error))?;
        launch.check_buffers()?;
        launch.load_contents(folder)?;
        launch.assign_addresses()?;
        launch.write_pointer_addresses()?;
        Ok(launch)
    }

    /// Checks the launch against a kernel with these parameter types. Without a target, a target-dependent grid is an error.
    pub fn call(self, kernel: &str, types: &[ParamType], target: Option<Target>) -> Result<Call> {
        let values = params::argument_values(&self, kernel, types)?;
        let grid = self.grid.for_target(target, "grid")?.0;
        Ok(Call { grid, blocks: None, values, types: types.to_vec(), launch: self })
    }

    /// Assigns new addresses to the buffers, in order, and updates the pointers in their contents.
    pub fn move_buffers(&mut self, addresses: &[u64]) -> Result<()> {
        for (buffer, address) in self.buffers.iter_mut().zip(addresses) {
            buffer.address = *address;
        }
        self.write_pointer_addresses()
    }

    /// Returns the buffer with this name.
    pub fn buffer(&self, name: &str) -> Result<&Buffer> {
        self.buffers
            .iter()
            .find(|buffer| buffer.name == name)
            .ok_or_else(|| Diagnostic::invalid("LCH002", format!("no buffer is called '{name}'")))
    }

    /// Returns the address of the buffer with this name.
    pub fn address(&self, name: &str) -> Result<u64> {
        Ok(self.buffer(name)?.address)
    }

    /// Returns the names of the buffers to write to the output folder.
    pub fn output_names(&self) -> Vec<&str> {
        match &self.outputs {
            Some(names) => names.iter().map(String::as_str).collect(),
            None => self.buffers.iter().map(|buffer| buffer.name.as_str()).collect(),
        }
    }

    /// Checks that the names of the buffers are plain and unique, that addresses are aligned, and that pointers, parameters and
    /// outputs name buffers of the description.
    fn check_buffers(&self) -> Result<()> {
        let mut names = BTreeSet::new();
        for buffer in &self.buffers {
            check_plain_name(&buffer.name)?;
            if !names.insert(buffer.name.as_str()) {
                return Err(Diagnostic::invalid("LCH003", format!("two buffers are called '{}'", buffer.name)));
            }
            if !buffer.align.is_power_of_two() || buffer.address % buffer.align != 0 {
                let reason = "its alignment is not a power of two, or its address is not a multiple of the alignment";
                return Err(Diagnostic::invalid("LCH004", format!("buffer '{}': {reason}", buffer.name)));
            }
        }
        let pointer_names = self.params.iter().filter_map(|param| match param {
            Param::Ptr(name) => Some(name),
            _ => None,
        });
        let outputs = self.outputs.iter().flatten();
        for name in pointer_names.chain(outputs).chain(self.buffers.iter().flat_map(|b| b.pointers.iter().map(|p| &p.to))) {
            self.buffer(name)?;
        }
        Ok(())
    }

    /// Reads or fills the contents of all buffers. Returns an error if the contents together exceed `MEMORY_LIMIT`.
    fn load_contents(&mut self, folder: &Path) -> Result<()> {
        let mut total_bytes = 0;
        for buffer in &mut self.buffers {
            let remaining_bytes = MEMORY_LIMIT - total_bytes;
            buffer.load_contents(folder, remaining_bytes)?;
            total_bytes += buffer.contents.len() as u64;
        }
        Ok(())
    }

    /// Assigns addresses to buffers without one, with a gap between them. Checks that no two buffers overlap.
    fn assign_addresses(&mut self) -> Result<()> {
        let mut next_address =
            self.buffers.iter().map(|b| b.address.saturating_add(b.contents.len() as u64)).fold(FIRST_ADDRESS, u64::max);
        for buffer in &mut self.buffers {
            if buffer.address == 0 {
                buffer.address = next_address.saturating_add(0x1000).div_ceil(buffer.align).saturating_mul(buffer.align);
                next_address = buffer.address.saturating_add(buffer.contents.len() as u64);
            }
        }
        let mut ranges: Vec<_> = self.buffers.iter().map(|b| (b.address, b.contents.len() as u64, &b.name)).collect();
        ranges.sort();
        let overlap = ranges.windows(2).find(|pair| pair[0].0.checked_add(pair[0].1).is_none_or(|end| end > pair[1].0));
        match overlap {
            Some(pair) => Err(Diagnostic::invalid("LCH007", format!("buffers '{}' and '{}' overlap", pair[0].2, pair[1].2))),
            None => Ok(()),
        }
    }

    /// Writes the addresses that the pointers describe into the contents of the buffers.
    fn write_pointer_addresses(&mut self) -> Result<()> {
        for index in 0..self.buffers.len() {
            for pointer in self.buffers[index].pointers.clone() {
                let address = self.address(&pointer.to)?;
                let buffer = &mut self.buffers[index];
                let size = buffer.contents.len();
                let end = pointer.at.checked_add(8).filter(|end| *end <= size as u64);
                if end.is_none() {
                    return Err(Diagnostic::invalid("LCH008", format!("an entry of 'pointers' is outside '{}'", buffer.name)));
                }
                let at = pointer.at as usize;
                buffer.contents.bytes_mut(at..at + 8).copy_from_slice(&address.to_le_bytes());
            }
        }
        Ok(())
    }
}

impl Buffer {
    /// Creates a buffer whose contents are in a file. Does not read the file.
    pub fn from_file(name: &str, file: &str) -> Buffer {
        Buffer { name: name.into(), file: Some(file.into()), align: default_align(), ..Buffer::default() }
    }
    /// Creates a buffer with a fill. Does not generate the contents.
    pub(super) fn from_fill(name: &str, array: ArrayType, fill: Fill) -> Buffer {
        Buffer { name: name.into(), array: Some(array), fill: Some(fill), align: default_align(), ..Buffer::default() }
    }

    /// Returns whether the buffer has the fill `empty`, so that its contents are uninitialized before the kernel runs.
    pub fn is_uninitialized(&self) -> bool {
        self.fill.as_ref().is_some_and(Fill::is_uninitialized)
    }

    /// Reads or fills the contents of the buffer. Returns an error if they need more than `remaining_bytes`.
    fn load_contents(&mut self, folder: &Path, remaining_bytes: u64) -> Result<()> {
        let buffer_error = |reason: &str| Diagnostic::invalid("LCH011", format!("buffer '{}': {reason}", self.name));
        let file = match (&self.file, &self.fill) {
            (Some(file), None) => Some(file),
            (None, Some(Fill::File { file })) => Some(file),
            (None, Some(_)) => None,
            _ => return Err(buffer_error("specify either its file, or its size (bytes or type) and a fill")),
        };
        if let Some(file) = file {
            check_plain_name(file)?;
            let path = folder.join(file);
            if std::fs::metadata(&path).map_err(|error| io_error(&path, &error))?.len() > remaining_bytes {
                return Err(too_large());
            }
            let opened_file = std::fs::File::open(&path).map_err(|error| io_error(&path, &error))?;
            let bytes = crate::read_at_most(opened_file, &path.display().to_string(), remaining_bytes)?;
            let size = self.expected_bytes()?;
            if file.ends_with(".npy") {
                let (array, data) = npy::parse_npy(bytes, &path.display().to_string())?;
                if self.array.as_ref().is_some_and(|stated| (&stated.descr, &stated.shape) != (&array.descr, &array.shape)) {
                    return Err(buffer_error(&format!("the file holds {array}")));
                }
                // A type in the description takes precedence over the type in the file, because numpy lacks types such as bfloat16.
                self.array.get_or_insert(array);
                self.contents = data.into();
            } else {
                self.contents = bytes.into();
            }
            return match size {
                Some(size) if size != self.contents.len() as u64 => {
                    Err(buffer_error(&format!("it has {size} bytes, its file {}", self.contents.len())))
                }
                _ => Ok(()),
            };
        }
        let size = self.expected_bytes()?.ok_or_else(|| buffer_error("a fill needs a size: specify bytes or type"))?;
        if size > remaining_bytes {
            return Err(too_large());
        }
        let fill = self.fill.clone().ok_or_else(|| buffer_error("it has no fill"))?;
        self.contents = Contents::filled(fill, size as usize)?;
        Ok(())
    }

    /// Returns the size in bytes that the description states, by its field `bytes` or by the type. Returns an error if the two
    /// differ.
    fn expected_bytes(&self) -> Result<Option<u64>> {
        let type_bytes = match &self.array {
            Some(array) => Some(array.bytes().ok_or_else(too_large)? as u64),
            None => None,
        };
        match (self.bytes, type_bytes) {
            (Some(bytes), Some(type_bytes)) if bytes != type_bytes => {
                Err(Diagnostic::invalid("LCH011", format!("buffer '{}': its type has {type_bytes} bytes, not {bytes}", self.name)))
            }
            (bytes, type_bytes) => Ok(bytes.or(type_bytes)),
        }
    }
}

/// Returns the error for buffers that exceed `MEMORY_LIMIT`.
fn too_large() -> Box<Diagnostic> {
    Diagnostic::invalid("LCH006", "the buffers are larger than the memory limit of 16 GiB")
}

/// Fails for a name that is not a single path component, because joined to a folder it could name a file elsewhere.
fn check_plain_name(name: &str) -> Result<()> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(part)), None) if part == name => Ok(()),
        _ => Err(Diagnostic::invalid("LCH009", format!("'{name}' is not a plain file name"))),
    }
}

fn io_error(path: &Path, error: &std::io::Error) -> Box<Diagnostic> {
    Diagnostic::io("LCH010", format!("{}: {}", path.display(), crate::os_error_text(error)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use numerics::Scalar;

    /// Returns a folder with a description and a file `a.bin` of 16 zero bytes.
    fn launch_folder(json: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.bin"), [0; 16]).unwrap();
        std::fs::write(folder.path().join("launch.json"), json).unwrap();
        folder
    }
    fn read_launch(json: &str) -> Result<Launch> {
        Launch::read(&launch_folder(json).path().join("launch.json"))
    }
    fn read_buffers(buffers: &str) -> Result<Launch> {
        read_launch(&format!(r#"{{"params": [], "buffers": {buffers}}}"#))
    }

    #[test]
    fn reads_parameters_addresses_and_pointers() {
        let json = r#"{"entry": null, "grid": [1, 1, 1], "outputs": ["a"], "params": [{"ptr": "a"}, {"i32": -1}, {"f32": 0.5}],
            "buffers": [{"name": "a", "file": "a.bin", "align": 256, "address": 4096, "pointers": [{"at": 8, "to": "b"}]},
                        {"name": "b", "file": "a.bin"}]}"#;
        let mut launch = read_launch(json).unwrap();
        assert_eq!(launch.address("a").unwrap(), 4096);
        let b = launch.address("b").unwrap();
        assert_eq!(launch.buffers[0].contents.bytes_mut(8..16), b.to_le_bytes());
        assert_eq!(launch.params[1..], [Param::I32(-1), Param::F32(0.5)]);
    }

    #[test]
    fn files_outside_the_folder_are_rejected() {
        for name in ["../a.bin", "/etc/passwd", "x/a.bin", "..", "."] {
            assert_eq!(read_buffers(&format!(r#"[{{"name": "a", "file": "{name}"}}]"#)).unwrap_err().code, "LCH009", "{name}");
            let fill = format!(r#"[{{"name": "a", "bytes": 16, "fill": {{"file": "{name}"}}}}]"#);
            assert_eq!(read_buffers(&fill).unwrap_err().code, "LCH009", "{name}");
        }
    }

    #[test]
    fn overlaps_and_unknown_names_are_rejected() {
        let overlapping = r#"[{"name": "a", "file": "a.bin", "align": 8, "address": 4096}, {"name": "b", "file": "a.bin", "align": 8, "address": 4104}]"#;
        assert_eq!(read_buffers(overlapping).unwrap_err().code, "LCH007");
        let unknown = r#"{"params": [], "outputs": ["b"], "buffers": [{"name": "a", "file": "a.bin"}]}"#;
        assert_eq!(read_launch(unknown).unwrap_err().code, "LCH002");
    }

    #[test]
    fn buffers_are_filled_and_all_are_outputs_unless_some_are_named() {
        let launch = read_buffers(
            r#"[{"name": "a", "bytes": 1073741824, "fill": {"random": "f16", "seed": 1, "scale": 1}},
                {"name": "b", "type": "f32[4, 8]", "fill": "empty"}, {"name": "c", "bytes": 16, "fill": {"file": "a.bin"}},
                {"name": "d", "type": "i32[2]", "fill": {"constant": "i32", "value": -1}}]"#,
        );
        let mut launch = launch.unwrap();
        assert_eq!(launch.buffers.iter().map(|b| b.contents.len()).collect::<Vec<_>>(), [1 << 30, 128, 16, 8]);
        assert_eq!(launch.buffers[3].contents.bytes_mut(0..8), [255; 8]);
        assert_eq!(launch.buffers.iter().map(Buffer::is_uninitialized).collect::<Vec<_>>(), [false, true, false, false]);
        assert_eq!(launch.output_names(), ["a", "b", "c", "d"]);
        assert_eq!(launch.grid.for_target(None, "grid").unwrap().0, [1, 1, 1]);
    }

    #[test]
    fn a_buffer_has_a_file_or_a_fill_and_one_size() {
        for invalid in [
            r#"[{"name": "a"}]"#,
            r#"[{"name": "a", "bytes": 16}]"#,
            r#"[{"name": "a", "fill": "zero"}]"#,
            r#"[{"name": "a", "file": "a.bin", "fill": "zero"}]"#,
            r#"[{"name": "a", "file": "a.bin", "bytes": 8}]"#,
            r#"[{"name": "a", "type": "f32[4]", "bytes": 8, "fill": "zero"}]"#,
        ] {
            assert_eq!(read_buffers(invalid).unwrap_err().code, "LCH011", "{invalid}");
        }
        assert_eq!(read_buffers(r#"[{"name": "a", "bytes": 99999999999, "fill": "zero"}]"#).unwrap_err().code, "LCH006");
        assert_eq!(read_buffers(r#"[{"name": "a", "type": "f32[4", "fill": "zero"}]"#).unwrap_err().code, "LCH001");
    }

    #[test]
    fn a_grid_is_a_number_a_list_or_one_value_per_target() {
        let grid = |json: &str, target| {
            read_launch(&format!(r#"{{"params": [], "grid": {json}}}"#))?.call("k", &[], target).map(|call| call.grid)
        };
        assert_eq!(grid("7", None).unwrap(), [7, 1, 1]);
        assert_eq!(grid("[7]", None).unwrap(), [7, 1, 1]);
        assert_eq!(grid("[7, 2]", None).unwrap(), [7, 2, 1]);
        let by_target = r#"{"sm_80": 108, "sm_90": [132, 1, 1], "sm_100": [148]}"#;
        assert_eq!(grid(by_target, Target::parse("sm_90")).unwrap(), [132, 1, 1]);
        assert_eq!(grid(by_target, Target::parse("sm_103")).unwrap(), [148, 1, 1]);
        assert_eq!(grid(by_target, Target::parse("sm_89")).unwrap(), [108, 1, 1]);
        assert_eq!(grid(by_target, None).unwrap_err().code, "LCH005");
        assert_eq!(grid(r#"{"sm_90": 1}"#, Target::parse("sm_80")).unwrap_err().code, "LCH005");
        for invalid in ["0", "[1, 0]", "[1, 1, 1, 1]", "\"1\"", "16777216", "{\"sm90\": 1}"] {
            assert_eq!(grid(invalid, None).unwrap_err().code, "LCH001", "{invalid}");
        }
    }

    #[test]
    fn numpy_arrays_must_match_the_pointer_type() {
        let folder = launch_folder(r#"{"params": [{"ptr": "a"}], "buffers": [{"name": "a", "file": "a.npy"}]}"#);
        let array = ArrayType::parse("f16[2, 4]").unwrap();
        std::fs::write(folder.path().join("a.npy"), [array.header(), vec![1; 16]].concat()).unwrap();
        let read_again = || Launch::read(&folder.path().join("launch.json")).unwrap();
        let launch = read_again();
        assert_eq!(
            (launch.buffers[0].contents.len(), launch.buffers[0].array.as_ref().unwrap().to_string()),
            (16, "'<f2'[2, 4]".into())
        );
        assert!(launch.call("k", &[ParamType::Pointer(Some(Scalar::F16))], None).is_ok());
        assert!(read_again().call("k", &[ParamType::Pointer(None)], None).is_ok());
        for other in [Scalar::F32, Scalar::BF16, Scalar::I16] {
            assert_eq!(read_again().call("k", &[ParamType::Pointer(Some(other))], None).unwrap_err().code, "LCH013");
        }
    }
}
