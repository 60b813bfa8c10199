//! Breaks the text of function attributes into lines, one per field. A list of structs has a line for each struct, with the index
//! of the struct as a comment.

/// Maximum characters of a text that stays on one line. A text with a list of structs is broken into lines at any length.
const MAX_LINE: usize = 60;

/// Breaks `(field: value, …)` into lines. The parser reads the same value from the lines as from `text`.
pub(super) fn break_into_lines(text: &str) -> String {
    let has_table = text.contains("[(");
    match text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) {
        Some(fields) if !fields.is_empty() && (has_table || text.len() > MAX_LINE) => format!("(\n{})", field_lines(fields, 1)),
        _ => text.into(),
    }
}

/// Returns one line per field. A table (a list of structs) and a long nested struct have several lines.
fn field_lines(fields: &str, depth: usize) -> String {
    let indent = "  ".repeat(depth);
    let mut out = String::new();
    for field in split_at_commas(fields) {
        let (name, value) = field.split_once(": ").unwrap_or(("", field));
        let between = |open: char, close: char| value.strip_prefix(open)?.strip_suffix(close);
        if let Some(rows) = between('[', ']').filter(|rows| rows.starts_with('(')) {
            out.push_str(&format!("{indent}{name}: [\n"));
            for (number, row) in split_at_commas(rows).enumerate() {
                out.push_str(&format!("{indent}  {row}, // {} {number}\n", name.strip_suffix('s').unwrap_or(name)));
            }
            out.push_str(&format!("{indent}],\n"));
        } else if let Some(fields) = between('(', ')').filter(|_| value.contains("[(") || value.len() > MAX_LINE) {
            out.push_str(&format!("{indent}{name}: (\n{}{indent}),\n", field_lines(fields, depth + 1)));
        } else {
            out.push_str(&format!("{indent}{field},\n"));
        }
    }
    out
}

/// Splits a text at the commas that are outside brackets and strings.
fn split_at_commas(text: &str) -> impl Iterator<Item = &str> {
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
    use super::break_into_lines;

    #[test]
    fn each_row_of_a_table_has_a_line_and_a_number() {
        assert_eq!(break_into_lines("(a: 1, b: 2)"), "(a: 1, b: 2)");
        let text = break_into_lines("(name: \"a, (b\", rows: [(x: [1, 2], y: <3, 4>), (x: [])], inner: (rows: [(z: 0)]))");
        let expected = [
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
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }
}
