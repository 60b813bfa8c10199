//! mbarriers in shared memory, with phases and transaction counts.

use super::check_defined;
use super::memory::{checked_lane_addresses, shared_location};
use crate::barrier_state::Mbarrier;
use crate::fault::{Fault, Result};
use crate::happens_before::Actor;
use crate::lanes::{Lanes, WARP_SIZE, lanes_of};
use crate::location::SharedLocation;
use crate::machine::{Cluster, Delivery, ExecutionMode, Machine};
use crate::program::{Address, MbarrierOp, RegSlot, Space};
use crate::record::Event;
use crate::warp::Flow;
use crate::warp::{Wait, Warp};

impl Cluster {
    /// Returns the mbarrier at an address of a CTA.
    pub(crate) fn mbarrier(&mut self, location: SharedLocation) -> Result<&mut Mbarrier> {
        let missing = || Fault::new("SIM053", format!("there is no initialised mbarrier at {:#x}", location.address));
        self.ctas[location.cta].mbarriers.get_mut(&location.address).ok_or_else(missing)
    }
    /// Counts arrivals at an mbarrier, and completes the phase if no arrivals and no bytes are missing.
    pub(crate) fn arrive(&mut self, location: SharedLocation, count: u32, actor: Actor) -> Result<()> {
        self.happens_before.arrive_at_mbarrier(actor, location);
        let barrier = self.mbarrier(location)?;
        let Some(pending) = barrier.pending.checked_sub(count) else {
            let message =
                format!("{count} arrivals at the mbarrier at {:#x}, which waits for {}", location.address, barrier.pending);
            return Err(Fault::new("SIM054", message).note(format!("the barrier has {}", barrier.describe())));
        };
        barrier.pending = pending;
        self.try_complete_phase(location)
    }
    /// Executes `complete_tx`: subtracts arrived bytes from the bytes that the current phase expects.
    pub(crate) fn complete_bytes(&mut self, location: SharedLocation, bytes: u32) -> Result<()> {
        let barrier = self.mbarrier(location)?;
        barrier.tx_count -= i64::from(bytes);
        self.try_complete_phase(location)
    }
    /// Checks that the use of an mbarrier is ordered after its initialisation.
    pub(crate) fn check_mbarrier_use(&mut self, location: SharedLocation, actor: Actor) -> Result<()> {
        self.happens_before.check_mbarrier_use(actor, location)
    }
    /// Completes the phase of an mbarrier if no arrivals and no bytes are missing.
    fn try_complete_phase(&mut self, location: SharedLocation) -> Result<()> {
        if self.mbarrier(location)?.try_complete_phase() {
            self.happens_before.complete_phase(location);
        }
        Ok(())
    }
    /// Executes `expect_tx`: adds bytes that the current phase of an mbarrier expects.
    fn expect_bytes(&mut self, location: SharedLocation, bytes: u32) -> Result<()> {
        let barrier = self.mbarrier(location)?;
        barrier.tx_count += i64::from(bytes);
        self.try_complete_phase(location)
    }
}

