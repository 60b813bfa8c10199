//! The distribution of a tile over threads, which a layout describes: the element of the tile in each slot. A slot is one register
//! of one thread. The slots of thread 0 come first, then the slots of thread 1, and so on.
//!
//! A distributed tile is a one-dimensional [`Tile`] of its slots. Element-wise ops therefore need no special case, and every thread
//! computes on its own registers.

use crate::tile::Tile;
use core_dialect::tile::{Elem, Shape};
use numerics::arith::ElementWords;
use tileas::Layout;
use tileas::layout::{LANE_BITS, xor_of_bases};

/// Maximum number of slots of one tile.
const MAX_SLOTS: usize = 1 << 24;
/// A register or slot number that means that no register or slot has the element.
const ABSENT: u32 = u32::MAX;

/// The distribution of a tile over the registers of threads.
#[derive(Debug)]
pub(crate) struct Distribution {
    pub(crate) layout: Layout,
    pub(crate) registers_per_thread: usize,
    pub(crate) thread_count: usize,
    /// For each slot, the element in it.
    pub(crate) elements: Vec<u32>,
    /// For each thread, the element in its register 0. The element in another register is the XOR of this element and a value that
    /// depends only on the register.
    first_elements: Vec<u32>,
    /// For each thread, whether it is the leader of the threads with equal elements. Only leaders store to memory.
    pub(crate) is_leader: Vec<bool>,
    /// Maps the XOR of an element and its thread's entry in `first_elements` to the register with the element. `ABSENT` if the
    /// thread has no such register.
    registers_by_xor: Vec<u32>,
}

impl Distribution {
    /// Returns the distribution of a layout for `warps` warps. The verifier guarantees that the layout covers a tile of `1 << bits`
    /// elements.
    pub(crate) fn new(layout: &Layout, bits: u32, warps: usize) -> Result<Distribution, String> {
        let (registers_per_thread, thread_count) = (layout.registers(), warps << LANE_BITS);
        if layout.lane.len() != LANE_BITS || layout.warps() != warps {
            let layout_threads = layout.warps() << layout.lane.len();
            return Err(format!("a layout for {layout_threads} threads in a kernel of {thread_count} threads"));
        }
        if registers_per_thread.saturating_mul(thread_count) > MAX_SLOTS || 1usize << bits > MAX_SLOTS {
            return Err(format!("a tile of more than {MAX_SLOTS} registers in all threads"));
        }
        let register_xors: Vec<u32> =
            (0..registers_per_thread).map(|register| xor_of_bases(&layout.register, register as u32)).collect();
        let first_element = |thread: usize| {
            let (lane, warp) = (thread as u32 & ((1 << LANE_BITS) - 1), thread as u32 >> LANE_BITS);
            xor_of_bases(&layout.lane, lane) ^ xor_of_bases(&layout.warp, warp)
        };
        let first_elements: Vec<u32> = (0..thread_count).map(first_element).collect();
        let mut registers_by_xor = vec![ABSENT; 1 << bits];
        register_xors
            .iter()
            .enumerate()
            .for_each(|(register, register_xor)| registers_by_xor[*register_xor as usize] = register as u32);
        let elements = first_elements
            .iter()
            .flat_map(|first_element| register_xors.iter().map(move |register_xor| first_element ^ register_xor))
            .collect();
        // Threads that differ only in bits with a zero basis have equal elements. The leader has zeros in these bits.
        let zero_bits = |bases: &[u32]| (0..bases.len()).filter(|bit| bases[*bit] == 0).fold(0, |mask, bit| mask | 1usize << bit);
        let replicated_bits = zero_bits(&layout.lane) | zero_bits(&layout.warp) << LANE_BITS;
        let is_leader = (0..thread_count).map(|thread| thread & replicated_bits == 0).collect();
        Ok(Distribution {
            layout: layout.clone(),
            registers_per_thread,
            thread_count,
            elements,
            first_elements,
            is_leader,
            registers_by_xor,
        })
    }

