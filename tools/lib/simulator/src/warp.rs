//! A warp: its registers and its divergent groups of lanes.

use crate::in_flight_work::{Copies, OpenMmas, TmemTransfer};
use crate::lanes::{ALL_LANES, Lanes, WARP_SIZE};
use crate::program::{Program, RegSlot};
use std::collections::BTreeSet;

/// Number of backward branches after which a split lets the other splits of its warp run.
const MAX_BACKWARD_BRANCHES: u32 = 4096;

/// A warp split: the lanes of a diverged warp that are at the same instruction. A converged warp has one split.
#[derive(Clone, Debug)]
pub(crate) struct Split {
    pub(crate) pc: u32,
    pub(crate) mask: u32,
    pub(crate) wait: Option<Wait>,
    /// The arrival of these lanes at the named barrier at which they wait.
    pub(crate) arrival_token: Option<ArrivalToken>,
    /// The instruction index of the last mbarrier wait, if it failed.
    pub(crate) failed_wait_pc: Option<u32>,
    backward_branches: u32,
}

/// The control flow after an instruction.
pub(crate) enum Flow {
    Next,
    /// The lanes of the mask `taken` branch to the target. The other lanes continue with the next instruction.
    Branch {
        target: u32,
        taken: u32,
    },
    /// The lanes of the mask exit.
    Exit(u32),
    /// The lanes wait, and then retry the instruction.
    Wait(Wait),
    /// The warp continues with the next instruction after the other warps ran.
    Yield,
}

/// An arrival at a named barrier: the barrier's generation (number of completed phases), and whether all live lanes of the warp
/// arrived together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArrivalToken {
    pub(crate) generation: u64,
    pub(crate) whole_warp: bool,
}

/// The reason why a warp split waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The `missing` lanes have not reached the instruction yet.
    Lanes {
        missing: u32,
    },
    Barrier {
        id: u32,
        arrived: u32,
        expected: u32,
    },
    ClusterBarrier,
    Mbarrier {
        address: u32,
        parity: u32,
        state: String,
    },
    Asynchronous {
        awaited: &'static str,
    },
    /// The `missing` warps of the warp group have not issued their first `mmas` MMAs yet.
    WarpGroup {
        missing: Vec<usize>,
        mmas: u64,
    },
}

impl std::fmt::Display for Wait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Wait::Lanes { missing } => write!(f, "its lanes {} to reach this instruction", crate::fault::lane_list(*missing)),
            Wait::Barrier { id, arrived, expected } => {
                write!(f, "barrier {id}, where {arrived} of {expected} threads have arrived")
            }
            Wait::ClusterBarrier => write!(f, "the cluster barrier"),
            Wait::Mbarrier { address, parity, state } => write!(f, "phase {parity} of the mbarrier at {address:#x} ({state})"),
            Wait::Asynchronous { awaited } => write!(f, "{awaited}"),
            Wait::WarpGroup { missing, mmas } => {
                write!(f, "warps {missing:?} of its group to issue wgmma {mmas}")
            }
        }
    }
}

