//! Parses PTX files, checks them, prints and parses again: `cargo run --example roundtrip FILE...`. Says which differ.
fn main() {
    let mut failed = 0;
    for path in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let result = ptx::parse(&text).map_err(|error| format!("{error:?}")).and_then(|module| {
            if let Some(error) = ptx::check(&module).first() {
                return Err(format!("{error:?}"));
            }
            let again = ptx::parse(&ptx::print(&module)).map_err(|error| format!("printed: {error:?}"))?;
            if again == module { Ok(()) } else { Err("the tree differs".into()) }
        });
        if let Err(error) = result {
            failed += 1;
            println!("{path}: {error}");
        }
    }
    println!("{failed} failed");
}
