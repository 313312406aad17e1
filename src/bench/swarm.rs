//! Many clients on few threads: each thread polls its own clients' sockets and timers.
//!
//! The timetable is fixed before the first client begins: a ramp, the run, then a time of clean links in which every
//! table must become whole. What a thread does late by its own timers it counts.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam::utils::CachePadded;
use mio::{Events, Interest, Poll, Token};

use super::member::Member;
use super::oracle::{Oracle, OracleCounts};
use super::series::Series;
use super::surroundings::{Surroundings, mix};
use super::tally::Tally;
use super::truth::{TruthFrame, TruthLog};
use super::verdict::SILENCE;
use super::viewer::RenderSettings;
use crate::client::settings::ClientSettings;
use crate::impairment::settings::ImpairmentSettings;
use crate::limits::RECEIVE_SLOT_BYTES;
use crate::net::clock::{monotonic_us, thread_cpu_ns};
use crate::node::minter::Minter;
use crate::state::view::View;
use crate::wire::handshake::Denial;

/// Clean network at the end of every run, microseconds.
pub const CLEAN_US: u64 = 1_500_000;
/// Of that, how long the tables have to become whole, microseconds.
pub const WHOLE_AFTER_US: u64 = 1_000_000;
/// Within this time after that the clients are judged one after the other, microseconds.
const JUDGE_US: u64 = 300_000;
/// Nobody leaves by plan so shortly before the clean time, microseconds.
const CALM_US: u64 = 1_000_000;
/// A timer this much late is an overrun, microseconds.
const OVERRUN_US: u64 = 20_000;
/// At the end the truth may be this far behind what the relay has sent, microseconds.
const TRUTH_LATE_US: u64 = 1_000_000;
/// The longest a thread sleeps.
const NAP_US: u64 = 5_000;
/// Sockets read before timers have their turn.
const READY_MAX: usize = 128;
/// How often a thread tells how it stands, microseconds.
const TELL_US: u64 = 100_000;

/// What a swarm does.
#[derive(Clone, Debug)]
pub struct SwarmSettings {
    /// The relay.
    pub relay: SocketAddr,
    /// How clients begin.
    pub client: ClientSettings,
    /// What mints a token for each session; without one the relay must ask for none.
    pub minter: Option<Minter>,
    /// Number of the first client's player.
    pub players_from: u64,
    /// How many clients.
    pub clients: usize,
    /// Threads.
    pub threads: usize,
    /// Clients that begin in a second.
    pub ramp_per_s: f64,
    /// Clients that leave, and are replaced, in a second.
    pub churn_per_s: f64,
    /// The run, clean time not included, microseconds.
    pub run_us: u64,
    /// Relay to client.
    pub down: ImpairmentSettings,
    /// Client to relay.
    pub up: ImpairmentSettings,
    /// Seed of everything random.
    pub seed: u64,
    /// Inputs each client pushes in a second.
    pub input_hz: f64,
    /// What each client draws; `None` for nothing.
    pub render: Option<RenderSettings>,
    /// The view that every client must have been given, where it is known.
    pub view: Option<View>,
    /// Clients of each thread whose entities are watched for how long they wait.
    pub watched: usize,
    /// Each client has a loopback address of its own.
    pub apart: bool,
}

/// How one thread stands now; read by whoever shows it.
#[derive(Debug, Default)]
pub struct Live {
    /// Clients that hold a snapshot.
    pub joined: AtomicU64,
    /// Clients whose view was complete.
    pub complete: AtomicU64,
    /// Attempts that were denied for their token, or for having none.
    pub denied: AtomicU64,
    /// Attempts and sessions that ended because somebody said so, as a full relay does.
    pub answered: AtomicU64,
    /// Datagrams received.
    pub packets: AtomicU64,
    /// Bytes received.
    pub bytes: AtomicU64,
    /// Records compared.
    pub records: AtomicU64,
    /// Mismatches.
    pub mismatches: AtomicU64,
    /// Processor time, nanoseconds.
    pub cpu_ns: AtomicU64,
    /// The thread is to end before its time.
    pub stop: AtomicBool,
}

/// What one thread came to.
#[derive(Debug, Default)]
pub struct ThreadResult {
    /// Its counts.
    pub tally: Tally,
    /// Its oracle's counts.
    pub oracle: OracleCounts,
    /// Processor time as a share of the time that passed, between the ramp and the clean time.
    pub cpu_share: f64,
}

