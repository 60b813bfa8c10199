//! Entry points for initialisation, for the texts of result codes, and for the addresses of entry points.

use super::{entry_points, read_text_from_client, unsupported, write_optional_to_client, write_to_client};
use crate::driver::{error_text, initialise};
use crate::status::{Status, name_and_description};
use std::ffi::{c_char, c_int, c_uint, c_void};

/// The CUDA version of the API: 13.0.
const CUDA_API_VERSION: c_int = 13000;
/// `CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND`, the status for a name that this library does not have.
const SYMBOL_NOT_FOUND: c_int = 1;

/// An entry point, the CUDA version that introduced its current signature, and the entry point that `cuGetProcAddress` returns to
/// clients of earlier CUDA versions.
const OLDER_VERSIONS: &[(&str, c_int, &str)] = &[
    ("cuCtxGetDevice_v2", 13000, "cuCtxGetDevice"),
    ("cuCtxSynchronize_v2", 13000, "cuCtxSynchronize"),
    ("cuCtxCreate_v4", 12050, "cuCtxCreate_v2"),
    ("cuMemPrefetchAsync_v2", 13000, "cuMemPrefetchAsync"),
    ("cuMemAdvise_v2", 13000, "cuMemAdvise"),
    ("cuGetProcAddress_v2", 12000, "cuGetProcAddress"),
    ("cuGraphAddKernelNode_v2", 12000, "cuGraphAddKernelNode"),
    ("cuGraphAddDependencies_v2", 13000, "cuGraphAddDependencies"),
    ("cuLaunchHostFunc_v2", 13020, "cuLaunchHostFunc"),
    ("cuStreamGetCaptureInfo_v3", 13000, "cuStreamGetCaptureInfo_v2"),
];

entry_points! {
    fn cuInit(flags: c_uint) {
        if flags != 0 {
            return Err(Status::InvalidValue.into());
        }
        initialise().map(drop)
    }
    fn cuDriverGetVersion(version: *mut c_int) {
        write_to_client(version, CUDA_API_VERSION)
    }
    fn cuGetErrorName(code: c_int, name: *mut *const c_char) {
        let known = name_and_description(code).map(|(name, _)| name.as_ptr());
        write_to_client(name, known.unwrap_or(std::ptr::null()))?;
        if known.is_some() { Ok(()) } else { Err(Status::InvalidValue.into()) }
    }
    fn cuGetErrorString(code: c_int, string: *mut *const c_char) {
        let known = error_text(code);
        write_to_client(string, known.unwrap_or(std::ptr::null()))?;
        if known.is_some() { Ok(()) } else { Err(Status::InvalidValue.into()) }
    }
    fn cuGetProcAddress(symbol: *const c_char, address: *mut *const c_void, version: c_int, _flags: u64) {
        let symbol = read_text_from_client(symbol)?;
        match address_of(&symbol, version) {
            Some(found) => write_to_client(address, found),
            None => {
                write_to_client(address, std::ptr::null())?;
                Err(Status::NotFound.into())
            }
        }
    }
    fn cuGetProcAddress_v2(symbol: *const c_char, address: *mut *const c_void, version: c_int, _flags: u64, status: *mut c_int) {
        let symbol = read_text_from_client(symbol)?;
        let found = address_of(&symbol, version);
        write_optional_to_client(status, if found.is_some() { 0 } else { SYMBOL_NOT_FOUND });
        write_to_client(address, found.unwrap_or(std::ptr::null()))?;
        if found.is_some() { Ok(()) } else { Err(Status::NotFound.into()) }
    }
    /// NVIDIA's runtime libraries request private tables of functions here. This library has none of these tables.
    fn cuGetExportTable(table: *mut *const c_void, _id: *const c_void) {
        write_to_client(table, std::ptr::null())?;
        Err(Status::NotFound.into())
    }
}

/// Returns the address of an entry point, with the newest signature that a client of this CUDA version knows.
fn address_of(symbol: &str, version: c_int) -> Option<*const c_void> {
    let find = |name: &str| super::supported_entries().find(|entry| entry.name == name).map(|entry| entry.address);
    for suffix in ["_v4", "_v3", "_v2", ""] {
        let name = format!("{symbol}{suffix}");
        let older = OLDER_VERSIONS.iter().find(|(newer, since, _)| *newer == name && version < *since);
        if let Some(found) = older.map_or_else(|| find(&name), |(_, _, older)| find(older)) {
            return Some(found);
        }
    }
    unsupported::address_of(symbol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_select_the_signature() {
        let address_by_name =
            |name: &str| super::super::supported_entries().find(|entry| entry.name == name).map(|entry| entry.address);
        assert_eq!(address_of("cuMemAlloc", 3020), address_by_name("cuMemAlloc_v2"));
        assert_eq!(address_of("cuCtxGetDevice", 2000), address_by_name("cuCtxGetDevice"));
        assert_eq!(address_of("cuCtxGetDevice", 13000), address_by_name("cuCtxGetDevice_v2"));
        assert!(address_of("cuTexRefCreate", 13000).is_some() && address_of("cuNoSuchFunction", 13000).is_none());
    }
}
