//! The player behind a session: its entity and view, its inputs, what it is told alone (SPEC PRE2, PRE4, CTL3, DEC10).

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::{Hearing, Session};
use crate::delta::encode;
use crate::delta::layout::Layout;
use crate::delta::message::{Assigned, Directed, Message};
use crate::limits::{ARENA_FRAMES, DATAGRAM_MAX, SHARD_PLAYER_EVENTS_MAX, TIGHT_BYTES_PER_S};
use crate::relay::arena::Arena;
use crate::relay::budget::Budget;
use crate::relay::counters::Counters;
use crate::relay::interest::{Interest, Scratch};
use crate::sequence::Tick;
use crate::state::Frame;
use crate::state::grid::point_of;
use crate::state::player::{Order, PlayerEvent};
use crate::state::record::Record;
use crate::state::schema::Axis;
use crate::state::slots::Slot;
use crate::state::update::Event;
use crate::state::view::{Scope, View};
use crate::wire::bits::BitWriter;
use crate::wire::input::InputsBlock;
use crate::wire::owner::{OWNER_BYTES_MAX, OWNER_RECORD_BYTES_MAX, OwnerBlock};

/// An owner state is said again after this time although nothing has changed, microseconds: one may be lost.
const OWNER_REPEAT_US: u64 = 200_000;
/// Least time between two cameras told to the origin, microseconds; the newest is told once it has passed.
const CAMERA_SPACING_US: u64 = 100_000;

const _: () = assert!(OWNER_RECORD_BYTES_MAX * 8 >= (encode::ENTRY_BITS_MAX + encode::GAP_BITS_MAX) as usize);
const _: () = assert!(OWNER_BYTES_MAX < DATAGRAM_MAX / 2);

/// What a session has of a player.
#[derive(Debug, Default)]
pub struct Player {
    /// The last input that is in the state of the world, as the origin says; 0 before any.
    pub processed: u32,
    /// Entity and view are to be told.
    assigned_untold: bool,
    /// The rate tier of its own entity as told.
    tier: u8,
    /// The frame whose events were queued last.
    events_of: Option<Tick>,
    /// The frame at which the view changed last.
    view_since: Option<Tick>,
    /// The budget left something out that changed.
    pub squeezed: bool,
    /// The budget is small.
    tight: bool,
    /// Where the origin was told the camera is, and when.
    camera: Option<[u32; 3]>,
    camera_us: u64,
    /// What was said of its own entity last, and when.
    owner_said: Option<(Record, u32, u64)>,
}

/// The bytes of an owner block's record.
pub struct OwnerRecord {
    bytes: [u8; OWNER_RECORD_BYTES_MAX + 16],
    length: usize,
    record: Record,
}

impl OwnerRecord {
    /// The body of one complete entry.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// Bytes its block takes of a datagram, at most.
    #[must_use]
    pub fn block_bytes(&self) -> usize {
        OWNER_BYTES_MAX - OWNER_RECORD_BYTES_MAX + self.length
    }
}

impl Session {
    /// Takes inputs, while the way to the origin has room: else they stay with the client.
    pub(super) fn take_inputs(&mut self, block: &InputsBlock<'_>, hearing: &mut Hearing<'_>) {
        if hearing.events.len() >= SHARD_PLAYER_EVENTS_MAX {
            hearing.counters.inputs_held_back += block.iter().count() as u64;
            return;
        }
        let outcome = self
            .inputs
            .receive(hearing.now_us, self.connection, block, hearing.events);
        hearing.counters.inputs_taken += outcome.taken;
        hearing.counters.inputs_repeated += outcome.repeated;
        hearing.counters.inputs_lost += outcome.lost;
        hearing.counters.inputs_held_back += outcome.held_back;
    }

    /// Takes the place of the free camera, if the view has one: a client never moves another kind of view.
    pub(super) fn take_camera(&mut self, position: [u32; 3], hearing: &mut Hearing<'_>) {
        let Some(frame) = hearing.arena.newest() else {
            return;
        };
        let in_bounds = |(axis, q): (&Axis, u32)| q <= axis.highest();
        let axes = &frame.schema.position;
        let free = self
            .interest
            .as_mut()
            .filter(|interest| matches!(interest.view().scope, Scope::Camera(_)));
        let (Some(interest), true) = (free, axes.iter().zip(position).all(in_bounds)) else {
            return;
        };
        if self.stream_epoch_known != frame.stream_epoch {
            return;
        }
        interest.set_camera(point_of(&frame.schema, position));
        let spaced = hearing.now_us.saturating_sub(self.player.camera_us) >= CAMERA_SPACING_US;
        if self.player.camera != Some(position) && spaced && hearing.events.len() < SHARD_PLAYER_EVENTS_MAX {
            (self.player.camera, self.player.camera_us) = (Some(position), hearing.now_us);
            hearing.events.push(PlayerEvent::Camera {
                player: self.connection,
                position,
            });
        }
    }

