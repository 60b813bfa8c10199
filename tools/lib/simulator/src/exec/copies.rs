//! Copies between registers: moves, and registers put together and taken apart.
//!
//! A copy of a register that belongs to asynchronous work belongs to that work too, and is made when it is done.

use crate::lanes::{Lanes, WARP};
use crate::machine::{Delivery, Machine};
use crate::program::{Op, RegSlot};
use crate::warp::Warp;

pub(super) fn copy(warp: &mut Warp, mask: u32, op: &Op) {
    match op {
        Op::Move { dst, src } => {
            let (values, undefined) = (*warp.read(*src), warp.undefined[*src as usize]);
            warp.set(*dst, mask, &values, undefined);
            warp.set_unfenced(*dst, warp.is_unfenced(*src));
        }
        Op::Pack { dst, src, bits } => {
            let mut out: Lanes = [0; WARP];
            // Compilers leave a part of a packed operand unset when they look at the other part of the result only.
            let mut undefined = u32::MAX;
            let part = u64::MAX >> (64 - bits);
            for (index, &slot) in src.iter().enumerate() {
                undefined &= warp.undefined[slot as usize];
                let values = warp.read(slot);
                for lane in 0..WARP {
                    out[lane] |= (values[lane] & part) << (index as u32 * bits);
                }
            }
            warp.set(*dst, mask, &out, undefined);
            warp.set_unfenced(*dst, src.iter().any(|&slot| warp.is_unfenced(slot)));
        }
        Op::Unpack { dst, src, bits } => {
            let (values, undefined) = (*warp.read(*src), warp.undefined[*src as usize]);
            let part = u64::MAX >> (64 - bits);
            for (index, &slot) in dst.iter().enumerate() {
                let out = values.map(|value| value >> (index as u32 * bits) & part);
                warp.set(slot, mask, &out, undefined);
                warp.set_unfenced(slot, warp.is_unfenced(*src));
            }
        }
        _ => unreachable!("only copies come here"),
    }
}

/// The registers that a copy writes.
pub(super) fn destinations(op: &Op) -> &[RegSlot] {
    match op {
        Op::Move { dst, .. } | Op::Pack { dst, .. } => std::slice::from_ref(dst),
        Op::Unpack { dst, .. } => dst,
        _ => &[],
    }
}

/// Whether an instruction is a copy of a register that belongs to asynchronous work.
pub(super) fn moves_in_flight(warp: &Warp, op: &Op) -> bool {
    match op {
        Op::Move { src, .. } | Op::Unpack { src, .. } => warp.is_in_flight(*src),
        Op::Pack { src, .. } => src.iter().any(|&slot| warp.is_in_flight(slot)),
        _ => false,
    }
}

impl Machine<'_> {
    /// Notes a copy to be made when the work is done that its source belongs to.
    pub(super) fn copy_in_flight(&mut self, warp: &mut Warp, mask: u32, pc: u32, op: &Op) {
        if self.options.delivery == Delivery::Early {
            copy(warp, mask, op);
        }
        for &slot in destinations(op) {
            warp.in_flight(slot, true);
        }
        warp.mmas.copy(pc, mask);
    }
}
