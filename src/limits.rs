//! Every bound of the system, its unit and its reason. Nothing else in the crate writes a bare limit.
//!
//! Bounds that depend on each other are asserted against each other at compile time, at the end of the file.

/// Places in which a client keeps a baseline (SPEC WIN1).
pub const WINDOW_SLOTS: usize = 32;
/// Held baselines at which a client asks for an advance (SPEC WIN8, WINDOW-MODEL A25): a quarter of the slots, so that at
/// 20 candidates a second more than a second of negotiation fits, and memory follows what the way needs.
pub const WINDOW_ASK_AT: usize = 8;
/// The largest set of baselines a commit may keep: an advance must free slots (WINDOW-MODEL A6).
pub const COMMIT_SET_MAX: usize = 8;
/// Datagrams one snapshot may span (SPEC TAB8): the width of a part mask.
pub const PARTS_MAX: usize = 32;

/// Dense places for entities in one world. A table entry keeps one bit for "removed", so 15 bits.
pub const SLOTS_MAX: usize = 1 << 15;
/// Ticks after which a place that does not change counts as changed this long ago. Ticks 2^31 apart have no order, so
/// no older one may be compared; every baseline is far younger. At 60 Hz seven months.
pub const QUIET_TICKS: u32 = 1 << 30;
/// Ticks a session may last: what a client compares by tick, such as the last record of a quiet entity, is never older
/// (SPEC DEC6). At 60 Hz seven months.
pub const SESSION_TICKS_MAX: u32 = 1 << 30;
/// Slots in one copy-on-write chunk of a frame.
pub const CHUNK_SLOTS: usize = 64;
/// Extra fields a schema may declare, besides motion.
pub const EXTRA_FIELDS_MAX: usize = 8;
/// Classes of entity a schema may name.
pub const CLASSES_MAX: usize = 255;
/// Entities whose complete record a client may ask for in one report (SPEC CTL2).
pub const RECORD_REQUESTS_MAX: usize = 4;
/// Bytes of a schema in canonical form. It travels in one Welcome datagram.
pub const SCHEMA_BYTES_MAX: usize = 1000;
/// Bytes of one name in a schema.
pub const NAME_BYTES_MAX: usize = 32;

/// Bytes of one event's payload.
pub const EVENT_BYTES_MAX: usize = 256;
/// What an event counts as beside its payload, bytes: what it takes in memory.
pub const EVENT_OVERHEAD_BYTES: usize = 64;
/// Bytes that the events of one tick may take, each counted with its overhead: they stay as long as their frame, so an
/// arena holds at most [`ARENA_FRAMES`] times this. Some thousands; no session can be sent more than [`STREAM_MESSAGES_MAX`] of them anyway.
pub const EVENTS_TICK_BYTES_MAX: usize = 256 << 10;

