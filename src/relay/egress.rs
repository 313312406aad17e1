//! The cap on all a shard sends, shared fairly (SPEC OPS5).
//!
//! Every session's rate is its own times one share. The share falls when the shard sends more than its cap and rises again
//! when there is room, so that who needs little is not cut and nobody is cut more than another. A bucket of a quarter
//! second bounds what gets out before the share has followed: when it is empty snapshots wait, and the round through the
//! sessions goes on where it stopped.

/// Time between two looks at what was sent, microseconds.
const LOOK_US: u64 = 250_000;
/// The least share: below, snapshots wait for the bucket instead.
const SHARE_MIN: u32 = 10;

/// What one shard may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Egress {
    /// Bytes a second; `None` without a cap.
    cap: Option<u64>,
    share_thousandths: u32,
    looked_us: u64,
    looked_bytes: u64,
    bucket: i64,
    filled_us: u64,
    filled_bytes: u64,
    /// The bucket was empty since the last look.
    dry: bool,
}

impl Egress {
    /// Without bytes a second, no cap.
    #[must_use]
    pub fn new(cap: Option<u64>) -> Egress {
        Egress {
            cap,
            share_thousandths: 1000,
            looked_us: 0,
            looked_bytes: 0,
            bucket: cap.map_or(0, |cap| i64::try_from(cap / 4).unwrap_or(i64::MAX)),
            filled_us: 0,
            filled_bytes: 0,
            dry: false,
        }
    }

    /// Takes in how many bytes the shard has sent since it began.
    pub fn observe(&mut self, now_us: u64, bytes_sent: u64) {
        let Some(cap) = self.cap else { return };
        let elapsed_us = now_us.saturating_sub(self.filled_us).min(1_000_000);
        let gained = i64::try_from(cap.saturating_mul(elapsed_us) / 1_000_000).unwrap_or(i64::MAX);
        let spent = i64::try_from(bytes_sent.saturating_sub(self.filled_bytes)).unwrap_or(i64::MAX);
        let full = i64::try_from(cap / 4).unwrap_or(i64::MAX);
        self.bucket = self.bucket.saturating_add(gained).min(full).saturating_sub(spent);
        (self.filled_us, self.filled_bytes) = (now_us, bytes_sent);
        self.dry |= self.bucket <= 0;
        let looked_us = now_us.saturating_sub(self.looked_us);
        if looked_us < LOOK_US {
            return;
        }
        let sent = bytes_sent.saturating_sub(self.looked_bytes);
        let rate = sent.saturating_mul(1_000_000) / looked_us;
        let share = u64::from(self.share_thousandths);
        let wanted = if rate > cap {
            share.saturating_mul(cap) / rate.max(1)
        } else if core::mem::take(&mut self.dry) {
            share - share / 8
        } else if rate > cap / 20 * 19 {
            share
        } else {
            share + share / 8 + 1
        };
        self.share_thousandths = u32::try_from(wanted).unwrap_or(1000).clamp(SHARE_MIN, 1000);
        (self.looked_us, self.looked_bytes) = (now_us, bytes_sent);
    }

    /// What is left of every session's rate, in thousandths.
    #[must_use]
    pub fn share_thousandths(&self) -> u16 {
        u16::try_from(self.share_thousandths).unwrap_or(1000)
    }

    /// True while snapshots may go.
    #[must_use]
    pub fn allows(&self) -> bool {
        self.cap.is_none() || self.bucket > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Forty sessions that would send four times the cap get what there is, and the cap holds over every second.
    #[test]
    fn the_cap_holds_and_the_share_settles() {
        let cap = 100_000;
        let mut egress = Egress::new(Some(cap));
        let mut sent = 0u64;
        let mut by_tick = Vec::new();
        for tick in 0..400u64 {
            egress.observe(tick * 50_000, sent);
            let before = sent;
            for _ in 0..40 {
                if egress.allows() {
                    sent += 500 * u64::from(egress.share_thousandths()) / 1000;
                }
            }
            by_tick.push(sent - before);
        }
        for (from, second) in by_tick.windows(20).enumerate().skip(20) {
            let total: u64 = second.iter().sum();
            assert!(total <= cap + cap / 4, "{total} bytes from tick {from}");
        }
        let late: u64 = by_tick[300..].iter().sum();
        assert!(
            (cap * 4..=cap * 5 + cap / 4).contains(&late),
            "{late} of {} in five seconds",
            cap * 5
        );
        assert!((200..=300).contains(&egress.share_thousandths()));
    }

    #[test]
    fn the_share_comes_back_when_there_is_room() {
        let mut egress = Egress::new(Some(1_000));
        egress.observe(1_000_000, 100_000);
        assert_eq!(egress.share_thousandths(), 10);
        for step in 2..200u64 {
            egress.observe(step * 1_000_000, 100_000);
        }
        assert_eq!(egress.share_thousandths(), 1000);
        assert!(Egress::new(None).allows());
    }
}
