#!/bin/busybox sh
# Copies of files that do not fit into memory: page cache, writeback and reclaim
#
# What the numbers should show: kswapd at work, page cache of the sizes that the file system asks for, writeback; hardly
# any anonymous memory. Sizes follow MEMORY (MiB).

prepare() {
    mkdir -p /scratch/from /scratch/to
    for file in 1 2 3 4; do
        dd if=/dev/zero of=/scratch/from/$file bs=1M count=$((MEMORY / 4)) 2>/dev/null || return 1
    done
    sync
}

run() {
    for file in 1 2; do
        cp /scratch/from/$file /scratch/to/$file &
        cp /scratch/from/$((file + 2)) /scratch/to/$((file + 2)) &
        wait
    done
    cat /scratch/to/* >/dev/null
    rm -rf /scratch/to
}

case "$1" in
prepare) prepare ;;
run) run ;;
esac
