//! Client and hand-made relay over a bad network: every table equals the relay's, the display becomes the world.

use std::collections::BTreeMap;

use super::relay::{Parts, Relay, Table, complete, digest, record, table_of, update};
use crate::client::session::{Client, Received, SessionState};
use crate::client::settings::ClientSettings;
use crate::delta::decode::{Change, Entry};
use crate::sequence::Tick;
use crate::state::entity::Departure;
use crate::state::slots::Slot;
use crate::wire::snapshot::SnapshotHeader;

/// A seeded generator (constants of Knuth's MMIX).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// A way of the network: loses, doubles and delays by up to eight ticks.
#[derive(Default)]
struct Way(Vec<(u64, Vec<u8>)>);

impl Way {
    fn send(&mut self, datagram: &[u8], tick: u64, bad: bool, dice: &mut Dice) {
        let copies = match bad {
            true if dice.chance(25) => 0,
            true if dice.chance(5) => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let delay = if bad { dice.below(8) } else { 1 };
            self.0.push((tick + delay, datagram.to_vec()));
        }
    }

    fn arrived(&mut self, tick: u64) -> Vec<Vec<u8>> {
        let (now, later) = core::mem::take(&mut self.0)
            .into_iter()
            .partition(|(at, _)| *at <= tick);
        self.0 = later;
        now.into_iter().map(|(_, datagram)| datagram).collect()
    }
}

const SLOTS: Slot = 60;
const TICK_US: u64 = 16_667;
const FIRST: u32 = u32::MAX - 150;

/// The world as this client may see it, and what it was at each tick.
struct World {
    all: Table,
    hidden: Vec<bool>,
    lives: u32,
    freed_at: [u64; SLOTS as usize],
    seen: BTreeMap<u32, Table>,
}

impl World {
    fn view(&self) -> Table {
        self.all
            .iter()
            .filter(|(slot, _)| !self.hidden[usize::from(**slot)])
            .map(|(s, r)| (*s, *r))
            .collect()
    }

    fn step(&mut self, tick: u64, now_us: u64, dice: &mut Dice) {
        for slot in 0..SLOTS {
            let place = usize::from(slot);
            match self.all.get_mut(&slot) {
                Some(record) => {
                    if slot >= 20
                        && dice.chance(25)
                        && let Some(motion) = &mut record.motion
                    {
                        motion.observed_us = now_us;
                        motion.position[0] = (motion.position[0] + dice.below(40) as u32) % 20_000;
                        motion.at_rest = dice.chance(10);
                    }
                    if slot >= 20 && dice.chance(2) {
                        record.segment += 1;
                        record.segment_us = now_us;
                    }
                    if dice.chance(1) {
                        self.all.remove(&slot);
                        self.freed_at[place] = tick;
                    }
                }
                None if tick > self.freed_at[place] + 60 && dice.chance(5) => {
                    self.lives += 1;
                    let mut born = record(u32::from(slot), 5_000, now_us);
                    (born.entity.generation, born.born_us, born.segment_us) = (self.lives, now_us, now_us);
                    self.all.insert(slot, born);
                }
                None => {}
            }
            if dice.chance(2) {
                self.hidden[place] ^= true;
            }
        }
    }

    /// What a delta from `base` to the view says, structure first, the rest in turn.
    fn entries(&self, base: Option<&Table>, tick: u64, now_us: u64) -> Vec<Entry> {
        let (view, empty) = (self.view(), Table::new());
        let base = base.unwrap_or(&empty);
        let mut entries: Vec<Entry> = Vec::new();
        for slot in base.keys().filter(|slot| !view.contains_key(slot)) {
            let alive = self.all.contains_key(slot);
            let departure = if alive {
                Departure::LeftView
            } else {
                Departure::Destroyed
            };
            let change = Change::Removed {
                departure,
                at_us: now_us,
                reason: u8::from(!alive),
            };
            entries.push(Entry { slot: *slot, change });
        }
        let turn = (tick * 7 % u64::from(SLOTS)) as Slot;
        for slot in (0..SLOTS).map(|slot| (slot + turn) % SLOTS) {
            let Some(now) = view.get(&slot) else { continue };
            match base.get(&slot) {
                Some(old) if old == now => {}
                Some(old) if old.entity == now.entity && old.segment == now.segment => {
                    entries.push(update(slot, *now));
                }
                _ => entries.push(complete(slot, *now)),
            }
        }
        entries
    }
}

