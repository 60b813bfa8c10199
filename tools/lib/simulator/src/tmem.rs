//! Tensor memory of a CTA (128 lanes of 512 columns of 32 bits), and the register fragments of `tcgen05.ld` and `tcgen05.st`.

use crate::fault::{Fault, Result};

/// Number of lanes of the tensor memory of an SM.
pub(crate) const TMEM_LANES: usize = 128;
/// Number of 32-bit columns of the tensor memory of an SM.
pub(crate) const TMEM_COLUMNS: usize = 512;
/// The smallest allocation in columns. Sizes are powers of two.
const MIN_ALLOCATION: u32 = 32;

/// The tensor memory of one CTA.
pub(crate) struct Tmem {
    /// All words: the columns of lane 0, then the columns of lane 1, and so on. Empty before the first allocation.
    words: Vec<u32>,
    /// For each word, whether it was written since its allocation.
    defined: Vec<bool>,
    /// For each column, the number of the allocation that owns it, from 1; 0 means none.
    owner: Vec<u32>,
    /// Number of allocations so far.
    allocations: u32,
    /// Peak number of allocated columns.
    pub(crate) peak: u32,
    /// Whether the CTA has given up its permission to allocate.
    pub(crate) relinquished: bool,
    /// For each column, the number of MMAs in flight that access it.
    pub(crate) mmas_in_flight: Vec<u16>,
    /// For each column and group of 32 lanes, the number of stores in flight.
    stores_in_flight: Vec<[u16; 4]>,
}

impl Default for Tmem {
    fn default() -> Self {
        let owner = vec![0; TMEM_COLUMNS];
        Tmem {
            words: Vec::new(),
            defined: Vec::new(),
            owner,
            allocations: 0,
            peak: 0,
            relinquished: false,
            mmas_in_flight: vec![0; TMEM_COLUMNS],
            stores_in_flight: vec![[0; 4]; TMEM_COLUMNS],
        }
    }
}

impl Tmem {
    /// Allocates columns and returns the first column; `None` if no free range of columns is large enough.
    pub(crate) fn allocate(&mut self, columns: u32) -> Result<Option<u32>> {
        if !columns.is_power_of_two() || !(MIN_ALLOCATION..=TMEM_COLUMNS as u32).contains(&columns) {
            return Err(Fault::new(
                "SIM080",
                format!("an allocation of {columns} columns of tensor memory: the count must be a power of two from 32 to 512"),
            ));
        }
        if self.relinquished {
            return Err(Fault::new("SIM080", "tensor memory is allocated after tcgen05.relinquish_alloc_permit"));
        }
        self.words.resize(TMEM_LANES * TMEM_COLUMNS, 0);
        self.defined.resize(TMEM_LANES * TMEM_COLUMNS, false);
        let size = columns as usize;
        let start = (0..TMEM_COLUMNS).step_by(size).find(|&start| self.owner[start..start + size].iter().all(|&owner| owner == 0));
        let Some(start) = start else { return Ok(None) };
        self.allocations += 1;
        self.owner[start..start + size].fill(self.allocations);
        self.peak = self.peak.max(self.owner.iter().filter(|&&owner| owner != 0).count() as u32);
        self.defined.chunks_exact_mut(TMEM_COLUMNS).for_each(|lane| lane[start..start + size].fill(false));
        Ok(Some(start as u32))
    }
    /// Frees an allocation. Returns a fault if the columns are not exactly one allocation.
    pub(crate) fn free(&mut self, address: u32, columns: u32) -> Result<()> {
        let (start, size) = ((address & 0xffff) as usize, columns as usize);
        let owner = self.owner.get(start).copied().unwrap_or(0);
        if owner == 0 || self.owner.iter().filter(|&&other| other == owner).count() != size || start + size > TMEM_COLUMNS {
            return Err(Fault::new(
                "SIM080",
                format!("{columns} columns of tensor memory at {address:#x} are freed, but they are not one allocation"),
            ));
        }
        self.owner[start..start + size].fill(0);
        Ok(())
    }
    /// Returns whether any column is allocated.
    pub(crate) fn is_allocated(&self) -> bool {
        self.owner.iter().any(|&owner| owner != 0)
    }
    /// Returns the index of a column, or a fault if the column is not allocated.
    pub(crate) fn check_column(&self, column: u32) -> Result<usize> {
        match self.owner.get(column as usize) {
            Some(&owner) if owner != 0 => Ok(column as usize),
            _ => Err(Fault::new("SIM081", format!("column {column} of tensor memory is not allocated"))),
        }
    }
    /// Returns the index of a word in `words`, or a fault if the lane does not exist or the column is not allocated.
    pub(crate) fn cell_index(&self, lane: usize, column: u32) -> Result<usize> {
        match lane {
            0..TMEM_LANES => Ok(lane * TMEM_COLUMNS + self.check_column(column)?),
            _ => Err(Fault::new("SIM081", format!("there is no lane {lane} of tensor memory"))),
        }
    }
    /// Counts the beginning (`begin`) or the end of a store to a cell.
    pub(crate) fn mark_store(&mut self, lane: usize, column: u32, begin: bool) {
        let count = &mut self.stores_in_flight[column as usize][lane / 32];
        *count = if begin { count.saturating_add(1) } else { count.saturating_sub(1) };
    }
    /// Returns whether stores to a column are in flight in the group of 32 lanes that contains `lane`. `None` means in any group.
    pub(crate) fn has_store_in_flight(&self, lane: Option<usize>, column: usize) -> bool {
        let groups = self.stores_in_flight[column];
        lane.map_or(groups.iter().any(|&count| count > 0), |lane| groups[lane / 32] > 0)
    }
    /// Returns a word, or a fault if its column is not allocated.
    pub(crate) fn read(&self, lane: usize, column: u32) -> Result<u32> {
        Ok(self.words[self.cell_index(lane, column)?])
    }
    /// Returns whether a word was written since its column was allocated.
    pub(crate) fn is_defined(&self, lane: usize, column: u32) -> bool {
        self.defined.get(lane * TMEM_COLUMNS + column as usize).copied().unwrap_or(false)
    }
    /// Writes a word and marks it as defined.
    pub(crate) fn write(&mut self, lane: usize, column: u32, value: u32) -> Result<()> {
        let cell = self.cell_index(lane, column)?;
        self.words[cell] = value;
        self.defined[cell] = true;
        Ok(())
    }
}

