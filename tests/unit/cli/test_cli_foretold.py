"""Whatever a run refuses of the place of its bus, `doctor` and `run --dry-run` foretell, and the run leaves it as it
was (requirements 28 and 34)."""

from __future__ import annotations

import json
import os
import resource
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from bus.errors import BusError
from bus.host import open_host
from conductor.cli.main import run_command_line
from conductor.runtime.track_lock import TrackLock
from tests.hostile import IS_ROOT, SOMEBODY
from tests.integration.tools import listing

PLAN = "# P\n\n```yaml\ndag:\n  nodes:\n    - {id: a, name: one, run: ['true']}\n```\n"


def everybody_above(bus: Path) -> None:
    bus.parent.chmod(0o777)


def everybody_far_above(bus: Path) -> None:
    bus.parent.parent.chmod(0o777)


def a_bus_below_everybody(bus: Path) -> None:
    open_host(bus).close()
    bus.parent.chmod(0o777)


def a_file(bus: Path) -> None:
    bus.touch()


def a_link(bus: Path) -> None:
    (bus.parent / "elsewhere").mkdir()
    bus.symlink_to("elsewhere")


def a_folder_of_somebody(bus: Path) -> None:
    bus.mkdir()
    (bus / "notes").touch()


def an_older_bus_with_more(bus: Path) -> None:
    (bus / "events").mkdir(parents=True)
    (bus / "plan.md").touch()


def open_to_others(bus: Path) -> None:
    open_host(bus).close()
    bus.chmod(0o755)


def another_owner(bus: Path) -> None:
    open_host(bus).close()
    os.chown(bus, SOMEBODY, SOMEBODY)


def an_empty_folder_of_another_owner(bus: Path) -> None:
    bus.mkdir()
    os.chown(bus, SOMEBODY, SOMEBODY)


def a_folder_for_a_lock(bus: Path) -> None:
    open_host(bus).close()
    (bus / "conductor.lock").unlink()
    (bus / "conductor.lock").mkdir()


def a_link_for_a_lock(bus: Path) -> None:
    open_host(bus).close()
    (bus / "conductor.lock").unlink()
    (bus / "conductor.lock").symlink_to("nowhere")


def a_newer_format(bus: Path) -> None:
    open_host(bus).close()
    (bus / "FORMAT").write_text('{"major":2}')


def no_format(bus: Path) -> None:
    open_host(bus).close()
    (bus / "FORMAT").unlink()


def a_journal_that_is_gone(bus: Path) -> None:
    open_host(bus).close()
    (bus / "queue.jsonl").unlink()


def a_folder_for_a_journal(bus: Path) -> None:
    a_journal_that_is_gone(bus)
    (bus / "queue.jsonl").mkdir()


PLACES: list[Callable[[Path], None]] = [
    *(everybody_above, everybody_far_above, a_bus_below_everybody, a_file, a_link, a_folder_of_somebody),
    *(an_older_bus_with_more, open_to_others, a_folder_for_a_lock, a_link_for_a_lock, a_newer_format, no_format),
    *(a_journal_that_is_gone, a_folder_for_a_journal),
    *([another_owner, an_empty_folder_of_another_owner] if IS_ROOT else []),
]


@pytest.fixture
def track(tmp_path: Path) -> Path:
    """Of a plan that can be run."""
    folder = tmp_path / "home" / "track"
    folder.mkdir(parents=True)
    (folder / "plan.md").write_text(PLAN)
    return folder


def foretold(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """What `doctor` finds to be problems."""
    capsys.readouterr()
    code = run_command_line(["doctor", *arguments, "--json"])
    problems = [one for one in json.loads(capsys.readouterr().out)["findings"] if one["level"] == "problem"]
    assert code == (5 if problems else 0)
    assert all(problem["hint"] for problem in problems)
    return [problem["text"] for problem in problems]


@pytest.mark.parametrize("spoil", PLACES, ids=lambda spoil: spoil.__name__)
def test_requirement_34_doctor_foretells_what_a_run_refuses_of_the_place_of_its_bus(
    track: Path, capsys: pytest.CaptureFixture[str], spoil: Callable[[Path], None]
) -> None:
    bus = track / ".message-bus"
    spoil(bus)
    before = listing(track.parent)
    with pytest.raises(BusError) as refused:
        open_host(bus)
    assert foretold(capsys, str(track))
    assert run_command_line(["run", str(track), "--dry-run"]) == 5
    said = capsys.readouterr().err
    assert refused.value.message.partition(":")[0] in said
    assert "hint: " in said
    assert listing(track.parent).keys() - before.keys() <= {"track/.message-bus/conductor.lock"}


def test_requirement_34_a_place_below_folders_that_are_missing_is_foretold(
    track: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    open_to_all, deep = track.parent / "shared", track.parent / "shared" / "a" / "b"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    assert "everybody can write a folder above the bus" in foretold(capsys, str(track), "--bus-dir", str(deep))[0]
    with pytest.raises(BusError, match="everybody can write"):
        open_host(deep)
    assert not list(open_to_all.iterdir())
    open_to_all.chmod(0o755)
    assert foretold(capsys, str(track), "--bus-dir", str(deep)) == []


def test_requirement_34_a_file_among_the_folders_above_is_foretold(
    track: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (track / "file").touch()
    bus = track / "file" / "bus"
    assert "cannot be made or looked at: Not a directory" in foretold(capsys, str(track), "--bus-dir", str(bus))[0]
    assert run_command_line(["run", str(track), "--dry-run", "--bus-dir", str(bus)]) == 5
    assert "the bus cannot be made: Not a directory" in capsys.readouterr().err


@pytest.mark.skipif(IS_ROOT, reason="root may write anywhere")
def test_requirement_34_a_folder_that_nobody_may_write_is_foretold(
    track: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    track.chmod(stat.S_IRUSR | stat.S_IXUSR)
    assert "nothing can be written" in foretold(capsys, str(track))[0]
    track.chmod(0o700)


def test_a_dry_run_takes_an_older_bus_for_none_as_a_run_does(track: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (track / ".message-bus" / "events").mkdir(parents=True)
    assert run_command_line(["run", str(track), "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("would run 1 task")


def test_another_bus_of_the_track_is_foretold(
    track: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = track / "other"
    with closing(TrackLock(track, other)) as lock:
        lock.take()
        monkeypatch.setattr("conductor.runtime.track_lock._bus_of", lambda pid: str(other))
        run_command_line(["doctor", str(track)])
        text = capsys.readouterr().out
    assert f"with the bus {other}: a run with this one is refused" in text
    assert f"--bus-dir {other}" in text


def test_requirement_34_too_few_descriptors_for_any_run_are_foretold(
    track: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = resource.getrlimit
    allowed = 41
    monkeypatch.setattr(
        resource, "getrlimit", lambda what: (allowed, allowed) if what == resource.RLIMIT_NOFILE else real(what)
    )
    assert "a run with 1 worker would be refused: only 41 files may be open" in foretold(capsys, str(track))[0]
    allowed = 49
    assert foretold(capsys, str(track)) == []
    assert run_command_line(["doctor"]) == 0
    assert "a run with 5 workers would be refused: only 49 files may be open" in capsys.readouterr().out