/// The slowest rate tier: changes are taken in every 2^this ticks (SPEC CTL5), 5 Hz of 20.
pub const TIER_MAX: u8 = 2;
/// The furthest a view may reach, centimetres: 1,000 km.
pub const VIEW_RANGE_MAX_CM: u32 = 100_000_000;
/// Bytes of one input's payload (SPEC PRE4).
pub const INPUT_BYTES_MAX: usize = 64;
/// Inputs a client keeps until they are acknowledged: past it the oldest is lost, and said to be (SPEC PRE4). At 60 Hz
/// more than a second, the longest way a player can play with.
pub const INPUTS_WINDOW: usize = 64;
/// Bytes of inputs, lengths included, in one datagram: the oldest that fit.
pub const INPUTS_BLOCK_BYTES: usize = 512;
/// Inputs that a prediction keeps and plays again at most (SPEC PRE2, FAULTS 99): two seconds at 60 Hz. Past it nothing is
/// predicted until the server has caught up, so a correction never costs more than this many steps.
pub const PREDICTION_PENDING_MAX: usize = 128;
/// Inputs a second a relay takes from one client, and at once: twice what a client at 120 Hz sends.
pub const INPUTS_PER_S: u64 = 240;
/// Time unsent after which a changed member of a view goes before all that waited less, microseconds.
pub const OVERDUE_US: u32 = 500_000;
/// Player events a shard keeps for its origin: past it inputs stay with their clients.
pub const SHARD_PLAYER_EVENTS_MAX: usize = 1 << 14;
/// Tokens a relay remembers at once: a thousand joins a second where tokens live a minute. A full history refuses new ones.
pub const TOKENS_MAX: usize = 1 << 16;
/// Hosts whose rates one shard tells apart at once, in each of its tables: 256 KiB a table. At ten cookies a second a host is
/// remembered for a tenth of a second a cookie, so it takes 160,000 hosts a second to fill one.
pub const HOSTS_THROTTLED_MAX: usize = 1 << 14;
/// Requests, or Responses, a second that all hosts which found no place in a table have together (THREATS 16).
pub const CROWD_PER_S: u64 = 1_000;
/// What a limit of handshakes allows a host at once, at the least: a house full of players behind one address. Of it, or of two
/// seconds' worth, each shard has its share.
pub const LIMIT_BURST: u64 = 128;
/// The least of that for one shard: the tries of a client whose first ones were lost.
pub const LIMIT_BURST_LEAST: u64 = 8;
/// The least a purse must hold for a snapshot, bytes: below, headers would be most of it.
pub const SNAPSHOT_BYTES_MIN: usize = 256;
/// Rate below which a session's snapshots are chosen entry by entry from the start, bytes a second.
pub const TIGHT_BYTES_PER_S: u64 = 64 << 10;
/// Directives of one tick in bytes, each counted with its overhead.
pub const DIRECTIVES_TICK_BYTES_MAX: usize = 1 << 20;

