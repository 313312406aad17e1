//! One run: origin, relay and clients on one virtual clock.
//!
//! > [`run`] plays a seed to its end and gives what it came to. Whatever is due at one instant happens in one
//! > fixed order, so a seed is a run.

use std::sync::Arc;

use super::audience::Audience;
use super::counted;
use super::dice::Dice;
use super::outcome::{Failure, Outcome};
use super::player::Player;
use super::post::Post;
use super::scenario::{CLEAN_US, Scenario, StallKind, Turn};
use super::settings::{Sabotage, SimSettings};
use super::upstream::Upstream;
use super::windows::{compare_tables, describe, session_of};
use crate::impairment::settings::ImpairmentSettings;
use crate::limits::WINDOW_SLOTS;
use crate::relay::budget::Budget;
use crate::relay::counters::DatagramRefusal;
use crate::relay::shard::{Receipt, Shard, ShardSettings};
use crate::state::Frame;
use crate::state::frame::Place;
use crate::state::player::PlayerEvent;
use crate::state::view::View;
use crate::wire::version::Versions;

/// Time between two rounds of the relay's timers, microseconds.
const TIMERS_US: u64 = 20_000;
/// Time between two looks at tables and counters, microseconds.
const INSPECT_US: u64 = 1_000_000;
/// Time between two looks at what a flipped bit does, microseconds.
const TAINTS_US: u64 = 50_000;

/// Plays the run of a seed.
#[must_use]
pub fn run(seed: u64, settings: &SimSettings) -> Outcome {
    let scenario = Scenario::draw(seed, settings);
    play(scenario, settings)
}

/// Plays a scenario.
#[must_use]
pub fn play(scenario: Scenario, settings: &SimSettings) -> Outcome {
    let mut run = Run::new(scenario, settings);
    let quiet_us = run.scenario.clean_at_us + CLEAN_US;
    let end_us = quiet_us + run.scenario.quiet_us;
    loop {
        let at_us = run.next_us();
        if at_us > end_us {
            break;
        }
        run.now_us = at_us;
        if !run.quiet && at_us >= quiet_us {
            run.quiet = true;
            run.upstream.quiet = true;
            run.upstream
                .stall(at_us, StallKind::Pause, 2 * run.scenario.quiet_us);
        }
        run.step();
    }
    run.now_us = end_us;
    run.end()
}

struct Run {
    scenario: Arc<Scenario>,
    sabotage: Option<Sabotage>,
    watch: Option<u32>,
    upstream: Upstream,
    shard: Shard,
    post: Post,
    players: Vec<Player>,
    audience: Audience,
    player_events: Vec<PlayerEvent>,
    outcome: Outcome,
    now_us: u64,
    turn: usize,
    clean: bool,
    quiet: bool,
    timers_us: u64,
    inspect_us: u64,
    taints_us: u64,
    frames: Vec<Arc<Frame>>,
    datagram: Vec<u8>,
}

impl Run {
    fn new(scenario: Scenario, settings: &SimSettings) -> Run {
        let scenario = Arc::new(scenario);
        let seed = scenario.seed;
        let mut dice = Dice::new(seed, "relay", 0);
        let upstream = Upstream::new(&scenario);
        let mut views = Dice::new(seed, "default view", 0);
        let view = scenario
            .view
            .map_or(View::WHOLE, |role| role.draw(&mut views, upstream.schema()));
        let budget = scenario
            .budget_bytes_per_s
            .map_or(Budget::default(), Budget::of_rate);
        let shard = Shard::new(ShardSettings {
            egress_bytes_per_s: scenario.egress_bytes_per_s,
            view,
            index: u8::try_from(dice.up_to(255)).unwrap_or(0),
            sessions_max: 64 * scenario.clients.len(),
            budget,
            gate: None,
            versions: Versions::SPOKEN,
            limits: Default::default(),
            cookie_secret: dice.bytes(),
            seed: dice.bytes(),
            stopwatch: || 0,
        });
        let flips = scenario
            .turns
            .iter()
            .any(|(_, turn)| matches!(turn, Turn::Flip(_)));
        let players = scenario
            .clients
            .iter()
            .enumerate()
            .map(|(index, plan)| Player::new(seed, index, plan, scenario.clean_at_us));
        Run {
            players: players.collect(),
            audience: Audience::new(&scenario, budget, view),
            player_events: Vec::new(),
            upstream,
            sabotage: settings.sabotage,
            watch: settings.watch,
            shard,
            post: Post::new(scenario.outbox_room),
            outcome: Outcome::default(),
            now_us: 0,
            turn: 0,
            clean: false,
            quiet: false,
            timers_us: dice.up_to(TIMERS_US),
            inspect_us: INSPECT_US,
            taints_us: if flips { TAINTS_US } else { u64::MAX },
            frames: Vec::new(),
            datagram: Vec::new(),
            scenario,
        }
    }

