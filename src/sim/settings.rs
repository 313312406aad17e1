//! What the caller of the simulation decides, and what is left to the seed.

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
    /// The settings of a link that a seed has drawn, with what is forced.
    #[must_use]
    pub fn applied_to(&self, drawn: ImpairmentSettings) -> ImpairmentSettings {
        ImpairmentSettings {
            loss: self.loss.unwrap_or(drawn.loss),
            burst_loss: self.burst_loss.or(drawn.burst_loss),
            delay_us: self.delay_us.unwrap_or(drawn.delay_us),
            jitter_us: self.jitter_us.unwrap_or(drawn.jitter_us),
            reorder: self.reorder.unwrap_or(drawn.reorder),
            duplicate: self.duplicate.unwrap_or(drawn.duplicate),
            corrupt: self.corrupt.unwrap_or(drawn.corrupt),
            ..drawn
        }
    }
}
