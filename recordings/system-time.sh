#!/bin/sh
# What share of a build's system time is the page allocator's: the build of build.sh under `perf record`, which looks
# 4000 times a second where each CPU is. As root, from anywhere, after `cargo fetch`, when nothing else runs.
#
# A moment is the allocator's if one of its functions is on the stack, so locks that it waits for are in it; the clearing
# of pages is not, since no policy changes that.
set -eu
cd "$(dirname "$0")/.."
command -v perf >/dev/null || { echo "system-time.sh: cannot find perf; install the package linux-perf" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CARGO_TARGET_DIR="$work/target"

perf record --quiet --event cpu-clock --freq 4000 --call-graph fp --output "$work/perf.data" -- \
    cargo build --quiet --offline -p serde_derive -p serde_json --config 'profile.dev.package."*".opt-level=0'

# Samples are paragraphs: the innermost function first. Functions in mm/page_alloc.c that are entered from elsewhere:
perf script --input "$work/perf.data" --fields ip,sym 2>/dev/null | awk '
    BEGIN {
        RS = ""; FS = "\n"
        allocator = "(__alloc_pages|__alloc_frozen_pages|alloc_pages_bulk|get_page_from_freelist|free_unref_folios|" \
            "free_unref_page|free_frozen_pages|__free_frozen_pages|__free_pages|free_pcppages_bulk|drain_pages)"
    }
    $1 !~ /^[ \t]*ffffffff/ { user++; next }
    { kernel++ }
    $1 ~ /clear_page|clear_highpage|kernel_init_pages/ { clearing++; next }
    $0 ~ allocator { allocating++ }
    END {
        share = kernel ? 100 / kernel : 0
        printf "%d samples: %d in programs, %d in the kernel; of these %.1f %% in the page allocator, %.1f %% clearing pages\n",
            user + kernel, user, kernel, allocating * share, clearing * share
    }'
