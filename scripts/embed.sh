#!/bin/sh
# embed.sh NAME FILE - print a C source that defines NAME as the text of FILE.
set -eu
printf '/* Generated from %s; do not edit. */\nextern const char %s[];\nconst char %s[] = {\n' "$2" "$1" "$1"
od -An -v -tu1 "$2" | sed 's/  */,/g; s/^,//; s/$/,/'
printf '0};\n'
