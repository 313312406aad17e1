//! `ackline origin`: publishes a recording or a simulated scene.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Outcome, UsageError};
use crate::node::logging;
use crate::node::number::{any_real, any_whole, real, whole};
use crate::node::origin::{OriginHandle, OriginSettings, OriginSource};
use crate::node::secret::SecretText;
use crate::node::settings::LogFormat;
use crate::node::signals::{Signal, Signals};
use crate::node::small_file::{self, Pipes};
use crate::node::source::SPEEDS;
use crate::node::tls::OriginIdentity;
use crate::node::tuning;
use crate::state::coding::Coding;
use crate::state::view::View;

/// Ticks of a scene a second unless told otherwise: what two cores carry to some hundred clients.
#[cfg(feature = "scenes")]
const SCENE_HZ: f64 = 20.0;

const EXAMPLES: &str = "\
Without --trace it simulates the scene \"cubes\": small cubes and a large one that rolls through them. The scene \"arena\" \
is bots and players that run, shoot, die and come back; \"crowd\" is thousands on foot, of whom a view of 20 m holds a \
hundred.

Examples:
  ackline origin --scene cubes --entities 200 --hz 60
  ackline origin --scene crowd --entities 20000
  ackline origin --trace match.jsonl.zst --loop --view radius:30,35
  ackline origin --trace match.jsonl.zst --tables standard
  ackline origin --trace match.jsonl.zst --speed 2 --listen 0.0.0.0:7700";

/// Flags that say what an origin publishes; `demo` takes them too.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct SourceArgs {
    /// Plays a recording
    #[arg(long, value_name = "FILE", conflicts_with_all = ["scene", "entities", "hz"])]
    pub trace: Option<PathBuf>,
    /// Plays the recording again and again
    #[arg(long = "loop")]
    pub repeat: bool,
    /// Plays the recording this many times as fast, 0.1 to 10 [default: 1]
    #[arg(long, value_name = "X", value_parser = real(SPEEDS.0..=SPEEDS.1))]
    pub speed: Option<f64>,
    /// Simulates a scene: cubes, arena or crowd [default: cubes]
    #[arg(long, value_name = "NAME")]
    pub scene: Option<String>,
    /// Entities of the scene, in an arena bots [default: the scene's own: 901 cubes, 64 bots, 5000 on foot]
    #[arg(long, value_name = "N", value_parser = any_whole)]
    pub entities: Option<usize>,
    /// How records become bits: plain, which every client reads, or in prefix codes that make packets smaller and that clients
    /// of protocol 3 read: standard, or a FILE of tables made by ackline trace tune [default: plain]
    #[arg(long, value_name = "plain|standard|FILE")]
    pub tables: Option<String>,
    /// Ticks of the scene a second [default: 20]
    #[arg(long, value_name = "H", value_parser = any_real)]
    pub hz: Option<f64>,
}

impl SourceArgs {
    /// What is to be published; `seed` is the scene's.
    ///
    /// # Errors
    /// There is no scene of this name, or a flag is of no use with the others.
    pub fn source(&self, seed: u64) -> Result<OriginSource, UsageError> {
        self.check()?;
        match &self.trace {
            Some(path) => Ok(OriginSource::Trace {
                path: path.clone(),
                repeat: self.repeat,
                speed: self.speed.unwrap_or(1.0),
            }),
            None => self.simulated(seed),
        }
    }

    /// How records are to become bits.
    ///
    /// # Errors
    /// The file cannot be read, or holds no tables.
    pub fn coding(&self) -> Result<Coding, UsageError> {
        match self.tables.as_deref() {
            None | Some("plain") => Ok(Coding::Plain),
            Some("standard") => Ok(Coding::Standard),
            Some(file) => {
                let refused = |fault: String| UsageError(format!("--tables {file}: {fault}"));
                let kind = "plain, standard, or a file made by ackline trace tune";
                let text = small_file::read_text(Path::new(file), kind, Pipes::Awaited).map_err(refused)?;
                let lengths =
                    tuning::from_text(&text).map_err(|fault| refused(format!("{fault}: give {kind}")))?;
                Ok(Coding::Own(Arc::new(lengths)))
            }
        }
    }

