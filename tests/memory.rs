//! Bytes counted by the allocator: what one client can make a relay hold (SPEC WIN9, OPS5; THREATS 62, 63).
//!
//! A session's bytes are those that come free when it closes, so nothing that shards share is counted.

#![cfg(all(feature = "relay", feature = "client"))]
#![allow(unsafe_code, clippy::unwrap_used, clippy::indexing_slicing)]

mod pair_harness;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use ackline::client::settings::ClientSettings;
use ackline::relay::outbox::MemoryOutbox;
use ackline::sequence::Tick;
use ackline::window::WindowLimits;
use pair_harness::{Pair, moved};

struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that ends has no counter any more; nothing is measured there.
    let _ = HELD.try_with(|held| held.set(held.get() + bytes));
    if bytes > 0 {
        let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
    }
}

// SAFETY: every call is passed on to the system's allocator unchanged; only sizes are counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's own contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller's own contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Closes the pair's session and gives the bytes that came free, and what the session said of its tables.
fn close(pair: &mut Pair) -> (usize, usize) {
    let session = pair.shard.sessions().next().unwrap();
    let (tables, _) = session.heap_bytes();
    pair.client.leave(pair.now_us);
    let mut bytes = Vec::new();
    assert!(pair.client.poll_transmit(pair.now_us, &mut bytes));
    let mut outbox = MemoryOutbox::default();
    let before = HELD.with(Cell::get);
    pair.shard
        .receive(pair.now_us, pair.path, &mut bytes, &mut outbox);
    let after = HELD.with(Cell::get);
    assert_eq!(pair.shard.open(), 0);
    (usize::try_from(before - after).unwrap(), tables)
}

const KIB: usize = 1024;
/// Most bytes of tables a client can make the relay hold at a thousand entities.
const TABLES_MAX: usize = 64 * KIB;
/// The same for a client that sees and gets everything.
const WHOLE_TABLES_MAX: usize = 2 * KIB;
/// Everything else of a session, queues included.
const REST_MAX: usize = 16 * KIB;

/// A client that sees everything and gets everything costs a few numbers a baseline.
#[test]
fn win9_a_client_that_sees_everything_costs_little() {
    let mut pair = Pair::new(1000, Tick(1));
    pair.run(200, |tick, n| {
        moved(tick, (0..1000u32).filter(|id| (id + n) % 9 == 0), n)
    });
    pair.assert_equal();
    let (all, tables) = close(&mut pair);
    println!("a client that sees everything: {all} bytes in all, {tables} of tables");
    assert!(tables <= WHOLE_TABLES_MAX, "{tables}");
    assert!(all <= REST_MAX, "{all}");
}

/// The worst: a client that loses a part of every snapshot, reports the rest, and never asks for an advance, so
/// that all 32 places hold a table of their own.
#[test]
fn threats_62_the_worst_client_costs_at_most_its_bound() {
    let limits = WindowLimits {
        ask_at: usize::MAX,
        ..WindowLimits::default()
    };
    let settings = ClientSettings {
        limits,
        ..ClientSettings::default()
    };
    let mut pair = Pair::with_client(1000, Tick(1), settings);
    pair.lose = |index| index % 7 == 3;
    pair.run(60, |tick, n| moved(tick, 0..1000u32, n));
    let session = pair.shard.sessions().next().unwrap();
    assert_eq!(session.window.held().len(), 32, "every place is held");
    let (all, tables) = close(&mut pair);
    println!("the worst client: {all} bytes in all, {tables} of tables");
    assert!(tables <= TABLES_MAX, "{tables}");
    assert!(tables > TABLES_MAX / 2, "the case is the worst: {tables}");
    assert!(all <= TABLES_MAX + REST_MAX, "{all}");
}

/// A client that acknowledges nothing, with events waiting for it.
#[test]
fn faults_39_a_client_that_acknowledges_nothing_costs_at_most_its_bound() {
    let limits = WindowLimits {
        ask_at: usize::MAX,
        ..WindowLimits::default()
    };
    let settings = ClientSettings {
        limits,
        ..ClientSettings::default()
    };
    let mut pair = Pair::with_client(1000, Tick(1), settings);
    pair.run(20, |tick, n| moved(tick, 0..1000u32, n));
    pair.mute = true;
    pair.run(35, |tick, n| {
        let mut update = moved(tick, 0..1000u32, n);
        let event = ackline::state::update::Event {
            kind: 1,
            critical: true,
            entity: None,
            at_us: update.server_us,
            payload: vec![7; 200],
        };
        update.events = vec![event; 10];
        update
    });
    assert!(
        pair.shard.counters().messages_dropped > 0,
        "more events than the stream may hold"
    );
    pair.mute = false;
    let (all, tables) = close(&mut pair);
    println!("a client that acknowledges nothing: {all} bytes in all, {tables} of tables");
    assert!(
        tables <= TABLES_MAX && all <= TABLES_MAX + REST_MAX,
        "{all} {tables}"
    );
}