/// Entries in parts of seven, as many as fit eight parts, each in order of slot.
/// Entries of a snapshot at most: what is more is left out.
const ENTRIES_MAX: usize = 56;

fn parts(mut entries: Vec<Entry>) -> Parts {
    entries.truncate(ENTRIES_MAX);
    let mut parts: Parts = entries.chunks(7).map(<[Entry]>::to_vec).collect();
    parts
        .iter_mut()
        .for_each(|part| part.sort_by_key(|entry| entry.slot));
    if parts.is_empty() {
        parts.push(Vec::new());
    }
    parts
}

struct Run {
    relay: Relay,
    client: Client,
    world: World,
    down: Way,
    up: Way,
    dice: Dice,
    /// A bit was flipped in this session epoch: tables may differ until it is found.
    flipped_in: u32,
}

impl Run {
    fn new(seed: u64) -> Run {
        let (relay, client) = Relay::connected(ClientSettings::default());
        let world = World {
            all: Table::new(),
            hidden: vec![false; usize::from(SLOTS)],
            lives: 0,
            freed_at: [0; SLOTS as usize],
            seen: BTreeMap::new(),
        };
        let (down, up) = (Way::default(), Way::default());
        Run {
            relay,
            client,
            world,
            down,
            up,
            dice: Dice(seed),
            flipped_in: 0,
        }
    }

    fn tick(&mut self, tick: u64, bad: bool) {
        let now_us = 100_000 + tick * TICK_US;
        let id = FIRST.wrapping_add(tick as u32);
        if bad {
            self.world.step(tick, now_us, &mut self.dice);
        }
        self.world.seen.insert(id, self.world.view());
        self.send(id, tick, now_us, bad);
        for mut datagram in self.down.arrived(tick) {
            if let Received::Snapshot { .. } = self.client.receive(now_us, &mut datagram) {
                self.check_display();
            }
        }
        let mut out = Vec::new();
        for now_us in [now_us, now_us + 9_000] {
            while self.client.poll_transmit(now_us, &mut out) {
                self.up.send(&out, tick, bad, &mut self.dice);
            }
        }
        for datagram in self.up.arrived(tick) {
            self.relay.hear(&datagram);
        }
        self.advance();
        self.check_tables();
    }

    fn send(&mut self, id: u32, tick: u64, now_us: u64, bad: bool) {
        let usable = self.relay.window.held();
        let base = usable
            .iter()
            .map(|held| held.held.id)
            .reduce(|a, b| if a.is_after(b) { a } else { b });
        let table = base.map(|base| self.relay.table(base));
        let view = self.world.view();
        let entries = self.world.entries(table.as_ref(), tick, now_us);
        let holds = |slot: &Slot| table.as_ref().is_some_and(|table| table.contains_key(slot));
        let header = SnapshotHeader {
            candidate: tick.is_multiple_of(2),
            view_complete: view.keys().all(holds),
            // It says the base again, so not where entries are left out.
            base_digest: table
                .as_ref()
                .filter(|_| tick.is_multiple_of(4) && entries.len() <= ENTRIES_MAX)
                .map(digest),
            ..self.relay.header(id, base.map(|base| base.0), now_us)
        };
        for payload in self.relay.snapshot(header, parts(entries)) {
            let datagram = self.relay.seal(payload);
            self.down.send(&datagram, tick, bad, &mut self.dice);
        }
    }

    fn advance(&mut self) {
        let mut ids: Vec<Tick> = self.relay.window.held().iter().map(|held| held.held.id).collect();
        if self.relay.report.ask && self.relay.window.open_commit().is_none() && ids.len() >= 8 {
            ids.sort_by_key(|id| core::cmp::Reverse(id.since(Tick(FIRST))));
            let keep: Vec<u32> = ids.iter().take(3).map(|id| id.0).collect();
            self.relay.commit(&keep);
        }
    }

