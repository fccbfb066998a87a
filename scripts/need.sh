#!/usr/bin/env bash
# Installs what a target needs and this machine lacks, from Debian's packages.
#   scripts/need.sh run|test|bench
# Nothing is started, and nothing that is there already is touched.
set -euo pipefail

lacking=()
need() { # need COMMAND-OR-PATH PACKAGE…: the packages, unless the command is there
  local probe=$1; shift
  if [[ $probe == /* ]]; then
    compgen -G "$probe" >/dev/null && return
  else
    command -v "$probe" >/dev/null && return
  fi
  lacking+=("$@")
}

case "${1:-}" in
  run|test|bench) ;;
  *) echo "usage: scripts/need.sh run|test|bench" >&2; exit 2 ;;
esac
command -v go >/dev/null || { echo "Go 1.26 or newer is missing: https://go.dev/doc/install" >&2; exit 4; }

need /usr/lib/chromium/chromium-headless-shell chromium-headless-shell
need "/usr/share/fonts/truetype/*" fonts-dejavu-core
if [[ $1 != run ]]; then
  need "/usr/lib/postgresql/*/bin/initdb" postgresql
  need node nodejs
  need npm npm
  need python3 python3-venv
  need git git
  need gcc gcc libc6-dev # the race detector
fi
if [[ $1 == bench ]]; then
  need /usr/lib/chromium/chromium chromium
fi

if (( ${#lacking[@]} )); then
  command -v apt-get >/dev/null || {
    echo "This system has no apt-get. Install these by its own means, then try again: ${lacking[*]}" >&2
    echo "(chaperone doctor tells what the browser's box needs elsewhere; browser.path names another engine.)" >&2
    exit 4
  }
  as_root=()
  (( EUID == 0 )) || as_root=(sudo)
  echo "installing: ${lacking[*]}" >&2
  # A fresh PostgreSQL package would start a server of its own; the tests start theirs.
  if [[ " ${lacking[*]} " == *" postgresql "* && ! -e /etc/postgresql-common/createcluster.conf ]]; then
    "${as_root[@]}" mkdir -p /etc/postgresql-common
    echo "create_main_cluster = false" | "${as_root[@]}" tee /etc/postgresql-common/createcluster.conf >/dev/null
  fi
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  for try in 1 2 3; do
    if { "${as_root[@]}" apt-get update && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
         apt-get install -y --no-install-recommends "${lacking[@]}"; } >"$log" 2>&1; then
      break
    fi
    (( try < 3 )) || { tail -20 "$log" >&2; echo "could not install: ${lacking[*]}" >&2; exit 4; }
    sleep $((try * 5))
  done
fi
