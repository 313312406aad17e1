use super::*;
use crate::bench::truth::TruthLog;
use crate::bench::truth::tests::{step, world};

fn event(at_us: u64, kind: u16) -> Event {
    Event {
        kind,
        critical: false,
        entity: None,
        at_us,
        payload: Vec::new(),
    }
}

/// Five frames of two events each, the second frame's alike.
fn log() -> TruthReader {
    let log = TruthLog::new(1_000_000);
    let (mut world, first) = world(&[1]);
    log.push(0, first, Some(0));
    for at in 1..=5u16 {
        let events = [
            event(u64::from(at), at),
            event(u64::from(at), if at == 2 { 2 } else { at + 10 }),
        ];
        log.push(
            u64::from(at),
            step(&mut world, u64::from(at), &[], &[], &events),
            Some(u64::from(at)),
        );
    }
    let mut reader = TruthReader::new(log);
    reader.refresh();
    reader
}

fn told(events: &[Event], now_us: u64, log_end: Option<u64>) -> EventCounts {
    told_from(0, events, now_us, log_end)
}

fn told_from(completed_us: u64, events: &[Event], now_us: u64, log_end: Option<u64>) -> EventCounts {
    let (reader, mut series, mut sight) = (log(), SeriesSet::default(), Sight::default());
    let mut trail = EventTrail::default();
    trail.complete(completed_us);
    events.iter().for_each(|event| trail.take(9, event.clone()));
    trail.settle_last(&mut Hearing {
        now_us,
        newest_us: 5,
        stream: Some(1),
        sight: &mut sight,
        reader: &reader,
        series: &mut series,
        client: 7,
        examples: &mut Vec::new(),
    });
    trail.finish(log_end)
}

/// SPEC CTL3: delivered once, in order; every other way is told apart.
#[test]
fn ctl3_gaps_repeats_and_disorder_are_told_apart() {
    let all: Vec<Event> = [
        (1, 1),
        (1, 11),
        (2, 2),
        (2, 2),
        (3, 3),
        (3, 13),
        (4, 4),
        (4, 14),
        (5, 5),
        (5, 15),
    ]
    .map(|(at, kind)| event(at, kind))
    .to_vec();
    let good = EventCounts {
        sent: 10,
        delivered: 10,
        ..EventCounts::default()
    };
    assert_eq!(told(&all, 10, Some(10)), good);
    let joined = EventCounts {
        sent: 6,
        delivered: 6,
        ..EventCounts::default()
    };
    assert_eq!(
        told_from(2, &all[4..], 10, Some(10)),
        joined,
        "a client is told from its first complete view on"
    );
    assert_eq!(told(&all[4..], 10, Some(10)).sent, 10, "the first never came");
    assert_eq!(
        told_from(3, &all[4..], 10, Some(10)),
        joined,
        "what comes before it is welcome"
    );
    assert_eq!(told(&all[..4], 10, Some(10)).sent, 10, "the end never came");
    let gap = told(&[&all[..2], &all[4..]].concat(), 10, Some(10));
    assert_eq!((gap.sent, gap.delivered), (10, 8));
    let swapped = told(
        &[&all[..4], &all[5..6], &all[4..5], &all[6..]].concat(),
        10,
        Some(10),
    );
    assert_eq!(
        swapped,
        EventCounts {
            sent: 10,
            delivered: 10,
            out_of_order: 1,
            ..EventCounts::default()
        }
    );
    let again = told(&[&all[..5], &all[4..]].concat(), 10, Some(10));
    assert_eq!(
        again,
        EventCounts {
            duplicated: 1,
            ..good
        }
    );
    let strange = [all[0].clone(), event(3, 99), all[1].clone()];
    let unknown = told(&strange, 10, Some(2));
    assert_eq!(
        (unknown.delivered, unknown.unknown),
        (1, 2),
        "it and what is behind it wait for the truth"
    );
    let unknown = told(&strange, 2_000_000, Some(2));
    assert_eq!((unknown.delivered, unknown.unknown), (2, 1), "but not for ever");
}

/// With a view, events about what is surely in it are due, those about what is outside leak, and the rest may come or
/// not. One about an entity that died in the tick is still about where it was.
#[test]
fn events_are_due_by_the_view() {
    use crate::bench::truth::tests::entity;
    use crate::delta::message::Assigned;
    use crate::state::view::{Range, Scope, View};
    let log = TruthLog::new(1_000_000);
    let (mut world, first) = world(&[1, 2, 3, 4]);
    log.push(0, first, Some(0));
    // Metres from the own entity, 1: 1 to entity 2, 11 to entity 3, 40 to entity 4.
    let moved = [(1, 5000), (2, 5100), (3, 6100), (4, 9000)];
    log.push(1, step(&mut world, 1, &moved, &[], &[]), Some(1));
    let about = |at_us: u64, id: u32| Event {
        entity: Some(entity(id)),
        ..event(at_us, u16::try_from(id).expect("fits"))
    };
    let told: Vec<Event> = [1, 2, 3, 4].map(|id| about(2, id)).to_vec();
    log.push(2, step(&mut world, 2, &[], &[], &told), Some(2));
    let last = [about(3, 2), about(3, 4), event(3, 9)];
    log.push(3, step(&mut world, 3, &[], &[2, 4], &last), Some(3));
    let mut reader = TruthReader::new(log);
    reader.refresh();
    let all = [told, last.to_vec()].concat();
    let come = |places: &[usize]| {
        let (mut series, mut sight, mut trail) =
            (SeriesSet::default(), Sight::default(), EventTrail::default());
        let range = Range::new(1000, 1200).expect("is a range");
        let view = View {
            scope: Scope::Owner(range),
            ..View::WHOLE
        };
        // Long before, as the times of this log go.

        sight.tell(
            1,
            0,
            Assigned {
                entity: Some(entity(1)),
                view,
            },
        );
        sight.forget_whole();
        trail.complete(1);
        places.iter().for_each(|place| trail.take(9, all[*place].clone()));
        trail.settle_last(&mut Hearing {
            now_us: 10,
            newest_us: 3,
            stream: Some(1),
            sight: &mut sight,
            reader: &reader,
            series: &mut series,
            client: 7,
            examples: &mut Vec::new(),
        });
        let counts = trail.finish(Some(7));
        assert_eq!(
            (counts.duplicated, counts.out_of_order, counts.unknown),
            (0, 0, 0)
        );
        (counts.sent, counts.delivered, counts.leaks)
    };
    assert_eq!(come(&[0, 1, 4, 6]), (4, 4, 0));
    assert_eq!(come(&[0, 1, 2, 4, 6]), (5, 5, 0), "on the seam it may come");
    assert_eq!(come(&[0, 4, 6]), (4, 3, 0), "one that is due is missing");
    assert_eq!(come(&[0, 1, 4]), (4, 3, 0), "the last is");
    assert_eq!(come(&[0, 1, 3, 4, 5, 6]), (6, 6, 2), "hidden ones leak");
}
