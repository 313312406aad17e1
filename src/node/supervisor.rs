//! What the relay tells the service manager: that it is ready, reloads, stops, how it is doing, and that its shards turn.
//!
//! `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID` are systemd's (`sd_notify(3)`); without the first nothing is said.
//! The watchdog's sign of life is given only while every shard's loop turns, so a relay whose shards hang is killed and
//! started again, though its other threads live.

use std::ffi::OsStr;
use std::time::Duration;

use crate::net::notify::NotifySocket;

/// How often the state is looked at where nothing asks for more.
const LOOK_US: u64 = 1_000_000;
/// Signs of life within one period of the watchdog.
const SIGNS: u64 = 4;
/// What a stop takes beyond the drain.
const AFTER_DRAIN: Duration = Duration::from_secs(10);

/// Whoever started this process and wants to be told.
#[derive(Debug, Default)]
pub struct Supervisor {
    way: Option<NotifySocket>,
    /// Time between two signs of life, where they are asked for.
    sign_every_us: Option<u64>,
    sign_due_us: u64,
    /// What was said last of the state.
    said: String,
    /// Why the last reload changed nothing; empty where it did, or there was none.
    refused: String,
}

impl Supervisor {
    /// The one that the environment names.
    #[must_use]
    pub fn of_environment() -> Supervisor {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog_us = number("WATCHDOG_USEC").filter(|_| is_ours);
        Supervisor::new(std::env::var_os("NOTIFY_SOCKET").as_deref(), watchdog_us)
    }

    /// One that listens at a socket of this name, and gives the process up after so long without a sign of life.
    #[must_use]
    pub fn new(socket: Option<&OsStr>, watchdog_us: Option<u64>) -> Supervisor {
        let name = socket.filter(|name| !name.is_empty());
        let way = name.and_then(|name| match NotifySocket::open(name) {
            Ok(way) => Some(way),
            Err(error) => {
                let name = name.display();
                tracing::warn!("NOTIFY_SOCKET {name}: {error}: the service manager is told nothing");
                None
            }
        });
        Supervisor {
            sign_every_us: watchdog_us
                .filter(|_| way.is_some())
                .map(|us| (us / SIGNS).max(1)),
            way,
            ..Supervisor::default()
        }
    }

    /// How long the caller may wait until the next [`Supervisor::turn`]; `None` where nobody is told anything.
    #[must_use]
    pub fn patience(&self) -> Option<Duration> {
        self.way.as_ref()?;
        Some(Duration::from_micros(
            self.sign_every_us.unwrap_or(LOOK_US).min(LOOK_US),
        ))
    }

    /// The program serves.
    pub fn ready(&mut self) {
        self.say("READY=1");
    }

    /// It has read its settings again; `refused` is why they changed nothing, which stays in the state until a reload that is taken.
    /// The protocol has no word for a reload that failed.
    pub fn reloaded(&mut self, refused: Option<&str>) {
        self.refused = refused.map_or(String::new(), |why| format!("reload refused: {why}"));
        match refused {
            None => self.say("READY=1"),
            Some(_) => self.say(&format!("READY=1\nSTATUS={}", one_line(&self.refused))),
        }
        self.said.clear();
    }

    /// It reads its settings again; `now_us` on the monotonic clock.
    pub fn reloading(&mut self, now_us: u64) {
        self.say(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}"));
    }

    /// It ends, after a drain of at most `deadline`, for which the manager is asked to wait.
    pub fn stopping(&mut self, deadline: Duration) {
        let wait_us = (deadline + AFTER_DRAIN).as_micros();
        self.say(&format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={wait_us}"));
    }

    /// Gives a sign of life where one is due and the shards turn, and the state where it changed.
    pub fn turn(&mut self, now_us: u64, shards_turn: bool, state: &str) {
        if self.way.is_none() {
            return;
        }
        if let Some(every_us) = self.sign_every_us
            && shards_turn
            && now_us >= self.sign_due_us
        {
            self.sign_due_us = now_us.saturating_add(every_us);
            self.say("WATCHDOG=1");
        }
        let state = match self.refused.as_str() {
            "" => state.to_owned(),
            refused => format!("{state}; {refused}"),
        };
        if state != self.said {
            self.say(&format!("STATUS={}", one_line(&state)));
            self.said = state;
        }
    }

    fn say(&self, lines: &str) {
        if let Some(Err(error)) = self.way.as_ref().map(|way| way.send(lines)) {
            tracing::debug!("the service manager cannot be told {lines:?}: {error}");
        }
    }
}

/// A value of the protocol is a line.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    fn supervised(name: &str, watchdog_us: Option<u64>) -> (UnixDatagram, Supervisor) {
        let name = format!("ackline-supervisor-{name}-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let socket = UnixDatagram::bind_addr(&address).expect("binds");
        socket.set_nonblocking(true).expect("is set");
        let name = format!("@{name}");
        (socket, Supervisor::new(Some(OsStr::new(&name)), watchdog_us))
    }

