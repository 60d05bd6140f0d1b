"""`run` on a terminal: one line a task and a bar for the whole, redrawn in place.

Calm and cheap: drawn at most four times a second when something happened, else once a second for the clocks. The rows
keep their places; what `frame` chose is only painted here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import IO, TextIO, cast

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from bus.contract import Reader
from bus.wire import Record, TaskId
from conductor.cli.escape import shortened
from conductor.cli.frame import Row, Totals, bar, cells, rest_line, totals_text, visible, where_line
from conductor.cli.output import STATUS_GLYPH, STATUS_STYLE
from conductor.cli.phrases import BEGINS, draining, is_order, phrase
from conductor.cli.rows import rows_of, seconds_left, totals_of
from conductor.cli.seen import as_seen
from conductor.cli.sink import Sink
from conductor.cli.summary import nothing_to_do, summary
from conductor.cli.supervised import gates
from conductor.cli.terminal import SHOW_CURSOR, Suspension, in_background
from conductor.cli.track import Track
from conductor.cli.way_on import way_on
from conductor.core.view import RunView
from conductor.core.wording import person
from conductor.runtime.clock import Clock, SystemClock

SHORTEST = 0.25
"""Seconds between two pictures, however much happens."""

CLOCK = 1.0
"""Seconds between two pictures where only time passes."""

SHARE = 0.05
"""Part of the time that drawing may take, however many tasks there are."""

MAX_BAR = 40

BAR = {"running": "╍", "pending": "─"}
"""What the parts of the bar are made of that are not over, so that it also speaks without colours."""

NOTED = frozenset(
    {
        "PLAN_EDITED",
        "PLAN_RELOADED",
        "FOREIGN_WRITE",
        "QUARANTINED",
        "RUN_GAVE_UP",
        "DEADLOCK_DETECTED",
        "PROVIDER_PAUSED",
        "PROVIDER_RESUMED",
    }
)
"""Records that stand above the picture: what is of no task, and what its line has no room for."""

ECHO = 4
"""Columns left free behind the last line: the terminal's `^C` there must not begin a new one."""


