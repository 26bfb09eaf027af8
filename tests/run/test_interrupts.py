"""Ctrl-C, pressed by whoever is in a hurry: raised once, and at the end of what must be whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .command import KERNELS, environment, reports_in, start, write_matrix
from .processes import children, command_line, is_running, wait_for

BEGIN = """
import os, signal, threading, time
from kvcheck.run import interrupts
from kvcheck.run.interrupts import Heard, Held
interrupts.listen()
def press(): os.kill(os.getpid(), signal.SIGINT)
def say(word): print(word, flush=True)
"""

#: The words that each process says, and what it does.
DOES = {
    "once end": """
try:
    press(); say('unheard')
except KeyboardInterrupt:
    press(); say('once')
press(); say('end')
""",
    "one two, once stopping hangs": """
interrupts.AGAIN = 0.0
try:
    press()
except KeyboardInterrupt:
    say('one')
try:
    press()
except KeyboardInterrupt:
    say('two, once stopping hangs')
""",
    "inner outer raised": """
try:
    with Held():
        with Held():
            press(); say('inner')
        say('outer')
    say('unheard')
except KeyboardInterrupt:
    say('raised')
""",
    "heard inside, whole behind": """
try:
    with Held():
        try:
            with Heard():
                press(); say('unheard')
        except KeyboardInterrupt:
            say('heard inside,')
        press(); say('whole behind')
except KeyboardInterrupt:
    say('twice')
""",
    "held, until it is heard": """
try:
    with Held():
        press(); say('held,')
        with Heard():
            say('unheard')
except KeyboardInterrupt:
    say('until it is heard')
""",
    "an error, then": """
try:
    with Held():
        press(); raise ValueError
except ValueError:
    say('an error,')
try:
    with Held():
        pass
except KeyboardInterrupt:
    say('then')
""",
    "at once, whatever another thread holds": """
def work():
    with Held():
        time.sleep(0.5)
other = threading.Thread(target=work); other.start()
try:
    press(); say('unheard')
except KeyboardInterrupt:
    say('at once, whatever another thread holds')
other.join()
""",
}


@pytest.mark.parametrize("said", DOES)
def test_it_is_raised(said: str) -> None:
    """Each in a process of its own, which ends by itself."""
    ran = subprocess.run(
        [sys.executable, "-c", BEGIN + DOES[said]], env=environment(), capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr, " ".join(ran.stdout.split())) == (0, "", said)


def test_a_process_that_ignores_it_goes_on_to() -> None:
    """As one that a shell has put into the background."""
    script = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n{BEGIN}press(); say('end')"
    ran = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True, check=True)
    assert ran.stdout == "end\n"


def test_pressed_while_a_report_is_written_the_report_is_whole(tmp_path: Path) -> None:
    """And the next target does not run: 130."""
    cases = write_matrix(tmp_path / "cases.toml", tokens=[2, 3], heads=1, head_dim=8)
    asked = ["matrix", str(cases), "--device", "cpu", "--out", str(tmp_path / "out"), "--target"]
    asked += [str(KERNELS / "slow.py"), "--target", f"{KERNELS / 'killer.py'}::bystander"]
    script = f"""
import os, signal, sys
from kvcheck.cli.main import main
from kvcheck.report import write
replace = write.replace
def pressed(path, data):
    if path.name == "report.json":
        os.kill(os.getpid(), signal.SIGINT)
    replace(path, data)
write.replace = pressed
sys.argv[1:] = {asked!r}
main()
"""
    ran = subprocess.run(
        [sys.executable, "-c", script], env=environment(), capture_output=True, text=True, check=False, timeout=120
    )
    assert (ran.returncode, ran.stderr) == (130, "")
    assert "stopped with Ctrl-C" in ran.stdout
    (report,) = reports_in(tmp_path / "out").values()
    assert (report.target.name, report.summary) == ("slow", {"pass": 2})


def test_pressed_while_a_case_is_confirmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pressed five times: what the forks have shown is reported, and the fresh interpreter, which hangs, is gone."""
    monkeypatch.setenv("KVCHECK_TEST_STUCK", f"wrong:{tmp_path / 'loaded'}")
    cases = write_matrix(tmp_path / "cases.toml", tokens=[2, 3], heads=1, head_dim=8)
    process = start("matrix", cases, "--target", KERNELS / "stuck.py", "--device", "cpu", "--out", "out", cwd=tmp_path)
    with process:
        try:
            fresh = wait_for(lambda: [pid for pid in children(process.pid) if "kvcheck.run.fresh" in command_line(pid)])
            out, err = press(process, 5)
        finally:
            process.kill()
    assert (process.returncode, err) == (130, "")
    assert "stopped with Ctrl-C" in out
    (report,) = reports_in(tmp_path / "out").values()
    assert report.summary == {"pass": 1, "mismatch": 1}
    assert not any(map(is_running, fresh))


def press(process: subprocess.Popen[str], times: int, number: int = signal.SIGINT) -> tuple[str, str]:
    """Send a signal to a process's group, again and again; what it printed."""
    for _ in range(times):
        if process.poll() is None:
            os.killpg(process.pid, number)
        time.sleep(0.05)
    return process.communicate(timeout=60)
