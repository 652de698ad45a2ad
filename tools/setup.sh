#!/usr/bin/env bash
# Installs the Debian packages the project is built with, and those named as arguments; quick, and
# silent, when nothing is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/progress.sh

packages=(g++ cmake ninja-build ccache libeigen3-dev doctest-dev libstb-dev libcli11-dev
          libtomlplusplus-dev nlohmann-json3-dev libfmt-dev libdeflate-dev libboost-dev libwebp-dev
          libcpp-httplib-dev pkg-config libopenmpi-dev openmpi-bin "$@")

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "tools/setup.sh installs Debian packages; on this system, please install what they hold:" >&2
  echo "  a C++20 compiler (g++ 12 or newer), CMake 3.25, Ninja, pkg-config, Eigen 3.4, doctest, stb," >&2
  echo "  CLI11, toml++, nlohmann-json, fmt, libdeflate (with headers), Boost.Math, cpp-httplib; optional:" >&2
  echo "  ccache, libwebp, Open MPI" >&2
  exit 0
fi

installed=$(dpkg-query -W -f='${Package} ${Status}\n' "${packages[@]}" 2>/dev/null || true)
missing=()
for package in "${packages[@]}"; do
  grep -qxF "$package install ok installed" <<<"$installed" || missing+=("$package")
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

# What apt-get prints, debconf's remarks among it, is shown if it fails.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
  local title=$1 seconds=$2
  shift 2
  # apt-get closes the descriptor of its status for dpkg, so that cannot be standard output; and sudo
  # closes all but the first three.
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    sh -c 'exec apt-get -o APT::Status-Fd=3 -o Dpkg::Use-Pty=0 -qq "$@" 3>&1 >&2' apt-get "$@" \
    </dev/null 2>"$log" | progress "$title" "$seconds" || {
    cat "$log" >&2
    echo "tools/setup.sh: apt-get $1 failed" >&2
    exit 1
  }
}

echo "Installing ${missing[*]}"
apt "package lists" 10 update
apt "packages" $((15 + 5 * ${#missing[@]})) install -y --no-install-recommends "${missing[@]}"
