//! Response files: `@file` expands to the arguments in a file, as in LLVM's `cl` library.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The maximum size of one response file, in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// The arguments after expansion, and the names of the response files that were read.
pub(super) struct Expanded {
    pub(super) args: Vec<String>,
    pub(super) response_files: Vec<String>,
}

/// An entry of the stack of arguments to process: an argument, or the end of a response file.
enum Pending {
    Arg(String),
    EndOfFile,
}

/// Replaces each `@file` by the arguments in the file, recursively. If the file does not exist, `@file` stays an argument. Returns
/// an error if a file cannot be read, contains itself or is too large, or if there are too many arguments.
pub(super) fn expand(args: &[String]) -> Result<Expanded, String> {
    /// The maximum number of arguments and response files together.
    const MAX_ARGS: usize = 1 << 20;
    let mut out = Expanded { args: Vec::new(), response_files: Vec::new() };
    let mut pending: Vec<Pending> = args.iter().rev().map(|arg| Pending::Arg(arg.clone())).collect();
    // Device and inode of each response file that is being expanded, outermost first. The last file contains the next argument.
    let mut open_files: Vec<(u64, u64)> = Vec::new();
    while let Some(next) = pending.pop() {
        let Pending::Arg(arg) = next else {
            open_files.pop();
            continue;
        };
        let Some((name, metadata)) = arg.strip_prefix('@').and_then(|name| Some((name, fs::metadata(absolute_path(name)).ok()?)))
        else {
            out.args.push(arg);
            continue;
        };
        let path = absolute_path(name);
        let identity = (metadata.dev(), metadata.ino());
        if open_files.contains(&identity) {
            return Err(format!("recursive expansion of: '{}'", path.display()));
        }
        let bytes = read_limited(&path)
            .map_err(|error| format!("cannot not open file '{}': {}", path.display(), crate::files::os_error_text(&error)))?;
        let text = decode_text(&bytes).ok_or_else(|| format!("response file '{}' is neither UTF-8 nor UTF-16", path.display()))?;
        let args = split_arguments(&text);
        if bytes.len() as u64 > MAX_FILE_BYTES || pending.len() + args.len() + out.args.len() + out.response_files.len() > MAX_ARGS
        {
            return Err(format!("the response files are too large, in '{}'", path.display()));
        }
        open_files.push(identity);
        out.response_files.push(name.to_string());
        pending.push(Pending::EndOfFile);
        pending.extend(args.into_iter().rev().map(Pending::Arg));
    }
    Ok(out)
}

/// Reads a file up to one byte past `MAX_FILE_BYTES`. The caller rejects a result of that length. Endless files, such as devices,
/// are therefore rejected too.
fn read_limited(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Resolves the name of a response file relative to the current folder, not to the response file that names it.
fn absolute_path(name: &str) -> PathBuf {
    match (name, std::env::current_dir()) {
        ("", Ok(current_dir)) => current_dir,
        (name, Ok(current_dir)) => current_dir.join(name),
        (name, Err(_)) => PathBuf::from(name),
    }
}

/// Decodes UTF-16 with a byte order mark, or UTF-8 with or without one. Ignores the last byte of UTF-16 of odd length.
fn decode_text(bytes: &[u8]) -> Option<String> {
    let decode_utf16 = |read_unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes[2..].chunks_exact(2).map(|pair| read_unit([pair[0], pair[1]])).collect();
        String::from_utf16(&units).ok()
    };
    match bytes {
        [0xff, 0xfe, ..] => decode_utf16(u16::from_le_bytes),
        [0xfe, 0xff, ..] => decode_utf16(u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8(rest.to_vec()).ok(),
        _ => String::from_utf8(bytes.to_vec()).ok(),
    }
}

/// Splits text into arguments, as LLVM's `TokenizeGNUCommandLine` does. Spaces, tabs and line ends separate arguments, single and
/// double quotes group characters, and a backslash escapes the next character, also within quotes. The part of an argument from a
/// NUL character on is dropped, because C strings end there.
pub fn split_arguments(text: &str) -> Vec<String> {
    let mut args = Vec::new();
    let mut arg: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match (c, quote) {
            ('\\', _) => arg.get_or_insert_default().push(characters.next().unwrap_or('\\')),
            (c, Some(open_quote)) if c == open_quote => quote = None,
            (c, Some(_)) => arg.get_or_insert_default().push(c),
            ('"' | '\'', None) => {
                quote = Some(c);
                arg.get_or_insert_default();
            }
            (' ' | '\t' | '\r' | '\n', None) => args.extend(arg.take()),
            (c, None) => arg.get_or_insert_default().push(c),
        }
    }
    args.extend(arg);
    args.iter_mut().for_each(|arg| arg.truncate(arg.find('\0').unwrap_or(arg.len())));
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_split_as_llvm_splits_them() {
        assert_eq!(split_arguments(r#"a 'b c' "d\"e" f\ g "" 'h'i"#), ["a", "b c", "d\"e", "f g", "", "hi"]);
        assert_eq!(split_arguments(r"'a\\b' 'c\'d' e\"), [r"a\b", "c'd", r"e\"]);
        assert_eq!(split_arguments("a\u{a0}b\u{c}c 'd e"), ["a\u{a0}b\u{c}c", "d e"]);
        assert_eq!(split_arguments("a\0b c\\\nd"), ["a", "c\nd"]);
    }

    #[test]
    fn byte_order_marks_select_the_encoding() {
        assert_eq!(decode_text(b"\xef\xbb\xbfa b"), Some("a b".into()));
        assert_eq!(decode_text(b"\xff\xfea\0 \0"), Some("a ".into()));
        assert_eq!(decode_text(b"\xfe\xff\0a"), Some("a".into()));
        assert_eq!(decode_text(b"a\xff"), None);
    }

    #[test]
    fn response_files_may_name_other_files_but_not_themselves() {
        let folder = tempfile::tempdir().unwrap();
        let response_arg = |name: &str| format!("@{}", folder.path().join(name).display());
        let write = |name: &str, text: String| fs::write(folder.path().join(name), text).unwrap();
        write("inner", "x y".into());
        write("outer", format!("{0} a {0} @not-there", response_arg("inner")));
        write("circle", format!("a {}", response_arg("circle")));
        let expanded = expand(&["first".into(), response_arg("outer"), "last".into()]).unwrap();
        assert_eq!(expanded.args, ["first", "x", "y", "a", "x", "y", "@not-there", "last"]);
        assert_eq!(
            expanded.response_files,
            [&response_arg("outer")[1..], &response_arg("inner")[1..], &response_arg("inner")[1..]]
        );
        assert!(expand(&[response_arg("circle")]).is_err_and(|message| message.starts_with("recursive expansion of: '/")));
        assert!(expand(&[response_arg("")]).is_err_and(|message| message.ends_with("': Is a directory")));
    }
}
