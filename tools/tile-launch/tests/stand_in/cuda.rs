//! A stand-in for the CUDA driver's library: a device in host memory, on which a launch adds two arrays.
//!
//! It checks that a program uses the interface correctly: the program creates each object before it uses it, and does not use it
//! after its release. Copies stay within their allocations. A launch has the grid, CTA size and parameters that the test expects.
//!
//! It writes a line per call to the file that `STAND_IN_LOG` names. The line of a wrong call contains `WRONG`; the call returns an
//! error. `STAND_IN_FAIL` names a call that always fails.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::io::Write;
use std::sync::Mutex;

const INVALID_VALUE: c_int = 1;
const NOT_INITIALIZED: c_int = 3;
const INVALID_CONTEXT: c_int = 201;
const INVALID_HANDLE: c_int = 400;

#[derive(Default)]
struct State {
    initialised: bool,
    retained: u32,
    current: bool,
    memory: BTreeMap<u64, Vec<u8>>,
    modules: Vec<u64>,
    /// The events, each with the time at which it was recorded, if it was.
    events: BTreeMap<u64, Option<u64>>,
    next: u64,
    clock: u64,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

/// Logs a call and executes it.
fn call(name: &str, arguments: String, body: impl FnOnce(&mut State) -> Result<String, c_int>) -> c_int {
    let mut guard = STATE.lock().unwrap();
    let state = guard.get_or_insert_with(|| State { next: 0x7000_0000_0000, ..State::default() });
    let result = match name {
        _ if std::env::var("STAND_IN_FAIL").is_ok_and(|failing| failing == name) => Err(INVALID_VALUE),
        "cuInit" | "cuGetErrorName" | "cuGetErrorString" | "cuDriverGetVersion" => body(state),
        _ if !state.initialised => Err(NOT_INITIALIZED),
        _ if !name.starts_with("cuDevice") && !name.starts_with("cuCtxSet") && !state.current => Err(INVALID_CONTEXT),
        _ => body(state),
    };
    let line = match &result {
        Ok(answer) if answer.is_empty() => format!("{name}({arguments})\n"),
        Ok(answer) => format!("{name}({arguments}) -> {answer}\n"),
        Err(status) => format!("{name}({arguments}) -> WRONG {status}\n"),
    };
    if let Ok(path) = std::env::var("STAND_IN_LOG") {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
    result.err().unwrap_or(0)
}

impl State {
    fn handle(&mut self) -> u64 {
        self.next += 0x100_0000;
        self.next
    }
    /// The bytes of a range within one allocation.
    fn range(&mut self, address: u64, size: usize) -> Result<&mut [u8], c_int> {
        let (start, bytes) = self.memory.range_mut(..=address).next_back().ok_or(INVALID_VALUE)?;
        let at = (address - start) as usize;
        bytes.get_mut(at..).and_then(|rest| rest.get_mut(..size)).ok_or(INVALID_VALUE)
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(flags: c_uint) -> c_int {
    call("cuInit", flags.to_string(), |state| {
        state.initialised = flags == 0;
        if flags == 0 { Ok(String::new()) } else { Err(INVALID_VALUE) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> c_int {
    call("cuDriverGetVersion", String::new(), |_| {
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
    call("cuDeviceGetCount", String::new(), |_| {
        unsafe { *count = 2 };
        Ok("2".into())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(device: *mut c_int, number: c_int) -> c_int {
    call("cuDeviceGet", number.to_string(), |_| {
        unsafe { *device = 40 + number };
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int) -> c_int {
    call("cuDeviceGetName", device.to_string(), |_| {
        let text = b"Stand-in\0";
        assert!(length as usize >= text.len());
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), name, text.len()) };
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) -> c_int {
    call("cuDeviceGetAttribute", format!("{attribute}, {device}"), |_| {
        let known = [(13, 1_500_000), (16, 132), (36, 2_619_000), (37, 5120), (75, 9), (76, 0)];
        let (_, answer) = known.iter().find(|(number, _)| *number == attribute).ok_or(INVALID_VALUE)?;
        unsafe { *value = *answer };
        Ok(answer.to_string())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, device: c_int) -> c_int {
    call("cuDevicePrimaryCtxRetain", device.to_string(), |state| {
        state.retained += 1;
        unsafe { *context = 0x1000 as *mut c_void };
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> c_int {
    call("cuDevicePrimaryCtxRelease_v2", device.to_string(), |state| {
        let left = state.memory.len() + state.modules.len() + state.events.len();
        state.retained = state.retained.checked_sub(1).ok_or(INVALID_CONTEXT)?;
        if left > 0 { Err(INVALID_HANDLE) } else { Ok("nothing is left".into()) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(context: *mut c_void) -> c_int {
    call("cuCtxSetCurrent", format!("{:#x}", context as u64), |state| {
        state.current = context as u64 == 0x1000 && state.retained > 0;
        if state.current { Ok(String::new()) } else { Err(INVALID_CONTEXT) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSynchronize() -> c_int {
    call("cuCtxSynchronize", String::new(), |_| Ok(String::new()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(module: *mut *mut c_void, image: *const c_void) -> c_int {
    call("cuModuleLoadData", String::new(), |state| {
        let magic = unsafe { std::slice::from_raw_parts(image.cast::<u8>(), 4) };
        if magic != b"\x7fELF" {
            return Err(INVALID_VALUE);
        }
        let handle = state.handle();
        state.modules.push(handle);
        unsafe { *module = handle as *mut c_void };
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuModuleUnload(module: *mut c_void) -> c_int {
    call("cuModuleUnload", String::new(), |state| {
        let at = state.modules.iter().position(|known| *known == module as u64).ok_or(INVALID_HANDLE)?;
        state.modules.remove(at);
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(function: *mut *mut c_void, module: *mut c_void, name: *const c_char) -> c_int {
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    call("cuModuleGetFunction", name, |state| {
        if !state.modules.contains(&(module as u64)) {
            return Err(INVALID_HANDLE);
        }
        unsafe { *function = (module as u64 + 1) as *mut c_void };
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> c_int {
    call("cuMemAlloc_v2", bytes.to_string(), |state| {
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        let start = state.handle();
        // New memory is not zero, so a missing copy or memset is visible.
        state.memory.insert(start, vec![0xcd; bytes]);
        unsafe { *address = start };
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(address: u64) -> c_int {
    call("cuMemFree_v2", String::new(), |state| state.memory.remove(&address).map(|_| String::new()).ok_or(INVALID_VALUE))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoD_v2(address: u64, bytes: *const c_void, size: usize) -> c_int {
    call("cuMemcpyHtoD_v2", size.to_string(), |state| {
        state.range(address, size)?.copy_from_slice(unsafe { std::slice::from_raw_parts(bytes.cast(), size) });
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoH_v2(bytes: *mut c_void, address: u64, size: usize) -> c_int {
    call("cuMemcpyDtoH_v2", size.to_string(), |state| {
        unsafe { std::slice::from_raw_parts_mut(bytes.cast(), size) }.copy_from_slice(state.range(address, size)?);
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD8_v2(address: u64, value: u8, size: usize) -> c_int {
    call("cuMemsetD8_v2", format!("{value}, {size}"), |state| {
        state.range(address, size)?.fill(value);
        Ok(String::new())
    })
}

/// The kernel of the tests: `c = a + b`, with an extent and a stride after each pointer.
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
    let block = [threads_x, threads_y, threads_z];
    call("cuLaunchKernel", format!("{:?}, {block:?}, {shared}", [x, y, z]), |state| {
        let known = state.modules.contains(&(function as u64 - 1));
        if !known || !stream.is_null() || !extra.is_null() || block != [1; 3] || shared != 0 {
            return Err(INVALID_VALUE);
        }
        let place = |index: usize| unsafe { *params.add(index) };
        let pointer = |index: usize| unsafe { place(index).cast::<u64>().read_unaligned() };
        let number = |index: usize| unsafe { place(index).cast::<i32>().read_unaligned() };
        let count = number(1);
        if [4, 7].iter().any(|index| number(*index) != count) || [2, 5, 8].iter().any(|index| number(*index) != 1) {
            return Err(INVALID_VALUE);
        }
        let size = 4 * count as usize;
        let read = |state: &mut State, index: usize| -> Result<Vec<f32>, c_int> {
            let bytes = state.range(pointer(index), size)?;
            Ok(bytes.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect())
        };
        let (a, b) = (read(state, 0)?, read(state, 3)?);
        let out = state.range(pointer(6), size)?;
        for (place, (a, b)) in out.chunks_exact_mut(4).zip(a.iter().zip(&b)) {
            place.copy_from_slice(&(a + b).to_le_bytes());
        }
        state.clock += 1;
        Ok(format!("{count} elements"))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(event: *mut *mut c_void, flags: c_uint) -> c_int {
    call("cuEventCreate", flags.to_string(), |state| {
        let handle = state.handle();
        state.events.insert(handle, None);
        unsafe { *event = handle as *mut c_void };
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventRecord(event: *mut c_void, stream: *mut c_void) -> c_int {
    call("cuEventRecord", String::new(), |state| {
        let now = state.clock;
        let slot = state.events.get_mut(&(event as u64)).filter(|_| stream.is_null()).ok_or(INVALID_HANDLE)?;
        *slot = Some(now);
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventSynchronize(event: *mut c_void) -> c_int {
    call("cuEventSynchronize", String::new(), |state| {
        state.events.get(&(event as u64)).copied().flatten().map(|_| String::new()).ok_or(INVALID_HANDLE)
    })
}

/// A launch takes half a millisecond.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime(milliseconds: *mut f32, start: *mut c_void, end: *mut c_void) -> c_int {
    call("cuEventElapsedTime", String::new(), |state| {
        let at = |event: *mut c_void| state.events.get(&(event as u64)).copied().flatten().ok_or(INVALID_HANDLE);
        let launches = at(end)? - at(start)?;
        unsafe { *milliseconds = launches as f32 / 2.0 };
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventDestroy_v2(event: *mut c_void) -> c_int {
    call("cuEventDestroy_v2", String::new(), |state| {
        state.events.remove(&(event as u64)).map(|_| String::new()).ok_or(INVALID_HANDLE)
    })
}
