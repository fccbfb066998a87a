#!/usr/bin/env bash
# Runs every fuzz target of the tree, one after another.
#   scripts/fuzz.sh BUDGET [LOG]      BUDGET as go test's -fuzztime: 2000x, 10m
# Prints a line a target with its executions; fails when a target finds a fault.
set -euo pipefail
cd "$(dirname "$0")/.."
budget=${1:-2000x}
log=${2:-}
[[ -z $log ]] || echo "commit $(git rev-parse HEAD), $(date -u +%Y-%m-%d), $budget a target, $(nproc) cores" >"$log"
failed=0
grep -rlE '^func Fuzz[A-Z]' --include='*_test.go' cmd internal spec web | sort | while read -r file; do
  pkg=./$(dirname "$file")
  for target in $(sed -nE 's/^func (Fuzz[A-Za-z0-9_]+)\(.*/\1/p' "$file"); do
    out=$(mktemp)
    if go test -run='^$' -fuzz="^$target\$" -fuzztime="$budget" "$pkg" >"$out" 2>&1; then
      execs=$(grep -oE 'execs: [0-9]+' "$out" | tail -1 || true)
      line="ok   $pkg $target ${execs:-execs: seed corpus only}"
    elif grep -q 'context deadline exceeded' "$out" && ! grep -q 'Failing input' "$out"; then
      # The tool itself sometimes reports the end of its own time as a failure.
      line="ok   $pkg $target $(grep -oE 'execs: [0-9]+' "$out" | tail -1), ended late"
    else
      failed=1; line="FAIL $pkg $target"; cat "$out"
    fi
    rm -f "$out"
    echo "$line"
    [[ -z $log ]] || echo "$line" >>"$log"
    (( ! failed )) || exit 1
  done
done
