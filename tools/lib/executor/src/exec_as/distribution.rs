//! An expanded layout: the element that each slot holds. A slot is one register of one thread, numbered thread-major.
//!
//! A distributed tile is a flat [`Tile`] of its slots. Element-wise ops therefore need no special case, and every thread computes
//! on its own registers.

use crate::tile::Tile;
use core_dialect::tile::{Elem, Shape};
use numerics::arith::Lanes;
use tileas::Layout;
use tileas::layout::{LANE_BITS, apply};

/// Limit on the slots of one tile in all threads.
const MAX_REGISTER_SLOTS: usize = 1 << 24;
const NOWHERE: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Distribution {
    pub(crate) layout: Layout,
    pub(crate) registers: usize,
    pub(crate) threads: usize,
    /// The element that each slot holds.
    pub(crate) elements: Vec<u32>,
    /// For each thread, the element in its register 0. The element in another register is the XOR of this element and a value that
    /// depends only on the register.
    thread_parts: Vec<u32>,
    /// Whether a thread is the leader of all threads that hold the same elements.
    pub(crate) is_leader: Vec<bool>,
    /// Maps the XOR of an element and the thread's entry in `thread_parts` to the register that holds the element.
    registers_by_part: Vec<u32>,
}

impl Distribution {
    /// Expands a layout. The verifier guarantees that it covers a tile of `1 << bits` elements.
    pub(crate) fn new(layout: &Layout, bits: u32, warps: usize) -> Result<Distribution, String> {
        let (registers, threads) = (layout.registers(), warps << LANE_BITS);
        if layout.lane.len() != LANE_BITS || layout.warps() != warps {
            let have = layout.warps() << layout.lane.len();
            return Err(format!("a layout for {have} threads in a kernel of {threads} threads"));
        }
        if registers.saturating_mul(threads) > MAX_REGISTER_SLOTS || 1usize << bits > MAX_REGISTER_SLOTS {
            return Err(format!("a tile of more than {MAX_REGISTER_SLOTS} registers in all threads"));
        }
        let parts: Vec<u32> = (0..registers).map(|register| apply(&layout.register, register as u32)).collect();
        let part = |thread: usize| {
            let (lane, warp) = (thread as u32 & ((1 << LANE_BITS) - 1), thread as u32 >> LANE_BITS);
            apply(&layout.lane, lane) ^ apply(&layout.warp, warp)
        };
        let thread_parts: Vec<u32> = (0..threads).map(part).collect();
        let mut registers_by_part = vec![NOWHERE; 1 << bits];
        parts.iter().enumerate().for_each(|(register, part)| registers_by_part[*part as usize] = register as u32);
        let elements = thread_parts.iter().flat_map(|thread| parts.iter().map(move |part| thread ^ part)).collect();
        let idle = |bases: &[u32]| (0..bases.len()).filter(|bit| bases[*bit] == 0).fold(0, |mask, bit| mask | 1usize << bit);
        let idle = idle(&layout.lane) | idle(&layout.warp) << LANE_BITS;
        let is_leader = (0..threads).map(|thread| thread & idle == 0).collect();
        Ok(Distribution { layout: layout.clone(), registers, threads, elements, thread_parts, is_leader, registers_by_part })
    }

    pub(crate) fn slots(&self) -> usize {
        self.elements.len()
    }
    pub(crate) fn thread(&self, slot: usize) -> usize {
        slot / self.registers
    }
    pub(crate) fn warp(&self, slot: usize) -> usize {
        self.thread(slot) >> LANE_BITS
    }
    pub(crate) fn count(&self) -> usize {
        self.registers_by_part.len()
    }
    pub(crate) fn shape(&self) -> Shape {
        Shape::from_slice(&[self.slots() as u32])
    }

    /// Returns the slot in which a thread holds an element.
    pub(crate) fn slot(&self, thread: usize, element: u32) -> Option<usize> {
        let register = *self.registers_by_part.get((element ^ self.thread_parts[thread]) as usize)?;
        (register != NOWHERE).then(|| thread * self.registers + register as usize)
    }

    /// Returns the leader's slot of each element.
    pub(crate) fn leaders(&self) -> Vec<u32> {
        let mut out = vec![NOWHERE; self.count()];
        let of_leaders = (0..self.slots()).filter(|slot| self.is_leader[self.thread(*slot)]);
        of_leaders.for_each(|slot| out[self.elements[slot] as usize] = slot as u32);
        out
    }

    /// Reconstructs the tile from its slots. The error is an element for which threads disagree.
    pub(crate) fn gather(&self, slots: &Tile, shape: Shape) -> Result<Tile, u32> {
        let gathered = slots.lanes().gather(self.leaders().into_iter().map(|slot| slot as usize));
        if gathered.len() != self.slots()
            && let Some(slot) =
                (0..self.slots()).find(|slot| slots.lanes().get(*slot) != gathered.get(self.elements[*slot] as usize))
        {
            return Err(self.elements[slot]);
        }
        Ok(Tile::new(shape, slots.elem, gathered))
    }

    /// Distributes a tile to slots.
    pub(crate) fn scatter(&self, gathered: &Lanes, elem: Elem) -> Tile {
        Tile::new(self.shape(), elem, gathered.gather(self.elements.iter().map(|element| *element as usize)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numerics::Scalar;

    fn layout() -> Layout {
        Layout { register: vec![4], lane: vec![1, 2, 8, 16, 0], warp: vec![32, 0] }
    }

    #[test]
    fn register_slots_agree_with_the_layout() {
        let (layout, distribution) = (layout(), Distribution::new(&layout(), 6, 4).unwrap());
        for slot in 0..distribution.slots() {
            let (thread, register) = (slot / 2, slot % 2);
            let element = layout.element(register, thread % 32, thread / 32) as u32;
            assert_eq!(distribution.elements[slot], element);
            assert_eq!(distribution.slot(thread, element), Some(slot));
        }
        assert_eq!(distribution.slot(0, 1), None);
        assert_eq!(distribution.is_leader.iter().filter(|is_leader| **is_leader).count() * distribution.registers, 64);
    }

    #[test]
    fn gather_inverts_scatter_and_detects_disagreement() {
        let distribution = Distribution::new(&layout(), 6, 4).unwrap();
        let gathered = Lanes::W32((0..64).collect());
        let slots = distribution.scatter(&gathered, Elem::Scalar(Scalar::I32));
        let shape = Shape::from_slice(&[8, 8]);
        assert_eq!(distribution.gather(&slots, shape.clone()).unwrap().lanes(), &gathered);
        let mut lanes = slots.lanes().clone();
        let copy = 2 * 16 + 1; // lane 16 of warp 0 holds a copy of lane 0
        lanes.set(copy, 99);
        let slots = Tile::new(distribution.shape(), Elem::Scalar(Scalar::I32), lanes);
        assert_eq!(distribution.gather(&slots, shape).unwrap_err(), distribution.elements[copy]);
    }

    #[test]
    fn a_layout_for_other_warps_is_refused() {
        assert!(Distribution::new(&layout(), 6, 8).is_err());
    }
}
