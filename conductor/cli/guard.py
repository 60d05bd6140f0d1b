"""A worker may look, and talk by `conductor bus`; it may not run or steer the track that it belongs to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from conductor.cli.track import Track
from conductor.errors import ConductorError


def refuse_from_worker(track: Track, *, nested: bool = False, environ: Mapping[str, str] = os.environ) -> None:
    """Raise `from_worker` where this process belongs to a worker and aims at that worker's own track.

    The same track in another worktree of the repository counts as its own; other tracks are allowed. `nested` is the
    flag `--nested`, by which the user says that the run inside a run is meant.
    """
    attempt = environ.get("CONDUCTOR_ATTEMPT")
    if not attempt or nested:
        return
    own_bus, own_track = environ.get("CONDUCTOR_BUS_DIR"), environ.get("CONDUCTOR_TRACK_DIR")
    same_bus = own_bus is not None and _real(Path(own_bus)) == _real(track.bus)
    if same_bus or (own_track is not None and _same_track(Path(own_track), track.dir)):
        raise ConductorError(
            "from_worker",
            f"this is the worker of attempt {attempt}: it may not run or steer its own track",
            path=str(track.dir),
            hint="end your own work and exit; report with `conductor bus complete` or `conductor bus fail MESSAGE`",
        )


def _same_track(one: Path, other: Path) -> bool:
    one, other = _real(one), _real(other)
    if one == other:
        return True
    home, away = _repository(one), _repository(other)
    return home is not None and home == away


def _repository(folder: Path) -> tuple[Path, Path] | None:
    """Name a folder by what all worktrees share: git's common directory, and the path inside the worktree."""
    for top in (folder, *folder.parents):
        mark = top / ".git"
        if mark.is_dir():
            return _real(mark), folder.relative_to(top)
        if mark.is_file():
            common = _common_directory(mark)
            return (common, folder.relative_to(top)) if common else None
    return None


def _common_directory(mark: Path) -> Path | None:
    try:
        private = mark.parent / mark.read_text().removeprefix("gitdir:").strip()
        return _real(private / (private / "commondir").read_text().strip())
    except (OSError, ValueError):
        return None


def _real(path: Path) -> Path:
    return path.resolve()
