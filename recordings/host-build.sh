#!/bin/sh
# Makes host-build.parquet: this machine after it built this workspace from nothing, while somebody read files that do
# not fit into memory. As root, from anywhere; it takes as much of the disk as there is memory, for some minutes.
#
# FREEHOLD names another program than the one built here; OUT another file.
set -eu
cd "$(dirname "$0")/.."
out=${OUT:-recordings/host-build.parquet}

if [ -z "${FREEHOLD:-}" ]; then
    cargo build --release -p freehold-lab
    FREEHOLD=${CARGO_TARGET_DIR:-target}/release/freehold
fi
work=$(mktemp -d)
readers=
stop() {
    [ -z "$readers" ] || kill "$readers" 2>/dev/null || true
    readers=
    rm -rf "$work"
}
trap stop EXIT
trap 'exit 1' INT TERM

mib=$(awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo)
for file in 1 2 3; do
    dd if=/dev/zero of="$work/$file" bs=1M count=$((mib / 3)) 2>/dev/null
done
(while :; do cat "$work/1" "$work/2" "$work/3" >/dev/null; done) &
readers=$!
cargo build --quiet --workspace --target-dir "$work/target"
stop
sleep 5
"$FREEHOLD" snapshot --out "$out"
