#!/usr/bin/env bash
# Installs the Debian packages the project is built with, and those named as arguments; quiet and
# quick when nothing is missing.
set -euo pipefail

packages=(g++ cmake ninja-build ccache libeigen3-dev doctest-dev libstb-dev libcli11-dev
          libtomlplusplus-dev nlohmann-json3-dev libfmt-dev libdeflate-dev libboost-dev libwebp-dev
          "$@")

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "tools/setup.sh installs Debian packages; on this system, please install what they hold:" >&2
  echo "  a C++20 compiler (g++ 12 or newer), CMake 3.25, Ninja, Eigen 3.4, doctest, stb, CLI11," >&2
  echo "  toml++, nlohmann-json, fmt, libdeflate (with headers), Boost.Math; optional: ccache, libwebp" >&2
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
  [[ $status == "install ok installed" ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "tools/setup.sh: needs root or sudo to install: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "Installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
