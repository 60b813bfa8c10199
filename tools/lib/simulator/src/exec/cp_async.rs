//! `cp.async`: per-thread copies of 4 to 16 bytes to shared memory, their commit groups and their arrivals at mbarriers.

use super::memory::{checked_lane_addresses, shared_location};
use crate::fault::{Fault, Result};
use crate::happens_before::Actor;
use crate::in_flight_work::{Action, AsyncCopy, Copies, Pending};
use crate::lanes::lanes_of;
use crate::location::SharedLocation;
use crate::machine::{Cluster, Delivery, Machine};
use crate::pending::QUEUE_CAPACITY;
use crate::program::{Address, RegSlot, Space};
use crate::record::Event;
use crate::warp::Flow;
use crate::warp::Warp;

impl Copies {
    /// Removes and returns the copies that the lanes of `mask` wait for: the copies of all committed groups except the last
    /// `max_open`. Without `max_open`, the lanes wait for all copies, also for uncommitted ones.
    fn take_due(&mut self, mask: u32, max_open: Option<u32>) -> Vec<AsyncCopy> {
        let committed_groups = self.committed_groups;
        let is_due = |copy: &AsyncCopy| {
            mask >> copy.lane & 1 == 1 && max_open.is_none_or(|max_open| copy.group + max_open < committed_groups[copy.lane])
        };
        let (taken, remaining) = std::mem::take(&mut self.in_flight).into_iter().partition(is_due);
        self.in_flight = remaining;
        taken
    }
}

impl Machine<'_> {
    /// Issues `cp.async` for each active lane.
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
        let destinations = checked_lane_addresses(warp, mask, to, Space::SharedCta, bytes)?;
        let sources = checked_lane_addresses(warp, mask, from, Space::Global, bytes)?;
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
            cluster.happens_before.check_write(actor, to.cta, to.address, bytes).map_err(|fault| fault.lanes(1 << lane))?;
            let copy = AsyncCopy { lane, group: warp.copies.committed_groups[lane], to, from: sources[lane], bytes, src_size };
            if self.options.delivery == Delivery::Early {
                self.perform_copy(cluster, &copy, warp.index).map_err(|fault| fault.lanes(1 << lane))?;
            } else {
                cluster.ctas[to.cta].shared.mark_async_write(to.address, bytes, true).map_err(|fault| fault.lanes(1 << lane))?;
                warp.copies.in_flight.push(copy);
            }
        }
        if warp.copies.in_flight.len() > QUEUE_CAPACITY {
            self.copy_wait(cluster, warp, mask, None)?;
        }
        Ok(())
    }

    /// Copies the bytes of one lane to shared memory, and zeros after the first `src_size` bytes.
    fn perform_copy(&mut self, cluster: &mut Cluster, copy: &AsyncCopy, warp: usize) -> Result<()> {
        let mut data = [0; 16];
        if copy.src_size > 0 {
            data[..copy.src_size as usize].copy_from_slice(self.global.read(copy.from, copy.src_size as usize)?);
        }
        cluster.ctas[copy.to.cta].shared.write_copy(copy.to.address, &data[..copy.bytes as usize], warp)
    }
    /// Completes copies in flight.
    fn complete_copies(&mut self, cluster: &mut Cluster, copies: &[AsyncCopy], warp: usize) -> Result<()> {
        for copy in copies {
            cluster.ctas[copy.to.cta].shared.mark_async_write(copy.to.address, copy.bytes, false)?;
            self.perform_copy(cluster, copy, warp).map_err(|fault| fault.lanes(1 << copy.lane))?;
        }
        Ok(())
    }

    /// Executes `cp.async.commit_group` for each active lane.
    pub(super) fn copy_commit(&mut self, warp: &mut Warp, mask: u32) {
        for lane in lanes_of(mask) {
            warp.copies.committed_groups[lane] += 1;
        }
    }
    /// Executes `cp.async.wait_group` or `cp.async.wait_all`: completes all commit groups of the lanes except the last `max_open`.
    /// Without `max_open`, completes all copies of the lanes.
    pub(super) fn copy_wait(&mut self, cluster: &mut Cluster, warp: &mut Warp, mask: u32, max_open: Option<u32>) -> Result<()> {
        let copies = warp.copies.take_due(mask, max_open);
        self.complete_copies(cluster, &copies, warp.index)
    }

    /// Executes `cp.async.mbarrier.arrive`: an arrival at an mbarrier when the preceding copies of the lanes are complete.
    pub(super) fn copy_arrive(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &mut Warp,
        mask: u32,
        address: Address,
        increment: bool,
    ) -> Result<Flow> {
        let lane_addresses = checked_lane_addresses(warp, mask, address, Space::SharedCta, 8)?;
        let actor = self.actor(cta, warp);
        for lane in lanes_of(mask) {
            let barrier = shared_location(cluster, cta, lane_addresses[lane] as u32)?;
            cluster.check_mbarrier_use(barrier, actor).map_err(|fault| fault.lanes(1 << lane))?;
            self.record_event(|| Event::CopyArrive { bar: (barrier.cta as u8, barrier.address), count: 1, increment });
            if increment {
                cluster.mbarrier(barrier)?.add_arrival();
            }
            if self.options.delivery == Delivery::Early {
                cluster.arrive(barrier, 1, actor).map_err(|fault| fault.lanes(1 << lane))?;
                continue;
            }
            let copies = warp.copies.take_due(1 << lane, None);
            let action = Action::Copies { copies, barrier };
            self.submit(cluster, Pending { actor, action })?;
        }
        Ok(Flow::Next)
    }
    /// Completes the copies of a `cp.async.mbarrier.arrive`, and then arrives at its mbarrier.
    pub(crate) fn complete_copies_and_arrive(
        &mut self,
        cluster: &mut Cluster,
        copies: &[AsyncCopy],
        barrier: SharedLocation,
        actor: Actor,
    ) -> Result<()> {
        self.complete_copies(cluster, copies, actor.warp)?;
        cluster.arrive(barrier, 1, actor)
    }
}
