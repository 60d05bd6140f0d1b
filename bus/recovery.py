"""What a start does with the journal: put its end in order, then bring everything that follows from it to its end.

The active file is looked through first, as a whole: what is wrong at its end is taken out before anybody is told of a
record. Then one pass over what is behind the newest snapshot feeds the projection and the follower. On the way further
snapshots are taken, so that a recovery that is killed again and again gets further each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from bus import blobs, layout, losses, snapshots
from bus.contract import Follower, Snapshot
from bus.folders import Folders
from bus.journal import FLAGS, MAX_KEPT, Check, Journal, Keep
from bus.lines import Chain, Verdict, corrupt, crc_of, head_of, split
from bus.projection import Projection, View, concerns
from bus.segments import Files, Place, is_beginning, locate, number_at, open_files, read_segment, unreachable, wrong
from bus.snapshots import Keeper
from bus.strict import WireError
from bus.wire import Record, TaskId, decode_sound, is_line

TAIL = 256 << 10
"""Bytes of journal behind the snapshot from which the end of a recovery is worth another one."""

ON_THE_WAY, AT_THE_END = 3, 0.25
"""Sizes of a snapshot that are read before another one, in the midst of a recovery and behind it: a replay takes less
time for a record than a run does."""

_SUPERSEDED = "a conductor that had been replaced wrote this in the moment in which its successor began"


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look through the active file found."""

    end: int
    """Offset behind the last sound line."""
    place: Place
    last: int
    """Seq of the last record."""
    bad: str = ""
    """What is wrong behind `end`; empty where nothing is."""
    newer: tuple[int, int] | None = None
    """(seq, epoch) of a line that has the number of one before it: of a successor."""


def open_journal(
    folders: Folders, owner: str, keep: Keep, say: Callable[[str], None], check: Check, *, sync: bool
) -> tuple[Journal, Files]:
    """Open the journal for writing, its end in order. Raises BusCorrupt for damage that was acknowledged.

    What is cut off is handed to `keep`; `say` is told what else people should know. In `power` everything that was read
    is on disk when this returns.
    """
    fs = folders.fs
    files = open_files(folders, FLAGS)
    if files is None:
        fs.create(layout.JOURNAL, b"", at=folders.root, sync=sync)
        files = open_files(folders, FLAGS)
        assert files is not None
    try:
        if sync:
            fs.sync(folders.root)  # the folders of segments and blobs may be new
        files.check()
        _take_copies_away(folders, files, check)
        looked = look_through(folders, files)
        while looked.newer is not None:
            files = _without_superseded(folders, files, looked.newer, owner, keep, check, sync=sync)
            looked = look_through(folders, files)
        _check_end(folders, looked.last, say, check)
        if _is_in_doubt(folders):
            files = _renewed(folders, files, _read(folders, files.fd, 0, looked.end), owner, check, sync=True)
            folders.clear(layout.DOUBT)
        return _made(folders, files, looked, keep, check, sync=sync), replace(files, copies=())
    except BaseException:
        fs.close(files.fd)
        raise


def _made(folders: Folders, files: Files, looked: Looked, keep: Keep, check: Check, *, sync: bool) -> Journal:
    journal = Journal(folders, files.fd, files.first, check, sync=sync)
    journal.place = looked.place
    if journal.size > looked.end:
        behind = _read(folders, journal.fd, looked.end, MAX_KEPT)
        keep(behind, looked.bad or "somebody else has written to the journal", foreign=not looked.bad)
        if looked.bad:  # most likely never acknowledged; but what was damaged afterwards looks the same
            losses.mark_cut(folders)
        journal.cut(looked.end)
        journal.doubtful = True
    elif sync:
        journal.flush()  # a conductor killed between writing and syncing leaves lines that are not on disk yet
    return journal


def _check_end(folders: Folders, last: int, say: Callable[[str], None], check: Check) -> None:
    """Raise BusCorrupt where the journal has lost its end, other than by a power cut in durability `process`."""
    error = losses.lost_end(folders, last)
    if error is not None:
        raise error
    for kept in list(losses.ahead(folders, last)):
        seq = kept.snapshot.seq
        say(
            f"the power cut took records {last + 1} to {seq} at least, which were not synced (durability process): "
            "what was done then is done again"
        )
        check()
        folders.fs.discard(layout.snapshot_name(seq), folders.fd(layout.SNAPSHOTS))


