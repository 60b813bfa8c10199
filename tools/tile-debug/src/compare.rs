//! Compares two stages of one program value by value, for `--against`. A first run of the other stage records its values per tile
//! block, source location and type. If both stages compute the same number of values of a type at a location, the debugger compares
//! them in execution order. It compares integers only if they are data and not addresses: stored tiles, and the results of loads,
//! MMAs, reductions, scans and atomics.

use crate::debuggee::{Debuggee, elem_name};
use crate::expression::elements_as_f64;
use crate::session_settings::{Control, FAULTS};
use base::diag::{Diagnostic, Result};
use core_dialect::tile::Elem;
use executor::{Moment, Observer, RunOptions, Tile, Value};
use numerics::Scalar;
use std::collections::BTreeMap;

/// Identifies corresponding values of two stages by their source location and type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ValueKey {
    file: String,
    line: u32,
    column: u32,
    ty: String,
    /// Whether the value is the operand of a store, and not a result of an op.
    is_stored: bool,
}

/// The values of a run, by tile block (linear index) and key, in execution order.
type RecordedValues = BTreeMap<(u64, ValueKey), Vec<Tile>>;

/// The values of the stage that `--against` selects. Invariant: for each key, the debugged stage computes the same number of
/// values.
pub(crate) struct Recording {
    /// The file name of the other stage.
    pub(crate) name: String,
    values: RecordedValues,
    /// Maximum difference of an element, relative to the largest element of its tile; `None` for the default of the type.
    tolerance: Option<f64>,
}

/// Size limit of the recorded values, in bytes.
const MAX_RECORDED_BYTES: usize = 1 << 30;

/// Prefixes of the mnemonics of ops whose integer results are compared. Integer results of other ops may be addresses or indices,
/// which differ between stages.
const OPS_WITH_INTEGER_DATA: [&str; 8] = ["load", "mma", "reduce", "scan", "atomic", "shared_load", "multimem", "multicast"];

/// Returns the values of an op that the debugger compares: its results or, for a store, the stored tile.
fn comparable_values(debuggee: &Debuggee<'_>, moment: &Moment<'_>, row: usize, results: &[Value]) -> Vec<(ValueKey, Tile)> {
    let Some((file, line, column)) = moment.debug().position(moment.loc()) else { return Vec::new() };
    let row = &debuggee.listing.rows[row];
    let key = |tile: &Tile, is_stored: bool| {
        let ty = format!("{}{:?}", elem_name(tile.elem), &tile.shape[..]);
        ValueKey { file: file.into(), line, column, ty, is_stored }
    };
    if row.mnemonic.starts_with("store") {
        let operands = row.operands.iter().filter_map(|id| match moment.value(*id) {
            Some(Value::Tile(tile)) if matches!(tile.elem, Elem::Scalar(_)) => Some(tile),
            _ => None,
        });
        // The stored value is the operand with the most elements. Among several such operands, prefer a float, then the widest
        // type.
        let widest = operands.max_by_key(|tile| (tile.count(), tile.carrier().is_float(), tile.carrier().bits()));
        return widest.map(|tile| (key(&tile, true), tile)).into_iter().collect();
    }
    let compares_integers = OPS_WITH_INTEGER_DATA.iter().any(|name| row.mnemonic.starts_with(name));
    let tiles = row.results.iter().zip(results).filter_map(|(id, value)| match moment.display_value(*id, value) {
        Value::Tile(tile) => Some(tile),
        _ => None,
    });
    let compared_tiles = tiles.filter(|tile| match tile.elem {
        Elem::Scalar(scalar) => scalar.is_float() || compares_integers && scalar != Scalar::I1,
        Elem::Ptr { .. } => false,
    });
    compared_tiles.map(|tile| (key(&tile, false), tile)).collect()
}

/// The observer that records the values of a run.
struct Recorder<'r, 's> {
    debuggee: &'r Debuggee<'s>,
    /// The linear index of the tile block to record; `None` records all tile blocks.
    block: Option<u64>,
    values: RecordedValues,
    /// The size of the recorded values in bytes, at 8 bytes per element.
    recorded_bytes: usize,
}

impl Observer for Recorder<'_, '_> {
    fn after_op(&mut self, moment: &Moment<'_>, results: &[Value]) -> Result<()> {
        let block = moment.block_position().linear;
        if self.block.is_some_and(|requested| requested != block) {
            return Ok(());
        }
        for (key, tile) in comparable_values(self.debuggee, moment, self.debuggee.listing.row(moment.op), results) {
            self.recorded_bytes += tile.count() * 8;
            if self.recorded_bytes > MAX_RECORDED_BYTES {
                let message = "too many values to compare all tile blocks; select one with --block, or some with --sample-blocks";
                return Err(Diagnostic::usage("DBG002", message));
            }
            self.values.entry((block, key)).or_default().push(tile);
        }
        Ok(())
    }
}