/// A running swarm.
pub struct Swarm {
    threads: Vec<JoinHandle<io::Result<ThreadResult>>>,
    live: Vec<Arc<CachePadded<Live>>>,
    /// When the first client begins, on this host's monotonic clock.
    pub start_us: u64,
    /// When the links become clean.
    pub clean_us: u64,
    /// When it ends.
    pub end_us: u64,
}

impl Swarm {
    /// Starts the threads; the first client begins a moment later. Without a `log` nothing is judged.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn start(settings: &SwarmSettings, log: Option<&Arc<TruthLog>>) -> io::Result<Swarm> {
        let start_us = monotonic_us() + 20_000;
        let clean_us = start_us + settings.run_us;
        let mut swarm = Swarm {
            threads: Vec::new(),
            live: Vec::new(),
            start_us,
            clean_us,
            end_us: clean_us + CLEAN_US,
        };
        for index in 0..settings.threads {
            let live = Arc::new(CachePadded::new(Live::default()));
            let table = Timetable {
                start_us,
                clean_us,
                end_us: swarm.end_us,
            };
            let (settings, log, told) = (settings.clone(), log.cloned(), Arc::clone(&live));
            let thread = std::thread::Builder::new()
                .name(format!("bench-{index}"))
                .spawn(move || Runner::new(&settings, index, table, log, told)?.run())?;
            swarm.threads.push(thread);
            swarm.live.push(live);
        }
        Ok(swarm)
    }

    /// How each thread stands.
    pub fn live(&self) -> impl Iterator<Item = &Live> {
        self.live.iter().map(|live| &***live)
    }

    /// Ends the threads before their time; they come to what they have come to.
    pub fn stop(&self) {
        self.live()
            .for_each(|live| live.stop.store(true, Ordering::Relaxed));
    }

    /// True when a thread has ended, as planned or not.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Waits for the end: what each thread came to.
    ///
    /// # Errors
    /// When a thread had no socket or could not poll.
    pub fn join(self) -> io::Result<Vec<ThreadResult>> {
        let joined = self.threads.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a thread of the bench panicked")))
        });
        joined.collect()
    }
}

#[derive(Clone, Copy)]
struct Timetable {
    start_us: u64,
    clean_us: u64,
    end_us: u64,
}

/// One thread's clients.
struct Runner {
    poll: Poll,
    table: Timetable,
    members: Vec<Member>,
    /// When each member needs a turn.
    due_us: Vec<u64>,
    around: Surroundings,
    live: Arc<CachePadded<Live>>,
    churn_every_us: f64,
    churn_at_us: f64,
    random: u64,
    told_us: u64,
    cleaned: bool,
    settled_us: u64,
    cpu_from: (u64, u64),
    cpu_until: Option<(u64, u64)>,
}

impl Runner {
    fn new(
        settings: &SwarmSettings,
        thread: usize,
        table: Timetable,
        log: Option<Arc<TruthLog>>,
        live: Arc<CachePadded<Live>>,
    ) -> io::Result<Runner> {
        let oracle = Oracle::new(log);
        // Every field by name: one that is forgotten does not compile.
        let around = Surroundings {
            relay: settings.relay,
            settings: settings.client.clone(),
            apart: settings.apart,
            players_from: settings.players_from,
            minter: settings.minter.clone(),
            clean_us: table.clean_us,
            input_hz: settings.input_hz,
            render: settings.render,
            view: settings.view,
            oracle,
            tally: Tally::default(),
            random: ring::rand::SystemRandom::new(),
            buffer: vec![0; RECEIVE_SLOT_BYTES],
            datagram: Vec::with_capacity(RECEIVE_SLOT_BYTES),
        };
        let links =
            (!settings.down.is_clean() || !settings.up.is_clean()).then_some((settings.down, settings.up));
        let mut members = Vec::new();
        for index in (thread..settings.clients).step_by(settings.threads) {
            let start_us = table.start_us + micros(index as f64 / settings.ramp_per_s);
            let (seed, watched) = (
                mix(settings.seed ^ mix(index as u64)),
                members.len() < settings.watched,
            );
            let number = u32::try_from(index).unwrap_or(u32::MAX);
            members.push(Member::new(number, seed, start_us, watched, links, &around)?);
        }
        let churn_every_us = settings.threads as f64 * 1e6 / settings.churn_per_s;
        let ramp_us = micros(settings.clients as f64 / settings.ramp_per_s);
        Ok(Runner {
            poll: Poll::new()?,
            table,
            due_us: members
                .iter()
                .map(|member| member.due_us(table.clean_us))
                .collect(),
            members,
            around,
            live,
            churn_every_us,
            churn_at_us: (table.start_us + ramp_us) as f64 + churn_every_us,
            random: mix(settings.seed ^ thread as u64),
            told_us: 0,
            cleaned: false,
            settled_us: (table.start_us + ramp_us).min(table.clean_us),
            cpu_from: (monotonic_us(), thread_cpu_ns()),
            cpu_until: None,
        })
    }

