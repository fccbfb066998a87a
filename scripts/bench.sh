#!/usr/bin/env bash
# Our figures beside the rivals', on this machine, in one run.
#   scripts/bench.sh [OUT]     OUT: a folder for the raw figures (default out/bench)
# RUNS (3), N (50), ONLY (server names) and PARTS (speed,memory,endings,cancel) narrow it.
# The machine should be idle: ratios are taken within a run, but they still are
# measurements.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh bench
make --no-print-directory build
out=$(realpath -m "${1:-out/bench}")
mkdir -p "$out"
cache=$(realpath -m .cache/peers)
mkdir -p "$cache"

echo "== ground and proxy, against other libraries and a plain relay"
(cd bench && go test -run '^$' -bench . -benchtime 1s ./...) | tee "$out/libraries.txt"
echo "== audit and store"
go test -run '^$' -bench . -benchtime 1s ./internal/audit ./internal/store | tee "$out/audit.txt"

echo "== the portal: reads over MCP and the owner API beside bare handlers, and its first paint"
go test -run '^$' -bench 'ItemRead' -benchtime 2000x ./internal/surface/mcp | tee "$out/portal.txt"
go test -run '^$' -bench 'OwnerRead' -benchtime 2000x ./internal/node | tee -a "$out/portal.txt"
go test -run '^$' -bench 'FirstPaint' -benchtime 20x ./internal/node | tee -a "$out/portal.txt"

echo "== attended control: governed calls beside a bare commit, a bare socket and the same transactions, on both engines"
go test -run '^$' -bench 'Attended' -benchtime 1x -timeout 20m ./internal/node | grep -v INFO | tee "$out/attended.txt"

echo "== turns of an agent server: registration to first action, an action by Go and by Python, ten runs at once"
scripts/install-agent-servers.sh
go test -run '^$' -bench 'Turns' -benchtime 1x ./cmd/chaperone | tee "$out/turns.txt"

echo "== the rivals"
if [[ ! -d $cache/node/node_modules/agent-browser ]]; then
  mkdir -p "$cache/node"
  (cd "$cache/node" && npm init -y >/dev/null &&
    npm i --ignore-scripts --no-audit --no-fund @playwright/mcp@0.0.83 chrome-devtools-mcp@1.11.0 agent-browser@0.41.2 >/dev/null)
  chmod +x "$cache"/node/node_modules/agent-browser/bin/agent-browser-linux-x64
fi
(cd bench/peers && go build -o "$cache/peerbench" .)
# Each server runs in a folder of its own, so the rivals' paths must be absolute.
sed "s|\"node/node_modules|\"$cache/node/node_modules|" bench/peers/servers.json >"$cache/servers.json"
export PATH="$PWD/bin:$PATH"
cd "$cache"
work=$(mktemp -d /tmp/pb.XXXX)
trap 'rm -rf "$work"' EXIT
echo "-- floor: desktop Chromium, what a user would otherwise run"
./peerbench -runs "${RUNS:-3}" -n "${N:-50}" -only "${ONLY:-}" -parts "${PARTS:-speed,memory,endings,cancel}" -hang 0 -work "$work" -out "$out/desktop.json" | tee "$out/desktop.md"
echo "-- floor: headless-shell, our own engine bare"
./peerbench -runs "${RUNS:-3}" -only ours -parts speed,memory -floor /usr/lib/chromium/chromium-headless-shell -work "$work" -out "$out/engine.json" | tee "$out/engine.md"
