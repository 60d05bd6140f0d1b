"""The bus for a program inside a worker: `Client.from_environment()`, then locks, waits, questions, reports.

    with Client.from_environment() as client:
        client.progress(10, "begun")
        with client.lock("src/a.py", "docs"):
            ...
        client.wait("1.2")
        answer = client.ask("Which database?")

Standard library only, and filelock once something is locked. Every method raises BusError where the bus cannot be used,
ValueError for arguments that cannot be meant. Locks are between attempts: whatever runs in one attempt shares them, and
they end with it.
"""

from __future__ import annotations

import hashlib
import os
import select
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from bus.errors import AttemptRevoked, BusGone, LockBusy, NotInWorker, Shortage, TaskNotDone, WaitTimedOut
from bus.inside import Refusals, listed, new_message, paths_of, surroundings
from bus.wire import JsonObject, Message, TaskId

if TYPE_CHECKING:
    from bus.contract import Hand, Reader
    from bus.grants import Busy, Grant, WaitFile

MAX_TEXT = 1000
"""Characters of a progress text that the worker's status keeps; the journal has all."""

MAX_QUESTION = 1 << 16
"""Characters of a question."""

LOCK_PERIOD = 0.02
"""Seconds between two looks whether anything was locked or released."""

LOOK_ANYWAY = 1.0
"""Seconds after which a lock is tried again although nothing seems to have changed: a waiter may have died."""

PERIOD = 0.2
"""Seconds between two looks for a task's end or an answer."""

STOP_PERIOD = 0.5
"""Seconds between two looks whether the attempt is to stop."""

TELL_PERIOD = 60.0
"""Seconds between two words of who waits."""

T = TypeVar("T")


def _open_reader(root: str) -> Reader:
    """Loaded by those who wait for a task, or long."""
    from bus.reader import open_reader

    return open_reader(root)


def _sleep(seconds: float) -> None:
    select.select([], [], [], seconds)


class Held:
    """What a call of `Client.lock` holds: until `release`, the end of a `with`, or the end of the attempt."""

    def __init__(self, client: Client, grants: Sequence[Grant]) -> None:
        self._client = client
        self._open = True
        self.grants = tuple(grants)

    def release(self) -> None:
        """Give it back, unless something else of this program, or of this attempt, had it before. Idempotent."""
        if self._open:
            self._open = False
            self._client._give_back(self.grants)

    def __enter__(self) -> Held:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


