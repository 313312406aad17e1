#!/usr/bin/env python3
"""Makes the dashboards: the panels below are the source, `dashboards/*.json` is what Grafana reads.

    make.py            writes dashboards/*.json
    make.py --check    changes nothing; exits 1 when a file differs, a metric does not exist or is nowhere shown,
                       or an alert lacks its runbook entry or its test

In an expression `@` stands for the matchers of the job and instance variables, `[R]` for `[$__rate_interval]`.
Every panel says what it shows, what to do when it is red, its unit, and where red begins.
The file is long because it is data. Python's standard library alone.
"""

import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
DASHBOARDS = HERE / "dashboards"
RULES = sorted((HERE / "prometheus").glob("*.rules.yml"))
TESTS = HERE / "prometheus" / "tests"
RUNBOOK = HERE.parent / "docs" / "RUNBOOK.md"
CATALOGUE = HERE.parent / "src" / "node" / "catalogue.rs"

MATCHERS = 'job=~"$job",instance=~"$instance"'
SOURCE = {"type": "prometheus", "uid": "${datasource}"}

# Metrics of the process, which the exporter library names and the catalogue does not.
PROCESS = {
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_threads",
    "process_virtual_memory_bytes",
    "process_virtual_memory_max_bytes",
}

# Metrics that no panel and no rule uses, each with its reason.
NOT_SHOWN = {
    "process_virtual_memory_bytes": "address space taken says nothing about memory used",
    "process_virtual_memory_max_bytes": "the same",
}


# ---------------------------------------------------------------- how a panel is said


def at(value, colour="red"):
    """Thresholds: green below `value`."""
    return [(None, "green"), (value, colour)]


def rising(yellow, red):
    """Thresholds: green, from `yellow` on yellow, from `red` on red."""
    return [(None, "green"), (yellow, "yellow"), (red, "red")]


def falling(red, yellow):
    """Thresholds: red below `red`, yellow below `yellow`, then green."""
    return [(None, "red"), (red, "yellow"), (yellow, "green")]


CALM = [(None, "green")]
"""No value of this panel is a fault by itself."""


def panel(kind, title, unit, targets, shows, red, steps, **more):
    """One panel. `targets` are (expression, legend); `more` holds w, h, stack, decimals, min, max, mappings."""
    return dict(
        kind=kind, title=title, unit=unit, targets=targets, shows=shows, red=red, steps=steps, **more
    )


def lines(title, unit, targets, shows, red, steps, **more):
    return panel("timeseries", title, unit, targets, shows, red, steps, **more)


def stat(title, unit, expr, shows, red, steps, **more):
    return panel("stat", title, unit, [(expr, "")], shows, red, steps, **{"w": 4, "h": 4, **more})


def heat(title, unit, metric, shows, red, steps=CALM, **more):
    expr = f"sum by (le) (rate({metric}_bucket{{@}}[R]))"
    return panel("heatmap", title, unit, [(expr, "{{le}}")], shows, red, steps, **more)


def rate(metric, by="", match=""):
    """Sum of the rates of a counter."""
    grouped = f" by ({by})" if by else ""
    return f"sum{grouped} (rate({metric}{{@{',' + match if match else ''}}}[R]))"


def count(metric, by="", match=""):
    """Sum of what a counter rose by in the window: for what should hardly ever happen."""
    return rate(metric, by, match).replace("rate(", "increase(", 1)


def quantiles(metric, *shares):
    """Quantiles of a histogram over all relays chosen."""
    return [
        (
            f"histogram_quantile({share}, sum by (le) (rate({metric}_bucket{{@}}[R])))",
            f"p{share * 100:g}",
        )
        for share in shares
    ]


def mean(metric):
    """Mean of a histogram."""
    return f"{rate(metric + '_sum')} / {rate(metric + '_count')}"


TICKS = "(" + rate("ackline_snapshots_sent_total") + " + " + rate(
    "ackline_withheld_ticks_total", match='reason!~"silent|unwelcomed"'
) + ")"
"""Ticks that clients who listen were due: sent or withheld. A silent or unwelcomed session is due none."""

RELAY = "and on (job, instance) ackline_build_info{@}"
"""Behind a metric of a process, which others export too: of relays alone, whatever the job variable lets through."""

UP = '(up{@,job=~".*ackline.*"} or up{@} and on (job, instance) last_over_time(ackline_build_info{@}[1d]))'
"""Scrapes of relays: of a job of that name, or of what was a relay within a day. One that is down exports nothing now."""

UP_DOWN = {"0": ("down", "red"), "1": ("up", "green")}

