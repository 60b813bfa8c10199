//! In `.as` a buffer is written on every way to where it is read.
//!
//! What is known at a place is which buffers have been written whenever it is reached; that stays so from there on. Where ways
//! meet, what all of them know is known. A branch of an `if` knows more by its condition:
//! - one that compares the bounds of a `for` before it says that this had a round;
//! - what is handed on to it may say of each buffer that it was written if the truth is false ("still fresh"), or if it is true. A
//!   constant says so of all buffers for what it is not; whatever is handed on says so of what has been written there, and what
//!   can be one of several values says what all of them say.
//!
//! What a loop's round hands on to the next one is taken to say everything at first. The function is walked again with what came of
//! it, until that is what was taken; from walk to walk less is said, so what one refuses stays refused. The work is linear in the
//! function: the walks are limited, and so are the buffers that are not simply written before all else.
//!
//! Behind an `if` both branches count, also one that leaves, and behind a `loop` what stands behind a `break` too: the judge of
//! `.sched` plays on there.
//!
//! That comes on top of `written_before_read`, which goes by program order and is all that is asked of `.sched`: there loops were
//! split, and the judge plays the program.

use crate::effects::Does;
use crate::{Buffer, FunctionAttrs, Op, Type};
use base::ir::{Def, Op as OpId, Operation};
use base::{Body, Loc, Region, Value};
use numerics::arith::{Compare, Predicate, Signedness};
use std::collections::BTreeMap;
use vocabulary::core_ops::Core;
use vocabulary::rules::{MiddleOp, Nesting};
use vocabulary::tile::Dense;

type Rule<T = ()> = Result<T, (Loc, String)>;
/// Some of the buffers that are looked at together.
type Set = u64;
const ALL: Set = Set::MAX;

/// Walks until what loops hand on to their next round is as it was taken to be. Each truth that loops pass on to another may take
/// one.
const MOST_WALKS: usize = 16;
/// Buffers of a function that one write does not settle.
const MOST_UNCLEAR: usize = 1024;

/// A place in the program: what has been written when it is reached, and whether it can be.
#[derive(Clone, Copy)]
struct Here {
    written: Set,
    reached: bool,
}

/// What has been written if a value is true, and if it is false; nothing is said by one that is no truth.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Truth {
    if_true: Set,
    if_false: Set,
}

impl Truth {
    fn meet(self, other: Truth) -> Truth {
        Truth { if_true: self.if_true & other.if_true, if_false: self.if_false & other.if_false }
    }
}

/// Ways that have come to one place, with what they hand on there.
struct Meeting {
    here: Here,
    truths: Vec<Truth>,
}

impl Meeting {
    /// A way on which nothing comes does not count beside one on which something does.
    fn add(&mut self, other: Meeting) {
        match (self.here.reached, other.here.reached) {
            (false, true) => *self = other,
            (true, false) => {}
            _ => {
                self.here.written &= other.here.written;
                meet(&mut self.truths, &other.truths);
            }
        }
    }
}

fn meet(own: &mut [Truth], other: &[Truth]) {
    own.iter_mut().zip(other).for_each(|(own, other)| *own = own.meet(*other));
}

/// What a loop's round leaves to the next one.
#[derive(Clone, PartialEq, Eq)]
struct Round {
    written: Set,
    truths: Vec<Truth>,
}

/// How often a `for` goes round: its lower and upper bound, and whether they are unsigned.
type Bounds = (Bound, Bound, bool);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Bound {
    Constant(u64),
    Of(Value),
}

/// The operands of a `for`.
struct For<'a> {
    lower: Value,
    upper: Value,
    unsigned: bool,
    init: &'a [Value],
    inner: Region,
}

struct Walk<'a> {
    body: &'a Body<Op, Type>,
    nesting: &'a Nesting,
    /// By buffer, its place in the sets; none for one that is not looked at.
    sets: Vec<Set>,
    /// By value.
    truths: Vec<Truth>,
    /// What rounds are taken to leave, what others are, and what they left in this walk.
    taken: BTreeMap<OpId, Round>,
    others: Set,
    left: BTreeMap<OpId, Round>,
    /// Ways that go on with the next round of a loop, and that leave an op.
    rounds: BTreeMap<OpId, Meeting>,
    exits: BTreeMap<OpId, Meeting>,
    /// The loop that each counter counts.
    counters: BTreeMap<Value, OpId>,
    /// What was written by loops before here, if they had a round, and what that was before each change.
    ran: BTreeMap<Bounds, Set>,
    changes: Vec<(Bounds, Option<Set>)>,
}

