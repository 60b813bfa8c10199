//! The choices that the options `--roles` and `--overlap` make, and the types for the reasons against warp roles.

use base::Envelope;

/// The reason why a function keeps a single role, or a single MMA warp.
pub(crate) type Reason = String;

/// `Ok` if two warp roles issue the tensor memory MMAs. Otherwise the reason why only one role issues them.
pub(crate) type Overlap = Result<(), Reason>;

/// Whether an option turns a feature, such as a producer warp, off (`Never`), leaves it to the compiler (`WherePays`), or forces it
/// where it is possible (`WherePossible`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FeatureChoice {
    Never,
    WherePays,
    WherePossible,
}

impl FeatureChoice {
    /// The value of `--roles`: whether the function may be split into warp roles.
    pub(crate) fn from_envelope(envelope: &Envelope) -> FeatureChoice {
        FeatureChoice::from_option(envelope.options.get("roles"))
    }
    /// Returns the choice for the value of an option: `on`, `off` or `auto`.
    fn from_option(word: Option<&str>) -> FeatureChoice {
        match word {
            Some("off") => FeatureChoice::Never,
            Some("on") => FeatureChoice::WherePossible,
            _ => FeatureChoice::WherePays,
        }
    }
}

/// The options for warp roles.
#[derive(Clone, Copy)]
pub(crate) struct RoleChoices {
    /// `--roles`: whether the function may be split into warp roles.
    pub(crate) roles: FeatureChoice,
    /// `--overlap`: whether two roles may issue tensor memory MMAs.
    pub(crate) overlap: FeatureChoice,
}

impl RoleChoices {
    pub(crate) fn from_envelope(envelope: &Envelope) -> RoleChoices {
        let overlap = FeatureChoice::from_option(envelope.options.get("overlap"));
        RoleChoices { roles: FeatureChoice::from_envelope(envelope), overlap }
    }
}
