//! The command-line grammar of LLVM's `cl` library. NVIDIA's tileiras uses it, and the clients of tileiras rely on it: long names
//! with one dash or two, values joined by `=` or in the next argument, grouped one-letter options, `-O` joined to its number,
//! response files, and suggestions for unknown options.

mod help;
mod response;
mod spec;

pub use help::Help;
pub use response::split_arguments;
pub use spec::{Section, Spec, Value, alias, immediate, option};

use base::nearest::edit_distance;
use std::path::Path;

/// A parsed command line.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    /// The options in the order of the command line, each with its value. Aliases appear under the name of their target.
    pub option_values: Vec<(&'static str, String)>,
    /// The arguments that are not options, such as input files.
    pub positional: Vec<String>,
    /// Error lines for standard error. If there is an error line, the run fails.
    pub errors: Vec<String>,
    /// The immediate option at which parsing ended, such as `--help`. See [`Spec::immediate`].
    pub immediate: Option<&'static str>,
    /// The names of the response files that were read, in order; a file that was read twice appears twice.
    pub response_files: Vec<String>,
}

impl Parsed {
    /// Returns the last value of an option. `None` if the option is absent.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.option_values.iter().rev().find(|(option, _)| *option == name).map(|(_, value)| value.as_str())
    }
    /// Returns the values of all occurrences of an option, in order.
    pub fn values_of<'a>(&'a self, name: &'static str) -> impl Iterator<Item = &'a str> {
        self.option_values.iter().filter(move |(option, _)| *option == name).map(|(_, value)| value.as_str())
    }
    /// Returns the last value of a Boolean option. False if the option is absent.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).and_then(parse_bool).unwrap_or(false)
    }
}

/// Returns the name of the program as invoked, and its arguments. Returns an error if an argument is not UTF-8, because file names
/// must appear unchanged in depfiles, commands and messages, which are UTF-8.
pub fn args() -> Result<(String, Vec<String>), String> {
    let mut args = std::env::args_os();
    let program = args.next().unwrap_or_default().to_string_lossy().into_owned();
    let to_text = |arg: std::ffi::OsString| arg.into_string().map_err(|arg| format!("argument {arg:?} is not UTF-8"));
    Ok((program, args.map(to_text).collect::<Result<_, _>>()?))
}

/// Parses the arguments. `program` is the name of the program as invoked.
pub fn parse(options: &'static [Spec], program: &str, args: &[String]) -> Parsed {
    let expanded = match response::expand(args) {
        Ok(expanded) => expanded,
        Err(message) => return Parsed { errors: vec![message], ..Parsed::default() },
    };
    let parsed = Parsed { response_files: expanded.response_files, ..Parsed::default() };
    let mut parser = Parser { options, program_name: file_name(program), program, args: expanded.args, next: 0, parsed };
    parser.run();
    parser.parsed
}

/// Returns the file name of a program's path, which is the prefix of messages.
pub fn file_name(program: &str) -> String {
    Path::new(program).file_name().map_or_else(|| program.to_string(), |name| name.to_string_lossy().into_owned())
}

/// The state of parsing a command line.
struct Parser<'a> {
    options: &'static [Spec],
    /// The file name of the program.
    program_name: String,
    /// The program as invoked.
    program: &'a str,
    args: Vec<String>,
    /// The index of the next argument.
    next: usize,
    parsed: Parsed,
}

