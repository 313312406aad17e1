//! Why a client refused a datagram, or the snapshot in it: one word in code, counters and reports.
//!
//! A refusal has a stable code of one byte that travels in reports: 0 to 23 the datagram, 24 to 39 the window's
//! [`Rejection`], 40 to 63 the body's [`DecodeError`].

use crate::delta::decode::DecodeError;
use crate::window::receive::Rejection;
use crate::wire::seal::OpenError;

/// Why something was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// No datagram a relay sends: empty, of an unknown kind, or one that only clients send.
    UnknownKind,
    /// A clear header that is cut short or malformed.
    MalformedHeader,
    /// It echoes another attempt's randomness (FAULTS 23).
    OtherAttempt,
    /// A handshake answer for which it is too late, or a Welcome of another session.
    Unexpected,
    /// Sealed, but there is no session yet to open it.
    NoSession,
    /// The session is over.
    SessionOver,
    /// The tag does not match (THREATS 24).
    Forged,
    /// The datagram's number was seen before (THREATS 26).
    DuplicateDatagram,
    /// The datagram's number is too old to know.
    TooOld,
    /// Opened, but its blocks or the snapshot's header cannot be read.
    MalformedPayload,
    /// A schema that cannot be read or that breaks a bound.
    MalformedSchema,
    /// A snapshot of a stream whose schema is not the one known (SPEC PLY7), or of another than its session epoch is
    /// of (SPEC ID1).
    UnknownStream,
    /// A snapshot on a base of a session whose tables were found to differ (SPEC WIN11, THREATS 43).
    DistrustedBase,
    /// The window refused the snapshot's header.
    Window(Rejection),
    /// The snapshot's body did not decode.
    Body(DecodeError),
}

const WINDOW_CODES: u8 = 24;
const BODY_CODES: u8 = 40;
/// Codes below this are in use or kept for more reasons.
pub const REFUSAL_CODES: usize = 64;

/// The refusals of a datagram, in order of their codes.
const DATAGRAM: [Refusal; 13] = [
    Refusal::UnknownKind,
    Refusal::MalformedHeader,
    Refusal::OtherAttempt,
    Refusal::Unexpected,
    Refusal::NoSession,
    Refusal::SessionOver,
    Refusal::Forged,
    Refusal::DuplicateDatagram,
    Refusal::TooOld,
    Refusal::MalformedPayload,
    Refusal::MalformedSchema,
    Refusal::UnknownStream,
    Refusal::DistrustedBase,
];

impl Refusal {
    /// Every refusal, in order of code.
    pub fn all() -> impl Iterator<Item = Refusal> {
        let window = Rejection::ALL.into_iter().map(Refusal::Window);
        DATAGRAM
            .into_iter()
            .chain(window)
            .chain(DecodeError::ALL.into_iter().map(Refusal::Body))
    }

    /// The word used in counters and metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Refusal::UnknownKind => "unknown_kind",
            Refusal::MalformedHeader => "malformed_header",
            Refusal::OtherAttempt => "other_attempt",
            Refusal::Unexpected => "unexpected",
            Refusal::NoSession => "no_session",
            Refusal::SessionOver => "session_over",
            Refusal::Forged => "forged",
            Refusal::DuplicateDatagram => "duplicate_datagram",
            Refusal::TooOld => "too_old",
            Refusal::MalformedPayload => "malformed_payload",
            Refusal::MalformedSchema => "malformed_schema",
            Refusal::UnknownStream => "unknown_stream",
            Refusal::DistrustedBase => "distrusted_base",
            Refusal::Window(rejection) => rejection.label(),
            Refusal::Body(error) => error.reason(),
        }
    }

    /// The code that travels in reports; never changes its meaning.
    #[must_use]
    pub fn code(self) -> u8 {
        let place = |index: Option<usize>| {
            index
                .and_then(|index| u8::try_from(index).ok())
                .unwrap_or(u8::MAX)
        };
        match self {
            Refusal::Window(rejection) => WINDOW_CODES
                .saturating_add(place(Rejection::ALL.iter().position(|other| *other == rejection))),
            Refusal::Body(error) => {
                BODY_CODES.saturating_add(place(DecodeError::ALL.iter().position(|other| *other == error)))
            }
            datagram => place(DATAGRAM.iter().position(|other| *other == datagram)),
        }
    }

    /// The refusal with this code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Refusal> {
        match code {
            ..WINDOW_CODES => DATAGRAM.get(usize::from(code)).copied(),
            WINDOW_CODES..BODY_CODES => Rejection::ALL
                .get(usize::from(code - WINDOW_CODES))
                .copied()
                .map(Refusal::Window),
            _ => DecodeError::ALL
                .get(usize::from(code - BODY_CODES))
                .copied()
                .map(Refusal::Body),
        }
    }
}

