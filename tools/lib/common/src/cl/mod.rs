//! The command-line grammar of LLVM's `cl` library, which NVIDIA's tileiras uses and its clients rely on: long names with one dash
//! or two, values joined by `=` or in the next argument, grouped one-letter options, `-O` joined to its number, response files, and
//! suggestions for unknown options.

mod help;
mod response;
mod spec;

pub use help::Help;
pub use response::split;
pub use spec::{Section, Spec, Value, alias, immediate, option};

use base::nearest::distance;
use std::path::Path;

/// A parsed command line.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    /// The options in order, under their full names.
    pub given: Vec<(&'static str, String)>,
    pub positional: Vec<String>,
    /// Error lines for standard error. If there are any, the run fails.
    pub errors: Vec<String>,
    /// The immediate option (such as `--help`) at which parsing ended.
    pub immediate: Option<&'static str>,
    /// The response files that were read.
    pub response_files: Vec<String>,
}

impl Parsed {
    /// The last value of an option.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.given.iter().rev().find(|(given, _)| *given == name).map(|(_, value)| value.as_str())
    }
    pub fn all<'a>(&'a self, name: &'static str) -> impl Iterator<Item = &'a str> {
        self.given.iter().filter(move |(given, _)| *given == name).map(|(_, value)| value.as_str())
    }
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).and_then(parse_bool).unwrap_or(false)
    }
}

/// The name of the program and its arguments. Fails if an argument is not UTF-8, because depfiles, commands and messages contain
/// file names unchanged.
pub fn args() -> Result<(String, Vec<String>), String> {
    let mut args = std::env::args_os();
    let program = args.next().unwrap_or_default().to_string_lossy().into_owned();
    let text = |arg: std::ffi::OsString| arg.into_string().map_err(|arg| format!("argument {arg:?} is not UTF-8"));
    Ok((program, args.map(text).collect::<Result<_, _>>()?))
}

/// Parses the arguments. `program` is the name of the program as invoked.
pub fn parse(options: &'static [Spec], program: &str, args: &[String]) -> Parsed {
    let expanded = match response::expand(args) {
        Ok(expanded) => expanded,
        Err(message) => return Parsed { errors: vec![message], ..Parsed::default() },
    };
    let parsed = Parsed { response_files: expanded.files, ..Parsed::default() };
    let mut parser = Parser { options, name: file_name(program), program, args: expanded.args, next: 0, parsed };
    parser.run();
    parser.parsed
}

/// The file name of the program, which is the prefix of messages.
pub fn file_name(program: &str) -> String {
    Path::new(program).file_name().map_or_else(|| program.to_string(), |name| name.to_string_lossy().into_owned())
}

struct Parser<'a> {
    options: &'static [Spec],
    name: String,
    program: &'a str,
    args: Vec<String>,
    next: usize,
    parsed: Parsed,
}

