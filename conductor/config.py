"""Settings: `conductor.toml` and the environment are read here and nowhere else.

Precedence: task > flag > plan `defaults` > `conductor.toml` (track, then project, then the user's folder) > built in.
What decisions depend on is resolved into `core.task.RunOptions` and journaled; the rest (`Settings`) only shapes how
this process works and may differ from start to start.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bus.wire import Ladder, TaskId
from conductor.config_values import BUILT_IN, Values, intensity
from conductor.core.task import Limits, Plan, RunOptions
from conductor.errors import ConductorError
from conductor.plan.commands import CommandError, split_command
from conductor.plan.durations import parse_duration
from conductor.plan.project import project_of_plan

FILE_NAME = "conductor.toml"


@dataclass(frozen=True, slots=True)
class Flags:
    """What the command line said; None where it said nothing."""

    max_workers: int | None = None
    retries: int | None = None
    timeout: str | None = None
    command: str | None = None
    agent: str | None = None
    on_conflict: str | None = None
    parallel: str | None = None
    schedule: str | None = None
    deadlock_victim: str | None = None
    run_timeout: str | None = None
    budget: float | None = None
    """US dollars."""
    wait: bool | None = None
    """Whether to wait for people, and for a provider's limit to pass."""
    durability: str | None = None
    restart_intensity: str | None = None
    only: tuple[str, ...] = ()
    skip_ticked: bool = False
    fail_fast: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """How this process works; nothing that is decided depends on it."""

    heartbeat: float = BUILT_IN.heartbeat
    ladder: Ladder = field(default_factory=Ladder)
    never_kill: tuple[str, ...] = BUILT_IN.never_kill
    log_cap: int = BUILT_IN.log_cap
    hooks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Commands of the user by the event that they are told of."""
    hook_timeout: float = BUILT_IN.hook_timeout
    """Seconds that each of them may take."""


@dataclass(frozen=True, slots=True)
class Config:
    """All configuration files merged, with the places that they came from."""

    values: Values
    given: frozenset[str]
    """Names that some file gave."""
    files: tuple[Path, ...] = ()


def load_config(track: Path, project: Path, environ: Mapping[str, str] = os.environ) -> Config:
    """Read `conductor.toml` of the track, the project and the user; the first that names a key wins.

    Raises ConductorError (`usage`) naming file and key where a file cannot be read or says something wrong.
    """
    merged: dict[str, Any] = {}
    files = []
    for folder in (track, project, _user_folder(environ)):
        path = folder / FILE_NAME
        if path not in files and path.is_file():
            from conductor.config_file import read  # pydantic is loaded where there is a file, not before

            files.append(path)
            for name, value in read(path).items():
                merged.setdefault(name, value)
    return Config(replace(BUILT_IN, **merged), frozenset(merged), tuple(files))


def _user_folder(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".config")
    return Path(base) / "conductor"


def resolve_options(plan: Plan, flags: Flags, config: Config, *, seed: int) -> RunOptions:
    """Merge flags, the plan's defaults and limits, configuration and built-in values."""
    values, defaults = config.values, plan.defaults

    def pick(name: str, flag: Any) -> Any:
        if flag is not None:
            return flag
        if name in defaults:
            return defaults[name]
        return getattr(values, name)

    timeout = pick("timeout", None) if flags.timeout is None else flag_duration("--timeout", flags.timeout)
    bounds = resolve_limits(plan, config)
    run_timeout = bounds.run_timeout if flags.run_timeout is None else flag_duration("--run-timeout", flags.run_timeout)
    max_workers = flags.max_workers or plan.limits.max_workers or values.max_workers
    command = flag_command("--command", flags.command) if flags.command is not None else values.command
    limit, window = _restarts(flags) or intensity(values.restart_intensity)
    if flags.restart_intensity is None and limit is not None and "restart_intensity" not in config.given:
        limit = max(limit, 4 * max_workers)  # so many may well fail at once before any of them succeeds
    return RunOptions(
        max_workers=max_workers,
        group_workers=flags.max_workers,
        retries=pick("retries", flags.retries),
        timeout=timeout or None,
        stale_after=values.stale_after,
        retry_delay=values.retry_delay,
        retry_delay_max=values.retry_delay_max,
        restart_intensity=limit,
        restart_window=window,
        on_conflict=flags.on_conflict or values.on_conflict,
        parallel=flags.parallel or values.parallel,
        schedule=flags.schedule or values.schedule,
        resources=dict(sorted(values.resources.items())),
        deadlock_victim=flags.deadlock_victim or values.deadlock_victim,
        breaker=values.breaker,
        breaker_reset=values.breaker_reset,
        run_timeout=run_timeout or None,
        budget_usd=bounds.budget_usd if flags.budget is None else flags.budget,
        wait_for_people=flags.wait is not False,
        command=command,
        agent=_agent_name(pick("agent", flags.agent)),
        leftovers=pick("leftovers", None),
        only=tuple(TaskId(task) for task in flags.only) or None,
        ticked_done=tuple(task.id for task in plan.tasks if task.ticked) if flags.skip_ticked else (),
        fail_fast=flags.fail_fast,
        durability=flags.durability or values.durability,
        seed=seed,
    )


