#!/usr/bin/env bash
# Fetch promtool, with which a test checks what a broker tells of itself (`promtool check metrics`), from Debian's package
# into .peers/promtool.  The package is unpacked and not installed: no Prometheus is started.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v promtool >/dev/null && exit 0
[ -x .peers/promtool ] && exit 0

if ! command -v apt-get >/dev/null; then
    echo "prometheus: please put promtool on the path (this script knows only apt-get), or run: make test PEERS=no" >&2
    exit 1
fi
mkdir -p .peers
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! (cd "$work" && apt-get download -q prometheus); then
    as_root=()
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    "${as_root[@]}" apt-get update -q
    (cd "$work" && apt-get download -q prometheus)
fi
dpkg-deb --extract "$work"/prometheus_*.deb "$work/unpacked"
install -m 755 "$work/unpacked/usr/bin/promtool" .peers/promtool
.peers/promtool --version | head -1
