"""What the tests share: the recordings of this repository, and the command to hold answers against."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def calm() -> Path:
    """A recording of a machine that has memory to spare."""
    return ROOT / "recordings/oracle-calm.parquet"


@pytest.fixture(scope="session")
def pressure() -> Path:
    """A recording of a machine that has too little."""
    return ROOT / "recordings/pressure.parquet"


@pytest.fixture(scope="session")
def command():
    """Runs the command `freehold`, and says what it printed."""
    program = os.environ.get("FREEHOLD")
    if program is None:
        pytest.skip("FREEHOLD does not say where the command is")

    def run(*words: str) -> str:
        return subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout

    return run
