//! Asynchronous work in flight.
//!
//! With early delivery, work completes at its issue. With late delivery, work stays in this queue until its issuer waits for it. If
//! no warp can continue, the oldest work completes.

use crate::exec::bulk::{BulkLoad, BulkStore};
use crate::exec::cp_async::AsyncCopy;
use crate::exec::launch::Response;
use crate::exec::tcgen05::TmemCopy;
use crate::exec::tensor_mma::Mma;
use crate::fault::{Fault, Result};
use crate::happens_before::Actor;
use crate::machine::{Cluster, Delivery, Machine};

/// Capacity of the queue. If it overflows, the oldest work completes early.
pub(crate) const QUEUE_CAPACITY: usize = 1 << 14;

pub(crate) struct Pending {
    /// The issuing warp.
    pub(crate) actor: Actor,
    pub(crate) action: Action,
}

pub(crate) enum Action {
    /// `cp.async` copies with the mbarrier arrival that follows them.
    Copies {
        copies: Vec<AsyncCopy>,
        barrier: (usize, u32),
    },
    Load(BulkLoad),
    Store(BulkStore),
    Mma(Box<Mma>),
    TmemCopy(TmemCopy),
    Response(Response),
    /// mbarrier arrivals on completion of the preceding tensor work.
    Commit {
        barriers: Vec<(usize, u32)>,
        /// The sequence number of the commit within its warp.
        number: u32,
    },
}

impl Pending {
    /// Returns whether the work will access a CTA from another CTA.
    fn accesses_other_cta(&self, cta: usize) -> bool {
        let there = match &self.action {
            Action::Load(load) => load.barriers().any(|at| at == cta),
            Action::Commit { barriers, .. } => barriers.iter().any(|(at, _)| *at == cta),
            _ => false,
        };
        there && self.actor.cta != cta
    }
}

impl Machine<'_> {
    /// Checks the end of a warp. If it was the last warp of its CTA, no work of other CTAs may still target the CTA.
    pub(crate) fn check_end_of_cta(&mut self, cluster: &mut Cluster, cta: usize, warp: usize) -> Result<()> {
        let ended = cluster.ctas[cta].warps.iter().enumerate().all(|(at, other)| at == warp || other.is_done());
        if ended {
            cluster.happens_before.check_cta_end(cta)?;
        }
        let Some(late) = cluster.pending.iter().find(|pending| ended && pending.accesses_other_cta(cta)) else { return Ok(()) };
        let message = format!("CTA {cta} ends while work of CTA {} that targets it is in flight", late.actor.cta);
        self.breach(Fault::new("SIM014", message).line(late.actor.line))
    }

    /// Submits new work. It completes now or later, depending on the delivery mode.
    pub(crate) fn submit(&mut self, cluster: &mut Cluster, pending: Pending) -> Result<()> {
        match self.options.delivery {
            Delivery::Early => self.perform(cluster, pending),
            Delivery::Late => {
                cluster.pending.push_back(pending);
                // The queue is bounded.
                while cluster.pending.len() > QUEUE_CAPACITY {
                    self.deliver(cluster)?;
                }
                Ok(())
            }
        }
    }
    /// Completes the oldest work of a cluster. Returns whether there was any.
    pub(crate) fn deliver(&mut self, cluster: &mut Cluster) -> Result<bool> {
        match cluster.pending.pop_front() {
            Some(pending) => self.perform(cluster, pending).map(|()| true),
            None => Ok(false),
        }
    }
    pub(crate) fn perform(&mut self, cluster: &mut Cluster, pending: Pending) -> Result<()> {
        let actor = pending.actor;
        let result = match pending.action {
            Action::Copies { copies, barrier } => self.copies_arrive(cluster, &copies, barrier, actor),
            Action::Load(load) => self.perform_bulk_load(cluster, load, actor),
            Action::Store(store) => self.perform_bulk_store(cluster, store),
            Action::Mma(mma) => self.perform_mma(cluster, &mma, actor),
            Action::Response(response) => self.perform_response(cluster, &response, actor),
            Action::TmemCopy(tmem_copy) => self.perform_tmem_copy(cluster, &tmem_copy, actor),
            Action::Commit { barriers, number } => barriers.into_iter().try_for_each(|barrier| {
                cluster.happens_before.arrive_mma_commit(actor, number, barrier);
                cluster.arrive(barrier, 1, actor)
            }),
        };
        result.map_err(|fault| fault.line(actor.line).note("while asynchronous work completed"))
    }
}
