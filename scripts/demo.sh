#!/bin/bash
# Runs DLIO unmodified and under libshard.so, and prints both side by side.
# "make demo" calls it after setup and build; data and logs go to build/demo/.
set -eu

cd "$(dirname "$0")/.."

for needed in .venv/bin/dlio_benchmark build/libshard.so build/tests/openlog.so; do
	if [ ! -e "$needed" ]; then
		echo "demo: $needed is missing: run 'make demo', which makes it" >&2
		exit 1
	fi
done
exec .venv/bin/python -m scripts.demo "$@"
