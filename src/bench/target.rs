//! Flags that say where the relay and the truth are, when not in this process.

use std::path::PathBuf;

use super::settings::FlagError;
use crate::node::secret::SecretText;

/// Where the relay and the truth are, when not in this process.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Somebody else's relay")]
pub struct TargetFlags {
    /// The relay's UDP address; without it the bench starts its own origin and relay. With it --view is what clients must
    /// have been given to see [default: any]
    #[arg(long, value_name = "ADDR")]
    pub relay: Option<String>,
    /// File of the token keys that the relay has: clients bring tokens minted with its first [default: no tokens]
    #[arg(long, value_name = "FILE", requires = "relay")]
    pub token_keys_file: Option<PathBuf>,
    /// Name of the fleet that the relay has
    #[arg(long, value_name = "NAME", requires = "token_keys_file", default_value = "")]
    pub audience: String,
    /// The relay's admin address; without it the report's relay-side fields are null
    #[arg(long, value_name = "ADDR", requires = "relay")]
    pub admin: Option<String>,
    /// Bearer token of the relay's admin address. As a flag it stands in the list of processes: rather give the variable
    #[arg(
        long,
        value_name = "TOKEN",
        env = "ACKLINE_ADMIN_TOKEN",
        hide_env_values = true
    )]
    pub admin_token: Option<SecretText>,
    /// The origin's address, or the recording it plays: what records are compared with
    #[arg(long, value_name = "FILE-or-ADDR", requires = "relay")]
    pub truth: Option<String>,
    /// What the origin knows its subscribers by. As a flag it stands in the list of processes: rather give the variable
    #[arg(
        long,
        value_name = "TOKEN",
        env = "ACKLINE_UPSTREAM_TOKEN",
        hide_env_values = true
    )]
    pub truth_token: Option<SecretText>,
    /// File of the certificates (PEM) that vouch for the origin: the truth comes by TLS [default: none, plain TCP]
    #[arg(long, value_name = "FILE", env = "ACKLINE_UPSTREAM_CA_FILE")]
    pub truth_ca_file: Option<PathBuf>,
}

impl TargetFlags {
    /// Refuses a flag whose companion is not there, by the words of the command line, and leaves out what a variable gives
    /// in vain: the variables are a relay's and an origin's too, and stand in many environments.
    ///
    /// # Errors
    /// The flag, and its companion.
    pub fn settle(&mut self, words: impl Iterator<Item = String>) -> Result<(), FlagError> {
        let said: Vec<String> = words
            .filter_map(|word| word.split('=').next().map(str::to_owned))
            .collect();
        let (admin, truth) = (self.admin.is_some(), self.truth.is_some());
        for (flag, companion, is_there) in [
            ("--admin-token", "--admin", admin),
            ("--truth-token", "--truth", truth),
            ("--truth-ca-file", "--truth", truth),
        ] {
            if !is_there && said.iter().any(|word| word == flag) {
                return Err(FlagError(format!(
                    "{flag} is of no use without {companion}: give both or neither"
                )));
            }
        }
        self.admin_token = self.admin_token.take().filter(|_| admin);
        self.truth_token = self.truth_token.take().filter(|_| truth);
        self.truth_ca_file = self.truth_ca_file.take().filter(|_| truth);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A variable without its companion flag is another program's; a flag without it is a mistake.
    #[test]
    fn a_variable_without_its_companion_is_ignored_and_a_flag_is_refused() {
        let given = || TargetFlags {
            admin_token: Some("hunter2".into()),
            truth_token: Some("hunter2".into()),
            truth_ca_file: Some("/nowhere.pem".into()),
            ..TargetFlags::default()
        };
        let settle = |mut flags: TargetFlags, line: &str| {
            flags.settle(line.split(' ').map(str::to_owned)).map(|()| flags)
        };
        let alone = settle(given(), "bench --clients 3").expect("ignored");
        assert!(alone.admin_token.is_none() && alone.truth_token.is_none() && alone.truth_ca_file.is_none());
        let beside = TargetFlags {
            admin: Some("127.0.0.1:1".to_owned()),
            truth: Some("127.0.0.1:2".to_owned()),
            ..given()
        };
        let kept = settle(beside, "bench --admin 127.0.0.1:1").expect("kept");
        assert!(kept.admin_token.is_some() && kept.truth_token.is_some() && kept.truth_ca_file.is_some());
        for (line, words) in [
            (
                "bench --admin-token=x",
                "--admin-token is of no use without --admin",
            ),
            (
                "bench --truth-token x",
                "--truth-token is of no use without --truth",
            ),
            (
                "bench --truth-ca-file x",
                "--truth-ca-file is of no use without --truth",
            ),
        ] {
            let error = settle(given(), line).expect_err(line).to_string();
            assert!(error.starts_with(words) && !error.contains("hunter2"), "{error}");
        }
    }
}
