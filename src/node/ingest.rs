//! The task that keeps the upstream connection: connects, reads, reconnects for ever (SPEC OPS2).
//!
//! Addresses are tried in order and names resolved anew on each attempt (FAULTS 82); between two rounds it waits
//! 50 ms to 2 s, with jitter (FAULTS 44). Whatever it waits for, frames are repeated when they are due. What was
//! read at once is published at once and wakes the shards once, so that of a burst only the newest is sent
//! (THREATS 84). A connection that completes no message within a bound is given up, whether it is silent or
//! trickles.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::fuse::Fuse;
use super::intake::{Connect, DIRECTIVE_DROPPED, Intake};
use super::loggate::LogGate;
use super::metrics::IngestMetrics;
use super::players::Caller;
use super::shelf::Shelf;
use super::status::RelayStatus;
use super::tls::{self, Line, UpstreamTrust, is_tls_alert};
use crate::backoff::Backoff;
use crate::limits::{UPSTREAM_BACKOFF_US, UPSTREAM_CONNECT_US, UPSTREAM_SILENCE_US};
use crate::net::clock::monotonic_us;
use crate::state::player::PlayerEvent;
use crate::upstream::subscriber::{Subscriber, SubscriberCounts, SubscriberEvent};

/// Bytes read from the upstream at once.
const READ_BYTES: usize = 256 << 10;

/// The upstream side of a relay.
pub struct Ingest {
    upstream: Vec<String>,
    /// Whom it believes to be the origin; without, the connection is plain.
    trust: Option<UpstreamTrust>,
    subscriber: Subscriber,
    events: Vec<SubscriberEvent>,
    buffer: BytesMut,
    intake: Intake,
    caller: Caller,
    /// What players did, to be told now.
    told: Vec<PlayerEvent>,
    shelf: Arc<Shelf>,
    status: Arc<RelayStatus>,
    metrics: IngestMetrics,
    gate: LogGate,
    /// The upstream that is tried or spoken with, as the settings name it, and with its address, for sentences.
    name: String,
    place: String,
    /// It is counted what became of this attempt.
    counted: bool,
    /// Time within which a connection must complete a message, microseconds.
    patience_us: u64,
    stop: watch::Receiver<bool>,
}

/// What a connected origin gave something to do.
enum Turn {
    Read(usize),
    Written(usize),
    /// All that was written is on its way.
    Flushed,
    /// Players did something.
    Called,
}

/// How waiting for something ended.
enum Waited<T> {
    Done(T),
    TimeUp,
    Stopped,
}

/// Why a connection is no more. `is_silent`: the origin never said anything, over a plain connection.
fn lost(place: &str, error: &io::Error, is_silent: bool) -> String {
    let hint = if is_silent {
        " before it said anything (if it speaks TLS, give upstream_ca_file)"
    } else {
        ""
    };
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            format!("the upstream {place} closed the connection{hint}; it is tried again")
        }
        _ => format!("the upstream {place} is lost{hint}: {error}; it is tried again"),
    }
}

/// How an attempt at one address ended.
enum Ended {
    /// The relay stops.
    Stopped,
    /// It worked for a while: begin anew at the first address.
    Worked,
    /// It gave no tick, or not for long: try the next address.
    Failed,
}

impl Ingest {
    /// The upstream side of a relay that gets its frames from `upstream`, as `host:port`, first to last.
    #[must_use]
    pub fn new(
        (upstream, trust): (Vec<String>, Option<UpstreamTrust>),
        token: Vec<u8>,
        intake: Intake,
        caller: Caller,
        (shelf, status): (Arc<Shelf>, Arc<RelayStatus>),
        metrics: IngestMetrics,
        stop: watch::Receiver<bool>,
    ) -> Ingest {
        Ingest {
            upstream,
            trust,
            subscriber: Subscriber::new(token),
            events: Vec::new(),
            buffer: BytesMut::with_capacity(READ_BYTES),
            intake,
            caller,
            told: Vec::new(),
            shelf,
            status,
            metrics,
            gate: LogGate::default(),
            name: String::new(),
            place: String::new(),
            counted: false,
            patience_us: UPSTREAM_SILENCE_US,
            stop,
        }
    }

