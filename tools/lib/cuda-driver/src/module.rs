//! Modules: an image (cubin, fatbin or PTX) that the client loads, the program in the image, and the kernels of the program.

use crate::config::Stage;
use crate::program_source::Source;
use crate::status::failure_from;
use crate::status::{Failure, Result, Status};
use crate::variables::Variables;
use base::diag::Diagnostic;
use base::envelope::{Sniffed, sniff};
use common::launch::ParamType;
use executor::ProgramFile;
use simulator::program::Program;
use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};

/// Size limit of an image, in bytes.
const MAX_IMAGE_BYTES: u64 = 1 << 30;
/// The first word of a fatbin.
const FATBIN_MAGIC: u32 = 0xba55_ed50;
/// The first word of the wrapper structure that points to a fatbin.
const FATBIN_WRAPPER_MAGIC: u32 = 0x4662_43b1;
/// Maximum number of decoded kernels that a module caches.
const MAX_DECODED_KERNELS: usize = 64;

/// A loaded module. The driver API has modules and libraries. This library accepts the handle of a library as the handle of a
/// module, and the reverse.
pub(crate) struct Library {
    pub(crate) source: Source,
    pub(crate) kernels: Vec<String>,
    pub(crate) variables: Variables,
    /// The cache of decoded PTX kernels.
    decoded_kernels: Mutex<BTreeMap<DecodedKey, Arc<Program>>>,
}

/// The name of a kernel, the CTA extents of the launch unless the kernel requires extents, and the bytes of dynamic shared memory.
type DecodedKey = (String, Option<[u32; 3]>, u32);

/// A kernel of a module.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) library: Arc<Library>,
    pub(crate) name: String,
    pub(crate) c_name: CString,
    pub(crate) params: Vec<Param>,
    /// Bytes of static shared memory that the kernel declares.
    pub(crate) shared_bytes: u32,
    /// Bytes of local memory of each thread.
    pub(crate) local_bytes: u32,
    /// The CTA extents that the kernel requires. `None` if the kernel requires none.
    pub(crate) block: Option<[u32; 3]>,
    /// Maximum bytes of dynamic shared memory of a launch. Clients can raise this maximum.
    pub(crate) max_dynamic_shared_bytes: AtomicU32,
}

/// A parameter that launches pass, unlike the hidden parameters that the compiler adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Param {
    pub(crate) offset: u32,
    pub(crate) bytes: u32,
    /// The type, which determines how the value extends to 64 bits. `None` for a structure.
    pub(crate) ty: Option<ParamType>,
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "library of {}", self.kernels.join(", "))
    }
}

impl Library {
    /// Loads the program of an image. If the image has several programs, `stage` selects one.
    pub(crate) fn load(image: &[u8], name: &str, stage: Stage) -> Result<Library> {
        let files = programs_in(image, name)?;
        let is_ptx = |file: &&Vec<u8>| sniff(file) == Sniffed::Ptx;
        let chosen = match stage {
            Stage::Program => files.iter().find(|file| !is_ptx(file)).or(files.first()),
            Stage::Ptx => files.iter().find(is_ptx),
        };
        let Some(file) = chosen else {
            return Err(Status::NoBinaryForGpu.because(format!(
                "{name} has no PTX for TILEWORKS_STAGE=ptx: compile it with `tileworks run --stage ptx`, or with the driver `tileiras`"
            )));
        };
        if is_ptx(&file) { Library::from_ptx(file, name) } else { Library::from_program(file, name) }
    }

    /// Returns a library whose variables are not yet allocated.
    fn new(source: Source, kernels: Vec<String>) -> Library {
        Library { source, kernels, variables: Variables::default(), decoded_kernels: Mutex::default() }
    }

    /// Loads Tile IR or a stage file.
    fn from_program(file: &[u8], name: &str) -> Result<Library> {
        let producer = concat!("cuda-driver ", env!("CARGO_PKG_VERSION"));
        let input = ProgramFile::open(file, name, producer).map_err(|error| failure_from(Status::InvalidImage, &error))?;
        let kernels = input.kernel_names().into_iter().map(str::to_string).collect();
        Ok(Library::new(Source::Program(Box::new(input)), kernels))
    }

