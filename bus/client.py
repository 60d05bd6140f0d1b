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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from bus.errand import STOP_PERIOD, TELL_PERIOD, Errand
from bus.errors import (
    AttemptRevoked,
    BusGone,
    LockBusy,
    MutexHeld,
    NotInWorker,
    Shortage,
    TaskNotDone,
)  # fmt: skip
from bus.grants import Busy
from bus.inside import Refusals, check_usage, listed, paths_of, surroundings
from bus.wire import PROVIDER_CLASSES, JsonObject, TaskId

if TYPE_CHECKING:
    from bus.contract import Reader
    from bus.grants import Grant

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

NO_WAIT = 1.0
"""Seconds that even those wait who want none, for somebody who has the mutex: it is held for moments."""

TELL_MUTEX = 5.0
"""Seconds after which it is told that somebody stands still with the mutex."""


def _open_reader(root: str) -> Reader:
    """Loaded by those who wait for a task, or long."""
    from bus.reader import open_reader

    return open_reader(root)


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


class Client(Errand):
    """One attempt's talk with the conductor and with the other attempts. Not to be shared by threads."""

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

    def over(self) -> str | None:
        """Return why nothing of the attempt counts any more: as `revoked`, and also where it has its result."""
        with self._refusals("it cannot be seen whether the attempt is over"):
            return self._hand.over()

    def progress(self, percent: float, text: str = "") -> None:
        """Say how far the task is, in percent, and what it does now."""
        if not 0 <= percent <= 100:
            raise ValueError(f"the progress is 0 to 100 percent, not {percent!r}")
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
        if error_class is not None and error_class not in PROVIDER_CLASSES:
            raise ValueError(f"{error_class!r} is no limit of a provider; there are {', '.join(PROVIDER_CLASSES)}")
        if retry_after is not None and retry_after < 0:
            raise ValueError(f"`retry_after` is seconds from now on, not {retry_after!r}")
        more = {"class": error_class, "retry_after": retry_after}
        self._report({"verb": "fail", "message": message} | {k: v for k, v in more.items() if v is not None})

    def usage(
        self, *, cost_usd: float | None = None, input_tokens: int | None = None, output_tokens: int | None = None
    ) -> None:
        """Say what the attempt has used so far, in all."""
        used = {"cost_usd": cost_usd, "input_tokens": input_tokens, "output_tokens": output_tokens}
        self.post("USAGE", {name: value for name, value in used.items() if value is not None})

    def post(self, type: str, payload: JsonObject) -> None:
        """Put a message of your own into the journal: a type in capitals and an object."""
        if type == "USAGE":
            check_usage(payload)
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

    def lock_keys(
        self,
        wanted: Sequence[tuple[str, bool]],
        *,
        timeout: float | None = None,
        wait: bool = True,
        lasting: bool = False,
    ) -> Held:
        """As `lock`, for (key, shared) pairs: both modes together, all or none. What is `lasting` is held until the
        attempt is over, whatever is unlocked in it."""
        queue, begun = _Queue(wanted, lasting), self._clock()
        patience = NO_WAIT if not wait else STOP_PERIOD if timeout is None else min(STOP_PERIOD, timeout)
        with self._refusals("it cannot be locked"):
            found = self._try(queue, wait=wait, patience=patience)
            if found is None:
                if not wait:
                    raise LockBusy(queue.tell(), hint="leave out --no-wait (`wait=False`) to wait for it")
                found = self._wait_for_lock(queue, timeout, begun, patience)
        fresh = [grant for grant in found if self._hand.made(grant) and not self._uses[grant.token]]
        self._uses.update(grant.token for grant in found)
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
            named = [self.key_of(path) for path in paths] if paths else None
            released = self._patiently(lambda: self._hand.unlock(named, patience=STOP_PERIOD))
            if released:
                self._send("FILE_UNLOCK", paths_of(released))
            return released

    def lasts(self, path: str) -> bool:
        """Tell whether a path is held until the attempt is over, whatever is unlocked: the worker took it for its
        command."""
        from bus.contention import covers

        with self._refusals("it cannot be seen what is locked"):
            key = self.key_of(path)
            return any(covers(grant, key, shared=True) for grant in self._hand.lasting())

    def _give_back(self, grants: Sequence[Grant]) -> None:
        with self._refusals("it cannot be unlocked"), suppress(AttemptRevoked):  # it ends with the attempt
            self._uses.subtract(grant.token for grant in grants)
            unused = [grant for grant in grants if not self._uses[grant.token] and self._hand.made(grant)]
            if unused:
                self._patiently(lambda: self._hand.release(unused, patience=STOP_PERIOD))
                self._send("FILE_UNLOCK", paths_of(tuple(key for grant in unused for key in grant.keys)))

    def _try(self, queue: _Queue, *, wait: bool, patience: float) -> tuple[Grant, ...] | None:
        """Try once; what was in the way is kept in `queue`."""
        try:
            found = self._hand.try_lock(queue.wanted, queue=wait, lasting=queue.lasting, patience=patience)
        except MutexHeld as error:
            queue.trouble = error.message
            return None
        queue.trouble = None
        if isinstance(found, tuple):
            return found
        queue.busy = found
        return None

    def _wait_for_lock(self, queue: _Queue, timeout: float | None, begun: float, patience: float) -> tuple[Grant, ...]:
        self._blocked(list(queue.busy.holders), [key for key, _ in queue.wanted])
        goes_on = begun

        def look() -> tuple[Grant, ...] | None:
            nonlocal goes_on
            now, changes = self._clock(), self._hand.lock_changes()
            if changes == queue.changes and now < queue.look_at:
                return None
            queue.changes, queue.look_at = changes, now + LOOK_ANYWAY
            try:
                found = self._try(queue, wait=True, patience=patience)
            except Shortage as error:  # it may pass, and our place in the queue would be lost
                queue.trouble, found = error.message, None
            if queue.trouble is None:
                goes_on = now
            elif self._say is not None and now - goes_on >= TELL_MUTEX:
                goes_on = now + TELL_PERIOD
                self._say(queue.trouble)
            return found

        try:
            return self._until(look, timeout, LOCK_PERIOD, queue.tell, begun)
        finally:
            for wait in queue.busy.waits:
                self._hand.end_wait(wait)

    # --- waits ------------------------------------------------------------------------------------------------------

    def wait(self, *tasks: str, timeout: float | None = None) -> None:
        """Wait until these tasks are done. Raises TaskNotDone as soon as one of them has ended otherwise, WaitTimedOut,
        AttemptRevoked; BusError `unknown_task`."""
        from bus.outcomes import DONE, NEEDS_US, Outcomes

        if not tasks or self._task in tasks:
            raise ValueError("a task cannot wait for itself" if tasks else "name the tasks to wait for")
        outcomes = Outcomes(self._looking(), map(TaskId, tasks), waiter=self._task)
        left: list[str] = []

        def look() -> bool | None:
            found = outcomes.look()
            for task, outcome in found.items():
                if outcome.word == NEEDS_US:  # an error of the plan or the program: people should find it
                    self._send("NOTE", {"text": f"`bus wait {task}` can never end well: {outcome.reason}"})
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
            self._check()
            with self._waiting("question", (), text=question, id=id) as wait:
                self._send("QUESTION", {"id": wait.id, "text": question})
                tell = f"question {wait.id} has no answer yet"
                return self._until(lambda: self._hand.answer(wait.id), timeout, PERIOD, lambda: tell)


class _Queue:
    """What a call for a lock remembers from one look to the next."""

    def __init__(self, wanted: Sequence[tuple[str, bool]], lasting: bool) -> None:
        self.wanted = wanted
        self.lasting = lasting
        self.busy = Busy(())
        self.trouble: str | None = None
        """Why it could not even be looked who is in the way."""
        self.changes: object = None
        self.look_at = 0.0

    def tell(self) -> str:
        """Say what is waited for."""
        what = listed(sorted({key for key, _ in self.wanted}))
        return (
            f"{what}: {self.trouble}"
            if self.trouble
            else f"{what} is held, or was asked for before, by {listed(self.busy.holders)}"
        )
