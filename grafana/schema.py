#!/usr/bin/env python3
"""Holds the dashboards against Grafana's published schema: the types of @grafana/schema, checked by TypeScript's compiler.

    schema.py [--modules DIR]    DIR keeps the npm packages between runs [default: a directory that is removed]

Each dashboard and each of its panels becomes a literal of its type: a field that the schema has not, lacks, or has with
another type or word is an error that names it. Queries are held against the Prometheus query of
@grafana/grafana-foundation-sdk, which the first package lacks. Both are Grafana Labs' own, made from the schema of their
server. Needs node and npm; exit code 2 without them, 1 for a fault.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PACKAGES = ["@grafana/schema@13.2.3", "@grafana/grafana-foundation-sdk@0.0.21", "typescript@5.9.3"]
DASHBOARDS = pathlib.Path(__file__).resolve().parent / "dashboards"

HEAD = """
import type { Dashboard, Panel, RowPanel, FieldConfig, FieldConfigSource } from '@grafana/schema';
import type { Dataquery } from '@grafana/grafana-foundation-sdk/prometheus';
import type * as timeseries from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';
import type * as stat from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import type * as heatmap from '@grafana/schema/dist/esm/raw/composable/heatmap/panelcfg/x/HeatmapPanelCfg_types.gen';
import type * as statetimeline from '@grafana/schema/dist/esm/raw/composable/statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen';

// JSON has an enum's words and not its names.
type Plain<T> = T extends string ? `${T}` : T extends number | boolean | null | undefined ? T
  : T extends Array<infer U> ? Plain<U>[] : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;
type Query = Plain<Omit<Dataquery, '_implementsDataqueryVariant'>>;
type Of<Kind extends string, Options, Custom> = Plain<Omit<Panel, 'type' | 'options' | 'fieldConfig' | 'targets'>> & {
  type: Kind; options: Plain<Options>; targets: Query[];
  fieldConfig: Plain<Omit<FieldConfigSource, 'defaults'>> & {
    defaults: Plain<Omit<FieldConfig, 'custom'>> & { custom: Plain<Custom> } };
};
type timeseriesPanel = Of<'timeseries', timeseries.Options, timeseries.FieldConfig>;
type statPanel = Of<'stat', stat.Options, {}>;
type heatmapPanel = Of<'heatmap', heatmap.Options, heatmap.FieldConfig>;
type statetimelinePanel = Of<'state-timeline', statetimeline.Options, statetimeline.FieldConfig>;
type rowPanel = Plain<RowPanel>;
type Frame = Plain<Omit<Dashboard, 'panels'>>;
"""


def source():
    """The TypeScript text, and of each line from which on it is about what."""
    lines, places = HEAD.splitlines(), []
    for path in sorted(DASHBOARDS.glob("*.json")):
        dashboard = json.loads(path.read_text(encoding="utf-8"))
        panels = dashboard.pop("panels")
        parts = [("Frame", dashboard, path.name)]
        parts += [(panel["type"].replace("-", "") + "Panel", panel, f"{path.name}: {panel['title']}") for panel in panels]
        for kind, value, place in parts:
            places.append((len(lines) + 1, place))
            lines += f"export const _{len(places)}: {kind} = {json.dumps(value, indent=1)};".splitlines()
    return "\n".join(lines) + "\n", places


def main():
    options = argparse.ArgumentParser(description="Holds the dashboards against Grafana's published schema.")
    options.add_argument("--modules", metavar="DIR", type=pathlib.Path)
    options = options.parse_args()
    if not (shutil.which("npm") and shutil.which("node")):
        print("schema.py needs node and npm", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        modules = (options.modules or pathlib.Path(scratch)).resolve()
        modules.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", modules, *PACKAGES],
                       check=True, stdin=subprocess.DEVNULL)
        text, places = source()
        (modules / "dashboards.ts").write_text(text, encoding="utf-8")
        done = subprocess.run(
            ["node_modules/.bin/tsc", "--noEmit", "--strict", "--skipLibCheck", "--target", "es2022", "--module", "esnext",
             "--moduleResolution", "bundler", "--pretty", "false", "dashboards.ts"],
            cwd=modules, capture_output=True, text=True,
        )
    faults = 0
    for line in (done.stdout + done.stderr).splitlines():
        found = re.match(r"dashboards\.ts\((\d+),\d+\): error (.*)", line)
        if found:
            faults += 1
            place = next((place for begin, place in reversed(places) if begin <= int(found[1])), "the types")
            print(f"{place}: {text.splitlines()[int(found[1]) - 1].strip()}: {found[2]}", file=sys.stderr)
        elif line.strip():
            print(line, file=sys.stderr)
    print(f"{len(places)} dashboards and panels held against {PACKAGES[0]}, {faults} faults")
    return 1 if faults or done.returncode != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
