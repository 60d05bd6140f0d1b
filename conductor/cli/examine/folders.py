"""The folders of a bus that are missing, or in whose place something else stands: what that means for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bus import layout
from bus.errors import BusError
from bus.folders import Folders
from conductor.cli.examine.finding import Finding, fine, note
from conductor.cli.examine.root import as_problem
from conductor.core.wording import plural

_STATE = "it is the state itself; where the journal needs what was in it, that is named as damage"

MEANS = {
    layout.EPOCHS: "how often a conductor began; the journal tells it, too",
    layout.PLAN: f"the frozen plans: {_STATE}",
    layout.SEGMENTS: f"the sealed part of the journal: {_STATE}",
    layout.SNAPSHOTS: "they spare a start the whole journal, and stand for records that a repair gave up",
    layout.TMP: "scratch files: nothing is lost",
    layout.INBOX: "messages that were handed in and not recorded yet: their tasks may be done again",
    layout.CONTROL: "orders that were handed in and not recorded yet: give them again",
    layout.EVENTS: "made from the journal: the next start makes it anew",
    layout.ARCHIVE: "older files of events/: nothing rests on them",
    layout.ATTEMPTS: "output and results of the attempts: `logs` has nothing to show, a result that is not recorded "
    "yet is lost, and workers that live end themselves",
    layout.HEARTBEATS: "signs of life: workers make them again",
    layout.WORKER_STATUS: "what workers show of themselves: they make it again",
    layout.LOCKS: "what attempts hold locked: until they end, others may be given the same files",
    layout.WAITS: "what attempts wait for: they say it again",
    layout.BLOBS: f"long payloads of records: {_STATE}",
    layout.QUARANTINE: "what was put aside: nothing rests on it",
    layout.BIN: "the command that workers call `conductor` by",
}
"""What was in a folder, and what becomes of it."""


def folders_of(folders: Folders) -> Iterator[Finding]:
    """Name each folder that is not as it should be."""
    missing, shut = [], []
    for name in layout.FOLDERS:
        try:
            if folders.find(name) is None:
                missing.append(name)
        except BusError as error:
            shut.append(as_problem(error))
    yield from shut
    if not missing and not shut:
        yield fine("folders", "all folders are there")
    if missing:
        yield _named(folders, missing)


def _named(folders: Folders, missing: Sequence[str]) -> Finding:
    details = tuple(f"{name}/ {_how(folders, name)}: {MEANS[name]}" for name in missing)
    verb = "is" if len(missing) == 1 else "are"
    return note(
        "folders",
        f"{plural(len(missing), 'folder')} of the bus {verb} missing, or something else stands there",
        "put back what was removed, if you have it, while nothing runs; otherwise `conductor run TRACK` makes the "
        "folders again. Find out what removed them",
        details=details,
    )


def _how(folders: Folders, name: str) -> str:
    parent, _, leaf = name.rpartition("/")
    at = folders.find(parent)
    there = at is not None and leaf in folders.fs.names(at)
    return "has something else in its place" if there else "is missing"
