//! Tokens as a backend mints and a relay opens them; what an attacker makes of them.

use super::*;
use crate::state::view::{Range, Scope};

fn keys() -> TokenKeys {
    TokenKeys::new(vec![TokenKey::new(3, [9; 32]), TokenKey::new(2, [8; 32])]).unwrap()
}

fn grant() -> Grant {
    Grant {
        issued_s: 1_000,
        expires_s: 1_030,
        client: 77,
        audience: "eu-west".to_owned(),
        relays: vec!["127.0.0.1:4000".parse().unwrap(), "[::1]:4000".parse().unwrap()],
        secret: Secret([5; 32]),
        view: Some(View {
            scope: Scope::Owner(Range::new(2_000, 2_500).unwrap()),
            tags: 6,
        }),
        budget_bytes_per_s: Some(64_000),
    }
}

fn minted() -> ConnectToken {
    grant().mint(keys().minting().unwrap(), [4; 16]).unwrap()
}

#[test]
fn a_relay_reads_what_a_backend_granted() {
    let token = minted();
    assert_eq!(open(&keys(), 1_001, &token.sealed), Ok(([4; 16], grant())));
    let bare = Grant {
        view: None,
        budget_bytes_per_s: None,
        audience: String::new(),
        ..grant()
    };
    let old = bare.mint(keys().find(2).unwrap(), [6; 16]).unwrap();
    assert_eq!(
        open(&keys(), 1_029, &old.sealed),
        Ok(([6; 16], bare)),
        "an older key still holds"
    );
    let text = token.to_text();
    assert_eq!(ConnectToken::from_text(&format!(" {text}\n")), Ok(token.clone()));
    assert!(ConnectToken::from_text(&text[1..]).is_err() && ConnectToken::from_text("zz").is_err());
    assert!(!format!("{token:?}").contains("5, 5, 5"), "secrets are not shown");
}

/// THREATS: expired, of another key, too long a life: refused before a cipher is asked.
#[test]
fn what_is_expired_or_of_an_unknown_key_is_refused() {
    let token = minted();
    for now_s in [1_030, 1_031, u64::MAX] {
        assert_eq!(open(&keys(), now_s, &token.sealed), Err(TokenRefusal::Expired));
    }
    assert_eq!(
        open(&keys(), 0, &token.sealed),
        Err(TokenRefusal::Expired),
        "it would live too long"
    );
    let others = TokenKeys::new(vec![TokenKey::new(4, [9; 32])]).unwrap();
    assert_eq!(open(&others, 1_001, &token.sealed), Err(TokenRefusal::UnknownKey));
    let same_number = TokenKeys::new(vec![TokenKey::new(3, [1; 32])]).unwrap();
    assert_eq!(
        open(&same_number, 1_001, &token.sealed),
        Err(TokenRefusal::Forged)
    );
    assert_eq!(open(&keys(), 1_001, &[]), Err(TokenRefusal::Missing));
}

/// THREATS 11: whoever has the key can say when a token was minted; one that says what no minter would is refused, and so is one
/// of a clock that is more than a minute ahead, which a relay could not tell from a used one after a restart.
#[test]
fn threats_11_when_a_token_was_minted_is_bounded() {
    let said = |issued_s, expires_s, now_s| {
        let grant = Grant {
            issued_s,
            expires_s,
            ..grant()
        };
        let token = grant.seal(keys().minting().unwrap(), [4; 16]).unwrap();
        open(&keys(), now_s, &token.sealed).map(|(_, grant)| grant.issued_s)
    };
    for issued_s in [0, 699, 1_000, 1_001, u64::MAX] {
        assert_eq!(
            said(issued_s, 1_000, 990),
            Err(TokenRefusal::Malformed),
            "{issued_s}"
        );
    }
    assert_eq!(said(700, 1_000, 990), Ok(700));
    assert_eq!(said(1_060, 1_360, 1_000), Ok(1_060));
    assert_eq!(said(1_061, 1_360, 1_000), Err(TokenRefusal::FromTheFuture));
    assert_eq!(
        said(1_061, 1_361, 1_000),
        Err(TokenRefusal::Expired),
        "no cipher is asked"
    );
    assert_eq!(said(1_061, 1_360, 1_001), Ok(1_061));
}

/// THREATS: a bit flipped anywhere, a token cut anywhere: never opened.
#[test]
fn no_flipped_or_cut_token_is_opened() {
    let sealed = minted().sealed;
    for bit in 0..sealed.len() * 8 {
        let mut flipped = sealed.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(open(&keys(), 1_001, &flipped).is_err(), "bit {bit}");
    }
    for length in 0..sealed.len() {
        assert!(open(&keys(), 1_001, &sealed[..length]).is_err(), "{length} bytes");
    }
    let mut longer = sealed.clone();
    longer.push(0);
    assert_eq!(open(&keys(), 1_001, &longer), Err(TokenRefusal::Forged));
    let bytes = minted().encode();
    for length in 0..bytes.len() {
        assert!(ConnectToken::decode(&bytes[..length]).is_err(), "{length} bytes");
    }
}

#[test]
fn what_is_out_of_bounds_is_not_minted() {
    let keys = keys();
    let key = keys.minting().unwrap();
    let relay = grant().relays[0];
    for (wrong, error) in [
        (
            Grant {
                expires_s: 1_000,
                ..grant()
            },
            MintError::Life(0),
        ),
        (
            Grant {
                expires_s: 990,
                ..grant()
            },
            MintError::Life(-10),
        ),
        (
            Grant {
                expires_s: 1_301,
                ..grant()
            },
            MintError::Life(301),
        ),
        (
            Grant {
                relays: vec![],
                ..grant()
            },
            MintError::Relays(0),
        ),
        (
            Grant {
                relays: vec![relay; 9],
                ..grant()
            },
            MintError::Relays(9),
        ),
        (
            Grant {
                audience: "x".repeat(33),
                ..grant()
            },
            MintError::Audience(33),
        ),
    ] {
        assert_eq!(wrong.mint(key, [1; 16]), Err(error));
    }
    let largest = Grant {
        relays: vec!["[2001:db8::1]:65535".parse().unwrap(); 8],
        audience: "x".repeat(32),
        ..grant()
    };
    let token = largest.mint(key, [1; 16]).unwrap();
    assert!(
        token.sealed.len() <= TOKEN_BYTES_MAX,
        "{} bytes",
        token.sealed.len()
    );
}
