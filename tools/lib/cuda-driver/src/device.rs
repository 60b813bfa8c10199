//! The imitated GPU: its name, and its attributes from the table of targets and from the file of its chip in `machines/`.

use crate::config::{Config, compute_capability};
use perf_model::Machine;
use std::ffi::{CString, c_int};
use target_info::{Feature, Target};

/// Values of `CUdevice_attribute`, without the prefix `CU_DEVICE_ATTRIBUTE_`.
mod attribute {
    use std::ffi::c_int;

    pub(super) const MAX_THREADS_PER_BLOCK: c_int = 1;
    pub(super) const MAX_BLOCK_DIM: [c_int; 3] = [2, 3, 4];
    pub(super) const MAX_GRID_DIM: [c_int; 3] = [5, 6, 7];
    pub(super) const MAX_SHARED_MEMORY_PER_BLOCK: c_int = 8;
    pub(super) const TOTAL_CONSTANT_MEMORY: c_int = 9;
    pub(super) const WARP_SIZE: c_int = 10;
    pub(super) const MAX_PITCH: c_int = 11;
    pub(super) const MAX_REGISTERS_PER_BLOCK: c_int = 12;
    pub(super) const CLOCK_RATE: c_int = 13;
    pub(super) const TEXTURE_ALIGNMENT: c_int = 14;
    pub(super) const SM_COUNT: c_int = 16;
    pub(super) const MEMORY_CLOCK_RATE: c_int = 36;
    pub(super) const GLOBAL_MEMORY_BUS_WIDTH: c_int = 37;
    pub(super) const L2_CACHE_SIZE: c_int = 38;
    pub(super) const MAX_THREADS_PER_SM: c_int = 39;
    pub(super) const TEXTURE_PITCH_ALIGNMENT: c_int = 51;
    pub(super) const COMPUTE_CAPABILITY_MAJOR: c_int = 75;
    pub(super) const COMPUTE_CAPABILITY_MINOR: c_int = 76;
    pub(super) const MAX_SHARED_MEMORY_PER_SM: c_int = 81;
    pub(super) const MAX_REGISTERS_PER_SM: c_int = 82;
    pub(super) const SINGLE_TO_DOUBLE_RATIO: c_int = 87;
    pub(super) const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: c_int = 97;
    pub(super) const MAX_BLOCKS_PER_SM: c_int = 106;
    pub(super) const RESERVED_SHARED_MEMORY_PER_BLOCK: c_int = 111;
    pub(super) const CLUSTER_LAUNCH: c_int = 120;
    pub(super) const TENSOR_MAP_ACCESS: c_int = 127;
    pub(super) const LAST: c_int = 148;
    /// Attributes whose value is 1, because the CPU device supports the capability: copies that overlap with kernels, mapped host
    /// memory, concurrent kernels, unified addresses, priorities, L1 caches, managed memory, stream memory operations, cooperative
    /// launches, registered host memory, and memory pools.
    pub(super) const SUPPORTED_CAPABILITIES: [c_int; 19] =
        [15, 19, 31, 40, 41, 78, 79, 80, 83, 89, 91, 92, 93, 94, 95, 99, 115, 122, 123];
}

/// Largest extents of a grid in CTAs.
pub(crate) const MAX_GRID: [u32; 3] = [0x7fff_ffff, 0xffff, 0xffff];
/// Largest extents of a CTA in threads.
pub(crate) const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
/// Largest number of threads of a CTA.
pub(crate) const MAX_THREADS: u32 = 1024;
/// Maximum bytes of shared memory of a CTA, unless the client requests more with `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
const DEFAULT_SHARED_BYTES: u32 = 48 << 10;

/// The imitated GPU.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) name: CString,
    pub(crate) target: Target,
    machine: Machine,
    /// Bytes of device memory.
    pub(crate) memory_bytes: u64,
}

impl Device {
    pub(crate) fn new(config: &Config) -> Result<Device, String> {
        let machine = Machine::named(config.chip).map_err(|error| error.message)?;
        let name = format!("Tileworks CPU device ({}, {})", config.target.name, config.chip);
        let name = CString::new(name).map_err(|error| error.to_string())?;
        Ok(Device { name, target: config.target, machine, memory_bytes: host_memory_bytes() / 4 * 3 })
    }

