"""`run --json`: the journal's own lines as they are recorded, and the result as the last one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TextIO

from bus.contract import Reader
from bus.wire import Record, TaskId, dumps, encode_record
from conductor.cli.escape import json_text
from conductor.cli.sink import Sink
from conductor.cli.view_data import task_data
from conductor.core.view import RunView


class JsonScreen:
    """One JSON object a line, nothing else on stdout."""

    def __init__(self, stdout: TextIO, reader: Reader) -> None:
        self._sink = Sink(stdout)
        self._reader = reader

    def __enter__(self) -> JsonScreen:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def start(self, now: float) -> None:
        """Print nothing: the first line is a record, RUN_STARTED or RUN_RESUMED."""

    def update(self, view: Callable[[], RunView], records: Sequence[Record], now: float) -> float | None:
        """Print the records."""
        if records:
            self._sink.write("".join(json_text(encode_record(record).decode()) for record in records))
        return None

    def note(self, text: str) -> None:
        """Notes are for people."""

    def idle(self, view: RunView, tasks: Sequence[TaskId]) -> None:
        """Print RUN_RESULT."""
        self.close(view, 0)

    def close(self, view: RunView, exit_code: int) -> None:
        """Print RUN_RESULT."""
        result = {
            "type": "RUN_RESULT",
            "exit_code": int(exit_code),
            "counts": dict(view.counts),
            "tasks": [task_data(task, self._reader) for task in view.tasks],
        }
        self._sink.write(json_text(dumps(result)) + "\n")
