//! Where the truth comes from: a tap in this process, a subscription to the origin, or the recording it plays.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use crossbeam::channel::{Receiver, RecvTimeoutError};
use tokio_rustls::rustls::{ClientConnection, StreamOwned};

use super::settings::FlagError;
use super::truth::{Timeless, TruthLog};
use crate::limits::ARENA_FRAMES;
use crate::net::clock::{host_clock_id, monotonic_us};
use crate::node::origin::Truth;
use crate::node::secret::SecretText;
use crate::node::tls::{UpstreamTrust, is_tls_alert};
use crate::origin::publisher::Publisher;
use crate::sequence::Tick;
use crate::state::sample::WorldSample;
use crate::state::world::World;
use crate::trace::world::{TraceOptions, TraceWorld};
use crate::upstream::message::OBSERVER;
use crate::upstream::subscriber::{Subscriber, SubscriberEvent};

/// Where the truth comes from.
#[derive(Clone, Debug)]
pub enum TruthSource {
    /// The origin runs in this process.
    Tap(Receiver<Truth>),
    /// A subscription to the origin: `host:port` and what it wants to be shown.
    Subscription {
        /// The origin's address.
        addr: String,
        /// What the origin knows its subscribers by.
        token: SecretText,
        /// Whom it believes to be the origin; `None` for a plain connection.
        trust: Option<UpstreamTrust>,
    },
    /// The recording that the origin plays, from its beginning and for ever. Knows no times of publication.
    Recording(PathBuf),
}

/// How long a source sleeps when there is nothing.
const GLANCE: Duration = Duration::from_millis(20);
/// Time in which an origin shows its certificate.
const HANDSHAKE: Duration = Duration::from_secs(3);
/// Pause before connecting again.
const AGAIN: Duration = Duration::from_millis(200);
/// The same in the first seconds after a connection was lost: an origin that comes back is met before its relay, whose
/// pauses are longer, has shown a tick of it to anybody.
const SOON: Duration = Duration::from_millis(10);
const SOON_FOR: Duration = Duration::from_secs(10);
/// How far a recording is played ahead of what was asked for, microseconds.
const AHEAD_US: u64 = 500_000;

/// Starts the thread that writes `log` until it is stopped.
///
/// # Errors
/// When a recording cannot be read, an address cannot be resolved, or the thread cannot be started.
pub fn start(source: TruthSource, log: Arc<TruthLog>) -> anyhow::Result<JoinHandle<()>> {
    let builder = std::thread::Builder::new().name("bench-truth".to_owned());
    let thread = match source {
        TruthSource::Tap(receiver) => builder.spawn(move || tap(&receiver, &log)),
        TruthSource::Subscription { addr, token, trust } => {
            let found = addr.to_socket_addrs().map_err(|error| {
                FlagError(format!(
                    "--truth {addr} is no file, and no address ({error}): give the origin's host:port, or the recording it plays"
                ))
            })?;
            if found.count() == 0 {
                let text = format!("--truth {addr} has no address: give the origin's host:port");
                return Err(FlagError(text).into());
            }
            builder.spawn(move || subscribe(&addr, &token, trust.as_ref(), &log))
        }
        TruthSource::Recording(path) => {
            let world = TraceWorld::load(&path, &TraceOptions::default())
                .map_err(|error| FlagError(format!("--truth {error}")))?;
            builder.spawn(move || play(&world, &log))
        }
    };
    thread.context("the thread that keeps the truth cannot be started")
}

