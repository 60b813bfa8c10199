//! Performance numbers of GPUs, as data: `machines/*.toml` has one file per architecture and one per chip. A chip inherits the
//! numbers of its architecture.
//!
//! A number is `name = [value, "trust", "source"]`. The levels of trust:
//! - `A`: two measurements that agree, or one measurement that agrees with a documented hardware rate;
//! - `B`: one good microbenchmark;
//! - `C`: a single source, or an inference from a source.
//!
//! A user's file inherits from any of these files and overrides numbers. [`Machine::set`] overrides one number by its name
//! `section.name`. Cycles are SM cycles.

use base::diag::{Diagnostic, Result};
use std::collections::BTreeMap;

mod mma_rate;
mod numbers;
mod rates;
pub mod unrolling;

pub use mma_rate::MmaRate;
pub use numbers::Machine;
pub use rates::{ColumnRate, Rates, machine, rates};

/// A number with its provenance.
#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    /// The value. The documentation of the number's field in a section of [`Machine`] states the unit.
    pub value: f64,
    /// The trust in the value: `A`, `B` or `C`, as the module's header defines.
    pub trust: String,
    /// The document or measurement that gives the value.
    pub source: String,
}

/// The numbers of a machine, by `section.name`.
pub(crate) type Numbers = BTreeMap<String, Number>;

/// The built-in machine files. Each row has the name, the aliases and the text of a file.
const FILES: &[(&str, &[&str], &str)] = &[
    ("sm_80", &[], include_str!("../../../machines/sm_80.toml")),
    ("sm_86", &[], include_str!("../../../machines/sm_86.toml")),
    ("sm_90", &[], include_str!("../../../machines/sm_90.toml")),
    ("sm_100", &[], include_str!("../../../machines/sm_100.toml")),
    ("sm_120", &[], include_str!("../../../machines/sm_120.toml")),
    ("a100", &["a100-80"], include_str!("../../../machines/a100.toml")),
    ("a100-40", &[], include_str!("../../../machines/a100-40.toml")),
    ("h100-sxm", &["h100"], include_str!("../../../machines/h100-sxm.toml")),
    ("h100-nvl", &[], include_str!("../../../machines/h100-nvl.toml")),
    ("h200", &[], include_str!("../../../machines/h200.toml")),
    ("h800-pcie", &["h800"], include_str!("../../../machines/h800-pcie.toml")),
    ("b200", &[], include_str!("../../../machines/b200.toml")),
    ("b300", &[], include_str!("../../../machines/b300.toml")),
    ("rtx3090", &[], include_str!("../../../machines/rtx3090.toml")),
    ("rtx4090", &[], include_str!("../../../machines/rtx4090.toml")),
    ("rtx5080", &[], include_str!("../../../machines/rtx5080.toml")),
    ("rtx5090", &[], include_str!("../../../machines/rtx5090.toml")),
    ("rtxpro6000", &["rtx-pro-6000"], include_str!("../../../machines/rtxpro6000.toml")),
];

/// Returns the names of the built-in chips, without the architectures from which the chips inherit.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, ..)| *name).filter(|name| !name.starts_with("sm_"))
}

/// The chips that represent a target.
pub struct Chips {
    /// The most common chip, which predictions use.
    pub typical: &'static str,
    /// The chip for which the compiler optimizes: the data-centre or workstation chip if the chips of the target differ.
    pub planned: &'static str,
}

/// One row per PTX target that a chip of `machines/` represents.
const CHIPS: &[(&str, Chips)] = &[
    ("sm_80", Chips { typical: "a100", planned: "a100" }),
    ("sm_86", Chips { typical: "rtx3090", planned: "rtx3090" }),
    ("sm_87", Chips { typical: "a100", planned: "a100" }),
    ("sm_88", Chips { typical: "rtx3090", planned: "rtx3090" }),
    ("sm_89", Chips { typical: "rtx4090", planned: "rtx4090" }),
    ("sm_90", Chips { typical: "h100-sxm", planned: "h100-sxm" }),
    ("sm_100", Chips { typical: "b200", planned: "b200" }),
    ("sm_101", Chips { typical: "b200", planned: "b200" }),
    ("sm_103", Chips { typical: "b300", planned: "b300" }),
    ("sm_107", Chips { typical: "b300", planned: "b300" }),
    ("sm_110", Chips { typical: "b200", planned: "b200" }),
    ("sm_120", Chips { typical: "rtx5090", planned: "rtxpro6000" }),
    ("sm_121", Chips { typical: "rtx5090", planned: "rtxpro6000" }),
];

/// Returns the chips of a PTX target, or `None` if [`CHIPS`] has no row for the target. The name may end in the suffix of
/// architecture- or family-specific features.
pub fn chips(target: &str) -> Option<&'static Chips> {
    let name = target.trim_end_matches(['a', 'f']);
    CHIPS.iter().find(|(known, _)| *known == name).map(|(_, chips)| chips)
}

/// Returns the chip with which `tile-time` predicts times for a PTX target, or `None` if [`CHIPS`] has no row for the target.
pub fn typical_chip(target: &str) -> Option<&'static str> {
    chips(target).map(|chips| chips.typical)
}

