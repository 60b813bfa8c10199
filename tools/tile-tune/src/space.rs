//! The space of a search: options of `tileiras` with the values to try.

use base::diag::{Diagnostic, Result};

/// The value in `--space` for which the search does not pass the option, so that the compiler decides.
const DEFAULT_VALUE: &str = "default";

/// The options and values that a search without `--space` tries. They override decisions of the compiler, and apply to most
/// kernels.
const DEFAULT_SPACE: &[(&str, &[&str])] = &[
    ("warps", &["4", "8", "16"]),
    ("occupancy", &["1", "2", "3"]),
    ("stages", &["2", "3", "4", "5"]),
    ("tma", &["on", "off"]),
    ("prefetch", &["on", "off"]),
    ("roles", &["on", "off"]),
    ("split-m", &["on", "off"]),
    ("overlap", &["on", "off"]),
    ("mma", &["mma"]),
];

/// An option and the values to try. A search also tries the option without a value, so that the compiler decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dimension {
    pub(crate) option: String,
    pub(crate) values: Vec<String>,
}

impl Dimension {
    /// Parses `OPTION=VALUE,VALUE,..`.
    pub(crate) fn parse(text: &str) -> std::result::Result<Dimension, String> {
        let (option, values) = text.split_once('=').ok_or("expected OPTION=VALUE,VALUE,..")?;
        let option = option.trim_start_matches('-');
        let is_name = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        let values: Vec<String> = values.split(',').filter(|value| *value != DEFAULT_VALUE).map(String::from).collect();
        match is_name(option) && values.iter().all(|value| is_name(value)) {
            true => Ok(Dimension { option: option.into(), values }),
            false => Err("option names and values have letters, digits, '-', '_' and '.'".into()),
        }
    }

    /// Returns the command-line argument that gives the option a value.
    fn option_argument(&self, value: &str) -> String {
        format!("--{}={value}", self.option)
    }

    /// Returns the options of a candidate with `value` for this dimension. If `value` is `None`, the option is absent.
    fn with_value(&self, options: &[String], value: Option<&str>) -> Vec<String> {
        let prefix = self.option_argument("");
        let other_options = options.iter().filter(|option| !option.starts_with(&prefix)).cloned();
        other_options.chain(value.map(|value| self.option_argument(value))).collect()
    }

    /// Returns the candidates that differ from `options` in this dimension only.
    pub(crate) fn variants(&self, options: &[String]) -> Vec<Vec<String>> {
        let values = [None].into_iter().chain(self.values.iter().map(|value| Some(value.as_str())));
        values.map(|value| self.with_value(options, value)).collect()
    }
}

/// Parses `OPTION=VALUE`. Returns the argument for `tileiras`.
pub(crate) fn parse_fixed(text: &str) -> std::result::Result<String, String> {
    let Dimension { option, values } = Dimension::parse(text)?;
    match &values[..] {
        [value] => Ok(format!("--{option}={value}")),
        _ => Err("expected OPTION=VALUE".into()),
    }
}

/// The options to vary, with their values.
pub(crate) struct Space {
    pub(crate) dimensions: Vec<Dimension>,
}

impl Space {
    /// Returns the space that `--space` requests, or else the default space. Options in `fixed` (`--with`) are not varied.
    pub(crate) fn new(requested: &[Dimension], fixed: &[String]) -> Result<Space> {
        let is_fixed = |option: &str| fixed.iter().any(|argument| argument.starts_with(&format!("--{option}=")));
        let name = |argument: &str| argument.split_once('=').map_or(argument, |(name, _)| name).to_string();
        for (index, argument) in fixed.iter().enumerate() {
            if fixed[..index].iter().any(|other| name(other) == name(argument)) {
                let message = format!("--with has the option '{}' twice", name(argument).trim_start_matches('-'));
                return Err(Diagnostic::usage("TUN003", message));
            }
        }
        for (index, dimension) in requested.iter().enumerate() {
            if requested[..index].iter().any(|other| other.option == dimension.option) {
                return Err(Diagnostic::usage("TUN003", format!("--space has the option '{}' twice", dimension.option)));
            }
            if is_fixed(&dimension.option) {
                return Err(Diagnostic::usage("TUN003", format!("--space and --with have the option '{}'", dimension.option)));
            }
        }
        if !requested.is_empty() {
            return Ok(Space { dimensions: requested.to_vec() });
        }
        let dimension = |(option, values): &(&str, &[&str])| Dimension {
            option: (*option).into(),
            values: values.iter().map(|value| (*value).into()).collect(),
        };
        Ok(Space { dimensions: DEFAULT_SPACE.iter().filter(|(option, _)| !is_fixed(option)).map(dimension).collect() })
    }

    /// Returns the number of combinations of values. Each option can also be absent.
    pub(crate) fn combinations(&self) -> u64 {
        self.dimensions.iter().fold(1, |product, dimension| product.saturating_mul(dimension.values.len() as u64 + 1))
    }

    /// Returns all combinations of values, as lists of options.
    pub(crate) fn all_candidates(&self) -> Vec<Vec<String>> {
        let extend = |candidates: Vec<Vec<String>>, dimension: &Dimension| {
            candidates.iter().flat_map(|options| dimension.variants(options)).collect()
        };
        self.dimensions.iter().fold(vec![Vec::new()], extend)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).into()).collect()
    }

    #[test]
    fn a_dimension_is_an_option_and_its_values() {
        let dimension = Dimension::parse("stages=default,2,3").unwrap();
        assert_eq!(dimension, Dimension { option: "stages".into(), values: strings(&["2", "3"]) });
        assert_eq!(Dimension::parse("--split-m=on").unwrap().option, "split-m");
        for wrong in ["stages", "=2", "stages=", "o=/etc/passwd,1", "stages=2,,3", "a b=1"] {
            assert!(Dimension::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_variant_replaces_the_value_of_its_option() {
        let dimension = Dimension::parse("warps=4,8").unwrap();
        let variants = dimension.variants(&strings(&["--warps=4", "--tma=off"]));
        assert_eq!(variants, [strings(&["--tma=off"]), strings(&["--tma=off", "--warps=4"]), strings(&["--tma=off", "--warps=8"])]);
    }

    #[test]
    fn a_space_lists_all_combinations_and_rejects_a_repeated_option() {
        let space = Space::new(&[Dimension::parse("warps=4,8").unwrap(), Dimension::parse("tma=off").unwrap()], &[]).unwrap();
        assert_eq!(space.combinations(), 6);
        let all = space.all_candidates();
        assert_eq!((all.len(), &all[0], &all[5]), (6, &strings(&[]), &strings(&["--warps=8", "--tma=off"])));
        assert!(Space::new(&[Dimension::parse("warps=4").unwrap(), Dimension::parse("warps=8").unwrap()], &[]).is_err());
        assert!(Space::new(&[Dimension::parse("warps=4").unwrap()], &strings(&["--warps=8"])).is_err());
        assert!(Space::new(&[], &strings(&["--warps=8", "--tma=on", "--warps=4"])).is_err());
        let space = Space::new(&[], &strings(&["--warps=8"])).unwrap();
        assert!(space.dimensions.iter().all(|dimension| dimension.option != "warps"));
    }
}
