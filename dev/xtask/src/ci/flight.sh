#!/bin/busybox sh
# Each trigger of the flight recorder that a guest can pull, pulled for real
#
# A flight recorder waits for one trigger alone, so what it writes is told by its name. A recorder that does not notice
# what happens never writes, and the guest's time is up.

FLIGHTS=/scratch/flights

prepare() {
    mkdir -p "$FLIGHTS"
    echo always >/sys/kernel/mm/transparent_hugepage/enabled
    echo never >/sys/kernel/mm/transparent_hugepage/defrag
    dd if=/dev/zero of=/scratch/swap bs=1M count="$MEMORY" 2>/dev/null || return 1
    mkswap /scratch/swap >/dev/null && swapon /scratch/swap
}

run() {
    flies thp-failure no_huge_pages && flies allocstall too_much && flies psi=1% too_much
}

# A flight recorder on one trigger writes one recording when the load makes it happen.
flies() {
    freehold record --flight 20s --on "$1" --tail 0s --out "$FLIGHTS/" 2>"$FLIGHTS/said" &
    recorder=$!
    says keeping || return 1
    $2
    says wrote || return 1
    kill -INT $recorder
    wait $recorder || return 1
    [ -e "$FLIGHTS"/flight-*-"${1%=*}".parquet ]
}

# Waits for a word of the recorder.
says() {
    until grep -q "$1" "$FLIGHTS/said"; do
        kill -0 $recorder || return 1
        usleep 100000
    done
}

# Every second page of most of what is free stays, so no huge page is left, and nobody makes one.
no_huge_pages() { load holes --mib $((MEMORY * 2 / 3)) --keep 1 --out-of 2 -- load hog --mib $((MEMORY / 8)) --pages huge; }

# More than there is: the rest is swap.
too_much() { load hog --mib "$MEMORY" --pages small; }

case "$1" in
prepare) prepare ;;
run) run ;;
esac
