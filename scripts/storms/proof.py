"""What must hold after a storm. Each check yields the faults that it found, in words."""

from __future__ import annotations

import json
import os
import urllib.parse
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from killer import Life, reap
from world import World

from bus.reader import open_reader
from bus.wire import Record

MOST_DESCRIPTORS = 64
"""More than a conductor with five workers ever has open."""

EMPTY = ("inbox", "tmp", "heartbeats", "worker-status", "control")
"""Folders of the bus in which nothing stays."""


def faults(world: World, lives: Sequence[Life], journal: Sequence[Record], since: int) -> Iterator[str]:
    """Yield everything that does not hold. `journal` is what was recorded behind seq `since`, where the storm began."""
    yield from _decisions(journal)
    yield from _work(world, journal)
    yield from _files(world)
    yield from _processes(world)
    yield from _descriptors(lives)
    yield from _numbers(journal, since)


def read(world: World, since: int) -> list[Record]:
    """The records behind `since`."""
    reader = open_reader(world.bus)
    try:
        return list(reader.records(since))
    finally:
        reader.close()


def _numbers(journal: Sequence[Record], since: int) -> Iterator[str]:
    if [record.seq for record in journal] != list(range(since + 1, since + 1 + len(journal))):
        yield "the records are not numbered without gaps"


def _decisions(journal: Sequence[Record]) -> Iterator[str]:
    """Each attempt is dispatched once and judged once, each result counts once, each task completes once."""
    counts: dict[str, Counter[str | None]] = defaultdict(Counter)
    for record in journal:
        counts[record.type][record.task if record.type == "TASK_COMPLETE" else record.attempt] += 1
    for type in ("WORKER_DISPATCHED", "RESULT", "ATTEMPT_ENDED", "TASK_COMPLETE"):
        twice = [str(name) for name, count in counts[type].items() if count > 1]
        if twice:
            yield f"{type} stands twice for {', '.join(twice)}"
    if differ := counts["WORKER_DISPATCHED"].keys() ^ counts["ATTEMPT_ENDED"].keys():
        yield f"dispatched and judged differ: {differ}"
    if counts["TASK_FAILED"] or counts["TASK_BLOCKED"]:
        yield f"tasks failed: {list(counts['TASK_FAILED'])}"
    succeeded = {record.attempt for record in journal if record.type == "RESULT" and _success(record)}
    completed = {record.attempt for record in journal if record.type == "TASK_COMPLETE"}
    if succeeded != completed:
        yield f"successes and completed tasks differ: {succeeded ^ completed}"


def _success(record: Record) -> bool:
    payload = record.payload
    return bool(payload["started"]) and payload["command"] == {"code": 0, "signal": None}


def _work(world: World, journal: Sequence[Record]) -> Iterator[str]:
    """Every task's work was done, no attempt's command began twice, no two attempts of a task lived at once."""
    notes = world.notes()
    for record in journal:
        if record.type == "TASK_COMPLETE":
            lines = notes.get(urllib.parse.quote(str(record.task), safe=""), [])
            if not any(note.word == "end" and note.attempt == record.attempt for note in lines):
                yield f"{record.task} is complete and its attempt {record.attempt} never ended its work"
    for task, lines in notes.items():
        yield from (f"{task}: attempts overlap: {note}" for note in lines if note.word == "overlap")
        for word in ("begin", "end"):
            begun = Counter(note.attempt for note in lines if note.word == word)
            yield from (f"{task}: `{word}` twice: {attempt}" for attempt, count in begun.items() if count > 1)


def _files(world: World) -> Iterator[str]:
    """Nothing lies about on the bus, and what is in quarantine has a reason."""
    for folder in EMPTY:
        if names := os.listdir(world.bus / folder):
            yield f"{folder}/ holds {', '.join(sorted(names)[:5])} ({len(names)})"
    kept = {path for path in (world.bus / "quarantine").iterdir() if path.suffix != ".why"}
    yield from (
        f"quarantine/{path.name} without a reason" for path in kept if not path.with_name(path.name + ".why").exists()
    )


def _processes(world: World) -> Iterator[str]:
    """Nothing lives on, and no child of ours (we are the subreaper) waits to be reaped."""
    reap()
    for pid in world.processes():
        yield f"process {pid} lives on: {_command_line(pid)}"
    try:
        os.waitpid(-1, os.WNOHANG)
        yield "a child of the storm is left, alive or dead"
    except ChildProcessError:
        pass


def _command_line(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return "gone meanwhile"


def _descriptors(lives: Sequence[Life]) -> Iterator[str]:
    most = max(life.descriptors for life in lives)
    if most > MOST_DESCRIPTORS:
        yield f"a conductor had {most} descriptors open"


def reasons(world: World) -> Counter[str]:
    """Why things are in quarantine."""
    found: Counter[str] = Counter()
    for path in (world.bus / "quarantine").glob("*.why"):
        text = path.read_text(encoding="utf-8")
        try:
            found[str(json.loads(text)["reason"])] += 1
        except (ValueError, KeyError, TypeError):
            found[text.strip()] += 1
    return found
