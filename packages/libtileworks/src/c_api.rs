//! The functions of `include/tileworks.h`. Each catches panics, so that no panic unwinds into the host.

#![allow(unsafe_code, reason = "the interface is a C library")]
#![allow(unreachable_pub, clippy::missing_safety_doc, reason = "the header declares each function and states its contract")]

use crate::{Compilation, Compiled, Status};
use base::diag::{Diagnostic, Place, ResourceKind, Severity};
use std::ffi::{CStr, CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;

/// `TILEWORKS_ABI_VERSION` of the header.
const ABI_VERSION: u32 = 1;
/// The version of the compiler, as a C string.
const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => panic!("a version has no NUL"),
};

/// The option that names the folder of `tile-ptx`.
const TOOLS_OPTION: &str = "tools";

/// A result with its strings as C strings.
pub struct CResult {
    compiled: Compiled,
    json: CString,
    diagnostics: Vec<DiagnosticStrings>,
}

/// The strings of a diagnostic.
struct DiagnosticStrings {
    severity: &'static CStr,
    code: CString,
    message: CString,
    file: Option<CString>,
    resource: Option<CString>,
    hint: Option<CString>,
}

/// `struct tileworks_diagnostic`.
#[repr(C)]
pub struct CDiagnostic {
    severity: *const c_char,
    code: *const c_char,
    message: *const c_char,
    file: *const c_char,
    line: u32,
    column: u32,
    resource: *const c_char,
    needed: u64,
    available: u64,
    hint: *const c_char,
}

/// Text as a C string. NUL characters, which C strings cannot contain, are removed.
fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

/// The name of a resource in `struct tileworks_diagnostic`.
fn resource_name(kind: ResourceKind) -> &'static str {
    match kind {
        ResourceKind::SharedMemory => "shared-memory",
        ResourceKind::TensorMemory => "tensor-memory",
        ResourceKind::Registers => "registers",
        ResourceKind::Parameters => "parameters",
        ResourceKind::Instructions => "instructions",
    }
}

impl DiagnosticStrings {
    /// Converts the strings of a diagnostic to C strings.
    fn from_diagnostic(diagnostic: &Diagnostic) -> DiagnosticStrings {
        let file = match &diagnostic.place {
            Some(Place::Source { file, .. } | Place::Text { file, .. } | Place::Input { file, .. }) => Some(c_string(file)),
            Some(Place::Entity(_)) | None => None,
        };
        let severity = match diagnostic.severity {
            Severity::Error => c"error",
            Severity::Warning => c"warning",
            Severity::Remark => c"remark",
            Severity::Note => c"note",
        };
        DiagnosticStrings {
            severity,
            code: c_string(&diagnostic.code),
            message: c_string(&diagnostic.message),
            file,
            resource: diagnostic.resource.as_ref().map(|resource| c_string(resource_name(resource.kind))),
            hint: diagnostic.resource.as_ref().and_then(|resource| Some(c_string(resource.hint.as_ref()?))),
        }
    }
}

impl CDiagnostic {
    /// Creates the C structure of a diagnostic. It contains pointers to `strings`.
    fn new(diagnostic: &Diagnostic, strings: &DiagnosticStrings) -> CDiagnostic {
        let (line, column) = match diagnostic.place {
            Some(Place::Source { line, column, .. } | Place::Text { line, column, .. }) => (line, column),
            _ => (0, 0),
        };
        let optional = |text: &Option<CString>| text.as_ref().map_or(null(), |text| text.as_ptr());
        let (needed, available) = diagnostic.resource.as_ref().map_or((0, 0), |resource| (resource.needed, resource.available));
        CDiagnostic {
            severity: strings.severity.as_ptr(),
            code: strings.code.as_ptr(),
            message: strings.message.as_ptr(),
            file: optional(&strings.file),
            line,
            column,
            resource: optional(&strings.resource),
            needed,
            available,
            hint: optional(&strings.hint),
        }
    }
}

impl CResult {
    /// Converts the strings of a result to C strings.
    fn from_compiled(compiled: Compiled) -> Box<CResult> {
        let diagnostics = compiled.diagnostics.iter().map(DiagnosticStrings::from_diagnostic).collect();
        Box::new(CResult { json: c_string(&compiled.json), diagnostics, compiled })
    }
}

/// Calls `body`. If it panics, returns `otherwise`.
fn guarded<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

