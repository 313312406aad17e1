//! A view in a file: the text that the flag takes.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::state::view::View;

#[allow(clippy::ref_option)] // serde's signature.
pub(super) fn serialize<S: Serializer>(view: &Option<View>, serializer: S) -> Result<S::Ok, S::Error> {
    view.map(|view| view.to_string()).serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<View>, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.parse() {
        Ok(view) => Ok(Some(view)),
        Err(_) => Err(serde::de::Error::custom(format_args!("{text:?} is no view"))),
    }
}
