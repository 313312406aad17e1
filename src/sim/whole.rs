//! All that a client shows, against all that it may see: again and again, and at the end.
//!
//! Where the newest snapshot says that nothing is left out, who must be in view is shown as its frame has it, and nobody is
//! shown who is out of it (SPEC CTL1, DEC12). A record of the own entity may be older: how it moves comes beside the
//! snapshots. What changed and is not told is followed: nobody starves (SPEC CTL4).

use std::collections::{HashMap, HashSet};

use super::hasher::EntityHasher;
use super::oracle::Oracle;
use super::outcome::Figures;
use super::sight::{Sight, Verdict};
use super::starvation::Starvation;
use super::truth::{Fact, FrameFact, Truth};
use crate::client::session::Client;
use crate::sequence::Tick;
use crate::state::entity::Entity;
use crate::state::record::Record;

/// Time between two looks at everything shown.
const LOOK_US: u64 = 200_000;
/// What was found at the looks so far.
#[derive(Debug, Default)]
pub struct Whole {
    starvation: Starvation,
    looked_at_us: u64,
    looks_us: u64,
    newest: Option<Tick>,
    session_epoch: u32,
}

impl Whole {
    /// A new stream, or a doubt: what was followed is void.
    pub fn forget(&mut self) {
        self.starvation.forget();
    }

    /// The longest wait for a record that changed.
    #[must_use]
    pub fn starved_us(&self) -> u64 {
        self.starvation.worst_us
    }

    /// Looks at everything, if it is time.
    pub fn look(
        &mut self,
        now_us: u64,
        client: &Client,
        oracle: &Oracle<'_>,
        figures: &mut Figures,
    ) -> Vec<String> {
        let since_us = now_us - self.looked_at_us;
        let newest = client.newest().filter(|_| since_us >= LOOK_US);
        let truth = oracle.truth;
        let Some((newest, frame)) = newest.and_then(|newest| Some((newest, truth.frame(newest.id)?))) else {
            return Vec::new();
        };
        if frame.stream_epoch != client.stream_epoch() {
            self.forget();
            return Vec::new();
        }
        self.looked_at_us = now_us;
        if self.newest.replace(newest.id) == Some(newest.id) {
            return Vec::new();
        }
        self.looks_us += since_us.min(2 * LOOK_US);
        let mut found = self.look_for_starved(client, frame, oracle, figures);
        if let Some(sight) = oracle.sight.as_deref()
            && newest.is_whole()
            && newest.view_complete
            && newest.exhaustive
        {
            found.extend(self.look_at_settled(client, frame, sight, truth, figures));
        }
        found
    }

    fn look_for_starved(
        &mut self,
        client: &Client,
        frame: &FrameFact,
        oracle: &Oracle<'_>,
        figures: &mut Figures,
    ) -> Vec<String> {
        let (truth, clock_us) = (oracle.truth, self.looks_us);
        if core::mem::replace(&mut self.session_epoch, client.session_epoch()) != client.session_epoch() {
            self.starvation.forget();
        }
        let (Some(means), Some(sight)) = (oracle.means, oracle.sight.as_deref()) else {
            return Vec::new();
        };
        let shown = client.display().records();
        let owner = sight.owner_at(frame.tick);
        let behind = shown.filter(|(_, record, _)| {
            let expected = match truth.at(frame, record.entity) {
                Fact::Alive(expected) => expected,
                _ => return false,
            };
            !is_right(record, expected, owner)
                && sight.judge(truth, frame.tick, record.entity) == Verdict::Must
        });
        let bound_us = means.bound_us(client.display().live());
        let behind = behind.map(|(_, record, as_of)| (record.entity, as_of));
        let starved = self.starvation.look(clock_us, behind, bound_us);
        figures.starved += starved.len() as u64;
        let said = starved.into_iter().map(|(entity, waited_us)| {
            let tick = frame.tick;
            format!("entity {entity} has changed and its record has not come for {waited_us} us, at snapshot {tick} too: more than {bound_us}")
        });
        said.collect()
    }

