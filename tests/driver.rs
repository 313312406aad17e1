//! The driver against relays and an origin as processes, on loopback: restart, drain, silence, pauses, another address. At
//! every turn the display it shows is whole, or was never there (SPEC OPS2, OPS4, PLY7; FAULTS 79, 82, 83, 87, 89).
#![cfg(all(feature = "node", feature = "scenes"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod rig;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ackline::client::inbox::Ending;
use ackline::driver::settings::DriverSettings;
use ackline::driver::{Driver, DriverEvent};
use ackline::wire::payload::CloseReason;
use rig::process::{Process, free_tcp, free_udp, origin, relay};
use rig::{LONG, Truth};

/// Within which the driver shows the truth again.
const AGAIN: Duration = Duration::from_secs(3);

/// One test at a time: each has processes of its own, and times what they do.
static ALONE: Mutex<()> = Mutex::new(());

/// An origin, a driver, and the truth beside it.
struct Game {
    upstream: String,
    _origin: Process,
    truth: Truth,
    driver: Driver,
    /// The clock of the driver: microseconds, and what is taken off it.
    begun: Instant,
    stood_us: u64,
    /// All that it told, but for the client's own events.
    told: Vec<DriverEvent>,
    /// It has shown something; from then on it is never blank.
    shown: bool,
    _alone: MutexGuard<'static, ()>,
}

impl Game {
    fn new(relays: &[&str]) -> Game {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let upstream = free_tcp();
        let relays = relays.iter().map(|relay| relay.parse().unwrap()).collect();
        Game {
            _origin: origin(&upstream),
            truth: Truth::new(&upstream),
            upstream,
            driver: Driver::new(DriverSettings::new(relays), 0).unwrap(),
            begun: Instant::now(),
            stood_us: 0,
            told: Vec::new(),
            shown: false,
            _alone: alone,
        }
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).unwrap() - self.stood_us
    }

    fn turn(&mut self) {
        self.truth.turn();
        self.driver.poll(self.now_us());
        while let Some(event) = self.driver.poll_event() {
            if !matches!(event, DriverEvent::Client(_)) {
                self.told.push(event);
            }
        }
        let live = self.driver.client().display().live();
        assert!(live > 0 || !self.shown, "the picture went blank: {:?}", self.told);
        self.shown |= live > 0;
    }

    fn until(&mut self, what: &str, done: impl Fn(&Game) -> bool) -> Duration {
        let begun = Instant::now();
        loop {
            self.turn();
            if done(self) {
                println!("{what}: {:?}", begun.elapsed());
                return begun.elapsed();
            }
            assert!(
                begun.elapsed() < LONG,
                "{what}: {:?} {:?}",
                self.told,
                self.driver.counts()
            );
            std::thread::sleep(Duration::from_millis(4));
        }
    }

    fn turn_for(&mut self, time: Duration) {
        let begun = Instant::now();
        self.until("some time", |_| begun.elapsed() >= time);
    }

    fn is_true(&self) -> bool {
        self.driver.is_live() && self.truth.is_shown_by(self.driver.client())
    }

    fn sessions(&self) -> u64 {
        self.driver.counts().sessions
    }

    /// Joins, and says so once.
    fn join(&mut self) {
        self.until("joining", Game::is_true);
        assert_eq!(self.sessions(), 1, "{:?}", self.told);
    }
}

/// SPEC OPS2, FAULTS 83: a relay that is killed and started again costs no blank picture, and a session later the truth
/// is shown.
#[test]
fn faults_83_a_restarted_relay_costs_no_blank_picture() {
    let listen = free_udp();
    let mut game = Game::new(&[&listen]);
    let first = relay(&game.upstream, &listen);
    game.join();
    assert_eq!(game.driver.push_input(b"left"), Ok(1));
    first.kill();
    game.turn_for(Duration::from_millis(1_500));
    assert!(!game.driver.is_live() && game.told.contains(&DriverEvent::Silent));
    assert!(
        game.driver.socket_counts().refused > 0,
        "{:?}",
        game.driver.socket_counts()
    );
    let _second = relay(&game.upstream, &listen);
    let again = game.until("after the restart", |game| game.sessions() == 2 && game.is_true());
    assert!(again <= AGAIN, "{again:?}");
    assert_eq!(
        game.driver.push_input(b"right"),
        Ok(1),
        "inputs are numbered anew"
    );
    let input = |game: &Game| game.driver.client().statistics().inputs_acknowledged == 1;
    game.until("the input", input);
    game.driver.leave(game.now_us());
    game.until("leaving", |game| {
        game.told.contains(&DriverEvent::Over(Ending::Left))
    });
}