/// The state of a warp.
#[derive(Default)]
pub(crate) struct Warp {
    /// The index of the warp in its CTA.
    pub(crate) index: usize,
    pub(crate) regs: Vec<Lanes>,
    /// For each register, the lanes whose value is undefined.
    pub(crate) undefined: Vec<u32>,
    pub(crate) splits: Vec<Split>,
    pub(crate) local_memory: Vec<u8>,
    /// The cluster-barrier generation of this warp's arrival.
    pub(crate) cluster_arrival_generation: Option<u64>,
    pub(crate) copies: Copies,
    pub(crate) mmas: OpenMmas,
    /// Stores of `tcgen05.st` that no `tcgen05.wait::st` has covered, with late delivery.
    pub(crate) open_tmem_stores: Vec<TmemTransfer>,
    /// Destination registers of `tcgen05.ld` that no `tcgen05.wait::ld` has covered.
    pub(crate) tmem_load_registers: BTreeSet<RegSlot>,
    /// For each register, whether asynchronous work owns it.
    in_flight: Vec<bool>,
    /// Number of registers that asynchronous work owns.
    in_flight_count: usize,
    /// For each register, whether an instruction computed or loaded its value since the last `wgmma.fence`. Before the first fence,
    /// the flag is true for all registers without a constant. A copied value has the flag of the source register. Reason: compilers
    /// move copies and constants across fences.
    unfenced: Vec<bool>,
    /// Whether the warp has executed a `wgmma.fence`.
    pub(crate) has_fenced: bool,
    /// Number of committed bulk groups.
    pub(crate) bulk_groups: u32,
    /// Whether the warp treats all registers as defined and fenced ([`Warp::assume_defined`]).
    assumed_defined: bool,
}

impl Warp {
    /// Returns a warp at the start of the program. `threads` is the number of threads from this warp to the end of the CTA.
    pub(crate) fn new(program: &Program, index: usize, threads: u32, special: impl Fn(crate::program::Special) -> Lanes) -> Warp {
        let mut warp = Warp {
            index,
            regs: vec![[0; WARP_SIZE]; program.slot_count as usize],
            undefined: vec![ALL_LANES; program.slot_count as usize],
            in_flight: vec![false; program.slot_count as usize],
            unfenced: vec![true; program.slot_count as usize],
            ..Warp::default()
        };
        for &(slot, value) in &program.constants {
            warp.regs[slot as usize] = [value; WARP_SIZE];
            warp.undefined[slot as usize] = 0;
            warp.unfenced[slot as usize] = false;
        }
        for &(slot, kind) in &program.specials {
            warp.regs[slot as usize] = special(kind);
            warp.undefined[slot as usize] = 0;
        }
        let mask = if threads >= 32 { ALL_LANES } else { (1 << threads) - 1 };
        warp.splits.push(Split { pc: 0, mask, wait: None, arrival_token: None, failed_wait_pc: None, backward_branches: 0 });
        warp
    }

    /// Disables reports about undefined registers and missing register fences.
    pub(crate) fn assume_defined(&mut self) {
        (self.assumed_defined, self.has_fenced) = (true, true);
        self.undefined.fill(0);
        self.unfenced.fill(false);
    }

    /// Returns the lanes that have not exited.
    pub(crate) fn live_lanes(&self) -> u32 {
        self.splits.iter().fold(0, |mask, split| mask | split.mask)
    }
    /// Returns whether all lanes have exited.
    pub(crate) fn is_done(&self) -> bool {
        self.splits.is_empty()
    }
    /// Picks the runnable split with the lowest instruction index, so that diverged lanes reconverge.
    pub(crate) fn pick_split(&self) -> Option<usize> {
        let runnable = self.splits.iter().enumerate().filter(|(_, split)| split.wait.is_none());
        runnable.min_by_key(|(_, split)| (split.backward_branches / MAX_BACKWARD_BRANCHES, split.pc)).map(|(index, _)| index)
    }
    /// Moves the `taken` lanes of a split to the target of a branch.
    pub(crate) fn branch_lanes(&mut self, index: usize, target: u32, taken: u32) {
        let split = &mut self.splits[index];
        if taken == 0 {
            split.pc += 1;
            return;
        }
        let backward_branches = split.backward_branches + u32::from(target <= split.pc && self.splits.len() > 1);
        let split = &mut self.splits[index];
        if taken == split.mask {
            (split.pc, split.backward_branches) = (target, backward_branches);
            return;
        }
        split.mask &= !taken;
        split.pc += 1;
        self.splits.push(Split {
            pc: target,
            mask: taken,
            wait: None,
            arrival_token: None,
            failed_wait_pc: None,
            backward_branches,
        });
    }
    /// Removes lanes that executed `exit` from a split. The other lanes of the split continue with the next instruction.
    pub(crate) fn exit_lanes(&mut self, index: usize, lanes: u32) {
        self.splits[index].mask &= !lanes;
        if self.splits[index].mask == 0 {
            self.splits.swap_remove(index);
        } else {
            self.splits[index].pc += 1;
        }
    }
    /// Merges splits that have reached the same instruction.
    pub(crate) fn merge_splits(&mut self) {
        let mut index = 0;
        while index < self.splits.len() {
            let (pc, arrival_token) = (self.splits[index].pc, self.splits[index].arrival_token);
            while let Some(other) =
                (index + 1..self.splits.len()).find(|&o| self.splits[o].pc == pc && self.splits[o].arrival_token == arrival_token)
            {
                let removed = self.splits.swap_remove(other);
                self.splits[index].mask |= removed.mask;
                self.splits[index].wait = None;
            }
            index += 1;
        }
        if self.splits.len() == 1 {
            self.splits[0].backward_branches = 0;
        }
    }

