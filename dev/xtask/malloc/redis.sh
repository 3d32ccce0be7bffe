#!/bin/sh
# redis under the malloc: a server on a socket in this folder, a bounded load, its keys, a snapshot by fork.
set -eu

redis-server --port 0 --unixsocket "$PWD/socket" --dir "$PWD" --save '' --daemonize no >log 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || :; wait "$server" || :' EXIT
tries=0
until [ "$(redis-cli -s socket ping 2>/dev/null)" = PONG ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 100 ]
    sleep 0.1
done
[ -z "${LD_PRELOAD:-}" ] || grep -q libfreehold "/proc/$server/maps"

redis-benchmark -s socket -q -n 8000 -c 20 -P 4 -d 300 -r 5000 -t set,get,lpush,lpop,sadd,hset >said
redis-cli -s socket flushall
seq 20000 | awk '{ printf "SET key:%d %0" 10 + $1 % 200 "d\nHSET hash:%d field%d %d\n", $1, $1, $1 % 50, $1, $1 }' |
    redis-cli -s socket | sort | uniq -c
seq 1 3 20000 | awk '{ printf "DEL key:%d\n", $1 }' | redis-cli -s socket | sort | uniq -c
redis-cli -s socket dbsize
redis-cli -s socket save
redis-cli -s socket bgsave
tries=0
while redis-cli -s socket info persistence | grep -q 'rdb_bgsave_in_progress:1'; do
    tries=$((tries + 1))
    [ "$tries" -lt 100 ]
    sleep 0.1
done
redis-cli -s socket info persistence | grep rdb_last_bgsave_status
redis-cli -s socket hgetall hash:7 | sort | cksum
redis-cli -s socket shutdown nosave 2>/dev/null || :
