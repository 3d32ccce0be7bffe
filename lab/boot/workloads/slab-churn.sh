#!/bin/busybox sh
# Kernel objects that are allocated, kept for a while, and freed: inodes, directory entries, sockets, pipes
#
# What the numbers should show: unmovable and reclaimable requests of orders 0 to 3, and slabs that empty in part.

prepare() { mkdir -p /tmp/churn /scratch/churn; }

run() {
    ulimit -n 8192
    for round in 1 2 3; do
        load files --folder /tmp/churn --count 3000 &
        load files --folder /scratch/churn --count 1500 &
        load connections --count 400 &
        wait
        load pipes --mib 8 -- load threads --count 100
        # Directory entries and inodes that nobody uses go; so slabs are left in part.
        echo 2 >/proc/sys/vm/drop_caches
    done
}

case "$1" in
prepare) prepare ;;
run) run ;;
esac
