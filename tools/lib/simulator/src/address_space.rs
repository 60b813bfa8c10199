//! The windows of the generic address space, and the addresses of cluster shared memory.

/// The generic address of the byte 0 of shared memory. The windows of shared, local and parameter memory have 4 GiB each. A generic
/// address is the base of the window plus the address in the state space.
pub(crate) const SHARED_BASE: u64 = 0x0100_0000_0000;
/// The generic address of the byte 0 of local memory.
pub(crate) const LOCAL_BASE: u64 = 0x0200_0000_0000;
/// The generic address of the byte 0 of parameter memory.
pub(crate) const PARAM_BASE: u64 = 0x0300_0000_0000;
/// Base address of the variables in the state spaces `.global` and `.const`.
pub(crate) const GLOBALS_BASE: u64 = 0x0400_0000_0000;
/// The address of the first variable in shared memory. CUDA reserves the bytes before it, so no variable has address 0.
pub(crate) const SHARED_START: u32 = 1024;
/// The bit position of the CTA rank in a shared-memory address of the cluster. Programs rely on this position. Example: a program
/// clears bit 24 of an mbarrier address to get the mbarrier of the even CTA of a pair.
pub(crate) const CLUSTER_SHIFT: u32 = 24;

/// Returns the address of the same variable in another CTA of the cluster.
pub(crate) fn map_to_cta(address: u64, rank: u64) -> u64 {
    let offset = address & ((1 << CLUSTER_SHIFT) - 1);
    address >> 32 << 32 | rank << CLUSTER_SHIFT | offset
}
