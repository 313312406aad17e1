//! What is wrong with a link: shares, delays, and how people write them.
//!
//! Shares are fractions of the datagrams sent, from 0 to 1; delays are microseconds. The default is a clean
//! link: everything passes, in order, at once.

use crate::limits::IMPAIRMENT_DELAY_MAX_US;
use core::fmt;

/// Why impairment settings were refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ImpairmentError {
    /// The text is no share.
    #[error(
        "'{text}' is not a share: write a percentage from 0% to 100% (5%) or a fraction from 0 to 1 (0.05)"
    )]
    NotAShare {
        /// What was written.
        text: String,
    },
    /// The text is no pair of shares.
    #[error(
        "'{text}' is not a burst: write two shares with a comma between, good to bad and bad to good (0.02,0.3)"
    )]
    NotABurst {
        /// What was written.
        text: String,
    },
    /// A share lies outside 0..=1, or is no number.
    #[error("{field} is {value}: a share lies from 0 to 1 (0% to 100%)")]
    ShareOutOfRange {
        /// Which setting.
        field: &'static str,
        /// Its value.
        value: f64,
    },
    /// A burst of loss that starts and never ends.
    #[error(
        "a burst that begins with share {begin} and ends with share 0 loses everything for ever: \
         give the second share more than 0, or ask for a loss of 100%"
    )]
    EndlessBurst {
        /// Share of datagrams at which a burst begins.
        begin: f64,
    },
    /// A delay above the bound.
    #[error("{field} is {value} us: at most {IMPAIRMENT_DELAY_MAX_US} us (a minute) are allowed")]
    DelayTooLong {
        /// Which setting.
        field: &'static str,
        /// Its value in microseconds.
        value: u64,
    },
}

/// What one direction of a link does to datagrams. All zero, which is the default, does nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImpairmentSettings {
    /// Share lost, each datagram by itself.
    pub loss: f64,
    /// Bursts of loss (Gilbert-Elliott): the share of datagrams at which a good link turns bad, and the share
    /// at which a bad one turns good. A bad link loses everything; bursts are `1 / .1` datagrams long on average.
    pub burst_loss: Option<(f64, f64)>,
    /// Delay of every datagram, in microseconds.
    pub delay_us: u64,
    /// Extra delay drawn evenly from 0 to this, inclusive, for each datagram, in microseconds. Datagrams that
    /// were sent less than this apart may change places, as on a real link; those further apart never do.
    pub jitter_us: u64,
    /// Share held back so that later ones overtake.
    pub reorder: f64,
    /// How long a datagram is held back at the most; the hold is drawn evenly from half of this upwards.
    /// In microseconds. Datagrams further apart than this plus the jitter never change places.
    pub hold_us: u64,
    /// Share delivered twice. The copy draws its own jitter, hold and corruption.
    pub duplicate: f64,
    /// Share in which one bit is flipped.
    pub corrupt: f64,
}

/// Default of [`ImpairmentSettings::hold_us`]: overtaken by one to two ticks at 20 Hz, three to six at 60 Hz.
pub const HOLD_US: u64 = 100_000;

impl Default for ImpairmentSettings {
    fn default() -> Self {
        ImpairmentSettings {
            loss: 0.0,
            burst_loss: None,
            delay_us: 0,
            jitter_us: 0,
            reorder: 0.0,
            hold_us: HOLD_US,
            duplicate: 0.0,
            corrupt: 0.0,
        }
    }
}

impl ImpairmentSettings {
    /// Refuses shares outside 0..=1, delays above [`IMPAIRMENT_DELAY_MAX_US`] and bursts without an end.
    ///
    /// # Errors
    /// The first setting that is out of its bounds.
    pub fn check(&self) -> Result<(), ImpairmentError> {
        let (begin, end) = self.burst_loss.unwrap_or((0.0, 1.0));
        let shares = [
            ("loss", self.loss),
            ("burst loss, good to bad,", begin),
            ("burst loss, bad to good,", end),
            ("reorder", self.reorder),
            ("duplicate", self.duplicate),
            ("corrupt", self.corrupt),
        ];
        for (field, value) in shares {
            if !(0.0..=1.0).contains(&value) {
                return Err(ImpairmentError::ShareOutOfRange { field, value });
            }
        }
        if begin > 0.0 && end == 0.0 {
            return Err(ImpairmentError::EndlessBurst { begin });
        }
        for (field, value) in [
            ("delay", self.delay_us),
            ("jitter", self.jitter_us),
            ("hold", self.hold_us),
        ] {
            if value > IMPAIRMENT_DELAY_MAX_US {
                return Err(ImpairmentError::DelayTooLong { field, value });
            }
        }
        Ok(())
    }

    /// True when every datagram passes unchanged, in order, at once.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.delay_us == 0
            && self.jitter_us == 0
            && self.loss == 0.0
            && self.burst_loss.is_none_or(|(begin, _)| begin == 0.0)
            && self.reorder == 0.0
            && self.duplicate == 0.0
            && self.corrupt == 0.0
    }

    /// The share lost in the long run, bursts included: `1 - (1 - loss)(1 - p / (p + r))`.
    #[must_use]
    pub fn expected_loss(&self) -> f64 {
        let bad = match self.burst_loss {
            Some((begin, end)) if begin > 0.0 => begin / (begin + end),
            _ => 0.0,
        };
        1.0 - (1.0 - self.loss) * (1.0 - bad)
    }
}