impl Machine {
    /// Loads a built-in machine file by its name or an alias.
    pub fn named(name: &str) -> Result<Machine> {
        let unknown = || {
            let names: Vec<&str> = names().collect();
            Diagnostic::invalid("MCH001", format!("there is no machine '{name}'; known machines: {}", names.join(", ")))
        };
        let (name, _, text) = find_file(name).ok_or_else(unknown)?;
        Machine::parse(name, text)
    }

    /// Parses a chip from the text of a file.
    pub fn parse(name: &str, text: &str) -> Result<Machine> {
        let mut numbers = Numbers::new();
        merge_numbers(name, text, &mut numbers, 0)?;
        Machine::from_numbers(name, numbers)
    }

    /// Returns a copy of the machine in which the assignment `section.name=value` overrides a number.
    pub fn set(&self, assignment: &str) -> Result<Machine> {
        let wrong = |why: &str| Diagnostic::invalid("MCH002", format!("'{assignment}': {why}"));
        let (key, value) = assignment.split_once('=').ok_or_else(|| wrong("expected the form section.name=value"))?;
        let value: f64 = value.trim().parse().map_err(|_| wrong("the value is not a number"))?;
        let mut numbers = self.numbers.clone();
        let Some(number) = numbers.get_mut(key.trim()) else { return Err(wrong("there is no such number")) };
        *number = Number { value, trust: "-".into(), source: "given by the user".into() };
        Machine::from_numbers(&self.name, numbers)
    }
}

/// Returns the row of [`FILES`] with a name or alias, or `None` if there is none.
fn find_file(name: &str) -> Option<(&'static str, &'static [&'static str], &'static str)> {
    FILES.iter().copied().find(|(other, aliases, _)| *other == name || aliases.contains(&name))
}

/// Adds the numbers that a file inherits to `numbers`, and then the file's own numbers, which override inherited numbers.
fn merge_numbers(name: &str, text: &str, numbers: &mut Numbers, depth: usize) -> Result<()> {
    let wrong = |why: String| Diagnostic::invalid("MCH003", format!("machine '{name}': {why}"));
    let table: toml::Table = text.parse().map_err(|error| wrong(format!("{error}")))?;
    if let Some(parent) = table.get("inherits") {
        let parent = parent.as_str().ok_or_else(|| wrong("'inherits' is not a string".into()))?;
        let (parent, _, text) =
            find_file(parent).ok_or_else(|| wrong(format!("it inherits from the unknown machine '{parent}'")))?;
        if depth > 4 {
            return Err(wrong("it inherits from itself".into()));
        }
        merge_numbers(parent, text, numbers, depth + 1)?;
    }
    for (section, rows) in table.iter().filter(|(key, _)| !matches!(key.as_str(), "inherits" | "about")) {
        let rows = rows.as_table().ok_or_else(|| wrong(format!("'{section}' is not a section")))?;
        for (key, row) in rows {
            let key_path = format!("{section}.{key}");
            numbers.insert(
                key_path.clone(),
                parse_number(row).ok_or_else(|| {
                    wrong(format!("'{key_path}' is not [value, \"trust\", \"source\"] with a value of at least 0"))
                })?,
            );
        }
    }
    Ok(())
}

/// Parses `[value, "trust", "source"]`. Returns `None` for other values, and for a negative number.
fn parse_number(row: &toml::Value) -> Option<Number> {
    let [value, trust, source] = row.as_array()?.as_slice() else { return None };
    let value = value.as_float().or(value.as_integer().map(|value| value as f64)).filter(|value| *value >= 0.0)?;
    Some(Number { value, trust: trust.as_str()?.into(), source: source.as_str()?.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_parses_as_a_machine() {
        for (name, ..) in FILES {
            if !name.starts_with("sm_") {
                let machine = Machine::named(name).unwrap_or_else(|error| panic!("{name}: {}", error.message));
                for (key, number) in &machine.numbers {
                    assert!(["A", "B", "C"].contains(&&*number.trust) && !number.source.is_empty(), "{name}: {key}");
                }
            }
        }
    }

    #[test]
    fn a_file_and_an_assignment_override_numbers() {
        let machine = Machine::parse("mine", "inherits = 'h100-sxm'\n[chip]\nsms = [7, 'C', 'mine']").unwrap();
        assert_eq!(machine.chip.sms, 7.0);
        assert_eq!(machine.set("chip.sms=9").unwrap().chip.sms, 9.0);
        for (text, code) in [
            ("inherits = 'x'", "MCH003"),
            ("[chip]\nsms = 7", "MCH003"),
            ("inherits = 'b200'\n[chip]\nx = [1, 'A', 'x']", "MCH004"),
            ("", "MCH004"),
            ("inherits = 'b200'\n[rate]\nf32 = [nan, 'A', 'x']", "MCH003"),
        ] {
            assert_eq!(Machine::parse("mine", text).unwrap_err().code, code, "{text}");
        }
        assert_eq!(machine.set("chip.x=1").unwrap_err().code, "MCH002");
        assert_eq!(Machine::named("h1000").unwrap_err().code, "MCH001");
    }
}
