#!/usr/bin/env bash
# Runs clang-tidy (see .clang-tidy) over all sources but the tests, as a unity build puts them together.
# Takes ten minutes on two cores, or less with a regular expression of the units to check. The whole report
# stays in build/tidy.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh clang-tidy-16  # older ones cannot read g++ 12's <ranges>
cmake --preset cpu -G Ninja -B build/tidy -DHG_PCH=ON -DHG_WERROR=OFF -DBUILD_TESTING=OFF >/dev/null
cmake --build build/tidy --target hg_commit >/dev/null
# Warnings are g++'s matter, Eigen's headers are not ours to check.
run-clang-tidy-16 "$@" -quiet -p build/tidy -j "$(nproc)" \
  -header-filter="^$PWD/(tensor|autograd|nn|data|energy|train|tools)/" \
  -extra-arg=-w -extra-arg=-isystem/usr/include/eigen3 \
  >build/tidy/report.txt 2>build/tidy/errors.txt || {
  sed 's/\x1b\[[0-9;]*m//g' build/tidy/report.txt | grep -E ': (warning|error): ' | sort -u
  exit 1
}
