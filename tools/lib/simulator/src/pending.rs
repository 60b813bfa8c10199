//! The queue of asynchronous work in flight.
//!
//! With early delivery, work completes at its issue and does not enter the queue. With late delivery, work stays in the queue until
//! its issuer waits for it. If no warp can continue, the oldest work completes.

use crate::fault::{Fault, Result};
use crate::in_flight_work::{Action, Pending};
use crate::machine::{Cluster, Delivery, Machine};

/// Maximum number of entries of the queue. If the queue overflows, the oldest work completes.
pub(crate) const QUEUE_CAPACITY: usize = 1 << 14;

impl Pending {
    /// Returns whether a CTA other than `cta` issued this work, and the work signals an mbarrier of `cta`.
    fn signals_from_other_cta(&self, cta: usize) -> bool {
        let signals_cta = match &self.action {
            Action::Load(load) => load.barrier_ctas().any(|barrier_cta| barrier_cta == cta),
            Action::Commit { barriers, .. } => barriers.iter().any(|barrier| barrier.cta == cta),
            _ => false,
        };
        signals_cta && self.actor.cta != cta
    }
}

impl Machine<'_> {
    /// Checks the end of a warp. If the warp is the last one of its CTA, no work of another CTA may still signal an mbarrier of the
    /// CTA.
    pub(crate) fn check_end_of_cta(&mut self, cluster: &mut Cluster, cta: usize, warp: usize) -> Result<()> {
        let cta_ends = cluster.ctas[cta].warps.iter().enumerate().all(|(index, other)| index == warp || other.is_done());
        if cta_ends {
            cluster.happens_before.check_cta_end(cta)?;
        }
        let Some(unfinished) = cluster.pending.iter().find(|pending| cta_ends && pending.signals_from_other_cta(cta)) else {
            return Ok(());
        };
        let message = format!("CTA {cta} ends while work of CTA {} that targets it is in flight", unfinished.actor.cta);
        self.report_violation(Fault::new("SIM014", message).line(unfinished.actor.line))
    }

    /// Submits new work. With early delivery, the work completes now; with late delivery, it enters the queue.
    pub(crate) fn submit(&mut self, cluster: &mut Cluster, pending: Pending) -> Result<()> {
        match self.options.delivery {
            Delivery::Early => self.perform_pending(cluster, pending),
            Delivery::Late => {
                cluster.pending.push_back(pending);
                while cluster.pending.len() > QUEUE_CAPACITY {
                    self.complete_oldest(cluster)?;
                }
                Ok(())
            }
        }
    }
    /// Completes the oldest work of a cluster. Returns `false` if the queue is empty.
    pub(crate) fn complete_oldest(&mut self, cluster: &mut Cluster) -> Result<bool> {
        match cluster.pending.pop_front() {
            Some(pending) => self.perform_pending(cluster, pending).map(|()| true),
            None => Ok(false),
        }
    }
    /// Performs the effect of work that completes.
    pub(crate) fn perform_pending(&mut self, cluster: &mut Cluster, pending: Pending) -> Result<()> {
        let actor = pending.actor;
        let result = match pending.action {
            Action::Copies { copies, barrier } => self.complete_copies_and_arrive(cluster, &copies, barrier, actor),
            Action::Load(load) => self.perform_bulk_load(cluster, load, actor),
            Action::Store(store) => self.perform_bulk_store(cluster, store),
            Action::Mma(mma) => self.perform_mma(cluster, &mma, actor),
            Action::Response(response) => self.perform_response(cluster, &response, actor),
            Action::TmemCopy(tmem_copy) => self.perform_tmem_copy(cluster, &tmem_copy, actor),
            Action::Commit { barriers, commit_number } => barriers.into_iter().try_for_each(|barrier| {
                cluster.happens_before.arrive_mma_commit(actor, commit_number, barrier);
                cluster.arrive(barrier, 1, actor)
            }),
        };
        result.map_err(|fault| fault.line(actor.line).note("while asynchronous work completed"))
    }
}
