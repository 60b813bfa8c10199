//! The queue of asynchronous work in flight.
//!
//! With early delivery, work completes at its issue and does not enter the queue. With late delivery, work stays in the queue until
//! its issuer waits for it. If no warp can continue, the oldest work completes.

use crate::exec::bulk::{BulkLoad, BulkStore};
use crate::exec::cp_async::AsyncCopy;
use crate::exec::launch::ClcResponse;
use crate::exec::tcgen05::TmemCopy;
use crate::exec::tcgen05_mma::IssuedTcgen05Mma;
use crate::fault::{Fault, Result};
use crate::happens_before::Actor;
use crate::location::SharedLocation;
use crate::machine::{Cluster, Delivery, Machine};

/// Maximum number of entries of the queue. If the queue overflows, the oldest work completes.
pub(crate) const QUEUE_CAPACITY: usize = 1 << 14;

/// An entry of the queue: one piece of asynchronous work in flight.
pub(crate) struct Pending {
    /// The issuing warp.
    pub(crate) actor: Actor,
    pub(crate) action: Action,
}

/// The effect of asynchronous work, which takes place when the work completes.
pub(crate) enum Action {
    /// `cp.async` copies with the mbarrier arrival that follows them.
    Copies {
        copies: Vec<AsyncCopy>,
        /// The CTA and the address of the mbarrier.
        barrier: SharedLocation,
    },
    Load(BulkLoad),
    Store(BulkStore),
    Mma(Box<IssuedTcgen05Mma>),
    TmemCopy(TmemCopy),
    Response(ClcResponse),
    /// `tcgen05.commit`: mbarrier arrivals when the preceding MMAs and TMEM copies are complete.
    Commit {
        /// The CTA and the address of each mbarrier.
        barriers: Vec<SharedLocation>,
        /// The sequence number of the commit within its warp.
        commit_number: u32,
    },
}

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