    /// Returns the major and minor number of the compute capability.
    pub(crate) fn capability(&self) -> (c_int, c_int) {
        let number = compute_capability(self.target) as c_int;
        (number / 10, number % 10)
    }

    /// Returns the maximum bytes of shared memory that a CTA can request.
    pub(crate) fn max_shared_bytes(&self) -> u32 {
        self.target.shared_memory
    }

    /// Returns the value of the `CUdevice_attribute` with this number, or `None` if the API has no attribute with the number.
    pub(crate) fn attribute(&self, number: c_int) -> Option<c_int> {
        use attribute::*;
        let chip = &self.machine.chip;
        let kib = |value: f64| (value * 1024.0) as c_int;
        let value_of_axis =
            |list: [c_int; 3], values: [u32; 3]| list.iter().position(|one| *one == number).map(|axis| values[axis] as c_int);
        if let Some(extent) = value_of_axis(MAX_BLOCK_DIM, MAX_BLOCK).or_else(|| value_of_axis(MAX_GRID_DIM, MAX_GRID)) {
            return Some(extent);
        }
        Some(match number {
            MAX_THREADS_PER_BLOCK => MAX_THREADS as c_int,
            MAX_SHARED_MEMORY_PER_BLOCK => DEFAULT_SHARED_BYTES as c_int,
            TOTAL_CONSTANT_MEMORY => 64 << 10,
            WARP_SIZE => 32,
            MAX_PITCH => c_int::MAX,
            MAX_REGISTERS_PER_BLOCK | MAX_REGISTERS_PER_SM => self.target.registers as c_int,
            CLOCK_RATE => (chip.clock * 1e3) as c_int,
            TEXTURE_ALIGNMENT => 512,
            TEXTURE_PITCH_ALIGNMENT => 32,
            SM_COUNT => chip.sms as c_int,
            // With the bus width below and two transfers per cycle, this clock in kHz gives the memory bandwidth of the chip.
            MEMORY_CLOCK_RATE => (chip.memory * 1e9 * 8.0 / 4096.0 / 2.0 / 1e3) as c_int,
            GLOBAL_MEMORY_BUS_WIDTH => 4096,
            L2_CACHE_SIZE => (chip.l2_total * f64::from(1 << 20)) as c_int,
            MAX_THREADS_PER_SM => (chip.warps * 32.0) as c_int,
            COMPUTE_CAPABILITY_MAJOR => self.capability().0,
            COMPUTE_CAPABILITY_MINOR => self.capability().1,
            MAX_SHARED_MEMORY_PER_SM => kib(chip.shared),
            SINGLE_TO_DOUBLE_RATIO => (self.machine.rate.f32 / self.machine.rate.f64) as c_int,
            MAX_SHARED_MEMORY_PER_BLOCK_OPTIN => self.max_shared_bytes() as c_int,
            MAX_BLOCKS_PER_SM => chip.ctas as c_int,
            RESERVED_SHARED_MEMORY_PER_BLOCK => Target::RESERVED_SHARED_MEMORY as c_int,
            CLUSTER_LAUNCH => c_int::from(self.target.has(Feature::Clusters)),
            TENSOR_MAP_ACCESS => c_int::from(self.target.has(Feature::Tma)),
            _ if SUPPORTED_CAPABILITIES.contains(&number) => 1,
            known if (1..=LAST).contains(&known) => 0,
            _ => return None,
        })
    }
}

/// Returns the bytes of memory of the host, or 16 GiB if the operating system does not report the number.
fn host_memory_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.map_or(16 << 30, |kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::{Device, attribute};
    use perf_model::Machine;
    use std::ffi::CString;
    use target_info::Target;

    /// The driver of the real chip reports the expected bytes.
    #[test]
    fn the_size_of_l2_is_that_of_the_chip() {
        let sizes = [("a100", 41_943_040), ("h100-sxm", 52_428_800), ("rtx3090", 6_291_456), ("rtx4090", 75_497_472)];
        for (chip, bytes) in sizes {
            let machine = Machine::named(chip).expect("the chip is built in");
            let target = Target::parse("sm_80").expect("the target is known");
            let device = Device { name: CString::default(), target, machine, memory_bytes: 0 };
            assert_eq!(device.attribute(attribute::L2_CACHE_SIZE), Some(bytes), "{chip}");
        }
    }
}
