//! Happens-before analysis of tensor-memory accesses.
//!
//! A warp's access is ordered before another warp's access if three steps separate them: `tcgen05.fence::before_thread_sync` by the
//! first warp, a barrier, and `tcgen05.fence::after_thread_sync` by the second warp.
//!
//! The accesses of an MMA are ordered before an access of a warp under two conditions. The warp waits for an mbarrier at which a
//! later `tcgen05.commit` arrives. The warp then executes a fence. The same order is necessary for loads by the warp that issued
//! the MMA. MMAs and TMEM copies of the same warp complete in order.
//!
//! The unit of time is one fence or one commit. A cell is one column of a group of sixteen lanes.

use crate::fault::{Fault, Result};
use crate::happens_before::{Actor, HappensBefore};
use crate::tmem::TMEM_COLUMNS;
use crate::tmem_accesses::{LANE_GROUPS, MAX_OPEN_LOADS, TmemAccess, TmemCell};
use std::ops::Range;

/// Bit mask of all lane groups.
pub(crate) const ALL_LANE_GROUPS: u8 = u8::MAX;

/// The kind of a tensor-memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TmemAccessKind {
    Load,
    Store,
    /// A read by an MMA or a TMEM copy. MMAs and TMEM copies of one warp execute in order.
    MmaRead,
    /// A write by an MMA or a TMEM copy.
    MmaWrite,
}

impl HappensBefore {
    /// Removes the recorded accesses to newly allocated columns.
    pub(crate) fn reset_tmem_columns(&mut self, cta: usize, columns: Range<u32>) {
        if self.warp_count == 0 {
            return;
        }
        let cells = &mut self.tmem.cells[cta];
        cells.resize(TMEM_COLUMNS * LANE_GROUPS, TmemCell::default());
        cells[columns.start as usize * LANE_GROUPS..columns.end as usize * LANE_GROUPS].fill(TmemCell::default());
    }

    /// Updates the vector clock of a warp that executes `tcgen05.fence::before_thread_sync` (`before`) or `::after_thread_sync`.
    pub(crate) fn record_tcgen05_fence(&mut self, actor: Actor, before: bool) {
        if self.warp_count == 0 {
            return;
        }
        let (id, row) = (self.warp_id(actor), self.clock_range(self.warp_id(actor)));
        if before {
            self.tmem.fence_counts[id] += 1;
            self.vector_clocks[row.start + self.warp_count + id] = self.tmem.fence_counts[id];
        } else {
            let visible = &self.vector_clocks[row.start + self.warp_count..row.start + 2 * self.warp_count];
            self.tmem.fence_snapshots[id].copy_from_slice(visible);
            let committed = &self.vector_clocks[row.start + 2 * self.warp_count..row.start + 3 * self.warp_count];
            self.tmem.completed_commits[id].copy_from_slice(committed);
        }
    }
    /// Counts a `tcgen05.commit` of a warp and returns the number of the commit, from 1.
    pub(crate) fn count_tcgen05_commit(&mut self, actor: Actor) -> u32 {
        if self.warp_count == 0 {
            return 0;
        }
        let id = self.warp_id(actor);
        self.tmem.commit_counts[id] += 1;
        self.tmem.commit_counts[id]
    }
    /// Records that a warp has waited for its loads. Its next `before_thread_sync` fence then orders them.
    pub(crate) fn complete_tmem_loads(&mut self, actor: Actor) {
        if self.warp_count == 0 {
            return;
        }
        let id = self.warp_id(actor);
        let ordering_fence = self.tmem.fence_counts[id] + 1;
        for (cta, cell) in std::mem::take(&mut self.tmem.open_loads[id]) {
            if let Some(cell) = self.tmem.cells[cta].get_mut(cell) {
                cell.reads
                    .iter_mut()
                    .filter(|read| read.warp == id && read.commits == 0)
                    .for_each(|read| read.ordering_fence = ordering_fence);
            }
        }
    }

