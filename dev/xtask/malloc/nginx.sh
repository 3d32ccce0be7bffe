#!/bin/sh
# nginx under the malloc: a server on a socket in this folder, with two workers, that packs what it serves.
set -eu

mkdir pages
seq 60000 >pages/numbers.txt
cat >nginx.conf <<END
pid $PWD/pid;
error_log $PWD/log;
daemon off;
worker_processes 2;
events { worker_connections 64; }
http {
    access_log off;
    client_body_temp_path $PWD/body;
    proxy_temp_path $PWD/proxy;
    fastcgi_temp_path $PWD/fastcgi;
    uwsgi_temp_path $PWD/uwsgi;
    scgi_temp_path $PWD/scgi;
    gzip on;
    gzip_types text/plain;
    server { listen unix:$PWD/socket; root $PWD/pages; }
}
END
# Workers of a server that root starts are somebody else, who must be able to look in here.
[ "$(id -u)" != 0 ] || sed -i '1i user root;' nginx.conf
nginx -p "$PWD" -c "$PWD/nginx.conf" -e "$PWD/log" &
server=$!
trap 'kill "$server" 2>/dev/null || :; wait "$server" || :' EXIT
tries=0
until [ -S socket ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 100 ]
    sleep 0.1
done
[ -z "${LD_PRELOAD:-}" ] || grep -q libfreehold "/proc/$server/maps"

round=0
while [ "$round" -lt 5 ]; do
    curl --silent --show-error --compressed --unix-socket socket "http://server/numbers.txt?[1-20]" | cksum
    round=$((round + 1))
done
curl --silent --unix-socket socket --output none --write-out '%{http_code}\n' http://server/none
kill -HUP "$server"
curl --silent --show-error --unix-socket socket http://server/numbers.txt | cksum
kill -QUIT "$server"
wait "$server"