SESSIONS_CLOSED = lines(
    "Sessions closed by reason", "cps", [(rate("ackline_sessions_closed_total", "reason"), "{{reason}}")],
    "Sessions ended a second. left: the client said so. idle: nothing was heard. draining, replaced, protocol, "
    "exhausted: the relay ended it.",
    "idle rising at one relay: its network or host; idle everywhere: the game client or a release. protocol: a "
    "client build that breaks the protocol; see Security.",
    rising(10, 50), stack=True,
)
TOKENS_REFUSED = lines(
    "Tokens refused by reason", "cps",
    [(rate("ackline_tokens_refused_total", "reason"), "{{reason}}")],
    "Connect tokens refused, a second, all after a valid cookie.",
    "unknown_key, forged: the minting service has another key, or somebody guesses. expired, from_the_future: its clock, or "
    "clients that wait too long. before_start: the same, where it lasts longer than a minute after a restart. used: tokens "
    "tried twice. elsewhere: wrong audience or public_addresses. history_full: more joins than the relay remembers; shorten "
    "the tokens' life.",
    rising(0.1, 1), stack=True,
)
HANDSHAKES_LIMITED = lines(
    "Handshakes limited by reason", "cps",
    [(rate("ackline_handshakes_limited_total", "reason"), "{{reason}}")],
    "Handshakes that a limit stopped or denied, a second, and sessions never heard that made room for others.",
    "challenges, challenges_of_host: first packets from few places; nothing to do while players join. host, prefix: one address "
    "or net asks often; raise handshakes_per_host_per_s or handshakes_per_prefix_per_s where that is a school or a carrier. "
    "crowded, challenges_crowded: more places than the tables hold. sessions: sessions_per_host. unheard: half-open sessions.",
    rising(10, 100), stack=True,
)
PATH_CHALLENGES = lines(
    "Changed addresses by result", "cps",
    [(rate("ackline_path_challenges_total", "result"), "{{result}}")],
    "Datagrams of sessions from addresses that are not proven, a second, by what they led to.",
    "sent and passed together: players change networks or a NAT forgets them. sent or withheld without passed: copies of "
    "players' datagrams are sent from elsewhere; they move nobody. unmatched: late answers, or guesses.",
    rising(10, 100), stack=True,
)
HANDSHAKES_REFUSED = lines(
    "Handshakes refused by reason", "cps",
    [(rate("ackline_handshakes_refused_total", "reason"), "{{reason}}")],
    "Handshakes denied after a valid cookie, a second. Their senders own their addresses.",
    "full: add relays or raise sessions_max. token: the minting service's key or clock, or somebody guessing. "
    "version: clients of another protocol version. draining: the balancer still sends players here.",
    rising(0.1, 1), stack=True,
)
REFUSED = lines(
    "Datagrams refused by reason", "pps",
    [(rate("ackline_datagrams_refused_total", "reason"), "{{reason}}")],
    "Datagrams the relay dropped, a second, by the first check they failed.",
    "unknown_connection after a restart is old clients and fades. forged, malformed, size, kind, handshake or "
    "cookie rising: a flood or a broken client; see the Security dashboard and filter upstream of the relay. "
    "no_room: replies did not fit a batch, the shards are overloaded.",
    rising(100, 1000), stack=True,
)
VIEW_COMPLETE = lines(
    "Time to the whole view", "s", quantiles("ackline_view_complete_seconds", 0.5, 0.95, 0.99),
    "From a session's opening to its first complete view. No line while nobody joins.",
    "Compare withheld ticks join_pacing and budget on Windows: the byte budget spaces heavy snapshots. Raise "
    "budget_bytes_per_s or narrow the view. With losses high, it is the network.",
    rising(2, 5),
)
DIGESTS = lines(
    "Tables found to differ", "short", [(count("ackline_digest_mismatches_total", "instance"), "{{instance}}")],
    "Clients whose digest of the table parted from the relay's. They are healed with a full state.",
    "Zero is right. Note the builds and the time and look at the client's log: it is a fault of relay or client, or "
    "one modified client. Seen at many clients: roll back the last release.",
    at(1),
)
RELAY_DELAY = lines(
    "Relay delay", "s", quantiles("ackline_relay_delay_seconds", 0.5, 0.9, 0.99),
    "From a tick's arrival at the relay until a client's snapshot of it is with the kernel.",
    "Open Shards: lateness says the shards start late (CPU), encode and send cost say which work grew.",
    rising(0.02, 0.05),
)
BYTES_A_CLIENT = lines(
    "Bandwidth of a client", "Bps",
    [
        (
            "sum by (instance) (rate(ackline_egress_bytes_total{@}[R])) / "
            "(sum by (instance) (ackline_clients{@}) > 0)",
            "{{instance}}",
        )
    ],
    "UDP payload sent, by the clients open. Without headers (28 bytes a datagram over IPv4).",
    "Near budget_bytes_per_s views are cut: see records omitted, reason budget. A step up at a release is a larger "
    "world or a full state sent too often (Windows, fallbacks).",
    rising(131072, 524288),
)

# ---------------------------------------------------------------- the dashboards

