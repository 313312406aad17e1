//! What the origin really published: its recent frames, written by one thread and read by many.
//!
//! Frames are copy on write, so keeping the last seconds is cheap. A reader keeps its own list of the same frames
//! and takes the lock only when a new one is there: once a tick and thread, never for a packet.
//!
//! Invariant: frames are in the order of the streams, within a stream in the order of their time. Two frames may
//! share a time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::places::Places;
use crate::state::entity::Entity;
use crate::state::frame::Frame;
use crate::state::record::Record;
use crate::state::slots::Slot;
use crate::state::update::Event;

/// Frames kept at the most, whatever their age.
const FRAMES_MAX: usize = 4096;
/// How long a stream may have run before it was joined here, server microseconds.
const JOINED_WITHIN_US: u64 = 5_000_000;
/// How long a stream may have gone on after the last frame that came of it, server microseconds.
const TAIL_US: u64 = 1_000_000;

/// One frame of the truth.
#[derive(Clone, Debug)]
pub struct TruthFrame {
    /// Number of the frame, from 1; rises by one.
    pub number: u64,
    /// Ordinal of its stream as seen here, from 1.
    pub stream: u32,
    /// When the origin published it, on this host's monotonic clock; `None` where that is not known.
    pub published_us: Option<u64>,
    /// Events of all frames before this one.
    pub events_before: u64,
    /// True when frames before this one may be missing here.
    pub after_gap: bool,
    /// True when it is the first one seen of a stream that had begun before.
    pub joined: bool,
    /// The world.
    pub frame: Arc<Frame>,
}

impl TruthFrame {
    /// Its time, server microseconds.
    #[must_use]
    pub fn server_us(&self) -> u64 {
        self.frame.server_us
    }

    /// Events of all frames up to this one.
    #[must_use]
    pub fn events_after(&self) -> u64 {
        self.events_before + self.frame.events.len() as u64
    }
}

#[derive(Default)]
struct Ring {
    frames: VecDeque<(u64, TruthFrame)>,
    stream: u32,
    events: u64,
    gap: bool,
    joined: bool,
    wanted: Option<(u32, u64)>,
}

/// Why the times of publication are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeless {
    /// They are read from a clock of another host.
    OtherClock,
    /// The origin sends none.
    NotSent,
    /// A recording has none.
    Recording,
}

impl Timeless {
    const ALL: [Timeless; 3] = [Timeless::OtherClock, Timeless::NotSent, Timeless::Recording];

    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Timeless::OtherClock => "the origin's times are not of this host's clock",
            Timeless::NotSent => "the origin sends no publish time",
            Timeless::Recording => "a recording tells no publish time",
        }
    }
}

/// Why the truth does not come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// In words.
    pub text: String,
    /// Trying again is of no use.
    pub is_final: bool,
}

/// The frames, shared between the one that writes and those that read.
pub struct TruthLog {
    keep_us: u64,
    ring: Mutex<Ring>,
    trouble: Mutex<Option<Trouble>>,
    pushed: AtomicU64,
    entities_max: AtomicU64,
    /// Ordinal of a [`Timeless`], from 1; 0 where none was noted.
    timeless: AtomicUsize,
    stopped: AtomicBool,
}

impl TruthLog {
    /// An empty log that keeps what is not older than `keep_us`.
    #[must_use]
    pub fn new(keep_us: u64) -> Arc<TruthLog> {
        Arc::new(TruthLog {
            keep_us,
            ring: Mutex::default(),
            trouble: Mutex::default(),
            pushed: AtomicU64::new(0),
            entities_max: AtomicU64::new(0),
            timeless: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        })
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // A reader or writer that panicked leaves the ring whole.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps why the truth does not come.
    pub fn note_trouble(&self, text: String, is_final: bool) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        *trouble = Some(Trouble { text, is_final });
    }

