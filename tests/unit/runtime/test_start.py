"""How a run begins: a first round, a new one, after a crash, nothing to do; and what is refused before any work."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bus.wire import TaskId
from conductor.config import Flags
from conductor.core.events import RunResumed, RunStarted
from conductor.core.task import Done, Failed
from conductor.errors import ConductorError
from conductor.plan import loads
from conductor.runtime import edits
from conductor.runtime.edits import difference
from conductor.runtime.replay import Replayed
from conductor.runtime.start import Request, begin, would_run
from conductor.testing import Play


def text(*lines: str, more: str = "") -> str:
    nodes = "".join(f"    - {{{line}}}\n" for line in lines)
    return f"```yaml\ndag:\n{more}  nodes:\n{nodes}```\n"


ONE = 'id: "1", name: one, run: [work]'
TWO = 'id: "2", name: two, run: [work], depends_on: ["1"]'


class Track:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, plan: str) -> None:
        (self.folder / "plan.md").write_text(plan)

    def request(self, *, project: str | None = None, **flags: Any) -> Request:
        environ = {"HOME": str(self.folder.parent / "home"), "PATH": "/bin"}
        return Request(self.folder, self.folder / ".message-bus", Flags(**flags), project, environ=environ)


@pytest.fixture
def track(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Track:
    folder = tmp_path / "project" / "track"
    folder.mkdir(parents=True)
    (folder.parent / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    made = Track(folder)
    made.write(text(ONE, TWO))
    return made


def never() -> Replayed:
    return Replayed()


def after(track: Track, *ends: str, ended: bool = True) -> Replayed:
    """A journal in which the tasks 1, 2, … ended as said (`ok` or `fails`)."""
    start = begin(track.request(), never())
    assert isinstance(start.first, RunStarted)
    play = Play().start(start.plan, retries=0)
    for number, end in enumerate(ends, start=1):
        play.result(str(number), end)
    if ended:
        assert play.machine.ended
    run = play.machine.state.run
    assert run is not None
    run.project, run.source_sha = start.first.project, start.first.source_sha
    return Replayed(play.machine)


def test_a_first_round_takes_the_plan_as_it_stands(track: Track) -> None:
    start = begin(track.request(), never())
    assert isinstance(start.first, RunStarted)
    assert start.places.project == str(track.folder.parent)
    assert [task.id for task in would_run(start, never())] == ["1", "2"]
    assert not start.notes


def test_nothing_to_do_where_all_is_done(track: Track) -> None:
    assert begin(track.request(), after(track, "ok", "ok")).first is None


def test_a_new_round_takes_what_is_not_done_and_says_what_changed(track: Track) -> None:
    replayed = after(track, "ok", "fails")
    assert {type(task.status) for task in replayed.machine.state.order} == {Done, Failed}
    track.write(text(ONE, TWO.replace("[work]", "[work, harder]"), 'id: "3", name: three, run: [work]'))
    start = begin(track.request(), replayed)
    assert isinstance(start.first, RunStarted)
    assert [task.id for task in would_run(start, replayed)] == ["2", "3"]
    assert start.notes == ("new in plan.md: 3", "changed in plan.md: 2")


def test_a_changed_task_that_is_done_is_not_run_again_and_that_is_said(track: Track) -> None:
    track.write(text(ONE.replace("[work]", "[work, harder]"), TWO))
    changed = (track.folder / "plan.md").read_text()
    for end in ("ok", "fails"):
        track.write(text(ONE, TWO))
        replayed = after(track, "ok", end)
        track.write(changed)
        start = begin(track.request(), replayed)
        assert start.notes == ("changed in plan.md: 1", "done tasks are not run again, although they changed: 1")


def test_what_was_given_for_nothing_is_noted(track: Track) -> None:
    assert begin(track.request(agent="claude"), never()).notes == (
        "the agent claude is not used: every task has a command",
    )
    (track.folder / "conductor.toml").write_text('agent = "claude"\n')
    assert "not used" in begin(track.request(), never()).notes[0]
    track.write(text('id: "1", name: one'))
    (note,) = begin(track.request(command="work {nope}"), never()).notes[:1]
    assert note.startswith("unknown placeholders of the command stay as they are: {nope}; known: ")


def test_after_a_crash_the_run_goes_on_with_its_own_plan(track: Track) -> None:
    replayed = after(track, "ok", ended=False)
    track.write(text(ONE))
    start = begin(track.request(max_workers=2), replayed)
    assert isinstance(start.first, RunResumed)
    assert [task.id for task in start.plan.tasks] == ["1", "2"]
    assert start.options.max_workers == 2
    assert any("edited" in note for note in start.notes)


def test_after_a_crash_a_plan_that_is_broken_now_stops_nobody(track: Track) -> None:
    replayed = after(track, "ok", ended=False)
    track.write("nothing here")
    start = begin(track.request(), replayed)
    assert start.goes_on
    assert any("cannot be read" in note for note in start.notes)


def test_ticks_and_prose_are_no_edit(track: Track) -> None:
    replayed = after(track, "ok", ended=False)
    track.write("# A title\n\n" + text(ONE, TWO) + "- [x] Task 1: one\n")
    assert not begin(track.request(), replayed).notes


def test_the_project_of_the_first_start_holds(track: Track, tmp_path: Path) -> None:
    replayed = after(track, "ok", "fails")
    assert begin(track.request(), replayed).places.project == str(track.folder.parent)
    assert begin(track.request(project=str(track.folder.parent)), replayed).first is not None
    with pytest.raises(ConductorError, match="since its first start") as caught:
        begin(track.request(project=str(tmp_path)), replayed)
    assert caught.value.code == "usage"
    project = shlex.quote(str(track.folder.parent))
    assert f"`conductor run TRACK --project {project}`" in str(caught.value.hint)


@pytest.mark.parametrize("ended", [False, True])
def test_a_track_that_was_moved_takes_its_project_along_and_a_copy_does_not(
    track: Track, tmp_path: Path, ended: bool
) -> None:
    track.write(text(ONE, TWO, more="  project: .\n"))
    replayed = after(track, "ok", *["fails"] if ended else [], ended=ended)
    copy = Track(tmp_path / "copy")
    shutil.copytree(track.folder, copy.folder)
    with pytest.raises(ConductorError, match="since its first start") as caught:
        begin(copy.request(), replayed)
    assert caught.value.code == "usage"
    moved = Track(track.folder.rename(tmp_path / "moved"))
    assert begin(moved.request(), replayed).places.project == str(moved.folder)


def test_a_project_that_is_gone_is_said_before_any_work(track: Track, tmp_path: Path) -> None:
    replayed = after(track, "ok", ended=False)
    track.folder.rename(tmp_path / "track")
    (track.folder.parent / ".git").rmdir()
    track.folder.parent.rmdir()
    with pytest.raises(ConductorError, match="is not there"):
        begin(Track(tmp_path / "track").request(), replayed)


@pytest.mark.parametrize(
    ("flags", "code", "part"),
    [
        ({"only": ("9",)}, "unknown_task", "'9'"),
        ({"only": ("2",)}, "usage", "leaves out 1"),
        ({"timeout": "soon"}, "usage", "--timeout"),
    ],
)
def test_wrong_flags_are_refused_before_any_work(track: Track, flags: dict[str, Any], code: str, part: str) -> None:
    with pytest.raises(ConductorError, match=part) as caught:
        begin(track.request(**flags), never())
    assert caught.value.code == code
    assert not (track.folder / ".message-bus").exists()


@pytest.mark.parametrize(
    ("limit", "code"),
    [
        ("max_tasks: 1", "task_count_exceeded"),
        ("max_fan_out: 0", "fan_out_exceeded"),
        ("max_join_width: 0", "join_width_exceeded"),
    ],
)
def test_requirement_limits_are_checked_before_any_work(track: Track, limit: str, code: str) -> None:
    track.write(text(ONE, TWO, more=f"  limits: {{{limit}}}\n"))
    with pytest.raises(ConductorError) as caught:
        begin(track.request(), never())
    assert caught.value.code == code


def test_only_names_what_this_round_runs(track: Track) -> None:
    start = begin(track.request(only=("1",)), never())
    assert [task.id for task in would_run(start, never())] == ["1"]


def test_only_may_leave_out_what_is_done(track: Track) -> None:
    replayed = after(track, "ok", "fails")
    assert begin(track.request(only=("2",)), replayed).first is not None


def test_a_task_that_is_done_needs_no_worker_any_more(track: Track) -> None:
    replayed = after(track, "ok", "fails")
    track.write(text('id: "1", name: one', TWO))
    assert begin(track.request(), replayed).first is not None


def test_difference_says_each_kind_once() -> None:
    before = loads(text(ONE, TWO))
    assert difference(before, before) == ()
    assert difference(before, loads(text(ONE))) == ("removed in plan.md: 2",)
    more = "  limits: {max_workers: 2}\n"
    assert difference(before, loads(text(ONE, TWO, more=more))) == ("changed in plan.md: limits",)
    many = loads(text(*(f'id: "{n}", name: n, run: [work]' for n in range(12))))
    assert difference(loads(text('id: "0", name: n, run: [work]')), many)[0].endswith("and 1 more")


def test_ticked_tasks_are_done_only_when_asked_for(track: Track) -> None:
    track.write(text(ONE, TWO) + "- [x] Task 1: one\n")
    assert begin(track.request(), never()).options.ticked_done == ()
    assert begin(track.request(skip_ticked=True), never()).options.ticked_done == (TaskId("1"),)


def test_requirement_33_an_edit_found_at_a_start_is_told_and_recorded_once(track: Track) -> None:
    replayed = after(track, "ok", ended=False)
    assert begin(track.request(), replayed).edit is None
    track.write(text(ONE))
    start = begin(track.request(), replayed)
    assert start.edit is not None
    assert start.edit.changes == ("removed in plan.md: 2",)
    replayed.machine.replay(start.edit, 1.0)
    again = begin(track.request(), replayed)
    assert again.edit is None, "recorded twice"
    assert again.notes == start.notes, "it is still told"


def test_a_plan_that_is_the_same_file_is_not_read_again(track: Track, monkeypatch: pytest.MonkeyPatch) -> None:
    replayed = after(track, "ok", ended=False)
    monkeypatch.setattr(edits, "load", lambda track: pytest.fail("it was read"))
    assert begin(track.request(), replayed).goes_on


def test_who_takes_a_run_over_to_stop_it_needs_neither_project_nor_plan(track: Track) -> None:
    replayed = after(track, "ok", ended=False)
    run = replayed.run
    assert run is not None
    run.project = "/not/there"
    (track.folder / "plan.md").unlink()
    start = begin(replace(track.request(), to_stop=True), replayed)
    assert (start.goes_on, start.edit, start.notes) == (True, None, ())


def test_a_journal_of_before_the_plans_file_was_noted_is_read_to_compare(track: Track) -> None:
    replayed = after(track, "ok", ended=False)
    assert replayed.run is not None
    replayed.run.source_sha = None
    assert begin(track.request(), replayed).edit is None
    track.write(text(ONE))
    assert begin(track.request(), replayed).edit is not None
