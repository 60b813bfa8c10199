//! The specification of a command-line option.

/// The kind of value that an option takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    None,
    /// The value is optional. Without a value, the option is true.
    Bool,
    Integer,
    Text,
    /// The value is optional and must be joined by `=`.
    OptionalText,
    /// One of the listed values. Each has its line of help.
    Choice(&'static [(&'static str, &'static str)]),
    /// The name of a GPU target, with or without an architecture suffix. Help lists these names, each with its line of help. The
    /// recorded value has no suffix.
    Target(&'static [(&'static str, &'static str)]),
    /// A comma-separated list of these names.
    Features(&'static [&'static str]),
}

/// The section of `--help` that lists an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Options that LLVM's `cl` library gives every program.
    Generic,
    /// A generic option that only `--help-hidden` and `--help-list-hidden` list.
    Hidden,
    /// The tool's main options.
    Tool,
    /// Options that select optimization remarks.
    Remarks,
    /// Options that NVIDIA's tileiras lacks.
    Extension,
    /// Never listed.
    Secret,
}

/// An option, or an alias of an option.
#[derive(Debug)]
pub struct Spec {
    /// The name without dashes.
    pub name: &'static str,
    /// The name of the option for which this name stands.
    pub alias_of: Option<&'static str>,
    pub value: Value,
    /// The word for the value in the help text, without angle brackets.
    pub placeholder: &'static str,
    pub help: &'static str,
    pub section: Section,
    /// Whether parsing ends at the option, as at `--help`, unless its value is false. Later arguments then have no effect.
    pub immediate: bool,
    /// Whether NVIDIA's tileiras lacks the option.
    pub extension: bool,
}

impl Spec {
    /// Returns the option for which an alias stands. For an option that is no alias, the option itself.
    pub fn target(&'static self, options: &'static [Spec]) -> &'static Spec {
        self.alias_of.and_then(|name| options.iter().find(|spec| spec.name == name)).unwrap_or(self)
    }
    /// Returns whether the option, or the target of the alias, requires a value.
    pub(crate) fn needs_value(&'static self, options: &'static [Spec]) -> bool {
        matches!(
            self.target(options).value,
            Value::Integer | Value::Text | Value::Choice(_) | Value::Target(_) | Value::Features(_)
        )
    }
    /// Returns whether the value must follow the name directly, as in `-O2`.
    pub(crate) fn joins_value(&self) -> bool {
        self.name == "O"
    }
}

/// Creates an option. NVIDIA's tileiras lacks the options of [`Section::Extension`].
pub const fn option(name: &'static str, section: Section, value: Value, placeholder: &'static str, help: &'static str) -> Spec {
    let extension = matches!(section, Section::Extension);
    Spec { name, alias_of: None, value, placeholder, help, section, immediate: false, extension }
}

/// Creates an alias of an option.
pub const fn alias(name: &'static str, alias_of: &'static str, section: Section, help: &'static str) -> Spec {
    Spec { alias_of: Some(alias_of), ..option(name, section, Value::None, "", help) }
}

/// Returns the option with [`Spec::immediate`] set.
pub const fn immediate(spec: Spec) -> Spec {
    Spec { immediate: true, ..spec }
}