class LiveScreen:
    """A picture at the bottom of the terminal; notes stay above it."""

    def __init__(
        self,
        stdout: TextIO,
        track: Track,
        reader: Reader,
        console: Console | None = None,
        clock: Clock | None = None,
        *,
        own: bool = True,
    ) -> None:
        """`own`: whether the run is one of this process, so that Ctrl-C here steers it."""
        self._sink = Sink(stdout)
        self._console = console or Console(file=cast(IO[str], self._sink), markup=False, emoji=False, highlight=False)
        self._clock = clock or SystemClock()
        self._live = self._fresh()
        self._suspension = Suspension(self._give_back, self._take_again)
        self._track = track
        self._reader = reader
        self._own = own
        self._drawn = 0.0
        self._cost = 0.0
        """Seconds that the last picture took."""
        self._due = False
        self._size = self._console.size

    def __enter__(self) -> LiveScreen:
        self._suspension.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._suspension.__exit__()
        try:
            self._live.stop()
        except Exception:  # the last picture could not be made: its cursor must be shown all the same
            self._sink.write(SHOW_CURSOR)
            raise

    def start(self, now: float) -> None:
        """Take the terminal over. The first picture comes with the first record: before that there is no run."""
        self._take_again()

    def update(self, view: Callable[[], RunView], records: Sequence[Record], now: float) -> float | None:
        """Draw a new picture where it is time for one."""
        if self._sink.gone:
            return None
        with self._suspension.drawing():
            return self._update(view, records, now)

    def _update(self, view: Callable[[], RunView], records: Sequence[Record], now: float) -> float:
        if any(record.type in BEGINS for record in records):
            self.note(where_line(view(), self._console.width - 1))
        if any(record.type == "RUN_RESUMED" for record in records):
            self.lines(gates(self._track, view()))
        for record in records:
            noted = record.type in NOTED or is_order(record)
            if (way := way_on(self._track, record)) is not None:
                self.note(f"{way.text if noted or record.task is None else f'{record.task} {way.text}'}:")
                self.lines([f"  {way.command}"])
            elif noted:
                self.note(phrase(record))
        if not self._live.is_started:
            self._take_again()
            if not self._live.is_started:
                return CLOCK
        self._due = self._due or bool(records)
        wait = self._drawn + max(SHORTEST if self._due else CLOCK, self._cost / SHARE) - now
        if wait > 0:
            return wait
        begun = self._clock.monotonic()
        self._draw(as_seen(view(), self._reader), now)
        self._cost = self._clock.monotonic() - begun
        return CLOCK

    def note(self, text: str) -> None:
        """Print a line above the picture."""
        with self._suspension.drawing():
            self._console.print(Text(shortened(text), style="dim"), soft_wrap=True)

    def lines(self, lines: Sequence[str]) -> None:
        """Print lines that are safe already above the picture, none of them ever broken: commands can be pasted."""
        with self._suspension.drawing():
            for line in lines:
                self._console.print(Text(line), soft_wrap=True)

    def idle(self, view: RunView, tasks: Sequence[TaskId]) -> None:
        """Print since when all is done; there is nothing to draw."""
        with self._suspension.drawing():
            self._live.stop()
            self._sink.write(nothing_to_do(view, tasks, self._track, colour=self._colour) + "\n")

    def close(self, view: RunView, exit_code: int) -> None:
        """Leave the last picture, without its bar, and the summary below it."""
        with self._suspension.drawing():
            rows = rows_of(view, self._clock.stamp().wall)
            self._live.update(self._tasks(rows, self._console.height - 2), refresh=True)
            self._live.stop()
            text = summary(view, self._track, self._reader, colour=self._colour)
            self._sink.write(f"\n{text}\n")

    def _fresh(self) -> Live:
        """A picture that knows of none before it."""
        return Live(
            console=self._console,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )

    def _give_back(self) -> None:
        """Leave the picture where it is and the terminal as it was."""
        self._live.stop()

    def _take_again(self) -> None:
        """Draw below whatever came meanwhile; a job in the background lets the terminal to whoever works there."""
        if in_background(self._sink):
            return
        self._live = self._fresh()
        self._live.start()
        self._due, self._drawn = True, 0.0

    @property
    def _colour(self) -> bool:
        return self._console.is_terminal and not self._console.no_color

    def _draw(self, view: RunView, now: float) -> None:
        self._drawn, self._due = now, False
        wall = self._clock.stamp().wall
        rows = rows_of(view, wall)
        hint = draining(person(view.stopped_by or "")) if self._own else ""
        totals = totals_of(view, wall, seconds_left(view, wall), hint)
        self._show(Group(self._tasks(rows, self._console.height - 4), Text(), self._bar(totals)))

    def _show(self, picture: Group) -> None:
        size = self._console.size
        if size != self._size:
            # The terminal has wrapped the old picture anew; how many lines it takes now nobody knows. Begin afresh.
            self._size = size
            self._console.clear()
        self._live.update(picture, refresh=True)

    def _tasks(self, rows: Sequence[Row], room: int) -> Group:
        shown, rest = visible(rows, max(room, 1))
        lines = []
        for row, cell in zip(shown, cells(shown, self._console.width - 1), strict=True):
            style = STATUS_STYLE[row.status]
            line = Text(no_wrap=True, overflow="crop")
            line.append(f"{STATUS_GLYPH[row.status]} {cell.status}  ", style=style)
            line.append(f"{cell.id}  ", style="dim" if row.status in ("pending", "skipped") else "bold")
            line.append(f"{cell.name}  ", style="dim" if row.status in ("pending", "skipped") else "")
            line.append(cell.attempt, style="yellow")
            line.append(cell.elapsed, style="dim" if row.status != "running" else "")
            line.append(f"  {cell.note}", style="red" if row.status == "failed" else "dim")
            line.rstrip()
            lines.append(line)
        if rest:
            lines.append(Text(rest_line(rest), style="dim", no_wrap=True, overflow="ellipsis"))
        return Group(*lines)

    def _bar(self, totals: Totals) -> Text:
        room = self._console.width - ECHO
        text = totals_text(totals)
        if len(text) > room:
            text = totals_text(totals, brief=True)
        width = min(MAX_BAR, max(room - len(text) - 2, 0))
        line = Text(no_wrap=True, overflow="ellipsis")
        if width >= 8:
            for status, columns in bar(totals.counts, width):
                style = "bright_black" if status == "pending" else STATUS_STYLE[status]
                line.append(BAR.get(status, "━") * columns, style=style)
            line.append("  ")
        line.append(text)
        line.truncate(max(room, 1), overflow="ellipsis")
        return line