/// Bytes of UDP payload in one datagram, seal and headers included: fits a path MTU of 1280 (SPEC DESIGN).
pub const DATAGRAM_MAX: usize = 1200;
/// Bytes kept free in every snapshot part for its headers, so that one body serves every client: clear header,
/// flags, clock stamp, snapshot header with digest and a commit of at most four snapshots.
pub const PART_HEADER_ROOM: usize = 112;
/// Bytes of a snapshot part's body.
pub const BODY_MAX: usize = DATAGRAM_MAX - TAG_BYTES - PART_HEADER_ROOM;
/// Snapshots a relay's commits keep: the newest held. The protocol allows [`COMMIT_SET_MAX`].
pub const COMMIT_KEEPS: usize = 1;
/// Least time between two candidates for one client, microseconds: about 20 a second compete for slots at any
/// send rate (WINDOW-MODEL A26), and every snapshot is one at 20 Hz.
pub const CANDIDATE_SPACING_US: u64 = 40_000;
/// Growth of the round trip over its floor, microseconds, that means a queue on the way: four ticks of 20 Hz, and no less
/// than the widest jitter that is no queue (THREATS 76).
pub const PACE_QUEUE_US: u32 = 200_000;
/// Time over which the floor of the round trip is remembered, microseconds: one window and the one before.
pub const PACE_FLOOR_WINDOW_US: u64 = 10_000_000;
/// Time in which a queue must have shrunk by a fifth, microseconds, or it is taken for a longer way.
pub const PACE_STUCK_US: u64 = 3_000_000;
/// Least time between snapshots to a client once it first falls behind, microseconds: more than a tick of 20 Hz.
pub const PACE_SPACING_FIRST_US: u32 = 75_000;
/// Most time between snapshots to a client because it is behind, microseconds.
pub const PACE_SPACING_MAX_US: u32 = 400_000;
/// What a round trip without a queue takes back of it, microseconds.
pub const PACE_SPACING_STEP_US: u32 = 4_000;
/// Least time between two heavy snapshots to a client that is joining, microseconds.
pub const JOIN_SPACING_US: u64 = 40_000;
/// Least time between two session epochs of one client (WINDOW-MODEL A9, THREATS 57), microseconds.
pub const RESTART_SPACING_US: u64 = 2_000_000;
/// Least time between two commits of one client, microseconds; the round trip where that is longer (A22).
pub const COMMIT_SPACING_US: u64 = 100_000;
/// Silence after which a relay only probes a client, microseconds (SPEC DEC8).
pub const SILENT_US: u64 = 2_000_000;
/// Time between two probes of a silent client, microseconds (SPEC DEC8).
pub const PROBE_US: u64 = 1_000_000;
/// Silence after which a session closes, microseconds (SPEC DEC8).
pub const IDLE_US: u64 = 30_000_000;
/// Least time between two digests of a base, microseconds, by slots in use: several a second (SPEC DEC9), because some are
/// lost and a divergence is to be found within a second; fewer for large tables, since a client walks over its table.
#[must_use]
pub const fn digest_spacing_us(slots: usize) -> u64 {
    let spacing = 100_000 + 200 * slots as u64;
    if spacing < 500_000 { spacing } else { 500_000 }
}
/// Longest wait of a snapshot for its parts before it is reported, microseconds (SPEC TAB8).
pub const HOLD_BACK_MAX_US: u64 = 100_000;
/// Sessions of one token that were not heard, at once: copies of its Response make sessions too, and the first heard is its own.
pub const TOKEN_PENDING_MAX: usize = 8;
/// How often a token is claimed at all.
pub const TOKEN_CLAIMS_MAX: u32 = 64;
/// Tokens opened in a second, by all shards together: some 3 us each.
pub const TOKENS_OPENED_PER_S: u64 = 10_000;
/// Those of hosts that show none that are refused, beside, while others spend the above.
pub const TOKENS_RESERVED_PER_S: u64 = 2_000;
/// Refused tokens of a host in a second that do not make it one of the others.
pub const REFUSED_PER_HOST_PER_S: u64 = 10;
/// Addresses of one session that are challenged at once: where its client went, and where somebody copies its datagrams to.
pub const PROBES_MAX: usize = 2;
/// Bytes that go to an address a client has not proven, for each that came from there (RFC 9000 section 8.1).
pub const PROBE_BYTES_FACTOR: u64 = 3;
/// Least time between two challenges to one address, microseconds: one is lost now and then, and a client's next datagram
/// brings the next.
pub const PROBE_SPACING_US: u64 = 20_000;
/// The longest a snapshot waits for the answer to a challenge, microseconds, a round trip and 20 ms where that is less: where an
/// address was changed by a NAT, what goes to the old one is lost.
pub const PROBE_HOLD_MAX_US: u64 = 100_000;
/// Least time between two such waits of a session, microseconds: copies from elsewhere delay one snapshot a second, and lose none.
pub const PROBE_HOLD_SPACING_US: u64 = 1_000_000;
/// Time between two Welcomes to a client that was not heard yet, microseconds.
pub const WELCOME_SPACING_US: u64 = 100_000;
/// Time after which a session whose client was never heard is given up, microseconds: a queue of seconds on the way, as
/// a join under overload meets it, is no reason.
pub const UNCONFIRMED_US: u64 = 6_000_000;
/// Welcomes sent to a client that was not heard yet, at most: those of two seconds and some for its own tries.
pub const WELCOMES_MAX: u32 = 30;
/// Snapshot bytes sent before anything was heard of a client, at most: about TCP's initial window (RFC 6928).
pub const UNCONFIRMED_BYTES: u64 = 16 << 10;
/// How often that is halved at most for sessions of a token that has made others: 512 bytes are no snapshot.
pub const UNCONFIRMED_HALVINGS_MAX: u32 = 5;
/// Welcomes to a client that was not heard, at the least: some are lost.
pub const WELCOMES_LEAST: u32 = 6;
/// Parts one session may be sent in one tick. All parts of a snapshot go into one batch, so that no report can
/// be taken in between them (SPEC TAB8).
pub const PARTS_PER_TICK: usize = 24;

/// Bytes of an authentication tag.
pub const TAG_BYTES: usize = 16;

