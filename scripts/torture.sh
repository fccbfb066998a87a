#!/usr/bin/env bash
# The full fault counts. Evidence is written to docs/evidence/ as JSON, with the
# commit and the date. It takes an hour or more.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh test
make --no-print-directory build
mkdir -p docs/evidence
export CHAPERONE_TORTURE=1 CHAPERONE_EVIDENCE="$PWD/docs/evidence"
echo "== faults, full counts"
go test -json -count=1 -p 1 -timeout 120m -run 'Kill|Torture|Race|Fault|Crash|Histories|ModelHolds' ./internal/store ./internal/audit ./internal/owned/... ./internal/attended/... ./docs/model ./internal/portal/... ./internal/session ./internal/credential ./internal/oauth ./internal/surface/... ./internal/node ./cmd/... |
  go run ./scripts/tally
echo "== containment"
bin/chaperone qualify --json --write >docs/evidence/containment.json
