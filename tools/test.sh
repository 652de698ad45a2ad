#!/usr/bin/env bash
# Sets up, builds and tests.
#   tools/test.sh                 the optimised build and all tests
#   tools/test.sh all             what CI runs: the format of the sources, that build with fuzzing
#                                 (where nvcc is installed also with the CUDA kernels, for one
#                                 architecture: they must not spill registers), both sanitizer builds
#   tools/test.sh cpu|asan|tsan   these presets alone
# Logs of builds and tests and build/cpu/resources.txt, which tells what CUDA kernels use, stay in build/.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/build.sh

case "${*:-cpu}" in
  all) presets=(cpu asan tsan) ;;
  *) read -ra presets <<<"${*:-cpu}" ;;
esac
for preset in "${presets[@]}"; do
  [[ $preset =~ ^(cpu|asan|tsan)$ ]] || { echo "usage: tools/test.sh [all | cpu | asan | tsan]" >&2; exit 2; }
done

cuda=()
if [[ ${*:-} == all ]]; then
  tools/setup.sh clang-format clang libclang-rt-dev  # for fuzzing
  tools/format.sh --check
  if command -v nvcc >/dev/null; then
    cuda=(-DHG_CUDA=APART -DCMAKE_CUDA_ARCHITECTURES=75)
  fi
else
  tools/setup.sh
fi

configure_and_build() {
  local preset=$1 options=() targets=() seconds=600
  [[ $preset == cpu ]] && options=("${cuda[@]}")
  [[ $preset == tsan ]] && targets=(--target threads) && seconds=120
  build_preset "$preset" "$seconds" "${options[@]}" -- "${targets[@]}"
  if [[ $preset == cpu && ${#cuda[@]} -gt 0 ]]; then
    tools/cuda_resources.py "build/cpu/build.log" >build/cpu/resources.txt
  fi
}

# How far it is, then failures and the closing lines.
run_tests() {
  local log=build/$1/test.log failed=0
  ctest --preset "$1" --parallel "$(nproc)" 2>&1 | tee "$log" |
    progress "tests of $1" $((400 / $(nproc))) || failed=1
  grep -vE '^ +Start +[0-9]+: | Passed +[0-9.]+ sec$' "$log" || true
  return $failed
}

for preset in "${presets[@]}"; do
  echo "== $preset"
  configure_and_build "$preset"
  run_tests "$preset"
done
echo "all in $SECONDS s"
