//! Entry points for modules and libraries, and for their kernels and the attributes of kernels.

use super::{entry_points, read_text_from_client, write_optional_to_client, write_to_client};
use crate::driver::{Driver, driver};
use crate::handle::Handle;
use crate::handles::Object;
use crate::module::{Function, Library, read_image};
use crate::status::{Result, Status};
use crate::variables::Variables;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use target_info::Target;

/// Attributes of a kernel (`CUfunction_attribute`).
mod attribute {
    use std::ffi::c_int;

    pub(super) const MAX_THREADS: c_int = 0;
    pub(super) const SHARED_BYTES: c_int = 1;
    pub(super) const LOCAL_BYTES: c_int = 3;
    pub(super) const PTX_VERSION: c_int = 5;
    pub(super) const BINARY_VERSION: c_int = 6;
    pub(super) const MAX_DYNAMIC_SHARED: c_int = 8;
    pub(super) const LAST: c_int = 16;
}

/// Loads a module or library from an image.
fn load_image(handle: *mut Handle, image: &[u8], name: &str) -> Result<()> {
    let driver = driver()?;
    let mut library = Library::load(image, name, driver.config.stage)?;
    let mut tables = driver.tables();
    library.variables = Variables::allocate(&library.source, &mut tables.allocations, driver.device.memory_bytes)?;
    write_to_client(handle, tables.handles.add(Object::Library(Arc::new(library))))
}

/// Loads a module or library from the image in a file.
fn load_file(handle: *mut Handle, path: *const c_char) -> Result<()> {
    let path = read_text_from_client(path)?;
    let image = std::fs::read(&path).map_err(|error| Status::FileNotFound.because(format!("{path}: {error}")))?;
    load_image(handle, &image, &path)
}

/// Removes a module or library, and the handles of its kernels.
fn unload(library: Handle) -> Result<()> {
    let driver = driver()?;
    // A running launch can access the variables, so their memory is freed after it.
    let _locked = driver.execution_lock.lock().unwrap_or_else(PoisonError::into_inner);
    let mut tables = driver.tables();
    let Object::Library(removed_library) = tables.handles.remove(library, |object| matches!(object, Object::Library(_)))? else {
        return Ok(());
    };
    removed_library.variables.free(&mut tables.allocations);
    tables
        .handles
        .retain(|object| !matches!(object, Object::Function(function) if Arc::ptr_eq(&function.library, &removed_library)));
    Ok(())
}

/// Returns the handle of a kernel. All requests for one kernel of a library return the same handle.
fn kernel_handle(driver: &Driver, library: Handle, name: &str) -> Result<Handle> {
    let library = driver.tables().handles.library(library)?.clone();
    let is_same_kernel =
        |object: &Object| matches!(object, Object::Function(known) if known.name == name && Arc::ptr_eq(&known.library, &library));
    if let Some((handle, _)) = driver.tables().handles.all().find(|(_, object)| is_same_kernel(object)) {
        return Ok(handle);
    }
    let function = library.function(name)?;
    Ok(driver.tables().handles.add(Object::Function(Arc::new(function))))
}

/// Returns the kernel of a handle.
fn function_from_handle(handle: Handle) -> Result<Arc<Function>> {
    driver()?.tables().handles.function(handle).cloned()
}

/// Writes the value of an attribute of a kernel.
fn get_attribute(value: *mut c_int, number: c_int, handle: Handle) -> Result<()> {
    let (driver, function) = (driver()?, function_from_handle(handle)?);
    let version = driver.device.capability().0 * 10 + driver.device.capability().1;
    write_to_client(
        value,
        match number {
            attribute::MAX_THREADS => function.block.map_or(1024, |block| block.iter().product::<u32>() as c_int),
            attribute::SHARED_BYTES => function.shared_bytes as c_int,
            attribute::LOCAL_BYTES => function.local_bytes as c_int,
            attribute::PTX_VERSION | attribute::BINARY_VERSION => version,
            attribute::MAX_DYNAMIC_SHARED => function.max_dynamic_shared_bytes.load(Ordering::Relaxed) as c_int,
            known if (0..attribute::LAST).contains(&known) => 0,
            _ => return Err(Status::InvalidValue.into()),
        },
    )
}

/// Sets an attribute of a kernel.
fn set_attribute(number: c_int, value: c_int, handle: Handle) -> Result<()> {
    let (driver, function) = (driver()?, function_from_handle(handle)?);
    if number == attribute::MAX_DYNAMIC_SHARED {
        let bytes = u32::try_from(value).map_err(|_| Status::InvalidValue)?;
        if bytes.saturating_add(function.shared_bytes) > driver.device.max_shared_bytes() {
            let message = format!(
                "'{}': {bytes} bytes of dynamic shared memory; the device has {}",
                function.name,
                driver.device.max_shared_bytes()
            );
            return Err(Status::InvalidValue.because(message));
        }
        function.max_dynamic_shared_bytes.store(bytes, Ordering::Relaxed);
    }
    if (0..attribute::LAST).contains(&number) { Ok(()) } else { Err(Status::InvalidValue.into()) }
}

