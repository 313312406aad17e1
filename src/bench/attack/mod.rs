//! Attacks on a relay from outside, as its peers on the network see it (docs/SECURITY.md names one beside each promise).
//!
//! > [`pair`] does a run twice: bystanders alone, and bystanders beside one attack. What the attack was told, and what the
//! > bystanders saw of it, becomes an [`AttackReport`].
//!
//! On loopback only: an attack is bounded in time and rate, and no datagram of it leaves this host. The relay of this process
//! takes addresses of loopback for those of strangers then (`limit_loopback`), and each bystander has one of its own.

mod captured;
mod gun;
mod inside;
mod insider;
mod outside;
mod rush;
mod tokens;

use std::net::{Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

use self::gun::Count;
use super::report::Report;
use super::run::{Glance, Plan, run};
use super::verdict::overload;
use crate::node::minter::Minter;
use crate::token::ConnectToken;

/// What bystanders may see of an attack: their median latency times this ...
const RATIO_MAX: f64 = 1.2;
/// ... or longer by this, milliseconds.
const SHIFT_MAX_MS: f64 = 1.0;
/// Pairs of runs of which the middle one decides, where the first does not hold: hosts are shared.
const PAIRS_MAX: usize = 3;

/// A kind of attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Kind {
    /// First packets from made-up sources, 50,000 a second
    Flood,
    /// The same beside 1,000 good handshakes a second, each of which ends at once
    Rush,
    /// First packets in one victim's name, 10,000 a second
    Victim,
    /// A good cookie from other addresses and for other nonces
    CookieReplay,
    /// A token that has a session already, from other addresses
    TokenReplay,
    /// Tokens that have run out
    TokenExpired,
    /// Tokens with one bit changed
    TokenForged,
    /// Tokens for another fleet
    TokenElsewhere,
    /// Sealed datagrams with each bit flipped
    BitFlips,
    /// Datagrams that were delivered before, in any order, from anywhere
    Replay,
    /// Datagrams sent from elsewhere before they arrive themselves
    Copies,
    /// Connection ids that are guessed, and forged seals under a real one
    Guess,
    /// Datagrams of every length and kind, whole and cut
    Sizes,
    /// Reports of what was never sent, is yet to come, or of another generation
    ForgedAcks,
    /// Asks, requests and cameras, 5,000 datagrams a second
    ControlFlood,
    /// A full state asked for in every report
    FullState,
    /// Inputs in blocks of 64, 1,000 blocks a second
    InputFlood,
    /// Datagrams under the right key that cannot be read
    Malformed,
    /// Sessions that begin and say nothing
    Drip,
}

