"""Every command line, settings file and deadline of this directory, held against the program in $ACKLINE.

- Each `ackline` command line of unit, image, compose file and pods is parsed by the program; a relay's also with the
  variables and the settings file it would have, by `--print-config`.
- Settings files pass `ackline check`; no ACKLINE_* variable is unknown to the program.
- Whatever stops a relay waits longer than its drain's deadline and what comes before it.
- The compose file's origin, relay and bench run on loopback: ready, probed, drained with exit code 0.

Called by check.sh. Prints a line a check and `counts PASSED FAILED SKIPPED` at the end.
"""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

DEPLOY = Path(__file__).resolve().parent.parent
ACKLINE = os.environ["ACKLINE"]
INSTALLED = "/usr/local/bin/ackline"
CONFIG = "/etc/ackline/relay.toml"
# Seconds that one start of the program may take.
PATIENCE = 30

try:
    import yaml
except ImportError:
    print("skip  command lines (no YAML reader: install PyYAML)")
    print("counts 0 0 1")
    sys.exit(0)

counts = {"ok": 0, "FAIL": 0, "skip": 0}


def say(result, name, why=""):
    counts[result] += 1
    print(f"{result:<5} {name}" + (f"\n      {why.strip()}" if why.strip() else ""), flush=True)


def environment(more):
    """This process's, without the program's own variables, and `more`."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ACKLINE")}
    return clean | {name: str(value) for name, value in more.items()}


def command_line(name, words, config, variables):
    """The program parses it; a relay's settings are also in their bounds, and none of its variables is unknown."""
    if words[0] == INSTALLED:
        words = words[1:]
    words = [str(config) if word == CONFIG else word for word in words]
    # `--help` comes last: what stands before it has been read, and refused where it is wrong.
    last = {"relay": ["--print-config"], "check": []}.get(words[0], ["--help"])
    done = subprocess.run(
        [ACKLINE, *words, *last], env=environment(variables), capture_output=True, text=True, timeout=PATIENCE
    )
    is_right = done.returncode == 0 and "is not known" not in done.stderr
    say("ok" if is_right else "FAIL", f"{name}: ackline {' '.join(words)}", "" if is_right else done.stderr)
    return tomllib.loads(done.stdout) if is_right and words[0] == "relay" else {}


def waits_longer(name, waits_s, settings, before_s=0):
    if "drain_deadline_s" not in settings:
        say("FAIL", f"{name}: waits {waits_s} s", "the drain's deadline is not known, since its command line was refused")
        return
    drain_s = settings["drain_deadline_s"]
    is_longer = waits_s > drain_s + before_s
    say(
        "ok" if is_longer else "FAIL",
        f"{name}: waits {waits_s} s, longer than the drain's {drain_s} s" + (f" and {before_s} s before" if before_s else ""),
    )


def settings_of(line):
    key, _, value = line.partition("=")
    return key.strip(), value.strip()


def unit():
    config = DEPLOY / "config/relay.toml"
    lines = (DEPLOY / "systemd/ackline-relay.service").read_text().splitlines()
    pairs = [settings_of(line) for line in lines if "=" in line and not line.startswith("#")]
    example = (DEPLOY / "systemd/relay.env.example").read_text().splitlines()
    variables = dict(settings_of(line) for line in example if "=" in line and not line.startswith("#"))
    settings = {}
    for key, value in pairs:
        if key.startswith("Exec") and value.startswith(INSTALLED):
            settings |= command_line(f"unit {key}", shlex.split(value), config, variables)
    waits_longer("unit TimeoutStopSec", int(dict(pairs)["TimeoutStopSec"]), settings)


def image():
    text = (DEPLOY / "docker/Dockerfile").read_text()
    words = json.loads(re.search(r"^ENTRYPOINT (\[.*\])$", text, re.M)[1])
    command_line("image", words + json.loads(re.search(r"^CMD (\[.*\])$", text, re.M)[1]), CONFIG, {})


def duration_s(text):
    return int(re.fullmatch(r"(\d+)s", text)[1])


def compose():
    """The services of the compose file by name, and the settings their relay comes to."""
    services = yaml.safe_load((DEPLOY / "compose/compose.yaml").read_text())["services"]
    ours = {name: it for name, it in services.items() if it["image"].startswith("ackline:")}
    for name, service in ours.items():
        settings = command_line(
            f"compose {name}", service["command"], DEPLOY / "config/relay.toml", service.get("environment", {})
        )
        test = service.get("healthcheck", {}).get("test", [])
        if INSTALLED in test:
            command_line(f"compose {name} healthcheck", test[1:], CONFIG, service.get("environment", {}))
        if service["command"][0] == "relay":
            waits_longer(f"compose {name} stop_grace_period", duration_s(service["stop_grace_period"]), settings)
    for service in services.values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                there = (DEPLOY / "compose" / source).resolve()
                say("ok" if there.exists() else "FAIL", f"compose mounts {source}", "" if there.exists() else "it is not there")
    provisioned(services)
    return ours


