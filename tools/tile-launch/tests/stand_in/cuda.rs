//! A stand-in for the CUDA driver's library, for tests without a GPU. Its device memory is host memory, and each launch adds two
//! arrays.
//!
//! The library checks that `tile-launch` creates each driver object before it uses the object, and does not use an object after its
//! release. The library also checks that copies stay within their allocations, and that a launch has the CTA size and the
//! parameters of the test kernel.
//!
//! The library writes a line per call to the file that the environment variable `STAND_IN_LOG` names. An invalid call returns an
//! error, and the line of the call contains `WRONG`. All calls of the function that `STAND_IN_FAIL` names fail.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::io::Write;
use std::sync::Mutex;

/// `CUDA_ERROR_INVALID_VALUE`. This constant and the next three are status codes of the CUDA driver API (`CUresult`).
const INVALID_VALUE: c_int = 1;
const NOT_INITIALIZED: c_int = 3;
const INVALID_CONTEXT: c_int = 201;
const INVALID_HANDLE: c_int = 400;

/// The state of the driver.
#[derive(Default)]
struct State {
    initialised: bool,
    /// The number of references to the primary context that the program has retained and not released.
    context_references: u32,
    context_is_current: bool,
    /// The contents of each allocation, by address.
    memory: BTreeMap<u64, Vec<u8>>,
    /// The handles of the loaded modules.
    modules: Vec<u64>,
    /// The events. An event has the number of launches before its last recording, or `None` if it was never recorded.
    events: BTreeMap<u64, Option<u64>>,
    next_handle: u64,
    launch_count: u64,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

/// Executes a call if the state of the driver allows the call, and logs the call. Returns the status code of the call.
fn execute_and_log(name: &str, arguments: String, execute_call: impl FnOnce(&mut State) -> Result<String, c_int>) -> c_int {
    let mut guard = STATE.lock().unwrap();
    let state = guard.get_or_insert_with(|| State { next_handle: 0x7000_0000_0000, ..State::default() });
    let result = match name {
        _ if std::env::var("STAND_IN_FAIL").is_ok_and(|failing| failing == name) => Err(INVALID_VALUE),
        "cuInit" | "cuGetErrorName" | "cuGetErrorString" | "cuDriverGetVersion" => execute_call(state),
        _ if !state.initialised => Err(NOT_INITIALIZED),
        _ if !name.starts_with("cuDevice") && !name.starts_with("cuCtxSet") && !state.context_is_current => Err(INVALID_CONTEXT),
        _ => execute_call(state),
    };
    let line = match &result {
        Ok(output) if output.is_empty() => format!("{name}({arguments})\n"),
        Ok(output) => format!("{name}({arguments}) -> {output}\n"),
        Err(status) => format!("{name}({arguments}) -> WRONG {status}\n"),
    };
    if let Ok(path) = std::env::var("STAND_IN_LOG") {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
    result.err().unwrap_or(0)
}

impl State {
    /// Returns a new handle or address. Handles are so far apart that allocations do not overlap.
    fn new_handle(&mut self) -> u64 {
        self.next_handle += 0x100_0000;
        self.next_handle
    }
    /// Returns the `size` bytes at an address, or an error if these bytes are not within one allocation.
    fn bytes_at(&mut self, address: u64, size: usize) -> Result<&mut [u8], c_int> {
        let (start, bytes) = self.memory.range_mut(..=address).next_back().ok_or(INVALID_VALUE)?;
        let at = (address - start) as usize;
        bytes.get_mut(at..).and_then(|rest| rest.get_mut(..size)).ok_or(INVALID_VALUE)
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(flags: c_uint) -> c_int {
    execute_and_log("cuInit", flags.to_string(), |state| {
        state.initialised = flags == 0;
        if flags == 0 { Ok(String::new()) } else { Err(INVALID_VALUE) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> c_int {
    execute_and_log("cuDriverGetVersion", String::new(), |_| {
        unsafe { *version = 13010 };
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(status: c_int, text: *mut *const c_char) -> c_int {
    let name = if status == INVALID_VALUE { c"CUDA_ERROR_INVALID_VALUE" } else { c"CUDA_ERROR_OF_ANOTHER_KIND" };
    unsafe { *text = name.as_ptr() };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(_status: c_int, text: *mut *const c_char) -> c_int {
    unsafe { *text = c"the stand-in was set to fail".as_ptr() };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> c_int {
    execute_and_log("cuDeviceGetCount", String::new(), |_| {
        unsafe { *count = 2 };
        Ok("2".into())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(device: *mut c_int, number: c_int) -> c_int {
    execute_and_log("cuDeviceGet", number.to_string(), |_| {
        unsafe { *device = 40 + number };
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int) -> c_int {
    execute_and_log("cuDeviceGetName", device.to_string(), |_| {
        let text = b"Stand-in\0";
        assert!(length as usize >= text.len());
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), name, text.len()) };
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) -> c_int {
    execute_and_log("cuDeviceGetAttribute", format!("{attribute}, {device}"), |_| {
        let attributes = [(13, 1_500_000), (16, 132), (36, 2_619_000), (37, 5120), (75, 9), (76, 0)];
        let (_, answer) = attributes.iter().find(|(number, _)| *number == attribute).ok_or(INVALID_VALUE)?;
        unsafe { *value = *answer };
        Ok(answer.to_string())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, device: c_int) -> c_int {
    execute_and_log("cuDevicePrimaryCtxRetain", device.to_string(), |state| {
        state.context_references += 1;
        unsafe { *context = 0x1000 as *mut c_void };
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> c_int {
    execute_and_log("cuDevicePrimaryCtxRelease_v2", device.to_string(), |state| {
        let leaked_objects = state.memory.len() + state.modules.len() + state.events.len();
        state.context_references = state.context_references.checked_sub(1).ok_or(INVALID_CONTEXT)?;
        if leaked_objects > 0 { Err(INVALID_HANDLE) } else { Ok("nothing is left".into()) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(context: *mut c_void) -> c_int {
    execute_and_log("cuCtxSetCurrent", format!("{:#x}", context as u64), |state| {
        state.context_is_current = context as u64 == 0x1000 && state.context_references > 0;
        if state.context_is_current { Ok(String::new()) } else { Err(INVALID_CONTEXT) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSynchronize() -> c_int {
    execute_and_log("cuCtxSynchronize", String::new(), |_| Ok(String::new()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(module: *mut *mut c_void, image: *const c_void) -> c_int {
    execute_and_log("cuModuleLoadData", String::new(), |state| {
        let magic = unsafe { std::slice::from_raw_parts(image.cast::<u8>(), 4) };
        if magic != b"\x7fELF" {
            return Err(INVALID_VALUE);
        }
        let handle = state.new_handle();
        state.modules.push(handle);
        unsafe { *module = handle as *mut c_void };
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuModuleUnload(module: *mut c_void) -> c_int {
    execute_and_log("cuModuleUnload", String::new(), |state| {
        let at = state.modules.iter().position(|known| *known == module as u64).ok_or(INVALID_HANDLE)?;
        state.modules.remove(at);
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(function: *mut *mut c_void, module: *mut c_void, name: *const c_char) -> c_int {
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    execute_and_log("cuModuleGetFunction", name, |state| {
        if !state.modules.contains(&(module as u64)) {
            return Err(INVALID_HANDLE);
        }
        unsafe { *function = (module as u64 + 1) as *mut c_void };
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> c_int {
    execute_and_log("cuMemAlloc_v2", bytes.to_string(), |state| {
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        let start = state.new_handle();
        // New memory has a non-zero pattern, so that a missing copy or memset changes the result.
        state.memory.insert(start, vec![0xcd; bytes]);
        unsafe { *address = start };
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(address: u64) -> c_int {
    execute_and_log("cuMemFree_v2", String::new(), |state| {
        state.memory.remove(&address).map(|_| String::new()).ok_or(INVALID_VALUE)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoD_v2(address: u64, bytes: *const c_void, size: usize) -> c_int {
    execute_and_log("cuMemcpyHtoD_v2", size.to_string(), |state| {
        state.bytes_at(address, size)?.copy_from_slice(unsafe { std::slice::from_raw_parts(bytes.cast(), size) });
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoH_v2(bytes: *mut c_void, address: u64, size: usize) -> c_int {
    execute_and_log("cuMemcpyDtoH_v2", size.to_string(), |state| {
        unsafe { std::slice::from_raw_parts_mut(bytes.cast(), size) }.copy_from_slice(state.bytes_at(address, size)?);
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD8_v2(address: u64, value: u8, size: usize) -> c_int {
    execute_and_log("cuMemsetD8_v2", format!("{value}, {size}"), |state| {
        state.bytes_at(address, size)?.fill(value);
        Ok(String::new())
    })
}

/// Executes the kernel of the tests, `c = a + b`. The kernel has nine parameters: a pointer, an extent and a stride for each of the
/// three arrays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernel(
    function: *mut c_void,
    x: c_uint,
    y: c_uint,
    z: c_uint,
    threads_x: c_uint,
    threads_y: c_uint,
    threads_z: c_uint,
    shared: c_uint,
    stream: *mut c_void,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> c_int {
    let cta_size = [threads_x, threads_y, threads_z];
    execute_and_log("cuLaunchKernel", format!("{:?}, {cta_size:?}, {shared}", [x, y, z]), |state| {
        let is_loaded = state.modules.contains(&(function as u64 - 1));
        if !is_loaded || !stream.is_null() || !extra.is_null() || cta_size != [1; 3] || shared != 0 {
            return Err(INVALID_VALUE);
        }
        let param_address = |index: usize| unsafe { *params.add(index) };
        let pointer_param = |index: usize| unsafe { param_address(index).cast::<u64>().read_unaligned() };
        let i32_param = |index: usize| unsafe { param_address(index).cast::<i32>().read_unaligned() };
        let count = i32_param(1);
        if [4, 7].iter().any(|index| i32_param(*index) != count) || [2, 5, 8].iter().any(|index| i32_param(*index) != 1) {
            return Err(INVALID_VALUE);
        }
        let size = 4 * count as usize;
        let read_array = |state: &mut State, index: usize| -> Result<Vec<f32>, c_int> {
            let bytes = state.bytes_at(pointer_param(index), size)?;
            Ok(bytes.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect())
        };
        let (a, b) = (read_array(state, 0)?, read_array(state, 3)?);
        let out = state.bytes_at(pointer_param(6), size)?;
        for (out_element, (a, b)) in out.chunks_exact_mut(4).zip(a.iter().zip(&b)) {
            out_element.copy_from_slice(&(a + b).to_le_bytes());
        }
        state.launch_count += 1;
        Ok(format!("{count} elements"))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(event: *mut *mut c_void, flags: c_uint) -> c_int {
    execute_and_log("cuEventCreate", flags.to_string(), |state| {
        let handle = state.new_handle();
        state.events.insert(handle, None);
        unsafe { *event = handle as *mut c_void };
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventRecord(event: *mut c_void, stream: *mut c_void) -> c_int {
    execute_and_log("cuEventRecord", String::new(), |state| {
        let record_time = state.launch_count;
        let recorded_time = state.events.get_mut(&(event as u64)).filter(|_| stream.is_null()).ok_or(INVALID_HANDLE)?;
        *recorded_time = Some(record_time);
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventSynchronize(event: *mut c_void) -> c_int {
    execute_and_log("cuEventSynchronize", String::new(), |state| {
        state.events.get(&(event as u64)).copied().flatten().map(|_| String::new()).ok_or(INVALID_HANDLE)
    })
}

/// Returns the time between two events. Each launch between them counts as half a millisecond.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime(milliseconds: *mut f32, start: *mut c_void, end: *mut c_void) -> c_int {
    execute_and_log("cuEventElapsedTime", String::new(), |state| {
        let recorded_at = |event: *mut c_void| state.events.get(&(event as u64)).copied().flatten().ok_or(INVALID_HANDLE);
        let launches = recorded_at(end)? - recorded_at(start)?;
        unsafe { *milliseconds = launches as f32 / 2.0 };
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventDestroy_v2(event: *mut c_void) -> c_int {
    execute_and_log("cuEventDestroy_v2", String::new(), |state| {
        state.events.remove(&(event as u64)).map(|_| String::new()).ok_or(INVALID_HANDLE)
    })
}
