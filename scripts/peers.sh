#!/usr/bin/env bash
# Install the foreign clients that the compatibility tests drive and that Python's packages do not bring:
# kcat and Node.js from the system's packages, KafkaJS from npm into .peers/.  What is there is left alone.
set -euo pipefail
cd "$(dirname "$0")/.."

KAFKAJS=2.2.4

missing=()
command -v kcat >/dev/null || missing+=(kcat)
command -v npm >/dev/null || missing+=(nodejs npm)

if [ ${#missing[@]} -gt 0 ]; then
    if ! command -v apt-get >/dev/null; then
        echo "peers: please install ${missing[*]} (this script knows only apt-get), or run: make test PEERS=no" >&2
        exit 1
    fi
    as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            echo "peers: installing ${missing[*]} needs root; install them yourself, or run: make test PEERS=no" >&2
            exit 1
        fi
        as_root=(sudo)
    fi
    "${as_root[@]}" apt-get update -q
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
fi

if [ ! -d .peers/node_modules/kafkajs ]; then
    mkdir -p .peers
    npm install --prefix .peers --no-audit --no-fund --loglevel=error "kafkajs@$KAFKAJS"
fi
