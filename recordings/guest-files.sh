#!/bin/busybox sh
# A machine after a storm of page cache: copies that do not fit, small files, sockets, processes

prepare() {
    mkdir -p /scratch/from /scratch/to /scratch/small
    for file in 1 2 3; do
        dd if=/dev/zero of=/scratch/from/$file bs=1M count=$((MEMORY / 3)) 2>/dev/null || return 1
    done
    ulimit -n 8192
    for round in 1 2 3; do
        for file in 1 2 3; do
            cp /scratch/from/$file /scratch/to/$file &
            load files --folder /scratch/small --count 3000 &
            load connections --count 500 &
            load hog --mib $((MEMORY / 8)) --pages small &
            load threads --count 200 &
            wait
        done
    done
}

case "$1" in
prepare) prepare ;;
run) ;;
esac