    fn run(mut self) -> io::Result<ThreadResult> {
        let mut events = Events::with_capacity(READY_MAX);
        let mut again: Vec<usize> = Vec::new();
        for index in 0..self.members.len() {
            self.register(index)?;
        }
        loop {
            let now_us = monotonic_us();
            if now_us >= self.table.end_us || self.live.stop.load(Ordering::Relaxed) {
                return Ok(self.finish(now_us));
            }
            let next_us = self.due_us.iter().copied().min().unwrap_or(u64::MAX);
            let nap_us = if again.is_empty() {
                next_us.saturating_sub(now_us).min(NAP_US)
            } else {
                0
            };
            match self.poll.poll(&mut events, Some(Duration::from_micros(nap_us))) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            let now_us = monotonic_us();
            self.around.oracle.refresh(now_us, &mut self.around.tally.series);
            for index in core::mem::take(&mut again) {
                self.read(index, now_us, &mut again);
            }
            for event in &events {
                self.read(event.token().0, monotonic_us(), &mut again);
            }
            self.take_turns()?;
            self.keep_timetable()?;
        }
    }

    fn register(&mut self, index: usize) -> io::Result<()> {
        let Some(member) = self.members.get_mut(index) else {
            return Ok(());
        };
        match member.new_socket() {
            Some(socket) => self
                .poll
                .registry()
                .register(socket, Token(index), Interest::READABLE),
            None => Ok(()),
        }
    }

    fn read(&mut self, index: usize, now_us: u64, again: &mut Vec<usize>) {
        let (Some(member), Some(due_us)) = (self.members.get_mut(index), self.due_us.get_mut(index)) else {
            return;
        };
        if member.readable(now_us, &mut self.around) {
            again.push(index);
        }
        *due_us = member.due_us(self.table.clean_us);
    }

    /// Gives a turn to every member whose time has come.
    fn take_turns(&mut self) -> io::Result<()> {
        let now_us = monotonic_us();
        for index in 0..self.due_us.len() {
            let Some(due_us) = self.due_us.get_mut(index).filter(|due_us| **due_us <= now_us) else {
                continue;
            };
            let late_us = now_us - *due_us;
            let Some(member) = self.members.get_mut(index) else {
                continue;
            };
            let tally = &mut self.around.tally;
            tally.series.record(Series::BenchLate, late_us);
            tally.overruns += u64::from(late_us > OVERRUN_US);
            member.turn(now_us, &mut self.around);
            *due_us = member.due_us(self.table.clean_us);
            self.register(index)?;
        }
        Ok(())
    }

    /// What the timetable says: churn, the clean time, the judging.
    fn keep_timetable(&mut self) -> io::Result<()> {
        let now_us = monotonic_us();
        if self.cpu_until.is_none() && now_us < self.settled_us {
            self.cpu_from = (now_us, thread_cpu_ns());
        }
        while (self.churn_at_us as u64) <= now_us && now_us + CALM_US < self.table.clean_us {
            self.churn_at_us += self.churn_every_us;
            self.random = mix(self.random);
            let index = usize::try_from(self.random % self.members.len().max(1) as u64).unwrap_or(0);
            if let Some(member) = self.members.get_mut(index) {
                member.leave(now_us, &mut self.around);
                self.due_us[index] = member.due_us(self.table.clean_us);
            }
            self.register(index)?;
        }
        if now_us >= self.table.clean_us && !self.cleaned {
            self.cleaned = true;
            self.around.tally.received_in_run = self.around.tally.received;
            self.cpu_until = Some((now_us, thread_cpu_ns()));
            self.members.iter_mut().for_each(Member::clean);
        }
        if now_us >= self.table.clean_us + WHOLE_AFTER_US {
            self.judge(now_us);
        }
        if now_us >= self.told_us + TELL_US {
            self.told_us = now_us;
            self.tell();
        }
        Ok(())
    }

    /// Judges the members one after the other, those that were not whole again each time.
    fn judge(&mut self, now_us: u64) {
        let passed_us = now_us - self.table.clean_us - WHOLE_AFTER_US;
        let turn = self.members.len() as u64 * passed_us / JUDGE_US;
        let turn = usize::try_from(turn).unwrap_or(usize::MAX).saturating_add(1);
        for member in self.members.iter_mut().take(turn) {
            member.check_end(&mut self.around.oracle);
        }
    }

