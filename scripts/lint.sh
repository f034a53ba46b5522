#!/bin/sh
# lint.sh - clang-format over all C sources, and scripts/layers.sh. (make lint runs clang-tidy, too.)
set -eu
cd "$(dirname "$0")/.."
# shellcheck disable=SC2046  # the names are ours
clang-format --style=file:scripts/clang-format.yaml --dry-run -Werror $(find shim include tests -name '*.[ch]' | sort)
sh scripts/layers.sh
