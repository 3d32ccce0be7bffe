"""Recordings of this machine, if the process is permitted to record."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import freehold
import pytest

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/sys/kernel/tracing/instances").is_dir(), reason="needs root and tracefs"
)


def test_command_is_recorded(tmp_path):
    out = tmp_path / "r.parquet"
    report = freehold.record("true", out=out, quiet=True)
    [made] = report.dict["recordings"]
    assert made["file"] == str(out) and made["events"] > 0 and made["command"] == "true"
    assert len(freehold.Recording(out)) == made["rows"]
    assert report.text.startswith("true: exit status: 0\n")
    assert [path.name for path in tmp_path.iterdir()] == ["r.parquet"]


def test_interrupt_ends_and_keeps_the_recording(tmp_path):
    out, ready = tmp_path / "r.parquet", tmp_path / "ready"
    code = f"""
import freehold
report = freehold.record("sh", "-c", "echo >{ready}; exec sleep 600", out={str(out)!r}, quiet=True)
print(report.dict["recordings"][0]["events"] > 0, flush=True)
"""
    ran = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    # The recorded command is running, so the recording has started.
    while ran.poll() is None and not ready.exists():
        os.sched_yield()
    ran.send_signal(signal.SIGINT)
    said, _ = ran.communicate()
    assert (said.strip(), ran.returncode) == ("True", 0)
    assert {path.name for path in tmp_path.iterdir()} == {"r.parquet", "ready"}


def test_signal_handlers_are_restored(tmp_path):
    code = f"""
import freehold, os, signal, time
freehold.record("true", out={str(tmp_path / "r.parquet")!r}, quiet=True)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
"""
    ran = subprocess.run([sys.executable, "-c", code])
    assert ran.returncode == -signal.SIGTERM
