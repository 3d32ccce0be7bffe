#!/bin/bash
# What a flight recorder costs a page: CPU time of a load that does nothing but touch new pages and give them back, with
# and without `freehold record --flight` running beside it, in pairs; and how many pages a cargo build takes in a second
# of its CPU time. The product is the share of a build's CPU time, which `flight-cost.sh` sees through more noise. As
# root, from anywhere. PAIRS says how many (default 20); arguments go to `freehold record --flight`.
#
# Pages are those that the kernel counts in pgalloc_* of /proc/vmstat, whoever takes them. The interval is the mean of
# the pairs and twice its standard error.
set -eu
cd "$(dirname "$0")/.."
pairs=${PAIRS:-20}
mib=128
rounds=24

. recordings/flight-beside.sh

pages() { awk '/^pgalloc_/ { pages += $2 } END { printf "%.0f", pages }' /proc/vmstat; }

# CPU seconds of a command's children, and the pages that were taken meanwhile.
measured() {
    before=$(pages)
    TIMEFORMAT='%U %S'
    seconds=$({ time "$@" >/dev/null 2>&1; } 2>&1 | awk '{ print $1 + $2 }')
    echo "$seconds $(($(pages) - before))"
}

touch_pages() { for _ in $(seq $rounds); do "$FREEHOLD" load hog --mib $mib --pages small; done; }

with() {
    begin_flight "$@"
    traced=$(measured touch_pages)
    end_flight
}

touch_pages # The first load warms the caches and does not count.
for pair in $(seq "$pairs"); do
    if [ $((pair % 2)) = 0 ]; then plain=$(measured touch_pages) && with "$@"; else with "$@" && plain=$(measured touch_pages); fi
    echo "$plain $traced"
done >"$work/pairs"
build=$(measured cargo build --quiet --offline -p quote -p serde_core)
awk -v build="$build" '
    { cost[NR] = $3 / $4 - $1 / $2; sum += cost[NR]; plain += $1 / $2 }
    END {
        mean = sum / NR
        for (pair in cost) squares += (cost[pair] - mean) ^ 2
        half = 2 * sqrt(squares / (NR - 1) / NR)
        split(build, of)
        rate = of[2] / of[1]
        printf "CPU time per page: %.0f ns; with a flight recorder: %.0f ns more (%.0f to %.0f, %d pairs)\n",
            plain / NR * 1e9, mean * 1e9, (mean - half) * 1e9, (mean + half) * 1e9, NR
        printf "a cargo build allocates %.0f pages per second of CPU time, so its cost is %.2f %% (%.2f to %.2f)\n",
            rate, mean * rate * 100, (mean - half) * rate * 100, (mean + half) * rate * 100
    }' "$work/pairs"
