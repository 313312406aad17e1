use super::*;
use crate::wire::version::Agreed;

fn secrets() -> Secrets {
    Secrets {
        token_key: [7; 32],
        client_nonce: [1; 16],
        relay_nonce: [2; 16],
        connection: 99,
        agreed: Agreed::NEWEST,
    }
}

fn sealed(sealer: &mut Sealer, header: &[u8], payload: &[u8]) -> (u32, Vec<u8>) {
    let number = sealer.reserve().unwrap();
    let mut bytes = payload.to_vec();
    let tag = sealer.seal(number, header, &mut bytes).unwrap();
    bytes.extend(tag);
    (u32::try_from(number & 0xFFFF_FFFF).unwrap(), bytes)
}

/// THREATS 24, 25: a flip of any bit, a cut or an added byte is refused and moves nothing.
#[test]
fn threats_24_every_bit_flip_is_refused() {
    let mut sealer = secrets().sealer(Direction::Up).unwrap();
    let mut opener = secrets().opener(Direction::Up).unwrap();
    let (low, bytes) = sealed(&mut sealer, b"head", b"payload");
    let before = opener.window.clone();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(opener.open(low, b"head", &mut flipped), Err(OpenError::Forged));
    }
    for (low, header, bytes) in [
        (low, &b"Head"[..], bytes.clone()),
        (low + 1, b"head", bytes.clone()),
        (low, b"head", bytes[1..].to_vec()),
        (low, b"head", [&bytes[..], &[0]].concat()),
        (low, b"head", vec![]),
    ] {
        let mut bytes = bytes;
        assert_eq!(opener.open(low, header, &mut bytes), Err(OpenError::Forged));
    }
    assert_eq!(opener.window, before);
    let mut whole = bytes.clone();
    assert_eq!(opener.open(low, b"head", &mut whole).unwrap().1, b"payload");
    let mut again = bytes;
    assert_eq!(opener.open(low, b"head", &mut again), Err(OpenError::Duplicate));
}

/// THREATS 29: another direction, session or nonce does not open.
#[test]
fn threats_29_keys_differ_by_direction_and_session() {
    let (low, bytes) = sealed(&mut secrets().sealer(Direction::Up).unwrap(), b"h", b"payload");
    let others = [
        Secrets {
            connection: 98,
            ..secrets()
        },
        Secrets {
            relay_nonce: [3; 16],
            ..secrets()
        },
        Secrets {
            client_nonce: [3; 16],
            ..secrets()
        },
        Secrets {
            token_key: [8; 32],
            ..secrets()
        },
        Secrets {
            agreed: Agreed {
                offered: 4,
                ..Agreed::NEWEST
            },
            ..secrets()
        },
        Secrets {
            agreed: Agreed {
                version: 2,
                ..Agreed::NEWEST
            },
            ..secrets()
        },
    ];
    for other in others {
        let mut opener = other.opener(Direction::Up).unwrap();
        assert_eq!(opener.open(low, b"h", &mut bytes.clone()), Err(OpenError::Forged));
    }
    let mut down = secrets().opener(Direction::Down).unwrap();
    assert_eq!(down.open(low, b"h", &mut bytes.clone()), Err(OpenError::Forged));
}

/// THREATS 27: numbers run out before they repeat.
#[test]
fn threats_27_numbers_run_out() {
    let mut sealer = secrets().sealer(Direction::Up).unwrap();
    sealer.skip_to(NUMBERS_MAX - 1);
    assert_eq!(
        (sealer.reserve(), sealer.reserve()),
        (Some(NUMBERS_MAX - 1), None)
    );
}

/// THREATS 28: a number is used once under a key, by type: a sealer owns its counter, and there is no second one of
/// it. This does not compile where a sealer can be cloned.
#[test]
fn threats_28_a_sealer_cannot_be_cloned() {
    trait Unclear<Why> {
        fn is_one_of_a_kind() -> bool {
            true
        }
    }
    struct Cloned;
    impl<T> Unclear<()> for T {}
    impl<T: Clone> Unclear<Cloned> for T {}
    assert!(<Sealer as Unclear<_>>::is_one_of_a_kind());
}

/// THREATS 30: what does not open leaves no plaintext behind, wherever it was altered.
#[test]
fn threats_30_a_failed_open_leaves_no_plaintext() {
    let mut sealer = secrets().sealer(Direction::Up).unwrap();
    let mut opener = secrets().opener(Direction::Up).unwrap();
    let secret: Vec<u8> = (0..=255).collect();
    let (low, bytes) = sealed(&mut sealer, b"head", &secret);
    for at in (0..bytes.len()).step_by(7).chain([bytes.len() - 1]) {
        let mut bad = bytes.clone();
        bad[at] ^= 1;
        assert_eq!(opener.open(low, b"head", &mut bad), Err(OpenError::Forged));
        let seen = bad
            .windows(8)
            .any(|window| secret.windows(8).any(|of| of == window));
        assert!(!seen, "byte {at}");
    }
}

