//! A client in one file: joins the relay named, prints what it sees once a second, leaves after ten seconds.
//!
//! `cargo run --no-default-features --features client-udp --example minimal 127.0.0.1:7777 [TOKEN-FILE]`

use std::net::ToSocketAddrs;
use std::time::{Duration, Instant};

use ackline::client::inbox::ClientEvent;
use ackline::driver::{Driver, DriverEvent, settings::DriverSettings};
use ackline::token::ConnectToken;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let relay = std::env::args().nth(1).unwrap_or("127.0.0.1:7777".into());
    let unknown = |why| format!("relay {relay}: {why}; give HOST:PORT, as 127.0.0.1:7777");
    let mut settings = DriverSettings::new(relay.to_socket_addrs().map_err(unknown)?.collect());
    if let Some(file) = std::env::args().nth(2) {
        let text = std::fs::read_to_string(&file).map_err(|why| why.to_string());
        let token = text.and_then(|text| ConnectToken::from_text(&text).map_err(|why| why.to_string()));
        let not_one = |why| format!("token file {file}: {why}; `ackline token mint` makes one");
        settings = settings.with_token(&token.map_err(not_one)?);
    }
    let (begun, mut told) = (Instant::now(), 0);
    let now_us = || begun.elapsed().as_micros() as u64;
    let mut driver = Driver::new(settings, now_us())?;
    loop {
        // A frame of the game: move datagrams, hear what happened, draw.
        driver.poll(now_us());
        while let Some(event) = driver.poll_event() {
            match event {
                DriverEvent::Session(relay) => println!("in a session with {relay}"),
                DriverEvent::Client(ClientEvent::World(event)) => println!("it happened: {event:?}"),
                DriverEvent::Failed(why) => println!("no session: {}; asked again", why.label()),
                DriverEvent::WantsToken => println!("a token is wanted: `ackline token mint`"),
                DriverEvent::Over(_) => return Ok(()),
                _ => {}
            }
        }
        if begun.elapsed().as_secs() > told {
            told += 1;
            draw(&driver);
            if told == 10 {
                driver.leave(now_us());
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Prints the number of entities and where the first one is.
fn draw(driver: &Driver) {
    let client = driver.client();
    println!("{} entities", client.display().live());
    if let (Some(schema), Some((_, record, _))) = (client.schema(), client.display().records().next())
        && let Some(motion) = record.motion
    {
        let [x, y, z] = [0, 1, 2].map(|axis| schema.position[axis].metres(motion.position[axis]));
        println!("{} at {x:.2} {y:.2} {z:.2} m", record.entity);
    }
}
