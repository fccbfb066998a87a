#!/bin/sh
# Installs the agent API servers that tests run turns against. They go into
# .cache/agent-servers of this checkout, pinned by scripts/agent-servers/. Safe to
# run again: what is there already is left alone.
#   scripts/install-agent-servers.sh [PART…]      PART: npm, pypi; default all
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
pins=$root/scripts/agent-servers
cache=$root/.cache/agent-servers
mkdir -p "$cache"

need() { # need COMMAND PACKAGES
	command -v "$1" >/dev/null || { echo "$1 is missing: apt-get install -y $2" >&2; exit 4; }
}

# One stamp a part, holding the pins that it was installed from; it is written
# last, so a part that was interrupted is made anew.

npm_part() { # the LangGraph API server for JavaScript graphs
	need node nodejs
	need npm npm
	cmp -s "$pins/npm/package-lock.json" "$cache/npm.stamp" && return
	rm -rf "$cache/npm" "$cache/npm.stamp"
	mkdir -p "$cache/npm"
	cp "$pins/npm/package.json" "$pins/npm/package-lock.json" "$cache/npm/"
	(cd "$cache/npm" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
	cp "$pins/npm/package-lock.json" "$cache/npm.stamp"
}

pypi_part() { # the LangGraph API server for Python graphs, and what sdk/python's tests need
	need python3 python3-venv
	pypi_install
	# The package under test, as it stands in this checkout.
	for site in "$cache"/pypi/lib/python3*/site-packages; do
		echo "$root/sdk/python/src" >"$site/chaperone-browser.pth"
	done
}

pypi_install() {
	cmp -s "$pins/pypi/requirements.txt" "$cache/pypi.stamp" && return
	rm -rf "$cache/pypi" "$cache/pypi.stamp"
	python3 -m venv "$cache/pypi" || { echo "python3 -m venv failed: apt-get install -y python3-venv" >&2; exit 4; }
	"$cache/pypi/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$pins/pypi/requirements.txt"
	cp "$pins/pypi/requirements.txt" "$cache/pypi.stamp"
}

for part in ${@:-npm pypi}; do
	"${part}_part"
done
