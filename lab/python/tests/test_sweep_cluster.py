"""Sweeps on a cluster of processes, with workers that die, stores that fail, and a scheduler that exits."""

import os
import signal
import threading

import freehold
import pytest
from sweeping import SIMULATED, TASKS, differing, parts, study, tree

distributed = pytest.importorskip("distributed")
pytest.importorskip("fsspec")

import stores  # noqa: E402

RECORDINGS = 6


def cluster_of(workers: int = 2):
    return distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    )


@pytest.fixture(scope="module")
def client():
    with cluster_of() as cluster, distributed.Client(cluster) as client:
        client.run(stores.impatient)
        yield client


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    return study(tmp_path_factory.mktemp("many"), RECORDINGS)


@pytest.fixture(scope="module")
def whole(many, tmp_path_factory):
    """The results and the report of the same sweep on one machine."""
    into = tmp_path_factory.mktemp("whole") / "into"
    report = freehold.sweep(*many, into=into, progress=False)
    return tree(into), report.json()


def when_a_part_is_there(folder, do):
    """Calls `do` as soon as the first part is in a folder. The returned function ends the wait."""

    def wait():
        while not parts(folder) and not is_over.is_set():
            os.sched_yield()
        if not is_over.is_set():
            do()

    is_over = threading.Event()
    thread = threading.Thread(target=wait)
    thread.start()

    def end():
        is_over.set()
        thread.join()

    return end


def test_cluster_results_equal_local_results(client, many, whole, tmp_path):
    plan, recordings = many
    report = freehold.sweep(plan, recordings, into=tmp_path / "into", client=client, progress=False)
    assert (tree(tmp_path / "into"), report.json()) == whole
    assert report.dict["tasks"] == RECORDINGS * TASKS and report.failures == []
    files = sorted(map(str, recordings.iterdir()), reverse=True)
    freehold.sweep(plan, files, into=tmp_path / "back", client=client, progress=False)
    freehold.sweep(plan, f"file://{recordings}/*.parquet", into=f"file://{tmp_path}/url", client=client, progress=False)
    assert tree(tmp_path / "back") == tree(tmp_path / "url") == whole[0]


def test_existing_parts_are_kept_and_truncated_parts_redone(client, many, whole, tmp_path):
    into = tmp_path / "into"
    freehold.sweep(*many, into=into, client=client, progress=False)
    first, second, *others = sorted(parts(into))
    before = [os.stat(part).st_ino for part in others]
    first.unlink()
    second.write_bytes(second.read_bytes()[:100])
    freehold.sweep(*many, into=into, client=client, progress=False)
    assert tree(into) == whole[0] and [os.stat(part).st_ino for part in others] == before


def test_killed_worker_loses_nothing(client, many, whole, tmp_path):
    into = tmp_path / "into"
    victim = sorted(client.run(os.getpid).values())[0]
    end = when_a_part_is_there(into, lambda: os.kill(victim, signal.SIGKILL))
    try:
        report = freehold.sweep(*many, into=into, client=client, progress=False)
    finally:
        end()
    assert (tree(into), report.json()) == whole
    client.wait_for_workers(2)
    assert victim not in client.run(os.getpid).values()
    client.run(stores.impatient)


def test_lost_scheduler_loses_only_running_tasks(many, whole, tmp_path):
    into = tmp_path / "into"
    cluster = cluster_of()
    with distributed.Client(cluster) as client:
        end = when_a_part_is_there(into, cluster.close)
        try:
            with pytest.raises(freehold.SystemFailure, match="repeat the call with another cluster"):
                freehold.sweep(*many, into=into, client=client, progress=False)
        finally:
            end()
    there = {part: os.stat(part).st_ino for part in parts(into)}
    assert there and len(there) < len(whole[0]) - 1
    with cluster_of() as cluster, distributed.Client(cluster) as client:
        report = freehold.sweep(*many, into=into, client=client, progress=False)
    assert (tree(into), report.json()) == whole
    assert {part: os.stat(part).st_ino for part in there} == there


