#!/bin/busybox sh
# Many huge page faults while page cache and scattered pages fragment memory
#
# What the numbers should show: huge pages that are served at once, after compaction, or not at all; splits; fallbacks to
# small pages. Sizes follow MEMORY (MiB).

prepare() {
    # The kernel switches huge pages off in small machines; whoever asks for them shall get them.
    echo madvise >/sys/kernel/mm/transparent_hugepage/enabled
    echo madvise >/sys/kernel/mm/transparent_hugepage/defrag
    mkdir -p /scratch/cache
    load files --folder /scratch/cache --count 2000 || return 1
    dd if=/dev/zero of=/scratch/cache/large bs=1M count=$((MEMORY / 2)) 2>/dev/null || return 1
    cat /scratch/cache/large >/dev/null
}

run() {
    load holes --mib $((MEMORY / 8)) --keep 1 --out-of 16 -- sh "$0" storm
    load hog --mib $((MEMORY / 3)) --pages huge
    # What memory was refused to is part of the experiment.
    return 0
}

storm() {
    for round in 1 2 3; do
        load hog --mib $((MEMORY / 6)) --pages huge &
        load hog --mib $((MEMORY / 6)) --pages huge &
        wait
    done
}

case "$1" in
prepare) prepare ;;
run) run ;;
storm) storm ;;
esac
