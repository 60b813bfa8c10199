//! Encodes payloads as bytes (`bincode`) or as RON. No other module uses `bincode`.

use serde::{Serialize, de::DeserializeOwned};

/// Maximum bytes of a payload. The decoder rejects longer payloads. Reason: a damaged length field could otherwise make the decoder
/// allocate much memory.
pub const SIZE_LIMIT: usize = 1 << 30;

fn config() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<SIZE_LIMIT>()
}

/// Encodes a value as bytes.
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    bincode::serde::encode_to_vec(value, config()).expect("encoding into memory fails only for types that serde cannot express")
}

/// Decodes a value that occupies all of `bytes`. The error is a message.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let (value, used) = bincode::serde::decode_from_slice(bytes, config()).map_err(|error| error.to_string())?;
    if used == bytes.len() { Ok(value) } else { Err(format!("{} bytes remain after the payload", bytes.len() - used)) }
}

/// Writes a value as RON with indentation.
pub fn to_ron<T: Serialize>(value: &T) -> String {
    let style = ron::ser::PrettyConfig::new().new_line("\n").indentor("  ").depth_limit(6);
    ron::ser::to_string_pretty(value, style).expect("every payload can be written as RON")
}

/// Reads a value from RON.
pub fn from_ron<T: DeserializeOwned>(text: &str) -> Result<T, ron::error::SpannedError> {
    ron::from_str(text)
}