fn tap(receiver: &Receiver<Truth>, log: &TruthLog) {
    log.begin_stream();
    while !log.is_stopped() {
        match receiver.recv_timeout(GLANCE) {
            Ok(truth) => {
                let published_us = Some(truth.update.published_us).filter(|at| *at > 0);
                log.push(monotonic_us(), truth.frame, published_us);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// The world of a subscription's stream.
struct Followed {
    world: World,
    tick: Tick,
    one_clock: bool,
}

fn subscribe(addr: &str, token: &SecretText, trust: Option<&UpstreamTrust>, log: &TruthLog) {
    let mut subscriber = Subscriber::with_flags(token.expose().to_vec(), OBSERVER);
    let (mut followed, mut lost_at) = (None, None);
    while !log.is_stopped() {
        match connect(addr) {
            Ok(stream) => {
                // It is tried again whatever ended it.
                let before = log.pushed();
                let ended = match trust {
                    None => follow(stream, &mut subscriber, &mut followed, log),
                    Some(trust) => sealed(trust, addr, stream)
                        .and_then(|stream| follow(stream, &mut subscriber, &mut followed, log)),
                };
                match (trust, ended) {
                    (Some(_), Err(error)) => {
                        log.note_trouble(format!("the TLS connection ended: {error}"), false);
                    }
                    (None, Err(error)) if error.kind() == ErrorKind::InvalidData => {
                        let text =
                            "the origin speaks TLS, and the bench speaks plainly: give --truth-ca-file";
                        log.note_trouble(text.to_owned(), true);
                    }
                    (None, _) if log.pushed() == before => {
                        let text = "the connection ended before the origin said anything: if it speaks TLS, give --truth-ca-file";
                        // What it was refused for says more.
                        if log.trouble().is_none_or(|trouble| !trouble.is_final) {
                            log.note_trouble(text.to_owned(), false);
                        }
                    }
                    _ => {}
                }
                subscriber.disconnected(&mut Vec::new());
                log.note_gap();
                if log.pushed() > before {
                    lost_at = Some(Instant::now());
                }
            }
            Err(text) => log.note_trouble(text, false),
        }
        let is_fresh = lost_at.is_some_and(|at| at.elapsed() < SOON_FOR);
        std::thread::sleep(if is_fresh { SOON } else { AGAIN });
    }
}

/// A connection, or why there is none.
fn connect(addr: &str) -> Result<TcpStream, String> {
    let mut why = "the name has no address".to_owned();
    let found = addr.to_socket_addrs().map_err(|error| error.to_string())?;
    for addr in found {
        match TcpStream::connect_timeout(&addr, Duration::from_secs(1)) {
            Ok(stream) => {
                stream
                    .set_read_timeout(Some(GLANCE))
                    .map_err(|error| error.to_string())?;
                return Ok(stream);
            }
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                why = format!("{addr} refuses connections: nothing listens there");
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                why = format!("{addr} does not answer");
            }
            Err(error) => why = format!("{addr} cannot be reached: {error}"),
        }
    }
    Err(why)
}

/// The origin's certificate is asked for before anything is said.
fn sealed(
    trust: &UpstreamTrust,
    addr: &str,
    stream: TcpStream,
) -> std::io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let mut stream = trust.over(addr, stream)?;
    stream.sock.set_read_timeout(Some(HANDSHAKE))?;
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    stream.sock.set_read_timeout(Some(GLANCE))?;
    Ok(stream)
}

fn follow(
    mut stream: impl Read + Write,
    subscriber: &mut Subscriber,
    followed: &mut Option<Followed>,
    log: &TruthLog,
) -> std::io::Result<()> {
    stream.write_all(&subscriber.start())?;
    stream.flush()?;
    let (mut buffer, mut events) = (vec![0; 64 << 10], Vec::new());
    let mut is_first = true;
    while !log.is_stopped() && !subscriber.is_closed() {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                let bytes = buffer.get(..length).unwrap_or_default();
                if core::mem::take(&mut is_first) && is_tls_alert(bytes) {
                    return Err(ErrorKind::InvalidData.into());
                }
                subscriber.receive(bytes, &mut events);
            }
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            Err(error) => return Err(error),
        }
        for event in events.drain(..) {
            take(event, followed, log);
        }
        let outgoing = subscriber.take_outgoing();
        stream.write_all(&outgoing)?;
        stream.flush()?;
    }
    Ok(())
}

