//! `clusterlaunchcontrol.try_cancel`, which steals clusters that are not launched yet, `tensormap.cp_fenceproxy` and
//! `tensormap.replace`.

use super::check_defined;
use super::memory::{MemoryLocation, checked_lane_addresses, memory_location, shared_location};
use crate::fault::{Fault, Result};
use crate::happens_before::Actor;
use crate::in_flight_work::{Action, CANCELED, ClcResponse, Pending};
use crate::lanes::lanes_of;
use crate::location::SharedLocation;
use crate::machine::{Cluster, Machine};
use crate::program::{Address, RegSlot, Space, TensorMapField};
use crate::record::Event;
use crate::tensor_map::replace_field;
use crate::warp::Flow;
use crate::warp::Warp;

impl Machine<'_> {
    /// Executes `clusterlaunchcontrol.try_cancel`: steals the next cluster that is not launched yet, if there is one.
    pub(super) fn cancel_launch(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &mut Warp,
        mask: u32,
        response: Address,
        barrier: Address,
        multicast: bool,
    ) -> Result<Flow> {
        let lane_addresses = checked_lane_addresses(warp, mask, response, Space::SharedCta, 16)?;
        let barriers = checked_lane_addresses(warp, mask, barrier, Space::SharedCta, 8)?;
        let actor = self.actor(cta, warp);
        for lane in lanes_of(mask) {
            let address = shared_location(cluster, cta, lane_addresses[lane] as u32)?.address;
            let barrier = shared_location(cluster, cta, barriers[lane] as u32)?.address;
            let to: Vec<usize> = if multicast { (0..cluster.ctas.len()).collect() } else { vec![cta] };
            let stolen = self.unlaunched.next();
            let [x, y, z] = stolen.unwrap_or_default();
            let [a, b, c] = self.program.cluster_dim;
            let low = u64::from(x * a) | u64::from(y * b) << 32;
            let high = u64::from(z * c) | if stolen.is_some() { CANCELED } else { 0 };
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&low.to_le_bytes());
            bytes[8..].copy_from_slice(&high.to_le_bytes());
            for &cta in &to {
                self.record_event(|| Event::Complete { bar: (cta as u8, barrier), bytes: 16 });
                let location = SharedLocation { cta, address: barrier };
                cluster.check_mbarrier_use(location, actor).map_err(|fault| fault.lanes(1 << lane))?;
                cluster.mbarrier(location)?;
                let cta_state = &mut cluster.ctas[cta];
                cta_state
                    .shared
                    .check_async_write(address, 16, actor, &cta_state.proxy_fence_times)
                    .map_err(|fault| fault.lanes(1 << lane))?;
                cluster.happens_before.check_write(actor, cta, address, 16)?;
            }
            self.submit(cluster, Pending { actor, action: Action::Response(ClcResponse { to, address, barrier, bytes }) })?;
        }
        Ok(Flow::Next)
    }

    /// Writes the response of a `clusterlaunchcontrol.try_cancel` to shared memory, and signals its mbarrier.
    pub(crate) fn perform_response(&mut self, cluster: &mut Cluster, response: &ClcResponse, actor: Actor) -> Result<()> {
        for &cta in &response.to {
            cluster.ctas[cta].shared.write_async(response.address, &response.bytes)?;
            let barrier = SharedLocation { cta, address: response.barrier };
            cluster.happens_before.arrive_at_mbarrier(actor, barrier);
            cluster.complete_bytes(barrier, 16)?;
        }
        Ok(())
    }

    /// Executes `tensormap.cp_fenceproxy`: copies a tensor map from shared to global memory. All lanes execute the instruction
    /// together, so only the first lane copies.
    pub(super) fn copy_tensor_map(
        &mut self,
        cluster: &Cluster,
        cta: usize,
        warp: &Warp,
        mask: u32,
        to: Address,
        from: Address,
    ) -> Result<()> {
        let to = checked_lane_addresses(warp, mask, to, Space::Global, 128)?;
        let from = checked_lane_addresses(warp, mask, from, Space::SharedCta, 128)?;
        let Some(lane) = lanes_of(mask).next() else { return Ok(()) };
        let SharedLocation { cta, address: offset } = shared_location(cluster, cta, from[lane] as u32)?;
        let map = cluster.ctas[cta].shared.peek(offset, 128)?;
        self.global.write(to[lane], map)
    }

    /// Executes `tensormap.replace`: changes a field of a tensor map in memory.
    pub(super) fn replace_tensor_map_field(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &mut Warp,
        mask: u32,
        space: Space,
        address: Address,
        field: TensorMapField,
        value: RegSlot,
    ) -> Result<()> {
        let lane_addresses = checked_lane_addresses(warp, mask, address, space, 128)?;
        check_defined(warp, value, mask, "a field of a tensor map")?;
        for lane in lanes_of(mask) {
            let value = warp.read(value)[lane];
            let with_lane = |fault: Box<Fault>| fault.lanes(1 << lane);
            match memory_location(cluster, cta, space, lane_addresses[lane]).map_err(with_lane)? {
                MemoryLocation::Global(address) => {
                    let mut map = self.global.read(address, 128).map_err(with_lane)?.to_vec();
                    replace_field(&mut map, field, value).map_err(with_lane)?;
                    self.global.write(address, &map).map_err(with_lane)?;
                }
                MemoryLocation::Shared(cta, offset) => {
                    let shared = &mut cluster.ctas[cta].shared;
                    let mut map = shared.read(offset, 128).map_err(with_lane)?.to_vec();
                    replace_field(&mut map, field, value).map_err(with_lane)?;
                    shared.write(offset, &map, warp.index).map_err(with_lane)?;
                }
                _ => return Err(with_lane(Fault::new("SIM012", "a tensor map is modified in memory that cannot hold one"))),
            }
        }
        Ok(())
    }
}
