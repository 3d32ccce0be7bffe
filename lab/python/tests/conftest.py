"""Shared fixtures: the recordings of this repository, and the command to compare results with."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def calm() -> Path:
    """A recording of a machine with enough memory."""
    return ROOT / "recordings/oracle-calm.parquet"


@pytest.fixture(scope="session")
def pressure() -> Path:
    """A recording of a machine with too little memory."""
    return ROOT / "recordings/pressure.parquet"


@pytest.fixture(scope="session")
def command():
    """A function that runs the command `freehold` and returns its output."""
    program = os.environ.get("FREEHOLD")
    if program is None:
        pytest.skip("FREEHOLD does not say where the command is")

    def run(*words: str) -> str:
        return subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout

    return run