    /// Every table the relay may name is held by the client with the same records.
    fn check_tables(&self) {
        let epoch = self.client.session_epoch();
        if self.relay.window.session_epoch() != epoch || self.flipped_in == epoch {
            return;
        }
        for held in self.relay.window.held() {
            assert_eq!(table_of(&self.client, held.held.id.0).as_ref(), Some(&held.table));
        }
    }

    /// Every record shown is what the world had there at that tick.
    fn check_display(&self) {
        if self.flipped_in == self.client.session_epoch() {
            return;
        }
        for shown in self.client.changes() {
            let Some(known) = self.client.display().known(shown.slot) else {
                continue;
            };
            let seen = self
                .world
                .seen
                .get(&known.as_of.0)
                .and_then(|view| view.get(&shown.slot));
            if self.flipped_in == 0 && known.record.entity == shown.entity {
                assert_eq!(
                    seen,
                    Some(&known.record),
                    "slot {} as of {}",
                    shown.slot,
                    known.as_of
                );
            }
        }
    }

    fn check_end(&self, seed: u64) {
        let shown: Table = self
            .client
            .display()
            .records()
            .map(|(slot, record, _)| (slot, record))
            .collect();
        let view = self.world.view();
        for slot in 0..SLOTS {
            let place = self.client.display().place(slot);
            assert_eq!(
                shown.get(&slot),
                view.get(&slot),
                "seed {seed} slot {slot}: {place:?}"
            );
        }
        assert_eq!(self.client.display().live(), shown.len());
        assert_eq!(self.client.state(), SessionState::Connected);
        let total = self
            .client
            .refusals()
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(r, c)| (r.label(), c));
        let statistics = self.client.statistics();
        let context = format!("seed {seed}: {:?} {statistics:?}", total.collect::<Vec<_>>());
        assert!(
            statistics.advances_applied > 2 && statistics.slots_in_use_max <= 32,
            "{context}"
        );
        assert!(
            statistics.parts_late > 10 && statistics.view_complete_us.is_some(),
            "{context}"
        );
    }
}

/// SPEC TAB1, TAB2, TAB6..TAB8, WIN1..WIN11, CTL1, DEC9: loss, doubles, reordering, entities that come and go,
/// leave the view and come back, ids across the wrap.
#[test]
fn tables_and_display_follow_the_world_over_a_bad_network() {
    let (mut reinstated, mut awaited) = (0, 0);
    for seed in 0..12 {
        let mut run = Run::new(seed);
        (0..600).for_each(|tick| run.tick(tick, true));
        (600..700).for_each(|tick| run.tick(tick, false));
        run.check_end(seed);
        assert_eq!(run.client.statistics().digest_mismatches, 0);
        assert_eq!(run.client.session_epoch(), 1, "nothing was ever lost for good");
        reinstated += run.client.statistics().reinstated;
        awaited += run.client.statistics().parts_received;
    }
    assert!(reinstated > 0 && awaited > 10_000, "{reinstated} {awaited}");
}

/// SPEC DEC9, WIN11: flipped bits and requests for a full state in between; everything heals.
#[test]
fn damaged_tables_heal_over_a_bad_network() {
    let mut found = 0;
    for seed in 100..108 {
        let mut run = Run::new(seed);
        for tick in 0..600 {
            run.tick(tick, true);
            if tick % 97 == 50 && run.client.flip_bit(seed * 7_777_777 + tick * 104_729) {
                run.flipped_in = run.client.session_epoch();
            }
            if tick % 250 == 249 {
                run.client.request_full_state(100_000 + tick * TICK_US);
            }
        }
        (600..720).for_each(|tick| run.tick(tick, false));
        run.check_end(seed);
        found += run.client.statistics().digest_mismatches;
    }
    assert!(found > 8, "{found} damages found");
}
