//! The core ops, which have one meaning in `.aa`, `.as` and `.sched`: all ops except memory accesses, reductions and MMAs.
//!
//! Each of those formats has an op enum with the variant `Core(Core)`, which the text form omits. Types differ between formats: in
//! `.as`, a tile type has a layout. An op has no type of its own; the types of its results select its operation.

use crate::tile::{Dense, ViewKind};
use base::ir::{Region, Value};
use numerics::arith;

base::plain_fields! { ViewKind, Fact, crate::memory::MemoryOrdering, crate::memory::AtomicMode, crate::memory::MulticastReduction,
crate::memory::MulticastWrite, crate::memory::MemoryScope, crate::memory::Order }

/// The numbers of CTAs that a cluster may have, in increasing order. The CTAs of a cluster process one tile block together.
pub const CLUSTER_SIZES: [u32; 2] = [2, 4];

/// The property that an `assume` op promises for its value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// Every element is a multiple of `divisor`. With `every` and `along`, only each `every`-th element along dimension `along` is
    /// a multiple of `divisor`, and each other element is its predecessor plus one.
    DivBy { divisor: u64, every: Option<i64>, along: Option<i64> },
    /// Every element, as a signed number, is at least `low` and at most `high`; `None` is no bound.
    Bounded { low: Option<i64>, high: Option<i64> },
    /// The elements within each group of these extents are equal.
    SameElements { groups: Vec<i64> },
}

/// The effect of a core op besides its results. No core op accesses a tile in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    #[default]
    Nothing,
    /// Orders accesses before and after the op with accesses of other grids, or with accesses through other mappings of the memory.
    Orders,
    /// May stop the kernel.
    Stops,
    Prints,
    /// Allocates memory until the enclosing region ends.
    Allocates,
    /// Executes regions, whose ops have effects of their own.
    Branches,
    /// Ends a region.
    Leaves,
}

