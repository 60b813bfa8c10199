//! What the hardware has to multiply and to move: the tables of atoms, and how layouts and buffers fit them.

pub mod boxes;
mod fit;
pub mod group;
pub mod mma;
mod table;
pub mod tensor;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// The entry of a table that makes a product, written as its name.
#[derive(Clone, Copy)]
pub enum MmaAtom {
    /// `mma.sync`: by warps, from registers.
    Sync(&'static table::SyncAtom),
    /// `wgmma`: by warp groups, from shared memory, the left operand also from registers.
    Group(&'static table::GroupAtom),
    /// `tcgen05.mma`: by one thread, sums in tensor memory, the left operand there or both in shared memory.
    Tensor(&'static table::TensorAtom),
    /// By each thread for its own accumulators, in the order of K, from shared memory.
    MultiplyAdd(&'static table::ThreadAtom),
}

impl MmaAtom {
    pub fn name(self) -> &'static str {
        match self {
            MmaAtom::Sync(atom) => atom.name,
            MmaAtom::Group(atom) => atom.name,
            MmaAtom::Tensor(atom) => atom.name,
            MmaAtom::MultiplyAdd(atom) => atom.name,
        }
    }

    /// Multiply-adds for a product with such an extent along K, with at most so many steps of it written out.
    pub fn multiply_add(extent: u32, most: u32) -> MmaAtom {
        let fits = |atom: &&table::ThreadAtom| extent.is_multiple_of(atom.k) && atom.k <= most;
        MmaAtom::MultiplyAdd(table::THREAD_ATOMS.iter().rfind(fits).unwrap_or(&table::THREAD_ATOMS[0]))
    }

    pub fn named(name: &str) -> Option<MmaAtom> {
        let threads = || table::THREAD_ATOMS.iter().find(|atom| atom.name == name).map(MmaAtom::MultiplyAdd);
        let sync = mma::named(name).map(MmaAtom::Sync);
        let group = || group::named(name).map(MmaAtom::Group);
        sync.or_else(group).or_else(|| tensor::named(name).map(MmaAtom::Tensor)).or_else(threads)
    }
}

impl PartialEq for MmaAtom {
    fn eq(&self, other: &MmaAtom) -> bool {
        self.name() == other.name()
    }
}

impl fmt::Debug for MmaAtom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for MmaAtom {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for MmaAtom {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MmaAtom, D::Error> {
        let name = String::deserialize(deserializer)?;
        MmaAtom::named(&name).ok_or_else(|| de::Error::custom(format!("there is no atom '{name}'")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_atom_has_a_name_of_its_own() {
        let in_registers = || table::SYNC_ATOMS.iter().map(|atom| atom.name).chain(table::GROUP_ATOMS.iter().map(|atom| atom.name));
        let names = || {
            in_registers()
                .chain(table::TENSOR_ATOMS.iter().map(|atom| atom.name))
                .chain(table::THREAD_ATOMS.iter().map(|atom| atom.name))
        };
        assert!(names().all(|name| MmaAtom::named(name).is_some_and(|atom| atom.name() == name)));
        assert_eq!(names().collect::<std::collections::BTreeSet<_>>().len(), names().count());
        assert_eq!(MmaAtom::named("tcgen05"), None);
    }
}
