//! Tests that call the CUDA driver API as a client calls it. The table in `docs/ci.md` gives the error that each kind of fault
//! returns.

#![allow(unsafe_code, reason = "the client of a C library")]

use cuda as _;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, Once};

unsafe extern "C" {
    fn cuInit(flags: c_uint) -> c_int;
    fn cuGetErrorString(code: c_int, text: *mut *const c_char) -> c_int;
    fn cuGetProcAddress_v2(
        name: *const c_char,
        address: *mut *const c_void,
        version: c_int,
        flags: u64,
        status: *mut c_int,
    ) -> c_int;
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) -> c_int;
    fn cuMemAlloc_v2(pointer: *mut u64, bytes: usize) -> c_int;
    fn cuMemFree_v2(pointer: u64) -> c_int;
    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) -> c_int;
    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> c_int;
    fn cuMemsetD32_v2(to: u64, value: c_uint, count: usize) -> c_int;
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> c_int;
    fn cuModuleLoadData(module: *mut usize, image: *const c_void) -> c_int;
    fn cuModuleUnload(module: usize) -> c_int;
    fn cuModuleGetGlobal_v2(pointer: *mut u64, bytes: *mut usize, module: usize, name: *const c_char) -> c_int;
    fn cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) -> c_int;
    fn cuLaunchKernel(
        function: usize,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared: c_uint,
        stream: usize,
        params: *const *const c_void,
        extra: *const *const c_void,
    ) -> c_int;
    fn cuStreamCreate(stream: *mut usize, flags: c_uint) -> c_int;
    fn cuStreamDestroy_v2(stream: usize) -> c_int;
    fn cuStreamBeginCapture_v2(stream: usize, mode: c_int) -> c_int;
    fn cuStreamEndCapture(stream: usize, graph: *mut usize) -> c_int;
    fn cuGraphInstantiateWithFlags(exec: *mut usize, graph: usize, flags: u64) -> c_int;
    fn cuGraphLaunch(exec: usize, stream: usize) -> c_int;
    fn cuGraphExecDestroy(exec: usize) -> c_int;
    fn cuGraphDestroy(graph: usize) -> c_int;
    fn cuStreamWriteValue32_v2(stream: usize, address: u64, value: u32, flags: c_uint) -> c_int;
    fn cuStreamWaitValue32_v2(stream: usize, address: u64, value: u32, flags: c_uint) -> c_int;
    fn cuStreamBatchMemOp_v2(stream: usize, count: c_uint, operations: *const [u64; 6], flags: c_uint) -> c_int;
    fn cuTexRefCreate() -> c_int;
    fn cuDevicePrimaryCtxRetain(context: *mut usize, device: c_int) -> c_int;
    fn cuCtxGetCurrent(context: *mut usize) -> c_int;
    fn cuCtxSetCurrent(context: usize) -> c_int;
    fn tileworksAllowHostMemory(address: u64, bytes: u64, name: *const c_char, read_only: c_int) -> c_int;
    fn tileworksForgetHostMemory() -> c_int;
    fn tileworksSetHostMemoryFinder(finder: Option<unsafe extern "C" fn(u64, *mut u64, *mut u64) -> c_int>) -> c_int;
    fn fork() -> c_int;
    fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(code: c_int) -> !;
}

/// Two kernels. `twice` computes `values[i] = 2 * values[i]` for `i < count`, with one thread per value. `endless` never ends.
const PTX: &CStr = c"
.version 8.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 values, .param .u32 count)
{
    .reg .pred %p;
    .reg .b32 %r<6>;
    .reg .b64 %d<4>;
    ld.param.u64 %d0, [values];
    ld.param.u32 %r0, [count];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    setp.ge.u32 %p, %r4, %r0;
    @%p bra done;
    mul.wide.u32 %d1, %r4, 4;
    add.s64 %d2, %d0, %d1;
    ld.global.u32 %r5, [%d2];
    shl.b32 %r5, %r5, 1;
    st.global.u32 [%d2], %r5;
done:
    ret;
}
.visible .entry endless()
{
again:
    bra again;
}
";

