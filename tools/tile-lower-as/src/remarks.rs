//! Writes remarks to the pass log: vector widths, atoms, asynchronous copies, and the reasons for missed optimisations.

use crate::access_layouts::Accesses;
use crate::async_copies::Copies;
use crate::mma_selection::{MmaSelection, MmaSelections, OperandSource};
use crate::tma_stores::TmaStores;
use base::envelope::{Category, LogEntry, Outcome};
use base::ir::Op as OpId;
use base::{Envelope, Value};
use tileaa::{Function, Op};

/// Bits of the widest access of a thread.
const MAX_ACCESS_BITS: u32 = 128;

/// Reports the vector width of each load and store, and the atom of each MMA.
pub(crate) fn log_accesses_and_mmas(function: &Function, accesses: &Accesses, mmas: &MmaSelections, envelope: &mut Envelope) {
    for op in function.body.walk(function.region) {
        let node = &function.body.ops[op];
        let remark = match &node.kind {
            Op::LoadView { .. } | Op::Load { .. } => {
                accesses.get(op).map(|a| access_remark(function, "Load", node.results[0], a.vector_bits))
            }
            Op::StoreView { tile: value, .. } | Op::Store { value, .. } => {
                accesses.get(op).map(|a| access_remark(function, "Store", *value, a.vector_bits))
            }
            _ => mmas.get(op).map(mma_remark),
        };
        let Some((outcome, name, category, message)) = remark else { continue };
        let pass = "convert".to_string();
        envelope.log.push(LogEntry { pass, outcome, name, category, message, function: function.name.clone(), loc: node.loc });
    }
}

/// Reports that the planner skipped a function, because the function has more than `max_ops` ops.
pub(crate) fn log_unplanned(function: &Function, max_ops: usize, envelope: &mut Envelope) {
    envelope.log.push(LogEntry {
        pass: "plan".into(),
        outcome: Outcome::Missed,
        name: "Plan".into(),
        category: Category::Other,
        message: format!("no other plan is compared: the function has {} ops, the limit is {max_ops}", function.body.ops.len()),
        function: function.name.clone(),
        loc: function.loc,
    });
}

/// Reports an occupancy that was chosen lower than the author's hint, so that accumulators fit tensor memory. Both are CTAs per SM.
pub(crate) fn log_occupancy(function: &Function, hinted_occupancy: Option<u32>, chosen: Option<u32>, envelope: &mut Envelope) {
    let (Some(hinted_occupancy), Some(chosen)) = (hinted_occupancy, chosen) else { return };
    if chosen < hinted_occupancy {
        envelope.log.push(LogEntry {
            pass: "mma".into(),
            outcome: Outcome::Missed,
            name: "Occupancy".into(),
            category: Category::Other,
            message: format!(
                "occupancy = {hinted_occupancy} is lowered to {chosen}: tensor memory does not fit the accumulators of so many CTAs"
            ),
            function: function.name.clone(),
            loc: function.loc,
        });
    }
}

/// Reports each scaled MMA whose scales are multiplied into its operands, with the reason why no instruction applies the scales.
pub(crate) fn log_unscaled<'a>(
    function: &Function,
    unscaled_mmas: impl Iterator<Item = (&'a OpId, &'a &'static str)>,
    envelope: &mut Envelope,
) {
    for (op, why) in unscaled_mmas {
        envelope.log.push(LogEntry {
            pass: "legalize".into(),
            outcome: Outcome::Missed,
            name: "BlockScales".into(),
            category: Category::TensorCore,
            message: format!("the scales are multiplied into bf16 operands: {why}"),
            function: function.name.clone(),
            loc: function.body.ops[*op].loc,
        });
    }
}

