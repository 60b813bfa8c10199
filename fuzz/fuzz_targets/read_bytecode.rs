//! Any bytes: reading ends without a panic, and what is accepted can be printed, written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tileir::bytecode::Features;

fuzz_target!(|bytes: &[u8]| {
    let Ok(read) = tileir::bytecode::read(bytes, Features::ALL) else { return };
    let text = tileir::text::print(&read.module, Some(&read.debug));
    if let Ok(written) = tileir::bytecode::write(&read.module, &read.debug, read.module.version) {
        let again = tileir::bytecode::read(&written, Features::ALL).expect("what was written reads back");
        assert_eq!(tileir::text::print(&again.module, Some(&again.debug)), text);
    }
});