    // Registers.

    /// Returns whether an asynchronous op may still write any register.
    pub(crate) fn any_in_flight(&self) -> bool {
        self.in_flight_count > 0
    }
    /// Returns whether an asynchronous op may still write a register.
    pub(crate) fn is_in_flight(&self, slot: RegSlot) -> bool {
        self.in_flight[slot as usize]
    }
    /// Sets whether an asynchronous op may still write a register.
    pub(crate) fn set_in_flight(&mut self, slot: RegSlot, in_flight: bool) {
        let was_in_flight = std::mem::replace(&mut self.in_flight[slot as usize], in_flight);
        self.in_flight_count = self.in_flight_count + usize::from(in_flight) - usize::from(was_in_flight);
    }

    /// Executes `wgmma.fence`: MMAs may use the registers written so far.
    pub(crate) fn fence_registers(&mut self) {
        self.unfenced.fill(false);
        self.has_fenced = true;
    }
    /// Returns whether an instruction computed or loaded a register since the last `wgmma.fence`.
    pub(crate) fn is_unfenced(&self, slot: RegSlot) -> bool {
        self.unfenced[slot as usize]
    }
    /// Sets whether a register's value needs a fence.
    pub(crate) fn set_unfenced(&mut self, slot: RegSlot, unfenced: bool) {
        self.unfenced[slot as usize] = unfenced && !self.assumed_defined;
    }

    /// Returns the value of a register in each lane.
    #[inline]
    pub(crate) fn read(&self, slot: RegSlot) -> &Lanes {
        &self.regs[slot as usize]
    }
    /// Writes a register in the lanes of `mask`.
    #[inline]
    pub(crate) fn write_lanes(&mut self, slot: RegSlot, mask: u32, values: &Lanes) {
        let register = &mut self.regs[slot as usize];
        if mask == ALL_LANES {
            *register = *values;
        } else {
            for lane in 0..WARP_SIZE {
                if mask >> lane & 1 == 1 {
                    register[lane] = values[lane];
                }
            }
        }
    }
    /// Writes a result in the lanes of the mask. These lanes become defined, except for the lanes in `undefined`. The register
    /// becomes unfenced.
    #[inline]
    pub(crate) fn write_result(&mut self, slot: RegSlot, mask: u32, values: &Lanes, undefined: u32) {
        self.write_lanes(slot, mask, values);
        self.set_undefined(slot, mask, undefined);
    }
    /// Sets which lanes of the mask are undefined. The register becomes unfenced, because an instruction has written it.
    #[inline]
    pub(crate) fn set_undefined(&mut self, slot: RegSlot, mask: u32, undefined: u32) {
        if self.assumed_defined {
            return;
        }
        let state = &mut self.undefined[slot as usize];
        *state = *state & !mask | undefined & mask;
        self.unfenced[slot as usize] = true;
    }
}
