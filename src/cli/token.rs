//! `ackline token`: keys and connect tokens, for scripts and tests. A studio's backend links the library instead.

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::{Outcome, UsageError};
use crate::net::clock::unix_s;
use crate::node::minter::{LIFE_S, Minter};
use crate::node::number::whole;
use crate::node::random::random;
use crate::node::settings::BUDGET_BYTES_PER_S;
use crate::node::small_file::{self, Pipes};
use crate::state::view::View;
use crate::token::{self, ConnectToken, LIFE_MAX_S, TokenKey, TokenKeys};

const EXAMPLES: &str = "\
Examples:
  (umask 077; ackline token key > token.keys)    # shared by backend and relays; keep it secret
  ackline relay --token-keys-file token.keys --upstream origin.example:7700
  ackline token mint --token-keys-file token.keys --relay 203.0.113.7:7777 --client 42
  ackline token key --next-after token.keys >> token.keys        # the next key, to rotate to
  ackline token show - --token-keys-file token.keys              # of a token on standard input

A token lives a minute unless told otherwise, admits one session once, and is one line of hexadecimal digits. \
To rotate keys append a new line to the file on every relay and send SIGHUP, then let the backend mint with it (where it \
reads such a file, move the line up to be the first), and take the old line out when its last token has expired: at most \
300 s later.";

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
    /// Tells what is in a connect token; its secret is not shown. Exit code 1 where a relay with the keys would refuse it.
    Show(ShowArgs),
}

#[derive(clap::Args, Debug)]
struct KeyArgs {
    /// The key's number: tokens name it in clear, and no two keys of a relay have the same
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole(0..=u32::MAX))]
    id: u32,
    /// Takes the number after the highest in this key file
    #[arg(long, value_name = "FILE", conflicts_with = "id")]
    next_after: Option<PathBuf>,
}

#[derive(clap::Args, Debug)]
struct ShowArgs {
    /// The token as its client gets it, in hexadecimal digits; - for standard input, where nobody else sees it
    #[arg(value_name = "HEX")]
    token: String,
    /// File of the keys: opens the sealed half too
    #[arg(long, env = "ACKLINE_TOKEN_KEYS_FILE", value_name = "FILE")]
    token_keys_file: Option<PathBuf>,
}

/// Bytes a second that a token may grant: what a relay's own setting may be.
const BUDGET: RangeInclusive<u32> = *BUDGET_BYTES_PER_S.start() as u32..=*BUDGET_BYTES_PER_S.end() as u32;

#[derive(clap::Args, Debug)]
struct MintArgs {
    /// File of the keys; the first one is used
    #[arg(long, env = "ACKLINE_TOKEN_KEYS_FILE", value_name = "FILE")]
    token_keys_file: PathBuf,
    /// Relays to try, in order, as clients reach them
    #[arg(long, value_name = "ADDR[,ADDR...]", value_delimiter = ',', required = true, num_args = 1..=8, value_parser = reachable)]
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
    #[arg(long, value_name = "BYTES", value_parser = whole(BUDGET))]
    budget_bytes_per_s: Option<u32>,
}

/// An address that a client can send to.
fn reachable(text: &str) -> Result<SocketAddr, String> {
    let wish = "give an IP address and a port as clients reach the relay, such as 203.0.113.7:7777";
    let address: SocketAddr = text.parse().map_err(|_| wish.to_owned())?;
    if address.ip().is_unspecified() || address.port() == 0 {
        return Err(format!("nobody can send to it: {wish}"));
    }
    Ok(address)
}

