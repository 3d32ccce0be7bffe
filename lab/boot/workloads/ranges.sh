#!/bin/busybox sh
# Contiguous ranges and vmalloc areas, allocated and freed while page cache churns
# needs: module
#
# What the numbers should show: pages moved out of the way of a range, isolated pageblocks, areas of single pages from the
# bulk allocator, and how both come back: page by page, or as ranges since 7.2. Sizes follow MEMORY (MiB).

ROUNDS=8
DEVICE=/dev/freehold-load

prepare() {
    mkdir -p /scratch/cache
    for file in 1 2 3 4; do
        dd if=/dev/zero of=/scratch/cache/$file bs=1M count=$((MEMORY / 4)) 2>/dev/null || return 1
    done
    sync
}

# Ends as it began: with ranges and areas against a churn.
run() {
    for round in $(seq $ROUNDS); do
        churn $((round % 4 + 1)) &
        for part in 256 128 64 32; do
            one vmalloc $((MEMORY / part)) || return 1
            # A kernel may keep ranges from us; then this is about areas.
            one contig $((MEMORY / part)) 2>/dev/null
        done
        echo free >$DEVICE || return 1
        wait
    done
    for kind in vmalloc contig; do
        echo "freehold: $kind: $(total $kind)"
    done
}

# A file that is read and a file that is written, so that memory is full of pages of all ages.
churn() {
    cat "/scratch/cache/$1" >/dev/null
    dd if=/dev/zero of=/scratch/cache/new bs=1M count=$((MEMORY / 8)) 2>/dev/null
}

one() {
    echo "$1 $2" >$DEVICE || return 1
    cat $DEVICE >>"/tmp/told.$1"
}

total() {
    touch "/tmp/told.$1"
    awk '{ served += $2; failed += $4 } END { print served + 0 " served, " failed + 0 " failed" }' "/tmp/told.$1"
}

case "$1" in
prepare) prepare ;;
run) run ;;
esac