base::ops! {
    /// The core ops.
    pub enum Core with Effect {
        /// A scalar or tile with constant elements.
        Constant "constant" { value: Dense } = Effect::Nothing,
        /// An element-wise operation on one operand.
        Unary "unary" { kind: arith::Unary, x: Value } = Effect::Nothing,
        /// An element-wise operation on two operands.
        Binary "binary" { kind: arith::Binary, lhs: Value, rhs: Value } = Effect::Nothing,
        /// `a * b + c`, rounded once.
        Fma "fma" { kind: arith::Fma, a: Value, b: Value, c: Value } = Effect::Nothing,
        /// Compares elements. The result has elements of type i1.
        Compare "compare" { kind: arith::Compare, lhs: Value, rhs: Value } = Effect::Nothing,
        /// Converts from the operand's element type to the result's.
        Convert "convert" { kind: arith::Convert, x: Value } = Effect::Nothing,
        /// The elements of `yes` where `cond` is true, and of `no` elsewhere.
        Select "select" { cond: Value, yes: Value, no: Value } = Effect::Nothing,
        /// Converts the address `x`, an i64, to a pointer.
        IntToPtr "int_to_ptr" { x: Value } = Effect::Nothing,
        /// Converts a pointer to its address, an i64.
        PtrToInt "ptr_to_int" { x: Value } = Effect::Nothing,
        /// The pointer `x` with another pointee type and the same address.
        PtrCast "ptr_cast" { x: Value } = Effect::Nothing,
        /// The pointer `ptr + offset * bytes of the pointee`; the offset is a signed number of pointees.
        Offset "offset" { ptr: Value, offset: Value } = Effect::Nothing,
        /// Returns `value` unchanged. The compiler may assume that `fact` holds for it.
        Assume "assume" { value: Value, fact: Fact } = Effect::Nothing,

        /// A one-dimensional tile with the elements 0, 1, 2, ….
        Iota "iota" {} = Effect::Nothing,
        /// Repeats a scalar, or dimensions of extent 1, to the result's shape.
        Broadcast "broadcast" { x: Value } = Effect::Nothing,
        /// The elements of `x`, in row-major order, in another shape.
        Reshape "reshape" { x: Value } = Effect::Nothing,
        /// Result dimension `k` is operand dimension `order[k]`.
        Permute "permute" { x: Value, order: Vec<u32> } = Effect::Nothing,
        /// The concatenation of two tiles along `dim`.
        Cat "cat" { lhs: Value, rhs: Value, dim: u32 } = Effect::Nothing,
        /// A slice of `x`. Along each dimension, slice number `i` starts at element `i * extent of the result`.
        Extract "extract" { x: Value, indices: Vec<Value> } = Effect::Nothing,
        /// The tile `into` with `x` in place of the slice that `indices` select, as in `extract`.
        Insert "insert" { x: Value, into: Value, indices: Vec<Value> } = Effect::Nothing,
        /// Reads the bytes of a one-dimensional tile as elements of another width.
        Reinterpret "reinterpret" { x: Value } = Effect::Nothing,

        /// The index of this tile block along an axis of the grid.
        BlockId "block_id" { axis: u32 } = Effect::Nothing,
        /// The number of tile blocks along an axis of the grid.
        BlockCount "block_count" { axis: u32 } = Effect::Nothing,
        /// The rank of this CTA in its cluster. The CTAs of a cluster process one tile block together.
        ClusterRank "cluster_rank" {} = Effect::Nothing,
        /// A strided object in memory. `sizes` and `strides` have a value for each `?` in the type of the result.
        MakeMemRef "make_memref" { base: Value, sizes: Vec<Value>, strides: Vec<Value> } = Effect::Nothing,
        /// A view: divides the memref into tiles as the type of the result specifies.
        MakeView "make_view" { memref: Value } = Effect::Nothing,
        /// The extents of a memref, one result for each dimension.
        MemRefShape "memref_shape" { memref: Value } = Effect::Nothing,
        /// The number of tiles of a view, one result for each dimension.
        ViewShape "view_shape" { view: Value } = Effect::Nothing,
        /// The address of a global of the module.
        GlobalAddress "global_address" { name: String } = Effect::Nothing,
        /// Allocates memory of this CTA for `count` elements of the result's pointee type, until the enclosing region ends.
        Alloca "alloca" { count: u64, align: u64, shareable: bool } = Effect::Allocates,

        /// Creates a token that orders its users after no access.
        MakeToken "make_token" {} = Effect::Nothing,
        /// Creates a token that orders its users after the accesses of all operands.
        JoinTokens "join_tokens" { tokens: Vec<Value> } = Effect::Nothing,
        /// Orders accesses to the same memory through different virtual addresses (aliases).
        AliasFence "alias_fence" { token: Value } = Effect::Orders,
        /// Waits until the grids on which this grid depends are complete (programmatic dependent launch).
        GridWait "grid_wait" { token: Option<Value> } = Effect::Orders,
        /// Lets the grids that depend on this grid start.
        GridLaunch "grid_launch" { token: Option<Value> } = Effect::Orders,
        /// Prints the message for each false element and stops the kernel.
        Assert "assert" { cond: Value, message: String } = Effect::Stops,
        /// Prints the arguments as `format` specifies.
        Print "print" { format: String, args: Vec<Value>, token: Option<Value> } = Effect::Prints,

        /// Executes the region `then` if `cond` is true, otherwise the region `otherwise`. Each region ends in `yield`, or in a
        /// terminator that leaves the `if` (`continue`, `break`, `return`). The results are the yielded values.
        If "if" { cond: Value, then: Region, otherwise: Region } = Effect::Branches,
        /// Runs `body(i, carried…)` for i = lower, lower + step, … below upper. The body ends in `continue`.
        For "for" { lower: Value, upper: Value, step: Value, init: Vec<Value>, unsigned: bool, body: Region } = Effect::Branches,
        /// Runs `body(carried…)` until a `break`, whose values are the results.
        Loop "loop" { init: Vec<Value>, body: Region } = Effect::Branches,
        /// Ends a region of an `if`, or the body of a reduction or scan, with these values.
        Yield "yield" terminator { values: Vec<Value> } = Effect::Leaves,
        /// Ends an iteration of the innermost loop. The next iteration receives the values.
        Continue "continue" terminator { values: Vec<Value> } = Effect::Leaves,
        /// Leaves the innermost `loop`. The results of the `loop` are the values.
        Break "break" terminator { values: Vec<Value> } = Effect::Leaves,
        /// Ends the function.
        Return "return" terminator {} = Effect::Leaves,

        /// Stops the kernel if an element of `index` is negative or at least `extent`, and reports the element with the message and
        /// the extent. `index` and `extent` are i64. The smallest i64 is a valid index: it stands for an element without access.
        CheckIndex "check_index" { index: Value, extent: Value, message: String } = Effect::Stops,

        /// The number of tile blocks that this CTA processes under cluster launch control (CLC). These are its own tile block, and
        /// the tile blocks that it steals from CTAs that have not started. The only use of the op is the upper bound of a loop from
        /// 0 in steps of 1.
        ClcBlockCount "clc_block_count" {} = Effect::Nothing,
        /// The index, along an axis, of the tile block that an iteration of the loop over `clc_block_count` processes.
        /// `iteration` is the counter of the loop.
        ClcBlockId "clc_block_id" { iteration: Value, axis: u32 } = Effect::Nothing,
    }
}

