#!/bin/sh
# layers.sh - includes point one way, as the table of rooms in shim/README.md says.
#
# A row is | `ROOM/` | product | rooms it may include | ... |. It is an error if
#   - a room includes a header of a room that its row does not name (but for adapter/api.h, which
#     like libshard.h is of no room);
#   - a row names a room that has no earlier row (so there can be no cycle);
#   - a folder of shim/ has C files and no row, or a row has no folder;
#   - a room of libshard.so is linked into shardctl, or the other way round (the lists in Makefile).
set -eu
cd "$(dirname "$0")/.."

fail() {
	echo "layers: $*" >&2
	failed=1
}
failed=0

# A line "ROOM|PRODUCT|MAY,INCLUDE" for each row; the lowest room comes first.
rooms=$(sed -n 's#^| `\([a-z0-9/]*\)/` | \([^|]*\) | \([^|]*\) |.*#\1|\2|\3#p' shim/README.md | tr -d ' `')
[ -n "$rooms" ] || { echo "layers: shim/README.md has no table of rooms" >&2; exit 1; }

below=" "
for row in $rooms; do
	room=${row%%|*}
	may=$(echo "${row##*|}" | tr ',' ' ')
	[ -d "shim/$room" ] || fail "shim/README.md tells of a room $room/, which is not there"
	for other in $may; do
		case $below in
		*" $other "*) ;;
		*) [ "$other" = - ] || fail "$room/ may include $other/, which stands further up" ;;
		esac
	done
	allowed=" $room $may "
	for header in $(cat shim/"$room"/*.[ch] 2>/dev/null | sed -n '/"adapter\/api.h"/d; s#^ *\# *include "\(.*\)/[^/]*"$#\1#p' | sort -u); do
		case $allowed in
		*" $header "*) ;;
		*) fail "$room/ includes $header/, and may include $may: $(grep -l "include \"$header/[^/]*\"" shim/"$room"/*.[ch] | tr '\n' ' ')" ;;
		esac
	done
	below="$below$room "
done

for folder in $(find shim -name '*.[ch]' | sed 's#^shim/##; s#/[^/]*$##' | sort -u); do
	case $below in
	*" $folder "*) ;;
	*) fail "shim/$folder/ has no row in shim/README.md" ;;
	esac
done

# The objects of each product, as make knows them.
for product in libshard.so:LIB shardctl:CTL; do
	for object in $(${MAKE:-make} -s print-"${product#*:}"); do
		room=${object%/*}
		where=$(echo "$rooms" | sed -n "s#^$room|\([^|]*\)|.*#\1#p")
		case $where in
		both | "${product%:*}" | "") ;;
		*) fail "$object is linked into ${product%:*}, and $room/ is of $where" ;;
		esac
	done
done
exit $failed
