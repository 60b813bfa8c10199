//! What the plan says of each access and mma, for the pass log: how wide it is, which atom it uses, and why not better.

use crate::access_layouts::Accesses;
use crate::async_copies::Copies;
use crate::mma_selection::{MmaSelection, MmaSelections, OperandSource};
use crate::tma_stores::Stores;
use base::envelope::{Category, LogEntry, Outcome};
use base::ir::Op as OpId;
use base::{Envelope, Value};
use tileaa::{Function, Op};

/// Bits that a thread can move at once.
const WIDEST: u32 = 128;

pub(crate) fn log(function: &Function, accesses: &Accesses, mmas: &MmaSelections, envelope: &mut Envelope) {
    for op in function.body.walk(function.region) {
        let node = &function.body.ops[op];
        let said = match &node.kind {
            Op::LoadView { .. } | Op::Load { .. } => {
                accesses.get(op).map(|a| access(function, "Load", node.results[0], a.vector_bits))
            }
            Op::StoreView { tile: value, .. } | Op::Store { value, .. } => {
                accesses.get(op).map(|a| access(function, "Store", *value, a.vector_bits))
            }
            _ => mmas.get(op).map(mma),
        };
        let Some((outcome, name, category, message)) = said else { continue };
        let pass = "convert".to_string();
        envelope.log.push(LogEntry { pass, outcome, name, category, message, function: function.name.clone(), loc: node.loc });
    }
}

/// That capacity for so many blocks as the author wishes would leave accumulators without tensor memory.
pub(crate) fn log_occupancy(function: &Function, wished: Option<u32>, chosen: Option<u32>, envelope: &mut Envelope) {
    let (Some(wished), Some(chosen)) = (wished, chosen) else { return };
    if chosen < wished {
        envelope.log.push(LogEntry {
            pass: "mma".into(),
            outcome: Outcome::Missed,
            name: "Occupancy".into(),
            category: Category::Other,
            message: format!(
                "occupancy = {wished} is taken for {chosen}: tensor memory has no capacity for the accumulators of so many blocks"
            ),
            function: function.name.clone(),
            loc: function.loc,
        });
    }
}

/// That the scales of these mmas are multiplied into their operands, and why.
pub(crate) fn log_unscaled<'a>(
    function: &Function,
    all: impl Iterator<Item = (&'a OpId, &'a &'static str)>,
    envelope: &mut Envelope,
) {
    for (op, why) in all {
        envelope.log.push(LogEntry {
            pass: "legalize".into(),
            outcome: Outcome::Missed,
            name: "BlockScales".into(),
            category: Category::TensorCore,
            message: format!("the scales are multiplied into operands of bf16: {why}"),
            function: function.name.clone(),
            loc: function.body.ops[*op].loc,
        });
    }
}

/// That rows are made in halves, or why they are not where registers would need it.
pub(crate) fn log_halves(function: &Function, why_not: Option<&str>, envelope: &mut Envelope) {
    let (outcome, message) = match why_not {
        None => (
            Outcome::Passed,
            "rows are made in two halves, one after the other, so that what goes from mma to mma takes half of the capacity".into(),
        ),
        Some(why) => {
            (Outcome::Missed, format!("what goes from mma to mma has no capacity, and rows are not made in halves: {why}"))
        }
    };
    envelope.log.push(LogEntry {
        pass: "split-m".into(),
        outcome,
        name: "SplitM".into(),
        category: Category::Other,
        message,
        function: function.name.clone(),
        loc: function.loc,
    });
}

/// That two components are one agent's, for want of shared memory.
pub(crate) fn log_single_role(function: &Function, envelope: &mut Envelope) {
    envelope.log.push(LogEntry {
        pass: "convert".into(),
        outcome: Outcome::Missed,
        name: "IndependentSubgraphs".into(),
        category: Category::Other,
        message: "rows that have no tile in common are computed by one agent: shared memory has no capacity for what two need"
            .into(),
        function: function.name.clone(),
        loc: function.loc,
    });
}

