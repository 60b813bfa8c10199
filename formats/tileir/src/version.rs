//! The versions of the bytecode.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Version {
    V13_1,
    V13_2,
    V13_3,
    V13_4,
}

impl Version {
    pub const ALL: [Version; 4] = [Version::V13_1, Version::V13_2, Version::V13_3, Version::V13_4];
    pub const LATEST: Version = Version::V13_4;

    pub fn new(major: u8, minor: u8) -> Option<Version> {
        Self::ALL.into_iter().find(|version| (version.major(), version.minor()) == (major, minor))
    }
    pub fn parse(text: &str) -> Option<Version> {
        Self::ALL.into_iter().find(|version| version.to_string() == text)
    }
    pub fn major(self) -> u8 {
        13
    }
    pub fn minor(self) -> u8 {
        self as u8 + 1
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major(), self.minor())
    }
}
