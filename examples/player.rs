//! A player of the arena: runs in a circle, is drawn where its own inputs lead at once, and fires at the nearest walker once a second.
//!
//! It wants an origin, `ackline origin --scene arena --listen 127.0.0.1:7700` or the example `origin`; a relay beside it, `ackline
//! relay --insecure --upstream 127.0.0.1:7700`; and `cargo run --no-default-features --features client-udp --example player
//! 127.0.0.1:7777 [TOKEN-FILE]`.
//!
//! The bytes of inputs and the gait are the arena's (docs/SCENES.md). It knows no walls: where it runs into one it is corrected.

use std::net::ToSocketAddrs;
use std::time::{Duration, Instant};

use ackline::client::owner::OwnerState;
use ackline::client::playback::settings::PlaybackSettings;
use ackline::client::playback::stage::{Drawn, Playback};
use ackline::client::prediction::visible::SmoothingSettings;
use ackline::client::prediction::{Authority, Prediction, Rules};
use ackline::driver::settings::DriverSettings;
use ackline::driver::{Driver, DriverEvent};
use ackline::state::schema::Schema;
use ackline::token::ConnectToken;

/// Frames and inputs: 60 and 30 a second.
const FRAME: Duration = Duration::from_micros(16_667);
const INPUT_US: u64 = 33_332;
const MINT: &str = "`ackline token mint` makes one, for one session";
const SPEED_M_S: f64 = 6.0;
const NIMBLE_M_S2: f64 = 40.0;

/// A body on flat ground: where it is, metres, and how fast.
#[derive(Clone, Copy)]
struct Body {
    at: [f64; 3],
    speed: [f64; 2],
}

/// How an input moves it: the same as at the server, with the same numbers.
struct Ground;

impl Rules for Ground {
    type State = Body;
    /// The speed wanted.
    type Input = [f64; 2];

    fn apply(&self, body: &mut Body, wanted: &[f64; 2]) {
        let seconds = INPUT_US as f64 / 1e6;
        let off = [wanted[0] - body.speed[0], wanted[1] - body.speed[1]];
        let share = (NIMBLE_M_S2 * seconds / off[0].hypot(off[1]).max(1e-9)).min(1.0);
        for (axis, off) in off.into_iter().enumerate() {
            body.speed[axis] += off * share;
            body.at[axis] += body.speed[axis] * seconds;
        }
    }

    fn place(&self, body: &Body) -> [f64; 3] {
        body.at
    }
}

/// The body of the server's state of the own entity.
fn body(owner: &OwnerState, schema: &Schema) -> Option<Body> {
    let motion = owner.record.motion?;
    let speed = |axis: usize| {
        schema
            .velocity
            .map_or(0.0, |rate| rate.value(motion.velocity[axis]))
    };
    Some(Body {
        at: [0, 1, 2].map(|axis| schema.position[axis].metres(motion.position[axis])),
        speed: [speed(0), speed(1)],
    })
}

