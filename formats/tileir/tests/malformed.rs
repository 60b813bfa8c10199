//! The reader rejects malformed files with the messages of NVIDIA's `tileiras` 13.5.37. `DIFFERENCES` lists the exceptions.
//! The files are `malformed/NAME.tileirbc`, and NVIDIA's messages `malformed/NAME.stderr`.

use std::path::Path;
use tileir::bytecode::{Features, read};

/// Files with a different message: the file's name, the reader's first line, and the reason. `docs/bytecode.md` lists the reasons.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    ("no_terminator", "block with no terminator, has 'cuda_tile.absf'", "the reference prints the op in MLIR's generic form"),
    ("not_utf8_function", "string 3 is not UTF-8 text", "the reference fails later, without a cause"),
    ("not_utf8_hint", "string 5 is not UTF-8 text", "the reference accepts any bytes"),
];

#[test]
fn malformed_files_are_refused_with_the_reference_messages() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/malformed");
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .expect("the folder is there")
        .filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.strip_suffix(".tileirbc")?.to_string()))
        .collect();
    names.sort();
    assert_eq!(names.len(), 23, "{names:?}");
    let docs_page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bytecode.md")).expect("the page is there");
    for name in &names {
        let bytes = std::fs::read(folder.join(format!("{name}.tileirbc"))).expect("the file can be read");
        let expected = std::fs::read_to_string(folder.join(format!("{name}.stderr"))).expect("the file can be read");
        let printed: String = match read(&bytes, Features::default()) {
            Ok(_) => String::new(),
            Err(error) => error.into_diagnostic(name).reference.iter().map(|line| format!("error: {line}\n")).collect(),
        };
        if let Some((_, first, _)) = DIFFERENCES.iter().find(|(known, ..)| known == name) {
            assert!(docs_page.contains(first), "docs/bytecode.md does not explain '{first}'");
        }
        match DIFFERENCES.iter().find(|(known, ..)| known == name) {
            Some((_, first, reason)) => {
                assert!(printed != expected, "{name}: the message no longer differs, remove it from DIFFERENCES");
                assert!(printed.starts_with(&format!("error: {first}\n")), "{name} ({reason}): {printed}");
            }
            None => assert_eq!(printed, expected, "{name}"),
        }
    }
}

/// The reader accepts a file name in an encoding other than UTF-8.
#[test]
fn file_names_may_be_in_any_encoding() {
    let bytes = include_bytes!("malformed/not_utf8_file.tileirbc");
    let module = read(bytes, Features::default()).expect("the file is read");
    assert!(module.debug.names.values().any(|name| name.starts_with('\u{FFFD}')));
}
