#!/bin/sh
# Makes build.parquet: this machine while cargo builds the engine from nothing. As root, from anywhere.
#
# FREEHOLD names another recorder than the one built here; OUT another file.
set -eu
cd "$(dirname "$0")/.."
out=${OUT:-recordings/build.parquet}

if [ -z "${FREEHOLD:-}" ]; then
    cargo build --release -p freehold-lab
    FREEHOLD=${CARGO_TARGET_DIR:-target}/release/freehold
fi
target=$(mktemp -d)
trap 'rm -rf "$target"' EXIT

CARGO_TARGET_DIR=$target "$FREEHOLD" record --out "$out" -- cargo build --quiet --offline -p freehold
