#!/bin/busybox sh
# A short mix, in seconds: processes, files in memory, pages freed on other CPUs, huge pages
#
# What the numbers should show: that a kernel can be booted and recorded, and large effects.

prepare() {
    mkdir -p /tmp/small
    echo madvise >/sys/kernel/mm/transparent_hugepage/enabled
    echo madvise >/sys/kernel/mm/transparent_hugepage/defrag
}

run() {
    for i in $(seq 20); do /bin/busybox true; done
    load files --folder /tmp/small --count 200
    load pipe --from 0 --to $((CPUS - 1)) --mib 8
    for round in 1 2 3 4; do load hog --mib 24 --pages small; done
    load hog --mib 48 --pages huge
}

case "$1" in
prepare) prepare ;;
run) run ;;
esac
