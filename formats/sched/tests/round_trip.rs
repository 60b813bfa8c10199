//! Tests that `.sched` files satisfy the round-trip properties of all formats.

use sched::Module;

#[test]
fn a_matmul_round_trips() {
    let file = round_trip::check::<Module>(include_bytes!("sample.sched"));
    assert_eq!(file.payload.functions.len(), 1);
}