/// Messages of the reliable stream that may wait unacknowledged in one session (SPEC CTL1).
pub const STREAM_MESSAGES_MAX: usize = 64;
/// Bytes of messages that may wait unacknowledged in one session.
pub const STREAM_BYTES_MAX: usize = 8 << 10;
/// Bytes of one message.
pub const MESSAGE_BYTES_MAX: usize = 320;
/// Datagram numbers a replay window remembers: a 32-part burst each tick at 60 Hz for half a second.
pub const REPLAY_WINDOW: u64 = 1024;
/// A key seals two to the power of this many datagrams, 2.4 days at 20 a second, and is renewed: half of what RFC 9001,
/// section 6.6, allows AES-GCM.
pub const REKEY_LOG2: u32 = 22;

/// Lease of a baseline in microseconds of server time since its snapshot was sent (SPEC DEC7).
pub const LEASE_US: u64 = 4_000_000;
/// Frames kept by an arena at the most. At 60 Hz this is 8.5 s, so the lease is always covered up to 120 Hz.
pub const ARENA_FRAMES: usize = 512;

/// Datagrams one receive or send call moves: beyond 64 a call costs no less per datagram.
pub const BATCH_DATAGRAMS: usize = 64;
/// Bytes kept of one received datagram; a longer one is reported as truncated. No peer has reason to send more
/// than `DATAGRAM_MAX`, and an Ethernet frame of 1500 bytes still arrives whole.
pub const RECEIVE_SLOT_BYTES: usize = 2048;
/// Bytes of one slot in a send batch: a whole datagram and room to seal in place.
pub const SEND_SLOT_BYTES: usize = 1280;
/// Receive calls made in a row while each reports an error instead of a datagram (FAULTS 83: no spin).
pub const RECEIVE_TRIES: usize = 8;

/// Bytes of one upstream message, its length prefix not counted. A tick that ends, begins and observes every
/// entity of a full world fits (32,768 entities of at most 159 bytes; asserted in `upstream::tick`).
pub const UPSTREAM_FRAME_MAX: usize = 6 << 20;
/// Bytes of one message from a subscriber to its origin: a token and some fixed fields, or two hundred inputs.
pub const UPSTREAM_REQUEST_MAX: usize = 16 << 10;
/// Bytes of a subscriber's token.
pub const UPSTREAM_TOKEN_MAX: usize = 512;
/// Bytes of the text with which an origin refuses a subscriber.
pub const UPSTREAM_TEXT_MAX: usize = 512;
/// The latest server time in microseconds: 48 bits, 8.9 years. Times travel to clients in 48 bits.
pub const SERVER_TIME_MAX_US: u64 = (1 << 48) - 1;
/// The highest epoch of an origin: nanoseconds of the wall clock stay below until 2116, and whoever says more is mistaken and
/// would shut out every origin after it.
pub const EPOCH_MAX: u64 = 1 << 62;
/// Superseded runs of one epoch that a fence remembers; the oldest is forgotten above.
pub const FENCED_RUNS_MAX: usize = 8;
/// Subscribers of one origin.
pub const SUBSCRIBERS_MAX: usize = 64;
/// Connections to one origin that have not subscribed, TLS handshakes included; the longest waiting goes above. As many come in
/// the tenth of a second that a relay's handshake takes at 5,000 a second.
pub const SUBSCRIBERS_WAITING_MAX: usize = 512;
/// Those of one host other than loopback: many relays behind one address that begin at once.
pub const SUBSCRIBERS_WAITING_HOST_MAX: usize = 32;
/// Players that one subscriber may have at an origin: what one host can serve, and a bound on what it makes an origin keep.
pub const SUBSCRIBER_PLAYERS_MAX: usize = 1 << 17;
/// What players did that waits for the game, or at a relay for its origin; the newest inputs are dropped above. Some
/// hundred milliseconds of the inputs of a thousand players.
pub const PLAYER_EVENTS_MAX: usize = 1 << 15;
/// The most that a playback's delay grows to, microseconds; two periods where that is more (SPEC PLY1).
pub const PLAYBACK_DELAY_MAX_US: u64 = 250_000;
/// The furthest a playback is from its target without a new anchor, and the longest it stays frozen, microseconds (SPEC PLY5, R).
pub const PLAYBACK_REANCHOR_US: u64 = 500_000;
/// The furthest a playback runs ahead of the newest tick, and an entity past its observation, microseconds (SPEC PLY3, ENT1).
pub const PLAYBACK_AHEAD_US: u64 = 100_000;
/// Observations of one entity, and snapshot times, that a playback keeps at the most: 0.75 s at 680 ticks a second.
pub const PLAYBACK_KEPT_MAX: usize = 512;
/// What a shot may take from the origin's tick to the picture and from the trigger to the origin, both ways together, beside
/// the period it waits for a tick there, microseconds.
pub const LAG_WAYS_US: u64 = 200_000;
/// The least age of a picture that is believed, microseconds, however fast the ticks.
pub const LAG_AGE_LEAST_US: u64 = 1_000_000;
/// Ticks that an origin keeps to look at shots in the past, at the most: one second at 1,000 ticks a second.
pub const LAG_FRAMES_MAX: usize = 1_024;
/// Bytes queued for one subscriber before it is dropped as slow: two full keyframes and some ticks.
pub const SUBSCRIBER_QUEUE_MAX: usize = 20 << 20;
/// The longest a message may wait for a subscriber, in microseconds: a relay further behind than the lease of
/// its clients' baselines gains more from a new keyframe.
pub const SUBSCRIBER_LAG_MAX_US: u64 = LEASE_US;
/// A connection that has not subscribed within this time is closed, in microseconds.
pub const SUBSCRIBE_WITHIN_US: u64 = 5_000_000;
/// Keyframes on request go to one subscriber at most this often, in microseconds.
pub const RESYNC_GAP_US: u64 = 100_000;

