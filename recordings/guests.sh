#!/bin/sh
# Makes guest-build.parquet and guest-files.parquet: guests as a build and a storm of page cache leave them. Nothing
# runs while they are recorded: what counts is how memory lies at the start. From anywhere; ten minutes where QEMU has to
# emulate the processor.
#
# FREEHOLD names another program than the one built here; OUT another folder.
set -eu
cd "$(dirname "$0")/.."

if [ -z "${FREEHOLD:-}" ]; then
    cargo build --profile dist -p freehold-cli
    FREEHOLD=${CARGO_TARGET_DIR:-target}/dist/freehold
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp recordings/guest-files.sh "$work"
# What a guest builds is what the workload `build` does; only what it does when differs.
{ sed '/^case /,$d' lab/boot/workloads/build.sh; cat recordings/guest-build.sh; } >"$work/guest-build.sh"

for guest in guest-build guest-files; do
    "$FREEHOLD" boot --workload "$work/$guest.sh" --cpus 2 --memory 1G --timeout 1400 \
        --out "${OUT:-recordings}/$guest.parquet"
done
