#!/usr/bin/env bash
# Sets up, builds and runs all tests: optimised, under the address and undefined-behaviour
# sanitizers, and the threading tests under the thread sanitizer; where nvcc is installed, the CUDA
# kernels are compiled too, for one architecture, must not spill registers (build/cpu/resources.txt
# tells what they use), and are linked into programs that are run. With arguments, only those
# presets, without CUDA: tools/test.sh cpu
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh
presets=("$@")
((${#presets[@]})) || presets=(cpu asan tsan)
generator=()
command -v ninja >/dev/null && generator=(-G Ninja)

cuda=()
(($# == 0)) && command -v nvcc >/dev/null &&
  cuda=(-DHG_CUDA=APART -DCMAKE_CUDA_ARCHITECTURES=75)

for preset in "${presets[@]}"; do
  echo "== $preset"
  target=()
  options=(-DHG_PCH=ON)
  [[ $preset == tsan ]] && target=(--target threads data_threads energy_threads)
  [[ $preset == cpu ]] && options+=("${cuda[@]}")
  cmake --preset "$preset" "${generator[@]}" "${options[@]}" >/dev/null
  cmake --build --preset "$preset" --parallel "$(nproc)" "${target[@]}" >"build/$preset/build.log" 2>&1 ||
    { cat "build/$preset/build.log" && exit 1; }
  [[ $preset == cpu && ${#cuda[@]} -gt 0 ]] &&
    tools/cuda_resources.py build/cpu/build.log >build/cpu/resources.txt
  ctest --preset "$preset" --parallel "$(nproc)" --progress
done
