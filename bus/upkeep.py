"""What the host writes around the journal: orders to stop, views. Nothing is worth ending for; it is done later."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from bus import layout, presence, texts
from bus._fs import Refused, passes
from bus.chores import Chores
from bus.contract import Claim
from bus.folders import Folders
from bus.locks import odd_marks
from bus.quarantine import Quarantine
from bus.room import Room
from bus.wire import AttemptId, JsonObject, TaskId, dumps

CLAIMS_AT_ONCE = 32
"""Tasks whose names one look for claims asks for; more take turns, so that a look costs the same for any number."""

_CLAIMED = ("TASK_COMPLETE", "TASK_FAILED", "TASK_BLOCKED")

MAX_CLAIM = 4096
"""Bytes of a hand-made claim at most; an empty file says all that is needed."""

_Mark = tuple[int, int, int]
"""Inode, size and time of the last change: what tells a file that we wrote from one that somebody rewrote."""

_NOTHING: _Mark = (0, 0, 0)
"""The mark of what is not there."""


class Upkeep:
    """The host's hand for files that follow from the journal, or go with it."""

    def __init__(self, folders: Folders, quarantine: Quarantine) -> None:
        self._folders = folders
        self._fs = folders.fs
        self._quarantine = quarantine
        self._chores = Chores(self._lost)
        self._views: dict[str, tuple[bytes, _Mark]] = {}
        self.room = Room(folders)
        self._holder: JsonObject = {}
        self._paused: str | None = None
        """What the disk lacks."""
        self._held_up: str | None = None
        """What else is in the way of starting anything."""
        self._turn = 0
        self._settled: dict[str, _Mark] = {}
        """Claims that are recorded and could not be set aside, as they were then."""
        self.owner = ""
        """Owner of the scratch files made here: the epoch."""

    def _lost(self, error: OSError) -> None:
        self.room.lost(error)

    def again(self) -> None:
        """Do what could not be done before, and put back folders that somebody removed or replaced."""
        self._chores.again()
        for name in layout.FOLDERS:
            with suppress(OSError):  # the next look will do
                self._folders.refresh(name)

    def look_at_disk(self) -> str | None:
        """Return why the bus cannot be written now. `conductor.json` says it too, if that can be written at all."""
        lacking = self.room.look(self.owner)
        if lacking != self._paused:
            self._paused = lacking
            self._chores.do(layout.HOLDER, self._write_holder)
        return lacking

    def tell_pause(self, why: str | None) -> None:
        """Say in `conductor.json` why nothing is started, though the disk has room."""
        if why != self._held_up:
            self._held_up = why
            self._chores.do(layout.HOLDER, self._write_holder)

    def write_holder(self, about: JsonObject) -> None:
        """Say who holds the track, in `conductor.json`, now or as soon as the disk has room."""
        self._holder = about
        self._chores.do(layout.HOLDER, self._write_holder)

    def _write_holder(self) -> None:
        paused = self._paused or self._held_up
        about = self._holder if paused is None else {**self._holder, "paused": paused}
        with suppress(FileNotFoundError):  # our scratch, swept by whoever took the track over
            self.replace(layout.HOLDER, dumps(about).encode() + b"\n")

    # --- attempts ---------------------------------------------------------------------------------------------------

    def revoke(self, attempt: AttemptId, reason: str) -> None:
        """Write `revoked`, now or as soon as the disk has room. The signal that goes with it says the same."""
        self._chores.do(("revoked", attempt), lambda: self._revoke(attempt, reason))

    def _revoke(self, attempt: AttemptId, reason: str) -> None:
        try:
            at = self._folders.attempt(attempt)
        except FileNotFoundError:
            return
        try:
            body = dumps({"reason": reason}).encode() + b"\n"
            tmp = self._folders.refresh(layout.TMP)
            self._fs.publish(f"{self.owner}.revoked", tmp, layout.REVOKED, at, body)
        finally:
            self._fs.close(at)

    def close_attempt(self, attempt: AttemptId) -> None:
        """Remove heartbeat and status, now or later. An order to stop that is still unwritten has no use any more."""
        self._chores.drop(("revoked", attempt))
        self._chores.do(("presence", attempt), lambda: self._forget(attempt))

    def disown(self, attempt: AttemptId, reason: str) -> None:
        """Set aside the result of an attempt, and forget its beats: nobody can judge them."""
        self._chores.do(("presence", attempt), lambda: self._forget(attempt))
        with suppress(FileNotFoundError):
            at = self._folders.attempt(attempt)
            try:
                self.evict(layout.EXIT, at, reason)
            finally:
                self._fs.close(at)

    def _forget(self, attempt: AttemptId) -> None:
        for folder, name in presence.traces(attempt):
            at = self._folders.refresh(folder)
            try:
                self._fs.discard(name, at)
            except OSError as error:
                if passes(error):
                    raise
                self.evict(name, at, f"what was in {folder}/ is no file of a worker")

    def deliver(self, attempt: AttemptId, name: str, data: bytes) -> None:
        """Lay a text into the attempt's `in/`, now or later."""
        layout.check_text_name(name)
        self._chores.do(("text", attempt, name), lambda: texts.deliver(self._folders, self.owner, attempt, name, data))

    def remove(self, folder: str, names: Iterable[str]) -> None:
        """Remove grants or waits that are over, now or later."""
        for name in names:
            self._chores.do((folder, name), lambda name=name: self._remove(folder, name))  # type: ignore[misc]

    def _remove(self, folder: str, name: str) -> None:
        at = self._folders.refresh(folder)
        try:
            self._fs.discard(name, at)
        except OSError as error:
            if passes(error):
                raise
            self.evict(name, at, f"what was in {folder}/ is no file")

    def drop_locks(self, attempt: AttemptId) -> None:
        """Remove all grants and waits of an attempt that is over."""
        for folder in (layout.LOCKS, layout.WAITS):
            names = self._folders.shown(folder)
            self.remove(folder, [name for name in names if name.startswith(f"{attempt}.")])

    def expel_from_locks(self, bad: Iterable[str] = ()) -> None:
        """Set aside what is no grant, and what stands in the place of mutex or count: nobody could lock anything."""
        self.expel(layout.LOCKS, [*bad, *odd_marks(self._folders)])

    def expel(self, folder: str, names: Iterable[str]) -> None:
        """Set aside what is neither grant nor wait, where it lies among them."""
        for name in names:
            with suppress(OSError):
                self.evict(name, self._folders.refresh(folder), f"this is none of the files that {folder}/ is for")

    # --- views ------------------------------------------------------------------------------------------------------

    def write_view(self, name: str, view: JsonObject) -> None:
        """Replace a view where it has changed; what somebody else wrote in its place is kept and told of."""
        body = dumps(view).encode() + b"\n"
        try:
            known = self._views.get(name)
            if known is not None and known[1] == self._mark(name, self._folders.root):
                if known[0] == body:
                    return
            elif known is not None:
                self._quarantine.take(name, self._folders.root, "somebody else has written to a view", foreign=True)
            self.replace(name, body)
            self._views[name] = (body, self._mark(name, self._folders.root))
        except FileNotFoundError:  # our scratch, swept by whoever took the track over: the next look says so
            return
        except OSError as error:
            if not passes(error):
                raise
            self.room.lost(error)

    def replace(self, name: str, body: bytes) -> None:
        """Put a whole file into the bus's own folder."""
        tmp = self._folders.refresh(layout.TMP)
        self._quarantine.replace(f"{self.owner}.{name}", tmp, name, self._folders.root, body)

    def _mark(self, name: str, at: int) -> _Mark:
        try:
            found = self._fs.stat(name, at=at)
        except FileNotFoundError:
            return _NOTHING
        return found.st_ino, found.st_size, found.st_mtime_ns

    # --- foreign hands ----------------------------------------------------------------------------------------------

    def look_for_claims(
        self,
        running: Mapping[TaskId, AttemptId],
        manual: Sequence[TaskId],
        expects: Callable[[TaskId, str], bool],
    ) -> tuple[Claim, ...]:
        """Return what people claim of `manual` tasks by hand-made files in `events/`; set aside those that speak of a
        task whose attempt runs, as only its end counts, and those that say two things.

        They are asked for by name, so that a look costs nothing that grows with the history. `expects` tells which
        (task, type) the journal itself asks for.
        """
        if not running and not manual:
            return ()
        try:
            events = self._folders.refresh(layout.EVENTS)
        except OSError:  # the next look will do
            return ()
        tasks = [*running, *manual]
        first = self._turn % len(tasks)
        turn = (tasks[first:] + tasks[:first])[:CLAIMS_AT_ONCE]
        self._turn = first + len(turn)
        claims: list[Claim] = []
        for task in turn:
            names = [(type, layout.event_name(type, task)) for type in _CLAIMED if not expects(task, type)]
            found = [(type, name) for type, name in names if self._is_claimed(name, events)]
            if task in running:
                reason = f"a hand-made claim: {running[task]} is running, and only its own end counts"
                self._evict_claims(found, events, reason, task, running[task])
            elif len(found) > 1 or any(type == "TASK_BLOCKED" for type, _ in found):
                reason = f"a hand-made claim about {task} that is neither TASK_COMPLETE nor TASK_FAILED alone"
                self._evict_claims(found, events, reason, task, None)
            else:
                claims += [claim for type, name in found if (claim := self._claim(task, type, name, events))]
        return tuple(claims)

    def settle_claims(self, claims: Iterable[tuple[Claim, str]], expects: Callable[[TaskId, str], bool]) -> None:
        """Set recorded claims aside, each for its reason, but for those in whose place the event is that they claim."""
        for claim, reason in claims:
            if expects(claim.task, claim.type):
                continue
            with suppress(OSError):  # it is gone, or the next look records it once more
                events = self._folders.refresh(layout.EVENTS)
                self._settled[claim.name] = self._mark(claim.name, events)
                self.evict(claim.name, events, reason, task=claim.task)

    def _is_claimed(self, name: str, events: int) -> bool:
        """Tell whether there is a claim of this name that was not recorded before."""
        mark = self._mark(name, events)
        if mark == self._settled.get(name):
            return False
        self._settled.pop(name, None)
        return mark != _NOTHING

    def _evict_claims(
        self, found: list[tuple[str, str]], at: int, reason: str, task: TaskId, attempt: AttemptId | None
    ) -> None:
        for _, name in found:
            self.evict(name, at, reason, task=task, attempt=attempt)

    def _claim(self, task: TaskId, type: str, name: str, at: int) -> Claim | None:
        """Read a claim; one that is no small text of ours is set aside."""
        try:
            text = self._fs.read_file(name, at=at, cap=MAX_CLAIM).decode().strip()
        except (Refused, UnicodeDecodeError) as error:
            self.evict(name, at, f"a hand-made claim that cannot be read: {error}", task=task)
            return None
        except OSError:  # taken back, or unreadable now: the next look will tell
            return None
        return Claim(name, task, type, text or None)

    def expel_epoch(self, number: int, check_ours: Callable[[], None]) -> None:
        """Set aside a start of a conductor that no conductor made: because of it no worker would start.

        Whoever takes a track over has the lock before it makes its epoch. So one that was there while the lock was
        still ours afterwards is nobody's; `check_ours` raises BusGone where it is not.
        """
        epochs = self._folders.fd(layout.EPOCHS)
        name = layout.epoch_name(number)
        if self._exists(name, epochs):
            check_ours()
            self.evict(name, epochs, "no conductor made this epoch")

    def _exists(self, name: str, at: int) -> bool:
        try:
            self._fs.stat(name, at=at)
        except FileNotFoundError:
            return False
        return True

    def evict(
        self, name: str, at: int, reason: str, *, task: TaskId | None = None, attempt: AttemptId | None = None
    ) -> None:
        """Set something foreign aside, unless it cannot be moved now or ever: it harms nobody where it is."""
        try:
            self._quarantine.take(name, at, reason, task=task, attempt=attempt)
        except OSError:
            return
