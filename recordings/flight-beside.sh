#!/bin/bash
# What the scripts that weigh a flight recorder share: the program, a folder that goes with them, and a recorder beside a
# measurement. Sourced by them, as root, at the root of the repository.

if [ -z "${FREEHOLD:-}" ]; then
    cargo build --profile dist -p freehold-cli
    FREEHOLD=${CARGO_TARGET_DIR:-target}/dist/freehold
fi
work=$(mktemp -d)
recorder=
trap '[ -z "$recorder" ] || kill "$recorder"; rm -rf "$work"' EXIT
export CARGO_TARGET_DIR=$work/target

# Begins to keep events beside what follows, with these options of `freehold record --flight`.
begin_flight() {
    : >"$work/said"
    "$FREEHOLD" record --flight 60s --on asked "$@" --out "$work" 2>"$work/said" &
    recorder=$!
    until grep -q keeping "$work/said"; do kill -0 "$recorder"; done
}

end_flight() {
    kill -INT "$recorder"
    wait "$recorder"
    recorder=
}
