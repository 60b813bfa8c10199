//! Reads the parts of a PTX file that linking needs: the target, the kernels, and the envelope (leading comments in which this
//! project's tools record options and tensor-map recipes). PTX of other compilers has no envelope, and is accepted too.

use crate::maps::KernelMaps;
use base::diag::{Diagnostic, Result};
use base::{Envelope, Target};
use ptx::tensor_map::Recipe;

/// A PTX file, and the parts of it that linking needs.
pub(crate) struct Source {
    pub(crate) envelope: Envelope,
    pub(crate) text: String,
    /// The architecture that the `.target` directive names first, such as `sm_90a`.
    pub(crate) chip: String,
    /// The names of the kernels, in text order.
    pub(crate) entries: Vec<String>,
    /// The tensor maps of each kernel, in the order of `entries`; empty if no kernel can have hidden parameters.
    pub(crate) maps: Vec<KernelMaps>,
}

impl Source {
    /// Reads a PTX file. `name` is the file's name in messages.
    pub(crate) fn read(bytes: &[u8], name: &str) -> Result<Source> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            Diagnostic::invalid("LNK001", format!("{name} is not PTX text")).in_input(name, Some(error.valid_up_to() as u64))
        })?;
        let leading_comments = ptx::leading_comments(text);
        let envelope = match leading_comments.lines().any(|line| line.starts_with(base::envelope::LINE_PREFIX)) {
            true => Envelope::from_lines(leading_comments, name)?.0,
            false => envelope_for_ptx_without_envelope(),
        };
        if envelope.format != "ptx" {
            let message =
                format!("{name} is {} v{} from {}; this tool reads ptx", envelope.format, envelope.version, envelope.producer);
            return Err(Diagnostic::invalid("LNK002", message));
        }
        let chip = ptx_lines(text)
            .find_map(|line| line.strip_prefix(".target"))
            .and_then(|rest| rest.split([',', ' ', '\t']).find(|w| !w.is_empty()));
        let chip = chip.ok_or_else(|| Diagnostic::invalid("LNK003", format!("{name} has no .target line, so it is not PTX")))?;
        let envelope = Envelope { target: envelope.target.or_else(|| Target::parse(chip)), ..envelope };
        if let Some(target) = envelope.target.filter(|target| Target::parse(chip) != Some(*target)) {
            return Err(Diagnostic::invalid(
                "LNK004",
                format!("{name} is for {chip} in its .target line, but for {target} in its envelope"),
            ));
        }
        let entries: Vec<String> = ptx_lines(text).filter_map(entry_name).map(str::to_string).collect();
        // Parsing the whole file is slow, so parse it only if a kernel may have hidden parameters.
        let maps = match text.contains(".hidden") {
            true => KernelMaps::parse(text, &Recipe::all(leading_comments.lines())?, envelope.target)?,
            false => Vec::new(),
        };
        Ok(Source { chip: chip.to_string(), entries, maps, text: text.to_string(), envelope })
    }
}

/// Returns the lines of the PTX without leading blanks. Skips lines of embedded source text.
fn ptx_lines(text: &str) -> impl Iterator<Item = &str> {
    lines_with_origin(text).filter(|(_, is_ptx)| *is_ptx).map(|(line, _)| line.trim_start())
}

/// Returns all lines, each with a flag that is true for a line of PTX. The flag is false for embedded source text and its
/// delimiters.
pub(crate) fn lines_with_origin(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut in_embedded_source = false;
    text.lines().map(move |line| {
        let was_in_embedded_source = in_embedded_source;
        in_embedded_source =
            (in_embedded_source || line.trim_start().starts_with(".source_begin")) && !line.contains(".source_end");
        (line, !was_in_embedded_source && !in_embedded_source)
    })
}

/// Returns the name of the kernel whose definition starts on this line, if any.
fn entry_name(line: &str) -> Option<&str> {
    let line = line.strip_prefix(".visible").or_else(|| line.strip_prefix(".weak")).unwrap_or(line).trim_start();
    let name = line.strip_prefix(".entry")?.strip_prefix([' ', '\t'])?.trim_start();
    Some(name.split(|c: char| c == '(' || c.is_whitespace()).next().unwrap_or(name)).filter(|name| !name.is_empty())
}

/// Returns an envelope for PTX that another compiler wrote.
fn envelope_for_ptx_without_envelope() -> Envelope {
    Envelope {
        format: "ptx".into(),
        version: 0,
        phase: "foreign".into(),
        target: None,
        options: Default::default(),
        producer: "an unknown tool".into(),
        input_hash: String::new(),
        log: Vec::new(),
        debug: Default::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ptx_without_envelope_gives_target_and_kernel_names() {
        let text =
            ".version 9.0\n.target sm_90a, debug\n.address_size 64\n.visible .entry one(\n)\n.entry two\n(\n)\n.func three()\n";
        let source = Source::read(text.as_bytes(), "x").unwrap();
        assert_eq!((source.chip.as_str(), source.entries), ("sm_90a", vec!["one".to_string(), "two".into()]));
        assert_eq!(source.envelope.target, Target::parse("sm_90"));
        assert!(source.maps.is_empty());
        let with_hidden_parameter = ".version 9.4\n.target sm_90a\n.address_size 64\n.visible .entry one(\n\t.param .u64 a,\n\t.hidden\t.param .align 64 .b8 b[128]\n)\n{\nret;\n}\n";
        assert_eq!(Source::read(with_hidden_parameter.as_bytes(), "x").err().unwrap().code, "LNK022");
        assert!(Source::read(b"hello", "x").is_err());
        assert!(Source::read(b"//!tile sched 2 alloc\n.target sm_80\n", "x").is_err());
        assert!(Source::read(b"//!tile ptx 1 final\n//!tile target sm_90\n.target sm_80\n", "x").is_err());
    }

    #[test]
    fn embedded_source_text_and_comments_are_not_parsed_as_ptx() {
        let text = "// By hand\n.version 9.4\n.target sm_90a\n.address_size 64\n.visible .entry one()\n{\nret;\n}\n\
                    .nv_intermediate_source_section {\n.code_block {\n.ir_name: \"x\"\n.sourceFileName: 1\n.source_begin\n\
                    //!tile tensor-map none\n.visible .entry two(\n.source_end\n}\n}\n.entry three()\n{\nret;\n}\n// .hidden\n";
        let source = Source::read(text.as_bytes(), "x").unwrap_or_else(|error| panic!("{error:?}"));
        assert_eq!(source.entries, ["one", "three"]);
    }
}