impl Kind {
    /// Every kind.
    #[must_use]
    pub fn all() -> &'static [Kind] {
        <Kind as clap::ValueEnum>::value_variants()
    }

    /// Its word on the command line.
    #[must_use]
    pub fn word(self) -> String {
        let value = clap::ValueEnum::to_possible_value(&self);
        value.map_or(String::new(), |value| value.get_name().to_owned())
    }

    /// What is promised.
    #[must_use]
    pub fn promise(self) -> &'static str {
        match self {
            Kind::Flood => {
                "no answer is longer than what it answers, and an honest newcomer is in within 2 s (THREATS 1, 16)"
            }
            Kind::Rush => {
                "who knocks beside a flood with a good token is let in, and the median latency of who is in moves by 1 ms at most (THREATS 1, 16)"
            }
            Kind::Victim => "one destination gets ten cookies a second, and 128 at once, at most (THREATS 2)",
            Kind::CookieReplay => {
                "a cookie serves its own address and nonce: nobody else is answered (THREATS 6)"
            }
            Kind::TokenReplay => "a token admits one session once; all others are denied (THREATS 9)",
            Kind::TokenExpired => "a token that has run out admits nobody (THREATS 12)",
            Kind::TokenForged => "an altered token admits nobody (THREATS 12)",
            Kind::TokenElsewhere => "another fleet's token admits nobody (THREATS 12)",
            Kind::BitFlips => {
                "no altered datagram is answered or taken, and none spends the number of the good one (THREATS 24)"
            }
            Kind::Replay => "what was delivered once does nothing again, from anywhere (THREATS 26, 90)",
            Kind::Copies => {
                "a copy from elsewhere moves no session, and at most three times its bytes go there (THREATS 90)"
            }
            Kind::Guess => "who guesses connection ids hears nothing (THREATS 29)",
            Kind::Sizes => {
                "no length and no kind of datagram is answered but a good Request (THREATS 3, 22, 23)"
            }
            Kind::ForgedAcks => "reports that lie cost no more than the liar's own budget (THREATS 46)",
            Kind::ControlFlood => {
                "a flood of control costs no more than its session's budget (THREATS 54, 72)"
            }
            Kind::FullState => "one full state in 2 s, whoever asks how often (THREATS 57)",
            Kind::InputFlood => "240 inputs a second are taken of one session (THREATS 71)",
            Kind::Malformed => "who sends what cannot be read is closed (THREATS 47)",
            Kind::Drip => "who was never heard gets a bounded number of bytes (THREATS 17)",
        }
    }

    fn fire(self, field: &Field) -> anyhow::Result<Found> {
        match self {
            Kind::Flood => outside::flood(field),
            Kind::Rush => rush::rush(field),
            Kind::Victim => outside::victim(field),
            Kind::CookieReplay => outside::cookie_replay(field),
            Kind::TokenReplay => tokens::replay(field),
            Kind::TokenExpired => tokens::expired(field),
            Kind::TokenForged => tokens::forged(field),
            Kind::TokenElsewhere => tokens::elsewhere(field),
            Kind::BitFlips => captured::flips(field),
            Kind::Replay => captured::replay(field),
            Kind::Copies => captured::copies(field),
            Kind::Guess => outside::guess(field),
            Kind::Sizes => outside::sizes(field),
            Kind::ForgedAcks => inside::forged_acks(field),
            Kind::ControlFlood => inside::control_flood(field),
            Kind::FullState => inside::full_state(field),
            Kind::InputFlood => inside::input_flood(field),
            Kind::Malformed => inside::malformed(field),
            Kind::Drip => inside::drip(field),
        }
    }
}

/// One run of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attack {
    /// Which.
    pub kind: Kind,
    /// True where it is done; false in the run that it is compared with.
    pub fires: bool,
}

/// Where an attack is done.
#[derive(Clone, Debug)]
pub struct Field {
    /// The relay, on loopback.
    pub relay: SocketAddr,
    /// What mints the tokens that it asks for.
    pub minter: Option<Minter>,
    /// When the attack ends, on this host's monotonic clock.
    pub until_us: u64,
    /// Seed of everything random.
    pub seed: u64,
}

impl Field {
    /// A token for a player of the attack's, where tokens are asked for.
    fn token(&self, client: u64) -> anyhow::Result<Option<ConnectToken>> {
        // Players of the bench have the small numbers.
        let client = 1 << 40 | client;
        self.minter.as_ref().map(|minter| minter.mint(client)).transpose()
    }

    /// Does an attack of this kind: what it came to.
    #[must_use]
    pub fn report(&self, kind: Kind) -> AttackReport {
        let found = kind.fire(self).unwrap_or_else(|error| Found {
            attempts: 0,
            to_relay: Count::default(),
            from_relay: Count::default(),
            observed: format!("the attack could not be done: {error:#}"),
            kept: false,
        });
        AttackReport {
            kind: kind.word(),
            attempts: found.attempts,
            promise: kind.promise().to_owned(),
            observed: found.observed,
            bytes_to_relay: found.to_relay.bytes,
            bytes_from_relay: found.from_relay.bytes,
            bystanders: Bystanders::default(),
            kept: found.kept,
            ok: found.kept,
        }
    }
}

/// What an attack came to.
struct Found {
    attempts: u64,
    to_relay: Count,
    from_relay: Count,
    observed: String,
    /// The promise was kept.
    kept: bool,
}

