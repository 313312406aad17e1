//! Connections to the operators' HTTP: so many at once, each for so long, and none keeps a newer one out.
//!
//! A connection that is not being answered waits in an [`Anteroom`], and the longest waiting is closed for a newcomer, so a probe
//! is answered beside any number of requests that never end. What is being answered is bounded by the relay's own questions.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::fuse::Fuse;
use crate::anteroom::Anteroom;
use crate::limits::{
    ADMIN_ANSWER_US, ADMIN_CONNECTION_US, ADMIN_HEADER_US, ADMIN_WAITING_HOST_MAX, ADMIN_WAITING_MAX,
};
use crate::net::files::none_left;

/// Time until the next one is accepted where one could not be.
const PAUSE: Duration = Duration::from_millis(20);

/// Who is there, and what ends each at once: a sender that is dropped.
struct Lobby {
    anteroom: Anteroom,
    doors: HashMap<u64, oneshot::Sender<()>>,
}

impl Lobby {
    fn shut(&mut self, who: Option<u64>) {
        if let Some(who) = who {
            self.doors.remove(&who);
        }
    }
}

/// One connection in the lobby; it is out of it when this is dropped.
struct Visitor {
    lobby: Arc<Mutex<Lobby>>,
    who: u64,
    from: SocketAddr,
}

impl Visitor {
    fn lobby(&self) -> MutexGuard<'_, Lobby> {
        self.lobby.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It waits, and is the newest of those who do.
    fn wait(&self) {
        let mut lobby = self.lobby();
        let gone = lobby.anteroom.enter(self.who, self.from.ip());
        lobby.shut(gone);
    }

    /// It is being answered: it makes no room meanwhile.
    fn attend(&self) {
        self.lobby().anteroom.leave(self.who, self.from.ip());
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        let mut lobby = self.lobby();
        lobby.anteroom.leave(self.who, self.from.ip());
        lobby.shut(Some(self.who));
    }
}

/// Answers whoever connects, for ever.
pub async fn serve(listener: TcpListener, router: Router) {
    let lobby = Arc::new(Mutex::new(Lobby {
        anteroom: Anteroom::new(ADMIN_WAITING_MAX, ADMIN_WAITING_HOST_MAX),
        doors: HashMap::new(),
    }));
    let _fuse = Fuse::new("the admin's listener");
    let mut who = 0;
    loop {
        match listener.accept().await {
            Ok((socket, from)) => {
                who += 1;
                let (door, shut) = oneshot::channel();
                let lobby = Arc::clone(&lobby);
                let visitor = Arc::new(Visitor { lobby, who, from });
                visitor.lobby().doors.insert(who, door);
                visitor.wait();
                let router = router.clone();
                tokio::spawn(async move {
                    tokio::select! {
                        () = attend(socket, router, &visitor) => {}
                        _ = shut => {}
                    }
                });
                // Who came gets a turn before the next one, who may need its place.
                tokio::task::yield_now().await;
            }
            // Out of files, or the peer is gone already: neither ends the admin (FAULTS 83).
            Err(error) => {
                let gone = match none_left(&error) {
                    true => shrink(&lobby),
                    false => 0,
                };
                let pause = if gone > 0 { Duration::ZERO } else { PAUSE };
                tokio::time::sleep(pause).await;
            }
        }
    }
}

/// Closes some who wait, where the system has no more files. How many.
fn shrink(lobby: &Mutex<Lobby>) -> usize {
    let mut lobby = lobby.lock().unwrap_or_else(PoisonError::into_inner);
    let gone = lobby.anteroom.shrink();
    gone.iter().for_each(|who| lobby.shut(Some(*who)));
    gone.len()
}

/// One connection, until it ends or has been there long enough.
async fn attend(socket: TcpStream, router: Router, visitor: &Arc<Visitor>) {
    let answers = TowerToHyperService::new(router);
    let service = service_fn(|request| {
        let (answer, visitor) = (answers.call(request), Arc::clone(visitor));
        async move {
            visitor.attend();
            let answer = tokio::time::timeout(Duration::from_micros(ADMIN_ANSWER_US), answer).await;
            visitor.wait();
            Ok::<Response, Infallible>(match answer {
                Ok(Ok(response)) => response,
                Ok(Err(never)) => match never {},
                Err(_) => (
                    StatusCode::SERVICE_UNAVAILABLE,
                    "{ \"error\": \"no answer in time\" }\n",
                )
                    .into_response(),
            })
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_micros(ADMIN_HEADER_US))
        .serve_connection(TokioIo::new(socket), service);
    let mut connection = pin!(connection);
    let long = Duration::from_micros(ADMIN_CONNECTION_US);
    if tokio::time::timeout(long, connection.as_mut()).await.is_err() {
        // The answer under way is still given, to who takes it.
        connection.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(Duration::from_micros(ADMIN_ANSWER_US), connection).await;
    }
}
