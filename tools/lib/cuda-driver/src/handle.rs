//! The handle type of the API.

/// A handle as clients see it: an opaque pointer.
pub(crate) type Handle = usize;