    fn heard(socket: &UnixDatagram) -> Vec<String> {
        let mut bytes = [0; 512];
        let mut lines = Vec::new();
        while let Ok(length) = socket.recv(&mut bytes) {
            lines.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
        }
        lines
    }

    /// A sign of life needs shards that turn; the state is said when it changes, in one line.
    #[test]
    fn signs_of_life_are_the_shards_own() {
        let (socket, mut supervisor) = supervised("signs", Some(4_000_000));
        assert_eq!(supervisor.patience(), Some(Duration::from_secs(1)));
        supervisor.turn(10, true, "0 clients");
        assert_eq!(heard(&socket), ["WATCHDOG=1", "STATUS=0 clients"]);
        supervisor.turn(1_000_009, true, "0 clients");
        assert_eq!(heard(&socket), [""; 0], "not due yet");
        supervisor.turn(1_000_010, true, "1 client\nand more");
        assert_eq!(heard(&socket), ["WATCHDOG=1", "STATUS=1 client and more"]);
        for second in 2..60 {
            supervisor.turn(second * 1_000_010, false, "1 client\nand more");
        }
        assert_eq!(heard(&socket), [""; 0], "a shard hangs");
        supervisor.turn(60_000_000, true, "1 client\nand more");
        assert_eq!(heard(&socket), ["WATCHDOG=1"]);
    }

    #[test]
    fn a_stop_asks_for_the_time_of_its_drain() {
        let (socket, mut supervisor) = supervised("stop", None);
        supervisor.turn(0, true, "");
        supervisor.reloading(77);
        supervisor.ready();
        supervisor.stopping(Duration::from_secs(40));
        assert_eq!(
            heard(&socket),
            [
                "RELOADING=1\nMONOTONIC_USEC=77",
                "READY=1",
                "STOPPING=1\nEXTEND_TIMEOUT_USEC=50000000"
            ]
        );
    }

    /// A reload that was refused is told with the reason, and the state goes on telling it until one is taken.
    #[test]
    fn a_refused_reload_is_in_the_state() {
        let (socket, mut supervisor) = supervised("refused", None);
        supervisor.turn(0, true, "serving; 0 clients");
        supervisor.reloading(7);
        supervisor.reloaded(Some("relay.toml, line 3: no\nkey"));
        supervisor.turn(1, true, "serving; 0 clients");
        supervisor.turn(2, true, "serving; 0 clients");
        supervisor.turn(3, true, "serving; 1 clients");
        supervisor.reloaded(None);
        supervisor.turn(4, true, "serving; 1 clients");
        let why = "reload refused: relay.toml, line 3: no key";
        assert_eq!(
            heard(&socket),
            [
                "STATUS=serving; 0 clients",
                "RELOADING=1\nMONOTONIC_USEC=7",
                &format!("READY=1\nSTATUS={why}"),
                &format!("STATUS=serving; 0 clients; {why}"),
                &format!("STATUS=serving; 1 clients; {why}"),
                "READY=1",
                "STATUS=serving; 1 clients",
            ]
        );
    }

    #[test]
    fn without_a_socket_nothing_is_said_or_waited_for() {
        for name in [None, Some(OsStr::new("")), Some(OsStr::new("nonsense"))] {
            let mut supervisor = Supervisor::new(name, Some(1));
            assert_eq!(supervisor.patience(), None);
            supervisor.ready();
            supervisor.turn(0, true, "state");
        }
    }
}
