"""What a sweep on a cluster costs, measured on worker processes of this machine: the figures of docs/cluster.md.

    python lab/python/examples/cluster.py study --recordings 1000
    python lab/python/examples/cluster.py scale
    python lab/python/examples/cluster.py overhead
    python lab/python/examples/cluster.py memory

Recordings are the bundled ones, copied so that no two have the same bytes. All is done in a folder that is removed
afterwards. Build the wheel with --profile dist first.
"""

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import distributed
import freehold
from freehold._freehold import SweepPlan, SweepWorker

RECORDINGS = Path(__file__).resolve().parents[3] / "recordings"
SMALL = ("guest-build", "guest-files")
LARGE = "pressure"


def differing(recording: bytes, number: int) -> bytes:
    """Returns the same recording with other bytes: unused bytes are inserted before the footer."""
    footer = len(recording) - 8 - int.from_bytes(recording[-8:-4], "little")
    return recording[:footer] + f"{number:08}".encode() + recording[footer:]


def copies(folder: Path, names: "tuple[str, ...]", number: int) -> Path:
    made = folder / "recordings"
    made.mkdir()
    of = [(RECORDINGS / f"{name}.parquet").read_bytes() for name in names]
    for at in range(number):
        (made / f"r{at:05}.parquet").write_bytes(differing(of[at % len(of)], at))
    return made


def plan_of(folder: Path, cpus: str, exact: bool = False) -> Path:
    path = folder / "plan.toml"
    path.write_text(
        "title = 'Measured'\nkind = 'replay'\na = 'linux-6.12'\nb = ['freehold']\n"
        f"exact = {str(exact).lower()}\n[axes]\ncpus = {cpus}\n"
    )
    return path


def cluster_of(workers: int) -> distributed.LocalCluster:
    return distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    )


def timed(plan: Path, recordings: Path, into: Path, workers: int) -> "tuple[float, int, list[float]]":
    """Returns the seconds of a sweep on running workers, its tasks, and the CPU seconds of each worker."""
    with cluster_of(workers) as cluster, distributed.Client(cluster) as client:
        client.wait_for_workers(workers)
        before, begun = client.run(time.process_time), time.monotonic()
        report = freehold.sweep(plan, recordings, into=into, client=client, progress=False)
        seconds = time.monotonic() - begun
        after = client.run(time.process_time)
        return seconds, report.dict["tasks"], [after[worker] - before[worker] for worker in after]


def spin() -> None:
    """Runs for some seconds without sharing data."""
    sum(number * number for number in range(30_000_000))


def scaling() -> float:
    """Returns the speed-up of two independent processes over one: 2 if two CPUs are free."""
    times = []
    for processes in (1, 2):
        begun = time.monotonic()
        running = [multiprocessing.Process(target=spin) for _ in range(processes)]
        for process in running:
            process.start()
        for process in running:
            process.join()
        times.append(time.monotonic() - begun)
    return 2 * times[0] / times[1]


def bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def study(folder: Path, words: argparse.Namespace) -> None:
    """Measures a study of small recordings, and extrapolates it to ten thousand."""
    recordings, plan = copies(folder, SMALL, words.recordings), plan_of(folder, "['recorded']", exact=True)
    seconds, tasks, of_cpu = timed(plan, recordings, folder / "into", words.workers)
    begun = time.monotonic()
    freehold.sweep(plan, recordings, into=folder / "into", progress=False)
    again = time.monotonic() - begun
    results, read = bytes_below(folder / "into"), bytes_below(recordings)
    size = read / words.recordings
    print(f"{words.recordings} recordings of {size / 1e3:.0f} kB, {tasks} tasks, {words.workers} workers")
    print(f"seconds: {seconds:.1f}; tasks a second and worker: {tasks / seconds / words.workers:.1f}")
    print(f"results: {results / 1e6:.1f} MB in {tasks} files; to find all of it done, on this machine: {again:.1f} s")
    hours = sum(of_cpu) / words.recordings * 10_000 / 3600
    print(f"seconds on a CPU: {sum(of_cpu):.1f}")
    more = results / words.recordings * 10_000
    print(f"10,000 recordings: {hours:.2f} hours on one CPU, {more / 1e6:.0f} MB of results")


