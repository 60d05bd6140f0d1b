"""Names on the bus: ids <-> file names. Pure; opens nothing.

A task's id is text that a person chose; here it becomes part of a file name that is safe on every file system, can be
read by people where it was plain before, and can be turned back. `~` separates the task from the number of its attempt
and therefore never stands in a task's name; `%` begins an escape.
"""

from __future__ import annotations

import hashlib
import re

from bus.wire import AttemptId, TaskId

FORMAT = "FORMAT"
GITIGNORE = ".gitignore"
LOCK = "conductor.lock"
HOLDER = "conductor.json"
JOURNAL = "queue.jsonl"
DOUBT = "journal.doubt"
CUT = "journal.cut"
RESERVE = "reserve"
LOCKS_VIEW = "locks.json"
WORKERS_VIEW = "worker-status.json"
WRAPPER = "conductor"

EPOCHS = "epochs"
PLAN = "plan"
SEGMENTS = "segments"
SNAPSHOTS = "snapshots"
TMP = "tmp"
INBOX = "inbox"
CONTROL = "control"
EVENTS = "events"
ARCHIVE = "events/archive"
ATTEMPTS = "attempts"
HEARTBEATS = "heartbeats"
WORKER_STATUS = "worker-status"
LOCKS = "locks"
WAITS = "waits"
BLOBS = "blobs"
QUARANTINE = "quarantine"
BIN = "bin"

FOLDERS = (
    EPOCHS,
    PLAN,
    SEGMENTS,
    SNAPSHOTS,
    TMP,
    INBOX,
    CONTROL,
    EVENTS,
    ARCHIVE,
    ATTEMPTS,
    HEARTBEATS,
    WORKER_STATUS,
    LOCKS,
    WAITS,
    BLOBS,
    QUARANTINE,
    BIN,
)
"""The folders of a bus, parents first. Those below `attempts/` are made when they are needed."""

LIVE = "live"
PROC = "proc.json"
"""Two lines: the worker's claim, and who its command is once it was started. One file, as each file kept costs."""
EXIT = "exit.json"
REVOKED = "revoked"
REPORT = "report.json"
STDOUT = "log"
STDERR = "log.err"
PROMPT = "prompt.md"
TASK = "task.json"
IN = "in"
"""Folder of an attempt for what people have to say to it."""
QUESTION = "question-"
ANSWER = "answer-"
"""In `in/`, each followed by the id of the question. Whoever asks holds the lock of the first."""
MUTEX = ".mutex"
"""In `locks/`: locked while a grant is made. Never removed, never replaced."""
TOKEN = ".token"
"""In `locks/`: the last number that a grant or a place in the queue was given."""

