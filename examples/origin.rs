//! A game server in one file: players run by their inputs, and a drone flies in a circle. Begin yours from here.
//! `cargo run --no-default-features --features origin --example origin 127.0.0.1:7700`, beside it `ackline relay --insecure --upstream
//! 127.0.0.1:7700`, and the example `player` joins. It believes how long an input lasts; yours gives no more time than has passed.

use ackline::origin::{carrier::Carrier, publisher::Publisher, subscribers::Subscribers};
use ackline::state::{coding::Coding, entity::Entity, player::*, sample::*, schema::*, update::*};
use std::hash::{BuildHasher, RandomState};
use std::{collections::HashMap, time::Duration, time::Instant, time::UNIX_EPOCH};

const TICK_US: u64 = 50_000;
/// A player's body: where, how fast, and the number of the last input that moved it.
type Body = ([f64; 2], [f64; 2], u32);

/// Seven bytes (docs/SCENES.md): the motion wanted, heading and buttons, how long. `Ground` in the player has the same rules.
fn play((at, speed, processed): &mut Body, number: u32, input: &[u8]) {
    *processed = number;
    let [x, y, .., a, b] = *input else { return };
    let seconds = f64::from(u16::from_le_bytes([a, b])) * 4e-6;
    let off = [(x, speed[0]), (y, speed[1])].map(|(x, has)| f64::from(x as i8) / 127.0 * 6.0 - has);
    let share = (40.0 * seconds / off[0].hypot(off[1]).max(1e-9)).min(1.0);
    for axis in 0..2 {
        speed[axis] += off[axis] * share;
        at[axis] = (at[axis] + speed[axis] * seconds).clamp(-90.0, 90.0);
    }
}

#[rustfmt::skip] // A line for each thought: unfolded it is twice as long.
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listen = std::env::args().nth(1).unwrap_or("127.0.0.1:7700".into());
    let listener = std::net::TcpListener::bind(&listen).and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        .map_err(|why| format!("cannot listen at {listen}: {why}; give an ADDRESS:PORT of this host that is free"))?;
    let schema = Schema {
        name: "example".into(), version: 1, tick_period_us: TICK_US as u32, on_change: false, rotation_bits: 10, extras: Vec::new(),
        position: [Axis::new(-100.0, 100.0, 1.0 / 512.0)?; 3], velocity: Some(Rate::new(50.0, 1.0 / 32.0)?), angular: None,
        classes: vec![Class { name: "body".into(), query_critical: true }], coding: Coding::Plain,
    };
    let epoch = UNIX_EPOCH.elapsed()?.as_micros() as u64; // Each start has a greater one, and a boot number of its own.
    let mut publisher = Publisher::new(schema, epoch, RandomState::new().hash_one(epoch), 0)?;
    let mut relays = Subscribers::new(Vec::new()); // The relays' token; without one listen where nobody else can connect.
    let (mut carriers, mut players, mut born, begun) = (HashMap::new(), HashMap::new(), 1, Instant::now());
    let now_us = || begun.elapsed().as_micros() as u64;
    for at_us in (TICK_US..).step_by(TICK_US as usize) {
        while now_us() < at_us {
            while let Ok((stream, from)) = listener.accept() {
                let (relay, _) = stream.set_nonblocking(true).map(|()| relays.open(from.ip(), now_us()))?;
                carriers.insert(relay, Carrier::new(relay, stream));
            }
            carriers.retain(|_, carrier: &mut Carrier<_>| carrier.carry(&mut relays, &publisher, now_us()));
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut sample = WorldSample { server_us: at_us, ..WorldSample::default() };
        let ((y, x), drone) = ((at_us as f64 / 1e6).sin_cos(), Entity { id: 0, generation: 0 });
        sample.spawned.extend((at_us == TICK_US).then_some(Spawn { entity: drone, class: 0, at_us }));
        sample.observed.push(Sample { position: [9.0 * x, 9.0 * y, 2.0], velocity: [-9.0 * y, 9.0 * x, 0.0], ..Sample::at(drone, at_us) });
        while let Some((relay, event)) = relays.next_player_event() {
            let (player, key) = (event.player(), (relay, event.player()));
            match event {
                PlayerEvent::Joined(..) => {
                    let entity = Entity { id: born, generation: 0 };
                    born += 1;
                    players.insert(key, (entity, Body::default()));
                    sample.spawned.push(Spawn { entity, class: 0, at_us });
                    relays.direct(relay, Directive { player, order: Order::Assign { entity: Some(entity), view: None } });
                }
                PlayerEvent::Left(_) => sample.despawned.extend(players.remove(&key).map(|(entity, _)| Despawn { entity, at_us, reason: 0 })),
                PlayerEvent::Input { sequence, payload, .. } => if let Some((_, body)) = players.get_mut(&key) { play(body, sequence, &payload) },
                _ => {}
            }
        }
        for ((relay, player), (entity, ([x, y], [vx, vy], processed))) in &players {
            sample.observed.push(Sample { position: [*x, *y, 0.0], velocity: [*vx, *vy, 0.0], ..Sample::at(*entity, at_us) });
            relays.direct(*relay, Directive { player: *player, order: Order::Processed(*processed) });
        }
        let published = publisher.publish(&sample, now_us());
        published.errors.iter().for_each(|error| eprintln!("left out: {error}"));
        relays.publish(&published, now_us(), &publisher);
    }
    Ok(())
}
