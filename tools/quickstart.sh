#!/usr/bin/env bash
# Sets up, builds and compares a Vision Transformer to HuggingGreen's setting on Fashion-MNIST (60,000
# real images, from a Debian package), or on drawn shapes where the data set cannot be installed. About five
# minutes on two cores. A second start shows the results again.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh
scale=small
if ! tools/setup.sh dataset-fashion-mnist || [[ ! -d /usr/share/datasets/fashion-mnist ]]; then
  if [[ ! -d ${HG_DATA:-/nonexistent}/fashion-mnist ]]; then
    echo "Fashion-MNIST is not here (Debian's package dataset-fashion-mnist, or HG_DATA):" \
         "training on drawn shapes instead."
    scale=smoke
  fi
fi

generator=()
command -v ninja >/dev/null && generator=(-G Ninja)
cmake --preset cpu "${generator[@]}" -DHG_PCH=ON >/dev/null
cmake --build --preset cpu --parallel "$(nproc)" --target hgtrain | tail -n 1

build/cpu/train/hgtrain experiment quick --scale "$scale"
