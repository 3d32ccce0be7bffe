#!/bin/busybox sh
# A machine after builds: a compiler over generated sources, while copies of files that do not fit into memory go on
# needs: cc1 as

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

source_of() {
    for number in $(seq 60); do
        echo "static int table_${number}[64];"
        echo "int f_$1_$number(int n) {"
        echo "    int sum = n;"
        echo "    for (int i = 0; i < n; i++) {"
        echo "        table_${number}[i & 63] += i * $number;"
        echo "        sum += table_${number}[(i * 7 + $number) & 63] ^ (sum << $((number % 13)));"
        echo "        switch (sum & 3) { case 0: sum += i; break; case 1: sum ^= n; break; case 2: sum -= 3; }"
        echo "    }"
        [ "$number" = 1 ] || echo "    sum += f_$1_$((number - 1))(sum & 15);"
        echo "    return sum;"
        echo "}"
    done
}

compile() {
    file=/scratch/build/$1
    cc1 -quiet -fpreprocessed -O2 "$file.i" -o "$file.s" && as "$file.s" -o "$file.o"
}

case "$1" in
prepare) prepare ;;
run) ;;
copies) copies ;;
compile) compile "$2" ;;
esac
