"""Requirement 37: a worker that starts the conductor on its own track is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.errors import HeldByOther
from conductor.cli.guard import refuse_from_worker
from conductor.cli.track import Track, resolve, taking, unknown_task
from conductor.errors import ConductorError, PlanError


def folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def inside(track: Path, bus: Path | None = None) -> dict[str, str]:
    return {
        "CONDUCTOR_ATTEMPT": "1~1-00000000",
        "CONDUCTOR_TRACK_DIR": str(track),
        "CONDUCTOR_BUS_DIR": str(bus or track / ".message-bus"),
    }


def refused(track: Track, environ: dict[str, str], *, nested: bool = False) -> bool:
    try:
        refuse_from_worker(track, nested=nested, environ=environ)
    except ConductorError as error:
        return error.code == "from_worker"
    return False


def test_req37_the_own_track_is_refused_by_any_name(tmp_path: Path) -> None:
    own = folder(tmp_path / "own")
    (tmp_path / "link").symlink_to(own)
    assert refused(resolve(str(own)), inside(own))
    assert refused(resolve(str(tmp_path / "link")), inside(own))
    assert refused(resolve(str(own), str(tmp_path / "elsewhere")), inside(own))


def test_req37_another_track_on_the_own_bus_is_refused(tmp_path: Path) -> None:
    own, other = folder(tmp_path / "own"), folder(tmp_path / "other")
    assert refused(resolve(str(other), str(own / ".message-bus")), inside(own))


def test_other_tracks_and_other_places_are_allowed(tmp_path: Path) -> None:
    own, other = folder(tmp_path / "own"), folder(tmp_path / "other")
    assert not refused(resolve(str(other)), inside(own))
    assert not refused(resolve(str(own)), {})
    assert not refused(resolve(str(own)), inside(own), nested=True)


def test_req37_the_same_track_in_another_worktree_is_refused(tmp_path: Path) -> None:
    main, tree = folder(tmp_path / "main"), folder(tmp_path / "tree")
    private = folder(main / ".git" / "worktrees" / "tree")
    (private / "commondir").write_text("../..\n")
    (tree / ".git").write_text(f"gitdir: {private}\n")
    own, same, other = folder(main / "tracks/a"), folder(tree / "tracks/a"), folder(tree / "tracks/b")
    assert refused(resolve(str(same)), inside(own))
    assert refused(resolve(str(own)), inside(same))
    assert not refused(resolve(str(other)), inside(own))


def test_a_broken_git_file_allows(tmp_path: Path) -> None:
    own, other = folder(tmp_path / "own"), folder(tmp_path / "other")
    (other / ".git").write_text("gitdir: /nowhere\n")
    assert not refused(resolve(str(other)), inside(own))


def test_a_missing_track_names_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(PlanError) as caught:
        resolve(str(tmp_path / "none"))
    assert caught.value.code == "plan_missing"
    assert caught.value.hint == f"check the path, or start one: `conductor init {tmp_path / 'none'}`"


def test_a_file_for_a_track_names_its_folder(tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text("")
    with pytest.raises(PlanError) as caught:
        resolve(str(tmp_path / "plan.md"))
    assert caught.value.hint == f"give the folder: {tmp_path}"


@pytest.mark.parametrize("label", ["a\0b", "x" * 5000])
def test_an_impossible_path_is_an_error_and_no_crash(label: str) -> None:
    with pytest.raises(PlanError):
        resolve(label)


def test_an_unknown_task_is_named_with_what_is_close(tmp_path: Path) -> None:
    track = resolve(str(tmp_path))
    assert unknown_task(track, "1.10", ["1.1", "2.7"]).hint == "did you mean 1.1?"
    assert unknown_task(track, "zzz", ["1.1"]).hint == f"`conductor status {tmp_path}` lists them"


def test_commands_in_hints_can_be_pasted(tmp_path: Path) -> None:
    track = Track("my track", tmp_path, tmp_path, "a b")
    assert track.command("why", "1 2") == "conductor why 'my track' '1 2' --bus-dir 'a b'"


def test_a_track_that_is_held_says_how_to_look_at_it(tmp_path: Path) -> None:
    with pytest.raises(HeldByOther) as caught, taking(resolve(str(tmp_path), "/tmp/bus")):
        raise HeldByOther("another conductor holds the track")
    assert caught.value.hint is not None
    assert f"`conductor status {tmp_path} --bus-dir /tmp/bus`" in caught.value.hint
