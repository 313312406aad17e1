//! The bytes of one subscriber over a stream that does not block, for an origin without an event loop of its own.
//!
//! The stream is the caller's: a `TcpStream` with `set_nonblocking`, or anything like it. What it takes no more of stays here, one
//! message at the most; the others stay in [`Subscribers`], which drops who is slow.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;

use super::publisher::Publisher;
use super::subscribers::{SubscriberId, Subscribers};

/// Reads of one turn: a relay that floods keeps nobody waiting for longer.
const READS_MAX: usize = 16;
const READ_BYTES: usize = 4096;

/// A subscriber's stream, and what of a message is still to be written.
#[derive(Debug)]
pub struct Carrier<S> {
    id: SubscriberId,
    stream: S,
    message: Arc<[u8]>,
    written: usize,
}

impl<S: Read + Write> Carrier<S> {
    /// The stream of the subscriber that [`Subscribers::open`] has named.
    pub fn new(id: SubscriberId, stream: S) -> Carrier<S> {
        Carrier {
            id,
            stream,
            message: Arc::default(),
            written: 0,
        }
    }

    /// Moves what can be moved, both ways. False once the subscriber is gone or was dropped: then it is closed, and the
    /// stream is to be.
    pub fn carry(&mut self, subscribers: &mut Subscribers, publisher: &Publisher, now_us: u64) -> bool {
        let goes_on = self.receive(subscribers, publisher, now_us) && self.send(subscribers);
        if !goes_on {
            subscribers.close(self.id);
        }
        goes_on
    }

    fn receive(&mut self, subscribers: &mut Subscribers, publisher: &Publisher, now_us: u64) -> bool {
        let mut buffer = [0; READ_BYTES];
        for _ in 0..READS_MAX {
            match self.stream.read(&mut buffer).map(|count| buffer.get(..count)) {
                Ok(Some([])) | Ok(None) => return false,
                Ok(Some(bytes)) => subscribers.receive(self.id, bytes, now_us, publisher),
                Err(error) if waits(&error) => break,
                Err(_) => return false,
            }
        }
        true
    }

    fn send(&mut self, subscribers: &mut Subscribers) -> bool {
        loop {
            let rest = self.message.get(self.written..).unwrap_or_default();
            if rest.is_empty() {
                let Some(message) = subscribers.take(self.id) else {
                    return subscribers.closing(self.id).is_none();
                };
                (self.message, self.written) = (message, 0);
                continue;
            }
            match self.stream.write(rest) {
                Ok(0) => return false,
                Ok(count) => self.written = self.written.saturating_add(count),
                Err(error) if waits(&error) => return true,
                Err(_) => return false,
            }
        }
    }
}

/// True where the stream has no more to give, or takes no more, for now.
fn waits(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::state::sample::WorldSample;
    use crate::state::schema::tests::full_schema;
    use crate::upstream::subscriber::{Subscriber, SubscriberEvent};

    /// A stream that has something to say, and takes so many bytes at a time.
    struct Stream {
        says: Vec<u8>,
        over: bool,
        takes: usize,
        took: Vec<u8>,
    }

    impl Read for Stream {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let count = self.says.len().min(into.len());
            into[..count].copy_from_slice(&self.says[..count]);
            self.says.drain(..count);
            match count == 0 && !self.over {
                true => Err(ErrorKind::WouldBlock.into()),
                false => Ok(count),
            }
        }
    }

    impl Write for Stream {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let count = bytes.len().min(self.takes);
            self.takes -= count;
            self.took.extend_from_slice(&bytes[..count]);
            match count {
                0 => Err(ErrorKind::WouldBlock.into()),
                _ => Ok(count),
            }
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// What a stream takes in pieces is whole at the other end, in order; once the stream is over the subscriber is closed.
    #[test]
    fn a_stream_that_takes_few_bytes_at_a_time_gets_all() {
        let mut publisher = Publisher::new(full_schema(), 1, 2, 3).unwrap();
        let mut subscribers = Subscribers::new(Vec::new());
        let mut subscriber = Subscriber::new(Vec::new());
        let id = subscribers.open(std::net::Ipv4Addr::LOCALHOST.into(), 0).0;
        let stream = Stream {
            says: subscriber.start(),
            over: false,
            takes: 0,
            took: Vec::new(),
        };
        let mut carrier = Carrier::new(id, stream);
        for turn in 0..2_000_u64 {
            if turn < 20 {
                let server_us = (turn + 1) * 50_000;
                let sample = WorldSample {
                    server_us,
                    ..WorldSample::default()
                };
                let published = publisher.publish(&sample, 0);
                subscribers.publish(&published, server_us, &publisher);
            }
            carrier.stream.takes = 7;
            assert!(carrier.carry(&mut subscribers, &publisher, 1_000_000));
        }
        let mut events = Vec::new();
        subscriber.receive(&carrier.stream.took, &mut events);
        let ticks: Vec<u64> = events
            .iter()
            .filter_map(|event| match event {
                SubscriberEvent::Tick(update) => Some(update.origin_tick),
                _ => None,
            })
            .collect();
        assert!(ticks.len() >= 19 && ticks.is_sorted(), "{ticks:?}");
        assert_eq!((ticks.last(), subscribers.served()), (Some(&20), 1));
        carrier.stream.over = true;
        assert!(!carrier.carry(&mut subscribers, &publisher, 1_000_000));
        assert_eq!(subscribers.served(), 0);
    }
}
