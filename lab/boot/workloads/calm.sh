#!/bin/busybox sh
# Process starts, small files, pipes between CPUs, some loopback traffic: no memory pressure
#
# What the numbers should show: order 0 from the per-CPU lists, refills and drains by the batch, pages freed
# on other CPUs than they were allocated on, kernel stacks, some slab growth; no reclaim, no compaction.

prepare() { mkdir -p /tmp/calm; }

# Fork, exec, exit: page tables, stacks, anonymous pages.
process_starts() {
    for i in $(seq 60); do
        /bin/busybox true
        sh -c 'echo $0 >/dev/null' "$i"
    done
}

# Files in memory that come and go, in sizes from one page to one pageblock.
file_writes() {
    for kib in 4 64 256 2048 8192; do
        dd if=/dev/zero of="/tmp/calm/$1.$kib" bs=64k count=$(((kib + 63) / 64)) 2>/dev/null
    done
    rm -f /tmp/calm/"$1".*
}

# The first CPU allocates, the last one frees.
between_cpus() { load pipe --from 0 --to $((CPUS - 1)) --mib 16; }

run() {
    for round in 1 2 3; do
        process_starts
        for cpu in $(seq 0 $((CPUS - 1))); do
            taskset -c "$cpu" sh "$0" files "$round.$cpu" &
        done
        wait
        between_cpus
        load threads --count 100
        load loopback --mib 8 --streams 2
        load files --folder /tmp/calm --count 500
    done
}

case "$1" in
prepare) prepare ;;
run) run ;;
files) file_writes "$2" ;;
esac
