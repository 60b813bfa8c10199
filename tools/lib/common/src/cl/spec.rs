//! The specification of an option.

/// The kind of value that an option takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    None,
    /// The value is optional; true without a value.
    Bool,
    Integer,
    Text,
    /// The value is optional and must be joined by `=`.
    OptionalText,
    Choice(&'static [(&'static str, &'static str)]),
    /// The name of a GPU target. The list has the names without a suffix, and the value is the listed name.
    Target(&'static [(&'static str, &'static str)]),
    /// A comma-separated list of these names.
    Features(&'static [&'static str]),
}

/// The section of `--help` that lists an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    Generic,
    /// Generic, but listed by the `-hidden` forms of help only.
    Hidden,
    /// The tool's main options.
    Tool,
    Remarks,
    Extension,
    /// Never listed.
    Secret,
}

#[derive(Debug)]
pub struct Spec {
    pub name: &'static str,
    pub alias_of: Option<&'static str>,
    pub value: Value,
    pub placeholder: &'static str,
    pub help: &'static str,
    pub section: Section,
    /// Takes effect during parsing, before later arguments.
    pub immediate: bool,
    /// Not an option of NVIDIA's tileiras.
    pub extension: bool,
}

impl Spec {
    /// The target of an alias, else the option itself.
    pub fn target(&'static self, options: &'static [Spec]) -> &'static Spec {
        self.alias_of.and_then(|name| options.iter().find(|spec| spec.name == name)).unwrap_or(self)
    }
    pub(crate) fn needs_value(&'static self, options: &'static [Spec]) -> bool {
        matches!(
            self.target(options).value,
            Value::Integer | Value::Text | Value::Choice(_) | Value::Target(_) | Value::Features(_)
        )
    }
    /// Whether the value must be joined to the option, as in `-O2`.
    pub(crate) fn joins_value(&self) -> bool {
        self.name == "O"
    }
}

/// An option. Options of [`Section::Extension`] do not exist in NVIDIA's tileiras.
pub const fn option(name: &'static str, section: Section, value: Value, placeholder: &'static str, help: &'static str) -> Spec {
    let extension = matches!(section, Section::Extension);
    Spec { name, alias_of: None, value, placeholder, help, section, immediate: false, extension }
}

/// An alias of an option.
pub const fn alias(name: &'static str, alias_of: &'static str, section: Section, help: &'static str) -> Spec {
    Spec { alias_of: Some(alias_of), ..option(name, section, Value::None, "", help) }
}

/// Marks an option as immediate.
pub const fn immediate(spec: Spec) -> Spec {
    Spec { immediate: true, ..spec }
}