    /// Refuses flags of a recording where none is played.
    ///
    /// # Errors
    /// The first of them.
    pub fn check(&self) -> Result<(), UsageError> {
        let faults = [
            (
                self.repeat,
                "--loop: a scene has no end and needs none: leave it out, or give --trace FILE",
            ),
            (
                self.speed.is_some(),
                "--speed: a scene runs in real time: leave it out, or give --trace FILE",
            ),
        ];
        match faults
            .into_iter()
            .find(|(given, _)| *given && self.trace.is_none())
        {
            Some((_, text)) => Err(UsageError(text.to_owned())),
            None => Ok(()),
        }
    }

    #[cfg(feature = "scenes")]
    fn simulated(&self, seed: u64) -> Result<OriginSource, UsageError> {
        use crate::scenes::{SceneKind, SceneSettings};
        let kind = match &self.scene {
            Some(name) => name
                .parse()
                .map_err(|error| UsageError(format!("--scene: {error}")))?,
            None => SceneKind::Cubes,
        };
        let settings = SceneSettings {
            entities: self.entities,
            hz: self.hz.unwrap_or(SCENE_HZ),
            seed,
        };
        Ok(OriginSource::Scene { kind, settings })
    }

    #[cfg(not(feature = "scenes"))]
    fn simulated(&self, _seed: u64) -> Result<OriginSource, UsageError> {
        Err(UsageError(
            "--scene: this build has no scenes: give --trace FILE, or build with the feature scenes".into(),
        ))
    }
}

/// Flags.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// Seed of the scene
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = whole(0..=u64::MAX))]
    seed: u64,
    /// TCP address for relays
    #[arg(
        long,
        env = "ACKLINE_ORIGIN_LISTEN",
        value_name = "ADDR",
        default_value = "127.0.0.1:7700"
    )]
    listen: SocketAddr,
    /// What relays must show, their upstream_token. As a flag it stands in the list of processes: rather give
    /// ACKLINE_ORIGIN_TOKEN [default: none, everybody is admitted]
    #[arg(
        long,
        env = "ACKLINE_ORIGIN_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true
    )]
    token: Option<SecretText>,
    /// Certificate of this origin and those that vouch for it (PEM): relays connect by TLS 1.3, and name them or their
    /// authority in upstream_ca_file [default: none, plain TCP, for a private network]
    #[arg(
        long,
        env = "ACKLINE_ORIGIN_TLS_CERT_FILE",
        value_name = "FILE",
        requires = "tls_key_file"
    )]
    tls_cert_file: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(
        long,
        env = "ACKLINE_ORIGIN_TLS_KEY_FILE",
        value_name = "FILE",
        requires = "tls_cert_file"
    )]
    tls_key_file: Option<PathBuf>,
    /// What players may see: whole, radius or radius:ENTER,LEAVE around their entity, spectator or spectator:ENTER,LEAVE around their camera, in
    /// metres, 20,25 where not given; its scenes hide from each player what its team may not see [default: what their relay is set to, all of it]
    #[arg(long, value_name = "VIEW", value_parser = str::parse::<View>)]
    view: Option<View>,
    /// Waits with the first tick for the first subscriber
    #[arg(long)]
    wait_for_subscriber: bool,
    /// What is logged: off, error, warn, info, debug, trace, or directives TARGET=LEVEL as of RUST_LOG
    #[arg(long, env = "ACKLINE_LOG", value_name = "FILTER", default_value = "info")]
    log: String,
    /// The form of log lines
    #[arg(
        long,
        env = "ACKLINE_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "human"
    )]
    log_format: LogFormat,
}

