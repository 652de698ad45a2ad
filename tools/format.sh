#!/usr/bin/env bash
# Formats all C++ and CUDA sources, or with --check names those that are not formatted and fails.
# Other versions of clang-format than Debian 12's, 14, break some lines elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."

version=14
program=clang-format-$version
command -v $program >/dev/null || program=clang-format
if ! command -v $program >/dev/null; then
  echo "tools/format.sh: needs clang-format $version (on Debian 12: tools/setup.sh clang-format)" >&2
  exit 1
fi
[[ $($program --version) == *"version $version."* ]] ||
  echo "tools/format.sh: expects clang-format $version, found $($program --version)" >&2

# Files that are not added yet count, too; deleted ones do not.
mapfile -t sources < <(git ls-files -co --exclude-standard '*.cpp' '*.h' '*.cu' '*.cuh' |
  while read -r file; do [[ ! -f $file ]] || echo "$file"; done)
if [[ ${1:-} == --check ]]; then
  wrong=$(printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -n 40 $program --dry-run 2>&1 |
    sed -n 's/^\([^:]*\):[0-9]*:[0-9]*: warning: .*clang-format-violations.*/\1/p' | sort -u)
  [[ -z $wrong ]] || { printf 'not formatted (tools/format.sh does it):\n%s\n' "$wrong" >&2; exit 1; }
else
  printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -n 40 $program -i
fi
