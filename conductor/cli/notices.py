"""What is odd about a run beside its tasks, said in a line each, and only where it is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bus import layout
from bus.errors import BusError
from bus.locks import who_stands_still
from bus.reader import FileReader
from bus.wire import AttemptId
from conductor.cli.escape import shortened
from conductor.cli.held_up import held_up, how_to_free
from conductor.cli.holder import how_to_wake, is_suspended, paused_by
from conductor.cli.load import Loaded
from conductor.cli.put_aside import put_aside, reason_of
from conductor.cli.sleepers import Sleeper, how_to_wake_them, sleepers_of, who_sleeps
from conductor.cli.strangers import strangers_text
from conductor.cli.track import Track
from conductor.core.wording import few, plural, sentence

SHOWN_FROM = (layout.INBOX, layout.CONTROL, layout.ATTEMPTS, layout.QUARANTINE)
"""Folders that `status` looks into, beside the journal."""


@dataclass(frozen=True, slots=True)
class Notices:
    """What somebody who looks on should know."""

    paused: str | None = None
    """Why the conductor can record or start nothing now."""
    wake: str | None = None
    """How to wake the conductor, where it is suspended."""
    sleepers: tuple[Sleeper, ...] = ()
    """Workers that are suspended."""
    strangers: tuple[AttemptId, ...] = ()
    """Attempts that live although the journal does not tell of them."""
    how_to_end_them: str | None = None
    mutex: int | None = None
    """Pid of who stands still with the mutex of the file locks, so that nobody can lock or unlock."""
    missing: tuple[str, ...] = ()
    """Folders of the bus that are not there, and hold what is shown: the picture is without it."""
    put_aside: int = 0
    """Things in quarantine."""
    newest: str | None = None
    """The newest of them, and why it is there."""
    edited: tuple[str, ...] = ()
    """How the plan on disk differs from that of the run."""
    ended: bool = False
    """Whether the run is over, so that the next one applies the edit."""

    def as_data(self) -> dict[str, Any]:
        """Return the keys that `status --json` has for them."""
        quarantine = {"count": self.put_aside, "newest": self.newest}
        return {
            "paused": self.paused,
            "suspended": self.wake is not None,
            "suspended_workers": [{"attempt": one.attempt, "pid": one.pid} for one in self.sleepers],
            "edited": list(self.edited),
            "strangers": list(self.strangers),
            "locks_held_up_by": self.mutex,
            "missing_folders": list(self.missing),
            "quarantine": quarantine,
        }


def notices_of(reader: FileReader, loaded: Loaded) -> Notices:
    """Look for them in a bus."""
    kept = put_aside(reader)
    newest = f"{kept[-1]}: {reason_of(reader, kept[-1])}" if kept else None
    holder = loaded.holder
    return Notices(
        paused=paused_by(reader, holder) if holder else None,
        wake=how_to_wake(holder) if holder and is_suspended(holder) else None,
        sleepers=sleepers_of(reader, filter(None, (task.worker for task in loaded.view.tasks))),
        strangers=loaded.strangers,
        how_to_end_them=strangers_text(loaded),
        mutex=who_stands_still(reader.folders),
        missing=tuple(name for name in SHOWN_FROM if not _can_be_opened(reader, name)),
        put_aside=len(kept),
        newest=newest,
        edited=loaded.view.edited,
        ended=loaded.view.ended_at is not None,
    )


def _can_be_opened(reader: FileReader, name: str) -> bool:
    try:
        return reader.folders.find(name) is not None
    except BusError:
        return False


def lines_of(track: Track, notices: Notices) -> list[str]:
    """Say them to people."""
    lines = []
    if notices.wake is not None:
        lines.append(f"The conductor is suspended and does nothing; its workers go on. {sentence(notices.wake)}")
    if notices.sleepers:
        lines.append(f"{sentence(who_sleeps(notices.sleepers))}; {how_to_wake_them(notices.sleepers)}")
    if notices.paused is not None:
        lines.append(f"Paused: {shortened(notices.paused)}. Workers go on; it goes on by itself once that is over")
    if notices.edited:
        applied = (
            "the next run applies the edit" if notices.ended else "the edit is not applied until this run has ended"
        )
        lines.append(f"The plan was edited since the run began; {applied}")
    if notices.how_to_end_them is not None:
        lines.append(sentence(notices.how_to_end_them))
    if notices.mutex is not None:
        lines.append(f"{sentence(held_up(notices.mutex))}. {sentence(how_to_free(notices.mutex))}")
    if notices.missing:
        what = f"The bus lacks {few([f'{name}/' for name in notices.missing])}, or it cannot be opened"
        lines.append(f"{what}: what was in it is not shown. {track.command('doctor')} says more")
    if notices.newest is not None:
        number = plural(notices.put_aside, "thing")
        lines.append(f"{number} put aside, the newest {shortened(notices.newest, 120)}. All: {track.command('doctor')}")
    return lines
