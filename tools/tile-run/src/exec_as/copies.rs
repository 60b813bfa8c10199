//! Copies from global memory straight to buffers. They are done at once: that nothing reads them too early is for the scheduler's
//! checker to see, and a missing barrier shows as a race.

use super::global::Transfer;
use super::{SpreadProgram, Step};
use crate::exec::access::ended;
use crate::exec::{Env, Results};
use base::Op as OpId;
use base::diag::Result;
use tileas::{CopyAtom, Op};

impl<O: Step> SpreadProgram<'_, O> {
    pub(super) fn copy_view(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        let Op::CopyView { view, index, token, order, in_bounds, whole, buffer, layout, atom } = kind else {
            unreachable!("called for copies only")
        };
        let CopyAtom::Async { bytes } = *atom else { return Err(self.unsupported(op, "by this atom")) };
        env.begin(self.manner(op, *token, *order));
        let view = env.view(*view);
        self.check_bounds(op, &view, index, in_bounds, env)?;
        let spread = self.spreads.get(layout.0 as usize).and_then(Option::as_deref);
        let spread = spread.ok_or_else(|| self.refuse(op, "has a layout that the module does not have"))?;
        let offsets = &self.offsets[buffer.0 as usize];
        let spots = self.window(op, spread, &view, index, env)?;
        let elem = self.info(*buffer).elem;
        let (size, ty) = (elem.bytes() as usize, elem.carrier());
        let width = bytes as usize / size.max(1);
        if offsets.len() != view.tile.iter().product::<u32>() as usize || width == 0 || !spread.registers.is_multiple_of(width) {
            return Err(self.refuse(op, format!("copies pieces of {bytes} bytes to {buffer}, which they do not fit")));
        }
        // Element by element, so that a bound may cut a piece.
        let transfer = Transfer { op, order: *order, spread, spots, ty, width: 1 };
        self.hazards(env).begin(op);
        for first in (0..spread.slots()).step_by(width).filter(|first| spread.speaks[spread.thread(*first)]) {
            let place = |slot: usize| offsets[spread.elements[slot] as usize] as usize * size;
            if let Some(i) = (1..width).find(|i| place(first + i) != place(first) + i * size) {
                let (first, other) = (place(first), place(first + i));
                return Err(self.refuse(op, format!("takes bytes {first} and {other} of {buffer} as neighbours")));
            }
            let inside = transfer.spots[first..first + width].iter().take_while(|spot| spot.is_some()).count();
            let outside = transfer.spots[first..first + width].iter().filter(|spot| spot.is_none()).count();
            if inside + outside != width || *whole && inside != 0 && outside != 0 {
                return Err(self.refuse(op, "copies a piece of which only some elements are inside"));
            }
            let mut data = vec![0; bytes as usize];
            for i in 0..inside {
                let (address, _) = transfer.spots[first + i].expect("it is inside");
                let start = transfer.spots[first].expect("it is inside").0;
                if address != start.wrapping_add((i * size) as u64) || !start.is_multiple_of(u64::from(bytes)) {
                    return Err(
                        self.refuse(op, format!("copies {bytes} bytes at {start:#x}, which is not a multiple or not in one piece"))
                    );
                }
                self.note(&transfer, address, first + i, false, env)?;
                env.world.read(address, &mut data[i * size..(i + 1) * size])?;
            }
            let written = self.hazards(env).write(buffer.0 as usize, place(first), &data, spread.warp(first));
            written.map_err(|fault| self.fault(op, Some(*buffer), fault, true))?;
        }
        Ok(ended(None, env))
    }
}