FLEET = ("fleet", "Fleet", "Which relays run, how many clients they serve, and is the upstream there?", [
    ("Now", [
        stat("Relays up", "short", f"sum({UP})",
             "Relays whose last scrape came back.",
             "None answers: see the next panel, the host, and whether Prometheus reaches the admin address.",
             falling(1, 1)),
        stat("Relays down", "short", f"count({UP}) - sum({UP})",
             "Relays Prometheus knows and cannot scrape: targets of a job with ackline in its name, or relays within the last day.",
             "Open the relay's log and `/live`. Runbook: AcklineRelayDown.", at(1)),
        stat("Without upstream", "short",
             "count(ackline_upstream_connected{@}) - sum(ackline_upstream_connected{@})",
             "Relays whose connection to the origin is down. Their clients stay and see the last state.",
             "One relay: its network. All: the origin. Runbook: AcklineUpstreamDown.", at(1)),
        stat("Clients", "short", "sum(ackline_clients{@})",
             "Sessions open now.",
             "Never red by itself; a fall together with sessions closed as idle is an outage.", CALM),
        stat("Egress", "bps", f"8 * {rate('ackline_egress_bytes_total')}",
             "UDP payload handed to the kernel, in bits a second.",
             "Never red by itself; compare with what the network cards carry.", CALM),
        stat("Draining", "short", "sum(ackline_draining{@})",
             "Relays that take no new sessions.",
             "Yellow during a rollout is right. If it stays, runbook: AcklineDrainStuck.", at(1, "yellow")),
    ]),
    ("Clients", [
        lines("Clients by relay", "short", [("sum by (instance) (ackline_clients{@})", "{{instance}}")],
              "Sessions open at each relay.",
              "Never red by itself: the next panel says how many of its places that is.", CALM, w=6),
        lines("Places taken by relay", "percentunit",
              [("sum by (instance) (ackline_clients{@}) / sum by (instance) (ackline_sessions_max{@})", "{{instance}}")],
              "Share of sessions_max that is taken, of all shards together.",
              "Add relays or send new players elsewhere before it is full. Runbook: AcklineNearlyFull, AcklineFull.",
              rising(0.7, 0.85), min=0, w=6),
        lines("Sessions opened", "cps", [(rate("ackline_sessions_opened_total", "instance"), "{{instance}}")],
              "Sessions opened a second.",
              "A surge of joins costs full states: watch time to the whole view and egress. Spread the joins.",
              rising(100, 500), w=6),
        lines("Builds", "short", [("count by (version) (ackline_build_info{@})", "{{version}}")],
              "Relays by version.",
              "Never red by itself; two lines long after a rollout: it stopped half-way.", CALM, w=6),
        SESSIONS_CLOSED,
        HANDSHAKES_REFUSED,
        REFUSED,
    ]),
    ("Throughput", [
        lines("Egress by relay", "bps",
              [("8 * " + rate("ackline_egress_bytes_total", "instance"), "{{instance}}")],
              "UDP payload sent, in bits a second.",
              "Red begins at 8 Gbit/s: a 10 Gbit/s card is near its end. Add relays or narrow views.",
              rising(5e9, 8e9)),
        lines("Datagrams", "pps",
              [(rate("ackline_datagrams_sent_total"), "sent"),
               (rate("ackline_datagrams_received_total"), "received")],
              "Datagrams the kernel took, and those received from clients and strangers.",
              "received rising without clients is a flood: see Security.", CALM),
        lines("Snapshots", "cps",
              [(rate("ackline_snapshots_sent_total"), "snapshots"),
               (rate("ackline_snapshot_parts_sent_total"), "parts")],
              "Snapshots sent a second, and the datagrams they took. At best clients times the tick rate.",
              "Snapshots falling with clients steady: see withheld ticks on Windows.", CALM),
        lines("Records sent and left out", "cps",
              [(rate("ackline_records_sent_total"), "sent"),
               (rate("ackline_records_omitted_total", "reason"), "left out: {{reason}}")],
              "Records in snapshots a second, and those left for a later one: budget means that the byte budget was spent. "
              "What waits for its rate tier's tick is in no snapshot and not counted.",
              "budget above sent: views are larger than the budget. Raise budget_bytes_per_s or narrow views.",
              CALM),
        lines("Snapshot size", "bytes", quantiles("ackline_snapshot_bytes", 0.5, 0.9, 0.99),
              "Bytes of a snapshot, all its parts, sealed.",
              "Above 1200 bytes a snapshot takes several datagrams and one loss delays it. Rising with baseline age: "
              "clients acknowledge late.",
              rising(2400, 9600)),
        BYTES_A_CLIENT,
        RELAY_DELAY,
    ]),
    ("Upstream", [
        panel("state-timeline", "Upstream connected", "short",
              [("min by (instance) (ackline_upstream_connected{@})", "{{instance}}")],
              "1 while the relay's connection to the origin is up.",
              "Runbook: AcklineUpstreamDown.", falling(1, 1), mappings=UP_DOWN),
        lines("Since the last tick", "s", [("max by (instance) (ackline_upstream_lag_seconds{@})", "{{instance}}")],
              "Seconds since a tick came from the upstream; 0 before the first.",
              "Connected, or attempts end as silent: the origin hangs or is paused; runbook: AcklineUpstreamSilent. Else the "
              "attempts to connect say why it is away; runbook: AcklineUpstreamDown.",
              rising(0.5, 2)),
        lines("Ticks from the upstream", "cps",
              [(rate("ackline_upstream_frames_total", "instance"), "ticks {{instance}}"),
               (rate("ackline_upstream_holds_total", "instance"), "repeated {{instance}}")],
              "Ticks taken a second, and frames repeated because none came. Ticks should be the origin's tick rate.",
              "repeated rising: the origin misses its ticks; look at its host first.", CALM),
        lines("Bytes from the upstream", "Bps", [(rate("ackline_upstream_bytes_total", "instance"), "{{instance}}")],
              "Bytes a second received from the origin.",
              "Never red by itself; a step up is a larger world.", CALM),
        lines("Attempts to connect, by result", "short",
              [(count("ackline_upstream_connects_total", "result"), "{{result}}")],
              "Attempts to reach the origin in the window. One connected after a restart is right.",
              "connection_refused: no origin there. unresolved: the name. unbelieved: TLS. unanswered or unreachable: the network or a "
              "firewall. silent: its process hangs or is paused. closed: something takes connections and ends them, as a balancer "
              "without an origin behind it does. refused: the origin does not know this relay's token.",
              rising(5, 20), stack=True),
        lines("Stream faults", "short",
              [(count("ackline_upstream_gaps_total"), "gaps"),
               (count("ackline_upstream_malformed_total"), "malformed"),
               (count("ackline_upstream_epoch_changes_total"), "new stream")],
              "Missing tick numbers, messages refused whole, and new streams, in the window.",
              "new stream: the origin restarted. gaps: it skipped ticks. malformed: its publisher breaks the protocol; "
              "docs/UPSTREAM.md. Runbook: AcklineUpstreamFaults.",
              at(1)),
        lines("Upstream items refused, by reason", "cps",
              [(rate("ackline_upstream_refusals_total", "reason"), "{{reason}}")],
              "Items of ticks that the world refused, a second; the rest of the tick was taken.",
              "A fault of the publisher: the reason says which rule it broke. Runbook: AcklineUpstreamFaults.",
              at(1), stack=True),
    ]),
    ("Process", [
        lines("CPU", "short", [(f"sum by (instance) (rate(process_cpu_seconds_total{{@}}[R]) {RELAY})", "{{instance}}")],
              "Cores used by the relay.",
              "Compare with the number of shards: near it, shards run late. Add relays or cores.", CALM),
        lines("Memory", "bytes", [(f"sum by (instance) (process_resident_memory_bytes{{@}} {RELAY})", "{{instance}}")],
              "Resident memory. Most of it is the arena and the windows of clients; it stays at its peak.",
              "A staircase with clients steady is a leak: restart the relay behind a drain and report it.", CALM),
        lines("File descriptors in use", "percentunit",
              [(f"max by (instance) (process_open_fds{{@}} / process_max_fds{{@}} {RELAY})", "{{instance}}")],
              "Share of the limit. Clients need none: they share the shards' sockets.",
              "Somebody holds admin connections open, or the limit is very low. Runbook: AcklineFileDescriptors.",
              rising(0.5, 0.8), min=0, max=1),
        lines("Uptime", "s", [(f"time() - max by (instance) (process_start_time_seconds{{@}} {RELAY})", "{{instance}}")],
              "Since the process began.",
              "Under five minutes without a rollout: it restarts. Read the last log lines. Runbook: AcklineRestarting.",
              falling(300, 300)),
        lines("Threads", "short", [(f"sum by (instance) (process_threads{{@}} {RELAY})", "{{instance}}")],
              "Threads: one a shard and a few for upstream and admin. Constant.",
              "Rising is a fault: report it.", at(200)),
        lines("Reloads", "short", [(count("ackline_reloads_total", "result"), "{{result}}")],
              "Reloads of the settings (SIGHUP) in the window, by result.",
              "refused: what the files say now is not in force, and would not start a relay either; the log's line after SIGHUP "
              "says why. Runbook: AcklineReloadRefused.",
              CALM),
    ]),
])

