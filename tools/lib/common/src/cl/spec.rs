//! What an option of such a command line is.

/// What an option takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    None,
    /// May be given alone, for true.
    Bool,
    Integer,
    Text,
    /// May be given alone; takes a value only joined by `=`.
    OptionalText,
    Choice(&'static [(&'static str, &'static str)]),
    /// A name of a GPU target; listed are those without a suffix. The value is the listed name.
    Target(&'static [(&'static str, &'static str)]),
    /// One or more of these names, with commas between.
    Features(&'static [&'static str]),
}

/// Where `--help` lists an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    Generic,
    /// Generic, but listed only by the `-hidden` forms of help.
    Hidden,
    /// What the tool itself is about.
    Tool,
    Remarks,
    Extension,
    /// Listed nowhere.
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
    /// Carried out as soon as it is met.
    pub immediate: bool,
    /// Not an option of the reference.
    pub extension: bool,
}

impl Spec {
    /// The option that an alias stands for, else the option itself.
    pub fn target(&'static self, options: &'static [Spec]) -> &'static Spec {
        self.alias_of.and_then(|name| options.iter().find(|spec| spec.name == name)).unwrap_or(self)
    }
    pub(crate) fn needs_value(&'static self, options: &'static [Spec]) -> bool {
        matches!(
            self.target(options).value,
            Value::Integer | Value::Text | Value::Choice(_) | Value::Target(_) | Value::Features(_)
        )
    }
    /// Takes its value only joined to it, as `-O2`.
    pub(crate) fn joins_value(&self) -> bool {
        self.name == "O"
    }
}

/// An option; those of [`Section::Extension`] are not the reference's.
pub const fn option(name: &'static str, section: Section, value: Value, placeholder: &'static str, help: &'static str) -> Spec {
    let extension = matches!(section, Section::Extension);
    Spec { name, alias_of: None, value, placeholder, help, section, immediate: false, extension }
}

/// Another name for an option.
pub const fn alias(name: &'static str, alias_of: &'static str, section: Section, help: &'static str) -> Spec {
    Spec { alias_of: Some(alias_of), ..option(name, section, Value::None, "", help) }
}

/// Makes an option one that is carried out as soon as it is met.
pub const fn immediate(spec: Spec) -> Spec {
    Spec { immediate: true, ..spec }
}