    /// Returns the number of slots of all threads.
    pub(crate) fn slot_count(&self) -> usize {
        self.elements.len()
    }
    /// Returns the thread whose register is a slot.
    pub(crate) fn thread_of(&self, slot: usize) -> usize {
        slot / self.registers_per_thread
    }
    /// Returns the warp of the thread whose register is a slot.
    pub(crate) fn warp_of(&self, slot: usize) -> usize {
        self.thread_of(slot) >> LANE_BITS
    }
    /// Returns the number of elements of the complete tile.
    pub(crate) fn element_count(&self) -> usize {
        self.registers_by_xor.len()
    }
    /// Returns the shape of the one-dimensional tile of all slots.
    pub(crate) fn shape(&self) -> Shape {
        Shape::from_slice(&[self.slot_count() as u32])
    }

    /// Returns the slot of a thread with an element. `None` if the thread does not have the element.
    pub(crate) fn slot_of(&self, thread: usize, element: u32) -> Option<usize> {
        let register = *self.registers_by_xor.get((element ^ self.first_elements[thread]) as usize)?;
        (register != ABSENT).then(|| thread * self.registers_per_thread + register as usize)
    }

    /// Returns for each element the slot of the leader that has the element, or `ABSENT` without such a slot.
    pub(crate) fn leader_slots(&self) -> Vec<u32> {
        let mut leader_slots = vec![ABSENT; self.element_count()];
        let slots_of_leaders = (0..self.slot_count()).filter(|slot| self.is_leader[self.thread_of(*slot)]);
        slots_of_leaders.for_each(|slot| leader_slots[self.elements[slot] as usize] = slot as u32);
        leader_slots
    }

    /// Returns the complete tile of a distributed tile. If threads have different values of an element, the error is this element.
    pub(crate) fn gather(&self, slots: &Tile, shape: Shape) -> Result<Tile, u32> {
        let gathered = slots.element_words().gather(self.leader_slots().into_iter().map(|slot| slot as usize));
        if gathered.len() != self.slot_count()
            && let Some(slot) =
                (0..self.slot_count()).find(|slot| slots.element_words().get(*slot) != gathered.get(self.elements[*slot] as usize))
        {
            return Err(self.elements[slot]);
        }
        Ok(Tile::new(shape, slots.elem, gathered))
    }

    /// Returns the distributed tile of a complete tile.
    pub(crate) fn scatter(&self, gathered: &ElementWords, elem: Elem) -> Tile {
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
    fn elements_and_slots_match_the_layout() {
        let (layout, distribution) = (layout(), Distribution::new(&layout(), 6, 4).unwrap());
        for slot in 0..distribution.slot_count() {
            let (thread, register) = (slot / 2, slot % 2);
            let element = layout.element(register, thread % 32, thread / 32) as u32;
            assert_eq!(distribution.elements[slot], element);
            assert_eq!(distribution.slot_of(thread, element), Some(slot));
        }
        assert_eq!(distribution.slot_of(0, 1), None);
        assert_eq!(distribution.is_leader.iter().filter(|is_leader| **is_leader).count() * distribution.registers_per_thread, 64);
    }

    #[test]
    fn gather_inverts_scatter_and_rejects_unequal_copies_of_an_element() {
        let distribution = Distribution::new(&layout(), 6, 4).unwrap();
        let gathered = ElementWords::W32((0..64).collect());
        let slots = distribution.scatter(&gathered, Elem::Scalar(Scalar::I32));
        let shape = Shape::from_slice(&[8, 8]);
        assert_eq!(distribution.gather(&slots, shape.clone()).unwrap().element_words(), &gathered);
        let mut element_words = slots.element_words().clone();
        // Lane 16 of warp 0 has the same elements as lane 0. `copied_slot` is the slot of register 1 of lane 16.
        let copied_slot = 2 * 16 + 1;
        element_words.set(copied_slot, 99);
        let slots = Tile::new(distribution.shape(), Elem::Scalar(Scalar::I32), element_words);
        assert_eq!(distribution.gather(&slots, shape).unwrap_err(), distribution.elements[copied_slot]);
    }

    #[test]
    fn a_layout_for_another_number_of_warps_is_rejected() {
        assert!(Distribution::new(&layout(), 6, 8).is_err());
    }
}
