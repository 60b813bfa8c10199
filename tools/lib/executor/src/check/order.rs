//! The happens-before order of memory accesses: by tokens within a tile block, by release and acquire between tile blocks.

use crate::world::{Access, START_TOKEN, Token};
use base::Loc;
use core_dialect::memory::MemoryScope;
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashMap};

/// An access, identified by its index in [`Order::nodes`]. The index is also the token that the access produces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Event(pub(crate) u32);

pub(crate) enum Relation {
    Ordered,
    /// Both accesses are in the same tile block, and no token path connects them.
    Unordered,
    /// The accesses are in different tile blocks, and no synchronisation connects them.
    Racing,
}

/// A vector clock: for each tile block, its latest access that happens before the owner's current point. A missing entry means
/// zero.
type SparseVectorClock = BTreeMap<u64, u32>;

struct Node {
    /// Tokens that this one depends on. Token numbers are topologically ordered: each dependency has a smaller number.
    after: SmallVec<[Token; 2]>,
    access: Option<(u64, Access)>,
}

pub(crate) struct Order {
    nodes: Vec<Node>,
    /// Memoised answers of [`Order::comes_after`].
    memo: HashMap<(Token, u32), bool>,
    vector_clocks: BTreeMap<u64, SparseVectorClock>,
    /// The vector clock that the last releases at an address published.
    released: BTreeMap<u64, SparseVectorClock>,
}

impl Default for Order {
    fn default() -> Self {
        let start = Node { after: SmallVec::new(), access: None };
        Order { nodes: vec![start], memo: HashMap::new(), vector_clocks: BTreeMap::new(), released: BTreeMap::new() }
    }
}

impl Order {
    fn add_node(&mut self, node: Node) -> u32 {
        self.nodes.push(node);
        u32::try_from(self.nodes.len() - 1).expect("fewer than 2^32 accesses under --check")
    }

    pub(crate) fn add_access(&mut self, block: u64, access: Access) -> Event {
        let after = SmallVec::from_slice(&[access.after]);
        Event(self.add_node(Node { after, access: Some((block, access)) }))
    }

    pub(crate) fn token_of(&self, event: Event) -> Token {
        event.0
    }

    pub(crate) fn join(&mut self, tokens: &[Token]) -> Token {
        let mut after: SmallVec<[Token; 2]> = tokens.iter().copied().filter(|token| *token != START_TOKEN).collect();
        after.sort_unstable();
        after.dedup();
        match after[..] {
            [] => START_TOKEN,
            [only] => only,
            _ => self.add_node(Node { after, access: None }),
        }
    }

    fn access(&self, event: Event) -> &(u64, Access) {
        self.nodes[event.0 as usize].access.as_ref().expect("an event is an access")
    }

    pub(crate) fn loc(&self, event: Event) -> Loc {
        self.access(event).1.loc
    }

    pub(crate) fn is_atomic(&self, event: Event) -> bool {
        self.access(event).1.is_atomic()
    }

    /// Returns the relation of an earlier access to a later one. Two atomic accesses need no order.
    pub(crate) fn relation(&mut self, earlier: Event, later: Event) -> Relation {
        let ((first_block, first), (second_block, second)) = (self.access(earlier), self.access(later));
        if earlier == later || first.is_atomic() && second.is_atomic() {
            return Relation::Ordered;
        }
        let (block, other, token) = (*first_block, *second_block, second.after);
        if block == other {
            return if self.comes_after(token, earlier) { Relation::Ordered } else { Relation::Unordered };
        }
        let seen = self.vector_clocks.get(&other).and_then(|clock| clock.get(&block));
        if seen.is_some_and(|latest| *latest >= earlier.0) { Relation::Ordered } else { Relation::Racing }
    }

    /// Returns whether an access happens before every consumer of this token.
    fn comes_after(&mut self, token: Token, event: Event) -> bool {
        if let Some(known) = self.memo.get(&(token, event.0)) {
            return *known;
        }
        let mut stack = vec![token];
        let mut visited = std::collections::HashSet::new();
        let mut found = false;
        while let Some(token) = stack.pop() {
            found |= token == event.0;
            if found {
                break;
            }
            // Token numbers are topologically ordered, so no path to the event leads through a smaller number.
            if token > event.0 && visited.insert(token) {
                stack.extend(&self.nodes[token as usize].after);
            }
        }
        self.memo.insert((token, event.0), found);
        found
    }

    pub(crate) fn synchronises(&self, event: Event) -> bool {
        let access = &self.access(event).1;
        (access.acquires() || access.releases()) && access.scope != Some(MemoryScope::TileBlock)
    }

    /// Propagates vector clocks: a release publishes the tile block's clock at an address, and an acquire merges the published
    /// clock.
    pub(crate) fn synchronise(&mut self, event: Event, address: u64) {
        let (block, access) = self.access(event);
        let (block, acquires, releases) = (*block, access.acquires(), access.releases());
        let clock = self.vector_clocks.entry(block).or_default();
        if acquires && let Some(released) = self.released.get(&address) {
            merge(clock, released);
        }
        if releases {
            let released = self.released.entry(address).or_default();
            merge(released, clock);
            released.insert(block, event.0);
        }
    }
}

fn merge(clock: &mut SparseVectorClock, other: &SparseVectorClock) {
    for (block, latest) in other {
        let entry = clock.entry(*block).or_default();
        *entry = (*entry).max(*latest);
    }
}
