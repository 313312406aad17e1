//! What the decoder refuses, and under which name.

use super::support::{Table, bits, decode, record};
use crate::delta::decode::DecodeError::{self, *};
use crate::delta::layout::Layout;
use crate::delta::schema;
use crate::state::entity::Entity;
use crate::state::record::Record;
use crate::state::schema::tests::full_schema;

const SERVER_US: u64 = 1_050_000;

/// Slot 0 moves and was observed at 1 s; slot 1 has no motion; slot 2 has extras; no other slot is a member.
fn table() -> Table {
    let moving = record(&full_schema());
    let mut later = moving;
    later.extras = [5, 1, 0, 0, 0, 0, 0, 0];
    later.entity = Entity { id: 9, generation: 4 };
    later.segment = 2;
    Table::from([
        (0, moving),
        (1, Record::born(Entity { id: 1, generation: 0 }, 0, 0)),
        (2, later),
    ])
}

fn refused(fields: &[(u32, u32)]) -> Option<DecodeError> {
    decode(
        &Layout::new(&full_schema()),
        &table(),
        &bits(fields),
        1,
        SERVER_US,
    )
    .err()
}

fn join<const N: usize>(head: &[(u32, u32)], tail: [(u32, u32); N]) -> Vec<(u32, u32)> {
    head.iter().copied().chain(tail).collect()
}

const GAP_0: (u32, u32) = (0, 1);
const GAP_1: (u32, u32) = (0b00001, 5);
const GAP_2: (u32, u32) = (0b00101, 5);
const MOTION: (u32, u32) = (0, 1);
const GENERAL: (u32, u32) = (0b01, 2);
const COMPLETE: (u32, u32) = (0b011, 3);
const REMOVE: (u32, u32) = (0b0111, 4);
const AWAKE: (u32, u32) = (0b1111, 4);
/// The age of a present observation.
const NOW: (u32, u32) = (0, 1);

#[test]
fn ages_have_one_form_and_bounds() {
    let with_age = |age: &[(u32, u32)]| {
        let mut fields = vec![GAP_0, MOTION];
        fields.extend(age);
        fields.push((0, 4));
        refused(&fields)
    };
    // T = 50 ms. Prefix 1, then ticks, then the remainder's width and bits.
    assert_eq!(with_age(&[NOW]), None);
    assert_eq!(
        with_age(&[(1, 1), (0, 1), (0, 2), (0, 5)]),
        Some(NotCanonical),
        "0 us in the long form"
    );
    assert_eq!(
        with_age(&[(1, 1), (0, 1), (0, 2), (1, 5)]),
        Some(NotCanonical),
        "-1 us"
    );
    assert_eq!(with_age(&[(1, 1), (0, 1), (0, 2), (2, 5), (0, 1)]), None, "1 us");
    let remainder = |us: u32| ((us * 2 - 0x8000) & 0x7FFF, 15); // 16 bits, the top bit unsent
    assert_eq!(
        with_age(&[(1, 1), (0, 1), (0, 2), (16, 5), remainder(24_999)]),
        None,
        "24999 us"
    );
    assert_eq!(
        with_age(&[(1, 1), (0, 1), (0, 2), (16, 5), remainder(25_000)]),
        Some(NotCanonical),
        "25000 us round to one tick"
    );
    assert_eq!(
        with_age(&[(1, 1), (0, 1), (1, 2), (2, 5), (0, 1)]),
        Some(TimeRange),
        "before the baseline's"
    );
    assert_eq!(
        with_age(&[(1, 1), (0b001, 2), (0, 5), (0, 5)]),
        Some(TimeRange),
        "4 ticks"
    );
    assert_eq!(
        with_age(&[(1, 1), (0b011, 3), (1023, 10), (0, 5)]),
        Some(TimeRange),
        "1059 ticks: before zero"
    );
    assert_eq!(
        with_age(&[(1, 1), (0b111, 3), (2, 6), (0, 1)]),
        Some(NotCanonical),
        "2 us as far"
    );
    // 1060 ticks less half a tick: 52,975,000 us, 26 bits.
    let far = |us: u32| ((26, 6), (us - (1 << 25), 25));
    let (width, low) = far(52_975_000);
    assert_eq!(
        with_age(&[(1, 1), (0b111, 3), width, low]),
        Some(TimeRange),
        "far, canonical, before zero"
    );
    let (width, low) = far(52_974_999);
    assert_eq!(
        with_age(&[(1, 1), (0b111, 3), width, low]),
        Some(NotCanonical),
        "1059 ticks as far"
    );
    assert_eq!(
        with_age(&[(1, 1), (0b111, 3), (49, 6)]),
        Some(OutOfRange),
        "49 bits"
    );
}

