//! A soak test: 100,000 launches in one process, with the modules, streams, events and graphs that a client creates for the
//! launches. The memory of the process must not grow. The test takes about a minute, so Cargo runs it only on request:
//!
//! ```sh
//! cargo test --workspace --test soak -- --ignored --nocapture
//! ```

#![allow(unsafe_code, reason = "the client of a C library")]

use cuda as _;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null;

unsafe extern "C" {
    fn cuInit(flags: c_uint) -> c_int;
    fn cuMemAlloc_v2(pointer: *mut u64, bytes: usize) -> c_int;
    fn cuMemFree_v2(pointer: u64) -> c_int;
    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) -> c_int;
    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> c_int;
    fn cuModuleLoadData(module: *mut usize, image: *const c_void) -> c_int;
    fn cuModuleUnload(module: usize) -> c_int;
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
    fn cuEventCreate(event: *mut usize, flags: c_uint) -> c_int;
    fn cuEventRecord(event: usize, stream: usize) -> c_int;
    fn cuEventDestroy_v2(event: usize) -> c_int;
    fn cuGraphInstantiateWithFlags(exec: *mut usize, graph: usize, flags: u64) -> c_int;
    fn cuGraphLaunch(exec: usize, stream: usize) -> c_int;
    fn cuGraphExecDestroy(exec: usize) -> c_int;
    fn cuGraphDestroy(graph: usize) -> c_int;
}

/// Adds 1 to the first value.
const INCREMENT: &CStr = c"
.version 8.0
.target sm_80
.address_size 64
.visible .entry increment(.param .u64 values)
{
    .reg .b32 %r;
    .reg .b64 %d;
    ld.param.u64 %d, [values];
    ld.global.u32 %r, [%d];
    add.s32 %r, %r, 1;
    st.global.u32 [%d], %r;
    ret;
}
";
/// The kernel of `tests/run/vadd`: the sum of two arrays, in tiles of 256 elements.
const VADD: &CStr = c"vadd_Kt1_A1f32_1i4t1_p16_A1f32_1i4t1_p16_A1f32_1i4t1_p16_I256";

const ITERATIONS: usize = 1000;
/// Number of launch pairs of an iteration. A pair launches `increment` and `vadd`. Each iteration also launches a graph with two
/// `increment`.
const PAIRS: usize = 49;
const LAUNCHES: usize = 2 * PAIRS + 2;
/// Iterations before the first measurement. In these iterations, caches and the memory of threads reach their final size.
const WARM_UP: usize = 100;
/// Growth in bytes that the test allows, because the allocator of the C library may cause it. A leak of 24 bytes per launch exceeds
/// this limit.
const ALLOWED_GROWTH: usize = 2 << 20;

/// Calls an entry point, and checks that the call succeeds.
macro_rules! call {
    ($call:expr) => {
        // SAFETY: the handles and output pointers are valid.
        assert_eq!(unsafe { $call }, 0, stringify!($call))
    };
}

/// Calls an entry point that writes a handle, and returns the handle.
fn created(create: impl FnOnce(&mut usize) -> c_int) -> usize {
    let mut handle = 0;
    assert_eq!(create(&mut handle), 0);
    handle
}

fn launch(function: usize, stream: usize, params: &[*const c_void]) {
    call!(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params.as_ptr(), null()));
}

/// Returns the resident memory of this process in bytes.
fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux has this file");
    text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("the second number is in pages") * 4096
}

/// Loads the modules, launches the kernels, checks the results and releases all objects.
fn run_iteration(vadd_module: &[u8]) {
    // SAFETY: the images end with a NUL or describe their own size, and the output pointers are valid.
    let modules = [INCREMENT.as_ptr().cast(), vadd_module.as_ptr().cast()]
        .map(|image| created(|module| unsafe { cuModuleLoadData(module, image) }));
    // SAFETY: as above.
    let function = |module: usize, name: &CStr| created(|function| unsafe { cuModuleGetFunction(function, module, name.as_ptr()) });
    let (increment, vadd) = (function(modules[0], c"increment"), function(modules[1], VADD));
    // SAFETY: as above.
    let (stream, event) = unsafe { (created(|stream| cuStreamCreate(stream, 1)), created(|event| cuEventCreate(event, 0))) };
    let mut arrays = [0u64; 3];
    arrays.iter_mut().for_each(|array| call!(cuMemAlloc_v2(array, 1024)));
    let (mut counter, values, mut totals) = ([0u32; 256], [1.5f32; 256], [0f32; 256]);
    call!(cuMemcpyHtoD_v2(arrays[1], values.as_ptr().cast(), 1024));
    let (length, stride) = (256i32, 1i32);
    let mut params: Vec<*const c_void> = Vec::new();
    for array in [&arrays[1], &arrays[1], &arrays[2]] {
        params.extend([std::ptr::from_ref(array).cast(), (&raw const length).cast(), (&raw const stride).cast()]);
    }
    call!(cuMemcpyHtoD_v2(arrays[0], counter.as_ptr().cast(), 1024));
    for _ in 0..PAIRS {
        launch(increment, stream, &[(&raw const arrays[0]).cast()]);
        launch(vadd, stream, &params);
        call!(cuEventRecord(event, stream));
    }
    let (mut graph, mut exec) = (0, 0);
    call!(cuStreamBeginCapture_v2(stream, 0));
    (0..2).for_each(|_| launch(increment, stream, &[(&raw const arrays[0]).cast()]));
    call!(cuStreamEndCapture(stream, &mut graph));
    call!(cuGraphInstantiateWithFlags(&mut exec, graph, 0));
    call!(cuGraphLaunch(exec, stream));
    call!(cuMemcpyDtoH_v2(counter.as_mut_ptr().cast(), arrays[0], 1024));
    call!(cuMemcpyDtoH_v2(totals.as_mut_ptr().cast(), arrays[2], 1024));
    assert_eq!((counter[0], totals), (PAIRS as u32 + 2, [3.0; 256]));
    // SAFETY: plain numbers.
    unsafe {
        assert_eq!(
            (cuGraphExecDestroy(exec), cuGraphDestroy(graph), cuEventDestroy_v2(event), cuStreamDestroy_v2(stream)),
            (0, 0, 0, 0)
        );
        arrays.into_iter().for_each(|array| assert_eq!(cuMemFree_v2(array), 0));
        modules.into_iter().for_each(|module| assert_eq!(cuModuleUnload(module), 0));
    }
}

#[test]
#[ignore = "takes about a minute; docs/testing.md has the command"]
fn memory_is_constant_over_100_000_launches() {
    let bytecode = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/run/vadd/kernel.tileirbc")).unwrap();
    let vadd_module = cubin::program::cpu_module(&[&bytecode]);
    call!(cuInit(0));
    let mut first = 0;
    for iteration in 0..ITERATIONS {
        if iteration == WARM_UP {
            first = resident_bytes();
        }
        run_iteration(&vadd_module);
    }
    let last = resident_bytes();
    println!("{} launches: {first} bytes resident after {}, {last} at the end", ITERATIONS * LAUNCHES, WARM_UP * LAUNCHES);
    assert!(last < first + ALLOWED_GROWTH, "the resident memory grew from {first} to {last} bytes");
}