/// An attack in the report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AttackReport {
    /// The kind.
    pub kind: String,
    /// How often it was tried: mostly datagrams.
    pub attempts: u64,
    /// What is promised.
    pub promise: String,
    /// What came of it.
    pub observed: String,
    /// Bytes of UDP payload that the attack sent.
    pub bytes_to_relay: u64,
    /// Bytes that it was sent.
    pub bytes_from_relay: u64,
    /// What the others saw.
    pub bystanders: Bystanders,
    /// The promise was kept.
    pub kept: bool,
    /// The promise was kept, and the bystanders did not mind.
    pub ok: bool,
}

impl AttackReport {
    /// What came of it, in few words; what was not measured is not claimed.
    #[must_use]
    pub fn outcome(&self) -> &'static str {
        let is_measured = self.bystanders.latency_ratio.is_some();
        match (self.kept, self.ok, self.bystanders.lost > 0) {
            (false, ..) => "FAILED, promise not kept",
            (true, true, _) if is_measured => "ok",
            (true, true, _) => "ok, bystanders' latency not measured",
            (true, false, true) => "promise kept; bystanders lost",
            (true, false, false) => "promise kept; bystanders' latency not met",
        }
    }
}

/// What bystanders saw of an attack, beside a run without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bystanders {
    /// How many there were.
    pub clients: u64,
    /// Not in a session at the end, or put out of one unasked.
    pub lost: u64,
    /// Median latency with the attack by that without; null where latencies were not measured.
    pub latency_ratio: Option<f64>,
    /// Median latency with the attack, milliseconds, and without.
    pub p50_ms: Option<f64>,
    /// See `p50_ms`.
    pub p50_without_ms: Option<f64>,
    /// The same of 99 in 100.
    pub p99_ms: Option<f64>,
    /// See `p99_ms`.
    pub p99_without_ms: Option<f64>,
    /// Processor time of the relay's shards with the attack, seconds, and without; null for another's relay.
    pub relay_cpu_s: Option<f64>,
    /// See `relay_cpu_s`.
    pub relay_cpu_without_s: Option<f64>,
}

impl Bystanders {
    fn of(with: &Report, without: &Report) -> Bystanders {
        let (with_p50, without_p50) = (with.latency_ms.p50, without.latency_ms.p50);
        Bystanders {
            clients: with.clients.requested,
            lost: with.clients.lost + with.clients.reconnects,
            latency_ratio: with_p50
                .zip(without_p50)
                .map(|(with, without)| with / without)
                .filter(|ratio| ratio.is_finite()),
            p50_ms: with_p50,
            p50_without_ms: without_p50,
            p99_ms: with.latency_ms.p99,
            p99_without_ms: without.latency_ms.p99,
            relay_cpu_s: with.relay.cpu_s,
            relay_cpu_without_s: without.relay.cpu_s,
        }
    }

    /// True when none was lost, and the median is within what it may be beside an attack of this kind.
    fn are_well(&self, kind: Kind) -> bool {
        let shift_ms = self
            .p50_ms
            .zip(self.p50_without_ms)
            .map(|(with, without)| with - without);
        let by_ratio = kind == Kind::Rush || self.latency_ratio.is_some_and(|ratio| ratio > RATIO_MAX);
        let is_slower = by_ratio && shift_ms.is_some_and(|shift_ms| shift_ms > SHIFT_MAX_MS);
        self.lost == 0 && !is_slower
    }
}

/// The address of a bystander of this number, so that none shares another's limits.
#[must_use]
pub fn bystander(index: u32) -> Ipv4Addr {
    let [low, high, ..] = (index % 250 + (index / 250) * 256).to_le_bytes();
    Ipv4Addr::new(127, 1, high, low.saturating_add(1))
}

