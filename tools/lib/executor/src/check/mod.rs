//! `--check`: observes the memory accesses of a run and reports faults with their source locations.
//!
//! Tile blocks run one after another, or interleaved if they synchronise. Shadow memory records the last writer of every byte and
//! the readers since that write. [`order`] decides whether two accesses are ordered.

pub(crate) mod assume;
pub(crate) mod facts;
pub(crate) mod nan;
mod order;
mod shadow;
pub(crate) mod stride_assumptions;

use crate::memory::Memory;
use crate::world::{Access, SharedWorld, Token, World};
use base::diag::{Diagnostic, Place, Result};
use base::{DebugInfo, Loc};
use order::{Event, Order, Relation};
use shadow::Shadow;
use std::collections::BTreeSet;

/// The checks that `--check` can enable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Check {
    /// Accesses outside all buffers, indices outside the index space of a view, and violated `inbounds` promises
    Memory,
    /// Reads of memory that was never written
    Init,
    /// Accesses to the same bytes that no token orders, and stores with two values for one address
    Token,
    /// Accesses of two blocks to the same bytes that nothing orders
    Race,
    /// `assume` ops whose fact does not hold
    Assume,
    /// Entries of an .aa file's table of facts that do not hold
    Facts,
    /// Integers divided by zero
    Divide,
    /// Reductions and scans whose result depends on the combination order by more than rounding
    Order,
    /// Uses of elements that a load left undetermined because they are outside the tensor or masked out; Tile IR only
    Padding,
    /// A NaN that an op computes from operands without a NaN
    Nan,
}

impl Check {
    /// The checks that `--check` without a list enables.
    pub const USUAL: [Check; 9] = [
        Check::Memory,
        Check::Init,
        Check::Token,
        Check::Race,
        Check::Assume,
        Check::Facts,
        Check::Divide,
        Check::Order,
        Check::Padding,
    ];

    pub fn code(self) -> &'static str {
        match self {
            Check::Memory => "CHK001",
            Check::Init => "CHK002",
            Check::Token => "CHK003",
            Check::Race => "CHK004",
            Check::Assume => "CHK005",
            Check::Nan => "CHK006",
            Check::Facts => "CHK007",
            Check::Divide => "CHK008",
            Check::Order => "CHK009",
            Check::Padding => "CHK010",
        }
    }
}

/// A fault that a check found. The program keeps running after it.
#[derive(Clone, Debug)]
pub struct Finding {
    pub check: Check,
    pub loc: Loc,
    /// The location of the second access, if the fault involves two.
    pub other: Option<Loc>,
    pub block: u64,
    pub message: String,
}

/// Limit on the number of findings. Each kind is reported once per source location.
const MOST_FINDINGS: usize = 50;

pub(crate) struct Checked {
    inner: SharedWorld,
    checks: BTreeSet<Check>,
    order: Order,
    shadow: Shadow,
    /// The access between `begin` and `end`, as an event of the order.
    now: Option<Event>,
    reported: BTreeSet<(Check, Loc, Loc)>,
    findings: Vec<Finding>,
}

impl Checked {
    /// Creates a checked world. `empty` names the segments that count as uninitialised until the program writes them; `unwritten` are
    /// such ranges of other segments.
    pub(crate) fn new(memory: Memory, checks: BTreeSet<Check>, empty: &BTreeSet<String>, unwritten: &[(u64, u64)]) -> Checked {
        let mut shadow = Shadow::default();
        for segment in memory.segments() {
            shadow.add(segment.address, !empty.contains(&segment.name));
        }
        unwritten.iter().for_each(|(start, end)| shadow.add_unwritten(*start, *end));
        Checked {
            inner: SharedWorld::new(memory),
            checks,
            order: Order::default(),
            shadow,
            now: None,
            reported: BTreeSet::new(),
            findings: Vec::new(),
        }
    }

    /// Returns the ranges of addresses that the program wrote.
    pub(crate) fn written(&self) -> Vec<(u64, u64)> {
        self.shadow.written()
    }
    pub(crate) fn memory(&self) -> &Memory {
        &self.inner.memory
    }
    pub(crate) fn into_memory(self) -> Memory {
        self.inner.memory
    }