/// SPEC OPS4: a relay that drains says so, and the next of the list takes over, without a blank picture.
#[test]
fn ops4_a_drain_is_a_redirect() {
    let (one, other) = (free_udp(), free_udp());
    let mut game = Game::new(&[&one, &other]);
    let first = relay(&game.upstream, &one);
    game.join();
    assert_eq!(game.driver.relay().to_string(), one);
    let _second = relay(&game.upstream, &other);
    std::thread::sleep(Duration::from_millis(300));
    first.signal("TERM");
    let again = game.until("after the drain", |game| game.sessions() == 2 && game.is_true());
    assert!(again <= AGAIN, "{again:?}");
    assert_eq!(game.driver.relay().to_string(), other);
    let drained = Ending::Relay(CloseReason::Draining);
    assert!(!game.told.contains(&DriverEvent::Over(drained)));
    assert_eq!(
        (game.driver.counts().redirects, game.driver.counts().silences),
        (1, 0)
    );
}

/// FAULTS 82, 44: a relay that is not there is asked again, and others are asked too.
#[test]
fn faults_44_82_a_relay_that_is_not_there_yet_is_asked_again() {
    let (dead, late) = (free_udp(), free_udp());
    let mut game = Game::new(&[&dead, &late]);
    game.turn_for(Duration::from_millis(4_500));
    assert!(
        game.driver.counts().failed >= 1 && game.sessions() == 0,
        "{:?}",
        game.told
    );
    let _relay = relay(&game.upstream, &late);
    let joined = game.until("joining the second of two", Game::is_true);
    // At worst the dead one is asked once more before.
    assert!(joined <= AGAIN + Duration::from_secs(5), "{joined:?}");
    assert_eq!(game.driver.relay().to_string(), late);
}

/// A session goes on from another address: the relay knows it by its id.
#[test]
fn faults_50_a_new_socket_keeps_the_session() {
    let listen = free_udp();
    let mut game = Game::new(&[&listen]);
    let _relay = relay(&game.upstream, &listen);
    game.join();
    for _ in 0..5 {
        let before = (game.driver.local(), game.driver.client().newest().unwrap().id);
        game.driver.rebind(game.now_us());
        assert_ne!(game.driver.local(), before.0);
        game.turn_for(Duration::from_millis(300));
        let newest = game.driver.client().newest().unwrap().id;
        assert!(newest.since(before.1) >= 5, "{newest} {}", before.1);
    }
    game.until("after five new sockets", Game::is_true);
    let counts = game.driver.counts();
    assert_eq!((counts.sessions, counts.rebinds, counts.silences), (1, 5, 0));
}

/// FAULTS 87: a way that is dead for seconds is no end: the session is there still, or another is.
#[test]
fn faults_87_an_outage_of_seconds_ends_nothing() {
    let listen = free_udp();
    let mut game = Game::new(&[&listen]);
    let relay = relay(&game.upstream, &listen);
    game.join();
    for outage_ms in [1_200, 3_000] {
        relay.signal("STOP");
        game.turn_for(Duration::from_millis(outage_ms));
        assert!(!game.driver.is_live());
        relay.signal("CONT");
        let again = game.until("after the outage", Game::is_true);
        assert!(again <= AGAIN, "{again:?}");
    }
    assert_eq!(game.driver.counts().silences, 2);
    // A second session that was let in before the first was heard again is shown once its view is whole.
    game.until("what was asked for meanwhile is spared or shown", |game| {
        let counts = game.driver.counts();
        counts.spared + counts.sessions == 3
    });
}

/// FAULTS 79: a game that did not poll for seconds shows the present soon, and takes no more than its socket held.
#[test]
fn faults_79_a_game_that_paused_shows_the_present_at_once() {
    let listen = free_udp();
    let mut game = Game::new(&[&listen]);
    let _relay = relay(&game.upstream, &listen);
    game.join();
    let before = game.driver.client().statistics().datagrams_received;
    std::thread::sleep(Duration::from_secs(4));
    let again = game.until("after the pause", Game::is_true);
    assert!(again <= Duration::from_secs(1), "{again:?}");
    let taken = game.driver.client().statistics().datagrams_received - before;
    assert!(taken < 1_000, "{taken}");
    assert_eq!(
        (game.sessions(), game.driver.counts().silences),
        (1, 0),
        "{:?}",
        game.told
    );
}

/// FAULTS 89: a host that slept while its clock stood still, and whose session is gone: a new one within two seconds of its
/// own clock.
#[test]
fn faults_89_a_clock_that_stood_still_is_noticed_by_silence() {
    let listen = free_udp();
    let mut game = Game::new(&[&listen]);
    let first = relay(&game.upstream, &listen);
    game.join();
    // Asleep: neither polls nor clock. Meanwhile the relay forgets the session.
    let asleep = Instant::now();
    first.kill();
    let _second = relay(&game.upstream, &listen);
    std::thread::sleep(Duration::from_secs(4));
    game.stood_us += u64::try_from(asleep.elapsed().as_micros()).unwrap();
    let again = game.until("after the sleep", |game| game.sessions() == 2 && game.is_true());
    assert!(again <= Duration::from_secs(2), "{again:?}");
}