impl Core {
    /// The value of a `constant` op; `None` for other ops.
    pub fn constant(&self) -> Option<&Dense> {
        match self {
            Core::Constant { value } => Some(value),
            _ => None,
        }
    }

    /// Returns whether a pass can move or repeat the op freely, and remove it if nothing uses its results.
    pub fn is_pure(&self) -> bool {
        self.effects() == Effect::Nothing
    }

    /// Returns whether the op computes each result element from the operands' elements at the same position.
    pub fn is_elementwise(&self) -> bool {
        self.as_elementwise().is_some()
    }

    /// The element-wise op: an op that computes each result element from the operands' elements at the same position.
    pub fn as_elementwise(&self) -> Option<Elementwise<'_>> {
        match self {
            Core::Unary { kind, .. } => Some(Elementwise::Unary(kind)),
            Core::Binary { kind, .. } => Some(Elementwise::Binary(kind)),
            Core::Fma { .. } => Some(Elementwise::Fma),
            Core::Compare { .. } => Some(Elementwise::Compare),
            Core::Convert { .. } => Some(Elementwise::Convert),
            Core::Select { .. } => Some(Elementwise::Select),
            Core::IntToPtr { .. } | Core::PtrToInt { .. } | Core::PtrCast { .. } => Some(Elementwise::PointerCast),
            Core::Offset { .. } => Some(Elementwise::Offset),
            Core::Assume { .. } => Some(Elementwise::Assume),
            Core::Constant { .. }
            | Core::Iota {}
            | Core::Broadcast { .. }
            | Core::Reshape { .. }
            | Core::Permute { .. }
            | Core::Cat { .. }
            | Core::Extract { .. }
            | Core::Insert { .. }
            | Core::Reinterpret { .. }
            | Core::BlockId { .. }
            | Core::BlockCount { .. }
            | Core::ClusterRank {}
            | Core::ClcBlockCount {}
            | Core::ClcBlockId { .. }
            | Core::MakeMemRef { .. }
            | Core::MakeView { .. }
            | Core::MemRefShape { .. }
            | Core::ViewShape { .. }
            | Core::GlobalAddress { .. }
            | Core::Alloca { .. }
            | Core::MakeToken {}
            | Core::JoinTokens { .. }
            | Core::AliasFence { .. }
            | Core::GridWait { .. }
            | Core::GridLaunch { .. }
            | Core::Assert { .. }
            | Core::CheckIndex { .. }
            | Core::Print { .. }
            | Core::If { .. }
            | Core::For { .. }
            | Core::Loop { .. }
            | Core::Yield { .. }
            | Core::Continue { .. }
            | Core::Break { .. }
            | Core::Return {} => None,
        }
    }
}

/// An element-wise op.
#[derive(Clone, Copy, Debug)]
pub enum Elementwise<'a> {
    Unary(&'a arith::Unary),
    Binary(&'a arith::Binary),
    Fma,
    Compare,
    Convert,
    Select,
    /// A cast between pointers, or between a pointer and an integer.
    PointerCast,
    Offset,
    Assume,
}