WINDOWS = ("windows", "Windows", "Do clients' windows of 32 baselines advance, and if not, what is sent instead?", [
    ("Now", [
        stat("Slots in use, p99", "short", quantiles("ackline_window_slots_in_use", 0.99)[0][0],
             "Baseline slots in use at a client when a snapshot is sent, of 32.",
             "Clients acknowledge late or advances stall: see advance duration, round trip and loss.",
             rising(24, 28), decimals=1),
        stat("Snapshots above 28 slots", "percentunit",
             '1 - ' + rate("ackline_window_slots_in_use_bucket", match='le=~"28(\\\\.0)?"') + ' / '
             + rate("ackline_window_slots_in_use_count"),
             "Share of snapshots sent to clients with more than 28 of 32 slots in use.",
             "Runbook: AcklineWindowPressure.", rising(0.01, 0.05)),
        stat("Withheld for want of a slot", "short", count("ackline_withheld_ticks_total", match='reason="slot"'),
             "By the protocol never.",
             "A fault of the relay. Runbook: AcklineSlotWithheld.", at(1)),
        stat("Fallbacks of a client", "short",
             "60 * " + rate("ackline_full_state_fallbacks_total")
             + " / (sum(ackline_clients{@}) > 0)",
             "Full states sent after a view was complete, a minute and client. No value without clients.",
             "Runbook: AcklineFallbacks.", rising(0.1, 0.6), decimals=3),
        stat("Ticks withheld", "percentunit",
             rate("ackline_withheld_ticks_total", match='reason!~"silent|unwelcomed"') + " / " + TICKS,
             "Share of the ticks due to listening clients for which no snapshot was sent.",
             "See withheld ticks by reason. Runbook: AcklineTicksWithheld.", rising(0.05, 0.2)),
        stat("Baseline age, p99", "short", quantiles("ackline_baseline_age_ticks", 0.99)[0][0],
             "Age in ticks of the baseline that snapshots build on.",
             "Old baselines make large deltas: see round trip and loss on Clients.", rising(32, 128), decimals=1),
    ]),
    ("Slots", [
        heat("Slot pressure", "short", "ackline_window_slots_in_use",
             "Snapshots a second by the slots in use at their client. The band should stay low and flat.",
             "A band at the top: those clients are near a full window. Many: their acknowledgements do not come back, "
             "look at loss and kernel drops. Few: bad lines; nothing to do.", w=16, h=9),
        lines("Reports of a full window", "cps", [(rate("ackline_window_full_total", "instance"), "{{instance}}")],
              "Reports a second of clients whose 32 slots are all in use. They are still served, on older baselines.",
              "Runbook: AcklineWindowPressure.", rising(1, 10), w=8, h=9),
    ]),
    ("Advances", [
        lines("Advances by stage", "cps", [(rate("ackline_window_advances_total", "stage"), "{{stage}}")],
              "Window advances a second: requested, committed, confirmed. The three lines lie on each other.",
              "committed above confirmed: confirmations are lost or clients refuse the commit; see fallbacks.", CALM),
        lines("Advance duration", "s", quantiles("ackline_window_advance_seconds", 0.5, 0.9, 0.99),
              "From a commit to its confirmation: a round trip and up to a tick.",
              "Far above the round trip: the client's replies are lost. Runbook: AcklineAdvanceSlow.", rising(0.5, 1)),
        heat("Advance duration, all", "s", "ackline_window_advance_seconds",
             "Advances a second by duration.",
             "A second band at longer times is one group of clients: a region, a carrier, one relay."),
    ]),
    ("What is sent instead", [
        lines("Fallbacks to a full state, by reason", "cps",
              [(rate("ackline_full_state_fallbacks_total", "reason"), "{{reason}}")],
              "Snapshots on the empty base after a view was complete, a second.",
              "stream_changed: the origin restarted. base_missing or commit_not_held: clients lose state, a client "
              "fault. base_digest or commit_digest: a table parted. lease_over: long outages of clients. "
              "nothing_usable: the client was behind by more than the arena. Runbook: AcklineFallbacks.",
              rising(0.1, 1), stack=True),
        lines("Records without a base, by reason", "cps",
              [(rate("ackline_complete_records_total", "reason"), "{{reason}}")],
              "Whole records inside deltas, a second.",
              "Never red by itself; base_left rising: entities leave and enter views often.", CALM),
        DIGESTS,
    ]),
    ("Withheld ticks", [
        lines("Withheld ticks by reason", "cps",
              [(rate("ackline_withheld_ticks_total", "reason"), "{{reason}}")],
              "Ticks a second for which a session got no snapshot. silent and unwelcomed sessions are due none.",
              "budget: raise budget_bytes_per_s or narrow views. overrun: the shard is too slow, see Shards. behind: "
              "clients' lines are congested. join_pacing, restart_pacing: many join at once. slot: a fault.",
              CALM, stack=True, w=12),
        lines("Share of ticks withheld, by reason", "percentunit",
              [(rate("ackline_withheld_ticks_total", "reason", 'reason!~"silent|unwelcomed"')
                + " / ignoring (reason) group_left () " + TICKS, "{{reason}}")],
              "Of the ticks due to listening clients.",
              "Runbook: AcklineTicksWithheld.", rising(0.05, 0.2), stack=True, min=0, w=12),
    ]),
    ("Baselines", [
        lines("Baseline age", "short", quantiles("ackline_baseline_age_ticks", 0.5, 0.9, 0.99),
              "Age in ticks of the baseline a snapshot builds on: about the round trip in ticks.",
              "Rising at a steady round trip: reports of clients do not arrive; see kernel drops and loss.",
              rising(32, 128), w=12),
        heat("Baseline age, all", "short", "ackline_baseline_age_ticks",
             "Snapshots a second by the age in ticks of their baseline.",
             "A band far above the rest: one group of clients on a bad line.", w=12),
    ]),
])

