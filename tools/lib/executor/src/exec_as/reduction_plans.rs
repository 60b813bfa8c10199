//! Plans for reductions and scans of distributed tiles: the result element of each operand element, and the slots to combine.

use super::distribution::Distribution;
use tileas::layout::Strides;

/// Removes combined bits from the coordinate along a dimension. The remaining bits are packed, lowest first.
pub(crate) struct Squeeze {
    strides: Strides,
    dim: usize,
    /// A basis of the removed coordinates in echelon form, highest bit first.
    combined: Vec<u32>,
    /// The highest bits of this basis.
    pivots: u32,
}

impl Squeeze {
    /// Selects the bases along `dim`. A basis that also spans other dimensions cannot be combined.
    pub(crate) fn new(shape: &[u32], dim: usize, bases: &[u32]) -> Result<Squeeze, String> {
        let strides = Strides::of(shape);
        let mask = strides.mask(dim);
        let mut combined: Vec<u32> = Vec::new();
        for basis in bases.iter().filter(|basis| **basis & mask != 0) {
            if basis & !mask != 0 {
                return Err(format!("basis {basis} spans dimension {dim} and other dimensions"));
            }
            let rest = combined.iter().fold(strides.coordinate(*basis, dim), |rest, known| rest.min(rest ^ known));
            combined.push(rest);
            combined.sort_unstable_by_key(|known| std::cmp::Reverse(*known));
        }
        let pivots = combined.iter().map(|known| 1 << known.ilog2()).sum();
        Ok(Squeeze { strides, dim, combined, pivots })
    }

    /// Returns the result element that an operand element contributes to.
    pub(crate) fn element(&self, element: u32) -> u32 {
        let (shift, bits) = (self.strides.shift[self.dim], self.strides.bits[self.dim]);
        let reduce = |rest: u32, known: &u32| if rest >> known.ilog2() & 1 == 1 { rest ^ known } else { rest };
        let left = self.combined.iter().fold(self.strides.coordinate(element, self.dim), reduce);
        let kept = (0..bits).filter(|bit| self.pivots >> bit & 1 == 0);
        let packed: u32 = kept.enumerate().map(|(to, bit)| (left >> bit & 1) << to).sum();
        let high = element.checked_shr(shift + bits).unwrap_or(0);
        element & ((1 << shift) - 1) | packed << shift | high.checked_shl(shift + bits - self.pivots.count_ones()).unwrap_or(0)
    }
}

/// The operand slots that each result slot combines. All groups have the same size and are stored consecutively.
pub(crate) struct Groups {
    pub(crate) size: usize,
    pub(crate) slots: Vec<u32>,
}

/// Plans a reduction over the registers of a thread: groups of registers that differ only along `dim`, in register order.
pub(crate) fn registers(from: &Distribution, to: &Distribution, shape: &[u32], dim: usize) -> Result<Groups, String> {
    let squeeze = Squeeze::new(shape, dim, &from.layout.register)?;
    groups(from, to, &squeeze)
}

fn groups(from: &Distribution, to: &Distribution, squeeze: &Squeeze) -> Result<Groups, String> {
    if to.count() << squeeze.pivots.count_ones() != from.count() {
        return Err(format!("combines {} elements into {}", from.count(), to.count()));
    }
    let size = from.registers / to.registers.min(from.registers);
    let mut slots = Vec::with_capacity(from.slots());
    for thread in 0..from.threads {
        let mine = thread * from.registers..(thread + 1) * from.registers;
        let result_elements: Vec<u32> = mine.clone().map(|slot| squeeze.element(from.elements[slot])).collect();
        for slot in thread * to.registers..(thread + 1) * to.registers {
            let before = slots.len();
            slots.extend(
                mine.clone()
                    .zip(&result_elements)
                    .filter(|(_, result_elements)| **result_elements == to.elements[slot])
                    .map(|(slot, _)| slot as u32),
            );
            if slots.len() - before != size {
                let element = to.elements[slot];
                return Err(format!("thread {thread} has {} of {size} registers for element {element}", slots.len() - before));
            }
        }
    }
    Ok(Groups { size, slots })
}

/// A butterfly reduction over lanes. For each step: the partner slot of each slot (the lower number belongs to the lower lane). At
/// the end: the slots that hold the results.
pub(crate) struct Exchange {
    pub(crate) steps: Vec<Vec<u32>>,
    pub(crate) results: Vec<u32>,
}

/// Plans a butterfly over the lanes that differ only along `dim`, highest lane bit first.
pub(crate) fn lanes(from: &Distribution, to: &Distribution, shape: &[u32], dim: usize) -> Result<Exchange, String> {
    let squeeze = Squeeze::new(shape, dim, &from.layout.lane)?;
    let mask = Strides::of(shape).mask(dim);
    let bits = (0..from.layout.lane.len()).rev().filter(|bit| from.layout.lane[*bit] & mask != 0);
    let partner = |bit: usize| (0..from.slots()).map(move |slot| (slot ^ from.registers << bit) as u32).collect();
    let steps = bits.map(partner).collect();
    let Groups { size, slots } = groups(from, to, &squeeze)?;
    match size {
        1 => Ok(Exchange { steps, results: slots }),
        _ => Err("the registers of the result differ from those of the operand".into()),
    }
}

