#!/usr/bin/env bash
# Sets up, builds and compares a Vision Transformer to HuggingGreen's setting on Fashion-MNIST (60,000
# real images, from a Debian package), or on drawn shapes where the data set cannot be installed. About five
# minutes on two cores. A second start shows the results again.
set -euo pipefail
cd "$(dirname "$0")/.."
echo "HuggingGreen: packages (about a minute), build (about $((5 / $(nproc) + 1)) min)," \
     "then two small Vision Transformers compared (about two)."
. tools/build.sh

tools/setup.sh
scale=small
if ! tools/setup.sh dataset-fashion-mnist || [[ ! -d /usr/share/datasets/fashion-mnist ]]; then
  if [[ ! -d ${HG_DATA:-/nonexistent}/fashion-mnist ]]; then
    echo "Fashion-MNIST is not here (Debian's package dataset-fashion-mnist, or HG_DATA):" \
         "training on drawn shapes instead."
    scale=smoke
  fi
fi

build_preset cpu 300 -- --target hgtrain
build/cpu/train/hgtrain experiment quick --scale "$scale"
