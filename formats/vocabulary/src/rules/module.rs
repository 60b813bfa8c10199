//! What a module's globals and functions are called, and that the data of globals fits them.

use super::{Rule, require};
use crate::tile::{Dense, Global};
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