COSTS = ("encode", "seal", "send")
SHARDS = ("shards", "Shards", "Do the worker threads keep up, and what does a packet cost?", [
    ("Now", [
        stat("Worst lateness", "s", "max(ackline_shard_tick_lateness_seconds{@})",
             "The greatest time from a tick's arrival to a shard's start on it, of the last second.",
             "Runbook: AcklineShardLate.", rising(0.01, 0.025)),
        stat("Overruns", "cps", rate("ackline_shard_overrun_total"),
             "Ticks a second that a shard did not serve to all, because a newer one had come.",
             "Runbook: AcklineShardOverrun.", rising(0.1, 1)),
        stat("Lapped", "short", count("ackline_shard_lapped_total"),
             "Times in the window that a shard fell behind by more than the frames kept.",
             "Runbook: AcklineShardLapped.", at(1)),
        stat("Relay delay, p99", "s", quantiles("ackline_relay_delay_seconds", 0.99)[0][0],
             "From a tick's arrival until a client's snapshot of it is with the kernel.",
             "Runbook: AcklineRelayDelay.", rising(0.02, 0.05)),
        stat("Datagrams a CPU second", "short",
             f"{rate('ackline_datagrams_sent_total')} / sum(rate(process_cpu_seconds_total{{@}}[R]) {RELAY})",
             "What one core sends.",
             "Never red by itself; a fall at a release is a loss of speed: compare the cost panels.", CALM),
        stat("Kernel drops", "pps", rate("ackline_kernel_drops_total"),
             "Datagrams the kernel dropped before a shard read them.",
             "Runbook: AcklineKernelDrops.", rising(1, 10)),
    ]),
    ("On time", [
        lines("Overload level", "short",
              [("max by (instance, shard) (ackline_shard_overload_level{@})", "{{instance}} shard {{shard}}")],
              "How far a shard is behind. From 1 on spectators are served every 2nd tick or less, from 3 on players too.",
              "Above 0 for minutes: too many sessions or views for the cores. Add shards or relays, narrow views.",
              rising(1, 3), min=0, max=4),
        lines("Share the egress cap leaves", "percentunit",
              [("min by (instance) (ackline_egress_share_ratio{@})", "{{instance}}")],
              "What egress_bytes_per_s leaves of every session's rate. 1 where it does not bind.",
              "Below 1: the relay would send more than it may. Raise the cap or add relays.",
              CALM, min=0, max=1),
        lines("Lateness by shard", "s",
              [("max by (instance, shard) (ackline_shard_tick_lateness_seconds{@})", "{{instance}} shard {{shard}}")],
              "Greatest time from a tick's arrival to the shard's start on it, of the last second.",
              "One shard: its clients are heavier, or something else uses its core. All: too many clients for "
              "the cores. Runbook: AcklineShardLate.", rising(0.01, 0.025)),
        lines("Overruns by shard", "cps",
              [(rate("ackline_shard_overrun_total", "instance, shard"), "{{instance}} shard {{shard}}")],
              "Ticks a second not served to all. The next tick serves everybody with the newer state.",
              "Runbook: AcklineShardOverrun.", rising(0.1, 1)),
        heat("Relay delay, all", "s", "ackline_relay_delay_seconds",
             "Snapshots a second by their delay in the relay.",
             "A band that grows upward with clients: the shard's turn is too long. A second band: one shard is late."),
    ]),
    ("Cost", [
        lines("Mean cost", "s", [(mean(f"ackline_{work}_seconds"), work) for work in COSTS],
              "Mean seconds of work: encode and seal one datagram, and the kernel's time to send one.",
              "encode up: fewer clients share a baseline, or the world grew. send up: the kernel or the card; check "
              "that batched sends work. seal up: larger datagrams.", at(2.5e-5, "yellow")),
        lines("Cost, p99", "s",
              [(quantiles(f"ackline_{work}_seconds", 0.99)[0][0], work) for work in COSTS],
              "99 of 100 cost less.",
              "Far above the mean: the thread was interrupted; look for other work on these cores.",
              at(2.5e-4, "yellow")),
        lines("Seconds of work a second", "short",
              [(rate(f"ackline_{work}_seconds_sum"), work) for work in COSTS],
              "Cores kept busy by each kind of work, all relays chosen.",
              "Never red by itself; says which cost to look at first.", CALM, stack=True),
        lines("Shared work", "percentunit",
              [(rate("ackline_body_lookups_total", match='result="shared"') + " / "
                + rate("ackline_body_lookups_total"), "snapshot bodies"),
               (rate("ackline_segment_cache_lookups_total", match='result="hit"') + " / "
                + rate("ackline_segment_cache_lookups_total"), "record segments")],
              "Share of look-ups served from what another client's snapshot already built.",
              "Near zero bodies with many clients: they stand on different baselines (loss, jitter) or see different "
              "views; the cost of encoding then grows with clients.", CALM, min=0, max=1),
        lines("Look-ups", "cps", [(rate("ackline_body_lookups_total", "result"), "bodies {{result}}"),
               (rate("ackline_segment_cache_lookups_total", "result"), "segments {{result}}")],
              "Look-ups a second.",
              "Never red by itself.", CALM),
        lines("Arena", "bytes", [("sum by (instance) (ackline_arena_bytes{@})", "{{instance}}")],
              "Bytes of the frames kept, beyond what they share.",
              "Grows with the world's rate of change. Near the memory limit: fewer frames or more memory.", CALM),
        lines("Frames kept", "short", [("min by (instance) (ackline_arena_frames{@})", "{{instance}}")],
              "Frames kept to serve deltas from. Fills after a start and then stays.",
              "Never red by itself; empty means that no upstream came yet.", CALM),
    ]),
    ("Queues and the kernel", [
        lines("Reliable messages waiting", "short",
              [("sum by (instance) (ackline_control_backlog_messages{@})", "{{instance}}")],
              "Reliable messages not acknowledged yet, all clients.",
              "Follows round trip times messages. Rising without end: clients do not acknowledge.",
              rising(10000, 100000)),
        lines("Reliable messages dropped", "short",
              [(count("ackline_control_messages_dropped_total", "instance"), "{{instance}}")],
              "Messages lost because their session's queue was full, in the window.",
              "Runbook: AcklineMessagesDropped.", at(1)),
        lines("Handed to another shard, by result", "pps",
              [(rate("ackline_datagrams_forwarded_total", "result"), "{{result}}")],
              "Datagrams that came in at one shard and belong to another.",
              "dropped: the queue between shards was full. Runbook: AcklineForwardDropped.", CALM),
        lines("Kernel drops by socket", "pps",
              [(rate("ackline_kernel_drops_total", "instance, socket"), "{{instance}} socket {{socket}}")],
              "Datagrams dropped by the kernel before a shard read them.",
              "Runbook: AcklineKernelDrops.", rising(1, 10)),
        lines("Send errors", "pps", [(rate("ackline_send_errors_total", "errno"), "{{errno}}")],
              "Datagrams not sent, by kernel error.",
              "would_block, no_buffers: the send buffer or the card is full. host_unreachable, refused: clients gone. "
              "not_permitted: a firewall. too_long: the path's MTU. Runbook: AcklineSendErrors.",
              rising(1, 10), stack=True),
        lines("Receive errors", "pps", [(rate("ackline_receive_errors_total", "errno"), "{{errno}}")],
              "Errors met while receiving, by kernel error.",
              "refused is an answer to datagrams sent to clients that are gone. Others: read the relay's log.",
              rising(1, 10), stack=True),
    ]),
])

