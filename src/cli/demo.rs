//! `ackline demo`: origin, relay and verifying clients in one process over real loopback sockets.

use super::Outcome;
use super::bench::{check_files, conclude, follow, link_settings, local, usage};
use super::origin::SourceArgs;
use crate::bench::run::Plan;
use crate::bench::settings::{LinkFlags, LoadFlags};
use crate::impairment::settings::ImpairmentSettings;

/// Loss of the links unless a flag says what they do.
const SHOWN_LOSS: f64 = 0.05;

/// Flags.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    load: LoadFlags,
    #[command(flatten, next_help_heading = "Origin")]
    source: SourceArgs,
    #[command(flatten)]
    links: LinkFlags,
}

const EXAMPLES: &str = "\
Without any argument: 100 clients watch 901 tumbling cubes for 8 seconds. The links lose 5% both ways, unless a flag \
says what they do: --loss 0 for a clean network.

Examples:
  ackline demo
  ackline demo --trace match.jsonl.zst --clients 64 --loss 10% --delay-ms 60 --jitter-ms 20
  ackline demo --scene arena --view radius:30,36 --input-hz 30 --loss 20%
  ackline demo --entities 200 --hz 60 --report report.json --threshold 'latency_p99<20ms'

A recording goes round for ever. Figures for --threshold: ackline bench --help lists them. \
Exit code 0 when every check held, 1 when one failed or the host could not keep up, 2 for wrong flags.";

/// Runs it.
///
/// # Errors
/// Wrong flags, or a part that cannot begin.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let Args { load, source, links } = args;
    load.check().map_err(usage)?;
    let (mut down, mut up) = link_settings(&links)?;
    if !links.is_given() && load.attack.is_none() {
        let shown = ImpairmentSettings {
            loss: SHOWN_LOSS,
            ..ImpairmentSettings::default()
        };
        (down, up) = (shown, shown);
    }
    let target = local(source, load.seed)?;
    check_files(load.report.as_deref(), load.page.as_deref(), load.plot.as_deref())?;
    let report = follow(&load, &Plan::of(&load, target, down, up))?;
    conclude(&report, load.report.as_deref(), load.page.as_deref())
}
