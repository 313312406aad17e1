#!/usr/bin/env python3
"""Real Prometheus against real relays under load: every metric, every expression of dashboards and rules, every fault.

    tests/acceptance/prometheus.py target/debug/ackline [--pictures docs/dashboards] [--keep]

Needs prometheus and promtool (Debian: prometheus) and a C compiler. Everything runs on loopback and free ports, and ends with
it. Five relays of the given program: `calm` serves a bench and must make every expression return data; the others are harmed,
each in its way, until the alerts that are about it hold. Passes when all of that came true, and nothing of it before the harm.
Ends with 0 then, 1 otherwise, 2 where something it needs is not there.
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
GRAFANA = HERE.parent.parent / "grafana"
sys.path[:0] = [str(HERE), str(GRAFANA)]
import check  # noqa: E402: grafana/check.py
import harm  # noqa: E402
import make  # noqa: E402: grafana/make.py
import picture  # noqa: E402: grafana/picture.py

# The names of the interface that scripts rely on, with the label each has.
INTERFACE = """
clients sessions_opened_total sessions_closed_total{reason} handshakes_refused_total{reason} upstream_connected
upstream_lag_seconds upstream_frames_total upstream_epoch_changes_total window_slots_in_use_bucket{le} window_full_total
window_advances_total{stage} window_advance_seconds_bucket{le} withheld_ticks_total{reason}
full_state_fallbacks_total{reason} complete_records_total{reason} baseline_age_ticks_bucket{le} snapshots_sent_total
snapshot_bytes_bucket{le} records_sent_total records_omitted_total{reason} segment_cache_lookups_total{result}
client_packets_rejected_total{reason} encode_seconds_bucket{le} seal_seconds_bucket{le} send_seconds_bucket{le}
relay_delay_seconds_bucket{le} shard_tick_lateness_seconds{shard} shard_overrun_total{shard} arena_frames arena_bytes
send_errors_total{errno} input_messages_total{result} round_trip_seconds_bucket{le} client_loss_ratio_bucket{le}
staleness_seconds_bucket{tier} view_complete_seconds_bucket{le} digest_mismatches_total control_backlog_messages
kernel_drops_total{socket} egress_bytes_total build_info{version} datagrams_refused_total{reason}
""".split()

# Which relay is harmed, how, and what then returns data that returned none. An expression of an alert is asked as it is.
UNDER = {
    "no relay yet": (None, ["alert AcklineNoRelays", "alert AcklineRelayDown"]),
    "the network of clients is bad": ("rough", [
        "alert AcklineClientLoss", "alert AcklineRoundTrip", "alert AcklineViewSlow", "alert AcklineAdvanceSlow",
        "alert AcklineWindowPressure", "alert AcklineClientRejections", "Clients: Rejected by clients, by reason",
    ]),
    "reports of clients are late and lost": ("rough", ["alert AcklineMessagesDropped", "alert AcklineFallbacks"]),
    "nearly every place is taken": ("guarded", ["alert AcklineNearlyFull"]),
    "clients fall silent": ("guarded", ["alert AcklineClientsLost"]),
    "more clients than places, and some without a token": ("guarded", [
        "alert AcklineFull", "alert AcklineHandshakesDenied",
    ]),
    "a budget below what the view costs": ("guarded", ["alert AcklineTicksWithheld"]),
    "the upstream is killed": ("loose", ["alert AcklineUpstreamDown"]),
    "the upstream stands still": ("loose", ["alert AcklineUpstreamSilent"]),
    "a reload is refused": ("loose", ["alert AcklineReloadRefused"]),
    "an upstream message is damaged": ("loose", ["alert AcklineUpstreamFaults"]),
    "the upstream restarts again and again": ("loose", ["alert AcklineUpstreamRestarts"]),
    "admin connections are held open": ("loose", ["alert AcklineFileDescriptors"]),
    "the relay restarts again and again": ("loose", ["alert AcklineRestarting"]),
    "a drain is never ended": ("loose", ["alert AcklineDrainStuck"]),
    "a flood": ("slow", ["alert AcklineFlood"]),
    "the kernel is slow to send": ("slow", ["alert AcklineRelayDelay"]),
    "shards get no processor": ("slow", ["alert AcklineShardLate", "alert AcklineShardOverrun"]),
    "a shard stands still": ("slow", [
        "alert AcklineShardLapped", "alert AcklineKernelDrops", "alert AcklineForwardDropped",
    ]),
    "the kernel has no memory for datagrams": ("slow", ["alert AcklineSendErrors", "alert AcklineReceiveErrors"]),
}

# What nothing from outside can cause; the rules' own tests (promtool) cover them.
NEVER = {
    "alert AcklineSlotWithheld": "by the protocol never: a fault of the relay",
    "alert AcklineDigestMismatch": "a fault of relay or client; `ackline sim --flips` makes it in virtual time",
}

# A busy host makes these hold at a relay that is not harmed: no fault of what is tried here.
OF_THE_HOST = {f"alert Ackline{name}" for name in (
    "ShardLate", "ShardOverrun", "RelayDelay", "TicksWithheld", "MessagesDropped", "AdvanceSlow")}

HZ = 60
FILES = 80
PATIENCE_S = 60
# For what a relay must do many times before five minutes' rate of it is high: more, where other load takes the processor.
LONG_PATIENCE_S = 180


class Failure(Exception):
    """What did not come true."""


def say(text):
    print(f"{time.monotonic() - BEGUN:6.1f} s  {text}", flush=True)


BEGUN = time.monotonic()


class Rig:
    """The programs of one run and where they listen."""

    def __init__(self, program, directory):
        self.program, self.directory = os.path.abspath(program), directory
        self.running, self.relays, self.admins, self.datas = [], {}, {}, {}
        names = ("calm", "rough", "guarded", "loose", "slow")
        for name in names:
            self.admins[name] = harm.free_port(socket.SOCK_STREAM)
            self.datas[name] = harm.free_port(socket.SOCK_DGRAM)
        self.prometheus = f"http://127.0.0.1:{harm.free_port(socket.SOCK_STREAM)}"
        self.origins = {name: harm.free_port(socket.SOCK_STREAM) for name in ("even", "steady", "shaky")}
        self.kernel = harm.HarmedKernel(directory)
        self.supervisor = harm.Supervisor(directory)
        self.way = harm.DamagedWay(("127.0.0.1", self.datas["rough"]), one_in=20)
        self.upstream = harm.DamagedUpstream(("127.0.0.1", self.origins["shaky"]))
        self.config = directory / "loose.toml"
        self.config.write_text('log = "info"\n')
        self.keys = directory / "token.keys"
        self.keys.write_text(subprocess.run([self.program, "token", "key"], check=True, capture_output=True, text=True).stdout)
        self.keys.chmod(0o600)

    def start(self, name, *command, **more):
        clean = {key: value for key, value in os.environ.items() if not key.startswith("ACKLINE")}
        with open(self.directory / f"{name}.log", "a") as log:
            process = subprocess.Popen(
                [str(word) for word in command], stdout=log, stderr=log, env=clean | more.pop("environment", {}), **more
            )
        self.running.append(process)
        return process

    def close(self):
        for process in self.running:
            if process.poll() is None:
                process.kill()
        for process in self.running:
            process.wait()

    def origin(self, name, hz=HZ):
        return self.start(
            f"origin-{name}", self.program, "origin", "--scene", "arena", "--hz", hz, "--view", "radius:30,35",
            "--listen", f"127.0.0.1:{self.origins[name]}",
        )

    def relay(self, name, *flags, upstream="steady", **more):
        if upstream in self.origins:
            upstream = f"127.0.0.1:{self.origins[upstream]}"
        self.relays[name] = self.start(
            f"relay-{name}", self.program, "relay", "--upstream", upstream, "--listen", f"127.0.0.1:{self.datas[name]}",
            "--admin", f"127.0.0.1:{self.admins[name]}", *flags, **more,
        )

    def bench(self, name, *flags, relay=None):
        relay = relay or f"127.0.0.1:{self.datas[name]}"
        return self.start(f"bench-{name}", self.program, "bench", "--relay", relay, *flags)

    def get(self, name, path, method="GET"):
        url = f"http://127.0.0.1:{self.admins[name]}{path}"
        with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=10) as answer:
            return answer.read().decode()

    def stop(self, process):
        process.kill()
        process.wait()

    # What Prometheus says.

    def rows(self, expr):
        return check.ask(self.prometheus, "query", query=expr)["result"]

    def clients(self, name, least):
        """Waits until a relay has so many clients."""
        reached = f'ackline_clients{{instance="127.0.0.1:{self.admins[name]}"}} >= {least}'
        self.until(f"{least} clients are at {name}", lambda: self.rows(reached))

    def holds(self, where, name):
        """True when an expression returns data about this relay, or about no relay in particular."""
        instance = name and f"127.0.0.1:{self.admins[name]}"
        found = self.rows(self.expressions(name)[where])
        return any(row["metric"].get("instance", instance) == instance or name is None for row in found)

    def expressions(self, name):
        instance = f"127.0.0.1:{self.admins[name]}" if name else ".+"
        asked = {where: expr for where, expr, _ in check.panels("1m", instance=instance)}
        rules = check.rules(self.prometheus)
        return asked | {where: rule["query"] for where, rule in rules.items() if rule["type"] == "alerting"}

    def until(self, what, reached, within=PATIENCE_S):
        end = time.monotonic() + within
        while not reached():
            if time.monotonic() > end:
                raise Failure(f"{what}: not within {within} s")
            time.sleep(0.25)


# ---------------------------------------------------------------- before anything runs


def promtool(*words):
    done = subprocess.run(["promtool", *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"promtool {' '.join(map(str, words))}: {done.stdout}{done.stderr}")


def check_files():
    """The files as they are shipped."""
    prometheus = GRAFANA / "prometheus"
    promtool("check", "rules", *sorted(prometheus.glob("*.rules.yml")))
    promtool("check", "config", prometheus / "prometheus.yml")
    promtool("test", "rules", *sorted((prometheus / "tests").glob("*.test.yml")))
    found = make.faults()
    caused = [where for _, wheres in UNDER.values() for where in wheres] + list(NEVER)
    alerts = ["alert " + line.split(": ")[1] for path in make.RULES for line in path.read_text().splitlines() if "- alert: " in line]
    for where in sorted(set(alerts) - set(caused)):
        found.append(f"{where}: nothing here causes it; add it to UNDER, or its reason to NEVER")
    for where in sorted({where for where in caused if where.startswith("alert")} - set(alerts)):
        found.append(f"{where} is no alert any more")
    if found:
        raise Failure("; ".join(found))
    say("rules, their tests, the configuration and the dashboards' source are right")


def configure(rig):
    """The shipped configuration with these relays and a pace for tests."""
    text = (GRAFANA / "prometheus" / "prometheus.yml").read_text()
    targets = json.dumps([f"127.0.0.1:{port}" for port in rig.admins.values()])
    for old, new in [
        ("scrape_interval: 15s", "scrape_interval: 1s"), ("evaluation_interval: 15s", "evaluation_interval: 1s"),
        ('["127.0.0.1:8000"]', targets), ("- recording.rules.yml", f"- {GRAFANA}/prometheus/recording.rules.yml"),
        ("- alerts.rules.yml", f"- {GRAFANA}/prometheus/alerts.rules.yml"),
    ]:
        if old not in text:
            raise Failure(f"grafana/prometheus/prometheus.yml has no {old} any more: change configure() of this file")
        text = text.replace(old, new)
    # Something that is no relay, and has process_* too: itself.
    text += f"\n  - job_name: others\n    static_configs:\n      - targets: [{json.dumps(rig.prometheus.removeprefix('http://'))}]\n"
    file = rig.directory / "prometheus.yml"
    file.write_text(text)
    promtool("check", "config", file)
    return file


# ---------------------------------------------------------------- a relay that is well


def scraped(rig):
    """Every name of the interface is there with its label, and every metric there is shown."""
    series = check.ask(rig.prometheus, "series", **{"match[]": f'{{instance="127.0.0.1:{rig.admins["calm"]}"}}'})
    labels = {}
    for one in series:
        labels.setdefault(one["__name__"], set()).update(one)
    faults = []
    for entry in INTERFACE:
        name, _, label = entry.rstrip("}").partition("{")
        if label and label not in labels.get(f"ackline_{name}", {"nothing"}):
            faults.append(f"ackline_{entry} is not scraped with its label")
        elif f"ackline_{name}" not in labels:
            faults.append(f"ackline_{name} is not scraped")
    known = {name for name in labels if not name.startswith(("scrape_", "up", "job_", "ALERTS"))}
    written = {make.base_name(name, {base for base in known_bases(known)}) for name in known}
    used = set()
    for _, expr in make.expressions():
        used |= make.metrics_of(expr)
    for path in make.RULES:
        used |= make.metrics_of(path.read_text())
    used = {make.base_name(name, written) for name in used}
    for name in sorted(written - used - set(make.NOT_SHOWN)):
        faults.append(f"{name} is scraped, and on no panel and in no rule")
    for name in sorted(make.PROCESS - written):
        faults.append(f"{name} is not scraped")
    text = rig.get("calm", "/metrics")
    lint = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    if lint.returncode != 0:
        faults.append(f"promtool check metrics: {lint.stdout}{lint.stderr}")
    if faults:
        raise Failure("; ".join(faults))
    say(f"{len(written)} metrics scraped, {len(INTERFACE)} names of the interface among them, each shown or its reason given")


def known_bases(names):
    """The names of histograms without their endings, and the others."""
    return {name[: -len("_bucket")] if name.endswith("_bucket") else name for name in names}


def calm(rig):
    """Every expression returns data at the relay that is well, and no alert's comparison holds there."""
    instance = f"127.0.0.1:{rig.admins['calm']}"
    asked, only, faults = check.survey(rig.prometheus, "1m", instance=instance.replace(".", "[.]"))
    alarms = {where for _, wheres in UNDER.values() for where in wheres if where.startswith("alert")} | set(NEVER)
    for where in sorted(alarms - {"alert AcklineNoRelays"}):
        if rig.holds(where, "calm"):
            if where in OF_THE_HOST:
                say(f"{where} holds at the calm relay: the host is busy")
            else:
                faults.append(f"{where} holds at the relay that nothing harms")
    listed = {where for _, wheres in UNDER.values() for where in wheres}
    for line in only:
        where = line.split(": only when ")[0]
        if where not in listed:
            faults.append(f"{where} has no data at the calm relay, and nothing here causes it")
    if faults:
        raise Failure("; ".join(faults))
    say(f"{asked} expressions asked of the calm relay: all return data but {len(only)} that a fault must cause; no alert of it holds")