/// Bytes of one line of a trace file. The largest record known, 901 bodies at once, takes 72 kB.
pub const TRACE_LINE_MAX: usize = 4 << 20;
/// Records, spawns, despawns, observations and events in one trace file, together: bounds what loading one takes.
pub const TRACE_ROWS_MAX: u64 = 1 << 23;
/// Columns of an observation in a trace file.
pub const TRACE_COLUMNS_MAX: usize = 32;
/// Seconds one trace file may last: 115 days.
pub const TRACE_SECONDS_MAX: f64 = 1e7;
/// The farthest coordinate in a trace file, in metres.
pub const TRACE_METRES_MAX: f64 = 1e6;
/// The fastest motion in a trace file, in metres or radians a second.
pub const TRACE_RATE_MAX: f64 = 1e5;

/// Datagrams under way on one impaired link; the newest is dropped above.
pub const IMPAIRMENT_QUEUE_MAX: usize = 4096;
/// The longest delay, jitter or hold of an impaired link, in microseconds.
pub const IMPAIRMENT_DELAY_MAX_US: u64 = 60_000_000;

/// Shards of one relay: their index travels in 8 bits of a connection id, and no host has more cores to give.
pub const SHARDS_MAX: usize = 64;
/// Sessions of one relay: beyond, one host's network is the bound.
pub const SESSIONS_MAX: usize = 1 << 20;
/// The longest a shard waits for anything, in microseconds: its timers are due that often.
pub const SHARD_WAIT_US: u64 = 20_000;
/// Receive batches a shard takes before it looks at frames and timers again (THREATS 91: a flood never stops ticks).
pub const RECEIVE_BATCHES_PER_TURN: usize = 16;
/// Datagrams of other shards' sessions under way between shards, for each shard; the newest is dropped above.
pub const LETTERS_MAX: usize = 256;
/// Time between two exports of a shard's counters, in microseconds.
pub const EXPORT_EVERY_US: u64 = 100_000;
/// A shard that has not turned for this long is stalled, and the relay is not live, in microseconds.
pub const SHARD_STALLED_US: u64 = 5_000_000;
/// Connections to the admin at once: operators, probes and scrapers are few. One more, and the oldest goes.
pub const ADMIN_CONNECTIONS_MAX: usize = 64;
/// Sessions in one page of the admin's list.
pub const SESSIONS_PAGE_MAX: usize = 1000;
/// The least and the most time between two attempts to reach the upstream, in microseconds.
pub const UPSTREAM_BACKOFF_US: (u64, u64) = (50_000, 2_000_000);
/// Relays a driver of a client may know.
pub const RELAYS_MAX: usize = 16;
/// Silence after which a client takes its way to the relay for broken, microseconds: a relay speaks at least every 200 ms,
/// so at 30% loss one in four hundred such waits is a mistake, which costs one handshake.
pub const RELAY_SILENCE_US: u64 = 1_000_000;
/// The least and the most time between two attempts of a client to get a session, microseconds.
pub const RELAY_BACKOFF_US: (u64, u64) = (100_000, 8_000_000);
/// Datagrams a driver takes at once: more than a socket's usual buffer holds after a pause.
pub const DRIVER_RECEIVES_MAX: usize = 256;
/// Events that a driver keeps until the game asks: all that one session may have left, and as many turns; above, what matters
/// least goes.
pub const DRIVER_EVENTS_MAX: usize = 256;
/// Time between two tries to get a socket where the system gave none, microseconds.
pub const SOCKET_AGAIN_US: u64 = 250_000;
/// Time in which a connection to the upstream must be up, a name resolved included, in microseconds.
pub const UPSTREAM_CONNECT_US: u64 = 3_000_000;
/// An upstream connection that says nothing for this long is given up, in microseconds.
pub const UPSTREAM_SILENCE_US: u64 = 10_000_000;
/// The least time without a tick after which the last frame is repeated, in microseconds; three tick periods where
/// that is longer.
pub const HOLD_AFTER_US: u64 = 100_000;
/// Time without a tick after which repeated frames are marked stale, and come once in this time, in microseconds.
pub const STALE_AFTER_US: u64 = 1_000_000;
/// An origin later than this against its schedule moves the schedule, in microseconds; three tick periods where
/// that is longer. Less is caught up.
pub const ORIGIN_LATE_MAX_US: u64 = 100_000;
/// Published ticks that an origin keeps for whoever checks against them; the newest is dropped above.
pub const TRUTH_TICKS_MAX: usize = 1024;
/// Things heard of players that an origin keeps for whoever checks them; the newest is dropped above: half a second of
/// 2,000 players at 60 inputs a second.
pub const HEARD_MAX: usize = 1 << 16;

