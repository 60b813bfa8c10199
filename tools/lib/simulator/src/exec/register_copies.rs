//! Register copies: moves, packs and unpacks.
//!
//! Asynchronous work in flight owns the registers that it reads or writes. If the work owns the source register of a copy, it also
//! owns the destination. The copy then executes when the work completes.

use crate::lanes::{Lanes, WARP_SIZE};
use crate::machine::{Delivery, Machine};
use crate::program::{Op, RegSlot};
use crate::warp::Warp;

/// Executes an op that copies, packs or unpacks registers. The destination gets the undefined lanes and the fence state of the
/// source.
pub(super) fn execute_copy(warp: &mut Warp, mask: u32, op: &Op) {
    match op {
        Op::Move { dst, src } => {
            let (values, undefined) = (*warp.read(*src), warp.undefined[*src as usize]);
            warp.write_result(*dst, mask, &values, undefined);
            warp.set_unfenced(*dst, warp.is_unfenced(*src));
        }
        Op::Pack { dst, src, bits } => {
            let mut out: Lanes = [0; WARP_SIZE];
            // A packed result counts as undefined only if all its parts are undefined. Reason: compilers leave a part undefined if
            // no instruction uses its bits.
            let mut undefined = u32::MAX;
            let part = u64::MAX >> (64 - bits);
            for (index, &slot) in src.iter().enumerate() {
                undefined &= warp.undefined[slot as usize];
                let values = warp.read(slot);
                for lane in 0..WARP_SIZE {
                    out[lane] |= (values[lane] & part) << (index as u32 * bits);
                }
            }
            warp.write_result(*dst, mask, &out, undefined);
            warp.set_unfenced(*dst, src.iter().any(|&slot| warp.is_unfenced(slot)));
        }
        Op::Unpack { dst, src, bits } => {
            let (values, undefined) = (*warp.read(*src), warp.undefined[*src as usize]);
            let part = u64::MAX >> (64 - bits);
            for (index, &slot) in dst.iter().enumerate() {
                let out = values.map(|value| value >> (index as u32 * bits) & part);
                warp.write_result(slot, mask, &out, undefined);
                warp.set_unfenced(slot, warp.is_unfenced(*src));
            }
        }
        _ => unreachable!("handles copies only"),
    }
}

/// Returns the registers that a copy writes.
pub(super) fn destinations(op: &Op) -> &[RegSlot] {
    match op {
        Op::Move { dst, .. } | Op::Pack { dst, .. } => std::slice::from_ref(dst),
        Op::Unpack { dst, .. } => dst,
        _ => &[],
    }
}

/// Returns whether an instruction copies a register that asynchronous work owns.
pub(super) fn copies_in_flight_register(warp: &Warp, op: &Op) -> bool {
    match op {
        Op::Move { src, .. } | Op::Unpack { src, .. } => warp.is_in_flight(*src),
        Op::Pack { src, .. } => src.iter().any(|&slot| warp.is_in_flight(slot)),
        _ => false,
    }
}

impl Machine<'_> {
    /// Records a copy whose source register asynchronous work owns. The copy executes when the work completes. With early delivery,
    /// the work is already complete, so the copy executes now.
    pub(super) fn copy_in_flight(&mut self, warp: &mut Warp, mask: u32, pc: u32, op: &Op) {
        if self.options.delivery == Delivery::Early {
            execute_copy(warp, mask, op);
        }
        for &slot in destinations(op) {
            warp.set_in_flight(slot, true);
        }
        warp.mmas.record_copy(pc, mask);
    }
}