    fn relay_us(&self) -> u64 {
        self.scenario.relay_clock_us + self.now_us
    }

    /// When the next thing is due.
    fn next_us(&self) -> u64 {
        let turn = self
            .scenario
            .turns
            .get(self.turn)
            .map_or(u64::MAX, |(at_us, _)| *at_us);
        let clean = if self.clean {
            u64::MAX
        } else {
            self.scenario.clean_at_us
        };
        let fixed = turn
            .min(clean)
            .min(self.timers_us)
            .min(self.inspect_us)
            .min(self.taints_us)
            .min(self.upstream.next_us());
        self.players
            .iter()
            .map(Player::next_us)
            .fold(fixed, u64::min)
            .max(self.now_us)
    }

    /// Does what is due now.
    fn step(&mut self) {
        if !self.clean && self.now_us >= self.scenario.clean_at_us {
            self.become_clean();
        }
        while let Some((at_us, turn)) = self.scenario.turns.get(self.turn).copied()
            && at_us <= self.now_us
        {
            self.turn += 1;
            self.take_turn(turn);
        }
        if self.upstream.next_us() <= self.now_us {
            self.publish();
        }
        if self.timers_us <= self.now_us {
            self.timers_us = self.now_us + TIMERS_US;
            let relay_us = self.relay_us();
            self.shard.timers(relay_us, &mut self.post);
            self.flush();
            self.hear_players();
        }
        for index in 0..self.players.len() {
            if self.players[index].next_us() <= self.now_us {
                self.run_player(index);
            }
        }
        if self.taints_us <= self.now_us {
            self.taints_us = self.now_us + TAINTS_US;
            self.look_at_taints();
        }
        if self.inspect_us <= self.now_us {
            self.inspect_us = self.now_us + INSPECT_US;
            self.inspect();
        }
    }

    fn become_clean(&mut self) {
        self.clean = true;
        let clean = ImpairmentSettings::default();
        self.players
            .iter_mut()
            .for_each(|player| player.relink(clean, clean));
        let done = match self.sabotage {
            None => true,
            Some(Sabotage::WrongTruth) => (0..3).all(|pick| self.upstream.truth.falsify(pick)),
            Some(Sabotage::Phantom) => self.upstream.truth.invent(),
        };
        debug_assert!(done, "a world with entities can be falsified");
    }

    fn take_turn(&mut self, turn: Turn) {
        let now_us = self.now_us;
        let figures = &mut self.outcome.figures;
        match turn {
            Turn::Stall { kind, length_us } => self.upstream.stall(now_us, kind, length_us),
            Turn::Join(client) => {
                if self.players[client].client().is_none() {
                    self.audience.forget(client);
                }
                self.players[client].join(now_us);
            }
            Turn::Leave(client) => self.players[client].leave(now_us),
            Turn::Vanish(client) => self.players[client].vanish(now_us, figures),
            Turn::Silence {
                client,
                length_us,
                buffered,
            } => {
                self.players[client].fall_silent(now_us + length_us, buffered);
            }
            Turn::Rebind(client) => self.players[client].rebind(),
            Turn::Flip(client) => self.players[client].flip(now_us, figures),
            Turn::Relink { client, link } => {
                let [down, up] = self.players[client].planned_links(link);
                self.players[client].relink(down, up);
            }
        }
    }

