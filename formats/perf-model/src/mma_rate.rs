//! The classes of `mma.sync` instructions that have a rate in a machine file.

/// The class of an `mma.sync` instruction. Each class is a number in the `[mma]` section of a machine file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MmaRate {
    /// f16 and bf16 operands, f32 accumulator.
    F16,
    /// f16 operands and accumulator.
    F16Accumulator,
    /// tf32 operands.
    Tf32,
    /// f64 operands.
    F64,
    /// 8-bit integer operands.
    I8,
    /// 8-bit float operands without block scales.
    F8,
    /// 8-bit or 4-bit operands with block scales.
    BlockScaled,
}

impl MmaRate {
    /// All classes, in the order of their declaration.
    pub const ALL: [MmaRate; 7] =
        [MmaRate::F16, MmaRate::F16Accumulator, MmaRate::Tf32, MmaRate::F64, MmaRate::I8, MmaRate::F8, MmaRate::BlockScaled];
}
