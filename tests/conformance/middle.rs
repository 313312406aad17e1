//! A man in the middle: relay to a client, client to a relay's shard. He opens and logs what goes by, loses and
//! delays it, and now and then hands the client a damaged payload before the good one.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use ackline::client::session::{Client, Received, SessionState};
use ackline::client::settings::ClientSettings;
use ackline::relay::budget::Budget;
use ackline::relay::outbox::{MemoryOutbox, Path};
use ackline::relay::shard::{Shard, ShardSettings};
use ackline::state::Frame;
use ackline::state::player::PlayerId;
use ackline::wire::bytes::{ByteReader, ByteWriter};
use ackline::wire::handshake::{
    DOWN_HEADER_BYTES, DatagramKind, UP_HEADER_BYTES, WELCOME_HEADER_BYTES, WelcomeHeader,
    put_welcome_header, read_welcome_header,
};
use ackline::wire::payload::{INPUTS, PADDING, PATH_ANSWER, REPORT};
use ackline::wire::report::Report;
use ackline::wire::seal::{Direction, INSECURE_TOKEN_KEY, Opener, Sealer, Secrets};
use ackline::wire::stream::StreamReceiver;
use ackline::wire::version::{Agreed, Versions};

use crate::corpus::{Corpus, shown, tables};
use crate::damage::{Damage, Scene};
use crate::dice::Dice;
use crate::payload::Payload;

/// Losses and delays of one direction. Chances are thousandths.
#[derive(Clone, Copy)]
pub struct Weather {
    pub loss: u64,
    pub delay_us: u64,
    /// Added delay, at most: what is sent later may overtake.
    pub jitter_us: u64,
    /// Of a 20 ms step to begin a time in which nothing gets through.
    pub blackout: u64,
    pub blackout_us: u64,
}

struct Link {
    weather: Weather,
    dark_until_us: u64,
    flying: BTreeMap<(u64, u64), Vec<u8>>,
    count: u64,
}

impl Link {
    fn new(weather: Weather) -> Link {
        Link {
            weather,
            dark_until_us: 0,
            flying: BTreeMap::new(),
            count: 0,
        }
    }

    fn step(&mut self, now_us: u64, dice: &mut Dice) {
        if dice.chance(self.weather.blackout) {
            self.dark_until_us = now_us + dice.below(self.weather.blackout_us);
        }
    }

    fn send(&mut self, now_us: u64, payload: &[u8], dice: &mut Dice) {
        if now_us < self.dark_until_us || dice.chance(self.weather.loss) {
            return;
        }
        self.count += 1;
        let arrives = now_us + self.weather.delay_us + dice.below(self.weather.jitter_us + 1);
        self.flying.insert((arrives, self.count), payload.to_vec());
    }

    fn arrived(&mut self, now_us: u64) -> Option<Vec<u8>> {
        let (key, _) = self
            .flying
            .first_key_value()
            .filter(|((arrives, _), _)| *arrives <= now_us)?;
        let key = *key;
        self.flying.remove(&key)
    }
}

/// Keys towards one side.
struct Keys {
    opener: Opener,
    sealer: Sealer,
    header: WelcomeHeader,
}

impl Keys {
    fn new(header: WelcomeHeader, opens: Direction, seals: Direction) -> Keys {
        let secrets = Secrets {
            token_key: INSECURE_TOKEN_KEY,
            client_nonce: header.client_nonce,
            relay_nonce: header.relay_nonce,
            connection: header.connection,
            agreed: Agreed::NEWEST,
        };
        let (opener, sealer) = (secrets.opener(opens).unwrap(), secrets.sealer(seals).unwrap());
        Keys {
            opener,
            sealer,
            header,
        }
    }

    fn open(&mut self, datagram: &mut [u8], header_bytes: usize) -> Vec<u8> {
        let (header, sealed) = datagram.split_at_mut(header_bytes);
        let low = u32::from_le_bytes(header[header_bytes - 4..].try_into().unwrap());
        self.opener.open(low, header, sealed).unwrap().1.to_vec()
    }