/// How often the end of the source is looked for.
const GLANCE: Duration = Duration::from_millis(100);
/// Time subscribers have to read the end.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What whoever reaches the origin can do, a sentence each.
fn exposure(listen: SocketAddr, token: Option<&SecretText>, is_tls: bool) -> Vec<String> {
    let mut sentences = Vec::new();
    let is_empty = token.is_none_or(SecretText::is_empty);
    if token.is_some() && is_empty {
        let text = "the token is given and empty (--token or ACKLINE_ORIGIN_TOKEN), which is as good as none: leave it out, or give one";
        sentences.push(text.to_owned());
    }
    if listen.ip().is_loopback() {
        return sentences;
    }
    if is_empty {
        sentences.push(format!(
            "whoever reaches {listen} is served the whole world and may speak for its players: give a --token, which relays have as upstream_token, or an address of loopback"
        ));
    }
    if !is_tls {
        sentences.push(format!(
            "{listen} is plain TCP: whoever is on the way may read and change the world; give --tls-cert-file and --tls-key-file, or keep it inside a network you trust"
        ));
    }
    sentences
}

/// Runs it.
///
/// # Errors
/// A refused source ([`UsageError`]), or an address or thread that cannot be had.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let source = args.source.source(args.seed)?;
    let coding = args.source.coding()?;
    let identity = match (&args.tls_cert_file, &args.tls_key_file) {
        (Some(certificate), Some(key)) => Some(
            OriginIdentity::load(certificate, key)
                .map_err(|fault| UsageError(format!("--tls-cert-file, --tls-key-file: {fault}")))?,
        ),
        _ => None,
    };
    if let Some(Err(fault)) = args.token.as_ref().map(SecretText::check) {
        return Err(UsageError(format!("--token or ACKLINE_ORIGIN_TOKEN: {fault}")).into());
    }
    logging::parse(&args.log)
        .map_err(|fault| UsageError(format!("--log or ACKLINE_LOG {:?}: {fault}", args.log)))?;
    let _filter = logging::begin(&args.log, args.log_format);
    super::variables::strange()
        .iter()
        .for_each(|text| tracing::warn!("{text}"));
    let key_file = args.tls_key_file.as_deref();
    if let Some(sentence) = key_file.and_then(|file| small_file::exposed("--tls-key-file", file)) {
        tracing::warn!("{sentence}");
    }
    let mut signals = Signals::listen()?;
    let exposed = exposure(args.listen, args.token.as_ref(), identity.is_some());
    let settings = OriginSettings {
        listen: args.listen,
        source,
        coding,
        token: args.token.unwrap_or_default(),
        identity,
        wait_for_subscriber: args.wait_for_subscriber,
        view: args.view,
        tap: false,
    };
    let origin = OriginHandle::start(settings)?;
    let hz = 1e6 / f64::from(origin.schema().tick_period_us);
    tracing::info!(relays = %origin.addr(), name = %origin.schema().name, hz, "origin started");
    for sentence in exposed {
        tracing::warn!("{sentence}");
    }
    loop {
        match signals.next(GLANCE) {
            Some(Signal::End) => break,
            Some(Signal::Reload) => tracing::warn!("SIGHUP: an origin has nothing to reload"),
            None if origin.is_finished() => {
                let begun = Instant::now();
                while origin.counts().subscribers > 0 && begun.elapsed() < LAST_WORDS {
                    std::thread::sleep(GLANCE);
                }
                break;
            }
            None => {}
        }
    }
    let counts = origin.stop(true);
    tracing::info!(
        ticks = counts.ticks,
        stalls = counts.stalls,
        refused = counts.refused,
        "origin ended"
    );
    Ok(Outcome::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An origin that others reach says what is open; an empty token closes nothing, and that is said wherever it listens.
    #[test]
    fn an_open_origin_says_so() {
        let (here, everywhere) = (
            SocketAddr::from(([127, 0, 0, 1], 1)),
            SocketAddr::from(([0, 0, 0, 0], 1)),
        );
        let (token, empty) = (SecretText::from("hunter2"), SecretText::default());
        let said = |listen, token, is_tls| exposure(listen, token, is_tls).join("\n");
        assert_eq!(
            (said(here, None, false), said(everywhere, Some(&token), true)),
            Default::default()
        );
        assert!(said(everywhere, None, true).contains("give a --token"));
        assert!(said(everywhere, Some(&token), false).starts_with("0.0.0.0:1 is plain TCP"));
        assert!(said(here, Some(&empty), true).starts_with("the token is given and empty"));
        assert_eq!(exposure(everywhere, Some(&empty), false).len(), 3);
    }
}