    /// Runs until the relay stops. `seed`: of the jitter.
    pub async fn run(mut self, seed: u64) {
        let _fuse = Fuse::new("the upstream task");
        let mut backoff = Backoff::new(UPSTREAM_BACKOFF_US, seed);
        loop {
            match self.round().await {
                Ended::Stopped => return,
                Ended::Worked => backoff.reset(),
                Ended::Failed => {}
            }
            let pause = backoff.next_us();
            if let Waited::Stopped = self.wait(std::future::pending::<()>(), pause).await {
                return;
            }
        }
    }

    /// Tries every address once, in order, until one works.
    async fn round(&mut self) -> Ended {
        for name in self.upstream.clone() {
            self.name.clone_from(&name);
            let resolving = tokio::net::lookup_host(name.clone());
            let addresses: Vec<SocketAddr> = match self.wait(resolving, UPSTREAM_CONNECT_US).await {
                Waited::Stopped => return Ended::Stopped,
                Waited::Done(Ok(addresses)) => addresses.collect(),
                Waited::Done(Err(error)) => {
                    self.unresolved(&name, &error.to_string());
                    continue;
                }
                Waited::TimeUp => {
                    self.unresolved(&name, "no answer in time");
                    continue;
                }
            };
            if addresses.is_empty() {
                self.unresolved(&name, "the name is known, but not its address");
            }
            for address in addresses {
                match self.attempt(&name, address).await {
                    Ended::Failed => {}
                    ended => return ended,
                }
            }
        }
        Ended::Failed
    }

    /// One connection from beginning to end.
    async fn attempt(&mut self, name: &str, address: SocketAddr) -> Ended {
        self.place = match address.to_string() {
            plain if plain == name => plain,
            resolved => format!("{name} ({resolved})"),
        };
        let place = self.place.clone();
        let socket = match self.wait(TcpStream::connect(address), UPSTREAM_CONNECT_US).await {
            Waited::Stopped => return Ended::Stopped,
            Waited::Done(Ok(socket)) => socket,
            Waited::Done(Err(error)) => {
                let (result, text) = match error.kind() {
                    io::ErrorKind::ConnectionRefused => (
                        Connect::ConnectionRefused,
                        format!(
                            "the upstream {place} refuses connections: nothing listens there; it is tried again"
                        ),
                    ),
                    _ => (
                        Connect::Unreachable,
                        format!("the upstream {place} cannot be reached: {error}; it is tried again"),
                    ),
                };
                self.failed(result, &text);
                return Ended::Failed;
            }
            Waited::TimeUp => {
                let seconds = UPSTREAM_CONNECT_US / 1_000_000;
                let text = format!(
                    "the upstream {place} does not answer within {seconds} s: unreachable, or packets to it are dropped; it is tried again"
                );
                self.failed(Connect::Unanswered, &text);
                return Ended::Failed;
            }
        };
        let line = match self.introduce(name, socket).await {
            Ok(line) => line,
            Err(ended) => return ended,
        };
        let (before, since_us) = (self.subscriber.counts(), monotonic_us());
        self.counted = false;
        let ended = self.connected(name, line).await;
        self.subscriber.disconnected(&mut self.events);
        self.take_events();
        self.intake.disconnected(monotonic_us());
        self.shelf.wake();
        self.metrics.tell(self.intake.counts());
        match ended {
            Waited::Stopped => return Ended::Stopped,
            Waited::Done(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
                let text = format!(
                    "the upstream {place} speaks TLS, and this relay speaks plainly: give upstream_ca_file; it is tried again"
                );
                self.failed(Connect::Unbelieved, &text);
            }
            Waited::Done(Err(error)) => {
                let is_silent = self.subscriber.counts().bytes == before.bytes;
                let text = lost(&place, &error, is_silent && self.trust.is_none());
                self.ended(Connect::Closed, &text);
            }
            Waited::Done(Ok(())) if self.counted => {}
            Waited::Done(Ok(())) => self.count(Connect::Closed),
            Waited::TimeUp => {
                let seconds = self.patience_us as f64 / 1e6;
                let text = format!(
                    "the upstream {place} completed no message for {seconds} s and is given up: does its process hang, or is it paused?; it is tried again"
                );
                self.ended(Connect::Silent, &text);
            }
        }
        // One that breaks again and again after its first tick is not begun anew without a growing pause.
        let lasted = monotonic_us().saturating_sub(since_us) >= UPSTREAM_BACKOFF_US.1;
        if lasted && self.subscriber.counts().ticks > before.ticks {
            Ended::Worked
        } else {
            Ended::Failed
        }
    }

