//! The GPU targets, as `--gpu-name` spells them, and the facts about each that more than one stage needs.

use serde::{Deserialize, Serialize};

/// A GPU architecture: the number in `sm_90`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Target(pub u32);

/// What a generation offers for matrix products and copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// sm_80 to sm_89: mma.sync and cp.async.
    Ampere,
    /// sm_90: wgmma and TMA.
    Hopper,
    /// sm_100 to sm_110: tcgen05 and TMA.
    Blackwell,
    /// sm_120 and sm_121: mma.sync and TMA.
    BlackwellConsumer,
}

impl Target {
    pub const ALL: [Target; 12] = [
        Target(80),
        Target(86),
        Target(87),
        Target(88),
        Target(89),
        Target(90),
        Target(100),
        Target(103),
        Target(107),
        Target(110),
        Target(120),
        Target(121),
    ];

    pub fn parse(name: &str) -> Option<Target> {
        let number = Target(name.strip_prefix("sm_")?.parse().ok()?);
        // Only the spelling without leading zeros or sign names a target.
        (Self::ALL.contains(&number) && number.name() == name).then_some(number)
    }
    pub fn name(self) -> String {
        format!("sm_{}", self.0)
    }
    /// The name in the PTX `.target` line: from sm_90 on the architecture-specific features are used.
    pub fn ptx_name(self) -> String {
        if self.0 >= 90 { format!("sm_{}a", self.0) } else { self.name() }
    }
    pub fn family(self) -> Family {
        match self.0 {
            0..=89 => Family::Ampere,
            90..=99 => Family::Hopper,
            100..=119 => Family::Blackwell,
            _ => Family::BlackwellConsumer,
        }
    }
    /// Whether blocks are numbered by %clusterid, as from sm_90 on, or by %ctaid.
    pub fn has_clusters(self) -> bool {
        self.0 >= 90
    }
    /// Shared memory that one block can have, in bytes.
    pub fn shared_memory(self) -> u32 {
        let kib = match self.0 {
            80 | 87 => 163,
            86 | 88 | 89 | 120 | 121 => 99,
            _ => 227,
        };
        kib * 1024
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "sm_{}", self.0)
    }
}
