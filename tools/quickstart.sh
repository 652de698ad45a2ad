#!/usr/bin/env bash
# Sets up, builds and trains a Vision Transformer on Fashion-MNIST (60,000 real images, from a Debian
# package), or on drawn shapes where the data set is not to be had. A few minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh
# Patches of 7 pixels and small batches: a third of the work an epoch, so more epochs fit in a minute.
config=(fashion-mnist --set model.patch_size=7 --set train.batch_size=64 --set train.epochs=6)
if ! tools/setup.sh dataset-fashion-mnist || [[ ! -d /usr/share/datasets/fashion-mnist ]]; then
  if [[ ! -d ${HG_DATA:-/nonexistent}/fashion-mnist ]]; then
    echo "Fashion-MNIST is not here (Debian's package dataset-fashion-mnist, or HG_DATA):" \
         "training on drawn shapes instead."
    config=(shapes)
  fi
fi

generator=()
command -v ninja >/dev/null && generator=(-G Ninja)
cmake --preset cpu "${generator[@]}" -DHG_PCH=ON >/dev/null
cmake --build --preset cpu --parallel "$(nproc)" --target hgtrain | tail -n 1

build/cpu/train/hgtrain train "${config[@]}"
