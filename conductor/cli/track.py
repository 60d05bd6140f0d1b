"""From the argument TRACK to the folders that it stands for."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from bus.errors import BusGone, HeldByOther
from conductor.cli.escape import one_line
from conductor.errors import ConductorError, PlanError
from conductor.runtime.paths import check_recordable

BUS_NAME = ".message-bus"

PROGRAM = os.environ.get("CONDUCTOR_PROGRAM") or "conductor"
"""How the user starts us: what hints tell to type. Set by wrappers such as scripts/run."""


@dataclass(frozen=True, slots=True)
class Track:
    """Where a track and its bus are."""

    label: str
    """The argument as it was typed."""
    dir: Path
    """Absolute."""
    bus: Path
    """Absolute; need not exist."""
    bus_dir: str | None = None
    """`--bus-dir` as it was typed."""

    def command(self, verb: str, *arguments: str, options: Sequence[str] = ()) -> str:
        """Return a command line of ours for this track, quoted: what hints tell the user to type.

        Behind `--` stand the arguments from the first on that would be taken for an option.
        """
        options = [*options, "--bus-dir", self.bus_dir] if self.bus_dir else options
        words = [self.label, *arguments]
        plain = list(takewhile(lambda word: not word.startswith("-"), words))
        rest = words[len(plain) :]
        return shlex.join([PROGRAM, verb, *plain, *options, *(["--", *rest] if rest else [])])

    def no_bus(self) -> str:
        """Say that it has no bus, and where one was looked for: so a mistyped or forgotten --bus-dir is seen."""
        forgotten = "" if self.bus_dir else " (if it was run with --bus-dir, give the same again)"
        return f"there is no bus at {one_line(str(self.bus))}{forgotten}"


_COMMAND = re.compile(r"\bconductor ([a-z]+) TRACK((?: --project (?:'[^']*'|\"'\"|[^\s'`\"])+| --[a-z-]+)*)")


def spoken(hint: str, label: str, bus_dir: str | None) -> str:
    """Put the user's own words into a hint that says `conductor VERB TRACK`: those who wrote it know no track."""
    track = Track(label, Path(label), Path(label), bus_dir)
    return _COMMAND.sub(lambda match: track.command(match[1], options=shlex.split(match[2])), hint)


def resolve(label: str, bus_dir: str | None = None) -> Track:
    """Find a track's folders. Raises `plan_missing` where TRACK is no folder, and as `absolute` does."""
    folder = absolute(label, "TRACK")
    bus = folder / BUS_NAME if bus_dir is None else absolute(bus_dir, "--bus-dir")
    try:
        found = folder.is_dir()
        exists = found or folder.exists()
    except (OSError, ValueError) as error:
        raise PlanError("plan_missing", f"cannot look at the track: {error}", path=label) from error
    if not found:
        if exists:
            hint = f"give the folder: {Path(label).parent}" if folder.suffix == ".md" else None
            raise PlanError(
                "plan_missing", "a track is a folder with a plan.md in it, this is a file", path=label, hint=hint
            )
        raise PlanError(
            "plan_missing",
            "no such folder",
            path=label,
            hint=f"check the path, or start one: `{Track(label, folder, bus).command('init')}`",
        )
    return Track(label, folder, bus, bus_dir)


def absolute(path: str, what: str) -> Path:
    """Return a path of the command line as an absolute one. Raises `usage` where it is none that can be recorded."""
    if not path:
        raise ConductorError("usage", f"{what} is empty", hint="give a folder; `.` is the one that you are in")
    try:
        found = Path(path).absolute()
    except FileNotFoundError as error:
        raise ConductorError(
            "usage", f"{what}: the folder that you are in was removed", hint="go to another one, or give a whole path"
        ) from error
    check_recordable(found, what)
    return found


@contextmanager
def taking(track: Track) -> Iterator[None]:
    """Say what to type where another conductor holds the track, or the bus is gone: the bus does not know our words."""
    try:
        yield
    except HeldByOther as error:
        error.hint = error.hint or f"look on with `{track.command('status')}`, or end it with `{track.command('stop')}`"
        raise
    except BusGone as error:
        error.hint = error.hint or (
            f"bring it back, and go on with `{track.command('run')}`; where it was moved to, name it with --bus-dir. "
            "Without it the track begins anew"
        )
        raise


def unknown_task(track: Track, task: str, known: list[str]) -> ConductorError:
    """Make the error for a task id that the plan does not have, naming what is close."""
    from difflib import get_close_matches

    close = get_close_matches(task, known, n=3, cutoff=0.6) or [name for name in known if name.startswith(task)][:3]
    hint = f"did you mean {' or '.join(close)}?" if close else f"`{track.command('status')}` lists them"
    return ConductorError("unknown_task", f"the plan has no task {task!r}", path=track.label, hint=hint)
