//! The entry points that launch kernels.

use super::{entry_points, get, list};
use crate::driver::{HOST_RANGES, driver};
use crate::handles::Handle;
use crate::launch::{Launch, copy_params};
use crate::status::{Result, Status};
use crate::work::{Work, issue};
use std::ffi::{c_uint, c_void};

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Config {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    dynamic_shared_bytes: c_uint,
    stream: Handle,
    attributes: *const Attribute,
    count: c_uint,
}

/// `CUlaunchAttribute`.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Attribute {
    id: c_uint,
    _pad: u32,
    value: [c_uint; 16],
}

/// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`.
const CLUSTER_DIMENSION: c_uint = 4;

/// The extents of a launch, and its dynamic shared memory in bytes. `cluster` is 1 in all dimensions unless an attribute requests a
/// cluster.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) dynamic_shared_bytes: u32,
    pub(super) cluster: [u32; 3],
}

/// Copies the arguments of a launch, and checks its configuration. Takes the host ranges that the thread allowed for the launch.
pub(super) fn prepare(kernel: Handle, shape: Shape, params: *const *const c_void, extra: *const *const c_void) -> Result<Launch> {
    let driver = driver()?;
    let function = driver.tables().handles.function(kernel)?.clone();
    let param_data = copy_params(&function, params, extra)?;
    let Shape { grid, block, dynamic_shared_bytes, cluster } = shape;
    let host_ranges = HOST_RANGES.take();
    let launch = Launch { function, grid, block, dynamic_shared_bytes, cluster, param_data, host_ranges };
    launch.check_config(driver)?;
    Ok(launch)
}

/// Launches a kernel in a stream.
fn launch(kernel: Handle, shape: Shape, stream: Handle, params: *const *const c_void, extra: *const *const c_void) -> Result<()> {
    let work = Work::Launch(prepare(kernel, shape, params, extra)?);
    issue(driver()?, stream, work)
}

entry_points! {
    fn cuLaunchKernel(kernel: Handle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, dynamic_shared_bytes: c_uint, stream: Handle, params: *const *const c_void, extra: *const *const c_void) {
        let shape = Shape { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], dynamic_shared_bytes, cluster: [1; 3] };
        launch(kernel, shape, stream, params, extra)
    }
    fn cuLaunchKernelEx(config: *const c_void, kernel: Handle, params: *const *const c_void, extra: *const *const c_void) {
        let config = get(config.cast::<Config>())?;
        let attributes = list(config.attributes, config.count as usize)?;
        // The other attributes concern overlap, placement and caches, and so do not change the results of a kernel.
        let cluster = attributes.iter().find(|attribute| attribute.id == CLUSTER_DIMENSION);
        let cluster = cluster.map_or([1; 3], |attribute| [attribute.value[0], attribute.value[1], attribute.value[2]]);
        if cluster.contains(&0) {
            return Err(Status::InvalidValue.because(format!("a cluster of {cluster:?} CTAs")));
        }
        let shape = Shape { grid: config.grid, block: config.block, dynamic_shared_bytes: config.dynamic_shared_bytes, cluster };
        launch(kernel, shape, config.stream, params, extra)
    }
    fn cuLaunchCooperativeKernel(kernel: Handle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, dynamic_shared_bytes: c_uint, stream: Handle, params: *const *const c_void) {
        let shape = Shape { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], dynamic_shared_bytes, cluster: [1; 3] };
        launch(kernel, shape, stream, params, std::ptr::null())
    }
}
