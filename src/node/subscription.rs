//! One task for each subscriber of an origin: reads what it asks, writes what is queued for it.
//!
//! A connection is known to the origin before a byte of it was read, its TLS handshake included: until it has subscribed it
//! makes room for newer ones where there are many, so that silent connections keep no relay out (THREATS 82).

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tracing::Level;

use super::fuse::Fuse;
use super::origin::Stage;
use super::tls::{Line, OriginIdentity};
use crate::net::clock::monotonic_us;
use crate::net::files::none_left;
use crate::origin::subscribers::{Dropped, SubscriberId};

/// Time a closed subscriber has to read the last words.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Time a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// Time until the next one is accepted where one could not be.
const PAUSE: Duration = Duration::from_millis(20);

/// What ends the tasks of connections at once: a sender that is dropped.
#[derive(Clone, Default)]
struct Doors {
    open: Arc<Mutex<HashMap<SubscriberId, oneshot::Sender<()>>>>,
}

impl Doors {
    /// What is done with when the connection is to end at once.
    fn open(&self, id: SubscriberId) -> oneshot::Receiver<()> {
        let (door, shut) = oneshot::channel();
        self.doors().insert(id, door);
        shut
    }

    fn shut(&self, id: Option<SubscriberId>) {
        if let Some(id) = id {
            self.doors().remove(&id);
        }
    }

    fn doors(&self) -> std::sync::MutexGuard<'_, HashMap<SubscriberId, oneshot::Sender<()>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Accepts subscribers for ever; with an `identity` it shows that to each and speaks plainly with nobody.
pub(super) async fn accept(stage: Arc<Stage>, listener: TcpListener, identity: Option<OriginIdentity>) {
    let _fuse = Fuse::new("the origin's listener");
    let doors = Doors::default();
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => {
                let (id, crowded_out) = stage.hub().subscribers.open(peer.ip(), monotonic_us());
                doors.shut(crowded_out);
                let (stage, identity, doors) = (Arc::clone(&stage), identity.clone(), doors.clone());
                let shut = doors.open(id);
                tokio::spawn(async move {
                    let _fuse = Fuse::new("a subscriber's task");
                    let served = tokio::select! {
                        served = serve(&stage, socket, peer, identity, id) => served,
                        _ = shut => true,
                    };
                    doors.shut(Some(id));
                    close(&stage, peer, id, served);
                });
                // Who came gets a turn before the next one, who may need its place.
                tokio::task::yield_now().await;
            }
            // Out of files, or the peer is gone already: neither ends the origin (FAULTS 83).
            Err(error) => {
                let room = match none_left(&error) {
                    true => stage.hub().subscribers.make_room(),
                    false => Vec::new(),
                };
                let pause = if room.is_empty() { PAUSE } else { Duration::ZERO };
                room.into_iter().for_each(|id| doors.shut(Some(id)));
                tokio::time::sleep(pause).await;
            }
        }
    }
}

/// Makes a connection one that ticks may go by.
async fn introduce(
    stage: &Stage,
    socket: TcpStream,
    peer: SocketAddr,
    identity: Option<OriginIdentity>,
) -> Option<Line> {
    // Without it small ticks wait for acknowledgements; a connection that refuses it is broken.
    socket.set_nodelay(true).ok()?;
    let Some(identity) = identity else {
        return Some(Line::Plain(socket));
    };
    match tokio::time::timeout(HANDSHAKE, identity.accept(socket)).await {
        Ok(Ok(line)) => Some(line),
        Ok(Err(_)) => {
            let what = "was refused: it speaks no TLS 1.3 with this origin, or does not believe its certificate (upstream_ca_file)";
            say(stage, peer, Level::WARN, what);
            None
        }
        Err(_) => {
            say(
                stage,
                peer,
                Level::WARN,
                "was dropped: it did not finish the TLS handshake",
            );
            None
        }
    }
}

