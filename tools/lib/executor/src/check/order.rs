//! The happens-before order of memory accesses. Tokens order the accesses of one tile block. Release and acquire order the accesses
//! of different tile blocks.

use crate::kernel_memory::{Access, START_TOKEN, Token};
use base::Loc;
use core_dialect::memory::MemoryScope;
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashMap};

/// An access, identified by its index in [`AccessOrder::nodes`]. The index is also the token that the access produces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Event(pub(crate) u32);

/// The relation of two accesses to the same bytes.
pub(crate) enum Relation {
    Ordered,
    /// Both accesses are in the same tile block, and no token path connects them.
    Unordered,
    /// The accesses are in different tile blocks, and no synchronisation connects them.
    Racing,
}

/// A vector clock of a tile block. For each other tile block, it has the number of the latest event of that tile block that happens
/// before the owner's next access. A missing entry means zero.
type SparseVectorClock = BTreeMap<u64, u32>;

/// A token of the dependency graph.
struct Node {
    /// The tokens on which this token depends. Token numbers are topologically ordered: each dependency has a smaller number.
    dependencies: SmallVec<[Token; 2]>,
    /// The access that produces the token, with its tile block. `None` for the start token and for joined tokens.
    access: Option<(u64, Access)>,
}

/// The dependency graph of accesses and tokens, and the vector clocks of the tile blocks.
pub(crate) struct AccessOrder {
    nodes: Vec<Node>,
    /// Memoised results of [`AccessOrder::comes_after`], by its arguments.
    memo: HashMap<(Token, u32), bool>,
    /// The vector clock of each tile block.
    vector_clocks: BTreeMap<u64, SparseVectorClock>,
    /// For each address, the merged vector clocks of all releases at this address.
    released: BTreeMap<u64, SparseVectorClock>,
}

impl Default for AccessOrder {
    fn default() -> Self {
        let start_node = Node { dependencies: SmallVec::new(), access: None };
        AccessOrder { nodes: vec![start_node], memo: HashMap::new(), vector_clocks: BTreeMap::new(), released: BTreeMap::new() }
    }
}

impl AccessOrder {
    /// Adds a token to the graph, and returns its number.
    fn add_node(&mut self, node: Node) -> u32 {
        self.nodes.push(node);
        u32::try_from(self.nodes.len() - 1).expect("fewer than 2^32 accesses under --check")
    }

    /// Adds an access of a tile block, which depends on the token `access.after`.
    pub(crate) fn add_access(&mut self, block: u64, access: Access) -> Event {
        let dependencies = SmallVec::from_slice(&[access.after]);
        Event(self.add_node(Node { dependencies, access: Some((block, access)) }))
    }

    pub(crate) fn token_of(&self, event: Event) -> Token {
        event.0
    }

    pub(crate) fn join_tokens(&mut self, tokens: &[Token]) -> Token {
        let mut dependencies: SmallVec<[Token; 2]> = tokens.iter().copied().filter(|token| *token != START_TOKEN).collect();
        dependencies.sort_unstable();
        dependencies.dedup();
        match dependencies[..] {
            [] => START_TOKEN,
            [only] => only,
            _ => self.add_node(Node { dependencies, access: None }),
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
    pub(crate) fn order_of_accesses(&mut self, earlier: Event, later: Event) -> Relation {
        let ((first_block, first), (second_block, second)) = (self.access(earlier), self.access(later));
        if earlier == later || first.is_atomic() && second.is_atomic() {
            return Relation::Ordered;
        }
        let (earlier_block, later_block, token) = (*first_block, *second_block, second.after);
        if earlier_block == later_block {
            return if self.comes_after(token, earlier) { Relation::Ordered } else { Relation::Unordered };
        }
        let latest_ordered = self.vector_clocks.get(&later_block).and_then(|clock| clock.get(&earlier_block));
        if latest_ordered.is_some_and(|latest| *latest >= earlier.0) { Relation::Ordered } else { Relation::Racing }
    }

    /// Returns whether a path of dependencies leads from a token back to an access. If so, the access happens before every access
    /// that depends on the token.
    fn comes_after(&mut self, token: Token, event: Event) -> bool {
        if let Some(known) = self.memo.get(&(token, event.0)) {
            return *known;
        }
        let mut stack = vec![token];
        let mut visited = std::collections::HashSet::new();
        let mut reached = false;
        while let Some(token) = stack.pop() {
            reached |= token == event.0;
            if reached {
                break;
            }
            // Token numbers are topologically ordered, so no path to the event leads through a smaller number.
            if token > event.0 && visited.insert(token) {
                stack.extend(&self.nodes[token as usize].dependencies);
            }
        }
        self.memo.insert((token, event.0), reached);
        reached
    }

    /// Returns whether an access may synchronise with other tile blocks: an acquire or a release in a larger scope than one tile
    /// block.
    pub(crate) fn is_synchronisation(&self, event: Event) -> bool {
        let access = &self.access(event).1;
        (access.acquires() || access.releases()) && access.scope != Some(MemoryScope::TileBlock)
    }

    /// Propagates vector clocks at an address. A release merges the clock of its tile block into the clock of the address. An
    /// acquire merges the clock of the address into the clock of its tile block.
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

/// Merges `other` into `clock`: each entry becomes the maximum of both entries.
fn merge(clock: &mut SparseVectorClock, other: &SparseVectorClock) {
    for (block, latest) in other {
        let entry = clock.entry(*block).or_default();
        *entry = (*entry).max(*latest);
    }
}
