//! Compares two stages of one program value by value. The values of the other stage are recorded per block, source location and
//! type. If both stages compute the same number of values of a type at a location, the values are compared in order. Integers are
//! compared only as data, not as addresses: operands and results of loads, stores, MMAs and reductions.

use crate::engine::{Control, FAULTS};
use crate::expression::elements;
use crate::subject::{Subject, elem_name};
use base::diag::{Diagnostic, Result};
use core_dialect::tile::Elem;
use executor::{Moment, Observer, Tile, Value, Watch};
use numerics::Scalar;
use std::collections::BTreeMap;

/// Source location and type of a value, and whether a store writes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    file: String,
    line: u32,
    column: u32,
    ty: String,
    stored: bool,
}

/// The computed values of each tile block and key, in execution order.
type Values = BTreeMap<(u64, Key), Vec<Tile>>;

/// The values of the other stage. Invariant: the debugged stage computes the same number of values for each key.
pub(crate) struct Recording {
    /// The other file.
    pub(crate) name: String,
    values: Values,
    /// Maximum error of an element, relative to the largest element of its tile.
    tolerance: Option<f64>,
}

/// Size limit of the recorded values, in bytes.
const MOST_BYTES: usize = 1 << 30;

/// Ops whose integers are data.
const DATA: [&str; 8] = ["load", "mma", "reduce", "scan", "atomic", "shared_load", "multimem", "multicast"];

/// The values of an op to compare: its results or the stored tile.
fn data(subject: &Subject<'_>, moment: &Moment<'_>, row: usize, results: &[Value]) -> Vec<(Key, Tile)> {
    let Some((file, line, column)) = moment.debug().position(moment.loc()) else { return Vec::new() };
    let row = &subject.listing.rows[row];
    let key = |tile: &Tile, stored: bool| {
        let ty = format!("{}{:?}", elem_name(tile.elem), &tile.shape[..]);
        Key { file: file.into(), line, column, ty, stored }
    };
    if row.mnemonic.starts_with("store") {
        let operands = row.operands.iter().filter_map(|id| match moment.value(*id) {
            Some(Value::Tile(tile)) if matches!(tile.elem, Elem::Scalar(_)) => Some(tile),
            _ => None,
        });
        // The stored value is the largest operand. Among operands of one size it is the float or the widest.
        let widest = operands.max_by_key(|tile| (tile.count(), tile.carrier().is_float(), tile.carrier().bits()));
        return widest.map(|tile| (key(&tile, true), tile)).into_iter().collect();
    }
    let integers = DATA.iter().any(|name| row.mnemonic.starts_with(name));
    let tiles = row.results.iter().zip(results).filter_map(|(id, value)| match moment.shown(*id, value) {
        Value::Tile(tile) => Some(tile),
        _ => None,
    });
    let requested = tiles.filter(|tile| match tile.elem {
        Elem::Scalar(scalar) => scalar.is_float() || integers && scalar != Scalar::I1,
        Elem::Ptr { .. } => false,
    });
    requested.map(|tile| (key(&tile, false), tile)).collect()
}

struct Recorder<'r, 's> {
    subject: &'r Subject<'s>,
    block: Option<u64>,
    values: Values,
    bytes: usize,
}

impl Observer for Recorder<'_, '_> {
    fn after(&mut self, moment: &Moment<'_>, results: &[Value]) -> Result<()> {
        let block = moment.block_position().linear;
        if self.block.is_some_and(|requested| requested != block) {
            return Ok(());
        }
        for (key, tile) in data(self.subject, moment, self.subject.listing.row(moment.op), results) {
            self.bytes += tile.count() * 8;
            if self.bytes > MOST_BYTES {
                let message = "too many values to compare all tile blocks; select one with --block, or some with --sample-blocks";
                return Err(Diagnostic::usage("DBG002", message));
            }
            self.values.entry((block, key)).or_default().push(tile);
        }
        Ok(())
    }
}

