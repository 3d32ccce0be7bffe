#!/bin/busybox sh
# A mix of stress-ng's memory stressors: maps, forks, pipes, sockets, shared memory, directory entries
# needs: stress-ng
#
# Every stressor stops after a fixed number of operations, so the shape is the same each time.

run() {
    for stressor in mmap fork pipe sock shm dentry vm-splice munmap; do
        stress-ng --temp-path /scratch --seed 1 --"$stressor" "$CPUS" --"$stressor"-ops $((CPUS * 50)) \
            --mmap-bytes 16m --shm-bytes 4m --quiet || return 1
    done
}

case "$1" in
prepare) ;;
run) run ;;
esac
