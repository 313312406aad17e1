//! The codec under random schemas, records and damage.

use proptest::prelude::*;

use super::support::{Case, Dice, decode};
use crate::delta::decode::Change;
use crate::delta::encode::{ENTRY_BITS_MAX, GAP_BITS_MAX};
use crate::delta::schema;

fn case() -> impl Strategy<Value = Case> {
    prop::collection::vec(any::<u32>(), 0..300).prop_map(|tape| Dice::new(&tape).case())
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "at {} us, {:?}\nbase {:?}\n{:?}",
            self.server_us, self.schema, self.table, self.entries
        )
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// SPEC TAB2, ID7, THREATS 44: what was encoded is decoded, value for value, and each form is the only one.
    #[test]
    fn tab2_decoding_gives_the_record(case in case()) {
        let bytes = case.encode();
        let bound = case.entries.len() * (ENTRY_BITS_MAX + GAP_BITS_MAX) as usize;
        prop_assert!(bytes.len() * 8 < bound + 8);
        let entries = decode(&case.layout, &case.table, &bytes, case.entries.len(), case.server_us);
        prop_assert_eq!(entries, Ok(case.expected()));
        prop_assert!(case.refused_or_canonical(&bytes, case.entries.len()));
    }

    /// SPEC TAB4: an update never leaves its segment, its generation or its birth.
    #[test]
    fn tab4_updates_stay_within_segment_and_generation(case in case()) {
        let bytes = case.encode();
        for entry in decode(&case.layout, &case.table, &bytes, case.entries.len(), case.server_us).unwrap() {
            if let Change::Update(now) = entry.change {
                let base = &case.table[&entry.slot];
                prop_assert_eq!((now.entity, now.class, now.tier), (base.entity, base.class, base.tier));
                prop_assert_eq!(now.born_us, base.born_us);
                prop_assert_eq!((now.segment, now.segment_us), (base.segment, base.segment_us));
            }
        }
    }

    /// THREATS 24, 32: one flipped bit is refused, or is itself a body in its one legal form.
    #[test]
    fn threats_24_every_flipped_bit_is_refused_or_canonical(case in case()) {
        let mut bytes = case.encode();
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            case.refused_or_canonical(&bytes, case.entries.len());
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    /// THREATS 25, 34: cut by a byte or more, or extended, a body is refused.
    #[test]
    fn threats_25_cut_or_extended_bodies_are_refused(case in case(), extra in any::<u8>()) {
        let mut bytes = case.encode();
        for length in 0..bytes.len() {
            prop_assert!(!case.refused_or_canonical(&bytes[..length], case.entries.len()));
        }
        bytes.push(extra);
        prop_assert!(!case.refused_or_canonical(&bytes, case.entries.len()));
    }

    /// THREATS 33: a wrong count is refused or canonical, whatever it is.
    #[test]
    fn threats_33_wrong_counts_never_pass_unseen(case in case(), wild in any::<usize>()) {
        let (bytes, count) = (case.encode(), case.entries.len());
        prop_assert!(!case.refused_or_canonical(&bytes, wild.max(bytes.len() * 8)));
        for wrong in [0, count - 1, count + 1, count + 2] {
            case.refused_or_canonical(&bytes, wrong);
        }
    }

    /// THREATS 35: random bytes are refused or canonical; nothing panics.
    #[test]
    fn threats_35_random_bytes_are_refused_or_canonical(
        case in case(),
        bytes in prop::collection::vec(any::<u8>(), 0..80),
        splice in any::<prop::sample::Index>(),
    ) {
        for count in 0..4 {
            case.refused_or_canonical(&bytes, count);
        }
        // A valid body with random bytes from some place on gets farther than bytes that are random throughout.
        let mut body = case.encode();
        let from = splice.index(body.len());
        body.iter_mut().skip(from).zip(&bytes).for_each(|(to, from)| *to = *from);
        case.refused_or_canonical(&body, case.entries.len());
    }

    /// A schema survives its bytes, and every flipped bit of them is refused or another schema's only form.
    #[test]
    fn schemas_have_one_form(tape in prop::collection::vec(any::<u32>(), 0..60)) {
        let mut declared = Dice::new(&tape).schema();
        declared.classes.truncate(6);
        let mut bytes = schema::encode(&declared).unwrap();
        prop_assert_eq!(schema::decode(&bytes), Ok(declared));
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok(other) = schema::decode(&bytes) {
                prop_assert_eq!(&schema::encode(&other).unwrap(), &bytes);
            }
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        for length in 0..bytes.len() {
            prop_assert!(schema::decode(&bytes[..length]).is_err());
        }
    }
}
