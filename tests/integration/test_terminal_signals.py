"""Requirement 20 on a real terminal: what keys, signals and a closed window do to a run, and how they leave it all.

Whatever happens, the state is consistent: in each case the same command goes on, and every task is done once.
"""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.integration.terminals import Terminal, start_run
from tests.integration.tools import START, Project, wait_for


@pytest.fixture
def terminal(project: Project) -> Iterator[Terminal]:
    """A run of `a` (gated) and `b` behind it, while `a` runs."""
    project.plan([project.task("a", gated=True), project.task("b", after=["a"])])
    made = start_run(project)
    project.wait_started("a")
    made.wait_written("running")
    yield made
    made.close()


def goes_on(project: Project, *, starts_of_a: int) -> None:
    """The same command does the rest, and only the rest."""
    project.open_gate("a")
    project.run().expect(0)
    assert project.statuses() == {"a": "done", "b": "done"}
    assert [project.starts().count(task) for task in "ab"] == [starts_of_a, 1]
    assert sorted(record["task"] for record in project.recorded("TASK_COMPLETE")) == ["a", "b"]


def test_requirement_20_one_ctrl_c_drains(project: Project, terminal: Terminal) -> None:
    terminal.type("^C")
    terminal.wait_written("draining")
    project.open_gate("a")
    assert terminal.finish() == 130
    terminal.check_clean()
    assert project.starts() == ["a"]
    goes_on(project, starts_of_a=1)


def test_requirement_20_two_ctrl_c_stop(project: Project, terminal: Terminal) -> None:
    terminal.type("^C")
    project.wait_recorded("CONTROL")
    terminal.type("^C")
    assert terminal.finish() == 130
    terminal.check_clean()
    assert project.recorded("RUN_ENDED")[-1]["payload"]["reason"] == "stopped"
    goes_on(project, starts_of_a=2)


@pytest.mark.parametrize("presses", [1, 30])
def test_requirement_20_three_ctrl_c_leave_at_once_and_the_next_run_adopts(project: Project, presses: int) -> None:
    project.config('terminate_grace = "1h"\n')
    project.plan([project.task("a", "--stubborn", gated=True), project.task("b", after=["a"])])
    terminal = start_run(project)
    project.wait_started("a")
    for times in (1, 2):
        terminal.type("^C")
        project.wait_recorded("CONTROL", times=times)
    for _ in range(presses):
        terminal.type("^C")
    assert terminal.finish() == 130
    assert "left at once; 1 worker told to stop ends by itself; `" in terminal.written()
    terminal.check_clean()
    terminal.close()
    again = start_run(project)
    project.wait_recorded("ATTEMPT_ADOPTED", "a")
    project.open_gate("a")
    assert again.finish() == 0
    again.check_clean()
    again.close()
    assert project.statuses() == {"a": "done", "b": "done"}


def test_requirement_20_term_is_a_second_ctrl_c(project: Project, terminal: Terminal) -> None:
    terminal.send(signal.SIGTERM)
    assert terminal.finish() == 143
    terminal.check_clean()
    assert project.recorded("RUN_ENDED")[-1]["payload"]["reason"] == "stopped"
    goes_on(project, starts_of_a=2)


def test_requirement_20_a_hangup_changes_nothing(project: Project, terminal: Terminal) -> None:
    terminal.send(signal.SIGHUP)
    terminal.send(signal.SIGHUP)
    project.open_gate("a")
    assert terminal.finish() == 0
    terminal.check_clean()
    assert "All 2 tasks are done" in terminal.written()
    assert not project.recorded("CONTROL")
    assert project.starts() == ["a", "b"]


def test_requirement_20_a_closed_terminal_changes_only_the_screen(project: Project, terminal: Terminal) -> None:
    terminal.hang_up()
    project.open_gate("a")
    assert terminal.finish() == 0
    assert not project.recorded("CONTROL")
    assert project.statuses() == {"a": "done", "b": "done"}
    assert project.starts() == ["a", "b"]


def test_requirement_20_whoever_leaves_without_a_terminal_leaves_with_the_same_code(
    project: Project, terminal: Terminal
) -> None:
    """What is said at the end cannot be said any more; that must not become another exit code."""
    terminal.hang_up()
    terminal.send(signal.SIGINT)
    project.wait_recorded("CONTROL")
    terminal.send(signal.SIGTERM)
    assert terminal.finish() == 143
    goes_on(project, starts_of_a=2)


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["plain", "json"])
def test_requirement_20_a_reader_that_leaves_changes_only_the_screen(
    project: Project, options: tuple[str, ...]
) -> None:
    project.plan([project.task("a"), project.task("b", after=["a"]), project.task("c", after=["b"])])
    program = [sys.executable, "-E", "-P", str(START), "run", str(project.track), *options]
    code = project.root / "code"
    script = f"{{ {shlex.join(program)}; echo $? >{shlex.quote(str(code))}; }} | head -n 1"
    shown = subprocess.run(
        ["sh", "-c", script], env=project.environment(), cwd=project.dir, capture_output=True, text=True, check=True
    )
    assert len(shown.stdout.splitlines()) == 1
    assert shown.stderr == ""
    assert code.read_text().strip() == "0"
    assert set(project.statuses().values()) == {"done"}


def test_requirement_20_ctrl_z_gives_the_terminal_back_and_fg_goes_on(project: Project, terminal: Terminal) -> None:
    terminal.type("^Z")
    terminal.wait_stopped()
    terminal.check_clean()
    stopped = len(terminal.written())
    project.open_gate("a")  # the worker lives on, and ends, while the conductor stands still
    wait_for(lambda: project.ends() == ["a"], "the end of a")
    terminal.foreground()
    assert terminal.finish() == 0
    terminal.check_clean()
    assert project.statuses() == {"a": "done", "b": "done"}
    after = terminal.written()[stopped:]
    assert "\x1b[?25l" in after, "the screen was not taken again"
    assert re.search(r"\x1b\[\d*A", after.partition("\x1b[2K")[0]) is None, "what came meanwhile was drawn over"


def test_requirement_20_a_job_in_the_background_lets_the_terminal_to_others(
    project: Project, terminal: Terminal
) -> None:
    terminal.type("^Z")
    terminal.wait_stopped()
    terminal.check_clean()
    stopped = len(terminal.written())
    terminal.background()
    project.open_gate("a")
    assert terminal.finish() == 0
    terminal.check_clean()
    after = terminal.written()[stopped:]
    assert not re.search(r"\x1b\[(\?25l|2K)", after), "it drew on a terminal that is not its own now"
    assert "All 2 tasks are done" in after


@pytest.mark.parametrize(("columns", "lines"), [(20, 5), (1, 1), (200, 60)])
def test_requirement_20_any_size_of_terminal_will_do(project: Project, columns: int, lines: int) -> None:
    project.plan([project.task("a"), project.shell("b", "exit 1", retries=0)])
    terminal = start_run(project, columns=columns, lines=lines)
    assert terminal.finish() == 1
    terminal.check_clean()
    assert "the live screen failed" not in terminal.written()
    terminal.close()


def test_requirement_20_whoever_looks_on_gives_the_terminal_back(project: Project) -> None:
    project.plan([project.task("a", gated=True)])
    run = project.start_run()
    project.wait_started("a")
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        watching = Terminal(project, "status", str(project.track), "--watch")
        watching.wait_written("running")
        watching.send(number)
        assert watching.finish() == code
        watching.check_clean()
        watching.close()
    project.open_gate("a")
    run.finish().expect(0)
