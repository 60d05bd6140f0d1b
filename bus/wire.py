"""What is written on the bus, byte for byte. Pure: standard library only, opens nothing.

Two envelopes. A `Message` is what anybody *hands in*: one file in `inbox/`, a JSON line and a checksum line, so that a
shell can make one with `sha256sum`. A `Record` is what the conductor *records*: one line of `queue.jsonl`. Two bodies
are read by both sides: `ExitRecord` (`exit.json`, the result of an attempt) and `ProcRecord` (`proc.json`, a worker's
claim of its attempt). `WorkerSpec` is the order that a conductor gives to a worker.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NewType

from bus.strict import WireError, loads_strict

TaskId = NewType("TaskId", str)
"""A task's id exactly as the plan writes it."""

AttemptId = NewType("AttemptId", str)
"""`<encoded task>~<number>-<8 hex nonce>`; unique over the life of a bus. See `bus.layout`."""

MAX_LINE = 4096
"""Longest journal line in bytes, newline included. A larger payload becomes a blob first."""

MAX_MESSAGE = 1 << 20
"""Longest message in bytes."""

CONDUCTOR_TYPES = frozenset({
    "RUN_STARTED", "RUN_RESUMED", "RUN_ENDED", "ATTEMPT_ADOPTED", "ATTEMPT_LIFE", "ATTEMPT_ENDED",
    "WORKER_DISPATCHED", "WORKER_GONE", "LAUNCH_FAILED", "STOP", "RETRY_SCHEDULED", "TIMER_FIRED", "WAIT_BEGAN",
    "WAIT_ENDED", "GRANT_SEEN", "GRANT_GONE", "PLAN_EDITED", "CONTROL", "FOREIGN_WRITE", "QUARANTINED",
    "DEADLOCK_DETECTED", "DEADLOCK_RESOLVED", "PROVIDER_PAUSED", "PROVIDER_RESUMED", "TASK_COMPLETE", "TASK_FAILED",
    "TASK_BLOCKED", "TASK_SKIPPED", "TASK_CANCELLED", "DEP_READY",
})  # fmt: skip
"""Types of records that are facts and decisions of the conductor: a message of such a type is refused."""

PROVIDER_CLASSES = ("rate_limit", "quota", "overloaded", "auth", "billing")
"""Classes of failure that are a limit of the provider that a task works with, and no fault of the task."""

MAX_PID = (1 << 31) - 1
"""Largest pid that a system call takes."""

LOCKS = "locks"
"""Phase that a worker's beat names while it waits for the locks that its command needs: nothing of that has run."""

JsonObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Stamp:
    """When something was journaled, on the conductor's clocks. Only `mono` of one `boot` may be subtracted."""

    wall: float
    """Seconds since the epoch; for people."""
    mono: float
    """Seconds of CLOCK_BOOTTIME (CLOCK_MONOTONIC where there is none)."""
    boot: str
    """The boot id; `mono` values of two boots have nothing to do with each other."""
    batch: int | None = None
    """Seq of the first record of the same write; None before it is staged."""


@dataclass(frozen=True, slots=True)
class Record:
    """One line of the journal."""

    seq: int
    epoch: int
    t: Stamp
    id: str
    """32 hex digits. A message keeps its id when it is recorded; that is how it is recognised again."""
    type: str
    source: str
    """`conductor`, `worker:<attempt>` or `operator:<who>`."""
    timestamp: str
    """ISO 8601 UTC with `Z`: `t.wall` for people and older tools."""
    task: TaskId | None
    attempt: AttemptId | None
    payload: JsonObject


@dataclass(frozen=True, slots=True)
class Message:
    """One file of `inbox/`: what a worker (or its command) says about its own attempt."""

    id: str
    """32 hex digits, random; the first 16 are in the file's name."""
    type: str
    attempt: AttemptId
    timestamp: str
    """The sender's wall clock, for people; never compared with anything."""
    payload: JsonObject


@dataclass(frozen=True, slots=True)
class ExitRecord:
    """`exit.json`: the result of an attempt, written once, last. The RESULT message has this as its payload."""

    started: bool
    """Whether the command was exec'ed."""
    ended_by: str
    """`self`, `timeout` or `stop`: other than `self` only if the ladder began before command and verify steps ended."""
    stop_reason: str | None = None
    why: str | None = None
    """Why the command was not started: `revoked`, `stale_epoch`, `spawn: <reason>`, `shortage: <reason>`."""
    command: JsonObject | None = None
    """`{"code": int|null, "signal": int|null}` of the command."""
    report: JsonObject | None = None
    """The last `bus complete|fail` of the attempt: `{"verb": "complete"|"fail", …}`. Evidence, never an end."""
    final_record: JsonObject | None = None
    """The agent's own last word, for agents that have one."""
    verify: Sequence[JsonObject] = ()
    """`{"argv": […], "code": int|null, "signal": int|null}` for each verify command that was due, in order; with
    `"error": str` for one that could not be started."""
    outputs: Sequence[JsonObject] = ()
    """`{"path": str, "exists": bool}` for each declared output."""
    usage: JsonObject | None = None
    leftovers: JsonObject = field(default_factory=dict)
    """`{"killed": [{"pid", "name"}], "kept": […]}`: processes that outlived the command."""
    tree_empty: bool = True
    """Whether nothing of the attempt's process tree was left (what policy kept does not count)."""
    started_at: str | None = None
    ended_at: str | None = None
    seconds: float | None = None
    """From the exec of the command to its end, on the worker's monotonic clock."""
    log_bytes: JsonObject = field(default_factory=dict)
    """`{"stdout": int, "stderr": int}`: bytes produced, also those that the cap dropped."""
    timeout: float | None = None
    """The limit of seconds for the command, and again for each verify command; None is no limit."""
    signals: Sequence[JsonObject] = ()
    """`{"name": "INT"|"TERM"|"KILL", "after": float}`: what the ladder sent to the last step (the command or a verify
    command) and its tree, with the seconds since the first one."""
    tail: str = ""
    """The end of stderr (of stdout where stderr is empty), at most 2 kB: for errors people read."""


