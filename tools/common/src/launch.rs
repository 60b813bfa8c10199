//! `launch.json`: which kernel to run, on which grid, with which memory and arguments. `tile-run` and `tile-sim` share it.
//!
//! The description is not trusted: file names are plain names that stay beside `launch.json` (and outputs inside the output
//! folder), sizes are checked, every pointer names a buffer of the file and no two buffers overlap.

use base::diag::{Diagnostic, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Component, Path};

/// Memory that one launch may ask for in all its buffers.
const MEMORY_LIMIT: u64 = 16 << 30;
/// Where buffers without a fixed address are put.
const FIRST_ADDRESS: u64 = 0x10_0000_0000;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// The kernel's symbol; may be absent when the program has only one.
    pub entry: Option<String>,
    /// Tile blocks per dimension.
    pub grid: [u32; 3],
    pub buffers: Vec<Buffer>,
    /// Flattened kernel parameters, in entry order.
    pub params: Vec<Param>,
    /// Buffers to write back, whole.
    pub outputs: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    pub name: String,
    pub file: String,
    #[serde(default = "default_align")]
    pub align: u64,
    /// The virtual address the simulated memory gives the buffer; chosen by `read` when the file does not say.
    #[serde(default)]
    pub address: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pointers: Vec<Pointer>,
    /// The bytes, with the pointers filled in.
    #[serde(skip)]
    pub data: Vec<u8>,
}

/// An eight-byte slot of a buffer that holds the address of another one.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pointer {
    pub at: u64,
    pub to: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Param {
    Ptr(String),
    I1(bool),
    I8(i64),
    I16(i64),
    I32(i64),
    I64(i64),
    F16(f64),
    Bf16(f64),
    F32(f64),
    F64(f64),
}

fn default_align() -> u64 {
    256
}

impl Launch {
    /// Reads the description and the buffers beside it.
    pub fn read(path: &Path) -> Result<Launch> {
        let text = std::fs::read_to_string(path).map_err(|error| io(path, &error))?;
        let mut launch: Launch =
            serde_json::from_str(&text).map_err(|error| Diagnostic::invalid("LCH001", format!("{}: {error}", path.display())))?;
        launch.check_names()?;
        let folder = path.parent().unwrap_or(Path::new("."));
        launch.load(folder)?;
        launch.place()?;
        launch.fill_pointers()?;
        Ok(launch)
    }

    pub fn buffer(&self, name: &str) -> Result<&Buffer> {
        self.buffers
            .iter()
            .find(|buffer| buffer.name == name)
            .ok_or_else(|| Diagnostic::invalid("LCH002", format!("no buffer is called '{name}'")))
    }

    /// The address that a pointer parameter stands for.
    pub fn address(&self, name: &str) -> Result<u64> {
        Ok(self.buffer(name)?.address)
    }

