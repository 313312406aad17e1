//! A relay's admin listener, asked over HTTP/1.0: one connection a question, with a bound in time and in bytes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::node::secret::SecretText;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// Characters of an answer that a sentence repeats, at the most.
const SAID_MAX: usize = 300;
/// The largest answer taken.
const ANSWER_MAX: usize = 4 << 20;

/// A relay's admin listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Where: `host:port`, looked up with each question.
    pub addr: String,
    /// What it wants to be shown; may be empty.
    pub token: SecretText,
}

/// What it answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status, such as 200.
    pub status: u16,
    /// The body.
    pub body: String,
}

impl Answer {
    /// The status with what the relay says beside it, for people: its own `error`, or else the begin of the body.
    #[must_use]
    pub fn in_words(&self) -> String {
        let body: Option<serde_json::Value> = serde_json::from_str(&self.body).ok();
        let error = body.as_ref().and_then(|body| body["error"].as_str());
        let said: String = error.unwrap_or(&self.body).chars().take(SAID_MAX).collect();
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        match said.as_str() {
            "" => format!("status {}", self.status),
            said => format!("status {}: {said}", self.status),
        }
    }
}

impl Admin {
    /// Its address now.
    ///
    /// # Errors
    /// A name that nobody knows, or no port.
    pub fn resolve(&self) -> anyhow::Result<SocketAddr> {
        let addr = &self.addr;
        let mut found = addr
            .to_socket_addrs()
            .with_context(|| format!("{addr} is no address: give host:port"))?;
        found
            .next()
            .with_context(|| format!("{addr} has no address: give host:port"))
    }

    /// Asks for `path`.
    ///
    /// # Errors
    /// No answer in time, one that is too long, or one that is no HTTP.
    pub fn get(&self, path: &str) -> anyhow::Result<Answer> {
        let until = Instant::now() + PATIENCE;
        let mut stream = TcpStream::connect_timeout(&self.resolve()?, PATIENCE)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let host = &self.addr;
        let mut request =
            format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n").into_bytes();
        if !self.token.is_empty() {
            request.extend_from_slice(b"Authorization: Bearer ");
            request.extend_from_slice(self.token.expose());
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        stream.write_all(&request)?;
        let answer = read_until(&mut stream, until)?;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
        let status = status.and_then(|digits| digits.parse().ok());
        Ok(Answer {
            status: status.with_context(|| {
                format!(
                    "{:?} is no answer of HTTP",
                    head.lines().next().unwrap_or_default()
                )
            })?,
            body: body.to_owned(),
        })
    }
}

fn read_until(stream: &mut TcpStream, until: Instant) -> anyhow::Result<Vec<u8>> {
    let (mut answer, mut part) = (Vec::new(), [0; 16 << 10]);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        anyhow::ensure!(!left.is_zero(), "no whole answer within {} s", PATIENCE.as_secs());
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part)? {
            0 => return Ok(answer),
            length => answer.extend_from_slice(part.get(..length).unwrap_or_default()),
        }
        anyhow::ensure!(answer.len() <= ANSWER_MAX, "more than {ANSWER_MAX} bytes");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A listener that says this to each that asks, and what it was asked first.
    fn listener(answer: &'static str) -> (Admin, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let port = listener.local_addr().expect("has one").port();
        let asked = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("is asked");
            let mut bytes = [0; 512];
            let length = stream.read(&mut bytes).expect("reads");
            stream.write_all(answer.as_bytes()).expect("answers");
            String::from_utf8_lossy(&bytes[..length]).into_owned()
        });
        let admin = Admin {
            addr: format!("localhost:{port}"),
            token: "hunter2".into(),
        };
        (admin, asked)
    }

    #[test]
    fn a_name_is_looked_up_and_the_token_is_shown() {
        let (admin, asked) = listener("HTTP/1.0 503 Service Unavailable\r\nA: b\r\n\r\nwhy\n");
        let answer = admin.get("/ready").expect("answers");
        assert_eq!((answer.status, answer.body.as_str()), (503, "why\n"));
        let asked = asked.join().expect("ends");
        assert!(
            asked.starts_with("GET /ready HTTP/1.0\r\nHost: localhost:"),
            "{asked}"
        );
        assert!(asked.contains("\r\nAuthorization: Bearer hunter2\r\n"), "{asked}");
        assert!(!format!("{admin:?}").contains("hunter2"));
    }

    /// Why a relay refuses is in its answer, and whoever asked is told.
    #[test]
    fn an_answer_is_told_with_what_it_says() {
        for (body, words) in [
            (
                "{ \"error\": \"the host has a dot: ask by address\" }\n",
                "status 403: the host has a dot: ask by address",
            ),
            ("<html>\n  no\n</html>", "status 403: <html> no </html>"),
            ("", "status 403"),
            ("{ \"live\": false }", "status 403: { \"live\": false }"),
        ] {
            let body = body.to_owned();
            assert_eq!(Answer { status: 403, body }.in_words(), words);
        }
        let body = "x".repeat(ANSWER_MAX);
        assert!(Answer { status: 500, body }.in_words().len() < 400);
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        let (admin, asked) = listener("SSH-2.0-nonsense\r\n");
        assert!(admin.get("/live").is_err());
        asked.join().expect("ends");
        for addr in ["127.0.0.1:1", "no port", "nobody.invalid:1"] {
            let (addr, token) = (addr.to_owned(), SecretText::default());
            assert!(Admin { addr, token }.get("/live").is_err());
        }
    }
}
