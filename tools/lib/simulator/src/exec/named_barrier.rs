//! Named barriers of a CTA, and the cluster barrier.

use crate::barrier_state::Votes;
use crate::fault::{Fault, Result};
use crate::lanes::{Lanes, WARP_SIZE, mask_of};
use crate::machine::{Cluster, Cta, Machine};
use crate::program::{BarrierOp, VoteMode};
use crate::record::Event;
use crate::warp::Flow;
use crate::warp::{ArrivalToken, Wait, Warp};

/// Returns the number of threads that a barrier without a thread count expects: 32 per warp that has not ended.
/// `has_running_warp` adds the warp that executes now. Reason: the scheduler removes this warp from the CTA for its time slice.
fn count_live_threads(cta: &Cta, has_running_warp: bool) -> u32 {
    32 * (cta.warps.iter().filter(|warp| !warp.is_done()).count() as u32 + u32::from(has_running_warp))
}

impl Cta {
    /// Completes the barriers that waited only for a warp that has now ended.
    pub(crate) fn warp_ended(&mut self) {
        let live_threads = count_live_threads(self, false);
        for barrier in &mut self.barriers {
            if barrier.arrived > 0 && barrier.expected.is_none() && barrier.arrived >= live_threads {
                barrier.complete_phase();
            }
        }
    }
}

impl Cluster {
    /// Completes the cluster barrier if it waited only for a warp that has now ended.
    pub(crate) fn warp_ended(&mut self) {
        let live_threads: u32 = self.ctas.iter().map(|cta| count_live_threads(cta, false)).sum();
        if self.barrier.arrived > 0 && self.barrier.arrived >= live_threads {
            self.barrier.complete_phase();
        }
    }
}