@dataclass(frozen=True, slots=True)
class ProcRecord:
    """`proc.json`: the worker's claim of its attempt. A pid means something only with its boot and start ticks."""

    boot: str
    pid: int
    start_ticks: int
    epoch: int
    """The epoch of the conductor that dispatched it."""
    namespace: str = ""
    """The pid namespace in which `pid` was seen; empty where the system has none, or the worker did not say."""
    leftovers: str = "kill"
    """What becomes of processes that outlive the command: `kill`, `keep` or `fail`."""
    never_kill: Sequence[str] = ()
    """Names of processes that live on in any case."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """How a tree is ended: seconds to wait after each signal. An INT step of 0 is left out."""

    interrupt: float = 0.0
    terminate: float = 10.0

    @property
    def length(self) -> float:
        """Seconds from the first signal to KILL."""
        return self.interrupt + self.terminate


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """The order for one attempt: everything that a worker needs."""

    bus: str
    """Absolute path of the bus directory."""
    attempt: AttemptId
    epoch: int
    task: TaskId
    number: int
    """1 for the first attempt of the task."""
    nonce: str
    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to the environment (after `env_keep`)."""
    env_keep: Sequence[str] | None = None
    """Globs of inherited variables to keep; None keeps all but CONDUCTOR_* and the markers of an agent session."""
    timeout: float | None = None
    """Seconds from exec to the first signal of the ladder; None is no limit."""
    ladder: Ladder = field(default_factory=Ladder)
    verify: Sequence[Sequence[str]] = ()
    outputs: Sequence[str] = ()
    leftovers: str = "kill"
    never_kill: Sequence[str] = ("gpg-agent", "ssh-agent")
    heartbeat: float = 30.0
    """Seconds between two beats; 0 is none."""
    stale_after: float | None = None
    """Seconds without a sign of life after which somebody looks: beats come four times as often at least."""
    files: Sequence[str] = ()
    """Patterns, relative to `cwd`, of files whose change is a sign of life."""
    locks: Sequence[tuple[str, bool]] = ()
    """Keys to be locked, all or none, before the command is started, each with whether the lock is shared."""
    library: str = ""
    """Folder of the modules that locking takes, for a worker that started without any; filled in by the launcher."""
    log_cap: int = 8 << 20
    """Bytes kept of the beginning, and again of the end, of each output stream."""
    durable: bool = True
    """Whether the result is synced to disk before it is announced."""

    @property
    def beat_period(self) -> float:
        """Seconds between two beats; 0 is none."""
        return beat_period(self.heartbeat, self.stale_after)


def beat_period(heartbeat: float, stale_after: float | None) -> float:
    """Return the seconds between two beats of a worker: what is called stale after some time needs four of them."""
    return min(heartbeat, stale_after / 4) if stale_after else heartbeat


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def dumps(value: Any) -> str:
    """Encode compactly, keeping non-ASCII text as it is; NaN and infinities are refused."""
    return _ENCODER.encode(value)


def to_json(value: Any) -> dict[str, Any]:
    """Turn one of the dataclasses of this module into JSON data, which shares its containers with `value`."""
    # dataclasses.asdict copies every payload deeply; it took more time than writing the file.
    data = {name: getattr(value, name) for name in value.__dataclass_fields__}
    if type(value) is WorkerSpec:
        data["ladder"] = to_json(value.ladder)
    return data


def exit_from_json(data: JsonObject) -> ExitRecord:
    """Rebuild an `ExitRecord`, ignoring fields that a newer minor format added."""
    return ExitRecord(**_known(ExitRecord, data))


def proc_from_json(data: JsonObject) -> ProcRecord:
    """Rebuild a `ProcRecord`, ignoring unknown fields. Raises TypeError where a field is not what it must be."""
    known = _known(ProcRecord, data)
    if isinstance(known.get("never_kill"), list):
        known["never_kill"] = tuple(known["never_kill"])
    proc = ProcRecord(**known)
    sound = all(type(getattr(proc, name)) is kind for name, kind in _CLAIM.items())
    if not sound or not 0 <= proc.pid <= MAX_PID or not all(isinstance(name, str) for name in proc.never_kill):
        raise TypeError("not a claim")
    return proc