/// The shapes of `tcgen05.ld` and `tcgen05.st`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TmemShape {
    S32x32,
    S16x64,
    S16x128,
    S16x256,
    /// `16x32bx2`: both half-warps access the same 16 lanes. The columns of the second half-warp are offset by an immediate
    /// operand.
    S16x32x2,
}

impl TmemShape {
    /// Returns the number of registers and of columns of one repetition (`.x1`).
    pub(crate) fn registers_and_columns(self) -> (usize, u32) {
        match self {
            TmemShape::S32x32 | TmemShape::S16x32x2 => (1, 1),
            TmemShape::S16x64 => (1, 2),
            TmemShape::S16x128 => (2, 4),
            TmemShape::S16x256 => (4, 8),
        }
    }
    /// Returns the TMEM lane and column of register `index` of a thread, relative to the first lane and column of the access.
    /// `split` is the column offset of the second half-warp of `16x32bx2`.
    pub(crate) fn location(self, thread: usize, index: usize, split: u32) -> (usize, u32) {
        let (registers_per_repetition, columns) = self.registers_and_columns();
        let (first, register) = ((index / registers_per_repetition) as u32 * columns, index % registers_per_repetition);
        match self {
            TmemShape::S32x32 => (thread, first),
            TmemShape::S16x32x2 => (thread % 16, first + if thread < 16 { 0 } else { split }),
            TmemShape::S16x64 => (thread / 4 + 8 * (thread % 2), first + (thread / 2 % 2) as u32),
            TmemShape::S16x128 => (thread / 4 + 8 * register, first + (thread % 4) as u32),
            TmemShape::S16x256 => (thread / 4 + 8 * (register / 2), first + (2 * (thread % 4) + register % 2) as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn locations_match_figures_of_the_isa() {
        assert_eq!(TmemShape::S32x32.location(7, 3, 0), (7, 3));
        assert_eq!(
            [0, 1, 2, 3, 4].map(|thread| TmemShape::S16x64.location(thread, 0, 0)),
            [(0, 0), (8, 0), (0, 1), (8, 1), (1, 0)]
        );
        assert_eq!([0, 1, 2].map(|index| TmemShape::S16x128.location(6, index, 0)), [(1, 2), (9, 2), (1, 6)]);
        assert_eq!(
            [0, 1, 2, 3, 4].map(|index| TmemShape::S16x256.location(6, index, 0)),
            [(1, 4), (1, 5), (9, 4), (9, 5), (1, 12)]
        );
        assert_eq!((TmemShape::S16x32x2.location(3, 2, 32), TmemShape::S16x32x2.location(19, 2, 32)), ((3, 2), (3, 34)));
    }

    #[test]
    fn every_cell_has_one_register() {
        for (shape, lanes) in [
            (TmemShape::S32x32, 32),
            (TmemShape::S16x64, 16),
            (TmemShape::S16x128, 16),
            (TmemShape::S16x256, 16),
            (TmemShape::S16x32x2, 16),
        ] {
            let (per, columns) = shape.registers_and_columns();
            let all: BTreeSet<_> =
                (0..32).flat_map(|thread| (0..2 * per).map(move |index| shape.location(thread, index, 2))).collect();
            let halves = if shape == TmemShape::S16x32x2 { 2 } else { 1 };
            assert_eq!(all.len(), lanes * 2 * columns as usize * halves);
        }
    }

    #[test]
    fn allocates_and_frees_columns() {
        let mut tmem = Tmem::default();
        assert_eq!(tmem.allocate(256).unwrap(), Some(0));
        assert_eq!(tmem.allocate(64).unwrap(), Some(256));
        assert_eq!(tmem.allocate(256).unwrap(), None);
        assert!(tmem.read(0, 320).is_err() && tmem.read(0, 319).is_ok());
        assert!(tmem.free(256, 128).is_err() && tmem.free(256, 64).is_ok());
        assert!(tmem.allocate(48).is_err());
    }
}