MAX_TASK_NAME = 120
"""Longest task name in characters; with attempt, message id and suffix it stays below the 255 of a file name."""

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}\Z")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|\Z)", re.IGNORECASE)
_ESCAPE = re.compile(r"%([0-9A-F]{2})")
_HASHED = re.compile(r"%-[0-9a-f]{32}\Z")
_TASK_NAME = r"[A-Za-z0-9%][A-Za-z0-9._%-]{0,119}"
_ATTEMPT = re.compile(rf"({_TASK_NAME})~([1-9][0-9]{{0,8}})-([0-9a-f]{{8}})\Z")
_MESSAGE = re.compile(rf"({_TASK_NAME}~[1-9][0-9]{{0,8}}-[0-9a-f]{{8}})\.([0-9a-f]{{16}})\.msg\Z")
_CONTROL = re.compile(r"([0-9]{8})-([a-z][a-z_-]{0,31})\Z")
_EVENT = re.compile(rf"(TASK_COMPLETE|TASK_FAILED|TASK_BLOCKED|DEP_READY|FILE_UNLOCK)_({_TASK_NAME})\.event\Z")
_SCRATCH = re.compile(rf"([0-9]{{8}}|operator|{_TASK_NAME}~[1-9][0-9]{{0,8}}-[0-9a-f]{{8}})\.")
_GRANT = re.compile(rf"({_TASK_NAME}~[1-9][0-9]{{0,8}}-[0-9a-f]{{8}})\.([0-9a-f]{{8}})\.grant\Z")
_WAIT = re.compile(rf"({_TASK_NAME}~[1-9][0-9]{{0,8}}-[0-9a-f]{{8}})\.([0-9a-f]{{8}})\.json\Z")
_TEXT = re.compile(r"(?:[0-9]{8}-steer\.md|(?:question|answer)-[0-9a-f]{8})\Z")
_EPOCH = re.compile(r"[0-9]{8}\Z")
_SEGMENT = re.compile(r"([0-9]{12})-([0-9]{12})\.(jsonl|lost)\Z")
_SNAPSHOT = re.compile(r"([0-9]{12})\.json\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_UNREADABLE = re.compile(r"[^A-Za-z0-9.-]|\.\.+")
_UNFIT = re.compile(rb"[^A-Za-z0-9._~%-]")


class LayoutError(ValueError):
    """A name or an id that has no place on the bus; the text says why."""


def encode_task_id(task: TaskId) -> str:
    """Return the task's name in file names; different ids have different names.

    An id of letters, digits, `.`, `_`, `-` is its own name. Otherwise its unfit bytes are written `%XX`; a name that
    would be longer than MAX_TASK_NAME is cut and gets `%-` and a hash. Raises LayoutError for an empty id and for one
    that is not Unicode text.
    """
    if _PLAIN.match(task) and ".." not in task and task[-1] != "." and not _DEVICE.match(task):
        return task
    if not task:
        raise LayoutError("a task's id must not be empty")
    try:
        raw = task.encode()
    except UnicodeEncodeError as error:
        raise LayoutError(f"a task's id must be Unicode text: {error}") from error
    name = _percent(raw, device=_DEVICE.match(task) is not None)
    if len(name) <= MAX_TASK_NAME:
        return name
    stem = name[:80]
    if "%" in stem[-2:]:  # never cut inside an escape
        stem = stem[: stem.rindex("%")]
    return f"{stem}%-{hashlib.sha256(raw).hexdigest()[:32]}"


def _percent(raw: bytes, *, device: bool) -> str:
    """Escape what is unfit: anything but letters, digits, `_`, `-` and single inner dots; the first character if it
    is no letter or digit, or if the whole would be a device's name."""
    out: list[str] = []
    last = len(raw) - 1
    for index, byte in enumerate(raw):
        char = chr(byte)
        plain = byte < 128 and (char.isalnum() or (index > 0 and char in "_-"))
        dot = char == "." and 0 < index < last and raw[index - 1] != byte
        out.append(char if (plain or dot) and not (device and index == 0) else f"%{byte:02X}")
    return "".join(out)


def decode_task_id(name: str) -> TaskId:
    """Turn a task's name back into its id.

    Raises LayoutError for a text that `encode_task_id` never returns, and for a name that was cut: its id is in the
    journal, not in the name.
    """
    if _HASHED.search(name):
        raise LayoutError(f"{name} was cut; it does not hold the whole id")
    try:
        raw = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), name).encode("latin-1")
        task = TaskId(raw.decode())
    except UnicodeError as error:
        raise LayoutError(f"{name!r} is no task's name") from error
    if encode_task_id(task) != name:
        raise LayoutError(f"{name!r} is no task's name")
    return task


def collision_key(task: TaskId) -> str:
    """Return what two ids must not share: the id after NFC and case folding."""
    import unicodedata  # a big table that workers never need

    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", task).casefold())


def attempt_id(task: TaskId, number: int, nonce: str) -> AttemptId:
    """Name an attempt. `number` counts from 1; `nonce` is 8 hex digits. Raises LayoutError where they are not that."""
    attempt = AttemptId(f"{encode_task_id(task)}~{number}-{nonce}")
    parse_attempt(attempt)
    return attempt


def parse_attempt(attempt: str) -> tuple[str, int, str]:
    """Return (task's name, number, nonce). Raises LayoutError for anything that is no attempt's id."""
    match = _ATTEMPT.match(attempt)
    if match is None:
        raise LayoutError(f"{attempt!r} is no attempt's id: <task>~<number>-<8 hex digits>")
    return match[1], int(match[2]), match[3]


def bucket(attempt: AttemptId) -> str:
    """First digit of the attempt's nonce: attempts are spread, so that no folder grows without end."""
    return attempt[-8]


def bucket_dir(attempt: AttemptId) -> str:
    """The folder that holds the attempt's, relative to the bus."""
    return f"{ATTEMPTS}/{attempt[-8]}"


def attempt_dir(attempt: AttemptId) -> str:
    """The attempt's folder, relative to the bus."""
    return f"{ATTEMPTS}/{attempt[-8]}/{attempt}"


def message_name(attempt: AttemptId, id: str) -> str:
    """File name of a message in `inbox/`. `id` is the message's, 32 hex digits."""
    return f"{attempt}.{id[:16]}.msg"


def parse_message_name(name: str) -> tuple[AttemptId, str] | None:
    """Return (attempt, first 16 digits of the id); None where it is no message's name."""
    match = _MESSAGE.match(name)
    return (AttemptId(match[1]), match[2]) if match else None


def grant_name(attempt: AttemptId, id: str) -> str:
    """File name in `locks/` of what an attempt holds. `id` is 8 hex digits."""
    return f"{attempt}.{id}.grant"


def parse_grant_name(name: str) -> tuple[AttemptId, str] | None:
    """Return (attempt, id); None where it is no grant's name."""
    match = _GRANT.match(name)
    return (AttemptId(match[1]), match[2]) if match else None