/// On every way a buffer is written before it is read. Regions and terminators must be sound.
pub(super) fn on_every_way(body: &Body<Op, Type>, root: Region, attrs: &FunctionAttrs) -> Rule {
    let unclear = unclear(body, root, attrs);
    if let Some((buffer, loc)) = unclear.get(MOST_UNCLEAR) {
        let message = format!("{buffer} is one of more than {MOST_UNCLEAR} for which one write does not come before all else");
        return Err((*loc, message));
    }
    if unclear.is_empty() {
        return Ok(());
    }
    let nesting = Nesting::of(body, root);
    unclear.chunks(Set::BITS as usize).try_for_each(|buffers| {
        let mut sets = vec![0; attrs.buffers.len()];
        buffers.iter().enumerate().for_each(|(bit, (buffer, _))| sets[buffer.0 as usize] = 1 << bit);
        Walk::new(body, &nesting, sets).until_nothing_changes(root)
    })
}

/// The buffers that are read, unless the first access writes them and the others are behind it in its block; and where that is.
fn unclear(body: &Body<Op, Type>, root: Region, attrs: &FunctionAttrs) -> Vec<(Buffer, Loc)> {
    let order = body.walk(root);
    let blocks = body.op_blocks();
    let mut at = vec![0; body.ops.len()];
    order.iter().enumerate().for_each(|(position, op)| at[op.0 as usize] = position);
    // Up to where each buffer is written, once there was an access.
    let mut settled: Vec<Option<usize>> = vec![None; attrs.buffers.len()];
    let mut unclear = BTreeMap::new();
    for (position, op) in order.iter().enumerate() {
        for access in body.ops[*op].kind.effects().buffers {
            let end = || blocks[op.0 as usize].and_then(|block| body.terminator(block)).map_or(0, |last| at[last.0 as usize]);
            let writes = !access.does.needs_content();
            let settled = settled[access.buffer.0 as usize].get_or_insert_with(|| if writes { end() } else { 0 });
            if !writes && position >= *settled {
                unclear.entry(access.buffer).or_insert(body.ops[*op].loc);
            }
        }
    }
    unclear.into_iter().collect()
}

