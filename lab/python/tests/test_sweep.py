"""Sweeps on this machine: the same results as the command, and errors for invalid calls."""

import json
import os
import signal
import subprocess
import sys
import warnings

import freehold
import pytest
from sweeping import SIMULATED, TASKS, parts, study, tree


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    return study(tmp_path_factory.mktemp("two"), 2)


def without_origin(report) -> dict:
    """Returns a report without its origin, since the wheel and the command may be built from different commits."""
    document = report if isinstance(report, dict) else json.loads(report)
    document.pop("freehold")
    for verdict in document["verdicts"]:
        verdict.pop("recipe", None)
    return document


def rows(folder) -> dict:
    """Returns the rows of each part, without the headers."""
    parquet = pytest.importorskip("pyarrow.parquet")
    return {str(part.relative_to(folder)): parquet.ParquetFile(part).read() for part in parts(folder)}


def test_sweep_equals_the_command(two, tmp_path, command):
    plan, recordings = two
    report = freehold.sweep(plan, recordings, into=tmp_path / "here")
    printed = command("sweep", str(plan), str(recordings), "--into", str(tmp_path / "command"), "--json", "-")
    assert rows(tmp_path / "here") == rows(tmp_path / "command")
    assert without_origin(report.json()) == without_origin(printed)
    assert report.dict["tasks"] == 2 * TASKS and report.failures == [] and report.verdict
    assert "sweep --report" in report.html()


def test_recordings_may_be_files_folders_or_globs(two, tmp_path):
    plan, recordings = two
    by_folder = freehold.sweep(plan, recordings, into=tmp_path / "a", progress=False)
    by_glob = freehold.sweep(plan, f"{recordings}/*.parquet", into=tmp_path / "b", jobs=1, progress=False)
    by_name = freehold.sweep(plan, list(recordings.iterdir()), into=tmp_path / "c", progress=False)
    assert by_folder.json() == by_glob.json() == by_name.json()
    assert tree(tmp_path / "a") == tree(tmp_path / "b") == tree(tmp_path / "c")


def test_simulations_are_swept(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(SIMULATED)
    report = freehold.sweep(plan, into=tmp_path / "into", progress=False)
    assert report.dict["tasks"] > 0
    with pytest.raises(freehold.InputError, match="the plan simulates, but recordings are given"):
        freehold.sweep(plan, "x.parquet", into=tmp_path / "other")


def test_unreadable_recordings_are_reported_and_skipped(two, tmp_path):
    plan, recordings = two
    hostile = tmp_path / "\x1b[2J.parquet"
    hostile.write_text("no recording")
    with pytest.warns(freehold.SweepWarning) as warned:
        report = freehold.sweep(plan, [recordings, hostile], into=tmp_path / "into", progress=False)
    [(of, why)] = report.failures
    assert of == str(hostile) and "is not a Parquet file" in why and report.dict["tasks"] == 2 * TASKS
    assert "\x1b" not in str(warned[0].message) and "[2J.parquet" in str(warned[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert freehold.sweep(plan, recordings, into=tmp_path / "into", progress=False).failures == []


@pytest.mark.parametrize(
    "names, sentence",
    [
        ({"itno": "x"}, "sweep() has no keyword itno; did you mean into?"),
        ({"into": "x", "zzz": 1}, "sweep() has no keyword zzz; it has plan, recordings, into, client,"),
        ({}, "sweep(): missing a required"),
        ({"into": 3}, "sweep(): into must be a str or an os.PathLike, not int"),
        ({"into": "x", "jobs": "4"}, "sweep(): jobs must be an int, not str"),
        ({"into": "x", "jobs": True}, "sweep(): jobs must be an int, not bool"),
        ({"into": "x", "margin": "2"}, "sweep(): margin must be a float, not str"),
        ({"into": "x", "progress": 1}, "sweep(): progress must be a bool, not int"),
        ({"into": "x", "recordings": 3}, "sweep(): recordings must be a str or an os.PathLike, or several, not int"),
        ({"into": "x", "recordings": b"x"}, "sweep(): recordings must be"),
        ({"into": "x", "recordings": [b"x"]}, "sweep(): recordings must be"),
        ({"into": "x", "recordings": {"a": 1}}, "sweep(): recordings must be"),
        ({"into": "x", "storage_options": {}}, "sweep(): storage_options need a client"),
        ({"into": "x", "insecure": True}, "sweep(): insecure needs a client"),
        ({"into": "x", "insecure": 1}, "sweep(): insecure must be a bool, not int"),
        ({"into": "x", "client": "tcp://127.0.0.1:1"}, "sweep(): client must be a distributed.Client, not str"),
    ],
)
def test_invalid_calls_raise_call_error(names, sentence, two):
    with pytest.raises(freehold.CallError) as raised:
        freehold.sweep(two[0], **names)
    assert sentence in str(raised.value) and isinstance(raised.value, TypeError)


def test_invalid_input_raises_input_error(two, tmp_path):
    plan, recordings = two

    def refused(sentence, *places, **names):
        with pytest.raises(freehold.InputError) as raised:
            freehold.sweep(*places, **{"into": tmp_path / "into", **names})
        assert sentence in str(raised.value) and "\n" not in str(raised.value)

    refused("name some", plan)
    refused("jobs must be at least 1", plan, recordings, jobs=0)
    refused("the margin cannot be 100 %", plan, recordings, margin=100)
    refused("only a client reads", plan, "s3://bucket/*.parquet")
    refused("which is not a result of a sweep", plan, recordings, into=recordings)
    freehold.sweep(plan, recordings, into=tmp_path / "into", progress=False)
    other = tmp_path / "other.toml"
    other.write_text(plan.read_text().replace("4]", "8]"))
    refused("contains the results of another plan (plan.toml)", other, recordings)
    with pytest.raises(freehold.NotFoundError, match="no-such.toml"):
        freehold.sweep(tmp_path / "no-such.toml", recordings, into=tmp_path / "into")


def test_interrupted_sweep_resumes(two, tmp_path, monkeypatch):
    from freehold import _progress

    plan, recordings = two
    sent = []

    def interrupting(self, stages):
        if not sent and any(done > 0 for _, _, done, _, _ in stages):
            sent.append(os.kill(os.getpid(), signal.SIGINT))

    monkeypatch.setattr(_progress.Progress, "show", interrupting)
    try:
        freehold.sweep(plan, recordings, into=tmp_path / "into", jobs=1)
        assert not sent, "an interrupt that was heard is raised"
    except KeyboardInterrupt:
        pass
    freehold.sweep(plan, recordings, into=tmp_path / "into", progress=False)
    freehold.sweep(plan, recordings, into=tmp_path / "whole", progress=False)
    assert tree(tmp_path / "into") == tree(tmp_path / "whole")


def test_sweep_without_a_cluster_needs_no_cluster_packages(two, tmp_path):
    code = f"""
import sys
for package in ("dask", "distributed", "fsspec"):
    sys.modules[package] = None
import freehold
freehold.sweep({str(two[0])!r}, {str(two[1])!r}, into={str(tmp_path / "into")!r}, progress=False)
try:
    freehold.sweep({str(two[0])!r}, {str(two[1])!r}, into={str(tmp_path / "into")!r}, client=object())
except ImportError as error:
    assert isinstance(error, freehold.Error)
    print(error)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout.strip().endswith("pip install 'freehold[cluster]'"), ran.stdout + ran.stderr
