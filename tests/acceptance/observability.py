#!/usr/bin/env python3
"""What counting, timing and exporting cost a shard, in instructions: a relay under callgrind with a bench's clients.

    cargo build --release
    tests/acceptance/observability.py target/release/ackline [--clients N] [--entities N] [--seconds S]

Needs valgrind. Of the shard thread's instructions it adds up those of lines that observe: histograms and their counts where
things happen, all readings of clocks (timers too, so it is a little too much), and the export ten times a second. Counters that
are one addition to a field are not told apart from the code around them. Ends with 0 where the sum is below 1% of the thread.
"""

import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harm  # noqa: E402: for a free port

BOUND = 0.01
PARTS = [
    ("export", "function", r"ShardLoop::export|ShardMetrics::|HistogramFn|CounterFn|GaugeFn|metrics::handles|metrics_util"
                           r"|node::(series|recorder|tally|pressure)"),
    ("histograms", "file", r"relay/counters\.rs"),
    ("clocks", "function", r"net::clock|clock_gettime|vdso"),
]


def instructions(file):
    """The thread's instructions, and those of each part."""
    text = subprocess.run(["callgrind_annotate", "--threshold=100", "--auto=no", file], capture_output=True, text=True).stdout
    total, parts = 0, collections.Counter()
    for line in text.splitlines():
        found = re.match(r"\s*([\d,]+) \(\s*[\d.]+%\)\s+(\S+?):(.*)$", line)
        if not found:
            continue
        count, where = int(found[1].replace(",", "")), {"file": found[2], "function": found[3]}
        total += count
        name = next((name for name, what, pattern in PARTS if re.search(pattern, where[what])), None)
        if name:
            parts[name] += count
    return total, parts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=os.path.abspath)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--entities", type=int, default=60)
    parser.add_argument("--seconds", type=int, default=20)
    options = parser.parse_args()
    upstream, admin = (f"127.0.0.1:{harm.free_port(harm.socket.SOCK_STREAM)}" for _ in range(2))
    listen = f"127.0.0.1:{harm.free_port(harm.socket.SOCK_DGRAM)}"
    with tempfile.TemporaryDirectory() as directory:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        scene = ["--scene", "cubes", "--entities", str(options.entities), "--hz", "20"]
        origin = subprocess.Popen([options.binary, "origin", *scene, "--listen", upstream], **quiet)
        relay = subprocess.Popen(
            ["valgrind", "--tool=callgrind", "--separate-threads=yes", f"--callgrind-out-file={directory}/out", options.binary,
             "relay", "--shards", "1", "--upstream", upstream, "--listen", listen, "--admin", admin], **quiet)
        try:
            until = time.monotonic() + 60
            while True:
                try:
                    urllib.request.urlopen(f"http://{admin}/ready", timeout=5)
                    break
                except OSError:
                    if time.monotonic() > until:
                        raise
                    time.sleep(0.5)
            # No --admin: a library that /metrics asks for figures of the process does not run under valgrind.
            bench = subprocess.run([options.binary, "bench", "--relay", listen, "--clients", str(options.clients), "--seconds",
                                    str(options.seconds), "--report", "-"], capture_output=True, text=True)
            relay.terminate()
            relay.wait(60)
        finally:
            for process in (origin, relay):
                process.kill()
                process.wait()
        total, parts = max((instructions(file) for file in pathlib.Path(directory).glob("out-*")), key=lambda found: found[0])
        packets = int(re.search(r'"received": (\d+)', bench.stdout)[1])
    share = sum(parts.values()) / total
    print(f"{options.clients} clients, {options.entities} entities, {packets:,} datagrams: {total / packets:,.0f} instructions of the "
          f"shard's thread a datagram, {sum(parts.values()) / packets:,.0f} of them observe: {share:.2%}, bound {BOUND:.0%}")
    for name, count in parts.most_common():
        print(f"  {name:<12} {count / packets:>8,.0f} a datagram  {count / total:.2%}")
    return 0 if share < BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