def test_recording_that_kills_workers_is_reported(tmp_path):
    import dask

    plan, recordings = study(tmp_path, 3)
    (recordings / "r0001.parquet").rename(recordings / "deadly.parquet")
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        with cluster_of() as cluster, distributed.Client(cluster) as client, pytest.warns(freehold.SweepWarning):
            report = freehold.sweep(
                plan, f"deadly://{recordings}", into=tmp_path / "into", client=client, retries=0, progress=False
            )
    assert {of for of, _ in report.failures} == {str(recordings / "deadly.parquet")}
    assert "the cluster gave up this task: KilledWorker" in report.failures[0][1]
    assert report.dict["tasks"] == 2 * TASKS


def test_failing_store_is_retried(client, many, whole, tmp_path):
    report = freehold.sweep(*many, into=f"flaky://{tmp_path}/into", client=client, progress=False)
    assert (tree(tmp_path / "into"), report.json()) == whole


def test_permanent_store_failures_are_reported_and_skipped(client, many, whole, tmp_path):
    with pytest.warns(freehold.SweepWarning, match="the store has no room for this"):
        report = freehold.sweep(*many, into=f"broken://{tmp_path}/into", client=client, progress=False)
    expected = {name: part for name, part in whole[0].items() if "policy=freehold" not in name}
    assert tree(tmp_path / "into") == expected
    assert len(report.failures) == len(whole[0]) - len(expected)
    assert all(of.startswith(f"broken://{tmp_path}/into/recording=r") for of, _ in report.failures)


