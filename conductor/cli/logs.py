"""`conductor logs`: what the command of a task printed."""

from __future__ import annotations

import codecs
import sys
from typing import Any, TextIO

import click

from bus import layout
from bus.contract import Reader
from bus.reader import FileReader
from bus.wire import AttemptId
from conductor.cli.escape import lines
from conductor.cli.load import check_planned, known_tasks, open_track
from conductor.cli.log_files import Gap, LogReader
from conductor.cli.options import bus_dir_option, examples, json_option, task_argument, track_argument
from conductor.cli.output import err, is_terminal, print_json
from conductor.cli.polling import pause
from conductor.cli.track import Track, resolve, unknown_task
from conductor.errors import ConductorError

LOOK_EVERY = 0.25


@click.command(
    epilog=examples(
        ("logs my-track 1.2 -f", "look on while it runs"),
        ("logs my-track 1.2 --attempt 1", "what the first attempt printed"),
    )
)
@track_argument
@task_argument
@click.option(
    "--attempt", "number", type=click.IntRange(min=1), metavar="N", help="Of this attempt (default: the newest)."
)
@click.option("-f", "--follow", is_flag=True, help="Go on until the attempt ends.")
@click.option("--stderr", "only_stderr", is_flag=True, help="Only its stderr, on our stdout.")
@json_option("One JSON object with both streams as text.")
@bus_dir_option
def logs(
    track: str, task: str, number: int | None, follow: bool, only_stderr: bool, as_json: bool, bus_dir: str | None
) -> int:
    """Show what the command of TASK printed: its stdout on stdout, its stderr on stderr."""
    if as_json and follow:
        raise click.UsageError("--json shows what is there now; it cannot follow")
    place = resolve(track, bus_dir)
    reader = open_track(place)
    if reader is None:
        check_planned(place, task)
    attempt = find_attempt(place, reader, task, number) if reader else None
    streams = _open_streams(reader, attempt) if reader and attempt else None
    if reader is None or attempt is None or streams is None:
        if as_json:
            print_json({"task": task, "attempt": attempt, "stdout": None, "stderr": None})
        elif attempt is not None:
            err(f"nothing is kept of {attempt}")
        else:
            err(f"there is no output: {'the task has not started' if reader else place.no_bus()}")
    elif as_json:
        stdout, stderr = map(_as_data, streams)
        print_json({"task": task, "attempt": attempt, "stdout": stdout, "stderr": stderr})
    else:
        _show(reader, attempt, *streams, follow=follow, only_stderr=only_stderr)
    return 0


def _show(
    reader: Reader, attempt: AttemptId, stdout: LogReader, stderr: LogReader, *, follow: bool, only_stderr: bool
) -> None:
    copies = [_Copy(stderr, sys.stdout)] if only_stderr else [_Copy(stdout, sys.stdout), _Copy(stderr, sys.stderr)]
    live = True
    while live:
        # Asked before reading: what an ended attempt printed is all there.
        live = follow and reader.is_live(attempt)
        for copy in copies:
            copy.fresh()
        if live:
            pause(LOOK_EVERY)
    if is_terminal(sys.stderr) and not any(copy.copied for copy in copies):
        err("it has printed nothing")


def find_attempt(track: Track, reader: Reader, task: str, number: int | None) -> AttemptId | None:
    """Return the last attempt of a task, or the one of this number; None where it has none yet."""
    attempts = {
        record.payload["number"]: record.attempt
        for record in reader.records()
        if record.type == "WORKER_DISPATCHED" and record.task == task and record.attempt
    }
    if not attempts:
        known = known_tasks(reader)
        if not known:
            check_planned(track, task)
        elif task not in known:
            raise unknown_task(track, task, known)
        return None
    if number is None:
        return list(attempts.values())[-1]
    if number not in attempts:
        have = ", ".join(str(one) for one in attempts)
        raise ConductorError("usage", f"task {task} has no attempt {number}", hint=f"it has: {have}")
    return attempts[number]


def _open_streams(reader: FileReader, attempt: AttemptId) -> tuple[LogReader, LogReader] | None:
    """Open what is kept of an attempt, for as long as this process lives; None where nothing is."""
    pieces = reader.open_pieces(attempt)
    return (LogReader(pieces, layout.STDOUT), LogReader(pieces, layout.STDERR)) if pieces else None


class _Copy:
    """Copies one stream of the attempt to one of ours: escaped on a terminal, byte for byte elsewhere."""

    def __init__(self, source: LogReader, target: TextIO) -> None:
        self._source = source
        self._target = target
        self._safe = is_terminal(target)
        self.copied = False
        """Whether there was anything."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def fresh(self) -> None:
        """Copy what is new."""
        for piece in self._source.fresh():
            self.copied = True
            if isinstance(piece, Gap):
                self._target.flush()
                err(f"[… {piece.size} bytes were not kept …]")
            elif self._safe:
                self._target.write(lines(self._decoder.decode(piece)))
            else:
                self._target.flush()
                self._target.buffer.write(piece)
        self._target.flush()


def _as_data(source: LogReader) -> dict[str, Any]:
    head, tail, gap = bytearray(), bytearray(), 0
    for piece in source.fresh():
        if isinstance(piece, Gap):
            gap += piece.size
        else:
            (tail if gap else head).extend(piece)
    text = {"head": head.decode(errors="backslashreplace"), "tail": tail.decode(errors="backslashreplace")}
    return {**text, "not_kept": gap}