/// Writes the offset and the size in bytes of the parameter with this index.
fn write_param_info(handle: Handle, index: usize, offset: *mut usize, size: *mut usize) -> Result<()> {
    let function = function_from_handle(handle)?;
    let param = function.params.get(index).ok_or(Status::InvalidValue)?;
    write_to_client(offset, param.offset as usize)?;
    write_optional_to_client(size, param.bytes as usize);
    Ok(())
}

/// Writes the address of the name of a kernel.
fn write_name(name: *mut *const c_char, handle: Handle) -> Result<()> {
    let function = function_from_handle(handle)?;
    write_to_client(name, function.c_name.as_ptr())
}

/// Returns the handle of the library to which a kernel belongs.
fn library_of_kernel(handle: Handle) -> Result<Handle> {
    let function = function_from_handle(handle)?;
    let tables = driver()?.tables();
    let is_library_of_kernel =
        |object: &Object| matches!(object, Object::Library(library) if Arc::ptr_eq(library, &function.library));
    tables
        .handles
        .all()
        .find(|(_, object)| is_library_of_kernel(object))
        .map(|(handle, _)| handle)
        .ok_or_else(|| Status::InvalidHandle.into())
}

/// Writes the number of kernels of a library.
fn write_kernel_count(count: *mut c_uint, library: Handle) -> Result<()> {
    write_to_client(count, driver()?.tables().handles.library(library)?.kernels.len() as c_uint)
}

/// Writes the handles of the kernels of a library, at most `count`.
fn write_kernels(kernels: *mut Handle, count: c_uint, library: Handle) -> Result<()> {
    let driver = driver()?;
    let names = driver.tables().handles.library(library)?.kernels.clone();
    for (index, name) in names.iter().take(count as usize).enumerate() {
        write_to_client(kernels.wrapping_add(index), kernel_handle(driver, library, name)?)?;
    }
    Ok(())
}

/// Writes the address and the size of a variable of a module. Each of the two pointers may be null.
fn write_variable(pointer: *mut u64, bytes: *mut usize, library: Handle, name: *const c_char) -> Result<()> {
    let library = driver()?.tables().handles.library(library)?.clone();
    let variable = library.variables.require(&read_text_from_client(name)?)?;
    write_optional_to_client(pointer, variable.address);
    write_optional_to_client(bytes, variable.bytes as usize);
    Ok(())
}

/// Fails a query of a managed variable, because no module has one.
fn refuse_managed_variable(library: Handle, name: *const c_char) -> Result<()> {
    driver()?.tables().handles.library(library)?;
    Err(Status::NotFound.because(format!("'{}': managed variables of modules are not supported", read_text_from_client(name)?)))
}

/// Writes the number of CTAs of a kernel that can be resident on an SM at a time. The limits are the CTAs, threads and shared
/// memory of an SM. On hardware, registers are a limit too, but a program for the CPU has no register count.
fn write_occupancy(blocks: *mut c_int, handle: Handle, threads: c_int, dynamic_shared_bytes: usize) -> Result<()> {
    let (driver, function) = (driver()?, function_from_handle(handle)?);
    let limit = |number: c_int| driver.device.attribute(number).unwrap_or(0) as usize;
    // The numbers of the device attributes with the limits of an SM.
    const MAX_BLOCKS: c_int = 106;
    const MAX_THREADS: c_int = 39;
    const SHARED: c_int = 81;
    let limit_by_threads =
        limit(MAX_THREADS) / usize::try_from(threads).ok().filter(|threads| *threads > 0).ok_or(Status::InvalidValue)?;
    let limit_by_shared_memory =
        limit(SHARED) / (function.shared_bytes as usize + dynamic_shared_bytes + Target::RESERVED_SHARED_MEMORY as usize);
    write_to_client(blocks, limit(MAX_BLOCKS).min(limit_by_threads).min(limit_by_shared_memory) as c_int)
}

