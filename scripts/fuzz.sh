#!/usr/bin/env bash
# Runs every fuzz target of the tree.
#   scripts/fuzz.sh BUDGET [LOG]      BUDGET as go test's -fuzztime: 2000x, 10m
# JOBS (1) targets at once, each with its share of the cores; ONLY narrows the
# targets to those whose package and name match an expression.
# Prints a line a target with its executions; fails when a target finds a fault.
set -euo pipefail
cd "$(dirname "$0")/.."
export budget=${1:-2000x}
log=${2:-}
jobs=${JOBS:-1}
export workers=$(( $(nproc) / jobs > 0 ? $(nproc) / jobs : 1 ))
[[ -z $log ]] || echo "commit $(git rev-parse HEAD), $(date -u +%Y-%m-%d), $budget a target, $jobs at once on $(nproc) cores" >"$log"

one() { # one PACKAGE TARGET
  local out status=0
  out=$(mktemp)
  if go test -run='^$' -fuzz="^$2\$" -fuzztime="$budget" -parallel="$workers" "$1" >"$out" 2>&1; then
    execs=$(grep -oE 'execs: [0-9]+' "$out" | tail -1 || true)
    echo "ok   $1 $2 ${execs:-execs: seed corpus only}"
  elif grep -q 'context deadline exceeded' "$out" && ! grep -q 'Failing input' "$out"; then
    # The tool itself sometimes reports the end of its own time as a failure.
    echo "ok   $1 $2 $(grep -oE 'execs: [0-9]+' "$out" | tail -1), ended late"
  else
    echo "FAIL $1 $2"
    cat "$out" >&2
    status=1 # the others go on; xargs tells at the end
  fi
  rm -f "$out"
  return $status
}
export -f one

grep -rlE '^func Fuzz[A-Z]' --include='*_test.go' cmd internal spec web | sort | while read -r file; do
  sed -nE "s|^func (Fuzz[A-Za-z0-9_]+)\\(.*|./$(dirname "$file") \\1|p" "$file"
done | { grep -E "${ONLY:-.}" || true; } | xargs -P "$jobs" -L 1 bash -c 'one "$@"' one | { if [[ -n $log ]]; then tee -a "$log"; else cat; fi; }
