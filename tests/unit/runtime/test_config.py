"""Precedence of settings, and what a configuration file may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.wire import TaskId
from conductor.config import (
    Flags,
    find_project,
    load_config,
    override_options,
    resolve_limits,
    resolve_options,
    resolve_settings,
)
from conductor.core.task import Limits, Plan, RunOptions, TaskSpec
from conductor.errors import ConductorError


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    found = {name: tmp_path / name for name in ("track", "project", "home")}
    for folder in found.values():
        folder.mkdir()
    (found["home"] / ".config/conductor").mkdir(parents=True)
    return found


def load(folders: dict[str, Path], **texts: str):  # noqa: ANN201 - Config
    places = {**folders, "user": folders["home"] / ".config/conductor"}
    for name, text in texts.items():
        (places[name] / "conductor.toml").write_text(text)
    return load_config(folders["track"], folders["project"], {"HOME": str(folders["home"])})


def test_the_track_wins_over_the_project_and_that_over_the_user(folders: dict[str, Path]) -> None:
    config = load(
        folders,
        user='retries = 1\ntimeout = "1m"\nmax_workers = 1',
        project='retries = 2\ntimeout = "2m"',
        track="retries = 3",
    )
    assert (config.values.retries, config.values.timeout, config.values.max_workers) == (3, 120.0, 1)
    assert len(config.files) == 3


def test_flag_over_plan_defaults_over_file_over_built_in(folders: dict[str, Path]) -> None:
    config = load(folders, track="retries = 7")
    bare, plan = Plan(()), Plan((), defaults={"retries": 5})

    def retries(plan: Plan, flag: int | None, config) -> int:  # noqa: ANN001
        return resolve_options(plan, Flags(retries=flag), config, seed=1).retries

    nothing = load_config(folders["project"], folders["project"], {"HOME": str(folders["home"])})
    assert retries(bare, None, nothing) == 2
    assert retries(bare, None, config) == 7
    assert retries(plan, None, config) == 5
    assert retries(plan, 0, config) == 0


@pytest.mark.parametrize(
    ("text", "expected"), [("none", None), ("0", None), ("90", 90.0), ("1h30m", 5400.0), (None, 1800.0)]
)
def test_a_time_limit_of_nothing_is_no_limit(
    folders: dict[str, Path], text: str | None, expected: float | None
) -> None:
    config = load(folders)
    assert resolve_options(Plan(()), Flags(timeout=text), config, seed=1).timeout == expected


def test_max_workers_from_the_flag_also_caps_groups(folders: dict[str, Path]) -> None:
    config = load(folders)
    plan = Plan((), limits=Limits(max_workers=3))
    assert resolve_options(plan, Flags(), config, seed=1).max_workers == 3
    options = resolve_options(plan, Flags(max_workers=8), config, seed=1)
    assert (options.max_workers, options.group_workers) == (8, 8)


def test_skip_ticked_takes_the_ticked_tasks(folders: dict[str, Path]) -> None:
    tasks = (TaskSpec(TaskId("1"), "a", 0, ticked=True), TaskSpec(TaskId("2"), "b", 1))
    options = resolve_options(Plan(tasks), Flags(skip_ticked=True), load(folders), seed=1)
    assert options.ticked_done == ("1",)


def test_flags_replace_journaled_options_and_the_rest_stays() -> None:
    before = RunOptions(max_workers=2, retries=9, timeout=5.0, seed=4)
    after = override_options(before, Flags(max_workers=4, command="echo {task_id}", timeout="none"))
    assert (after.max_workers, after.group_workers, after.retries) == (4, 4, 9)
    assert (after.timeout, after.command, after.seed) == (None, ("echo", "{task_id}"), 4)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("retrys = 1", "retrys"),
        ("retries = -1", "retries"),
        ("retries = 'many'", "retries"),
        ("timeout = 'soon'", "timeout"),
        ("command = 'a && b'", "command"),
        ("retries =", "configuration"),
        ("max_workers = 0", "max_workers"),
        ("breaker = -1", "breaker"),
        ("breaker = 'often'", "breaker"),
        ("resources = {db = 0}", "resources.db"),
        ("parallel = 'reads'", "parallel"),
        ("schedule = 'waves'", "schedule"),
        ("deadlock_victim = 'me'", "deadlock_victim"),
        ("budget_usd = -1", "budget_usd"),
        ("max_tasks = -1", "max_tasks"),
        ("run_timeout = 'soon'", "run_timeout"),
    ],
)
def test_a_wrong_configuration_names_file_key_and_what_is_known(folders: dict[str, Path], text: str, part: str) -> None:
    with pytest.raises(ConductorError, match=part) as caught:
        load(folders, track=text)
    assert caught.value.code == "usage"
    assert caught.value.path == str(folders["track"] / "conductor.toml")


def test_a_shell_command_on_the_command_line_is_refused_with_the_way_to_say_it(folders: dict[str, Path]) -> None:
    with pytest.raises(ConductorError, match="shell") as caught:
        resolve_options(Plan(()), Flags(command="make && make test"), load(folders), seed=1)
    assert "sh -c" in (caught.value.hint or "")


def test_settings_that_concern_only_this_process(folders: dict[str, Path]) -> None:
    settings = resolve_settings(load(folders, track='terminate_grace = "0.5s"\nheartbeat = 2\nnever_kill = ["db"]'))
    assert (settings.ladder.terminate, settings.heartbeat, settings.never_kill) == (0.5, 2.0, ("db",))


def test_project_by_flag_then_plan_then_git_then_cwd_then_parent(tmp_path: Path) -> None:
    repo, other = tmp_path / "repo", tmp_path / "other"
    track = repo / "plans" / "track"
    for folder in (track, other, repo / "src"):
        folder.mkdir(parents=True)

    def find(*, flag: str | None = None, plan: str | None = None, cwd: Path = other, home: Path | None = None) -> Path:
        return find_project(track, flag=flag, plan=Plan((), project=plan), cwd=cwd, home=home)

    assert find() == repo / "plans"
    assert find(cwd=repo) == repo
    assert find(cwd=repo, home=repo) == repo / "plans"
    assert find(cwd=track) == repo / "plans"
    (repo / ".git").mkdir()
    assert find() == repo
    assert find(plan="../../src") == repo / "src"
    assert find(plan="../../src", flag=str(other)) == other
    with pytest.raises(ConductorError, match=r"--project names .*nowhere, which is not a directory") as caught:
        find(flag="nowhere")
    assert (caught.value.code, caught.value.path) == ("usage", None)


@pytest.mark.parametrize(
    ("flag", "file", "workers", "expected"),
    [
        (None, "", None, (20, 300.0)),
        (None, "", 50, (200, 300.0)),
        (None, 'restart_intensity = "3/10s"', 50, (3, 10.0)),
        (None, 'restart_intensity = "none"', None, (None, 0.0)),
        ("7/1h", 'restart_intensity = "3/10s"', None, (7, 3600.0)),
        ("20/5m", "", 50, (20, 300.0)),
        ("none", "", None, (None, 0.0)),
        ("3/0", "", None, (None, 0.0)),
    ],
)
def test_restart_intensity_by_flag_then_file_then_built_in_with_room_for_many_workers(
    folders: dict[str, Path],
    flag: str | None,
    file: str,
    workers: int | None,
    expected: tuple[int | None, float],
) -> None:
    flags = Flags(restart_intensity=flag, max_workers=workers)
    options = resolve_options(Plan(()), flags, load(folders, track=file), seed=1)
    assert (options.restart_intensity, options.restart_window) == expected
    if flag is not None:
        resumed = override_options(RunOptions(), flags)
        assert (resumed.restart_intensity, resumed.restart_window) == expected


@pytest.mark.parametrize("text", ["", "5", "/5m", "x/5m", "-1/5m", "5/", "5/soon", "5/5m/5m"])
def test_a_restart_intensity_that_is_none_is_said_with_how_it_is_written(folders: dict[str, Path], text: str) -> None:
    with pytest.raises(ConductorError, match="--restart-intensity") as caught:
        resolve_options(Plan(()), Flags(restart_intensity=text), load(folders), seed=1)
    assert caught.value.code == "usage"
    assert "20/5m" in str(caught.value.hint)
    with pytest.raises(ConductorError, match="restart_intensity"):
        load(folders, track=f'restart_intensity = "{text}"')


SUPERVISED = """
parallel = "pure-read"
schedule = "groups"
on_conflict = "lock"
deadlock_victim = "oldest"
breaker = 4
breaker_reset = "1m"
run_timeout = "8h"
budget_usd = 20
stale_after = "3m"
resources = {"db:test" = 2, a = 3}
max_tasks = 7
"""


def test_what_supervision_decides_by_comes_from_the_file(folders: dict[str, Path]) -> None:
    options = resolve_options(Plan(()), Flags(), load(folders, track=SUPERVISED), seed=1)
    assert (options.parallel, options.schedule, options.on_conflict) == ("pure-read", "groups", "lock")
    assert (options.deadlock_victim, options.breaker, options.breaker_reset) == ("oldest", 4, 60.0)
    assert (options.run_timeout, options.budget_usd, options.stale_after) == (28800.0, 20.0, 180.0)
    assert list(options.resources.items()) == [("a", 3), ("db:test", 2)]
    assert options.wait_for_people


@pytest.mark.parametrize("text", ["breaker = 0", 'breaker = "none"', ""])
def test_a_breaker_that_never_opens(folders: dict[str, Path], text: str) -> None:
    assert resolve_options(Plan(()), Flags(), load(folders, track=text), seed=1).breaker is None


def test_flags_of_supervision_win_over_plan_and_file_and_over_what_was_journaled(folders: dict[str, Path]) -> None:
    flags = Flags(
        parallel="any", schedule="ready", on_conflict="allow", deadlock_victim="youngest", run_timeout="1m",
        budget=0.0, wait=False,
    )  # fmt: skip
    plan = Plan((), limits=Limits(run_timeout=5.0, budget_usd=1.0))
    config = load(folders, track=SUPERVISED)
    before = resolve_options(plan, Flags(), config, seed=1)
    assert (before.run_timeout, before.budget_usd) == (5.0, 1.0)
    for options in (resolve_options(plan, flags, config, seed=1), override_options(before, flags)):
        assert (options.parallel, options.schedule, options.on_conflict) == ("any", "ready", "allow")
        assert (options.deadlock_victim, options.run_timeout, options.budget_usd) == ("youngest", 60.0, 0.0)
        assert not options.wait_for_people
    lifted = override_options(before, Flags(run_timeout="none", wait=True))
    assert (lifted.run_timeout, lifted.wait_for_people, lifted.schedule) == (None, True, "groups")


def test_limits_of_the_plan_win_over_those_of_the_file_and_what_is_built_in(folders: dict[str, Path]) -> None:
    config = load(folders, track="max_tasks = 7\nmax_fan_out = 3")
    limits = resolve_limits(Plan((), limits=Limits(max_tasks=9, max_plan_bytes=5)), config)
    assert limits == Limits(max_tasks=9, max_fan_out=3, max_plan_bytes=5)
    nothing = load_config(folders["project"], folders["project"], {"HOME": str(folders["home"])})
    assert resolve_limits(Plan(()), nothing) == Limits(max_tasks=200_000)
