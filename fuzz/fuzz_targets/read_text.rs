//! Any text: parsing ends without a panic, and what is accepted and verified can be printed and written.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let mut debug = base::DebugInfo::default();
    let Ok(module) = tileir::text::parse(text, "fuzz", 1, &mut debug) else { return };
    if tileir::verify::references(&module, &debug).is_err() || tileir::verify::verify(&module, &debug).is_err() {
        return;
    }
    tileir::text::print(&module, Some(&debug));
    let _ = tileir::bytecode::write(&module, &debug, module.version);
});
