//! Shell syntax of the commands that the driver prints and writes.

/// Returns an argument for a shell, with quotes if the argument needs quotes.
pub(crate) fn shell_quote(arg: &str) -> String {
    let needs_no_quotes = |c: char| c.is_ascii_alphanumeric() || "-_./=:+,%@".contains(c);
    if !arg.is_empty() && arg.chars().all(needs_no_quotes) { arg.into() } else { format!("'{}'", arg.replace('\'', r"'\''")) }
}
