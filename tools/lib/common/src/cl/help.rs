//! The output of `--help`, `--help-hidden`, `--help-list` and `--help-list-hidden`.

use super::{Section, Spec, Value, dashed};
use std::fmt::Write as _;

/// The help of a tool.
pub struct Help {
    pub options: &'static [Spec],
    /// The first lines, up to the options.
    pub overview: &'static str,
    /// Heading and section, in order.
    pub headings: &'static [(&'static str, Section)],
    /// The text after the options.
    pub footer: &'static str,
}

impl Help {
    /// The text of a help option; the text of `--help` for any other option.
    pub fn text(&self, option: &str) -> String {
        match option {
            "help-list" => self.list(false),
            "help-list-hidden" => self.list(true),
            "help-hidden" => self.sections(true),
            _ => self.sections(false),
        }
    }

    /// The options, grouped by heading.
    fn sections(&self, hidden: bool) -> String {
        let mut out = self.overview.to_string();
        for (heading, section) in self.headings {
            let with_hidden = hidden && *section == Section::Generic;
            let listed = |spec: &&Spec| spec.section == *section || with_hidden && spec.section == Section::Hidden;
            let _ = write!(out, "\n{heading}\n{}", self.rows(listed));
        }
        out + self.footer
    }

    /// The options in one list.
    pub fn list(&self, hidden: bool) -> String {
        let listed = |spec: &&Spec| spec.section != Section::Secret && (hidden || spec.section != Section::Hidden);
        format!("{}{}\n", self.overview, self.rows(listed))
    }

    fn rows(&self, listed: impl Fn(&&Spec) -> bool) -> String {
        let reference_options =
            self.options.iter().filter(|spec| !spec.extension && !matches!(spec.section, Section::Hidden | Section::Secret));
        let width = reference_options.map(|spec| name(spec).len()).max().unwrap_or(0) + 1;
        let mut specs: Vec<&Spec> = self.options.iter().filter(listed).collect();
        specs.sort_by_key(|spec| spec.name);
        let mut out = String::new();
        for spec in specs {
            let _ = writeln!(out, "{:width$}- {}", name(spec) + " ", spec.help);
            if let Value::Choice(choices) | Value::Target(choices) = spec.value {
                for (choice, help) in choices {
                    let _ = writeln!(out, "{:width$}-   {help}", format!("    ={choice}"));
                }
            }
        }
        out
    }
}

/// An option with its value placeholder, as listed.
fn name(spec: &Spec) -> String {
    let value = match spec.value {
        Value::OptionalText => format!("[=<{}>]", spec.placeholder),
        _ if spec.placeholder.is_empty() => String::new(),
        _ if spec.name.len() == 1 => format!(" <{}>", spec.placeholder),
        _ => format!("=<{}>", spec.placeholder),
    };
    format!("  {}{value}", dashed(spec.name))
}
