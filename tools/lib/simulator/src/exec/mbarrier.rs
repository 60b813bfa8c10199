//! mbarriers in shared memory, with phases and transaction counts.

use super::memory::{addresses, shared_location};
use super::{Flow, defined};
use crate::fault::{Fault, Result};
use crate::happens_before::Actor;
use crate::lanes::{Lanes, WARP, lanes_of};
use crate::machine::{Cluster, Delivery, Machine};
use crate::program::{Address, MbarrierOp, RegSlot, Space};
use crate::record::Event;
use crate::warp::{Wait, Warp};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mbarrier {
    expected: u32,
    pending: u32,
    /// Expected bytes that have not arrived. Negative if data arrives before its `expect_tx`.
    transactions: i64,
    /// Number of completed phases.
    pub(crate) phase: u64,
}

impl Mbarrier {
    /// Completes the phase if nothing is outstanding. Returns whether it did.
    fn settle(&mut self) -> bool {
        let done = self.pending == 0 && self.transactions == 0;
        if done {
            self.phase += 1;
            self.pending = self.expected;
        }
        done
    }
    /// Expects one more arrival in this phase.
    pub(super) fn add_arrival(&mut self) {
        self.pending += 1;
    }
    fn describe(&self) -> String {
        format!(
            "{} of {} arrivals and {} bytes outstanding, {} phases complete",
            self.pending, self.expected, self.transactions, self.phase
        )
    }
}

impl Cluster {
    /// Returns the barrier at an address of a CTA.
    pub(crate) fn mbarrier(&mut self, (cta, address): (usize, u32)) -> Result<&mut Mbarrier> {
        let missing = || Fault::new("SIM053", format!("there is no initialised mbarrier at {address:#x}"));
        self.ctas[cta].mbarriers.get_mut(&address).ok_or_else(missing)
    }
    pub(crate) fn arrive(&mut self, location: (usize, u32), count: u32, actor: Actor) -> Result<()> {
        self.order.arrive(actor, location);
        let barrier = self.mbarrier(location)?;
        let Some(pending) = barrier.pending.checked_sub(count) else {
            let message = format!("{count} arrivals at the mbarrier at {:#x}, which waits for {}", location.1, barrier.pending);
            return Err(Fault::new("SIM054", message).note(format!("the barrier has {}", barrier.describe())));
        };
        barrier.pending = pending;
        self.settle(location)
    }
    /// Completes bytes of a transaction.
    pub(crate) fn complete_bytes(&mut self, location: (usize, u32), bytes: u32) -> Result<()> {
        let barrier = self.mbarrier(location)?;
        barrier.transactions -= i64::from(bytes);
        self.settle(location)
    }
    /// Checks that the use of a barrier is ordered after its initialisation.
    pub(crate) fn reach(&mut self, location: (usize, u32), actor: Actor) -> Result<()> {
        self.order.reach(actor, location)
    }
    fn settle(&mut self, location: (usize, u32)) -> Result<()> {
        if self.mbarrier(location)?.settle() {
            self.order.phase_done(location);
        }
        Ok(())
    }
    fn expect(&mut self, location: (usize, u32), bytes: u32) -> Result<()> {
        let barrier = self.mbarrier(location)?;
        barrier.transactions += i64::from(bytes);
        self.settle(location)
    }
}