def only_relays(rig):
    """With all jobs and all instances chosen the dashboards tell of relays alone, though others are scraped."""
    other = rig.prometheus.removeprefix("http://")
    if not rig.rows(f'process_resident_memory_bytes{{instance="{other}"}} and on (instance) up == 1'):
        raise Failure(f"{other} is not scraped: nothing is shown")
    for where, expr, _ in check.panels("1m", job=".+", instance=".+"):
        rows = rig.rows(expr)
        if any(row["metric"].get("instance") == other for row in rows):
            raise Failure(f"{where}: shows {other}, which is no relay")
        if where == "Fleet: Relays up" and [row["value"][1] for row in rows] != [str(len(rig.relays))]:
            raise Failure(f"{where}: {rows} of {len(rig.relays)} relays")
    say("with every job chosen the panels show relays alone")


# ---------------------------------------------------------------- relays that are harmed


def under(rig, fault, within=PATIENCE_S):
    """Waits until everything that the fault must cause is there."""
    name, wheres = UNDER[fault]
    for where in wheres:
        rig.until(f"{fault}: {where}", lambda where=where: rig.holds(where, name), within)
    rig.done.add(fault)
    say(f"{fault}: {', '.join(where.removeprefix('alert ') for where in wheres)}")


def not_yet(rig, faults):
    """None of what these faults cause is there before them."""
    for fault in faults:
        name, wheres = UNDER[fault]
        for where in wheres:
            if rig.holds(where, name) and where not in OF_THE_HOST:
                raise Failure(f"{where} holds at {name} before {fault}")