CLIENTS = ("clients", "Clients", "What do players get: loss, round trip, time to join, and what they refuse.", [
    ("Now", [
        stat("Round trip, p50", "s", quantiles("ackline_round_trip_seconds", 0.5)[0][0],
             "Round trip to clients, the relay's view.",
             "All relays: a common path. One: its region or network.", rising(0.1, 0.25)),
        stat("Loss, p90", "percentunit", quantiles("ackline_client_loss_ratio", 0.9)[0][0],
             "Nine of ten measurements of the way to a client are below.",
             "Runbook: AcklineClientLoss.", rising(0.05, 0.1)),
        stat("Whole view, p95", "s", quantiles("ackline_view_complete_seconds", 0.95)[0][0],
             "From a session's opening to its first complete view. No value while nobody joins.",
             "Runbook: AcklineViewSlow.", rising(2, 5)),
        stat("Snapshots of a client", "cps",
             rate("ackline_snapshots_sent_total") + " / (sum(ackline_clients{@}) > 0)",
             "Snapshots a second and client; the origin's tick rate when all is well. No value without clients.",
             "Yellow or red: below 10 a second. See withheld ticks on Windows.", falling(5, 10), decimals=1),
        stat("Tables that differ", "short", count("ackline_digest_mismatches_total"),
             "Clients whose table parted from the relay's, in the window.",
             "Runbook: AcklineDigestMismatch.", at(1)),
        stat("Joins", "cps", rate("ackline_sessions_opened_total"),
             "Sessions opened a second.",
             "Never red by itself; a surge costs full states.", CALM),
    ]),
    ("The line", [
        lines("Loss", "percentunit", quantiles("ackline_client_loss_ratio", 0.5, 0.9, 0.99),
              "Share of datagrams lost on the way to a client, each measured over 64 or more.",
              "p50 red: the path or the relay's own host (send errors). p99 alone: bad lines of a few.",
              rising(0.05, 0.1), min=0),
        heat("Loss, all", "percentunit", "ackline_client_loss_ratio",
             "Measurements a second by loss.", "A band apart is one carrier or region."),
        lines("Round trip", "s", quantiles("ackline_round_trip_seconds", 0.5, 0.9, 0.99),
              "Round trip to clients.",
              "p50 red: the path, or a relay too far from its players. p99 alone: bad lines of a few.",
              rising(0.1, 0.25)),
        heat("Round trip, all", "s", "ackline_round_trip_seconds",
             "Measurements a second by round trip.", "Bands are regions; one that moves is a route that changed."),
        BYTES_A_CLIENT,
        RELAY_DELAY,
    ]),
    ("Joining and leaving", [
        VIEW_COMPLETE,
        heat("Time to the whole view, all", "s", "ackline_view_complete_seconds",
             "Joins a second by time to the whole view.", "A band above 5 s: runbook AcklineViewSlow."),
        SESSIONS_CLOSED,
        HANDSHAKES_REFUSED,
        lines("Address changes", "cps", [(rate("ackline_session_migrations_total", "instance"), "{{instance}}")],
              "Sessions a second whose client came from a new address. Phones and home routers do that.",
              "A surge at once: a carrier's NAT restarted.", rising(10, 100)),
    ]),
    ("What clients say", [
        lines("Rejected by clients, by reason", "pps",
              [(rate("ackline_client_packets_rejected_total", "reason") + " > 0", "{{reason}}")],
              "Datagrams a second that clients say they refused; no line when there are none. It is their word: one "
              "modified client can claim as many as it was sent.",
              "duplicate_datagram, too_old, stale: the network. no_session, session_over: clients joining or "
              "leaving. forged: keys or tampering. malformed_*, trailing, "
              "out_of_range: relay and client disagree on the protocol, roll back. One jump is one client's "
              "claim. Runbook: AcklineClientRejections.", rising(10, 100)),
        lines("Reports of clients, by result", "pps",
              [(rate("ackline_client_reports_total", "result"), "{{result}}")],
              "Reports a second. taken is right; stale ones were overtaken on the way.",
              "contradicting or unknown rising: broken or modified clients; see Security.", CALM),
        DIGESTS,
        lines("Inputs by result", "pps", [(rate("ackline_input_messages_total", "result"), "{{result}}")],
              "Inputs of clients a second on their way to the origin.",
              "lost rising: the way from clients loses in bursts longer than inputs are repeated.", CALM),
        lines("Staleness by tier, p99", "s",
              [("histogram_quantile(0.99, sum by (le, tier) (rate(ackline_staleness_seconds_bucket{@}[R])))",
                "tier {{tier}}")],
              "When a record of an entity in a view is sent, the time since the client last had all of it, by rate tier; one "
              "snapshot in sixteen is looked at. Clients that share whole-world bodies are not in it.",
              "A tier above its period: the budget cuts it. Raise budget_bytes_per_s or narrow views.",
              rising(0.5, 2)),
        lines("Entities in a view", "short", quantiles("ackline_view_members", 0.5, 0.9, 0.99),
              "Entities that a session sees, where it does not see the whole world; one snapshot in sixteen is looked at.",
              "Growing: a crowd. Its cost and bytes grow with it; tier_dense and narrower views help.",
              rising(500, 2000)),
        lines("Events and owner states", "cps",
              [(rate("ackline_events_queued_total"), "events"), (rate("ackline_owner_states_sent_total"), "owner states"),
               (rate("ackline_directives_taken_total"), "directives")],
              "Events queued to sessions, states of their own entity sent to clients, directives of the origin taken.",
              "events far above the rest: the origin publishes more than players can use.", CALM),
    ]),
])