// Values of `CUresult`.
const INVALID_VALUE: c_int = 1;
const NOT_INITIALIZED: c_int = 3;
const INVALID_IMAGE: c_int = 200;
const NO_BINARY_FOR_GPU: c_int = 209;
const INVALID_HANDLE: c_int = 400;
const NOT_FOUND: c_int = 500;
const ILLEGAL_ADDRESS: c_int = 700;
const LAUNCH_TIMEOUT: c_int = 702;
const NOT_SUPPORTED: c_int = 801;

/// Initialises the driver, and locks it until the caller drops the result. Reason: a test that compares the free memory at two
/// times must not run concurrently with other tests.
fn lock_driver() -> MutexGuard<'static, ()> {
    static START: Once = Once::new();
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    START.call_once(|| {
        // SAFETY: no other thread reads the environment yet.
        unsafe {
            std::env::set_var("TILEWORKS_DEVICE", "sm_90");
            std::env::set_var("TILEWORKS_TIME_LIMIT", "0.5");
            assert_eq!(cuInit(0), 0);
        }
    });
    turn
}

/// Returns the text of `cuGetErrorString` for a result code.
fn text(code: c_int) -> String {
    let mut start = null();
    // SAFETY: the driver returns text that is valid until the next failure of this thread.
    unsafe {
        assert_eq!(cuGetErrorString(code, &mut start), 0);
        CStr::from_ptr(start).to_string_lossy().into_owned()
    }
}

/// Loads a module and returns its handle. If the load fails, returns the result code as the error.
fn load(image: *const c_void) -> Result<usize, c_int> {
    let mut module = 0;
    // SAFETY: the tests pass images that end with a NUL or describe their own size.
    match unsafe { cuModuleLoadData(&mut module, image) } {
        0 => Ok(module),
        code => Err(code),
    }
}

/// Returns the handle of a kernel.
fn function(module: usize, name: &CStr) -> usize {
    let mut function = 0;
    // SAFETY: the name ends with a NUL, and the driver checks the handle of the module.
    assert_eq!(unsafe { cuModuleGetFunction(&mut function, module, name.as_ptr()) }, 0, "{}", text(NOT_FOUND));
    function
}

/// Allocates device memory and returns its address.
fn allocate(bytes: usize) -> u64 {
    let mut pointer = 0;
    // SAFETY: the output pointer is valid.
    assert_eq!(unsafe { cuMemAlloc_v2(&mut pointer, bytes) }, 0);
    pointer
}

/// Launches a kernel with a pointer and a count as parameters. Returns the result code.
fn launch(function: usize, grid: u32, block: u32, stream: usize, pointer: u64, count: u32) -> c_int {
    let params: [*const c_void; 2] = [(&raw const pointer).cast(), (&raw const count).cast()];
    // SAFETY: one pointer for each parameter.
    unsafe { cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, stream, params.as_ptr(), null()) }
}

/// Copies values from device memory.
fn read(pointer: u64, count: usize) -> Vec<u32> {
    let mut values = vec![0u32; count];
    // SAFETY: the destination has this size.
    assert_eq!(unsafe { cuMemcpyDtoH_v2(values.as_mut_ptr().cast(), pointer, 4 * count) }, 0);
    values
}

/// Copies values to device memory.
fn write(pointer: u64, values: &[u32]) {
    // SAFETY: the source has this size.
    assert_eq!(unsafe { cuMemcpyHtoD_v2(pointer, values.as_ptr().cast(), 4 * values.len()) }, 0);
}

