//! Runs the targets on the seed inputs of fuzzing and on edits of these inputs, the same in every run. The seeds include the inputs
//! of fixed findings.

use base::envelope::{File, Payload};
use fuzz_targets::mutate::mutate_input;
use fuzz_targets::{MAX_INPUT_BYTES, TARGETS, Target};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Edits per target, divided among its inputs; `TILEWORKS_EDITS` overrides the number.
const DEFAULT_EDITS: usize = 600;

/// Runs a target on an input. If the input violates a property, saves the input and returns the panic message.
fn failure_message(target: &Target, input: &[u8], name: &str) -> Option<String> {
    let panic_payload = catch_unwind(AssertUnwindSafe(|| (target.run)(input))).err()?;
    let message = panic_payload
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic_payload.downcast_ref::<&str>().map(|message| message.to_string()));
    let saved_input = std::env::temp_dir().join(format!("target-{}-{name}", target.name));
    std::fs::write(&saved_input, input).unwrap();
    let message: String = message.unwrap_or_default().chars().take(300).collect();
    Some(format!("{} on {}: {message}", target.name, saved_input.display()))
}

#[test]
fn fuzz_properties_hold_for_the_corpus() {
    let edits_per_target =
        std::env::var("TILEWORKS_EDITS").map_or(DEFAULT_EDITS, |count| count.parse().expect("TILEWORKS_EDITS is a number"));
    let mut complaints = BTreeSet::new();
    for target in TARGETS {
        let inputs = target.inputs();
        assert!(inputs.len() >= 3, "{} has {} inputs", target.name, inputs.len());
        for path in &inputs {
            let (input, name) = (std::fs::read(path).unwrap(), path.file_name().map(Path::new).unwrap().display().to_string());
            complaints.extend(failure_message(target, &input, &name));
            for number in 0..edits_per_target / inputs.len() {
                let edit = mutate_input(target.form, &input, 0x5EED + ((number as u64) << 20));
                if edit.len() <= MAX_INPUT_BYTES {
                    complaints.extend(failure_message(target, &edit, &format!("{number}-{name}")));
                }
            }
        }
    }
    let complaints: Vec<String> = complaints.into_iter().collect();
    assert!(complaints.is_empty(), "{} inputs:\n{}", complaints.len(), complaints.join("\n"));
}

/// An input that a reader refuses for its version no longer tests the stage.
#[test]
fn stage_files_are_of_this_version() {
    fn inputs_of_other_versions<P: Payload>(target: &str) -> Vec<String> {
        let inputs = Target::by_name(target).expect("there is this target").inputs().into_iter();
        let is_old = |path: &std::path::PathBuf| {
            File::<P>::read(&std::fs::read(path).unwrap(), "input").is_err_and(|error| error.code == "ENV001")
        };
        inputs.filter(is_old).map(|path| path.display().to_string()).collect()
    }
    let all_inputs = [
        inputs_of_other_versions::<tileir::Module>("tile"),
        inputs_of_other_versions::<tileaa::Module>("aa"),
        inputs_of_other_versions::<tileas::Module>("as"),
        inputs_of_other_versions::<sched::Module>("sched"),
    ];
    assert_eq!(all_inputs.concat(), Vec::<String>::new());
}
