#!/usr/bin/env bash
# Sets up, builds and runs all tests: optimised, under the address and undefined-behaviour
# sanitizers, and the threading tests under the thread sanitizer. With arguments, only those
# presets: tools/test.sh cpu
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh
presets=("$@")
((${#presets[@]})) || presets=(cpu asan tsan)
generator=()
command -v ninja >/dev/null && generator=(-G Ninja)

for preset in "${presets[@]}"; do
  echo "== $preset"
  target=()
  [[ $preset == tsan ]] && target=(--target threads data_threads energy_threads)
  cmake --preset "$preset" "${generator[@]}" -DHG_PCH=ON >/dev/null
  cmake --build --preset "$preset" --parallel "$(nproc)" "${target[@]}" >"build/$preset/build.log" ||
    { cat "build/$preset/build.log" && exit 1; }
  ctest --preset "$preset" --parallel "$(nproc)" --progress
done
