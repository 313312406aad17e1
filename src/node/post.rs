//! Datagrams that arrived at another shard's socket: after a client's address changed, or a worker count did, the
//! kernel may deliver to a shard that does not own the session (FAULTS 50).
//!
//! Buffers are pooled and channels bounded: what finds no room is dropped and counted, never waited for. A client
//! that loses datagrams this way says everything again in its next report.

use std::sync::Arc;

use crossbeam::channel::{Receiver, Sender, bounded};
use crossbeam::queue::ArrayQueue;

use crate::limits::{DATAGRAM_MAX, LETTERS_MAX};
use crate::net::waker::Waker;
use crate::relay::outbox::Path;

/// A datagram on its way to the shard that owns its session.
pub struct Letter {
    /// Where it came from.
    pub path: Path,
    length: usize,
    bytes: [u8; DATAGRAM_MAX],
}

impl Letter {
    /// The datagram.
    pub fn datagram(&mut self) -> &mut [u8] {
        let length = self.length.min(DATAGRAM_MAX);
        self.bytes.get_mut(..length).unwrap_or_default()
    }
}

/// Carries letters between shards.
pub struct Post {
    pool: ArrayQueue<Box<Letter>>,
    boxes: Vec<(Sender<Box<Letter>>, Waker)>,
}

impl Post {
    /// A post office for the shards whose wakers these are, in order, and each one's inbox.
    #[must_use]
    pub fn new(wakers: &[Waker]) -> (Arc<Post>, Vec<Receiver<Box<Letter>>>) {
        let (boxes, inboxes): (Vec<_>, Vec<_>) = wakers
            .iter()
            .map(|waker| {
                let (sender, receiver) = bounded(LETTERS_MAX);
                ((sender, waker.clone()), receiver)
            })
            .unzip();
        let pool = ArrayQueue::new((LETTERS_MAX * wakers.len()).max(1));
        // One shard has nobody to write to; memory is touched when it is needed.
        if wakers.len() > 1 {
            let path = Path {
                remote: ([0, 0, 0, 0], 0).into(),
                local: None,
            };
            let letter = || {
                Box::new(Letter {
                    path,
                    length: 0,
                    bytes: [0; DATAGRAM_MAX],
                })
            };
            while pool.push(letter()).is_ok() {}
        }
        (Arc::new(Post { pool, boxes }), inboxes)
    }

    /// Sends a copy of `datagram` to shard `to` and wakes it. False when there is no such shard, no buffer, or no
    /// room in its box: it is dropped.
    pub fn send(&self, to: u8, path: Path, datagram: &[u8]) -> bool {
        let Some((sender, waker)) = self.boxes.get(usize::from(to)) else {
            return false;
        };
        let Some(mut letter) = self.pool.pop() else {
            return false;
        };
        let fits = letter
            .bytes
            .get_mut(..datagram.len())
            .map(|place| place.copy_from_slice(datagram));
        (letter.path, letter.length) = (path, datagram.len());
        if fits.is_none() {
            self.give_back(letter);
            return false;
        }
        match sender.try_send(letter) {
            Ok(()) => {
                waker.wake();
                true
            }
            Err(refused) => {
                self.give_back(refused.into_inner());
                false
            }
        }
    }

    /// Returns a letter that was read.
    pub fn give_back(&self, letter: Box<Letter>) {
        // There is room for every letter ever made.
        let _ = self.pool.push(letter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: Path = Path {
        remote: std::net::SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9),
        local: None,
    };

    fn wakers(count: usize) -> Vec<Waker> {
        (0..count).map(|_| Waker::new().unwrap()).collect()
    }

    /// FAULTS 50: a datagram reaches the shard that owns its session, whole and with its path.
    #[test]
    fn faults_50_a_letter_arrives_as_it_was_sent() {
        let (post, inboxes) = Post::new(&wakers(2));
        assert!(post.send(1, FROM, b"hello"));
        let mut letter = inboxes[1].try_recv().unwrap();
        assert_eq!((letter.path, &*letter.datagram()), (FROM, &b"hello"[..]));
        post.give_back(letter);
        assert!(inboxes[0].is_empty());
        assert!(!post.send(2, FROM, b"nobody") && !post.send(1, FROM, &[0; DATAGRAM_MAX + 1]));
        assert!(post.send(1, FROM, &[7; DATAGRAM_MAX]));
        assert_eq!(inboxes[1].try_recv().unwrap().datagram().len(), DATAGRAM_MAX);
    }

    /// A shard that does not read its box costs the others nothing; every buffer comes back.
    #[test]
    fn a_full_box_drops_and_the_pool_is_never_drained() {
        let (post, inboxes) = Post::new(&wakers(2));
        let taken = (0..10 * LETTERS_MAX).filter(|_| post.send(1, FROM, b"x")).count();
        assert_eq!(taken, LETTERS_MAX);
        assert!(post.send(0, FROM, b"the other box has room"));
        for inbox in &inboxes {
            inbox.try_iter().for_each(|letter| post.give_back(letter));
        }
        assert_eq!(post.pool.len(), 2 * LETTERS_MAX);
        let (alone, _inbox) = Post::new(&wakers(1));
        assert!(!alone.send(0, FROM, b"to itself"));
    }
}
