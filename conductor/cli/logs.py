"""`conductor logs`: what the command of a task printed."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import click

from bus import layout
from bus.contract import Reader
from bus.errors import BusError
from bus.reader import FileReader
from bus.wire import AttemptId, TaskId
from conductor.cli.escape import lines
from conductor.cli.load import check_planned, known_tasks, load, open_track
from conductor.cli.log_files import Gap, LogReader
from conductor.cli.log_json import print_streams
from conductor.cli.log_loss import Loss, loss_of
from conductor.cli.options import bus_dir_option, examples, json_option, task_argument, track_argument
from conductor.cli.output import err, is_terminal, print_json
from conductor.cli.polling import pause
from conductor.cli.track import Track, resolve, unknown_task
from conductor.errors import ConductorError

LOOK_EVERY = 0.25

MOST = 1 << 30
"""Bytes of a stream that are shown at one look: far more than a worker keeps of it, unless `log_cap` says more."""


TAIL = 2048
"""Bytes of the end of a stream that a result holds."""


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
            print_json({"task": task, "attempt": attempt, "stdout": None, "stderr": None, "lost": None})
        elif attempt is not None:
            err(f"nothing is kept of {attempt}")
        else:
            err(f"there is no output: {_why_none(place, reader, task) if reader else place.no_bus()}")
    elif as_json:
        print_streams(task, attempt, *streams, loss_of(reader, attempt))
    else:
        stdout, stderr = streams
        folder = place.bus / layout.attempt_dir(attempt)
        copies = [_Copy(stderr, sys.stdout if only_stderr else sys.stderr, folder)]
        if not only_stderr:
            copies.insert(0, _Copy(stdout, sys.stdout, folder))
        _show(reader, attempt, copies, follow=follow)
    return 0


def _why_none(track: Track, reader: FileReader, task: str) -> str:
    try:
        by_hand = any(one.id == task and one.asks == "manual" for one in load(reader).view.tasks)
    except BusError:
        by_hand = False
    if by_hand:
        return f"the task is for a person, and has no worker. What is to be done: {track.command('why', task)}"
    return "the task has not started"


def _show(reader: Reader, attempt: AttemptId, copies: Sequence[_Copy], *, follow: bool) -> None:
    live = True
    while live:
        # Asked before reading: what an ended attempt printed is all there.
        live = follow and reader.is_live(attempt)
        for copy in copies:
            copy.fresh()
        if live:
            pause(LOOK_EVERY)
    if loss := loss_of(reader, attempt):
        _tell(loss, copies)
    elif not any(copy.copied for copy in copies) and (is_terminal(sys.stderr) or reader.is_live(attempt)):
        err(f"it has printed nothing{' yet' if reader.is_live(attempt) else ''}")


def _tell(loss: Loss, copies: Sequence[_Copy]) -> None:
    """Say what is missing, and show the end of it that the result holds, unless it was shown."""
    err(f"[{loss.text}]")
    if loss.tail and not any(copy.ends_with(loss.tail) for copy in copies):
        err(f"[the end of its {loss.stream}, from its result:]")
        err(lines(loss.tail.removesuffix("\n")))


def find_attempt(track: Track, reader: FileReader, task: str, number: int | None) -> AttemptId | None:
    """Return the last attempt of a task, or the one of this number; None where it has none yet.

    Which attempts a task had before its newest, the journal alone knows: for them all of it is read.
    """
    if number is None and (newest := _newest(reader, task)):
        return newest
    attempts = {
        record.payload["number"]: record.attempt
        for record in reader.records_of(task)
        if record.type == "WORKER_DISPATCHED" and record.attempt
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


def _newest(reader: FileReader, task: str) -> AttemptId | None:
    """Return the newest attempt as the run's state has it, which a snapshot holds; None where that tells of none.

    It does not tell of attempts before a reset, nor of a task that the plan has no more: the journal does.
    """
    try:
        tasks = {other.id: other.attempt for other in load(reader).view.tasks}
    except BusError:  # a plan or a record is missing: attempts may be found all the same
        return None
    return tasks.get(TaskId(task))


def _open_streams(reader: FileReader, attempt: AttemptId) -> tuple[LogReader, LogReader] | None:
    """Open what is kept of an attempt, for as long as this process lives; None where nothing is."""
    pieces = reader.open_pieces(attempt)
    return (LogReader(pieces, layout.STDOUT, err), LogReader(pieces, layout.STDERR, err)) if pieces else None


class _Copy:
    """Copies one stream of the attempt to one of ours: escaped on a terminal, byte for byte elsewhere."""

    def __init__(self, source: LogReader, target: TextIO, folder: Path) -> None:
        self._source = source
        self._target = target
        self._folder = folder
        self._safe = is_terminal(target)
        self.copied = False
        """Whether there was anything."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._end = b""
        """The last bytes copied, as many as a result has of them."""

    def ends_with(self, tail: str) -> bool:
        """Tell whether this is the last that was copied."""
        return self._end.decode(errors="replace").endswith(tail)

    def fresh(self) -> None:
        """Copy what is new."""
        for piece in self._source.fresh(MOST):
            self.copied = True
            self._end = b"" if isinstance(piece, Gap) else (self._end + piece)[-TAIL:]
            if isinstance(piece, Gap):
                self._target.flush()
                why = f"are left out here, and are in {self._folder}/" if piece.is_kept else "were not kept"
                err(f"[… {piece.size} bytes {why} …]")
            elif self._safe:
                self._target.write(lines(self._decoder.decode(piece)))
            else:
                self._target.flush()
                self._target.buffer.write(piece)
        self._target.flush()