#[test]
fn ptx_runs_on_device_memory() {
    let _turn = lock_driver();
    let twice = function(load(PTX.as_ptr().cast()).unwrap(), c"twice");
    let memory = allocate(400);
    write(memory, &(0..100).collect::<Vec<_>>());
    assert_eq!(launch(twice, 4, 32, 0, memory, 100), 0);
    assert_eq!(read(memory, 100), (0..100).map(|value| 2 * value).collect::<Vec<_>>());
    // SAFETY: plain numbers.
    unsafe {
        assert_eq!(cuMemsetD32_v2(memory, 7, 100), 0);
        assert_eq!(launch(twice, 1, 32, 0, memory, 1), 0);
        assert_eq!(read(memory, 2), [14, 7]);
        assert_eq!(cuMemFree_v2(memory), 0);
        let mut major = 0;
        assert_eq!((cuDeviceGetAttribute(&mut major, 75, 0), major), (0, 9));
    }
}

#[test]
fn an_access_outside_an_allocation_is_an_error_with_its_line() {
    let _turn = lock_driver();
    let twice = function(load(PTX.as_ptr().cast()).unwrap(), c"twice");
    let memory = allocate(64);
    write(memory, &[1; 16]);
    assert_eq!(launch(twice, 1, 32, 0, memory, 17), ILLEGAL_ADDRESS);
    let report = text(ILLEGAL_ADDRESS);
    assert!(report.contains("SIM010") && report.contains("ld.global.u32") && report.contains("allocation"), "{report}");
    // The next launch succeeds.
    assert_eq!(launch(twice, 1, 32, 0, memory, 16), 0);
    // SAFETY: plain numbers.
    assert_eq!(unsafe { cuMemFree_v2(memory) }, 0);
    assert_eq!(launch(twice, 1, 32, 0, memory, 16), ILLEGAL_ADDRESS);
    assert!(text(ILLEGAL_ADDRESS).contains("has been freed"), "{}", text(ILLEGAL_ADDRESS));
    // SAFETY: plain numbers.
    assert_eq!(unsafe { cuMemFree_v2(memory) }, INVALID_VALUE);
    // SAFETY: the source has 4 bytes.
    assert_eq!(unsafe { cuMemcpyHtoD_v2(memory, [0u8; 4].as_ptr().cast(), 4) }, INVALID_VALUE);
}

#[test]
fn a_launch_accesses_host_memory_only_with_permission() {
    let _turn = lock_driver();
    let twice = function(load(PTX.as_ptr().cast()).unwrap(), c"twice");
    let mut values = vec![3u32; 8];
    let address = values.as_mut_ptr() as u64;
    assert_eq!(launch(twice, 1, 8, 0, address, 8), ILLEGAL_ADDRESS);
    // SAFETY: the vector exists until the end of the test.
    assert_eq!(unsafe { tileworksAllowHostMemory(address, 32, c"values".as_ptr(), 0) }, 0);
    assert_eq!(launch(twice, 1, 8, 0, address, 8), 0);
    assert_eq!(values, [6; 8]);
    // The permission covers only the first launch.
    assert_eq!(launch(twice, 1, 8, 0, address, 8), ILLEGAL_ADDRESS);
    // A client that does not launch withdraws the permission.
    // SAFETY: as above.
    unsafe {
        assert_eq!(tileworksAllowHostMemory(address, 32, c"values".as_ptr(), 0), 0);
        assert_eq!(tileworksForgetHostMemory(), 0);
    }
    assert_eq!(launch(twice, 1, 8, 0, address, 8), ILLEGAL_ADDRESS);
}

/// Memory of the host program. The function `find_host_words` returns this memory to the driver.
static HOST_WORDS: [AtomicU32; 16] = [const { AtomicU32::new(3) }; 16];

/// Stores the start and the size of `HOST_WORDS`. Returns 1 if `address` is in this memory, otherwise 0.
unsafe extern "C" fn find_host_words(address: u64, start: *mut u64, bytes: *mut u64) -> c_int {
    let first = HOST_WORDS.as_ptr() as u64;
    // SAFETY: the driver passes valid places.
    unsafe { (*start, *bytes) = (first, 64) };
    c_int::from((first..first + 64).contains(&address))
}

