#!/bin/sh
# symbols.sh [--built-on-oldest] FILE... - which of glibc's versions do these files need?
#
# The oldest glibc that libshard serves is 2.28. A newer glibc gives some old functions a new version,
# and what is linked there needs it: such files serve systems that are as new as the one that they
# were linked on. It is an error if a file needs
#   - a function that 2.28 does not have by any version;
#   - with --built-on-oldest: any version newer than 2.28.
set -eu
strict=0
if [ "${1:-}" = --built-on-oldest ]; then
	strict=1
	shift
fi
[ $# -gt 0 ] || { echo "usage: symbols.sh [--built-on-oldest] FILE..." >&2; exit 2; }

# What 2.28 has, too: 2.33 made stat a function, 2.34 moved libdl and libpthread into libc, 2.38 has
# strtol by the rules of C23. What names a clock came after 2.28, whatever its version.
old='stat|fstat|lstat|fstatat|stat64|fstat64|lstat64|fstatat64|mknod|mknodat'
old="$old|dlopen|dlclose|dlsym|dlvsym|dlerror|dladdr|dladdr1|dlinfo|dlmopen"
old="$old|__libc_start_main|_?_?pthread_[a-z_]*|sem_[a-z]*|__isoc23_[a-z]*"

failed=0
for file; do
	if ! table=$(LC_ALL=C objdump -T "$file"); then
		failed=1
		continue
	fi
	# name and version of each import of glibc's
	needs=$(echo "$table" | sed -n 's/^.*\*UND\*.*(\{0,1\}GLIBC_\(2\.[0-9.]*\))\{0,1\} *\([^ ]*\)$/\2 \1/p' | sort -u)
	if [ -z "$needs" ]; then
		echo "symbols: $file needs nothing of glibc: is it a program?" >&2
		failed=1
		continue
	fi
	newest=$(echo "$needs" | sed 's/.* //' | sort -V | tail -1)
	echo "$file: needs glibc $newest"
	newer=$(echo "$needs" | while read -r name version; do
		[ "$(printf '2.28\n%s\n' "$version" | sort -V | tail -1)" = 2.28 ] || echo "$name $version"
	done)
	if [ $strict = 1 ]; then
		wrong=$newer
	else
		wrong=$(echo "$newer" | grep -v '^$' | grep -vE "^($old) " || true)
		wrong="$wrong$(echo "$newer" | grep '^[^ ]*clock' || true)"
	fi
	if [ -n "$wrong" ]; then
		echo "$wrong" | sed "s|^|symbols: $file needs what glibc 2.28 does not have: |" >&2
		failed=1
	fi
done
exit $failed
