//! The command line's grammar, and what is wrong with a line in one sentence: the flag, the value, the bound.

use std::any::TypeId;
use std::error::Error;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory};

/// The whole grammar.
pub(super) fn command() -> Command {
    super::Ackline::command().mut_subcommands(|command| command.mut_args(take_signs))
}

/// A flag for a number takes what begins with a minus as its value, so that it is refused with the bound.
fn take_signs(argument: Arg) -> Arg {
    let kind = argument.get_value_parser().type_id();
    let numbers = [
        TypeId::of::<f64>(),
        TypeId::of::<(f64, f64)>(),
        TypeId::of::<u64>(),
        TypeId::of::<usize>(),
    ];
    let is_number = numbers.iter().any(|number| kind == *number);
    if is_number && argument.get_long().is_some() && argument.get_action().takes_values() {
        argument.allow_hyphen_values(true)
    } else {
        argument
    }
}

/// A refused value in one sentence; `None` for what clap says better.
pub(super) fn sentence(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let argument = text(ContextKind::InvalidArg)?;
    // `--flag <VALUE>` or, where it may stand without, `--flag[=<VALUE>]`.
    let flag = argument.split([' ', '[']).next().unwrap_or(argument);
    let value = match text(ContextKind::InvalidValue)? {
        "" => "''",
        value => value,
    };
    let given = std::env::args().any(|word| word.split('=').next() == Some(flag));
    let variable = variable_of(flag).filter(|_| !given);
    let wish = match error.kind() {
        ErrorKind::ValueValidation => match error.source()?.to_string() {
            wish if wish == "invalid socket address syntax" => {
                "give an IP address and a port, such as 127.0.0.1:7700".to_owned()
            }
            wish => wish,
        },
        // Of a flag clap says it well; a variable it takes for one that nobody gave.
        ErrorKind::InvalidValue if variable.is_some() => match error.get(ContextKind::ValidValue) {
            Some(ContextValue::Strings(words)) if !words.is_empty() => format!("give {}", words.join(" or ")),
            _ => "give a value, or leave the variable out".to_owned(),
        },
        _ => return None,
    };
    let place = variable.unwrap_or_else(|| flag.to_owned());
    Some(format!("{place} {value}: {wish}"))
}

