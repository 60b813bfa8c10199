//! The version tables: `VERSIONS.md` lists their content, every element type has a row, and tags are unique.

#[test]
fn versions_page_matches_the_tables() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/VERSIONS.md");
    let history = tileir::gates::versions_page();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &history).expect("the document can be written");
    }
    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), history, "run scripts/bless");
}

#[test]
fn every_element_type_has_a_record() {
    use tileir::gates::{TYPES, TypeKind};
    for scalar in numerics::Scalar::ALL {
        let has = TYPES.iter().any(|row| row.kind == TypeKind::Scalar(*scalar));
        assert!(has, "{scalar} has no row in TYPES of gates.rs: its tag, and the version that brings it");
    }
}

#[test]
fn tags_are_unique_and_in_order() {
    let types: Vec<u8> = tileir::gates::TYPES.iter().map(|row| row.tag).collect();
    let attributes: Vec<u8> = tileir::gates::ATTRIBUTES.iter().map(|row| row.tag).collect();
    for tags in [types, attributes] {
        assert!(tags.windows(2).all(|pair| pair[0] < pair[1]), "{tags:?}");
    }
}
