//! The output of `--help`, `--help-hidden`, `--help-list` and `--help-list-hidden`.

use super::{Section, Spec, Value, dashed};
use std::fmt::Write as _;

/// The help text of a tool, and the options that it lists.
pub struct Help {
    pub options: &'static [Spec],
    /// The lines before the options.
    pub overview: &'static str,
    /// The headings in order, each with the section whose options follow it.
    pub headings: &'static [(&'static str, Section)],
    /// The text after the options.
    pub footer: &'static str,
}

impl Help {
    /// Returns the text that an option prints: one of the four help options, by its name without dashes. Any other name selects
    /// `--help`.
    pub fn text(&self, option: &str) -> String {
        match option {
            "help-list" => self.list(false),
            "help-list-hidden" => self.list(true),
            "help-hidden" => self.grouped_options(true),
            _ => self.grouped_options(false),
        }
    }

    /// Returns the options, grouped by heading. With `include_hidden`, [`Section::Generic`] also lists the hidden options.
    fn grouped_options(&self, include_hidden: bool) -> String {
        let mut out = self.overview.to_string();
        for (heading, section) in self.headings {
            let with_hidden = include_hidden && *section == Section::Generic;
            let is_listed = |spec: &&Spec| spec.section == *section || with_hidden && spec.section == Section::Hidden;
            let _ = write!(out, "\n{heading}\n{}", self.option_rows(is_listed));
        }
        out + self.footer
    }

    /// Returns the options in one list, sorted by name. With `include_hidden`, the list has the hidden options too.
    pub fn list(&self, include_hidden: bool) -> String {
        let is_listed = |spec: &&Spec| spec.section != Section::Secret && (include_hidden || spec.section != Section::Hidden);
        format!("{}{}\n", self.overview, self.option_rows(is_listed))
    }

    /// One line per listed option, sorted by name, and one line per choice of its value. The options of NVIDIA's tileiras determine
    /// the width of the first column.
    fn option_rows(&self, is_listed: impl Fn(&&Spec) -> bool) -> String {
        let reference_options =
            self.options.iter().filter(|spec| !spec.extension && !matches!(spec.section, Section::Hidden | Section::Secret));
        let width = reference_options.map(|spec| name_with_placeholder(spec).len()).max().unwrap_or(0) + 1;
        let mut specs: Vec<&Spec> = self.options.iter().filter(is_listed).collect();
        specs.sort_by_key(|spec| spec.name);
        let mut out = String::new();
        for spec in specs {
            let _ = writeln!(out, "{:width$}- {}", name_with_placeholder(spec) + " ", spec.help);
            if let Value::Choice(choices) | Value::Target(choices) = spec.value {
                for (choice, help) in choices {
                    let _ = writeln!(out, "{:width$}-   {help}", format!("    ={choice}"));
                }
            }
        }
        out
    }
}

/// Returns an option with its dashes and the placeholder of its value, as help prints it.
fn name_with_placeholder(spec: &Spec) -> String {
    let placeholder = match spec.value {
        Value::OptionalText => format!("[=<{}>]", spec.placeholder),
        _ if spec.placeholder.is_empty() => String::new(),
        _ if spec.name.len() == 1 => format!(" <{}>", spec.placeholder),
        _ => format!("=<{}>", spec.placeholder),
    };
    format!("  {}{placeholder}", dashed(spec.name))
}
