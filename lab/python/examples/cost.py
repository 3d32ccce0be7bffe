"""Overhead of Python: `python lab/python/examples/cost.py FREEHOLD RECORDING`, with the wheel installed.

Prints the time of an import in a new interpreter, compared with an interpreter that imports nothing; and the CPU time
of a replay called from Python, compared with that of the command, in alternating pairs.
"""

import resource
import statistics
import subprocess
import sys
import time

PAIRS = 10


def seconds_of(code: str) -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - begun


def cpu(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def main() -> None:
    import freehold

    program, recording = sys.argv[1:]
    imports = [(seconds_of("import freehold"), seconds_of("pass")) for _ in range(PAIRS)]
    took = statistics.median(with_it - without for with_it, without in imports)
    print(f"import freehold: {took:.3f} s (median of {PAIRS})")
    changes = []
    for _ in range(PAIRS):
        before = cpu(resource.RUSAGE_CHILDREN)
        words = [program, "replay", recording, "--policy", "linux-6.12", "--json", "-"]
        printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        command = cpu(resource.RUSAGE_CHILDREN) - before
        before = cpu(resource.RUSAGE_SELF)
        json = freehold.replay(recording, policy="linux-6.12", progress=False).json()
        python = cpu(resource.RUSAGE_SELF) - before
        assert json == printed
        changes.append(python / command - 1)
        print(f"replay: command {command:.3f} s, Python {python:.3f} s of CPU time, {changes[-1]:+.1%}")
    print(f"median {statistics.median(changes):+.1%}, from {min(changes):+.1%} to {max(changes):+.1%}")


main()