    /// Returns whether a warp's access to a cell is ordered after an earlier access.
    fn is_ordered_after(&self, id: usize, access_kind: TmemAccessKind, access: &TmemAccess) -> bool {
        // NVIDIA's compiler omits the fence after a wait for a commit.
        let visible_commits = match self.lenient {
            true => self.vector_clocks[self.clock_range(id).start + 2 * self.warp_count + access.warp],
            false => self.tmem.completed_commits[id][access.warp],
        };
        let committed = || access.commits > 0 && visible_commits >= access.commits;
        let is_pipelined = matches!(access_kind, TmemAccessKind::MmaRead | TmemAccessKind::MmaWrite);
        if access.commits > 0 && !is_pipelined {
            return committed();
        }
        access.warp == id || self.tmem.fence_snapshots[id][access.warp] >= access.ordering_fence || committed()
    }

    /// Checks an access by a warp, or by an MMA that it issued, to columns of some lane groups.
    pub(crate) fn check_tmem_access(
        &mut self,
        actor: Actor,
        cta: usize,
        groups: u8,
        columns: Range<u32>,
        access_kind: TmemAccessKind,
    ) -> Result<()> {
        if self.warp_count == 0 {
            return Ok(());
        }
        let id = self.warp_id(actor);
        let writes = matches!(access_kind, TmemAccessKind::Store | TmemAccessKind::MmaWrite);
        let is_mma_access = matches!(access_kind, TmemAccessKind::MmaRead | TmemAccessKind::MmaWrite);
        let new_access = TmemAccess {
            warp: id,
            line: actor.line,
            // A load ends with its `tcgen05.wait::ld`. NVIDIA's compiler sometimes omits this wait, so the lenient analysis ignores
            // it.
            ordering_fence: if access_kind == TmemAccessKind::Load && !self.lenient {
                u32::MAX
            } else {
                self.tmem.fence_counts[id] + 1
            },
            commits: if is_mma_access { self.tmem.commit_counts[id] + 1 } else { 0 },
        };
        let mut loads = Vec::new();
        for column in columns {
            for group in (0..LANE_GROUPS).filter(|group| groups >> group & 1 == 1) {
                let index = column as usize * LANE_GROUPS + group;
                let Some(cell) = self.tmem.cells[cta].get(index) else { continue };
                let before = cell.write.iter().chain(cell.reads.iter().filter(|_| writes));
                if let Some(&access) = before.into_iter().find(|access| !self.is_ordered_after(id, access_kind, access)) {
                    return self.report_unordered(actor, access_kind, column, access);
                }
                let cell = &mut self.tmem.cells[cta][index];
                if writes {
                    cell.reads.clear();
                    cell.write = Some(new_access);
                } else {
                    cell.reads.retain(|read| read.warp != id || (read.commits > 0) != is_mma_access);
                    cell.reads.push(new_access);
                    if access_kind == TmemAccessKind::Load {
                        loads.push((cta, index));
                    }
                }
            }
        }
        // If the list is too long, the analysis treats the loads as complete.
        self.tmem.open_loads[id].extend(loads);
        if self.tmem.open_loads[id].len() > MAX_OPEN_LOADS {
            self.complete_tmem_loads(actor);
        }
        Ok(())
    }

    /// Reports an access that is not ordered after an earlier access to the same column.
    fn report_unordered(&mut self, actor: Actor, access_kind: TmemAccessKind, column: u32, access: TmemAccess) -> Result<()> {
        let what = match access_kind {
            TmemAccessKind::Load => "reads",
            TmemAccessKind::Store => "writes",
            TmemAccessKind::MmaRead => "has an MMA or copy read",
            TmemAccessKind::MmaWrite => "has an MMA or copy write",
        };
        let (id, other) = (self.warp_id(actor), self.describe_warp(access.warp));
        let missing_order = match (access.commits > 0, access.ordering_fence) {
            (true, _) => "a wait for a barrier of tcgen05.commit and tcgen05.fence::after_thread_sync",
            (_, u32::MAX) => "a preceding tcgen05.wait::ld",
            _ => "tcgen05.fence::before_thread_sync, a barrier and tcgen05.fence::after_thread_sync",
        };
        let message = format!("{} {what} column {column} of tensor memory, which {other} accessed before", self.describe_warp(id));
        let fault =
            Fault::new("SIM038", message).note(format!("the earlier access is in line {}; missing: {missing_order}", access.line));
        self.report_fault(fault, actor)
    }
}
