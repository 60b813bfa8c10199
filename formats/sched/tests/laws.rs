//! `.sched` files keep the laws of all formats.

use sched::Module;

#[test]
fn a_matrix_product_keeps_the_laws() {
    let file = laws::hold::<Module>(include_bytes!("sample.sched"));
    assert_eq!(file.payload.functions.len(), 1);
}
