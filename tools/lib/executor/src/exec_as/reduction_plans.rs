//! Plans for reductions and scans of distributed tiles: for each result slot, the operand slots that the op combines.

use super::distribution::Distribution;
use tileas::layout::Strides;

/// The map from the operand elements of a reduction to the result elements. Element numbers are bit vectors, and a layout maps each
/// register or lane bit to a basis. The reduction combines the elements that differ by an XOR of some bases. The map removes these
/// bases from the coordinate along the reduced dimension, and packs the remaining bits.
pub(crate) struct ReductionMap {
    strides: Strides,
    dim: usize,
    /// A basis of the removed coordinates in echelon form, highest bit first.
    removed_bases: Vec<u32>,
    /// A mask of the highest bits of the removed bases.
    pivot_mask: u32,
}

impl ReductionMap {
    /// Returns the map that removes the bases along `dim`. A basis that also spans other dimensions is an error.
    pub(crate) fn new(shape: &[u32], dim: usize, bases: &[u32]) -> Result<ReductionMap, String> {
        let strides = Strides::for_shape(shape);
        let mask = strides.mask(dim);
        let mut removed_bases: Vec<u32> = Vec::new();
        for basis in bases.iter().filter(|basis| **basis & mask != 0) {
            if basis & !mask != 0 {
                return Err(format!("basis {basis} spans dimension {dim} and other dimensions"));
            }
            let reduced =
                removed_bases.iter().fold(strides.coordinate(*basis, dim), |reduced, removed| reduced.min(reduced ^ removed));
            removed_bases.push(reduced);
            removed_bases.sort_unstable_by_key(|removed| std::cmp::Reverse(*removed));
        }
        let pivot_mask = removed_bases.iter().map(|removed| 1 << removed.ilog2()).sum();
        Ok(ReductionMap { strides, dim, removed_bases, pivot_mask })
    }

    /// Returns the result element to which an operand element contributes.
    pub(crate) fn result_element(&self, element: u32) -> u32 {
        let (shift, bits) = (self.strides.shift[self.dim], self.strides.bits[self.dim]);
        let reduce = |coordinate: u32, removed: &u32| {
            if coordinate >> removed.ilog2() & 1 == 1 { coordinate ^ removed } else { coordinate }
        };
        let reduced = self.removed_bases.iter().fold(self.strides.coordinate(element, self.dim), reduce);
        let remaining_bits = (0..bits).filter(|bit| self.pivot_mask >> bit & 1 == 0);
        let packed: u32 = remaining_bits.enumerate().map(|(to, bit)| (reduced >> bit & 1) << to).sum();
        let outer_bits = element.checked_shr(shift + bits).unwrap_or(0);
        element & ((1 << shift) - 1)
            | packed << shift
            | outer_bits.checked_shl(shift + bits - self.pivot_mask.count_ones()).unwrap_or(0)
    }
}

/// The plan of a reduction over registers: for each result slot, the group of operand slots that the op combines.
pub(crate) struct RegisterGroups {
    /// Number of operand slots of each group.
    pub(crate) size: usize,
    /// The operand slots of all groups, in the order of the result slots.
    pub(crate) slots: Vec<u32>,
}

/// Plans a reduction over the registers of a thread. A group has the registers whose elements differ only along `dim`, in register
/// order.
pub(crate) fn plan_registers(from: &Distribution, to: &Distribution, shape: &[u32], dim: usize) -> Result<RegisterGroups, String> {
    let reduction_map = ReductionMap::new(shape, dim, &from.layout.register)?;
    plan_groups(from, to, &reduction_map)
}

