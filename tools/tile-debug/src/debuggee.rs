//! The debuggee: the kernel that the user debugs, with its arguments and the source locations of its ops.

use crate::call_stack::{Frame, SourceFile};
use crate::names::VariableNames;
use base::loc::{LocData, ScopeData};
use base::{DebugInfo, Loc};
use common::launch::{Call, ParamType};
use core_dialect::tile::Elem;
use executor::{Kernel, Listing};
use numerics::Scalar;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// An array in memory: a buffer of the launch, a tensor view, or a slice of either.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub(crate) name: String,
    /// The address of the first element.
    pub(crate) base: u64,
    pub(crate) elem: Scalar,
    /// The extents, in elements.
    pub(crate) sizes: Vec<i64>,
    /// The strides, in elements.
    pub(crate) strides: Vec<i64>,
}

/// A kernel with its arguments and its source. It does not change while the debugger runs it.
pub(crate) struct Debuggee<'a> {
    pub(crate) kernel: Kernel<'a>,
    pub(crate) call: Call,
    pub(crate) listing: Listing,
    /// The call stack of each row of the listing, outermost frame first. Empty if the location is unknown.
    pub(crate) frames: Vec<Vec<Frame>>,
    /// For each row, whether the run reaches the op's source line when the op executes. False for a constant on a line with other
    /// ops, because constants execute at the start of the program.
    pub(crate) begins_line: Vec<bool>,
    pub(crate) files: Vec<SourceFile>,
    pub(crate) variable_names: VariableNames,
    /// The buffers of the launch.
    pub(crate) arrays: Vec<Array>,
}

/// Maximum number of frames of a call stack.
const MAX_FRAMES: usize = 64;
/// Maximum number of locations that `call_stack` follows for one op. A malicious file can chain locations without end.
const MAX_LOCATIONS: usize = 4096;

impl<'a> Debuggee<'a> {
    /// Prepares a kernel for debugging. `folders` are the paths of `--source`. If `by_ops` is set, or if no op has a source
    /// location, the listing of the ops replaces the source.
    pub(crate) fn new(kernel: Kernel<'a>, call: Call, folders: &[PathBuf], by_ops: bool) -> Debuggee<'a> {
        let listing = kernel.listing();
        let mut file_names: Vec<String> = Vec::new();
        let mut frames: Vec<Vec<Frame>> = Vec::new();
        if !by_ops {
            frames = listing.rows.iter().map(|row| call_stack(kernel.debug(), row.loc, &kernel.name, &mut file_names)).collect();
        }
        let mut files: Vec<SourceFile> =
            file_names.into_iter().map(|name| SourceFile { path_and_lines: find_source(&name, folders), name }).collect();
        if frames.iter().all(Vec::is_empty) {
            let lines =
                (0..listing.rows.len()).map(|row| format!("{}{}", "  ".repeat(listing.rows[row].depth), listing.op_text(row)));
            let name = format!("{}.ops", kernel.name);
            files = vec![SourceFile { path_and_lines: Some((PathBuf::from(&name), lines.collect())), name }];
            let frame = |row: usize| Frame { file: 0, line: row as u32 + 1, column: 1, function: kernel.name.clone() };
            frames = (0..listing.rows.len()).map(|row| vec![frame(row)]).collect();
        }
        let begins_line = begins_line(&listing, &frames);
        let (arrays, variable_names) = (launch_arrays(&call), VariableNames::new(&listing, &frames, &files));
        Debuggee { kernel, call, listing, frames, begins_line, files, variable_names, arrays }
    }

    /// Returns whether a file of the program has the requested file name. Ignores folders, because the source may have moved.
    pub(crate) fn file_matches(&self, file: usize, requested: &str) -> bool {
        let SourceFile { name, path_and_lines } = &self.files[file];
        let has_file_name = |known: &Path| known.ends_with(requested) || known.file_name() == Path::new(requested).file_name();
        requested.is_empty()
            || has_file_name(Path::new(name))
            || path_and_lines.as_ref().is_some_and(|(path, _)| has_file_name(path))
    }

    /// Returns the file index and number of the first line, at or after `line` in `file`, that has ops.
    pub(crate) fn line_with_code(&self, file: &str, line: u32) -> Option<(usize, u32)> {
        let frames = self.frames.iter().flatten().filter(|frame| frame.line >= line && self.file_matches(frame.file, file));
        frames.map(|frame| (frame.file, frame.line)).min_by_key(|(file, line)| (*line, *file))
    }

    /// Returns the file index and number of the first line with ops in the function `name`.
    pub(crate) fn line_of_function(&self, name: &str) -> Option<(usize, u32)> {
        let frames = self.frames.iter().flatten().filter(|frame| frame.function == name);
        let line_with_name = frames.map(|frame| (frame.file, frame.line)).min_by_key(|(file, line)| (*line, *file));
        // If no location has the name of the function, search for its definition in the source text.
        let defines = |line: &String| {
            let line = line.trim_start();
            let rest = ["def ", "fn "].iter().find_map(|word| line.strip_prefix(word)).and_then(|rest| rest.strip_prefix(name));
            rest.is_some_and(|rest| rest.trim_start().starts_with(['(', '[', '<']))
        };
        line_with_name.or_else(|| {
            let definition = self.files.iter().find_map(|file| {
                let (_, lines) = file.path_and_lines.as_ref()?;
                Some((&file.name, lines.iter().position(defines)? as u32 + 1))
            });
            definition.and_then(|(file, line)| self.line_with_code(file, line))
        })
    }

    /// Returns the text of a line of a source file. Lines are counted from 1.
    pub(crate) fn source_line(&self, file: usize, line: u32) -> Option<&str> {
        let (_, lines) = self.files[file].path_and_lines.as_ref()?;
        lines.get((line as usize).checked_sub(1)?).map(String::as_str)
    }

    /// Returns the source location of a row of the listing, for messages.
    pub(crate) fn location_text(&self, row: usize) -> String {
        match self.frames[row].last() {
            Some(frame) => format!("{}:{}", self.file_name(frame.file), frame.line),
            None => self.kernel.name.clone(),
        }
    }

    /// Returns the file name of a source file, without its folder.
    pub(crate) fn file_name(&self, file: usize) -> &str {
        let name = &self.files[file].name;
        Path::new(name).file_name().and_then(|name| name.to_str()).unwrap_or(name)
    }

    /// Returns the buffer of the launch with this name.
    pub(crate) fn array_named(&self, name: &str) -> Option<&Array> {
        self.arrays.iter().find(|array| array.name == name)
    }
}

/// Computes [`Debuggee::begins_line`]. A constant begins its line only if all ops of the line are constants.
fn begins_line(listing: &Listing, frames: &[Vec<Frame>]) -> Vec<bool> {
    let line = |row: usize| frames[row].iter().map(|frame| (frame.file, frame.line)).collect::<Vec<_>>();
    let is_constant = |row: usize| listing.rows[row].mnemonic == "constant";
    let lines_with_other_ops: BTreeSet<Vec<(usize, u32)>> = (0..frames.len()).filter(|row| !is_constant(*row)).map(line).collect();
    (0..frames.len()).map(|row| !is_constant(row) || !lines_with_other_ops.contains(&line(row))).collect()
}

/// Returns the call stack of a location, outermost frame first. Adds new file names to `file_names`.
fn call_stack(debug: &DebugInfo, loc: Loc, kernel: &str, file_names: &mut Vec<String>) -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut pending = vec![loc];
    for _ in 0..MAX_LOCATIONS {
        let Some(loc) = pending.pop() else { break };
        match debug.locs.get(loc) {
            None | Some(LocData::Unknown) => {}
            Some(LocData::Source { file, line, column, scope }) => {
                let name = &debug.names[*file];
                let file = file_names.iter().position(|known| known == name).unwrap_or_else(|| {
                    file_names.push(name.clone());
                    file_names.len() - 1
                });
                let function = scope.and_then(|scope| function_of_scope(debug, scope)).unwrap_or_else(|| kernel.to_string());
                frames.push(Frame { file, line: *line, column: *column, function });
                if frames.len() == MAX_FRAMES {
                    break;
                }
            }
            Some(LocData::CallSite { callee, caller }) => pending.extend([*caller, *callee]),
            // The position of a fused location is that of its first part with a known position.
            Some(LocData::Fused(parts)) => pending.extend(parts.iter().copied().find(|part| debug.position(*part).is_some())),
        }
    }
    frames.reverse();
    frames
}