    /// The view a session begins with.
    pub fn begin_view(&mut self, view: View) {
        if !view.is_whole() {
            self.interest = Some(Box::new(Interest::new(view)));
            self.player.assigned_untold = true;
        }
    }

    /// True when it has an entity of its own.
    #[must_use]
    pub fn plays(&self) -> bool {
        self.interest
            .as_ref()
            .is_some_and(|interest| interest.owner().is_some())
    }

    /// Takes one directive of the origin, which belongs to the frame that comes next.
    pub fn direct(
        &mut self,
        order: &Order,
        next: &Frame,
        arena: &Arena,
        scratch: &mut Scratch,
        counters: &mut Counters,
    ) {
        match order {
            Order::Assign { entity, view } => {
                let narrowed = view.is_some_and(|view| !view.is_whole()) || entity.is_some();
                self.part_from_view(narrowed, next, arena, scratch, counters);
                if let Some(interest) = &mut self.interest {
                    interest.assign(*entity, *view);
                    self.player.view_since = Some(next.tick);
                }
                self.player.owner_said = None;
                self.player.assigned_untold = true;
            }
            Order::Message { kind, payload } => {
                let directed = Directed {
                    kind: *kind,
                    payload: payload.clone(),
                };
                let message = Message::Directed(directed);
                counters.messages_dropped +=
                    u64::from(self.tell(next.stream_epoch, &message, false).is_none());
            }
            Order::Processed(sequence) => self.player.processed = self.player.processed.max(*sequence),
        }
    }

    /// A view is about to change, with the frame `next`: what befell before is heard, and who left before has left, by the one
    /// that held until now.
    fn part_from_view(
        &mut self,
        narrowed: bool,
        next: &Frame,
        arena: &Arena,
        scratch: &mut Scratch,
        counters: &mut Counters,
    ) {
        let last = arena
            .newest()
            .filter(|last| last.stream_epoch == next.stream_epoch);
        if let Some(last) = last {
            self.hear(arena, last, scratch, counters);
        }
        if self.interest.is_none() && narrowed {
            let mut interest = Interest::new(View::WHOLE);
            if self.served_snapshots > 0 {
                interest.adopt(arena, self.player.view_since);
            }
            self.interest = Some(Box::new(interest));
        }
        if let (Some(interest), Some(last), true) = (&mut self.interest, last, self.served_snapshots > 0) {
            interest.update(last, arena, scratch);
        }
    }

    /// A new stream: its entities are others, and so is what was processed.
    pub fn begin_stream(&mut self) {
        if let Some(interest) = &mut self.interest {
            interest.begin_stream();
            self.player.assigned_untold = true;
        }
        (self.player.owner_said, self.player.tier) = (None, 0);
    }

    /// Queues a message of a stream; `None` when the queue is full.
    fn tell(&mut self, stream_epoch: u32, message: &Message, urgent: bool) -> Option<()> {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        self.push(stream_epoch, &bytes, urgent).ok()
    }

    /// Queues what the client must know of itself: entity and view, and the tier of its entity (SPEC CTL5).
    fn tell_assigned(&mut self, frame: &Frame) {
        if self.stream_epoch_known != frame.stream_epoch {
            return;
        }
        if self.player.assigned_untold {
            let assigned = self
                .interest
                .as_ref()
                .map_or(Assigned::default(), |interest| Assigned {
                    entity: interest.owner(),
                    view: interest.view(),
                });
            let told = self.tell(frame.stream_epoch, &Message::Assigned(assigned), true);
            self.player.assigned_untold = told.is_none();
        }
        // The slot is from the last look, and somebody else may live there by now.
        let own = self.interest.as_ref().and_then(|interest| {
            let record = frame.record(interest.owner_slot()?)?;
            (Some(record.entity) == interest.owner()).then_some(record)
        });
        let tier = own.map(|record| record.tier);
        if let Some(tier) = tier.filter(|tier| *tier != self.player.tier)
            && self
                .tell(frame.stream_epoch, &Message::Tier(tier), true)
                .is_some()
        {
            self.player.tier = tier;
        }
    }

