//! A host and a port as people write them: `origin.example:7700`, `10.0.0.4:7700`, `[2001:db8::4]:7700`.
//!
//! Looked at before a name is looked up: what can be nobody's name would be asked for again and again, for ever.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Bytes of a host's name, and of a part of it.
const NAME_MAX: (usize, usize) = (253, 63);

/// Checks that `text` can be a host and a port; the port is not 0.
///
/// # Errors
/// What is wrong, to be put after the text.
pub fn check(text: &str) -> Result<(), &'static str> {
    if text.contains("://") {
        return Err("is a URL and not host:port");
    }
    let (host, port) = text.rsplit_once(':').ok_or("is not host:port")?;
    if host.is_empty() || !port.parse::<u16>().is_ok_and(|port| port > 0) {
        return Err("is not host:port");
    }
    if let Some(inner) = host.strip_prefix('[') {
        let inner = inner.strip_suffix(']').unwrap_or_default();
        // A zone, as of link-local addresses, is the system's to judge.
        let address = inner.split('%').next().unwrap_or_default();
        return match address.parse::<Ipv6Addr>() {
            Ok(_) => Ok(()),
            Err(_) => Err("has no IPv6 address in its brackets"),
        };
    }
    if host.contains(':') {
        return Err("has an IPv6 address without brackets, as in [2001:db8::4]:7700");
    }
    if host.parse::<Ipv4Addr>().is_ok() {
        return Ok(());
    }
    if host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err("has numbers that are no IPv4 address");
    }
    // A dot at the end says that the name is whole.
    let name = host.strip_suffix('.').unwrap_or(host);
    let is_part = |part: &str| {
        (1..=NAME_MAX.1).contains(&part.len())
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    if name.len() > NAME_MAX.0 || !name.split('.').all(is_part) {
        return Err("has a host that can be nobody's name");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FAULTS 108: what can be nobody's address is refused before it is looked up.
    #[test]
    fn faults_108_a_host_and_port_that_can_be_nobodys_are_refused() {
        for good in [
            "a:1",
            "origin.example:7700",
            "origin.example.:7700",
            "game_server:7700",
            "10.0.0.4:65535",
            "[::1]:7700",
            "[fe80::1%eth0]:7700",
            "xn--bcher-kva.example:1",
            "4.example:1",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        let long = format!("{}:1", "a".repeat(64));
        let longer = format!("{}:1", "a.".repeat(127) + "aa");
        for (bad, words) in [
            ("tcp://a:7700", "a URL"),
            ("", "not host:port"),
            ("a", "not host:port"),
            (":7700", "not host:port"),
            ("a:0", "not host:port"),
            ("a:65536", "not host:port"),
            ("a:+x", "not host:port"),
            ("a_b..c:7700", "nobody's name"),
            (".a:1", "nobody's name"),
            ("a b:1", "nobody's name"),
            ("-a:1", "nobody's name"),
            ("user@a:1", "nobody's name"),
            ("a/b:1", "nobody's name"),
            ("b\u{fc}cher.example:1", "nobody's name"),
            (&long, "nobody's name"),
            (&longer, "nobody's name"),
            ("::1:7700", "without brackets"),
            ("[::1:7700", "in its brackets"),
            ("[a]:7700", "in its brackets"),
            ("10.0.0:1", "no IPv4"),
            ("10.0.0.256:1", "no IPv4"),
        ] {
            assert!(check(bad).is_err_and(|fault| fault.contains(words)), "{bad}");
        }
    }
}
