#!/bin/sh
# lint.sh - clang-format and clang-tidy over all C sources; warnings are errors.
set -eu
cd "$(dirname "$0")/.."
sources=$(find shim include tests -name '*.[ch]' | sort)
# shellcheck disable=SC2086  # the names are ours
clang-format --style=file:scripts/clang-format.yaml --dry-run -Werror $sources
find shim -name '*.c' | sort | xargs -P 2 -I{} clang-tidy --quiet \
  --config-file=scripts/clang-tidy.yaml {} -- -std=gnu17 -D_GNU_SOURCE -Iinclude -Ishim 2>build/lint.log
