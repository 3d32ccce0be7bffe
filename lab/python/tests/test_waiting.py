"""Long calls: other threads keep running, Ctrl-C ends the call, and the progress is reported."""

import os
import signal
import subprocess
import sys
import threading
import time

import freehold
import pytest


def test_other_threads_run_during_a_call(pressure):
    steps, is_over = [], threading.Event()

    def count():
        while not is_over.is_set():
            steps.append(None)
            is_over.wait(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        before = len(steps)
        freehold.replay(pressure, progress=False)
        during = len(steps) - before
    finally:
        is_over.set()
        thread.join()
    assert during > 50


@pytest.fixture
def interrupted_when():
    """Sends SIGINT to this process as soon as a call reports progress."""
    from freehold import _progress

    show, sent = _progress.Progress.show, []

    def interrupting(self, stages):
        if not sent and any(done > 0 for _, _, done, _, _ in stages):
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        show(self, stages)

    _progress.Progress.show = interrupting
    yield sent
    _progress.Progress.show = show


@pytest.mark.parametrize(
    "call",
    [
        lambda file, folder: freehold.compare(file),
        lambda file, folder: freehold.advise(file),
        lambda file, folder: freehold.sim("purge", cpus=[64, 128]),
        lambda file, folder: freehold.fleet(hosts=20, memory="1GiB", resume=folder / "kept.jsonl"),
    ],
    ids=["compare", "advise", "sim", "fleet"],
)
def test_interrupt_ends_a_call_and_leaves_nothing(call, pressure, tmp_path, interrupted_when):
    with pytest.raises(KeyboardInterrupt):
        call(pressure, tmp_path)
    assert interrupted_when
    assert {path.name for path in tmp_path.iterdir()} <= {"kept.jsonl"}
    names = {thread for thread in os.listdir("/proc/self/task")}
    freehold.inspect(pressure, progress=False)
    assert len(names) < 64, "work that was ended does not go on"


def test_custom_signal_handler_runs_during_a_call(pressure):
    class Alarm(Exception):
        pass

    def alarm(*_):
        raise Alarm

    before = signal.signal(signal.SIGALRM, alarm)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(Alarm):
            freehold.advise(pressure, progress=False)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_progress_is_shown(monkeypatch):
    from freehold import _progress

    shown = []

    class Bars:
        def show(self, stages):
            shown.extend(stages)

        def close(self):
            shown.append("closed")

    monkeypatch.setattr(_progress._Bars, "if_installed", staticmethod(Bars))
    monkeypatch.setattr(_progress, "PATIENCE", 0)
    freehold.sim("purge", quick=True, cpus=[64])
    assert shown[-1] == "closed"
    number, what, done, total, unit = shown[-2]
    assert what == "purge" and 0 <= done <= total and unit is None and number > 0


@pytest.mark.parametrize("has_tqdm", [True, False])
def test_no_progress_is_written_without_a_terminal(has_tqdm, calm):
    hide = "" if has_tqdm else "import sys; sys.modules['tqdm'] = None; sys.modules['tqdm.auto'] = None; "
    code = f"{hide}import freehold; from freehold import _progress; _progress.PATIENCE = 0; freehold.replay({str(calm)!r}, progress=False)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    code = code.replace("progress=False", "progress=True")
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0 and ran.stdout == ""
    assert has_tqdm or ran.stderr == ""


def test_finished_tqdm_bars_are_removed(capsys):
    pytest.importorskip("tqdm")
    from freehold._progress import _Bars

    bars = _Bars.if_installed()
    bars.show([(1, "replaying", 5, 10, "events"), (2, "reading", 0, 4, None)])
    bars.show([(2, "reading", 3, 4, None)])
    assert list(bars._bars) == [2]
    bars.close()
    assert bars._bars == {}
    assert "replaying" in capsys.readouterr().err


def test_progress_line_is_silent_without_a_terminal(capsys):
    from freehold._progress import _Line

    line = _Line()
    line.show([(1, "replaying", 5, 10, "events")])
    line.close()
    assert capsys.readouterr().err == ""
