#!/usr/bin/env python3
"""Draws the dashboards as SVG files with a Prometheus's data, for documents: no Grafana is asked.

    picture.py --prometheus http://127.0.0.1:9090 --out DIR [--seconds 120] [--window 5s]

Reads `dashboards/*.json`: places, kinds, titles, units, thresholds and queries are Grafana's own; colours, fonts and axes are
this file's. Shows what Grafana would ask and get, not what it would look like. Python's standard library alone.
"""

import argparse
import html
import json
import math
import pathlib
import sys
import time

sys.dont_write_bytecode = True
import check  # noqa: E402: beside this file

DASHBOARDS = pathlib.Path(__file__).resolve().parent / "dashboards"
COLUMN, ROW, GAP = 50, 26, 6
POINTS = 60
PALETTE = ["#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#5195ce", "#ba43a9", "#705da0", "#b7dbab", "#f4d598"]
NAMED = {"green": "#2e8b57", "yellow": "#c89a1b", "red": "#d0404a"}
STYLE = (
    "text{font:11px sans-serif;fill:#24292f}.t{font-weight:bold}.s{fill:#6a737d;font-size:9px}.v{font-size:26px;fill:#fff}"
    ".r{font-size:13px;font-weight:bold}.p{fill:#fff;stroke:#d8dee4}path{fill:none;stroke-width:1.3}"
)


def word(value, unit):
    """A value as its panel's unit has it."""
    if value is None or math.isnan(value):
        return "idle"
    if unit == "percentunit":
        return f"{100 * value:.3g}%"
    if unit == "s":
        for bound, scale, name in ((1e-6, 1e9, "ns"), (1e-3, 1e6, "µs"), (1, 1e3, "ms"), (120, 1, "s"), (7200, 1 / 60, "min")):
            if abs(value) < bound:
                return f"{value * scale:.3g} {name}" if value else "0 s"
        return f"{value / 3600:.3g} h"
    ending = {"bytes": "B", "Bps": "B/s", "bps": "b/s", "cps": "/s", "pps": "/s"}.get(unit, "")
    for bound, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= bound:
            return f"{value / bound:.3g} {name}{ending}"
    return f"{value:.3g}{' ' * bool(ending)}{ending}"


def colour(value, steps):
    """The colour of a value among the thresholds."""
    found = "green"
    for step in steps:
        if step["value"] is None or (value is not None and value >= step["value"]):
            found = step["color"]
    return NAMED.get(found, "#57606a")


