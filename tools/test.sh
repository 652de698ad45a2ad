#!/usr/bin/env bash
# Sets up, builds and tests.
#   tools/test.sh                 the optimised build and all tests
#   tools/test.sh all             what CI runs: the format of the sources, that build with fuzzing
#                                 (where nvcc is installed also with the CUDA kernels, for one
#                                 architecture: they must not spill registers), both sanitizer builds
#   tools/test.sh cpu|asan|tsan   these presets alone
# Logs and build/cpu/resources.txt, which tells what CUDA kernels use, stay in build/.
set -euo pipefail
cd "$(dirname "$0")/.."

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

# On a terminal its input in one line that changes; elsewhere nothing.
show_progress() {
  if [[ -t 1 ]]; then
    awk '{ printf "\r\033[K%s", substr($0, 1, 79); fflush() } END { printf "\r\033[K" }'
  else
    cat >/dev/null
  fi
}

configure_and_build() {
  local preset=$1 options=(-DHG_PCH=ON) targets=()
  command -v ninja >/dev/null && options+=(-G Ninja)
  [[ $preset == cpu ]] && options+=("${cuda[@]}")
  [[ $preset == tsan ]] && targets=(--target threads)
  cmake --preset "$preset" "${options[@]}" >/dev/null
  local log=build/$preset/build.log
  cmake --build --preset "$preset" --parallel "$(nproc)" "${targets[@]}" 2>&1 | tee "$log" |
    show_progress || { cat "$log" && return 1; }
  if [[ $preset == cpu && ${#cuda[@]} -gt 0 ]]; then
    tools/cuda_resources.py "$log" >build/cpu/resources.txt
  fi
}

# Failures and the closing lines; on a terminal also how far it is.
run_tests() {
  local command=(ctest --preset "$1" --parallel "$(nproc)")
  if [[ -t 1 ]]; then
    "${command[@]}" --progress
  else
    "${command[@]}" | grep -vE '^ +Start +[0-9]+: | Passed +[0-9.]+ sec$'
  fi
}

for preset in "${presets[@]}"; do
  echo "== $preset"
  start=$SECONDS
  configure_and_build "$preset"
  echo "built in $((SECONDS - start)) s"
  run_tests "$preset"
done
echo "all in $SECONDS s"
