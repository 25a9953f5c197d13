#!/usr/bin/env bash
# Install Chromium from the system's packages, for the browser tests of the console and for the pictures in its guide.
# What is there is left alone.
set -euo pipefail

if command -v chromium >/dev/null; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "chromium: please install Chromium (this script knows only apt-get), or run: make test PEERS=no" >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "chromium: installing Chromium needs root; install it yourself, or run: make test PEERS=no" >&2
        exit 1
    fi
    as_root=(sudo)
fi
"${as_root[@]}" apt-get -o DPkg::Lock::Timeout=300 update -q
# Some fonts, or the pages would have none.
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -q --no-install-recommends \
    chromium fonts-dejavu-core fonts-inter
