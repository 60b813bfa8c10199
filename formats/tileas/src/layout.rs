//! Layouts: the map from registers of lanes of warps, or from offsets of a buffer, to elements of a tile.
//!
//! All extents are powers of two, so a layout is a linear map over GF(2), like Triton's linear layouts. Elements of a tile are
//! numbered in row-major order. Bit `k` of an input such as `lane` contributes, by XOR, one fixed element number: its *basis*. A
//! basis of 0 on a lane or warp bit means replication: the lanes or warps that differ in that bit hold the same elements. Reshapes
//! keep element numbers, so they keep layouts. Permutations and broadcasts move the bits of the bases.

use serde::{Deserialize, Serialize};

base::entity! {
    /// A layout in the module's table.
    pub struct LayoutId = "#";
}

/// The distribution of a tile over the registers of a group of warps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Layout {
    /// Bases of the register number's bits, lowest first; never 0.
    pub register: Vec<u32>,
    /// Bases of the five bits of the lane number.
    pub lane: Vec<u32>,
    /// Bases of the warp number's bits.
    pub warp: Vec<u32>,
}

/// The number of bits of a lane number.
pub const LANE_BITS: usize = 5;

/// The XOR of the bases of the bits set in `number`.
pub fn xor_of_bases(bases: &[u32], number: u32) -> u32 {
    bases.iter().enumerate().filter(|(bit, _)| number >> bit & 1 == 1).fold(0, |sum, (_, basis)| sum ^ basis)
}

impl Layout {
    /// The layout of a scalar: every thread holds the only element.
    pub fn uniform(warp_bits: usize) -> Layout {
        Layout { register: Vec::new(), lane: vec![0; LANE_BITS], warp: vec![0; warp_bits] }
    }

    /// Assigns the bits of the element number, in the given order, to `vector_bits` register bits, to lanes and to warps. The
    /// remaining bits become further register bits. If the tile has too few bits, lanes and warps replicate it.
    pub fn blocked(order: &[u32], vector_bits: usize, warp_bits: usize) -> Layout {
        let mut bits = order.iter().map(|bit| 1u32 << bit);
        let register: Vec<u32> = bits.by_ref().take(vector_bits).collect();
        let mut take = |n: usize| -> Vec<u32> { (0..n).map(|_| bits.next().unwrap_or(0)).collect() };
        let (lane, warp) = (take(LANE_BITS), take(warp_bits));
        Layout { register: register.into_iter().chain(bits).collect(), lane, warp }
    }

    /// The number of registers of each thread.
    pub fn registers(&self) -> usize {
        1 << self.register.len()
    }
    /// The number of warps.
    pub fn warps(&self) -> usize {
        1 << self.warp.len()
    }
    /// The number of the element that a register of a thread holds. The thread is given by its lane and warp.
    pub fn element(&self, register: usize, lane: usize, warp: usize) -> usize {
        (xor_of_bases(&self.register, register as u32)
            ^ xor_of_bases(&self.lane, lane as u32)
            ^ xor_of_bases(&self.warp, warp as u32)) as usize
    }

    /// The bases of the bits of the register, lane and warp number.
    fn bases(&self) -> impl Iterator<Item = u32> {
        self.register.iter().chain(&self.lane).chain(&self.warp).copied()
    }

    /// Checks that the layout covers a tile of `1 << bits` elements: every element is in some register, and no basis is outside the
    /// tile. Only zero bases of lane and warp bits may replicate elements.
    pub fn covers(&self, bits: u32) -> Result<(), String> {
        if let Some(basis) = self.bases().find(|basis| u64::from(*basis) >> bits != 0) {
            return Err(format!("basis {basis} lies outside a tile of {} elements", 1u64 << bits));
        }
        let held_bits = rank(self.bases());
        if held_bits != bits {
            return Err(format!("the layout holds {} of {} elements", 1u64 << held_bits, 1u64 << bits));
        }
        // *Replication rule*: only a zero basis of a lane or warp bit may replicate elements.
        let distinct = self.bases().filter(|basis| *basis != 0).count();
        if self.register.contains(&0) || distinct != bits as usize {
            return Err("two threads or registers share an element by other means than a zero basis".into());
        }
        Ok(())
    }

    /// Applies a linear map of element numbers to each basis. Drops register bits whose basis becomes 0.
    pub fn map(&self, f: impl Fn(u32) -> u32) -> Layout {
        let map_bases = |bases: &[u32]| bases.iter().map(|basis| f(*basis)).collect::<Vec<u32>>();
        let mut register = map_bases(&self.register);
        register.retain(|basis| *basis != 0);
        Layout { register, lane: map_bases(&self.lane), warp: map_bases(&self.warp) }
    }

    /// The layout of the operand of a permutation whose result has this layout. Dimension `k` of the result is dimension `order[k]`
    /// of the operand.
    pub fn unpermute(&self, shape: &[u32], order: &[u32]) -> Layout {
        let mut source = vec![0; shape.len()];
        for (k, &dim) in order.iter().enumerate() {
            source[dim as usize] = shape[k];
        }
        let (from, to) = (Strides::for_shape(shape), Strides::for_shape(&source));
        self.map(|basis| (0..shape.len()).map(|k| from.coordinate(basis, k) << to.shift[order[k] as usize]).sum())
    }

