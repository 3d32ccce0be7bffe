#!/bin/sh
# PostgreSQL under the malloc: a cluster in this folder, a server on a socket here, tables, queries, a bounded load.
# It refuses to be run as root.
set -eu
export LC_ALL=C TZ=UTC PGHOST="$PWD" PGDATABASE=postgres PGUSER=owner

initdb --pgdata=data --no-sync --username=owner --auth=trust --no-instructions >log 2>&1
postgres -D data -k "$PWD" -c listen_addresses= -c fsync=off -c max_parallel_workers_per_gather=2 >>log 2>&1 &
server=$!
trap 'kill -INT "$server" 2>/dev/null || :; wait "$server" || :' EXIT
tries=0
until pg_isready --quiet; do
    tries=$((tries + 1))
    [ "$tries" -lt 300 ]
    sleep 0.1
done
[ -z "${LD_PRELOAD:-}" ] || grep -q libfreehold "/proc/$server/maps"

psql --quiet --no-align --tuples-only --set=ON_ERROR_STOP=1 <<'END'
CREATE TABLE rows AS SELECT n, 'name ' || n * 7919 % 100003 AS name, n % 1009 AS amount
    FROM generate_series(1, 100000) n;
CREATE INDEX ON rows (name);
ANALYZE rows;
SELECT count(*), sum(amount), min(name COLLATE "C"), max(name COLLATE "C") FROM rows;
SELECT amount, array_agg(n ORDER BY n) FROM rows WHERE amount % 100 = 1 AND n < 9000 GROUP BY amount ORDER BY amount;
SELECT md5(string_agg(name, ',' ORDER BY n)) FROM rows;
SELECT a.amount, count(*) FROM rows a JOIN rows b ON a.n = b.amount WHERE a.n < 40 GROUP BY 1 ORDER BY 1;
END
pgbench --initialize --quiet --scale=1 >>log 2>&1
pgbench --client=4 --jobs=2 --transactions=150 >>log 2>&1
psql --quiet --no-align --tuples-only \
    --command='SELECT count(*), sum(delta) = (SELECT sum(abalance) FROM pgbench_accounts) FROM pgbench_history'
kill -INT "$server"
wait "$server"
