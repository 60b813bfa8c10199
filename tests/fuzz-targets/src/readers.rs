//! Fuzz targets for readers: Tile IR bytecode and text, PTX, cubins, and configuration files. No stage runs on these inputs.

use common::launch::Launch;
use std::path::Path;
use tileir::bytecode::Features;

fn utf8(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

pub(crate) fn check_bytecode(bytes: &[u8]) {
    let Ok(read) = tileir::bytecode::read(bytes, Features::ALL) else { return };
    let text = tileir::text::print(&read.module, Some(&read.debug));
    if let Ok(written) = tileir::bytecode::write(&read.module, &read.debug, read.module.version) {
        let reread = tileir::bytecode::read(&written, Features::ALL).expect("what was written reads back");
        assert_eq!(tileir::text::print(&reread.module, Some(&reread.debug)), text);
    }
}

pub(crate) fn check_text(bytes: &[u8]) {
    let mut debug = base::DebugInfo::default();
    let Ok(module) = tileir::text::parse(utf8(bytes), "fuzz", 1, &mut debug) else { return };
    if tileir::verify::check_references(&module, &debug).is_err() || tileir::verify::verify(&module, &debug).is_err() {
        return;
    }
    tileir::text::print(&module, Some(&debug));
    // Older versions lack some ops.
    if let Ok(written) = tileir::bytecode::write(&module, &debug, module.version) {
        tileir::bytecode::read(&written, Features::ALL).expect("what was written reads back");
    }
}

pub(crate) fn check_ptx(bytes: &[u8]) {
    let Ok((module, _)) = ptx::open(bytes, "fuzz") else { return };
    let text = ptx::print(&module);
    let reread = ptx::parse(&text).unwrap_or_else(|error| panic!("what was printed does not read back: {error:?}\n{text}"));
    assert_eq!(ptx::print(&reread), text);
    ptx::check(&module);
}

pub(crate) fn check_cubin(bytes: &[u8]) {
    let _ = cubin::fatbin::check(bytes);
    let _ = cubin::fatbin::check_object(bytes);
    let _ = cubin::check(bytes, "fuzz", &["k".to_string()]);
    let _ = cubin::host_object(bytes);
    if let Ok(read) = cubin::read(bytes, "fuzz") {
        cubin::print(&read);
    }
}

pub(crate) fn check_launch(bytes: &[u8]) {
    let Ok(launch) = Launch::parse(utf8(bytes), "fuzz", Path::new("/nonexistent")) else { return };
    let text = serde_json::to_string(&launch).expect("a launch is plain data");
    assert!(!text.is_empty() && launch.output_names().iter().all(|name| launch.buffer(name).is_ok()));
}

pub(crate) fn check_machine(bytes: &[u8]) {
    let Ok(machine) = perf_model::Machine::parse("fuzz", utf8(bytes)) else { return };
    let _ = machine.set("clock = 1.0");
}

pub(crate) fn check_pipeline(bytes: &[u8]) {
    let _ = tileiras::check_pipeline(utf8(bytes));
}

/// Checks that splitting a response file into arguments invents no bytes.
pub(crate) fn check_response_file(bytes: &[u8]) {
    let words = common::cl::split_arguments(utf8(bytes));
    assert!(words.iter().map(String::len).sum::<usize>() <= bytes.len());
}
