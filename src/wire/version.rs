//! Which versions of the protocol an end speaks, and which one two ends agree on.
//!
//! Relays and clients are renewed at different times, so each speaks its own version and the one before it. The relay's Challenge
//! says the highest that the relay speaks; the client chooses, and its Response says what. From version 3 on the keys of the
//! session hold both numbers, so that who changes either on the way gets no session opened.

/// The highest version this crate speaks.
pub const PROTOCOL_VERSION: u16 = 3;
/// The first version that knows padding, and whose keys hold what was agreed.
pub const BOUND_SINCE: u16 = 3;

/// The versions that an end speaks: all from the lowest to the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    lowest: u16,
    highest: u16,
}

impl Versions {
    /// Those of this crate: its own and the one before.
    pub const SPOKEN: Versions = Versions {
        lowest: PROTOCOL_VERSION - 1,
        highest: PROTOCOL_VERSION,
    };

    /// Those from `lowest` to `highest`, of those that this crate speaks; `None` where that is none of them.
    #[must_use]
    pub fn between(lowest: u16, highest: u16) -> Option<Versions> {
        let spoken = Versions::SPOKEN;
        let (lowest, highest) = (lowest.max(spoken.lowest), highest.min(spoken.highest));
        (lowest <= highest).then_some(Versions { lowest, highest })
    }

    /// The lowest.
    #[must_use]
    pub const fn lowest(self) -> u16 {
        self.lowest
    }

    /// The highest.
    #[must_use]
    pub const fn highest(self) -> u16 {
        self.highest
    }

    /// How many there are.
    #[must_use]
    pub const fn count(self) -> usize {
        (self.highest - self.lowest) as usize + 1
    }

    /// True when this version is spoken.
    #[must_use]
    pub fn include(self, version: u16) -> bool {
        (self.lowest..=self.highest).contains(&version)
    }

    /// What a client chooses that is offered versions up to `offered`: the highest of its own that is not above, or its lowest,
    /// which the relay then denies and says why.
    #[must_use]
    pub fn choose(self, offered: u16) -> Agreed {
        Agreed {
            version: offered.clamp(self.lowest, self.highest),
            offered,
        }
    }
}

impl Default for Versions {
    fn default() -> Versions {
        Versions::SPOKEN
    }
}

/// What the two ends of a session agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The version they speak.
    pub version: u16,
    /// The highest that the relay offered.
    pub offered: u16,
}

impl Agreed {
    /// Two ends of this crate's version.
    pub const NEWEST: Agreed = Agreed {
        version: PROTOCOL_VERSION,
        offered: PROTOCOL_VERSION,
    };

    /// True when the session's keys hold what was agreed, and its client may pad.
    #[must_use]
    pub fn is_bound(self) -> bool {
        self.version >= BOUND_SINCE
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Each end, of each pair of neighbours, finds what both speak.
    #[test]
    fn neighbours_agree_on_what_both_speak() {
        let (old, new) = (PROTOCOL_VERSION - 1, PROTOCOL_VERSION);
        let of = |lowest, highest| Versions::between(lowest, highest).unwrap();
        for (client, relay, version) in [
            (of(old, new), of(old, new), new),
            (of(old, old), of(old, new), old),
            (of(old, new), of(old, old), old),
            (of(new, new), of(old, new), new),
        ] {
            let agreed = client.choose(relay.highest());
            assert_eq!((agreed.version, agreed.offered), (version, relay.highest()));
            assert!(relay.include(agreed.version));
        }
        let late = of(new, new).choose(old);
        assert!(
            late.version == new && !of(old, old).include(late.version),
            "the relay denies it"
        );
        assert_eq!(of(old, new).choose(new + 7).version, new);
        assert_eq!(of(old, new).choose(0).version, old);
        assert_eq!(
            (Versions::between(new + 1, new + 9), Versions::between(0, 0)),
            (None, None)
        );
    }
}