fn take(event: SubscriberEvent, followed: &mut Option<Followed>, log: &TruthLog) {
    match event {
        SubscriberEvent::Stream(stream) => {
            let one_clock = stream.clock_id != 0 && stream.clock_id == host_clock_id();
            match followed {
                Some(followed) if stream.continued => followed.one_clock = one_clock,
                _ => {
                    log.join_stream();
                    let quarantine = u32::try_from(ARENA_FRAMES).unwrap_or(u32::MAX);
                    let world = World::new(stream.schema, 1, quarantine);
                    *followed = Some(Followed {
                        world,
                        tick: Tick(0),
                        one_clock,
                    });
                }
            }
        }
        SubscriberEvent::Tick(update) => {
            let Some(Followed {
                world,
                tick,
                one_clock,
            }) = followed
            else {
                return;
            };
            *tick = tick.next();
            if let Some(frame) = world.advance(*tick, &update) {
                let published_us = Some(update.published_us).filter(|at| *at > 0 && *one_clock);
                if update.published_us == 0 {
                    log.note_timeless(Timeless::NotSent);
                } else if !*one_clock {
                    log.note_timeless(Timeless::OtherClock);
                }
                log.push(monotonic_us(), frame, published_us);
            }
        }
        SubscriberEvent::Malformed(_) => log.note_gap(),
        // An origin that refuses this subscriber once will do so again.
        SubscriberEvent::Refused(text) => log.note_trouble(text, true),
        SubscriberEvent::Ended => {}
    }
}

