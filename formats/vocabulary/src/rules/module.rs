//! What a module's globals and functions are called, that the data of globals fits them, and how blocks share tile blocks out.

use super::{MiddleOp, Rule, require};
use crate::core_ops::{Core, MOST_RANKS};
use crate::tile::{Dense, Global};
use base::Body;
use std::collections::BTreeSet;

/// Names are unique, and every global's data and alignment fit its type.
pub fn names<'a>(globals: &'a [Global], functions: impl Iterator<Item = &'a str>) -> Rule {
    let mut names = BTreeSet::new();
    for name in globals.iter().map(|global| global.name.as_str()).chain(functions) {
        require(names.insert(name), || format!("there are two things called '{name}'"))?;
    }
    globals.iter().try_for_each(data)
}

fn data(global: &Global) -> Rule {
    let count_fits = match &global.value {
        Dense::Splat(_) => true,
        Dense::Elements(elements) => elements.len() as u64 == global.count,
    };
    require(count_fits && global.align.is_power_of_two(), || {
        format!("global '{}' has data or an alignment that does not fit its type", global.name)
    })
}

/// Where a cluster shares tile blocks out it has as many blocks as can be; where none does, nobody asks for a rank.
pub fn cluster<O: MiddleOp, T>(body: &Body<O, T>, cluster: Option<u32>) -> Rule {
    require(cluster.is_none_or(|ranks| ranks == MOST_RANKS), || format!("a cluster has {MOST_RANKS} blocks"))?;
    let asks = || body.ops.values().any(|op| matches!(op.kind.core(), Some(Core::ClusterRank {})));
    require(cluster.is_some() || !asks(), || "it asks for a rank, and there is no cluster".into())
}