/// Runs it.
///
/// # Errors
/// A key file that cannot be read, or a bound that is passed, as a [`UsageError`].
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let usage = |error: anyhow::Error| UsageError(format!("{error:#}"));
    match args.what {
        What::Key(key) => {
            say!("{}", TokenKey::new(number(&key)?, random()?).to_line());
            if is_open_to_others(&std::io::stdout()) {
                complain!(
                    "ackline: other users of this host can read the file that this goes to, and it is secret: chmod 600 it"
                );
            }
        }
        What::Mint(mint) => {
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
        What::Show(show) => {
            let text = match show.token.as_str() {
                "-" => std::io::read_to_string(std::io::stdin().lock().take(TEXT_MAX))?,
                text => text.to_owned(),
            };
            let token = ConnectToken::from_text(&text).map_err(|error| {
                UsageError(format!(
                    "this is no connect token ({error}): give the one line of hexadecimal digits that `ackline token mint` prints"
                ))
            })?;
            let keys = show
                .token_keys_file
                .as_deref()
                .map(|file| Minter::keys_of(file, Pipes::Awaited));
            let keys = keys.transpose().map_err(UsageError)?;
            let now_s = unix_s();
            describe(&token, keys.as_ref(), now_s)
                .iter()
                .for_each(|line| say!("{line}"));
            if is_refused(&token, keys.as_ref(), now_s) {
                return Ok(Outcome::Failed);
            }
        }
    }
    Ok(Outcome::Success)
}

/// Characters of a token's text, at most, and white space.
const TEXT_MAX: u64 = 1 << 14;

/// The number of a new key.
fn number(args: &KeyArgs) -> Result<u32, UsageError> {
    let Some(file) = &args.next_after else {
        return Ok(args.id);
    };
    let keys = Minter::keys_of(file, Pipes::Awaited)
        .map_err(|fault| UsageError(format!("--next-after: {fault}")))?;
    let highest = keys.numbers().into_iter().max().unwrap_or(0);
    highest.checked_add(1).ok_or_else(|| {
        UsageError(format!(
            "--next-after: {} has the highest number there is, {highest}: give --id",
            file.display()
        ))
    })
}

/// True for a file that others than its owner may read.
fn is_open_to_others(out: &impl AsFd) -> bool {
    let file = out.as_fd().try_clone_to_owned().map(File::from);
    let metadata = file.and_then(|file| file.metadata());
    metadata.is_ok_and(|about| about.is_file() && small_file::is_open(about.uid(), about.mode()))
}

/// Whether every relay with these keys refuses it; without keys, whether that can be seen from outside.
fn is_refused(token: &ConnectToken, keys: Option<&TokenKeys>, now_s: u64) -> bool {
    match keys {
        Some(keys) => token::open(keys, now_s, &token.sealed).is_err(),
        None => token::clear(&token.sealed).is_err(),
    }
}

