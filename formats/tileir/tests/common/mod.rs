//! Programs shared by the tests.

use base::DebugInfo;
use tileir::{Module, Version};

/// The name of each program, its text, and the first version whose bytecode can express it.
pub(crate) const PROGRAMS: [(&str, &str, Version); 7] = [
    ("elementwise", include_str!("../programs/elementwise.mlir"), Version::V13_1),
    ("shapes", include_str!("../programs/shapes.mlir"), Version::V13_1),
    ("memory", include_str!("../programs/memory.mlir"), Version::V13_1),
    ("control", include_str!("../programs/control.mlir"), Version::V13_1),
    ("later", include_str!("../programs/later.mlir"), Version::V13_4),
    ("latest", include_str!("../programs/latest.mlir"), Version::V13_5),
    ("preview", include_str!("../programs/preview.mlir"), Version::V13_5),
];

/// Parses a program, and returns the module and its locations.
pub(crate) fn parse(name: &str, text: &str) -> (Module, DebugInfo) {
    let mut debug = DebugInfo::default();
    let module = tileir::text::parse(text, name, 1, &mut debug).unwrap_or_else(|error| panic!("{name}: {error:?}"));
    (module, debug)
}

/// Returns the bytecode of each program in each version that supports the program, with its name and version.
pub(crate) fn bytecode_files() -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for (name, text, since) in PROGRAMS {
        let (module, debug) = parse(name, text);
        for version in Version::ALL.iter().copied().filter(|version| *version >= since) {
            let bytes = tileir::bytecode::write(&module, &debug, version).expect("the version has all of the program");
            files.push((format!("{name} {version}"), bytes));
        }
    }
    files
}
