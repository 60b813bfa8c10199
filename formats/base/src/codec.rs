//! The one place that knows how a payload becomes bytes or RON. Swapping the binary codec means changing this file.

use serde::{Serialize, de::DeserializeOwned};

/// No file of the pipeline is larger; a length field that says so is a broken file.
pub const SIZE_LIMIT: usize = 1 << 30;

fn config() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<SIZE_LIMIT>()
}

pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    bincode::serde::encode_to_vec(value, config()).expect("encoding into memory fails only for types serde cannot express")
}

/// Decodes a value that must take up all of `bytes`.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let (value, used) = bincode::serde::decode_from_slice(bytes, config()).map_err(|error| error.to_string())?;
    if used == bytes.len() { Ok(value) } else { Err(format!("{} bytes are left over", bytes.len() - used)) }
}

pub fn to_ron<T: Serialize>(value: &T) -> String {
    let style = ron::ser::PrettyConfig::new().new_line("\n").indentor("  ").depth_limit(6);
    ron::ser::to_string_pretty(value, style).expect("every payload can be written as RON")
}

pub fn from_ron<T: DeserializeOwned>(text: &str) -> Result<T, ron::error::SpannedError> {
    ron::from_str(text)
}