fn record(subject: &Subject<'_>, control: &Control) -> Result<Values> {
    let mut recorder = Recorder { subject, block: control.block, values: Values::new(), bytes: 0 };
    let checks = FAULTS.iter().map(|(check, ..)| *check).collect();
    let watch = Watch { limit: control.max_ops, seed: control.seed, checks, deadline: None };
    let outcome = subject.kernel.run(&subject.call, watch, &mut |_| {}, &mut recorder)?;
    match outcome.failure {
        // The values before a fault are comparable. The debugger reports the fault itself when the kernel runs.
        Some(failure) if failure.code == "DBG002" => Err(failure),
        _ => Ok(recorder.values),
    }
}

impl Recording {
    pub(crate) fn new(
        name: &str,
        other: &Subject<'_>,
        own: &Subject<'_>,
        control: &Control,
        tolerance: Option<f64>,
    ) -> Result<Recording> {
        let mut values = record(other, control)?;
        let counts: BTreeMap<(u64, Key), usize> =
            record(own, control)?.into_iter().map(|(key, tiles)| (key, tiles.len())).collect();
        values.retain(|key, tiles| counts.get(key) == Some(&tiles.len()));
        if values.is_empty() {
            let message = format!("{name} and the program have no comparable values at the same source locations");
            return Err(Diagnostic::invalid("DBG003", message));
        }
        Ok(Recording { name: name.into(), values, tolerance })
    }

    /// The number of comparable values.
    pub(crate) fn count(&self) -> usize {
        self.values.values().map(Vec::len).sum()
    }
}

/// The position of a run in a recording.
pub(crate) struct Compared<'r> {
    recording: &'r Recording,
    seen: BTreeMap<(u64, Key), usize>,
}

impl<'r> Compared<'r> {
    pub(crate) fn new(recording: &'r Recording) -> Compared<'r> {
        Compared { recording, seen: BTreeMap::new() }
    }

    /// Compares the results of an op and describes the first difference.
    pub(crate) fn look(&mut self, subject: &Subject<'_>, moment: &Moment<'_>, row: usize, results: &[Value]) -> Option<String> {
        let mut report = None;
        for (key, tile) in data(subject, moment, row, results) {
            let at = (moment.block_position().linear, key);
            let Some(theirs) = self.recording.values.get(&at) else { continue };
            let number = self.seen.entry(at).or_default();
            let other = theirs.get(*number);
            *number += 1;
            let Some(other) = other else { continue };
            if let Some(text) = difference(&tile, other, self.recording.tolerance) {
                let what = if moment.results().is_empty() { "what it stores".into() } else { moment.results()[0].to_string() };
                report.get_or_insert(format!("{what}, {text} in {}", self.recording.name));
            }
        }
        report
    }
}

/// The default tolerance of a type: the error of reordered accumulation.
fn usual(ty: Scalar) -> f64 {
    match ty.bits() {
        _ if !ty.is_float() => 0.0,
        64 => 1e-12,
        32 => 1e-5,
        16 => 2e-2,
        _ => 0.2,
    }
}

/// Describes the first element that differs by more than the tolerance.
fn difference(ours: &Tile, theirs: &Tile, tolerance: Option<f64>) -> Option<String> {
    if ours.lanes() == theirs.lanes() {
        return None;
    }
    let (a, b) = (elements(ours), elements(theirs));
    let largest = b.iter().copied().filter(|x| x.is_finite()).fold(0.0f64, |most, x| most.max(x.abs()));
    let allowed = tolerance.unwrap_or_else(|| usual(ours.carrier())) * largest;
    let same = |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= allowed;
    let mut wrong = (0..a.len()).filter(|at| !same((&a[*at], &b[*at])));
    let first = wrong.next()?;
    let more = wrong.count();
    let mut index = Vec::new();
    let mut rest = first;
    for extent in ours.shape.iter().rev() {
        index.insert(0, rest % *extent as usize);
        rest /= *extent as usize;
    }
    let of = if index.is_empty() { String::new() } else { format!("element {index:?} ({} of {} differ) ", more + 1, a.len()) };
    Some(format!("{of}is {} here and {}", a[first], b[first]))
}
