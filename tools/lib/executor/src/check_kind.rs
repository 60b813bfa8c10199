//! The checks that `--check` can enable, and their findings.

use base::Loc;

/// The checks that `--check` can enable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Check {
    /// Accesses outside all buffers, indices outside the index space of a view, and violated `inbounds` promises
    Memory,
    /// Reads of memory that was never written
    Init,
    /// Accesses to the same bytes that no token orders, and stores with two values for one address
    Token,
    /// Accesses of two blocks to the same bytes that nothing orders
    Race,
    /// `assume` ops whose fact does not hold
    Assume,
    /// Entries of an .aa file's table of facts that do not hold
    Facts,
    /// Integers divided by zero
    Divide,
    /// Reductions and scans whose result depends on the combination order by more than rounding
    Order,
    /// Uses of elements that a load left undetermined because they are outside the tensor or masked out; Tile IR only
    Padding,
    /// A NaN that an op computes from operands without a NaN
    Nan,
}

impl Check {
    /// The checks that `--check` without a list enables.
    pub const DEFAULTS: [Check; 9] = [
        Check::Memory,
        Check::Init,
        Check::Token,
        Check::Race,
        Check::Assume,
        Check::Facts,
        Check::Divide,
        Check::Order,
        Check::Padding,
    ];

    /// Returns the diagnostic code of the check's findings.
    pub fn code(self) -> &'static str {
        match self {
            Check::Memory => "CHK001",
            Check::Init => "CHK002",
            Check::Token => "CHK003",
            Check::Race => "CHK004",
            Check::Assume => "CHK005",
            Check::Nan => "CHK006",
            Check::Facts => "CHK007",
            Check::Divide => "CHK008",
            Check::Order => "CHK009",
            Check::Padding => "CHK010",
        }
    }
}

/// A fault that a check found. The program continues to run after the fault.
#[derive(Clone, Debug)]
pub struct Finding {
    pub check: Check,
    pub loc: Loc,
    /// The location of the earlier access, if the fault involves two accesses.
    pub other_loc: Option<Loc>,
    /// The linear number of the tile block.
    pub block: u64,
    pub message: String,
}