def loose_upstream(rig, origin):
    rig.upstream.damage()
    under(rig, "an upstream message is damaged")
    origin.send_signal(signal.SIGSTOP)
    under(rig, "the upstream stands still")
    # The relay gives it up and tries again: the kernel takes the connection and nobody speaks.
    silence = f'ackline_upstream_connects_total{{instance="127.0.0.1:{rig.admins["loose"]}",result="silent"}} > 0'
    rig.until("attempts meet silence", lambda: rig.rows(silence))
    under(rig, "the upstream stands still")
    rig.stop(origin)
    under(rig, "the upstream is killed")
    for begun in range(1, 4):
        origin = rig.origin("shaky")
        # A stream that gave a tick, as the relay counts it: what was scraped of the connection may be of the one before.
        counted = f'ackline_upstream_epoch_changes_total{{instance="127.0.0.1:{rig.admins["loose"]}"}} >= {begun}'
        rig.until("the upstream is back", lambda counted=counted: rig.rows(counted))
        rig.stop(origin)
    rig.origin("shaky")
    under(rig, "the upstream restarts again and again")


def loose_relay(rig):
    metrics = rig.get("loose", "/metrics")
    open_now = int(float(metrics.split("\nprocess_open_fds ")[1].split()[0]))
    # To nine tenths of the limit: one that has none left cannot even count them.
    held = [socket.create_connection(("127.0.0.1", rig.admins["loose"])) for _ in range(FILES * 9 // 10 - open_now)]
    under(rig, "admin connections are held open")
    for connection in held:
        connection.close()
    rig.config.write_text("log = [\n")
    rig.relays["loose"].send_signal(signal.SIGHUP)
    under(rig, "a reload is refused")
    rig.get("loose", "/drain", "POST")
    under(rig, "a drain is never ended")
    up = f'up{{instance="127.0.0.1:{rig.admins["loose"]}"}}'
    for _ in range(4):
        rig.stop(rig.relays["loose"])
        rig.until("the relay is seen to be down", lambda: rig.rows(up + " == 0"))
        rig.relay("loose", upstream=rig.upstream.address)
        rig.until("the relay is seen to be up", lambda: rig.rows(up + " == 1"))
    under(rig, "the relay restarts again and again")


def slow(rig, flood):
    """The processor and the kernel fail a relay. Its clients come late, so that what they measure is of that time."""
    under(rig, "a flood")
    rig.stop(flood)
    rig.bench("slow", "--clients", 24, "--seconds", 90)
    rig.clients("slow", 20)
    shards = [harm.threads(rig.relays["slow"], f"ackline-shard-{index}")[0] for index in (0, 1)]
    rig.kernel.slow.touch()
    under(rig, "the kernel is slow to send")
    rig.kernel.slow.unlink()
    starved = harm.Starved(shards)
    time.sleep(6)
    starved.relieve()
    under(rig, "shards get no processor")

    sessions = json.loads(rig.get("slow", "/sessions"))["sessions"]
    of_first = next(int(session["connection"], 16) for session in sessions if session["shard"] == 0)
    before = rig.supervisor.signs()
    halted = harm.Halted(shards[0])
    # Longer than the frames that are kept; meanwhile datagrams for it come in at both sockets.
    end = time.monotonic() + 512 / HZ + 2
    senders = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(16)]
    datagram = b"\x20" + struct.pack("<Q", of_first) + bytes(40)
    while time.monotonic() < end:
        for sender in senders:
            sender.sendto(datagram, ("127.0.0.1", rig.datas["slow"]))
        time.sleep(0.002)
    during = rig.supervisor.signs()
    halted.relieve()
    under(rig, "a shard stands still")
    # A shard is given up after five seconds; a sign was due each half second, and is again once the shard turns.
    again, patience = 0, time.monotonic() + 10
    while not again and time.monotonic() < patience:
        time.sleep(0.1)
        again = rig.supervisor.signs()
    if not before >= 20 or not 5 <= during <= 14 or not again:
        raise Failure(
            f"signs of life for the watchdog: {before} before a shard stood still, {during} while it did for 10 s, {again} after it"
        )
    say(f"no signs of life for the service manager while a shard stands still: {during} until that was noticed")
    # Clients of its own: on a busy host those from before have left by now, and without any the kernel is asked for nothing.
    rig.bench("slow", "--clients", 24, "--seconds", LONG_PATIENCE_S)
    rig.clients("slow", 20)
    rig.kernel.full.touch()
    under(rig, "the kernel has no memory for datagrams", LONG_PATIENCE_S)


def few_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))