    /// Why the truth did not come last.
    #[must_use]
    pub fn trouble(&self) -> Option<Trouble> {
        self.trouble
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// A new stream begins, of which every frame will come.
    pub fn begin_stream(&self) {
        let mut ring = self.ring();
        ring.stream += 1;
        (ring.gap, ring.joined) = (false, false);
    }

    /// Another stream is joined: its frames before the next one, and the last ones of the stream before it, may never
    /// come.
    pub fn join_stream(&self) {
        self.begin_stream();
        self.ring().joined = true;
    }

    /// Keeps why times of publication are not known.
    pub fn note_timeless(&self, why: Timeless) {
        let ordinal = Timeless::ALL.iter().position(|other| *other == why);
        self.timeless
            .store(ordinal.map_or(0, |at| at + 1), Ordering::Relaxed);
    }

    /// Why times of publication are not known, where that was noted.
    #[must_use]
    pub fn timeless(&self) -> Option<Timeless> {
        let ordinal = self.timeless.load(Ordering::Relaxed);
        Timeless::ALL.get(ordinal.checked_sub(1)?).copied()
    }

    /// Frames may be missing before the next one.
    pub fn note_gap(&self) {
        self.ring().gap = true;
    }

    /// Takes the next frame, which came at `now_us`.
    pub fn push(&self, now_us: u64, frame: Arc<Frame>, published_us: Option<u64>) {
        let mut ring = self.ring();
        let number = self.pushed.load(Ordering::Relaxed) + 1;
        let (events_before, after_gap) = (ring.events, core::mem::take(&mut ring.gap));
        let joined = core::mem::take(&mut ring.joined);
        ring.events += frame.events.len() as u64;
        self.entities_max
            .fetch_max(frame.live() as u64, Ordering::Relaxed);
        let stream = ring.stream.max(1);
        ring.frames.push_back((
            now_us,
            TruthFrame {
                number,
                stream,
                published_us,
                events_before,
                after_gap,
                joined,
                frame,
            },
        ));
        while ring.frames.len() > FRAMES_MAX
            || (ring.frames.len() > 1
                && ring
                    .frames
                    .front()
                    .is_some_and(|(came_us, _)| came_us + self.keep_us < now_us))
        {
            ring.frames.pop_front();
        }
        self.pushed.store(number, Ordering::Release);
    }

    /// When the newest frame came, on the monotonic clock.
    #[must_use]
    pub fn newest_came_us(&self) -> Option<u64> {
        self.ring().frames.back().map(|(came_us, _)| *came_us)
    }

    /// Frames pushed so far.
    #[must_use]
    pub fn pushed(&self) -> u64 {
        self.pushed.load(Ordering::Acquire)
    }

    /// The most entities alive in a frame.
    #[must_use]
    pub fn entities_max(&self) -> u64 {
        self.entities_max.load(Ordering::Relaxed)
    }

    /// A reader met a frame of this time that is not here: sources that make frames on demand go on to it.
    pub fn want(&self, stream: u32, server_us: u64) {
        let wanted = &mut self.ring().wanted;
        *wanted = (*wanted).max(Some((stream, server_us)));
    }

    /// The latest time anybody wanted.
    #[must_use]
    pub fn wanted(&self) -> Option<(u32, u64)> {
        self.ring().wanted
    }

    /// Tells whoever writes to end.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// True once nobody reads any more.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// One thread's view of the truth.
pub struct TruthReader {
    log: Arc<TruthLog>,
    seen: u64,
    frames: VecDeque<TruthFrame>,
    places: Places,
}

impl TruthReader {
    /// A reader of `log`.
    #[must_use]
    pub fn new(log: Arc<TruthLog>) -> TruthReader {
        TruthReader {
            log,
            seen: 0,
            frames: VecDeque::new(),
            places: Places::default(),
        }
    }

    /// Takes over what is new. True when anything was.
    pub fn refresh(&mut self) -> bool {
        if self.log.pushed() == self.seen {
            return false;
        }
        let ring = self.log.ring();
        let known = ring
            .frames
            .partition_point(|(_, frame)| frame.number <= self.seen);
        self.frames
            .extend(ring.frames.iter().skip(known).map(|(_, frame)| frame.clone()));
        let oldest = ring.frames.front().map_or(0, |(_, frame)| frame.number);
        drop(ring);
        let new = self.frames.partition_point(|frame| frame.number <= self.seen);
        for frame in self.frames.range(new..) {
            let missed = frame.after_gap || frame.joined || frame.number != self.seen + 1;
            self.places.take(frame, missed);
            self.seen = frame.number;
        }
        while self.frames.front().is_some_and(|frame| frame.number < oldest) {
            self.frames.pop_front();
        }
        true
    }

    /// The newest frame.
    #[must_use]
    pub fn newest(&self) -> Option<&TruthFrame> {
        self.frames.back()
    }

    /// The slot and record of an entity that lives in a frame of this log.
    #[must_use]
    pub fn find<'f>(&self, truth: &'f TruthFrame, entity: Entity) -> Option<(Slot, &'f Record)> {
        self.places.find(truth, entity)
    }

    /// The number of the oldest frame that is kept.
    #[must_use]
    pub fn oldest(&self) -> Option<u64> {
        self.frames.front().map(|frame| frame.number)
    }

    /// The first event of the frames that are kept.
    #[must_use]
    pub fn oldest_event(&self) -> u64 {
        self.frames.front().map_or(0, |frame| frame.events_before)
    }

    /// Events published so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.newest().map_or(0, TruthFrame::events_after)
    }

    /// The frame with this number.
    #[must_use]
    pub fn numbered(&self, number: u64) -> Option<&TruthFrame> {
        let oldest = self.frames.front()?.number;
        self.frames
            .get(usize::try_from(number.checked_sub(oldest)?).ok()?)
    }