/// Plays a recording as far as somebody asks, as an origin that started it anew for each stream.
fn play(world: &TraceWorld, log: &TruthLog) {
    log.note_timeless(Timeless::Recording);
    let mut stream = 0;
    // The log forgets by a clock that goes with the recording.
    let mut clock_us = 0;
    while !log.is_stopped() {
        let Ok(mut publisher) = Publisher::new(world.schema().clone(), 1, 1, 0) else {
            return;
        };
        log.begin_stream();
        stream += 1;
        let (mut sample, mut index, mut pass) = (WorldSample::default(), 0, 0);
        while !log.is_stopped() {
            let at_us = publisher.world().server_us();
            match log.wanted() {
                Some((wanted, _)) if wanted > stream => break,
                Some((wanted, until_us)) if wanted == stream && at_us < until_us + AHEAD_US => {}
                _ if publisher.frame().is_none() => {}
                _ => {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
            }
            if !world.sample_into(index, pass, &mut sample) {
                (index, pass) = (0, pass + 1);
                continue;
            }
            index += 1;
            if let Some(frame) = publisher.publish(&sample, 0).frame {
                log.push(clock_us + frame.server_us, frame, None);
            }
        }
        clock_us += publisher.world().server_us();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::truth::TruthReader;

    fn until(log: &Arc<TruthLog>, mut reached: impl FnMut(&TruthReader) -> bool) -> bool {
        let (mut reader, begun) = (TruthReader::new(Arc::clone(log)), Instant::now());
        while begun.elapsed() < Duration::from_secs(20) {
            reader.refresh();
            if reached(&reader) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }

    /// Who is not there, or does not let the bench in, is named: the one is tried again, the other is not.
    /// The truth comes by TLS where the origin proves itself, and from nobody else.
    #[test]
    fn threats_82_the_truth_comes_from_whom_the_file_vouches_for() {
        use crate::node::origin::{OriginHandle, OriginSettings, OriginSource};
        use crate::node::tls::tests::Papers;
        let (papers, others) = (Papers::new("truth"), Papers::new("no-truth"));
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/data/rl_2016_3v3_800.jsonl.zst"
        );
        let origin = OriginHandle::start(OriginSettings {
            identity: Some(papers.identity()),
            ..OriginSettings::loopback(OriginSource::Trace {
                path: path.into(),
                repeat: true,
                speed: 1.0,
            })
        })
        .expect("an origin");
        for (trust, comes) in [
            (Some(papers.trust()), true),
            (Some(others.trust()), false),
            (None, false),
        ] {
            let is_plain = trust.is_none();
            let log = TruthLog::new(1_000_000);
            let source = TruthSource::Subscription {
                addr: origin.addr().to_string(),
                token: SecretText::default(),
                trust,
            };
            let thread = start(source, Arc::clone(&log)).expect("starts");
            let begun = Instant::now();
            while log.pushed() == 0 && log.trouble().is_none() {
                assert!(
                    begun.elapsed() < Duration::from_secs(20),
                    "neither truth nor trouble"
                );
                std::thread::sleep(Duration::from_millis(2));
            }
            log.stop();
            thread.join().expect("ends");
            assert_eq!(log.pushed() > 0, comes, "{:?}", log.trouble());
            let said = log.trouble().map_or(String::new(), |trouble| trouble.text);
            assert_eq!(
                said.contains("speaks TLS") && said.contains("--truth-ca-file"),
                is_plain,
                "{said}"
            );
        }
    }

    #[test]
    fn what_keeps_the_truth_away_is_named() {
        use crate::node::origin::{OriginHandle, OriginSettings, OriginSource};
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let nobody = nobody.expect("a port").to_string();
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/data/rl_2016_3v3_800.jsonl.zst"
        );
        let origin = OriginHandle::start(OriginSettings {
            token: "secret".into(),
            ..OriginSettings::loopback(OriginSource::Trace {
                path: path.into(),
                repeat: true,
                speed: 1.0,
            })
        })
        .expect("an origin");
        for (addr, words, is_final) in [
            (nobody.clone(), format!("{nobody} refuses connections"), false),
            (
                origin.addr().to_string(),
                "the token is not the one".to_owned(),
                true,
            ),
        ] {
            let (log, begun) = (TruthLog::new(1), Instant::now());
            let token = "sesame".into();
            let source = TruthSource::Subscription {
                addr,
                token,
                trust: None,
            };
            let thread = start(source, Arc::clone(&log)).expect("starts");
            let trouble = loop {
                if let Some(trouble) = log.trouble() {
                    break trouble;
                }
                assert!(begun.elapsed() < Duration::from_secs(20), "no trouble");
                std::thread::sleep(Duration::from_millis(2));
            };
            log.stop();
            thread.join().expect("ends");
            assert!(
                trouble.text.contains(&words) && trouble.is_final == is_final,
                "{trouble:?}"
            );
        }
        let source = TruthSource::Subscription {
            addr: "no-port".to_owned(),
            token: SecretText::default(),
            trust: None,
        };
        let error = start(source, TruthLog::new(1)).expect_err("refused");
        assert!(
            error.is::<FlagError>() && error.to_string().contains("--truth no-port is no file"),
            "{error}"
        );
    }

    /// A recording gives the frames that an origin of the same recording publishes, at any time asked for, also
    /// after its end, and begins anew with each stream.
    #[test]
    fn a_recording_is_played_as_far_as_asked() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/data/rl_2016_3v3_800.jsonl.zst"
        );
        let world = TraceWorld::load(path, &TraceOptions::default()).expect("loads");
        let log = TruthLog::new(5_000_000);
        let thread = start(TruthSource::Recording(path.into()), Arc::clone(&log)).expect("starts");
        let mut publisher = Publisher::new(world.schema().clone(), 1, 1, 0).expect("schema");
        let frames: Vec<_> = world
            .play(true)
            .take(1000)
            .filter_map(|sample| publisher.publish(&sample, 0).frame)
            .collect();
        for frame in [&frames[0], &frames[500], &frames[999]] {
            log.want(1, frame.server_us);
            let same = |reader: &TruthReader| {
                let mut at = reader.at(1, frame.server_us);
                at.any(|truth| truth.frame.records().eq(frame.records()))
            };
            assert!(until(&log, same), "frame of {} us", frame.server_us);
        }
        log.want(2, frames[3].server_us);
        assert!(until(&log, |reader| reader
            .at(2, frames[3].server_us)
            .next()
            .is_some()));
        log.stop();
        thread.join().expect("ends");
    }
}
