#!/bin/bash
# What a flight recorder costs a cargo build: CPU time of the same build with and without `freehold record --flight`
# running beside it, in pairs whose order alternates. As root, from anywhere, with nothing else running. PAIRS says how
# many (default 40); arguments go to `freehold record --flight`.
#
# The build is a short one, so that what else the machine does is alike in both builds of a pair. The CPU time is that of
# the build, user and system, so it holds what tracing adds to each page event; the recorder's own CPU time and memory are
# shown beside it. The interval is Student's, of the mean of the pairs' changes, at 95 %.
set -eu
cd "$(dirname "$0")/.."
pairs=${PAIRS:-40}

. recordings/flight-beside.sh
unoptimised='profile.dev.package."*".opt-level=0'

# One build from nothing; prints its CPU seconds.
build() {
    rm -rf "$CARGO_TARGET_DIR"
    TIMEFORMAT='%U %S'
    { time cargo build --quiet --offline -p quote -p serde_core --config "$unoptimised" 2>/dev/null; } 2>&1 |
        awk '{ print $1 + $2 }'
}

with() {
    begin_flight "$@"
    traced=$(build)
    own=$(awk -v hertz="$(getconf CLK_TCK)" '{ print ($14 + $15) / hertz }' "/proc/$recorder/stat")
    resident=$(awk '/VmHWM/ { print $2 / 1024 }' "/proc/$recorder/status")
    end_flight
}

build >/dev/null # The first build warms the caches and does not count.
echo "pair  without (s)  with (s)  change (%)  recorder (s)  recorder (MiB)"
for pair in $(seq "$pairs"); do
    if [ $((pair % 2)) = 0 ]; then plain=$(build) && with "$@"; else with "$@" && plain=$(build); fi
    echo "$pair $plain $traced $own $resident"
done | tee "$work/pairs" | while read -r pair; do echo "$pair" |
    awk '{ printf "%4d  %11.2f  %8.2f  %10.1f  %12.2f  %14.1f\n", $1, $2, $3, ($3 / $2 - 1) * 100, $4, $5 }'
done
grep -ao '[0-9.]* MiB on' "$work/said" | sed 's/ on/ of rings/'
awk 'BEGIN {
        split("12.71 4.30 3.18 2.78 2.57 2.45 2.36 2.31 2.26 2.23 2.20 2.18 2.16 2.14 2.13 2.12 2.11 2.10 2.09", student)
    }
    { change[NR] = ($3 / $2 - 1) * 100; sum += change[NR]; plain += $2; own += $4 }
    END {
        mean = sum / NR
        for (pair in change) squares += (change[pair] - mean) ^ 2
        half = (NR - 1 in student ? student[NR - 1] : 2) * sqrt(squares / (NR - 1) / NR)
        printf "CPU time of the build: %+.1f %% (%+.1f to %+.1f at 95 %%, %d pairs); CPU time of the recorder: %+.2f %% of it\n",
            mean, mean - half, mean + half, NR, own / plain * 100
    }' "$work/pairs"
