//! All clients as the relay serves them: what each session may know, what it was sent, what its records wait for.

use std::sync::Arc;

use super::oracle::Oracle;
use super::player::Player;
use super::scenario::Scenario;
use super::sight::Sight;
use super::spending::Spending;
use super::starvation::Means;
use super::truth::Truth;
use super::windows::session_of;
use super::world::event_number;
use crate::relay::budget::Budget;
use crate::relay::shard::Shard;
use crate::state::Frame;
use crate::state::view::View;

/// Sights and spendings by client.
pub struct Audience {
    scenario: Arc<Scenario>,
    budget: Budget,
    view: View,
    sights: Vec<Option<Sight>>,
    spendings: Vec<Spending>,
}

impl Audience {
    /// The clients of a scenario, before any session. `view` is the one that sessions begin with.
    #[must_use]
    pub fn new(scenario: &Arc<Scenario>, budget: Budget, view: View) -> Audience {
        Audience {
            sights: scenario.clients.iter().map(|_| None).collect(),
            spendings: scenario.clients.iter().map(|_| Spending::default()).collect(),
            scenario: Arc::clone(scenario),
            budget,
            view,
        }
    }

    /// A client begins another session.
    pub fn forget(&mut self, client: usize) {
        self.sights[client] = None;
        self.spendings[client] = Spending::default();
    }

    /// What each session may know of frames that are about to be served.
    pub fn foresee(
        &mut self,
        now_us: u64,
        frames: &[Arc<Frame>],
        shard: &Shard,
        players: &mut [Player],
        truth: &Truth,
    ) {
        let Some(last) = frames.last() else { return };
        let of_stream = frames
            .iter()
            .filter(|frame| frame.stream_epoch == last.stream_epoch);
        let events = of_stream.flat_map(|frame| frame.events.iter().map(|event| (frame.tick, event)));
        let events: Vec<_> = events
            .filter_map(|(tick, event)| Some((event_number(&event.payload)?.1, tick, event.entity)))
            .collect();
        for (player, sight) in players.iter_mut().zip(&mut self.sights) {
            let Some(session) = session_of(shard, player) else {
                continue;
            };
            let connection = session.connection;
            let sight = match sight {
                Some(sight) if sight.connection == connection => sight,
                _ => sight.insert(Sight::new(connection, self.view)),
            };
            for (at_us, place) in player.take_cameras().into_iter().flatten() {
                sight.tell_camera(at_us, place);
            }
            for frame in frames {
                sight.publish(now_us, frame, truth);
            }
            sight.note_events(now_us, last.tick, truth, &events);
        }
    }

    /// What the relay has just sent to whom: which tick each session was served, and how many bytes. What is too much, by
    /// client.
    pub fn look(&mut self, now_us: u64, shard: &Shard, players: &[Player]) -> Vec<(usize, String)> {
        let newest = shard.arena().newest().map(|frame| frame.tick);
        let mut found = Vec::new();
        for (client, player) in players.iter().enumerate() {
            let Some(session) = session_of(shard, player) else {
                continue;
            };
            if let (Some(tick), Some(sight)) = (newest, &mut self.sights[client])
                && session.snapshot_of == Some(tick)
                && sight.connection == session.connection
            {
                sight.looked(tick);
            }
            let too_much = self.spendings[client].observe(now_us, session.bytes_sent, self.budget);
            found.extend(too_much.map(|what| (client, what)));
        }
        found
    }

    /// What a client is compared with.
    pub fn oracle<'a>(
        &'a mut self,
        client: usize,
        shard: &Shard,
        player: &Player,
        truth: &'a Truth,
    ) -> Oracle<'a> {
        let session = session_of(shard, player);
        let connection = session.map(|session| session.connection);
        let means = self.means(player);
        let sight = self.sights[client].as_mut();
        Oracle {
            truth,
            sight: sight.filter(|sight| connection.is_none_or(|connection| sight.connection == connection)),
            refused: session.map_or(0, |session| session.stream.refused()),
            means,
        }
    }

    /// What a client's records wait for; nothing can be said where a cap on all sessions cuts.
    fn means(&self, player: &Player) -> Option<Means> {
        let (loss, round_trip_us) = player.worst();
        self.scenario.egress_bytes_per_s.is_none().then_some(Means {
            bytes_per_s: self.budget.bytes_per_s,
            loss,
            round_trip_us,
            period_us: self.scenario.world.period_us,
        })
    }
}