impl Parser<'_> {
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
                self.option(&arg);
            }
        }
    }

    fn option(&mut self, arg: &str) {
        let argument = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-')).unwrap_or(arg);
        if let Some((spec, value)) = find_exact(self.options, argument) {
            return self.record(spec, value);
        }
        if let Err(rest) = self.grouped(argument) {
            self.report_unknown(arg, rest);
        }
    }

    /// Parses `-O2` and groups such as `-gO0`. Returns the unknown rest on failure.
    fn grouped<'w>(&mut self, argument: &'w str) -> Result<(), &'w str> {
        let mut rest = argument;
        while let Some(letter) = rest.chars().next() {
            let (name, after) = rest.split_at(letter.len_utf8());
            let Some(spec) = find(self.options, name).filter(|_| argument.len() > 1) else { return Err(rest) };
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

    /// Records an option with its joined value, or with the next argument if it needs a value.
    fn record(&mut self, spec: &'static Spec, value: Option<&str>) {
        let target = spec.target(self.options);
        let mut value = match (target.value, value) {
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
        let accepted = match target.value {
            Value::Bool => {
                parse_bool(&value).map(|_| ()).ok_or_else(|| format!("'{value}' is invalid value for boolean argument! Try 0 or 1"))
            }
            Value::Integer => {
                parse_integer(&value).map(|_| ()).ok_or_else(|| format!("'{value}' value invalid for integer argument!"))
            }
            Value::Choice(choices) => {
                let known = choices.iter().any(|(choice, _)| *choice == value);
                known.then_some(()).ok_or_else(|| format!("Cannot find option named '{value}'!"))
            }
            Value::Target(_) => match base::Target::parse(&value) {
                Some(target) => {
                    value = target.name.into();
                    Ok(())
                }
                None => Err(format!("Cannot find option named '{value}'!")),
            },
            Value::Features(known) => match value.split(',').find(|name| !known.contains(name)) {
                Some(name) => Err(format!("unknown preview feature '{name}'; supported features: {}", known.join(", "))),
                None => Ok(()),
            },
            Value::None | Value::Text | Value::OptionalText => Ok(()),
        };
        match accepted {
            Err(message) => self.report_error(target.name, &message),
            Ok(()) if target.immediate && parse_bool(&value) != Some(false) => self.parsed.immediate = Some(target.name),
            Ok(()) => self.parsed.given.push((target.name, value)),
        }
    }

    fn report_error(&mut self, option: &str, message: &str) {
        let line = format!("{}: for the {} option: {message}", self.name, dashed(option));
        self.parsed.errors.push(line);
    }

    fn report_unknown(&mut self, arg: &str, argument: &str) {
        let (name, program) = (&self.name, self.program);
        self.parsed.errors.push(format!("{name}: Unknown command line argument '{arg}'.  Try: '{program} --help'"));
        if let Some(nearest) = nearest(self.options, argument) {
            self.parsed.errors.push(format!("{name}: Did you mean '{nearest}'?"));
        }
    }
}

/// The message for more than one positional argument.
pub fn too_many_positional(program: &str) -> String {
    let name = file_name(program);
    format!("{name}: Too many positional arguments specified!\nCan specify at most 1 positional arguments: See: {program} --help\n")
}

/// Adds one dash to a one-letter name, two dashes otherwise.
pub fn dashed(name: &str) -> String {
    if name.len() == 1 { format!("-{name}") } else { format!("--{name}") }
}

fn find(options: &'static [Spec], name: &str) -> Option<&'static Spec> {
    options.iter().find(|spec| spec.name == name)
}

/// The option with exactly this name, and the value after `=`.
fn find_exact<'w>(options: &'static [Spec], argument: &'w str) -> Option<(&'static Spec, Option<&'w str>)> {
    match argument.split_once('=') {
        None => find(options, argument).map(|spec| (spec, None)),
        Some((name, value)) => find(options, name).filter(|spec| !spec.joins_value()).map(|spec| (spec, Some(value))),
    }
}

/// The option with the smallest edit distance, if the distance is small. NVIDIA's tileiras always suggests an option, even an
/// unrelated one. An option of this project is suggested only if it is nearer than all of NVIDIA's options.
fn nearest(options: &'static [Spec], argument: &str) -> Option<String> {
    let (name, value) = argument.split_once('=').unwrap_or((argument, ""));
    let candidates = options.iter().filter(|spec| !spec.extension).chain(options.iter().filter(|spec| spec.extension));
    let distance =
        |spec: &&'static Spec| distance(spec.name, if spec.target(options).value == Value::None { argument } else { name });
    let best = candidates.min_by_key(distance).expect("the table has options");
    // Require that more than half of the letters match.
    if distance(&best) * 2 >= name.chars().count() {
        return None;
    }
    let suggested = match value.is_empty() || best.target(options).value == Value::None {
        true => best.name.to_string(),
        false => format!("{}={value}", best.name),
    };
    Some(dashed(&suggested))
}

pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "" | "true" | "TRUE" | "True" | "1" => Some(true),
        "false" | "FALSE" | "False" | "0" => Some(false),
        _ => None,
    }
}

/// Parses a 32-bit integer; a prefix selects the base.
pub fn parse_integer(text: &str) -> Option<i32> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let prefixed = |prefixes: [&str; 2]| prefixes.iter().find_map(|prefix| digits.strip_prefix(prefix));
    let (base, digits) = if let Some(rest) = prefixed(["0x", "0X"]) {
        (16, rest)
    } else if let Some(rest) = prefixed(["0b", "0B"]) {
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

    fn parsed(line: &str) -> Parsed {
        parse(OPTIONS, "x/tileiras", &response::split(line))
    }

    #[test]
    fn every_spelling_of_an_option() {
        for line in ["--gpu-name sm_90", "--gpu-name=sm_90", "-gpu-name sm_90", "-gpu-name=sm_90", "--arch=sm_90", "-arch sm_90"] {
            let parsed = parsed(&format!("k.bc {line}"));
            assert_eq!((parsed.get("gpu-name"), parsed.positional.len(), parsed.errors.len()), (Some("sm_90"), 1, 0), "{line}");
        }
        assert_eq!(parsed("-O2 --opt-level=0x1").get("opt-level"), Some("0x1"));
        assert!(parsed("-gO0 -o a").flag("device-debug"));
        assert_eq!(parsed("-- -k.bc").positional, ["-k.bc"]);
    }

    #[test]
    fn mistakes_are_named_as_the_reference_names_them() {
        assert_eq!(parsed("-O 2").errors, ["tileiras: for the -O option: requires a value!"]);
        assert_eq!(parsed("-O=2").errors, ["tileiras: for the --opt-level option: '=2' value invalid for integer argument!"]);
        let grouped = parsed("-oxyz").errors;
        assert_eq!(grouped[0], "tileiras: for the -o option: may not occur within a group!");
        assert_eq!(grouped[2], "tileiras: Did you mean '-o'?");
        assert_eq!(parsed("--gpu-nam=sm_90").errors[1], "tileiras: Did you mean '--gpu-name=sm_90'?");
        assert_eq!((parsed("--foo=bar").errors.len(), parsed("--bar").errors.len()), (1, 1), "nothing is near");
    }

    #[test]
    fn integers() {
        let read = ["2", "0x2", "0b10", "0o2", "02", "-0", "+2", " 2", "", "08", "0", "99999999999"].map(parse_integer);
        assert_eq!(read, [Some(2), Some(2), Some(2), Some(2), Some(2), Some(0), None, None, None, None, Some(0), None]);
    }
}
