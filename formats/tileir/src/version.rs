//! The bytecode versions. [`crate::gates`] and the op table [`crate::ops`] list the additions of each version.

use serde::{Deserialize, Serialize};

macro_rules! versions {
    ($($variant:ident $major:literal $minor:literal;)*) => {
        /// A version of the bytecode format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Version {
            $($variant,)*
        }

        impl Version {
            pub const ALL: &'static [Version] = &[$(Version::$variant),*];
            pub const FIRST: Version = Version::ALL[0];
            pub const LATEST: Version = Version::ALL[Version::ALL.len() - 1];

            pub fn major(self) -> u8 {
                match self {
                    $(Version::$variant => $major,)*
                }
            }
            pub fn minor(self) -> u8 {
                match self {
                    $(Version::$variant => $minor,)*
                }
            }
        }
    };
}

versions! {
    V13_1 13 1;
    V13_2 13 2;
    V13_3 13 3;
    V13_4 13 4;
    V13_5 13 5;
}

impl Version {
    /// Returns the version with these numbers, if this crate supports it.
    pub fn new(major: u8, minor: u8) -> Option<Version> {
        Self::ALL.iter().copied().find(|version| (version.major(), version.minor()) == (major, minor))
    }
    /// Parses a version such as `13.1`.
    pub fn parse(text: &str) -> Option<Version> {
        Self::ALL.iter().copied().find(|version| version.to_string() == text)
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major(), self.minor())
    }
}