    fn tell(&self) {
        let (live, tally, oracle) = (&self.live, &self.around.tally, self.around.oracle.counts());
        let count = |is: fn(&Member) -> bool| self.members.iter().filter(|member| is(member)).count() as u64;
        live.joined.store(count(Member::is_joined), Ordering::Relaxed);
        live.complete.store(count(Member::is_complete), Ordering::Relaxed);
        let denied = tally.endings.get(Denial::Token.label()).copied();
        live.denied.store(denied.unwrap_or(0), Ordering::Relaxed);
        let endings = tally.endings.iter();
        let said = endings.filter(|(reason, _)| !SILENCE.contains(reason));
        live.answered
            .store(said.map(|(_, count)| *count).sum(), Ordering::Relaxed);
        live.packets.store(tally.received, Ordering::Relaxed);
        live.bytes.store(tally.bytes, Ordering::Relaxed);
        live.records.store(oracle.records_checked, Ordering::Relaxed);
        live.mismatches.store(oracle.mismatches, Ordering::Relaxed);
        live.cpu_ns.store(thread_cpu_ns(), Ordering::Relaxed);
    }

    /// Waits for the truth of what came last: on a busy host it may be behind the relay.
    fn wait_for_truth(&mut self) {
        let shown_us = self.members.iter().filter_map(Member::newest_us).max();
        let begun_us = monotonic_us();
        while monotonic_us() < begun_us + TRUTH_LATE_US {
            let tally = &mut self.around.tally;
            self.around.oracle.refresh(monotonic_us(), &mut tally.series);
            let known_us = self.around.oracle.reader().newest().map(TruthFrame::server_us);
            if self.around.oracle.is_blind() || known_us > shown_us {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn finish(mut self, now_us: u64) -> ThreadResult {
        self.wait_for_truth();
        self.around.oracle.refresh(now_us, &mut self.around.tally.series);
        for member in &mut self.members {
            member.check_end(&mut self.around.oracle);
            member.finish(now_us, &mut self.around);
        }
        self.around.oracle.finish();
        self.tell();
        let (until_us, cpu_ns) = self.cpu_until.unwrap_or((now_us, thread_cpu_ns()));
        let passed_us = until_us.saturating_sub(self.cpu_from.0).max(1);
        let cpu_share = cpu_ns.saturating_sub(self.cpu_from.1) as f64 / 1000.0 / passed_us as f64;
        ThreadResult {
            tally: self.around.tally,
            oracle: self.around.oracle.counts().clone(),
            cpu_share,
        }
    }
}

/// Seconds as microseconds; infinity is 0, so an unbounded rate begins at once.
fn micros(seconds: f64) -> u64 {
    if seconds.is_finite() {
        (seconds * 1e6) as u64
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::net::{IpAddr, UdpSocket};

    /// Beside an attack each client is a host of its own to the relay, which limits what one host may do: else bystanders are
    /// shut out by one another.
    #[test]
    fn clients_that_are_apart_come_from_addresses_of_their_own() {
        for apart in [true, false] {
            let relay = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            relay
                .set_read_timeout(Some(Duration::from_secs(5)))
                .expect("a limit");
            let settings = SwarmSettings {
                relay: relay.local_addr().expect("an address"),
                client: ClientSettings::default(),
                minter: None,
                players_from: 1,
                clients: 3,
                threads: 1,
                ramp_per_s: 1_000.0,
                churn_per_s: 0.0,
                run_us: 0,
                down: ImpairmentSettings::default(),
                up: ImpairmentSettings::default(),
                seed: 1,
                input_hz: 0.0,
                render: None,
                view: None,
                watched: 0,
                apart,
            };
            let swarm = Swarm::start(&settings, None).expect("a swarm");
            let mut from = BTreeSet::new();
            let mut buffer = [0; 2_048];
            let mut sources = BTreeSet::new();
            while sources.len() < 3 {
                let (_, source) = relay.recv_from(&mut buffer).expect("a Request");
                sources.insert(source);
                from.insert(source.ip());
            }
            let own = |last| IpAddr::from([127, 1, 0, last]);
            let expected = match apart {
                true => vec![own(1), own(2), own(3)],
                false => vec![IpAddr::from([127, 0, 0, 1])],
            };
            assert_eq!(from.into_iter().collect::<Vec<_>>(), expected);
            swarm.join().expect("sockets");
        }
    }
}
