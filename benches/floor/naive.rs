//! A relay as it is often written first: a task and a channel for each client, a scan of all entities for each snapshot, a
//! byte writer, ChaCha20-Poly1305, and a `send_to` for each datagram. tokio, one thread.
//!
//! It keeps what the others keep, baselines by client and views, and sends real sealed datagrams; what it lacks beside the
//! product (windows, budgets, pacing, reports) is in its favour.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ackline::net::clock::thread_cpu_ns;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use tokio::net::UdpSocket;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{Sender, channel};

use super::encoders::Mask;
use super::scene::{Cube, Cubes};

/// Ticks that are kept as baselines.
const KEPT: usize = 64;
/// Most bytes of a datagram's plaintext.
const PLAIN_MAX: usize = 1150;

/// One tick for one client.
struct Tick {
    now: Arc<Cubes>,
    base: Arc<Cubes>,
    number: u32,
    age: u8,
}

pub struct NaiveRelay {
    runtime: Runtime,
    clients: Vec<Sender<Tick>>,
    history: VecDeque<Arc<Cubes>>,
    number: u32,
    sent: Arc<AtomicU64>,
    bytes: Arc<AtomicU64>,
}

impl NaiveRelay {
    pub fn new(addresses: &[SocketAddr], views: &[Mask]) -> NaiveRelay {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .unwrap();
        let (sent, bytes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let clients = runtime.block_on(async {
            let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
            let pairs = addresses.iter().zip(views);
            pairs
                .map(|(address, view)| {
                    let (sender, receiver) = channel(4);
                    let client = Client {
                        socket: Arc::clone(&socket),
                        address: *address,
                        view: *view,
                        key: LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &[7; 32]).unwrap()),
                        sent: Arc::clone(&sent),
                        bytes: Arc::clone(&bytes),
                    };
                    tokio::spawn(client.run(receiver));
                    sender
                })
                .collect()
        });
        NaiveRelay {
            runtime,
            clients,
            history: VecDeque::new(),
            number: 0,
            sent,
            bytes,
        }
    }

    /// The cubes of the next tick.
    pub fn push(&mut self, cubes: &Cubes) {
        self.history.truncate(KEPT - 1);
        self.history.push_front(Arc::new(cubes.clone()));
        self.number += 1;
    }

    /// Sends every client the newest tick against the one `ages` says. CPU time, ns.
    pub fn tick(&mut self, ages: &[u8]) -> u64 {
        let before = self.sent.load(Ordering::Relaxed);
        let due = before + ages.len() as u64;
        let NaiveRelay {
            runtime,
            clients,
            history,
            number,
            sent,
            ..
        } = self;
        let begun = thread_cpu_ns();
        runtime.block_on(async {
            for (client, age) in clients.iter().zip(ages) {
                let tick = Tick {
                    now: Arc::clone(&history[0]),
                    base: Arc::clone(&history[usize::from(*age)]),
                    number: *number,
                    age: *age,
                };
                assert!(client.send(tick).await.is_ok());
            }
            while sent.load(Ordering::Relaxed) < due {
                tokio::task::yield_now().await;
            }
        });
        thread_cpu_ns() - begun
    }

    /// Bytes of a datagram on average.
    pub fn bytes_per_packet(&self) -> f64 {
        self.bytes.load(Ordering::Relaxed) as f64 / self.sent.load(Ordering::Relaxed).max(1) as f64
    }
}

/// One client's task.
struct Client {
    socket: Arc<UdpSocket>,
    address: SocketAddr,
    view: Mask,
    key: LessSafeKey,
    sent: Arc<AtomicU64>,
    bytes: Arc<AtomicU64>,
}

impl Client {
    async fn run(self, mut ticks: tokio::sync::mpsc::Receiver<Tick>) {
        let mut datagram = Vec::new();
        while let Some(tick) = ticks.recv().await {
            datagram.clear();
            datagram.extend(tick.number.to_le_bytes());
            datagram.push(tick.age);
            write_changes(&tick, &self.view, &mut datagram);
            let mut nonce = [0; 12];
            nonce[..4].copy_from_slice(&tick.number.to_le_bytes());
            let (header, body) = datagram.split_at_mut(5);
            let nonce = Nonce::assume_unique_for_key(nonce);
            let tag = self
                .key
                .seal_in_place_separate_tag(nonce, Aad::from(&*header), body)
                .unwrap();
            datagram.extend(tag.as_ref());
            self.socket.send_to(&datagram, self.address).await.unwrap();
            self.sent.fetch_add(1, Ordering::Relaxed);
            self.bytes.fetch_add(datagram.len() as u64, Ordering::Relaxed);
        }
    }
}

/// A gap, a byte of what changed, then differences as varints.
fn write_changes(tick: &Tick, view: &Mask, out: &mut Vec<u8>) {
    let mut last = 0;
    for (at, (now, base)) in tick.now.iter().zip(tick.base.iter()).enumerate() {
        if view[at / 64] >> (at % 64) & 1 == 0 || now == base {
            continue;
        }
        if out.len() > PLAIN_MAX - 40 {
            return;
        }
        put_varint((at - last) as u32, out);
        last = at;
        write_cube(now, base, out);
    }
}

fn write_cube(now: &Cube, base: &Cube, out: &mut Vec<u8>) {
    let mut changed = 0u8;
    for (field, (now, base)) in now.iter().zip(base).enumerate() {
        changed |= u8::from(now != base) << field;
    }
    out.push(changed);
    for (now, base) in now.iter().zip(base) {
        if now != base {
            let difference = now - base;
            put_varint((difference << 1 ^ difference >> 31).cast_unsigned(), out);
        }
    }
}

fn put_varint(mut value: u32, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