impl From<OpenError> for Refusal {
    fn from(error: OpenError) -> Refusal {
        match error {
            OpenError::Duplicate => Refusal::DuplicateDatagram,
            OpenError::TooOld => Refusal::TooOld,
            OpenError::Forged => Refusal::Forged,
        }
    }
}

/// How often each refusal happened since the client began.
#[derive(Clone, Debug)]
pub struct RefusalCounts {
    counts: [u64; REFUSAL_CODES],
    told: [u64; REFUSAL_CODES],
    turn: usize,
}

impl Default for RefusalCounts {
    fn default() -> RefusalCounts {
        RefusalCounts {
            counts: [0; REFUSAL_CODES],
            told: [0; REFUSAL_CODES],
            turn: 0,
        }
    }
}

/// Counts that go into one report at the most.
const TOLD_AT_ONCE: usize = 4;

impl RefusalCounts {
    /// Counts one.
    pub(super) fn count(&mut self, refusal: Refusal) {
        if let Some(count) = self.counts.get_mut(usize::from(refusal.code())) {
            *count += 1;
        }
    }

    /// How often this refusal happened.
    #[must_use]
    pub fn of(&self, refusal: Refusal) -> u64 {
        self.counts.get(usize::from(refusal.code())).copied().unwrap_or(0)
    }

    /// Every refusal with its count, zeros included.
    pub fn iter(&self) -> impl Iterator<Item = (Refusal, u64)> + '_ {
        Refusal::all().map(|refusal| (refusal, self.of(refusal)))
    }

    /// All refusals together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Fills in what the relay has not been told: the counts that changed, a few at a time, else one count in
    /// turn, since any report may be lost. Counts are cumulative, modulo 2^32.
    #[allow(clippy::cast_possible_truncation)]
    pub(super) fn tell(&mut self, out: &mut Vec<(u8, u32)>) {
        out.clear();
        for (code, (count, told)) in (0u8..).zip(self.counts.iter().zip(&mut self.told)) {
            if count != told && out.len() < TOLD_AT_ONCE {
                *told = *count;
                out.push((code, *count as u32));
            }
        }
        if out.is_empty() {
            self.turn = (self.turn + 1) % REFUSAL_CODES;
            let turn = self.counts.get(self.turn).copied().unwrap_or(0);
            if let (Ok(code), true) = (u8::try_from(self.turn), turn > 0) {
                out.push((code, turn as u32));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_refusal_has_its_own_code_and_word() {
        let all: Vec<Refusal> = Refusal::all().collect();
        assert_eq!(
            all.iter()
                .map(|refusal| refusal.code())
                .collect::<BTreeSet<_>>()
                .len(),
            all.len()
        );
        assert_eq!(
            all.iter()
                .map(|refusal| refusal.label())
                .collect::<BTreeSet<_>>()
                .len(),
            all.len()
        );
        for refusal in all {
            assert_eq!(Refusal::from_code(refusal.code()), Some(refusal));
            assert!(usize::from(refusal.code()) < REFUSAL_CODES);
        }
        assert!(
            (0..=255)
                .filter_map(Refusal::from_code)
                .all(|refusal| refusal.code() < REFUSAL_CODES as u8)
        );
    }

    #[test]
    fn changed_counts_are_told_first_and_old_ones_again_in_turn() {
        let mut counts = RefusalCounts::default();
        let reasons: Vec<Refusal> = Refusal::all().take(6).collect();
        reasons.iter().for_each(|refusal| counts.count(*refusal));
        let mut told = Vec::new();
        counts.tell(&mut told);
        assert_eq!(told.len(), TOLD_AT_ONCE);
        counts.tell(&mut told);
        assert_eq!(told.len(), 2);
        let mut again = BTreeSet::new();
        for _ in 0..REFUSAL_CODES {
            counts.tell(&mut told);
            again.extend(told.iter().copied());
        }
        assert_eq!(again.len(), reasons.len());
    }
}