    /// The upstream runs; its frames go to every session.
    fn publish(&mut self) {
        let mut frames = core::mem::take(&mut self.frames);
        self.upstream.run(self.now_us, &mut frames);
        self.outcome.figures.frames += frames.len() as u64;
        let some = !frames.is_empty();
        self.audience.foresee(
            self.now_us,
            &frames,
            &self.shard,
            &mut self.players,
            &self.upstream.truth,
        );
        for frame in frames.drain(..) {
            if let Some(id) = self.watch {
                self.note_frame(id, &frame);
            }
            self.outcome.figures.directives += frame.directives.len() as u64;
            self.shard.publish(frame, self.upstream.schema_bytes());
        }
        self.frames = frames;
        if some {
            let relay_us = self.relay_us();
            while self.shard.transmit(relay_us, &mut self.post) {
                self.flush();
            }
            self.flush();
            let counters = self.shard.counters();
            self.outcome.figures.records_omitted = counters.records_omitted;
            self.outcome.figures.messages_dropped = counters.messages_dropped;
        }
        for what in self.upstream.take_complaints() {
            self.fail(None, what);
        }
    }

    /// Notes what a frame changes of a watched entity.
    fn note_frame(&mut self, id: u32, frame: &Frame) {
        for slot in frame.dirty().iter() {
            let said = match frame.place(slot) {
                Place::Live(record) if record.entity.id == id => format!("{record:?}"),
                Place::Grave(grave) if grave.entity.id == id => format!("{grave:?}"),
                _ => continue,
            };
            let (us, tick) = (self.now_us, frame.tick);
            self.outcome
                .notes
                .push(format!("{us} us: frame {tick}, slot {slot}: {said}"));
        }
    }

    /// What the relay has sent goes onto the links.
    fn flush(&mut self) {
        if !self.post.is_empty() {
            for (client, what) in self.audience.look(self.now_us, &self.shard, &self.players) {
                self.fail(Some(client), what);
            }
        }
        let Run {
            post,
            players,
            now_us,
            ..
        } = self;
        post.drain(|path, slot, length| {
            if let Some(player) = players.get_mut(Player::of_address(path.remote)) {
                player.send_down(*now_us, path, slot, length);
            }
        });
    }

    fn run_player(&mut self, index: usize) {
        let relay_us = self.relay_us();
        let mut datagram = core::mem::take(&mut self.datagram);
        while let Some(path) = self.players[index].poll_up(self.now_us, &mut datagram) {
            let receipt = self.shard.receive(relay_us, path, &mut datagram, &mut self.post);
            if receipt == Receipt::Refused(DatagramRefusal::Malformed) {
                self.fail(
                    Some(index),
                    "the relay could not read an authentic datagram".to_owned(),
                );
            }
            self.flush();
        }
        self.datagram = datagram;
        self.hear_players();
        let Run {
            shard,
            players,
            audience,
            upstream,
            outcome,
            ..
        } = self;
        let mut oracle = audience.oracle(index, shard, &players[index], &upstream.truth);
        let player = &mut players[index];
        player.run(self.now_us, &mut oracle, &mut outcome.figures);
        if let Some(sight) = oracle.sight
            && let Some(cameras) = player.take_cameras()
        {
            cameras.for_each(|(at_us, place)| sight.tell_camera(at_us, place));
        }
        self.gather(index);
    }

    /// What the relay says of players goes to the origin.
    fn hear_players(&mut self) {
        let mut events = core::mem::take(&mut self.player_events);
        self.shard.take_player_events(&mut events);
        for event in events.drain(..) {
            self.outcome.figures.inputs_taken += u64::from(matches!(event, PlayerEvent::Input { .. }));
            let shard = &self.shard;
            let who = |player| {
                let session = shard.sessions().find(|session| session.connection == player)?;
                Some((Player::of_address(session.source), session.client_nonce))
            };
            self.upstream.director.hear(self.now_us, &event, who);
        }
        self.player_events = events;
        for (client, what) in self.upstream.director.take_found() {
            self.fail(Some(client), what);
        }
    }

