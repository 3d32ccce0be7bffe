"""The functions return the same results that their commands print."""

import inspect
import os
import pickle
import subprocess
import sys
from pathlib import Path

import freehold
import pytest

CALLS = [
    ("inspect", ["{calm}"], {}, ["{calm}"]),
    ("inspect", ["{calm}"], {"map": True, "block": 17}, ["{calm}", "--map", "--block", "17"]),
    ("replay", ["{calm}"], {"policy": "freehold", "explain": True}, ["{calm}", "--policy", "freehold", "--explain"]),
    ("replay", [], {"recording": "{calm}", "cpus": 16, "pace": "recorded"}, ["{calm}", "--cpus=16", "--pace=recorded"]),
    (
        "compare",
        ["{calm}"],
        {"b": ["linux-6.12,pcp=merge", "linux-6.12,pcp.batch=31"], "margin": 3},
        ["{calm}", "--b", "linux-6.12,pcp=merge", "--b", "linux-6.12,pcp.batch=31", "--margin", "3"],
    ),
    (
        "compare",
        [["{calm}"]],
        {"setting_b": "vm.min_free_kbytes=65536", "exact": True, "all": None},
        ["{calm}", "--setting-b", "vm.min_free_kbytes=65536", "--exact"],
    ),
    ("compare", ["{calm}"], {"page": True}, ["{calm}", "--html", "{scratch}/page.html"]),
    ("advise", ["{calm}"], {}, ["{calm}"]),
    ("sim", [], {"list": True}, ["--list"]),
    ("sim", ["steady"], {"quick": True, "cpus": [1, 4]}, ["steady", "--quick", "--cpus=1", "--cpus=4"]),
    (
        "fleet",
        ["webhost"],
        {"hosts": 1, "memory": "1GiB", "quick": True, "resume": "{scratch}/kept.jsonl"},
        ["webhost", "--hosts=1", "--memory=1GiB", "--quick", "--resume={scratch}/command.jsonl"],
    ),
    ("age", [], {"age": 30, "memory": "1GiB"}, ["--age", "30", "--memory", "1GiB"]),
]


@pytest.mark.parametrize("name, places, names, words", CALLS, ids=lambda value: value if isinstance(value, str) else "")
def test_report_equals_the_command_output(name, places, names, words, calm, tmp_path, command):
    def filled(value):
        if isinstance(value, list):
            return [filled(one) for one in value]
        return value.format(calm=calm, scratch=tmp_path) if isinstance(value, str) else value

    report = getattr(freehold, name)(*filled(places), **{key: filled(value) for key, value in names.items()})
    printed = command(name, *filled(words), "--json", "-")
    assert without_origin(report.json()) == without_origin(printed)


def without_origin(json: str) -> str:
    """Removes the command line, whose order of options may differ, and the commit of the build."""
    lines = [line for line in json.splitlines() if not line.lstrip().startswith(('"command": "freehold ', '"commit": '))]
    return "\n".join(lines)


def test_paths_may_be_str_or_pathlike(calm):
    by_text, by_path = freehold.inspect(str(calm)), freehold.inspect(calm)
    assert by_text.json() == by_path.json()


def test_integers_of_other_libraries_are_accepted(calm):
    numpy = pytest.importorskip("numpy")
    assert freehold.replay(calm, cpus=numpy.int64(4)).dict["recording"]["replay_cpus"] == 4


def test_page_contains_the_command_instead_of_the_interpreter(calm):
    page = freehold.replay(calm, policy="freehold").html()
    assert "--policy=freehold" in page and "pytest" not in page


def test_functions_have_signatures_and_docstrings():
    for name in ("advise", "age", "compare", "fleet", "inspect", "record", "replay", "sim"):
        function = getattr(freehold, name)
        parameters = inspect.signature(function).parameters
        assert parameters["progress"].default is True
        assert "Args:" in function.__doc__ and "progress:" in function.__doc__
        assert not {"json", "csv", "html", "color", "help"} & set(parameters)
    assert list(inspect.signature(freehold.replay).parameters)[:2] == ["recording", "policy"]
    assert inspect.signature(freehold.replay).parameters["policy"].default is None
    assert inspect.signature(freehold.fleet).parameters["costs"].default == "reference"


def test_stubs_match_the_package():
    stubtest = pytest.importorskip("mypy.stubtest")
    words = [sys.executable, "-m", stubtest.__name__, "freehold", "--ignore-disjoint-bases"]
    checked = subprocess.run(words, capture_output=True, text=True, cwd=Path(__file__).parent)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_fork_between_calls_works(calm):
    freehold.compare(calm, exact=True, progress=False)
    pid = os.fork()
    if pid == 0:
        report = freehold.compare(calm, exact=True, progress=False)
        os._exit(0 if report.verdict else 1)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_functions_are_picklable_by_name():
    for name in ("compare", "record", "sim"):
        function = getattr(freehold, name)
        assert pickle.loads(pickle.dumps(function)) is function and function.__module__ == "freehold"
        assert "progress" in str(inspect.signature(function))


def test_report_is_not_picklable(calm):
    with pytest.raises(TypeError, match=r"cannot be pickled; pass its \.json\(\)"):
        pickle.dumps(freehold.inspect(calm, progress=False))


def test_numpy_scalars_are_accepted(calm):
    numpy = pytest.importorskip("numpy")
    plain = freehold.replay(calm, cpus=2, explain=True, progress=False)
    others = freehold.replay(calm, cpus=numpy.int64(2), explain=numpy.bool_(True), progress=False)
    assert plain.dict == others.dict
    assert freehold.compare(calm, margin=numpy.float32(3), progress=False).verdict
