#!/bin/busybox sh
# Memory runs out: page cache under reclaim, punched memory, huge pages, network bursts, a few hogs and swap
#
# What the numbers should show: direct reclaim and kswapd, fallbacks by claim and steal, the high-atomic
# reserve, compaction, failed high-order attempts, drains of every per-CPU list. All sizes follow MEMORY (MiB).

prepare() {
    mkdir -p /scratch/cache
    dd if=/dev/zero of=/scratch/swap bs=1M count=$((MEMORY / 2)) 2>/dev/null || return 1
    mkswap /scratch/swap >/dev/null && swapon /scratch/swap || return 1
    echo 1 >/proc/sys/vm/drop_caches
}

# Page cache twice the memory, written and read again, so that reclaim has to run.
page_cache() {
    for part in 1 2 3 4; do
        dd if=/dev/zero of=/scratch/cache/"$part" bs=1M count=$((MEMORY / 2)) 2>/dev/null
    done
    cat /scratch/cache/* >/dev/null
}

run() {
    load files --folder /scratch/cache --count 2000 &
    page_cache
    wait
    # Every second page of a quarter of memory stays: free memory without free blocks.
    load holes --mib $((MEMORY / 4)) --keep 1 --out-of 2 -- sh "$0" amid_holes
    load hog --mib $((MEMORY * 3 / 4)) --pages small
    rm -rf /scratch/cache
    load hog --mib $((MEMORY / 4)) --pages huge
}

# While memory is full of holes: atomic bursts of order 1 to 3, huge pages, kernel stacks, all at once.
amid_holes() {
    load loopback --mib 32 --streams $((CPUS * 2)) &
    load datagrams --mib 8 --bytes 30000 &
    load hog --mib $((MEMORY / 4)) --pages huge &
    load hog --mib $((MEMORY / 4)) --pages small &
    load threads --count 200 &
    load pipe --from 0 --to $((CPUS - 1)) --mib 16 &
    page_cache
    wait
}

case "$1" in
prepare) prepare ;;
run) run ;;
amid_holes) amid_holes ;;
esac
