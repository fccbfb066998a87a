#!/usr/bin/env bash
# Installs what the tests need and runs everything, with small counts. Ends
# non-zero when a test fails or is skipped, or when fewer ran than committed.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh test
make --no-print-directory build
[[ ! -x scripts/install-clients.sh ]] || scripts/install-clients.sh
[[ ! -x scripts/install-agent-servers.sh ]] || scripts/install-agent-servers.sh

echo "== vet"
go vet ./...
(cd bench && go vet ./...)

echo "== tests, under the race detector"
# -p 2: a browser in each of two packages is what two cores carry.
go test -json -race -count=1 -p 2 -timeout 30m ./... | go run ./scripts/tally -min scripts/tally/minimum

echo "== fuzz targets, a minimum of executions each"
scripts/fuzz.sh 1000x
