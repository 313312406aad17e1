//! Connections to the admin: few at once, and each with a deadline for what is to come next.
//!
//! A request has a bounded time from its first byte to its answer's last; a connection that asks nothing may stay open a
//! while, as those of Prometheus do between scrapes. Where one more comes than there may be, the oldest goes: whoever holds
//! connections open keeps neither operators out nor the process without file descriptors.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep};

use crate::limits::ADMIN_CONNECTIONS_MAX;

/// How long a visitor may take.
#[derive(Clone, Copy)]
struct Patience {
    /// From a request's first byte, or the connection's beginning, until its answer was taken.
    request: Duration,
    /// Between an answer and the next request: longer than a scrape interval.
    idle: Duration,
}

const PATIENCE: Patience = Patience {
    request: Duration::from_secs(10),
    idle: Duration::from_secs(150),
};

/// Accepts visitors.
pub struct Visitors {
    listener: TcpListener,
    patience: Patience,
    /// Those that came, in order; what was let go of tells its connection to end.
    doors: VecDeque<oneshot::Sender<()>>,
}

impl Visitors {
    /// Of this listener.
    #[must_use]
    pub fn new(listener: TcpListener) -> Visitors {
        Visitors {
            listener,
            patience: PATIENCE,
            doors: VecDeque::new(),
        }
    }
}

impl Listener for Visitors {
    type Io = Visitor;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Visitor, SocketAddr) {
        let (stream, from) = Listener::accept(&mut self.listener).await;
        self.doors.retain(|door| !door.is_closed());
        while self.doors.len() >= ADMIN_CONNECTIONS_MAX {
            self.doors.pop_front();
        }
        let (door, shut) = oneshot::channel();
        self.doors.push_back(door);
        (Visitor::new(stream, self.patience, shut), from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// One connection.
pub struct Visitor {
    stream: TcpStream,
    deadline: Pin<Box<Sleep>>,
    patience: Patience,
    /// A request is under way: the deadline does not move before it is answered.
    asks: bool,
    /// A part of its answer was taken.
    answered: bool,
    shut: oneshot::Receiver<()>,
}

impl Visitor {
    fn new(stream: TcpStream, patience: Patience, shut: oneshot::Receiver<()>) -> Visitor {
        Visitor {
            stream,
            deadline: Box::pin(sleep(patience.request)),
            patience,
            asks: true,
            answered: false,
            shut,
        }
    }

    /// An error once the deadline is over, or this connection had to make room.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let is_over = self.deadline.as_mut().poll(context).is_ready();
        if is_over || Pin::new(&mut self.shut).poll(context).is_ready() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    fn wait(&mut self, time: Duration) {
        self.deadline.as_mut().reset(Instant::now() + time);
    }
}

impl AsyncRead for Visitor {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before && !self.asks {
            self.asks = true;
            let time = self.patience.request;
            self.wait(time);
        }
        read
    }
}

impl AsyncWrite for Visitor {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.answered |= matches!(written, Poll::Ready(Ok(_)));
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        // All of an answer is with the kernel; where nothing was written, this was asked for in passing.
        if flushed.is_ready() && self.answered {
            (self.asks, self.answered) = (false, false);
            let time = self.patience.idle;
            self.wait(time);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// A server that is patient for half a second with a request, and for five seconds between two.
    async fn server() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let address = listener.local_addr().expect("has one");
        let visitors = Visitors {
            patience: Patience {
                request: Duration::from_millis(500),
                idle: Duration::from_secs(5),
            },
            ..Visitors::new(listener)
        };
        let router = Router::new().route("/", get(|| async { "well" }));
        tokio::spawn(async move { axum::serve(visitors, router).await });
        address
    }

    const ASK: &[u8] = b"GET / HTTP/1.1\r\nHost: relay\r\n\r\n";

    async fn answer(stream: &mut TcpStream) -> String {
        let mut bytes = [0; 1024];
        let read = tokio::time::timeout(Duration::from_secs(10), stream.read(&mut bytes)).await;
        let length = read.expect("in time").unwrap_or(0);
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    fn block_on(work: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("is made").block_on(work);
    }

    /// A request that comes byte by byte is cut off; a connection that rests between two requests longer than one may take
    /// is not, and in the end is.
    #[test]
    fn a_request_has_a_deadline_and_a_rest_another() {
        block_on(async {
            let address = server().await;
            let mut slow = TcpStream::connect(address).await.expect("connects");
            let begun = Instant::now();
            for byte in ASK.iter().cycle().take(400) {
                let pause = sleep(Duration::from_millis(30));
                if slow.write_all(&[*byte]).await.is_err() {
                    break;
                }
                pause.await;
                assert!(begun.elapsed() < Duration::from_secs(8), "it is never cut off");
            }
            let mut calm = TcpStream::connect(address).await.expect("connects");
            for _ in 0..2 {
                calm.write_all(ASK).await.expect("asks");
                assert!(answer(&mut calm).await.ends_with("well"));
                sleep(Duration::from_millis(800)).await;
            }
            assert_eq!(answer(&mut calm).await, "", "it rested too long");
        });
    }

    /// Whoever holds all connections there may be keeps nobody out: the oldest goes.
    #[test]
    fn the_oldest_makes_room() {
        block_on(async {
            let address = server().await;
            let mut held = Vec::new();
            for _ in 0..ADMIN_CONNECTIONS_MAX {
                let mut stream = TcpStream::connect(address).await.expect("connects");
                stream.write_all(ASK).await.expect("asks");
                assert!(answer(&mut stream).await.ends_with("well"));
                held.push(stream);
            }
            let mut late = TcpStream::connect(address).await.expect("connects");
            late.write_all(ASK).await.expect("asks");
            assert!(answer(&mut late).await.ends_with("well"), "one more is served");
            assert_eq!(answer(&mut held[0]).await, "", "the oldest was let go");
            held[1].write_all(ASK).await.expect("asks");
            assert!(answer(&mut held[1]).await.ends_with("well"), "and no other");
        });
    }
}
