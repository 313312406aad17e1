//! What passes between a game and the players behind a relay: events down, inputs up, the own entity's state.

use std::collections::BTreeMap;

use ackline::client::inbox::ClientEvent;
use ackline::limits::INPUTS_WINDOW;
use ackline::relay::budget::Budget;
use ackline::sequence::Tick;
use ackline::state::player::{Directive, Order, PlayerEvent, PlayerId};
use ackline::state::update::Event;
use ackline::state::view::{Range, Scope, View};

use crate::rig::{Dice, Next, Rig, Weather};

/// A fifth is lost each way, and what jitters more than a tick overtakes.
const ROUGH: Weather = Weather {
    delay_us: 70_000,
    jitter_us: 60_000,
    loss_percent: 20,
    double_percent: 2,
};
const ROUND_TRIP_US: u64 = 2 * (70_000 + 30_000);

fn radius() -> View {
    View {
        scope: Scope::Owner(Range::new(2_000, 2_500).unwrap()),
        tags: u32::MAX,
    }
}

/// Events of one client: what it was told, and when.
#[derive(Default)]
struct Told {
    events: Vec<(u64, Event)>,
    lost: u64,
    assigned: usize,
}

fn listen(rig: &mut Rig, seat: usize, told: &mut Told) {
    let now_us = rig.now_us;
    while let Some(event) = rig.seats[seat].client.poll_event() {
        match event {
            ClientEvent::World(event) => told.events.push((now_us, event)),
            ClientEvent::InputsLost { count, .. } => told.lost += u64::from(count),
            ClientEvent::Assigned(_) => told.assigned += 1,
            _ => {}
        }
    }
}

fn put_event(next: &mut Next, id: u32, number: u32, critical: bool) {
    next.event(7, Some(ackline::state::entity::Entity { id, generation: 0 }));
    let event = next.update.events.last_mut().unwrap();
    event.payload = number.to_le_bytes().to_vec();
    event.critical = critical;
}

fn number(event: &Event) -> u32 {
    u32::from_le_bytes(event.payload[..4].try_into().unwrap())
}

/// A hundred thousand events at twenty clients under loss and reordering: each once, in order, none about a stranger, and
/// what is critical within a round trip and two ticks.
#[test]
fn ctl3_events_come_once_in_order_and_to_whom_they_concern() {
    const CLIENTS: u32 = 20;
    const TICKS: u32 = 3_800;
    let mut rig = Rig::with(Tick(3), 17, Budget::default());
    // Two villages, four clients of five in the first; their own entities stand there.
    let village = |id: u32| if id % 5 == 4 { (8_000, 8_000) } else { (0, 0) };
    rig.tick(|next| {
        for id in 0..CLIENTS {
            let (x, z) = village(id);
            next.spawn(id, 0);
            next.walk(id, x + i32::try_from(id).unwrap() * 10, z);
        }
    });
    let seats: Vec<usize> = (0..CLIENTS).map(|_| rig.join(ROUGH)).collect();
    rig.quiet(60);
    let players: Vec<PlayerId> = seats.iter().map(|seat| rig.player(*seat)).collect();
    rig.tick(|next| {
        for (id, player) in (0..).zip(&players) {
            next.assign(*player, Some(id), Some(radius()));
        }
    });
    rig.quiet(60);
    let mut told: Vec<Told> = seats.iter().map(|_| Told::default()).collect();
    seats
        .iter()
        .zip(&mut told)
        .for_each(|(seat, told)| listen(&mut rig, *seat, told));
    told.iter_mut().for_each(|told| told.events.clear());
    let mut sent: Vec<(u32, u64, bool)> = Vec::new();
    let mut dice = Dice(3);
    for _ in 0..TICKS {
        let now_us = rig.now_us;
        rig.tick(|next| {
            // Two a tick, one of them critical: of the first village, now and then of the second.
            for critical in [false, true] {
                let id = u32::try_from(dice.below(u64::from(CLIENTS))).unwrap();
                put_event(next, id, u32::try_from(sent.len()).unwrap(), critical);
                sent.push((id, now_us, critical));
            }
        });
        seats
            .iter()
            .zip(&mut told)
            .for_each(|(seat, told)| listen(&mut rig, *seat, told));
    }
    for seat in &seats {
        rig.weather(*seat, Weather::default());
    }
    for _ in 0..60 {
        rig.quiet(1);
        seats
            .iter()
            .zip(&mut told)
            .for_each(|(seat, told)| listen(&mut rig, *seat, told));
    }
    let mut late = Vec::new();
    let mut delivered = 0;
    for (own, told) in (0..CLIENTS).zip(&told) {
        let due: Vec<u32> = (0u32..)
            .zip(&sent)
            .filter(|(_, (id, ..))| village(*id) == village(own))
            .map(|(number, _)| number)
            .collect();
        let got: Vec<u32> = told.events.iter().map(|(_, event)| number(event)).collect();
        assert!(
            got == due,
            "client {own}: {} of {} due, {} of them in order",
            got.len(),
            due.len(),
            got.iter().zip(&due).take_while(|(a, b)| a == b).count()
        );
        delivered += got.len();
        for (at_us, event) in told.events.iter().filter(|(_, event)| event.critical) {
            late.push(at_us - sent[number(event) as usize].1);
        }
    }
    assert_eq!(rig.shard.counters().messages_dropped, 0);
    late.sort_unstable();
    let p99 = late[late.len() * 99 / 100];
    println!(
        "{delivered} events, critical p50 {} us, p99 {p99} us, most {} us",
        late[late.len() / 2],
        late[late.len() - 1]
    );
    assert!(delivered > 100_000, "{delivered}");
    assert!(p99 <= ROUND_TRIP_US + 2 * 50_000, "critical p99 {p99} us");
}

