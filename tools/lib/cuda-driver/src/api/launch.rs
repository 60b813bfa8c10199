//! The entry points that launch kernels.

use super::extension::find_host_memory;
use super::{entry_points, read_from_client, read_list_from_client};
use crate::allocations::HostRange;
use crate::driver::{Driver, driver};
use crate::execution::issue;
use crate::handle::Handle;
use crate::launch::copy_params;
use crate::module::Function;
use crate::status::{Result, Status};
use crate::thread_state::with_host_ranges;
use crate::work::{Launch, Work};
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
pub(super) struct LaunchShape {
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) dynamic_shared_bytes: u32,
    pub(super) cluster: [u32; 3],
}

/// Returns a launch with copies of its parameters, after a check of its configuration. Moves the memory ranges that the client
/// allowed for this launch to the launch.
pub(super) fn prepare_launch(
    kernel: Handle,
    shape: LaunchShape,
    params: *const *const c_void,
    extra: *const *const c_void,
) -> Result<Launch> {
    let driver = driver()?;
    let function = driver.tables().handles.function(kernel)?.clone();
    let param_data = copy_params(&function, params, extra)?;
    let LaunchShape { grid, block, dynamic_shared_bytes, cluster } = shape;
    let mut host_ranges = with_host_ranges(std::mem::take);
    add_host_memory_of_params(driver, &function, &param_data, &mut host_ranges);
    let launch = Launch { function, grid, block, dynamic_shared_bytes, cluster, param_data, host_ranges };
    launch.check_config(driver)?;
    Ok(launch)
}

/// The first address that can belong to the host program. A parameter of 8 bytes with a smaller value is a number.
const FIRST_HOST_ADDRESS: u64 = 1 << 16;

/// Adds to `host_ranges` the memory of the host program to which pointer parameters point. The function that the program set with
/// `tileworksSetHostMemoryFinder` finds the memory.
fn add_host_memory_of_params(driver: &Driver, function: &Function, param_data: &[u8], host_ranges: &mut Vec<HostRange>) {
    for param in function.params.iter().filter(|param| param.bytes == 8) {
        let bytes = param_data[param.offset as usize..][..8].try_into().expect("eight bytes");
        let address = u64::from_ne_bytes(bytes);
        let is_known = address < FIRST_HOST_ADDRESS
            || host_ranges.iter().any(|range| address.wrapping_sub(range.address) < range.size)
            || driver.tables().allocations.find(address).is_some();
        if !is_known {
            host_ranges.extend(find_host_memory(address));
        }
    }
}

/// Launches a kernel in a stream.
fn launch(
    kernel: Handle,
    shape: LaunchShape,
    stream: Handle,
    params: *const *const c_void,
    extra: *const *const c_void,
) -> Result<()> {
    let work = Work::Launch(prepare_launch(kernel, shape, params, extra)?);
    issue(driver()?, stream, work)
}

entry_points! {
    fn cuLaunchKernel(kernel: Handle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, dynamic_shared_bytes: c_uint, stream: Handle, params: *const *const c_void, extra: *const *const c_void) {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let shape = LaunchShape { grid, block, dynamic_shared_bytes, cluster: [1; 3] };
        launch(kernel, shape, stream, params, extra)
    }
    fn cuLaunchKernelEx(config: *const c_void, kernel: Handle, params: *const *const c_void, extra: *const *const c_void) {
        let config = read_from_client(config.cast::<Config>())?;
        let attributes = read_list_from_client(config.attributes, config.count as usize)?;
        // The other attributes concern overlap, placement and caches, and so do not change the results of a kernel.
        let cluster = attributes.iter().find(|attribute| attribute.id == CLUSTER_DIMENSION);
        let cluster = cluster.map_or([1; 3], |attribute| [attribute.value[0], attribute.value[1], attribute.value[2]]);
        if cluster.contains(&0) {
            return Err(Status::InvalidValue.because(format!("a cluster of {cluster:?} CTAs")));
        }
        let Config { grid, block, dynamic_shared_bytes, .. } = config;
        let shape = LaunchShape { grid, block, dynamic_shared_bytes, cluster };
        launch(kernel, shape, config.stream, params, extra)
    }
    fn cuLaunchCooperativeKernel(kernel: Handle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, dynamic_shared_bytes: c_uint, stream: Handle, params: *const *const c_void) {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let shape = LaunchShape { grid, block, dynamic_shared_bytes, cluster: [1; 3] };
        launch(kernel, shape, stream, params, std::ptr::null())
    }
}