impl Parser<'_> {
    /// Parses all arguments, up to an immediate option.
    fn run(&mut self) {
        let mut only_positional = false;
        while self.next < self.args.len() && self.parsed.immediate.is_none() {
            let arg = self.args[self.next].clone();
            self.next += 1;
            if only_positional || !arg.starts_with('-') || arg == "-" {
                self.parsed.positional.push(arg);
            } else if arg == "--" {
                only_positional = true;
            } else {
                self.parse_option(&arg);
            }
        }
    }

    /// Parses an argument that starts with a dash.
    fn parse_option(&mut self, arg: &str) {
        let without_dashes = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-')).unwrap_or(arg);
        if let Some((spec, value)) = find_exact(self.options, without_dashes) {
            return self.record(spec, value);
        }
        if let Err(unknown) = self.parse_group(without_dashes) {
            self.report_unknown(arg, unknown);
        }
    }

    /// Parses one-letter options without their dash: `O2`, and groups such as `gO0`. On failure, returns the part that is no
    /// option, or the option that may not occur in a group.
    fn parse_group<'w>(&mut self, group: &'w str) -> Result<(), &'w str> {
        let mut rest = group;
        while let Some(letter) = rest.chars().next() {
            let (name, after) = rest.split_at(letter.len_utf8());
            let Some(spec) = find(self.options, name).filter(|_| group.len() > 1) else { return Err(rest) };
            let value = if spec.joins_value() { Some(after) } else { after.strip_prefix('=') };
            if after.is_empty() || value.is_some() {
                self.record(spec, value.filter(|_| !after.is_empty()));
                return Ok(());
            }
            if spec.needs_value(self.options) {
                self.report_error(spec.name, "may not occur within a group!");
                return Err(name);
            }
            self.record(spec, None);
            if self.parsed.immediate.is_some() {
                return Ok(());
            }
            rest = after;
        }
        Err(rest)
    }

    /// Checks and records an option. `joined_value` is the value joined to the option; without it, an option that needs a value
    /// takes the next argument.
    fn record(&mut self, spec: &'static Spec, joined_value: Option<&str>) {
        let target = spec.target(self.options);
        let mut value = match (target.value, joined_value) {
            (Value::None, Some(value)) => {
                return self.report_error(spec.name, &format!("does not allow a value! '{value}' specified."));
            }
            (_, Some(value)) => value.to_string(),
            (_, None) if !spec.needs_value(self.options) => String::new(),
            (_, None) if spec.joins_value() || self.next >= self.args.len() => {
                return self.report_error(spec.name, "requires a value!");
            }
            (_, None) => {
                self.next += 1;
                self.args[self.next - 1].clone()
            }
        };
        let checked = match target.value {
            Value::Bool => {
                parse_bool(&value).map(|_| ()).ok_or_else(|| format!("'{value}' is invalid value for boolean argument! Try 0 or 1"))
            }
            Value::Integer => {
                parse_integer(&value).map(|_| ()).ok_or_else(|| format!("'{value}' value invalid for integer argument!"))
            }
            Value::Choice(choices) => {
                let is_choice = choices.iter().any(|(choice, _)| *choice == value);
                is_choice.then_some(()).ok_or_else(|| format!("Cannot find option named '{value}'!"))
            }
            Value::Target(_) => match base::Target::parse(&value) {
                Some(target) => {
                    value = target.name.into();
                    Ok(())
                }
                None => Err(format!("Cannot find option named '{value}'!")),
            },
            Value::Features(supported) => match value.split(',').find(|name| !supported.contains(name)) {
                Some(name) => Err(format!("unknown preview feature '{name}'; supported features: {}", supported.join(", "))),
                None => Ok(()),
            },
            Value::None | Value::Text | Value::OptionalText => Ok(()),
        };
        match checked {
            Err(message) => self.report_error(target.name, &message),
            Ok(()) if target.immediate && parse_bool(&value) != Some(false) => self.parsed.immediate = Some(target.name),
            Ok(()) => self.parsed.option_values.push((target.name, value)),
        }
    }

    /// Adds the error line for an option, in the wording of LLVM's `cl` library.
    fn report_error(&mut self, option: &str, message: &str) {
        let line = format!("{}: for the {} option: {message}", self.program_name, dashed(option));
        self.parsed.errors.push(line);
    }

    /// Reports an unknown argument. `unknown` is the part of the argument for which the message suggests an option.
    fn report_unknown(&mut self, arg: &str, unknown: &str) {
        let (name, program) = (&self.program_name, self.program);
        self.parsed.errors.push(format!("{name}: Unknown command line argument '{arg}'.  Try: '{program} --help'"));
        if let Some(suggestion) = suggest_option(self.options, unknown) {
            self.parsed.errors.push(format!("{name}: Did you mean '{suggestion}'?"));
        }
    }
}

/// Returns the message for more than one positional argument.
pub fn too_many_positional(program: &str) -> String {
    let name = file_name(program);
    format!("{name}: Too many positional arguments specified!\nCan specify at most 1 positional arguments: See: {program} --help\n")
}

/// Adds one dash to a one-letter option name, and two dashes to a longer one.
pub fn dashed(name: &str) -> String {
    if name.len() == 1 { format!("-{name}") } else { format!("--{name}") }
}

/// Returns the option or alias with this name. `None` if there is no such option.
fn find(options: &'static [Spec], name: &str) -> Option<&'static Spec> {
    options.iter().find(|spec| spec.name == name)
}

/// Splits an argument without dashes at `=`. Returns the option with this name and the value. `None` if no option has the name.
fn find_exact<'w>(options: &'static [Spec], argument: &'w str) -> Option<(&'static Spec, Option<&'w str>)> {
    match argument.split_once('=') {
        None => find(options, argument).map(|spec| (spec, None)),
        Some((name, value)) => find(options, name).filter(|spec| !spec.joins_value()).map(|spec| (spec, Some(value))),
    }
}