    /// Everybody who must be in view is shown as it is, and nobody else.
    fn look_at_settled(
        &self,
        client: &Client,
        frame: &FrameFact,
        sight: &Sight,
        truth: &Truth,
        figures: &mut Figures,
    ) -> Vec<String> {
        let verdicts = sight.verdicts(truth, frame);
        let owner = sight.owner_at(frame.tick);
        let mut shown: HashSet<Entity, EntityHasher> = HashSet::default();
        let mut behind = Vec::new();
        for (_, record, _) in client.display().records() {
            shown.insert(record.entity);
            let fact = truth.at(frame, record.entity);
            let seen = matches!(verdicts.get(&record.entity), Some(Verdict::Must | Verdict::May));
            if !matches!(fact, Fact::Alive(expected) if seen && is_right(&record, expected, owner)) {
                behind.push(record.entity);
            }
        }
        let musts = verdicts.iter().filter(|(_, verdict)| **verdict == Verdict::Must);
        behind.extend(
            musts
                .map(|(entity, _)| *entity)
                .filter(|entity| !shown.contains(entity)),
        );
        figures.looks += 1;
        figures.looks_behind += u64::from(!behind.is_empty());
        let mut found = Vec::new();
        for entity in behind {
            let display = client.display();
            let known = display.find(entity).and_then(|slot| display.known(slot));
            let (tick, fact) = (frame.tick, truth.at(frame, entity));
            let why = sight.explain(truth, tick, entity);
            found.push(format!(
                "snapshot {tick} is whole, and entity {entity} is shown as {known:?}; true is {fact:?}; {why}"
            ));
        }
        found
    }

    /// The end: links were clean long enough, so everything that is to be seen must be shown, and nothing else.
    pub fn end(
        &self,
        client: &Client,
        sight: Option<&Sight>,
        truth: &Truth,
        figures: &mut Figures,
    ) -> Vec<String> {
        let Some(frame) = truth.newest() else {
            return Vec::new();
        };
        let Some(sight) = sight else {
            return vec!["the relay has never served this client".to_owned()];
        };
        let owner = sight.owner_at(frame.tick);
        let mut found = Vec::new();
        let mut shown: HashMap<Entity, _, EntityHasher> = client
            .display()
            .records()
            .map(|(_, record, as_of)| (record.entity, (record, as_of)))
            .collect();
        for entity in truth.living() {
            let verdict = sight.judge(truth, frame.tick, *entity);
            if verdict == Verdict::Never {
                continue;
            }
            figures.records_checked += 1;
            let why = || sight.explain(truth, frame.tick, *entity);
            let Some((record, as_of)) = shown.remove(entity) else {
                if verdict == Verdict::Must {
                    figures.missing += 1;
                    found.push(format!("entity {entity} is missing at the end; {}", why()));
                }
                continue;
            };
            let expected = truth.at(frame, *entity);
            let right = matches!(expected, Fact::Alive(expected) if is_right(&record, expected, owner));
            if !right {
                figures.missing += 1;
                found.push(format!(
                    "at the end entity {entity} is shown as of {as_of} as {record:?}, true is {expected:?}; {}",
                    why()
                ));
            }
        }
        for entity in shown.into_keys() {
            figures.ghosts += 1;
            let (fact, why) = (truth.at(frame, entity), sight.explain(truth, frame.tick, entity));
            found.push(format!(
                "entity {entity} is shown at the end and is not to be seen: {fact:?}; {why}"
            ));
        }
        if client
            .newest()
            .is_none_or(|newest| newest.server_us != frame.server_us)
        {
            let (newest, tick) = (client.newest(), frame.tick);
            found.push(format!(
                "the newest snapshot is {newest:?}, not one of the time of {tick}"
            ));
        }
        found
    }
}

/// A record is as it should be; of the own entity but for how it moves.
#[must_use]
pub fn is_right(record: &Record, expected: &Record, owner: Option<Entity>) -> bool {
    let own = owner == Some(record.entity) && record.motion.is_some() == expected.motion.is_some();
    let motion = if own { expected.motion } else { record.motion };
    Record { motion, ..*record } == *expected
}