/// Returns the text of a C string, or `None` if the pointer is NULL or the text is not UTF-8.
///
/// SAFETY: `text` is NULL or a C string.
unsafe fn read_text<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() { None } else { unsafe { CStr::from_ptr(text) }.to_str().ok() }
}

#[unsafe(no_mangle)]
pub extern "C" fn tileworks_abi_version() -> u32 {
    ABI_VERSION
}

#[unsafe(no_mangle)]
pub extern "C" fn tileworks_version() -> *const c_char {
    VERSION.as_ptr()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tileworks_compilation_create(input: *const c_void, size: usize, name: *const c_char) -> *mut Compilation {
    guarded(std::ptr::null_mut(), || {
        if input.is_null() && size > 0 {
            return std::ptr::null_mut();
        }
        let bytes = if size == 0 { &[] } else { unsafe { std::slice::from_raw_parts(input.cast::<u8>(), size) } };
        let compilation = Compilation::new(bytes);
        let compilation = match unsafe { read_text(name) } {
            Some(name) => compilation.name(name),
            None => compilation,
        };
        Box::into_raw(Box::new(compilation))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tileworks_compilation_destroy(compilation: *mut Compilation) {
    if !compilation.is_null() {
        guarded((), || drop(unsafe { Box::from_raw(compilation) }));
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tileworks_set_option(compilation: *mut Compilation, name: *const c_char, value: *const c_char) -> i32 {
    guarded(Status::Internal as i32, || {
        let texts = unsafe { (read_text(name), read_text(value)) };
        let (Some(compilation), (Some(name), Some(value))) = (unsafe { compilation.as_mut() }, texts) else {
            return Status::Usage as i32;
        };
        let taken = std::mem::take(compilation);
        *compilation = if name == TOOLS_OPTION { taken.tools(value) } else { taken.option(name, value) };
        Status::Ok as i32
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tileworks_compile(compilation: *const Compilation) -> *mut CResult {
    let Some(compilation) = (unsafe { compilation.as_ref() }) else { return std::ptr::null_mut() };
    let internal_error = || {
        let error = Diagnostic::io("BUG001", "internal error of libtileworks");
        CResult::from_compiled(crate::failed(Status::Internal, &error))
    };
    let result = catch_unwind(AssertUnwindSafe(|| CResult::from_compiled(compilation.run())));
    Box::into_raw(result.unwrap_or_else(|_| internal_error()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tileworks_cancel(compilation: *const Compilation) {
    if let Some(compilation) = unsafe { compilation.as_ref() } {
        compilation.canceller().cancel();
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tileworks_result_status(result: *const CResult) -> i32 {
    unsafe { result.as_ref() }.map_or(Status::Internal, |result| result.compiled.status) as i32
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tileworks_result_output(result: *const CResult, size: *mut usize) -> *const c_void {
    let output: &[u8] = unsafe { result.as_ref() }.map_or(&[], |result| &result.compiled.output);
    if let Some(size) = unsafe { size.as_mut() } {
        *size = output.len();
    }
    output.as_ptr().cast()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tileworks_result_diagnostic_count(result: *const CResult) -> usize {
    unsafe { result.as_ref() }.map_or(0, |result| result.diagnostics.len())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tileworks_result_diagnostic(
    result: *const CResult,
    index: usize,
    diagnostic: *mut CDiagnostic,
    diagnostic_size: usize,
) -> i32 {
    let Some(result) = (unsafe { result.as_ref() }).filter(|_| !diagnostic.is_null()) else { return Status::Usage as i32 };
    let (Some(found), Some(strings)) = (result.compiled.diagnostics.get(index), result.diagnostics.get(index)) else {
        return Status::Usage as i32;
    };
    let filled = CDiagnostic::new(found, strings);
    let bytes = diagnostic_size.min(size_of::<CDiagnostic>());
    // SAFETY: the caller states the size of its structure; a structure of another version is filled up to its own fields.
    unsafe { std::ptr::copy_nonoverlapping((&raw const filled).cast::<u8>(), diagnostic.cast::<u8>(), bytes) };
    Status::Ok as i32
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tileworks_result_json(result: *const CResult) -> *const c_char {
    unsafe { result.as_ref() }.map_or(c"".as_ptr(), |result| result.json.as_ptr())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tileworks_result_destroy(result: *mut CResult) {
    if !result.is_null() {
        guarded((), || drop(unsafe { Box::from_raw(result) }));
    }
}