/// SPEC PRE4: under loss each input reaches the origin once and in order, or is said to be lost past its window; the
/// owner's state names the right one (SPEC PRE2).
#[test]
fn pre4_inputs_arrive_once_in_order_or_are_said_to_be_lost() {
    let mut rig = Rig::with(Tick(3), 29, Budget::default());
    rig.tick(|next| {
        for id in 0..4 {
            next.spawn(id, 0);
            next.walk(id, i32::try_from(id).unwrap() * 100, 0);
        }
    });
    let seats: Vec<usize> = (0..4).map(|_| rig.join(ROUGH)).collect();
    rig.quiet(60);
    let players: Vec<PlayerId> = seats.iter().map(|seat| rig.player(*seat)).collect();
    rig.tick(|next| {
        for (id, player) in (0..).zip(&players) {
            next.assign(*player, Some(id), Some(radius()));
        }
    });
    let mut heard: BTreeMap<PlayerId, Vec<u32>> = BTreeMap::new();
    let mut lost: BTreeMap<PlayerId, u64> = BTreeMap::new();
    let mut processed: BTreeMap<PlayerId, u32> = BTreeMap::new();
    let mut pushed = 0u32;
    let mut told: Vec<Told> = seats.iter().map(|_| Told::default()).collect();
    for step in 0..1_200u32 {
        // The third client's way is cut for two seconds: more inputs than its window holds.
        let cut = (400..440).contains(&step);
        rig.seats[seats[2]].mute = cut;
        if step < 1_000 {
            for _ in 0..3 {
                pushed += 1;
                for seat in &seats {
                    let number = rig.seats[*seat].client.push_input(&pushed.to_le_bytes()).unwrap();
                    assert_eq!(number, pushed);
                }
            }
        } else if step == 1_000 {
            seats
                .iter()
                .for_each(|seat| rig.weather(*seat, Weather::default()));
        }
        rig.tick(|next| {
            for id in 0..4 {
                next.walk(id, i32::try_from(id * 100 + step % 90).unwrap(), 0);
            }
            for player in &players {
                next.update.directives.push(Directive {
                    player: *player,
                    order: Order::Processed(processed.get(player).copied().unwrap_or(0)),
                });
            }
        });
        let mut events = Vec::new();
        rig.shard.take_player_events(&mut events);
        for event in events {
            match event {
                PlayerEvent::Input {
                    player,
                    sequence,
                    payload,
                } => {
                    assert_eq!(payload, sequence.to_le_bytes());
                    heard.entry(player).or_default().push(sequence);
                    processed.insert(player, sequence);
                }
                PlayerEvent::InputsLost { player, first, count } => {
                    let next = heard[&player].last().map_or(1, |last| last + 1);
                    assert_eq!(first, next, "lost ones follow what was heard");
                    *lost.entry(player).or_default() += u64::from(count);
                    processed.insert(player, first + count - 1);
                }
                _ => {}
            }
        }
        for (seat, told) in seats.iter().zip(&mut told) {
            listen(&mut rig, *seat, told);
            if let Some(owner) = rig.seats[*seat].client.owner() {
                assert!(owner.processed <= pushed);
                let frame = rig.frame(owner.tick).unwrap();
                assert_eq!(
                    frame.record(owner.slot),
                    Some(&owner.record),
                    "the state of its tick"
                );
            }
        }
    }
    for (index, (seat, player)) in seats.iter().zip(&players).enumerate() {
        let heard = &heard[player];
        assert!(
            heard.windows(2).all(|pair| pair[0] < pair[1]),
            "once and in order"
        );
        let lost = lost.get(player).copied().unwrap_or(0);
        assert_eq!(heard.len() as u64 + lost, u64::from(pushed));
        // What arrived and whose acknowledgement did not is lost to the client's knowledge alone.
        let unheard = told[index].lost - lost;
        assert!(
            unheard <= INPUTS_WINDOW as u64,
            "{unheard} lost to the client alone"
        );
        if index == 2 {
            assert!(
                lost > 0 && lost <= 3 * 40 + INPUTS_WINDOW as u64,
                "{lost} lost while the way was cut"
            );
        } else {
            assert_eq!(lost, 0);
        }
        assert_eq!(rig.seats[*seat].client.owner().unwrap().processed, pushed);
    }
}