/// Returns the option with the smallest edit distance to an unknown argument without dashes. `None` if the distance is at least
/// half the length of the argument's name. NVIDIA's tileiras always suggests an option, even an unrelated one. An option of this
/// project is suggested only if its distance is smaller than that of all options of NVIDIA's tileiras.
fn suggest_option(options: &'static [Spec], argument: &str) -> Option<String> {
    let (name, value) = argument.split_once('=').unwrap_or((argument, ""));
    let candidates = options.iter().filter(|spec| !spec.extension).chain(options.iter().filter(|spec| spec.extension));
    let distance_to =
        |spec: &&'static Spec| edit_distance(spec.name, if spec.target(options).value == Value::None { argument } else { name });
    let best = candidates.min_by_key(distance_to).expect("the table has options");
    if distance_to(&best) * 2 >= name.chars().count() {
        return None;
    }
    let suggestion = match value.is_empty() || best.target(options).value == Value::None {
        true => best.name.to_string(),
        false => format!("{}={value}", best.name),
    };
    Some(dashed(&suggestion))
}

/// Parses a Boolean value. An empty text is true, because an option without a value has an empty text. `None` for another word.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "" | "true" | "TRUE" | "True" | "1" => Some(true),
        "false" | "FALSE" | "False" | "0" => Some(false),
        _ => None,
    }
}

/// Parses a signed 32-bit integer. A prefix selects the base, as in LLVM: `0x` selects 16, `0b` selects 2,
/// and `0o` or `0` selects 8. `None` if the text is not such an integer.
pub fn parse_integer(text: &str) -> Option<i32> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let strip_any = |prefixes: [&str; 2]| prefixes.iter().find_map(|prefix| digits.strip_prefix(prefix));
    let (base, digits) = if let Some(rest) = strip_any(["0x", "0X"]) {
        (16, rest)
    } else if let Some(rest) = strip_any(["0b", "0B"]) {
        (2, rest)
    } else if let Some(rest) = digits.strip_prefix("0o") {
        (8, rest)
    } else if digits.len() > 1 && digits.starts_with('0') && digits.as_bytes()[1].is_ascii_digit() {
        (8, &digits[1..])
    } else {
        (10, digits)
    };
    let only_digits = digits.chars().all(|c| c.is_digit(base));
    let value = i64::from_str_radix(digits, base).ok().filter(|_| only_digits)?;
    i32::try_from(if negative { -value } else { value }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    static OPTIONS: &[Spec] = &[
        alias("g", "device-debug", Section::Tool, ""),
        alias("o", "output-file", Section::Tool, ""),
        alias("O", "opt-level", Section::Tool, ""),
        alias("arch", "gpu-name", Section::Tool, ""),
        option("device-debug", Section::Tool, Value::Bool, "", ""),
        option("gpu-name", Section::Tool, Value::Choice(&[("sm_90", "")]), "", ""),
        option("opt-level", Section::Tool, Value::Integer, "", ""),
        option("output-file", Section::Tool, Value::Text, "", ""),
    ];

    fn parse_line(line: &str) -> Parsed {
        parse(OPTIONS, "x/tileiras", &response::split_arguments(line))
    }

    #[test]
    fn options_take_one_or_two_dashes_and_joined_or_separate_values() {
        for line in ["--gpu-name sm_90", "--gpu-name=sm_90", "-gpu-name sm_90", "-gpu-name=sm_90", "--arch=sm_90", "-arch sm_90"] {
            let parsed = parse_line(&format!("k.bc {line}"));
            assert_eq!((parsed.get("gpu-name"), parsed.positional.len(), parsed.errors.len()), (Some("sm_90"), 1, 0), "{line}");
        }
        assert_eq!(parse_line("-O2 --opt-level=0x1").get("opt-level"), Some("0x1"));
        assert!(parse_line("-gO0 -o a").flag("device-debug"));
        assert_eq!(parse_line("-- -k.bc").positional, ["-k.bc"]);
    }

    #[test]
    fn errors_have_the_texts_of_nvidias_tileiras() {
        assert_eq!(parse_line("-O 2").errors, ["tileiras: for the -O option: requires a value!"]);
        assert_eq!(parse_line("-O=2").errors, ["tileiras: for the --opt-level option: '=2' value invalid for integer argument!"]);
        let errors = parse_line("-oxyz").errors;
        assert_eq!(errors[0], "tileiras: for the -o option: may not occur within a group!");
        assert_eq!(errors[2], "tileiras: Did you mean '-o'?");
        assert_eq!(parse_line("--gpu-nam=sm_90").errors[1], "tileiras: Did you mean '--gpu-name=sm_90'?");
        assert_eq!((parse_line("--foo=bar").errors.len(), parse_line("--bar").errors.len()), (1, 1), "no option is similar");
    }

    #[test]
    fn a_prefix_selects_the_base_of_an_integer() {
        let integers = ["2", "0x2", "0b10", "0o2", "02", "-0", "+2", " 2", "", "08", "0", "99999999999"].map(parse_integer);
        assert_eq!(integers, [Some(2), Some(2), Some(2), Some(2), Some(2), Some(0), None, None, None, None, Some(0), None]);
    }
}
