//! Watches a stream as a game would draw it, without drawing it: one line a second with what playback did, and a line for
//! each turn of the session or the clock.
//!
//! `cargo run --no-default-features --features client-udp --example watch RELAY [RELAY...] [--seconds N]
//! [--token FILE]`
//!
//! A line has the clock's mode, how far the picture is behind the newest snapshot that can be here (D, milliseconds), the rate
//! of playback, snapshots and datagrams that came, and entities in view; then how many entities were drawn in each mode, all
//! frames of the second together.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ackline::client::inbox::ClientEvent;
use ackline::client::playback::clock::ClockMode;
use ackline::client::playback::settings::PlaybackSettings;
use ackline::client::playback::stage::Playback;
use ackline::driver::settings::DriverSettings;
use ackline::driver::{Driver, DriverEvent};
use ackline::token::ConnectToken;

const FRAME: Duration = Duration::from_micros(16_667);

/// What came and was drawn since the last line.
#[derive(Default)]
struct Second {
    datagrams: u32,
    /// Entities drawn by mode, of all frames together.
    poses: [u64; 5],
    /// Frames by the clock's mode: waiting, playing, frozen.
    frames: [u32; 3],
    snapshots: u64,
}

impl Second {
    /// Counts the frame that was just drawn.
    fn draw(&mut self, playback: &Playback) {
        self.frames[playback.mode() as usize] += 1;
        for drawn in playback.drawn() {
            self.poses[drawn.at.mode as usize] += 1;
        }
    }

    fn print(&mut self, driver: &Driver, playback: &Playback, at: Duration) {
        let client = driver.client();
        let state = match (driver.is_live(), client.is_upstream_stale()) {
            (false, _) => "not heard",
            (true, true) => "upstream lost",
            (true, false) => "live",
        };
        let [waiting, playing, frozen] = self.frames;
        let clock = match playback.mode() {
            ClockMode::Waiting => "waiting",
            ClockMode::Playing => "playing",
            ClockMode::Frozen => "frozen",
        };
        let newer = playback.statistics().snapshots_newer;
        println!(
            "{:6.1} s  {state}  {clock} ({waiting}/{playing}/{frozen} frames)  D {:5.1} ms  rate {:.3}  {:3} snapshots  {:4} datagrams  {:5} entities",
            at.as_secs_f64(),
            playback.delay_us().0 as f64 / 1_000.0,
            playback.rate(),
            newer.saturating_sub(self.snapshots),
            self.datagrams,
            client.display().live(),
        );
        let [interpolated, extrapolated, resting, stale, missing] = self.poses;
        println!(
            "          drawn: {interpolated} interpolated  {extrapolated} extrapolated  {resting} at rest  {stale} stale  {missing} missing"
        );
        *self = Second {
            snapshots: newer,
            ..Second::default()
        };
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (mut settings, mut seconds) = (DriverSettings::new(Vec::new()), u64::MAX);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seconds" => seconds = arguments.next().ok_or("--seconds needs a number")?.parse()?,
            "--token" => {
                let file = arguments.next().ok_or("--token needs a file")?;
                let token = ConnectToken::from_text(&std::fs::read_to_string(file)?)?;
                settings.client = settings.client.with_token(&token);
            }
            relay => settings.relays.push(relay.parse::<SocketAddr>()?),
        }
    }
    let begun = Instant::now();
    let now_us = || begun.elapsed().as_micros() as u64;
    let mut driver = Driver::new(settings, now_us())?;
    let mut playback = Playback::new(PlaybackSettings::default());
    let mut second = Second::default();
    for frame in 1.. {
        driver.poll_with(now_us(), |client, _| {
            second.datagrams += 1;
            playback.receive(client, now_us());
        });
        while let Some(event) = driver.poll_event() {
            match event {
                DriverEvent::Client(ClientEvent::World(_)) => continue,
                // Its view may be whole already: the driver shows no other.
                DriverEvent::Session(_) => {
                    playback.adopt(driver.client(), now_us());
                    second.snapshots = playback.statistics().snapshots_newer;
                }
                DriverEvent::Over(_) => return Ok(()),
                _ => {}
            }
            println!("{:6.1} s  {event:?}", begun.elapsed().as_secs_f64());
        }
        playback.frame(now_us());
        second.draw(&playback);
        while let Some(turn) = playback.poll_turn() {
            println!("{:6.1} s  {turn:?}", begun.elapsed().as_secs_f64());
        }
        if frame % 60 == 0 {
            second.print(&driver, &playback, begun.elapsed());
        }
        if begun.elapsed().as_secs() >= seconds {
            driver.leave(now_us());
        }
        std::thread::sleep((FRAME * frame).saturating_sub(begun.elapsed()));
    }
    Ok(())
}
