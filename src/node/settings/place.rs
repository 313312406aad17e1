//! Where settings were given: a flag, a variable, a line of the file. What is wrong with one is said with that.

use std::collections::BTreeMap;

use super::{KEYS, PartialSettings};

/// A refused setting: where it was given, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {fault}")]
pub struct SettingsError {
    /// The file and line, the flag or the variable.
    pub place: String,
    /// What is wrong, the bound and the way out.
    pub fault: String,
}

/// A setting that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OutOfBounds {
    pub(super) key: &'static str,
    pub(super) fault: String,
}

impl OutOfBounds {
    /// The same with its place.
    pub(super) fn at(self, places: &Places) -> SettingsError {
        SettingsError {
            place: places.of(self.key),
            fault: self.fault,
        }
    }
}

/// Where each setting that was given was given last. Settings that differ in this alone are the same.
#[derive(Clone, Debug, Default)]
pub struct Places(BTreeMap<&'static str, String>);

impl PartialEq for Places {
    fn eq(&self, _: &Places) -> bool {
        true
    }
}

impl Eq for Places {}

impl Places {
    /// The place of a key: where it can be given, where it was not.
    #[must_use]
    pub fn of(&self, key: &str) -> String {
        let known = self.0.get(key).cloned();
        known.unwrap_or_else(|| format!("{} or {}", flag_of(key), variable_of(key)))
    }

    /// Whether it was given, rather than left at its default.
    #[must_use]
    pub fn is_given(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// Notes what a file of this name and text gives.
    pub(super) fn note_file(&mut self, given: &PartialSettings, name: &str, text: &str) {
        for key in given.keys() {
            let is_key = |line: &str| {
                let said = line.split('=').next().unwrap_or_default();
                said.trim().trim_matches(['"', '\'']) == key
            };
            let place = match text.lines().position(is_key) {
                Some(line) => format!("{name}, line {}", line + 1),
                None => name.to_owned(),
            };
            self.0.insert(key, place);
        }
    }

    /// Notes what flags and variables give.
    pub(super) fn note_flags(&mut self, given: &PartialSettings) {
        for key in given.keys() {
            let place = match &given.flags {
                Some(flags) if flags.contains(&key) => flag_of(key),
                Some(_) => variable_of(key),
                None => format!("{} or {}", flag_of(key), variable_of(key)),
            };
            self.0.insert(key, place);
        }
    }
}

fn flag_of(key: &str) -> String {
    format!("--{}", key.replace('_', "-"))
}

fn variable_of(key: &str) -> String {
    format!("ACKLINE_{}", key.to_uppercase())
}

impl PartialSettings {
    /// Notes which of these were given as flags, by the words of the command line; the rest are variables.
    pub fn note_words(&mut self, words: impl Iterator<Item = String>) {
        let said: Vec<String> = words
            .filter_map(|word| word.split('=').next().map(str::to_owned))
            .collect();
        let is_flag = |key: &&str| said.contains(&flag_of(key));
        self.flags = Some(KEYS.into_iter().filter(is_flag).collect());
    }

    /// The keys that are given here.
    fn keys(&self) -> Vec<&'static str> {
        // What cannot be written as a table has no keys; all of these can.
        let table = toml::Table::try_from(self).unwrap_or_default();
        KEYS.into_iter().filter(|key| table.contains_key(*key)).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// FAULTS 108: a value is refused with the place that gave it, of three.
    #[test]
    fn faults_108_each_setting_has_the_place_that_gave_it() {
        let text = "shards = 2\n\"audience\" = \"eu\"\nadmin_token = \"x\"\n";
        let file = PartialSettings::parse("relay.toml", text).unwrap();
        let mut flags = PartialSettings {
            shards: Some(3),
            log: Some("info".to_owned()),
            ..PartialSettings::default()
        };
        let mut places = Places::default();
        places.note_file(&file, "relay.toml", text);
        assert_eq!(places.of("shards"), "relay.toml, line 1");
        flags.note_words(
            ["relay", "--shards=3", "--audience-x"]
                .map(str::to_owned)
                .into_iter(),
        );
        places.note_flags(&flags);
        for (key, place) in [
            ("shards", "--shards"),
            ("log", "ACKLINE_LOG"),
            ("audience", "relay.toml, line 2"),
            ("admin_token", "relay.toml, line 3"),
            ("sessions_max", "--sessions-max or ACKLINE_SESSIONS_MAX"),
        ] {
            assert_eq!(places.of(key), place);
            assert_eq!(places.is_given(key), key != "sessions_max");
        }
    }
}