    /// Finds who is in view now, and queues what this session hears of the frames since the last call: events about
    /// whom it sees, or saw until they died, and about nobody (SPEC CTL3).
    pub fn hear(&mut self, arena: &Arena, frame: &Frame, scratch: &mut Scratch, counters: &mut Counters) {
        let since = self.player.events_of.replace(frame.tick);
        self.tell_assigned(frame);
        if self.complete_us.is_none() || self.stream_epoch_known != frame.stream_epoch {
            return;
        }
        let frames = since.and_then(|since| since.age_at(frame.tick)).unwrap_or(1);
        for back in (0..frames.min(ARENA_FRAMES as u32)).rev() {
            let Some(past) = arena.frame(frame.tick.minus(back)) else {
                continue;
            };
            if past.events.is_empty() || past.stream_epoch != frame.stream_epoch {
                continue;
            }
            if let Some(interest) = &mut self.interest {
                interest.update(frame, arena, scratch);
            }
            for (index, event) in past.events.iter().enumerate() {
                if self.sees(event, index, past, frame.tick) {
                    counters.events_queued += 1;
                    let message = Message::Event(event.clone());
                    let told = self.tell(frame.stream_epoch, &message, event.critical);
                    counters.messages_dropped += u64::from(told.is_none());
                }
            }
        }
    }

    fn sees(&self, event: &Event, index: usize, past: &Frame, now: Tick) -> bool {
        let (Some(interest), true) = (&self.interest, event.entity.is_some()) else {
            return true;
        };
        let slot = past.event_slots.get(index).copied().flatten();
        slot.is_some_and(|slot| interest.hears_of(slot, past, now))
    }

    /// Shares bodies again: the view is whole, nobody is owned, and the base was made since that is so.
    pub fn widen(&mut self, base: Option<Tick>, base_complete: bool) {
        let shared = self.interest.as_ref().is_some_and(|interest| {
            interest.view().is_whole() && interest.owner().is_none() && interest.left().is_empty()
        });
        let settled =
            base.is_some_and(|base| self.player.view_since.is_none_or(|since| base.is_after(since)));
        if shared && settled && base_complete && !self.player.squeezed && !self.player.tight {
            self.interest = None;
        }
    }

    /// Chooses entry by entry from now on, where the budget is small or has just left something out: then who waits
    /// longest goes first (see `priority`).
    pub fn squeeze(&mut self, arena: &Arena, budget: Budget) {
        self.player.tight = self.budget(budget).bytes_per_s < TIGHT_BYTES_PER_S;
        if self.interest.is_some() || !(self.player.squeezed || self.player.tight) {
            return;
        }
        let mut interest = Interest::new(View::WHOLE);
        if self.served_snapshots > 0 {
            interest.adopt(arena, self.player.view_since);
        }
        self.interest = Some(Box::new(interest));
    }

    /// The state of its own entity, where it is due: when it or the inputs in it changed, else now and then.
    pub fn owner_record(
        &self,
        slot: Slot,
        frame: &Frame,
        layout: &Layout,
        now_us: u64,
    ) -> Option<OwnerRecord> {
        let record = *frame.record(slot)?;
        if let Some((said, processed, at_us)) = &self.player.owner_said {
            let same = *said == record && *processed == self.player.processed;
            if same && now_us.saturating_sub(*at_us) < OWNER_REPEAT_US {
                return None;
            }
        }
        let mut bytes = [0; OWNER_RECORD_BYTES_MAX + 16];
        let mut writer = BitWriter::new(&mut bytes);
        encode::Gaps::new(layout).put(None, slot, &mut writer);
        encode::complete(layout, &record, frame.server_us, &mut writer);
        let length = writer.finish();
        Some(OwnerRecord {
            bytes,
            length,
            record,
        })
    }

    /// The block of an owner record.
    #[must_use]
    pub fn owner_block<'a>(&self, record: &'a OwnerRecord, frame: &Frame) -> OwnerBlock<'a> {
        OwnerBlock {
            stream_epoch: frame.stream_epoch,
            tick: frame.tick,
            server_us: frame.server_us,
            processed: self.player.processed,
            record: record.bytes(),
        }
    }

    /// The owner record was sent.
    pub fn note_owner_said(&mut self, record: &OwnerRecord, now_us: u64) {
        self.player.owner_said = Some((record.record, self.player.processed, now_us));
    }
}
