//! `.as` files keep the laws of all formats.

use tileas::Module;

#[test]
fn a_matrix_product_keeps_the_laws() {
    let file = laws::hold::<Module>(include_bytes!("sample.as"));
    assert_eq!(file.payload.functions.len(), 1);
}
