//! A client in one file: joins the relay named, prints what it sees once a second, leaves after ten seconds.
//!
//! `cargo run --no-default-features --features client-udp --example minimal 127.0.0.1:7777 [TOKEN-FILE]`

use std::time::{Duration, Instant};

use ackline::client::inbox::ClientEvent;
use ackline::driver::settings::DriverSettings;
use ackline::driver::{Driver, DriverEvent};
use ackline::token::ConnectToken;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let relay = std::env::args().nth(1).unwrap_or("127.0.0.1:7777".into());
    let mut settings = DriverSettings::new(vec![relay.parse()?]);
    if let Some(file) = std::env::args().nth(2) {
        let token = ConnectToken::from_text(&std::fs::read_to_string(file)?)?;
        settings.client = settings.client.with_token(&token);
    }
    let begun = Instant::now();
    let now_us = || begun.elapsed().as_micros() as u64;
    let mut driver = Driver::new(settings, now_us())?;
    let mut told = 0;
    loop {
        // A frame of the game: move datagrams, hear what happened, draw.
        driver.poll(now_us());
        while let Some(event) = driver.poll_event() {
            match event {
                DriverEvent::Session(relay) => println!("in a session with {relay}"),
                DriverEvent::Client(ClientEvent::World(event)) => println!("it happened: {event:?}"),
                DriverEvent::Failed(why) => println!("no session: {why:?}"), // Denied(Token): it wants a connect token.
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
    let (Some(schema), Some(newest)) = (client.schema(), client.newest()) else {
        return println!("nothing yet");
    };
    println!("tick {}: {} entities", newest.id, client.display().live());
    if let Some((_, record, _)) = client.display().records().next()
        && let Some(motion) = record.motion
    {
        let [x, y, z] = [0, 1, 2].map(|axis| schema.position[axis].metres(motion.position[axis]));
        println!("{} at {x:.2} {y:.2} {z:.2} m", record.entity);
    }
}