def scale(folder: Path, words: argparse.Namespace) -> None:
    """Measures 200 replays on one worker and on two."""
    recordings, plan = copies(folder, ("oracle-calm",), 50), plan_of(folder, "['recorded']")
    four = "b = ['freehold', 'linux-6.12,pcp=merge', 'linux-6.12,pcp=off']"
    plan.write_text(plan.read_text().replace("b = ['freehold']", four))
    for turn in range(words.repeat):
        machine = scaling()
        one, tasks, [of_one] = timed(plan, recordings, folder / f"one-{turn}", 1)
        two, _, of_two = timed(plan, recordings, folder / f"two-{turn}", 2)
        print(f"{tasks} tasks: {one:.1f} s on one worker, {two:.1f} s on two, {one / two:.2f} times as fast;")
        print(f"  two processes that share nothing: {machine:.2f} times")
        print(f"  on a CPU: {of_one:.1f} s of one, {of_two[0]:.1f} s and {of_two[1]:.1f} s of two", end=", ")
        print(f"{of_one / max(of_two):.2f} times as fast where each has a CPU")


def overhead(folder: Path, words: argparse.Namespace) -> None:
    """Compares tasks of about a second on one worker with the same replays in sequence, without a cluster."""
    recordings, path = copies(folder, (LARGE,), 6), plan_of(folder, "['recorded', 4]", exact=True)
    for turn in range(words.repeat):
        plan, begun = SweepPlan.open(path), time.monotonic()
        tasks = 0
        for recording in sorted(recordings.iterdir()):
            worker = SweepWorker(plan, (str(recording), recording.read_bytes()))
            tasks += len([worker.run(place) for place in range(len(worker))])
        bare = time.monotonic() - begun
        swept, _, _ = timed(path, recordings, folder / f"into-{turn}", 1)
        print(f"{tasks} tasks of {bare / tasks:.2f} s: {bare:.1f} s bare, {swept:.1f} s swept, {swept / bare - 1:+.1%}")


def memory(folder: Path, words: argparse.Namespace) -> None:
    """Compares the memory growth of a worker with that of a process that runs one replay."""
    recordings, path = copies(folder, (LARGE,), 6), plan_of(folder, "['recorded', 4]", exact=True)
    first = sorted(recordings.iterdir())[0]
    code = f"""
import pathlib, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import cluster
from freehold._freehold import SweepPlan, SweepWorker
plan, before = SweepPlan.open({str(path)!r}), cluster.begun()
SweepWorker(plan, ({str(first)!r}, pathlib.Path({str(first)!r}).read_bytes())).run(0)
print(cluster.peak() - before)
"""
    alone = int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
    with cluster_of(1) as cluster, distributed.Client(cluster) as client:
        # Modules that a worker loads for its first task do not count as memory of a replay.
        client.run(_warm)
        [before] = client.run(begun).values()
        report = freehold.sweep(path, recordings, into=folder / "into", client=client, progress=False)
        [after] = client.run(peak).values()
    print(f"one replay: {alone / 1024:.0f} MiB more than the process before it")
    tasks, grown = report.dict["tasks"], after - before
    print(f"a worker, after {tasks} tasks on 6 recordings: {grown / 1024:.0f} MiB more than idle")
    print(f"{grown / alone:.2f} times as much")


def _warm() -> None:
    import fsspec.implementations.local  # noqa: F401
    from freehold import _chunk  # noqa: F401


def begun() -> int:
    """Resets the peak memory of this process, and returns its memory in KiB."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


def peak() -> int:
    """Returns the peak memory of this process, in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["study", "scale", "overhead", "memory"])
    parser.add_argument("--recordings", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--repeat", type=int, default=3)
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        globals()[words.what](Path(folder), words)


if __name__ == "__main__":
    main()