    /// Loads PTX. Its kernels are the entries with a body.
    fn from_ptx(file: &[u8], name: &str) -> Result<Library> {
        let (module, text) = ptx::open(file, name).map_err(|error| failure_from(Status::InvalidPtx, &error))?;
        let kernels = module.items.iter().filter_map(|item| match item {
            ptx::Item::Function(function) if function.entry && function.body.is_some() => Some(function.name.clone()),
            _ => None,
        });
        let kernels = kernels.collect();
        let text = text.to_string();
        Ok(Library::new(Source::Ptx { module: Box::new(module), text }, kernels))
    }

    /// Returns the kernel with this name.
    pub(crate) fn function(self: &Arc<Library>, name: &str) -> Result<Function> {
        if !self.kernels.iter().any(|kernel| kernel == name) {
            let message = format!("no kernel is named '{name}'; the module has: {}", self.kernels.join(", "));
            return Err(Status::NotFound.because(message));
        }
        let library = self.clone();
        let (params, shared_bytes, local_bytes, block) = match &self.source {
            Source::Program(input) => {
                let kernel = input.kernel(Some(name)).map_err(|error| failure_from(Status::InvalidImage, &error))?;
                let params = kernel.param_types().into_iter().scan(0, |end: &mut u32, ty| {
                    let bytes = param_bytes(&ty);
                    let offset = end.next_multiple_of(bytes);
                    *end = offset + bytes;
                    Some(Param { offset, bytes, ty: Some(ty) })
                });
                (params.collect(), 0, 0, Some([1; 3]))
            }
            Source::Ptx { .. } => {
                let program = self.program(name, None, 0)?;
                let params = program.visible_params().map(|slot| Param { offset: slot.offset, bytes: slot.bytes, ty: slot.ty });
                let block = self.required_block(name);
                (params.collect(), program.shared_bytes, program.local_bytes, block)
            }
        };
        let c_name = CString::new(name).map_err(|_| Status::InvalidValue)?;
        Ok(Function {
            library,
            name: name.into(),
            c_name,
            params,
            shared_bytes,
            local_bytes,
            block,
            max_dynamic_shared_bytes: AtomicU32::new(48 << 10),
        })
    }

    /// Returns the decoded kernel of a PTX module. Decodes the kernel if it is not in the cache.
    pub(crate) fn program(&self, name: &str, block: Option<[u32; 3]>, dynamic_shared_bytes: u32) -> Result<Arc<Program>> {
        let Source::Ptx { module, text } = &self.source else { return Err(Status::InvalidValue.into()) };
        let key = (name.to_string(), block, dynamic_shared_bytes);
        let mut decoded = self.decoded_kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = decoded.get(&key) {
            return Ok(program.clone());
        }
        let sizes = simulator::LaunchSizes { block, dynamic_shared: Some(dynamic_shared_bytes) };
        let program =
            simulator::decode_with_variables(module, Some(name), sizes, &self.variables.addresses()).map_err(|fault| {
                let diagnostic = fault.diagnostic("the module's PTX", text);
                failure_from(crate::status::status_of_fault(&diagnostic), &diagnostic)
            })?;
        if decoded.len() >= MAX_DECODED_KERNELS {
            decoded.clear();
        }
        let program = Arc::new(program);
        decoded.insert(key, program.clone());
        Ok(program)
    }

    /// Returns the CTA extents that `.reqntid` of a PTX kernel requires.
    fn required_block(&self, name: &str) -> Option<[u32; 3]> {
        let Source::Ptx { module, .. } = &self.source else { return None };
        let function = module.items.iter().find_map(|item| match item {
            ptx::Item::Function(function) if function.entry && function.name == name => Some(function),
            _ => None,
        })?;
        function.directive("reqntid").is_some().then(|| self.program(name, None, 0).ok().map(|program| program.block_dim)).flatten()
    }
}

/// Returns the size in bytes of a parameter of a Tile IR kernel.
fn param_bytes(ty: &ParamType) -> u32 {
    match ty {
        ParamType::Pointer(_) => 8,
        ParamType::Scalar(scalar) => scalar.bits().div_ceil(8).next_power_of_two(),
        ParamType::Bits(bits) => bits.div_ceil(8),
    }
}