    /// Frames of a stream with this time, oldest first.
    pub fn at(&self, stream: u32, server_us: u64) -> impl Iterator<Item = &TruthFrame> {
        self.since(stream, server_us)
            .take_while(move |frame| frame.server_us() == server_us)
    }

    /// Frames of a stream from this time on, oldest first.
    pub fn since(&self, stream: u32, server_us: u64) -> impl Iterator<Item = &TruthFrame> {
        let from = self
            .frames
            .partition_point(|frame| (frame.stream, frame.server_us()) < (stream, server_us));
        self.frames
            .range(from..)
            .take_while(move |frame| frame.stream == stream)
    }

    /// Why no frame of this stream has this time.
    #[must_use]
    pub fn absence(&self, stream: u32, server_us: u64) -> Absence {
        let from = self
            .frames
            .partition_point(|frame| (frame.stream, frame.server_us()) < (stream, server_us));
        let before = from.checked_sub(1).and_then(|before| self.frames.get(before));
        match (before, self.frames.get(from)) {
            (_, Some(after)) if after.stream == stream && after.after_gap => Absence::Unknown,
            (Some(before), Some(after)) if before.stream == stream && after.stream == stream => {
                Absence::Never
            }
            (_, None) => Absence::NotYet,
            // Before the first frame known of its stream, or past the last of a stream that ended.
            _ if self.seam(stream, server_us).is_some() => Absence::AtSeam,
            _ => Absence::Unknown,
        }
    }

    /// The frame nearest to a time at the seam of two streams: shortly before a stream was joined here, or shortly
    /// after the last frame that came of the one before it. `None` for any other time.
    #[must_use]
    pub fn seam(&self, stream: u32, server_us: u64) -> Option<&TruthFrame> {
        let from = self
            .frames
            .partition_point(|frame| (frame.stream, frame.server_us()) < (stream, server_us));
        let after = self.frames.get(from)?;
        if after.stream == stream {
            let near = after.joined && after.server_us() - server_us <= JOINED_WITHIN_US;
            return near.then_some(after);
        }
        let before = self.frames.get(from.checked_sub(1)?)?;
        let near = before.stream == stream && server_us - before.server_us() <= TAIL_US;
        (near && after.joined).then_some(before)
    }

    /// The first frame that came of a stream that had begun before.
    #[must_use]
    pub fn joined(&self, stream: u32) -> Option<&TruthFrame> {
        let from = self.frames.partition_point(|frame| frame.stream < stream);
        self.frames
            .get(from)
            .filter(|frame| frame.stream == stream && frame.joined)
    }

    /// Streams of which frames are known, newest first.
    pub fn streams(&self) -> impl Iterator<Item = u32> {
        let newest = self.frames.back().map_or(0, |frame| frame.stream);
        let oldest = self.frames.front().map_or(1, |frame| frame.stream);
        (oldest..=newest).rev()
    }

    /// Frames of a stream, newest first.
    pub fn backwards(&self, stream: u32) -> impl Iterator<Item = &TruthFrame> {
        self.frames
            .iter()
            .rev()
            .skip_while(move |frame| frame.stream > stream)
            .take_while(move |frame| frame.stream == stream)
    }

    /// Frames from the one that has event number `index`, oldest first.
    pub fn from_event(&self, index: u64) -> impl Iterator<Item = &TruthFrame> {
        let from = self.frames.partition_point(|frame| frame.events_after() <= index);
        self.frames.range(from.min(self.frames.len())..)
    }

    /// Events of a stream's frames up to one published at `published_us`, or, where that is not known, of the time
    /// `server_us`; counted from the log's beginning.
    #[must_use]
    pub fn events_until(&self, stream: u32, published_us: u64, server_us: u64) -> u64 {
        let early = |frame: &&TruthFrame| match frame.published_us {
            Some(at_us) => at_us <= published_us,
            None => frame.server_us() <= server_us,
        };
        let frame = self.backwards(stream).find(early);
        frame.map_or(0, TruthFrame::events_after)
    }

    /// Asks for a frame that is not here.
    pub fn want(&self, stream: u32, server_us: u64) {
        self.log.want(stream, server_us);
    }
}

/// Why a time has no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// It has not come yet.
    NotYet,
    /// The origin never published it.
    Never,
    /// The origin may have published it while it changed from one stream to another, and this subscription was away.
    AtSeam,
    /// It is too old, or was missed here.
    Unknown,
}

/// The events of a frame that equal `event`: their numbers in the log.
pub fn events_equal<'a>(frame: &'a TruthFrame, event: &'a Event) -> impl Iterator<Item = u64> + 'a {
    let numbered = (frame.events_before..).zip(frame.frame.events.iter());
    numbered
        .filter(move |(_, other)| *other == event)
        .map(|(number, _)| number)
}

#[cfg(test)]
pub(super) mod tests;
