//! Watches a stream without drawing it: one line a second with what the client shows, and a line for each turn.
//!
//! `cargo run --no-default-features --features client-udp --example watch RELAY [RELAY...] [--seconds N]`

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ackline::client::inbox::ClientEvent;
use ackline::client::session::{Client, Received};
use ackline::driver::settings::DriverSettings;
use ackline::driver::{Driver, DriverEvent};
use ackline::sequence::Tick;

const FRAME: Duration = Duration::from_micros(16_667);

/// What came since the last line.
#[derive(Default)]
struct Second {
    datagrams: u32,
    newest: Option<Tick>,
    ticks: u32,
    /// Longest time between two newer ticks, microseconds.
    gap_us: u64,
    arrived_us: u64,
    /// The least that a tick arrived after its server time: what more there is, is delay.
    floor_us: i64,
    delay_us: i64,
}

impl Second {
    /// Notes what a datagram brought.
    fn watch(&mut self, client: &Client, received: Received) {
        self.datagrams += 1;
        let Some(newest) = client.newest() else { return };
        if !matches!(received, Received::Snapshot { .. })
            || self.newest.is_some_and(|tick| !newest.id.is_after(tick))
        {
            return;
        }
        if self.newest.replace(newest.id).is_some() {
            self.gap_us = self.gap_us.max(newest.arrived_us - self.arrived_us);
        }
        self.arrived_us = newest.arrived_us;
        self.ticks += 1;
        let offset_us = newest.arrived_us as i64 - newest.server_us as i64;
        self.floor_us = self.floor_us.min(offset_us);
        self.delay_us = self.delay_us.max(offset_us - self.floor_us);
    }

    fn print(&mut self, driver: &Driver, at: Duration) {
        let client = driver.client();
        let state = match (driver.is_live(), client.is_upstream_stale()) {
            (false, _) => "not heard",
            (true, true) => "upstream lost",
            (true, false) => "live",
        };
        let server_s = client
            .newest()
            .map_or(0.0, |newest| newest.server_us as f64 * 1e-6);
        println!(
            "{:7.1} s  {state:13}  server {server_s:9.3} s  {:3} ticks  {:5} entities  gap {:4} ms  late by {:4} ms  {:4} datagrams",
            at.as_secs_f64(),
            self.ticks,
            client.display().live(),
            self.gap_us / 1_000,
            self.delay_us / 1_000,
            self.datagrams,
        );
        (self.datagrams, self.ticks, self.gap_us, self.delay_us) = (0, 0, 0, 0);
    }

    /// Another session or stream: times have no order with those before.
    fn begin(&mut self) {
        (self.newest, self.floor_us) = (None, i64::MAX);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (mut relays, mut seconds): (Vec<SocketAddr>, u64) = (Vec::new(), u64::MAX);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seconds" => seconds = arguments.next().ok_or("--seconds needs a number")?.parse()?,
            relay => relays.push(relay.parse()?),
        }
    }
    let begun = Instant::now();
    let now_us = || begun.elapsed().as_micros() as u64;
    let mut driver = Driver::new(DriverSettings::new(relays), now_us())?;
    let mut second = Second::default();
    second.begin();
    for frame in 1.. {
        driver.poll_with(now_us(), |client, received| second.watch(client, received));
        while let Some(event) = driver.poll_event() {
            match event {
                DriverEvent::Client(ClientEvent::World(_)) => continue,
                DriverEvent::Session(_) | DriverEvent::Client(ClientEvent::StreamChanged(_)) => {
                    second.begin()
                }
                DriverEvent::Over(_) => return Ok(()),
                _ => {}
            }
            println!("{:7.1} s  {event:?}", begun.elapsed().as_secs_f64());
        }
        if frame % 60 == 0 {
            second.print(&driver, begun.elapsed());
        }
        if begun.elapsed().as_secs() >= seconds {
            driver.leave(now_us());
        }
        std::thread::sleep((FRAME * frame).saturating_sub(begun.elapsed()));
    }
    Ok(())
}
