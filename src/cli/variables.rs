//! `ACKLINE_*` variables that no command knows: a misspelt one would change nothing, and nobody would see why.

use clap::{Arg, Command, CommandFactory};

use crate::node::spelling;

/// What all variables of this program begin with.
const PREFIX: &str = "ACKLINE_";
/// Those that Kubernetes makes for a service named "ackline" are nobody's mistake.
const OF_SERVICES: [&str; 2] = ["ACKLINE_PORT", "ACKLINE_SERVICE_"];

/// A sentence for each variable of the environment that no command knows.
pub(super) fn strange() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    sentences(names)
}

fn sentences(names: impl Iterator<Item = String>) -> Vec<String> {
    let known = known();
    let is_strange = |name: &String| {
        name.starts_with(PREFIX)
            && !OF_SERVICES.iter().any(|begin| name.starts_with(begin))
            && !known.contains(name)
    };
    let mut sentences: Vec<String> = names
        .filter(is_strange)
        .map(|name| {
            let rest = name.strip_prefix(PREFIX).unwrap_or_default();
            let rests = known.iter().filter_map(|name| name.strip_prefix(PREFIX));
            let hint = match spelling::nearest(rest, rests, 1).first() {
                Some(nearest) => format!(": did you mean {PREFIX}{nearest}?"),
                None => String::new(),
            };
            format!("the variable {name} is not known and changes nothing{hint}")
        })
        .collect();
    sentences.sort();
    sentences
}

/// Every variable that some command knows.
fn known() -> Vec<String> {
    let command = super::Ackline::command();
    command
        .get_subcommands()
        .flat_map(Command::get_arguments)
        .filter_map(Arg::get_env)
        .filter_map(|name| name.to_str().map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FAULTS 108: a setting without effect is said, with the one that was meant.
    #[test]
    fn faults_108_a_misspelt_variable_is_named() {
        let names = [
            "PATH",
            "ACKLINE_SHARDS",
            "ACKLINE_UPSTREAM_TOKEN",
            "ACKLINE_PORT_7777_UDP_ADDR",
            "ACKLINE_SERVICE_HOST",
            "ACKLINE_SHARTS",
            "ACKLINE_WEATHER",
        ];
        assert_eq!(
            sentences(names.into_iter().map(str::to_owned)),
            [
                "the variable ACKLINE_SHARTS is not known and changes nothing: did you mean ACKLINE_SHARDS?",
                "the variable ACKLINE_WEATHER is not known and changes nothing"
            ]
        );
    }

    /// Every key of a configuration has its variable.
    #[test]
    fn every_setting_has_a_variable() {
        let known = known();
        for key in crate::node::settings::KEYS {
            assert!(
                known.contains(&format!("{PREFIX}{}", key.to_uppercase())),
                "{key}"
            );
        }
    }
}
