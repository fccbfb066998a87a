#!/bin/sh
# The tour: a contained browser borrows a ladder, and is kept from leaving.
# Usage: examples/tour.sh path/to/chaperone [OUT]
set -eu

chaperone=${1:?usage: examples/tour.sh path/to/chaperone [OUT]}
here=$(cd "$(dirname "$0")" && pwd)
out=${2:-out/tour}
work=$(mktemp -d)
site=
end() {
	exec 9>&-                                # the site ends with its input
	[ -z "$site" ] || wait "$site" || true
	rm -rf "$work"
}
trap end EXIT
trap 'exit 130' INT TERM

# As the command was built, so that nothing is compiled twice.
(cd "$here/.." && CGO_ENABLED=0 go build -trimpath -o "$work/site" ./examples/site)
mkfifo "$work/in"
"$work/site" <"$work/in" >"$work/addresses" &
site=$!
exec 9>"$work/in"
until [ -s "$work/addresses" ]; do
	kill -0 "$site" 2>/dev/null || { echo "the example site didn't start" >&2; exit 1; }
	sleep 0.05
done
read -r library office <"$work/addresses"

echo "A contained browser visits $library. That is its whole scope:"
echo "    --allow ${library#http://}"
echo
status=0
"$chaperone" browse --allow "${library#http://}" --out "$out" --keep-going \
	"goto=$library/" \
	"screenshot=1-list.png" \
	"click=#ladder" \
	"type=#name=Ada" \
	"type=#days=7 days" \
	"type=#note=For the gutter. I bring it back on Sunday." \
	"click=#borrow" \
	"wait=#thanks" \
	"js=document.querySelector('#thanks').textContent" \
	"screenshot=2-loan.png" \
	"goto=$office/" \
	"goto=http://169.254.169.254/latest/meta-data/" || status=$?
echo
case $status in
3) echo "The last two were refused by the scope, as they should be: nobody allowed them." ;;
0) echo "Nothing was refused: that is wrong." >&2; exit 1 ;;
*) exit "$status" ;;
esac
