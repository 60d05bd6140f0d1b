"""`doctor --repair`: a journal that is damaged before its end can be used again. What was lost is said in words.

Two ways. Where a snapshot was taken behind the damage, the state does not need what is lost: the damaged file is
replaced by its sound parts, and a name in `segments/` says which records are gone. Otherwise nothing behind the damage
can be trusted, as each record rests on those before it: it goes to quarantine, and the journal ends before it.

Killed at any moment, it can be run again. New files come first and the old one goes last, so that nothing sound is ever
in quarantine alone; where two files hold the same records, the next call keeps the one that holds more.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from bus import blobs, layout, losses, setup, snapshots
from bus._fs import FileSystem, why
from bus.contract import Follower
from bus.errors import BusCorrupt, BusError
from bus.folders import Folders, open_folders
from bus.lock import Ours, take_lock
from bus.projection import View, concerns
from bus.quarantine import Quarantine
from bus.reader import FileReader, check_format, was_ours
from bus.room import remedy
from bus.segments import Segment, listed
from bus.survey import FAR, File, Span, Survey, covers, gaps_of, plan_of, reaches
from bus.wire import decode_sound, dumps

_SCRATCH = "operator.repair"

MAX_FILE = 1 << 30


PlanAgain = Callable[[str], bytes | None]
"""Makes the body of the plan for a project again, from the source as it is now; None where that is impossible."""


def repair(
    root: Path | str,
    *,
    follower: Follower | None = None,
    plan_again: PlanAgain = lambda project: None,
    fs: FileSystem | None = None,
) -> list[str]:
    """Make a damaged journal usable; return what was done and lost, nothing where nothing is damaged.

    An unfinished line at the end is no damage: every start puts that right. With `follower`, a snapshot counts only if
    that restores it: one that nobody understands leads over no gap. `plan_again` is asked for a frozen plan that is
    missing: what it makes is taken if it is the very same. Raises HeldByOther while a conductor runs, BusGone,
    BusUnsafe, BusFormat, BusError.
    """
    fs = fs or FileSystem()
    folders = open_folders(fs, os.fspath(root))
    try:
        if not was_ours(folders):
            check_format(folders)
        lock = take_lock(folders, unsafe=True)
        try:
            return _Repair(folders, lock, follower, plan_again).run()
        finally:
            fs.close(lock)
    except OSError as error:
        text = f"the journal cannot be repaired: {why(error)}"
        raise BusError(text, path=folders.path, hint=remedy(error)) from error
    finally:
        folders.close()


def told_done(root: Path | str, *, fs: FileSystem | None = None) -> list[str]:
    """Return the tasks, by their names in file names, that are done by all records that are sound, whatever is missing
    between them. Raises BusGone, BusUnsafe, BusError; OSError for what the system refuses."""
    folders = open_folders(fs or FileSystem(), os.fspath(root))
    try:
        survey, view = Survey(folders), View()
        for _, line in survey.records(survey.files(), check=False):
            if concerns(line):
                view.apply(decode_sound(line))
        return view.done()
    finally:
        folders.close()


class _Repair:
    def __init__(self, folders: Folders, lock: int, follower: Follower | None, plan_again: PlanAgain) -> None:
        self._folders = folders
        self._plan_again = plan_again
        self._fs = folders.fs
        self._follower = follower
        self._moved: list[str] = []
        self._said: list[str] = []
        self._quarantine = Quarantine(folders, Ours(folders, lock).check_lock)
        folders.evict = self._evict
        for name in layout.FOLDERS:
            folders.make(name)
        self._survey = Survey(folders)

    def run(self) -> list[str]:
        """Do it, and return what to say."""
        self._restore_format()
        self._settle_segments()
        missing = self._settle_active() is None
        self._restore_plans()
        files = self._survey.files()
        lost = sorted((*gaps_of(files), *(file.should for file in files if file.is_lost)), key=lambda span: span.first)
        bridge = self._bridge(files) if lost else None
        end = next((span.first for span in lost if bridge is None or span.first > bridge.snapshot.seq), None)
        if end is not None:
            self._cut(files, end, bridge)
            files = self._survey.files()
        self._replace(files, list(gaps_of(files)), bridge)
        self._begin_active(missing=missing)
        self._admit_lost_end()
        return [*self._moved, *self._said]

    def _evict(self, name: str, at: int, reason: str) -> None:
        """Set aside what stood in the place of a folder; what cannot be moved lies beside it and harms nobody."""
        with suppress(OSError):
            self._quarantine.take(name, at, reason)
            self._tell(name, "was moved to")

    def _restore_format(self) -> None:
        try:
            self._fs.stat(layout.FORMAT, at=self._folders.root)
        except FileNotFoundError:
            setup.write_format(self._folders, sync=True)
            self._said.append(f"{layout.FORMAT} was removed, and is there again")
        else:
            check_format(self._folders)

    def _restore_plans(self) -> None:
        """Freeze again what can be made again. A round whose plan is gone is a record that is lost."""
        load_plan = FileReader(self._folders).load_plan
        wanted = (plan_of(line) for _, line in self._survey.records(self._survey.files(), check=False))
        for sha, project in dict.fromkeys(filter(None, wanted)):
            try:
                load_plan(sha)
            except BusCorrupt as error:
                body = self._plan_again(project)
                if body is None or blobs.digest(body) != sha:
                    self._said.append(f"{error.path}: {error.message}, and the plan's source is another one by now")
                    continue
                name, at = layout.plan_name(sha), self._folders.fd(layout.PLAN)
                self._quarantine.take(name, at, error.message)
                self._fs.publish(_SCRATCH, self._folders.fd(layout.TMP), name, at, body, sync=True)
                self._said.append(f"{error.path} was made again from the plan's source: it is the very same")

    def _bridge(self, files: list[File]) -> snapshots.Kept | None:
        """The newest snapshot that is understood, and whose record is there: it leads over whatever is lost before."""
        load_plan = FileReader(self._folders).load_plan
        for kept in self._survey.bridges(files):
            with suppress(BusCorrupt):  # its plan is gone
                if self._follower is None or self._follower.restore(kept.snapshot, load_plan):
                    return kept
        return None

    # --- two files for the same records -----------------------------------------------------------------------------

    def _settle_segments(self) -> None:
        """Where one segment covers others (a repair that was cut off, or a foreign hand), keep what holds more."""
        segments = sorted(listed(self._folders), key=lambda segment: (segment.first, -segment.last))
        while segments:
            outer, *rest = segments
            inner = [segment for segment in rest if segment.first <= outer.last]
            if not inner:
                segments = rest
                continue
            parts = sum(self._survey.look_at(segment).count for segment in inner)
            drop = [outer] if parts >= self._survey.look_at(outer).count else inner
            for segment in drop:
                self._take(segment, "its records stand in another segment too")
            segments = [segment for segment in segments if segment not in drop]

    def _settle_active(self) -> File | None:
        """Where `queue.jsonl` begins with records that are sealed, keep what holds more. None where it is missing."""
        active = self._survey.look_at_active(FAR)
        if active is None or not active.runs:
            return active
        copies = [segment for segment in listed(self._folders) if segment.last >= active.runs[0].first]
        if not copies or self._survey.is_half_sealed(copies):
            return active
        sealed = sum(self._survey.look_at(one).count for one in copies)
        if copies[0].first <= active.runs[0].first and sealed >= active.count:
            self._take(None, "its records are sealed already")
        else:
            for segment in copies:
                self._take(segment, f"its records stand in {layout.JOURNAL} too")
        return active

    # --- doing ------------------------------------------------------------------------------------------------------

    def _replace(self, files: list[File], gaps: list[Span], bridge: snapshots.Kept | None) -> None:
        """Put the sound parts of damaged files in their place, and names for what is lost."""
        within = {file.path: [gap for gap in gaps if covers(file, gap)] for file in files}
        known = [gap for inside in within.values() for gap in inside]
        for gap in gaps:
            if gap not in known:
                self._publish_lost(gap, "the segment that held them was not there")
        for file in reversed(files):
            if not file.clean or within[file.path]:
                self._split(file, within[file.path])
        if bridge is not None:
            self._sync_snapshot(bridge.snapshot.seq)
        if bridge is not None and gaps:
            self._said.append(
                f"{', '.join(map(str, gaps))}: lost. The state is not touched by that: a snapshot after record "
                f"{bridge.snapshot.seq} was taken behind them; `events`, `why` and `logs` no longer show what they said"
            )

    def _sync_snapshot(self, seq: int) -> None:
        """Have a snapshot on disk: from now on it is all that is known of what is lost."""
        at = self._folders.fd(layout.SNAPSHOTS)
        fd, _ = self._fs.open_regular(layout.snapshot_name(seq), at=at)
        try:
            self._fs.sync(fd)
        finally:
            self._fs.close(fd)
        self._fs.sync(at)

    def _split(self, file: File, gaps: list[Span]) -> None:
        """Publish the parts of a file; only then the file goes."""
        reason = "damaged: " + (", ".join(map(str, gaps)) or "something that is no record") + " cannot be read"
        for span in sorted((*file.runs, *gaps), key=lambda span: span.first):
            if span in gaps:
                self._publish_lost(span, f"{file.path} was damaged there")
                continue
            body, name = self._survey.body(file, span), layout.segment_name(span.first, span.last)
            if name == file.name:
                self._keep_copy(file, reason)
                self._publish(name, body)
                return
            self._publish(name, body)
        self._take(file.segment, f"{reason}; " + ("the rest was taken over" if file.runs else "it holds no record"))

    def _cut(self, files: list[File], first: int, bridge: snapshots.Kept | None) -> None:
        """Let the journal end before a record that is lost, and behind which no snapshot was taken."""
        if bridge is not None:  # it is the one that the next try must find
            self._sync_snapshot(bridge.snapshot.seq)
        losses.mark_cut(self._folders)
        behind = [file for file in files if file.should.last >= first and (not file.clean or reaches(file, first))]
        gone = sum(run.count for file in behind if not file.is_lost for run in file.runs if run.first > first)
        for file in behind:
            for run in file.runs:
                if run.last < first:
                    self._publish(layout.segment_name(run.first, run.last), self._survey.body(file, run))
        for file in reversed(behind):
            self._take(file.segment, f"the journal is damaged at record {first}, and each record rests on those before")
        self._said.append(
            f"the journal ends before record {first} now: that is damaged or missing, and no snapshot is from behind "
            f"it. {gone} records behind it were sound and are set aside with it"
        )

    def _begin_active(self, *, missing: bool) -> None:
        """Make an empty `queue.jsonl` where there is none, or none any more."""
        try:
            self._fs.create(layout.JOURNAL, b"", at=self._folders.root, sync=True)
        except FileExistsError:
            return
        self._fs.sync(self._folders.root)
        if missing:
            last = max((segment.last for segment in listed(self._folders)), default=0)
            losses.mark_cut(self._folders)
            self._said.append(f"{layout.JOURNAL} was missing: whatever was recorded behind record {last} is lost")

    def _admit_lost_end(self) -> None:
        """Where the journal has lost its end, let it end where it does: set aside what tells of more."""
        runs = [run.last for file in self._survey.files() for run in file.runs]
        last = max(runs, default=0)
        error = losses.lost_end(self._folders, last)
        if error is not None and not losses.is_cut(self._folders):
            losses.mark_cut(self._folders)
            self._said.append(f"{error.message}. It goes on from record {last}; what was recorded behind is lost")
        if not losses.is_cut(self._folders):
            return
        at = self._folders.fd(layout.SNAPSHOTS)
        for seq in [kept.snapshot.seq for kept in losses.ahead(self._folders, last)]:
            self._quarantine.take(layout.snapshot_name(seq), at, f"the journal ends before it, with record {last}")
            self._tell(f"{layout.SNAPSHOTS}/{layout.snapshot_name(seq)}", "was moved to")

    def _publish_lost(self, span: Span, reason: str) -> None:
        body = dumps({"first": span.first, "last": span.last, "reason": reason}).encode() + b"\n"
        self._publish(layout.segment_name(span.first, span.last, lost=True), body)

    def _publish(self, name: str, body: bytes) -> None:
        folders = self._folders
        self._fs.replace(_SCRATCH, folders.fd(layout.TMP), name, folders.fd(layout.SEGMENTS), body, sync=True)

    def _keep_copy(self, file: File, reason: str) -> None:
        name, at = self._survey.where(file.segment)
        body = self._fs.read_file(name, at=at, cap=MAX_FILE)
        self._quarantine.keep(name, body, reason, sync=True)
        self._tell(file.path, "was copied to")

    def _take(self, segment: Segment | None, reason: str) -> None:
        """Move a file of the journal to quarantine, on disk when this returns."""
        name, at = self._survey.where(segment)
        self._quarantine.take(name, at, reason)
        self._fs.sync(self._folders.fd(layout.QUARANTINE))
        self._fs.sync(at)
        self._tell(segment.path if segment else name, "was moved to")

    def _tell(self, path: str, what: str) -> None:
        for found in self._quarantine.take_found():
            self._moved.append(f"{path} {what} quarantine/{found.name}: {found.reason}")
