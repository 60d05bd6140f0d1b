"""What workers and operators hand in, as strict models: foreign input becomes ours only through these.

A type that is not listed is kept, shown and acted on by nobody, whatever its payload. Unknown fields are allowed: a
newer minor version may have them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bus.strict import WireError
from bus.wire import CONDUCTOR_TYPES, JsonObject, Message


class _Model(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", frozen=True)


class ControlBody(_Model):
    """The JSON body of a file in `control/`; an empty file is a body without fields."""

    target: str | None = Field(default=None, max_length=4096)
    text: str | None = None
    who: str = Field(default="operator", max_length=256)
    epoch: int | None = Field(default=None, ge=0)
    id: str | None = Field(default=None, pattern="^[0-9a-f]{32}$")


class Progress(_Model):
    """PROGRESS: shown, changes no decision."""

    pct: Annotated[float, Field(ge=0, le=100)] | None = None
    text: str = ""


class Report(_Model):
    """REPORT: evidence from inside the attempt, never an end."""

    verb: Literal["complete", "fail"]
    commit: str | None = None
    files: list[str] = []
    message: str | None = None
    error_class: str | None = Field(default=None, alias="class", max_length=64)
    """A limit of a provider: `bus.wire.PROVIDER_CLASSES`."""
    retry_after: Annotated[float, Field(ge=0)] | None = None
    """Seconds after which that limit is over."""


class Usage(_Model):
    """USAGE: what the attempt has used so far, in all."""

    input_tokens: Annotated[int, Field(ge=0)] | None = None
    output_tokens: Annotated[int, Field(ge=0)] | None = None
    cost_usd: Annotated[float, Field(ge=0)] | None = None


class Locked(_Model):
    """FILE_LOCK and FILE_UNLOCK: hints; the files in `locks/` are the truth. The shape is that of older tools."""

    filepath: str
    filepaths: list[str] = []


class Blocked(_Model):
    """BLOCKED: the attempt waits; the files in `waits/` are the truth."""

    task_id: str | None = None
    waiting_for: list[str] | str | None = None
    resource: list[str] | str | None = None


class Question(_Model):
    """QUESTION: a person's answer is waited for."""

    id: Annotated[str, Field(pattern="^[0-9a-f]{8}$")]
    text: str


class Note(_Model):
    """NOTE: a remark for people."""

    text: str


class Command(_Model):
    """How a command ended: one of the two is set."""

    code: int | None = None
    signal: int | None = None


class Verify(Command):
    """One verify command. `error`: it could not be started, for this reason."""

    argv: list[str]
    error: str | None = None


class Sent(_Model):
    """A signal of the ladder, and the seconds since the first one."""

    name: str
    after: float


class Output(_Model):
    """One declared output."""

    path: str
    exists: bool


class Result(_Model):
    """RESULT and `exit.json`; the fields mean what `bus.wire.ExitRecord` says."""

    started: bool
    ended_by: Literal["self", "timeout", "stop"]
    stop_reason: str | None = None
    why: str | None = None
    command: Command | None = None
    report: dict[str, Any] | None = None
    final_record: dict[str, Any] | None = None
    verify: list[Verify] = []
    outputs: list[Output] = []
    usage: dict[str, Any] | None = None
    leftovers: dict[str, Any] = {}
    tree_empty: bool = True
    started_at: str | None = None
    ended_at: str | None = None
    seconds: float | None = None
    log_bytes: dict[str, int] = {}
    timeout: float | None = None
    signals: list[Sent] = []
    tail: str = ""


_PAYLOADS: dict[str, type[_Model]] = {"PROGRESS": Progress, "REPORT": Report, "NOTE": Note, "RESULT": Result,
    "FILE_LOCK": Locked, "FILE_UNLOCK": Locked, "BLOCKED": Blocked, "QUESTION": Question,
    "USAGE": Usage,
}  # fmt: skip


def fits_result(body: JsonObject) -> bool:
    """Tell whether the content of an `exit.json` is one."""
    try:
        Result.model_validate(body)
    except ValidationError:
        return False
    return True


def check_content(message: Message) -> None:
    """Raise WireError for a type that only the conductor may say, and for a payload that does not fit its type."""
    if message.type in CONDUCTOR_TYPES:
        raise WireError(f"{message.type} is said by the conductor only")
    model = _PAYLOADS.get(message.type)
    if model is None:
        return
    try:
        model.model_validate(message.payload)
    except ValidationError as error:
        raise WireError(f"payload of {message.type}: {_first(error)}") from error


def control_body(body: Any) -> ControlBody:
    """Read the body of an order. Raises WireError where it is none."""
    try:
        return ControlBody.model_validate(body)
    except ValidationError as error:
        raise WireError(f"body of the order: {_first(error)}") from error


_EXPECTED = {
    "missing": "is missing",
    "string_type": "must be text",
    "string_too_long": "must have at most {max_length} characters",
    "float_type": "must be a number",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "literal_error": "must be {expected}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than_equal": "must be at most {le:g}",
}
"""What was expected, by pydantic's name of the error."""

MAX_PLACE = 200
"""Characters of a field's place that are told: parts of it are keys that others chose."""


def _first(error: ValidationError) -> str:
    """Say where the first error is, and what is expected there: `pct: must be at most 100`."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"]))[:MAX_PLACE]
    expected = _EXPECTED.get(first["type"], "is not what it must be").format(**first.get("ctx", {}))
    return f"{where}: {expected}" if where else expected
