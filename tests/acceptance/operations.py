#!/usr/bin/env python3
"""A relay under load that is told to read its settings again, and one that is drained with all its clients.

    cargo build --release
    tests/acceptance/operations.py target/release/ackline [--clients N]

SIGHUP twenty times under a third of the clients, and of nothing: no datagram may be lost, refused or late for more ticks than
without. SIGTERM under all of them: each is told, nobody finds out by silence, and the relay ends with 0 within its deadline.
Everything on loopback. Ends with 0 when that came true, 1 otherwise.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harm  # noqa: E402: for a free port

DEADLINE_S = 10


class Rig:
    def __init__(self, program, directory):
        self.program, self.directory, self.running = os.path.abspath(program), directory, []
        self.upstream, self.admin = (f"127.0.0.1:{harm.free_port(harm.socket.SOCK_STREAM)}" for _ in range(2))
        self.listen = f"127.0.0.1:{harm.free_port(harm.socket.SOCK_DGRAM)}"
        self.start("origin", "--scene", "cubes", "--entities", "100", "--hz", "20", "--listen", self.upstream)

    def start(self, *words):
        process = subprocess.Popen([self.program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.running.append(process)
        return process

    def relay(self):
        config = self.directory / "relay.toml"
        config.write_text(f'log = "warn"\ndrain_deadline_s = {DEADLINE_S}\n')
        relay = self.start("relay", "--config", str(config), "--upstream", self.upstream, "--listen", self.listen, "--admin", self.admin)
        until = time.monotonic() + 30
        while True:
            try:
                self.get("/ready")
                return relay
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def bench(self, clients, seconds):
        return subprocess.Popen(
            [self.program, "bench", "--relay", self.listen, "--admin", self.admin, "--truth", self.upstream, "--clients", str(clients),
             "--seconds", str(seconds), "--report", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def get(self, path):
        with urllib.request.urlopen(f"http://{self.admin}{path}", timeout=5) as answer:
            return answer.read().decode()

    def counts(self):
        """The metrics, labels and all."""
        lines = (line for line in self.get("/metrics").splitlines() if line and line[0] != "#")
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    def sum(self, name):
        return sum(value for key, value in self.counts().items() if key.split("{")[0] == name)

    def clients(self, wanted):
        until = time.monotonic() + 60
        while self.sum("ackline_clients") < wanted:
            if time.monotonic() > until:
                raise SystemExit(f"FAILED: {self.sum('ackline_clients'):.0f} of {wanted} clients are in after a minute")
            time.sleep(0.2)

    def close(self):
        for process in self.running:
            process.kill()
            process.wait()


def losses(counts):
    """What is lost, refused or too late anywhere, by name."""
    names = ("ackline_send_errors_total", "ackline_kernel_drops_total", "ackline_datagrams_refused_total", "ackline_shard_overrun_total",
             "ackline_client_packets_rejected_total", "ackline_full_state_fallbacks_total", "ackline_shard_lapped_total")
    late = {"ackline_datagrams_refused_total{reason=\"duplicate\"}"}
    found = {key: value for key, value in counts.items() if key.split("{")[0] in names and key not in late}
    # Measurements of the way to a client that say more than a thousandth was lost.
    measured = counts["ackline_client_loss_ratio_count"] - counts['ackline_client_loss_ratio_bucket{le="0.001"}']
    return found | {"measurements with loss": measured}


def reload_under_load(rig, clients):
    relay = rig.relay()
    bench = rig.bench(clients, 14)
    rig.clients(clients)
    time.sleep(2)
    before = rig.counts()
    for turn in range(20):
        (rig.directory / "relay.toml").write_text(f'log = "warn"\ndrain_deadline_s = {DEADLINE_S + turn % 2}\n')
        relay.send_signal(signal.SIGHUP)
        time.sleep(0.2)
    after = rig.counts()
    report = json.loads(bench.communicate()[0])
    sent = after["ackline_datagrams_sent_total"] - before["ackline_datagrams_sent_total"]
    was, now = losses(before), losses(after)
    rose = {key: now[key] - was.get(key, 0) for key in now if now[key] > was.get(key, 0)}
    print(f"SIGHUP, 20 times in 4 s, {clients} clients: {sent:,.0f} datagrams sent meanwhile, lost or refused: {rose or 'none'}; "
          f"reconnects {report['clients']['reconnects']}, mismatches {report['truth']['mismatches']}, gap p99 "
          f"{report['gap_ms']['p99']:.0f} ms, max {report['gap_ms']['max']:.0f} ms")
    relay.send_signal(signal.SIGTERM)
    relay.wait(DEADLINE_S + 5)
    is_kept = report["clients"]["connected"] == clients and report["clients"]["reconnects"] == 0
    return not rose and is_kept and report["truth"]["mismatches"] == 0


def drain(rig, clients):
    relay = rig.relay()
    bench = rig.bench(clients, 20)
    rig.clients(clients)
    time.sleep(2)
    begun = time.monotonic()
    relay.send_signal(signal.SIGTERM)
    code = relay.wait(DEADLINE_S + 5)
    took_s = time.monotonic() - begun
    out, said = bench.communicate()
    endings = json.loads(out)["clients"]["endings"]
    told = sum(count for reason, count in endings.items() if "drain" in reason)
    silent = sum(count for reason, count in endings.items() if "silen" in reason or "idle" in reason or "lost" in reason)
    print(f"SIGTERM, {clients} clients: exit code {code} after {took_s:.2f} s of at most {DEADLINE_S}; endings at the clients {endings}")
    return code == 0 and took_s <= DEADLINE_S and told >= clients and silent == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--clients", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        rig = Rig(options.binary, pathlib.Path(directory))
        try:
            held = [reload_under_load(rig, max(options.clients // 3, 1)), drain(rig, options.clients)]
        finally:
            rig.close()
    print("ok" if all(held) else "FAILED")
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