_CLAIM = {"boot": str, "pid": int, "start_ticks": int, "epoch": int, "namespace": str, "leftovers": str,
          "never_kill": tuple}  # fmt: skip


def spec_from_json(data: JsonObject) -> WorkerSpec:
    """Rebuild a `WorkerSpec`, ignoring unknown fields."""
    known = _known(WorkerSpec, data)
    known["ladder"] = Ladder(**known.get("ladder", {}))
    return WorkerSpec(**known)


def _known(kind: type[Any], data: JsonObject) -> dict[str, Any]:
    names = kind.__dataclass_fields__
    return {name: value for name, value in data.items() if name in names}


_RAW = json.JSONDecoder().raw_decode


def encode_record(record: Record) -> bytes:
    """One journal line, newline included; `crc` covers the bytes before `,"crc"`."""
    t: dict[str, Any] = {} if record.t.batch is None else {"batch": record.t.batch}
    t |= {"wall": record.t.wall, "mono": record.t.mono, "boot": record.t.boot}
    head = dumps(
        {
            "seq": record.seq,
            "epoch": record.epoch,
            "t": t,
            "id": record.id,
            "type": record.type,
            "source": record.source,
            "timestamp": record.timestamp,
            "task": record.task,
            "attempt": record.attempt,
            "payload": record.payload,
        }
    )[:-1].encode()
    return b'%s,"crc":"%08x"}\n' % (head, zlib.crc32(head))


def is_line(line: bytes) -> bool:
    """Tell whether a journal line (newline optional) is whole: its checksum fits. Much cheaper than to decode it."""
    head, mark, crc = line.rstrip(b"\n").rpartition(b',"crc":"')
    return bool(mark) and crc == b'%08x"}' % zlib.crc32(head)


def decode_record(line: bytes) -> Record:
    """Read one journal line (newline optional). Raises WireError where anything about it is wrong."""
    if not is_line(line):
        raise WireError("no checksum at the end of the line, or one that does not fit")
    return decode_sound(line)


def decode_sound(line: bytes) -> Record:
    """Read a line whose checksum was found right before. Raises WireError where it is no record."""
    try:
        text = line.decode()
        data, end = _RAW(text)  # json.loads guesses at the encoding first, which takes a third of the time
        if text[end:] not in ("", "\n"):
            raise WireError("something stands behind the record")
        t = data["t"]
        stamp = Stamp(t["wall"], t["mono"], t["boot"], t.get("batch"))
        return Record(
            data["seq"], data["epoch"], stamp, data["id"], data["type"], data["source"], data["timestamp"],
            data["task"], data["attempt"], data["payload"],
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WireError(f"not a journal line: {error}") from error


def encode_message(message: Message) -> bytes:
    """The two lines of a message file."""
    body = dumps(to_json(message)).encode()
    return b"%s\nsha256:%s\n" % (body, hashlib.sha256(body).hexdigest().encode())


_ID = re.compile(r"[0-9a-f]{32}\Z")
_TYPE = re.compile(r"[A-Z][A-Z0-9_]{0,63}\Z")
_CHECKSUM_LINE = len("\nsha256:\n") + 64


def decode_message(data: bytes) -> Message:
    """Read a message file. Raises WireError, and nothing else, where anything about it is wrong.

    Refused: more than MAX_MESSAGE bytes, nesting beyond MAX_DEPTH, a checksum that does not fit, double keys, NaN and
    infinities, lone surrogates, fields of a wrong type. Further fields are ignored: a newer minor format may have them.
    """
    if len(data) > MAX_MESSAGE:
        raise WireError(f"longer than {MAX_MESSAGE} bytes")
    body, checksum = data[:-_CHECKSUM_LINE], data[-_CHECKSUM_LINE:]
    if not body or b"\n" in body or not checksum.startswith(b"\nsha256:") or not checksum.endswith(b"\n"):
        raise WireError("not one JSON line and one line `sha256:<64 hex digits>`")
    if hashlib.sha256(body).hexdigest().encode() != checksum[8:-1]:
        raise WireError("the checksum does not fit the line")
    found = loads_strict(body)
    if not isinstance(found, dict):
        raise WireError("not a JSON object")
    message = Message(
        id=_text(found, "id"),
        type=_text(found, "type"),
        attempt=AttemptId(_text(found, "attempt")),
        timestamp=_text(found, "timestamp"),
        payload=found.get("payload", {}),
    )
    if not _ID.match(message.id):
        raise WireError("`id` is not 32 lower-case hex digits")
    if not _TYPE.match(message.type):
        raise WireError("`type` is not a word like PROGRESS")
    if not isinstance(message.payload, dict):
        raise WireError("`payload` is not an object")
    return message


def _text(found: dict[str, Any], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str):
        raise WireError(f"`{name}` is missing or not text")
    return value