    /// Makes a connection one that ticks may come by: sealed, where that is asked for, with whom it should be.
    async fn introduce(&mut self, name: &str, socket: TcpStream) -> Result<Line, Ended> {
        let place = self.place.clone();
        if let Err(error) = socket.set_nodelay(true) {
            self.failed(
                Connect::Unreachable,
                &format!("the upstream {place} is lost: {error}; it is tried again"),
            );
            return Err(Ended::Failed);
        }
        let Some(trust) = self.trust.clone() else {
            return Ok(Line::Plain(socket));
        };
        let text = match self.wait(trust.connect(name, socket), UPSTREAM_CONNECT_US).await {
            Waited::Stopped => return Err(Ended::Stopped),
            Waited::Done(Ok(line)) => return Ok(line),
            Waited::Done(Err(error)) => format!(
                "the upstream {place} is not believed: {error}; {}; it is tried again",
                tls::way_out(&error)
            ),
            Waited::TimeUp => {
                format!(
                    "the upstream {place} does not finish the TLS handshake: does it speak TLS?; it is tried again"
                )
            }
        };
        self.failed(Connect::Unbelieved, &text);
        Err(Ended::Failed)
    }

    /// Speaks with a connected origin until either ends it. It reads while it writes: an origin that writes before it
    /// reads never stands still, and one that does not read makes players' inputs wait and be dropped, not ticks.
    async fn connected(&mut self, name: &str, line: Line) -> Waited<io::Result<()>> {
        let (mut reader, mut writer) = tokio::io::split(line);
        self.caller.begin();
        let line = Arc::clone(self.caller.line());
        let mut patience_us = monotonic_us().saturating_add(self.patience_us);
        let (mut outgoing, mut sent) = (self.subscriber.start(), 0);
        let mut flushed = true;
        loop {
            if sent == outgoing.len() {
                (outgoing, sent) = (self.outgoing(), 0);
            }
            let rest = outgoing.get(sent..).unwrap_or_default();
            let mut buffer = core::mem::take(&mut self.buffer);
            buffer.clear();
            buffer.reserve(READ_BYTES);
            let left_us = patience_us.saturating_sub(monotonic_us());
            let turn = async {
                let written = async {
                    match rest {
                        [] => writer.flush().await.map(|()| Turn::Flushed),
                        rest => writer.write(rest).await.map(Turn::Written),
                    }
                };
                tokio::select! {
                    read = reader.read_buf(&mut buffer) => read.map(Turn::Read),
                    turn = written, if !rest.is_empty() || !flushed => turn,
                    () = line.news(), if rest.is_empty() => Ok(Turn::Called),
                }
            };
            let turn = self.wait(turn, left_us).await;
            self.buffer = buffer;
            match turn {
                Waited::Done(Ok(Turn::Read(0) | Turn::Written(0))) => {
                    return Waited::Done(Err(io::ErrorKind::UnexpectedEof.into()));
                }
                Waited::Done(Ok(Turn::Read(_))) => {}
                Waited::Done(Ok(Turn::Written(count))) => {
                    (sent, flushed) = (sent + count, false);
                    continue;
                }
                Waited::Done(Ok(Turn::Flushed)) => {
                    flushed = true;
                    continue;
                }
                Waited::Done(Ok(Turn::Called)) => continue,
                Waited::Done(Err(error)) => return Waited::Done(Err(error)),
                Waited::TimeUp => return Waited::TimeUp,
                Waited::Stopped => return Waited::Stopped,
            }
            if !self.counted && self.trust.is_none() && is_tls_alert(&self.buffer) {
                return Waited::Done(Err(io::ErrorKind::InvalidData.into()));
            }
            let before = self.subscriber.counts();
            self.subscriber.receive(&self.buffer, &mut self.events);
            if !self.events.is_empty() || messages(&self.subscriber.counts()) > messages(&before) {
                patience_us = monotonic_us().saturating_add(self.patience_us);
            }
            self.count_connect(name, &before);
            self.take_events();
            if self.subscriber.is_closed() {
                return Waited::Done(Ok(()));
            }
        }
    }

    /// What the origin is to be sent now, with what players did where it takes that.
    fn outgoing(&mut self) -> Vec<u8> {
        if self.subscriber.accepts_players() {
            self.caller.collect(&mut self.told);
            self.subscriber.tell(&self.told);
            self.told.clear();
        } else {
            self.caller.discard();
        }
        self.intake.counts_mut().inputs = self.caller.results();
        self.subscriber.take_outgoing()
    }