def run(rig, pictures):
    rig.done = set()
    rig.start("prometheus", "prometheus", f"--config.file={configure(rig)}", f"--storage.tsdb.path={rig.directory}/data",
              f"--web.listen-address={rig.prometheus.removeprefix('http://')}", "--log.level=warn")
    rig.until("Prometheus has its rules and has looked for relays", lambda: is_up(rig))
    under(rig, "no relay yet")

    rig.origin("even", hz=20)
    rig.origin("steady")
    origin = rig.origin("shaky")
    rig.relay("calm", "--shards", "2", upstream="even")
    rig.relay("rough", "--shards", "1")
    rig.relay("guarded", "--shards", "1", "--token-keys-file", rig.keys, "--sessions-max", "30", "--budget-bytes-per-s", "4000")
    rig.relay("slow", "--shards", "2", "--receive-buffer-bytes", 65536, "--challenges-per-s", 1000,
              environment=rig.kernel.environment | rig.supervisor.environment)
    rig.relay("loose", "--config", rig.config, upstream=rig.upstream.address, preexec_fn=few_files)
    rig.until("all relays are scraped and have a world", lambda: len(rig.rows("ackline_upstream_connected == 1")) == 5)
    for name in rig.relays:
        rig.until(f"{name} is ready", lambda name=name: is_ready(rig, name))
    not_yet(rig, [fault for fault in UNDER if fault != "no relay yet"])
    say("five relays are scraped, and nothing is said to be wrong with them")

    keys = ("--token-keys-file", rig.keys)
    rig.bench("guarded", "--clients", 40, "--seconds", 4)
    rig.bench("calm", "--clients", 16, "--seconds", 300, "--churn", 1, "--input-hz", 20, "--loss", "2%", "--delay-ms", 10)
    rig.bench("rough", "--clients", 5, "--seconds", 90, "--loss", "20%", "--delay-ms", 700, relay=rig.way.address)
    rig.bench("rough", "--clients", 5, "--seconds", 90, "--up-loss", "60%", "--down-loss", "20%", "--delay-ms", 1500)
    # So far away that no view is whole before the clean time at the run's end.
    rig.bench("rough", "--clients", 5, "--seconds", 14, "--delay-ms", 2000)
    time.sleep(8)
    silent = rig.bench("guarded", "--clients", 28, "--seconds", 60, *keys)
    time.sleep(4)
    scraped(rig)
    calm(rig)
    only_relays(rig)
    rig.clients("guarded", 26)
    under(rig, "nearly every place is taken")
    silent.kill()  # Without a word; the relay notices after its idle time.
    under(rig, "the network of clients is bad")
    under(rig, "reports of clients are late and lost")
    rig.bench("guarded", "--clients", 20, "--seconds", 20, *keys)
    under(rig, "more clients than places, and some without a token")
    under(rig, "a budget below what the view costs")
    # Half of its time is the run without the attack that it is compared with.
    flood = rig.bench("slow", "--attack", "flood", "--clients", "1", "--seconds", "30")
    loose_upstream(rig, origin)
    loose_relay(rig)
    slow(rig, flood)
    for fault in UNDER:
        if fault not in rig.done:
            under(rig, fault)
    if pictures:
        names = {f"127.0.0.1:{port}": name for name, port in rig.admins.items()}
        for path in picture.draw(rig.prometheus, pictures, time.monotonic() - BEGUN, names=names):
            say(f"drew {path}, {path.stat().st_size // 1000} kB")


def is_up(rig):
    try:
        return len(rig.rows("up == 0")) == 5 and check.rules(rig.prometheus)
    except OSError:
        return False


def is_ready(rig, name):
    try:
        return rig.get(name, "/ready")
    except OSError:
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--pictures", metavar="DIR", type=pathlib.Path, help="draws each dashboard there, of all that happened")
    parser.add_argument("--keep", action="store_true", help="leaves logs and Prometheus's data behind, and says where")
    options = parser.parse_args()
    missing = [tool for tool in ("prometheus", "promtool", "cc") if not shutil.which(tool)]
    if missing:
        print(f"needs {', '.join(missing)} (Debian: prometheus, gcc)", file=sys.stderr)
        return 2
    directory = pathlib.Path(tempfile.mkdtemp(prefix="ackline-prometheus-"))
    rig = None
    try:
        check_files()
        rig = Rig(options.binary, directory)
        run(rig, options.pictures)
        print(f"ok: {len(rig.done)} faults caused, {len(NEVER)} alerts that nothing from outside can cause")
        return 0
    except Failure as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
        return 1
    finally:
        if rig:
            rig.close()
        if options.keep:
            print(f"logs and data: {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
