//! Flags that say where the relay and the truth are, when not in this process.

use std::path::PathBuf;

use super::settings::FlagError;
use crate::node::secret::SecretText;
use crate::node::small_file::Pipes;

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
    /// File of that token alone, which then no list of processes shows; beats --admin-token
    #[arg(long, value_name = "FILE", requires = "admin")]
    pub admin_token_file: Option<PathBuf>,
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
    /// File of that token alone, which then no list of processes shows; beats --truth-token
    #[arg(long, value_name = "FILE", requires = "truth")]
    pub truth_token_file: Option<PathBuf>,
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
        for (flag, variable, token, file) in [
            (
                "--admin-token",
                "ACKLINE_ADMIN_TOKEN",
                &mut self.admin_token,
                &self.admin_token_file,
            ),
            (
                "--truth-token",
                "ACKLINE_UPSTREAM_TOKEN",
                &mut self.truth_token,
                &self.truth_token_file,
            ),
        ] {
            if let Some(file) = file {
                let read = SecretText::read(file, Pipes::Awaited);
                let fault = |fault| FlagError(format!("{flag}-file {}: {fault}", file.display()));
                *token = Some(read.map_err(fault)?);
            } else if let Some(Err(fault)) = token.as_ref().map(SecretText::check) {
                return Err(FlagError(format!("{flag} or {variable}: {fault}")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A token can be in a file, as at `top`, and beats what else gives one; one that nobody could show is refused.
    #[test]
    fn tokens_come_from_files() {
        let file = std::env::temp_dir().join(format!("ackline-target-{}", std::process::id()));
        let settle = |mut flags: TargetFlags| flags.settle(std::iter::empty()).map(|()| flags);
        let flags = TargetFlags {
            admin: Some("127.0.0.1:1".to_owned()),
            truth: Some("127.0.0.1:2".to_owned()),
            ..TargetFlags::default()
        };
        let filed = TargetFlags {
            admin_token: Some("old".into()),
            admin_token_file: Some(file.clone()),
            truth_token_file: Some(file.clone()),
            ..flags.clone()
        };
        std::fs::write(&file, "hunter2\n").expect("is written");
        let read = settle(filed.clone()).expect("is read");
        assert_eq!(
            (read.admin_token, read.truth_token),
            (Some("hunter2".into()), Some("hunter2".into()))
        );
        std::fs::write(&file, "hunter2\nhunter3\n").expect("is written");
        let fault = settle(filed).expect_err("two lines").to_string();
        assert!(
            fault.starts_with("--admin-token-file /") && fault.contains("more than one line"),
            "{fault}"
        );
        std::fs::remove_file(file).expect("is removed");
        let fault = settle(TargetFlags {
            truth_token: Some("hunter2 ".into()),
            ..flags
        });
        let fault = fault.expect_err("white space").to_string();
        assert!(
            fault.starts_with("--truth-token or ACKLINE_UPSTREAM_TOKEN: it begins or ends"),
            "{fault}"
        );
    }

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