/// What is in a token, a line each; at `now_s` seconds since 1970.
fn describe(token: &ConnectToken, keys: Option<&TokenKeys>, now_s: u64) -> Vec<String> {
    let list = |relays: &[SocketAddr]| {
        let names: Vec<String> = relays.iter().map(ToString::to_string).collect();
        names.join(", ")
    };
    let at = |time_s: u64| match time_s.checked_sub(now_s) {
        Some(left_s) => format!("{time_s}, in {left_s} s"),
        None => format!("{time_s}, {} s ago", now_s - time_s),
    };
    let mut lines = vec![
        format!("expiry    {}", at(token.expires_s)),
        format!("relays    {}", list(&token.relays)),
        "secret    (set)".to_owned(),
    ];
    match token::clear(&token.sealed) {
        Ok(said) => {
            let id: String = said.id.iter().map(|byte| format!("{byte:02x}")).collect();
            lines.push(format!("key       {}", said.key));
            lines.push(format!("id        {id}"));
        }
        Err(refusal) => lines.push(format!("sealed    {refusal}")),
    }
    let Some(keys) = keys else {
        lines.push("sealed    not opened: give --token-keys-file to see what it grants".to_owned());
        return lines;
    };
    if let Ok(grant) = token::unseal(keys, &token.sealed) {
        lines.push(format!("minted    {}", at(grant.issued_s)));
        lines.push(format!("client    {}", grant.client));
        lines.push(format!("audience  {:?}", grant.audience));
        let view = grant
            .view
            .map_or("the relay's".to_owned(), |view| view.to_string());
        lines.push(format!("view      {view}"));
        let budget = grant.budget_bytes_per_s;
        let budget = budget.map_or("the relay's".to_owned(), |most| format!("{most} bytes a second"));
        lines.push(format!("budget    {budget}"));
        let is_whole = grant.secret == token.secret && grant.relays == token.relays;
        if !is_whole || grant.expires_s != token.expires_s {
            lines.push("beware    the sealed half is of another token than what is beside it".to_owned());
        }
    }
    lines.push(match token::open(keys, now_s, &token.sealed) {
        Ok(_) => "good      now, where it was not used and audience and relays are right".to_owned(),
        Err(refusal) => format!("refused   {}: {refusal}", refusal.label()),
    });
    lines
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::token::{Grant, Secret};

    /// A token is told but for its secret; with the keys what it grants, and what a relay would say of it.
    #[test]
    fn a_token_is_shown_without_its_secret() {
        let keys = TokenKeys::parse(&format!("7:{}", "11".repeat(32))).unwrap();
        let grant = Grant {
            issued_s: 1_000,
            expires_s: 1_060,
            client: 42,
            audience: "eu".to_owned(),
            relays: vec!["203.0.113.7:7777".parse().unwrap()],
            secret: Secret([0xAB; 32]),
            view: None,
            budget_bytes_per_s: Some(8_000),
        };
        let token = grant.mint(keys.minting().unwrap(), [0x22; 16]).unwrap();
        let shown = |keys, now_s| describe(&token, keys, now_s).join("\n");
        let closed = shown(None, 1_010);
        assert!(
            closed.contains(
                "expiry    1060, in 50 s\nrelays    203.0.113.7:7777\nsecret    (set)\nkey       7\n"
            ),
            "{closed}"
        );
        assert!(closed.ends_with("not opened: give --token-keys-file to see what it grants"));
        let opened = shown(Some(&keys), 1_010);
        for words in [
            "minted    1000, 10 s ago",
            "client    42",
            "audience  \"eu\"",
            "8000 bytes a second",
            "good  ",
        ] {
            assert!(opened.contains(words), "{opened}");
        }
        assert!(
            !opened.to_lowercase().contains("abab") && !opened.contains("beware"),
            "{opened}"
        );
        let late = shown(Some(&keys), 1_060);
        assert!(
            late.contains("client    42") && late.ends_with("refused   expired: expired token"),
            "{late}"
        );
        assert!(is_refused(&token, Some(&keys), 1_060) && !is_refused(&token, Some(&keys), 1_010));
        let others = TokenKeys::parse(&format!("7:{}", "12".repeat(32))).unwrap();
        let forged = shown(Some(&others), 1_010);
        assert!(
            forged.ends_with("refused   forged: forged token") && !forged.contains("client"),
            "{forged}"
        );
        assert!(is_refused(&token, Some(&others), 1_010) && !is_refused(&token, None, 1_010));
        let mixed = ConnectToken {
            secret: Secret([1; 32]),
            ..token.clone()
        };
        assert!(
            describe(&mixed, Some(&keys), 1_010)
                .iter()
                .any(|line| line.starts_with("beware"))
        );
    }

    /// What nobody can send to is no relay's address.
    #[test]
    fn a_token_names_relays_that_can_be_reached() {
        for text in [
            "0.0.0.0:7777",
            "[::]:7777",
            "203.0.113.7:0",
            "relay.example:7777",
            "",
        ] {
            assert!(
                reachable(text).unwrap_err().contains("such as 203.0.113.7:7777"),
                "{text}"
            );
        }
        assert!(reachable("[2001:db8::1]:7777").is_ok());
    }
}
