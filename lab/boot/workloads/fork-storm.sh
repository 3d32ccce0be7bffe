#!/bin/busybox sh
# Fork, exec and exit on all CPUs in parallel
#
# What the numbers should show: page tables, stacks and anonymous pages that live for moments; order 0 and the order of
# kernel stacks; many frees on other CPUs; no reclaim.

prepare() { :; }

# Processes that start processes: three generations.
family() {
    for i in $(seq 40); do
        sh -c 'sh -c "/bin/busybox true" & /bin/busybox true; wait'
    done
}

run() {
    for cpu in $(seq 0 $((CPUS - 1))); do
        sh "$0" family &
        sh "$0" family &
    done
    wait
}

case "$1" in
prepare) prepare ;;
run) run ;;
family) family ;;
esac
