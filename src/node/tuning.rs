//! Tables made of recordings and scenes, and what they save: `ackline trace tune`.
//!
//! Each source is played through the origin's publisher; in each tick the records that changed since some ticks before are
//! counted, as a relay would send them to clients on that baseline.

use std::collections::VecDeque;
use std::sync::Arc;

use super::origin::OriginSource;
use super::source::{Source, SourceError};
use crate::delta::encode::{self, Gaps};
use crate::delta::layout::Layout;
use crate::delta::tune::Census;
use crate::origin::publisher::Publisher;
use crate::state::Frame;
use crate::state::coding::{Coding, LENGTHS, Lengths, LengthsError};
use crate::state::record::Record;
use crate::state::sample::WorldSample;
use crate::state::schema::Schema;
use crate::state::slots::Slot;
use crate::wire::bits::BitWriter;

/// Which ticks of a source are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first.
    pub first: u64,
    /// The first after it that is not.
    pub end: u64,
    /// How many ticks the baseline lies back.
    pub base: usize,
}

/// What records took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Records that changed.
    pub records: u64,
    /// Ticks.
    pub ticks: u64,
    /// Bits of their entries, gaps included.
    pub bits: u64,
}

/// Plays a source and gives each changed record with the one before it in its body, its baseline's, and the frame's time.
///
/// # Errors
/// The source is refused.
pub fn each_change(
    source: &OriginSource,
    span: Span,
    mut each: impl FnMut(&Schema, (Option<Slot>, Slot), Option<&Record>, &Record, u64),
) -> Result<u64, SourceError> {
    let mut source = Source::open(source, None)?;
    let schema = source.schema().clone();
    let mut publisher =
        Publisher::new(schema.clone(), 1, 1, 1).map_err(|error| SourceError::Schema(error.to_string()))?;
    let (mut sample, mut frames) = (WorldSample::default(), VecDeque::<Arc<Frame>>::new());
    let (mut tick, mut ticks) = (0, 0);
    while tick < span.end && source.next(&mut sample) {
        publisher.publish(&sample, 0);
        let Some(frame) = publisher.frame() else { continue };
        frames.push_back(Arc::clone(frame));
        if frames.len() > span.base + 1 {
            frames.pop_front();
        }
        tick += 1;
        let (Some(base), true) = (frames.front(), tick > span.first && frames.len() > span.base) else {
            continue;
        };
        ticks += 1;
        let mut previous = None;
        for (slot, now) in frame.records() {
            let known = base.record(slot);
            if known == Some(now) {
                continue;
            }
            each(&schema, (previous, slot), known, now, frame.server_us);
            previous = Some(slot);
        }
    }
    Ok(ticks)
}

/// Counts a source's changes into a census.
///
/// # Errors
/// The source is refused.
pub fn count(source: &OriginSource, span: Span, census: &Census) -> Result<u64, SourceError> {
    let mut layout = None;
    each_change(source, span, |schema, place, base, now, server_us| {
        let layout = layout.get_or_insert_with(|| Layout::new(schema));
        census.count(layout, place, base, now, server_us);
    })
}

/// What a source's changes take in a coding.
///
/// # Errors
/// The source is refused.
pub fn size(source: &OriginSource, span: Span, coding: &Coding) -> Result<Size, SourceError> {
    let mut size = Size::default();
    let mut room = vec![0; (encode::ENTRY_BITS_MAX as usize + 64) / 8 + 64];
    let mut tools: Option<(Layout, Gaps)> = None;
    size.ticks = each_change(source, span, |schema, (previous, slot), base, now, server_us| {
        let (layout, gaps) = tools.get_or_insert_with(|| {
            let layout = Layout::new(&Schema {
                coding: coding.clone(),
                ..schema.clone()
            });
            let gaps = Gaps::new(&layout);
            (layout, gaps)
        });
        let mut writer = BitWriter::new(&mut room);
        gaps.put(previous, slot, &mut writer);
        encode::entry(layout, base, now, server_us, &mut writer);
        size.records += 1;
        size.bits += writer.bits() as u64;
    })?;
    Ok(size)
}

/// Why a text holds no tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TablesError {
    /// Something else than digits and white space.
    #[error("it holds more than digits")]
    NoDigits,
    /// Another number of digits.
    #[error("it holds {0} lengths instead of {LENGTHS}")]
    Count(usize),
    /// Lengths of no code.
    #[error(transparent)]
    Lengths(#[from] LengthsError),
}

/// The lengths of a text that [`to_text`] made.
///
/// # Errors
/// [`TablesError`].
pub fn from_text(text: &str) -> Result<Lengths, TablesError> {
    let mut digits = Vec::with_capacity(LENGTHS);
    for digit in text.chars().filter(|c| !c.is_ascii_whitespace()) {
        let digit = digit.to_digit(10).ok_or(TablesError::NoDigits)?;
        digits.push(u8::try_from(digit).map_err(|_| TablesError::NoDigits)?);
    }
    let count = digits.len();
    let lengths = digits.try_into().map_err(|_| TablesError::Count(count))?;
    Ok(Lengths::new(lengths)?)
}

/// Lengths as a text of digits, a code a line.
#[must_use]
pub fn to_text(lengths: &Lengths) -> String {
    let line = |code: &[u8]| -> String {
        let digits = code.iter().map(|length| char::from(b'0' + length));
        digits.chain(['\n']).collect()
    };
    lengths.codes().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::tests::source;

    /// What is written is read back; what is not a table set is refused with what is wrong with it.
    #[test]
    fn tables_are_read_as_they_are_written() {
        let text = to_text(&Lengths::flat());
        assert_eq!(text.lines().count(), 68);
        assert_eq!(from_text(&text), Ok(Lengths::flat()));
        let wrong = |text: &str| from_text(text).err().map(|error| error.to_string());
        assert_eq!(wrong("12a"), Some("it holds more than digits".into()));
        assert_eq!(
            wrong("12"),
            Some(format!("it holds 2 lengths instead of {LENGTHS}"))
        );
        let uneven = text.replacen('4', "3", 1);
        assert_eq!(
            wrong(&uneven),
            Some("the lengths of code 0 make no complete prefix code".into())
        );
    }

    /// Tables that are made of a recording make it smaller, and so do those of the crate, which are made of others.
    #[test]
    fn tables_make_a_recording_smaller() {
        let span = Span {
            first: 0,
            end: 400,
            base: 3,
        };
        let census = Census::default();
        assert!(count(&source(), span, &census).unwrap() > 300);
        let own = Coding::Own(Arc::new(census.lengths()));
        let [plain, standard, own] =
            [Coding::Plain, Coding::Standard, own].map(|coding| size(&source(), span, &coding).unwrap());
        assert!(plain.records > 1000 && plain.records == own.records && plain.ticks == own.ticks);
        assert!(own.bits < standard.bits && standard.bits < plain.bits * 9 / 10);
    }
}
