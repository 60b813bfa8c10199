//! What each instruction does. The families are in the files below; this one picks them and does the element-wise ones.

mod collective;
mod memory;
mod print;

use crate::fault::{Fault, Result};
use crate::lanes::{ALL, Lanes, WARP, mask_of};
use crate::machine::{Cluster, Machine};
use crate::program::{Builtin, Instr, Op, Slot};
use crate::warp::{Wait, Warp};

/// Where the lanes of an instruction go after it.
pub(crate) enum Flow {
    Next,
    /// The lanes `taken` go to the target, the others to the next instruction.
    Branch {
        target: u32,
        taken: u32,
    },
    Exit(u32),
    /// The instruction has to be tried again.
    Wait(Wait),
    /// On to the next, after the other warps had a turn.
    Yield,
}

impl Machine<'_> {
    /// Executes one instruction for the lanes of a group.
    #[inline]
    pub(crate) fn execute(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &mut Warp,
        split: usize,
        instr: &Instr,
    ) -> Result<Flow> {
        let mut mask = warp.splits[split].mask;
        if let Some((slot, negated)) = instr.guard {
            defined(warp, slot, mask, "a predicate")?;
            let values = mask_of(warp.read(slot));
            mask &= if negated { !values } else { values };
            if mask == 0 {
                return Ok(Flow::Next);
            }
        }
        match &instr.op {
            Op::Lane { f, dst, src } => {
                let mut out: Lanes = [0; WARP];
                let sources = src.map(|slot| &warp.regs[slot as usize]);
                f(&sources, &mut out);
                let undefined = src.iter().fold(0, |mask, &slot| mask | warp.undefined[slot as usize]);
                warp.set(*dst, mask, &out, undefined);
            }
            Op::Select { dst, yes, no, predicate } => select(warp, mask, *dst, *yes, *no, *predicate),
            Op::Pack { dst, src, bits } => {
                let mut out: Lanes = [0; WARP];
                let mut undefined = 0;
                let part = u64::MAX >> (64 - bits);
                for (index, &slot) in src.iter().enumerate() {
                    undefined |= warp.undefined[slot as usize];
                    let values = warp.read(slot);
                    for lane in 0..WARP {
                        out[lane] |= (values[lane] & part) << (index as u32 * bits);
                    }
                }
                warp.set(*dst, mask, &out, undefined);
            }
            Op::Unpack { dst, src, bits } => {
                let (values, undefined) = (*warp.read(*src), warp.undefined[*src as usize]);
                let part = u64::MAX >> (64 - bits);
                for (index, &slot) in dst.iter().enumerate() {
                    let out = values.map(|value| value >> (index as u32 * bits) & part);
                    warp.set(slot, mask, &out, undefined);
                }
            }
            Op::Nothing => {}
            Op::ProxyFence => {
                let cta = &mut cluster.ctas[cta];
                cta.fenced[warp.index] = cta.shared.clock;
            }
            Op::Branch { target } => return Ok(Flow::Branch { target: *target, taken: mask }),
            Op::BranchIndirect { index, targets } => return branch_indirect(warp, mask, *index, targets),
            Op::Exit => return Ok(Flow::Exit(mask)),
            Op::Trap => return Err(Fault::new("SIM060", "the program traps").lanes(mask)),
            Op::Yield => return Ok(Flow::Yield),
            Op::Clock { dst } => {
                // A clock that runs fast enough for busy waits to end soon.
                let now = self.total * 1000;
                warp.set(*dst, mask, &[now; WARP], 0);
                return Ok(Flow::Yield);
            }
            Op::Call { function, args, result } => self.call(warp, mask, *function, args, *result)?,
            Op::Load { space, element, dst, address } => {
                self.load(cluster, cta, warp, mask, *space, *element, dst, *address)?;
            }
            Op::Store { space, bytes, src, address } => {
                self.store(cluster, cta, warp, mask, *space, *bytes, src, *address)?;
            }
            Op::Atom { space, op, ty, dst, src, address } => {
                self.atomic(cluster, cta, warp, mask, *space, *op, *ty, *dst, *src, *address)?;
            }
            Op::Barrier(op) => return self.barrier(cluster, cta, warp, split, op, mask),
            Op::ClusterBarrier { arrive } => return self.cluster_barrier(cluster, warp, *arrive, mask),
            op => return collective::execute(warp, mask, op),
        }
        Ok(Flow::Next)
    }

    fn call(&mut self, warp: &mut Warp, mask: u32, function: Builtin, args: &[Slot], result: Option<Slot>) -> Result<()> {
        for &slot in args {
            defined(warp, slot, mask, "an argument")?;
        }
        let mut out: Lanes = [0; WARP];
        for lane in crate::lanes::lanes_of(mask) {
            let arg = |index: usize| warp.read(args[index])[lane];
            out[lane] = match function {
                Builtin::Vprintf => self.vprintf(warp, lane, arg(0), arg(1))?,
                Builtin::AlignedMalloc => self.global.allocate(arg(0), arg(1).max(1).next_power_of_two()).unwrap_or(0),
                Builtin::Malloc => self.global.allocate(arg(0), 16).unwrap_or(0),
                Builtin::Free => 0,
            };
        }
        if let Some(slot) = result {
            warp.set(slot, mask, &out, 0);
        }
        Ok(())
    }
}

