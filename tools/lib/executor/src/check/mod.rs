//! The checks of `--check`. They observe the memory accesses of a run and report faults with their source locations.
//!
//! Tile blocks run one after another, or interleaved if they synchronise. Shadow memory ([`shadow`]) records the last writer of
//! every byte and the readers since that write. The module [`order`] decides whether two accesses are ordered.

pub(crate) mod assume;
pub(crate) mod facts;
mod order;
mod shadow;
pub(crate) mod stride_assumptions;

use crate::check_kind::{Check, Finding};
use crate::kernel_memory::{Access, InterleavedMemory, KernelMemory, Token};
use crate::memory::Memory;
use base::diag::{Diagnostic, Place, Result};
use base::{DebugInfo, Loc};
use order::{AccessOrder, Event, Relation};
use shadow::Shadow;
use std::collections::BTreeSet;

/// Maximum number of findings. Each check reports a source location, or a pair of source locations, only once.
const MAX_FINDINGS: usize = 50;

/// The memory of tile blocks that run in turns, with checks of each access. It reports faults as findings.
pub(crate) struct CheckedMemory {
    /// The memory that the checks observe.
    inner: InterleavedMemory,
    /// The enabled checks.
    checks: BTreeSet<Check>,
    access_order: AccessOrder,
    shadow: Shadow,
    /// The current access: set by `begin_access`, cleared by `end_access`.
    current_access: Option<Event>,
    /// The check and the locations of both accesses of each reported finding. A finding about one access has its location twice.
    reported: BTreeSet<(Check, Loc, Loc)>,
    findings: Vec<Finding>,
}

impl CheckedMemory {
    /// Returns a memory with checks. The named segments, and the address ranges of other segments, are uninitialised until the
    /// program writes them.
    pub(crate) fn new(
        memory: Memory,
        checks: BTreeSet<Check>,
        uninitialised_segments: &BTreeSet<String>,
        uninitialised_ranges: &[(u64, u64)],
    ) -> CheckedMemory {
        let mut shadow = Shadow::default();
        for segment in memory.segments() {
            shadow.add_segment(segment.address, !uninitialised_segments.contains(&segment.name));
        }
        uninitialised_ranges.iter().for_each(|(start, end)| shadow.mark_uninitialised(*start, *end));
        CheckedMemory {
            inner: InterleavedMemory::new(memory),
            checks,
            access_order: AccessOrder::default(),
            shadow,
            current_access: None,
            reported: BTreeSet::new(),
            findings: Vec::new(),
        }
    }

    /// Returns the ranges of addresses that the program wrote.
    pub(crate) fn written_ranges(&self) -> Vec<(u64, u64)> {
        self.shadow.written_ranges()
    }
    /// Returns the memory that the checks observe.
    pub(crate) fn memory(&self) -> &Memory {
        &self.inner.memory
    }
    pub(crate) fn into_memory(self) -> Memory {
        self.inner.memory
    }

    /// Returns the findings as diagnostics, in the order of detection.
    pub(crate) fn diagnostics(&self, debug: &DebugInfo) -> Vec<Diagnostic> {
        let position = |loc| debug.position(loc).map(|(file, line, column)| format!("{file}:{line}:{column}"));
        let diagnostics = self.findings.iter().map(|Finding { check, loc, other_loc, block, message }| {
            let mut diagnostic = Diagnostic::invalid(check.code(), message.clone()).at_loc(debug, *loc);
            if let Some(other_position) = other_loc.and_then(position) {
                diagnostic = diagnostic.note(format!("the other access is at {other_position}"));
            }
            if diagnostic.place.is_none() {
                diagnostic = diagnostic.at(Place::Entity(loc.to_string()));
            }
            *diagnostic.note(format!("first detected in block {block}"))
        });
        diagnostics.collect()
    }

    /// Adds a finding if its check is enabled, its locations are new and fewer than `MAX_FINDINGS` findings exist.
    fn add_finding(&mut self, check: Check, loc: Loc, other_loc: Option<Loc>, message: String) {
        if self.checks.contains(&check)
            && self.reported.insert((check, loc, other_loc.unwrap_or(loc)))
            && self.findings.len() < MAX_FINDINGS
        {
            self.findings.push(Finding { check, loc, other_loc, block: self.inner.block(), message });
        }
    }

    /// Returns the source location of the current access.
    fn current_loc(&self) -> Loc {
        self.current_access.map_or(Loc::UNKNOWN, |event| self.access_order.loc(event))
    }

