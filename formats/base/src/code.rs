//! Diagnostic codes. `build.rs` generates the codes from `codes/`, where each code has a page. A page states the cause. Some pages
//! also have a minimal failing command and a fix. `tests/codes.rs` executes the commands.

include!(concat!(env!("OUT_DIR"), "/codes.rs"));

impl Code {
    /// Returns the code with this name, in either case, or `None` if there is none.
    pub fn from_name(name: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.name().eq_ignore_ascii_case(name))
    }

    /// Returns the family: the letters of the code without its number.
    pub fn family(self) -> Family {
        let letters = self.name().trim_end_matches(|c: char| c.is_ascii_digit());
        Family::from_letters(letters).expect("a test checks that each code has a family")
    }

    /// Returns the text between the heading of the code's page and the first section. The text states why a tool reports the code.
    pub fn cause(self) -> &'static str {
        cause(self.page())
    }

    /// Returns the first sentence of the cause.
    pub fn summary(self) -> &'static str {
        let text = self.cause();
        // A dot inside a name, as in `.aa`, has no space after it.
        text.find(". ").map_or(text, |end| &text[..=end])
    }

    /// Returns a command that fails with this code in a folder with the files of the kernels `k` and `matmul`. Returns `None` if
    /// the page has no example.
    pub fn example(self) -> Option<&'static str> {
        section(self.page(), "\n## Example\n\n```sh\n", "\n```\n")
    }

    /// Returns the section of the page that tells the user how to fix the error, or `None` if the page has no such section.
    pub fn fix(self) -> Option<&'static str> {
        section(self.page(), "\n## Fix\n\n", "\n\n## ").map(str::trim_end)
    }
}

impl Family {
    /// Returns the family with these letters, in either case, or `None` if there is none.
    pub fn from_letters(letters: &str) -> Option<Family> {
        Family::ALL.iter().copied().find(|family| family.name().eq_ignore_ascii_case(letters))
    }

    /// Returns the description of the component that reports codes of this family.
    pub fn description(self) -> &'static str {
        cause(self.page())
    }

    /// Returns all codes of the family.
    pub fn codes(self) -> impl Iterator<Item = Code> {
        Code::ALL.iter().copied().filter(move |code| code.family() == self)
    }
}

impl AsRef<str> for Code {
    fn as_ref(&self) -> &str {
        self.name()
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// Returns the text between the heading of a page and its first section.
fn cause(page: &str) -> &str {
    let text = page.split_once("\n\n").map_or(page, |(_, text)| text);
    text.split("\n## ").next().unwrap_or(text).trim()
}

/// Returns the text between `start` and `end`, or `None` if the page does not contain `start`. Without `end`, the text extends to
/// the end of the page.
fn section<'a>(page: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let (_, text) = page.split_once(start)?;
    Some(text.split_once(end).map_or(text, |(text, _)| text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_a_heading_and_a_cause() {
        for code in Code::ALL {
            assert!(code.page().starts_with(&format!("# {code}\n\n")), "{code}");
            assert!(
                Family::from_letters(code.name().trim_end_matches(|c: char| c.is_ascii_digit())).is_some(),
                "{code} has no family"
            );
            assert!(code.cause().len() > 10 && code.cause().ends_with('.'), "{code}: {}", code.cause());
            assert!(code.summary().len() <= code.cause().len());
            let section_count = code.page().matches("\n## ").count();
            assert_eq!(section_count, usize::from(code.example().is_some()) + usize::from(code.fix().is_some()), "{code}");
        }
        for family in Family::ALL {
            assert!(family.description().len() > 10 && family.codes().count() > 0, "{family:?}");
        }
    }

    #[test]
    fn a_page_is_divided_into_its_sections() {
        assert_eq!(Code::OPT002.fix(), Some("Add `--gpu-name=TARGET`. The note lists the targets."));
        assert_eq!(Code::OPT002.example(), Some("tile-lower-as k.aa"));
        assert_eq!(Code::OPT002.summary(), "No target was selected.");
        assert_eq!((Code::from_name("opt002"), Code::from_name("nothing")), (Some(Code::OPT002), None));
        assert_eq!(Code::OPT002.family(), Family::OPT);
    }
}
