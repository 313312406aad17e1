//! Watches a stream as a game would draw it, without drawing it: one line a second with what playback did, and a line for
//! each turn of the session or the clock.
//!
//! `cargo run --no-default-features --features client-udp --example watch RELAY [RELAY...] [--seconds N]
//! [--token FILE]`
//!
//! A line has the clock's mode, how far the picture is behind the newest snapshot that can be here (D, milliseconds), the rate
//! of playback, snapshots and datagrams that came, and entities in view; then how many entities were drawn in each mode, all
//! frames of the second together.

use std::net::ToSocketAddrs;
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
    /// Datagrams of the session until then.
    datagrams: u64,
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
        let datagrams = client.statistics().datagrams_received;
        println!(
            "{:6.1} s  {state}  {clock} ({waiting}/{playing}/{frozen} frames)  D {:5.1} ms  rate {:.3}  {:3} snapshots  {:4} datagrams  {:5} entities",
            at.as_secs_f64(),
            playback.delay_us().0 as f64 / 1_000.0,
            playback.rate(),
            newer.saturating_sub(self.snapshots),
            datagrams.saturating_sub(self.datagrams),
            client.display().live(),
        );
        let [interpolated, extrapolated, resting, stale, missing] = self.poses;
        println!(
            "          drawn: {interpolated} interpolated  {extrapolated} extrapolated  {resting} at rest  {stale} stale  {missing} missing"
        );
        *self = Second {
            snapshots: newer,
            datagrams,
            ..Second::default()
        };
    }
}

/// The connect token in a file.
fn token(file: &str) -> Result<ConnectToken, String> {
    const MINT: &str = "`ackline token mint` makes one, for one session";
    let text = std::fs::read_to_string(file).map_err(|why| format!("token file {file}: {why}; {MINT}"))?;
    ConnectToken::from_text(&text).map_err(|why| format!("token file {file}: {why}; {MINT}"))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (mut settings, mut seconds) = (DriverSettings::new(Vec::new()), u64::MAX);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seconds" => {
                let text = arguments.next().unwrap_or_default();
                let no_number = |why| format!("--seconds {text}: {why}; give whole seconds, as 10");
                seconds = text.parse().map_err(no_number)?;
            }
            "--token" => settings = settings.with_token(&token(&arguments.next().unwrap_or_default())?),
            relay => {
                let unknown = |why| format!("relay {relay}: {why}; give HOST:PORT, as 127.0.0.1:7777");
                settings.relays.extend(relay.to_socket_addrs().map_err(unknown)?);
            }
        }
    }
    if settings.relays.is_empty() {
        return Err("no relay: give the HOST:PORT of one or more, as 127.0.0.1:7777".into());
    }
    let begun = Instant::now();
    let now_us = || begun.elapsed().as_micros() as u64;
    let mut driver = Driver::new(settings, now_us())?;
    let mut playback = Playback::new(PlaybackSettings::default());
    let mut second = Second::default();
    for frame in 1.. {
        driver.poll_playback(now_us(), &mut playback);
        while playback.poll_due().is_some() {}
        while let Some(event) = driver.poll_event() {
            match event {
                DriverEvent::Client(ClientEvent::World(_)) => continue,
                DriverEvent::Session(_) => second.datagrams = 0,
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
