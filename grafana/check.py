#!/usr/bin/env python3
"""Asks a running Prometheus every expression of every panel and every rule: each must return data.

    check.py --prometheus http://127.0.0.1:9090 [--window 1m]

That Prometheus scrapes a relay that serves clients (`ackline bench`) and has the rules of `prometheus/` loaded. The
job's name must hold "ackline". An alert's comparison is asked with `bool`, so that a calm relay answers 0 instead of
nothing. No data, nothing but NaN, or an infinite value is a fault, unless ONLY_WHEN gives its reason; an entry of
ONLY_WHEN that does return data is only named. Labels are checked too: those grouped by, matched, or named in a
legend must be labels of the metric. Python's standard library alone.
"""

import argparse
import json
import math
import re
import sys
import urllib.error
import urllib.parse
import urllib.request

sys.dont_write_bytecode = True
import make  # noqa: E402: beside this file, and leaves nothing behind

# Where no data is right on a healthy relay under load, and what makes the data come.
ONLY_WHEN = {
    "alert AcklineNoRelays": "no relay is scraped: the expression is absent()",
    "Clients: Staleness by tier, p99": "sessions have views: clients that see the whole world are not in it",
    "Clients: Rejected by clients, by reason": "clients refuse datagrams (the panel hides reasons at zero)",
}

LABELS = {"job", "instance", "le", "version"}


def ask(base, path, **params):
    """One answer of Prometheus's HTTP interface."""
    url = f"{base}/api/v1/{path}?{urllib.parse.urlencode(params)}"
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{url}: {error.read().decode(errors='replace')}") from error


def boolean(expr):
    """The expression with `bool` after each comparison outside of braces and quotes."""
    parts = re.split(r'("(?:[^"\\]|\\.)*"|\{[^}]*\})', expr)
    for index in range(0, len(parts), 2):
        parts[index] = re.sub(r"(==|!=|>=|<=|>|<)(?!\s*bool)", r"\1 bool ", parts[index])
    return "".join(parts)


def labels_wrong(base, where, expr, legend):
    """Labels used that no metric of the expression has."""
    has = set(LABELS)
    for name in make.metrics_of(expr):
        for series in ask(base, "series", **{"match[]": name}):
            has |= set(series)
    used = set(re.findall(r"\{\{(\w+)\}\}", legend))
    for group in re.findall(r"(?:by|on|ignoring)\s*\(([^)]*)\)", expr):
        used |= {label.strip() for label in group.split(",") if label.strip()}
    for matchers in re.findall(r"\{([^}]*)\}", expr):
        used |= set(re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"', matchers))
    return [f"{where}: no label {label}" for label in sorted(used - has)]


def values_missing(base, where, expr):
    """Matchers `label="word"` whose word no series has."""
    found = []
    for name, matchers in re.findall(r"((?:ackline|process)_\w+)\{([^}]*)\}", expr):
        for label, word in re.findall(r'(\w+)="([^"$]*)"', matchers):
            if not ask(base, "series", **{"match[]": f'{name}{{{label}="{word}"}}'}):
                found.append(f'{where}: no series {name}{{{label}="{word}"}}')
    return found


def panels(window, job=".*ackline.*", instance=".+"):
    """Every panel's (where, expression, legend), as Grafana would ask it."""
    asked = []
    for _, title, _, rows in make.ALL:
        for _, specs in rows:
            for spec in specs:
                for expr, legend in spec["targets"]:
                    expr = make.expand(expr).replace("$__rate_interval", window)
                    asked.append((f"{title}: {spec['title']}", expr.replace("$job", job).replace("$instance", instance), legend))
    return asked


def rules(base):
    """Every loaded rule as Prometheus tells of it, by "alert NAME" or "record NAME"."""
    words = {"alerting": "alert", "recording": "record"}
    groups = ask(base, "rules")["groups"]
    return {f"{words[rule['type']]} {rule['name']}": rule for group in groups for rule in group["rules"]}


def values(base, expr):
    """What an expression returns: nothing where there are but NaN."""
    found = [float(row["value"][1]) for row in ask(base, "query", query=expr)["result"]]
    return found if any(not math.isnan(value) for value in found) else []


def survey(base, window, job=".*ackline.*", instance=".+"):
    """Asks everything: how much, what had no data for a reason, and the faults, one sentence each."""
    asked, faults, only = panels(window, job, instance), [], []
    loaded = rules(base)
    if not loaded:
        faults.append(f"{base} has no rules loaded; add grafana/prometheus/*.rules.yml to its rule_files")
    for name, rule in loaded.items():
        asked.append((name, boolean(rule["query"]) if rule["type"] == "alerting" else rule["name"], ""))
        if rule.get("health") != "ok":
            faults.append(f"{name} is {rule.get('health')}: {rule.get('lastError')}")
    for where, expr, legend in asked:
        found = values(base, expr)
        faults += labels_wrong(base, where, expr, legend) + values_missing(base, where, expr)
        if any(math.isinf(value) for value in found):
            faults.append(f"{where}: infinite: {expr}")
        elif not found:
            reason = ONLY_WHEN.get(where)
            (only if reason else faults).append(
                f"{where}: only when {reason}" if reason else f"{where}: no data: {expr}"
            )
    return len(asked), only, faults


def main():
    options = argparse.ArgumentParser(description="Asks a Prometheus every expression of panels and rules.")
    options.add_argument("--prometheus", required=True, metavar="URL")
    options.add_argument("--window", default="1m", metavar="DURATION", help="what $__rate_interval stands for")
    options = options.parse_args()
    asked, only, faults = survey(options.prometheus.rstrip("/"), options.window)
    for line in only:
        print(line)
    for line in faults:
        print(line, file=sys.stderr)
    print(f"{asked} expressions asked, {len(only)} without data for a reason, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
