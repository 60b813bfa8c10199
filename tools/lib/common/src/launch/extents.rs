//! Grids and block indices: one to three extents, optionally per target.

use base::Target;
use base::diag::{Diagnostic, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The maximum number of tile blocks along a dimension of a grid.
pub(super) const MAX_EXTENT: u32 = 0xff_ffff;

/// The extents of a grid, or the index of a tile block. In JSON, trailing numbers may be missing, and a single number needs no
/// list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Extents(pub [u32; 3]);

/// One value for all targets, or one value per target.
#[derive(Clone, Debug, PartialEq)]
pub enum ByTarget<T> {
    All(T),
    Each(BTreeMap<Target, T>),
}

/// Parses a value from JSON; the caller adds the location in the file.
pub(super) trait FromJson: Sized {
    fn from_json(value: &Value) -> std::result::Result<Self, String>;
}

/// Parses one to three numbers up to `MAX_EXTENT`; `default` replaces missing numbers.
fn parse_numbers(value: &Value, default: u32) -> Option<[u32; 3]> {
    let parse_number = |value: &Value| value.as_u64().filter(|number| *number <= u64::from(MAX_EXTENT)).map(|number| number as u32);
    let list: Vec<u32> = match value {
        Value::Array(list) if (1..=3).contains(&list.len()) => list.iter().map(parse_number).collect::<Option<_>>()?,
        _ => vec![parse_number(value)?],
    };
    Some(std::array::from_fn(|axis| list.get(axis).copied().unwrap_or(default)))
}

/// Parses a grid. Its extents are at least 1; missing extents are 1.
impl FromJson for Extents {
    fn from_json(value: &Value) -> std::result::Result<Extents, String> {
        let grid = parse_numbers(value, 1).filter(|grid| grid.iter().all(|extent| *extent > 0));
        grid.map(Extents).ok_or_else(|| format!("{value} is not a grid: expected one to three extents from 1 to {MAX_EXTENT}"))
    }
}

/// Parses a list of block indices, which start at 0; missing numbers are 0.
impl FromJson for Vec<Extents> {
    fn from_json(value: &Value) -> std::result::Result<Vec<Extents>, String> {
        let list = value.as_array().ok_or_else(|| format!("{value} is not a list of blocks"))?;
        let parse_block = |value: &Value| parse_numbers(value, 0).map(Extents).ok_or_else(|| format!("{value} is not a block"));
        list.iter().map(parse_block).collect()
    }
}

impl<'de, T: FromJson> Deserialize<'de> for ByTarget<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let parse = || match &value {
            Value::Object(targets) => {
                let entries = targets.iter().map(|(name, value)| {
                    let target = Target::parse(name).ok_or_else(|| format!("'{name}' is not a target"))?;
                    Ok((target, T::from_json(value)?))
                });
                entries.collect::<std::result::Result<_, String>>().map(ByTarget::Each)
            }
            value => T::from_json(value).map(ByTarget::All),
        };
        parse().map_err(serde::de::Error::custom)
    }
}

impl<T: Serialize> Serialize for ByTarget<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            ByTarget::All(value) => value.serialize(serializer),
            ByTarget::Each(values) => serializer.collect_map(values.iter().map(|(target, value)| (target.name, value))),
        }
    }
}

impl Default for ByTarget<Extents> {
    fn default() -> Self {
        ByTarget::All(Extents([1; 3]))
    }
}

impl From<Extents> for ByTarget<Extents> {
    fn from(extents: Extents) -> Self {
        ByTarget::All(extents)
    }
}

impl Extents {
    /// Creates a grid from one to three extents.
    pub fn of_grid(list: &[u32]) -> Result<Extents> {
        Extents::from_json(&Value::from(list)).map_err(|message| Diagnostic::usage("LCH005", message))
    }
}

impl<T> ByTarget<T> {
    /// Returns the value for a target. If there is none, the value for the latest earlier target of the same launch family.
    /// `value_name` names the value in messages.
    pub fn for_target(&self, target: Option<Target>, value_name: &str) -> Result<&T> {
        let launch_error = |message: String| Diagnostic::invalid("LCH005", message);
        match (self, target) {
            (ByTarget::All(value), _) => Ok(value),
            (ByTarget::Each(_), None) => {
                Err(launch_error(format!("the {value_name} depends on the target: select one with --gpu-name")))
            }
            (ByTarget::Each(values), Some(target)) => {
                let value = target.with_earlier_in_launch_family().find_map(|candidate| values.get(&candidate));
                value.ok_or_else(|| launch_error(format!("the launch has no {value_name} for {target}")))
            }
        }
    }
}