class Drawing:
    """One dashboard being drawn."""

    def __init__(self, base, begin, end, window, names):
        self.base, self.begin, self.end, self.window, self.names = base, begin, end, window, names
        self.parts = []

    def text(self, x, y, words, kind="", anchor="start", most=999):
        words = words if len(words) <= most else words[: most - 1] + "…"
        mark = f' class="{kind}"' if kind else ""
        mark += f' text-anchor="{anchor}"' if anchor != "start" else ""
        self.parts.append(f'<text x="{x:.0f}" y="{y:.0f}"{mark}>{html.escape(words)}</text>')

    def box(self, x, y, w, h, fill="", kind=""):
        mark = f' class="{kind}"' if kind else f' fill="{fill}"'
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}"{mark}/>')

    def series(self, panel):
        """(legend, [(time, value)]) of every query of a panel."""
        found = []
        for target in panel["targets"]:
            expr = target["expr"].replace("$__rate_interval", self.window).replace("$job", ".*ackline.*").replace("$instance", ".+")
            step = (self.end - self.begin) / POINTS
            rows = check.ask(self.base, "query_range", query=expr, start=self.begin, end=self.end, step=step)["result"]
            for row in rows:
                legend = "" if target["legendFormat"] == "__auto" else target["legendFormat"]
                for label, value in row["metric"].items():
                    legend = legend.replace("{{" + label + "}}", self.names.get(value, value))
                points = [(at, float(value)) for at, value in row["values"] if not math.isnan(float(value))]
                if points:
                    found.append((legend or "value", points))
        return found

    def panel(self, panel, top):
        place = panel["gridPos"]
        x, y = place["x"] * COLUMN + GAP, place["y"] * ROW + top
        w, h = place["w"] * COLUMN - GAP, place["h"] * ROW - GAP
        if panel["type"] == "row":
            self.text(x, y + 15, panel["title"], "r")
            return
        self.box(x, y, w, h, kind="p")
        self.text(x + 6, y + 14, panel["title"], "t", most=int(w / 6.4))
        defaults = panel["fieldConfig"]["defaults"]
        inner = (x + 44, y + 22, w - 52, h - 36)
        series, unit, steps = self.series(panel), defaults["unit"], defaults["thresholds"]["steps"]
        if panel["type"] == "stat":
            last = series[0][1][-1][1] if series else None
            fill = colour(last, steps) if last is not None else "#8c959f"
            self.box(x + 1, y + 20, w - 2, h - 21, fill)
            self.text(x + w / 2, y + h / 2 + 20, word(last, unit), "v", "middle")
        elif not series:
            self.text(x + w / 2, y + h / 2, "no data", "s", "middle")
        elif panel["type"] == "heatmap":
            self.heat(series, unit, inner)
        elif panel["type"] == "state-timeline":
            self.states(series, defaults, inner)
        else:
            self.lines(series, defaults, panel, inner)

    def across(self, at, x, w):
        return x + (at - self.begin) / (self.end - self.begin) * w

    def axis(self, low, high, unit, x, y, w, h):
        for share in (0, 0.5, 1):
            at = y + h - share * h
            self.parts.append(f'<path d="M{x:.0f} {at:.0f}h{w:.0f}" stroke="#eaeef2"/>')
            self.text(x - 4, at + 3, word(low + share * (high - low), unit), "s", "end")

    def lines(self, series, defaults, panel, inner):
        x, y, w, h = inner
        unit, steps = defaults["unit"], defaults["thresholds"]["steps"]
        stacked = defaults["custom"]["stacking"]["mode"] == "normal"
        series.sort(key=lambda one: -max(value for _, value in one[1]))
        shown, h = series[:10], h - 12 * math.ceil(min(len(series), 6) / 2)
        if stacked:
            shown = stack(shown)
        high = max(value for _, points in shown for _, value in points)
        low = min(0.0, min(value for _, points in shown for _, value in points))
        high = defaults.get("max", high * 1.05 or 1.0)
        self.axis(low, high, unit, x, y, w, h)
        for step in steps:
            if step["value"] is not None and low < step["value"] < high:
                at = y + h - (step["value"] - low) / (high - low) * h
                self.parts.append(f'<path d="M{x:.0f} {at:.0f}h{w:.0f}" stroke="{NAMED[step["color"]]}" stroke-dasharray="4 3"/>')
        gap = 2.5 * (self.end - self.begin) / POINTS
        for index, (_, points) in enumerate(shown):
            path, before = [], None
            for at, value in points:
                begin = "L" if before is not None and at - before <= gap else "M"
                path.append(f"{begin}{self.across(at, x, w):.0f} {y + h - (value - low) / (high - low) * h:.0f}")
                before = at
            self.parts.append(f'<path d="{"".join(path)}" stroke="{PALETTE[index % len(PALETTE)]}"/>')
        for index, (legend, points) in enumerate(series[:6]):
            at_x, at_y = x - 36 + (index % 2) * (w + 40) / 2, y + h + 22 + 12 * (index // 2)
            self.box(at_x, at_y - 7, 8, 3, PALETTE[index % len(PALETTE)])
            more = f" (+{len(series) - 6})" if index == 5 and len(series) > 6 else ""
            self.text(at_x + 12, at_y, f"{legend}: {word(points[-1][1], unit)}{more}", "s", most=int(w / 10.5))

    def heat(self, series, unit, inner):
        x, y, w, h = inner
        rows = sorted(((float(le), dict(points)) for le, points in series), key=lambda row: row[0])
        cells, before = [], {}
        for bound, points in rows:  # Buckets are cumulative.
            cells.append((bound, {at: max(0.0, value - before.get(at, 0.0)) for at, value in points.items()}))
            before = points
        used = [index for index, (_, points) in enumerate(cells) if any(value > 1e-9 for value in points.values())]
        cells = cells[min(used) : max(used) + 1] if used else cells[:1]
        most = max((value for _, points in cells for value in points.values()), default=0) or 1
        high, wide = h / len(cells), w / POINTS
        for index, (bound, points) in enumerate(cells):
            at_y = y + h - (index + 1) * high
            if index % math.ceil(len(cells) / 8) == 0:
                self.text(x - 4, at_y + high / 2 + 3, "more" if math.isinf(bound) else word(bound, unit), "s", "end")
            for at, value in sorted(points.items()):
                if value > 1e-9:
                    shade = int(225 - 190 * math.sqrt(value / most))
                    self.box(self.across(at, x, w) - wide / 2, at_y, wide, high - 1, f"#f{shade // 18:x}{shade // 26:x}")

    def states(self, series, defaults, inner):
        x, y, w, h = inner
        mapped = defaults["mappings"][0]["options"] if defaults["mappings"] else {}
        high, wide = h / len(series), w / POINTS
        for index, (legend, points) in enumerate(sorted(series)):
            at_y = y + index * high
            self.text(x - 4, at_y + high / 2 + 3, legend, "s", "end", most=8)
            begin = 0
            for end in range(1, len(points) + 1):
                if end == len(points) or points[end][1] != points[begin][1]:
                    state = mapped.get(f"{points[begin][1]:g}", {"text": f"{points[begin][1]:g}", "color": "green"})
                    left, right = self.across(points[begin][0], x, w), self.across(points[end - 1][0], x, w) + wide
                    self.box(left, at_y + 2, min(right, x + w) - left, high - 4, NAMED[state["color"]])
                    begin = end

    def draw(self, dashboard):
        panels = dashboard["panels"]
        for panel in panels:
            self.panel(panel, 34)
        high = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels) * ROW + 40
        wide = 24 * COLUMN + GAP
        head = f"{dashboard['title']} — {dashboard['description']}"
        self.text(GAP, 20, head, "r")
        body = "\n".join(self.parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}">\n'
            f'<style>{STYLE}</style><rect width="{wide}" height="{high}" fill="#f6f8fa"/>\n{body}\n</svg>\n'
        )


