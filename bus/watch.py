"""A hint that something was handed in. The directories are the truth: whoever listens scans, and polls as well.

Only what appears in `inbox/` and `control/` counts; our own reads, and what we remove, wake nobody. Without inotify
watches (ENOSPC, EMFILE), without watchdog, or after the directory was replaced, `working` is False and `why` says why.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bus import layout
from bus.folders import identity

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent
    from watchdog.observers.api import BaseObserver

_JOIN = 5.0


class Watch:
    """Calls `wake` from another thread, soon after something appears. `wake` must be short and must not raise."""

    def __init__(self, root: Path | str, wake: Callable[[], None]) -> None:
        self._paths = [os.path.join(root, folder) for folder in (layout.INBOX, layout.CONTROL)]
        self._held: list[int] = []
        self._wake = wake
        self._observer: BaseObserver | None = None
        self.why: str | None = "not started"
        """Why the watch does not work; None while it does."""

    @property
    def working(self) -> bool:
        """Whether hints can be expected."""
        if self._observer is not None and not self._are_same():
            self.why = "a watched directory was removed or replaced"
        return self.why is None

    def _are_same(self) -> bool:
        try:
            return all(
                identity(os.stat(path)) == identity(os.fstat(fd))
                for path, fd in zip(self._paths, self._held, strict=True)
            )
        except OSError:
            return False

    def start(self) -> None:
        """Begin to watch. Never raises: without hints everything works, only later."""
        try:
            from watchdog.events import FileCreatedEvent, FileMovedEvent, FileSystemEventHandler
            from watchdog.observers import Observer

            # An observer that is stopped while it starts logs an error; it is none, and nobody listens here.
            logging.getLogger("watchdog").addHandler(logging.NullHandler())
            wake = self._wake

            class Handler(FileSystemEventHandler):
                def on_any_event(self, event: FileSystemEvent) -> None:
                    wake()

            observer = Observer()
            # The filter becomes the kernel's mask: without it, each of our own reads would come back as an event.
            for path in self._paths:
                # Held open, so that a directory made in its place cannot have its inode number.
                self._held.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW))
                observer.schedule(Handler(), path, event_filter=[FileCreatedEvent, FileMovedEvent])
            observer.start()
        except (ImportError, OSError) as error:
            self.why = f"no file events ({error}); looking every 250 ms instead"
            self._let_go()
            return
        self._observer = observer
        self.why = None

    def stop(self) -> None:
        """End the watch and its threads."""
        observer, self._observer = self._observer, None
        self.why = "stopped"
        if observer is not None:
            observer.stop()
            observer.join(_JOIN)
        self._let_go()

    def _let_go(self) -> None:
        while self._held:
            os.close(self._held.pop())