/// Returns for each result slot the registers of the same thread that contribute to its element.
fn plan_groups(from: &Distribution, to: &Distribution, reduction_map: &ReductionMap) -> Result<RegisterGroups, String> {
    if to.element_count() << reduction_map.pivot_mask.count_ones() != from.element_count() {
        return Err(format!("combines {} elements into {}", from.element_count(), to.element_count()));
    }
    let size = from.registers_per_thread / to.registers_per_thread.min(from.registers_per_thread);
    let mut slots = Vec::with_capacity(from.slot_count());
    for thread in 0..from.thread_count {
        let thread_slots = thread * from.registers_per_thread..(thread + 1) * from.registers_per_thread;
        let result_elements: Vec<u32> =
            thread_slots.clone().map(|slot| reduction_map.result_element(from.elements[slot])).collect();
        for slot in thread * to.registers_per_thread..(thread + 1) * to.registers_per_thread {
            let group_start = slots.len();
            slots.extend(
                thread_slots
                    .clone()
                    .zip(&result_elements)
                    .filter(|(_, result_element)| **result_element == to.elements[slot])
                    .map(|(slot, _)| slot as u32),
            );
            if slots.len() - group_start != size {
                let element = to.elements[slot];
                return Err(format!("thread {thread} has {} of {size} registers for element {element}", slots.len() - group_start));
            }
        }
    }
    Ok(RegisterGroups { size, slots })
}

/// The plan of a butterfly reduction over lanes.
pub(crate) struct LaneExchange {
    /// For each step, the partner slot of each slot. Of two partners, the slot with the lower number is in the lower lane.
    pub(crate) steps: Vec<Vec<u32>>,
    /// For each result slot, the slot with its element after the last step.
    pub(crate) results: Vec<u32>,
}

/// Plans a butterfly reduction over the lanes whose elements differ only along `dim`, highest lane bit first.
pub(crate) fn plan_lanes(from: &Distribution, to: &Distribution, shape: &[u32], dim: usize) -> Result<LaneExchange, String> {
    let reduction_map = ReductionMap::new(shape, dim, &from.layout.lane)?;
    let mask = Strides::for_shape(shape).mask(dim);
    let bits = (0..from.layout.lane.len()).rev().filter(|bit| from.layout.lane[*bit] & mask != 0);
    let partner = |bit: usize| (0..from.slot_count()).map(move |slot| (slot ^ from.registers_per_thread << bit) as u32).collect();
    let steps = bits.map(partner).collect();
    let RegisterGroups { size, slots } = plan_groups(from, to, &reduction_map)?;
    match size {
        1 => Ok(LaneExchange { steps, results: slots }),
        _ => Err("the registers of the result differ from those of the operand".into()),
    }
}

/// The plan of a scan. A line consists of the elements of a warp that differ only along the dimension of the scan.
pub(crate) struct ScanLines {
    /// For each coordinate along the dimension, the slots of its elements, one per line.
    pub(crate) steps: Vec<Vec<u32>>,
    /// For each result slot, the coordinate of its element and the number of its line.
    pub(crate) line_coordinates: Vec<(u32, u32)>,
}

