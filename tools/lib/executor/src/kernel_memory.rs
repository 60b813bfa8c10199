//! The memory that tile blocks access. The trait [`KernelMemory`] has an implementation with a checker for `--check`.

use crate::check_kind::{Check, Finding};
use crate::memory::{LocalAllocations, Memory, Overlay};
use base::Loc;
use base::diag::Result;
use core_dialect::memory::{MemoryOrdering, MemoryScope};

/// A token of the program's token graph, which orders memory accesses. The checker numbers the tokens. Without a checker, every
/// token is [`START_TOKEN`].
pub(crate) type Token = u32;
/// The token that depends on no access.
pub(crate) const START_TOKEN: Token = 0;

/// One execution of an op that accesses memory.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) loc: Loc,
    /// The token on which the access depends.
    pub(crate) after: Token,
    pub(crate) ordering: MemoryOrdering,
    pub(crate) scope: Option<MemoryScope>,
}

impl Access {
    /// Returns whether the access is atomic, so that concurrent atomic accesses to the same bytes are not a race.
    pub(crate) fn is_atomic(&self) -> bool {
        self.ordering != MemoryOrdering::Weak
    }
    /// Returns whether the access has acquire semantics.
    pub(crate) fn acquires(&self) -> bool {
        matches!(self.ordering, MemoryOrdering::Acquire | MemoryOrdering::AcqRel)
    }
    /// Returns whether the access has release semantics.
    pub(crate) fn releases(&self) -> bool {
        matches!(self.ordering, MemoryOrdering::Release | MemoryOrdering::AcqRel)
    }
}

/// The memory that a tile block accesses.
pub(crate) trait KernelMemory {
    /// Sets the current tile block. Later calls act for this tile block.
    fn enter_block(&mut self, block: u64);
    fn read(&mut self, address: u64, out: &mut [u8]) -> Result<()>;
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<()>;
    /// Allocates memory for the tile block. Returns its address.
    fn allocate(&mut self, bytes: u64, align: u64) -> Result<u64>;
    /// Returns the number of live allocations of the tile block. `release_allocations` with this number frees all later
    /// allocations.
    fn allocation_mark(&self) -> usize;
    /// Frees all live allocations of the tile block except the first `mark`.
    fn release_allocations(&mut self, mark: usize);

    /// Begins an access. All reads and writes until `end_access` belong to this access.
    fn begin_access(&mut self, _access: Access) {}
    /// Ends the access and returns its token.
    fn end_access(&mut self) -> Token {
        START_TOKEN
    }
    /// Returns a token that depends on all given tokens.
    fn join_tokens(&mut self, _tokens: &[Token]) -> Token {
        START_TOKEN
    }
    /// Returns whether `--check` enables a check.
    fn checks(&self, _check: Check) -> bool {
        false
    }
    /// Records a finding of a check.
    fn report(&mut self, _check: Check, _loc: Loc, _message: String) {}
    /// Returns the findings so far.
    fn findings(&self) -> &[Finding] {
        &[]
    }
    /// Reads memory without recording an access.
    fn peek(&self, address: u64, out: &mut [u8]) -> Result<()>;
}

/// The memory of tile blocks that run in turns. Each tile block reads the writes of the other tile blocks.
#[derive(Default)]
pub(crate) struct InterleavedMemory {
    pub(crate) memory: Memory,
    /// The allocations of each tile block.
    locals: std::collections::BTreeMap<u64, LocalAllocations>,
    /// The current tile block.
    block: u64,
}

impl InterleavedMemory {
    pub(crate) fn new(memory: Memory) -> InterleavedMemory {
        InterleavedMemory { memory, ..Default::default() }
    }
    pub(crate) fn block(&self) -> u64 {
        self.block
    }
}

impl KernelMemory for InterleavedMemory {
    fn enter_block(&mut self, block: u64) {
        self.block = block;
    }
    fn read(&mut self, address: u64, out: &mut [u8]) -> Result<()> {
        self.memory.read(address, out)
    }
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<()> {
        self.memory.write(address, bytes)
    }
    fn allocate(&mut self, bytes: u64, align: u64) -> Result<u64> {
        self.locals.entry(self.block).or_default().allocate(&mut self.memory, self.block, bytes, align)
    }
    fn peek(&self, address: u64, out: &mut [u8]) -> Result<()> {
        self.memory.read(address, out)
    }
    fn allocation_mark(&self) -> usize {
        self.locals.get(&self.block).map_or(0, LocalAllocations::allocation_mark)
    }
    fn release_allocations(&mut self, mark: usize) {
        if let Some(locals) = self.locals.get_mut(&self.block) {
            locals.release_allocations(&mut self.memory, mark);
            if mark == 0 {
                self.locals.remove(&self.block);
            }
        }
    }
}

/// The memory of a tile block that runs in parallel with other tile blocks. The tile block does not read their writes.
pub(crate) struct IsolatedMemory<'a> {
    pub(crate) memory: Overlay<'a>,
    locals: LocalAllocations,
    block: u64,
}

impl<'a> IsolatedMemory<'a> {
    pub(crate) fn new(memory: &'a Memory) -> IsolatedMemory<'a> {
        IsolatedMemory { memory: Overlay::new(memory), locals: LocalAllocations::default(), block: 0 }
    }
}

impl KernelMemory for IsolatedMemory<'_> {
    fn enter_block(&mut self, block: u64) {
        self.block = block;
    }
    fn read(&mut self, address: u64, out: &mut [u8]) -> Result<()> {
        self.memory.read(address, out)
    }
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<()> {
        self.memory.write(address, bytes)
    }
    fn allocate(&mut self, bytes: u64, align: u64) -> Result<u64> {
        self.locals.allocate(&mut self.memory.locals, self.block, bytes, align)
    }
    fn peek(&self, address: u64, out: &mut [u8]) -> Result<()> {
        self.memory.read(address, out)
    }
    fn allocation_mark(&self) -> usize {
        self.locals.allocation_mark()
    }
    fn release_allocations(&mut self, mark: usize) {
        self.locals.release_allocations(&mut self.memory.locals, mark);
    }
}
