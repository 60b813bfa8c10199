//! Tests of documents that repeat facts of the code: the pages of ops and of error codes, the table of types, examples in text
//! form, and benchmark results.

use std::path::Path;
use tests::{is_blessing, root};

/// The source files with op tables, and the heading of each table on the page of ops.
const TABLES: [(&str, &str); 4] = [
    ("formats/core-dialect/src/core_ops.rs", "In `.aa`, `.as` and `.sched`"),
    ("formats/tileaa/src/ops.rs", "In `.aa`"),
    ("formats/tileas/src/ops.rs", "In `.as` and `.sched`"),
    ("formats/sched/src/ops.rs", "In `.sched`"),
];

fn read_text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A row of an op table: the mnemonic, the names and types of the fields, and the doc comment.
struct Row {
    mnemonic: String,
    fields: Vec<(String, String)>,
    summary: String,
}

/// Parses the `ops!` table of a source file. A row is a doc comment and a line `Variant "mnemonic" { field: Type, … }`.
fn op_rows(source: &str) -> Vec<Row> {
    let (_, table) = source.split_once("ops! {").expect("the file has an op table");
    let (_, table) = table.split_once("pub enum").expect("the table is an enum");
    let (_, table) = table.split_once("{\n").expect("the enum has variants");
    let mut rows = Vec::new();
    let mut summary = String::new();
    for line in table.lines().map(str::trim) {
        if line == "}" {
            break;
        } else if let Some(doc) = line.strip_prefix("///") {
            summary = format!("{summary} {}", doc.trim()).trim().into();
        } else if let Some((mnemonic, rest)) = line.split_once('"').and_then(|(_, rest)| rest.split_once('"')) {
            let (_, fields) = rest.split_once('{').expect("a variant has fields");
            let (fields, _) = fields.split_once('}').expect("the fields of a variant stand on one line");
            let fields = fields.split(", ").filter_map(|field| field.trim().trim_end_matches(',').split_once(": "));
            let fields = fields.map(|(name, ty)| (name.to_string(), ty.to_string())).collect();
            rows.push(Row { mnemonic: mnemonic.into(), fields, summary: std::mem::take(&mut summary) });
        }
    }
    rows
}

/// The name of a field's type on the page of ops.
fn type_name(ty: &str) -> String {
    if let Some(inner) = ty.strip_prefix("Option<").and_then(|ty| ty.strip_suffix('>')) {
        return format!("{}?", type_name(inner));
    }
    if let Some(inner) = ty.strip_prefix("Vec<").and_then(|ty| ty.strip_suffix('>')) {
        return format!("[{}]", type_name(inner));
    }
    match ty.rsplit("::").next().unwrap_or(ty) {
        "Value" => "value",
        "Region" => "region",
        "bool" => "flag",
        "u32" | "u64" | "i64" => "number",
        "String" => "text",
        other => other,
    }
    .into()
}

/// Generates the text of `docs/formats/ops.md`.
fn ops_page() -> String {
    let mut out = String::from(
        "# Ops\n\n`scripts/bless` generates this list of all ops from the op tables. In the column of fields, `?` marks an optional field, and \
         brackets mark a list. In the text form, the regions of an op follow in braces.\n",
    );
    for (file, title) in TABLES {
        out.push_str(&format!("\n## {title}\n\n| op | fields | what it does |\n|---|---|---|\n"));
        for Row { mnemonic, fields, summary } in op_rows(&read_text(&root().join(file))) {
            let fields: Vec<String> = fields.iter().map(|(name, ty)| format!("{name}: {}", type_name(ty))).collect();
            let summary = summary.replace('|', "\\|").replace("[`", "`").replace("`]", "`");
            out.push_str(&format!("| `{mnemonic}` | {} | {summary} |\n", fields.join(", ")));
        }
    }
    out
}