    /// The layout of the operand of a broadcast whose result has this layout. Dimensions of extent 1 in the operand lose their
    /// bits.
    pub fn unbroadcast(&self, operand: &[u32], result: &[u32]) -> Layout {
        let (from, to) = (Strides::for_shape(result), Strides::for_shape(operand));
        self.map(|basis| (0..result.len()).filter(|&d| operand[d] != 1).map(|d| from.coordinate(basis, d) << to.shift[d]).sum())
    }

    /// The register renaming that converts `from` to this layout: for each register, the register of `from` in the same thread that
    /// supplies its element. If a register of this layout holds `element`, its source holds `f(element)`. `None` if a thread does
    /// not hold an element that it needs, or if threads would have to read different registers.
    pub fn renaming(&self, from: &Layout, f: impl Fn(u32) -> u32) -> Option<Vec<usize>> {
        let same_threads =
            |to: &[u32], from: &[u32]| to.len() == from.len() && to.iter().zip(from).all(|(to, from)| f(*to) == *from);
        if !same_threads(&self.lane, &from.lane) || !same_threads(&self.warp, &from.warp) {
            return None;
        }
        let registers = Span::from_bases(&from.register);
        (0..self.registers()).map(|register| registers.solve(f(xor_of_bases(&self.register, register as u32)))).collect()
    }

    /// The shuffles that convert `from` to this layout within a warp. `None` if an element is in another warp, or if lanes would
    /// have to read different registers in one shuffle.
    pub fn exchange(&self, from: &Layout) -> Option<Exchange> {
        let span_of_warp = Span::from_bases(&[&from.register[..], &from.lane].concat());
        // The register and lane of `from` that hold an element.
        let locate = |element: u32| {
            let found = span_of_warp.solve(element)?;
            Some((found & ((1 << from.register.len()) - 1), (found >> from.register.len()) as u32))
        };
        let lane_of = |element: u32| locate(element).filter(|(register, _)| *register == 0).map(|(_, lane)| lane);
        let warp_differences = self.warp.iter().zip(&from.warp).map(|(to, from)| to ^ from);
        let lanes = self.lane.iter().copied().chain(warp_differences).map(lane_of).collect::<Option<Vec<u32>>>()?;
        let sources =
            (0..self.registers()).map(|register| locate(xor_of_bases(&self.register, register as u32))).collect::<Option<_>>()?;
        (self.warp.len() == from.warp.len()).then_some(Exchange { lanes, sources })
    }
}

/// A layout conversion by shuffles within each warp, one shuffle per register.
pub struct Exchange {
    /// The bases of the source lane's number, one for each bit of the reading lane's number, then one for each bit of its warp's
    /// number.
    pub lanes: Vec<u32>,
    /// For each register, the source register, and a number that is XORed to the source lane's number.
    pub sources: Vec<(usize, u32)>,
}

/// The rank: the number of linearly independent bases.
pub fn rank(bases: impl Iterator<Item = u32>) -> u32 {
    let mut reduced: Vec<u32> = Vec::new();
    for basis in bases {
        let rest = reduced.iter().fold(basis, |rest, reduced| rest.min(rest ^ reduced));
        if rest != 0 {
            reduced.push(rest);
        }
    }
    reduced.len() as u32
}

/// The number whose set bits select bases with XOR `target`; the inverse of [`xor_of_bases`]. `None` if no bases have this XOR.
pub fn solve(bases: &[u32], target: u32) -> Option<usize> {
    Span::from_bases(bases).solve(target)
}

/// The set of all XORs of some bases, in the reduced form of Gaussian elimination. It answers many calls of [`Span::solve`] without
/// repeating the elimination.
#[derive(Clone, Copy)]
pub struct Span {
    /// For each bit, a XOR of bases whose highest set bit is this bit, and the set of these bases as bits. Both are 0 if no XOR has
    /// this highest bit.
    pivots: [(u32, usize); u32::BITS as usize],
}

impl Span {
    /// The span of the bases: every number that is the XOR of some of them.
    pub fn from_bases(bases: &[u32]) -> Span {
        let mut span = Span { pivots: [(0, 0); u32::BITS as usize] };
        for (bit, basis) in bases.iter().enumerate() {
            let (rest, selected) = span.reduce(*basis, 1 << bit);
            if rest != 0 {
                span.pivots[rest.ilog2() as usize] = (rest, selected);
            }
        }
        span
    }

    /// The number whose set bits select bases with XOR `target`. `None` if no bases have this XOR. The number selects no basis that
    /// is a combination of earlier bases.
    pub fn solve(&self, target: u32) -> Option<usize> {
        let (rest, selected) = self.reduce(target, 0);
        (rest == 0).then_some(selected)
    }

