//! `cp.async`: per-thread copies of 4 to 16 bytes, in groups.

use super::Flow;
use super::memory::{addresses, shared_location};
use crate::fault::{Fault, Result};
use crate::happens_before::Actor;
use crate::lanes::{WARP, lanes_of};
use crate::machine::{Cluster, Delivery, Machine};
use crate::pending::{Action, Pending, QUEUE};
use crate::program::{Address, RegSlot, Space};
use crate::record::Event;
use crate::warp::Warp;

/// A copy in flight.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    lane: usize,
    /// The number of its group.
    group: u32,
    to: (usize, u32),
    from: u64,
    bytes: u32,
    /// Number of bytes to read; the remaining bytes are zero.
    read: u32,
}

/// The copies of a warp. Groups are counted per lane.
#[derive(Default)]
pub(crate) struct Copies {
    open: Vec<Copy>,
    committed: [u32; WARP],
}

impl Copies {
    /// Takes the copies that a lane waits for: all groups except the last `left`. Without `left`, also the open group.
    fn take(&mut self, mask: u32, left: Option<u32>) -> Vec<Copy> {
        let committed = self.committed;
        let due = |copy: &Copy| mask >> copy.lane & 1 == 1 && left.is_none_or(|left| copy.group + left < committed[copy.lane]);
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
        read: Option<RegSlot>,
    ) -> Result<()> {
        let destinations = addresses(warp, mask, to, Space::SharedCta, bytes)?;
        let sources = addresses(warp, mask, from, Space::Global, bytes)?;
        if let Some(traffic) = self.traffic() {
            traffic.global(&sources, mask, bytes);
            traffic.shared(&destinations, mask, bytes);
        }
        self.note_global(&sources, mask, bytes);
        self.note_shared(&destinations, mask, bytes, false);
        let actor = self.actor(cta, warp);
        for lane in lanes_of(mask) {
            let read = read.map_or(bytes, |slot| warp.read(slot)[lane] as u32);
            if read > bytes {
                return Err(Fault::new("SIM013", format!("a copy of {bytes} bytes reads {read}")).lanes(1 << lane));
            }
            let to = shared_location(cluster, cta, destinations[lane] as u32)?;
            cluster.order.write(actor, to.0, to.1, bytes).map_err(|fault| fault.lanes(1 << lane))?;
            let copy = Copy { lane, group: warp.copies.committed[lane], to, from: sources[lane], bytes, read };
            if self.options.delivery == Delivery::Early {
                self.do_copy(cluster, &copy, warp.index).map_err(|fault| fault.lanes(1 << lane))?;
            } else {
                cluster.ctas[to.0].shared.arriving(to.1, bytes, true).map_err(|fault| fault.lanes(1 << lane))?;
                warp.copies.open.push(copy);
            }
        }
        if warp.copies.open.len() > QUEUE {
            self.copy_wait(cluster, warp, mask, None)?;
        }
        Ok(())
    }

    fn do_copy(&mut self, cluster: &mut Cluster, copy: &Copy, warp: usize) -> Result<()> {
        let mut data = [0; 16];
        if copy.read > 0 {
            data[..copy.read as usize].copy_from_slice(self.global.read(copy.from, copy.read as usize)?);
        }
        cluster.ctas[copy.to.0].shared.write_copy(copy.to.1, &data[..copy.bytes as usize], warp)
    }
    fn finish(&mut self, cluster: &mut Cluster, copies: &[Copy], warp: usize) -> Result<()> {
        for copy in copies {
            cluster.ctas[copy.to.0].shared.arriving(copy.to.1, copy.bytes, false)?;
            self.do_copy(cluster, copy, warp).map_err(|fault| fault.lanes(1 << copy.lane))?;
        }
        Ok(())
    }

    pub(super) fn copy_commit(&mut self, warp: &mut Warp, mask: u32) {
        for lane in lanes_of(mask) {
            warp.copies.committed[lane] += 1;
        }
    }
    /// Waits until at most `left` groups are open. Without `left`, waits for all copies.
    pub(super) fn copy_wait(&mut self, cluster: &mut Cluster, warp: &mut Warp, mask: u32, left: Option<u32>) -> Result<()> {
        let copies = warp.copies.take(mask, left);
        self.finish(cluster, &copies, warp.index)
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
        let at = addresses(warp, mask, address, Space::SharedCta, 8)?;
        let actor = self.actor(cta, warp);
        for lane in lanes_of(mask) {
            let barrier = shared_location(cluster, cta, at[lane] as u32)?;
            cluster.reach(barrier, actor).map_err(|fault| fault.lanes(1 << lane))?;
            self.note(|| Event::CopyArrive { bar: (barrier.0 as u8, barrier.1), count: 1, increment });
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
        copies: &[Copy],
        barrier: (usize, u32),
        actor: Actor,
    ) -> Result<()> {
        self.finish(cluster, copies, actor.warp)?;
        cluster.arrive(barrier, 1, actor)
    }
}
