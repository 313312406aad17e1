//! Settings as people see them: every one, the effective value of each, secrets masked.

use std::net::SocketAddr;

use super::{KEYS, PartialSettings, RelaySettings, tokens};

impl RelaySettings {
    /// The settings as a file that can be loaded again; a secret is a comment in it.
    ///
    /// # Errors
    /// None in practice: every setting is a number or a text.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        let shown = self.shown();
        let nobody = self.insecure.is_none() && shown.insecure == Some(false) && self.token_keys.is_none();
        let by_host = !self.places.is_given("shards");
        let mut text = toml::to_string(&PartialSettings {
            upstream_token: None,
            admin_token: None,
            insecure: shown.insecure.filter(|_| !nobody),
            shards: shown.shards.filter(|_| !by_host),
            ..shown
        })?;
        text = commented(&text);
        if by_host {
            let shards = self.shards;
            text.push_str(&format!(
                "# shards = {shards} are the cores given to this process; left out, it is those of whoever reads this\n"
            ));
        }
        if nobody {
            text.push_str(
                "# insecure = false, and there are no token keys: a relay that others can reach wants either\n",
            );
        }
        for (key, secret, file) in [
            ("admin_token", &self.admin_token, &self.admin_token_file),
            ("upstream_token", &self.upstream_token, &self.upstream_token_file),
        ] {
            let variable = key.to_uppercase();
            text.push_str(&match (secret.is_empty(), file.is_empty()) {
                (true, _) => format!("# {key} = \"\"\n"),
                (false, true) => {
                    format!("# {key} is set, and is not shown: put it here, or into ACKLINE_{variable}\n")
                }
                (false, false) => format!("# {key} is what {key}_file holds\n"),
            });
        }
        Ok(text)
    }

    /// The keys in which `other` differs.
    #[must_use]
    pub fn changed(&self, other: &RelaySettings) -> Vec<&'static str> {
        let differs = [
            self.listen != other.listen,
            self.token_keys_file != other.token_keys_file || self.token_keys != other.token_keys,
            self.audience != other.audience,
            self.public_addresses != other.public_addresses,
            self.is_insecure() != other.is_insecure(),
            self.protocol_min != other.protocol_min,
            self.limits.challenges_per_s != other.limits.challenges_per_s,
            self.limits.challenges_per_host_per_s != other.limits.challenges_per_host_per_s,
            self.limits.handshakes_per_host_per_s != other.limits.handshakes_per_host_per_s,
            self.limits.handshakes_per_prefix_per_s != other.limits.handshakes_per_prefix_per_s,
            self.limits.sessions_per_host != other.limits.sessions_per_host,
            self.limits.sessions_unheard != other.limits.sessions_unheard,
            self.limits.up_datagrams_per_s != other.limits.up_datagrams_per_s,
            self.limits.up_bytes_per_s != other.limits.up_bytes_per_s,
            self.limits.malformed != other.limits.malformed,
            self.limits.loopback != other.limits.loopback,
            self.admin != other.admin,
            tokens::given(&self.admin_token, &self.admin_token_file)
                != tokens::given(&other.admin_token, &other.admin_token_file),
            tokens::filed(&self.admin_token, &self.admin_token_file)
                != tokens::filed(&other.admin_token, &other.admin_token_file),
            self.upstream != other.upstream,
            self.upstream_ca_file != other.upstream_ca_file || self.upstream_trust != other.upstream_trust,
            tokens::given(&self.upstream_token, &self.upstream_token_file)
                != tokens::given(&other.upstream_token, &other.upstream_token_file),
            tokens::filed(&self.upstream_token, &self.upstream_token_file)
                != tokens::filed(&other.upstream_token, &other.upstream_token_file),
            self.shards != other.shards,
            self.sessions_max != other.sessions_max,
            self.budget_bytes_per_s != other.budget_bytes_per_s,
            self.budget_burst_bytes != other.budget_burst_bytes,
            self.egress_bytes_per_s != other.egress_bytes_per_s,
            self.view != other.view,
            self.tier_cell_m != other.tier_cell_m,
            self.tier_dense != other.tier_dense,
            self.tier_crowded != other.tier_crowded,
            self.receive_buffer_bytes != other.receive_buffer_bytes,
            self.send_buffer_bytes != other.send_buffer_bytes,
            self.drain_deadline_s != other.drain_deadline_s,
            self.drain_spread_s != other.drain_spread_s,
            self.log != other.log,
            self.log_format != other.log_format,
        ];
        let keys = KEYS.into_iter().zip(differs);
        keys.filter_map(|(key, differs)| differs.then_some(key)).collect()
    }

    /// Every setting as it is shown to people: secrets masked.
    #[must_use]
    pub fn shown(&self) -> PartialSettings {
        PartialSettings {
            listen: Some(self.listen),
            token_keys_file: Some(self.token_keys_file.clone()),
            audience: Some(self.audience.clone()),
            public_addresses: Some(list(&self.public_addresses)),
            insecure: Some(self.is_insecure()),
            protocol_min: Some(self.protocol_min),
            challenges_per_s: Some(self.limits.challenges_per_s),
            challenges_per_host_per_s: Some(self.limits.challenges_per_host_per_s),
            handshakes_per_host_per_s: Some(self.limits.handshakes_per_host_per_s),
            handshakes_per_prefix_per_s: Some(self.limits.handshakes_per_prefix_per_s),
            sessions_per_host: Some(self.limits.sessions_per_host),
            sessions_unheard_max: Some(self.limits.sessions_unheard),
            up_datagrams_per_s: Some(self.limits.up_datagrams_per_s),
            up_bytes_per_s: Some(self.limits.up_bytes_per_s),
            malformed_max: Some(self.limits.malformed),
            limit_loopback: Some(self.limits.loopback),
            admin: Some(self.admin),
            admin_token: Some(self.admin_token.clone()),
            admin_token_file: Some(self.admin_token_file.clone()),
            upstream: Some(self.upstream.join(",")),
            upstream_ca_file: Some(self.upstream_ca_file.clone()),
            upstream_token: Some(self.upstream_token.clone()),
            upstream_token_file: Some(self.upstream_token_file.clone()),
            shards: Some(self.shards),
            sessions_max: Some(self.sessions_max),
            budget_bytes_per_s: Some(self.budget_bytes_per_s),
            budget_burst_bytes: Some(self.budget_burst_bytes),
            egress_bytes_per_s: Some(self.egress_bytes_per_s),
            view: Some(self.view),
            tier_cell_m: Some(self.tier_cell_m),
            tier_dense: Some(self.tier_dense),
            tier_crowded: Some(self.tier_crowded),
            receive_buffer_bytes: Some(self.receive_buffer_bytes),
            send_buffer_bytes: Some(self.send_buffer_bytes),
            drain_deadline_s: Some(self.drain_deadline_s),
            drain_spread_s: Some(self.drain_spread_s),
            log: Some(self.log.clone()),
            log_format: Some(self.log_format),
            flags: None,
        }
    }
}

/// Columns of a comment.
const COLUMNS: usize = 100;

/// Settings with what each is for, as the flag of the same name says it, in comments above them.
fn commented(settings: &str) -> String {
    let flags = <PartialSettings as clap::Args>::augment_args(clap::Command::new("ackline"));
    let mut text = String::new();
    for line in settings.lines() {
        let key = line.split_once(" = ").map_or("", |(key, _)| key);
        let flag = flags.get_arguments().find(|flag| flag.get_id() == key);
        let help = flag.and_then(clap::Arg::get_help).map(ToString::to_string);
        let mut column = None;
        for word in help.unwrap_or_default().split_whitespace() {
            let width = word.chars().count() + 1;
            let begun = column.filter(|column| column + width <= COLUMNS);
            if begun.is_none() {
                text.push_str(if column.is_some() { "\n#" } else { "#" });
            }
            text.push(' ');
            text.push_str(word);
            column = Some(begun.unwrap_or(1) + width);
        }
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// Addresses as they are given.
fn list(addresses: &[SocketAddr]) -> String {
    let names: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    names.join(",")
}
