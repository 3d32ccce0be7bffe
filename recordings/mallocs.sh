#!/bin/sh
# Makes malloc-jemalloc.parquet, malloc-tcmalloc.parquet and malloc-glibc.parquet: the same server under three mallocs,
# each told to give unused memory back soon. Then counts what it does under Freehold's own malloc, of which no recording
# is kept. As root, from anywhere, when nothing else runs. NOTE: page caches are dropped, so that the state of the
# machine is short; programs read their files from disk again for a while.
#
# Needs Debian's packages libjemalloc2 and libtcmalloc-minimal4, or JEMALLOC and TCMALLOC that name the libraries.
# FREEHOLD and LOAD name other programs than those built here, OUT another folder, REQUESTS another length.
set -eu
cd "$(dirname "$0")/.."
out=${OUT:-recordings}
requests=${REQUESTS:-10000}

# Finds a library, or says what to install: library PATH-OR-NOTHING NAME PACKAGE VARIABLE
library() {
    for found in ${1:-/usr/lib/*-linux-gnu/"$2" /usr/lib64/"$2"}; do
        [ ! -e "$found" ] || { echo "$found" && return; }
    done
    echo "mallocs.sh: cannot find $2; install the package $3, or set $4 to the library" >&2
    exit 2
}
jemalloc=$(library "${JEMALLOC:-}" libjemalloc.so.2 libjemalloc2 JEMALLOC)
tcmalloc=$(library "${TCMALLOC:-}" libtcmalloc_minimal.so.4 libtcmalloc-minimal4 TCMALLOC)

programs=${CARGO_TARGET_DIR:-target}/dist
[ -n "${FREEHOLD:-}" ] || cargo build --profile dist -p freehold-cli
[ -n "${LOAD:-}" ] || cargo build --profile dist -p freehold-malloc --example load
freehold=${FREEHOLD:-$programs/freehold}
load=${LOAD:-$programs/examples/load}
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Six threads receive, one answers; what waits between them swings from 16 to 64 MiB. That tcmalloc has seen 2 GiB come
# back before it begins to purge is what the memory asked for before is for.
server="server --before 2112 --receiving 6 --answering 1 --requests $requests --backlog 64 --work 2"

# Records a command, scheduled ahead of other work as a group of its own, so that little of that is in the recording.
record() {
    file=$1
    shift
    echo 1 >/proc/sys/vm/drop_caches
    setsid --wait sh -c 'echo -20 2>/dev/null >/proc/self/autogroup || true; exec "$@"' ahead \
        "$freehold" record --quiet --out "$file" -- "$@"
}

# The words of $server and of what runs it are to be words.
# shellcheck disable=SC2086
under() {
    name=$1
    shift
    record "$out/malloc-$name.parquet" env "$@" "$freehold" load $server
}

# A purge within 100 ms by one thread in the background.
under jemalloc LD_PRELOAD="$jemalloc" \
    MALLOC_CONF=background_thread:true,max_background_threads:1,dirty_decay_ms:100,muzzy_decay_ms:0
# A page given back for each page freed, by who frees it.
under tcmalloc LD_PRELOAD="$tcmalloc" TCMALLOC_RELEASE_RATE=1000
# A heap is cut when 128 KiB at its end are free, by who frees them.
under glibc MALLOC_TRIM_THRESHOLD_=131072

# shellcheck disable=SC2086
record "$work/malloc-freehold.parquet" "$load" $server
echo "mallocs.sh: under Freehold's malloc:" >&2
"$freehold" inspect "$work/malloc-freehold.parquet" | grep -E '^(task|receive|answer|load) ' >&2
