#!/usr/bin/env bash
# Install ZooKeeper from the system's packages, for the tests of the metastore and of clusters.  They start servers of
# their own, on free ports and with their own data; no service is started.  What is there is left alone.
set -euo pipefail

if [ -f /usr/share/java/zookeeper.jar ] && command -v java >/dev/null; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "zookeeper: please install ZooKeeper 3.8 (this script knows only apt-get), or run: make test PEERS=no" >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "zookeeper: installing ZooKeeper needs root; install it yourself, or run: make test PEERS=no" >&2
        exit 1
    fi
    as_root=(sudo)
fi
"${as_root[@]}" apt-get update -q
# The package called zookeeper has the server's files, zookeeperd the service: only the first is wanted.
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends zookeeper
