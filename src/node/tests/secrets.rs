//! What formats anything that holds a secret, of whatever layer, has none of its bytes: neither as text nor as numbers.

use std::fmt::Debug;

use super::super::origin::OriginSettings;
use super::super::secret::SecretText;
use super::super::settings::{PartialSettings, RelaySettings};
use super::source;
use crate::bench::source::TruthSource;
use crate::client::settings::ClientSettings;
use crate::driver::settings::DriverSettings;
use crate::origin::subscribers::Subscribers;
use crate::relay::budget::Budget;
use crate::relay::shard::{ShardLimits, ShardSettings};
use crate::state::view::View;
use crate::token::{ConnectToken, Secret, TokenKey, TokenKeys};
use crate::upstream::message::{Subscribe, ToOrigin};
use crate::upstream::subscriber::Subscriber;
use crate::wire::handshake::Response;
use crate::wire::version::Versions;

/// Letters, and numbers, that stand nowhere else.
const KEY: [u8; 32] = *b"zqjxvzqjxvzqjxvzqjxvzqjxvzqjxvzq";

fn hides(value: &dyn Debug) {
    for text in [
        format!("{value:?}"),
        format!("{value:#?}").replace(char::is_whitespace, " "),
    ] {
        for part in ["zqj", "122, 113", "7a, 71", "7a71", "122,     113"] {
            assert!(!text.contains(part), "{text}");
        }
    }
}

#[test]
fn no_settings_print_their_secrets() {
    let text = || SecretText::from("zqjxvzqjxv");
    let client = ClientSettings {
        token: KEY.to_vec(),
        token_key: KEY,
        ..ClientSettings::default()
    };
    hides(&client);
    hides(&DriverSettings {
        client,
        ..DriverSettings::new(Vec::new())
    });
    let settings = RelaySettings {
        admin_token: text(),
        upstream_token: text(),
        token_keys: TokenKeys::parse(&TokenKey::new(1, KEY).to_line()).ok(),
        ..RelaySettings::default()
    };
    assert!(settings.token_keys.is_some());
    hides(&settings);
    hides(&settings.shown());
    hides(&PartialSettings {
        admin_token: Some(text()),
        ..PartialSettings::default()
    });
    hides(&OriginSettings {
        token: text(),
        ..OriginSettings::loopback(source())
    });
    hides(&TruthSource::Subscription {
        addr: String::new(),
        token: text(),
        trust: None,
    });
    hides(&ShardSettings {
        index: 0,
        sessions_max: 1,
        budget: Budget::default(),
        egress_bytes_per_s: None,
        view: View::WHOLE,
        gate: None,
        versions: Versions::SPOKEN,
        limits: ShardLimits::default(),
        cookie_secret: KEY,
        seed: KEY,
        stopwatch: || 0,
    });
}

#[test]
fn no_token_is_printed_with_who_shows_it() {
    hides(&ConnectToken {
        expires_s: 1,
        relays: Vec::new(),
        secret: Secret(KEY),
        sealed: KEY.to_vec(),
    });
    hides(&Response {
        version: 3,
        client_nonce: [0; 16],
        cookie: [0; 24],
        token: &KEY,
    });
    let subscribe = Subscribe {
        flags: 0,
        token: KEY.to_vec(),
    };
    hides(&subscribe);
    hides(&ToOrigin::Subscribe(subscribe));
    let mut subscriber = Subscriber::new(KEY.to_vec());
    hides(&subscriber);
    let _ = subscriber.start();
    hides(&subscriber);
    let mut subscribers = Subscribers::new(KEY.to_vec());
    subscribers.open([127, 0, 0, 1].into(), 0);
    hides(&subscribers);
}