def test_concurrent_sweeps_into_a_folder_are_safe(client, many, whole, tmp_path):
    reports = []

    def one():
        with distributed.Client(client.scheduler.address, set_as_default=False) as own:
            reports.append(freehold.sweep(*many, into=tmp_path / "into", client=own, progress=False).json())

    both = [threading.Thread(target=one) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert reports == [whole[1]] * 2 and tree(tmp_path / "into") == whole[0]


def test_invalid_recordings_are_reported_and_skipped(client, many, whole, tmp_path):
    plan, recordings = many
    bytes_of = (recordings / "r0000.parquet").read_bytes()
    hostile = tmp_path / "a=b [x]*?%2e\n\x1b[2J.parquet"
    hostile.write_bytes(differing(bytes_of, 99))
    none, cut = tmp_path / "\x1b[31mnone.parquet", tmp_path / "cut.parquet"
    none.write_text("no recording")
    cut.write_bytes(bytes_of[: len(bytes_of) // 2])
    again = tmp_path / "again.parquet"
    again.write_bytes(bytes_of)
    given = [recordings, hostile, none, cut, again, tmp_path / "no-such.parquet", f"{tmp_path}/no-such-*.parquet"]
    with pytest.warns(freehold.SweepWarning) as warned:
        report = freehold.sweep(plan, given, into=tmp_path / "into", client=client, progress=False)
    failed = {of: why for of, why in report.failures}
    assert set(failed) == {str(none), str(cut), str(given[-2]), given[-1]}
    assert "is not a Parquet file" in failed[str(none)] and "does not exist" in failed[given[-1]]
    said = "".join(str(warning.message) for warning in warned)
    assert "\x1b" not in said and "is a copy of another recording" in said
    assert report.dict["tasks"] == (RECORDINGS + 1) * TASKS
    with pytest.warns(freehold.SweepWarning):
        freehold.sweep(plan, given, into=tmp_path / "here", progress=False)
    kept = tree(tmp_path / "into")
    kept = {name: part for name, part in kept.items() if not name.startswith("_making")}
    assert {name: part for name, part in tree(tmp_path / "here").items() if not name.startswith("_making")} == kept


def test_results_of_another_plan_are_refused(client, many, tmp_path):
    plan, recordings = many
    other = tmp_path / "other.toml"
    other.write_text(plan.read_text().replace("4]", "8]"))
    for into in (str(tmp_path / "into"), f"flaky://{tmp_path}/into"):
        freehold.sweep(plan, recordings / "r0000.parquet", into=into, client=client, progress=False)
        with pytest.raises(freehold.InputError, match=r"contains the results of another plan \(plan.toml\); name"):
            freehold.sweep(other, recordings, into=into, client=client, progress=False)
    for into in (recordings, f"flaky://{recordings}"):
        with pytest.raises(freehold.InputError, match=r"not (a result|results) of a sweep"):
            freehold.sweep(plan, recordings, into=into, client=client, progress=False)
    one, two, *_ = sorted(parts(tmp_path / "into"))
    one.write_bytes(two.read_bytes())
    with pytest.raises(freehold.InputError, match="is the result of another task; remove it"):
        freehold.sweep(plan, recordings, into=tmp_path / "into", client=client, progress=False)


def test_different_versions_are_refused(client, many, tmp_path):
    [first, *_] = sorted(client.nthreads())
    client.run(stores.pretending, "0.0.1", workers=[first])
    try:
        with pytest.raises(freehold.InputError) as raised:
            freehold.sweep(*many, into=tmp_path / "into", client=client)
    finally:
        client.run(stores.honest)
    assert str(raised.value).startswith(f"the worker {first} has freehold 0.0.1, and not ")
    assert not (tmp_path / "into").exists()


def test_late_worker_with_another_version_is_refused(client, many, tmp_path, monkeypatch):
    from freehold import _cluster

    other = freehold._freehold.SweepPlan.program().replace("0.1.0", "0.0.1")
    run = _cluster._Run.__init__

    def later(self, *places):
        run(self, *places)
        self._manifest = self._manifest.replace(freehold._freehold.SweepPlan.program(), other)

    monkeypatch.setattr(_cluster._Run, "__init__", later)
    with pytest.raises(freehold.InputError, match="the worker tcp://.* has another version of freehold: .*0.0.1"):
        freehold.sweep(*many, into=tmp_path / "into", client=client, progress=False)


def test_worker_without_the_package_is_refused(client, many, tmp_path, monkeypatch):
    missing = Exception("ModuleNotFoundError(\"No module named 'freehold'\")")
    monkeypatch.setattr(client, "run", lambda function, on_error: {"tcp://10.0.0.1:1": missing})
    with pytest.raises(freehold.InputError, match="the worker tcp://10.0.0.1:1 has no working freehold"):
        freehold.sweep(*many, into=tmp_path / "into", client=client, progress=False)


def test_progress_is_shown_and_an_interrupt_ends_the_sweep(client, many, whole, tmp_path, monkeypatch):
    from freehold import _progress

    shown, is_resumed = [], []

    class Bars:
        def show(self, stages):
            shown.extend(stages)
            if shown[0][0] != stages[0][0] and not is_resumed:
                raise KeyboardInterrupt

        def close(self):
            shown.append("closed")

    monkeypatch.setattr(_progress._Bars, "if_installed", staticmethod(Bars))
    monkeypatch.setattr(_progress, "PATIENCE", 0)
    with pytest.raises(KeyboardInterrupt):
        freehold.sweep(*many, into=tmp_path / "into", client=client)
    assert shown[0][1:] == ("comparing recordings", RECORDINGS, RECORDINGS, "recordings")
    assert shown[-1] == "closed" and shown[-2][1] == "Two policies" and shown[-2][4] == "tasks"
    is_resumed.append(True)
    report = freehold.sweep(*many, into=tmp_path / "into", client=client)
    assert shown[-2][2] == shown[-2][3] and report.json() == whole[1]


def test_running_chunks_are_bounded(client, many, tmp_path, monkeypatch):
    from freehold import _chunks, _cluster

    monkeypatch.setattr(_chunks, "LONG", 0.0)
    monkeypatch.setattr(_chunks, "SHORT", 0.0)
    futures, most, submit = [], [], client.submit

    def counting(*places, **names):
        futures.append(submit(*places, **names))
        most.append(sum(not future.done() for future in futures))
        return futures[-1]

    monkeypatch.setattr(client, "submit", counting)
    freehold.sweep(*many, into=tmp_path / "into", client=client, progress=False)
    assert len(most) > RECORDINGS * TASKS / 2 and max(most) <= _cluster.UNDER_WAY * 2 + 1


def test_simulations_are_swept(client, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(SIMULATED)
    report = freehold.sweep(plan, into=tmp_path / "a", client=client, progress=False)
    assert report.json() == freehold.sweep(plan, into=tmp_path / "b", progress=False).json()
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_invalid_client_is_refused(client, many, tmp_path):
    with pytest.raises(freehold.CallError, match="jobs is for this machine"):
        freehold.sweep(*many, into=tmp_path / "into", client=client, jobs=2)
    with pytest.raises(freehold.CallError, match="client must be a distributed.Client"):
        freehold.sweep(*many, into=tmp_path / "into", client=client.cluster)
