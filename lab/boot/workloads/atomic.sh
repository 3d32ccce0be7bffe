#!/bin/busybox sh
# Atomic bursts of orders 1 to 3 while page cache fills memory
# needs: module
#
# What the numbers should show: requests that may not sleep, at the watermarks; which of them the high-atomic reserve
# serves, and how far it grows; what fails. Blocks are held for a round and freed. Sizes follow MEMORY (MiB).

ROUNDS=24
DEVICE=/dev/freehold-load

# MiB of file that are read in a round.
PART=$((MEMORY / 12))

# A quarter more files than memory, so that the reader always finds some that are not there any more.
prepare() {
    dd if=/dev/zero of=/scratch/cache bs=1M count=$((PART * 15)) 2>/dev/null && sync
}

# Ends as it began: with bursts against a reader.
run() {
    for round in $(seq $ROUNDS); do
        read_part "$round" &
        for burst in 1 2 3; do
            for order in 1 2 3; do
                # 0.8 % of memory in each order.
                burst $order $((MEMORY * 2 >> order)) || return 1
            done
            usleep 20000
        done
        echo free >$DEVICE || return 1
        wait
    done
    for order in 1 2 3; do
        echo "freehold: atomic blocks of order $order: $(total $order)"
    done
}

# The next part of the file, and after its end the first.
read_part() { dd if=/scratch/cache of=/dev/null bs=1M skip=$((($1 - 1) % 15 * PART)) count=$PART 2>/dev/null; }

burst() {
    echo "atomic $1 $2" >$DEVICE || return 1
    cat $DEVICE >>"/tmp/told.$1"
}

total() {
    awk '{ served += $2; failed += $4 } END { print served " served, " failed " failed" }' "/tmp/told.$1"
}

case "$1" in
prepare) prepare ;;
run) run ;;
esac
