"""`conductor status`: how a track stands, task by task."""

from __future__ import annotations

import sys
import time

import click

from conductor.cli.escape import one_line
from conductor.cli.load import OPEN_STATES, Loaded, load, open_track
from conductor.cli.options import bus_dir_option, json_option, track_argument
from conductor.cli.output import (
    STATUS_GLYPH,
    STATUS_STYLE,
    counts_line,
    duration,
    is_terminal,
    out,
    paint,
    plural,
    print_json,
    table,
    terminal_width,
    wants_colour,
)
from conductor.cli.rows import rows_of
from conductor.cli.track import Track, resolve
from conductor.cli.view_data import status_data


@click.command()
@track_argument
@click.option("--watch", is_flag=True, help="Look on until the run ends (on a terminal).")
@json_option("One JSON object.")
@bus_dir_option
def status(track: str, watch: bool, as_json: bool, bus_dir: str | None) -> int:
    """Show how TRACK stands, task by task."""
    place = resolve(track, bus_dir)
    if watch and as_json:
        raise click.UsageError("--watch is for people; scripts follow `conductor events -f --json`")
    reader = open_track(place)
    loaded = load(reader) if reader else None
    if as_json:
        print_json(status_data(place, loaded))
    elif loaded is None or loaded.view.id is None:
        out(f"never run. Start it: {place.command('run')}")
    elif watch and is_terminal(sys.stdout):
        from conductor.cli.watching import watch_run

        watch_run(place, loaded)
    else:
        out(as_text(place, loaded, time.time(), colour=wants_colour(sys.stdout)))
    return 0


def as_text(track: Track, loaded: Loaded, now: float, *, colour: bool) -> str:
    """Return the page that people read; `now` is the wall clock."""
    rows = rows_of(loaded.view, now)
    cells = [
        [
            f"{STATUS_GLYPH[row.status]} {row.status}",
            row.id,
            f"#{row.attempt}" if row.attempt > 1 else "",
            duration(row.elapsed) if row.elapsed is not None else "",
            f"{row.name}  ({row.note})" if row.note else row.name,
        ]
        for row in rows
    ]
    width = terminal_width() if is_terminal(sys.stdout) else None
    styles = [STATUS_STYLE[row.status] for row in rows]
    listing = table(cells, styles=styles, width=width, colour=colour)
    return "\n".join([_head(loaded, now, colour=colour), "", listing, *_foot(track, loaded)])


def _head(loaded: Loaded, now: float, *, colour: bool) -> str:
    view = loaded.view
    running = loaded.holder if loaded.state in OPEN_STATES else None
    who = f" by pid {running.pid} on {one_line(running.host)}" if running else ""
    reason = f" ({one_line(view.reason)})" if view.reason and view.reason != loaded.state else ""
    span = ""
    if view.started_at is not None:
        ended = view.ended_at
        span = f", {duration((now if ended is None else ended) - view.started_at)}"
        if ended is not None:
            span += f", ended {time.strftime('%Y-%m-%d %H:%M', time.localtime(ended))}"
    state = paint(loaded.state, "bold", colour=colour)
    return f"{state}{reason}{who}{span}: {counts_line(view.counts, colour=colour)}"


def _foot(track: Track, loaded: Loaded) -> list[str]:
    """What to type next, where there is something to do."""
    lines = [""]
    if loaded.not_ingested and loaded.holder is None:
        waiting = plural(loaded.not_ingested, "message")
        lines.append(f"{waiting} handed in and not recorded yet: the next run does it")
    if loaded.state == "interrupted":
        alive = len(loaded.alive())
        works = f"; {plural(alive, 'worker')} of it still {'works' if alive == 1 else 'work'}" if alive else ""
        lines.append(f"The conductor is gone before the run ended{works}. Go on: {track.command('run')}")
    elif loaded.state in OPEN_STATES:
        lines.append(f"Look on: {track.command('status', '--watch')}   End it: {track.command('stop')}")
    else:
        failed = next((task.id for task in loaded.view.tasks if task.status == "failed"), None)
        if failed is not None:
            lines.append(f"Why: {track.command('why', one_line(failed))}")
        if loaded.view.counts.get("done", 0) < len(loaded.view.tasks):
            lines.append(f"Go on: {track.command('run')}")
    return lines if len(lines) > 1 else []
