//! `examples/publisher.py`, written from the document alone and in another language, is decoded into a world that
//! refuses nothing; what it breaks on purpose is refused by itself.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use super::root;
use crate::sequence::Tick;
use crate::state::entity::Entity;
use crate::state::world::World;
use crate::upstream::message::ToOrigin;
use crate::upstream::subscriber::{Stream, Subscriber, SubscriberEvent};

/// What a relay makes of a stream.
#[derive(Default)]
struct Taken {
    stream: Option<Stream>,
    world: Option<World>,
    ticks: u32,
    keyframes: u32,
    sentences: Vec<String>,
    ended: bool,
    events: usize,
    deaths: usize,
    segments: u32,
}

impl Taken {
    fn take(&mut self, event: SubscriberEvent) {
        match event {
            SubscriberEvent::Stream(stream) => {
                self.world = Some(World::new(Arc::clone(&stream.schema), 1, 512));
                self.stream = Some(stream);
            }
            SubscriberEvent::Tick(update) => {
                self.ticks += 1;
                self.keyframes += u32::from(update.keyframe);
                self.events += update.events.len();
                self.deaths += update.despawned.len();
                self.segments += update
                    .observed
                    .iter()
                    .map(|o| o.segment)
                    .max()
                    .unwrap_or(0)
                    .min(1);
                let world = self.world.as_mut().unwrap();
                assert!(world.advance(Tick(self.ticks), &update).is_some());
                self.sentences
                    .extend(world.refused().iter().map(ToString::to_string));
            }
            SubscriberEvent::Refused(text) | SubscriberEvent::Malformed(text) => self.sentences.push(text),
            SubscriberEvent::Ended => self.ended = true,
        }
    }
}

fn python() -> bool {
    let found = Command::new("python3")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        // Not by println, which a test that passes keeps to itself.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: there is no python3 to run examples/publisher.py with"
        );
    }
    found
}

fn publisher() -> Command {
    let mut command = Command::new("python3");
    command.arg(root("examples/publisher.py"));
    command
}

/// The stream that the publisher dumps, taken in pieces; and what the subscriber would have sent.
fn dumped(args: &[&str]) -> (Taken, Vec<u8>) {
    let output = publisher()
        .args(["--dump", "-", "--seconds", "5"])
        .args(args)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut subscriber = Subscriber::new(Vec::new());
    let _ = subscriber.start();
    let (mut taken, mut events, mut sent) = (Taken::default(), Vec::new(), Vec::new());
    for piece in output.stdout.chunks(1000) {
        subscriber.receive(piece, &mut events);
        events.drain(..).for_each(|event| taken.take(event));
        sent.extend(subscriber.take_outgoing());
    }
    subscriber.disconnected(&mut events);
    assert_eq!(events, []);
    (taken, sent)
}

/// SPEC ID6, OPS2: a publisher written from the document in another language is taken in without a refusal.
#[test]
fn the_example_publisher_is_decoded_without_a_refusal() {
    if !python() {
        return;
    }
    for entities in ["2", "20", "300"] {
        let (taken, sent) = dumped(&["--entities", entities, "--hz", "30"]);
        assert_eq!(taken.sentences, [] as [String; 0]);
        assert_eq!((taken.ticks, taken.keyframes, taken.ended), (151, 1, true));
        assert!(
            taken.events > 3 && taken.deaths > 3 && taken.segments > 3,
            "it shows every kind of item"
        );
        assert!(sent.is_empty());
        let world = taken.world.unwrap();
        assert_eq!(world.live(), entities.parse::<usize>().unwrap());
        let stream = taken.stream.unwrap();
        assert_eq!(
            (stream.schema.name.as_str(), stream.schema.tick_period_us),
            ("circles", 33_333)
        );
        let reborn = (1..100).find_map(|generation| world.record(Entity { id: 1, generation }));
        assert!(
            reborn.is_some_and(|(_, record)| record.motion.is_some()),
            "an id lives again"
        );
    }
}

