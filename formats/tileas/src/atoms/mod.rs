//! The hardware's MMA and copy instructions: the tables of atoms, their layouts, and their fit to layouts and buffers.

mod fit;
pub mod mma_sync_atoms;
mod table;
pub mod tensor_memory;
pub mod tma_tiles;
pub mod tma_windows;
pub mod wgmma_atoms;

use base::Target;
use numerics::Scalar;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use target_info::Feature;

/// The table entry of an MMA instruction. `.as` and `.sched` files contain the name of the entry.
#[derive(Clone, Copy)]
pub enum MmaAtom {
    /// `mma.sync`: a warp computes from registers.
    Sync(&'static table::SyncAtom),
    /// `wgmma`: a warp group computes from shared memory; the left operand may also be in registers.
    Group(&'static table::GroupAtom),
    /// `tcgen05.mma`: one thread issues the instruction. The accumulator is in tensor memory, the left operand in tensor or shared
    /// memory, and the right operand in shared memory.
    Tensor(&'static table::TensorAtom),
    /// FMA: each thread computes its own accumulators in the order of K, from shared memory.
    MultiplyAdd(&'static table::ThreadAtom),
}

impl MmaAtom {
    /// The name of the atom in `.as`.
    pub fn name(self) -> &'static str {
        match self {
            MmaAtom::Sync(atom) => atom.name,
            MmaAtom::Group(atom) => atom.name,
            MmaAtom::Tensor(atom) => atom.name,
            MmaAtom::MultiplyAdd(atom) => atom.name,
        }
    }

    /// The FMA atom with the most unrolled steps along K, at most `max_unroll`, that divide the extent `extent` along K.
    pub fn multiply_add(extent: u32, max_unroll: u32) -> MmaAtom {
        let fits = |atom: &&table::ThreadAtom| extent.is_multiple_of(atom.k) && atom.k <= max_unroll;
        MmaAtom::MultiplyAdd(table::THREAD_ATOMS.iter().rfind(fits).unwrap_or(&table::THREAD_ATOMS[0]))
    }

    /// All atoms of the tables.
    pub fn all() -> impl Iterator<Item = MmaAtom> {
        let tensor = table::TENSOR_ATOMS.iter().map(MmaAtom::Tensor);
        let group = table::GROUP_ATOMS.iter().map(MmaAtom::Group);
        let sync = table::SYNC_ATOMS.iter().map(MmaAtom::Sync);
        tensor.chain(group).chain(sync).chain(table::THREAD_ATOMS.iter().map(MmaAtom::MultiplyAdd))
    }

    /// Returns whether the target has the instruction of the atom.
    pub fn is_available_on(self, target: Target) -> bool {
        match self {
            MmaAtom::Sync(atom) => atom.is_available_on(target),
            MmaAtom::Group(_) => target.has(Feature::Wgmma),
            MmaAtom::Tensor(atom) => target.has(atom.required_feature),
            MmaAtom::MultiplyAdd(_) => true,
        }
    }

    /// Multiply-adds of operand elements per cycle of an SM. A byte with two 4-bit floats counts as one element. The target must
    /// have the atom ([`Self::is_available_on`]).
    pub fn rate(self, target: Target) -> u32 {
        /// The reason why the rate of an atom exists: the panic message of `expect`.
        const HAS_RATE: &str = "the test `every_atom_has_a_rate` checks each target that has the atom";
        let rates = perf_model::rates(target);
        match self {
            MmaAtom::Sync(atom) => rates.mma(atom.rate, atom.element_bits),
            MmaAtom::Group(atom) => rates.wgmma.expect(HAS_RATE).multiply_adds(atom.operands[0].bits()),
            MmaAtom::Tensor(atom) => rates.tcgen05.expect(HAS_RATE).multiply_adds(atom.operands[0].bits()),
            MmaAtom::MultiplyAdd(_) => rates.multiply_add,
        }
    }

    /// The rate of the target's fastest atom for operand elements of this type, in multiply-adds per cycle of an SM.
    pub fn best_rate(target: Target, operand: Scalar) -> u32 {
        let has_mma = |atom: &MmaAtom| match atom {
            // Scaled atoms for bytes multiply 4-bit floats.
            MmaAtom::Sync(atom) => atom.operands.contains(&operand) && (operand != Scalar::I8 || atom.scales == 0),
            MmaAtom::Group(atom) => atom.operands.contains(&operand),
            MmaAtom::Tensor(atom) => atom.operands.contains(&operand),
            MmaAtom::MultiplyAdd(_) => true,
        };
        let rates = MmaAtom::all().filter(|atom| atom.is_available_on(target) && has_mma(atom)).map(|atom| atom.rate(target));
        let packed_fp4 =
            perf_model::rates(target).tcgen05.filter(|_| operand == Scalar::F4E2M1FN).map(|column| column.multiply_adds(4));
        rates.chain(packed_fp4).max().expect("each target has multiply-adds of threads")
    }

    /// The atom with a name in `.as`; `None` if no atom has this name.
    pub fn from_name(name: &str) -> Option<MmaAtom> {
        let threads = || table::THREAD_ATOMS.iter().find(|atom| atom.name == name).map(MmaAtom::MultiplyAdd);
        let sync = mma_sync_atoms::sync_atom_named(name).map(MmaAtom::Sync);
        let group = || wgmma_atoms::group_atom_named(name).map(MmaAtom::Group);
        sync.or_else(group).or_else(|| tensor_memory::tensor_atom_named(name).map(MmaAtom::Tensor)).or_else(threads)
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
        MmaAtom::from_name(&name).ok_or_else(|| de::Error::custom(format!("there is no atom '{name}'")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each atom of a target has a rate. Tensor-core atoms are faster than FMAs of threads, except f64, which some chips hardly
    /// support.
    #[test]
    fn every_atom_has_a_rate() {
        for target in Target::all() {
            for atom in MmaAtom::all().filter(|atom| atom.is_available_on(target)) {
                let rate = atom.rate(target);
                let fma_rate = perf_model::rates(target).multiply_add;
                let is_f64 = matches!(atom, MmaAtom::Sync(atom) if atom.acc == Scalar::F64);
                let is_fast_tensor_core = !is_f64 && !matches!(atom, MmaAtom::MultiplyAdd(_));
                assert!(rate > 0 && (!is_fast_tensor_core || rate > fma_rate), "{target} {atom:?}: {rate}, FMAs {fma_rate}");
            }
        }
    }

    /// FP4 with block scales is twice as fast as FP8 (RTX Blackwell architecture paper).
    #[test]
    fn block_scaled_fp4_is_twice_as_fast_as_fp8() {
        let rate = |name: &str| MmaAtom::from_name(name).unwrap().rate(Target::parse("sm_120").unwrap());
        assert_eq!(rate("mma.m16n8k64.mxf4"), 2 * rate("mma.m16n8k32.mxf8"));
        assert_eq!(rate("mma.m16n8k64.nvf4"), 2 * rate("mma.m16n8k32.mxf8"));
    }

    #[test]
    fn every_atom_has_a_name_of_its_own() {
        let warp_atom_names =
            || table::SYNC_ATOMS.iter().map(|atom| atom.name).chain(table::GROUP_ATOMS.iter().map(|atom| atom.name));
        let names = || {
            warp_atom_names()
                .chain(table::TENSOR_ATOMS.iter().map(|atom| atom.name))
                .chain(table::THREAD_ATOMS.iter().map(|atom| atom.name))
        };
        assert!(names().all(|name| MmaAtom::from_name(name).is_some_and(|atom| atom.name() == name)));
        assert_eq!(names().collect::<std::collections::BTreeSet<_>>().len(), names().count());
        assert_eq!(MmaAtom::from_name("tcgen05"), None);
    }
}
