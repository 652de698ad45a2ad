# For the scripts beside it, to be sourced: builds a preset with progress.
. tools/progress.sh

# build_preset PRESET SECONDS [ARGUMENT OF CMAKE]... [-- ARGUMENT OF THE BUILD]...: SECONDS is what it
# takes from nothing on one core. Its output is in build/PRESET/build.log, and shown if it fails.
build_preset() {
  local preset=$1 seconds=$(($2 / $(nproc))) options=(-DHG_PCH=ON) start=$SECONDS log
  shift 2
  while (($#)) && [[ $1 != -- ]]; do options+=("$1") && shift; done
  (($#)) && shift
  command -v ninja >/dev/null && options+=(-G Ninja)
  log=build/$preset/build.log
  mkdir -p "build/$preset"
  {
    cmake --preset "$preset" "${options[@]}" &&
      cmake --build --preset "$preset" --parallel "$(nproc)" "$@"
  } 2>&1 | tee "$log" | progress "build of $preset" "$seconds" || { cat "$log" && return 1; }
  echo "built in $((SECONDS - start)) s"
}
