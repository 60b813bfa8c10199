//! Addresses in the shared memory of a cluster.

/// A place in shared memory: the rank of the CTA in its cluster, and the address in the CTA's shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SharedLocation {
    pub(crate) cta: usize,
    pub(crate) address: u32,
}
