//! Fuzz targets for stage files. They check round trips through the readers and writers, and run the stages on the files.

use base::diag::Result;
use base::envelope::{Form, LINE_PREFIX, MAGIC};
use base::{Diagnostic, File, Payload, Target};
use common::Pass;
use tile_lower_as::Lowering;
use tile_sched::Scheduling;

const FORMS: [Form; 3] = [Form::Binary, Form::Ron, Form::Text];
const UNSUPPORTED: u8 = 3;

/// Returns the parsed stage file, or None if the input is not a stage file. Checks that every form reads back with the same text.
/// If the input is text, the RON forms of the two files must be equal too, because RON omits nothing. A binary input first gets a
/// matching length and hash, because the reader checks the length and the hash before anything else.
fn read_and_check_round_trips<P: Payload>(bytes: &[u8]) -> Option<File<P>> {
    let file = File::<P>::read(&with_matching_header(bytes), "fuzz").ok()?;
    let text = |file: &File<P>| file.write(Form::Text).expect("a file that was read can be written");
    let text_before = text(&file);
    for form in FORMS {
        let written = file.write(form).expect("a file that was read can be written");
        let reread = File::<P>::read(&written, "written").unwrap_or_else(|error| panic!("{form:?} does not read back: {error:?}"));
        assert!(text(&reread) == text_before, "{form:?} reads back as another file");
        if bytes.starts_with(LINE_PREFIX.as_bytes()) {
            let ron = |file: &File<P>| file.write(Form::Ron).expect("a file that was read can be written");
            assert!(ron(&reread) == ron(&file), "{form:?} reads back as another file than the text was");
        }
    }
    Some(file)
}

/// Returns a binary input with the length and hash of its contents in the header. Other inputs stay the same.
fn with_matching_header(bytes: &[u8]) -> Vec<u8> {
    let (mut bytes, header) = (bytes.to_vec(), MAGIC.len() + 8 + 32);
    if bytes.starts_with(&MAGIC) && bytes.len() > header {
        let (head, rest) = bytes.split_at_mut(header);
        head[8..16].copy_from_slice(&(rest.len() as u64).to_le_bytes());
        head[16..].copy_from_slice(blake3::hash(rest).as_bytes());
    }
    bytes
}

fn run_passes<S: common::Show>(passes: &[Pass<S>], state: &mut S) -> Result<()> {
    passes.iter().try_for_each(|pass| {
        (pass.run)(state)?;
        state.check().map_err(|error| error.note(format!("found after pass '{}'", pass.name)))
    })
}

/// The error code of an impossible option value in a file. An edited file can have such a value.
const INVALID_OPTION: &str = "OPT004";

/// Checks the result of a stage on a verified file: it succeeds, or reports an unsupported feature or an invalid option.
fn check_result(stage: &str, result: Result<()>) {
    if let Err(error) = result.map_err(|error| *error)
        && error.code != INVALID_OPTION
    {
        assert_eq!(error.exit_code(), UNSUPPORTED, "{stage}: {error:?}");
    }
}

pub(crate) fn check_tile(bytes: &[u8]) {
    let Some(file) = read_and_check_round_trips::<tileir::Module>(bytes) else { return };
    let lower = || {
        let envelope = file.envelope.for_next_stage::<tileaa::Module>("lowered", "fuzz");
        let mut lowered = tile_lower_aa::convert(&file.payload, envelope)?;
        run_passes(tile_lower_aa::PASSES, &mut lowered)?;
        run_passes(tile_lower_aa::RECORD, &mut lowered)
    };
    check_result("tile-lower-aa", lower());
}

/// The number of bytes of the input selects the target.
pub(crate) fn check_aa(bytes: &[u8]) {
    let Some(mut file) = read_and_check_round_trips::<tileaa::Module>(bytes) else { return };
    let targets: Vec<Target> = Target::all().collect();
    file.envelope.target = Some(targets[bytes.len() % targets.len()]);
    let mut lowering = Lowering::new(file, "fuzz");
    check_result("tile-lower-as", run_passes(tile_lower_as::PASSES, &mut lowering));
}

pub(crate) fn check_as(bytes: &[u8]) {
    let Some(file) = read_and_check_round_trips::<tileas::Module>(bytes) else { return };
    if file.envelope.target.is_none() {
        return;
    }
    check_result("tile-sched", run_passes(tile_sched::PASSES, &mut Scheduling::new(tile_sched::convert_to_sched(&file, "fuzz"))));
}

/// A hand-written schedule may be wrong. `tile-sched` then returns an error, which this target ignores.
pub(crate) fn check_sched(bytes: &[u8]) {
    let Some(file) = read_and_check_round_trips::<sched::Module>(bytes) else { return };
    let result: std::result::Result<(), Box<Diagnostic>> = run_passes(tile_sched::PASSES, &mut Scheduling::new(file));
    let _ = result;
}

/// Checks that libtileworks returns a result for any input, without an internal error.
pub(crate) fn check_library(bytes: &[u8]) {
    // The stages up to `.sched` run in this process and need no executable.
    let compilation = tileworks::Compilation::new(bytes).tools("/").option("gpu-name", "sm_90").option("emit", "sched");
    let compiled = compilation.run();
    let has_bug = compiled.diagnostics.iter().any(|diagnostic| diagnostic.code == "BUG001");
    assert!(compiled.status != tileworks::Status::Internal && !has_bug, "{}", compiled.json);
    assert_eq!(compiled.status == tileworks::Status::Ok, !compiled.output.is_empty());
    assert!(compiled.status == tileworks::Status::Ok || !compiled.diagnostics.is_empty());
}