/// A scan plan. `steps`: for each coordinate along the dimension, the slots that hold it, one per line of each warp.
/// `line_coordinates`: for each result slot, its coordinate and its line.
pub(crate) struct Lines {
    pub(crate) steps: Vec<Vec<u32>>,
    pub(crate) line_coordinates: Vec<(u32, u32)>,
}

/// Plans a scan along `dim`. The operand and the result have the same layout, and a line may not span warps.
pub(crate) fn lines(from: &Distribution, to: &Distribution, shape: &[u32], dim: usize) -> Result<Lines, String> {
    let strides = Strides::of(shape);
    if from.layout != to.layout {
        return Err("the layout of the result differs from that of the operand".into());
    }
    let mask = strides.mask(dim);
    if from.layout.warp.iter().any(|basis| basis & mask != 0) {
        return Err(format!("dimension {dim} spans several warps"));
    }
    let rest = |element: u32| element & !mask;
    let mut numbers = std::collections::BTreeMap::new();
    let mut line_coordinates = Vec::with_capacity(from.slots());
    let mut steps = vec![Vec::new(); shape[dim] as usize];
    for slot in 0..from.slots() {
        let element = from.elements[slot];
        let next = numbers.len() as u32;
        let line = *numbers.entry((from.warp(slot), rest(element))).or_insert(next);
        let coordinate = strides.coordinate(element, dim);
        line_coordinates.push((coordinate, line));
        // Every line visits its coordinates in the same order, so sorting a step's slots by line aligns them.
        steps[coordinate as usize].push((line, slot as u32));
    }
    let steps = steps.into_iter().map(|mut step: Vec<(u32, u32)>| {
        step.sort_unstable();
        step.dedup_by_key(|(line, _)| *line);
        step.into_iter().map(|(_, slot)| slot).collect()
    });
    Ok(Lines { steps: steps.collect(), line_coordinates })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tileas::Layout;

    #[test]
    fn remaining_bits_are_packed() {
        // Dimension 1 of 4x8x2 occupies bits 1 to 3 of the element number.
        let squeeze = Squeeze::new(&[4, 8, 2], 1, &[2, 8, 16]).unwrap();
        assert_eq!(squeeze.pivots.count_ones(), 2);
        assert_eq!(squeeze.element(0b10_1111), 0b1011);
        assert_eq!(squeeze.element(0b01_1010), 0b0100);
        assert!(Squeeze::new(&[4, 8, 2], 1, &[2 | 16]).is_err());
    }

    #[test]
    fn registers_are_grouped_by_result_element() {
        let from = Layout { register: vec![1, 32, 2], lane: vec![4, 8, 16, 0, 0], warp: vec![] };
        let from = Distribution::new(&from, 6, 1).unwrap();
        // Reducing 4x16 along dimension 1 removes register bits 0 and 1 of the element number. Lanes hold bits 2 and 3, and
        // register basis 32 is row bit 1.
        let to = Layout { register: vec![8], lane: vec![1, 2, 4, 0, 0], warp: vec![] };
        let to = Distribution::new(&to, 4, 1).unwrap();
        let groups = registers(&from, &to, &[4, 16], 1).unwrap();
        assert_eq!(groups.size, 4);
        assert_eq!(groups.slots[..8], [0, 1, 4, 5, 2, 3, 6, 7]);
        let wrong = Layout { register: vec![4], lane: vec![1, 2, 8, 0, 0], warp: vec![] };
        assert!(registers(&from, &Distribution::new(&wrong, 4, 1).unwrap(), &[4, 16], 1).is_err());
    }

    #[test]
    fn lanes_are_combined_along_the_dimension_only() {
        let from = Layout { register: vec![], lane: vec![1, 2, 4, 8, 16], warp: vec![] };
        let from = Distribution::new(&from, 5, 1).unwrap();
        let to = Distribution::new(&Layout { register: vec![], lane: vec![0, 0, 1, 2, 4], warp: vec![] }, 3, 1).unwrap();
        let exchange = lanes(&from, &to, &[8, 4], 1).unwrap();
        assert_eq!(exchange.steps.len(), 2);
        assert_eq!((exchange.steps[0][5], exchange.steps[1][5]), (7, 4));
    }

    #[test]
    fn a_scan_visits_each_line_in_order() {
        let layout = Layout { register: vec![1], lane: vec![2, 4, 8, 0, 0], warp: vec![16] };
        let distribution = Distribution::new(&layout, 5, 2).unwrap();
        let lines = lines(&distribution, &distribution, &[4, 8], 1).unwrap();
        assert_eq!(lines.steps.len(), 8);
        assert!(lines.steps.iter().all(|step| step.len() == 4));
        for (slot, (coordinate, line)) in lines.line_coordinates.iter().enumerate() {
            let source = lines.steps[*coordinate as usize][*line as usize] as usize;
            assert_eq!(distribution.elements[source], distribution.elements[slot]);
        }
        assert!(super::lines(&distribution, &distribution, &[8, 4], 0).is_err());
    }
}
