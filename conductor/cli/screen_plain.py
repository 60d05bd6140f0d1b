"""`run` where stdout is no terminal: one plain line an event. With `--quiet` only the summary at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

from bus.contract import Reader
from bus.wire import Record, TaskId
from conductor.cli.escape import one_line, shortened
from conductor.cli.output import wants_colour
from conductor.cli.phrases import BEGINS, is_question, phrase
from conductor.cli.sink import Sink
from conductor.cli.summary import nothing_to_do, summary
from conductor.cli.track import Track
from conductor.cli.way_on import way_on
from conductor.core.view import RunView
from conductor.core.wording import duration

SHOWN = frozenset(
    {
        "RUN_STARTED",
        "RUN_RESUMED",
        "ATTEMPT_ADOPTED",
        "WORKER_DISPATCHED",
        "STOP",
        "RETRY_SCHEDULED",
        "TASK_COMPLETE",
        "TASK_FAILED",
        "TASK_BLOCKED",
        "TASK_SKIPPED",
        "TASK_CANCELLED",
        "CONTROL",
        "ATTEMPT_LIFE",
        "DEADLOCK_DETECTED",
        "DEADLOCK_RESOLVED",
        "APPROVAL_ASKED",
        "MANUAL_OPENED",
        "PROVIDER_PAUSED",
        "PROVIDER_RESUMED",
        "PLAN_EDITED",
        "PLAN_RELOADED",
        "RUN_GAVE_UP",
        "FOREIGN_WRITE",
        "QUARANTINED",
        "RUN_ENDED",
    }
)
"""What is worth a line; the rest is in the journal."""


class PlainScreen:
    """Lines for a log file or a pipe."""

    def __init__(self, stdout: TextIO, track: Track, reader: Reader, *, quiet: bool) -> None:
        self._sink = Sink(stdout)
        self._track = track
        self._reader = reader
        self._quiet = quiet
        self._names: dict[str, str] | None = None
        """The names of the tasks, once there was a line to print."""
        self._ends: dict[str | None, str] = {}
        """What the newest attempt of each task that did not succeed came to."""
        self._begun = 0.0

    def __enter__(self) -> PlainScreen:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def start(self, now: float) -> None:
        """Remember when it began."""
        self._begun = now

    def update(self, view: Callable[[], RunView], records: Sequence[Record], now: float) -> float | None:
        """Print a line for each record worth one."""
        if records and not self._quiet:
            if self._names is None or any(record.type in BEGINS for record in records):
                self._names = {task.id: task.name for task in view().tasks}
            lines = [line for record in records if (line := self.line(record, self._names)) is not None]
            if lines:
                self._sink.write("\n".join(lines) + "\n")
        return None

    def line(self, record: Record, names: Mapping[str, str]) -> str | None:
        """Return one line: the time since the start, the task, what happened to it; None where it is not worth one."""
        said = self._said(record)
        if not said:
            return None
        head = f"{duration(record.t.mono - self._begun):>7}  "
        way = way_on(self._track, record)
        told = f"{shortened(way.text, 300)}: {one_line(way.command)}" if way else shortened(said, 300)
        if record.task is None:
            return head + told
        name = names.get(record.task, "")
        name = "" if name == record.task else name
        subject = f"{one_line(record.task)} {shortened(name, 50)}".rstrip()
        return f"{head}{subject}: {told}"

    def _said(self, record: Record) -> str:
        """Return what is told of a record. How an attempt ended is told with what follows from it."""
        if record.type == "ATTEMPT_ENDED":
            message = str(record.payload.get("message") or record.payload.get("error_class") or "")
            if record.payload.get("error_class") is None:
                return message
            self._ends[record.task] = message
        if record.type == "RETRY_SCHEDULED" and (end := self._ends.get(record.task)):
            return f"{shortened(end, 200)}; {phrase(record)}"
        return phrase(record) if record.type in SHOWN or is_question(record) else ""

    def note(self, text: str) -> None:
        """Print it as a line of its own."""
        if not self._quiet:
            self._sink.write(f"note: {shortened(text)}\n")

    def idle(self, view: RunView, tasks: Sequence[TaskId]) -> None:
        """Print since when all is done."""
        colour = wants_colour(self._sink.stream)
        self._sink.write(nothing_to_do(view, tasks, self._track, colour=colour, brief=self._quiet) + "\n")

    def close(self, view: RunView, exit_code: int) -> None:
        """Print the summary."""
        text = summary(view, self._track, self._reader, colour=wants_colour(self._sink.stream), brief=self._quiet)
        self._sink.write(text + "\n" if self._quiet else f"\n{text}\n")
