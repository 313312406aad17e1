//! What datagrams of made-up sources make a relay do: nothing that costs memory, and less goes out than comes in.

#![cfg(feature = "relay")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "pair_harness/calls.rs"]
mod calls;

use ackline::limits::DATAGRAM_MAX;
use ackline::relay::admission::Limits;
use ackline::relay::budget::Budget;
use ackline::relay::outbox::{Outbox, Path};
use ackline::relay::shard::{Shard, ShardLimits, ShardSettings};
use ackline::state::view::View;
use ackline::wire::handshake::{COOKIE_BYTES, put_request, put_response};
use ackline::wire::version::{PROTOCOL_VERSION, Versions};
use calls::{Calls, calls};

#[global_allocator]
static ALLOCATOR: Calls = Calls;

/// An outbox that counts, and asks for no memory.
struct Sink {
    buffer: [u8; DATAGRAM_MAX],
    datagrams: u64,
    bytes: usize,
}

impl Outbox for Sink {
    fn room(&self) -> usize {
        64
    }

    fn reserve(&mut self) -> Option<&mut [u8]> {
        Some(&mut self.buffer)
    }

    fn commit(&mut self, length: usize, _: Path) {
        self.datagrams += 1;
        self.bytes += length;
    }
}

/// THREATS 1, 16: datagrams of made-up sources, of every kind a stranger may send, ask for not one byte of the heap and leave
/// no session, with limits and without; and less goes out than comes in.
#[test]
fn threats_1_16_strangers_take_no_memory() {
    let limits = Limits {
        challenges_per_s: 20_000,
        challenges_per_host_per_s: 10,
        handshakes_per_host_per_s: 20,
        handshakes_per_prefix_per_s: 200,
        sessions_per_host: 10,
        sessions_unheard: 10,
        ..Limits::default()
    };
    for limits in [Limits::default(), limits] {
        let mut shard = Shard::new(ShardSettings {
            index: 0,
            sessions_max: 100,
            budget: Budget::default(),
            egress_bytes_per_s: None,
            view: View::WHOLE,
            gate: None,
            versions: Versions::SPOKEN,
            limits: ShardLimits {
                limits,
                shards: 1,
                ..ShardLimits::default()
            },
            cookie_secret: [1; 32],
            seed: [2; 32],
            stopwatch: || 0,
        });
        let mut sink = Sink {
            buffer: [0; DATAGRAM_MAX],
            datagrams: 0,
            bytes: 0,
        };
        let (mut request, mut response) = (Vec::new(), Vec::new());
        put_request(&mut request, PROTOCOL_VERSION, &[7; 16]);
        put_response(
            &mut response,
            PROTOCOL_VERSION,
            &[7; 16],
            &[3; COOKIE_BYTES],
            &[9; 200],
        );
        let mut up = vec![0x20; 60];
        let mut room = vec![0; 1_200];
        let (mut came, before) = (0, calls());
        for number in 0..100_000u32 {
            let path = Path {
                remote: ((0x0B00_0000 + number).to_be_bytes(), 4_000).into(),
                local: None,
            };
            up[1..5].copy_from_slice(&number.to_le_bytes());
            request[7..11].copy_from_slice(&number.to_le_bytes());
            for datagram in [&request, &response, &up] {
                room[..datagram.len()].copy_from_slice(datagram);
                shard.receive(
                    u64::from(number) * 20,
                    path,
                    &mut room[..datagram.len()],
                    &mut sink,
                );
                came += datagram.len();
            }
        }
        assert_eq!(calls() - before, 0, "{limits:?}");
        assert_eq!(shard.open(), 0);
        assert!(
            sink.datagrams > 50_000 && sink.bytes < came,
            "{} of {came}",
            sink.bytes
        );
    }
}
