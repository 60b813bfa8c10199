//! Union-find over the indices `0..len`. The smallest index of a set represents it, so results do not depend on the order of joins.

/// Disjoint sets of indices. The vector has the parent of each index. The parent of a representative is the representative itself.
#[derive(Clone, Debug)]
pub struct UnionFind(Vec<usize>);

impl UnionFind {
    /// Creates a set for each index below `len`.
    pub fn new(len: usize) -> UnionFind {
        UnionFind((0..len).collect())
    }

    /// Returns the representative of the set that contains an index.
    pub fn find(&self, mut index: usize) -> usize {
        while self.0[index] != index {
            index = self.0[index];
        }
        index
    }

    /// Merges the sets of two indices.
    pub fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find_and_shorten(a), self.find_and_shorten(b));
        self.0[a.max(b)] = a.min(b);
    }

    /// Does the same as `find`, and shortens the path to the representative (path halving).
    fn find_and_shorten(&mut self, mut index: usize) -> usize {
        while self.0[index] != index {
            self.0[index] = self.0[self.0[index]];
            index = self.0[index];
        }
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_indices_have_the_smallest_as_representative() {
        let mut sets = UnionFind::new(6);
        sets.join(4, 5);
        sets.join(5, 2);
        sets.join(0, 1);
        assert_eq!([0, 1, 2, 3, 4, 5].map(|index| sets.find(index)), [0, 0, 2, 3, 2, 2]);
        sets.join(1, 4);
        assert_eq!([0, 1, 2, 3, 4, 5].map(|index| sets.find(index)), [0, 0, 0, 3, 0, 0]);
    }
}
