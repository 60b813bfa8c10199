//! Register fragments: the assignment of matrix elements to the registers of a warp.
//!
//! In all these layouts, lane `l` has group `l / 4` and position `l % 4`. A register holds `elements_per_register = 32 / bits`
//! neighbouring elements (one if they have 64 bits). Each function returns the row and the column of element `part` of register
//! `index` of a lane.

/// Returns the (m, k) position of an element of the A fragment of `mma`. The group of the lane selects the row, and K runs along
/// the positions. With 16 rows, the two registers of a pair are 8 rows apart.
pub(crate) fn a_position(lane: usize, index: usize, part: usize, elements_per_register: usize, rows: usize) -> (usize, usize) {
    let (group, position) = (lane / 4, lane % 4);
    if rows == 8 {
        return (group, index * 4 * elements_per_register + position * elements_per_register + part);
    }
    (group + 8 * (index % 2), index / 2 * 4 * elements_per_register + position * elements_per_register + part)
}

/// Returns the (k, n) position of an element of the B fragment of `mma`.
pub(crate) fn b_position(lane: usize, index: usize, part: usize, elements_per_register: usize) -> (usize, usize) {
    (index * 4 * elements_per_register + lane % 4 * elements_per_register + part, lane / 4)
}

/// Returns the (m, n) position of an element of the C or D fragment of `mma` with one element per register.
pub(crate) fn c_position(lane: usize, index: usize) -> (usize, usize) {
    (lane / 4 + 8 * (index / 2), 2 * (lane % 4) + index % 2)
}

/// Returns the (m, n) position of an element of the C or D fragment of `mma` with two elements per register.
pub(crate) fn c_packed_position(lane: usize, index: usize, part: usize) -> (usize, usize) {
    (lane / 4 + 8 * index, 2 * (lane % 4) + part)
}

/// Returns the row and column of an element of an 8x8 matrix with 16-bit elements, as `ldmatrix` and `stmatrix` distribute it.
pub(crate) fn matrix8x8_position(lane: usize, part: usize, transposed: bool) -> (usize, usize) {
    let (row, column) = (lane / 4, 2 * (lane % 4) + part);
    if transposed { (column, row) } else { (row, column) }
}

/// Returns the row and column of an element of a transposed 16x16 byte matrix of `ldmatrix`. A lane has two registers.
pub(crate) fn matrix16x16_position(lane: usize, index: usize, part: usize) -> (usize, usize) {
    (4 * (lane % 4) + part, lane / 4 + 8 * index)
}

/// Returns the row and column of an element of a transposed 16x8 byte matrix of `stmatrix`. A lane has one register.
pub(crate) fn matrix16x8_position(lane: usize, part: usize) -> (usize, usize) {
    (4 * (lane % 4) + part, lane / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The expected positions come from the figures of the PTX ISA.
    #[test]
    fn positions_match_figures_of_the_isa() {
        // m16n8k16, 16 bits: a0,a1 | a2,a3 | a4,a5 | a6,a7.
        assert_eq!([0, 1, 2, 3].map(|r| a_position(5, r, 1, 2, 16)), [(1, 3), (9, 3), (1, 11), (9, 11)]);
        assert_eq!([0, 1].map(|r| b_position(5, r, 1, 2)), [(3, 1), (11, 1)]);
        assert_eq!([0, 1, 2, 3].map(|r| c_position(5, r)), [(1, 2), (1, 3), (9, 2), (9, 3)]);
        assert_eq!([0, 1].map(|r| c_packed_position(5, r, 1)), [(1, 3), (9, 3)]);
        // m16n8k8, tf32.
        assert_eq!([0, 1, 2, 3].map(|r| a_position(6, r, 0, 1, 16)), [(1, 2), (9, 2), (1, 6), (9, 6)]);
        assert_eq!([0, 1].map(|r| b_position(6, r, 0, 1)), [(2, 1), (6, 1)]);
        // m16n8k32, 8 bits.
        assert_eq!([0, 1, 2, 3].map(|r| a_position(31, r, 3, 4, 16)), [(7, 15), (15, 15), (7, 31), (15, 31)]);
        assert_eq!([0, 1].map(|r| b_position(31, r, 3, 4)), [(15, 7), (31, 7)]);
        // m16n8k64, 4 bits.
        assert_eq!([0, 1, 2, 3].map(|r| a_position(4, r, 7, 8, 16)), [(1, 7), (9, 7), (1, 39), (9, 39)]);
        // m8n8k4, 64 bits.
        assert_eq!((a_position(7, 0, 0, 1, 8), b_position(7, 0, 0, 1)), ((1, 3), (3, 1)));
        assert_eq!((matrix8x8_position(9, 1, false), matrix8x8_position(9, 1, true)), ((2, 3), (3, 2)));
        assert_eq!((matrix16x16_position(9, 0, 3), matrix16x16_position(9, 1, 3)), ((7, 2), (7, 10)));
    }

    #[test]
    fn every_element_has_one_position() {
        let all = |registers: usize, parts: usize, element_position: &dyn Fn(usize, usize, usize) -> (usize, usize)| {
            let mut seen = BTreeSet::new();
            for lane in 0..32 {
                for register in 0..registers {
                    for part in 0..parts {
                        assert!(seen.insert(element_position(lane, register, part)));
                    }
                }
            }
            (seen.iter().map(|p| p.0).max().unwrap() + 1, seen.iter().map(|p| p.1).max().unwrap() + 1, seen.len())
        };
        for (elements_per_register, k) in [(1, 8), (2, 16), (4, 32), (8, 64)] {
            assert_eq!(all(4, elements_per_register, &|l, r, p| a_position(l, r, p, elements_per_register, 16)), (16, k, 16 * k));
            assert_eq!(all(2, elements_per_register, &|l, r, p| b_position(l, r, p, elements_per_register)), (k, 8, 8 * k));
        }
        assert_eq!(all(4, 1, &|l, r, _| c_position(l, r)), (16, 8, 128));
        assert_eq!(all(2, 2, &|l, r, p| c_packed_position(l, r, p)), (16, 8, 128));
        assert_eq!(all(1, 2, &|l, _, p| matrix8x8_position(l, p, true)), (8, 8, 64));
        assert_eq!(all(2, 4, &|l, r, p| matrix16x16_position(l, r, p)), (16, 16, 256));
        assert_eq!(all(1, 4, &|l, _, p| matrix16x8_position(l, p)), (16, 8, 128));
    }
}
