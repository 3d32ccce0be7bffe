#!/bin/busybox sh
# Memory shortage: reclaim, swap, fragmented memory, huge pages, bursts of atomic requests
#
# What the numbers should show: kswapd and direct reclaim, fallbacks by claim and by steal, the high-atomic
# reserve, compaction, failed attempts at high orders, drains of every per-CPU list. Memory is filled and
# spoiled before the recording starts, so that every event in it happens under pressure. Sizes follow
# MEMORY (MiB).

prepare() {
    mkdir -p /scratch/cache
    # The kernel switches huge pages off in small machines; whoever asks for them shall get them.
    echo madvise >/sys/kernel/mm/transparent_hugepage/enabled
    echo madvise >/sys/kernel/mm/transparent_hugepage/defrag
    dd if=/dev/zero of=/scratch/swap bs=1M count="$MEMORY" 2>/dev/null || return 1
    mkswap /scratch/swap >/dev/null && swapon /scratch/swap || return 1
    load files --folder /scratch/cache --count 1000 || return 1
    page_cache "$MEMORY" before
    sh "$0" spoil &
    # Who spoils ends only when it fails.
    while [ ! -e /tmp/spoiled ]; do
        kill -0 $! || return 1
        usleep 100000
    done
}

# Pages that nobody can move, in the holes of memory that is otherwise movable: no compaction cures that.
# The pipes live until the machine goes down.
spoil() {
    # A pipe holds 64 KiB, and has two ends.
    ulimit -n $((1024 + MEMORY * 4))
    load holes --mib $((MEMORY / 2)) --keep 3 --out-of 4 -- \
        load pipes --mib $((MEMORY / 12)) -- sh "$0" spoiled
}

spoiled() {
    touch /tmp/spoiled
    sleep 100000
}

# Writes so many MiB of files and reads them again.
page_cache() {
    dd if=/dev/zero of="/scratch/cache/$2" bs=1M count="$1" 2>/dev/null
    cat "/scratch/cache/$2" >/dev/null
}

run() {
    ulimit -n 8192
    load hog --mib $((MEMORY / 8)) --pages huge
    # Every second page of an eighth of memory stays: free memory without free blocks.
    load holes --mib $((MEMORY / 8)) --keep 1 --out-of 2 -- sh "$0" amid_holes
    rm -rf /scratch/cache
    load hog --mib $((MEMORY / 8)) --pages huge
    # What memory was refused to is part of the experiment.
    return 0
}

amid_holes() {
    page_cache $((MEMORY / 16)) during &
    load connections --count 2000 &
    load hog --mib $((MEMORY / 8)) --pages small &
    load datagrams --mib 4 --bytes 30000 &
    wait
    # Pages that cannot move, where only movable memory is left to take them from; huge pages beside them.
    load pipes --mib $((MEMORY / 16)) -- load hog --mib $((MEMORY / 8)) --pages huge &
    load loopback --mib 4 --streams "$CPUS" &
    load pipe --from 0 --to $((CPUS - 1)) --mib 4 &
    load threads --count 200 &
    load files --folder /scratch/cache --count 1000 &
    wait
}

case "$1" in
prepare) prepare ;;
run) run ;;
spoil) spoil ;;
spoiled) spoiled ;;
amid_holes) amid_holes ;;
esac
