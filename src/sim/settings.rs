//! What the caller of the simulation decides, and what is left to the seed.

use super::role::Role;
use crate::impairment::settings::ImpairmentSettings;

/// What the caller decides instead of the seed. The default leaves everything to the seed, for 60 seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimSettings {
    /// Virtual seconds of a run, the clean ones at the end not counted.
    pub seconds: u64,
    /// Clients.
    pub clients: Option<usize>,
    /// Entities the world keeps about.
    pub entities: Option<usize>,
    /// Origin ticks a second.
    pub hz: Option<f64>,
    /// What the way down does.
    pub down: LinkDemand,
    /// What the way up does.
    pub up: LinkDemand,
    /// Time between two upstream restarts with a new epoch, instead of the seed's own.
    pub epoch_every_us: Option<u64>,
    /// Bits flipped in held tables, per client and minute. The seed itself flips none.
    pub flips_per_minute: f64,
    /// Nothing happens to the run but its links: even ticks, no stalls, silences, partings or mass changes.
    pub calm: bool,
    /// The role of every client, for all of the run; with it the budget is the default one and there is no cap.
    pub role: Option<Role>,
    /// Bytes a second that each client may be sent.
    pub budget: Option<u64>,
    /// A fault built into the run, to show that a failing run is seen.
    pub sabotage: Option<Sabotage>,
    /// Id of an entity whose every appearance and change is noted, to find out what happened to it.
    pub watch: Option<u32>,
}

impl Default for SimSettings {
    fn default() -> SimSettings {
        SimSettings {
            seconds: 60,
            clients: None,
            entities: None,
            hz: None,
            down: LinkDemand::default(),
            up: LinkDemand::default(),
            epoch_every_us: None,
            flips_per_minute: 0.0,
            calm: false,
            role: None,
            budget: None,
            sabotage: None,
            watch: None,
        }
    }
}

/// A fault built into a run on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// The oracle remembers one position wrongly: every client must be reported.
    WrongTruth,
    /// The oracle believes in an entity that never was: it must be reported as missing.
    Phantom,
}

/// Impairment settings forced on one direction of every link. What is `None` is left to the seed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkDemand {
    /// Share lost.
    pub loss: Option<f64>,
    /// Bursts of loss.
    pub burst_loss: Option<(f64, f64)>,
    /// Delay in microseconds.
    pub delay_us: Option<u64>,
    /// Jitter in microseconds.
    pub jitter_us: Option<u64>,
    /// Share overtaken.
    pub reorder: Option<f64>,
    /// Share delivered twice.
    pub duplicate: Option<f64>,
    /// Share with a flipped bit.
    pub corrupt: Option<f64>,
}

impl LinkDemand {
    /// The settings of a link that a seed has drawn, with what is forced. No loss at all is no bursts of it either,
    /// unless they are asked for by name; any other share leaves the drawn bursts as they are.
    #[must_use]
    pub fn applied_to(&self, drawn: ImpairmentSettings) -> ImpairmentSettings {
        let drawn_bursts = drawn.burst_loss.filter(|_| self.loss != Some(0.0));
        ImpairmentSettings {
            loss: self.loss.unwrap_or(drawn.loss),
            burst_loss: self.burst_loss.or(drawn_bursts),
            delay_us: self.delay_us.unwrap_or(drawn.delay_us),
            jitter_us: self.jitter_us.unwrap_or(drawn.jitter_us),
            reorder: self.reorder.unwrap_or(drawn.reorder),
            duplicate: self.duplicate.unwrap_or(drawn.duplicate),
            corrupt: self.corrupt.unwrap_or(drawn.corrupt),
            ..drawn
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link without loss loses nothing; what else the seed has drawn stays.
    #[test]
    fn no_loss_is_no_bursts_of_it_unless_they_are_named() {
        let drawn = ImpairmentSettings {
            loss: 0.1,
            burst_loss: Some((0.01, 0.25)),
            corrupt: 0.02,
            jitter_us: 7,
            ..ImpairmentSettings::default()
        };
        let forced = |loss, burst_loss| {
            LinkDemand {
                loss,
                burst_loss,
                ..LinkDemand::default()
            }
            .applied_to(drawn)
        };
        assert_eq!(forced(None, None), drawn);
        assert_eq!(forced(Some(0.3), None), ImpairmentSettings { loss: 0.3, ..drawn });
        let none = ImpairmentSettings {
            loss: 0.0,
            burst_loss: None,
            ..drawn
        };
        assert_eq!(forced(Some(0.0), None), none);
        let bursts = Some((0.5, 0.5));
        assert_eq!(
            forced(Some(0.0), bursts),
            ImpairmentSettings {
                burst_loss: bursts,
                ..none
            }
        );
    }
}