entry_points! {
    fn cuModuleLoad(module: *mut Handle, path: *const c_char) {
        load_file(module, path)
    }
    fn cuModuleLoadData(module: *mut Handle, image: *const c_void) {
        load_image(module, &read_image(image)?, "the module")
    }
    fn cuModuleLoadDataEx(module: *mut Handle, image: *const c_void, _count: c_uint, _options: *const c_int, _values: *const *const c_void) {
        load_image(module, &read_image(image)?, "the module")
    }
    fn cuModuleLoadFatBinary(module: *mut Handle, image: *const c_void) {
        load_image(module, &read_image(image)?, "the module")
    }
    fn cuModuleUnload(module: Handle) {
        unload(module)
    }
    fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) {
        write_to_client(function, kernel_handle(driver()?, module, &read_text_from_client(name)?)?)
    }
    fn cuModuleGetFunctionCount(number: *mut c_uint, module: Handle) {
        write_kernel_count(number, module)
    }
    fn cuModuleEnumerateFunctions(functions: *mut Handle, number: c_uint, module: Handle) {
        write_kernels(functions, number, module)
    }
    fn cuModuleGetGlobal_v2(pointer: *mut u64, bytes: *mut usize, module: Handle, name: *const c_char) {
        write_variable(pointer, bytes, module, name)
    }
    fn cuModuleGetLoadingMode(mode: *mut c_int) {
        const EAGER: c_int = 1;
        write_to_client(mode, EAGER)
    }
    fn cuLibraryLoadData(library: *mut Handle, image: *const c_void, _jit: *const c_int, _jit_values: *const *const c_void, _jit_count: c_uint, _options: *const c_int, _values: *const *const c_void, _count: c_uint) {
        load_image(library, &read_image(image)?, "the library")
    }
    fn cuLibraryLoadFromFile(library: *mut Handle, path: *const c_char, _jit: *const c_int, _jit_values: *const *const c_void, _jit_count: c_uint, _options: *const c_int, _values: *const *const c_void, _count: c_uint) {
        load_file(library, path)
    }
    fn cuLibraryUnload(library: Handle) {
        unload(library)
    }
    fn cuLibraryGetKernel(handle: *mut Handle, library: Handle, name: *const c_char) {
        write_to_client(handle, kernel_handle(driver()?, library, &read_text_from_client(name)?)?)
    }
    fn cuLibraryGetModule(module: *mut Handle, library: Handle) {
        driver()?.tables().handles.library(library)?;
        write_to_client(module, library)
    }
    fn cuLibraryGetGlobal(pointer: *mut u64, bytes: *mut usize, library: Handle, name: *const c_char) {
        write_variable(pointer, bytes, library, name)
    }
    fn cuLibraryGetManaged(_pointer: *mut u64, _bytes: *mut usize, library: Handle, name: *const c_char) {
        refuse_managed_variable(library, name)
    }
    fn cuLibraryGetKernelCount(number: *mut c_uint, library: Handle) {
        write_kernel_count(number, library)
    }
    fn cuLibraryEnumerateKernels(kernels: *mut Handle, number: c_uint, library: Handle) {
        write_kernels(kernels, number, library)
    }
    fn cuKernelGetFunction(handle: *mut Handle, kernel: Handle) {
        function_from_handle(kernel)?;
        write_to_client(handle, kernel)
    }
    fn cuKernelGetLibrary(library: *mut Handle, kernel: Handle) {
        write_to_client(library, library_of_kernel(kernel)?)
    }
    fn cuKernelGetAttribute(value: *mut c_int, number: c_int, kernel: Handle, _device: c_int) {
        get_attribute(value, number, kernel)
    }
    fn cuKernelSetAttribute(number: c_int, value: c_int, kernel: Handle, _device: c_int) {
        set_attribute(number, value, kernel)
    }
    fn cuKernelSetCacheConfig(kernel: Handle, _config: c_int, _device: c_int) {
        function_from_handle(kernel).map(drop)
    }
    fn cuKernelGetName(name: *mut *const c_char, kernel: Handle) {
        write_name(name, kernel)
    }
    fn cuKernelGetParamInfo(kernel: Handle, index: usize, offset: *mut usize, size: *mut usize) {
        write_param_info(kernel, index, offset, size)
    }
    fn cuFuncGetModule(module: *mut Handle, kernel: Handle) {
        write_to_client(module, library_of_kernel(kernel)?)
    }
    fn cuFuncGetAttribute(value: *mut c_int, number: c_int, kernel: Handle) {
        get_attribute(value, number, kernel)
    }
    fn cuFuncSetAttribute(kernel: Handle, number: c_int, value: c_int) {
        set_attribute(number, value, kernel)
    }
    fn cuFuncSetCacheConfig(kernel: Handle, _config: c_int) {
        function_from_handle(kernel).map(drop)
    }
    fn cuFuncSetSharedMemConfig(kernel: Handle, _config: c_int) {
        function_from_handle(kernel).map(drop)
    }
    fn cuFuncGetName(name: *mut *const c_char, kernel: Handle) {
        write_name(name, kernel)
    }
    fn cuFuncGetParamInfo(kernel: Handle, index: usize, offset: *mut usize, size: *mut usize) {
        write_param_info(kernel, index, offset, size)
    }
    fn cuFuncIsLoaded(state: *mut c_int, kernel: Handle) {
        function_from_handle(kernel)?;
        write_to_client(state, 1)
    }
    fn cuFuncLoad(kernel: Handle) {
        function_from_handle(kernel).map(drop)
    }
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, kernel: Handle, threads: c_int, dynamic_shared_bytes: usize) {
        write_occupancy(blocks, kernel, threads, dynamic_shared_bytes)
    }
    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks: *mut c_int, kernel: Handle, threads: c_int, dynamic_shared_bytes: usize, _flags: c_uint) {
        write_occupancy(blocks, kernel, threads, dynamic_shared_bytes)
    }
}