impl<'a> Walk<'a> {
    fn new(body: &'a Body<Op, Type>, nesting: &'a Nesting, sets: Vec<Set>) -> Walk<'a> {
        Walk {
            body,
            nesting,
            sets,
            truths: vec![Truth::default(); body.values.len()],
            taken: BTreeMap::new(),
            others: ALL,
            left: BTreeMap::new(),
            rounds: BTreeMap::new(),
            exits: BTreeMap::new(),
            counters: BTreeMap::new(),
            ran: BTreeMap::new(),
            changes: Vec::new(),
        }
    }

    fn until_nothing_changes(mut self, root: Region) -> Rule {
        let start = Here { written: 0, reached: true };
        for _ in 0..MOST_WALKS {
            self.region(root, start)?;
            let left = std::mem::take(&mut self.left);
            if left == self.taken {
                return Ok(());
            }
            self.taken = left;
        }
        // Nothing that rounds leave is relied on.
        self.taken.clear();
        self.others = 0;
        self.region(root, start).map(drop)
    }

    /// Goes through a region; gives its end, which nothing reaches behind the terminator.
    fn region(&mut self, region: Region, mut here: Here) -> Rule<Here> {
        let (body, outside) = (self.body, self.changes.len());
        for &op in &body.blocks[body.block_of(region)].ops {
            let node = &body.ops[op];
            for access in node.kind.effects().buffers {
                self.access(access.buffer, access.does, &mut here).map_err(|message| (node.loc, message))?;
            }
            match node.kind.core() {
                Some(Core::If { cond, then, otherwise }) => here = self.branches(op, *cond, [*then, *otherwise], here)?,
                Some(Core::For { lower, upper, init, unsigned, body: inner, .. }) => {
                    let one = For { lower: *lower, upper: *upper, unsigned: *unsigned, init, inner: *inner };
                    here = self.counted(op, &one, here)?;
                }
                Some(Core::Loop { init, body: inner }) => here = self.endless(op, init, *inner, here)?,
                Some(core) if node.kind.is_terminator() => {
                    self.leave(op, core, here);
                    here.reached = false;
                }
                Some(core) => self.define(&node.results, &[self.said_by(core)]),
                None => {}
            }
        }
        while self.changes.len() > outside {
            let Some((bounds, before)) = self.changes.pop() else { break };
            match before {
                Some(before) => self.ran.insert(bounds, before),
                None => self.ran.remove(&bounds),
            };
        }
        Ok(here)
    }

    fn access(&self, buffer: Buffer, does: Does, here: &mut Here) -> Result<(), String> {
        let own = self.sets[buffer.0 as usize];
        let known = match does {
            // Sums that are not fresh have been written.
            Does::WritesIf(fresh) => here.written | self.truth(fresh).if_false,
            _ => here.written,
        };
        if does.needs_content() && own & !known != 0 {
            let why = "there is a way on which nothing writes it, and no condition here says that another one was taken";
            return Err(format!("{buffer} is read where it may be that nothing was written to it: {why}"));
        }
        here.written |= if does.writes() { own } else { 0 };
        Ok(())
    }

    fn branches(&mut self, op: OpId, cond: Value, [then, otherwise]: [Region; 2], here: Here) -> Rule<Here> {
        let Truth { mut if_true, mut if_false } = self.truth(cond);
        if let Some((bounds, when)) = self.compared(cond) {
            let ran = self.ran.get(&bounds).copied().unwrap_or(0);
            *(if when { &mut if_true } else { &mut if_false }) |= ran;
        }
        let one = self.region(then, Here { written: here.written | if_true, ..here })?;
        let other = self.region(otherwise, Here { written: here.written | if_false, ..here })?;
        let written = one.written & other.written;
        let met = self.exit(op, written);
        Ok(Here { written: met.written & written, ..met })
    }

    fn counted(&mut self, op: OpId, own: &For<'_>, here: Here) -> Rule<Here> {
        let body = self.body;
        let first = self.handed_on(own.init, here);
        let args = &body.blocks[body.block_of(own.inner)].args;
        self.counters.insert(args[0], op);
        self.enter(op, &args[1..], &first);
        let end = self.region(own.inner, here)?;
        let (last, mut results) = self.go_on(op, end, first.len());
        let has_round = self.has_round(own);
        let runs = has_round == Some(true);
        if !runs {
            meet(&mut results, &first);
        }
        if has_round.is_none() {
            let bounds = (self.bound(own.lower), self.bound(own.upper), own.unsigned);
            let before = self.ran.get(&bounds).copied();
            self.changes.push((bounds, before));
            self.ran.insert(bounds, before.unwrap_or(0) | last.written);
        }
        self.define(&body.ops[op].results, &results);
        Ok(if runs { last } else { here })
    }

    fn endless(&mut self, op: OpId, init: &[Value], inner: Region, here: Here) -> Rule<Here> {
        let body = self.body;
        let first = self.handed_on(init, here);
        self.enter(op, &body.blocks[body.block_of(inner)].args, &first);
        let end = self.region(inner, here)?;
        self.go_on(op, end, first.len());
        let met = self.exit(op, end.written);
        Ok(Here { written: met.written & end.written, ..met })
    }

    /// The values that a loop carries, in any of its rounds.
    fn enter(&mut self, op: OpId, args: &[Value], first: &[Truth]) {
        let mut carried = first.to_vec();
        match self.taken.get(&op) {
            Some(round) => meet(&mut carried, &round.truths),
            None => meet(&mut carried, &vec![Truth { if_true: self.others, if_false: self.others }; first.len()]),
        }
        self.define(args, &carried);
    }

    /// What a loop's round leaves to the next one, or hands on behind the last one.
    fn go_on(&mut self, op: OpId, end: Here, count: usize) -> (Here, Vec<Truth>) {
        let nowhere = || Meeting { here: Here { reached: false, ..end }, truths: vec![Truth::default(); count] };
        let Meeting { here, truths } = self.rounds.remove(&op).unwrap_or_else(nowhere);
        self.left.insert(op, Round { written: here.written, truths: truths.clone() });
        (here, truths)
    }

    /// Where those ways meet that leave an op; if there is none, what is behind it is not reached.
    fn exit(&mut self, op: OpId, otherwise: Set) -> Here {
        let results = &self.body.ops[op].results;
        let nowhere =
            || Meeting { here: Here { written: otherwise, reached: false }, truths: vec![Truth::default(); results.len()] };
        let Meeting { here, truths } = self.exits.remove(&op).unwrap_or_else(nowhere);
        self.define(results, &truths);
        here
    }

    fn leave(&mut self, op: OpId, core: &Core, here: Here) {
        let (Core::Yield { values } | Core::Continue { values } | Core::Break { values }) = core else { return };
        let Some(target) = self.nesting.target[op.0 as usize] else { return };
        let own = Meeting { here, truths: self.handed_on(values, here) };
        let ways = if matches!(core, Core::Continue { .. }) { &mut self.rounds } else { &mut self.exits };
        match ways.get_mut(&target) {
            Some(meeting) => meeting.add(own),
            None => _ = ways.insert(target, own),
        }
    }

    /// Whatever a value is, what has been written where it is handed on has been written.
    fn handed_on(&self, values: &[Value], here: Here) -> Vec<Truth> {
        let with = |Truth { if_true, if_false }| Truth { if_true: if_true | here.written, if_false: if_false | here.written };
        values.iter().map(|value| with(self.truth(*value))).collect()
    }

    fn truth(&self, value: Value) -> Truth {
        self.truths[value.0 as usize]
    }

    fn define(&mut self, values: &[Value], truths: &[Truth]) {
        values.iter().zip(truths).for_each(|(value, truth)| self.truths[value.0 as usize] = *truth);
    }

    fn said_by(&self, core: &Core) -> Truth {
        match core {
            Core::Constant { value: Dense::Splat(0) } => Truth { if_true: ALL, if_false: 0 },
            Core::Constant { value: Dense::Splat(_) } => Truth { if_true: 0, if_false: ALL },
            Core::Assume { value, .. } => self.truth(*value),
            Core::Select { cond, yes, no } => {
                let [cond, yes, no] = [cond, yes, no].map(|value| self.truth(*value));
                Truth {
                    if_true: (cond.if_true | yes.if_true) & (cond.if_false | no.if_true),
                    if_false: (cond.if_true | yes.if_false) & (cond.if_false | no.if_false),
                }
            }
            Core::Compare { kind: Compare::Int { predicate, .. }, lhs, rhs } => {
                let before = self.before_later_rounds(*lhs, *rhs) | self.before_later_rounds(*rhs, *lhs);
                match predicate {
                    Predicate::Equal => Truth { if_true: 0, if_false: before },
                    Predicate::NotEqual => Truth { if_true: before, if_false: 0 },
                    _ => Truth::default(),
                }
            }
            _ => Truth::default(),
        }
    }

    /// What has been written in a round that is not the first one, if a value counts the rounds of a loop from another one on.
    fn before_later_rounds(&self, counter: Value, from: Value) -> Set {
        let Some(op) = self.counters.get(&counter) else { return 0 };
        let Some(Core::For { lower, .. }) = self.body.ops[*op].kind.core() else { return 0 };
        if self.bound(*lower) != self.bound(from) {
            return 0;
        }
        self.taken.get(op).map_or(self.others, |round| round.written)
    }

    /// The bounds of which a truth says that one is below the other, and whether it does so where it is true.
    fn compared(&self, truth: Value) -> Option<(Bounds, bool)> {
        let core = self.body.ops[self.body.defining_op(truth)?].kind.core()?;
        let Core::Compare { kind: Compare::Int { predicate, signedness }, lhs, rhs } = core else { return None };
        let (lower, upper, when) = match predicate {
            Predicate::LessThan => (lhs, rhs, true),
            Predicate::GreaterThan => (rhs, lhs, true),
            Predicate::GreaterThanOrEqual => (lhs, rhs, false),
            Predicate::LessThanOrEqual => (rhs, lhs, false),
            Predicate::Equal | Predicate::NotEqual => return None,
        };
        Some(((self.bound(*lower), self.bound(*upper), *signedness == Signedness::Unsigned), when))
    }

    /// Whether a loop has a round, if that is known.
    fn has_round(&self, own: &For<'_>) -> Option<bool> {
        let (Bound::Constant(lower), Bound::Constant(upper)) = (self.bound(own.lower), self.bound(own.upper)) else { return None };
        let scalar = self.body.ty(own.lower).elem()?.scalar()?;
        Some(if own.unsigned { lower < upper } else { scalar.sign_extend(lower) < scalar.sign_extend(upper) })
    }

    fn bound(&self, value: Value) -> Bound {
        let Def::Result { op, .. } = self.body.values[value].def else { return Bound::Of(value) };
        match self.body.ops[op].kind.core() {
            Some(Core::Constant { value: Dense::Splat(bits) }) => Bound::Constant(*bits),
            _ => Bound::Of(value),
        }
    }
}
