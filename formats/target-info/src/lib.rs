//! The GPU targets, as `--gpu-name` spells them, and their capabilities. [`table`] is their only definition.
//!
//! A [`Target`] is a row of the table. A pass can query a [`Feature`] or a limit of the target. There is no architecture number to
//! compare. A new target needs only a row in the table.

mod table;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::hash::{Hash, Hasher};

pub use table::{Capabilities, Feature, LaunchFamily};

/// A GPU architecture to compile for. A target dereferences to its row of the table, as in `target.shared_memory`.
#[derive(Clone, Copy)]
pub struct Target(&'static Capabilities);

impl Target {
    /// Bytes of shared memory that the CUDA driver reserves for each CTA, beyond [`Capabilities::shared_memory`]. The value is the
    /// device attribute `CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK`, equal for all targets.
    pub const RESERVED_SHARED_MEMORY: u32 = 1024;

    /// Returns all targets, in table order.
    pub fn all() -> impl ExactSizeIterator<Item = Target> {
        table::TARGETS.iter().map(Target)
    }
    /// Returns the target with a name, or `None` if there is none. The name may have an architecture suffix: `sm_90` and `sm_90a`
    /// are one target.
    pub fn parse(name: &str) -> Option<Target> {
        let suffix = |target: &Target| name.strip_prefix(target.name).map(|suffix| (*target, suffix));
        let is_valid = |(target, suffix): &(Target, &str)| suffix.is_empty() || target.suffixes.contains(suffix);
        Target::all().filter_map(|target| suffix(&target)).find(is_valid).map(|(target, _)| target)
    }
    /// Returns the names of all targets, for messages.
    pub fn names() -> String {
        Target::all().map(|target| target.name).collect::<Vec<_>>().join(", ")
    }
    /// Returns this target and the earlier targets of its launch family, starting with this target.
    pub fn with_earlier_in_launch_family(self) -> impl Iterator<Item = Target> {
        let up_to_self = table::TARGETS.iter().rev().map(Target).filter(move |other| *other <= self);
        up_to_self.take_while(move |other| other.launch_family == self.launch_family)
    }
    /// Returns the shared-memory address of the first byte that a kernel can use. Observed with ptxas 13.5.37: on targets with
    /// clusters, the reserved bytes precede the buffers of the kernel.
    pub fn first_shared_byte(self) -> u32 {
        if self.has(Feature::Clusters) { Target::RESERVED_SHARED_MEMORY } else { 0 }
    }
    /// Returns whether the target has a feature.
    pub fn has(self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }
}

/// The name and title of every target, for option tables that are built at compile time.
pub const NAMES_AND_TITLES: [(&str, &str); table::TARGETS.len()] = {
    let mut choices = [("", ""); table::TARGETS.len()];
    let mut i = 0;
    while i < choices.len() {
        choices[i] = (table::TARGETS[i].name, table::TARGETS[i].title);
        i += 1;
    }
    choices
};

impl std::ops::Deref for Target {
    type Target = Capabilities;
    fn deref(&self) -> &Capabilities {
        self.0
    }
}

impl PartialEq for Target {
    fn eq(&self, other: &Target) -> bool {
        self.name == other.name
    }
}
impl Eq for Target {}

/// The order of targets is the order of their rows in the table.
impl Ord for Target {
    fn cmp(&self, other: &Target) -> std::cmp::Ordering {
        let row_index = |target: &Target| Target::all().position(|row| row == *target);
        row_index(self).cmp(&row_index(other))
    }
}
impl PartialOrd for Target {
    fn partial_cmp(&self, other: &Target) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Target {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.name.serialize(serializer)
    }
}
impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Target, D::Error> {
        let name = String::deserialize(deserializer)?;
        Target::parse(&name).ok_or_else(|| serde::de::Error::custom(format!("there is no target '{name}'")))
    }
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_found_by_its_names_only() {
        for target in Target::all() {
            assert_eq!(Target::parse(target.name), Some(target));
            assert_eq!(Target::parse(target.ptx_target), Some(target));
        }
        for name in ["", "80", "sm_8", "sm_080", "SM_80", "sm_75", "sm_90 ", "sm_90af", "sm_90aa", "sm_1000a"] {
            assert!(Target::parse(name).is_none(), "{name}");
        }
    }

    /// Compares the suffixes with the names that `ptxas --help` of CUDA 13.5 lists.
    #[test]
    fn suffixes_match_ptxas() {
        for target in Target::all() {
            let expected: &[&str] = match target.name {
                "sm_80" | "sm_86" | "sm_87" | "sm_88" | "sm_89" => &[],
                "sm_90" => &["a"],
                _ => &["a", "f"],
            };
            for suffix in ["a", "f", "b", "A", "af"] {
                let found = Target::parse(&format!("{}{suffix}", target.name));
                assert_eq!(found, expected.contains(&suffix).then_some(target), "{target}{suffix}");
            }
        }
    }

    #[test]
    fn targets_of_a_launch_family_are_adjacent() {
        let names =
            |name: &str| Target::parse(name).unwrap().with_earlier_in_launch_family().map(|target| target.name).collect::<Vec<_>>();
        assert_eq!(names("sm_87"), ["sm_87", "sm_86", "sm_80"]);
        assert_eq!(names("sm_90"), ["sm_90"]);
        assert_eq!(names("sm_121"), ["sm_121", "sm_120"]);
    }

    #[test]
    fn rows_are_consistent() {
        for target in Target::all() {
            assert_eq!(Target::all().filter(|other| *other == target).count(), 1, "{target} occurs twice");
            assert_eq!(target.has(Feature::TensorMemory), target.tmem_columns > 0, "{target}");
            assert!(target.ptx_target.starts_with(target.name), "{target}");
        }
    }
}