#[test]
fn masked_motions_have_one_form_and_bounds() {
    let with = |fields: &[(u32, u32)]| {
        let mut all = vec![GAP_0, MOTION, NOW];
        all.extend(fields);
        refused(&all)
    };
    let position = |code: u32, width: u32, a: u32, b: u32, c: u32| {
        with(&[(0b0001, 4), (code, 5), (a, width), (b, width), (c, width)])
    };
    assert_eq!(position(2, 2, 2, 0, 0), None);
    assert_eq!(position(0, 0, 0, 0, 0), Some(NotCanonical), "set, but equal");
    assert_eq!(
        position(2, 2, 1, 0, 1),
        Some(NotCanonical),
        "two bits where one will do"
    );
    assert_eq!(
        position(31, 32, 1, 0, 0),
        Some(NotCanonical),
        "32 bits where one will do"
    );
    assert_eq!(
        position(31, 32, 1 << 30, 0, 0),
        Some(OutOfRange),
        "31 bits are sent as 32"
    );
    assert_eq!(position(15, 15, 20_000, 0, 0), None, "the highest value");
    assert_eq!(position(15, 15, 20_002, 0, 0), Some(OutOfRange), "one more");
    assert_eq!(position(8, 8, 0, 0, 201), Some(OutOfRange), "one below zero");
    assert_eq!(position(8, 8, 0, 0, 199), None, "zero");
    let rotation = |fields: &[(u32, u32)]| {
        with(
            &join(&[(0b0010, 4)], [])
                .into_iter()
                .chain(fields.iter().copied())
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(rotation(&[(1, 1), (1, 4), (1, 1), (0, 1), (0, 1)]), None);
    assert_eq!(rotation(&[(1, 1), (0, 4)]), Some(NotCanonical), "set, but equal");
    assert_eq!(
        rotation(&[(1, 1), (2, 4), (1, 2), (0, 2), (0, 2)]),
        Some(NotCanonical),
        "too wide"
    );
    assert_eq!(
        rotation(&[(1, 1), (10, 4), (510, 10), (512, 10), (0, 10)]),
        Some(OutOfRange),
        "part 511"
    );
    assert_eq!(
        rotation(&[(1, 1), (9, 4), (510, 9), (509, 9), (0, 9)]),
        None,
        "parts 510 and 0"
    );
    assert_eq!(rotation(&[(0, 1), (2, 2), (1, 9), (2, 9), (510, 9)]), None);
    assert_eq!(
        rotation(&[(0, 1), (3, 2), (1, 9), (2, 9), (3, 9)]),
        Some(NotCanonical),
        "the same largest"
    );
    assert_eq!(
        rotation(&[(0, 1), (2, 2), (1, 9), (2, 9), (511, 9)]),
        Some(OutOfRange),
        "part 511"
    );
    let rate = |mask: u32, z: u32| with(&[(mask, 4), (13, 5), (z, 13), (0, 13), (4096, 13)]);
    assert_eq!(rate(0b0100, 5000), None);
    assert_eq!(rate(0b0100, 4999), None);
    assert_eq!(rate(0b0100, 5001), Some(OutOfRange), "velocity -2501");
    assert_eq!(rate(0b0100, 5002), Some(OutOfRange), "velocity 2501");
    assert_eq!(rate(0b1000, 2002), Some(OutOfRange), "angular 1001");
    assert_eq!(with(&[(0b0100, 4), (0, 5)]), Some(NotCanonical), "set, but equal");
    // The baseline's instant again (one tick back): something must differ.
    let again = [GAP_0, MOTION, (1, 1), (0, 1), (1, 2), (0, 5)];
    assert_eq!(refused(&join(&again, [(0, 4)])), Some(NotCanonical));
    assert_eq!(
        refused(&join(&again, [(0b0001, 4), (1, 5), (1, 1), (0, 1), (0, 1)])),
        None
    );
}

#[test]
fn general_updates_have_one_form() {
    assert_eq!(
        refused(&[GAP_0, GENERAL, (0b000, 3)]),
        Some(NotCanonical),
        "nothing changed"
    );
    assert_eq!(
        refused(&[GAP_0, GENERAL, (0b001, 3), NOW, (0, 4)]),
        Some(NotCanonical),
        "the shorter kind says it"
    );
    assert_eq!(refused(&[GAP_0, GENERAL, (0b010, 3)]), None, "rest toggled");
    assert_eq!(refused(&[GAP_0, GENERAL, (0b011, 3), NOW, (0, 4)]), None);
    assert_eq!(refused(&[GAP_1, GENERAL, (0b010, 3)]), Some(NoMotion));
    assert_eq!(
        refused(&[GAP_1, GENERAL, (0b011, 3), NOW]),
        Some(NotCanonical),
        "the motion itself says rest"
    );
    let extras = |fields: &[(u32, u32)]| {
        refused(
            &join(&[GAP_2, GENERAL, (0b100, 3)], [])
                .into_iter()
                .chain(fields.iter().copied())
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(extras(&[(0, 2)]), Some(NotCanonical), "no field changed");
    assert_eq!(
        extras(&[(0b01, 2), (0, 10)]),
        Some(NotCanonical),
        "changed by nothing"
    );
    assert_eq!(extras(&[(0b11, 2), (1023, 10), (3, 2)]), None);
}

/// Id 42, generation 0; then class, tier and the rest of a complete record.
const LIFE_42: [(u32, u32); 5] = [GAP_0, COMPLETE, (0, 1), (42, 7), (0, 3)];

/// Class 0, tier 0.
const TIER_0: (u32, u32) = (0, 10);

#[test]
fn complete_records_have_one_form_and_bounds() {
    let birth = (0, 6); // born now
    let segment_0 = (0, 3);
    let bare = [(1, 1), (0, 1), (0, 2)]; // the segment began at birth, no motion, extras zero
    let with = |tail: &[(u32, u32)]| refused(&LIFE_42.iter().chain(tail).copied().collect::<Vec<_>>());
    let [at_birth, no_motion, no_extras] = bare;
    assert_eq!(
        with(&[TIER_0, birth, segment_0, at_birth, no_motion, no_extras]),
        None
    );
    assert_eq!(
        with(&[(1, 10), birth, segment_0, at_birth, no_motion, no_extras]),
        Some(BadClass)
    );
    assert_eq!(
        with(&[TIER_0, birth, segment_0, (0, 1), (0, 6), no_motion, no_extras]),
        Some(NotCanonical)
    );
    assert_eq!(
        with(&[TIER_0, birth, segment_0, (0, 1), (1, 6), no_motion, no_extras]),
        None
    );
    assert_eq!(
        with(&[TIER_0, (21, 6), (2_000_000 - (1 << 20), 20)]),
        Some(TimeRange),
        "born before zero"
    );
    assert_eq!(with(&[TIER_0, (49, 6)]), Some(OutOfRange));
    let slowest = u32::from(crate::limits::TIER_MAX) << 8;
    let tiers = |tier| with(&[(tier, 10), birth, segment_0, at_birth, no_motion, no_extras]);
    assert_eq!(
        (tiers(slowest), tiers(slowest + 256)),
        (None, Some(OutOfRange)),
        "tier"
    );
    assert_eq!(
        with(&[TIER_0, birth, segment_0, at_birth, no_motion, (0b10, 2), (0, 2)]),
        Some(NotCanonical),
        "a field said to be set that is zero"
    );
    let motion = [TIER_0, birth, segment_0, at_birth, (1, 1), NOW];
    assert_eq!(with(&join(&motion, [(20_001, 15)])), Some(OutOfRange), "x");
    let at = join(&motion, [(20_000, 15), (0, 15), (0, 15)]);
    assert_eq!(with(&join(&at, [(0, 2), (511, 9)])), Some(OutOfRange), "rotation");
    let turned = join(&at, [(0, 2), (510, 9), (0, 9), (0, 9)]);
    assert_eq!(
        with(&join(&turned, [(0b1_0110_0011_1011, 13)])),
        Some(OutOfRange),
        "velocity -2501"
    );
    let moving = join(&turned, [(0b1_0110_0011_1100, 13), (2500, 13), (0, 13)]);
    assert_eq!(
        with(&join(&moving, [(1001, 11)])),
        Some(OutOfRange),
        "angular 1001"
    );
    assert_eq!(
        with(&join(&moving, [(1000, 11), (0, 11), (0, 11), (1, 1), no_extras])),
        None
    );
}

/// SPEC ID2: a record of an older generation or segment never replaces a newer one.
#[test]
fn id2_older_lives_are_refused() {
    let life_of = |id: u32, generation: u32, segment: u32| {
        let rest = [TIER_0, (0, 6), (0, 1), (segment, 2), (1, 1), (0, 1), (0, 2)];
        let generation = if generation < 4 {
            ((generation << 1), 3)
        } else {
            (0b01 | (generation - 4) << 2, 8)
        };
        refused(&join(&[GAP_2, COMPLETE, (0, 1), (id, 7), generation], rest))
    };
    let life = |generation, segment| life_of(9, generation, segment);
    assert_eq!(life_of(8, 0, 0), None, "another id");
    assert_eq!(life(3, 3), Some(Stale), "an older generation");
    assert_eq!(life(4, 1), Some(Stale), "an older segment");
    assert_eq!(life(4, 2), None, "the same again");
    assert_eq!(life(5, 0), None, "a newer generation");
}

#[test]
fn numbers_past_the_last_class_are_refused() {
    let id = |low: u32| refused(&[GAP_0, COMPLETE, (0b111, 3), (low, 32)]);
    let offset = 128 + 4096 + (1 << 20);
    assert_eq!(id(u32::MAX - offset), Some(Short), "the highest id, then nothing");
    assert_eq!(id(u32::MAX - offset + 1), Some(OutOfRange));
}

/// SPEC CTL4: no update or waking of what is not a member. A removal may name one: it may be shown.
#[test]
fn ctl4_only_members_change() {
    let gap_3 = (0b01001, 5);
    assert_eq!(refused(&[gap_3, MOTION, NOW, (0, 4)]), Some(NoSuchMember));
    assert_eq!(refused(&[gap_3, GENERAL, (0b010, 3)]), Some(NoSuchMember));
    assert_eq!(refused(&[gap_3, REMOVE, (1, 2)]), None);
    assert_eq!(refused(&[gap_3, AWAKE]), Some(NoSuchMember));
    assert_eq!(refused(&[GAP_0, REMOVE, (1, 2)]), None);
    assert_eq!(refused(&[GAP_0, REMOVE, (3, 2)]), Some(UnknownDeparture));
    assert_eq!(
        refused(&[
            GAP_0,
            REMOVE,
            (0, 2),
            (21, 6),
            (2_000_000 - (1 << 20), 20),
            (0, 8)
        ]),
        Some(TimeRange)
    );
    assert_eq!(refused(&[GAP_0, AWAKE]), None);
}

/// THREATS 33, 34: counts, slots and leftovers.
#[test]
fn threats_33_34_counts_slots_and_leftovers() {
    let layout = Layout::new(&full_schema());
    let table: Table = [(0, table()[&0]), (32_767, table()[&0])].into();
    let decode =
        |fields: &[(u32, u32)], count| decode(&layout, &table, &bits(fields), count, SERVER_US).err();
    assert_eq!(decode(&[], 0), None);
    assert_eq!(decode(&[(0, 8)], 0), Some(Trailing));
    assert_eq!(decode(&[], 1), Some(CountRange));
    assert_eq!(decode(&[(0, 8)], usize::MAX), Some(CountRange));
    assert_eq!(decode(&[(0, 24)], 5), Some(CountRange));
    let eight: Table = (0..8).map(|slot| (slot, table[&0])).collect();
    let wakings = bits(&[[GAP_0, AWAKE]; 8].concat());
    assert_eq!(
        super::support::decode(&layout, &eight, &wakings, 8, SERVER_US)
            .unwrap()
            .len(),
        8,
        "5 bits each"
    );
    let last = (0b111 | (32_767 - 73) << 3, 18);
    assert_eq!(decode(&[last, AWAKE], 1), None);
    assert_eq!(
        decode(&[(0b111 | (32_768 - 73) << 3, 18), AWAKE], 1),
        Some(SlotRange)
    );
    assert_eq!(decode(&[last, AWAKE, GAP_0, AWAKE], 2), Some(SlotRange));
    assert_eq!(decode(&[GAP_0, AWAKE], 1), None);
    assert_eq!(decode(&[GAP_0, AWAKE, (1, 1)], 1), Some(Trailing));
    assert_eq!(decode(&[GAP_0, AWAKE, (0, 8)], 1), Some(Trailing));
    assert_eq!(decode(&[GAP_0, AWAKE, GAP_0], 2), Some(CountRange));
    assert_eq!(decode(&[GAP_0, AWAKE, (0b111, 11)], 2), Some(Short));
}

/// Labels are stable, distinct and in snake case.
#[test]
fn reasons_are_labels() {
    let reasons: std::collections::BTreeSet<_> = DecodeError::ALL.iter().map(|e| e.reason()).collect();
    assert_eq!(reasons.len(), DecodeError::ALL.len());
    assert!(
        reasons
            .iter()
            .all(|r| r.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
    );
}

/// THREATS 35: bytes of a schema that no schema has.
#[test]
fn threats_35_schemas_have_bounds_and_one_form() {
    let good = schema::encode(&full_schema()).unwrap();
    let name = 1 + full_schema().name.len();
    let refuse = |at: usize, with: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + with.len()].copy_from_slice(with);
        assert!(schema::decode(&bytes).is_err(), "{with:?} at {at}");
    };
    let flags = name + 6;
    let min = flags + 1;
    refuse(0, &[0]);
    refuse(flags, &[0b1110]);
    refuse(min, &f64::NAN.to_le_bytes());
    refuse(min, &f64::INFINITY.to_le_bytes());
    refuse(min, &(-0.0f64).to_le_bytes());
    refuse(min, &1e-310f64.to_le_bytes());
    refuse(min, &100.0f64.to_le_bytes());
    refuse(min + 16, &0.0f64.to_le_bytes());
    refuse(min + 72, &[16]);
    let extras = min + 73 + 32;
    assert_eq!(good[extras], 2);
    refuse(extras, &[9]);
    refuse(extras + 1 + 7, &[33]);
    refuse(extras + 1 + 8, &[2]);
    refuse(good.len() - 1, &[2]);
    let mut long = good.clone();
    long.push(0);
    assert!(schema::decode(&long).is_err());
}
