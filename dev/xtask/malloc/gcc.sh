#!/bin/sh
# gcc under the malloc: a file of some hundred functions and one of templates are compiled, and the programs run.
set -eu

awk 'BEGIN {
    print "#include <stdio.h>"
    for (n = 0; n < 400; n++) {
        printf "static long f%d(long x) { long y = x * %d;", n, n + 3
        printf " for (int i = 0; i < x %% 7; i++) y ^= (y << 3) + i;"
        printf " switch (y & 3) { case 0: return y + %d; case 1: return y / 3; default: return y - x; } }\n", n
    }
    print "static long (*const all[])(long) = {"
    for (n = 0; n < 400; n++) printf "f%d, ", n
    print "};\nint main(void) {"
    print "    long sum = 1; for (int i = 0; i < 400; i++) sum += all[i](sum & 0xffff);"
    print "    printf(\"%ld\\n\", sum); return 0; }"
}' >functions.c
gcc -O2 -g functions.c -o functions
./functions

cat >templates.cc <<'END'
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>
int main() {
    std::map<std::string, std::vector<std::unique_ptr<int>>> lists;
    for (int n = 0; n < 20000; n++) lists[std::to_string(n % 321)].push_back(std::make_unique<int>(n));
    long sum = 0;
    for (auto &[name, list] : lists) for (auto &number : list) sum += *number * static_cast<long>(name.size());
    std::cout << sum << '\n';
}
END
if command -v g++ >where; then
    g++ -std=c++17 -O1 templates.cc -o templates
    ./templates
fi
