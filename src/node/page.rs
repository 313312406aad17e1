//! Requests that a web page of somebody else makes through an operator's browser, told by their headers.
//!
//! A browser on an operator's machine reaches the admin on loopback, or in the private network, for whatever page it shows: with
//! a form or a script of another site (which its `Origin` and `Sec-Fetch-Site` say), or of a name that its owner lets point
//! here afterwards (which `Host` says). A token stops both; where there is none, this does.

use std::net::IpAddr;

use axum::http::{HeaderMap, header};

/// Why a request is to be refused where no token says whose it is; `None` for what programs, and pages of the admin itself, send.
#[must_use]
pub fn foreign(headers: &HeaderMap) -> Option<String> {
    let way_out = "ask from a program, or give the relay an admin_token";
    let text = |name: &str| {
        let values = headers.get_all(name).into_iter();
        values.map(|value| value.to_str().unwrap_or("?").to_owned())
    };
    let mut hosts = text(header::HOST.as_str());
    if let Some(host) = hosts.find(|host| !is_ours(host)) {
        return Some(format!(
            "the host {host:?} is a name that anybody may let point here: ask by address, by localhost or by a name without a dot, or give the relay an admin_token"
        ));
    }
    let sites = ["same-origin", "none"];
    if let Some(site) = text("sec-fetch-site").find(|site| !sites.contains(&site.as_str())) {
        return Some(format!("this comes from a page elsewhere ({site}): {way_out}"));
    }
    let host = text(header::HOST.as_str()).next().unwrap_or_default();
    let here = |origin: &String| {
        let origin = origin.strip_prefix("http://").or(origin.strip_prefix("https://"));
        origin.is_some_and(|origin| origin.eq_ignore_ascii_case(&host))
    };
    let origin = text(header::ORIGIN.as_str()).find(|origin| !here(origin))?;
    Some(format!("this comes from a page of {origin:?}: {way_out}"))
}

/// True for hosts that no stranger can let point here: addresses, `localhost`, and names without a dot, which only the
/// operator's own resolver knows.
fn is_ours(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let name = name.trim_end_matches('.');
    name.parse::<IpAddr>().is_ok() || !name.contains('.') || name.to_ascii_lowercase().ends_with(".localhost")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_others_are_told_from_programs_and_from_pages_of_our_own() {
        let refused = |lines: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                headers.append(*name, value.parse().unwrap());
            }
            foreign(&headers)
        };
        for host in [
            "127.0.0.1:8000",
            "[::1]:8000",
            "localhost",
            "LOCALHOST:8000",
            "relay:8000",
            "10.0.0.7",
            "admin.localhost:80",
        ] {
            assert_eq!(refused(&[("host", host)]), None, "{host}");
            let origin = format!("http://{host}");
            let own = [
                ("host", host),
                ("origin", &origin),
                ("sec-fetch-site", "same-origin"),
            ];
            assert_eq!(refused(&own), None, "{host}");
        }
        assert_eq!(refused(&[]), None);
        for host in [
            "evil.example",
            "evil.example:8000",
            "127.0.0.1.evil.example",
            "a.b.",
            "127.0.0.1.nip.io:8000",
        ] {
            let fault = refused(&[("host", host)]).unwrap();
            assert!(fault.contains("may let point here"), "{fault}");
        }
        assert!(refused(&[("host", "127.0.0.1"), ("host", "evil.example")]).is_some());
        for lines in [
            [("origin", "http://evil.example"), ("host", "127.0.0.1:8000")],
            [("origin", "null"), ("host", "127.0.0.1:8000")],
            [("origin", "http://127.0.0.1:3000"), ("host", "127.0.0.1:8000")],
            [("sec-fetch-site", "cross-site"), ("host", "127.0.0.1:8000")],
            [("sec-fetch-site", "same-site"), ("host", "localhost:8000")],
        ] {
            let fault = refused(&lines).unwrap();
            assert!(fault.starts_with("this comes from a page"), "{fault}");
            assert!(fault.ends_with("give the relay an admin_token"), "{fault}");
        }
    }
}
