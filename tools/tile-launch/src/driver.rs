//! Bindings for the part of the CUDA driver API that `tile-launch` uses. If a call fails, the error contains the name of the called
//! function.
//!
//! `libloading` opens the driver library at run time. Complete bindings such as `cudarc` would tie `tile-launch` to a CUDA version.
//! `tile-launch` needs only two dozen functions, which have not changed in ten years. All unsafe code of `tile-launch` is in this
//! file. Invariant (handles): each [`Module`], [`Memory`] and [`Event`] borrows its [`Device`], so the device outlives these
//! objects.

#![allow(unsafe_code, reason = "the driver is a C library")]

use base::diag::{Diagnostic, Result};
use libloading::Library;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr::null_mut;

/// File names of the driver library on Linux and Windows.
const LIBRARY_NAMES: [&str; 3] = ["libcuda.so.1", "libcuda.so", "nvcuda.dll"];

/// A status code of the driver (`CUresult`); 0 is success.
type Status = c_int;
/// An opaque pointer that identifies an object of the driver.
type Handle = *mut c_void;

macro_rules! interface {
    ($($field:ident = $symbol:literal ( $($argument:ty),* );)*) => {
        /// The functions of the opened driver library. Only methods of [`Device`] and of the objects that borrow it call them.
        struct Interface {
            $($field: unsafe extern "C" fn($($argument),*) -> Status,)*
            // Rust drops fields in declaration order. The library is the last field, so it outlives the function pointers.
            _library: Library,
        }

        impl Interface {
            /// Finds all functions in the library. `name` is the library's name in error messages.
            fn load(library: Library, name: &str) -> Result<Interface> {
                // SAFETY: the types are those of CUDA's header, and the struct keeps the library loaded while the functions exist.
                unsafe {
                    $(let $field = *library.get(concat!($symbol, "\0").as_bytes()).map_err(|_| missing_function(name, $symbol))?;)*
                    Ok(Interface { $($field,)* _library: library })
                }
            }
        }
    };
}

interface! {
    init = "cuInit" (c_uint);
    version = "cuDriverGetVersion" (*mut c_int);
    error_name = "cuGetErrorName" (Status, *mut *const c_char);
    error_text = "cuGetErrorString" (Status, *mut *const c_char);
    device_count = "cuDeviceGetCount" (*mut c_int);
    device = "cuDeviceGet" (*mut c_int, c_int);
    device_name = "cuDeviceGetName" (*mut c_char, c_int, c_int);
    device_attribute = "cuDeviceGetAttribute" (*mut c_int, c_int, c_int);
    retain_context = "cuDevicePrimaryCtxRetain" (*mut Handle, c_int);
    release_context = "cuDevicePrimaryCtxRelease_v2" (c_int);
    set_context = "cuCtxSetCurrent" (Handle);
    load = "cuModuleLoadData" (*mut Handle, *const c_void);
    unload = "cuModuleUnload" (Handle);
    function = "cuModuleGetFunction" (*mut Handle, Handle, *const c_char);
    allocate = "cuMemAlloc_v2" (*mut u64, usize);
    free = "cuMemFree_v2" (u64);
    upload = "cuMemcpyHtoD_v2" (u64, *const c_void, usize);
    download = "cuMemcpyDtoH_v2" (*mut c_void, u64, usize);
    fill = "cuMemsetD8_v2" (u64, u8, usize);
    launch = "cuLaunchKernel" (Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void);
    synchronize = "cuCtxSynchronize" ();
    new_event = "cuEventCreate" (*mut Handle, c_uint);
    record = "cuEventRecord" (Handle, Handle);
    wait = "cuEventSynchronize" (Handle);
    elapsed = "cuEventElapsedTime" (*mut f32, Handle, Handle);
    drop_event = "cuEventDestroy_v2" (Handle);
}

/// Returns the error for a library that lacks a function.
fn missing_function(name: &str, symbol: &str) -> Box<Diagnostic> {
    Diagnostic::io("DRV002", format!("{name} is not a CUDA driver: it has no function {symbol}"))
}

/// Attributes of a device. Their numbers are those of `CUdevice_attribute` in CUDA's header.
#[derive(Clone, Copy)]
pub(crate) enum Attribute {
    ClockKhz = 13,
    SmCount = 16,
    MemoryClockKhz = 36,
    MemoryBusBits = 37,
    Major = 75,
    Minor = 76,
}

/// A GPU whose primary context is current for the thread that opened the device.
pub(crate) struct Device {
    interface: Interface,
    /// The device handle (`CUdevice`).
    cu_device: c_int,
    /// The CUDA version that the driver supports: 13010 for 13.1.
    pub(crate) version: i32,
}

/// A cubin that the driver has loaded.
pub(crate) struct Module<'d> {
    device: &'d Device,
    handle: Handle,
}

