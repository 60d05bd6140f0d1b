"""`doctor --verify`: whether all that follows from the journal is what follows from it."""

from __future__ import annotations

from collections.abc import Iterator

from bus import layout
from bus._fs import Refused
from bus.errors import BusError
from bus.projection import MAX_EVENT, View
from bus.reader import FileReader
from conductor.cli.examine.finding import Finding, fine, note, problem
from conductor.cli.examine.root import as_problem
from conductor.cli.track import Track
from conductor.core.wording import plural
from conductor.runtime.verify import verify


def deep(track: Track, reader: FileReader) -> Iterator[Finding]:
    """Read the whole journal, and compare."""
    try:
        yield from _states(track, reader)
        yield _events(track, reader)
    except BusError as error:
        yield as_problem(error)


def _states(track: Track, reader: FileReader) -> Iterator[Finding]:
    """Compare the state behind each snapshot, and that of a start now, with a replay of the whole journal."""
    for found in verify(reader):
        if found.ok:
            yield fine("verify_state", found.text)
        else:
            hint = f"remove {track.bus / layout.SNAPSHOTS}/ while nothing runs: a start then reads the whole journal"
            yield problem("verify_state", found.text, hint)


def _events(track: Track, reader: FileReader) -> Finding:
    """Compare `events/` with what it must hold.

    A conductor that works meanwhile makes its files after its records, so what differs is looked at once more.
    """
    differing = _differing(reader)
    if differing and reader.holder() is not None:
        again = _differing(reader)
        differing = {name: why for name, why in differing.items() if again.get(name) == why}
    if not differing:
        return fine("verify_events", "events/ is what the journal says")
    return note(
        "verify_events",
        f"{plural(len(differing), 'file')} in events/ not as the journal says",
        f"remove those that were changed: the next start makes anew what is missing: `{track.command('run')}`; "
        "state does not come from them",
        details=tuple(f"{name}: {why}" for name, why in sorted(differing.items())),
    )


def _differing(reader: FileReader) -> dict[str, str]:
    wanted: dict[str, bytes] = {}
    view = View()
    for record in reader.records():
        gone, come = view.apply(record)
        for name in gone:
            wanted.pop(name, None)
        wanted.update(come)
    at = reader.folders.fd(layout.EVENTS)
    present = {name for name in reader.fs.names(at) if layout.parse_event_name(name)}
    found = dict.fromkeys(sorted(present - wanted.keys()), "made by somebody else")
    for name, content in wanted.items():
        if name not in present:
            found[name] = "missing"
        elif _read(reader, name, at) != content:
            found[name] = "changed"
    return found


def _read(reader: FileReader, name: str, at: int) -> bytes:
    try:
        return reader.fs.read_file(name, at=at, cap=MAX_EVENT)
    except (FileNotFoundError, Refused):
        return b""