SECURITY = ("security", "Security", "Who knocks without a right to, and what is refused?", [
    ("Now", [
        stat("Datagrams refused", "percentunit",
             rate("ackline_datagrams_refused_total") + " / " + rate("ackline_datagrams_received_total"),
             "Share of datagrams received that were refused.",
             "Runbook: AcklineFlood.", rising(0.05, 0.2)),
        stat("Unproven requests", "pps", rate("ackline_handshake_challenges_total"),
             "Challenges sent to sources that have not shown that they own their address. No state is kept for them.",
             "Far above sessions opened: a flood with forged addresses. Runbook: AcklineFlood.", rising(500, 5000)),
        stat("Forged or malformed", "pps",
             rate("ackline_datagrams_refused_total", match='reason=~"forged|malformed"'),
             "Wrong tags, and authentic payloads that break the protocol.",
             "See datagrams refused by reason.", rising(1, 100)),
        stat("Refused by token", "cps", rate("ackline_handshakes_refused_total", match='reason="token"'),
             "Handshakes with a token that does not hold.",
             "Runbook: AcklineHandshakesDenied.", rising(0.1, 1)),
        stat("Closed for protocol", "short", count("ackline_sessions_closed_total", match='reason="protocol"'),
             "Sessions ended in the window because their client broke the protocol.",
             "A client build or a modified client. Find the build before anything else.", at(1)),
        stat("Contradicting reports", "pps",
             rate("ackline_client_reports_total", match='result="contradicting"'),
             "Reports a second that contradict what their client said before. They are ignored.",
             "Modified or broken clients; other sessions are not touched.", rising(1, 100)),
        stat("Insecure relays", "short", "sum(ackline_insecure{@})",
             "Relays that let in whoever asks, without a token.",
             "Where strangers can reach one: give it token_keys_file, and restart it.", at(1)),
        stat("Refused by the admin", "short", count("ackline_admin_refused_total"),
             "Requests to admin addresses that did not show the admin_token, in the window.",
             "A scraper with an old token, or somebody who tries. The address should not be reachable for strangers.",
             at(1, "yellow")),
    ]),
    ("Strangers", [
        REFUSED,
        lines("Requests and sessions", "cps",
              [(rate("ackline_handshake_challenges_total"), "challenges"),
               (rate("ackline_sessions_opened_total"), "opened")],
              "Challenges sent and sessions opened, a second.",
              "challenges far above opened: a flood with forged addresses; each costs one small reply, never larger "
              "than the request. Filter upstream of the relay.", rising(500, 5000)),
        HANDSHAKES_REFUSED,
        TOKENS_REFUSED,
        HANDSHAKES_LIMITED,
        PATH_CHALLENGES,
    ]),
    ("Members", [
        lines("Reports that do not hold, by result", "pps",
              [(rate("ackline_client_reports_total", "result", 'result!="taken"'), "{{result}}")],
              "Reports a second that were not taken.",
              "stale is the network. contradicting, unknown: broken or modified clients.", rising(10, 100), stack=True),
        lines("Sessions by protocol version", "short",
              [("sum by (version) (ackline_sessions{@})", "version {{version}}")],
              "Sessions open, by the version of the protocol that they speak.",
              "An old version at zero for a week: end it with protocol_min.", CALM),
        lines("Address changes by relay", "cps",
              [(rate("ackline_session_migrations_total", "instance"), "{{instance}}")],
              "Sessions moved to a new address after a proof.",
              "Replayed datagrams move nothing. A surge is a carrier, not an attack.", rising(10, 100)),
        lines("Share refused by relay", "percentunit",
              [(rate("ackline_datagrams_refused_total", "instance") + " / "
                + rate("ackline_datagrams_received_total", "instance"), "{{instance}}")],
              "Share of received datagrams refused, by relay.",
              "One relay: it is the target. All: a client release. Runbook: AcklineFlood.",
              rising(0.05, 0.2), min=0, max=1),
    ]),
    ("Upstream", [
        lines("Upstream faults", "short",
              [(count("ackline_upstream_malformed_total"), "malformed messages"),
               (count("ackline_upstream_refusals_total"), "refused items")],
              "What the relay refused of the origin, in the window.",
              "A fault of the publisher, or something else speaks at that address. Runbook: AcklineUpstreamFaults.",
              at(1)),
    ]),
])

ALL = [FLEET, WINDOWS, SHARDS, CLIENTS, SECURITY]


# ---------------------------------------------------------------- from panels to Grafana's JSON


def expand(expr):
    """The expression as Grafana takes it."""
    return expr.replace("@", MATCHERS).replace("[R]", "[$__rate_interval]")


def variables():
    """The variables at the top: data source, job, instance."""
    query = lambda name, label, text: {
        "name": name, "label": label, "type": "query", "datasource": SOURCE,
        "query": {"query": text, "refId": f"variable-{name}"}, "refresh": 2, "sort": 1, "regex": "",
        "includeAll": True, "allValue": ".+", "multi": True, "hide": 0, "options": [], "skipUrlSync": False,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }
    return [
        {
            "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
            "refresh": 1, "regex": "", "hide": 0, "multi": False, "includeAll": False, "options": [],
            "skipUrlSync": False,
        },
        query("job", "Job", "label_values(ackline_build_info, job)"),
        query("instance", "Relay", 'label_values(ackline_build_info{job=~"$job"}, instance)'),
    ]


def custom_of(kind, spec):
    """What the kind of panel wants below `fieldConfig.defaults.custom`."""
    if kind == "timeseries":
        stacked = spec.get("stack", False)
        drawn = "dashed" if len(spec["steps"]) > 1 else "off"
        return {
            "drawStyle": "line", "lineInterpolation": "linear", "lineWidth": 1, "showPoints": "never",
            "fillOpacity": 25 if stacked else 5, "spanNulls": False,
            "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
            "thresholdsStyle": {"mode": drawn},
        }
    if kind == "state-timeline":
        return {"fillOpacity": 70, "lineWidth": 0}
    return {}


def options_of(kind, spec):
    """What the kind of panel wants below `options`."""
    if kind == "stat":
        return {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "colorMode": "background" if len(spec["steps"]) > 1 else "value",
            "graphMode": "area", "justifyMode": "auto", "orientation": "auto", "textMode": "auto", "wideLayout": True,
            "showPercentChange": False, "percentChangeColorMode": "standard",
        }
    if kind == "heatmap":
        return {
            "calculate": False, "cellGap": 1, "rowsFrame": {"layout": "auto"}, "showValue": "never",
            "color": {"mode": "scheme", "scheme": "Oranges", "scale": "exponential", "exponent": 0.5,
                      "steps": 64, "reverse": False, "fill": "dark-orange"},
            "filterValues": {"le": 1e-9}, "exemplars": {"color": "rgba(255,0,255,0.7)"},
            "legend": {"show": True}, "tooltip": {"mode": "single", "yHistogram": False},
            "yAxis": {"axisPlacement": "left", "reverse": False, "unit": spec["unit"]},
            "cellValues": {"unit": "cps"},
        }
    if kind == "state-timeline":
        return {
            "showValue": "auto", "rowHeight": 0.8, "mergeValues": True, "alignValue": "left",
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
            "tooltip": {"mode": "single", "sort": "none"},
        }
    return {
        "legend": {"displayMode": "table", "placement": "bottom", "showLegend": True, "calcs": ["lastNotNull", "max"]},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }


