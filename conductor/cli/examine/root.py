"""The directory of a bus: whether it is one, ours alone, and of a format that we read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from bus import layout
from bus._fs import FileSystem
from bus.errors import BusError
from bus.folders import Folders, check_parents, check_root
from bus.lock import check_lock_file
from bus.reader import check_format
from bus.room import remedy
from bus.setup import refuse_foreign
from conductor.cli.examine.finding import Finding, fine, note, problem

LEGACY = "legacy-"


class Root:
    """Looks at the directory; afterwards `folders` is open where there is a bus to look into."""

    def __init__(self, bus: Path) -> None:
        self._bus = bus
        self._fs = FileSystem()
        self.folders: Folders | None = None
        self.readable = False
        """Whether its journal may be read: the format is one that we know."""

    def findings(self) -> Iterator[Finding]:
        """Look at the directory, its parents, and FORMAT."""
        yield self._parents()
        try:
            found = os.stat(self._bus, follow_symlinks=False)
        except FileNotFoundError:
            yield fine("bus", f"there is no bus at {self._bus}: `conductor run TRACK` makes it")
            return
        except OSError as error:
            hint = "make the folder above it one that you can write, or name another place with --bus-dir"
            yield problem(BusError.code, f"the bus cannot be made or looked at: {error.strerror}", hint)
            return
        if not stat.S_ISDIR(found.st_mode):
            kind = "a link" if stat.S_ISLNK(found.st_mode) else "no directory"
            hint = "look at what it is; nothing of it was opened. Move it away, or name another place with --bus-dir"
            yield problem(BusError.code, f"{self._bus} is {kind}", hint)
            return
        yield from self._open(found)

    def _parents(self) -> Finding:
        try:
            check_parents(self._fs, str(self._bus))
        except BusError as error:
            return as_problem(error)
        return fine("bus_parents", "nobody else can put another folder in its place")

    def _open(self, found: os.stat_result) -> Iterator[Finding]:
        try:
            folders = Folders(self._fs, str(self._bus), self._fs.open_directory(str(self._bus)))
            names = self._fs.names(folders.root)
        except OSError as error:
            yield problem(BusError.code, f"the bus cannot be opened: {error.strerror}", "run as the user who owns it")
            return
        self.folders = folders
        yield self._safe(found, names)
        yield from self._format(folders, names)
        yield from self._lock(folders)
        old = sorted(name for name in names if name.startswith(LEGACY))
        if old:
            text = f"what an older program left was moved to {', '.join(old)} and is not read"
            yield note("bus_legacy", text, "remove it once nobody needs it")

    def _safe(self, found: os.stat_result, names: list[str]) -> Finding:
        mode = f"mode {stat.S_IMODE(found.st_mode):04o}"
        if layout.FORMAT not in names and found.st_uid == os.geteuid():
            return fine("bus_mode", f"{self._bus} is ours ({mode}); a run that makes it a bus closes it to others")
        try:
            check_root(found, str(self._bus))
        except BusError as error:
            return as_problem(error)
        return fine(
            "bus_mode", f"{self._bus} is ours alone ({mode}): nobody else gets at what is in it, whatever its mode"
        )

    def _format(self, folders: Folders, names: list[str]) -> Iterator[Finding]:
        try:
            format = check_format(folders)
        except BusError as error:
            yield as_problem(error)
            return
        except OSError as error:
            yield problem(BusError.code, f"FORMAT cannot be read: {error.strerror}")
            return
        if format is not None:
            self.readable = True
            yield fine("bus_format", f"format {format.get('major')}.{format.get('minor', 0)}")
        else:
            yield self._not_yet(names)

    def _not_yet(self, names: list[str]) -> Finding:
        """Judge a folder that no conductor of ours has made a bus yet, as the first one will."""
        try:
            refuse_foreign(names, str(self._bus))
        except BusError as error:
            return as_problem(error)
        if layout.JOURNAL in names or layout.EVENTS in names:
            text = "an older program made this bus: `conductor run TRACK` moves it to legacy-N/ and begins"
            return note("bus_older", text)
        return fine("bus", "the folder is empty: `conductor run TRACK` makes it a bus")

    def _lock(self, folders: Folders) -> Iterator[Finding]:
        try:
            check_lock_file(folders)
        except BusError as error:
            yield as_problem(error)
        except OSError as error:
            yield problem(BusError.code, f"the lock cannot be opened: {error.strerror}", remedy(error))


def as_problem(error: BusError) -> Finding:
    """Turn an error of the bus into a finding."""
    place = f"{error.path}: " if error.path else ""
    return problem(error.code, f"{place}{error.message}", error.hint)