def provisioned(services):
    """Grafana finds its dashboards where they are mounted, Prometheus its rules, and both agree on the interval."""
    grafana = DEPLOY.parent / "grafana"
    targets = [volume.split(":")[1] for volume in services["grafana"]["volumes"]]
    for file in sorted(grafana.glob("provisioning/dashboards/*.yaml")):
        for provider in yaml.safe_load(file.read_text())["providers"]:
            path = provider["options"]["path"]
            say("ok" if path in targets else "FAIL", f"compose mounts Grafana's dashboards at {path}")
    prometheus = yaml.safe_load((DEPLOY / "compose/prometheus.yml").read_text())
    for file in sorted(grafana.glob("provisioning/datasources/*.yaml")):
        for source in yaml.safe_load(file.read_text())["datasources"]:
            told, real = source["jsonData"]["timeInterval"], prometheus["global"]["scrape_interval"]
            say("ok" if told == real else "FAIL", f"scrape interval: {real}, Grafana is told {told}")
    for pattern in prometheus["rule_files"]:
        found = [file.name for file in (grafana / "prometheus").glob(Path(pattern).name)]
        say("ok" if found else "FAIL", f"rules {pattern}: {' '.join(sorted(found))}")


def pods():
    base = DEPLOY / "kubernetes/base"
    spec = yaml.safe_load((base / "deployment.yaml").read_text())["spec"]["template"]["spec"]
    before_s = 0
    for overlay in (DEPLOY / "kubernetes/overlays").glob("*/kustomization.yaml"):
        found = re.search(r"sleep: {seconds: (\d+)}", overlay.read_text())
        before_s = max(before_s, int(found[1]) if found else 0)
    for container in spec["containers"]:
        variables = {entry["name"]: entry.get("value", "from-a-secret") for entry in container.get("env", [])}
        settings = command_line("pod", container["args"], base / "relay.toml", variables)
        waits_longer(
            "pod terminationGracePeriodSeconds",
            spec["terminationGracePeriodSeconds"],
            settings,
            before_s,
        )
        cores = int(container["resources"]["requests"]["cpu"])
        is_same = settings.get("shards") == cores
        say("ok" if is_same else "FAIL", f"pod: {settings.get('shards')} shards on a request of {cores} cores")
        for probe in ("livenessProbe", "readinessProbe"):
            path = container[probe]["httpGet"]["path"]
            say("ok" if path in ("/live", "/ready") else "FAIL", f"pod {probe}: {path}")
    secrets()
    labels = yaml.safe_load((base / "kustomization.yaml").read_text())["labels"][0]["pairs"]
    selectors = {
        "overlays/loadbalancer/service.yaml": lambda it: it["spec"].get("selector"),
        "base/poddisruptionbudget.yaml": lambda it: it["spec"]["selector"]["matchLabels"],
        "base/networkpolicy.yaml": lambda it: it["spec"]["podSelector"]["matchLabels"],
    }
    for file, selector in selectors.items():
        found = selector(yaml.safe_load((DEPLOY / "kubernetes" / file).read_text()))
        say("ok" if found == labels else "FAIL", f"{file} selects the pods' labels", "" if found == labels else str(found))
    target = yaml.safe_load((DEPLOY / "kubernetes/components/autoscale/horizontalpodautoscaler.yaml").read_text())
    clients = int(target["spec"]["metrics"][0]["pods"]["target"]["averageValue"])
    most = tomllib.loads((base / "relay.toml").read_text())["sessions_max"]
    say("ok" if clients < most else "FAIL", f"autoscaler: at {clients} clients, before the {most} of sessions_max")


def secrets():
    """The settings of a pod with components/secrets: its variables beside the settings file, keys where its volume is."""
    patch = yaml.safe_load((DEPLOY / "kubernetes/components/secrets/kustomization.yaml").read_text())["patches"][0]["patch"]
    values = [step["value"] for step in yaml.safe_load(patch)]
    mounts = {it["name"]: it["mountPath"] for it in values if isinstance(it, dict) and "mountPath" in it}
    variables = {it["name"]: it["value"] for it in values if isinstance(it, dict) and "value" in it}
    with tempfile.TemporaryDirectory() as place:
        for name, words in (("token.keys", ["token", "key"]), ("admin.token", None)):
            file = Path(place, name)
            made = subprocess.run([ACKLINE, *words], capture_output=True, check=True).stdout if words else b"hunter2\n"
            file.write_bytes(made)
        here = {name: value.replace(mounts["secrets"], place) for name, value in variables.items()}
        config = DEPLOY / "kubernetes/base/relay.toml"
        settings = command_line("pod with secrets", ["relay", "--config", CONFIG], config, here)
        is_closed = settings.get("insecure") is False and settings.get("admin_token_file", "").startswith(place)
        say("ok" if is_closed else "FAIL", "pod with secrets: asks players and operators for tokens")


