"""An edit of the plan while its run lasts: noticed, told once, never applied."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from conductor.core.events import PlanEdited
from conductor.core.state import State
from conductor.plan import load, source
from conductor.runtime import edits
from conductor.runtime.edits import PlanEdits
from conductor.testing import Play

PLAN = '```yaml\ndag:\n  nodes:\n    - {id: "1", name: one, run: [work]}\n```\n'


class Track:
    """A track with a run of its plan, and who looks whether the plan was edited."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "plan.md").write_text(PLAN)
        self.play = Play().start(load(folder))
        assert self.state.run is not None
        self.state.run.source_sha = source.fingerprint(folder)
        self.looker = PlanEdits(folder)
        self.now = 0.0
        self.look(3)

    @property
    def state(self) -> State:
        return self.play.machine.state

    def write(self, text: str) -> None:
        (self.folder / "plan.md").write_text(text)

    def look(self, times: int = 1) -> PlanEdited | None:
        """Look again and again, a period apart; what is found is told to the run, as the driver does."""
        found = None
        for _ in range(times):
            self.now += edits.PERIOD
            if edit := self.looker.look(self.now, self.state):
                assert found is None, "told twice"
                found = edit
                self.play.fact(edit)
        return found


@pytest.fixture
def track(tmp_path: Path) -> Track:
    return Track(tmp_path)


def test_requirement_33_an_edit_is_told_once_and_changes_nothing_of_the_run(track: Track) -> None:
    track.write(PLAN.replace("work", "other work"))
    edit = track.look(4)
    assert edit is not None
    assert (edit.source, edit.changes) == ("plan.md", ("changed in plan.md: 1",))
    assert track.play.decided == []
    assert track.play.view.edited == ("changed in plan.md: 1",)
    assert track.state.plan.tasks[0].run == ("work",)
    assert track.look(3) is None


def test_requirement_33_each_edit_is_told_and_taking_it_back_too(track: Track) -> None:
    track.write(PLAN.replace("work", "other work"))
    assert track.look(3) is not None
    track.write(PLAN.replace("one", "uno"))
    assert track.look(3) is not None
    track.write(PLAN)
    back = track.look(3)
    assert back is not None
    assert back.changes == track.play.view.edited == ()
    os.utime(track.folder / "plan.md", ns=(1, 1))
    assert track.look(3) is None


def test_prose_and_ticks_are_no_edit(track: Track) -> None:
    track.write("# Title\n\n" + PLAN + "- [x] Task 1: one\n")
    assert track.look(4) is None


def test_a_file_that_was_only_touched_is_no_edit(track: Track) -> None:
    os.utime(track.folder / "plan.md", ns=(1, 1))
    assert track.look(4) is None


def test_a_file_is_read_only_once_it_has_stopped_changing(track: Track) -> None:
    for number in range(4):
        track.write("half of a plan" + "." * number)
        assert track.look() is None
    track.write(PLAN.replace("work", "other work"))
    edit = track.look(2)
    assert edit is not None
    assert edit.changes == ("changed in plan.md: 1",)


@pytest.mark.parametrize("spoil", [lambda path: path.write_text("nothing"), Path.unlink], ids=["no plan", "removed"])
def test_a_plan_that_cannot_be_read_now_is_told(track: Track, spoil: object) -> None:
    spoil(track.folder / "plan.md")  # type: ignore[operator]
    edit = track.look(3)
    assert edit is not None
    assert "cannot be read now" in edit.changes[0]


def test_a_fifo_in_its_place_blocks_nobody(track: Track) -> None:
    (track.folder / "plan.md").unlink()
    os.mkfifo(track.folder / "plan.md")
    edit = track.look(3)
    assert edit is not None
    assert "cannot be read now" in edit.changes[0]


def test_a_second_plan_beside_it_is_an_edit(track: Track) -> None:
    (track.folder / "dag.yaml").write_text('dag:\n  nodes:\n    - {id: "1", name: one, run: [work]}\n')
    edit = track.look(3)
    assert edit is not None
    assert "two DAGs" in edit.changes[0]


def test_a_large_plan_is_not_read_on_the_way(track: Track, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edits, "MAX_COMPARED", 10)
    monkeypatch.setattr(edits, "load", lambda track: pytest.fail("it was read"))
    track.write(PLAN.replace("work", "other work"))
    edit = track.look(3)
    assert edit is not None
    assert edit.changes == ("plan.md changed; it is too large to be compared while the run lasts",)


def test_looks_are_rare_and_there_is_none_before_a_run(track: Track, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    monkeypatch.setattr(source, "signature", lambda folder: looks.append(track.now) or ())
    looker = PlanEdits(track.folder)
    for now in (10.0, 10.5, 11.9, 12.0, 13.0):
        track.now = now
        looker.look(now, track.state)
    assert looks == [10.0, 12.0]
    assert PlanEdits(track.folder).look(0.0, State()) is None


def test_an_edit_of_a_round_that_is_over_means_nothing(track: Track) -> None:
    track.play.result("1")
    track.play.fact(PlanEdited("plan.md", "0" * 64, ("changed in plan.md: 1",)))
    assert track.state.ignored == {"PLAN_EDITED": 1}


def test_a_new_round_begins_without_an_edit(track: Track) -> None:
    track.write(PLAN.replace("work", "other work"))
    track.look(3)
    track.play.result("1", "fails").timer("1").result("1").start(load(track.folder), retries=0)
    assert track.play.view.edited == ()


def test_requirement_33_a_lack_of_descriptors_is_no_edit_and_hides_none(
    track: Track, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*args: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    again = PlanEdits(track.folder)
    monkeypatch.setattr("conductor.plan.files.os.open", short)
    for _ in range(3):
        track.now += edits.PERIOD
        assert again.look(track.now, track.state) is None
    track.write(PLAN.replace("work", "other work"))
    assert track.look(4) is None
    monkeypatch.undo()
    edit = track.look(2)
    assert edit is not None
    assert edit.changes == ("changed in plan.md: 1",)