/// Reports that a function runs its MMA chains in two M subtiles. With `why_not`, reports the reason why it does not, although its
/// accumulators and operands exceed registers or TMEM.
pub(crate) fn log_split_m(function: &Function, why_not: Option<&str>, envelope: &mut Envelope) {
    let (outcome, message) = match why_not {
        None => (
            Outcome::Passed,
            "rows run as two M subtiles, one after the other, which halves the live operands and accumulators between MMAs".into(),
        ),
        Some(why) => (
            Outcome::Missed,
            format!("operands and accumulators between MMAs do not fit, and rows cannot be split into M subtiles: {why}"),
        ),
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

/// Reports that one warp role computes both independent components of MMAs, because shared memory is too small for two roles.
pub(crate) fn log_single_role(function: &Function, envelope: &mut Envelope) {
    envelope.log.push(LogEntry {
        pass: "convert".into(),
        outcome: Outcome::Missed,
        name: "IndependentSubgraphs".into(),
        category: Category::Other,
        message: "one warp role computes independent rows: shared memory does not fit the buffers of two".into(),
        function: function.name.clone(),
        loc: function.loc,
    });
}

/// Reports the loads that become asynchronous copies and the stores that TMA executes. For the other candidates, reports the
/// reasons why threads execute them.
pub(crate) fn log_copies(function: &Function, copies: &Copies, stores: &TmaStores, envelope: &mut Envelope) {
    let entry = |op: base::ir::Op, outcome, message| LogEntry {
        pass: "copies".into(),
        outcome,
        name: "AsyncCopy".into(),
        category: Category::Memory,
        message,
        function: function.name.clone(),
        loc: function.body.ops[op].loc,
    };
    let copied =
        copies.iter().map(|(op, copy)| entry(op, Outcome::Passed, format!("the tile is copied to shared memory {}", copy.method)));
    let no_tma = copies.no_tma.iter().map(|(op, reason)| {
        let message = format!("the tile is not copied by TMA: {reason}");
        LogEntry { name: "TensorMap".into(), ..entry(*op, Outcome::Declined, message) }
    });
    let declined = copies.declined.iter().map(|(op, reason)| {
        let message = format!("the tile is loaded through registers: {reason}");
        entry(*op, Outcome::Declined, message)
    });
    let tma_store = |op, outcome, message| LogEntry { name: "TmaStore".into(), ..entry(op, outcome, message) };
    let stored = stores.iter().map(|(op, store)| {
        tma_store(
            op,
            Outcome::Passed,
            format!("the tile is stored from shared memory in TMA tiles of {} bytes", store.map.tile_bytes()),
        )
    });
    let by_threads = stores
        .declined
        .iter()
        .map(|(op, reason)| tma_store(*op, Outcome::Declined, format!("the tile is stored by threads, not by TMA: {reason}")));
    envelope.log.extend(copied.chain(no_tma).chain(declined).chain(stored).chain(by_threads));
}

/// The outcome, name, category and message of a log entry.
type Remark = (Outcome, String, Category, String);

/// The remark about the vector width of a load or store.
fn access_remark(function: &Function, access_name: &str, value: Value, vector_bits: u32) -> Remark {
    let elem = function.body.ty(value).tile().map_or(8, |(elem, _)| elem.bits().max(8));
    let bits = elem << vector_bits;
    let (outcome, suffix, why) = match (bits >= MAX_ACCESS_BITS, vector_bits > 0) {
        (true, _) => (Outcome::Passed, "Vectorized", ""),
        (false, true) => (Outcome::Passed, "Vectorized", "; divisibility, bounds or the tile's size limit the width"),
        (false, false) => {
            (Outcome::Missed, "NotVectorized", "; neighbouring elements are not known to be aligned, adjacent and in bounds")
        }
    };
    let message = format!("{} of {bits} bits per thread{why}", access_name.to_lowercase());
    (outcome, format!("{access_name}{suffix}"), Category::Memory, message)
}

/// The remark about the instruction of an MMA.
fn mma_remark(mma: &MmaSelection) -> Remark {
    let (outcome, name, message) = match mma {
        MmaSelection::Sync { why: Some(reason), .. } => {
            let message = format!("MMA by tensor cores, with mma.sync: {reason}");
            return (Outcome::Passed, "TensorCore".into(), Category::TensorCore, message);
        }
        MmaSelection::Sync { .. } => (Outcome::Passed, "TensorCore", "MMA by tensor cores, with mma.sync"),
        MmaSelection::Group { lhs: OperandSource::Transposed(_), .. }
        | MmaSelection::Group { rhs: OperandSource::Transposed(_), .. } => {
            (Outcome::Passed, "TensorCore", "MMA by tensor cores, with wgmma; an operand is transposed in shared memory")
        }
        MmaSelection::Group { .. } => (Outcome::Passed, "TensorCore", "MMA by tensor cores, with wgmma"),
        MmaSelection::Tensor { scales: Some(_), .. } => {
            (Outcome::Passed, "TensorCore", "MMA by tensor cores, with tcgen05 into tensor memory, with block scales")
        }
        MmaSelection::Tensor { .. } => (Outcome::Passed, "TensorCore", "MMA by tensor cores, with tcgen05 into tensor memory"),
        MmaSelection::Fma { .. } => {
            (Outcome::Declined, "NoTensorCore", "MMA by FMA instructions: no tensor core atom takes these types and sizes")
        }
    };
    (outcome, name.into(), Category::TensorCore, message.into())
}