impl fmt::Display for ImpairmentSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_clean() {
            return f.write_str("clean");
        }
        let mut gap = "";
        let shares = [
            ("loss", self.loss),
            ("reorder", self.reorder),
            ("duplicate", self.duplicate),
            ("corrupt", self.corrupt),
        ];
        for (name, share) in shares {
            if share > 0.0 {
                write!(f, "{gap}{name} {}%", percent(share))?;
                gap = ", ";
            }
        }
        if let Some((begin, end)) = self.burst_loss {
            write!(f, "{gap}burst loss {begin},{end}")?;
            gap = ", ";
        }
        for (name, us) in [("delay", self.delay_us), ("jitter", self.jitter_us)] {
            if us > 0 {
                write!(f, "{gap}{name} {} ms", us as f64 / 1000.0)?;
                gap = ", ";
            }
        }
        Ok(())
    }
}

/// A share as a percentage with at most four decimals.
fn percent(share: f64) -> f64 {
    (share * 1e6).round() / 1e4
}

/// Reads a share: `5%` and `0.05` are both 0.05.
///
/// # Errors
/// The text is no number, or the share lies outside 0..=1.
pub fn parse_share(text: &str) -> Result<f64, ImpairmentError> {
    let trimmed = text.trim();
    let (number, scale) = match trimmed.strip_suffix('%') {
        Some(number) => (number.trim_end(), 100.0),
        None => (trimmed, 1.0),
    };
    match number.parse::<f64>().map(|value| value / scale) {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(ImpairmentError::NotAShare {
            text: text.to_owned(),
        }),
    }
}

/// Reads the two shares of [`ImpairmentSettings::burst_loss`]: `0.02,0.3` or `2%,30%`.
///
/// # Errors
/// The text is no pair of shares, or the burst would never end.
pub fn parse_burst(text: &str) -> Result<(f64, f64), ImpairmentError> {
    let malformed = || ImpairmentError::NotABurst {
        text: text.to_owned(),
    };
    let (begin, end) = text.split_once(',').ok_or_else(malformed)?;
    let begin = parse_share(begin).map_err(|_| malformed())?;
    let end = parse_share(end).map_err(|_| malformed())?;
    if begin > 0.0 && end == 0.0 {
        return Err(ImpairmentError::EndlessBurst { begin });
    }
    Ok((begin, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percentages_or_fractions() {
        assert_eq!(parse_share("5%"), Ok(0.05));
        assert_eq!(parse_share(" 2.5 % "), Ok(0.025));
        assert_eq!(parse_share("0.05"), Ok(0.05));
        assert_eq!(parse_share("100%"), Ok(1.0));
        assert_eq!(parse_share("0"), Ok(0.0));
        for bad in [
            "", "%", "five", "5", "101%", "-1%", "-0.1", "NaN", "inf", "1e9%", "5%%",
        ] {
            let error = parse_share(bad).expect_err(bad).to_string();
            assert!(
                error.contains(&format!("'{bad}'")) && error.contains("from 0% to 100%"),
                "{error}"
            );
        }
    }

    #[test]
    fn bursts_are_two_shares() {
        assert_eq!(parse_burst("0.02,0.3"), Ok((0.02, 0.3)));
        assert_eq!(parse_burst("2%, 30%"), Ok((0.02, 0.3)));
        assert_eq!(parse_burst("0,0"), Ok((0.0, 0.0)));
        for bad in ["", "0.02", "0.02,", ",", "0.02,0.3,1", "2,0.3", "a,b"] {
            assert!(
                matches!(parse_burst(bad), Err(ImpairmentError::NotABurst { .. })),
                "{bad}"
            );
        }
        assert_eq!(
            parse_burst("0.1,0"),
            Err(ImpairmentError::EndlessBurst { begin: 0.1 })
        );
    }

    #[test]
    fn settings_out_of_bounds_are_refused_by_name() {
        let clean = ImpairmentSettings::default();
        assert_eq!(clean.check(), Ok(()));
        for (bad, word) in [
            (
                ImpairmentSettings {
                    loss: f64::NAN,
                    ..clean
                },
                "loss",
            ),
            (
                ImpairmentSettings {
                    duplicate: 1.5,
                    ..clean
                },
                "duplicate",
            ),
            (
                ImpairmentSettings {
                    corrupt: -0.1,
                    ..clean
                },
                "corrupt",
            ),
            (
                ImpairmentSettings {
                    burst_loss: Some((0.1, 2.0)),
                    ..clean
                },
                "bad to good",
            ),
            (
                ImpairmentSettings {
                    burst_loss: Some((0.1, 0.0)),
                    ..clean
                },
                "for ever",
            ),
            (
                ImpairmentSettings {
                    jitter_us: IMPAIRMENT_DELAY_MAX_US + 1,
                    ..clean
                },
                "jitter",
            ),
            (
                ImpairmentSettings {
                    delay_us: u64::MAX,
                    ..clean
                },
                "delay",
            ),
        ] {
            let error = bad.check().expect_err(word).to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn settings_describe_themselves() {
        let clean = ImpairmentSettings::default();
        assert!(clean.is_clean());
        assert_eq!(clean.to_string(), "clean");
        let bad = ImpairmentSettings {
            loss: 0.05,
            delay_us: 40_500,
            burst_loss: Some((0.02, 0.18)),
            ..ImpairmentSettings::default()
        };
        assert!(!bad.is_clean());
        assert_eq!(bad.to_string(), "loss 5%, burst loss 0.02,0.18, delay 40.5 ms");
        assert!((bad.expected_loss() - (1.0 - 0.95 * 0.9)).abs() < 1e-12);
    }
}