def _take_copies_away(folders: Folders, files: Files, check: Check) -> None:
    """Take away the second name of the active file, which a conductor that was killed while sealing it left."""
    for segment in files.copies:
        if not is_beginning(folders, segment, files.fd):
            raise corrupt(segment.path, f"{layout.JOURNAL} begins with record {files.first}, which stands here too")
        check()
        folders.fs.discard(segment.name, folders.fd(layout.SEGMENTS))


def look_through(folders: Folders, files: Files) -> Looked:
    """Look through the active file. Raises BusCorrupt for damage that had been acknowledged."""
    fs = folders.fs
    chain, end, place, bad = Chain(files.first - 1), 0, Place(files.first, 0, ""), ""
    for line, size, whole in split(fs.read_chunks(files.fd, 0)):
        if not whole or not is_line(line):
            bad = bad or wrong(whole)
            continue
        try:
            if bad:
                if chain.was_acknowledged(line):
                    raise WireError(bad)
                continue
            verdict = chain.take(line)
        except WireError as error:
            raise corrupt(layout.JOURNAL, error, number_at(fs, files.fd, end)) from error
        if verdict is Verdict.SUPERSEDES:
            head = head_of(line)
            return Looked(end, place, chain.seq, newer=(head.seq, head.epoch))
        end += size
        if verdict is Verdict.COUNTS:
            place = Place(files.first, end, crc_of(line))
    return Looked(end, place, chain.seq, bad)


def _without_superseded(
    folders: Folders, files: Files, newer: tuple[int, int], owner: str, keep: Keep, check: Check, *, sync: bool
) -> Files:
    """Take out the lines of a replaced conductor that stand where its successor's first write stands."""
    seq, epoch = newer
    ours: list[bytes] = []
    theirs: list[bytes] = []
    for line, _, whole in split(folders.fs.read_chunks(files.fd, 0)):
        head = head_of(line) if whole and is_line(line) else None
        stale = head is not None and head.seq >= seq and head.epoch < epoch
        (theirs if stale else ours).append(line + b"\n" * whole)
    keep(b"".join(theirs), _SUPERSEDED)
    return _renewed(folders, files, b"".join(ours), owner, check, sync=sync)


def _renewed(folders: Folders, files: Files, body: bytes, owner: str, check: Check, *, sync: bool) -> Files:
    """Put a new file with this content in the place of the active one."""
    fs, root, tmp, scratch = folders.fs, folders.root, folders.refresh(layout.TMP), f"{owner}.journal"
    fs.discard(scratch, tmp)
    fs.create(scratch, body, at=tmp, sync=sync)
    check()
    fs.rename(scratch, tmp, layout.JOURNAL, root)
    if sync:
        fs.sync(root)
    fd, found = fs.open_regular(layout.JOURNAL, at=root, flags=FLAGS)
    fs.close(files.fd)
    return replace(files, fd=fd, found=found)


def _is_in_doubt(folders: Folders) -> bool:
    try:
        folders.fs.stat(layout.DOUBT, at=folders.root)
    except FileNotFoundError:
        return False
    return True


def _read(folders: Folders, fd: int, start: int, size: int) -> bytes:
    parts: list[bytes] = []
    for chunk in folders.fs.read_chunks(fd, start):
        parts.append(chunk[:size])
        size -= len(parts[-1])
        if not size:
            break
    return b"".join(parts)


