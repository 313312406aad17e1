//! `ackline token`: keys and connect tokens, for scripts and tests. A studio's backend links the library instead.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::{Outcome, UsageError};
use crate::node::minter::{LIFE_S, Minter};
use crate::node::number::whole;
use crate::node::random::random;
use crate::state::view::View;
use crate::token::{LIFE_MAX_S, TokenKey};

const EXAMPLES: &str = "\
Examples:
  ackline token key > token.keys                 # shared by backend and relays; keep it secret
  ackline relay --token-keys-file token.keys --upstream origin.example:7700
  ackline token mint --token-keys-file token.keys --relay 203.0.113.7:7777 --client 42

A token lives a minute unless told otherwise, admits one session once, and is one line of hexadecimal digits. \
To rotate keys put a new line first in the file, send SIGHUP to the relays, then let the backend mint with it; take \
the old line out when its last token has expired.";

/// Flags.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// Prints a fresh key, the line of a key file.
    Key(KeyArgs),
    /// Prints a connect token.
    Mint(MintArgs),
}

#[derive(clap::Args, Debug)]
struct KeyArgs {
    /// The key's number: tokens name it in clear, and no two keys of a relay have the same
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole(0..=u32::MAX))]
    id: u32,
}

#[derive(clap::Args, Debug)]
struct MintArgs {
    /// File of the keys; the first one is used
    #[arg(long, env = "ACKLINE_TOKEN_KEYS_FILE", value_name = "FILE")]
    token_keys_file: PathBuf,
    /// Relays to try, in order, as clients reach them
    #[arg(long, value_name = "ADDR[,ADDR...]", value_delimiter = ',', required = true, num_args = 1..=8)]
    relay: Vec<SocketAddr>,
    /// The player's number at the backend; a newer session of a player replaces its older one, but for 0: nobody in particular
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole(0..=u64::MAX))]
    client: u64,
    /// Name of the fleet that the relays have
    #[arg(long, value_name = "NAME", default_value = "")]
    audience: String,
    /// Seconds the token lives
    #[arg(long, value_name = "S", default_value_t = LIFE_S, value_parser = whole(1..=LIFE_MAX_S))]
    life_s: u64,
    /// What the session sees until the origin says otherwise [default: the relay's own]
    #[arg(long, value_name = "VIEW", value_parser = str::parse::<View>)]
    view: Option<View>,
    /// Bytes a second the session may be sent, never more than the relay allows [default: the relay's own]
    #[arg(long, value_name = "BYTES", value_parser = whole(1..=u32::MAX))]
    budget_bytes_per_s: Option<u32>,
}

/// Runs it.
///
/// # Errors
/// A key file that cannot be read, or a bound that is passed, as a [`UsageError`].
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    match args.what {
        What::Key(KeyArgs { id }) => say!("{}", TokenKey::new(id, random()?).to_line()),
        What::Mint(mint) => {
            let usage = |error: anyhow::Error| UsageError(format!("{error:#}"));
            let minter = Minter {
                key: Minter::key_of(&mint.token_keys_file).map_err(usage)?,
                audience: mint.audience,
                relays: mint.relay,
                life_s: mint.life_s,
                view: mint.view,
                budget_bytes_per_s: mint.budget_bytes_per_s,
            };
            say!("{}", minter.mint(mint.client).map_err(usage)?.to_text());
        }
    }
    Ok(Outcome::Success)
}