#[test]
fn a_launch_accesses_host_memory_that_the_finder_returns() {
    let _turn = lock_driver();
    let twice = function(load(PTX.as_ptr().cast()).unwrap(), c"twice");
    let other = [5u32; 16];
    let (known, unknown) = (HOST_WORDS[4..].as_ptr() as u64, other.as_ptr() as u64);
    assert_eq!(launch(twice, 1, 16, 0, known, 12), ILLEGAL_ADDRESS);
    // SAFETY: the function exists until the end of the process.
    assert_eq!(unsafe { tileworksSetHostMemoryFinder(Some(find_host_words)) }, 0);
    assert_eq!(launch(twice, 1, 16, 0, known, 12), 0);
    assert_eq!(launch(twice, 1, 16, 0, known, 13), ILLEGAL_ADDRESS);
    assert_eq!(launch(twice, 1, 16, 0, unknown, 16), ILLEGAL_ADDRESS);
    // SAFETY: as above.
    assert_eq!(unsafe { tileworksSetHostMemoryFinder(None) }, 0);
    assert_eq!(launch(twice, 1, 16, 0, known, 12), ILLEGAL_ADDRESS);
    // The first four words are outside all launches. The launch of 13 threads failed in its last thread.
    assert!(HOST_WORDS[..4].iter().all(|word| word.load(Ordering::Relaxed) == 3));
    assert!(HOST_WORDS[4..].iter().all(|word| matches!(word.load(Ordering::Relaxed), 6 | 12)));
}

#[test]
fn invalid_launches_return_error_codes() {
    let _turn = lock_driver();
    let module = load(PTX.as_ptr().cast()).unwrap();
    let (twice, memory) = (function(module, c"twice"), allocate(64));
    assert_eq!(launch(twice, 0, 32, 0, memory, 1), INVALID_VALUE);
    assert_eq!(launch(twice, 1, 2048, 0, memory, 1), INVALID_VALUE);
    assert_eq!(launch(twice, 1, 32, 12345, memory, 1), INVALID_HANDLE);
    assert_eq!(launch(12345, 1, 32, 0, memory, 1), INVALID_HANDLE);
    // SAFETY: the driver rejects these calls before it uses the pointers.
    unsafe {
        assert_eq!(cuLaunchKernel(twice, 1, 1, 1, 32, 1, 1, 0, 0, null(), null()), INVALID_VALUE);
        let params: [*const c_void; 2] = [null(), null()];
        assert_eq!(cuLaunchKernel(twice, 1, 1, 1, 32, 1, 1, 0, 0, params.as_ptr(), null()), INVALID_VALUE);
        assert_eq!(cuLaunchKernel(twice, 1, 1, 1, 32, 1, 1, 1 << 20, 0, params.as_ptr(), null()), INVALID_VALUE);
        let mut missing = 0;
        assert_eq!(cuModuleGetFunction(&mut missing, module, c"missing".as_ptr()), NOT_FOUND);
        assert_eq!(cuMemAlloc_v2(null_mut(), 64), INVALID_VALUE);
        assert_eq!(cuMemFree_v2(memory), 0);
        assert_eq!(cuModuleUnload(module), 0);
        assert_eq!(cuModuleUnload(module), INVALID_HANDLE);
    }
    assert_eq!(launch(twice, 1, 32, 0, memory, 1), INVALID_HANDLE);
}

#[test]
fn a_kernel_that_never_ends_is_stopped() {
    let _turn = lock_driver();
    let endless = function(load(PTX.as_ptr().cast()).unwrap(), c"endless");
    // SAFETY: the kernel has no parameters.
    let code = unsafe { cuLaunchKernel(endless, 1, 1, 1, 1, 1, 1, 0, 0, null(), null()) };
    assert_eq!(code, LAUNCH_TIMEOUT, "{}", text(code));
}

