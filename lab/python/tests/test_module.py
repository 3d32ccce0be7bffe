"""`python -m freehold`: runs the command, or names the fix if the wheel has none."""

import subprocess
import sys
from pathlib import Path

import pytest

from freehold import __main__ as module


def test_wheel_without_the_command_names_the_fix() -> None:
    # The wheel of the gate has the module only.
    ended = subprocess.run([sys.executable, "-m", "freehold", "--version"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.count("\n") == 1 and "cargo xtask package wheel" in ended.stderr


def test_arguments_reach_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "freehold"
    program.touch()
    calls: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(module, "_folders", lambda: iter([str(tmp_path / "absent"), str(tmp_path)]))
    monkeypatch.setattr(module.os, "execv", lambda path, words: calls.append((path, words)))
    monkeypatch.setattr(module.sys, "argv", ["__main__.py", "compare", "--all"])
    module.main()
    assert calls == [(str(program), [str(program), "compare", "--all"])]