def panel_json(number, spec, place):
    """One panel."""
    kind = spec["kind"]
    targets = [
        {
            "refId": chr(ord("A") + index), "datasource": SOURCE, "editorMode": "code", "range": True,
            "instant": False, "expr": expand(expr), "legendFormat": legend or "__auto",
            "format": "heatmap" if kind == "heatmap" else "time_series",
        }
        for index, (expr, legend) in enumerate(spec["targets"])
    ]
    defaults = {
        "unit": spec["unit"],
        "color": {"mode": "palette-classic" if kind == "timeseries" else "thresholds"},
        "thresholds": {
            "mode": "absolute",
            "steps": [{"value": value, "color": colour} for value, colour in spec["steps"]],
        },
        "mappings": [
            {
                "type": "value",
                "options": {
                    value: {"text": text, "color": colour, "index": index}
                    for index, (value, (text, colour)) in enumerate(spec.get("mappings", {}).items())
                },
            }
        ] if "mappings" in spec else [],
        "custom": custom_of(kind, spec),
    }
    if kind == "stat":
        defaults["noValue"] = "idle"
    for key in ("decimals", "min", "max"):
        if key in spec:
            defaults[key] = spec[key]
    return {
        "id": number, "type": kind, "title": spec["title"],
        "description": f"{spec['shows']}\n\n**When red:** {spec['red']}",
        "datasource": SOURCE, "gridPos": place, "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options_of(kind, spec), "targets": targets,
    }


def dashboard_json(name, title, asks, rows):
    """One dashboard: rows of panels, filled from left to right in 24 columns."""
    panels, number, y = [], 0, 0
    for row_title, specs in rows:
        number += 1
        panels.append({
            "id": number, "type": "row", "title": row_title, "collapsed": False, "panels": [],
            "gridPos": {"x": 0, "y": y, "w": 24, "h": 1},
        })
        x, y, tallest = 0, y + 1, 0
        for spec in specs:
            number += 1
            wide, high = spec.get("w", 8), spec.get("h", 8)
            if x + wide > 24:
                x, y, tallest = 0, y + tallest, 0
            panels.append(panel_json(number, spec, {"x": x, "y": y, "w": wide, "h": high}))
            x, tallest = x + wide, max(tallest, high)
        y += tallest
    return {
        "uid": f"ackline-{name}", "title": f"Ackline / {title}", "description": asks, "tags": ["ackline"],
        "schemaVersion": 39, "version": 1, "editable": False, "graphTooltip": 1, "timezone": "browser",
        "time": {"from": "now-1h", "to": "now"}, "refresh": "30s", "fiscalYearStartMonth": 0,
        "timepicker": {}, "annotations": {"list": []}, "templating": {"list": variables()}, "panels": panels,
        "links": [{
            "type": "dashboards", "title": "Ackline", "tags": ["ackline"], "asDropdown": False,
            "includeVars": True, "keepTime": True, "targetBlank": False, "icon": "external link",
            "tooltip": "", "url": "",
        }],
    }


def made():
    """Every file: its path and its text."""
    return {
        DASHBOARDS / f"{name}.json": json.dumps(dashboard_json(name, *rest), indent=1) + "\n"
        for name, *rest in ALL
    }


# ---------------------------------------------------------------- checks


def expressions():
    """Every panel's (where, expression), as written above."""
    return [
        (f"{title}: {spec['title']}", expr)
        for _, title, _, rows in ALL for _, specs in rows for spec in specs for expr, _ in spec["targets"]
    ]


def metrics_of(text):
    """Names of metrics in an expression or a rule file; names of recorded series are left out."""
    return set(re.findall(r"(?<![:\w])((?:ackline|process)_[a-z0-9_]+)(?![:\w])", text))


def base_name(name, known):
    """The metric behind a histogram's series."""
    for suffix in ("_bucket", "_sum", "_count"):
        if name.endswith(suffix) and name[: -len(suffix)] in known:
            return name[: -len(suffix)]
    return name


def faults():
    """Everything that is wrong, one sentence each."""
    found = []
    for path, text in made().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            found.append(f"{path.relative_to(HERE)} is not what make.py makes; run make.py")
    for path in DASHBOARDS.glob("*.json"):
        if path not in made():
            found.append(f"{path.relative_to(HERE)} is made by nothing; remove it")

    known = set(re.findall(r'"(ackline_[a-z0-9_]+)"', CATALOGUE.read_text(encoding="utf-8").split("#[cfg(test)]")[0]))
    known |= PROCESS
    used = set()
    rules = [(path.name, line) for path in RULES for line in path.read_text(encoding="utf-8").splitlines()
             if not line.lstrip().startswith("#")]
    for where, text in expressions() + rules:
        for name in metrics_of(text):
            used.add(base_name(name, known))
            if base_name(name, known) not in known:
                found.append(f"{where}: {name} is no metric of the relay")
    for where, expr in expressions():
        if re.search(r"(?:ackline|process)_[a-z0-9_]+(?!\w|\{@)", expr):
            found.append(f"{where}: a metric without {{@}}: the job and relay variables would not hold")
    for where, expr in expressions():
        if re.search(r"\bup\{|\bprocess_\w+\{", expr) and "ackline_build_info{@}" not in expr:
            found.append(f"{where}: others export this metric too; put RELAY or UP, so that only relays count")
    for where, line in rules:
        if re.search(r"\$value \| humanize \}\}", line):
            found.append(f"{where}: humanize writes 0.1 as 100m and counts with fractions; use printf: {line.strip()}")
    for name in sorted(known - used - set(NOT_SHOWN)):
        found.append(f"{name} is on no panel and in no rule; show it, or give its reason in NOT_SHOWN")
    for name in sorted(set(NOT_SHOWN) & used):
        found.append(f"{name} is shown; take it out of NOT_SHOWN")

    runbook = RUNBOOK.read_text(encoding="utf-8") if RUNBOOK.exists() else ""
    tests = "".join(path.read_text(encoding="utf-8") for path in sorted(TESTS.glob("*.yml")))
    alerts = [name for path in RULES for name in re.findall(r"- alert: (\w+)", path.read_text(encoding="utf-8"))]
    for name in alerts:
        if f"\n## {name}\n" not in runbook:
            found.append(f"{name} has no entry in docs/RUNBOOK.md")
        if name not in tests:
            found.append(f"{name} has no test in prometheus/tests")
    for name in re.findall(r"\n## (Ackline\w+)\n", runbook):
        if name not in alerts:
            found.append(f"docs/RUNBOOK.md explains {name}, which is no alert")
    for where, text in [(f"{title}: {spec['title']}", spec["red"])
                        for _, title, _, rows in ALL for _, specs in rows for spec in specs]:
        for name in re.findall(r"\b(Ackline[A-Z]\w+)", text):
            if name not in alerts:
                found.append(f"{where}: {name} is no alert")
    return found


def main():
    if sys.argv[1:] == ["--check"]:
        found = faults()
        for fault in found:
            print(fault, file=sys.stderr)
        return 1 if found else 0
    if sys.argv[1:]:
        print("make.py takes --check or nothing", file=sys.stderr)
        return 2
    DASHBOARDS.mkdir(exist_ok=True)
    for path, text in made().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
