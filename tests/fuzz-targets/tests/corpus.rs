//! The targets on the seed inputs of fuzzing and on edits of them, the same in every run. Inputs of fixed findings are among the
//! seeds.

use base::envelope::{File, Payload};
use fuzz_targets::mutate::mutated;
use fuzz_targets::{MOST_BYTES, TARGETS, Target};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Edits per target over all its inputs; `TILEWORKS_EDITS` overrides it.
const EDITS: usize = 600;

/// The target's panic message for an input that violates a property; the input is kept.
fn complaint(target: &Target, input: &[u8], name: &str) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(|| (target.run)(input))).err()?;
    let message =
        panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|message| message.to_string()));
    let saved = std::env::temp_dir().join(format!("target-{}-{name}", target.name));
    std::fs::write(&saved, input).unwrap();
    let message: String = message.unwrap_or_default().chars().take(300).collect();
    Some(format!("{} on {}: {message}", target.name, saved.display()))
}

#[test]
fn fuzz_properties_hold_for_the_corpus() {
    let edits = std::env::var("TILEWORKS_EDITS").map_or(EDITS, |count| count.parse().expect("TILEWORKS_EDITS is a number"));
    let mut found = BTreeSet::new();
    for target in TARGETS {
        let inputs = target.inputs();
        assert!(inputs.len() >= 3, "{} has {} inputs", target.name, inputs.len());
        for path in &inputs {
            let (input, name) = (std::fs::read(path).unwrap(), path.file_name().map(Path::new).unwrap().display().to_string());
            found.extend(complaint(target, &input, &name));
            for number in 0..edits / inputs.len() {
                let edit = mutated(target.form, &input, 0x5EED + ((number as u64) << 20));
                if edit.len() <= MOST_BYTES {
                    found.extend(complaint(target, &edit, &format!("{number}-{name}")));
                }
            }
        }
    }
    let found: Vec<String> = found.into_iter().collect();
    assert!(found.is_empty(), "{} inputs:\n{}", found.len(), found.join("\n"));
}

/// An input that a reader refuses for its version no longer tests the stage.
#[test]
fn stage_files_are_of_this_version() {
    fn old<P: Payload>(target: &str) -> Vec<String> {
        let inputs = Target::named(target).expect("there is this target").inputs().into_iter();
        let is_old = |path: &std::path::PathBuf| {
            File::<P>::read(&std::fs::read(path).unwrap(), "input").is_err_and(|error| error.code == "ENV001")
        };
        inputs.filter(is_old).map(|path| path.display().to_string()).collect()
    }
    let all =
        [old::<tileir::Module>("tile"), old::<tileaa::Module>("aa"), old::<tileas::Module>("as"), old::<sched::Module>("sched")];
    assert_eq!(all.concat(), Vec::<String>::new());
}
