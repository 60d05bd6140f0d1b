"""`conductor.toml` as a strict model. Loaded only where there is such a file: it needs pydantic."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from conductor.config_values import BUILT_IN, HOOK_EVENTS, intensity, row
from conductor.errors import ConductorError
from conductor.plan.commands import split_command
from conductor.plan.durations import parse_duration


def _duration(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError('a duration is seconds, or text such as "30m" or "1h30m"')
    return parse_duration(str(value))


def _checked_intensity(value: str) -> str:
    intensity(value)
    return value


def _command(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return split_command(value)
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise ValueError("a command is text, or a list of texts")


def _hooks(value: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    for event in value:
        if event not in HOOK_EVENTS:
            raise ValueError(f"no command can be told of {event!r}; there are {', '.join(HOOK_EVENTS)}")
    return value


Duration = Annotated[float, BeforeValidator(_duration)]
Command = Annotated[tuple[str, ...] | None, BeforeValidator(_command)]
Hooks = Annotated[dict[str, Annotated[tuple[str, ...], BeforeValidator(_command)]], AfterValidator(_hooks)]
Row = Annotated[int | None, BeforeValidator(row)]
Bound = Annotated[int, Field(ge=0)]


class ConfigFile(BaseModel):
    """What a `conductor.toml` may say. Every key is optional; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_workers: Annotated[int, Field(ge=1)] = BUILT_IN.max_workers
    retries: Annotated[int, Field(ge=0)] = BUILT_IN.retries
    timeout: Duration = BUILT_IN.timeout
    stale_after: Duration = BUILT_IN.stale_after
    heartbeat: Annotated[Duration, Field(gt=0)] = BUILT_IN.heartbeat
    retry_delay: Duration = BUILT_IN.retry_delay
    retry_delay_max: Duration = BUILT_IN.retry_delay_max
    restart_intensity: Annotated[str, AfterValidator(_checked_intensity)] = BUILT_IN.restart_intensity
    command: Command = BUILT_IN.command
    agent: str | None = BUILT_IN.agent
    on_conflict: Annotated[str, Field(pattern="^(serialize|lock|allow)$")] = BUILT_IN.on_conflict
    parallel: Annotated[str, Field(pattern="^(any|pure-read)$")] = BUILT_IN.parallel
    schedule: Annotated[str, Field(pattern="^(ready|groups)$")] = BUILT_IN.schedule
    resources: dict[str, Annotated[int, Field(ge=1)]] = {}
    deadlock_victim: Annotated[str, Field(pattern="^(youngest|oldest|fewest-locks)$")] = BUILT_IN.deadlock_victim
    breaker: Row = BUILT_IN.breaker
    breaker_reset: Annotated[Duration, Field(gt=0)] = BUILT_IN.breaker_reset
    max_tasks: Bound | None = BUILT_IN.max_tasks
    max_fan_out: Bound | None = BUILT_IN.max_fan_out
    max_join_width: Bound | None = BUILT_IN.max_join_width
    run_timeout: Duration = BUILT_IN.run_timeout
    budget_usd: Annotated[float, Field(ge=0)] | None = BUILT_IN.budget_usd
    leftovers: Annotated[str, Field(pattern="^(kill|keep|fail)$")] = BUILT_IN.leftovers
    never_kill: tuple[str, ...] = BUILT_IN.never_kill
    durability: Annotated[str, Field(pattern="^(power|process)$")] = BUILT_IN.durability
    terminate_grace: Annotated[Duration, Field(gt=0)] = BUILT_IN.terminate_grace
    log_cap: Annotated[int, Field(ge=4096)] = BUILT_IN.log_cap
    hooks: Hooks = Field(default_factory=dict)
    hook_timeout: Annotated[Duration, Field(gt=0)] = BUILT_IN.hook_timeout


def read(path: Path) -> dict[str, Any]:
    """Return what a file sets. Raises ConductorError (`usage`) naming file and key."""
    try:
        given = ConfigFile(**tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConductorError("usage", f"cannot read the configuration: {error}", path=str(path)) from error
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        text = (
            "is not a known setting"
            if first["type"] == "extra_forbidden"
            else first["msg"].removeprefix("Value error, ")
        )
        known = ", ".join(sorted(ConfigFile.model_fields))
        raise ConductorError(
            "usage", f"setting `{name}`: {text}", path=str(path), hint=f"known settings: {known}"
        ) from error
    return {name: getattr(given, name) for name in given.model_fields_set}
