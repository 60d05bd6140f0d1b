"""The result of an attempt, put together from what its session found."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bus.times import utc
from bus.wire import ExitRecord, WorkerSpec
from worker.pump import Log
from worker.words import Finish, Process, Sent, StepResult


def compose(
    spec: WorkerSpec,
    finish: Finish,
    *,
    report: Mapping[str, Any] | None,
    started_at: float,
    ended_at: float,
    stdout: Log,
    stderr: Log,
) -> ExitRecord:
    """Return the `exit.json` of a started attempt. `started_at` and `ended_at` are seconds since the epoch.

    Raises OSError where no folder can be searched for outputs, as this machine ran short of descriptors.
    """
    return ExitRecord(
        started=True,
        ended_by=finish.ended_by,
        stop_reason=finish.stop_reason,
        command={"code": finish.command.code, "signal": finish.command.signal},
        report=report,
        verify=[_verify(argv, result) for argv, result in zip(spec.verify, finish.verify, strict=False)],
        outputs=[{"path": path, "exists": _exists(spec.cwd, path)} for path in spec.outputs],
        leftovers=_leftovers(spec, finish),
        tree_empty=finish.tree_empty,
        started_at=utc(started_at),
        ended_at=utc(ended_at),
        seconds=round(finish.command.seconds or 0.0, 6),
        log_bytes=log_bytes(stdout, stderr),
        timeout=spec.timeout,
        signals=_signals(finish.signals),
        tail=(stderr.tail or stdout.tail).decode(errors="replace"),
    )


def not_started(why: str) -> ExitRecord:
    """Return the `exit.json` of an attempt whose command was never exec'ed."""
    now = utc()
    return ExitRecord(started=False, ended_by="self", why=why, ended_at=now)


def _exists(folder: str, pattern: str) -> bool:
    """Tell whether an output is there: a path as it stands, or anything that a pattern such as `dist/*.whl` finds."""
    if os.path.lexists(os.path.join(folder, pattern)):
        return True
    if not any(mark in pattern for mark in "*?["):
        return False
    _check_room()
    import glob  # seldom needed, and forked workers should not carry it

    if next(glob.iglob(pattern, root_dir=folder, recursive=True), None) is not None:
        return True
    _check_room()
    return False


def _check_room() -> None:
    """Raise OSError where no descriptor is left: a search, like an import, takes that for an empty folder."""
    os.close(os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))


def _verify(argv: Sequence[str], result: StepResult) -> dict[str, Any]:
    entry: dict[str, Any] = {"argv": list(argv), "code": result.code, "signal": result.signal}
    if result.error is not None:
        entry["error"] = result.error
    return entry


def _leftovers(spec: WorkerSpec, finish: Finish) -> dict[str, Any]:
    if not finish.killed and not finish.kept:
        return {}
    found: dict[str, Any] = {"killed": _listed(finish.killed), "kept": _listed(finish.kept)}
    if spec.leftovers == "fail" and finish.killed:
        found["failed"] = True
    return found


def _signals(sent: Sequence[Sent]) -> list[dict[str, Any]]:
    return [{"name": one.name, "after": round(one.at - sent[0].at, 3)} for one in sent]


def _listed(processes: Iterable[Process]) -> list[dict[str, Any]]:
    return [{"pid": process.pid, "name": process.name} for process in processes]


def log_bytes(stdout: Log, stderr: Log) -> dict[str, int]:
    """Return what `exit.json` says of the output."""
    found = {"stdout": stdout.total, "stderr": stderr.total}
    if lost := stdout.lost + stderr.lost:
        found["lost"] = lost
        found["errno"] = (stdout if stdout.lost else stderr).errno or 0
    return found