_AS_THEY_ARE = (
    "max_workers", "retries", "agent", "on_conflict", "parallel", "schedule", "deadlock_victim", "durability",
)  # fmt: skip
"""Flags that are options of the same name, with the same values."""


def resolve_limits(plan: Plan, config: Config) -> Limits:
    """Return the bounds that hold for a plan: its own, else those of the configuration, else what is built in.

    `max_workers` and `max_plan_bytes` are the plan's own.
    """
    values, own = config.values, plan.limits

    def pick(name: str) -> Any:
        found = getattr(own, name)
        return getattr(values, name) if found is None else found

    names = ("max_tasks", "max_fan_out", "max_join_width", "budget_usd")
    return replace(own, run_timeout=pick("run_timeout") or None, **{name: pick(name) for name in names})


def _agent_name(agent: str | Mapping[str, Any] | None) -> str | None:
    """A plan's default agent is a name, or a mapping with one."""
    return str(agent["name"]) if isinstance(agent, Mapping) else agent


def override_options(options: RunOptions, flags: Flags) -> RunOptions:
    """Put the flags that were given over the options of a run that goes on; the rest stays as journaled."""
    given: dict[str, Any] = {name: value for name in _AS_THEY_ARE if (value := getattr(flags, name)) is not None}
    given |= {
        option: value
        for flag, option in (("budget", "budget_usd"), ("wait", "wait_for_people"))
        if (value := getattr(flags, flag)) is not None
    }
    if flags.max_workers is not None:
        given["group_workers"] = flags.max_workers
    if flags.timeout is not None:
        given["timeout"] = flag_duration("--timeout", flags.timeout) or None
    if flags.run_timeout is not None:
        given["run_timeout"] = flag_duration("--run-timeout", flags.run_timeout) or None
    if flags.command is not None:
        given["command"] = flag_command("--command", flags.command)
    if flags.fail_fast:
        given["fail_fast"] = True
    if restarts := _restarts(flags):
        given["restart_intensity"], given["restart_window"] = restarts
    return replace(options, **given)


def resolve_settings(config: Config) -> Settings:
    """Take from the configuration what only concerns this process."""
    values = config.values
    return Settings(
        heartbeat=values.heartbeat,
        ladder=Ladder(terminate=values.terminate_grace),
        never_kill=values.never_kill,
        log_cap=values.log_cap,
        hooks=values.hooks,
        hook_timeout=values.hook_timeout,
    )


def flag_duration(flag: str, text: str) -> float:
    """Read a duration given on the command line, in seconds; 0 is no limit."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise ConductorError(
            "usage", f"{flag}: {error}", hint="a duration is 90, 90s, 30m, 2h, 1h30m or none"
        ) from error


def _restarts(flags: Flags) -> tuple[int | None, float] | None:
    if flags.restart_intensity is None:
        return None
    try:
        return intensity(flags.restart_intensity)
    except ValueError as error:
        hint = "20/5m: give up at more than 20 failed attempts within 5 minutes; none: no limit"
        raise ConductorError("usage", f"--restart-intensity: {error}", hint=hint) from error


def flag_command(flag: str, text: str) -> tuple[str, ...]:
    """Split a command template given on the command line; it never reaches a shell."""
    try:
        return split_command(text)
    except CommandError as error:
        hint = f"for a shell: {flag} {shlex.quote('sh -c ' + shlex.quote(text))}" if text.strip() else error.hint
        raise ConductorError("usage", f"{flag}: {error}", hint=hint) from error


def find_project(track: Path, *, flag: str | None, plan: Plan, cwd: Path, home: Path | None) -> Path:
    """Return the directory that the tasks work in.

    `--project` > the plan's `project:` > the git work tree that holds the track > `cwd` if it holds the track and is
    neither the track, `/` nor `home` > the track's parent. Raises ConductorError where it is not a directory.
    """
    if flag is not None:
        folder = Path(os.path.realpath(cwd / flag))
        if not os.path.isdir(folder):
            raise ConductorError("usage", f"--project names {folder}, which is not a directory")
        return folder
    named = project_of_plan(track, plan)
    if named is not None:
        return named
    for folder in (track, *track.parents):
        if (folder / ".git").exists():
            return folder
    if cwd in track.parents and cwd not in {Path("/"), home}:
        return cwd
    return track.parent