    /// Returns the findings as diagnostics, in the order of detection.
    pub(crate) fn diagnostics(&self, debug: &DebugInfo) -> Vec<Diagnostic> {
        let position = |loc| debug.position(loc).map(|(file, line, column)| format!("{file}:{line}:{column}"));
        let reported = self.findings.iter().map(|Finding { check, loc, other, block, message }| {
            let mut diagnostic = Diagnostic::invalid(check.code(), message.clone()).at_loc(debug, *loc);
            if let Some(other) = other.and_then(position) {
                diagnostic = diagnostic.note(format!("the other access is at {other}"));
            }
            if diagnostic.place.is_none() {
                diagnostic = diagnostic.at(Place::Entity(loc.to_string()));
            }
            *diagnostic.note(format!("first detected in block {block}"))
        });
        reported.collect()
    }

    fn add_finding(&mut self, check: Check, loc: Loc, other: Option<Loc>, message: String) {
        if self.checks.contains(&check)
            && self.reported.insert((check, loc, other.unwrap_or(loc)))
            && self.findings.len() < MOST_FINDINGS
        {
            self.findings.push(Finding { check, loc, other, block: self.inner.block(), message });
        }
    }

    fn current_loc(&self) -> Loc {
        self.now.map_or(Loc::UNKNOWN, |event| self.order.loc(event))
    }

    /// Compares an access with the history of each byte and records it there. `changes`: the access stores a value that differs
    /// from the old one.
    fn check_access(&mut self, address: u64, length: usize, writes: bool, changes: bool) {
        let Some(now) = self.now else { return };
        if self.order.synchronises(now) {
            self.order.synchronise(now, address);
        }
        let mut conflicts: BTreeSet<(Event, bool)> = BTreeSet::new();
        let mut unwritten = None;
        self.shadow.visit(address, length, now, writes, |at, known, readers| {
            unwritten = unwritten.or((!writes && !known.initialised()).then_some(at));
            conflicts.extend(known.writer().map(|event| (event, true)));
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
        for (other, other_writes) in conflicts {
            if other == now && other_writes && changes && !self.order.is_atomic(now) {
                let message = "writes bytes twice, with different values: two elements of its tile share an address".to_string();
                self.add_finding(Check::Token, self.current_loc(), None, message);
            }
            let what = match (writes, other_writes) {
                (true, true) => "writes bytes that another access writes",
                (true, false) => "writes bytes that another access reads",
                (false, _) => "reads bytes that another access writes",
            };
            let (check, problem) = match self.order.relation(other, now) {
                Relation::Ordered => continue,
                Relation::Unordered => (Check::Token, "and no token orders them"),
                Relation::Racing => (Check::Race, "in another block, and nothing orders them"),
            };
            self.add_finding(check, self.current_loc(), Some(self.order.loc(other)), format!("{what} {problem}"));
        }
    }

    /// Returns whether an access was inside memory. An access outside is a finding, and the program continues as if it had not
    /// happened; without `--check=memory` it is an error.
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

impl World for Checked {
    fn enter(&mut self, block: u64) {
        self.inner.enter(block);
    }
    fn read(&mut self, address: u64, out: &mut [u8]) -> Result<()> {
        let result = self.inner.read(address, out);
        if self.is_inside_memory(result)? {
            self.check_access(address, out.len(), false, false);
        }
        Ok(())
    }
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<()> {
        let mut before = vec![0; bytes.len()];
        let changes = self.inner.read(address, &mut before).is_ok() && before != bytes;
        let result = self.inner.write(address, bytes);
        if self.is_inside_memory(result)? {
            self.check_access(address, bytes.len(), true, changes);
        }
        Ok(())
    }
    fn allocate(&mut self, bytes: u64, align: u64) -> Result<u64> {
        let address = self.inner.allocate(bytes, align)?;
        self.shadow.add(address, false);
        Ok(address)
    }
    fn mark(&self) -> usize {
        self.inner.mark()
    }
    fn release(&mut self, mark: usize) {
        if self.mark() > mark {
            self.inner.release(mark);
            let memory = &self.inner.memory;
            self.shadow.retain(|address| memory.segment(address).is_some_and(|segment| segment.address == address));
        }
    }
    fn begin(&mut self, access: Access) {
        self.now = Some(self.order.add_access(self.inner.block(), access));
    }
    fn end(&mut self) -> Token {
        self.now.take().map_or(0, |event| self.order.token_of(event))
    }
    fn join(&mut self, tokens: &[Token]) -> Token {
        self.order.join(tokens)
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
