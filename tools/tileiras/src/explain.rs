//! What the error codes mean, for `--explain`.

/// Families of codes by their letters, then single codes that deserve more words.
const FAMILIES: &[(&str, &str)] = &[
    ("CLI", "The command line of a stage tool, or its files: what was named cannot be read, written or understood."),
    (
        "ENV",
        "The envelope of a stage file: its format, version, hash or location table. The file is of another kind, was written by another version, or was cut or damaged on the way.",
    ),
    (
        "OPT",
        "An option that travels in the file: it was given before with another value, is needed and was not given, or does not go with another.",
    ),
    (
        "TKT",
        "A piece of the CUDA toolkit that is needed at run time was not found. scripts/setup brings ptxas and libdevice into the project; CUDA_ROOT, CUDA_HOME, CUDA_PATH and PATH are looked at too.",
    ),
    ("LNK", "tile-link: the PTX is not what it says, or ptxas failed. The notes are ptxas's own words."),
    ("DEP", "The depfile of -MD and -MF cannot be written."),
    (
        "BUG",
        "An internal error: a bug of the tool that says so, not of its input. Where a folder is named, it holds the input and the command to see it again.",
    ),
];

const CODES: &[(&str, &str)] = &[
    (
        "OPT001",
        "An option is given once, to the first stage that needs it, and travels in the file. A later stage takes it too, but only with the same value: another one would contradict what was already decided.",
    ),
    (
        "ENV001",
        "The file is of another format or version than the tool reads. Both sides are named; the tool that reads the file's format is the next one in the pipeline.",
    ),
    (
        "ENV002",
        "A binary stage file says how long it is and carries a hash of its content. One of the two does not match, so the file was cut or changed; write it again, or edit the RON or text form instead.",
    ),
    ("LNK013", "ptxas refused the PTX. `tileiras --emit=ptx` writes what it was given."),
    ("CLI004", "Stage files are binary unless --format says otherwise, and a terminal is no place for them."),
];

pub(crate) fn explain(code: &str) -> Option<String> {
    let letters: String = code.chars().take_while(char::is_ascii_alphabetic).collect();
    let family = FAMILIES.iter().find(|(name, _)| *name == letters).map(|(_, text)| *text);
    let own = CODES.iter().find(|(name, _)| *name == code).map(|(_, text)| *text);
    let text: Vec<&str> = own.into_iter().chain(family).collect();
    (!text.is_empty()).then(|| format!("{code}: {}\n", text.join("\n\n")))
}