/// Runs a plan with and without an attack, each half as long, and tells what the bystanders saw. `show` is told how each run
/// stands.
///
/// # Errors
/// When a run cannot begin.
pub fn pair(plan: &Plan, kind: Kind, mut show: impl FnMut(&Glance)) -> anyhow::Result<Report> {
    let mut pairs: Vec<Report> = Vec::new();
    loop {
        let mut half = |fires: bool| {
            let plan = Plan {
                seconds: plan.seconds / 2.0,
                attack: Some(Attack { kind, fires }),
                ..plan.clone()
            };
            run(&plan, &mut show)
        };
        // Whoever goes first finds a colder host; so they take turns.
        let (with, without) = if pairs.len().is_multiple_of(2) {
            let without = half(false)?;
            (half(true)?, without)
        } else {
            let with = half(true)?;
            (with, half(false)?)
        };
        let mut report = with;
        let bystanders = Bystanders::of(&report, &without);
        for attack in &mut report.attacks {
            attack.bystanders = bystanders;
            attack.ok = attack.kept && bystanders.are_well(kind);
        }
        // What does not depend on the host's load needs no second look; nor is a host that cannot keep up quieter for one.
        let is_final =
            report.attacks.iter().all(|attack| attack.ok || !attack.kept) || overload(&report).is_some();
        pairs.push(report);
        if (is_final && pairs.len() == 1) || pairs.len() == PAIRS_MAX {
            break;
        }
    }
    let ratio = |report: &Report| {
        let attack = report.attacks.first();
        let bystanders = attack.map(|attack| attack.bystanders);
        let lost = bystanders.map_or(0, |bystanders| bystanders.lost);
        let ratio = bystanders.and_then(|bystanders| bystanders.latency_ratio);
        lost as f64 * 1e9 + ratio.unwrap_or(0.0)
    };
    pairs.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    let middle = pairs.len() / 2;
    let mut report = pairs.swap_remove(middle);
    report.judge();
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn bystanders_have_addresses_of_their_own() {
        let addresses: BTreeSet<Ipv4Addr> = (0..5_000).map(bystander).collect();
        assert_eq!(addresses.len(), 5_000);
        assert!(addresses.iter().all(|address| address.octets()[3] != 0));
        assert!((0..5_000).all(|number| gun::address(number).octets()[1] >= 16));
    }

    /// A little more of a little time is no harm, nor is a ratio of noise; a lost bystander is.
    #[test]
    fn bystanders_are_judged_by_ratio_and_time() {
        let well_beside = |kind, lost, with, without| {
            Bystanders {
                lost,
                latency_ratio: Some(with / without),
                p50_ms: Some(with),
                p50_without_ms: Some(without),
                ..Bystanders::default()
            }
            .are_well(kind)
        };
        let well = |lost, with, without| well_beside(Kind::Flood, lost, with, without);
        assert!(well_beside(Kind::Rush, 0, 20.9, 20.0) && !well_beside(Kind::Rush, 0, 21.1, 20.0));
        assert!(well(0, 1.9, 1.0) && well(0, 11.9, 10.0) && !well(0, 12.5, 10.0) && !well(1, 1.0, 1.0));
        assert!(
            Bystanders::default().are_well(Kind::Flood),
            "nothing was measured"
        );
    }

    /// A promise that was kept is said to be, whatever the host's load did to the bystanders; nothing is claimed of what was not
    /// measured.
    #[test]
    fn what_came_of_an_attack_is_said_apart_from_the_bystanders() {
        let told = |kept, ok, lost, latency_ratio| {
            let bystanders = Bystanders {
                lost,
                latency_ratio,
                ..Bystanders::default()
            };
            let report = AttackReport {
                bystanders,
                kept,
                ok,
                ..AttackReport::default()
            };
            report.outcome()
        };
        assert_eq!(told(true, true, 0, Some(1.0)), "ok");
        assert_eq!(told(true, true, 0, None), "ok, bystanders' latency not measured");
        assert_eq!(
            told(true, false, 0, Some(9.0)),
            "promise kept; bystanders' latency not met"
        );
        assert_eq!(told(true, false, 2, None), "promise kept; bystanders lost");
        assert_eq!(told(false, false, 0, Some(9.0)), "FAILED, promise not kept");
    }

    #[test]
    fn every_kind_has_a_word_and_a_promise() {
        let words: BTreeSet<String> = Kind::all().iter().map(|kind| kind.word()).collect();
        assert_eq!(words.len(), Kind::all().len());
        assert!(words.contains("cookie-replay") && !words.contains("all"));
        assert!(Kind::all().iter().all(|kind| kind.promise().contains("THREATS")));
    }
}
