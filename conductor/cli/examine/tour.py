"""All looks at a track, in order. One that the system refuses is a finding itself, and the next one follows."""

from __future__ import annotations

from collections.abc import Iterator

from bus._fs import why
from bus.reader import FileReader
from bus.room import remedy
from conductor.cli.examine.deep import deep
from conductor.cli.examine.finding import Finding, problem
from conductor.cli.examine.holder import held_elsewhere
from conductor.cli.examine.machine import machine
from conductor.cli.examine.mount import mount
from conductor.cli.examine.odd_files import odd_files
from conductor.cli.examine.root import Root
from conductor.cli.examine.state import State
from conductor.cli.track import Track


def tour(track: Track, *, verify: bool) -> Iterator[Finding]:
    """Look at the machine, the place of the bus, and the bus; with `verify` at all that follows from the journal."""
    yield from _seen(machine())
    root = Root(track.bus)
    about_root = list(_seen(root.findings()))
    yield from _seen(mount(track.bus))
    yield from about_root
    yield from _seen(held_elsewhere(track))
    if root.folders is None:
        return
    if root.readable:
        reader = FileReader(root.folders)
        yield from _seen(State(track, reader).findings())
        if verify:
            yield from _seen(deep(track, reader))
    yield from _seen(odd_files(root.folders))


def _seen(findings: Iterator[Finding]) -> Iterator[Finding]:
    try:
        yield from findings
    except OSError as error:
        yield problem("unseen", f"a look was refused by the system: {why(error)}", remedy(error))
