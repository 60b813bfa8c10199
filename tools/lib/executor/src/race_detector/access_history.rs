//! Interned histories of the accesses to bytes.

use super::hazards::WarpAccess;

/// The accesses to a byte with which a later access may race.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct AccessHistory {
    /// The last write to the byte.
    pub(crate) writer: WarpAccess,
    /// The last readers of up to two warp roles whose reads are not ordered with each other.
    pub(crate) readers: [WarpAccess; 2],
}

/// Index of an access history in the history table. A byte without accesses has history 0.
pub(crate) type HistoryIndex = u32;

/// Interned access histories. Neighbouring bytes usually have equal histories. Each byte therefore stores an index, and an access
/// checks each run of bytes with equal indices once.
pub(crate) struct HistoryTable {
    pub(crate) histories: Vec<AccessHistory>,
    /// Recently added histories by hash, so that equal histories usually share an index.
    pub(crate) recent: Box<[HistoryIndex; RECENT_ENTRIES]>,
    /// Number of histories at which the owner of the table removes unused histories.
    compaction_threshold: usize,
}

/// Number of entries of `HistoryTable::recent`.
const RECENT_ENTRIES: usize = 256;

/// The initial `HistoryTable::compaction_threshold`, which corresponds to 18 MiB of histories.
const INITIAL_COMPACTION_THRESHOLD: usize = 1 << 19;

impl Default for HistoryTable {
    fn default() -> Self {
        HistoryTable {
            histories: vec![AccessHistory::default()],
            recent: Box::new([0; RECENT_ENTRIES]),
            compaction_threshold: INITIAL_COMPACTION_THRESHOLD,
        }
    }
}

impl HistoryTable {
    /// Returns the index of a history. If the history is not among the recent histories, adds it.
    pub(crate) fn intern(&mut self, history: AccessHistory) -> HistoryIndex {
        let hash = |access: WarpAccess| access.event.wrapping_mul(31) ^ u32::from(access.warp);
        let [first, second] = history.readers.map(hash);
        let entry = (hash(history.writer) ^ first.rotate_left(7) ^ second.rotate_left(13)) as usize % RECENT_ENTRIES;
        let recent = self.recent[entry];
        if self.histories[recent as usize] == history {
            return recent;
        }
        self.histories.push(history);
        self.recent[entry] = (self.histories.len() - 1) as HistoryIndex;
        self.recent[entry]
    }

    /// Returns the number of interned histories, including the history of a byte without accesses.
    #[cfg(test)]
    pub(crate) fn history_count(&self) -> usize {
        self.histories.len()
    }
    /// Returns whether the owner of the table must remove unused histories.
    pub(crate) fn is_full(&self) -> bool {
        self.histories.len() >= self.compaction_threshold
    }

    /// Removes the histories to which no byte refers. `bytes` yields the indices of all bytes. The function updates these indices.
    pub(crate) fn compact<'a>(&mut self, bytes: impl Iterator<Item = &'a mut [HistoryIndex]>) {
        let old = std::mem::replace(&mut self.histories, vec![AccessHistory::default()]);
        let mut new_index: Vec<HistoryIndex> = vec![0; old.len()];
        for index in bytes.flatten() {
            if *index != 0 && new_index[*index as usize] == 0 {
                self.histories.push(old[*index as usize]);
                new_index[*index as usize] = (self.histories.len() - 1) as HistoryIndex;
            }
            *index = new_index[*index as usize];
        }
        self.recent.fill(0);
        self.compaction_threshold = INITIAL_COMPACTION_THRESHOLD.max(2 * self.histories.len());
    }
}
