"""What a bus holds: who has it, the journal, what waits, what was put aside, what lives and what was left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bus import layout
from bus._fs import why
from bus.contract import Holder
from bus.errors import BusError
from bus.locks import who_stands_still
from bus.reader import FileReader
from bus.room import remedy
from bus.segments import listed
from bus.wire import AttemptId
from conductor.cli.examine.finding import Finding, fine, note, problem
from conductor.cli.examine.folders import folders_of
from conductor.cli.examine.processes import Process, processes_of
from conductor.cli.examine.root import as_problem
from conductor.cli.held_up import held_up, how_to_free
from conductor.cli.holder import how_to_wake, is_suspended, paused_by
from conductor.cli.load import load
from conductor.cli.put_aside import put_aside, reason_of
from conductor.cli.sleepers import how_to_wake_them, sleepers_of, who_sleeps
from conductor.cli.strangers import refusal_of
from conductor.cli.track import Track
from conductor.core.wording import few, plural


class State:
    """Looks into one bus that can be read."""

    def __init__(self, track: Track, reader: FileReader) -> None:
        self._track = track
        self._reader = reader
        self._holder: Holder | None = None
        self._alive: tuple[AttemptId, ...] = ()
        self._strangers: tuple[AttemptId, ...] = ()
        self._unkillable: frozenset[AttemptId] = frozenset()

    def findings(self) -> Iterator[Finding]:
        """Look at everything in it; what cannot be looked at is a finding, too."""
        looks = (
            self._folders,
            self._held,
            self._journal,
            self._snapshots,
            self._run,
            self._waiting,
            self._locks,
            self._quarantine,
            self._scratch,
            self._processes,
        )
        for look_at in looks:
            try:
                yield from look_at()
            except BusError as error:
                yield as_problem(error)
            except OSError as error:
                yield problem(BusError.code, f"the bus cannot be read: {why(error)}", remedy(error))

    def _folders(self) -> Iterator[Finding]:
        yield from folders_of(self._reader.folders)

    # --- who has it -------------------------------------------------------------------------------------------------

    def _held(self) -> Iterator[Finding]:
        holder = self._holder = self._reader.holder()
        if holder is None:
            yield fine("holder", "no conductor holds the track")
            return
        text = f"held by pid {holder.pid} on {holder.host} since {holder.started_at}"
        paused = paused_by(self._reader, holder)
        if is_suspended(holder):
            text += "; it is suspended, and does nothing meanwhile"
            yield note("holder_suspended", text, how_to_wake(holder))
        elif paused is not None:
            hint = "give it what it lacks (space, a writable disk, processes): it goes on by itself"
            yield note("holder_paused", f"{text}; paused: {paused}", hint)
        else:
            yield fine("holder", text)

    def _locks(self) -> Iterator[Finding]:
        pid = who_stands_still(self._reader.folders)
        if pid is not None:
            yield note("locks_held_up", held_up(pid), how_to_free(pid))

    # --- the journal ------------------------------------------------------------------------------------------------

    def _journal(self) -> Iterator[Finding]:
        segments = listed(self._reader.folders)
        lost = [f"records {one.first} to {one.last}" for one in segments if one.lost]
        sizes = [self._size(layout.SEGMENTS, one.name) or 0 for one in segments if not one.lost]
        size = self._size("", layout.JOURNAL)
        if size is None and not segments and not self._names(layout.EPOCHS):
            yield fine("journal", "no journal yet")
        elif size is not None:
            sealed = f", and {plural(len(sizes), 'sealed segment')} of {sum(sizes)} bytes" if sizes else ""
            yield fine("journal", f"the journal has {size} bytes{sealed}")
        if lost:
            yield note("journal_lost", f"lost before, as a repair said: {', '.join(lost)}")

    def _snapshots(self) -> Iterator[Finding]:
        present = [name for name in self._names(layout.SNAPSHOTS) if layout.parse_snapshot_name(name) is not None]
        sound = [snapshot.seq for snapshot in self._reader.snapshots()]
        if not present:
            yield fine("snapshots", "no snapshots: a start reads the whole journal")
        elif not sound:
            text = f"{plural(len(present), 'snapshot')}, none of them sound: a start reads the whole journal"
            yield note("snapshots", text, "nothing to do: the next start makes a new one")
        elif len(sound) < len(present):
            text = f"a start uses the snapshot of record {sound[0]}; {len(present) - len(sound)} not sound, passed over"
            yield note("snapshots", text, "nothing to do: a snapshot is only a saving")
        else:
            yield fine("snapshots", f"a start uses the snapshot of record {sound[0]} and reads on from there")

    # --- the run ----------------------------------------------------------------------------------------------------

    def _run(self) -> Iterator[Finding]:
        loaded = load(self._reader)
        view = loaded.view
        records = f", {plural(loaded.last_seq, 'record')}" if loaded.last_seq else ""
        yield fine("run", f"{f'run {view.id}: {view.state}' if view.id else loaded.no_run()}{records}")
        self._strangers = loaded.strangers
        self._unkillable = frozenset(loaded.state.unkillable)
        if error := refusal_of(loaded):
            yield as_problem(error)
        under_way = [task.worker for task in view.tasks if task.worker is not None]
        self._alive = loaded.alive()
        if sleepers := sleepers_of(self._reader, under_way):
            yield note("workers_suspended", who_sleeps(sleepers), how_to_wake_them(sleepers))
        if self._holder is not None:
            if under_way:
                yield fine("attempts", f"{plural(len(under_way), 'attempt')} under way: {few(under_way, 10)}")
            return
        go_on = f"go on: `{self._track.command('run')}`"
        if self._alive:
            text = f"{plural(len(self._alive), 'worker')} without a conductor: {few(self._alive, 10)}"
            yield note("workers_alone", text, f"{go_on}, or end them: `{self._track.command('stop')}`")
        dead = [attempt for attempt in under_way if attempt not in self._alive]
        if dead:
            text = f"{plural(len(dead), 'attempt')} without a living worker: {few(dead, 10)}"
            yield note("attempts_ended_alone", text, f"their results are taken in by the next start; {go_on}")

    def _waiting(self) -> Iterator[Finding]:
        number = self._reader.not_ingested()
        if number and self._holder is None:
            text = f"{plural(number, 'message')} handed in and not recorded yet"
            yield note("not_ingested", text, f"the next start does it: `{self._track.command('run')}`")
        else:
            yield fine("not_ingested", f"{plural(number, 'message')} handed in and not recorded yet")

    def _quarantine(self) -> Iterator[Finding]:
        kept = put_aside(self._reader)
        if not kept:
            yield fine("quarantine", "nothing was put aside")
            return
        details = tuple(f"{name}: {reason_of(self._reader, name)}" for name in kept)
        hint = (
            f"look into {self._track.bus / layout.QUARANTINE}/; nothing there is read again, remove what nobody needs"
        )
        yield note("quarantine", f"{plural(len(kept), 'thing')} put aside, in quarantine", hint, details=details)

    # --- what was left ----------------------------------------------------------------------------------------------

    def _scratch(self) -> Iterator[Finding]:
        living = {str(attempt) for attempt in self._alive}
        if self._holder is not None:
            living.add(layout.epoch_name(self._holder.epoch))
        left = [name for name in self._names(layout.TMP) if layout.scratch_owner(name) not in living]
        if not left or self._holder is not None:
            yield fine("scratch", f"{plural(len(left), 'scratch file')} of nobody who lives")
            return
        text = f"{plural(len(left), 'scratch file')} left behind: {few(sorted(left))}"
        yield note("scratch", text, "the next start removes what is ours")

    def _processes(self) -> Iterator[Finding]:
        if self._holder is not None:
            return
        alive = {*self._alive, *self._strangers}
        found = [one for one in processes_of(self._track.bus) if one.attempt not in alive]
        withstand = [one for one in found if one.attempt in self._unkillable]
        if withstand:
            what = "1 process that" if len(withstand) == 1 else f"{len(withstand)} processes that"
            yield note(
                "unkillable_processes",
                f"{what} could not be ended: no run begins beside it",
                "it goes with what it waits for in the kernel, such as a mount, or with a restart of the machine",
                details=_named(withstand),
            )
        strays = [one for one in found if one.attempt not in self._unkillable]
        if strays:
            number = "1 process" if len(strays) == 1 else f"{len(strays)} processes"
            yield note(
                "stray_processes",
                f"{number} of this bus, of no attempt under way",
                "left running on purpose (`leftovers: keep`), or ended by the next start; end others by their pid",
                details=_named(strays),
            )
        elif not withstand:
            yield fine("stray_processes", "no processes of this bus beside its workers")

    def _names(self, folder: str) -> list[str]:
        try:
            return self._reader.fs.names(self._reader.folders.fd(folder))
        except BusError:
            return []

    def _size(self, folder: str, name: str) -> int | None:
        try:
            return self._reader.fs.stat(name, at=self._reader.folders.fd(folder)).st_size
        except FileNotFoundError:
            return None


def _named(found: Sequence[Process]) -> tuple[str, ...]:
    return tuple(f"pid {one.pid} ({one.name}) of {one.attempt}" for one in found)
