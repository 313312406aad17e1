//! Whom a shard turned away and why, in a line of the log: at once when it begins, then every ten seconds while it goes on, with
//! what came together meanwhile. Never a line for each (THREATS 39): strangers cause them.

use super::loggate::LogGate;
use crate::relay::admission::Limited;
use crate::relay::counters::Counters;
use crate::token::TokenRefusal;
use crate::wire::handshake::Denial;

/// What was said of a shard's refusals.
#[derive(Clone, Debug, Default)]
pub struct TurnedAway {
    gate: LogGate,
    /// The totals that were told, in the order of [`totals`].
    told: Vec<u64>,
}

/// What is counted of whom, and under which word.
fn totals(counters: &Counters) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
    let denied = Denial::ALL.into_iter().zip(counters.handshakes_refused);
    let tokens = TokenRefusal::ALL.into_iter().zip(counters.tokens_refused);
    let limited = Limited::ALL.into_iter().zip(counters.handshakes_limited);
    let denied = denied.map(|(why, count)| ("handshakes denied", why.label(), count));
    let tokens = tokens.map(|(why, count)| ("tokens refused", why.label(), count));
    let limited = limited.map(|(why, count)| ("limited", why.label(), count));
    denied.chain(tokens).chain(limited)
}

impl TurnedAway {
    /// What to say of `shard` at `now_us`; nothing where nobody was turned away, or a line is not due yet.
    pub fn sentence(&mut self, now_us: u64, shard: usize, counters: &Counters) -> Option<String> {
        self.told.resize(totals(counters).count(), 0);
        let mut both = totals(counters).zip(&self.told);
        if !both.any(|((.., now), told)| now > *told) {
            return None;
        }
        self.gate.pass(now_us, "turned away")?;
        let mut sentence = format!("shard {shard} turned clients away");
        let mut said = "";
        for ((what, why, now), told) in totals(counters).zip(&mut self.told) {
            let more = now.saturating_sub(core::mem::replace(told, now));
            if more > 0 {
                let begin = if what == said {
                    String::new()
                } else {
                    format!("; {what}:")
                };
                sentence.push_str(&format!("{begin} {why} {more}"));
                said = what;
            }
        }
        Some(sentence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// THREATS 39: a storm of refusals is a line in ten seconds, and the lines' counts add up.
    #[test]
    fn threats_39_a_storm_of_refusals_is_a_line_in_ten_seconds() {
        let (mut log, mut counters, mut lines) = (TurnedAway::default(), Counters::default(), Vec::new());
        assert_eq!(log.sentence(1, 2, &counters), None, "nobody came");
        for now_us in (5_000_000..=35_000_000u64).step_by(100_000) {
            counters.handshakes_refused[Denial::Token as usize - 1] += 3;
            counters.tokens_refused[TokenRefusal::Expired as usize] += 2;
            counters.tokens_refused[TokenRefusal::Forged as usize] += 1;
            lines.extend(log.sentence(now_us, 2, &counters));
        }
        assert_eq!(
            lines,
            [
                "shard 2 turned clients away; handshakes denied: token 3; tokens refused: expired 2 forged 1",
                "shard 2 turned clients away; handshakes denied: token 300; tokens refused: expired 200 forged 100",
                "shard 2 turned clients away; handshakes denied: token 300; tokens refused: expired 200 forged 100",
                "shard 2 turned clients away; handshakes denied: token 300; tokens refused: expired 200 forged 100",
            ]
        );
        assert_eq!(log.sentence(90_000_000, 2, &counters), None, "nothing new");
        counters.handshakes_limited[Limited::Sessions as usize] += 1;
        let last = log.sentence(90_000_000, 2, &counters);
        assert_eq!(
            last.as_deref(),
            Some("shard 2 turned clients away; limited: sessions 1")
        );
    }
}
