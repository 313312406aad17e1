//! The specification's vectors of playback and entities.

/// A vector.
pub(in crate::client::playback) fn vector(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

/// Seconds as microseconds.
pub(in crate::client::playback) fn micros(value: &serde_json::Value) -> u64 {
    (value.as_f64().unwrap() * 1e6).round() as u64
}