/// Checks that a page equals its generated text. With `BLESS` set, writes the page.
fn check_is_current(page: &str, generated: &str) {
    let path = root().join(page);
    if is_blessing() {
        std::fs::write(&path, generated).expect("the page can be written");
    }
    assert_eq!(generated, read_text(&path), "run scripts/bless to update {page}");
}

#[test]
fn error_codes_page_is_current() {
    check_is_current("docs/error-codes.md", &common::explain::page());
}

#[test]
fn ops_page_is_current() {
    check_is_current("docs/formats/ops.md", &ops_page());
    assert!(TABLES.iter().all(|(file, _)| op_rows(&read_text(&root().join(file))).len() > 4), "an op table was not found");
}

#[test]
fn formats_page_names_every_element_type() {
    let page = read_text(&root().join("docs/formats/README.md"));
    let row = page.lines().find(|line| line.starts_with("| scalar |")).expect("the page has a row of scalars");
    for scalar in numerics::Scalar::ALL {
        assert!(row.contains(&format!("`{scalar}`")), "docs/formats/README.md lacks {scalar}");
    }
}

#[test]
fn examples_in_text_form_read_back() {
    let page = read_text(&root().join("docs/formats/README.md"));
    let blocks: Vec<&str> = page.split("```tileas\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(!blocks.is_empty());
    for block in blocks {
        let file =
            base::File::<tileas::Module>::read(block.as_bytes(), "the page").unwrap_or_else(|error| panic!("{error:?}\n{block}"));
        let printed = file.write(base::envelope::Form::Text).expect("what was read can be written");
        let reread = base::File::<tileas::Module>::read(&printed, "printed").unwrap_or_else(|error| panic!("{error:?}"));
        assert_eq!(reread, file);
    }
}

/// docs/benchmarks.md and README.md must state the geometric mean and the median of the table in docs/benchmarks.md.
#[test]
fn stated_benchmark_means_match_the_table() {
    let page = read_text(&root().join("docs/benchmarks.md"));
    let row = |line: &str| -> Option<f64> {
        let columns: Vec<&str> = line.strip_prefix("| ")?.split(" | ").collect();
        let [_, ours, other, _, _] = columns[..] else { return None };
        Some(ours.parse::<f64>().ok()? / other.parse::<f64>().ok()?)
    };
    let mut ratios: Vec<f64> = page.lines().filter_map(row).collect();
    ratios.sort_by(f64::total_cmp);
    assert_eq!(ratios.len(), 46);
    let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    let median = f64::midpoint(ratios[22], ratios[23]);
    let sentence = format!("Our time is **{mean:.3}** of NVIDIA's in the geometric mean and **{median:.3}** in the median.");
    assert!(page.contains(&sentence), "the page lacks: {sentence}");
    let readme = read_text(&root().join("README.md"));
    let readme = readme.split_whitespace().collect::<Vec<_>>().join(" ");
    let sentence = format!("{mean:.2} of the time of NVIDIA's in the geometric mean and {median:.2} in the median");
    assert!(readme.contains(&sentence), "README.md lacks: {sentence}");
}

/// The table of passes in the module header of `tile-lower-as` must list the passes of `PASSES` in their order.
#[test]
fn header_of_tile_lower_as_lists_its_passes() {
    let source = read_text(&root().join("tools/tile-lower-as/src/lib.rs"));
    let (header, code) = source.split_once("\nmod ").expect("the file has modules");
    let first_cell = |line: &str| Some(line.strip_prefix("//! | `")?.split_once('`')?.0.to_string());
    let documented_passes: Vec<String> = header.lines().filter_map(first_cell).collect();
    let (_, table) = code.split_once("PASSES: &[").expect("the file has a table of passes");
    let (table, _) = table.split_once("\n];").expect("the table ends");
    let passes: Vec<&str> = table.split("name: \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(passes.len() > 2 && documented_passes == passes, "{documented_passes:?}, {passes:?}");
}