    /// Writes the outputs as `<folder>/<name>.bin`, from what `memory` says a buffer holds now.
    pub fn write_outputs<'a>(&self, folder: &Path, memory: impl Fn(&str) -> Option<&'a [u8]>) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(|error| io(folder, &error))?;
        for name in &self.outputs {
            let bytes = memory(name).ok_or_else(|| Diagnostic::invalid("LCH002", format!("no buffer is called '{name}'")))?;
            let path = folder.join(format!("{name}.bin"));
            std::fs::write(&path, bytes).map_err(|error| io(&path, &error))?;
        }
        Ok(())
    }

    fn check_names(&self) -> Result<()> {
        let mut names = BTreeSet::new();
        for buffer in &self.buffers {
            plain_name(&buffer.file)?;
            plain_name(&buffer.name)?;
            if !names.insert(buffer.name.as_str()) {
                return Err(Diagnostic::invalid("LCH003", format!("two buffers are called '{}'", buffer.name)));
            }
            if !buffer.align.is_power_of_two() || buffer.address % buffer.align != 0 {
                return Err(Diagnostic::invalid("LCH004", format!("buffer '{}' has a wrong alignment", buffer.name)));
            }
        }
        let pointed = self.params.iter().filter_map(|param| match param {
            Param::Ptr(name) => Some(name),
            _ => None,
        });
        for name in pointed.chain(&self.outputs).chain(self.buffers.iter().flat_map(|b| b.pointers.iter().map(|p| &p.to))) {
            self.buffer(name)?;
        }
        if self.grid.iter().any(|&extent| extent == 0 || extent > 0xff_ffff) {
            return Err(Diagnostic::invalid("LCH005", format!("a grid of {:?} cannot be launched", self.grid)));
        }
        Ok(())
    }

    fn load(&mut self, folder: &Path) -> Result<()> {
        let mut total = 0;
        for buffer in &mut self.buffers {
            let path = folder.join(&buffer.file);
            total += std::fs::metadata(&path).map_err(|error| io(&path, &error))?.len();
            if total > MEMORY_LIMIT {
                return Err(Diagnostic::invalid("LCH006", "the buffers are larger than the memory limit of 16 GiB"));
            }
            buffer.data = std::fs::read(&path).map_err(|error| io(&path, &error))?;
        }
        Ok(())
    }

    /// Gives addresses to buffers without one, and sees that no two overlap.
    pub fn place(&mut self) -> Result<()> {
        let mut next = self.buffers.iter().map(|b| b.address.saturating_add(b.data.len() as u64)).fold(FIRST_ADDRESS, u64::max);
        for buffer in &mut self.buffers {
            if buffer.address == 0 {
                buffer.address = next.saturating_add(0x1000).div_ceil(buffer.align).saturating_mul(buffer.align);
                next = buffer.address.saturating_add(buffer.data.len() as u64);
            }
        }
        let mut ranges: Vec<_> = self.buffers.iter().map(|b| (b.address, b.data.len() as u64, &b.name)).collect();
        ranges.sort();
        let overlap = ranges.windows(2).find(|pair| pair[0].0.checked_add(pair[0].1).is_none_or(|end| end > pair[1].0));
        match overlap {
            Some(pair) => Err(Diagnostic::invalid("LCH007", format!("buffers '{}' and '{}' overlap", pair[0].2, pair[1].2))),
            None => Ok(()),
        }
    }

    fn fill_pointers(&mut self) -> Result<()> {
        for index in 0..self.buffers.len() {
            for pointer in self.buffers[index].pointers.clone() {
                let address = self.address(&pointer.to)?;
                let buffer = &mut self.buffers[index];
                let slot = usize::try_from(pointer.at).ok().and_then(|at| buffer.data.get_mut(at..at.checked_add(8)?));
                let Some(slot) = slot else {
                    return Err(Diagnostic::invalid("LCH008", format!("a pointer lies outside buffer '{}'", buffer.name)));
                };
                slot.copy_from_slice(&address.to_le_bytes());
            }
        }
        Ok(())
    }
}

/// Refuses every name that could lead out of the folder it is joined to.
fn plain_name(name: &str) -> Result<()> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(part)), None) if part == name => Ok(()),
        _ => Err(Diagnostic::invalid("LCH009", format!("'{name}' is not a plain file name"))),
    }
}

fn io(path: &Path, error: &std::io::Error) -> Box<Diagnostic> {
    Diagnostic::io("LCH010", format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str, json: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("tileworks-launch-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("a.bin"), [0; 16]).unwrap();
        std::fs::write(folder.join("launch.json"), json).unwrap();
        folder
    }

    #[test]
    fn reads_places_and_fills() {
        let json = r#"{"entry": null, "grid": [1, 1, 1], "outputs": ["a"], "params": [{"ptr": "a"}, {"i32": -1}, {"f32": 0.5}],
            "buffers": [{"name": "a", "file": "a.bin", "align": 256, "address": 4096, "pointers": [{"at": 8, "to": "b"}]},
                        {"name": "b", "file": "a.bin"}]}"#;
        let launch = Launch::read(&folder("good", json).join("launch.json")).unwrap();
        assert_eq!(launch.address("a").unwrap(), 4096);
        let b = launch.address("b").unwrap();
        assert_eq!(launch.buffers[0].data[8..], b.to_le_bytes());
        assert_eq!(launch.params[1..], [Param::I32(-1), Param::F32(0.5)]);
    }

    #[test]
    fn refuses_what_leaves_the_folder() {
        for name in ["../a.bin", "/etc/passwd", "x/a.bin", "..", "."] {
            let json = format!(
                r#"{{"entry": null, "grid": [1, 1, 1], "outputs": [], "params": [], "buffers": [{{"name": "a", "file": "{name}"}}]}}"#
            );
            let error = Launch::read(&folder("bad", &json).join("launch.json")).unwrap_err();
            assert_eq!(error.code, "LCH009", "{name}");
        }
    }

    #[test]
    fn refuses_overlaps_and_unknown_names() {
        let with = |buffers: &str, outputs: &str| {
            let json = format!(r#"{{"entry": null, "grid": [1, 1, 1], "outputs": {outputs}, "params": [], "buffers": {buffers}}}"#);
            Launch::read(&folder("names", &json).join("launch.json")).unwrap_err().code
        };
        assert_eq!(with(r#"[{"name": "a", "file": "a.bin"}]"#, r#"["b"]"#), "LCH002");
        let two = r#"[{"name": "a", "file": "a.bin", "align": 8, "address": 4096}, {"name": "b", "file": "a.bin", "align": 8, "address": 4104}]"#;
        assert_eq!(with(two, "[]"), "LCH007");
    }
}