/// The variable that stands for a flag.
fn variable_of(flag: &str) -> Option<String> {
    let name = flag.strip_prefix("--")?;
    let command = super::Ackline::command();
    let mut arguments = command.get_subcommands().flat_map(Command::get_arguments);
    let found =
        arguments.find(|argument| argument.get_long() == Some(name) && argument.get_env().is_some())?;
    Some(found.get_env()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> clap::Error {
        let words = ["ackline"].into_iter().chain(line.split_whitespace());
        command().try_get_matches_from(words).expect_err(line)
    }

    #[test]
    fn the_grammar_has_no_contradiction() {
        command().debug_assert();
    }

    /// A number outside its bounds, negative ones too, names flag, value and bound in one line.
    #[test]
    fn a_refused_number_names_flag_value_and_bound() {
        for (line, words) in [
            (
                "demo --clients -1",
                "--clients -1: give a whole number from 1 to 60000",
            ),
            (
                "demo --clients=-1",
                "--clients -1: give a whole number from 1 to 60000",
            ),
            (
                "bench --seconds -0.5",
                "--seconds -0.5: give a number from 0.5 to 86400",
            ),
            ("demo --churn -inf", "--churn -inf: give a number from 0 to 10000"),
            (
                "demo --delay-ms -1",
                "--delay-ms -1: give a number from 0 to 60000",
            ),
            ("demo --loss -5%", "--loss -5%: '-5%' is not a share"),
            ("demo --loss 200%", "--loss 200%: '200%' is not a share"),
            (
                "demo --burst-loss -1,2",
                "--burst-loss -1,2: '-1,2' is not a burst",
            ),
            ("demo --hz -x", "--hz -x: give a number"),
            ("origin --entities -7", "--entities -7: give a whole number"),
            ("origin --speed 100", "--speed 100: give a number from 0.1 to 10"),
            ("origin --seed -1", "--seed -1: give a whole number from 0 to"),
            (
                "relay --shards -1",
                "--shards -1: give a whole number from 1 to 64",
            ),
            (
                "relay --shards 65",
                "--shards 65: give a whole number from 1 to 64",
            ),
            (
                "relay --drain-deadline-s 0",
                "--drain-deadline-s 0: give a whole number from 1 to 3600",
            ),
            (
                "relay --listen nowhere",
                "--listen nowhere: give an IP address and a port",
            ),
        ] {
            let error = refused(line);
            // The test's own command line has none of the flags: a variable stands for some of them.
            let text = sentence(&error).unwrap_or_else(|| panic!("{line}: {error}"));
            let flag = words.split(' ').next().unwrap_or_default();
            let text = match variable_of(flag) {
                Some(variable) => text.replacen(&variable, flag, 1),
                None => text,
            };
            assert!(text.starts_with(words) && !text.contains('\n'), "{line}: {text}");
        }
        assert!(
            sentence(&refused("demo --no-such-flag")).is_none(),
            "clap names the nearest"
        );
    }

    /// Every flag that holds a secret, which is what hides its variable's value, is one that a report's command masks.
    #[test]
    fn secret_flags_are_masked_where_the_command_is_kept() {
        let command = command();
        let arguments = command.get_subcommands().flat_map(Command::get_arguments);
        let secret: Vec<&str> = arguments
            .filter(|argument| argument.is_hide_env_values_set())
            .filter_map(Arg::get_long)
            .collect();
        assert!(secret.contains(&"truth-token") && secret.len() >= 4, "{secret:?}");
        for flag in secret {
            let words = ["--".to_owned() + flag, "hunter2".to_owned()];
            assert_eq!(
                crate::node::secret::shown_line(words.into_iter()),
                format!("--{flag} (set)")
            );
        }
    }

    /// A paragraph of a help text is one line, which clap breaks where the terminal ends; a line broken by hand would be
    /// broken again and leave stubs.
    #[test]
    fn help_is_wrapped_once() {
        let texts = |command: &Command| {
            [command.get_after_help(), command.get_after_long_help()]
                .map(|text| text.map(ToString::to_string))
        };
        let mut seen = 0;
        for command in command().get_subcommands() {
            for text in texts(command).into_iter().flatten() {
                let lines: Vec<&str> = text.lines().collect();
                for pair in lines.windows(2) {
                    let prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
                    let broken = prose(pair[0]) && prose(pair[1]);
                    assert!(!broken, "{}: {pair:?}", command.get_name());
                }
                let examples = lines.iter().filter(|line| line.starts_with("  ackline"));
                for example in examples {
                    assert!(example.len() <= 100, "{}: {example}", command.get_name());
                    seen += 1;
                }
            }
        }
        assert!(seen > 10, "{seen} examples");
    }

    /// The figures are listed in one place, to which every other help that offers --threshold points.
    #[test]
    fn help_tells_where_the_figures_are() {
        let command = command();
        let long = |name: &str| {
            let mut command = command.find_subcommand(name).cloned().expect(name);
            command.render_long_help().to_string()
        };
        let bench = long("bench");
        assert!(
            bench.contains("latency_p99,") && !bench.contains("bench --help"),
            "{bench}"
        );
        assert!(long("demo").contains("ackline bench --help lists them"));
    }

    /// Commands share their defaults.
    #[test]
    fn help_tells_the_defaults_of_the_command() {
        let help = |name: &str| {
            let mut command = command();
            let command = command.find_subcommand_mut(name).expect(name);
            command
                .render_help()
                .to_string()
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        };
        for (name, hz, seed) in [("demo", 20, 1), ("bench", 20, 1), ("origin", 20, 1)] {
            let help = help(name);
            let tick = format!("Ticks of the scene a second [default: {hz}]");
            assert!(help.contains(&tick), "{name}: {help}");
            let after = help.split("--seed <K>").nth(1).unwrap_or_default();
            let default = after
                .split("[default: ")
                .nth(1)
                .and_then(|rest| rest.split(']').next());
            assert_eq!(default, Some(seed.to_string().as_str()), "{name}: {help}");
        }
    }
}