    /// Eliminates the highest bits of a number by pivots. Returns the remainder, and `selected` with the used bases toggled.
    fn reduce(&self, mut rest: u32, mut selected: usize) -> (u32, usize) {
        while rest != 0 {
            let (pivot, pivot_bases) = self.pivots[rest.ilog2() as usize];
            if pivot == 0 {
                break;
            }
            rest ^= pivot;
            selected ^= pivot_bases;
        }
        (rest, selected)
    }
}

/// The bits of each dimension in the element number of a row-major tile: the strides and extents as powers of two.
pub struct Strides {
    /// By dimension, the position of its lowest bit: log2 of the stride in elements.
    pub shift: Vec<u32>,
    /// By dimension, the number of its bits: log2 of the extent.
    pub bits: Vec<u32>,
}

impl Strides {
    /// The strides of a tile in the linear element order.
    pub fn for_shape(shape: &[u32]) -> Strides {
        let bits: Vec<u32> = shape.iter().map(|extent| extent.trailing_zeros()).collect();
        let mut shift = vec![0; shape.len()];
        for dim in (0..shape.len().saturating_sub(1)).rev() {
            shift[dim] = shift[dim + 1] + bits[dim + 1];
        }
        Strides { shift, bits }
    }
    /// The coordinate along `dim` of an element.
    pub fn coordinate(&self, element: u32, dim: usize) -> u32 {
        element >> self.shift[dim] & ((1 << self.bits[dim]) - 1)
    }
    /// The element-number bits of `dim`, lowest first.
    pub fn dim_bits(&self, dim: usize) -> std::ops::Range<u32> {
        self.shift[dim]..self.shift[dim] + self.bits[dim]
    }
    /// The mask of the element-number bits of `dim`.
    pub fn mask(&self, dim: usize) -> u32 {
        ((1 << self.bits[dim]) - 1) << self.shift[dim]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_layout_covers_its_tile() {
        for bits in 0..12 {
            let order: Vec<u32> = (0..bits).collect();
            for vector_bits in 0..3 {
                let layout = Layout::blocked(&order, vector_bits.min(bits as usize), 2);
                layout.covers(bits).unwrap();
            }
        }
    }

    #[test]
    fn solve_inverts_xor_of_bases() {
        let bases = [3, 6, 8, 1];
        for number in 0..16 {
            assert_eq!(solve(&bases, xor_of_bases(&bases, number)), Some(number as usize));
        }
        assert_eq!(solve(&[2, 4], 1), None);
    }

    #[test]
    fn exchanges_read_from_lanes_that_hold_the_elements() {
        let layout = |register: &[u32], lane: &[u32], warp: &[u32]| Layout {
            register: register.into(),
            lane: lane.into(),
            warp: warp.into(),
        };
        let from = layout(&[16], &[1, 2, 4, 8, 0], &[32]);
        let cases =
            [layout(&[1, 2], &[4, 8, 0, 0, 0], &[32]), layout(&[16, 8], &[0, 1, 2, 4, 0], &[40]), layout(&[], &[0; 5], &[32])];
        for to in cases {
            let exchange = to.exchange(&from).unwrap();
            for thread in 0..64 {
                let lane = xor_of_bases(&exchange.lanes, thread);
                for (register, (source, other)) in exchange.sources.iter().enumerate() {
                    let held = xor_of_bases(&from.register, *source as u32)
                        ^ xor_of_bases(&from.lane, lane ^ other)
                        ^ xor_of_bases(&from.warp, thread >> 5);
                    let expected = xor_of_bases(&to.register, register as u32)
                        ^ xor_of_bases(&to.lane, thread & 31)
                        ^ xor_of_bases(&to.warp, thread >> 5);
                    assert_eq!(held, expected, "register {register} of thread {thread}");
                }
            }
        }
        // Lanes would read different registers, or registers of another warp.
        assert!(layout(&[1], &[16, 2, 4, 8, 0], &[32]).exchange(&from).is_none());
        assert!(layout(&[32], &[1, 2, 4, 8, 0], &[16]).exchange(&from).is_none());
    }

    #[test]
    fn a_permutation_of_a_layout_is_undone_by_its_inverse() {
        let layout = Layout::blocked(&[0, 1, 5, 6, 2, 3, 4, 7, 8], 2, 2);
        let unpermuted = layout.unpermute(&[4, 16, 8], &[2, 0, 1]);
        assert_eq!(unpermuted.unpermute(&[16, 8, 4], &[1, 2, 0]), layout);
    }

    #[test]
    fn a_broadcast_renames_registers() {
        let wide = Layout::blocked(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 2, 2);
        let narrow = wide.unbroadcast(&[1, 32], &[32, 32]);
        let strides = Strides::for_shape(&[32, 32]);
        let registers = wide.renaming(&narrow, |element| strides.coordinate(element, 1)).unwrap();
        assert_eq!(registers.len(), wide.registers());
        for (register, source) in registers.iter().enumerate() {
            for lane in 0..32 {
                for warp in 0..4 {
                    let element = wide.element(register, lane, warp) as u32;
                    assert_eq!(narrow.element(*source, lane, warp) as u32, strides.coordinate(element, 1));
                }
            }
        }
    }
}
