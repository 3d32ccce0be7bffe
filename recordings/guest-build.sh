#!/bin/busybox sh
# The second half of a workload: the functions of `lab/boot/workloads/build.sh` come before it (`guests.sh` joins the
# two), and what is said again here replaces what they say.
#
# A machine after builds: a compiler over generated sources, while copies of files that do not fit into memory go on.

FILES=8

prepare() {
    mkdir -p /scratch/build /scratch/from /scratch/to /scratch/small
    for file in 1 2; do
        dd if=/dev/zero of=/scratch/from/$file bs=1M count=$((MEMORY / 2)) 2>/dev/null || return 1
    done
    for file in $(seq $FILES); do
        source_of "$file" >/scratch/build/$file.i || return 1
    done
    sh "$0" copies & copies=$!
    for file in $(seq $FILES); do
        sh "$0" compile "$file" & pids="$pids $!"
        if [ $((file % CPUS)) = 0 ]; then wait $pids; pids=; fi
    done
    kill $copies 2>/dev/null
    sleep 3
}

copies() {
    while :; do
        for file in 1 2; do
            cp /scratch/from/$file /scratch/to/$file
            load files --folder /scratch/small --count 1000
        done
    done
}

case "$1" in
prepare) prepare ;;
run) ;;
copies) copies ;;
compile) compile "$2" ;;
esac
