#!/usr/bin/env python3
"""Clients behind a real NAT whose mapping changes in the middle of the stream, over a path of MTU 1280.

    cargo build --release
    sudo tests/acceptance/nat.py target/release/ackline [--clients N] [--rtt-ms R] [--moves M]

Three network namespaces of their own: clients, a router that masquerades (nftables), relay with its origin. Needs root, ip,
nft and conntrack (Debian: iproute2, nftables, conntrack); the clients delay what they send and get. Each move gives the router another range of ports and makes it
forget what it had, so that every client comes from a port nobody knows, and what is sent to the old one is refused.

Passes when every session goes on, no record is wrong, and no client waited longer for a snapshot than a tick, the round trip
and 50 ms. Ends with 0 then, 1 otherwise, 2 where something it needs is not there.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HZ = 20
PORTS = [(20000, 29999), (30000, 39999), (40000, 49999)]


def sh(command, check=True):
    return subprocess.run(command, shell=True, check=check, capture_output=True, text=True)


class Net:
    """Clients 10.77.1.2 - 10.77.1.1 router 10.77.2.1 - 10.77.2.2 relay."""

    def __init__(self):
        mark = os.getpid()
        self.names = {name: f"ackline-{name}-{mark}" for name in ("clients", "router", "relay")}
        c, n, r = self.names["clients"], self.names["router"], self.names["relay"]
        for name in self.names.values():
            sh(f"ip netns add {name}")
            sh(f"ip -n {name} link set lo up")
        for side, inside, near, far in ((c, "c0", "10.77.1.1", "10.77.1.2"), (r, "r0", "10.77.2.1", "10.77.2.2")):
            sh(f"ip -n {n} link add {inside} type veth peer name u0 netns {side}")
            for where, device, address in ((n, inside, near), (side, "u0", far)):
                sh(f"ip -n {where} addr add {address}/24 dev {device}")
                sh(f"ip -n {where} link set {device} mtu 1280 up")
            sh(f"ip -n {side} route add default via {near}")
        sh(f"ip netns exec {n} sysctl -qw net.ipv4.ip_forward=1")
        sh(f"ip netns exec {n} nft add table ip nat")
        sh(f"ip netns exec {n} nft 'add chain ip nat post {{ type nat hook postrouting priority 100 ; }}'")
        self.map(0)

    def map(self, move):
        """Gives the router the range of ports of a move, and makes it forget every mapping."""
        low, high = PORTS[move % len(PORTS)]
        n = self.names["router"]
        rule = f"ip saddr 10.77.1.0/24 oifname r0 meta l4proto udp masquerade to :{low}-{high}"
        sh(f"ip netns exec {n} nft 'flush chain ip nat post ; add rule ip nat post {rule}'")
        sh(f"ip netns exec {n} conntrack -F", check=False)

    def popen(self, name, command, **more):
        return subprocess.Popen(["ip", "netns", "exec", self.names[name], *command], **more)

    def close(self):
        for name in self.names.values():
            sh(f"ip netns pids {name} | xargs -r kill -9", check=False)
            sh(f"ip netns del {name}", check=False)


def run(net, binary, arguments, directory):
    log = open(directory / "relay.log", "w")
    net.popen("relay", [binary, "origin", "--scene", "cubes", "--entities", "100", "--hz", str(HZ),
                        "--listen", "10.77.2.2:7700"], stderr=log, stdout=log)
    net.popen("relay", [binary, "relay", "--listen", "10.77.2.2:7777", "--admin", "10.77.2.2:8000", "--insecure",
                        "--upstream", "10.77.2.2:7700"], stderr=log, stdout=log)
    time.sleep(1.5)
    seconds = 3 + 1.5 * arguments.moves
    report = directory / "report.json"
    bench = net.popen("clients", [binary, "bench", "--relay", "10.77.2.2:7777", "--admin", "10.77.2.2:8000",
                                  "--truth", "10.77.2.2:7700", "--clients", str(arguments.clients), "--seconds",
                                  str(seconds), "--delay-ms", str(arguments.rtt_ms / 2), "--input-hz", str(arguments.input_hz), "--report", str(report)],
                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    begun = time.monotonic()
    for move in range(arguments.moves):
        # At another point between two ticks each time.
        at = begun + 3 + 1.5 * move + move / arguments.moves / HZ
        time.sleep(max(0.0, at - time.monotonic()))
        net.map(move + 1)
    text, _ = bench.communicate(timeout=60)
    if not report.exists():
        print(text, (directory / "relay.log").read_text(), sep="\n")
        return None
    return json.loads(report.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--rtt-ms", type=float, default=40)
    parser.add_argument("--moves", type=int, default=8)
    parser.add_argument("--input-hz", type=float, default=30)
    arguments = parser.parse_args()
    missing = [tool for tool in ("ip", "nft", "conntrack") if not shutil.which(tool)]
    if missing or os.geteuid() != 0:
        print(f"needs root and {', '.join(missing) or 'its tools'}", file=sys.stderr)
        return 2
    net = Net()
    try:
        with tempfile.TemporaryDirectory() as directory:
            report = run(net, os.path.abspath(arguments.binary), arguments, pathlib.Path(directory))
    finally:
        net.close()
    if report is None:
        return 1
    clients, gap, truth = report["clients"], report["gap_ms"], report["truth"]
    bound = 1000 / HZ + arguments.rtt_ms + 50
    faults = [
        (clients["reconnects"] > 0, f"{clients['reconnects']} sessions did not go on"),
        (clients["connected"] < arguments.clients, f"{clients['connected']} of {arguments.clients} connected at the end"),
        (truth["mismatches"] > 0, f"{truth['mismatches']} mismatches"),
        (gap["max"] > bound, f"a client waited {gap['max']:.1f} ms for a snapshot, bound {bound:.0f} ms"),
    ]
    print(f"{arguments.clients} clients, {arguments.moves} moves of all ports, round trip {arguments.rtt_ms:.0f} ms, MTU 1280: "
          f"{clients['reconnects']} sessions lost, {truth['records_checked']} records, {truth['mismatches']} mismatches, "
          f"gap p99 {gap['p99']:.1f} ms, max {gap['max']:.1f} ms (bound {bound:.0f} ms)")
    words = [text for failed, text in faults if failed]
    print("ok" if not words else "FAILED: " + "; ".join(words))
    return 1 if words else 0


if __name__ == "__main__":
    sys.exit(main())