/// A fault when a lane uses a register that nothing has set, for something that decides.
#[inline]
pub(crate) fn defined(warp: &Warp, slot: Slot, mask: u32, what: &str) -> Result<()> {
    let lanes = warp.undefined[slot as usize] & mask;
    if lanes == 0 {
        return Ok(());
    }
    Err(Fault::new("SIM020", format!("{what} depends on a register or memory that nothing has set")).lanes(lanes))
}

/// The instruction waits until all of `needed` that still run are here.
pub(crate) fn missing_lanes(warp: &Warp, mask: u32, needed: u32) -> Option<Flow> {
    let missing = needed & warp.live() & !mask;
    (missing != 0).then_some(Flow::Wait(Wait::Lanes { missing }))
}

fn select(warp: &mut Warp, mask: u32, dst: Slot, yes: Slot, no: Slot, predicate: Slot) {
    let chosen = mask_of(warp.read(predicate));
    let (a, b) = (warp.read(yes), warp.read(no));
    let out: Lanes = std::array::from_fn(|lane| if chosen >> lane & 1 == 1 { a[lane] } else { b[lane] });
    let state = |slot: Slot| warp.undefined[slot as usize];
    let undefined = state(predicate) | state(yes) & chosen | state(no) & !chosen;
    warp.set(dst, mask, &out, undefined);
}

/// The lanes of the lowest target go there; the others try again and find the next.
fn branch_indirect(warp: &mut Warp, mask: u32, index: Slot, targets: &[u32]) -> Result<Flow> {
    defined(warp, index, mask, "a branch")?;
    let values = *warp.read(index);
    let mut groups: Vec<(u32, u32)> = Vec::new();
    for lane in crate::lanes::lanes_of(mask) {
        let Some(&target) = targets.get(values[lane] as usize) else {
            return Err(
                Fault::new("SIM061", format!("target {} of {} does not exist", values[lane], targets.len())).lanes(1 << lane)
            );
        };
        match groups.iter_mut().find(|(other, _)| *other == target) {
            Some((_, lanes)) => *lanes |= 1 << lane,
            None => groups.push((target, 1 << lane)),
        }
    }
    if groups.len() > 1 || mask != ALL && warp.splits.len() > 1 && groups.is_empty() {
        return Err(Fault::unsupported("an indirect branch whose lanes go to different targets"));
    }
    let (target, taken) = groups[0];
    Ok(Flow::Branch { target, taken })
}
