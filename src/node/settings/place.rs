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
pub struct Places {
    given: BTreeMap<&'static str, String>,
    /// Keys whose line in the file says another thing than what holds, with that line's place.
    beaten: BTreeMap<&'static str, String>,
}

impl PartialEq for Places {
    fn eq(&self, _: &Places) -> bool {
        true
    }
}

impl Eq for Places {}

impl Places {
    /// The place of a key. Where it was not given nobody is to look for it.
    #[must_use]
    pub fn of(&self, key: &str) -> String {
        let known = self.given.get(key).cloned();
        known.unwrap_or_else(|| format!("{key} by default"))
    }

    /// A sentence for each line of the file that changes nothing, because a flag or a variable says another thing.
    #[must_use]
    pub fn beaten(&self) -> Vec<String> {
        let say =
            |(key, line): (&&'static str, &String)| format!("{key} in {line} is beaten by {}", self.of(key));
        self.beaten.iter().map(say).collect()
    }

    /// Whether it was given, rather than left at its default.
    #[must_use]
    pub fn is_given(&self, key: &str) -> bool {
        self.given.contains_key(key)
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
            self.given.insert(key, place);
        }
    }

    /// Notes which keys of the file say another thing than flags and variables, after both were noted. Two secrets are taken for
    /// two.
    pub(super) fn note_beaten(&mut self, file: &PartialSettings, flags: &PartialSettings, lines: &Places) {
        let table = |given: &PartialSettings| toml::Table::try_from(given).unwrap_or_default();
        let (file, flags) = (table(file), table(flags));
        for key in KEYS {
            if let (Some(said), Some(holds), Some(line)) =
                (file.get(key), flags.get(key), lines.given.get(key))
                && (said != holds || key.ends_with("_token"))
            {
                self.beaten.insert(key, line.clone());
            }
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
            self.given.insert(key, place);
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
            ("sessions_max", "sessions_max by default"),
        ] {
            assert_eq!(places.of(key), place);
            assert_eq!(places.is_given(key), key != "sessions_max");
        }
    }

    /// FAULTS 108: a line of the file that changes nothing is named with what beats it; one that agrees is not.
    #[test]
    fn faults_108_a_line_that_a_flag_or_variable_beats_is_named() {
        let text = "shards = 2\nlog = \"debug\"\naudience = \"eu\"\nadmin_token = \"x\"\n";
        let file = PartialSettings::parse("relay.toml", text).unwrap();
        let mut flags = PartialSettings {
            shards: Some(3),
            log: Some("info".to_owned()),
            audience: Some("eu".to_owned()),
            admin_token: Some("y".into()),
            sessions_max: Some(7),
            ..PartialSettings::default()
        };
        flags.note_words(["--shards".to_owned()].into_iter());
        let mut places = Places::default();
        places.note_file(&file, "relay.toml", text);
        let lines = places.clone();
        places.note_flags(&flags);
        places.note_beaten(&file, &flags, &lines);
        assert_eq!(
            places.beaten(),
            [
                "admin_token in relay.toml, line 4 is beaten by ACKLINE_ADMIN_TOKEN",
                "log in relay.toml, line 2 is beaten by ACKLINE_LOG",
                "shards in relay.toml, line 1 is beaten by --shards",
            ]
        );
    }
}
