#!/usr/bin/env bash
# Install what the benchmarks compare us with: RabbitMQ, ActiveMQ and NATS from the system's packages, Maven and Java for
# Apache Kafka, and the C libraries that drive them.  No service is started, neither now nor at boot: the suite starts each
# system itself, with its data in a temporary directory.  What is there is left alone.  A package that cannot be had is named
# and passed over: the report says which systems are missing.
set -euo pipefail

packages=(rabbitmq-server activemq nats-server librdkafka-dev librabbitmq-dev default-jdk-headless maven gcc libc6-dev)

missing=()
for each in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$each" 2>/dev/null | grep -q 'ok installed' || missing+=("$each")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "bench_peers: this script knows only apt-get; please install: ${missing[*]}" >&2
    exit 0
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "bench_peers: installing ${missing[*]} needs root; the report will name what is missing" >&2
        exit 0
    fi
    as_root=(sudo)
fi

# Packages start their service when they are installed, unless this file forbids it (see invoke-rc.d(8)).
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
    "${as_root[@]}" chmod 755 "$policy"
    trap '"${as_root[@]}" rm -f "$policy"' EXIT
fi
"${as_root[@]}" apt-get update -q || true
for each in "${missing[@]}"; do
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$each" ||
        echo "bench_peers: $each cannot be had" >&2
done
for service in rabbitmq-server activemq nats-server; do
    if command -v systemctl >/dev/null && systemctl list-unit-files "$service.service" >/dev/null 2>&1; then
        "${as_root[@]}" systemctl disable --now "$service" >/dev/null 2>&1 || true
    fi
done