    fn seal(&mut self, payload: &[u8], header: impl FnOnce(&mut Vec<u8>, u32)) -> Vec<u8> {
        let number = self.sealer.reserve().unwrap();
        let mut datagram = Vec::new();
        header(&mut datagram, u32::try_from(number).unwrap());
        let length = datagram.len();
        datagram.extend_from_slice(payload);
        let (header, sealed) = datagram.split_at_mut(length);
        let tag = self.sealer.seal(number, header, sealed).unwrap();
        datagram.extend(tag);
        datagram
    }
}

pub struct Middle<'a> {
    pub shard: Shard,
    pub client: Client,
    pub now_us: u64,
    pub dice: Dice,
    pub corpus: &'a mut Corpus,
    pub damage: &'a mut Damage,
    /// Thousandths of payloads before which a damaged one is put in.
    pub injections: u64,
    /// An injected payload was accepted: what the client knows may differ from the truth.
    pub misled: bool,
    /// The client's game asks for a full state with the next report.
    pub wants_full_state: bool,
    path: Path,
    to_relay: Option<Keys>,
    to_client: Option<Keys>,
    down: Link,
    up: Link,
    /// Ids of snapshots that the client has reported.
    reported: HashSet<u32>,
    messages: StreamReceiver,
    received: Vec<Vec<u8>>,
    untold: bool,
    schema_bytes: Vec<u8>,
    /// The payload that the client took last.
    taken: Vec<u8>,
    hazard_us: u64,
}

