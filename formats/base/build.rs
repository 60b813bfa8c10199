//! Generates the enums `Code` and `Family` from `codes/`. The folder has a page for each diagnostic code (`AA012.md`), and a page
//! for each family of codes (`AA.md`).

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=codes");
    let folder = Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("codes");
    let entries = fs::read_dir(&folder).expect("the folder of pages is there");
    let mut pages: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry can be read").path()).collect();
    pages.sort();
    let (mut codes, mut families) = (Vec::new(), Vec::new());
    for page in pages.iter().filter(|page| page.extension().is_some_and(|extension| extension == "md")) {
        let name = page.file_stem().and_then(|name| name.to_str()).expect("a page is called after its code");
        let has_number = name.ends_with(|last: char| last.is_ascii_digit());
        if has_number { codes.push((name, page)) } else { families.push((name, page)) }
    }
    let mut out = String::new();
    generate(&mut out, "Code", "A diagnostic code. Its page is `formats/base/codes/CODE.md`.", &codes);
    generate(&mut out, "Family", "The letters of a code: the component that reports it.", &families);
    let path = Path::new(&std::env::var("OUT_DIR").expect("cargo sets it")).join("codes.rs");
    fs::write(path, out).expect("the output folder takes files");
}

/// Writes an enum with a variant for each page, and functions that return the name and the page text of a variant. `pages` has the
/// name and path of each page.
fn generate(out: &mut String, name: &str, summary: &str, pages: &[(&str, &PathBuf)]) {
    let variants: String = pages.iter().map(|(name, _)| format!("    {name},\n")).collect();
    let list: String = pages.iter().map(|(variant, _)| format!("{name}::{variant}, ")).collect();
    let names: String = pages.iter().map(|(variant, _)| format!("            {name}::{variant} => {variant:?},\n")).collect();
    let texts: String =
        pages.iter().map(|(variant, page)| format!("            {name}::{variant} => include_str!({page:?}),\n")).collect();
    let _ = write!(
        out,
        "/// {summary}\n#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]\npub enum {name} {{\n{variants}}}\n\n\
         impl {name} {{\n    /// All variants, in alphabetical order.\n    pub const ALL: &'static [{name}] = &[{list}];\n\n    \
         pub fn name(self) -> &'static str {{\n        match self {{\n{names}        }}\n    }}\n\n    \
         fn page(self) -> &'static str {{\n        match self {{\n{texts}        }}\n    }}\n}}\n\n"
    );
}
