#!/bin/sh
# Python under the malloc: JSON, threads, a child process, and some of its own tests where they were installed.
# PYTHONMALLOC=malloc sends small objects there too, which Python keeps to itself otherwise.
set -eu

cat >program.py <<'END'
import hashlib, json, random, re, subprocess, sys, threading, zlib

random.seed(7)
rows = [{"name": f"row {n}", "values": [random.random() for _ in range(20)], "next": {"n": n}} for n in range(5000)]
text = json.dumps(rows)
assert json.loads(text) == rows
print(len(text), hashlib.sha256(text.encode()).hexdigest())
print(zlib.crc32(zlib.decompress(zlib.compress(text.encode()))), len(re.findall(r"row \d*7", text)))

totals = [0] * 8
def work(slot):
    words = {}
    for n in range(20000):
        words.setdefault(f"key {n % 997}", []).append(str(n) * (n % 5))
    totals[slot] = sum(len(word) for key in words for word in words[key])
threads = [threading.Thread(target=work, args=(slot,)) for slot in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(totals)

children = [subprocess.run([sys.executable, "-c", f"print(sum(range({n})))"], capture_output=True) for n in range(3)]
print([child.stdout for child in children])
print(sum(len(bytearray(size)) for size in range(1, 3000000, 99991)))
END

python3 program.py
PYTHONMALLOC=malloc python3 program.py
for test in test_json test_list test_dict; do
    if python3 -c "import test.$test" 2>/dev/null; then
        # How long it took is said in its last lines, and is not the same twice.
        python3 -m test "$test" >said 2>&1 && echo "$test passed"
    fi
done
