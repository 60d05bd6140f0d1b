"""Starting over under the lock: what is recorded, what is left alone, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bus import recovery
from bus.errors import BusGone, HeldByOther
from bus.host import open_host
from bus.reader import open_reader
from conductor.cli.main import run_command_line
from conductor.config import Flags
from conductor.core.view import run_view
from conductor.errors import ConductorError
from conductor.runtime import reset as reset_module
from conductor.runtime.replay import replay
from conductor.runtime.reset import reset
from conductor.runtime.start import Request
from conductor.testing import Play

WHO = "operator:me"


@pytest.fixture
def track(tmp_path: Path, write: Any) -> Request:
    """A track whose tasks a, b (after a) and c are done."""
    request = Request(tmp_path, tmp_path / ".message-bus", Flags())
    host = open_host(request.bus)
    write(host, Play().start("a", "b < a", "c").result("a").result("b").result("c"))
    host.close()
    return request


def statuses(track: Request) -> dict[str, str]:
    return {task.id: task.status for task in run_view(replay(open_reader(track.bus)).machine.state).tasks}


def events(track: Request) -> set[str]:
    return {path.name for path in (track.bus / "events").iterdir() if path.is_file()}


def test_a_task_and_what_depends_on_it_is_taken_back_and_its_events_with_it(track: Request) -> None:
    before = sorted(path.name for path in (track.bus / "events").glob("*"))
    assert "TASK_COMPLETE_b.event" in before
    done = reset(track, ["a"], WHO)
    assert (done.tasks, done.everything, done.stopped) == (("a", "b"), False, False)
    assert statuses(track) == {"a": "ready", "b": "pending", "c": "done"}
    assert events(track) == {"TASK_COMPLETE_c.event"}
    last = list(open_reader(track.bus).records())[-1]
    assert (last.type, last.source) == ("CONTROL", WHO)
    assert (last.payload["verb"], last.payload["who"]) == ("reset", WHO)
    assert (last.payload["target"], last.payload["tasks"]) == ("a", ["a", "b"])


def test_a_reset_keeps_the_snapshot_that_its_long_start_made_due(
    track: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "TAIL", 10)
    reset(track, ["a"], WHO)
    [snapshot] = open_reader(track.bus).snapshots()
    assert snapshot.seq == list(open_reader(track.bus).records())[-1].seq
    assert replay(open_reader(track.bus)).digest() == replay(open_reader(track.bus), whole=True).digest()


def test_two_tasks_are_two_records_and_each_task_is_named_once(track: Request) -> None:
    assert reset(track, ["c", "b"], WHO).tasks == ("b", "c")
    assert [record.payload["target"] for record in open_reader(track.bus).records() if record.type == "CONTROL"] == [
        "b",
        "c",
    ]


def test_everything_is_forgotten_but_the_numbers_of_attempts(track: Request) -> None:
    assert reset(track, [], WHO).tasks == ("a", "b", "c")
    found = replay(open_reader(track.bus))
    assert found.run is None
    assert found.machine.state.retired == {"a": 1, "b": 1, "c": 1}
    assert events(track) == set()
    assert reset(track, [], WHO).tasks == ()


def test_an_unknown_task_and_a_track_that_never_ran(track: Request, tmp_path: Path) -> None:
    with pytest.raises(ConductorError) as caught:
        reset(track, ["a", "x"], WHO)
    assert caught.value.code == "unknown_task"
    assert statuses(track) == {"a": "done", "b": "done", "c": "done"}
    with pytest.raises(BusGone):
        reset(Request(tmp_path, tmp_path / "none", Flags()), [], WHO)


def test_nothing_is_reset_under_a_conductor(track: Request) -> None:
    host = open_host(track.bus)
    with pytest.raises(HeldByOther):
        reset(track, [], WHO)
    host.close()


def test_the_run_of_a_conductor_that_died_is_ended_first_though_its_project_is_gone(tmp_path: Path, write: Any) -> None:
    """Whoever starts over has often removed the project too."""
    track = Request(tmp_path, tmp_path / ".message-bus", Flags())
    host = open_host(track.bus)
    write(host, Play().start("a", "b < a").result("a"))  # b is dispatched, and nobody knows more
    host.close()
    done = reset(track, [], WHO)
    assert (done.tasks, done.stopped) == (("a", "b"), True)
    found = replay(open_reader(track.bus))
    assert found.run is None
    assert found.machine.state.retired == {"a": 1, "b": 1}


def test_the_next_run_does_it_all_again_with_attempts_numbered_on(tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text('```yaml\ndag:\n  nodes:\n    - {id: "1", name: one, run: ["true"]}\n```\n')
    track = Request(tmp_path, tmp_path / ".message-bus", Flags())
    assert run_command_line(["run", str(tmp_path), "--quiet"]) == 0
    reset(track, [], WHO)
    assert run_command_line(["run", str(tmp_path), "--quiet", "--project", str(tmp_path)]) == 0
    attempts = [r.attempt for r in open_reader(track.bus).records() if r.type == "WORKER_DISPATCHED"]
    assert [str(one)[:3] for one in attempts] == ["1~1", "1~2"]


def test_a_run_that_began_and_died_before_the_track_was_held_is_ended_too(
    track: Request, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the first look and the lock: a reset under way of a run would be recorded and mean nothing."""
    end_crashed_run, meanwhile = reset_module._end_crashed_run, ["x", "y < x"]

    def late(request: Request, who: str) -> bool:
        found = end_crashed_run(request, who)
        if meanwhile:
            host = open_host(track.bus)
            plan, _ = meanwhile.copy(), meanwhile.clear()
            write(host, Play().start(*plan))
            host.close()
        return found

    monkeypatch.setattr(reset_module, "_end_crashed_run", late)
    done = reset(track, [], WHO)
    assert (done.tasks, done.stopped) == (("x", "y"), True)
    assert replay(open_reader(track.bus)).run is None
