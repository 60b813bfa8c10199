//! Grids and block indices: one to three extents, optionally per target.

use base::Target;
use base::diag::{Diagnostic, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The maximum number of blocks along a dimension.
pub(super) const MAX_EXTENT: u32 = 0xff_ffff;

/// Three numbers. In JSON, trailing numbers may be missing, and a single number needs no list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Extents(pub [u32; 3]);

/// One value, or one per target.
#[derive(Clone, Debug, PartialEq)]
pub enum ByTarget<T> {
    All(T),
    Each(BTreeMap<Target, T>),
}

/// Parses a value from JSON; the caller adds the location in the file.
pub(super) trait FromJson: Sized {
    fn from_json(value: &Value) -> std::result::Result<Self, String>;
}

fn numbers(value: &Value, missing: u32) -> Option<[u32; 3]> {
    let number = |value: &Value| value.as_u64().filter(|number| *number <= u64::from(MAX_EXTENT)).map(|number| number as u32);
    let list: Vec<u32> = match value {
        Value::Array(list) if (1..=3).contains(&list.len()) => list.iter().map(number).collect::<Option<_>>()?,
        _ => vec![number(value)?],
    };
    Some(std::array::from_fn(|axis| list.get(axis).copied().unwrap_or(missing)))
}

/// A grid. Its extents are at least 1, which is also the default.
impl FromJson for Extents {
    fn from_json(value: &Value) -> std::result::Result<Extents, String> {
        let grid = numbers(value, 1).filter(|grid| grid.iter().all(|extent| *extent > 0));
        grid.map(Extents).ok_or_else(|| format!("{value} is not a grid: expected one to three extents from 1 to {MAX_EXTENT}"))
    }
}

/// A list of block indices, which start at 0.
impl FromJson for Vec<Extents> {
    fn from_json(value: &Value) -> std::result::Result<Vec<Extents>, String> {
        let list = value.as_array().ok_or_else(|| format!("{value} is not a list of blocks"))?;
        let block = |value: &Value| numbers(value, 0).map(Extents).ok_or_else(|| format!("{value} is not a block"));
        list.iter().map(block).collect()
    }
}

impl<'de, T: FromJson> Deserialize<'de> for ByTarget<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let read = || match &value {
            Value::Object(each) => {
                let each = each.iter().map(|(name, value)| {
                    let target = Target::parse(name).ok_or_else(|| format!("'{name}' is not a target"))?;
                    Ok((target, T::from_json(value)?))
                });
                each.collect::<std::result::Result<_, String>>().map(ByTarget::Each)
            }
            value => T::from_json(value).map(ByTarget::All),
        };
        read().map_err(serde::de::Error::custom)
    }
}

impl<T: Serialize> Serialize for ByTarget<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            ByTarget::All(value) => value.serialize(serializer),
            ByTarget::Each(each) => serializer.collect_map(each.iter().map(|(target, value)| (target.name, value))),
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
    /// A grid of one to three extents.
    pub fn of_grid(list: &[u32]) -> Result<Extents> {
        Extents::from_json(&Value::from(list)).map_err(|message| Diagnostic::usage("LCH005", message))
    }
}

impl<T> ByTarget<T> {
    /// The value for a target, or for the nearest earlier target of its generation.
    pub fn for_target(&self, target: Option<Target>, what: &str) -> Result<&T> {
        let wrong = |message: String| Diagnostic::invalid("LCH005", message);
        match (self, target) {
            (ByTarget::All(value), _) => Ok(value),
            (ByTarget::Each(_), None) => Err(wrong(format!("the {what} depends on the target: select one with --gpu-name"))),
            (ByTarget::Each(each), Some(target)) => {
                let found = target.with_earlier_in_generation().find_map(|known| each.get(&known));
                found.ok_or_else(|| wrong(format!("the launch has no {what} for {target}")))
            }
        }
    }
}