impl Machine<'_> {
    /// Executes `barrier.sync`, `barrier.arrive` or `barrier.red`. Lanes that have to wait execute the instruction again; their
    /// `arrival_token` shows that they have already arrived.
    pub(crate) fn execute_barrier(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &mut Warp,
        split: usize,
        op: &BarrierOp,
        mask: u32,
    ) -> Result<Flow> {
        let live = warp.live_lanes();
        if op.aligned && mask != live && warp.splits[split].arrival_token.is_none() {
            return Ok(Flow::Wait(Wait::Lanes { missing: live & !mask }));
        }
        let lane = mask.trailing_zeros() as usize;
        let id = warp.read(op.id)[lane] as u32;
        let actor = self.actor(cta, warp);
        let order = &mut cluster.happens_before;
        let cta = &mut cluster.ctas[cta];
        let live_threads = count_live_threads(cta, true);
        let Some(barrier) = cta.barriers.get_mut(id as usize) else {
            return Err(Fault::new("SIM050", format!("there is no barrier {id}; a CTA has 16")));
        };
        let threads = match op.threads {
            None => None,
            Some(slot) => {
                let threads = warp.read(slot)[lane] as u32;
                if threads == 0 || !threads.is_multiple_of(32) {
                    return Err(Fault::new(
                        "SIM050",
                        format!("a barrier of {threads} threads: the count must be a multiple of 32"),
                    ));
                }
                Some(threads)
            }
        };
        let expected = threads.unwrap_or(live_threads);
        if let Some(arrival_token) = warp.splits[split].arrival_token {
            if barrier.generation == arrival_token.generation {
                return Ok(Flow::Wait(Wait::Barrier { id, arrived: barrier.arrived, expected }));
            }
            warp.splits[split].arrival_token = None;
            let (threads, arrivals) = (barrier.last_arrivals, if arrival_token.whole_warp { 32 } else { 0 });
            self.record_event(|| Event::Barrier { id, threads, arrivals, awaited_phase: Some(arrival_token.generation) });
            order.acquire_from(actor, &barrier.completed_clock);
            let result = barrier.result;
            write_reduction_result(warp, op, result, mask);
            return Ok(Flow::Next);
        }
        if barrier.arrived > 0 && barrier.expected != threads {
            let text = |threads: Option<u32>| threads.map_or("all".into(), |threads| threads.to_string());
            return Err(Fault::new(
                "SIM051",
                format!("barrier {id} is used for {} threads while it waits for {}", text(threads), text(barrier.expected)),
            ));
        }
        let generation = barrier.generation;
        let whole_warp = mask == live;
        let arrivals = if whole_warp { 32 } else { mask.count_ones() };
        order.publish_clock(actor, &mut barrier.arrival_clock);
        barrier.expected = threads;
        barrier.arrived += arrivals;
        if let Some((_, predicate, _)) = op.reduce {
            let yes = mask_of(warp.read(predicate)) & mask;
            barrier.votes.yes += yes.count_ones();
            barrier.votes.no += (mask & !yes).count_ones();
        }
        if barrier.arrived > expected {
            return Err(Fault::new(
                "SIM051",
                format!("{} threads have arrived at barrier {id}, which expects {expected}", barrier.arrived),
            ));
        }
        if barrier.arrived == expected {
            let awaited_phase = (!op.arrive_only).then_some(generation);
            self.record_event(|| Event::Barrier { id, threads: expected, arrivals, awaited_phase });
            barrier.complete_phase();
            order.acquire_from(actor, &barrier.completed_clock);
            let result = barrier.result;
            write_reduction_result(warp, op, result, mask);
            return Ok(Flow::Next);
        }
        if op.arrive_only {
            self.record_event(|| Event::Barrier { id, threads: expected, arrivals, awaited_phase: None });
            return Ok(Flow::Next);
        }
        let arrived = barrier.arrived;
        warp.splits[split].arrival_token = Some(ArrivalToken { generation, whole_warp });
        if !whole_warp {
            // The other threads of the warp continue while these threads wait, so the trace needs the arrival now.
            self.record_partial_instruction(Event::Barrier { id, threads: expected, arrivals, awaited_phase: None });
        }
        Ok(Flow::Wait(Wait::Barrier { id, arrived, expected }))
    }

    /// Executes `barrier.cluster.arrive` or `barrier.cluster.wait`.
    pub(crate) fn execute_cluster_barrier(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &mut Warp,
        is_arrival: bool,
        mask: u32,
    ) -> Result<Flow> {
        let live = warp.live_lanes();
        if mask != live {
            return Ok(Flow::Wait(Wait::Lanes { missing: live & !mask }));
        }
        if is_arrival {
            if warp.cluster_arrival_generation.is_some() {
                return Err(Fault::new("SIM051", "a warp arrives twice at the cluster barrier without a wait in between"));
            }
            warp.cluster_arrival_generation = Some(cluster.barrier.generation);
            let actor = self.actor(cta, warp);
            cluster.happens_before.publish_clock(actor, &mut cluster.barrier.arrival_clock);
            cluster.barrier.arrived += 32;
            // 32 is for the running warp: the scheduler removes this warp from its CTA for its time slice.
            let live_threads: u32 = 32 + cluster.ctas.iter().map(|cta| count_live_threads(cta, false)).sum::<u32>();
            if cluster.barrier.arrived >= live_threads {
                cluster.barrier.complete_phase();
            }
            return Ok(Flow::Next);
        }
        match warp.cluster_arrival_generation {
            None => Err(Fault::new("SIM051", "a warp waits at the cluster barrier without a preceding arrival")),
            Some(generation) if generation == cluster.barrier.generation => Ok(Flow::Wait(Wait::ClusterBarrier)),
            Some(_) => {
                warp.cluster_arrival_generation = None;
                let actor = self.actor(cta, warp);
                cluster.happens_before.acquire_from(actor, &cluster.barrier.completed_clock);
                Ok(Flow::Next)
            }
        }
    }
}

/// Writes the result of `barrier.red` to the destination register.
fn write_reduction_result(warp: &mut Warp, op: &BarrierOp, votes: Votes, mask: u32) {
    let Some((dst, _, mode)) = op.reduce else { return };
    let value = match mode {
        VoteMode::All => u64::from(votes.no == 0),
        VoteMode::Any | VoteMode::Uniform => u64::from(votes.yes > 0),
        VoteMode::Ballot => votes.yes.into(),
    };
    let values: Lanes = [value; WARP_SIZE];
    warp.write_result(dst, mask, &values, 0);
}
