//! One task for each subscriber of an origin: reads what it asks, writes what is queued for it.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tracing::Level;

use super::fuse::Fuse;
use super::origin::Stage;
use super::tls::{Line, OriginIdentity};
use crate::net::clock::monotonic_us;
use crate::origin::subscribers::{Dropped, SubscriberId};

/// Time a closed subscriber has to read the last words.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Time a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Handshakes under way at once: whoever comes then waits in the system's queue.
const HANDSHAKES_MAX: usize = 256;

/// Accepts subscribers for ever; with an `identity` it shows that to each and speaks plainly with nobody.
pub(super) async fn accept(stage: Arc<Stage>, listener: TcpListener, identity: Option<OriginIdentity>) {
    let _fuse = Fuse::new("the origin's listener");
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    loop {
        let Ok(handshake) = Arc::clone(&handshakes).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((socket, peer)) => {
                let (stage, identity) = (Arc::clone(&stage), identity.clone());
                tokio::spawn(async move {
                    let line = introduce(&stage, socket, peer, identity).await;
                    drop(handshake);
                    if let Some(line) = line {
                        attend(stage, line, peer).await;
                    }
                });
            }
            // Out of files, or the peer is gone already: neither ends the origin (FAULTS 83).
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
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

/// One connection from beginning to end.
async fn attend(stage: Arc<Stage>, mut line: Line, peer: SocketAddr) {
    let _fuse = Fuse::new("a subscriber's task");
    let opened = stage.hub().subscribers.open(monotonic_us());
    let id = match opened {
        Ok(id) => id,
        Err(refusal) => {
            say(
                &stage,
                peer,
                Level::WARN,
                "was refused: this origin serves as many as it can",
            );
            let _ = tokio::time::timeout(LAST_WORDS, line.write_all(&refusal)).await;
            let _ = tokio::time::timeout(LAST_WORDS, line.shutdown()).await;
            return;
        }
    };
    let (reader, mut writer) = tokio::io::split(line);
    let mut reading = tokio::spawn(read(Arc::clone(&stage), reader, id, peer));
    tokio::select! {
        _ = write(&stage, &mut writer, id) => {
            // The peer reads the last words and closes; closing first could destroy them on their way.
            let _ = writer.shutdown().await;
            let _ = tokio::time::timeout(LAST_WORDS, &mut reading).await;
            reading.abort();
        }
        _ = &mut reading => {}
    }
    let mut hub = stage.hub();
    let dropped = hub.subscribers.closing(id);
    hub.counts.dropped_slow += u64::from(dropped == Some(Dropped::Slow));
    hub.subscribers.close(id);
    drop(hub);
    let (level, what) = farewell(dropped);
    say(&stage, peer, level, what);
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
