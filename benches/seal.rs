//! What the seal of one datagram costs, beside the bare cipher: `cargo bench --bench seal`.
//!
//! For each size the ways are measured in turn, round by round, so that a machine whose mood changes changes it for all; the
//! figures are medians over rounds, the ratios medians of each round's ratio. One thread, its processor time, warm caches.

use std::hint::black_box;

use ackline::net::clock::thread_cpu_ns;
use ackline::wire::seal::{Direction, Opener, Sealer, Secrets};
use ackline::wire::version::Agreed;
use ring::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};

/// Bytes of a payload: an idle client's, a view's, a busy one's, the largest.
const SIZES: [usize; 4] = [100, 300, 600, 1200];
const ROUNDS: usize = 61;
/// Datagrams in a round.
const DATAGRAMS: usize = 2_000;
/// Bytes of a clear header.
const HEADER: [u8; 5] = [4, 0, 0, 0, 0];
const TAG_BYTES: usize = 16;

const WAYS: [&str; 7] = [
    "seal",
    "open",
    "aes-256-gcm seal",
    "aes-256-gcm open",
    "aes-128-gcm seal",
    "chacha20-poly1305 seal",
    "copy",
];
/// Which bare way a way of ours is compared with.
const BARE: [(usize, usize); 2] = [(0, 2), (1, 3)];

fn key(algorithm: &'static Algorithm) -> LessSafeKey {
    let bytes = vec![7; algorithm.key_len()];
    LessSafeKey::new(UnboundKey::new(algorithm, &bytes).expect("a key"))
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// The two ends of a session, and the bare keys.
struct Bench {
    sealer: Sealer,
    opener: Opener,
    keys: [LessSafeKey; 3],
    number: u64,
    sealed: Vec<(u32, Vec<u8>)>,
    bare: Vec<Vec<u8>>,
}

impl Bench {
    fn new() -> Bench {
        let secrets = Secrets {
            token_key: [7; 32],
            client_nonce: [1; 16],
            relay_nonce: [2; 16],
            connection: 99,
            agreed: Agreed::NEWEST,
        };
        Bench {
            sealer: secrets.sealer(Direction::Down).expect("a sealer"),
            opener: secrets.opener(Direction::Down).expect("an opener"),
            keys: [key(&AES_256_GCM), key(&AES_128_GCM), key(&CHACHA20_POLY1305)],
            number: 0,
            sealed: Vec::new(),
            bare: Vec::new(),
        }
    }

    /// Nanoseconds a datagram of each way.
    fn round(&mut self, size: usize) -> [f64; WAYS.len()] {
        let payload = vec![0x5A; size];
        let mut buffer = vec![0u8; size + TAG_BYTES];
        self.sealed.clear();
        self.bare.clear();
        let mut ns = [0.0; WAYS.len()];
        ns[0] = timed(|| {
            for _ in 0..DATAGRAMS {
                buffer[..size].copy_from_slice(&payload);
                let number = self.sealer.reserve().expect("a number");
                let tag = self
                    .sealer
                    .seal(number, &HEADER, &mut buffer[..size])
                    .expect("a tag");
                buffer[size..].copy_from_slice(&tag);
                black_box(&buffer);
            }
        });
        // What is opened is sealed beforehand, as it comes from elsewhere.
        for _ in 0..DATAGRAMS {
            let number = self.sealer.reserve().expect("a number");
            let mut bytes = payload.clone();
            let tag = self.sealer.seal(number, &HEADER, &mut bytes).expect("a tag");
            bytes.extend(tag);
            self.sealed.push((number as u32, bytes));
        }
        ns[1] = timed(|| {
            for (low, bytes) in &self.sealed {
                buffer.copy_from_slice(bytes);
                black_box(self.opener.open(*low, &HEADER, &mut buffer).expect("opens"));
            }
        });
        for (way, index) in [(2, 0), (4, 1), (5, 2)] {
            let from = self.number;
            ns[way] = timed(|| {
                for number in from..from + DATAGRAMS as u64 {
                    buffer[..size].copy_from_slice(&payload);
                    let tag = self.keys[index]
                        .seal_in_place_separate_tag(nonce(number), Aad::from(&HEADER), &mut buffer[..size])
                        .expect("a tag");
                    buffer[size..].copy_from_slice(tag.as_ref());
                    black_box(&buffer);
                }
            });
        }
        for number in self.number..self.number + DATAGRAMS as u64 {
            let mut bytes = payload.clone();
            self.keys[0]
                .seal_in_place_append_tag(nonce(number), Aad::from(&HEADER), &mut bytes)
                .expect("sealed");
            self.bare.push(bytes);
        }
        let from = self.number;
        ns[3] = timed(|| {
            for (number, bytes) in (from..).zip(&self.bare) {
                buffer.copy_from_slice(bytes);
                let opened = self.keys[0].open_in_place(nonce(number), Aad::from(&HEADER), &mut buffer);
                black_box(opened.expect("opens"));
            }
        });
        self.number += DATAGRAMS as u64;
        ns[6] = timed(|| {
            for _ in 0..DATAGRAMS {
                buffer[..size].copy_from_slice(black_box(&payload));
                black_box(&buffer);
            }
        });
        ns
    }
}

fn timed(work: impl FnOnce()) -> f64 {
    let begun = thread_cpu_ns();
    work();
    (thread_cpu_ns() - begun) as f64 / DATAGRAMS as f64
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() {
    println!(
        "nanoseconds a datagram of so many payload bytes, medians of {ROUNDS} rounds; ratios to the bare cipher\n"
    );
    print!("{:<26}", "");
    SIZES.iter().for_each(|size| print!("{size:>8}"));
    println!();
    let mut rows = vec![Vec::new(); WAYS.len()];
    let mut ratios = vec![Vec::new(); BARE.len()];
    for size in SIZES {
        let mut bench = Bench::new();
        bench.round(size);
        let rounds: Vec<_> = (0..ROUNDS).map(|_| bench.round(size)).collect();
        for (way, row) in rows.iter_mut().enumerate() {
            row.push(median(rounds.iter().map(|round| round[way]).collect()));
        }
        for ((ours, bare), row) in BARE.into_iter().zip(&mut ratios) {
            row.push(median(
                rounds.iter().map(|round| round[ours] / round[bare]).collect(),
            ));
        }
    }
    for (name, row) in WAYS.into_iter().zip(&rows) {
        print!("{name:<26}");
        row.iter().for_each(|ns| print!("{ns:>8.0}"));
        println!();
    }
    for ((ours, bare), row) in BARE.into_iter().zip(&ratios) {
        print!("{:<26}", format!("{} / {}", WAYS[ours], WAYS[bare]));
        row.iter().for_each(|ratio| print!("{ratio:>8.2}"));
        println!();
    }
}