/// What was decided about the operands of mmas in loops, and about stores of what is elsewhere than threads would store it.
pub(crate) fn log_copies(function: &Function, copies: &Copies, stores: &Stores, envelope: &mut Envelope) {
    let entry = |op: base::ir::Op, outcome, message| LogEntry {
        pass: "copies".into(),
        outcome,
        name: "AsyncCopy".into(),
        category: Category::Memory,
        message,
        function: function.name.clone(),
        loc: function.body.ops[op].loc,
    };
    let made =
        copies.iter().map(|(op, copy)| entry(op, Outcome::Passed, format!("the tile is copied to shared memory {}", copy.by)));
    let no_tma = copies.no_tma.iter().map(|(op, reason)| {
        let message = format!("the tile is not copied by tma_copies of a tensor map: {reason}");
        LogEntry { name: "TensorMap".into(), ..entry(*op, Outcome::Declined, message) }
    });
    let declined = copies.declined.iter().map(|(op, reason)| {
        let message = format!("the tile is loaded through registers: {reason}");
        entry(*op, Outcome::Declined, message)
    });
    let boxed = |op, outcome, message| LogEntry { name: "TmaStore".into(), ..entry(op, outcome, message) };
    let stored = stores.iter().map(|(op, store)| {
        boxed(
            op,
            Outcome::Passed,
            format!("the tile is stored from shared memory by tma_copies of {} bytes", store.map.tile_bytes()),
        )
    });
    let by_threads = stores.declined.iter().map(|(op, reason)| {
        boxed(*op, Outcome::Declined, format!("the tile is stored by threads, not by tma_copies of a tensor map: {reason}"))
    });
    envelope.log.extend(made.chain(no_tma).chain(declined).chain(stored).chain(by_threads));
}

type Said = (Outcome, String, Category, String);

fn access(function: &Function, what: &str, value: Value, vector_bits: u32) -> Said {
    let elem = function.body.ty(value).tile().map_or(8, |(elem, _)| elem.bits().max(8));
    let bits = elem << vector_bits;
    let (outcome, suffix, why) = match (bits >= WIDEST, vector_bits > 0) {
        (true, _) => (Outcome::Passed, "Vectorized", ""),
        (false, true) => (Outcome::Passed, "Vectorized", "; divisibility, bounds or the tile's size allow no more"),
        (false, false) => {
            (Outcome::Missed, "NotVectorized", "; neighbouring elements are not known to be aligned, together and in bounds")
        }
    };
    let message = format!("{} of {bits} bits a thread{why}", what.to_lowercase());
    (outcome, format!("{what}{suffix}"), Category::Memory, message)
}

fn mma(mma: &MmaSelection) -> Said {
    let (outcome, name, message) = match mma {
        MmaSelection::Sync { why: Some(reason), .. } => {
            let message = format!("mma by tensor cores, with mma.sync: {reason}");
            return (Outcome::Passed, "TensorCore".into(), Category::TensorCore, message);
        }
        MmaSelection::Sync { .. } => (Outcome::Passed, "TensorCore", "mma by tensor cores, with mma.sync"),
        MmaSelection::Group { lhs: OperandSource::Transposed(_), .. }
        | MmaSelection::Group { rhs: OperandSource::Transposed(_), .. } => {
            (Outcome::Passed, "TensorCore", "mma by tensor cores, with wgmma; an operand is transposed in shared memory for it")
        }
        MmaSelection::Group { .. } => (Outcome::Passed, "TensorCore", "mma by tensor cores, with wgmma"),
        MmaSelection::Tensor { scales: Some(_), .. } => {
            (Outcome::Passed, "TensorCore", "mma by tensor cores, with tcgen05 into tensor memory, which has its scales too")
        }
        MmaSelection::Tensor { .. } => (Outcome::Passed, "TensorCore", "mma by tensor cores, with tcgen05 into tensor memory"),
        MmaSelection::Shared { .. } => {
            (Outcome::Declined, "NoTensorCore", "mma by multiply-add instructions: no tensor core atom takes these types and sizes")
        }
    };
    (outcome, name.into(), Category::TensorCore, message.into())
}
