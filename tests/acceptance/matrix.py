#!/usr/bin/env python3
"""Runs `ackline demo` over scenes, recordings, views and losses, and prints one line for each run.

    cargo build --release
    tests/acceptance/matrix.py target/release/ackline [--traces DIR] [--seconds S] [--only TEXT]

Ends with 0 when every run passed, 1 when one failed, 3 when none failed but the host could not keep up in some. What
failed is told below its line. An otherwise idle machine is needed: the clients of a run share it with their relay.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

SCENES = {
    # Clients that two cores serve and verify together.
    "arena": ["--scene", "arena", "--clients", "16", "--input-hz", "30"],
    "crowd": ["--scene", "crowd", "--clients", "16", "--input-hz", "20"],
    "cubes": ["--scene", "cubes", "--clients", "24", "--input-hz", "30"],
}
VIEWS = ["radius", "spectator", "whole"]
TRACE_VIEWS = ["radius:10,12", "spectator:10,12"]
LOSSES = ["0", "20%"]
COLUMNS = "{:<26} {:<16} {:>5}  {:<8} {:>10} {:>6} {:>5} {:>7} {:>9} {:>15} {:>15} {:>9}"
HEAD = ["world", "view", "loss", "verdict", "mismatches", "leaks", "miss", "starved", "(p99 ms)", "events", "inputs", "answered"]


def runs(traces):
    for name, flags in SCENES.items():
        for view in VIEWS:
            yield name, view, flags
    for trace in sorted(traces.glob("*.jsonl.zst")) if traces else []:
        for view in TRACE_VIEWS:
            flags = ["--trace", str(trace), "--clients", "16", "--input-hz", "30"]
            yield trace.name.removesuffix(".jsonl.zst"), view, flags


def run(binary, flags, seconds):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [binary, "demo", *flags, "--seconds", str(seconds), "--report", file.name]
        done = subprocess.run(command, capture_output=True, text=True)
        text = pathlib.Path(file.name).read_text()
    if not text:
        return None, done.stderr.strip()
    return json.loads(text), ""


def verdict(report):
    if report["verdict"]["ok"]:
        return "ok"
    return "BUSY" if report["verdict"]["inconclusive"] else "FAILED"


def row(report):
    truth, events, inputs = report["truth"], report["events"], report["inputs"]
    starved = report["starvation_ms"]
    number = lambda value: "-" if value is None else f"{value:.0f}"
    lost = inputs["reported_lost"] or 0
    return [
        verdict(report), truth["mismatches"], truth["leaks"], truth["missing_at_end"],
        number(starved["p99"]), f"max {number(starved['max'])}",
        f"{events['delivered']}/{events['sent']}",
        f"{inputs['delivered']}/{inputs['sent']}" + (f" -{lost}" if lost else ""),
        number(inputs["answered_ms"]["p99"]),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="the program, a release build")
    parser.add_argument("--traces", type=pathlib.Path, help="a directory of recordings, *.jsonl.zst")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each run [default: 8]")
    parser.add_argument("--only", default="", help="only runs whose world or view has this in its name")
    args = parser.parse_args()
    seen = set()
    print(COLUMNS.format(*HEAD), flush=True)
    for name, view, flags in runs(args.traces):
        if args.only not in name and args.only not in view:
            continue
        for loss in LOSSES:
            report, error = run(args.binary, [*flags, "--view", view, "--loss", loss], args.seconds)
            if report is None:
                seen.add("FAILED")
                print(f"{name:<26} {view:<16} {loss:>5}  no report: {error}", flush=True)
                continue
            seen.add(verdict(report))
            print(COLUMNS.format(name, view, loss, *row(report)), flush=True)
            told = report["verdict"]["failed"] + report["truth"]["examples"][:3] + report["truth"]["missing_examples"][:3]
            if verdict(report) != "ok":
                for text in report["bench"]["notes"][:2] + told:
                    print(f"    {text}", flush=True)
    sys.exit(1 if "FAILED" in seen else 3 if "BUSY" in seen else 0)


main()