/// An input of the arena: seven bytes.
fn input(motion: [i8; 2], heading: f64, fire: bool) -> [u8; 7] {
    let turn = heading.rem_euclid(std::f64::consts::TAU) / std::f64::consts::TAU;
    let [low, high] = ((turn * 65_536.0) as u16).to_le_bytes();
    let [short, long] = ((INPUT_US / 4) as u16).to_le_bytes();
    [
        motion[0] as u8,
        motion[1] as u8,
        low,
        high,
        u8::from(fire),
        short,
        long,
    ]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let relay = arguments.next().unwrap_or("127.0.0.1:7777".into());
    let unknown = |why| format!("relay {relay}: {why}; give HOST:PORT, as 127.0.0.1:7777");
    let mut settings = DriverSettings::new(relay.to_socket_addrs().map_err(unknown)?.collect());
    if let Some(file) = arguments.next() {
        settings = settings.with_token(&token(&file)?);
    }
    let begun = Instant::now();
    let now_us = || begun.elapsed().as_micros() as u64;
    let mut driver = Driver::new(settings, now_us())?;
    let mut playback = Playback::new(PlaybackSettings::default());
    let (mut prediction, mut owner_tick): (Option<Prediction<Ground>>, _) = (None, None);
    let mut pushed_us = 0;
    for frame in 1..=20 * 60_u32 {
        driver.poll_playback(now_us(), &mut playback);
        while let Some(event) = driver.poll_event() {
            match event {
                DriverEvent::Session(relay) => {
                    println!("in a session with {relay}");
                    (prediction, owner_tick) = (None, None);
                }
                DriverEvent::Failed(why) => println!("no session: {}; it is asked again", why.label()),
                // A game fetches one of its backend here, and gives it to `set_token`.
                DriverEvent::WantsToken => println!("the next session wants a new connect token: {MINT}"),
                DriverEvent::Over(_) => return Ok(()),
                _ => {}
            }
        }
        // What the server says of the own entity, and the inputs that are in it.
        let client = driver.client();
        if let (Some(owner), Some(schema)) = (client.owner(), client.schema())
            && owner_tick.replace(owner.tick) != Some(owner.tick)
            && let Some(body) = body(&owner, schema)
        {
            let new = || Prediction::new(Ground, SmoothingSettings::default(), body);
            let authority = Authority::of_owner(client.stream_epoch(), &owner, body);
            prediction.get_or_insert_with(new).correct(authority);
        }
        playback.frame(now_us());
        // Inputs begin with the first state: what is sent before that nobody sees, and it would be played late.
        let Some(own) = &mut prediction else {
            std::thread::sleep(FRAME);
            continue;
        };
        if now_us() >= pushed_us + INPUT_US {
            pushed_us = (pushed_us + INPUT_US).max(now_us() - INPUT_US);
            let angle = begun.elapsed().as_secs_f64();
            let motion = [angle.cos(), angle.sin()].map(|part| (part * 126.0) as i8);
            let target = nearest(&playback, own.state().at, client.assigned().entity);
            let (heading, fires) = match &target {
                Some((_, way)) => (way[1].atan2(way[0]), frame % 60 < 2),
                None => (angle, false),
            };
            if let Ok(number) = driver.push_input(&input(motion, heading, fires)) {
                own.predict(number, motion.map(|part| f64::from(part) / 127.0 * SPEED_M_S));
            }
            if let (Some((drawn, _)), true) = (target, fires) {
                // A game whose origin looks at shots in the past puts this into the input (`origin::lag`).
                let quote = playback.quote(0, Some((drawn.slot, drawn.entity)));
                println!("fires at {}: {quote:?}", drawn.entity);
            }
        }
        let part = now_us().saturating_sub(pushed_us) as f64 / INPUT_US as f64;
        let [x, y, _] = own.frame(FRAME.as_micros() as u64, part);
        if frame % 60 == 0 {
            let (waiting, counts) = (own.pending().count(), own.counts());
            println!(
                "at {x:.2} {y:.2} m, {waiting} inputs on their way, {} of {} states moved it",
                counts.smoothed, counts.corrections
            );
        }
        std::thread::sleep((FRAME * frame).saturating_sub(begun.elapsed()));
    }
    driver.leave(now_us());
    driver.poll(now_us());
    Ok(())
}

/// The connect token in a file.
fn token(file: &str) -> Result<ConnectToken, String> {
    let text = std::fs::read_to_string(file).map_err(|why| format!("token file {file}: {why}; {MINT}"))?;
    ConnectToken::from_text(&text).map_err(|why| format!("token file {file}: {why}; {MINT}"))
}

/// The nearest walker in the picture that is somebody else, and the way to it.
fn nearest(
    playback: &Playback,
    from: [f64; 3],
    own: Option<ackline::state::entity::Entity>,
) -> Option<(Drawn, [f64; 2])> {
    let walkers = playback
        .drawn()
        .filter(|drawn| drawn.class == 0 && Some(drawn.entity) != own);
    let ways = walkers.filter_map(|drawn| {
        let [x, y, _] = drawn.at.pose?.position;
        Some((drawn, [x - from[0], y - from[1]]))
    });
    ways.min_by(|(_, a), (_, b)| a[0].hypot(a[1]).total_cmp(&b[0].hypot(b[1])))
}