/// Returns the name of the subprogram that encloses a scope.
fn function_of_scope(debug: &DebugInfo, mut scope: base::loc::Scope) -> Option<String> {
    loop {
        match debug.scopes.get(scope)? {
            ScopeData::Subprogram { name, .. } => return Some(debug.names[*name].clone()),
            // A scope refers only to earlier scopes, so the loop ends.
            ScopeData::LexicalBlock { scope: outer, .. } => scope = *outer,
            _ => return None,
        }
    }
}

/// Searches for the source file `name` among the paths `folders`, which are folders or files, and then at its path in the debug
/// information. Returns its path and lines.
fn find_source(name: &str, folders: &[PathBuf]) -> Option<(PathBuf, Vec<String>)> {
    let file_name = Path::new(name).file_name()?;
    let candidates = folders.iter().map(|folder| if folder.is_file() { folder.clone() } else { folder.join(file_name) });
    let path = candidates.chain([PathBuf::from(name)]).find(|path| path.is_file() && path.file_name() == Some(file_name))?;
    let text = common::read_file(Some(&path)).ok()?;
    Some((path, String::from_utf8_lossy(&text.bytes).lines().map(str::to_string).collect()))
}

/// Returns the buffers of a launch as arrays. The element type is the pointee type of the parameter that points to the buffer.
/// Without such a parameter, the element type is the type in the launch description, or else i8.
fn launch_arrays(call: &Call) -> Vec<Array> {
    let array_of = |buffer: &common::launch::Buffer| {
        let pointee = call.values.iter().zip(&call.types).find_map(|(value, ty)| match ty {
            ParamType::Pointer(pointee) if *value as u64 == buffer.address => *pointee,
            _ => None,
        });
        let launch_elem = buffer.array.as_ref().and_then(|array| array.element).map(|element| element.scalar);
        let elem = pointee.or(launch_elem).unwrap_or(Scalar::I8);
        let count = buffer.contents.len() as i64 * 8 / i64::from(if elem.bits() == 4 { 4 } else { elem.bytes() * 8 });
        let launch_sizes = buffer.array.as_ref().map(|array| array.shape.iter().map(|extent| *extent as i64).collect::<Vec<_>>());
        let sizes = launch_sizes.filter(|sizes| sizes.iter().product::<i64>() == count).unwrap_or_else(|| vec![count]);
        let mut strides = vec![1; sizes.len()];
        (1..sizes.len()).rev().for_each(|dim| strides[dim - 1] = strides[dim] * sizes[dim]);
        Array { name: buffer.name.clone(), base: buffer.address, elem, sizes, strides }
    };
    call.launch.buffers.iter().map(array_of).collect()
}

/// Returns the name of an element type, for messages.
pub(crate) fn elem_name(elem: Elem) -> String {
    match elem {
        Elem::Scalar(scalar) => scalar.name().to_string(),
        Elem::Ptr { pointee, .. } => format!("ptr<{pointee}>"),
    }
}
