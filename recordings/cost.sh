#!/bin/bash
# What recording costs a cargo build: CPU time of the same build with and without `freehold record`, in pairs whose
# order alternates. As root, from anywhere, with nothing else running. PAIRS says how many (default 8);
# arguments go to `freehold record`.
#
# The CPU time is that of the build alone, user and system, so it holds what tracing adds to each page event.
# The recorder's own CPU time while the build runs is shown beside it.
set -eu
cd "$(dirname "$0")/.."
pairs=${PAIRS:-8}

if [ -z "${FREEHOLD:-}" ]; then
    cargo build --profile dist -p freehold-cli
    FREEHOLD=${CARGO_TARGET_DIR:-target}/dist/freehold
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unoptimised='profile.dev.package."*".opt-level=0'
export CARGO_TARGET_DIR=$work/target work unoptimised

# One build from nothing; its CPU seconds go to the file cpu, whoever runs this.
cat >"$work/build" <<'BUILD'
#!/bin/bash
rm -rf "$CARGO_TARGET_DIR"
TIMEFORMAT='%U %S'
{ time cargo build --quiet --offline -p serde_derive -p serde_json --config "$unoptimised" 2>/dev/null; } 2>"$work/cpu"
BUILD
chmod +x "$work/build"

seconds() {
    awk '{ print $1 + $2 }' "$work/cpu"
}

without() {
    "$work/build"
    plain=$(seconds)
}

with() {
    "$FREEHOLD" record "$@" --out "$work/r.parquet" -- "$work/build" 2>"$work/said"
    traced=$(seconds)
    own=$(grep -o 'recorder: [0-9]* ms' "$work/said" | tr -dc 0-9)
    events=$(grep -o '[0-9,]* events in' "$work/said" | tr -dc 0-9)
}

without # The first build warms the caches and does not count.
echo "pair  without (s)  with (s)  change (%)  recorder (s)  events (of the whole machine)"
for pair in $(seq "$pairs"); do
    if [ $((pair % 2)) = 0 ]; then without && with "$@"; else with "$@" && without; fi
    echo "$pair $plain $traced $own $events"
done | tee "$work/pairs" | awk '{ printf "%4d  %11.2f  %8.2f  %10.1f  %12.3f  %s\n", $1, $2, $3, ($3 / $2 - 1) * 100, $4 / 1000, $5; fflush() }'
median=$(awk '{ print ($3 / $2 - 1) * 100 }' "$work/pairs" | sort -n | awk '{ change[NR] = $1 }
    END { print (change[int((NR + 1) / 2)] + change[int(NR / 2) + 1]) / 2 }')
awk -v median="$median" '{ plain += $2; traced += $3; own += $4 / 1000 }
    END {
        printf "all: %.2f s without, %.2f s with: %+.1f %% (median of pairs %+.1f %%); the recorder itself %+.1f %% more\n",
            plain, traced, (traced / plain - 1) * 100, median, own / plain * 100
    }' "$work/pairs"