class Client:
    """One attempt's talk with the conductor and with the other attempts. Not to be shared by threads."""

    def __init__(
        self,
        hand: Hand,
        open_reader: Callable[[], Reader],
        *,
        task: str | None,
        project: str,
        cwd: str | None = None,
        path: str | None = None,
        say: Callable[[str], None] | None = None,
        sleep: Callable[[float], None] = _sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`project` is the root of file keys; relative paths are taken from `cwd` (None: the project). `path` is what
        errors call the bus. `say` hears now and then for what is waited."""
        self.attempt = hand.attempt
        self._hand = hand
        self._open_reader = open_reader
        self._reader: Reader | None = None
        self._task = task
        self._project = project
        self._cwd = cwd
        self._path = path
        self._say = say
        self._sleep = sleep
        self._clock = clock
        self._uses: Counter[str] = Counter()

    @classmethod
    def from_environment(
        cls, environ: Mapping[str, str] = os.environ, *, say: Callable[[str], None] | None = None
    ) -> Client:
        """Open the bus of the worker that this program runs in. Raises NotInWorker, BusError."""
        from bus.hand import open_hand
        from bus.layout import LayoutError, parse_attempt

        root, attempt = surroundings(environ)
        try:
            parse_attempt(attempt)
        except LayoutError as error:
            raise NotInWorker(f"CONDUCTOR_ATTEMPT: {error}") from error
        project = environ.get("CONDUCTOR_PROJECT_DIR") or os.getcwd()
        task = environ.get("CONDUCTOR_TASK_ID")
        with Refusals(root, "the bus cannot be opened"):
            try:
                hand = open_hand(root, attempt)
            except FileNotFoundError as error:
                raise BusGone("the bus or the attempt is gone", path=root) from error
        look = partial(_open_reader, root)
        return cls(hand, look, task=task, project=project, cwd=os.getcwd(), path=root, say=say)

    def close(self) -> None:
        """Close what was opened. What is locked stays so."""
        self._hand.close()
        if self._reader is not None:
            self._reader.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # --- reports ----------------------------------------------------------------------------------------------------

    def revoked(self) -> str | None:
        """Return why the attempt is to stop; None where it is not."""
        with self._refusals("it cannot be seen whether the attempt is to stop"):
            return self._hand.revoked()

    def progress(self, percent: float, text: str = "") -> None:
        """Say how far the task is, in percent, and what it does now."""
        message = self._send("PROGRESS", {"pct": percent, "text": text})
        with self._refusals("the progress cannot be shown"):
            shown = {"progress_pct": percent, "text": text[:MAX_TEXT], "timestamp": message.timestamp}
            self._hand.report_status(shown)

    def complete(self, *, commit: str | None = None, files: Sequence[str] = ()) -> None:
        """Report the task as complete. The program must still end with exit status 0."""
        self._report({"verb": "complete", "commit": commit, "files": list(files)})

    def fail(self, message: str, *, error_class: str | None = None, retry_after: float | None = None) -> None:
        """Report the task as failed. `error_class` names a limit of a provider, which costs the task nothing;
        `retry_after`: seconds after which it is over."""
        more = {"class": error_class, "retry_after": retry_after}
        self._report({"verb": "fail", "message": message} | {k: v for k, v in more.items() if v is not None})

    def usage(
        self, *, cost_usd: float | None = None, input_tokens: int | None = None, output_tokens: int | None = None
    ) -> None:
        """Say what the attempt has used so far, in all."""
        used = {"cost_usd": cost_usd, "input_tokens": input_tokens, "output_tokens": output_tokens}
        self._send("USAGE", {name: value for name, value in used.items() if value is not None})

    def post(self, type: str, payload: JsonObject) -> None:
        """Put a message of your own into the journal: a type in capitals and an object."""
        self._send(type, payload)

    def texts(self) -> tuple[tuple[str, str], ...]:
        """Return (name, text) of what people sent to the attempt, in order."""
        with self._refusals("the texts cannot be read"):
            return self._hand.texts()

    # --- locks ------------------------------------------------------------------------------------------------------

    def lock(self, *paths: str, shared: bool = False, timeout: float | None = None, wait: bool = True) -> Held:
        """Lock files, folders (with all in them) and globs for this attempt: all of them or none.

        Waits until nobody else holds any of them, at most `timeout` seconds. Raises LockBusy where it may not `wait`,
        WaitTimedOut, AttemptRevoked.
        """
        with self._refusals("it cannot be locked"):
            wanted = [(self.key_of(path), shared) for path in paths]
        return self.lock_keys(wanted, timeout=timeout, wait=wait)

    def lock_keys(self, wanted: Sequence[tuple[str, bool]], *, timeout: float | None = None, wait: bool = True) -> Held:
        """As `lock`, for (key, shared) pairs: both modes together, all or none."""
        with self._refusals("it cannot be locked"):
            found = self._hand.try_lock(wanted, queue=wait)
            if not isinstance(found, tuple):
                if not wait:
                    raise LockBusy(self._held_by(found), hint="leave out --no-wait (`wait=False`) to wait for it")
                found = self._wait_for_lock(wanted, found, timeout)
        fresh = [grant for grant in found if self._hand.made(grant) and not self._uses[grant.id]]
        self._uses.update(grant.id for grant in found)
        for grant in fresh:
            mode = "shared" if grant.shared else "exclusive"
            self._send("FILE_LOCK", {**paths_of(grant.keys), "lock_type": mode, "expires_at": None, "grant": grant.id})
        return Held(self, found)

    def key_of(self, path: str) -> str:
        """Return the canonical key of a path."""
        from bus.real_paths import key_of

        return key_of(path, project=self._project, cwd=self._cwd)

    def unlock(self, *paths: str) -> tuple[str, ...]:
        """Release paths that this attempt holds, or all it holds where none are named; return the keys released."""
        with self._refusals("it cannot be unlocked"):
            released = self._hand.unlock([self.key_of(path) for path in paths] if paths else None)
            if released:
                self._send("FILE_UNLOCK", paths_of(released))
            return released

    def _give_back(self, grants: Sequence[Grant]) -> None:
        with self._refusals("it cannot be unlocked"):
            self._uses.subtract(grant.id for grant in grants)
            unused = [grant for grant in grants if not self._uses[grant.id] and self._hand.made(grant)]
            self._hand.release(unused)
            if unused:
                self._send("FILE_UNLOCK", paths_of(tuple(key for grant in unused for key in grant.keys)))

    def _wait_for_lock(
        self, wanted: Sequence[tuple[str, bool]], busy: Busy, timeout: float | None
    ) -> tuple[Grant, ...]:
        state = _Queue(busy)
        keys = [key for key, _ in wanted]
        self._blocked(list(busy.holders), keys)

        def look() -> tuple[Grant, ...] | None:
            now, changes = self._clock(), self._hand.lock_changes()
            if changes == state.changes and now < state.look_at:
                return None
            state.changes, state.look_at = changes, now + LOOK_ANYWAY
            try:
                found = self._hand.try_lock(wanted, queue=True)
            except Shortage as error:  # somebody stands still with the mutex
                if self._say is not None:
                    self._say(error.message)
                return None
            if isinstance(found, tuple):
                return found
            state.busy = found
            return None

        try:
            return self._until(look, timeout, LOCK_PERIOD, lambda: self._held_by(state.busy))
        finally:
            for wait in state.busy.waits:
                self._hand.end_wait(wait)

    def _held_by(self, busy: Busy) -> str:
        keys = sorted({key for wait in busy.waits for key in wait.what})
        what = listed(keys) if keys else "what is asked for"
        return f"{what} is held, or was asked for before, by {listed(busy.holders)}"

    # --- waits ------------------------------------------------------------------------------------------------------

    def wait(self, *tasks: str, timeout: float | None = None) -> None:
        """Wait until these tasks are done. Raises TaskNotDone as soon as one of them has ended otherwise, WaitTimedOut,
        AttemptRevoked; BusError `unknown_task`."""
        from bus.outcomes import DONE, Outcomes

        if not tasks or self._task in tasks:
            raise ValueError("a task cannot wait for itself" if tasks else "name the tasks to wait for")
        outcomes = Outcomes(self._looking(), map(TaskId, tasks))
        left: list[str] = []

        def look() -> bool | None:
            found = outcomes.look()
            for task, outcome in found.items():
                if outcome.word != DONE:
                    raise TaskNotDone(task, outcome.word, outcome.reason)
            left[:] = [task for task in tasks if task not in found]
            return None if left else True

        with self._refusals("the tasks cannot be looked at"):
            if look():
                return
            with self._waiting("task", tasks):
                self._blocked(left, left)
                self._until(look, timeout, PERIOD, lambda: f"not done yet: {listed(left)}")

    def ask(self, question: str, *, timeout: float | None = None) -> str:
        """Ask a person and return the answer (`conductor answer`). Raises WaitTimedOut, AttemptRevoked.

        Who was ended while asking may ask the same again: an answer that has come meanwhile is returned at once.
        """
        if not question.strip() or len(question) > MAX_QUESTION:
            raise ValueError(f"a question has 1 to {MAX_QUESTION} characters")
        id = hashlib.sha256(f"{self.attempt}\0{question}".encode(errors="replace")).hexdigest()[:8]
        with self._refusals("the question cannot be asked"):
            answer = self._hand.answer(id)
            if answer is not None:
                return answer
            with self._waiting("question", (), text=question, id=id) as wait:
                self._send("QUESTION", {"id": wait.id, "text": question})
                tell = f"question {wait.id} has no answer yet"
                return self._until(lambda: self._hand.answer(wait.id), timeout, PERIOD, lambda: tell)

    @contextmanager
    def _waiting(self, kind: str, what: Sequence[str], *, text: str = "", id: str | None = None) -> Iterator[WaitFile]:
        try:
            wait = self._hand.begin_wait(kind, what, text=text, id=id)
        except FileExistsError:  # another process of this attempt asks the same
            wait = self._hand.begin_wait(kind, what, text=text)
        try:
            yield wait
        finally:
            self._hand.end_wait(wait)

    def _until(self, look: Callable[[], T | None], timeout: float | None, period: float, tell: Callable[[], str]) -> T:
        """Look until there is something. `timeout` is in seconds."""
        begun = told = now = self._clock()
        asked = begun - STOP_PERIOD
        while True:
            found = look()
            if found is not None:
                return found
            if now - asked >= STOP_PERIOD:
                asked = now
                reason = self._hand.revoked()
                if reason is not None:
                    raise AttemptRevoked(reason)
            now = self._clock()
            if timeout is not None and now - begun >= timeout:
                raise WaitTimedOut(f"after {timeout:g} s: {tell()}")
            if self._say is not None and now - told >= TELL_PERIOD:
                told = now
                self._say(f"still waiting: {tell()}{self._alone()}")
            self._sleep(period if timeout is None else min(period, begun + timeout - now))

    def _alone(self) -> str:
        with self._refusals("the conductor cannot be looked for"):
            if self._looking().holder() is not None:
                return ""
        return "; no conductor runs, so what a dead worker holds is not freed before `conductor run`"

    def _blocked(self, waiting_for: Sequence[str], resource: Sequence[str]) -> None:
        self._send("BLOCKED", {"task_id": self._task, "waiting_for": list(waiting_for), "resource": list(resource)})

    # --- handing in -------------------------------------------------------------------------------------------------

    def _looking(self) -> Reader:
        if self._reader is None:
            self._reader = self._open_reader()
        return self._reader

    def _report(self, payload: Mapping[str, Any]) -> None:
        with self._refusals("could not hand it in"):
            self._hand.report(new_message(self.attempt, "REPORT", payload))

    def _send(self, type: str, payload: JsonObject) -> Message:
        message = new_message(self.attempt, type, payload)
        with self._refusals("could not hand it in"):
            self._hand.publish(message)
        return message

    def _refusals(self, what: str) -> Refusals:
        return Refusals(self._path, what)


class _Queue:
    """What a wait for a lock remembers from one look to the next."""

    def __init__(self, busy: Busy) -> None:
        self.busy = busy
        self.changes: object = None
        self.look_at = 0.0
