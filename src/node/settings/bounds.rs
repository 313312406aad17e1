//! Bounds of the settings that are numbers, by their key, and what to give for each key.

use std::ops::RangeInclusive;

use crate::limits::{self, DATAGRAM_MAX, SHARDS_MAX, UPSTREAM_TOKEN_MAX};
use crate::node::number::wish;
use crate::state::view::ViewError;
use crate::wire::version::Versions;

pub(super) const SHARDS: RangeInclusive<usize> = 1..=SHARDS_MAX;
pub(super) const PROTOCOL_MIN: RangeInclusive<u16> = Versions::SPOKEN.lowest()..=Versions::SPOKEN.highest();
pub(super) const SESSIONS_MAX: RangeInclusive<usize> = 1..=limits::SESSIONS_MAX;
pub(crate) const BUDGET_BYTES_PER_S: RangeInclusive<u64> = 4_000..=1_000_000_000;
/// 0, or from [`BUDGET_BURST_LEAST`] on.
pub(super) const BUDGET_BURST_BYTES: RangeInclusive<u64> = 0..=64 << 20;
/// A datagram.
pub(super) const BUDGET_BURST_LEAST: u64 = DATAGRAM_MAX as u64;
pub(super) const EGRESS_BYTES_PER_S: RangeInclusive<u64> = 0..=1_000_000_000_000;
pub(super) const TIER_CELL_M: RangeInclusive<u32> = 1..=100_000;
pub(super) const TIER_ENTITIES: RangeInclusive<u32> = 0..=1_000_000;
pub(super) const RECEIVE_BUFFER_BYTES: RangeInclusive<usize> = 64 << 10..=1 << 30;
pub(super) const SEND_BUFFER_BYTES: RangeInclusive<usize> = 64 << 10..=1 << 30;
pub(super) const DRAIN_DEADLINE_S: RangeInclusive<u64> = 1..=3600;
/// And below the deadline.
pub(super) const DRAIN_SPREAD_S: RangeInclusive<u64> = 0..=3599;

/// What to give for a key.
pub(super) fn wish_of(key: &str) -> Option<String> {
    Some(match key {
        "listen" => "give an address such as \"0.0.0.0:7777\"".to_owned(),
        "token_keys_file" => "give the path of a file such as \"/etc/ackline/token.keys\"".to_owned(),
        "audience" => "give a text of at most 32 bytes".to_owned(),
        "public_addresses" => "give a text such as \"203.0.113.7:7777\"".to_owned(),
        "insecure" => "give true or false".to_owned(),
        "protocol_min" => wish("a whole number", &PROTOCOL_MIN),
        "admin" => "give an address such as \"127.0.0.1:8000\"".to_owned(),
        "upstream" => "give a text such as \"origin.example:7700\"".to_owned(),
        "upstream_ca_file" => "give the path of a file such as \"/etc/ackline/origin-ca.pem\"".to_owned(),
        "admin_token_file" | "upstream_token_file" => {
            "give the path of a file such as \"/etc/ackline/token\"".to_owned()
        }
        "admin_token" | "upstream_token" => format!("give a text of at most {UPSTREAM_TOKEN_MAX} bytes"),
        "shards" => wish("a whole number", &SHARDS),
        "sessions_max" => wish("a whole number", &SESSIONS_MAX),
        "budget_bytes_per_s" => wish("a whole number", &BUDGET_BYTES_PER_S),
        "budget_burst_bytes" => wish("a whole number", &BUDGET_BURST_BYTES),
        "egress_bytes_per_s" => wish("a whole number", &EGRESS_BYTES_PER_S),
        "tier_cell_m" => wish("a whole number", &TIER_CELL_M),
        "tier_dense" | "tier_crowded" => wish("a whole number", &TIER_ENTITIES),
        "view" => ViewError.to_string(),
        "receive_buffer_bytes" => wish("a whole number", &RECEIVE_BUFFER_BYTES),
        "send_buffer_bytes" => wish("a whole number", &SEND_BUFFER_BYTES),
        "drain_deadline_s" => wish("a whole number", &DRAIN_DEADLINE_S),
        "drain_spread_s" => wish("a whole number", &DRAIN_SPREAD_S),
        "log" => "give a level or filter such as \"info\"".to_owned(),
        "log_format" => "give \"human\" or \"json\"".to_owned(),
        _ => return super::admission::wish_of(key),
    })
}