/// An allocation in device memory.
pub(crate) struct Memory<'d> {
    device: &'d Device,
    pub(crate) address: u64,
}

/// A CUDA event. It records the time at which the device reaches a point of the stream.
struct Event<'d> {
    device: &'d Device,
    handle: Handle,
}

/// Opens the driver library at a path or, without a path, under the first known name that the system finds.
fn open_library(path: Option<&Path>) -> Result<Interface> {
    let mut load_errors = Vec::new();
    let names = path.map_or_else(|| LIBRARY_NAMES.map(str::to_string).to_vec(), |path| vec![path.display().to_string()]);
    for name in &names {
        // SAFETY: the initialisers of the driver library run, as in every program that uses it.
        match unsafe { Library::new(name) } {
            Ok(library) => return Interface::load(library, name),
            Err(error) => load_errors.push(format!("{name}: {error}")),
        }
    }
    let message = "no CUDA driver on this machine: a launch needs an NVIDIA GPU and its driver; tile-sim executes PTX without one";
    Err(load_errors.into_iter().fold(Diagnostic::io("DRV001", message), |diagnostic, load_error| diagnostic.note(load_error)))
}

impl Interface {
    /// Converts the status of a call to a result. `function_name` is the name of the called function.
    fn check(&self, function_name: &str, status: Status) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        let error_string = |function: unsafe extern "C" fn(Status, *mut *const c_char) -> Status| {
            let mut text = std::ptr::null();
            // SAFETY: the driver returns a static string, or leaves the pointer unchanged.
            unsafe {
                let is_known = function(status, &mut text) == 0 && !text.is_null();
                is_known.then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
            }
        };
        let name = error_string(self.error_name).unwrap_or_else(|| format!("error {status}"));
        let text = error_string(self.error_text).map_or(String::new(), |text| format!(": {text}"));
        Err(Diagnostic::io("DRV004", format!("{function_name} failed with {name}{text}")))
    }
}

impl Device {
    /// Loads the driver library, from a path or from the system, and opens the device with this number. Makes the device's primary
    /// context current for this thread.
    pub(crate) fn open(library: Option<&Path>, number: i32) -> Result<Device> {
        let interface = open_library(library)?;
        let (mut version, mut count, mut handle, mut context) = (0, 0, 0, null_mut());
        // SAFETY: the out-parameters are valid for the call, here and below.
        unsafe {
            interface.check("cuInit", (interface.init)(0))?;
            interface.check("cuDriverGetVersion", (interface.version)(&mut version))?;
            interface.check("cuDeviceGetCount", (interface.device_count)(&mut count))?;
            if !(0..count).contains(&number) {
                return Err(Diagnostic::usage("DRV003", format!("there is no device {number}: the driver has {count}")));
            }
            interface.check("cuDeviceGet", (interface.device)(&mut handle, number))?;
            interface.check("cuDevicePrimaryCtxRetain", (interface.retain_context)(&mut context, handle))?;
            let device = Device { interface, cu_device: handle, version };
            device.check("cuCtxSetCurrent", (device.interface.set_context)(context))?;
            Ok(device)
        }
    }

    /// Converts the status of a call to a result, as [`Interface::check`] does.
    fn check(&self, function_name: &str, status: Status) -> Result<()> {
        self.interface.check(function_name, status)
    }

    /// Returns the name of the GPU.
    pub(crate) fn name(&self) -> Result<String> {
        let mut name = [0u8; 256];
        // SAFETY: the driver writes at most the given length, including the terminating NUL.
        let status = unsafe { (self.interface.device_name)(name.as_mut_ptr().cast(), 255, self.cu_device) };
        self.check("cuDeviceGetName", status)?;
        Ok(CStr::from_bytes_until_nul(&name).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default())
    }

    /// Returns the value of a device attribute.
    pub(crate) fn attribute(&self, attribute: Attribute) -> Result<i32> {
        let mut value = 0;
        // SAFETY: the out-parameter is valid, as in `open`.
        let status = unsafe { (self.interface.device_attribute)(&mut value, attribute as c_int, self.cu_device) };
        self.check("cuDeviceGetAttribute", status).map(|()| value)
    }

