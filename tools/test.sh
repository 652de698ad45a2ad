#!/usr/bin/env bash
# Sets up, builds and runs all tests: optimised, under the address and undefined-behaviour
# sanitizers, and the threading tests under the thread sanitizer; where nvcc is installed, the CUDA
# kernels are compiled too, for one architecture, and must not spill registers
# (build/cuda/resources.txt tells what they use). With arguments, only those presets:
# tools/test.sh cpu
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

if (($# == 0)) && command -v nvcc >/dev/null; then
  echo "== cuda"
  cmake --preset cuda "${generator[@]}" -DCMAKE_CUDA_ARCHITECTURES=75 >/dev/null
  cmake --build --preset cuda --parallel "$(nproc)" --target hg_tensor_cuda >build/cuda/build.log 2>&1 ||
    { cat build/cuda/build.log && exit 1; }
  tools/cuda_resources.py build/cuda/build.log >build/cuda/resources.txt
fi