    /// Checks a read or write of the current access against the shadow memory of its bytes, and records the access there. `writes`
    /// states that the access is a write. `changes` states that the write changed the contents of the memory.
    fn check_access(&mut self, address: u64, length: usize, writes: bool, changes: bool) {
        let Some(current) = self.current_access else { return };
        if self.access_order.is_synchronisation(current) {
            self.access_order.synchronise(current, address);
        }
        let mut conflicts: BTreeSet<(Event, bool)> = BTreeSet::new();
        let mut unwritten = None;
        self.shadow.record_access(address, length, current, writes, |at, history, readers| {
            unwritten = unwritten.or((!writes && !history.initialised()).then_some(at));
            conflicts.extend(history.writer().map(|event| (event, true)));
            if writes {
                conflicts.extend(readers.iter().map(|event| (*event, false)));
            }
        });
        if let Some(at) = unwritten {
            let name = self.inner.memory.segment(at).map_or("", |segment| &segment.name);
            let start = self.inner.memory.segment(at).map_or(0, |segment| segment.address);
            let message = format!("reads byte {} of '{name}', which was never written", at - start);
            self.add_finding(Check::Init, self.current_loc(), None, message);
        }
        for (earlier, earlier_writes) in conflicts {
            if earlier == current && earlier_writes && changes && !self.access_order.is_atomic(current) {
                let message = "writes bytes twice, with different values: two elements of its tile share an address".to_string();
                self.add_finding(Check::Token, self.current_loc(), None, message);
            }
            let conflict = match (writes, earlier_writes) {
                (true, true) => "writes bytes that another access writes",
                (true, false) => "writes bytes that another access reads",
                (false, _) => "reads bytes that another access writes",
            };
            let (check, problem) = match self.access_order.order_of_accesses(earlier, current) {
                Relation::Ordered => continue,
                Relation::Unordered => (Check::Token, "and no token orders them"),
                Relation::Racing => (Check::Race, "in another block, and nothing orders them"),
            };
            self.add_finding(check, self.current_loc(), Some(self.access_order.loc(earlier)), format!("{conflict} {problem}"));
        }
    }

    /// Returns whether an access was inside memory. With `--check=memory`, an access outside memory is a finding, and the program
    /// continues without the access. Otherwise such an access is an error.
    fn is_inside_memory(&mut self, result: Result<()>) -> Result<bool> {
        match result {
            Ok(()) => Ok(true),
            Err(error) if self.checks.contains(&Check::Memory) => {
                self.add_finding(Check::Memory, self.current_loc(), None, error.message);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

impl KernelMemory for CheckedMemory {
    fn enter_block(&mut self, block: u64) {
        self.inner.enter_block(block);
    }
    fn read(&mut self, address: u64, out: &mut [u8]) -> Result<()> {
        let result = self.inner.read(address, out);
        if self.is_inside_memory(result)? {
            self.check_access(address, out.len(), false, false);
        }
        Ok(())
    }
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<()> {
        let mut old_bytes = vec![0; bytes.len()];
        let changes = self.inner.read(address, &mut old_bytes).is_ok() && old_bytes != bytes;
        let result = self.inner.write(address, bytes);
        if self.is_inside_memory(result)? {
            self.check_access(address, bytes.len(), true, changes);
        }
        Ok(())
    }
    fn allocate(&mut self, bytes: u64, align: u64) -> Result<u64> {
        let address = self.inner.allocate(bytes, align)?;
        self.shadow.add_segment(address, false);
        Ok(address)
    }
    fn allocation_mark(&self) -> usize {
        self.inner.allocation_mark()
    }
    fn release_allocations(&mut self, mark: usize) {
        if self.allocation_mark() > mark {
            self.inner.release_allocations(mark);
            let memory = &self.inner.memory;
            self.shadow.retain_segments(|address| memory.segment(address).is_some_and(|segment| segment.address == address));
        }
    }
    fn begin_access(&mut self, access: Access) {
        self.current_access = Some(self.access_order.add_access(self.inner.block(), access));
    }
    fn end_access(&mut self) -> Token {
        self.current_access.take().map_or(0, |event| self.access_order.token_of(event))
    }
    fn join_tokens(&mut self, tokens: &[Token]) -> Token {
        self.access_order.join_tokens(tokens)
    }
    fn checks(&self, check: Check) -> bool {
        self.checks.contains(&check)
    }
    fn report(&mut self, check: Check, loc: Loc, message: String) {
        self.add_finding(check, loc, None, message);
    }
    fn findings(&self) -> &[Finding] {
        &self.findings
    }
    fn peek(&self, address: u64, out: &mut [u8]) -> Result<()> {
        self.inner.peek(address, out)
    }
}
