//! Why clients are without a session, in words: for a reader who sees that some are missing and asks what to do.

use super::report::Report;

/// What one reason, a label of [`Clients::endings`](super::report::Clients::endings), means at the relay `target`.
#[must_use]
pub fn words(reason: &str, target: &str) -> String {
    let relay = if target == "local" {
        "the relay of this process".to_owned()
    } else {
        format!("the relay at {target}")
    };
    match reason {
        "relay_vanished" | "relay_silent" => {
            format!("nothing answers at {target} any more: the relay is gone, or cannot be reached")
        }
        "unanswered" => nobody(target),
        "draining" => format!("{relay} is draining: it lets its clients go and admits nobody"),
        "full" => format!(
            "{relay} is full, or has as many sessions of this host as it takes of one: raise its sessions_max, or its sessions_per_host (its ackline_handshakes_limited_total{{reason=\"sessions\"}} counts the latter), or take fewer clients"
        ),
        "version" => format!("{relay} speaks another protocol version: run versions that match"),
        "token" => format!(
            "{relay} refused the token; its ackline_tokens_refused_total says why: no keys at all (an insecure relay takes no token: leave out --token-keys-file), other keys, another audience, an address that is not among its public_addresses, clocks that differ, or a relay that began less than 6 s before"
        ),
        "idle" => format!("{relay} heard nothing of the client for its idle time"),
        "protocol" => format!("{relay} found that the client broke the protocol"),
        "exhausted" | "client_exhausted" => "the session's keys were spent".to_owned(),
        "replaced" => format!("{relay} took a newer session for the same client"),
        other => format!("{relay} ended it: {other}"),
    }
}

fn nobody(target: &str) -> String {
    format!("nothing answers at {target}: is a relay there, and may UDP pass both ways?")
}

/// Why clients are lost or never came, most frequent first: how often, and in words. Where nobody ever answered
/// there was no session that could have ended, and that is the reason.
#[must_use]
pub fn reasons(report: &Report) -> Vec<(u64, String)> {
    let clients = &report.clients;
    let mut reasons: Vec<(u64, String)> = clients
        .endings
        .iter()
        .map(|(reason, count)| (*count, words(reason, &report.target)))
        .collect();
    reasons.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    if reasons.is_empty() && clients.lost > 0 && report.packets.sent == 0 {
        reasons.push((clients.lost, nobody(&report.target)));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::handshake::Denial;
    use crate::wire::payload::CloseReason;

    /// Every word with which a relay lets a client go, or does not let it in, has its sentence.
    #[test]
    fn every_reason_of_the_protocol_has_words() {
        let closes = CloseReason::ALL.into_iter().map(CloseReason::label);
        for reason in closes.chain(Denial::ALL.into_iter().map(Denial::label)) {
            let text = words(reason, "10.0.0.5:7777");
            assert!(reason == "left" || !text.contains("ended it"), "{reason}: {text}");
        }
        assert_eq!(
            words("draining", "10.0.0.5:7777"),
            "the relay at 10.0.0.5:7777 is draining: it lets its clients go and admits nobody"
        );
    }

    /// The wire has one word for a relay that is full and for one that has sessions enough of a host; the reader is told both.
    #[test]
    fn a_full_relay_may_be_full_of_this_host() {
        let text = words("full", "10.0.0.5:7777");
        assert!(
            text.contains("sessions_max, or its sessions_per_host") && text.contains("{reason=\"sessions\"}"),
            "{text}"
        );
    }

    /// A relay without keys denies whoever brings a token, and that is said beside the rest.
    #[test]
    fn a_relay_without_keys_takes_no_token() {
        let text = words("token", "10.0.0.5:7777");
        assert!(
            text.contains("no keys at all (an insecure relay takes no token: leave out --token-keys-file)"),
            "{text}"
        );
    }

    #[test]
    fn where_nobody_answers_that_is_the_reason() {
        let mut report = Report {
            target: "127.0.0.1:9".to_owned(),
            ..Report::default()
        };
        assert_eq!(reasons(&report), []);
        report.clients.lost = 4;
        let text = "nothing answers at 127.0.0.1:9: is a relay there, and may UDP pass both ways?";
        assert_eq!(reasons(&report), [(4, text.to_owned())]);
        report.clients.endings = [("full".to_owned(), 1), ("relay_vanished".to_owned(), 3)].into();
        let found = reasons(&report);
        assert!(found[0].0 == 3 && found[0].1.starts_with("nothing answers at 127.0.0.1:9 any more"));
        assert!(found.len() == 2 && found[1].1.contains("is full"), "{found:?}");
    }
}
