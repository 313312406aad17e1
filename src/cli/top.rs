//! `ackline top` and `ackline health`: a running relay as its admin address shows it.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::{Outcome, UsageError};
use crate::bench::admin::Admin;
use crate::net::clock::{monotonic_us, unix_s};
use crate::net::terminal;
use crate::node::number::{real, whole};
use crate::node::secret::SecretText;
use crate::node::small_file::Pipes;
use crate::top::canvas::{Canvas, Sheet, marked};
use crate::top::picture::picture;
use crate::top::reading::Reading;

const EXAMPLES: &str = "\
What an alert would be about, did it last, is red; with NO_COLOR, or where it is no terminal, it has a ! before it. Rates are of \
the time between two looks. What does not fit the terminal is left out, sessions first. The worst sessions have most of their 32 \
slots in use, then the oldest baseline. A relay that goes away is asked again until it is back.

Examples:
  ackline top
  ackline top --admin relay-3.internal:8000 --admin-token-file admin.token --interval 5
  ackline top --once --sessions 0";

const HEALTH_EXAMPLES: &str = "\
For container health checks. Without --ready a relay is well while every shard turns, whether its origin is there or not: what \
restarts unhealthy containers must not do so for lack of an origin. Neither question asks for the admin_token.

Examples:
  ackline health
  ackline health --ready --admin 127.0.0.1:8000";

/// Where the relay's admin is, and what it wants to be shown.
#[derive(clap::Args, Debug)]
struct AdminArgs {
    /// The relay's admin address, host:port
    #[arg(
        long,
        env = "ACKLINE_ADMIN",
        value_name = "ADDR",
        default_value = "127.0.0.1:8000"
    )]
    admin: String,
    /// Its bearer token
    #[arg(
        long,
        env = "ACKLINE_ADMIN_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true
    )]
    admin_token: Option<SecretText>,
    /// File that holds the token, which then no list of processes shows; beats --admin-token
    #[arg(long, value_name = "FILE")]
    admin_token_file: Option<PathBuf>,
}

impl AdminArgs {
    fn admin(&self) -> Result<Admin, UsageError> {
        let token = match &self.admin_token_file {
            None => {
                let token = self.admin_token.clone().unwrap_or_default();
                let fault = |fault| UsageError(format!("--admin-token or ACKLINE_ADMIN_TOKEN: {fault}"));
                token.check().map_err(fault)?;
                token
            }
            Some(file) => SecretText::read(file, Pipes::Awaited)
                .map_err(|fault| UsageError(format!("--admin-token-file {}: {fault}", file.display())))?,
        };
        let admin = Admin {
            addr: self.admin.clone(),
            token,
        };
        let has_port = admin
            .addr
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        if !has_port {
            return Err(UsageError(format!("--admin {}: give host:port", admin.addr)));
        }
        Ok(admin)
    }
}

/// Flags of `top`.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    admin: AdminArgs,
    /// Seconds between two looks
    #[arg(long, value_name = "S", default_value_t = 2.0, value_parser = real(0.2..=3600.0))]
    interval: f64,
    /// Sessions listed at the most
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = whole(0..=1000_usize))]
    sessions: usize,
    /// Prints one picture, of one interval, and ends
    #[arg(long)]
    once: bool,
}

/// Flags of `health`.
#[derive(clap::Args, Debug)]
#[command(after_help = HEALTH_EXAMPLES)]
pub struct HealthArgs {
    #[command(flatten)]
    admin: AdminArgs,
    /// Asks whether it takes new clients, not only whether it lives
    #[arg(long)]
    ready: bool,
}

/// Runs `top`.
///
/// # Errors
/// A wrong flag, or with `--once` a relay that does not answer.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let admin = args.admin.admin()?;
    let interval = Duration::from_secs_f64(args.interval);
    let is_terminal = std::io::stdout().is_terminal();
    let look = || Reading::take(&admin, monotonic_us(), unix_s());
    if args.once {
        let absent = |error: anyhow::Error| {
            error.context(format!("nothing is to be seen of the relay at {}", admin.addr))
        };
        let before = look().map_err(absent)?;
        std::thread::sleep(interval);
        let now = look().map_err(absent)?;
        let canvas = Canvas {
            colours: is_terminal && !wants_no_colour(),
            ..Canvas::default()
        };
        let sheet = headed(&admin.addr, "", &picture(&before, &now, args.sessions));
        say!("{}", canvas.lines(&sheet).join("\n").trim_end());
        return Ok(Outcome::Success);
    }
    let (mut before, mut shown) = (None::<Reading>, Sheet::default());
    let mut heard = Instant::now();
    loop {
        let note = match look() {
            Ok(now) => {
                heard = Instant::now();
                if let Some(before) = &before {
                    shown = picture(before, &now, args.sessions);
                }
                before = Some(now);
                String::new()
            }
            Err(error) => {
                let silent_s = heard.elapsed().as_secs();
                marked(
                    &format!("no answer for {silent_s} s, asked again: {error:#}"),
                    true,
                )
            }
        };
        draw(&headed(&admin.addr, &note, &shown), is_terminal);
        std::thread::sleep(interval);
    }
}

/// As <https://no-color.org> has it: set, and to something.
fn wants_no_colour() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// The picture below a line that says of which relay it is.
fn headed(addr: &str, note: &str, shown: &Sheet) -> Sheet {
    let head = match note {
        "" => format!("ackline top  {addr}"),
        note => format!("ackline top  {addr}  {note}"),
    };
    let mut sheet = shown.clone();
    sheet.status.splice(..0, [head, String::new()]);
    sheet
}

/// Puts the picture over the last one on a terminal, and after it elsewhere.
fn draw(sheet: &Sheet, is_terminal: bool) {
    if !is_terminal {
        say!("{}\n", Canvas::default().lines(sheet).join("\n"));
        return;
    }
    // Asked each time: it may have been resized.
    let (rows, columns) = terminal::size().unzip();
    let canvas = Canvas {
        rows,
        columns,
        colours: !wants_no_colour(),
    };
    // Each line is overwritten to its end and what is below erased, so that nothing flickers; no line ends the last row, or
    // the terminal would scroll.
    let lines: Vec<String> = canvas
        .lines(sheet)
        .iter()
        .map(|line| format!("{line}\x1b[K"))
        .collect();
    let mut out = std::io::stdout().lock();
    let drawn = write!(out, "\x1b[H{}\x1b[J", lines.join("\r\n")).and_then(|()| out.flush());
    if drawn.is_err() {
        // Nobody sees it any more.
        std::process::exit(0);
    }
}

/// Runs `health`.
///
/// # Errors
/// A wrong flag.
pub fn health(args: HealthArgs) -> anyhow::Result<Outcome> {
    let admin = args.admin.admin()?;
    let path = if args.ready { "/ready" } else { "/live" };
    match admin.get(path) {
        Ok(answer) if answer.status == 200 => Ok(Outcome::Success),
        Ok(answer) => {
            complain!(
                "ackline: {}{path}: status {}: {}",
                admin.addr,
                answer.status,
                answer.body.split_whitespace().collect::<Vec<_>>().join(" ")
            );
            Ok(Outcome::Failed)
        }
        Err(error) => {
            complain!("ackline: {}{path}: no answer: {error:#}", admin.addr);
            Ok(Outcome::Failed)
        }
    }
}
