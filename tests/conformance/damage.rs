//! Payloads made from good ones that a client must refuse, each for a reason, and some it must take.

use std::collections::{BTreeMap, HashSet};

use ackline::client::session::Client;

use crate::dice::Dice;
use crate::payload::Payload;
use crate::{entries, headers, payloads, schemas};

/// What damage is made from.
pub struct Scene<'a> {
    pub client: &'a Client,
    /// Ids of snapshots that the client has reported.
    pub reported: &'a HashSet<u32>,
    pub schema_bytes: &'a [u8],
    /// The payload that the client took last.
    pub taken: &'a [u8],
    /// Damage may be done that the client must tell the relay of, and that ends the session epoch.
    pub hazards: bool,
}

impl Scene<'_> {
    /// Snapshots that are held and reported, as (id, mask, digest), newest first.
    pub fn held(&self) -> Vec<(ackline::wire::snapshot::Held, [u32; 2])> {
        let tables = self
            .client
            .tables()
            .filter(|(held, _)| self.reported.contains(&held.id.0));
        let mut held: Vec<_> = tables.map(|(held, table)| (held, table.digest().0)).collect();
        let newest = held.first().map(|(held, _)| held.id).unwrap_or_default();
        held.sort_by_key(|(held, _)| std::cmp::Reverse(held.id.since(newest)));
        held
    }
}

/// A payload to put in.
pub struct Shot {
    pub name: &'static str,
    pub payload: Vec<u8>,
    /// The word it must be refused with, where only one is right; `ok` where it must be taken.
    pub expected: Option<&'static str>,
    /// It ends the session epoch.
    pub hazard: bool,
}

pub type Maker = fn(&Scene<'_>, &Payload, &mut Dice) -> Option<Shot>;

/// Gives each kind of damage its turn.
#[derive(Default)]
pub struct Damage {
    turns: BTreeMap<usize, u64>,
}

/// One kind of damage.
#[derive(Clone, Copy)]
enum Kind {
    Made(Maker),
    Entry(usize),
    Wound(usize),
}

fn kinds() -> impl Iterator<Item = Kind> {
    let made = payloads::MAKERS
        .iter()
        .chain(headers::MAKERS)
        .map(|maker| Kind::Made(*maker));
    made.chain((0..entries::ENTRIES.len()).map(Kind::Entry))
        .chain((0..schemas::WOUNDS.len()).map(Kind::Wound))
}

impl Damage {
    /// The next damage that can be done to a payload.
    pub fn next(&mut self, scene: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
        let mut order: Vec<(u64, u64, usize, Kind)> = kinds()
            .enumerate()
            .map(|(index, kind)| {
                (
                    self.turns.get(&index).copied().unwrap_or(0),
                    dice.roll(),
                    index,
                    kind,
                )
            })
            .collect();
        order.sort_by_key(|(turns, roll, ..)| (*turns, *roll));
        for (_, _, index, kind) in order {
            let shot = match kind {
                Kind::Made(maker) => maker(scene, payload, dice),
                Kind::Entry(entry) => entries::forged(entry, scene, payload, dice),
                Kind::Wound(wound) => schemas::damaged(wound, scene, payload, dice),
            };
            if let Some(shot) = shot {
                *self.turns.entry(index).or_default() += 1;
                return Some(shot);
            }
        }
        None
    }
}
