//! Limits of programs, which bound the memory and the recursion of readers.

/// The maximum rank of a type. The invariant of [`crate::bytecode`] (linear time and memory) needs a limit.
pub const MAX_RANK: usize = 64;
/// The maximum nesting depth of attributes.
pub const MAX_DEPTH: usize = 64;
/// The maximum nesting depth of debug scopes and call sites. It is higher than [`MAX_DEPTH`], because each inlined call adds a
/// level.
pub const MAX_DEBUG_DEPTH: usize = 256;
