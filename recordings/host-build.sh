#!/bin/sh
# Makes host-build.parquet: this machine after it built `freehold` from nothing, while somebody read files that do
# not fit into memory. As root, from anywhere; it takes as much of the disk as there is memory, for some minutes.
#
# FREEHOLD names another program than the one built here; OUT another file.
set -eu
cd "$(dirname "$0")/.."
out=${OUT:-recordings/host-build.parquet}

if [ -z "${FREEHOLD:-}" ]; then
    cargo build --profile dist -p freehold-cli
    FREEHOLD=${CARGO_TARGET_DIR:-target}/dist/freehold
fi
work=$(mktemp -d -p "${TMPDIR:-/var/tmp}")
readers=
stop() {
    [ -z "$readers" ] || kill -- "-$readers" 2>/dev/null || true
    readers=
}
trap 'stop; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

mib=$(awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo)
for file in 1 2 3; do
    dd if=/dev/zero of="$work/$file" bs=1M count=$((mib / 3)) 2>/dev/null
done
# A group of its own, so that all of it can be stopped.
setsid sh -c 'while :; do cat "$0/1" "$0/2" "$0/3" >/dev/null; done' "$work" &
readers=$!
cargo build --quiet -p freehold-cli --target-dir "$work/target"
stop
# Nothing is removed before: what was read and built is what page cache is full of.
sleep 5
"$FREEHOLD" snapshot --out "$out"
