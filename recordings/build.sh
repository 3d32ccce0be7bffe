#!/bin/sh
# Makes build.parquet: this machine while cargo builds serde's two largest crates and what they need from
# nothing, without optimisation. As root, from anywhere, after `cargo fetch`.
#
# FREEHOLD names another recorder than the one built here; OUT another file.
set -eu
cd "$(dirname "$0")/.."
out=${OUT:-recordings/build.parquet}

if [ -z "${FREEHOLD:-}" ]; then
    cargo build --profile dist -p freehold-cli
    FREEHOLD=${CARGO_TARGET_DIR:-target}/dist/freehold
fi
target=$(mktemp -d)
trap 'rm -rf "$target"' EXIT
export CARGO_TARGET_DIR="$target"

# Scheduled ahead of other work, as a group of its own, so that little of that is in the recording.
setsid --wait sh -c 'echo -20 2>/dev/null >/proc/self/autogroup || true; exec "$@"' ahead \
    "$FREEHOLD" record --out "$out" -- \
    cargo build --quiet --offline -p serde_derive -p serde_json --config 'profile.dev.package."*".opt-level=0'
