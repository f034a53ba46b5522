#!/bin/bash
# SPDX-License-Identifier: MIT
# What makes faults of memory harder to use is switched on in both products (Makefile, HARDEN). Each check fails on a
# program that is built without.
. "$(dirname "$0")/lib.bash"
needs readelf objdump nm
case $(uname -m) in
x86_64) begins=endbr64 none=-fcf-protection=none ;;
aarch64) begins='paciasp|bti' none=-mbranch-protection=none ;;
*) echo "no flags are known for $(uname -m)" >&2; exit 2 ;;
esac

# lacks FILE FUNCTION: a word for each thing that it lacks
lacks() {
  readelf -Wl "$1" >"$WORK/segments"; readelf -Wd "$1" >"$WORK/dynamic"; nm -D "$1" >"$WORK/symbols"
  grep -q 'GNU_STACK.* RW ' "$WORK/segments" || echo stack
  grep -q GNU_RELRO "$WORK/segments" || echo relro
  grep -q 'LOAD.* RWE ' "$WORK/segments" && echo writable-code
  grep -E 'RPATH|RUNPATH' "$WORK/dynamic" | grep -qvE 'path: \[(/usr)?/lib(64|/[^/]*)?/?\]$' && echo rpath # the system's are root's
  grep -q TEXTREL "$WORK/dynamic" && echo textrel
  grep -q __stack_chk_fail "$WORK/symbols" || echo protector
  grep -q '_chk@' <(grep -v __stack_chk_fail "$WORK/symbols") || echo fortify
  objdump -d --no-show-raw-insn "$1" | grep -A1 "<$2>:\$" | tail -1 | grep -qE "$begins" || echo branches
}
# lacks_program FILE: the same, of what a program alone has
lacks_program() {
  lacks "$1" main
  grep -q 'NOW PIE' "$WORK/dynamic" || echo now-pie
}

verdict "libshard.so" "$(lacks "$LIB" opendir)"
verdict "shardctl" "$(lacks_program "$CTL")"
cat >"$WORK/bare.c" <<'C'
#include <stdio.h>
int main(int argc, char **argv) { char line[80]; snprintf(line, sizeof(line), "%s", argv[argc - 1]); return line[0]; }
C
${CC:-gcc} -O1 -U_FORTIFY_SOURCE -fno-stack-protector $none -no-pie -z execstack -z norelro -z lazy -Wl,-rpath,/x \
  -o "$WORK/bare" "$WORK/bare.c" 2>/dev/null
verdict "a program without" "$(diff <(lacks_program "$WORK/bare" | sort | tr '\n' ' ') <(echo -n "branches fortify now-pie protector relro rpath stack "))"
finish
