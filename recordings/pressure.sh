#!/bin/sh
# Makes pressure.parquet: this machine with little memory left and that little full of holes. As root, from
# anywhere. NOTE: most of the machine's memory is taken away for about a minute (as hugetlb pages), and page
# caches are dropped; everything else on the machine gets slow, and programs with much memory may be killed.
# What is taken is given back at the end, on errors and on Ctrl-C too.
#
# LEAVE is what stays, in MiB. FREEHOLD names another program than the one built here; OUT another file.
set -eu
cd "$(dirname "$0")/.."
leave=${LEAVE:-1024}
out=${OUT:-recordings/pressure.parquet}

# The load, inside the recording: see the end of this file for what is there before.
load() {
    "$FREEHOLD" load "$@" || true # Failing for lack of memory is part of the experiment.
}

during() {
    # If memory runs out, it is the load that is to be killed.
    echo 1000 >/proc/self/oom_score_adj
    load hog --mib $((leave / 12)) --pages huge
    load holes --mib $((leave / 12)) --keep 1 --out-of 2 -- "$0" amid-holes
    rm -f "$WORK/before"
    load hog --mib $((leave / 12)) --pages huge
}

amid_holes() {
    dd if="$WORK/other" of=/dev/null bs=1M 2>/dev/null &
    load connections --count 1000 &
    load hog --mib $((leave / 32)) --pages small &
    load datagrams --mib 4 --bytes 30000 &
    load pipes --mib $((leave / 16)) -- "$FREEHOLD" load hog --mib $((leave / 8)) --pages huge &
    load files --folder "$WORK" --count 1000 &
    load threads --count 200 &
    wait
}

record() {
    # Inside the pipes' command: memory is spoiled, so start.
    cat "$WORK/before" >/dev/null
    echo 0 >/proc/self/oom_score_adj
    exec "$FREEHOLD" record --out "$out" --spool "$WORK" --duration 20 -- "$0" during
}

case "${1:-}" in
during) during; exit ;;
amid-holes) amid_holes; exit ;;
record) record ;;
esac

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}"
if [ -z "${FREEHOLD:-}" ]; then
    cargo build --profile dist -p freehold-cli
    FREEHOLD=$CARGO_TARGET_DIR/dist/freehold
fi
WORK=$(mktemp -d)
export FREEHOLD WORK OUT="$out" LEAVE="$leave"

setting() {
    cat "/proc/sys/vm/$1"
}

hugepages=$(setting nr_hugepages)
restore() {
    echo "$hugepages" >/proc/sys/vm/nr_hugepages
    rm -rf "$WORK"
    echo "pressure.sh: the memory is released" >&2
}
trap restore EXIT
trap 'exit 1' INT TERM

echo 1000 >/proc/self/oom_score_adj
ulimit -n 16384

dd if=/dev/zero of="$WORK/before" bs=1M count="$leave" 2>/dev/null
dd if=/dev/zero of="$WORK/other" bs=1M count=$((leave / 8)) 2>/dev/null
"$FREEHOLD" load files --folder "$WORK" --count 1000
sync
mib_left() {
    awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo
}

echo "pressure.sh: reserving $(($(mib_left) - leave)) of $(mib_left) MiB for about a minute" >&2
for attempt in 1 2 3 4 5 6; do # The kernel gives up early where memory is fragmented.
    [ "$(mib_left)" -gt $((leave + leave / 8)) ] || break
    echo 1 >/proc/sys/vm/drop_caches
    echo 1 >/proc/sys/vm/compact_memory
    echo $(($(setting nr_hugepages) + ($(mib_left) - leave) / 2)) >/proc/sys/vm/nr_hugepages
done
echo "pressure.sh: $(mib_left) MiB left" >&2

# Page cache first; then unmovable pipe pages in the holes of a file that stays: no compaction cures that.
cat "$WORK/before" >/dev/null
"$FREEHOLD" load holes --mib $((leave / 2)) --keep 3 --out-of 4 -- \
    "$FREEHOLD" load pipes --mib $((leave / 12)) -- "$0" record
