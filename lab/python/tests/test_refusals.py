"""Invalid calls and inputs: an exception of a documented class, with a message of one sentence."""

import errno
import itertools
import os
import subprocess
import sys

import freehold
import pytest


@pytest.mark.parametrize(
    "call, sentence",
    [
        (lambda file: freehold.replay(file, polcy="x"), "replay() has no keyword polcy; did you mean policy?"),
        (lambda file: freehold.replay(file, json="x"), "replay() has no keyword json; formats are methods of the report:"),
        (lambda file: freehold.replay(file, zzz=1), "explain, all, page, progress"),
        (lambda file: freehold.compare([]), "compare(): recordings is an empty list"),
        (lambda file: freehold.compare([[file]]), "must be a str or an os.PathLike, or several, not list"),
        (lambda file: freehold.compare(itself()), "must be a str or an os.PathLike, or several, not list"),
        (lambda file: freehold.compare(itertools.repeat("x")), "values in a list are too many"),
        (lambda file: freehold.inspect("\ud800"), "not a str with a lone surrogate"),
        (lambda file: freehold.replay(), "replay() needs recording"),
        (lambda file: freehold.replay(3), "replay(): recording must be a str or an os.PathLike, not int"),
        (lambda file: freehold.replay(b"x"), "replay(): recording must be a str or an os.PathLike, not bytes"),
        (lambda file: freehold.replay(file, cpus="4"), "replay(): cpus must be an int, not str"),
        (lambda file: freehold.replay(file, cpus=True), "replay(): cpus must be an int, not bool"),
        (lambda file: freehold.replay(file, cpus=1.5), "replay(): cpus must be an int, not float"),
        (lambda file: freehold.replay(file, explain="yes"), "replay(): explain must be a bool, not str"),
        (lambda file: freehold.replay(file, policy=["a"]), "replay(): policy must be a str, not several values"),
        (lambda file: freehold.compare(file, b=["x", 3]), "compare(): b must be a str, or several, not int"),
        (lambda file: freehold.compare(file, b={"x": 3}), "compare(): b must be a str, or several, not dict"),
        (lambda file: freehold.replay(file, file), "replay() takes 1 by position (recording), but 2 are given"),
        (lambda file: freehold.replay(file, recording=file), "gets recording by position and by name"),
        (lambda file: freehold.replay(file, progress=1), "replay(): progress must be a bool, not int"),
    ],
)
def test_invalid_calls_raise_call_error(call, sentence, calm):
    refused(freehold.CallError, TypeError, call, sentence, calm)


@pytest.mark.parametrize(
    "call, sentence",
    [
        (lambda file: freehold.replay(file, cpus=0), "replay(): invalid value '0' for 'cpus': give a number of CPUs"),
        (lambda file: freehold.replay(file, cpus=10**30), "replay(): invalid value"),
        (lambda file: freehold.replay(file, pace="fast"), "replay(): invalid value 'fast' for 'pace' [possible values:"),
        (lambda file: freehold.replay(file, policy="linux-6.21"), "linux-6.21"),
        (lambda file: freehold.replay(file, setting="vm.nothing=1"), "vm.nothing"),
        (lambda file: freehold.replay(file.parent / "README.md"), "is not a Parquet file"),
        (lambda file: freehold.Recording(file.parent / "README.md"), "is not a Parquet file"),
        (lambda file: freehold.compare(file, file), "the same recording is given twice; give each once"),
        (lambda file: freehold.compare(file, margin=100), "the margin cannot be 100 %"),
        (lambda file: freehold.sim(), "sim(): the following required arguments were not provided: plan"),
        (lambda file: freehold.sim("steady", age=3, start=file), "sim(): the argument 'age' cannot be used with 'start'"),
        (lambda file: freehold.inspect(file, block=3), "inspect(): the following required arguments were not provided: map"),
        (lambda file: freehold.fleet(hosts=0), "fleet(): invalid value '0' for 'hosts'"),
        (lambda file: freehold.age(age=101), "age(): invalid value '101' for 'age'"),
    ],
)
def test_invalid_input_raises_input_error(call, sentence, calm):
    refused(freehold.InputError, ValueError, call, sentence, calm)


def itself():
    """Returns a list that contains itself."""
    values = []
    values.append(values)
    return values


def refused(kind, of_python, call, sentence, calm):
    with pytest.raises(kind) as raised:
        call(calm)
    said = str(raised.value)
    assert sentence in said and "\n" not in said
    assert isinstance(raised.value, freehold.Error) and isinstance(raised.value, of_python)


def test_missing_file_raises_file_not_found():
    for call in (freehold.inspect, freehold.replay, freehold.Recording):
        with pytest.raises(FileNotFoundError, match="no-such") as raised:
            call("no-such.parquet")
        assert isinstance(raised.value, freehold.NotFoundError) and raised.value.errno == errno.ENOENT


def test_unwritable_output_raises_not_found():
    with pytest.raises(freehold.NotFoundError, match="cannot write"):
        freehold.age(out="/no/such/folder/x.parquet")


def test_damaged_recording_raises_input_error(calm, tmp_path):
    damaged = tmp_path / "damaged.parquet"
    bytes_of = bytearray(calm.read_bytes())
    bytes_of[len(bytes_of) // 3] ^= 0xFF
    damaged.write_bytes(bytes_of)
    pyarrow = pytest.importorskip("pyarrow")
    with pytest.raises(freehold.InputError, match="damaged.parquet"):
        freehold.inspect(damaged)
    with pytest.raises(pyarrow.ArrowException, match="damaged.parquet"):
        pyarrow.table(freehold.Recording(damaged).events())


def test_hostile_names_are_escaped_in_errors(tmp_path):
    hostile = tmp_path / "\x1b[2J\u202egnp.parquet"
    hostile.write_text("no recording")
    with pytest.raises(freehold.InputError) as raised:
        freehold.inspect(hostile)
    assert "\x1b" not in str(raised.value) and "\u202e" not in str(raised.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("call", ['record("true")', "age(apply=True, for_=1)"])
def test_call_without_root_raises_permission_error(call):
    code = f"""
import freehold, freehold._progress, os, warnings
os.setuid(65534)
try:
    freehold.{call}
except PermissionError as error:
    assert isinstance(error, freehold.NotPermittedError)
    print(error)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "sudo" in ran.stdout or "root" in ran.stdout, ran.stdout + ran.stderr