/// THREATS 83: each break of the publisher gives its one sentence, and the ticks after it still apply.
#[test]
fn threats_83_each_break_of_the_publisher_gives_one_sentence_and_the_rest_applies() {
    if !python() {
        return;
    }
    let resync = {
        let mut bytes = Vec::new();
        ToOrigin::Resync.encode(&mut bytes);
        bytes
    };
    for (kind, sentence, ticks, asked) in [
        (
            "out-of-range",
            "observation of entity 19#0 refused: x is outside the schema's bounds",
            101,
            &[][..],
        ),
        (
            "dead-generation",
            "observation of entity 1#0 refused: generation 1 of this id is newer",
            101,
            &[],
        ),
        (
            "truncated",
            "upstream tick refused: in its events the bytes end too early",
            100,
            &resync,
        ),
    ] {
        let (taken, sent) = dumped(&["--break", kind]);
        assert_eq!(taken.sentences, [sentence], "{kind}");
        assert_eq!(
            (taken.ticks, taken.ended, sent.as_slice()),
            (ticks, true, asked),
            "{kind}"
        );
        let world = taken.world.unwrap();
        assert_eq!((world.live(), world.server_us()), (19, 99 * 50_000), "{kind}");
    }
    let (taken, _) = dumped(&["--break", "wrong-version"]);
    let sentence = "upstream hello refused: it is of protocol version 3, but version 2 is spoken here: run versions that match";
    assert_eq!(taken.sentences, [sentence]);
    assert!(
        taken.stream.is_none() && taken.ticks == 0,
        "nothing of another version is read"
    );
}

/// A child that ends with the test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One subscription over a real socket until the stream ends or is refused.
fn subscribe(address: &str, subscriber: &mut Subscriber, resync: bool) -> Taken {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(&subscriber.start()).unwrap();
    let (mut taken, mut events, mut buffer) = (Taken::default(), Vec::new(), [0; 4096]);
    while !subscriber.is_closed() {
        let count = socket.read(&mut buffer).unwrap();
        assert!(count > 0, "the stream ends with an end, not with the connection");
        subscriber.receive(&buffer[..count], &mut events);
        let first = taken.ticks == 0;
        events.drain(..).for_each(|event| taken.take(event));
        if resync && first && taken.ticks > 0 {
            let mut bytes = Vec::new();
            ToOrigin::Resync.encode(&mut bytes);
            socket.write_all(&bytes).unwrap();
        }
    }
    taken
}

/// Two subscribers at once, a version that is refused first, a wrong token, a request for a keyframe.
#[test]
fn the_example_publisher_serves_subscribers_over_tcp() {
    if !python() {
        return;
    }
    let mut command = publisher();
    command.args([
        "--listen",
        "127.0.0.1:0",
        "--seconds",
        "1.5",
        "--hz",
        "50",
        "--token",
        "key",
    ]);
    command.args(["--break", "wrong-version"]).stdout(Stdio::piped());
    let mut child = Served(command.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();

    let mut first = Subscriber::new(b"key".to_vec());
    let taken = subscribe(&address, &mut first, false);
    assert!(
        taken.sentences[0].contains("it is of protocol version 3"),
        "{:?}",
        taken.sentences
    );
    let taken = subscribe(&address, &mut Subscriber::new(b"kex".to_vec()), false);
    let sentence =
        "the origin refused this subscriber (code 2): the token is not the one this origin expects";
    assert_eq!(taken.sentences, [sentence]);

    let other = std::thread::spawn({
        let address = address.clone();
        move || subscribe(&address, &mut Subscriber::new(b"key".to_vec()), false)
    });
    let taken = [subscribe(&address, &mut first, true), other.join().unwrap()];
    for taken in &taken {
        assert_eq!(taken.sentences, [] as [String; 0]);
        assert!(taken.ended && taken.ticks > 2);
    }
    assert_eq!((taken[0].keyframes, taken[1].keyframes), (2, 1), "one on request");
    assert!(child.0.wait().unwrap().success());
}