#[test]
fn load_rejects_invalid_and_truncated_images() {
    let _turn = lock_driver();
    assert_eq!(load(c"this is no module".as_ptr().cast()), Err(INVALID_IMAGE));
    assert!(load(c".version 8.0\n.target sm_80\n.visible .entry k( {".as_ptr().cast()).is_err());
    assert_eq!(load(null()), Err(INVALID_IMAGE));
    let bytecode = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/run/vadd/kernel.tileirbc")).unwrap();
    let module = cubin::program::cpu_module(&[&bytecode]);
    assert!(load(module.as_ptr().cast()).is_ok());
    for length in [4, 20, 64, 100, module.len() / 2, module.len() - 60] {
        // The memory after the truncated module is zero.
        let mut truncated = module[..length].to_vec();
        truncated.resize(module.len() + 4096, 0);
        assert!(load(truncated.as_ptr().cast()).is_err(), "{length} bytes");
    }
    assert_eq!(load(cubin::program::cpu_module(&[]).as_ptr().cast()), Err(NO_BINARY_FOR_GPU));
}

#[test]
fn a_captured_graph_replays_its_launches() {
    let _turn = lock_driver();
    let twice = function(load(PTX.as_ptr().cast()).unwrap(), c"twice");
    let memory = allocate(64);
    write(memory, &[1; 16]);
    let (mut stream, mut graph, mut exec) = (0, 0, 0);
    // SAFETY: the output pointers are valid.
    unsafe {
        assert_eq!(cuStreamCreate(&mut stream, 1), 0);
        assert_eq!(cuStreamBeginCapture_v2(stream, 0), 0);
        assert_eq!(launch(twice, 1, 16, stream, memory, 16), 0);
        assert_eq!(launch(twice, 1, 16, stream, memory, 8), 0);
        assert_eq!(cuStreamEndCapture(stream, &mut graph), 0);
        assert_eq!(read(memory, 16), [1; 16]);
        assert_eq!(cuGraphInstantiateWithFlags(&mut exec, graph, 0), 0);
        assert_eq!(cuGraphLaunch(exec, stream), 0);
        assert_eq!(cuGraphLaunch(exec, stream), 0);
        assert_eq!(read(memory, 16), [[16; 8], [4; 8]].concat());
        assert_eq!(
            (cuGraphExecDestroy(exec), cuGraphDestroy(graph), cuStreamDestroy_v2(stream), cuMemFree_v2(memory)),
            (0, 0, 0, 0)
        );
        assert_eq!(cuGraphLaunch(exec, 0), INVALID_HANDLE);
    }
}

#[test]
fn streams_write_words_and_compare_them() {
    const AT_LEAST: c_uint = 0;
    const EQUAL: c_uint = 1;
    let _turn = lock_driver();
    let memory = allocate(16);
    write(memory, &[0; 4]);
    // In a batch, the first word is the operation: 2 writes 32 bits, 5 writes 64 bits, 1 waits for 32 bits, 6 is a barrier.
    let batch =
        [[2, memory + 4, 7, 0, 0, 0], [5, memory + 8, 1 << 32 | 9, 0, 0, 0], [6, 0, 0, 0, 0, 0], [1, memory + 4, 7, 1, 0, 0]];
    // SAFETY: the addresses are in the allocation, or the driver refuses them.
    unsafe {
        assert_eq!(cuStreamWriteValue32_v2(0, memory, 5, 0), 0);
        assert_eq!(cuStreamWaitValue32_v2(0, memory, 5, EQUAL), 0);
        assert_eq!(cuStreamWaitValue32_v2(0, memory, 4, AT_LEAST), 0);
        assert_eq!(cuStreamBatchMemOp_v2(0, 4, batch.as_ptr(), 0), 0);
        assert_eq!(read(memory, 4), [5, 7, 9, 1]);
        // The device executes operations in the order of the calls, so no earlier operation can still write this value.
        assert_eq!(cuStreamWaitValue32_v2(0, memory, 6, EQUAL), NOT_SUPPORTED);
        assert_eq!(cuStreamWriteValue32_v2(0, memory + 2, 5, 0), INVALID_VALUE);
        assert_eq!(cuStreamWriteValue32_v2(0, memory + 16, 5, 0), INVALID_VALUE);
        assert_eq!(cuMemFree_v2(memory), 0);
    }
}

