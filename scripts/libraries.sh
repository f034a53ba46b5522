#!/bin/sh
# libraries.sh CC LIBRARY... - can this compiler use these libraries? A line for each that it cannot.
#
# CC may have flags. `make` asks before it compiles what needs them.
set -eu
cc=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# row NAME: header, what to link, Debian's package, Fedora's and Red Hat's
row() {
	case $1 in
	jemalloc) echo "stdlib.h -ljemalloc libjemalloc-dev jemalloc-devel" ;;
	libcurl) echo "curl/curl.h -lcurl libcurl4-openssl-dev libcurl-devel" ;;
	openssl) echo "openssl/evp.h -lcrypto libssl-dev openssl-devel" ;;
	json-c) echo "json-c/json.h -ljson-c libjson-c-dev json-c-devel" ;;
	cmocka) echo "cmocka.h -lcmocka libcmocka-dev libcmocka-devel" ;;
	*) echo "libraries: there is no library '$1'" >&2; exit 2 ;;
	esac
}

if ! printf '#include <stdio.h>\nint main(void) { return 0; }\n' >"$folder/c.c" ||
	! $cc -o "$folder/c" "$folder/c.c" >"$folder/log" 2>&1; then
	echo "make: the compiler '$cc' compiles nothing; install gcc and libc6-dev (Debian), gcc and glibc-devel (Red Hat):" >&2
	head -3 "$folder/log" >&2
	exit 1
fi

missing=0
for name; do
	# shellcheck disable=SC2046 # four words
	set -- $(row "$name")
	{
		# jemalloc is linked; nothing includes it. cmocka's header wants these before it.
		printf '#include <setjmp.h>\n#include <stdarg.h>\n#include <stddef.h>\n#include <stdint.h>\n'
		printf '#include <%s>\nint main(void) { return 0; }\n' "$1"
	} >"$folder/c.c"
	if ! $cc -o "$folder/c" "$folder/c.c" "$2" >/dev/null 2>&1; then
		echo "make: $name is missing; install $3 (Debian, Ubuntu) or $4 (Fedora, Red Hat)" >&2
		missing=1
	fi
done
[ $missing = 0 ] || [ "$name" = cmocka ] ||
	echo "make: 'make lib' builds libshard.so alone, which needs none of them" >&2
exit $missing