    /// Counts a connection once it is known what it is.
    fn count_connect(&mut self, name: &str, before: &SubscriberCounts) {
        let counts = self.subscriber.counts();
        if counts.refused > before.refused {
            let fenced = counts.fenced > before.fenced;
            let result = if fenced { Connect::Fenced } else { Connect::Refused };
            self.intake.counts_mut().connects[result as usize] += 1;
            self.counted = true;
            return;
        }
        let stream = self.events.iter().find_map(|event| match event {
            SubscriberEvent::Stream(stream) => Some(stream),
            _ => None,
        });
        if let Some(stream) = stream.filter(|_| !core::mem::replace(&mut self.counted, true)) {
            self.intake.counts_mut().connects[Connect::Connected as usize] += 1;
            let begun = if stream.continued { "goes on" } else { "begins" };
            tracing::info!(
                upstream = name,
                epoch = stream.epoch,
                "upstream connected: the stream {begun}"
            );
        }
    }

    /// Applies what the subscriber understood, wakes the shards once, exports the counts.
    fn take_events(&mut self) {
        let now_us = monotonic_us();
        let mut events = core::mem::take(&mut self.events);
        let any = !events.is_empty();
        for event in events.drain(..) {
            let refused = matches!(event, SubscriberEvent::Refused(_) | SubscriberEvent::Ended);
            if let Some(sentence) = self.intake.take(now_us, event) {
                let sentence = format!("from the upstream {}: {sentence}", self.place);
                if refused {
                    self.status.note_trouble(&self.name, &sentence);
                }
                self.say(&sentence);
            }
        }
        self.events = events;
        if any {
            self.shelf.wake();
        }
        let counts = self.subscriber.counts();
        let ours = self.intake.counts_mut();
        (ours.bytes, ours.gaps) = (counts.bytes, counts.gaps);
        ours.refusals[DIRECTIVE_DROPPED] = counts.directives_dropped;
        ours.inputs = self.caller.results();
        self.metrics.tell(self.intake.counts());
    }

    fn failed(&mut self, result: Connect, sentence: &str) {
        self.count(result);
        self.trouble(sentence);
    }

    /// A connection is no more; `result` counts where it was not known yet what it is.
    fn ended(&mut self, result: Connect, sentence: &str) {
        match self.counted {
            true => self.trouble(sentence),
            false => self.failed(result, sentence),
        }
    }

    fn count(&mut self, result: Connect) {
        self.intake.counts_mut().connects[result as usize] += 1;
        self.metrics.tell(self.intake.counts());
    }

    fn unresolved(&mut self, name: &str, why: &str) {
        let text =
            format!("the upstream {name} has no address now ({why}): check the name, it is tried again");
        self.failed(Connect::Unresolved, &text);
    }

    /// Says it, and keeps it for whoever asks why the relay is not ready.
    fn trouble(&mut self, sentence: &str) {
        self.status.note_trouble(&self.name, sentence);
        self.say(sentence);
    }

    fn say(&mut self, sentence: &str) {
        match self.gate.pass(monotonic_us(), sentence) {
            Some(0) => tracing::warn!("{sentence}"),
            Some(held_back) => tracing::warn!(held_back, "{sentence}"),
            None => {}
        }
    }

    /// Waits for `work`, at most `limit_us`, and repeats frames meanwhile.
    async fn wait<T>(&mut self, work: impl Future<Output = T>, limit_us: u64) -> Waited<T> {
        let limit_us = monotonic_us().saturating_add(limit_us);
        tokio::pin!(work);
        loop {
            let next_us = self
                .intake
                .hold_due_us()
                .min(limit_us)
                .saturating_sub(monotonic_us());
            tokio::select! {
                biased;
                _ = self.stop.wait_for(|stop| *stop) => return Waited::Stopped,
                // What came counts before what is due: after a stall nothing is repeated first (FAULTS 41).
                done = &mut work => return Waited::Done(done),
                () = tokio::time::sleep(Duration::from_micros(next_us)) => {}
            }
            let now_us = monotonic_us();
            if self.intake.hold(now_us) {
                self.shelf.wake();
                self.metrics.tell(self.intake.counts());
            }
            if now_us >= limit_us {
                return Waited::TimeUp;
            }
        }
    }
}

/// Whole messages that make no event by themselves.
fn messages(counts: &SubscriberCounts) -> u64 {
    counts.unanchored + counts.skipped
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