    /// Takes over what a client's check has found.
    fn gather(&mut self, index: usize) {
        if let Some(id) = self.watch {
            let (us, outcome) = (self.now_us, &mut self.outcome);
            self.players[index].note(id, |said| {
                outcome.notes.push(format!("{us} us: client {index}: {said}"))
            });
        }
        let Some(check) = self.players[index].check() else {
            return;
        };
        let (seed, at_us) = (self.scenario.seed, self.now_us);
        for what in check.take_found() {
            self.outcome.fail(Failure {
                seed,
                at_us,
                client: Some(index),
                what,
            });
        }
    }

    fn fail(&mut self, client: Option<usize>, what: String) {
        let (seed, at_us) = (self.scenario.seed, self.now_us);
        self.outcome.fail(Failure {
            seed,
            at_us,
            client,
            what,
        });
    }

    /// Where a bit was flipped: whether it is still at work.
    fn look_at_taints(&mut self) {
        for index in (0..self.players.len())
            .filter(|index| self.players[*index].is_tainted())
            .collect::<Vec<_>>()
        {
            let player = &self.players[index];
            let session = session_of(&self.shard, player);
            let right =
                session.is_none_or(|session| compare_tables(session, player, &self.shard, true).is_none());
            let figures = &mut self.outcome.figures;
            self.players[index].look_at_taint(self.now_us, right, &self.upstream.truth, figures);
            self.gather(index);
        }
    }

    /// Once a second: windows and tables of both ends.
    fn inspect(&mut self) {
        self.upstream.truth.forget(self.now_us);
        self.shard.take_changes();
        for index in 0..self.players.len() {
            let now_us = self.now_us;
            let player = &self.players[index];
            let Some(session) = session_of(&self.shard, player) else {
                continue;
            };
            let in_use = session.window.in_use();
            if self.watch.is_some() {
                let note = format!(
                    "{now_us} us: client {index}: {}",
                    describe(session, player, &self.shard)
                );
                self.outcome.notes.push(note);
            }
            let differences = if player.is_tainted() {
                None
            } else {
                compare_tables(session, player, &self.shard, false)
            };
            self.outcome.figures.tables_checked += 1;
            if in_use > WINDOW_SLOTS {
                self.fail(
                    Some(index),
                    format!("the relay keeps {in_use} snapshots, more than {WINDOW_SLOTS}"),
                );
            }
            if let Some(difference) = differences {
                self.fail(Some(index), difference);
            }
        }
    }

    /// The end: everything must be there, and nothing was counted that must not be.
    fn end(mut self) -> Outcome {
        self.upstream.compare_origin();
        for what in self.upstream.take_complaints() {
            self.fail(None, what);
        }
        for index in 0..self.players.len() {
            let Run {
                shard,
                players,
                audience,
                upstream,
                outcome,
                now_us,
                ..
            } = &mut self;
            let session = session_of(shard, &players[index]);
            let charge = session.and_then(|session| upstream.director.player(session.connection));
            let backlog = session.map_or(0, |session| session.stream.backlog());
            let oracle = audience.oracle(index, shard, &players[index], &upstream.truth);
            players[index].end(*now_us, &oracle, charge, &mut outcome.figures);
            if backlog > 0 {
                self.fail(Some(index), format!("{backlog} messages still wait at the relay"));
            }
            self.gather(index);
        }
        let figures = &mut self.outcome.figures;
        figures.runs = 1;
        figures.stream_epochs = u64::from(self.upstream.stream_epoch());
        let wrong = counted::take(self.shard.counters_mut(), figures);
        for what in wrong {
            self.fail(None, what);
        }
        self.outcome
    }
}
