"""A hint that something was handed in. The directories are the truth: whoever listens scans, and polls as well.

Only what appears in `inbox/` and `control/` counts; our own reads, and what we remove, wake nobody. Heartbeats, logs
and status are not watched. Without inotify watches (ENOSPC, EMFILE) or without watchdog there are no hints, `why` says
why, and it is tried again now and then. A folder that was replaced, a thread that died: the watch begins anew.

Whether hints come at all is proved now and then, by a hidden file made and removed in each folder: threads die in
silence, and some file systems deliver nothing.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bus import layout
from bus.folders import identity

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent
    from watchdog.observers.api import BaseObserver

RETRY = 60.0
"""Seconds between two tries to watch again where the first did not help, and between two proofs of a watch."""

ECHO = 1.0
"""Seconds after which the event of a proof must have come."""

PROOF = ".watch"

_JOIN = 5.0


def _nothing(_: str) -> None:
    """Say nothing."""


class Watch:
    """Calls `wake` from another thread, soon after something appears. `wake` must be short.

    `say` is told once when there are no hints any more, and once when there are again.
    """

    def __init__(self, root: Path | str, wake: Callable[[], None], say: Callable[[str], None] = _nothing) -> None:
        self._paths = [os.path.join(root, folder) for folder in (layout.INBOX, layout.CONTROL)]
        self._held: list[int] = []
        self._wake = wake
        self._say = say
        self._observer: BaseObserver | None = None
        self._failed: str | None = None
        """What `wake` raised, in the thread of the watch."""
        self._heard: dict[str, int] = {}
        """Events by folder, counted in the thread of the watch."""
        self._proved: dict[str, int] | None = None
        """What was heard when the last proof was begun; None where no echo is waited for."""
        self._proof_at = self._try_at = 0.0
        self._said = False
        self.why: str | None = "not started"
        """Why the watch does not work; None while it does."""

    @property
    def working(self) -> bool:
        """Whether hints can be expected."""
        return self._trouble() is None

    def start(self) -> None:
        """Begin to watch. Never raises: without hints everything works, only later."""
        self.why = self._begin()
        self._try_at = time.monotonic() + RETRY
        if self.why is None:
            self._prove()
        self._tell()

    def tend(self) -> bool:
        """Tell whether hints can be expected, after beginning anew where the watch had stopped to work.

        To be called before each sleep: it costs a look at the folders.
        """
        now = time.monotonic()
        if self._observer is not None:
            silent = not self._echo_came(now)
            if not silent and self._trouble() is None:
                return True
            self._end()
            if silent and 0 in self._heard.values():  # it never worked, so to begin anew is of no use
                self.why = "no file events arrive; looking every 250 ms instead"
                self._try_at = now + RETRY
                self._tell()
                return False
        elif now < self._try_at:
            return False
        self.start()
        return self.why is None

    def _prove(self) -> None:
        """Make and remove a file in each folder, which must be heard. Nothing where that is impossible now."""
        self._proof_at = time.monotonic()
        self._proved = dict(self._heard)
        try:
            for fd in self._held:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(PROOF, dir_fd=fd)
                os.close(os.open(PROOF, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=fd))
                os.unlink(PROOF, dir_fd=fd)
        except OSError:
            self._proved = None

    def _echo_came(self, now: float) -> bool:
        """Tell whether each folder was heard since the last proof; begin another where the last is long ago."""
        if self._proved is not None and now - self._proof_at >= ECHO:
            proved, self._proved = self._proved, None
            if any(self._heard[path] == count for path, count in proved.items()):
                return False
        if now - self._proof_at >= RETRY:
            self._prove()
        return True

    def stop(self) -> None:
        """End the watch and its threads."""
        self._end()
        self.why = "stopped"

    def _trouble(self) -> str | None:
        """Return why no hints can be expected; None where they can."""
        observer = self._observer
        if observer is None:
            return self.why
        if self._failed is not None:
            return self._failed
        if not observer.is_alive() or not all(emitter.is_alive() for emitter in observer.emitters):
            return "the watch has died"
        return None if self._are_same() else "a watched folder was removed or replaced"

    def _are_same(self) -> bool:
        try:
            return all(
                identity(os.stat(path)) == identity(os.fstat(fd))
                for path, fd in zip(self._paths, self._held, strict=True)
            )
        except OSError:
            return False

    def _begin(self) -> str | None:
        """Watch the folders; return why that is impossible, None where it is not."""
        self._failed, self._proved = None, None
        self._heard = dict.fromkeys(self._paths, 0)
        observer: BaseObserver | None = None
        try:
            from watchdog.events import FileCreatedEvent, FileMovedEvent, FileSystemEventHandler
            from watchdog.observers import Observer

            # An observer that is stopped while it starts logs an error; it is none, and nobody listens here.
            logging.getLogger("watchdog").addHandler(logging.NullHandler())
            on_event = self._on_event

            class Handler(FileSystemEventHandler):
                def __init__(self, folder: str) -> None:
                    self._folder = folder

                def on_any_event(self, event: FileSystemEvent) -> None:
                    on_event(self._folder)

            observer = Observer()
            # The filter becomes the kernel's mask: without it, each of our own reads would come back as an event.
            for path in self._paths:
                # Held open, so that a directory made in its place cannot have its inode number.
                self._held.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))
                observer.schedule(Handler(path), path, event_filter=[FileCreatedEvent, FileMovedEvent])
            observer.start()
        except (ImportError, OSError, RuntimeError) as error:  # RuntimeError: no thread can be started
            if observer is not None:
                with contextlib.suppress(Exception):  # those that had started; it failed anyway
                    observer.unschedule_all()
            self._let_go()
            return f"no file events ({error}); looking every 250 ms instead"
        self._observer = observer
        return None

    def _on_event(self, folder: str) -> None:
        """Wake, in the thread of the watch. What is raised here would end that thread, and nobody would know."""
        self._heard[folder] += 1
        try:
            self._wake()
        except Exception as error:
            self._failed = f"the watch could not wake the conductor: {error}"

    def _end(self) -> None:
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.stop()
            observer.join(_JOIN)
        self._let_go()

    def _tell(self) -> None:
        if self.why is not None and not self._said:
            self._say(self.why)
        elif self.why is None and self._said:
            self._say("file events work again")
        self._said = self.why is not None

    def _let_go(self) -> None:
        while self._held:
            os.close(self._held.pop())