/// Returns the programs in an image: bytecode, stage files and PTX.
fn programs_in(image: &[u8], name: &str) -> Result<Vec<Vec<u8>>> {
    let invalid = |error: Box<Diagnostic>| failure_from(Status::InvalidImage, &error);
    if cubin::is_fatbin(image) {
        let mut files = Vec::new();
        for cubin in cubin::cubins(image, name).map_err(invalid)? {
            files.extend(cubin::program::program_files(&cubin, name).map_err(invalid)?);
        }
        files.extend(cubin::ptx(image, name).map_err(invalid)?.into_iter().map(|ptx| ptx.text.into_bytes()));
        return if files.is_empty() { Err(no_program_error(name)) } else { Ok(files) };
    }
    match sniff(image) {
        Sniffed::Elf => {
            let files = cubin::program::program_files(image, name).map_err(invalid)?;
            if files.is_empty() { Err(no_program_error(name)) } else { Ok(files) }
        }
        Sniffed::Ptx | Sniffed::Bytecode | Sniffed::Stage { .. } => Ok(vec![image.to_vec()]),
        Sniffed::Text | Sniffed::Other => Err(Status::InvalidImage.because(format!("{name} is not a cubin, a fatbin or PTX"))),
    }
}

/// Returns the error for an image that contains only machine code.
fn no_program_error(name: &str) -> Failure {
    Status::NoBinaryForGpu.because(format!(
        "{name} has machine code, but no program that a CPU can execute. Compile it with this project's `tileiras`, which `tileworks run` \
         puts first in PATH, or load PTX"
    ))
}

/// Copies the image at an address of this process. The headers of the image state its size, and may be wrong. The function
/// therefore reads `/proc/self/mem`, so that an access to unmapped memory is an error instead of a crash.
pub(crate) fn read_image(image: *const c_void) -> Result<Vec<u8>> {
    let memory = std::fs::File::open("/proc/self/mem").map_err(|error| Status::OperatingSystem.because(error.to_string()))?;
    read_from(&memory, image as u64, false)
}

/// Reads the image at an address. `in_wrapper` states whether the wrapper structure of a fatbin points to the image.
fn read_from(memory: &std::fs::File, address: u64, in_wrapper: bool) -> Result<Vec<u8>> {
    let at = |offset: u64, length: usize| {
        let mut bytes = vec![0; length];
        memory.read_exact_at(&mut bytes, address.checked_add(offset)?).ok()?;
        Some(bytes)
    };
    let truncated = || Status::InvalidImage.because("the module is truncated: its headers describe memory that does not exist");
    let word = at(0, 4).ok_or_else(truncated)?;
    let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
    let length = |offset| at(offset, 8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")));
    let size = match word {
        FATBIN_WRAPPER_MAGIC if !in_wrapper => return read_from(memory, length(8).ok_or_else(truncated)?, true),
        FATBIN_MAGIC => {
            let header = at(6, 2).ok_or_else(truncated)?;
            length(8).ok_or_else(truncated)?.checked_add(u64::from(u16::from_le_bytes([header[0], header[1]])))
        }
        0x464c_457f => cubin::program::elf_file_size(at),
        _ => return read_text(memory, address),
    };
    let size = size.filter(|size| *size <= MAX_IMAGE_BYTES).ok_or_else(truncated)?;
    at(0, size as usize).ok_or_else(truncated)
}

/// Reads text up to its terminating NUL.
fn read_text(memory: &std::fs::File, address: u64) -> Result<Vec<u8>> {
    const PAGE: usize = 4096;
    let mut out = Vec::new();
    while out.len() < MAX_IMAGE_BYTES as usize {
        // Read up to the end of the page: either all bytes of a page are readable or none.
        let start = address + out.len() as u64;
        let mut part = vec![0; PAGE - start as usize % PAGE];
        let read = memory.read_at(&mut part, start).unwrap_or(0);
        match part[..read].iter().position(|byte| *byte == 0) {
            Some(end) => {
                out.extend(&part[..end]);
                return Ok(out);
            }
            None if read == 0 => break,
            None => out.extend(&part[..read]),
        }
    }
    Err(Status::InvalidImage.because("the module is neither a cubin nor a fatbin, nor text with a NUL at its end"))
}
