//! Binary stage files of this version, which every later build with the same format version must read. Their encoding follows the
//! layout of the Rust types, so one more field changes the meaning of old files. `tests/binaries` holds one file per fixture, named
//! after the text form that produced it.
//!
//! If a binary differs from its fixture, either the fixture was edited (`scripts/bless` updates the binary) or a type was. In the
//! second case raise the `VERSION` of the format first, so that readers refuse older files.

use base::envelope::{File, Form, Payload};
use std::path::Path;
use tests::{is_blessing, root};

const FOLDER: &str = "tests/binaries";

#[test]
fn aa_files_keep_their_binary_form() {
    check_binaries::<tileaa::Module>(&["tests/lower-as/copies/tma.aa", "tests/lower-as/mma/scaled_by_blocks.aa"]);
}

#[test]
fn as_files_keep_their_binary_form() {
    let fixtures = ["sample", "tensor", "tma"].map(|name| format!("formats/tileas/tests/{name}.as"));
    check_binaries::<tileas::Module>(&fixtures.each_ref().map(String::as_str));
}

#[test]
fn sched_files_keep_their_binary_form() {
    let fixtures =
        ["sample", "tensor", "tma", "group", "warp_roles/copies"].map(|name| format!("formats/sched/tests/{name}.sched"));
    check_binaries::<sched::Module>(&fixtures.each_ref().map(String::as_str));
}

fn check_binaries<P: Payload>(fixtures: &[&str]) {
    for fixture in fixtures {
        let text = std::fs::read(root().join(fixture)).unwrap_or_else(|error| panic!("{fixture}: {error}"));
        let file = File::<P>::read(&text, fixture).unwrap_or_else(|error| panic!("{fixture}: {}", error.message));
        let binary = file.write(Form::Binary).unwrap_or_else(|error| panic!("{fixture}: {}", error.message));
        let name = Path::new(fixture).file_name().expect("a fixture has a name").to_string_lossy();
        let path = root().join(FOLDER).join(&*name);
        if is_blessing() {
            std::fs::write(&path, binary).expect("the folder is there");
            continue;
        }
        let recorded = std::fs::read(&path).unwrap_or_else(|error| panic!("{FOLDER}/{name}: {error}"));
        assert!(
            recorded == binary,
            "{fixture} has another binary form than {FOLDER}/{name}. If a type of {} was changed, raise its VERSION; then scripts/bless",
            P::FORMAT
        );
    }
}

/// The reader refuses a file of another version because of its version, not because of its contents.
#[test]
fn another_version_is_reported() {
    let text = std::fs::read(root().join("formats/sched/tests/sample.sched")).expect("it is there");
    let file = File::<sched::Module>::read(&text, "sample.sched").expect("it is a schedule");
    let other_version = File { envelope: base::envelope::Envelope { version: 1, ..file.envelope.clone() }, payload: file.payload };
    let binary = other_version.write(Form::Binary).expect("only readers look at the version");
    let Err(error) = File::<sched::Module>::read(&binary, "sample.sched") else { panic!("it is read") };
    assert!(error.message.contains("v1"), "{}", error.message);
}
