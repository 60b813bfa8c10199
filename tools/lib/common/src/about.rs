//! The description of a tool.

/// The description of a tool, for its help text and for checks of its options.
#[derive(Debug)]
pub struct About {
    pub name: &'static str,
    pub summary: &'static str,
    /// Command lines, each with its description.
    pub examples: &'static [(&'static str, &'static str)],
    /// The passes that `--stop-after` and `--print-after` accept, in order.
    pub passes: &'static [&'static str],
    /// Whether the tool writes stage files, so that `--format` applies.
    pub writes_stage_files: bool,
}