/// Runs a stage and records its values.
fn record_values(debuggee: &Debuggee<'_>, control: &Control) -> Result<RecordedValues> {
    let mut recorder = Recorder { debuggee, block: control.block, values: RecordedValues::new(), recorded_bytes: 0 };
    let checks = FAULTS.iter().map(|(check, ..)| *check).collect();
    let run_options = RunOptions { max_ops: control.max_ops, seed: control.seed, checks, deadline: None };
    let outcome = debuggee.kernel.run(&debuggee.call, run_options, &mut |_| {}, &mut recorder)?;
    match outcome.failure {
        // A run that fails has recorded the values before the failure, which are comparable. The debugger reports the failure when
        // it runs the kernel itself.
        Some(failure) if failure.code == "DBG002" => Err(failure),
        _ => Ok(recorder.values),
    }
}

impl Recording {
    /// Runs both stages, and records the values of `other` that the debugger can compare with values of `debugged`.
    pub(crate) fn new(
        name: &str,
        other: &Debuggee<'_>,
        debugged: &Debuggee<'_>,
        control: &Control,
        tolerance: Option<f64>,
    ) -> Result<Recording> {
        let mut values = record_values(other, control)?;
        let counts: BTreeMap<(u64, ValueKey), usize> =
            record_values(debugged, control)?.into_iter().map(|(key, tiles)| (key, tiles.len())).collect();
        values.retain(|key, tiles| counts.get(key) == Some(&tiles.len()));
        if values.is_empty() {
            let message = format!("{name} and the program have no comparable values at the same source locations");
            return Err(Diagnostic::invalid("DBG003", message));
        }
        Ok(Recording { name: name.into(), values, tolerance })
    }

    /// Returns the number of recorded values that the debugger can compare.
    pub(crate) fn count(&self) -> usize {
        self.values.values().map(Vec::len).sum()
    }
}

/// The state of the comparison in one run: for each key, the index of the next recorded value.
pub(crate) struct ComparisonCursor<'r> {
    recording: &'r Recording,
    next_index: BTreeMap<(u64, ValueKey), usize>,
}

impl<'r> ComparisonCursor<'r> {
    /// Starts a comparison at the first recorded value of each key.
    pub(crate) fn new(recording: &'r Recording) -> ComparisonCursor<'r> {
        ComparisonCursor { recording, next_index: BTreeMap::new() }
    }

    /// Compares the values of an op with the recorded values. Returns a description of the first difference; `None` if there is
    /// none.
    pub(crate) fn compare_results(
        &mut self,
        debuggee: &Debuggee<'_>,
        moment: &Moment<'_>,
        row: usize,
        results: &[Value],
    ) -> Option<String> {
        let mut first_difference = None;
        for (key, tile) in comparable_values(debuggee, moment, row, results) {
            let value_key = (moment.block_position().linear, key);
            let Some(recorded) = self.recording.values.get(&value_key) else { continue };
            let index = self.next_index.entry(value_key).or_default();
            let recorded_tile = recorded.get(*index);
            *index += 1;
            let Some(recorded_tile) = recorded_tile else { continue };
            if let Some(text) = difference(&tile, recorded_tile, self.recording.tolerance) {
                let value_text =
                    if moment.results().is_empty() { "what it stores".into() } else { moment.results()[0].to_string() };
                first_difference.get_or_insert(format!("{value_text}, {text} in {}", self.recording.name));
            }
        }
        first_difference
    }
}

/// Returns the default tolerance of a type, relative to the largest element of the tile. It covers the error of a different
/// accumulation order.
fn default_tolerance(ty: Scalar) -> f64 {
    match ty.bits() {
        _ if !ty.is_float() => 0.0,
        64 => 1e-12,
        32 => 1e-5,
        16 => 2e-2,
        _ => 0.2,
    }
}

/// Returns a description of the first element that differs by more than the tolerance. `tolerance` is relative to the largest
/// recorded element.
fn difference(computed: &Tile, recorded: &Tile, tolerance: Option<f64>) -> Option<String> {
    if computed.element_words() == recorded.element_words() {
        return None;
    }
    let (computed_elements, recorded_elements) = (elements_as_f64(computed), elements_as_f64(recorded));
    let largest = recorded_elements.iter().copied().filter(|x| x.is_finite()).fold(0.0f64, |largest, x| largest.max(x.abs()));
    let max_difference = tolerance.unwrap_or_else(|| default_tolerance(computed.carrier())) * largest;
    let within_tolerance = |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= max_difference;
    let mut differing =
        (0..computed_elements.len()).filter(|at| !within_tolerance((&computed_elements[*at], &recorded_elements[*at])));
    let first_index = differing.next()?;
    let further_differences = differing.count();
    let mut index = Vec::new();
    let mut remaining = first_index;
    for extent in computed.shape.iter().rev() {
        index.insert(0, remaining % *extent as usize);
        remaining /= *extent as usize;
    }
    let element_text = if index.is_empty() {
        String::new()
    } else {
        format!("element {index:?} ({} of {} differ) ", further_differences + 1, computed_elements.len())
    };
    Some(format!("{element_text}is {} here and {}", computed_elements[first_index], recorded_elements[first_index]))
}