impl Machine<'_> {
    /// Executes an mbarrier instruction, for each active lane.
    pub(super) fn execute_mbarrier(
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
        let lane_addresses = checked_lane_addresses(warp, mask, address, Space::SharedCluster, 8)?;
        check_defined(warp, operand, mask, "an mbarrier's operand")?;
        let operand = *warp.read(operand);
        let actor = self.actor(cta, warp);
        let mut out: Lanes = [0; WARP_SIZE];
        let mut state = String::new();
        for (lane, count) in acting_lanes(mask, &lane_addresses, &operand, op) {
            let location = shared_location(cluster, cta, lane_addresses[lane] as u32)?;
            out[lane] = self.execute_mbarrier_of_lane(cluster, op, location, actor, lane, operand[lane], count, &mut state)?;
        }
        if is_uniform(mask, &lane_addresses, &operand) {
            out = [out[mask.trailing_zeros() as usize]; WARP_SIZE];
        }
        if let MbarrierOp::Wait { blocking, .. } = op {
            let done = lanes_of(mask).any(|lane| out[lane] == 1);
            if self.is_blocking_wait(warp, split, blocking, done) && !done {
                let lane = mask.trailing_zeros() as usize;
                return Ok(Flow::Wait(Wait::Mbarrier {
                    address: lane_addresses[lane] as u32,
                    parity: operand[lane] as u32 & 1,
                    state,
                }));
            }
            if let Some(dst) = dst {
                warp.write_result(dst, mask, &out, 0);
            }
            return Ok(if done { Flow::Next } else { Flow::Yield });
        }
        if let Some(dst) = dst {
            warp.write_result(dst, mask, &out, 0);
        }
        Ok(Flow::Next)
    }

    /// Executes an mbarrier instruction for a lane that acts for `count` lanes. Returns its result: the number of completed
    /// phases, or whether a wait has ended. Sets `state` to the description of the first barrier for which a wait has not ended.
    fn execute_mbarrier_of_lane(
        &mut self,
        cluster: &mut Cluster,
        op: MbarrierOp,
        location: SharedLocation,
        actor: Actor,
        lane: usize,
        operand: u64,
        count: u32,
        state: &mut String,
    ) -> Result<u64> {
        let value = operand as u32;
        let with_lane = |fault: Box<Fault>| fault.lanes(1 << lane);
        let bar = (location.cta as u8, location.address);
        if !matches!(op, MbarrierOp::Init | MbarrierOp::Invalidate) {
            cluster.check_mbarrier_use(location, actor).map_err(with_lane)?;
        }
        match op {
            MbarrierOp::Init => {
                // In CTAs of a pair that issue no MMAs, NVIDIA's compiler initialises unused barriers with count 0. A timing
                // run accepts this count.
                if (value == 0 && self.options.mode == ExecutionMode::Full) || value >= 1 << 20 {
                    return Err(with_lane(Fault::new("SIM054", format!("an mbarrier cannot wait for {value} arrivals"))));
                }
                self.record_event(|| Event::Init { bar, count: value });
                // This write only checks that the mbarrier is in bounds of shared memory.
                cluster.ctas[location.cta].shared.write_async(location.address, &[0; 8])?;
                cluster.happens_before.check_write(actor, location.cta, location.address, 8).map_err(with_lane)?;
                let barrier = Mbarrier { expected: value, pending: value, ..Mbarrier::default() };
                cluster.ctas[location.cta].mbarriers.insert(location.address, barrier);
            }
            MbarrierOp::Invalidate => {
                // NVIDIA's compiler also invalidates barriers that were never initialised.
                cluster.ctas[location.cta].mbarriers.remove(&location.address);
            }
            MbarrierOp::Arrive { drop } => {
                self.record_event(|| Event::Arrive { bar, count: value.saturating_mul(count) });
                let phases = cluster.mbarrier(location).map_err(with_lane)?.completed_phases;
                if drop {
                    let barrier = cluster.mbarrier(location)?;
                    barrier.expected = barrier.expected.saturating_sub(value * count);
                }
                cluster.arrive(location, value.saturating_mul(count), actor).map_err(with_lane)?;
                return Ok(phases);
            }
            MbarrierOp::ArriveExpectTx => {
                self.record_event(|| Event::Expect { bar, bytes: value.saturating_mul(count) });
                self.record_event(|| Event::Arrive { bar, count });
                let phases = cluster.mbarrier(location).map_err(with_lane)?.completed_phases;
                cluster.mbarrier(location)?.tx_count += i64::from(value) * i64::from(count);
                cluster.arrive(location, count, actor).map_err(with_lane)?;
                return Ok(phases);
            }
            MbarrierOp::ExpectTx => {
                self.record_event(|| Event::Expect { bar, bytes: value.saturating_mul(count) });
                cluster.expect_bytes(location, value.saturating_mul(count)).map_err(with_lane)?;
            }
            MbarrierOp::CompleteTx => {
                self.record_event(|| Event::Complete { bar, bytes: value.saturating_mul(count) });
                cluster.complete_bytes(location, value.saturating_mul(count)).map_err(with_lane)?;
            }
            MbarrierOp::Wait { parity, .. } => {
                let barrier = cluster.mbarrier(location).map_err(with_lane)?;
                let phases = barrier.completed_phases as u32;
                let done =
                    if parity { barrier.completed_phases & 1 != u64::from(value & 1) } else { barrier.completed_phases != operand };
                if !done && state.is_empty() {
                    *state = barrier.describe();
                }
                self.record_event(|| Event::Wait { bar, phases, done });
                if done {
                    cluster.happens_before.acquire_mbarrier(actor, location);
                }
                return Ok(done.into());
            }
        }
        Ok(0)
    }

    /// Records whether a wait has ended, and returns whether it blocks the warp until then.
    fn is_blocking_wait(&mut self, warp: &mut Warp, split: usize, blocking: bool, done: bool) -> bool {
        // With late delivery, the first `try_wait` at an instruction does not block, and its failure is spurious, as the ISA
        // permits. Later tries block. A repeated `test_wait` at one instruction also blocks. Reason: late work completes only
        // when no warp can continue, and a loop of `test_wait` would always continue.
        let pc = warp.splits[split].pc;
        let is_repeated = warp.splits[split].failed_wait_pc == Some(pc);
        let blocks = blocking && self.options.delivery == Delivery::Early || is_repeated;
        warp.splits[split].failed_wait_pc = if done { None } else { Some(pc) };
        if !done && blocks {
            self.failed_waits[pc as usize] += 1;
        }
        blocks
    }
}

/// Returns whether all active lanes have the same address and the same operand.
fn is_uniform(mask: u32, lane_addresses: &Lanes, operand: &Lanes) -> bool {
    let first_lane = mask.trailing_zeros() as usize;
    lanes_of(mask).all(|lane| lane_addresses[lane] == lane_addresses[first_lane] && operand[lane] == operand[first_lane])
}

/// Returns the lanes that perform the operation, each with the number of lanes for which it acts. If all lanes have equal operands,
/// the first lane acts for all lanes.
fn acting_lanes(mask: u32, lane_addresses: &Lanes, operand: &Lanes, op: MbarrierOp) -> Vec<(usize, u32)> {
    let once = matches!(op, MbarrierOp::Wait { .. } | MbarrierOp::Init);
    if is_uniform(mask, lane_addresses, operand) {
        return vec![(mask.trailing_zeros() as usize, if once { 1 } else { mask.count_ones() })];
    }
    lanes_of(mask).map(|lane| (lane, 1)).collect()
}