class Recovery:
    """One pass over the journal behind a snapshot. Afterwards its fields tell where the journal ends."""

    def __init__(
        self,
        folders: Folders,
        journal: Journal,
        files: Files,
        projection: Projection,
        keeper: Keeper,
        load_plan: Callable[[str], bytes],
        *,
        owner: str,
    ) -> None:
        self._folders = folders
        self._journal = journal
        self._files = replace(files, fd=journal.fd)
        self._projection = projection
        self._keeper = keeper
        self._load_plan = load_plan
        self._owner = owner
        self._chain = Chain()
        self._rebooted = False
        """The snapshot is of another boot of the machine."""

    @property
    def seq(self) -> int:
        """The last record."""
        return self._chain.seq

    @property
    def epoch(self) -> int:
        """Highest epoch of a record."""
        return self._chain.epoch

    def run(self, follower: Follower | None, manual: Callable[[], Iterable[TaskId]]) -> list[str]:
        """Bring projection and follower to the end of the journal; return the foreign names found in `events/`, without
        claims about the tasks that `manual` returns then."""
        place, last = self._begin(follower), None
        for file, end, line in self._lines(place):
            last = file, end, line
            self._keeper.behind += len(line) + 1
            shown = concerns(line)
            if follower is None and not shown:
                continue
            record = self._record(line)
            if shown:
                self._projection.replay(record)
            if follower is not None:
                follower.take(record, self._load_plan)
                if self._keeper.is_due(ON_THE_WAY):
                    self._checkpoint(follower, Place(file, end, crc_of(line)))
        if last is not None:
            place = Place(last[0], last[1], crc_of(last[2]))
        if place is not None:  # in a file that was just begun, still in the one before
            self._journal.place = place
        self._projection.settle()
        foreign, missing_names = self._projection.finish(manual)
        if missing_names:
            self._projection.restore(missing_names, self._concerning())
        self._keeper.seen = True
        # Not here: what a start is waited for is the run's first record. The host's next snapshot is due at once.
        self._keeper.overdue = self._rebooted or self._keeper.is_due(AT_THE_END, TAIL)
        return foreign

    def _begin(self, follower: Follower | None) -> Place | None:
        """Begin from the newest snapshot that fits the journal and that the follower understands."""
        lost = max((segment.last for segment in self._files.sealed if segment.lost), default=0)
        for kept in snapshots.read_all(self._folders):
            seq = kept.snapshot.seq
            place = locate(self._folders, self._files, seq, kept.place) if seq >= lost else None
            if place is None:
                continue
            if follower is None or follower.restore(kept.snapshot, self._load_plan):
                self._chain = Chain(seq, kept.snapshot.epoch)
                self._rebooted = kept.boot != self._folders.fs.boot()
                self._keeper.seen = not self._rebooted
                self._projection.begin(View(kept.events), look_inside=self._rebooted)
                self._keeper.begin(kept)
                return place
        if lost and follower is not None:
            raise unreachable(self._files.sealed)
        self._projection.begin(View())
        return None

    def _checkpoint(self, follower: Follower, place: Place) -> None:
        """Keep a snapshot, unless `events/` cannot be brought so far now: the next start would not see that."""
        self._projection.settle()
        state = None if self._projection.is_behind else follower.dump()
        if state is not None:
            snapshot = Snapshot(self.seq, self.epoch, state)
            events, synced = self._projection.view.dump(), self._journal.sync
            self._keeper.keep(f"{self._owner}.snapshot", snapshot, place, events, synced=synced)

    def _lines(self, since: Place | None) -> Iterator[tuple[int, int, bytes]]:
        """Yield (file, offset behind it, line) of each line that counts behind a place."""
        folders, chain = self._folders, self._chain
        at = since or Place(0, 0, "")
        for segment in self._files.behind(chain.seq):
            start = at.end if at.file == segment.first else 0
            for end, line in read_segment(folders, segment, start, chain):
                yield segment.first, end, line
        end = at.end if at.file == self._files.first else 0
        for line, size, _ in split(folders.fs.read_chunks(self._journal.fd, end)):
            end += size
            if end > self._journal.size:  # written since by a conductor that was replaced; the next append expels it
                return
            try:
                counts = chain.take(line) is Verdict.COUNTS
            except WireError as error:
                raise corrupt(layout.JOURNAL, error) from error
            if counts:
                yield self._files.first, end, line

    def _concerning(self) -> Iterator[Record]:
        """Yield what concerns `events/` of the whole journal."""
        reached, self._chain = self._chain, Chain()
        for _, _, line in self._lines(None):
            if concerns(line):
                yield self._record(line)
        self._chain = reached

    def _record(self, line: bytes) -> Record:
        try:
            return blobs.resolve(self._folders, decode_sound(line))
        except WireError as error:
            raise corrupt(layout.JOURNAL, error) from error
