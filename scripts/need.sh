#!/usr/bin/env bash
# Installs what a target needs and this machine lacks, from Debian's packages.
#   scripts/need.sh run|check|test|bench
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
  run|check|test|bench) ;;
  *) echo "usage: scripts/need.sh run|check|test|bench" >&2; exit 2 ;;
esac
command -v go >/dev/null || {
  echo "Go 1.26 or newer is missing from PATH: https://go.dev/doc/install" >&2
  [[ -z ${SUDO_USER:-} ]] || echo "(sudo has a PATH of its own: run make as $SUDO_USER; it calls sudo where it must.)" >&2
  exit 4
}
# An older Go fetches the one that go.mod asks for, or says why it can't.
(cd "$(dirname "$0")/.." && go list -m >/dev/null) || {
  echo "$(go version) can't build this. Go 1.26 or newer: https://go.dev/doc/install" >&2
  exit 4
}

if [[ $1 != check ]]; then
  need /usr/lib/chromium/chromium-headless-shell chromium-headless-shell
  need "/usr/share/fonts/truetype/*" fonts-dejavu-core
fi
if [[ $1 != run ]]; then
  need node nodejs # runs the page's encoder beside ours
fi
if [[ $1 == test || $1 == bench ]]; then
  need "/usr/lib/postgresql/*/bin/initdb" postgresql
  need npm npm
  need java default-jre-headless # Keycloak, a provider that isn't ours
  need mvn maven # brings it
  need /usr/lib/chromium/chromium chromium # the box holds it too; the benchmarks' floor
  python3 -c 'import venv, ensurepip' 2>/dev/null || lacking+=(python3-venv)
  need git git
  need spin spin # verifies the model of attended control; gcc builds what it makes
  need gcc gcc # the race detector, and its headers
  need /usr/include/stdlib.h libc6-dev
fi
if [[ $1 == test ]]; then # the servers that account sources are tried against
  need /usr/lib/dovecot/imap dovecot-imapd
  need /usr/sbin/apache2 apache2-bin
  need /usr/sbin/nginx nginx-light # a site that isn't ours, with our paths routed through it
  need /usr/lib/python3/dist-packages/radicale/__init__.py python3-radicale
fi
if (( ${#lacking[@]} )); then
  command -v apt-get >/dev/null || {
    echo "This system has no apt-get. Install these by its own means, then try again: ${lacking[*]}" >&2
    echo "(make build, then bin/chaperone doctor, tells what the browser's box needs here.)" >&2
    exit 4
  }
  as_root=()
  if (( EUID != 0 )); then
    command -v sudo >/dev/null || {
      echo "Missing, and only root may install it: apt-get install -y --no-install-recommends ${lacking[*]}" >&2
      exit 4
    }
    as_root=(sudo)
  fi
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  echo "installing: ${lacking[*]} (to watch: tail -f $log)" >&2
  # A fresh PostgreSQL package would start a server of its own; the tests start theirs.
  if [[ " ${lacking[*]} " == *" postgresql "* && ! -e /etc/postgresql-common/createcluster.conf ]]; then
    "${as_root[@]}" mkdir -p /etc/postgresql-common
    echo "create_main_cluster = false" | "${as_root[@]}" tee /etc/postgresql-common/createcluster.conf >/dev/null
  fi
  # Nor shall any other package start a service while it is installed.
  if [[ ! -e /usr/sbin/policy-rc.d ]]; then
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee /usr/sbin/policy-rc.d >/dev/null
    "${as_root[@]}" chmod 755 /usr/sbin/policy-rc.d
    trap 'rm -f "$log"; "${as_root[@]}" rm -f /usr/sbin/policy-rc.d' EXIT
  fi
  for try in 1 2 3; do
    if { "${as_root[@]}" apt-get update && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
         apt-get install -y --no-install-recommends "${lacking[@]}"; } >"$log" 2>&1; then
      break
    fi
    (( try < 3 )) || { tail -20 "$log" >&2; echo "could not install: ${lacking[*]}" >&2; exit 4; }
    sleep $((try * 5))
  done
fi
