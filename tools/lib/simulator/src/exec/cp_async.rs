//! `cp.async`: per-thread copies of 4 to 16 bytes, in groups.

use super::Flow;
use super::memory::{addresses, shared_location};
use crate::fault::{Fault, Result};
use crate::happens_before::Actor;
use crate::lanes::{WARP, lanes_of};
use crate::machine::{Cluster, Delivery, Machine};
use crate::pending::{Action, Pending, QUEUE_CAPACITY};
use crate::program::{Address, RegSlot, Space};
use crate::record::Event;
use crate::warp::Warp;

/// A copy in flight.
#[derive(Clone, Debug)]
pub(crate) struct AsyncCopy {
    lane: usize,
    /// The number of its group.
    group: u32,
    to: (usize, u32),
    from: u64,
    bytes: u32,
    /// Number of bytes to read; the remaining bytes are zero.
    src_size: u32,
}

/// The copies of a warp. Groups are counted per lane.
#[derive(Default)]
pub(crate) struct Copies {
    open: Vec<AsyncCopy>,
    committed: [u32; WARP],
}

impl Copies {
    /// Takes the copies that a lane waits for: all groups except the last `max_open`. Without `max_open`, also the open group.
    fn take(&mut self, mask: u32, max_open: Option<u32>) -> Vec<AsyncCopy> {
        let committed = self.committed;
        let due = |copy: &AsyncCopy| {
            mask >> copy.lane & 1 == 1 && max_open.is_none_or(|max_open| copy.group + max_open < committed[copy.lane])
        };
        let (taken, rest) = std::mem::take(&mut self.open).into_iter().partition(due);
        self.open = rest;
        taken
    }
}

impl Machine<'_> {
    pub(super) fn copy_async(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &mut Warp,
        mask: u32,
        bytes: u32,
        to: Address,
        from: Address,
        src_size: Option<RegSlot>,
    ) -> Result<()> {
        let destinations = addresses(warp, mask, to, Space::SharedCta, bytes)?;
        let sources = addresses(warp, mask, from, Space::Global, bytes)?;
        if let Some(traffic) = self.traffic() {
            traffic.count_global_access(&sources, mask, bytes);
            traffic.count_shared_access(&destinations, mask, bytes);
        }
        self.record_global_access(&sources, mask, bytes);
        self.record_shared_access(&destinations, mask, bytes, false);
        let actor = self.actor(cta, warp);
        for lane in lanes_of(mask) {
            let src_size = src_size.map_or(bytes, |slot| warp.read(slot)[lane] as u32);
            if src_size > bytes {
                return Err(Fault::new("SIM013", format!("a copy of {bytes} bytes reads {src_size}")).lanes(1 << lane));
            }
            let to = shared_location(cluster, cta, destinations[lane] as u32)?;
            cluster.happens_before.write(actor, to.0, to.1, bytes).map_err(|fault| fault.lanes(1 << lane))?;
            let copy = AsyncCopy { lane, group: warp.copies.committed[lane], to, from: sources[lane], bytes, src_size };
            if self.options.delivery == Delivery::Early {
                self.perform_copy(cluster, &copy, warp.index).map_err(|fault| fault.lanes(1 << lane))?;
            } else {
                cluster.ctas[to.0].shared.mark_async_write(to.1, bytes, true).map_err(|fault| fault.lanes(1 << lane))?;
                warp.copies.open.push(copy);
            }
        }
        if warp.copies.open.len() > QUEUE_CAPACITY {
            self.copy_wait(cluster, warp, mask, None)?;
        }
        Ok(())
    }

    fn perform_copy(&mut self, cluster: &mut Cluster, copy: &AsyncCopy, warp: usize) -> Result<()> {
        let mut data = [0; 16];
        if copy.src_size > 0 {
            data[..copy.src_size as usize].copy_from_slice(self.global.read(copy.from, copy.src_size as usize)?);
        }
        cluster.ctas[copy.to.0].shared.write_copy(copy.to.1, &data[..copy.bytes as usize], warp)
    }
    fn complete_copies(&mut self, cluster: &mut Cluster, copies: &[AsyncCopy], warp: usize) -> Result<()> {
        for copy in copies {
            cluster.ctas[copy.to.0].shared.mark_async_write(copy.to.1, copy.bytes, false)?;
            self.perform_copy(cluster, copy, warp).map_err(|fault| fault.lanes(1 << copy.lane))?;
        }
        Ok(())
    }

    pub(super) fn copy_commit(&mut self, warp: &mut Warp, mask: u32) {
        for lane in lanes_of(mask) {
            warp.copies.committed[lane] += 1;
        }
    }
    /// Waits until at most `max_open` groups are open. Without `max_open`, waits for all copies.
    pub(super) fn copy_wait(&mut self, cluster: &mut Cluster, warp: &mut Warp, mask: u32, max_open: Option<u32>) -> Result<()> {
        let copies = warp.copies.take(mask, max_open);
        self.complete_copies(cluster, &copies, warp.index)
    }

    /// Arrives at an mbarrier on completion of the preceding copies.
    pub(super) fn copy_arrive(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &mut Warp,
        mask: u32,
        address: Address,
        increment: bool,
    ) -> Result<Flow> {
        let lane_addresses = addresses(warp, mask, address, Space::SharedCta, 8)?;
        let actor = self.actor(cta, warp);
        for lane in lanes_of(mask) {
            let barrier = shared_location(cluster, cta, lane_addresses[lane] as u32)?;
            cluster.check_mbarrier_use(barrier, actor).map_err(|fault| fault.lanes(1 << lane))?;
            self.record_event(|| Event::CopyArrive { bar: (barrier.0 as u8, barrier.1), count: 1, increment });
            if increment {
                cluster.mbarrier(barrier)?.add_arrival();
            }
            if self.options.delivery == Delivery::Early {
                cluster.arrive(barrier, 1, actor).map_err(|fault| fault.lanes(1 << lane))?;
                continue;
            }
            let copies = warp.copies.take(1 << lane, None);
            let action = Action::Copies { copies, barrier };
            self.submit(cluster, Pending { actor, action })?;
        }
        Ok(Flow::Next)
    }
    /// Performs the arrival when the copies complete.
    pub(crate) fn copies_arrive(
        &mut self,
        cluster: &mut Cluster,
        copies: &[AsyncCopy],
        barrier: (usize, u32),
        actor: Actor,
    ) -> Result<()> {
        self.complete_copies(cluster, copies, actor.warp)?;
        cluster.arrive(barrier, 1, actor)
    }
}