    /// Loads a cubin into the context of the device.
    pub(crate) fn load(&self, cubin: &[u8]) -> Result<Module<'_>> {
        let mut handle = null_mut();
        // SAFETY: the bytes are a complete ELF file, which contains its own length; `cubin::read` has checked it.
        let status = unsafe { (self.interface.load)(&mut handle, cubin.as_ptr().cast()) };
        self.check("cuModuleLoadData", status).map(|()| Module { device: self, handle })
    }

    /// Allocates uninitialised device memory.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<Memory<'_>> {
        let mut address = 0;
        // SAFETY: the out-parameter is valid, as in `open`.
        let status = unsafe { (self.interface.allocate)(&mut address, bytes.max(1)) };
        self.check("cuMemAlloc", status).map(|()| Memory { device: self, address })
    }

    /// Waits until the device has finished all submitted work.
    pub(crate) fn synchronize(&self) -> Result<()> {
        // SAFETY: the function has no parameters.
        self.check("cuCtxSynchronize", unsafe { (self.interface.synchronize)() })
    }

    /// Returns the device time, in milliseconds, of the work that the closure `work` submits.
    pub(crate) fn measure(&self, work: impl FnOnce() -> Result<()>) -> Result<f32> {
        let (start, end) = (self.new_event()?, self.new_event()?);
        start.record()?;
        work()?;
        end.record()?;
        let mut milliseconds = 0.0;
        // SAFETY: the out-parameter is valid, as in `open`, and both events are recorded.
        unsafe {
            self.check("cuEventSynchronize", (self.interface.wait)(end.handle))?;
            self.check("cuEventElapsedTime", (self.interface.elapsed)(&mut milliseconds, start.handle, end.handle))?;
        }
        Ok(milliseconds)
    }

    /// Creates an event with timing enabled.
    fn new_event(&self) -> Result<Event<'_>> {
        let mut handle = null_mut();
        // SAFETY: the out-parameter is valid, as in `open`.
        let status = unsafe { (self.interface.new_event)(&mut handle, 0) };
        self.check("cuEventCreate", status).map(|()| Event { device: self, handle })
    }
}

impl Memory<'_> {
    /// Copies host bytes to the allocation, at an offset in bytes.
    pub(crate) fn upload(&self, at: usize, bytes: &[u8]) -> Result<()> {
        // SAFETY: the slice is valid, and the driver checks the range of its own memory.
        let status = unsafe { (self.device.interface.upload)(self.address + at as u64, bytes.as_ptr().cast(), bytes.len()) };
        self.device.check("cuMemcpyHtoD", status)
    }
    /// Copies the start of the allocation to host bytes.
    pub(crate) fn download(&self, bytes: &mut [u8]) -> Result<()> {
        // SAFETY: as in `upload`.
        let status = unsafe { (self.device.interface.download)(bytes.as_mut_ptr().cast(), self.address, bytes.len()) };
        self.device.check("cuMemcpyDtoH", status)
    }
    /// Sets the first bytes of the allocation to zero.
    pub(crate) fn clear(&self, bytes: usize) -> Result<()> {
        // SAFETY: the parameters are numbers, and the driver checks the range.
        let status = unsafe { (self.device.interface.fill)(self.address, 0, bytes) };
        self.device.check("cuMemsetD8", status)
    }
}

impl Module<'_> {
    /// Submits a launch of a kernel. Each element of `params` has the bytes of a parameter. A parameter of fewer than eight bytes
    /// uses the first bytes of its element.
    pub(crate) fn launch(&self, kernel: &CStr, grid: [u32; 3], cta_size: [u32; 3], params: &mut [[u8; 8]]) -> Result<()> {
        let device = self.device;
        let mut function = null_mut();
        let mut param_addresses: Vec<*mut c_void> = params.iter_mut().map(|param| param.as_mut_ptr().cast()).collect();
        // SAFETY: the driver reads as many bytes of each element as the kernel's parameter has, which is at most eight.
        unsafe {
            let status = (device.interface.function)(&mut function, self.handle, kernel.as_ptr());
            device.check("cuModuleGetFunction", status)?;
            let ([x, y, z], [threads_x, threads_y, threads_z]) = (grid, cta_size);
            let status = (device.interface.launch)(
                function,
                x,
                y,
                z,
                threads_x,
                threads_y,
                threads_z,
                0,
                null_mut(),
                param_addresses.as_mut_ptr(),
                null_mut(),
            );
            device.check("cuLaunchKernel", status)
        }
    }
}

impl Event<'_> {
    /// Submits the event to the default stream.
    fn record(&self) -> Result<()> {
        // SAFETY: the handle is valid, and the null stream is the default stream.
        let status = unsafe { (self.device.interface.record)(self.handle, null_mut()) };
        self.device.check("cuEventRecord", status)
    }
}

// The destructors ignore errors. If a release fails, an earlier call has failed and has reported the cause.

impl Drop for Event<'_> {
    fn drop(&mut self) {
        // SAFETY: `new_event` created the event, and only this call destroys it.
        unsafe { (self.device.interface.drop_event)(self.handle) };
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        // SAFETY: `allocate` returned the address, and only this call frees it.
        unsafe { (self.device.interface.free)(self.address) };
    }
}

impl Drop for Module<'_> {
    fn drop(&mut self) {
        // SAFETY: `load` returned the handle, and only this call unloads the module.
        unsafe { (self.device.interface.unload)(self.handle) };
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: `open` has retained the context, and no object of the device outlives the device.
        unsafe { (self.interface.release_context)(self.cu_device) };
    }
}