def files():
    for file in sorted(DEPLOY.glob("**/relay.toml")):
        done = subprocess.run([ACKLINE, "check", "--config", file], capture_output=True, text=True, timeout=PATIENCE)
        say("ok" if done.returncode == 0 else "FAIL", f"ackline check {file.relative_to(DEPLOY)}", done.stderr)
    for line in (DEPLOY / "sysctl.d/60-ackline.conf").read_text().splitlines():
        line = line.removeprefix("# ")
        if re.fullmatch(r"net\.[a-z0-9_.]+ = [0-9 ]+", line):
            key, _, value = line.partition(" = ")
            there = Path("/proc/sys", *key.split("."))
            # A namespace of its own shows some of net.core and not the rest, which is the host's.
            is_hidden = key.startswith("net.core.") and not is_initial_network()
            is_right = there.exists() or "nf_conntrack" in key
            if not is_right and is_hidden:
                say("skip", f"sysctl {key} = {value} (this network namespace is not the host's)")
            else:
                say("ok" if is_right else "FAIL", f"sysctl {key} = {value}", "" if is_right else "the kernel has no such setting")


def is_initial_network():
    """Whether this process is in the host's own network namespace: others do not show dev_weight, which every kernel has there."""
    return Path("/proc/sys/net/core/dev_weight").exists()


def free_port(kind):
    with socket.socket(socket.AF_INET, kind) as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


def health(*words):
    """The image's own health check, at another address."""
    check = json.loads(re.search(r"^ +CMD (\[.*\])$", (DEPLOY / "docker/Dockerfile").read_text(), re.M)[1])
    words = [ACKLINE, *check[1:], *words]
    done = subprocess.run(words, env=environment({}), capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode, done.stderr.strip()


def run(services):
    """The compose file's three programs as it starts them, on loopback and free ports, ten clients for three seconds."""
    ports = {
        "7700": str(free_port(socket.SOCK_STREAM)),
        "7777": str(free_port(socket.SOCK_DGRAM)),
        "8000": str(free_port(socket.SOCK_STREAM)),
    }
    hosts = r"(?:0\.0\.0\.0|origin|relay)"

    def here(word):
        word = re.sub(rf"^{hosts}:(7700|7777|8000)$", lambda found: f"127.0.0.1:{ports[found[1]]}", str(word))
        return str(DEPLOY / "config/relay.toml") if word == CONFIG else word

    def words(name):
        return [ACKLINE, *map(here, services[name]["command"])]

    admin = here("relay:8000")
    variables = {key: here(value) for key, value in services["relay"]["environment"].items()}
    # The settings file's own address is every address of the host.
    variables["ACKLINE_LISTEN"] = here("relay:7777")
    code, why = health("--admin", admin)
    say("ok" if code == 1 and why else "FAIL", "run: the health check says no where nothing listens", "" if why else "silent")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    relay = subprocess.Popen(words("relay"), env=environment(variables), **quiet)
    origin = None
    try:
        until = time.monotonic() + PATIENCE
        while health("--admin", admin)[0] != 0 and time.monotonic() < until:
            time.sleep(0.1)
        live, ready = health("--admin", admin), health("--ready", "--admin", admin)
        is_right = live[0] == 0 and ready[0] == 1
        say("ok" if is_right else "FAIL", "run: without an origin it is alive and not ready", f"{live} {ready}" * (not is_right))
        origin = subprocess.Popen(words("origin"), env=environment({}), **quiet)
        until = time.monotonic() + PATIENCE
        while health("--ready", "--admin", admin)[0] != 0 and time.monotonic() < until:
            time.sleep(0.1)
        code, why = health("--ready", "--admin", admin)
        say("ok" if code == 0 else "FAIL", "run: with the origin it is ready", why)
        bench = words("bench")
        bench[bench.index("--clients") + 1] = "10"
        bench[bench.index("--seconds") + 1] = "3"
        done = subprocess.run(bench, env=environment({}), capture_output=True, text=True, timeout=PATIENCE * 2)
        # 1 is also "the host was too busy", which says nothing about this directory.
        is_busy = done.returncode == 1 and "INCONCLUSIVE" in done.stdout + done.stderr
        name = "run: the bench is served" + " (inconclusive: the host was too busy)" * is_busy
        is_right = done.returncode == 0 or is_busy
        say("ok" if is_right else "FAIL", name, "" if is_right else done.stdout + done.stderr)
        relay.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        relay.send_signal(signal.SIGTERM)
        begun = time.monotonic()
        code = relay.wait(timeout=30)
        say("ok" if code == 0 else "FAIL", f"run: SIGTERM ends it with {code} after {time.monotonic() - begun:.1f} s")
    finally:
        for process in (relay, origin):
            if process and process.poll() is None:
                process.kill()
                process.wait()


def main():
    files()
    unit()
    image()
    services = compose()
    pods()
    if "--no-run" in sys.argv:
        say("skip", "run: left out")
    else:
        run(services)
    print("counts", counts["ok"], counts["FAIL"], counts["skip"])
    sys.exit(1 if counts["FAIL"] else 0)


main()