impl<'a> Middle<'a> {
    pub fn new(
        corpus: &'a mut Corpus,
        damage: &'a mut Damage,
        mut dice: Dice,
        weather: [Weather; 2],
        budget: Budget,
        hold_back_us: u64,
    ) -> Middle<'a> {
        let mut nonce = [0; 16];
        nonce.iter_mut().for_each(|byte| *byte = dice.byte());
        let now_us = 1_000_000 + dice.below(1 << 40);
        let settings = ShardSettings {
            egress_bytes_per_s: None,
            view: ackline::state::view::View::WHOLE,
            index: 0,
            sessions_max: 4,
            budget,
            gate: None,
            versions: Versions::SPOKEN,
            limits: Default::default(),
            cookie_secret: [1; 32],
            seed: [dice.byte(); 32],
            stopwatch: || 0,
        };
        let client = ClientSettings {
            hold_back_us,
            ..ClientSettings::default()
        };
        Middle {
            shard: Shard::new(settings),
            client: Client::new(client, nonce, now_us),
            now_us,
            dice,
            corpus,
            damage,
            injections: 0,
            misled: false,
            wants_full_state: false,
            path: Path {
                remote: SocketAddr::from(([127, 0, 0, 1], 40_000)),
                local: None,
            },
            to_relay: None,
            to_client: None,
            down: Link::new(weather[0]),
            up: Link::new(weather[1]),
            reported: HashSet::new(),
            messages: StreamReceiver::default(),
            received: Vec::new(),
            untold: false,
            schema_bytes: Vec::new(),
            taken: Vec::new(),
            hazard_us: 0,
        }
    }

    /// Who the client is to the relay, once it is anybody.
    pub fn player(&self) -> Option<PlayerId> {
        self.to_relay.as_ref().map(|keys| keys.header.connection)
    }

    pub fn is_over(&self) -> bool {
        matches!(self.client.state(), SessionState::Closed(_))
    }

    /// From now on nothing is lost.
    pub fn clear_up(&mut self) {
        for link in [&mut self.down, &mut self.up] {
            (link.weather.loss, link.weather.blackout, link.dark_until_us) = (0, 0, 0);
        }
        self.injections = 0;
    }

    pub fn publish(&mut self, frame: Arc<Frame>, schema_bytes: &[u8]) {
        self.schema_bytes = schema_bytes.to_vec();
        self.shard.publish(frame, schema_bytes);
        let mut outbox = MemoryOutbox::default();
        assert!(!self.shard.transmit(self.now_us, &mut outbox));
        self.pass_down(outbox);
    }

    /// What is due every 20 ms.
    pub fn timers(&mut self) {
        self.down.step(self.now_us, &mut self.dice);
        self.up.step(self.now_us, &mut self.dice);
        if self.dice.chance(100) && self.client.push_input(&[self.dice.byte()]).is_ok() {
            self.corpus.input();
        }
        let mut outbox = MemoryOutbox::default();
        self.shard.timers(self.now_us, &mut outbox);
        self.pass_down(outbox);
    }

    /// Everything that is due now.
    pub fn step(&mut self) {
        while let Some(payload) = self.down.arrived(self.now_us) {
            self.deliver_down(&payload);
        }
        while let Some(payload) = self.up.arrived(self.now_us) {
            self.deliver_up(&payload);
        }
        if self.wants_full_state && self.client.next_timer() <= self.now_us {
            // Here, where a report follows at once, so that the corpus says when.
            self.client.request_full_state(self.now_us);
            self.wants_full_state = false;
        }
        self.pass_up();
        while self.client.poll_event().is_some() {}
    }

    fn pass_down(&mut self, outbox: MemoryOutbox) {
        for (_, mut datagram) in outbox.sent {
            let kind = DatagramKind::from_byte(datagram[0]).unwrap();
            let header_bytes = match kind {
                DatagramKind::Welcome => WELCOME_HEADER_BYTES,
                DatagramKind::Down => DOWN_HEADER_BYTES,
                _ => {
                    self.client.receive(self.now_us, &mut datagram);
                    continue;
                }
            };
            if kind == DatagramKind::Welcome && self.to_relay.is_none() {
                let mut header = read_welcome_header(&mut ByteReader::new(&datagram)).unwrap();
                self.to_relay = Some(Keys::new(header, Direction::Down, Direction::Up));
                // His own session with the client: other keys.
                header.connection ^= 0x5EED << 40;
                header.relay_nonce.iter_mut().for_each(|byte| *byte ^= 0x55);
                self.to_client = Some(Keys::new(header, Direction::Up, Direction::Down));
            }
            let payload = self.to_relay.as_mut().unwrap().open(&mut datagram, header_bytes);
            self.down.send(self.now_us, &payload, &mut self.dice);
        }
    }

    fn deliver_up(&mut self, payload: &[u8]) {
        let keys = self.to_relay.as_mut().unwrap();
        let connection = keys.header.connection;
        let mut datagram = keys.seal(payload, |out, number| {
            out.put_u8(DatagramKind::Up as u8);
            out.put_u64(connection);
            out.put_u32(number);
        });
        let mut outbox = MemoryOutbox::default();
        self.shard
            .receive(self.now_us, self.path, &mut datagram, &mut outbox);
        self.pass_down(outbox);
    }

    fn pass_up(&mut self) {
        let mut datagram = Vec::new();
        while self.client.poll_transmit(self.now_us, &mut datagram) {
            if datagram[0] == DatagramKind::Up as u8 {
                let keys = self.to_client.as_mut().unwrap();
                let payload = keys.open(&mut datagram, UP_HEADER_BYTES);
                self.note_report(&payload);
                self.up.send(self.now_us, &payload, &mut self.dice);
            } else {
                let mut outbox = MemoryOutbox::default();
                self.shard
                    .receive(self.now_us, self.path, &mut datagram, &mut outbox);
                self.pass_down(outbox);
            }
        }
    }

    /// Logs a report: what it lists, and what is held and was held back.
    fn note_report(&mut self, payload: &[u8]) {
        assert_eq!(payload[0] & !(INPUTS | PATH_ANSWER | PADDING), REPORT);
        let mut report = Report::default();
        report.decode_into(&mut ByteReader::new(&payload[1..])).unwrap();
        let listed = report.held.as_slice();
        self.reported.extend(listed.iter().map(|held| held.id.0));
        let unlisted = self.client.tables().map(|(held, _)| held.id);
        let hold_back: Vec<u32> = unlisted
            .filter(|id| listed.iter().all(|held| held.id != *id))
            .map(|id| id.0)
            .collect();
        assert!(hold_back.len() <= 8, "only the newest few snapshots wait");
        assert_eq!(report.next_message, self.messages.next(), "messages");
        self.corpus.report(&report, &hold_back);
    }

    fn deliver_down(&mut self, payload: &[u8]) {
        let connected = self.client.state() == SessionState::Connected;
        if self.is_over() || (!connected && Payload::read(payload).welcome.is_none()) {
            // What overtakes the welcome cannot be opened yet.
            return;
        }
        if self.dice.chance(self.injections) {
            self.inject(payload);
        }
        self.offer(payload);
        if self.untold && self.dice.chance(400) {
            self.tell_messages();
        }
    }

    /// Logs the messages that came in order.
    pub fn tell_messages(&mut self) {
        self.untold = false;
        let received = std::mem::take(&mut self.received);
        self.corpus.messages(self.messages.next(), &received);
    }

    /// Hands the client a payload made from a good one.
    fn inject(&mut self, payload: &[u8]) {
        let scene = Scene {
            client: &self.client,
            reported: &self.reported,
            schema_bytes: &self.schema_bytes,
            taken: &self.taken,
            hazards: self.client.refusing().is_none() && self.now_us - self.hazard_us > 3_000_000,
        };
        let Some(shot) = self.damage.next(&scene, &Payload::read(payload), &mut self.dice) else {
            return;
        };
        let before = (tables(&self.client), shown(&self.client));
        let refusal = self.offer(&shot.payload);
        if shot.hazard {
            self.hazard_us = self.now_us;
        }
        let (refused, accepted) = self.corpus.injected.entry(shot.name).or_default();
        if refusal.is_some() {
            *refused += 1;
            self.corpus.negatives.insert(shot.payload);
            let after = (tables(&self.client), shown(&self.client));
            assert!(
                before == after,
                "{}: a refused payload changed what is held or shown",
                shot.name
            );
        } else {
            *accepted += 1;
            self.misled = true;
        }
        let word = refusal.unwrap_or("ok");
        if shot.expected.is_some_and(|expected| expected != word) {
            let surprise = format!("{}: {word} instead of {}", shot.name, shot.expected.unwrap());
            self.corpus.surprises.push(surprise);
        }
    }

    /// Hands the client a payload and logs what it says.
    fn offer(&mut self, payload: &[u8]) -> Option<&'static str> {
        let connected = self.client.state() == SessionState::Connected;
        let keys = self.to_client.as_mut().unwrap();
        let header = keys.header;
        let mut datagram = keys.seal(payload, |out, number| {
            if connected {
                out.put_u8(DatagramKind::Down as u8);
                out.put_u32(number);
            } else {
                put_welcome_header(out, &WelcomeHeader { number, ..header });
            }
        });
        let refusal = match self.client.receive(self.now_us, &mut datagram) {
            Received::Refused(refusal) => Some(refusal.label()),
            _ => None,
        };
        self.corpus.down(payload, refusal, &self.client);
        if refusal.is_none() {
            self.taken = payload.to_vec();
        }
        self.take_messages(payload, refusal);
        refusal
    }

    /// Messages are taken from every payload that can be read and whose body, if it comes to that, decodes.
    fn take_messages(&mut self, payload: &[u8], refusal: Option<&'static str>) {
        let unread = ["malformed_payload", "malformed_schema"];
        let body = ackline::delta::decode::DecodeError::ALL.map(|error| error.reason());
        if refusal.is_some_and(|word| unread.contains(&word) || body.contains(&word)) {
            return;
        }
        let Some(block) = Payload::read(payload).messages else {
            return;
        };
        self.messages.receive(&mut ByteReader::new(&block)).unwrap();
        while let Some(message) = self.messages.pop() {
            self.received.push(message);
            self.untold = true;
        }
    }
}