impl Machine<'_> {
    pub(super) fn mbarrier(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &mut Warp,
        split: usize,
        mask: u32,
        op: MbarrierOp,
        address: Address,
        operand: RegSlot,
        dst: Option<RegSlot>,
    ) -> Result<Flow> {
        let at = addresses(warp, mask, address, Space::SharedCluster, 8)?;
        defined(warp, operand, mask, "an mbarrier's operand")?;
        let operand = *warp.read(operand);
        let actor = self.actor(cta, warp);
        let mut out: Lanes = [0; WARP];
        let mut state = String::new();
        for (lane, count) in uniform(mask, &at, &operand, op) {
            let value = operand[lane] as u32;
            let location = shared_location(cluster, cta, at[lane] as u32)?;
            let located = |fault: Box<Fault>| fault.lanes(1 << lane);
            let bar = (location.0 as u8, location.1);
            if !matches!(op, MbarrierOp::Init | MbarrierOp::Invalidate) {
                cluster.reach(location, actor).map_err(located)?;
            }
            match op {
                MbarrierOp::Init => {
                    // NVIDIA's compiler initialises unused barriers with count 0 in CTAs of a pair that issue no MMAs.
                    if (value == 0 && self.options.check_rules) || value >= 1 << 20 {
                        return Err(located(Fault::new("SIM054", format!("an mbarrier cannot wait for {value} arrivals"))));
                    }
                    self.note(|| Event::Init { bar, count: value });
                    // The barrier must be in shared memory.
                    cluster.ctas[location.0].shared.write_async(location.1, &[0; 8])?;
                    cluster.order.write(actor, location.0, location.1, 8).map_err(located)?;
                    let barrier = Mbarrier { expected: value, pending: value, ..Mbarrier::default() };
                    cluster.ctas[location.0].mbarriers.insert(location.1, barrier);
                }
                MbarrierOp::Invalidate => {
                    // NVIDIA's compiler also invalidates barriers that were never initialised.
                    cluster.ctas[location.0].mbarriers.remove(&location.1);
                }
                MbarrierOp::Arrive { drop } => {
                    self.note(|| Event::Arrive { bar, count: value.saturating_mul(count) });
                    let before = *cluster.mbarrier(location).map_err(located)?;
                    if drop {
                        let barrier = cluster.mbarrier(location)?;
                        barrier.expected = barrier.expected.saturating_sub(value * count);
                    }
                    cluster.arrive(location, value.saturating_mul(count), actor).map_err(located)?;
                    out[lane] = before.phase;
                }
                MbarrierOp::ArriveExpect => {
                    self.note(|| Event::Expect { bar, bytes: value.saturating_mul(count) });
                    self.note(|| Event::Arrive { bar, count });
                    out[lane] = cluster.mbarrier(location).map_err(located)?.phase;
                    cluster.mbarrier(location)?.transactions += i64::from(value) * i64::from(count);
                    cluster.arrive(location, count, actor).map_err(located)?;
                }
                MbarrierOp::Expect => {
                    self.note(|| Event::Expect { bar, bytes: value.saturating_mul(count) });
                    cluster.expect(location, value.saturating_mul(count)).map_err(located)?;
                }
                MbarrierOp::Complete => {
                    self.note(|| Event::Complete { bar, bytes: value.saturating_mul(count) });
                    cluster.complete_bytes(location, value.saturating_mul(count)).map_err(located)?;
                }
                MbarrierOp::Wait { parity, .. } => {
                    let barrier = cluster.mbarrier(location).map_err(located)?;
                    let phases = barrier.phase as u32;
                    let done = if parity { barrier.phase & 1 != u64::from(value & 1) } else { barrier.phase != operand[lane] };
                    out[lane] = done.into();
                    if !done && state.is_empty() {
                        state = barrier.describe();
                    }
                    self.note(|| Event::Wait { bar, phases, done });
                    if done {
                        cluster.order.acquire(actor, location);
                    }
                }
            }
        }
        if uniform_operation(mask, &at, &operand) {
            out = [out[mask.trailing_zeros() as usize]; WARP];
        }
        if let MbarrierOp::Wait { blocking, .. } = op {
            let done = lanes_of(mask).any(|lane| out[lane] == 1);
            // With late delivery, the first try_wait fails spuriously, which the ISA permits; later tries block. A repeated
            // test_wait at one instruction counts as a blocking wait. Otherwise, late work would never complete for a loop that
            // only polls.
            let pc = warp.splits[split].pc;
            let again = warp.splits[split].gave_up == Some(pc);
            let patient = blocking && self.options.delivery == Delivery::Early || again;
            warp.splits[split].gave_up = if done { None } else { Some(pc) };
            if !done && patient {
                let lane = mask.trailing_zeros() as usize;
                self.failed_waits[pc as usize] += 1;
                return Ok(Flow::Wait(Wait::Mbarrier { address: at[lane] as u32, parity: operand[lane] as u32 & 1, state }));
            }
            if let Some(dst) = dst {
                warp.set(dst, mask, &out, 0);
            }
            return Ok(if done { Flow::Next } else { Flow::Yield });
        }
        if let Some(dst) = dst {
            warp.set(dst, mask, &out, 0);
        }
        Ok(Flow::Next)
    }
}

fn uniform_operation(mask: u32, at: &Lanes, operand: &Lanes) -> bool {
    let first = mask.trailing_zeros() as usize;
    lanes_of(mask).all(|lane| at[lane] == at[first] && operand[lane] == operand[first])
}

/// Returns the lanes that act, each with a multiplicity. Lanes with equal operands act once.
fn uniform(mask: u32, at: &Lanes, operand: &Lanes, op: MbarrierOp) -> Vec<(usize, u32)> {
    let once = matches!(op, MbarrierOp::Wait { .. } | MbarrierOp::Init);
    if uniform_operation(mask, at, operand) {
        return vec![(mask.trailing_zeros() as usize, if once { 1 } else { mask.count_ones() })];
    }
    lanes_of(mask).map(|lane| (lane, 1)).collect()
}