#[test]
fn a_fatbin_wrapper_that_points_to_itself_is_an_error() {
    let _turn = lock_driver();
    let mut wrappers = [[0x1_4662_43b1u64, 0], [0x1_4662_43b1, 0]];
    let addresses = [wrappers[0].as_ptr() as u64, wrappers[1].as_ptr() as u64];
    for inner in addresses {
        (wrappers[0][1], wrappers[1][1]) = (inner, addresses[0]);
        assert_eq!(load(wrappers.as_ptr().cast()), Err(INVALID_IMAGE));
    }
}

#[test]
fn unsupported_entry_points_return_not_supported() {
    let _turn = lock_driver();
    let mut address = null();
    // SAFETY: the functions have no effect.
    unsafe {
        assert_eq!(cuTexRefCreate(), NOT_SUPPORTED);
        assert_eq!(cuGetProcAddress_v2(c"cuTexRefCreate".as_ptr(), &mut address, 13000, 0, null_mut()), 0);
        assert!(!address.is_null());
        assert_eq!(cuGetProcAddress_v2(c"cuNoSuchFunction".as_ptr(), &mut address, 13000, 0, null_mut()), NOT_FOUND);
    }
}

#[test]
fn launches_of_several_threads_execute_one_after_another() {
    let _turn = lock_driver();
    let twice = function(load(PTX.as_ptr().cast()).unwrap(), c"twice");
    let memory = allocate(4 * 1024);
    write(memory, &[1; 1024]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..5).for_each(|_| assert_eq!(launch(twice, 32, 32, 0, memory, 1024), 0)));
        }
    });
    assert_eq!(read(memory, 1024), [1 << 20; 1024]);
    // SAFETY: plain numbers.
    assert_eq!(unsafe { cuMemFree_v2(memory) }, 0);
}

/// A client that calls the driver when its thread ends. The driver's own values of the thread may then be destroyed.
#[test]
fn destructors_of_an_ended_thread_call_the_driver() {
    static RESULTS: Mutex<Vec<c_int>> = Mutex::new(Vec::new());
    struct Client {
        memory: u64,
        context: usize,
    }
    impl Drop for Client {
        fn drop(&mut self) {
            let mut current = 0;
            // SAFETY: the pointer is valid; the second release of the memory is an error that the driver reports.
            let results = unsafe {
                [
                    cuCtxGetCurrent(&mut current),
                    c_int::from(current != self.context),
                    cuCtxSetCurrent(self.context),
                    cuMemFree_v2(self.memory),
                    cuMemFree_v2(self.memory),
                ]
            };
            RESULTS.lock().unwrap().extend(results);
        }
    }
    thread_local! {
        static CLIENT: std::cell::RefCell<Option<Client>> = const { std::cell::RefCell::new(None) };
    }
    let _turn = lock_driver();
    let mut context = 0;
    // SAFETY: the pointer is valid.
    assert_eq!(unsafe { cuDevicePrimaryCtxRetain(&mut context, 0) }, 0);
    std::thread::spawn(move || {
        // The client's value is initialised first and therefore destroyed after the driver's.
        CLIENT.set(Some(Client { memory: allocate(64), context }));
        // SAFETY: the handle is a context; releasing address 1 is an error that the driver stores for the thread.
        unsafe { assert_eq!((cuCtxSetCurrent(context), cuMemFree_v2(1)), (0, INVALID_VALUE)) };
    })
    .join()
    .unwrap();
    assert_eq!(*RESULTS.lock().unwrap(), [0, 0, 0, 0, INVALID_VALUE]);
}

