//! The display by itself: what a base that is said again does (SPEC CTL6).

use super::*;
use crate::state::record::Record;

fn moment(id: u32) -> Moment {
    Moment {
        id: Tick(id),
        server_us: u64::from(id) * 1000,
    }
}

fn complete(pool: &mut RecordPool, slot: Slot, id: u32, class: u8) -> DraftEntry {
    let record = Record::born(Entity { id, generation: 0 }, class, 0);
    DraftEntry {
        slot,
        change: DraftChange::Complete(pool.put(&record)),
    }
}

/// SPEC CTL6: a base that is said again corrects what is shown, but nothing that a later snapshot named; and the
/// pool has what is held, no more.
#[test]
fn ctl6_a_base_said_again_corrects_what_is_shown() {
    let (mut pool, mut display) = (RecordPool::default(), Display::default());
    let old = [complete(&mut pool, 0, 1, 1), complete(&mut pool, 1, 2, 1)];
    display.apply(moment(1), &old, None, &mut pool);
    let now = [
        complete(&mut pool, 0, 1, 2),
        complete(&mut pool, 1, 2, 2),
        complete(&mut pool, 2, 3, 2),
    ];
    let base = pool.build(None, &now);
    let later = [complete(&mut pool, 1, 2, 3)];
    display.apply(moment(4), &later, Some((Tick(3), &base)), &mut pool);
    for entry in old.iter().chain(&now).chain(&later) {
        if let DraftChange::Complete(place) = entry.change {
            pool.drop_holder(place);
        }
    }
    display.begin_receive();
    assert_eq!(display.reassert(moment(5), Tick(3), Some(&base), &mut pool), 2);
    let view = DisplayView {
        display: &display,
        pool: &pool,
    };
    let shown: Vec<(Slot, u8, Tick)> = view
        .records()
        .map(|(slot, record, as_of)| (slot, record.class, as_of))
        .collect();
    assert_eq!(shown, [(0, 2, Tick(5)), (1, 3, Tick(4)), (2, 2, Tick(5))]);
    let kinds: Vec<ShownKind> = display.changes().iter().map(|shown| shown.kind).collect();
    assert_eq!(kinds, [ShownKind::Updated, ShownKind::Entered]);
    assert_eq!(display.reassert(moment(6), Tick(3), Some(&base), &mut pool), 0);
    pool.release(base);
    assert_eq!(pool.held(), 3);
    display.clear(&mut pool);
    assert_eq!(pool.held(), 0);
}
