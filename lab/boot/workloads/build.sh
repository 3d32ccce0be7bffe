#!/bin/busybox sh
# A compiler and an assembler on generated sources, one process for each CPU
# needs: cc1 as
#
# What the numbers should show: short processes that grow to tens of megabytes and end, page cache of programs and objects.

FILES=6

prepare() {
    mkdir -p /scratch/build
    for file in $(seq $FILES); do
        source_of "$file" >/scratch/build/$file.i || return 1
    done
}

# Functions that call each other, with loops and tables, enough for an optimizer to work on.
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

run() {
    for file in $(seq $FILES); do
        sh "$0" compile "$file" &
        [ $((file % CPUS)) != 0 ] || wait
    done
    wait
    [ "$(ls /scratch/build/*.o | wc -l)" = $FILES ]
}

compile() {
    file=/scratch/build/$1
    cc1 -quiet -fpreprocessed -O2 "$file.i" -o "$file.s" && as "$file.s" -o "$file.o"
}

case "$1" in
prepare) prepare ;;
run) run ;;
compile) compile "$2" ;;
esac