/// THREATS 26, SPEC ID8: datagram numbers across 2^32, to the last one there is, with loss, repeats and what is late;
/// what travels is always the low 32 bits.
#[test]
fn threats_26_datagram_numbers_cross_every_power() {
    for start in [
        0u64,
        1 << 16,
        (1 << 31) - 20,
        1 << 32,
        3 << 32,
        1 << 47,
        NUMBERS_MAX,
    ] {
        let mut sealer = secrets().sealer(Direction::Down).unwrap();
        let mut opener = secrets().opener(Direction::Down).unwrap();
        // The receiver is brought there in steps it can tell apart.
        let first = start.saturating_sub(40);
        let mut at = 0;
        while at < first {
            at = (at + (1 << 31) - 1).min(first);
            opener.skip_to(at);
        }
        sealer.skip_to(first + u64::from(first > 0));
        let mut late = Vec::new();
        let mut opened = 0u64;
        while let Some(number) = sealer
            .reserve()
            .filter(|number| *number < start.saturating_add(40))
        {
            let mut bytes = b"payload".to_vec();
            let tag = sealer.seal(number, b"h", &mut bytes).unwrap();
            bytes.extend(tag);
            let low = u32::try_from(number & 0xFFFF_FFFF).unwrap();
            match number % 3 {
                0 => late.push((number, low, bytes)),
                1 => {
                    let mut whole = bytes.clone();
                    assert_eq!(opener.open(low, b"h", &mut whole).unwrap().0, number);
                    assert_eq!(
                        opener.open(low, b"h", &mut bytes.clone()),
                        Err(OpenError::Duplicate)
                    );
                    opened += 1;
                }
                _ => {}
            }
        }
        for (number, low, bytes) in late.iter().rev() {
            assert_eq!(opener.open(*low, b"h", &mut bytes.clone()).unwrap().0, *number);
            opened += 1;
        }
        assert!(opened >= 20, "from {start}: {opened}");
        for (_, low, bytes) in &late {
            assert_eq!(
                opener.open(*low, b"h", &mut bytes.clone()),
                Err(OpenError::Duplicate)
            );
        }
    }
}

/// THREATS 28: keys are renewed before they have sealed too much, at both ends at once and with nothing said; what is late by
/// then still opens, and what was sealed with a key of before opens with no other.
#[test]
fn threats_28_keys_are_renewed_and_what_is_late_still_opens() {
    let mut sealer = secrets().sealer(Direction::Down).unwrap();
    let mut opener = secrets().opener(Direction::Down).unwrap();
    let renewed = 1u64 << REKEY_LOG2;
    // Numbers pass without a datagram, the key is that of phase 0 at both ends.
    sealer.next = renewed - 3;
    opener.window.record(renewed - 4);
    let all: Vec<(u32, Vec<u8>)> = (0..6).map(|_| sealed(&mut sealer, b"h", b"payload")).collect();
    assert_ne!(all[2].1, all[3].1);
    let mut open = |at: usize| {
        let (low, bytes) = &all[at];
        opener
            .open(*low, b"h", &mut bytes.clone())
            .map(|(number, payload)| (number - (renewed - 3), payload.to_vec()))
    };
    for at in [0, 4, 1, 5, 2, 3] {
        assert_eq!(open(at), Ok((at as u64, b"payload".to_vec())));
        assert_eq!(open(at), Err(OpenError::Duplicate));
    }
    // The same session without renewal: nothing past the first key's numbers opens.
    let mut old = secrets().opener(Direction::Down).unwrap();
    old.skip_to(renewed - 1);
    old.keys.skip_to(renewed);
    let (low, bytes) = &all[3];
    assert_eq!(old.open(*low, b"h", &mut bytes.clone()), Err(OpenError::Forged));
}

/// A stranger's number of the next key renews nothing.
#[test]
fn threats_24_a_forged_number_of_the_next_key_moves_nothing() {
    let mut sealer = secrets().sealer(Direction::Up).unwrap();
    let mut opener = secrets().opener(Direction::Up).unwrap();
    let renewed = 1u64 << REKEY_LOG2;
    let (low, bytes) = sealed(&mut sealer, b"h", b"payload");
    let forged = u32::try_from(renewed).unwrap();
    for _ in 0..3 {
        assert_eq!(
            opener.open(forged, b"h", &mut bytes.clone()),
            Err(OpenError::Forged)
        );
    }
    assert_eq!(opener.open(low, b"h", &mut bytes.clone()).unwrap().1, b"payload");
}