const _: () = assert!(WINDOW_ASK_AT < WINDOW_SLOTS);
const _: () = assert!(RELAY_BACKOFF_US.0 < RELAY_BACKOFF_US.1);
const _: () = assert!(PREDICTION_PENDING_MAX >= INPUTS_WINDOW);
const _: () = assert!(UPSTREAM_TOKEN_MAX + 64 <= UPSTREAM_REQUEST_MAX);
const _: () = assert!(SUBSCRIBER_QUEUE_MAX >= 3 * UPSTREAM_FRAME_MAX);
const _: () = assert!(COMMIT_SET_MAX <= WINDOW_ASK_AT);
const _: () = assert!(PARTS_MAX <= u32::BITS as usize);
const _: () = assert!(SLOTS_MAX.is_multiple_of(CHUNK_SLOTS));
const _: () = assert!(DATAGRAM_MAX <= SEND_SLOT_BYTES && SEND_SLOT_BYTES <= RECEIVE_SLOT_BYTES);
const _: () = assert!(SCHEMA_BYTES_MAX + 128 <= DATAGRAM_MAX);
const _: () = assert!(ARENA_FRAMES as u64 * 1_000_000 / 120 >= LEASE_US);
const _: () = assert!(SHARDS_MAX <= 256 && PARTS_PER_TICK <= BATCH_DATAGRAMS);
const _: () = assert!(UPSTREAM_BACKOFF_US.0 < UPSTREAM_BACKOFF_US.1);