/// A kernel that adds 1 to the variable `counter` and stores the old value.
const COUNTER_PTX: &CStr = c"
.version 8.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 counter = 5;
.visible .global .align 8 .u64 place = counter;
.visible .entry count(.param .u64 out)
{
    .reg .b32 %r<3>;
    .reg .b64 %d<3>;
    ld.param.u64 %d0, [out];
    ld.global.u64 %d1, [place];
    ld.global.u32 %r0, [%d1];
    add.u32 %r1, %r0, 1;
    st.global.u32 [counter], %r1;
    st.global.u32 [%d0], %r0;
    ret;
}
";
const COUNTER_TILE: &str = "
global @counter alignment = 4 <i32: 5> : tile<1xi32>
entry @count(%out: tile<ptr<i32>>) {
  %start = make_token : token
  %counter = get_global @counter : tile<ptr<i32>>
  %old, %loaded = load_ptr_tko weak %counter token=%start : tile<ptr<i32>> -> tile<i32>, token
  %one = constant <i32: 1> : tile<i32>
  %new = addi %old, %one : tile<i32>
  %stored = store_ptr_tko weak %counter, %new token=%loaded : tile<ptr<i32>>, tile<i32> -> token
  %copied = store_ptr_tko weak %out, %old token=%stored : tile<ptr<i32>>, tile<i32> -> token
  return
}
";

#[test]
fn variables_of_a_module_persist_between_launches() {
    let _turn = lock_driver();
    let tile_module = cubin::program::cpu_module(&[COUNTER_TILE.as_bytes()]);
    for image in [COUNTER_PTX.as_ptr().cast(), tile_module.as_ptr().cast()] {
        let (module, other) = (load(image).unwrap(), load(image).unwrap());
        let out = allocate(4);
        let count = |module| {
            assert_eq!(launch(function(module, c"count"), 1, 1, 0, out, 0), 0);
            read(out, 1)[0]
        };
        assert_eq!([count(module), count(module), count(other)], [5, 6, 5]);
        let (mut address, mut bytes) = (0, 0);
        // SAFETY: the output pointers are valid and the names end with a NUL.
        unsafe {
            assert_eq!(cuModuleGetGlobal_v2(&mut address, &mut bytes, module, c"counter".as_ptr()), 0);
            assert_eq!(cuModuleGetGlobal_v2(null_mut(), &mut bytes, module, c"table".as_ptr()), NOT_FOUND);
        }
        assert_eq!((bytes, read(address, 1)[0]), (4, 7));
        write(address, &[100]);
        assert_eq!([count(module), count(module), count(other)], [100, 101, 6]);
        // SAFETY: plain numbers; a variable is no allocation of the client.
        unsafe {
            assert_eq!(cuMemFree_v2(address), INVALID_VALUE);
            assert_eq!((cuModuleUnload(module), cuModuleUnload(other), cuMemFree_v2(out)), (0, 0, 0));
        }
    }
}

#[test]
fn a_call_in_a_forked_child_returns_not_initialized() {
    let _turn = lock_driver();
    // SAFETY: the child calls the driver once and ends.
    unsafe {
        let child = fork();
        if child == 0 {
            let mut pointer = 0;
            _exit(cuMemAlloc_v2(&mut pointer, 64));
        }
        let mut status = 0;
        assert_eq!(waitpid(child, &mut status, 0), child);
        assert_eq!(status >> 8 & 0xff, NOT_INITIALIZED);
    }
}

#[test]
fn repeated_launches_leave_the_free_memory_unchanged() {
    let _turn = lock_driver();
    let free = || {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the output pointers are valid.
        assert_eq!(unsafe { cuMemGetInfo_v2(&mut free, &mut total) }, 0);
        free
    };
    let before = free();
    for _ in 0..200 {
        let module = load(PTX.as_ptr().cast()).unwrap();
        let memory = allocate(64);
        assert_eq!(launch(function(module, c"twice"), 1, 16, 0, memory, 16), 0);
        // SAFETY: plain numbers.
        assert_eq!(unsafe { (cuMemFree_v2(memory), cuModuleUnload(module)) }, (0, 0));
    }
    assert_eq!(free(), before);
}