def stack(series):
    """Each series on top of those before it, at the times of all."""
    total, out = {}, []
    for legend, points in series:
        for at, value in points:
            total[at] = total.get(at, 0.0) + value
        out.append((legend, [(at, total[at]) for at, _ in points]))
    return out


def draw(base, out, seconds=120.0, window="5s", names=None):
    """Draws every dashboard into `out`, of the last seconds; `names` are words for values of labels. The paths."""
    out.mkdir(parents=True, exist_ok=True)
    end, paths = time.time(), []
    for file in sorted(DASHBOARDS.glob("*.json")):
        drawing = Drawing(base, end - seconds, end, window, names or {})
        path = out / f"{file.stem}.svg"
        path.write_text(drawing.draw(json.loads(file.read_text(encoding="utf-8"))), encoding="utf-8")
        paths.append(path)
    return paths


def main():
    options = argparse.ArgumentParser(description="Draws the dashboards with a Prometheus's data, as SVG files.")
    options.add_argument("--prometheus", required=True, metavar="URL")
    options.add_argument("--out", required=True, metavar="DIR", type=pathlib.Path)
    options.add_argument("--seconds", default=120.0, type=float, help="how far back the pictures go")
    options.add_argument("--window", default="5s", metavar="DURATION", help="what $__rate_interval stands for")
    options = options.parse_args()
    for path in draw(options.prometheus.rstrip("/"), options.out, options.seconds, options.window):
        print(path)


if __name__ == "__main__":
    main()