/// Plans a scan along `dim`. Returns an error if the operand and the result have different layouts, or if a line spans several
/// warps.
pub(crate) fn plan_scan(from: &Distribution, to: &Distribution, shape: &[u32], dim: usize) -> Result<ScanLines, String> {
    let strides = Strides::for_shape(shape);
    if from.layout != to.layout {
        return Err("the layout of the result differs from that of the operand".into());
    }
    let mask = strides.mask(dim);
    if from.layout.warp.iter().any(|basis| basis & mask != 0) {
        return Err(format!("dimension {dim} spans several warps"));
    }
    let line_start = |element: u32| element & !mask;
    let mut line_numbers = std::collections::BTreeMap::new();
    let mut line_coordinates = Vec::with_capacity(from.slot_count());
    let mut steps = vec![Vec::new(); shape[dim] as usize];
    for slot in 0..from.slot_count() {
        let element = from.elements[slot];
        let next_number = line_numbers.len() as u32;
        let line = *line_numbers.entry((from.warp_of(slot), line_start(element))).or_insert(next_number);
        let coordinate = strides.coordinate(element, dim);
        line_coordinates.push((coordinate, line));
        // The slots of each step are sorted by line below, so entry `i` of every step belongs to line `i`.
        steps[coordinate as usize].push((line, slot as u32));
    }
    let steps = steps.into_iter().map(|mut step: Vec<(u32, u32)>| {
        step.sort_unstable();
        step.dedup_by_key(|(line, _)| *line);
        step.into_iter().map(|(_, slot)| slot).collect()
    });
    Ok(ScanLines { steps: steps.collect(), line_coordinates })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tileas::Layout;

    #[test]
    fn the_remaining_bits_of_a_coordinate_are_packed() {
        // Dimension 1 of 4x8x2 occupies bits 1 to 3 of the element number.
        let reduction_map = ReductionMap::new(&[4, 8, 2], 1, &[2, 8, 16]).unwrap();
        assert_eq!(reduction_map.pivot_mask.count_ones(), 2);
        assert_eq!(reduction_map.result_element(0b10_1111), 0b1011);
        assert_eq!(reduction_map.result_element(0b01_1010), 0b0100);
        assert!(ReductionMap::new(&[4, 8, 2], 1, &[2 | 16]).is_err());
    }

    #[test]
    fn registers_are_grouped_by_result_element() {
        let from = Layout { register: vec![1, 32, 2], lane: vec![4, 8, 16, 0, 0], warp: vec![] };
        let from = Distribution::new(&from, 6, 1).unwrap();
        // The registers have bits 0, 1 and 5 of the element number, and the lanes have bits 2 to 4. The reduction of 4x16 along
        // dimension 1 removes bits 0 and 1. Bit 5 is row bit 1.
        let to = Layout { register: vec![8], lane: vec![1, 2, 4, 0, 0], warp: vec![] };
        let to = Distribution::new(&to, 4, 1).unwrap();
        let groups = plan_registers(&from, &to, &[4, 16], 1).unwrap();
        assert_eq!(groups.size, 4);
        assert_eq!(groups.slots[..8], [0, 1, 4, 5, 2, 3, 6, 7]);
        let wrong_result_layout = Layout { register: vec![4], lane: vec![1, 2, 8, 0, 0], warp: vec![] };
        assert!(plan_registers(&from, &Distribution::new(&wrong_result_layout, 4, 1).unwrap(), &[4, 16], 1).is_err());
    }

    #[test]
    fn partners_are_lanes_that_differ_along_the_dimension() {
        let from = Layout { register: vec![], lane: vec![1, 2, 4, 8, 16], warp: vec![] };
        let from = Distribution::new(&from, 5, 1).unwrap();
        let to = Distribution::new(&Layout { register: vec![], lane: vec![0, 0, 1, 2, 4], warp: vec![] }, 3, 1).unwrap();
        let exchange = plan_lanes(&from, &to, &[8, 4], 1).unwrap();
        assert_eq!(exchange.steps.len(), 2);
        assert_eq!((exchange.steps[0][5], exchange.steps[1][5]), (7, 4));
    }

    #[test]
    fn each_step_of_a_scan_holds_one_coordinate_of_every_line() {
        let layout = Layout { register: vec![1], lane: vec![2, 4, 8, 0, 0], warp: vec![16] };
        let distribution = Distribution::new(&layout, 5, 2).unwrap();
        let lines = plan_scan(&distribution, &distribution, &[4, 8], 1).unwrap();
        assert_eq!(lines.steps.len(), 8);
        assert!(lines.steps.iter().all(|step| step.len() == 4));
        for (slot, (coordinate, line)) in lines.line_coordinates.iter().enumerate() {
            let source = lines.steps[*coordinate as usize][*line as usize] as usize;
            assert_eq!(distribution.elements[source], distribution.elements[slot]);
        }
        assert!(super::plan_scan(&distribution, &distribution, &[8, 4], 0).is_err());
    }
}