/// A task that ends with whoever waits for it.
struct Reading(JoinHandle<()>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One connection from beginning to end. False where it never became one that ticks may go by, which was said then.
async fn serve(
    stage: &Arc<Stage>,
    socket: TcpStream,
    peer: SocketAddr,
    identity: Option<OriginIdentity>,
    id: SubscriberId,
) -> bool {
    let Some(line) = introduce(stage, socket, peer, identity).await else {
        return false;
    };
    let (reader, mut writer) = tokio::io::split(line);
    let mut reading = Reading(tokio::spawn(read(Arc::clone(stage), reader, id, peer)));
    tokio::select! {
        _ = write(stage, &mut writer, id) => {
            // The peer reads the last words and closes; closing first could destroy them on their way.
            let _ = tokio::time::timeout(LAST_WORDS, async {
                let _ = writer.shutdown().await;
                let _ = (&mut reading.0).await;
            }).await;
        }
        _ = &mut reading.0 => {}
    }
    true
}

/// The connection is gone: the origin forgets it, and says why where nobody has.
fn close(stage: &Stage, peer: SocketAddr, id: SubscriberId, say_why: bool) {
    let mut hub = stage.hub();
    let dropped = hub.subscribers.closing(id);
    hub.counts.dropped_slow += u64::from(dropped == Some(Dropped::Slow));
    hub.subscribers.close(id);
    drop(hub);
    if say_why {
        let (level, what) = farewell(dropped);
        say(stage, peer, level, what);
    }
}

/// Why a subscriber is gone.
fn farewell(dropped: Option<Dropped>) -> (Level, &'static str) {
    match dropped {
        None => (Level::INFO, "closed the connection"),
        Some(Dropped::Ended) => (Level::INFO, "was told that the stream ended"),
        Some(Dropped::Slow) => (
            Level::WARN,
            "was dropped: too slow, it did not take what was sent to it",
        ),
        Some(Dropped::Silent) => (Level::WARN, "was dropped: it did not subscribe in time"),
        Some(Dropped::Crowded) => (
            Level::WARN,
            "was dropped: it had not subscribed, and newer connections needed its place",
        ),
        Some(Dropped::Full) => (Level::WARN, "was refused: this origin serves as many as it can"),
        Some(Dropped::Version) => (Level::WARN, "was refused: it speaks another protocol version"),
        Some(Dropped::Token) => (Level::WARN, "was refused: its token is not the right one"),
        Some(Dropped::Malformed) => (Level::WARN, "was dropped: its messages cannot be read"),
    }
}

/// Says it of a subscriber, unless many have come and gone just now (THREATS 39).
fn say(stage: &Stage, peer: SocketAddr, level: Level, what: &str) {
    let passed = stage
        .gate
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .pass(monotonic_us());
    match (passed, level) {
        (None, _) => {}
        (Some(0), Level::WARN) => tracing::warn!("subscriber {peer} {what}"),
        (Some(0), _) => tracing::info!("subscriber {peer} {what}"),
        (Some(held_back), Level::WARN) => tracing::warn!(held_back, "subscriber {peer} {what}"),
        (Some(held_back), _) => tracing::info!(held_back, "subscriber {peer} {what}"),
    }
}

/// Takes in what the subscriber says until it closes.
async fn read(stage: Arc<Stage>, mut reader: ReadHalf<Line>, id: SubscriberId, peer: SocketAddr) {
    let mut buffer = vec![0; 4096];
    loop {
        let Ok(count @ 1..) = reader.read(&mut buffer).await else {
            return;
        };
        let subscribed = {
            let mut hub = stage.hub();
            let hub = &mut *hub;
            let before = hub.subscribers.served();
            hub.subscribers.receive(
                id,
                buffer.get(..count).unwrap_or_default(),
                monotonic_us(),
                &hub.publisher,
            );
            hub.hear();
            hub.subscribers.served() > before
        };
        stage.notify();
        if subscribed {
            say(&stage, peer, Level::INFO, "subscribed");
        }
    }
}

/// Writes what is queued until the subscriber is to be closed, or is gone.
async fn write(stage: &Stage, writer: &mut WriteHalf<Line>, id: SubscriberId) -> io::Result<()> {
    let mut news = stage.news.subscribe();
    loop {
        news.mark_unchanged();
        loop {
            let next = stage.hub().subscribers.take(id);
            let Some(message) = next else { break };
            let mut writing = std::pin::pin!(async {
                writer.write_all(&message).await?;
                writer.flush().await
            });
            loop {
                tokio::select! {
                    biased;
                    written = &mut writing => break written?,
                    _ = news.changed() => {
                        // A slow one is not waited for, though a write to it is under way.
                        let closing = stage.hub().subscribers.closing(id);
                        if closing == Some(Dropped::Slow) {
                            return Ok(());
                        }
                    }
                }
            }
        }
        let closing = stage.hub().subscribers.closing(id);
        if closing.is_some() {
            return Ok(());
        }
        if news.changed().await.is_err() {
            return Ok(());
        }
    }
}