def wait_name(attempt: AttemptId, id: str) -> str:
    """File name in `waits/` of what an attempt waits for. `id` is 8 hex digits."""
    return f"{attempt}.{id}.json"


def parse_wait_name(name: str) -> tuple[AttemptId, str] | None:
    """Return (attempt, id); None where it is no wait's name."""
    match = _WAIT.match(name)
    return (AttemptId(match[1]), match[2]) if match else None


def steer_name(number: int) -> str:
    """File name in an attempt's `in/` of a text that somebody sent to it, in the order of the numbers."""
    return check_text_name(f"{number:08d}-steer.md")


def is_steer_name(name: str) -> bool:
    """Tell whether a file in an attempt's `in/` is a text that somebody sent to it."""
    return name.endswith("-steer.md") and _TEXT.match(name) is not None


def question_name(id: str) -> str:
    """File name in an attempt's `in/` of a question that waits for its answer. `id` is 8 hex digits."""
    return check_text_name(f"{QUESTION}{id}")


def answer_name(id: str) -> str:
    """File name in an attempt's `in/` of the answer to a question."""
    return check_text_name(f"{ANSWER}{id}")


def check_text_name(name: str) -> str:
    """Return the name of a file in an attempt's `in/`. Raises LayoutError for any other."""
    if not _TEXT.match(name):
        raise LayoutError(f"{name!r} is no name of a text for an attempt")
    return name


def control_name(number: int, verb: str) -> str:
    """File name of an operator's order. Raises LayoutError where the verb is not lower-case ASCII."""
    name = f"{number:08d}-{verb}"
    if parse_control_name(name) is None:
        raise LayoutError(f"{verb!r} is no verb")
    return name


def parse_control_name(name: str) -> tuple[int, str] | None:
    """Return (number, verb); None where it is no order's name."""
    match = _CONTROL.match(name)
    return (int(match[1]), match[2]) if match else None


def event_name(type: str, task: TaskId) -> str:
    """File name of a projection in `events/`."""
    return f"{type}_{encode_task_id(task)}.event"


def key_name(key: str) -> str:
    """Return what stands for a locked path in a file name: its readable end, and 12 digits of its hash."""
    stem = _UNREADABLE.sub("_", key)[-60:].lstrip("._-") or "key"
    return f"{stem}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def parse_event_name(name: str) -> tuple[str, str] | None:
    """Return (type, task's name, or the name of a key); None where it is no projection's name."""
    match = _EVENT.match(name)
    return (match[1], match[2]) if match else None


def scratch_owner(name: str) -> str | None:
    """Return who made a file in `tmp/`: an attempt, an epoch (8 digits), or `operator`; None where it does not say."""
    match = _SCRATCH.match(name)
    return match[1] if match else None


def epoch_name(epoch: int) -> str:
    """File name of a conductor's start in `epochs/`."""
    return f"{epoch:08d}"


def parse_epoch_name(name: str) -> int | None:
    """Return the epoch's number; None where it is no epoch's name."""
    return int(name) if _EPOCH.match(name) else None


def segment_name(first: int, last: int, *, lost: bool = False) -> str:
    """File name in `segments/` of the sealed part of the journal that holds the records `first` to `last`, or, with
    `lost`, of the note that they are gone."""
    return f"{first:012d}-{last:012d}.{'lost' if lost else 'jsonl'}"


def parse_segment_name(name: str) -> tuple[int, int, bool] | None:
    """Return (first seq, last seq, whether they are gone); None where it is no segment's name."""
    match = _SEGMENT.match(name)
    return (int(match[1]), int(match[2]), match[3] == "lost") if match else None


def snapshot_name(seq: int) -> str:
    """File name in `snapshots/` of the state after the record `seq`."""
    return f"{seq:012d}.json"


def parse_snapshot_name(name: str) -> int | None:
    """Return the seq; None where it is no snapshot's name."""
    match = _SNAPSHOT.match(name)
    return int(match[1]) if match else None


def plan_name(sha: str) -> str:
    """File name of a frozen plan in `plan/`. Raises LayoutError where `sha` is not 64 hex digits."""
    return f"{blob_name(sha)}.json"


def blob_name(sha: str) -> str:
    """File name of a payload in `blobs/`. Raises LayoutError where `sha` is not 64 hex digits."""
    if not _SHA256.match(sha):
        raise LayoutError(f"{sha!r} is no SHA-256")
    return sha


def status_name(attempt: AttemptId) -> str:
    """File name of a worker's status in `worker-status/`."""
    return f"{attempt}.json"


def quarantine_name(number: int, found: bytes) -> str:
    """File name in `quarantine/` of something that was found under the name `found`, which may be any bytes."""
    fit = _UNFIT.sub(lambda match: b"%%%02X" % match[0][0], found).decode()
    return f"{number:08d}-{fit[:150]}"
