//! Splits function attributes into lines, one per field. A list of structs is a table: it has one line per row, with the row's
//! number.

/// Maximum characters of a text that stays on one line, unless it contains a table.
const MAX_LINE: usize = 60;

/// Breaks `(field: value, …)` into lines that read back equal.
pub(super) fn spread(text: &str) -> String {
    let is_table = text.contains("[(");
    match text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) {
        Some(fields) if !fields.is_empty() && (is_table || text.len() > MAX_LINE) => format!("(\n{})", lines(fields, 1)),
        _ => text.into(),
    }
}

fn lines(fields: &str, depth: usize) -> String {
    let indent = "  ".repeat(depth);
    let mut out = String::new();
    for field in items(fields) {
        let (name, value) = field.split_once(": ").unwrap_or(("", field));
        let inner = |open: char, close: char| value.strip_prefix(open)?.strip_suffix(close);
        if let Some(rows) = inner('[', ']').filter(|rows| rows.starts_with('(')) {
            out.push_str(&format!("{indent}{name}: [\n"));
            for (number, row) in items(rows).enumerate() {
                out.push_str(&format!("{indent}  {row}, // {} {number}\n", name.strip_suffix('s').unwrap_or(name)));
            }
            out.push_str(&format!("{indent}],\n"));
        } else if let Some(fields) = inner('(', ')').filter(|_| value.contains("[(") || value.len() > MAX_LINE) {
            out.push_str(&format!("{indent}{name}: (\n{}{indent}),\n", lines(fields, depth + 1)));
        } else {
            out.push_str(&format!("{indent}{field},\n"));
        }
    }
    out
}

/// The parts between commas outside brackets and strings.
fn items(text: &str) -> impl Iterator<Item = &str> {
    let (mut depth, mut quoted, mut escaped) = (0i32, false, false);
    let parts = text.split(move |c| {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = quoted,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0 && !quoted
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn rows_of_tables_have_lines_and_numbers() {
        assert_eq!(spread("(a: 1, b: 2)"), "(a: 1, b: 2)");
        let text = spread("(name: \"a, (b\", rows: [(x: [1, 2], y: <3, 4>), (x: [])], inner: (rows: [(z: 0)]))");
        let lines = [
            "(",
            "  name: \"a, (b\",",
            "  rows: [",
            "    (x: [1, 2], y: <3, 4>), // row 0",
            "    (x: []), // row 1",
            "  ],",
            "  inner: (",
            "    rows: [",
            "      (z: 0), // row 0",
            "    ],",
            "  ),",
            ")",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    }
}
