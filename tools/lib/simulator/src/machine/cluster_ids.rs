//! The clusters of a launch that remain to be executed.

use super::INSTRUCTION_LIMIT_FAULT;
use crate::fault::Fault;
use std::sync::Arc;

/// A range of clusters of a grid, or a selection of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClusterIds {
    /// The extent of the grid, in clusters.
    pub(crate) extent: [u32; 3],
    /// The selected cluster numbers, x fastest; `next` and `end` are indices into them. `None`: `next` and `end` are cluster
    /// numbers.
    pub(crate) selected: Option<Arc<[u64]>>,
    pub(crate) next: u64,
    pub(crate) end: u64,
}

impl Iterator for ClusterIds {
    type Item = [u32; 3];
    fn next(&mut self) -> Option<[u32; 3]> {
        let [x, y, _] = self.extent.map(u64::from);
        (self.next < self.end).then(|| {
            let number = self.selected.as_ref().map_or(self.next, |selected| selected[self.next as usize]);
            self.next += 1;
            [number % x, number / x % y, number / (x * y)].map(|coordinate| coordinate as u32)
        })
    }
}

impl ClusterIds {
    /// Adds the number of started clusters to an instruction-limit fault. The number shows whether the kernel is long or endless.
    pub(super) fn add_progress_note(&self, fault: Box<Fault>) -> Box<Fault> {
        if fault.code != INSTRUCTION_LIMIT_FAULT || self.end <= 1 {
            return fault;
        }
        let (begun, all) = (self.next, self.end);
        fault.note(format!("{begun} of {all} clusters were started; use --sample-blocks or raise --instruction-limit"))
    }
}
